package line

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A Recipe is the part that the contenders of one path have in common.
type Recipe struct {
	Name string // for the observer and for errors: "lock"
	Path string // likewise
	Dir  string // under which contenders stand
	Data []byte // of their nodes
	Rule Rule

	// Hooks, if not nil, say how the recipe departs from the published one.
	*Hooks

	owned *owned.Set // of the handle
}

// Owned returns what the handle owns: for timers that end with it.
func (r *Recipe) Owned() *owned.Set { return r.owned }

// Hooks are the functions of a recipe that differ from the published one. Where one is nil,
// the published recipe is followed.
type Hooks struct {
	// Inspect looks at the parent: whether there is one, and whether it is empty and
	// ours to write; isNew is as New of [Sight]. Make makes it, and says whether it has;
	// ErrNodeExists has it inspected again.
	Inspect func(r *Recipe, requests client.Async, isNew bool, answer func(exists, empty bool, err error))
	Make    func(r *Recipe, requests client.Async, answer func(made bool, err error))

	// Beside reads what the rule depends on beside the names. Depends returns the path of
	// the node that it reads, whose changes lead to a new sight.
	Beside  func(r *Recipe, requests client.Async, answer func(data string, err error))
	Depends func(r *Recipe) string

	// Known returns what Beside would answer, from the node and the children of the node that Depends
	// names: both are followed, and Beside reads only what is not known. Depends needs it.
	Known func(r *Recipe, node session.Reading, children []string) (string, error)

	// Warmth returns under which name the session keeps that all is there which Inspect
	// looks for; that of the parent, if it is nil.
	Warmth func(r *Recipe) string

	// Claim claims what the line is for on behalf of the node, and tells the zxid of
	// that, or that another has it. If again, an earlier claim may have been done.
	// Claimed returns the path of the node that says so of that contender.
	Claim   func(r *Recipe, requests client.Async, node string, again bool, answer func(zxid int64, taken bool, err error))
	Claimed func(r *Recipe, node string) string

	// Change creates the node to in place of the node from, and replaces the claim of
	// from by that of to. It succeeds if an earlier call has done so.
	Change func(r *Recipe, requests client.Async, from, to string, answer func(error))

	// Ask asks the holder with the node to leave. It answers when the holder's time for
	// that is over, or at once if there is no limit. Asked once more then, it makes it
	// leave. It does not fail. What was done for an earlier attempt to stand in line, which
	// it may not have been told, is done again.
	Ask func(r *Recipe, requests client.Async, attempt int, node string, answer func(overdue bool))

	// Plain says that contenders do not write to the parent to stand in line.
	Plain bool

	// Withdraw removes the claim and the node, or if that is "" all nodes with the
	// prefix, and answers as [session.Async.Withdraw] does.
	Withdraw func(r *Recipe, requests client.Async, node, prefix string, answer func())

	// Touched, if not nil, is called when the contender's own node is found to have been written to since
	// its creation: once for each reading that says so, with the epoch.
	Touched func(epoch int)

	// Marked reads a mark of revocation, and after how long it will be enforced; 0 for
	// never. It returns the data without the mark.
	Marked func(data []byte) (own []byte, marked bool, force time.Duration)
}

// published has the hooks of the published recipe: none.
var published Hooks //nolint:gochecknoglobals // it is constant

// A Performer performs the effects of a [Machine].
type Performer struct {
	Recipe
	session client.Session
	owned   owned.Set // watches by their targets, among others

	path string // the newest result of nodePath
	guid string // of the newest create; "" at first

	// Of the newest transaction that has created a node: its results, until the node is watched.
	created atomic.Pointer[[2]session.OpResult]

	epoch    int          // of the newest effect
	requests client.Async // in that epoch; nil at first
}

// A followed node is what the rule depends on, in one aspect: its data under the key [Target] of a dependence, its children under the key
// beside. It is followed anew in each session.
type followed struct {
	client.Subscription

	mu     sync.Mutex
	newest session.Reading // set by each news; without a Stat before the first, and while there is no node
}

