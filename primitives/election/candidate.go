package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// A Candidate stands for election until it is closed, and may lead any number of times. Create it
// with [New]. It is safe for concurrent use, and must be closed.
type Candidate struct {
	session client.Session
	opts    Options
	store   *store
	line    *contender.Performer
	actor   *actors.Actor[input, Event]
	tell    func(input) // hands the actor an input
	follow  follower
	owned   owned.Set
	begun   time.Duration // when it began to wait, by the session's age
	stands  chan struct{} // closed when it stands for the first time

	postponed []acknowledge // for the performer

	mu    sync.Mutex
	now   machine       // the machine after the newest step, for the accessors
	stood bool          // stands is closed
	since time.Duration // it leads
	err   error         // why it has left

	// deposed is the reason of the newest Deposed. Only report uses it, one call after the other.
	deposed error

	// Ends the context in which the function of Lead works; nil if none works.
	end func(error)

	overrun int64 // the newest term whose function has overrun
}

// Stand stands for election at path, and returns when the candidate is in line: later candidates
// are behind it. If ctx ends first, the error is its cause, and the candidate leaves in the
// background. If it leaves for another reason, the error wraps [ErrLeft] and the reason.
//
// If opts is nil, the default options are used.
func Stand(ctx context.Context, s *session.Session, path string, opts *Options) (*Candidate, error) {
	if err := client.Usable(ctx); err != nil {
		return nil, fmt.Errorf("stand for election %s: %w", path, err)
	}
	c, err := New(s, path, opts)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.stands:
		return c, nil
	case <-c.Done():
		return nil, c.refuse("stand for", c.failure(actors.ErrEnded))
	case <-ctx.Done():
		c.tell(leave{})
		return nil, c.refuse("stand for", context.Cause(ctx))
	}
}

// New stands for election at path, and returns at once: [Candidate.Events] reports what happens. A
// candidate whose session has no connection joins the line when it has one.
//
// Two calls of one goroutine may join in the other order. If the second is to stand behind, make it
// when the first has reported [Standing].
//
// At a path of another recipe the candidate receives [Left], with [ErrForeign].
//
// If opts is nil, the default options are used. The error names the argument that is wrong; nothing
// else fails here.
func New(s *session.Session, path string, opts *Options) (*Candidate, error) {
	o := opts.withDefaults()
	if err := validate(s, path, o); err != nil {
		return nil, err
	}
	c := newCandidate(client.Of(s), path, o, znode.NewGUID())
	client.Of(s).Observer().Waiting("election", path)
	c.tell = func(in input) { _ = c.actor.Tell(in) } // a candidate that has left needs no input
	c.actor = actors.Start(c.now, actors.Role[machine, input, effect, Event]{
		Name:    "election " + path,
		Perform: c.perform,
		Observe: c.observe,
		Stop:    leave{},
		Merge:   recipe.Newest[LeaderChanged, Event],
		Cancel:  recipe.Undone[Suspended, Resumed, Event],
		Keep:    keep,
	})
	c.line.Begin(func(in line.Input) { c.tell(placed{in}) }, c.actor)
	return c, nil
}

// newCandidate returns a candidate without an actor.
func newCandidate(s client.Session, path string, o Options, guid string) *Candidate {
	c := &Candidate{
		stands: make(chan struct{}), session: s, opts: o, store: newStore(o.Layout, path, string(o.Data)), begun: s.Age(),
	}
	c.follow = follower{store: c.store, owned: &c.owned}
	r := c.store.recipe()
	observes := always
	if o.IgnoreLeader {
		c.store.written = func(epoch int) { c.tell(touched{epoch}) }
		if observes = leading; o.Layout != Standard {
			observes = never
		}
	}
	c.line = contender.NewPerformer(s, r)
	c.now = machine{
		place: line.New(guid, r.Rule, s.Warm(r.Dir), false),
		view:  view{dir: c.store.dir}, data: c.store.data, observes: observes,
	}
	return c
}

// answer hands an answer to the machine, after a pause if the server was busy.
func (c *Candidate) answer(err error, in input) { c.owned.Answer(err, func() { c.tell(in) }) }