type beside struct{}

// stands reports whether the session would have been told of a change before the answer that it gives.
func (f *followed) stands() bool { return f != nil && !f.Over() && !f.Unsettled() }

func (f *followed) reading() session.Reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest
}

// NewPerformer returns the performer of a handle. It is ended with [Performer.End].
func NewPerformer(s client.Session, r *Recipe) *Performer {
	p := new(Performer)
	p.begin(s, r)
	return p
}

func (p *Performer) begin(s client.Session, r *Recipe) {
	p.Recipe, p.session, p.owned.Clock = *r, s, s
	if p.Hooks == nil {
		p.Hooks = &published
	}
	p.Recipe.owned = &p.owned
}

// Begin hands the events of the session to the machine. The session waits for the end of
// the actor, if it is not nil, before it ends itself.
func (p *Performer) Begin(tell func(Input), actor interface{ Ended() <-chan struct{} }) {
	p.owned.Keep(reliance{}, owned.Func(p.session.Rely())) // before the node is created
	p.owned.Keep(news{}, owned.Func(p.session.Subscribe(func(ev session.Event) (settled <-chan struct{}) {
		if c, ok := ev.(session.Connected); ok {
			p.depend(c.Epoch, tell)
		}
		tell(heard{ev})
		if _, closed := ev.(session.Closed); closed && actor != nil {
			return actor.Ended()
		}
		return nil
	})))
}

// reliance is the key of what Rely returns, news that of the subscription to
// the events of the session.
type (
	reliance struct{}
	news     struct{}
)

// depend follows the node that the rule depends on: before it asks for anything, so that
// it has heard of whatever happens after what it reads.
func (p *Performer) depend(epoch int, tell func(Input)) {
	if p.Depends == nil {
		return
	}
	p.owned.Cancel(beside{}) // of the last session
	p.follow(p.session.Async(epoch), Target{Until: dependence}, session.AspectData, func(err error) {
		if !client.Over(err) {
			tell(reevaluate{})
		}
	})
}

// lookAround follows what stands beside the line too, and reports whether that and what the rule depends on are followed. So both are
// known when what is asked for next is answered, but for what changes meanwhile.
func (p *Performer) lookAround(requests client.Async) (followed bool) {
	data, children := p.around()
	if data != nil && (children == nil || children.Over()) {
		p.follow(requests, beside{}, session.AspectChildren, func(error) {})
	}
	return data != nil
}

// follow keeps what is told of the node that the rule depends on.
func (p *Performer) follow(requests client.Async, key any, aspect session.Aspect, tell func(error)) {
	f := new(followed)
	f.Subscription = requests.Follow(p.Depends(&p.Recipe), aspect, true, func(r session.Reading, err error) {
		f.mu.Lock()
		f.newest = r
		f.mu.Unlock()
		tell(err)
	})
	p.owned.Keep(key, f)
}

// around returns what is followed; nil before the first session, and after the end. The children are followed from the
// first list on, and during the creation if the session comes again.
func (p *Performer) around() (data, children *followed) {
	data, _ = p.owned.Get(Target{Until: dependence}).(*followed)
	children, _ = p.owned.Get(beside{}).(*followed)
	return data, children
}

// known returns what Known says of what is followed. Without knows, it has to be read: nothing is followed
// before the first session, nor after the end, which another goroutine may be at.
func (p *Performer) known() (data string, knows bool, err error) {
	node, children := p.around()
	if !node.stands() || !children.stands() {
		return "", false, nil
	}
	own, others := node.reading(), children.reading()
	if own.Stat == nil || others.Stat == nil {
		return "", false, nil
	}
	data, err = p.Known(&p.Recipe, own, others.Names)
	return data, true, err
}

// beside tells what the rule depends on beside the answer that the session is giving: it is as old as that
// answer, or newer.
func (p *Performer) beside(requests client.Async, answer func(data string, err error)) {
	if data, knows, err := p.known(); knows {
		answer(data, err)
		return
	}
	p.Beside(&p.Recipe, requests, answer)
}

// warmth returns under which name the session keeps what it knows of the parent.
func (r *Recipe) warmth() string {
	if r.Warmth == nil {
		return r.Dir
	}
	return r.Warmth(r)
}

// End cancels what the performer owns, when the machine has ended. It must not be
// called with locks held that answers take.
func (p *Performer) End() { p.owned.End() }

// Perform starts one thing that the machine asked for.
func (p *Performer) Perform(e Effect, tell func(Input)) {
	if at := e.of().epoch; p.requests == nil || p.epoch != at {
		p.epoch, p.requests = at, p.session.Sharing(at)
	}
	requests := p.requests
	switch e := e.(type) {
	case inspectParent:
		p.inspect(requests, e.isNew, func(exists, empty bool, err error) { p.reply(e, tell, inspected{e.attempt, exists, empty}, err) })
	case makeParent:
		p.make(requests, func(byUs bool, err error) {
			if err == nil && !byUs {
				err = session.ErrNodeExists
			}
			p.reply(e, tell, made(e), err)
		})
	case createNode:
		p.create(requests, e, tell)
	case listParent:
		p.list(requests, e, tell)
	case watchTarget:
		p.watch(requests, e, tell)
	case watchTogether:
		p.watchTogether(requests, e, tell)
	case unwatchTarget:
		p.owned.Cancel(e.target)
	case claim:
		p.Claim(&p.Recipe, requests, e.node, e.again, func(zxid int64, taken bool, err error) {
			if taken {
				p.reply(e, tell, occupied{e.attempt}, err)
				return
			}
			p.reply(e, tell, claimed{e.attempt, zxid}, err)
		})
	case changeNode:
		change := p.Change
		if change == nil {
			change = exchange
		}
		change(&p.Recipe, requests, e.from, e.to, func(err error) { p.reply(e, tell, changed{e.attempt}, err) })
	case announce:
		requests.Set(znode.Join(p.Dir, e.node), p.Data, session.AnyVersion, func(_ *session.Stat, err error) {
			p.reply(e, tell, announced{e.attempt}, err)
		})
	case ask:
		p.Ask(&p.Recipe, requests, e.n, e.node, func(overdue bool) { tell(asked{e.attempt, e.node, overdue}) })
	case complain:
		p.session.Logger().Warn("held here, and contended for in another layout", "recipe", p.Name, "path", p.Path, "reason", e.reason)
	case withdrawNode:
		if own := (Target{Node: e.node}); unsettled(p.owned.Get(own)) {
			p.owned.Cancel(own) // a watch that does not stand yet is not needed any more
		}
		p.withdraw(requests, e.node, "", func() { tell(withdrawn(e)) })
	case withdrawAll:
		p.withdraw(requests, "", p.Rule.Prefix(e.guid), func() { tell(withdrawn{attempt: e.attempt}) })
	case answer:
		e.reply.Give(e.err)
	}
}

// reply answers the effect e by in, or by its failure. A busy server's answer comes after a pause.
func (p *Performer) reply(e Effect, tell func(Input), in Input, err error) {
	if err != nil {
		in = failed{e, err}
	}
	owned.Tell(&p.owned, err, tell, in)
}

// exchange makes the node to in place of the node from. An earlier change has made it if there is one: its name has
// the GUID.
func exchange(r *Recipe, requests client.Async, from, to string, answer func(error)) {
	r.Carry(requests, from, func(data []byte, version int32, written func()) {
		requests.Multi([]session.Op{
			session.CreateOp(znode.Join(r.Dir, to), data, session.Ephemeral),
			session.DeleteOp(znode.Join(r.Dir, from), version),
		}, func(_ []session.OpResult, err error) {
			switch {
			case errors.Is(err, session.ErrBadVersion):
				written()
			case errors.Is(err, session.ErrNodeExists):
				answer(nil)
			default:
				answer(err)
			}
		})
	}, answer)
}