// Events returns the channel of events, always the same one:
//
//	(Elected (Suspended | Resumed)* Deposed)* Left
//
// with [Standing], [LeaderChanged] and [Overrun] anywhere before [Left]. It begins with the newest
// event before the first call. Before it come the newest LeaderChanged and the newest Overrun,
// Standing until Deposed, and while the candidate leads Elected, and Suspended until Resumed. After
// Left, only Left comes. The channel is closed after it: receive with "ev, ok := <-events", because
// a select over a closed channel spins.
func (c *Candidate) Events() <-chan Event { return c.actor.Events() }

// Done returns a channel that is closed when the candidate has left, for good.
func (c *Candidate) Done() <-chan struct{} { return c.actor.Ended() }

// Err returns the reason for which the candidate has left; nil before, and after [Candidate.Close].
func (c *Candidate) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Leading returns the term in which this candidate leads, without waiting. It returns false while
// the connection is lost, although no other candidate leads then. From the step on in which the
// candidate is deposed, it returns false.
func (c *Candidate) Leading() (term int64, leading bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if term, leading = c.now.leading(); !leading {
		return 0, false
	}
	return term, true
}

// Leader returns the leader by the newest knowledge of the session's server, which may lag behind
// the others, without waiting. It returns false if there is none, and when the candidate has left.
func (c *Candidate) Leader() (leader Leader, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leader = c.now.view.event().Leader
	return leader, leader.Node != ""
}

// Node returns the path of the candidate's node in line; "" while there is none. The candidate has
// another node each time it stands.
func (c *Candidate) Node() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if node := c.now.place.Node(); node != "" {
		return znode.Join(c.store.dir, node)
	}
	return ""
}

// Guard returns an operation for [session.Session.Multi]. With it, the server refuses the
// transaction, with [ErrNotLeading] and [session.ErrNoNode], unless this candidate still leads in
// the same term. It refuses once another candidate is elected, also if an operator has deleted
// nodes. While the candidate does not lead, every transaction is refused.
func (c *Candidate) Guard() session.Op {
	c.mu.Lock()
	defer c.mu.Unlock()
	guard := znode.Join(c.store.dir, znode.GUIDName(znode.NewGUID(), "not-leading"))
	if c.now.node != "" {
		guard = c.store.guard(c.now.node)
	}
	return session.GuardOp(guard, ErrNotLeading)
}

// Acknowledge sets Acknowledged in every [LeaderChanged] of this term: the leader has finished its
// preparations. It returns nil when that is written. If ctx ends first, it returns the cause, and
// the write goes on. It fails with [ErrNotLeading] if the candidate does not lead, or no longer
// leads, and with [ErrLayout] in other layouts than [Standard].
func (c *Candidate) Acknowledge(ctx context.Context) error {
	if c.opts.Layout != Standard {
		return c.refuse("acknowledge", c.opts.Layout.without("acknowledgement"))
	}
	return c.ask(ctx, "acknowledge", func(r actors.Reply[error]) input { return acknowledge{r} })
}

// Resign gives up the leadership, and stands again at the end of the line. The candidate is deposed
// at once. Resign returns nil when the server has confirmed that the place is given up, or when the
// session is over; before that, a function in [Candidate.Lead] has to return. If the server refuses
// that for a session timeout, the error says so, the attempts go on, and no candidate leads until
// one succeeds. If ctx ends first, it returns the cause, and the resignation goes on. It fails with
// [ErrNotLeading] if the candidate does not lead.
func (c *Candidate) Resign(ctx context.Context) error {
	return c.ask(ctx, "resign", func(r actors.Reply[error]) input { return resign{reply: r} })
}

// Transfer hands the leadership over to the candidate with the node, a path as in [Candidates] and
// [Candidate.Node]. It returns nil when that candidate leads.
//
// If there is no such candidate, it fails with [ErrNoCandidate], and changes nothing. Otherwise
// this candidate is deposed before it hands over, and stands again at the end of the line. If the
// successor vanishes before it takes over, the leader resigns instead: the first in line leads, and
// the error is [ErrNoCandidate] or [ErrNotTaken]. The same happens after [Options.LeadGrace] if the
// successor has [Options.IgnoreLeader] and its node may not be written to.
//
// If ctx ends first, Transfer returns the cause, and the transfer goes on. It fails with
// [ErrNotLeading] if the candidate does not lead, with [ErrBusy] while another transfer is under
// way, and with [ErrLayout] in other layouts than [Standard].
func (c *Candidate) Transfer(ctx context.Context, node string) error {
	if c.opts.Layout != Standard {
		return c.refuse("transfer", c.opts.Layout.without("transfer"))
	}
	if err := session.ValidatePath(node); err != nil {
		return c.refuse("transfer", fmt.Errorf("node: %w", err))
	}
	dir, name := znode.Split(node)
	if _, is := grammars[c.opts.Layout].Parse(name); dir != c.store.dir || !is {
		return c.refuse("transfer", fmt.Errorf("%w: %s", ErrNoCandidate, node))
	}
	return c.ask(ctx, "transfer", func(r actors.Reply[error]) input { return transfer{name, r} })
}