// Carry calls try with the data and the version that the contender's node was created with. If
// try reports that the node was written to, Carry calls it again with the present ones: so a
// mark of revocation that a node carries is carried on. A node that is gone by then may have been exchanged by an
// earlier change, as the next try finds out. Carry answers if the node cannot be read.
func (r *Recipe) Carry(requests client.Async, node string, try func(data []byte, version int32, written func()), answer func(error)) {
	var again func()
	again = func() {
		requests.Get(znode.Join(r.Dir, node), func(data []byte, stat *session.Stat, err error) {
			switch {
			case err == nil:
				try(data, stat.Version, again)
			case errors.Is(err, session.ErrNoNode):
				try(r.Data, 0, again)
			default:
				answer(err)
			}
		})
	}
	try(r.Data, 0, again)
}

func (p *Performer) inspect(requests client.Async, isNew bool, answer func(exists, empty bool, err error)) {
	if p.Inspect != nil {
		p.Inspect(&p.Recipe, requests, isNew, answer)
		return
	}
	requests.Exists(p.Dir, func(stat *session.Stat, err error) {
		answer(stat != nil, stat != nil && stat.DataLength == 0, err)
	})
}

func (p *Performer) make(requests client.Async, answer func(made bool, err error)) {
	if p.Make != nil {
		p.Make(&p.Recipe, requests, answer)
		return
	}
	requests.EnsurePath(p.Dir, answer)
}

// create stands in line: in one transaction with a write to the parent, whose Stat has
// the number of children at that very moment.
func (p *Performer) create(requests client.Async, e createNode, tell func(Input)) {
	path := znode.Join(p.Dir, p.Rule.Name(e.guid))
	p.guid = e.guid
	if e.plain || p.Plain {
		requests.Create(path, p.Data, session.EphemeralSequential, func(node string, err error) {
			in := joined{attempt: e.attempt}
			if err == nil {
				_, in.node = znode.Split(node)
			}
			p.reply(e, tell, in, err)
		})
		return
	}
	ops := []session.Op{
		session.CreateOp(path, p.Data, session.EphemeralSequential),
		session.SetOp(p.Dir, nil, session.AnyVersion),
	}
	if p.Beside == nil || p.Rule.Lists() {
		requests.Share(ops, func(results []session.OpResult, err error) { p.reply(e, tell, p.joined(e, results, err), err) })
		return
	}
	// The first contender of a session reads instead of following: so a session with many paths keeps one watch less for each.
	known, write := p.session.Warm(p.warmth()) && p.lookAround(requests), requests.Multi
	if known { // no reading has to go out behind the transaction
		write = requests.Share
	}
	var in joined
	var data string
	var failed, unread error
	answered := both(!known, func() {
		if in.data = data; unread != nil {
			in.children = 0 // a list is to decide
		}
		if known {
			p.owned.Cancel(beside{}) // the session keeps the watch for the next list, or contender
		}
		p.reply(e, tell, in, failed)
	})
	depends := func(read string, err error) {
		data, unread = read, err
		answered()
	}
	write(ops, func(results []session.OpResult, err error) {
		in, failed = p.joined(e, results, err), err
		if known && err == nil {
			p.beside(requests, depends)
			return
		}
		answered()
	})
	if !known {
		p.Beside(&p.Recipe, requests, depends) // after the transaction
	}
}

// joined returns what the answer to the transaction says.
func (p *Performer) joined(e createNode, results []session.OpResult, err error) joined {
	in := joined{attempt: e.attempt}
	if err == nil {
		_, in.node = znode.Split(results[0].Path)
		in.czxid, in.children = results[1].Stat.Mzxid, int(results[1].Stat.NumChildren)
		p.created.Store((*[2]session.OpResult)(results))
	}
	p.session.SetWarm(p.warmth(), err == nil)
	return in
}