func (c *Candidate) refuse(op string, why error) error {
	return fmt.Errorf("%s election %s: %w", op, c.store.path, c.session.Explain(why))
}

// ask sends a command to the machine, and returns its answer.
func (c *Candidate) ask(ctx context.Context, op string, command func(actors.Reply[error]) input) error {
	if err := c.failure(client.Ask(ctx, c.actor, command)); err != nil {
		return c.refuse(op, err)
	}
	return nil
}

// failure returns the error of a command, or the reason for which it has no answer.
func (c *Candidate) failure(err error) error {
	if !errors.Is(err, actors.ErrEnded) {
		return err
	}
	if why := c.Err(); why != nil {
		return fmt.Errorf("%w: %w", ErrLeft, why)
	}
	return ErrLeft
}

// Close resigns if the candidate leads, and gives up its place in line. It waits for that, at most
// until the session's lease has ended, and for the return of the function in [Candidate.Lead], at
// most for [Options.LeadGrace]. Undelivered events are discarded, except for the last one. Close
// may be called any number of times.
func (c *Candidate) Close() { c.actor.Close() }

// observe brings the accessors up to date with the machine.
func (c *Candidate) observe(m machine, events []Event) {
	c.line.Holds(m.place.Holding())
	now := c.session.Age()
	var end func(error)
	var why error
	c.mu.Lock()
	c.now = m
	begun, since := c.begun, c.since
	for _, ev := range events {
		switch ev := ev.(type) {
		case Standing:
			if !c.stood {
				c.stood = true
				close(c.stands)
			}
		case Elected:
			c.since = now
		case Deposed:
			end, why, c.end = c.end, ev.Err, nil
			c.begun = now
		case Overrun:
			c.overrun = ev.Term
		case Left:
			if ev.Err != nil {
				c.err = fmt.Errorf("election %s: %w", c.store.path, ev.Err)
			}
		case LeaderChanged, Suspended, Resumed:
		}
	}
	c.mu.Unlock()

	// The following calls run code of the caller, or take locks of the caller.
	if end != nil {
		end(why)
	}
	if m.Ended() {
		c.line.End()
		c.owned.End()
	}
	c.report(events, m.err, begun, since, now)
}

// report notifies the session's observer. why is the reason for which the candidate has left: nil
// if it was closed, although the server may refuse to delete its node.
func (c *Candidate) report(events []Event, why error, begun, since, now time.Duration) {
	observer := c.session.Observer()
	for _, ev := range events {
		switch ev := ev.(type) {
		case Elected:
			observer.Waited("election", c.store.path, now-begun)
		case Deposed:
			observer.Held("election", c.store.path, now-since)
			observer.Waiting("election", c.store.path)
			begun = now
			if !errors.Is(ev.Err, ErrResigned) && !errors.Is(ev.Err, ErrTransferred) {
				observer.Lost("election", c.store.path, ev.Err)
			}
			c.deposed = ev.Err
		case Left:
			observer.GaveUp("election", c.store.path, now-begun)
			if why != nil && !errors.Is(c.deposed, why) { // that loss is reported already
				observer.Failed("election", c.store.path, why)
			}
		case LeaderChanged:
			observer.Leader(c.store.path, ev.Leader.Node, ev.Leader.Data, ev.Term)
		case Standing, Suspended, Resumed, Overrun:
		}
	}
}