// list lists the contenders.
func (p *Performer) list(requests client.Async, e listParent, tell func(Input)) {
	in := listed{attempt: e.attempt}
	var failed error
	known := p.lookAround(requests) || p.Beside == nil
	answered := both(!known, func() { p.reply(e, tell, in, failed) })
	depends := func(data string, err error) {
		if in.Data = data; failed == nil {
			failed = err
		}
		answered()
	}
	requests.Children(p.Dir, func(names []string, stat *session.Stat, err error) {
		if err == nil && stat.DataLength > 0 {
			p.session.SetWarm(p.warmth(), false)
		}
		if in.Names = names; failed == nil {
			failed = err
		}
		if known && p.Beside != nil && err == nil {
			p.beside(requests, depends)
			return
		}
		answered()
	})
	if !known {
		p.Beside(&p.Recipe, requests, depends)
	}
}

// both returns what two answers are to call, or one: then is called after the last.
// Requests that fail together may be answered in any order.
func both(two bool, then func()) (answered func()) {
	left := 1
	if two {
		left = 2
	}
	return func() {
		if left--; left == 0 {
			then()
		}
	}
}

// watch answers when the target has gone, or has changed as the effect says.
func (p *Performer) watch(requests client.Async, e watchTarget, tell func(Input)) {
	var sub client.Subscription
	switch e.target.Until {
	case dependence: // is followed in any case
		return
	case Members:
		sub = requests.Follow(p.Dir, session.AspectChildren, false, p.members(e, tell))
	case unclaimed:
		sub = requests.Follow(p.Claimed(&p.Recipe, e.target.Node), session.AspectData, false, p.follower(e, tell))
	case Gone, Changed:
		path := p.nodePath(e.target.Node)
		if r := p.created.Load(); r != nil && r[0].Path == path && e.target.Until == Gone {
			p.created.Store(nil)
			sub = requests.FollowCreated(path, p.Data, r[0], r[1], p.follower(e, tell))
			break
		}
		aspect := session.AspectData
		switch {
		case e.target.Until == Changed:
			sub = requests.FollowOnce(path, p.follower(e, tell))
		case p.Rule.Announces() && !ours(e.target.Node, p.guid):
			aspect = session.AspectChildren // it has none: an announcement means nothing to us, and starts no read
			fallthrough
		default:
			sub = requests.Follow(path, aspect, false, p.follower(e, tell))
		}
	}
	p.owned.Keep(e.target, sub)
}

// watchTogether has the node that was just created watched by one request with others.
func (p *Performer) watchTogether(requests client.Async, e watchTogether, tell func(Input)) {
	own := watchTarget{e.attempt, Target{Node: e.node}}
	path, r := p.nodePath(e.node), p.created.Swap(nil)
	var others []watchTarget
	var beside []client.Other
	for key := range strings.SplitSeq(strings.TrimSuffix(e.with, "/"), "/") {
		other := watchTarget{e.attempt, besideOf(key)}
		others = append(others, other)
		beside = append(beside, client.Other{Path: znode.Join(p.Dir, other.target.Node), Tell: p.follower(other, tell)})
	}
	if r == nil || r[0].Path != path {
		for _, e := range append(others, own) {
			p.watch(requests, e, tell)
		}
		return
	}
	sub, all := requests.FollowTogether(path, p.Data, r[1], p.follower(own, tell), beside)
	p.owned.Keep(own.target, sub)
	for i, other := range others {
		p.owned.Keep(other.target, all[i])
	}
}

// nodePath returns the path of a contender. It belongs to the goroutine of the actor.
func (p *Performer) nodePath(node string) string {
	dir, found := strings.CutSuffix(p.path, node)
	if !found || dir != p.Dir && strings.TrimSuffix(dir, "/") != p.Dir {
		p.path = znode.Join(p.Dir, node)
	}
	return p.path
}

// members returns what tells the machine of the names of the children.
func (p *Performer) members(e watchTarget, tell func(Input)) func(session.Reading, error) {
	told := false
	return func(r session.Reading, err error) {
		if err == nil && r.Stat != nil {
			if data, knows, unknown := p.known(); knows && unknown == nil {
				told = true
				tell(seen{e.attempt, Sight{Names: r.Names, Data: data}})
				return
			}
		}
		switch {
		case err != nil:
			tell(failed{e, err})
		case told:
			tell(reevaluate{})
		default:
			told = true
			tell(watched{attempt: e.attempt, target: e.target})
		}
	}
}

// follower returns what tells the machine of a node.
func (p *Performer) follower(e watchTarget, tell func(Input)) func(session.Reading, error) {
	told, czxid := false, int64(0) // which is 0 as long as the node was not read
	mine := e.target.Until == unclaimed || ours(e.target.Node, p.guid)
	return func(r session.Reading, err error) {
		switch {
		case told && err == nil && r.Stat == nil: // it has changed
			tell(gone(e))
		case told && errors.Is(err, session.ErrNoNode) && r.Zxid == 0 && p.settled(e.target):
			tell(gone(e))
		case err != nil: // or it was found to be gone, at an unknown time
			tell(failed{e, err})
		case told && czxid == 0: // it was watched unread, and has changed
			czxid = r.Stat.Czxid
		case !told:
			told, czxid = true, r.Stat.Czxid
			in := watched{
				attempt: e.attempt, target: e.target, czxid: czxid,
				owner: r.Stat.EphemeralOwner, announced: e.target.Until == Changed && r.Stat.Version > 0,
			}
			if !mine {
				in.obstacle = p.obstacle(r)
			}
			tell(in)
			p.wrote(e, mine, r, tell)
		case e.target.Until == Changed, r.Stat.Czxid != czxid:
			p.owned.Cancel(e.target) // before the machine may want it again
			tell(gone(e))
		default:
			p.wrote(e, mine, r, tell)
		}
	}
}

// wrote hands the data of a node that was read to the machine, and to the recipe if the node
// is our own.
func (p *Performer) wrote(e watchTarget, mine bool, r session.Reading, tell func(Input)) {
	p.mark(e, r.Data, tell)
	if mine && e.target.Until == Gone && p.Touched != nil && r.Stat.Version > 0 {
		p.Touched(e.epoch)
	}
}

// ours reports whether a node was created with the GUID. The first group of its digits stands in the
// names of every layout.
func ours(node, guid string) bool {
	first, _, _ := strings.Cut(guid, "-")
	return first != "" && strings.Contains(node, first)
}

// obstacle returns what is known of another contender.
func (p *Performer) obstacle(r session.Reading) obstacle {
	data := r.Data
	if p.Marked != nil {
		data, _, _ = p.Marked(data)
	}
	return obstacleOf(data, r.Stat.Ctime)
}

// settled reports whether all that has happened to other nodes that are watched before the
// target's end has been told.
func (p *Performer) settled(target Target) bool {
	return !p.owned.Any(target, unsettled)
}

func unsettled(t owned.Thing) bool {
	sub, ok := t.(client.Subscription)
	return ok && sub.Unsettled()
}

// mark tells the machine of a mark of revocation. The data of another contender's node is
// handed on too, and means nothing.
func (p *Performer) mark(e watchTarget, data []byte, tell func(Input)) {
	if p.Marked == nil || e.target.Until != Gone {
		return
	}
	if _, yes, force := p.Marked(data); yes {
		in := marked{attempt: e.attempt, target: e.target}
		if force > 0 {
			in.deadline = p.session.Deadline(force)
		}
		tell(in)
	}
}

func (p *Performer) withdraw(requests client.Async, node, prefix string, answer func()) {
	switch {
	case p.Withdraw != nil:
		p.Withdraw(&p.Recipe, requests, node, prefix, answer)
	case node != "":
		requests.Withdraw(p.nodePath(node), answer)
	default:
		requests.WithdrawAll(p.Dir, prefix, answer)
	}
}