// perform starts one effect of the machine.
func (c *Candidate) perform(e effect, _ func(input)) {
	switch e := e.(type) {
	case inPlace:
		c.line.Perform(e.Effect, func(in line.Input) { c.tell(placed{in}) })
	case follow:
		c.follow.begin(c.session.Async(e.epoch), func(s sighting) { c.tell(sighted{e.epoch, s}) }, func(err error) { c.tell(blinded{e.epoch, err}) })
	case unfollow:
		c.follow.end()
	case glance:
		c.glance(e)
	case postpone:
		c.postponed = append(c.postponed, e.command)
	case proceed:
		for _, command := range c.postponed {
			c.tell(command)
		}
		c.postponed = nil
	case note:
		c.store.write(c.session.Async(e.epoch), nil, record{Node: e.node, Acknowledged: true, Term: e.term, Data: c.store.data}, func(zxid int64, _ int, err error) { c.answer(err, noted{e, zxid, err}) })
	case heed:
		c.follow.heed(c.session.Async(e.epoch), func(s sighting) { c.tell(heeded{e, s}) }, func(deleted bool) { c.tell(disturbed{e, deleted}) })
	case unheed:
		c.follow.unheed()
	case prepare:
		c.store.prepare(c.session.Async(e.epoch), e.node, func(zxid int64, err error) { c.answer(err, prepared{e, zxid, err}) })
	case seek:
		c.seek(e)
	case hand:
		c.hand(e, true)
	case expect:
		c.expect(e)
	case lapse:
		c.owned.After(lapse{}, c.opts.LeadGrace, func() { c.tell(lapsed{e}) })
	case bear:
		c.owned.After(bear{}, c.opts.LeadGrace, func() { c.tell(overdue(e)) })
	case answer:
		e.reply.Give(e.err)
	case engage:
		e.reply.Give(e.termOrError)
	}
}

// seek reads the candidate's node on the session's server, after a sync with ZooKeeper's leader.
func (c *Candidate) seek(e seek) {
	requests := c.session.Async(e.epoch)
	requests.Sync(c.store.dir, func(error) {}) // if it fails, so does the read
	requests.Get(znode.Join(c.store.dir, e.to), func(data []byte, stat *session.Stat, err error) {
		if isNoNode(err) {
			err = nil
		}
		c.answer(err, sought{e, stat != nil && stat.EphemeralOwner != 0, string(data), err})
	})
}

// hand writes the name of the successor into the leader's node, if that candidate exists. The
// transaction begins with a write to the successor's node, which notifies it. If that write is not
// allowed, or the transaction is too large, it is left out: then only a successor that follows the
// leader learns of the transfer.
func (c *Candidate) hand(e hand, tells bool) {
	node := znode.Join(c.store.dir, e.to)
	first := session.CheckOp(node, session.AnyVersion)
	if tells {
		first = session.SetOp(node, []byte(e.toData), session.AnyVersion)
	}
	r := record{Node: e.node, Acknowledged: e.acknowledged, Successor: e.to, Term: e.term, Data: c.store.data}
	c.store.write(c.session.Async(e.epoch), []session.Op{first}, r, func(_ int64, failed int, err error) {
		if tells && (errors.Is(err, session.ErrNoAuth) && failed == 0 || errors.Is(err, session.ErrTooLarge)) {
			c.hand(e, false)
			return
		}
		missing := isNoNode(err)
		c.answer(err, handed{of: e, err: err, nobody: missing && failed == 0, gone: missing && failed > 0, untold: !tells})
	})
}

// glance reads the leader's node once.
func (c *Candidate) glance(e glance) {
	c.session.Async(e.epoch).Get(c.store.leader, func(data []byte, stat *session.Stat, err error) {
		if err != nil {
			c.answer(err, overlooked{e, err})
			return
		}
		c.tell(sighted{e.epoch, c.follow.sight(session.Reading{Data: data, Stat: stat})})
	})
}

func (c *Candidate) expect(e expect) {
	gone := func(_ []byte, _ *session.Stat, err error) {
		if err != nil {
			c.tell(refused{e})
		}
	}
	c.owned.Keep(expect{}, owned.Func(c.session.Async(e.epoch).Watch(znode.Join(c.store.dir, e.to), gone, gone)))
}

// String describes the candidate in one short line.
func (c *Candidate) String() string { return "candidate of election " + c.store.path }

// Format implements [fmt.Formatter]: every verb prints the result of String, and reads nothing
// else.
func (c *Candidate) Format(f fmt.State, _ rune) { client.Print(f, c) }
