package barrier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A Double is one party of a double barrier: it enters rounds and leaves them. It is safe for
// concurrent use, and must be closed.
type Double struct {
	path   string
	party  *performer
	actor  *actors.Actor[input, DoubleEvent]
	reason client.Reason
}

// NewDouble returns a handle of the double barrier at path, whose rounds have the given number of
// parties. It makes no request. At a path of another recipe Enter fails with [ErrForeign].
//
// If opts is nil, the default options are used. The error names the argument that is refused, and
// why.
func NewDouble(s *session.Session, path string, parties int, opts *DoubleOptions) (*Double, error) {
	o := client.Options(opts)
	id := znode.NewGUID()
	err := validate(s, path)
	if parties < 1 {
		err = errors.Join(err, fmt.Errorf("barrier: parties: %w: %d, want at least 1", session.ErrInvalidArgument, parties))
	}
	if strings.Contains(o.Name, "/") || session.ValidatePath("/x"+o.Name) != nil {
		err = errors.Join(err, fmt.Errorf("barrier: DoubleOptions.Name: %w: %q is no name of a node", session.ErrInvalidArgument, o.Name))
	}
	if err != nil {
		return nil, err
	}
	d := &Double{path: path, party: &performer{session: client.Of(s), path: path}}
	if err := d.party.fits(id, o.Name, parties); err != nil {
		return nil, fmt.Errorf("barrier: parties: %w", err)
	}
	d.actor = actors.Start(newMachine(id, o.Name, parties), actors.Role[machine, input, effect, DoubleEvent]{
		Name:    "double barrier " + path,
		Perform: d.party.perform,
		Observe: d.observe,
		Stop:    closeHandle{},
		Merge:   mergeDouble,
		Keep:    keepDouble,
	})
	d.party.begin(func(in input) { _ = d.actor.Tell(in) }, d.actor.Ended()) // an ended machine ignores the session
	return d, nil
}

// Enter waits until as many parties as the barrier is for have called it, and a round begins that
// lists this one. If the session expires before, Enter goes on in the next session.
//
// If ctx ends first, Enter withdraws. It returns the cause if the handle is out: no node of it is
// left, unless its session has expired, which deletes the node. It returns nil if a round that
// lists the handle has begun: the handle is in. Only the server knows which, so Enter may then wait
// until the session's lease has ended.
//
// The error wraps [ErrEntered] if the handle is in a round or another Enter waits. It wraps
// [ErrParties] if the path is for another number of parties. It wraps [ErrLayout] if the path
// belongs to another recipe, or a foreign node keeps the last round from being deleted. Only the
// party that would start the round gets the error of a foreign node. It withdraws, and the others
// wait for another party.
func (d *Double) Enter(ctx context.Context) error {
	if err := client.Usable(ctx); err != nil {
		return d.explain("enter", err)
	}
	var asked actors.Reply[error]
	outcome, err := actors.Ask(ctx, d.actor, func(reply actors.Reply[error]) input {
		asked = reply
		return enter{reply}
	})
	switch {
	case err == nil:
		return d.explain("enter", outcome)
	case errors.Is(err, actors.ErrEnded):
		return d.gone("enter")
	}
	_, _ = actors.Ask(context.WithoutCancel(ctx), d.actor, func(reply actors.Reply[struct{}]) input {
		return cancel{asked, reply}
	})
	if outcome, settled := asked.Late(); settled && !errors.Is(outcome, errWithdrawn) {
		err = outcome
	}
	return d.explain("enter", err)
}

// Leave leaves the round, and waits until all its members have left it, or crashed. If ctx ends
// first, it returns the cause. The handle has left or will leave all the same, and Leave may be
// called again to wait for the others.
//
// Leave does not wait for a member whose session has expired on the server. If the handle itself is
// in no round, the error wraps [ErrNotEntered]. If the membership was lost, it also wraps the
// reason.
func (d *Double) Leave(ctx context.Context) error {
	err := client.Ask(ctx, d.actor, func(reply actors.Reply[error]) input { return leave{reply} })
	if errors.Is(err, actors.ErrEnded) {
		return d.gone("leave")
	}
	return d.explain("leave", err)
}

// Events returns the channel of events, which is always the same one:
//
//	(Waiting* (Entered Leaving* (Left | Lost) | Withdrawn))* Closed
//
// [Closed] may come anywhere. Events that count parties merge until they are received. The channel
// begins with the newest event before the first call, and with Entered before a Leaving. It is
// closed after the last event: receive with "ev, ok := <-events", because a select over a closed
// channel spins.
func (d *Double) Events() <-chan DoubleEvent { return d.actor.Events() }

// Done returns a channel that is closed when the handle has ended.
func (d *Double) Done() <-chan struct{} { return d.actor.Ended() }

// Err returns [session.ErrClosed] if the handle has ended with its session. It returns nil before
// the end, and after Close.
func (d *Double) Err() error { return d.reason.Err() }

// Close deletes the node of the handle if there is one, and waits until that is confirmed, at most
// until the session's lease has ended. It does not wait for other parties. It may be called any
// number of times.
func (d *Double) Close() { d.actor.Close() }

func (d *Double) explain(op string, err error) error {
	return client.Wrap(d.party.session, err, "barrier ", d.path, ": ", op)
}

func (d *Double) gone(op string) error { return client.Because(d.explain(op, ErrClosed), d.Err()) }

func (d *Double) observe(m machine, events []DoubleEvent) {
	for _, ev := range events {
		switch ev := ev.(type) {
		case Entered:
			client.Log(d.party.session, slog.LevelDebug, recipe, d.path, "entered", slog.Int("round", ev.Round))
		case Left:
			client.Log(d.party.session, slog.LevelDebug, recipe, d.path, "left", slog.Int("round", ev.Round))
		case Lost:
			client.LogLoss(d.party.session, recipe, d.path, ev.Err)
		case Waiting, Leaving, Withdrawn, Closed:
		}
	}
	d.party.rely(m.relies())
	d.party.holder.Set(d.party.session, m.stage == inside)
	if m.Ended() {
		d.reason.Set(m.err)
		d.party.owned.End()
	}
}

// A performer performs the effects of a double barrier.
type performer struct {
	session client.Session
	path    string
	owned   owned.Set
	relies  bool                // on the session; used by the actor's goroutine
	holder  client.Holder       // used by the actor's goroutine
	warned  map[string]struct{} // nodes of no session; used by the answers of the one request under way
}

func (p *performer) begin(tell func(input), ended <-chan struct{}) {
	p.owned.Follow(p.session, func(ev session.Event) { tell(heard{ev}) }, ended)
}

// rely keeps the session's lease while other parties wait for our node to be deleted.
func (p *performer) rely(wanted bool) {
	switch {
	case wanted && !p.relies:
		p.session.Rely(1)
	case !wanted && p.relies:
		p.session.Rely(-1)
	}
	p.relies = wanted
}

// The paths of the nodes.

func (p *performer) dir(round int) string { return znode.Join(p.path, strconv.Itoa(round)) }
func (p *performer) in(round int) string  { return znode.Join(p.dir(round), "in") }

func (p *performer) node(round int, name string) string {
	return znode.Join(p.in(round), name)
}

func (b book) encode() []byte { return nodes.Rounds(b).Bytes() }

func decode(data []byte) (book, error) {
	r, ok := nodes.ParseRounds(data)
	if !ok {
		return book{}, fmt.Errorf("%w: %w, want %q", ErrLayout, nodes.ForeignData(data), nodes.RoundsLayout)
	}
	return book(r), nil
}

// fits refuses a number of parties with which no round could begin, because the record, which has
// the names of all members, would be too long. It assumes that all names are as long as this
// party's. So the party with the longest name is refused before any round fails, unless its session
// allows longer requests than the others.
func (p *performer) fits(id, label string, parties int) error {
	const enough = 1 << 20 // longer than any request may be
	name := fmt.Sprintf("%010d-%s-%010d-%s", 0, id, 0, label)
	e := request{step: starting, round: 1 << 30, book: book{1 << 30, parties, slices.Repeat([]string{name}, min(parties, enough/len(name)))}}
	return p.session.Fits(p.ops(e)...)
}

// create returns the operations that create the directories of a round. They give the lower
// directory a child for a moment, because the server removes an empty container only after it has
// had a child.
func (p *performer) create(round int) []session.Op {
	used := znode.Join(p.in(round), "used")
	return []session.Op{
		session.CreateOp(p.dir(round), nil, session.Container),
		session.CreateOp(p.in(round), nil, session.Container),
		session.CreateOp(used, nil, session.Persistent),
		session.DeleteOp(used, session.AnyVersion),
	}
}

// absent returns operations that fail if the directory of a round stands, and change nothing.
func (p *performer) absent(round int) []session.Op {
	return []session.Op{session.CreateOp(p.dir(round), nil, session.Persistent), session.DeleteOp(p.dir(round), session.AnyVersion)}
}

// ops returns the transaction of a request.
func (p *performer) ops(e request) (ops []session.Op) {
	own := p.node(e.round, e.name)
	count := session.SetOp(p.in(e.round), nil, session.AnyVersion) // its reply has the number of nodes
	switch e.step {
	case opening:
		if e.keeps {
			ops = append(ops, session.CheckOp(p.path, e.version))
		} else {
			ops = append(ops, session.SetOp(p.path, e.book.encode(), e.version))
		}
		if e.again {
			ops = append(ops, session.DeleteOp(p.dir(e.round), session.AnyVersion))
		}
		ops = append(ops, p.create(e.round)...)
		ops = append(ops, p.absent(e.round+1)...)
	case entering:
		ops = append(ops, session.CheckOp(p.path, e.version), session.CreateOp(own, nil, session.Ephemeral), count)
	case starting:
		ops = append(ops, session.SetOp(p.path, e.book.encode(), e.version))
		if e.round > 1 {
			ops = append(ops, p.absent(e.round-1)...)
		}
		for _, name := range e.book.Members {
			ops = append(ops, session.CheckOp(p.node(e.round, name), session.AnyVersion))
		}
		if !e.again {
			ops = append(ops, p.create(e.round+1)...)
		}
	case retiring:
		ops = append(ops, session.CheckOp(p.path, e.version), session.DeleteOp(own, session.AnyVersion))
	case exiting:
		ops = append(ops, session.DeleteOp(own, session.AnyVersion), count)
	case shutting:
		if !e.again {
			for _, name := range e.ownerless {
				ops = append(ops, session.DeleteOp(p.node(e.round, name), session.AnyVersion))
			}
			ops = append(ops, session.DeleteOp(p.in(e.round), session.AnyVersion))
		}
		ops = append(ops, session.DeleteOp(p.dir(e.round), session.AnyVersion))
	case idle, ensuring, inspecting, listing, checking, looking, syncing, rereading:
	}
	return ops
}

// culprit returns the node with which a request failed.
func (p *performer) culprit(e request, path string) culprit {
	dir, _ := znode.Split(path)
	switch {
	case path == p.path:
		return record
	case e.round > 1 && path == p.dir(e.round-1):
		return earlier
	case e.step == shutting && path == p.dir(e.round):
		return above
	case path == p.dir(e.round) || path == p.in(e.round):
		return directory
	case dir == p.in(e.round):
		return party
	}
	return other
}

// perform starts the execution of one effect.
func (p *performer) perform(e effect, tell func(input)) {
	switch e := e.(type) {
	case follow:
		p.owned.Keep(follow{}, p.session.Async(e.epoch).Follow(p.path, session.AspectData, true, p.told(e, tell)))
	case unfollow:
		p.owned.Cancel(follow{})
	case guard:
		p.owned.Keep(guard{}, p.session.Async(e.epoch).Follow(p.node(e.round, e.name), session.AspectData, false, func(_ session.Reading, err error) {
			if err != nil {
				tell(lost{e.epoch, e.name, err})
			}
		}))
	case unguard:
		p.owned.Cancel(guard{})
	case await:
		p.owned.Keep(await{}, p.session.Async(e.epoch).Follow(p.dir(e.round), session.AspectData, false, func(r session.Reading, err error) {
			in := over{epoch: e.epoch, round: e.round, err: err}
			if err == nil {
				in.czxid = r.Stat.Czxid
			}
			tell(in)
		}))
	case unawait:
		p.owned.Cancel(await{})
		p.owned.Cancel(wait{})
	case wait:
		p.owned.Keep(wait{}, owned.Func(p.session.After(e.long, func() { tell(tick{e.n}) })))
	case readLater:
		p.owned.After(readLater{}, e.after, func() { tell(due{e.epoch, e.sight}) })
	case request:
		p.request(e, tell)
	case abandon:
		p.session.Async(e.epoch).Withdraw(p.node(e.round, e.name), func(error) {})
	case answer:
		e.reply.Give(e.err)
	case confirm:
		e.reply.Give(struct{}{})
	}
}

func (p *performer) told(e follow, tell func(input)) func(session.Reading, error) {
	return func(r session.Reading, err error) {
		if err != nil {
			tell(blind{e.epoch, err})
			return
		}
		in := saw{epoch: e.epoch}
		if r.Stat != nil {
			in.sight = sightOf(r.Data, r.Stat)
		}
		in.zxid = r.Zxid
		tell(in)
	}
}

// sightOf returns the sight of a record with these data and this Stat.
func sightOf(data []byte, stat *session.Stat) sight {
	s := sight{
		zxid: max(stat.Mzxid, stat.Pzxid), czxid: stat.Czxid, version: stat.Version,
		fresh: len(data) == 0, nodes: int(stat.NumChildren),
	}
	if !s.fresh {
		s.book, s.bad = decode(data)
	}
	return s
}

// settled reports whether the watch on the record has delivered every change that the session knows
// of. It is called where the session gives its answers.
func (p *performer) settled() bool {
	sub, _ := p.owned.Get(follow{}).(client.Subscription)
	return client.Settled(sub)
}

// request sends a request, and answers once.
func (p *performer) request(e request, tell func(input)) {
	a := p.session.Async(e.epoch)
	reply := func(in answered) {
		in.requestID, in.settled = e.requestID, p.settled()
		p.owned.Answer(in.err, func() { tell(in) })
	}
	switch e.step {
	case ensuring:
		a.EnsurePath(p.path, func(_ bool, err error) { reply(answered{err: err}) })
	case syncing:
		a.Sync(p.path, func(err error) { reply(answered{err: err}) })
	case inspecting:
		a.Children(p.path, func(names []string, _ *session.Stat, err error) { reply(answered{err: err, names: names}) })
	case checking:
		a.Get(p.path, func(data []byte, _ *session.Stat, err error) {
			in := answered{err: err}
			if len(data) > 0 {
				var b book
				b, in.bad = decode(data)
				in.names = b.Members
			}
			reply(in)
		})
	case rereading:
		a.Get(p.path, func(data []byte, stat *session.Stat, err error) {
			in := answered{err: err}
			if stat != nil {
				in.read = sightOf(data, stat)
			}
			reply(in)
		})
	case listing, looking:
		a.Children(p.in(e.round), func(names []string, stat *session.Stat, err error) {
			in := answered{err: err}
			if stat != nil {
				in.czxid = stat.Czxid
			}
			if e.step == looking && errors.Is(err, session.ErrNoNode) {
				in.err = nil // the server has removed the directory
			}
			for _, name := range names {
				if nodes.PartyName(name) == "" {
					in.foreign = znode.Join(p.in(e.round), name)
				} else {
					in.names = append(in.names, name)
				}
			}
			slices.Sort(in.names)
			switch {
			case in.err != nil:
				reply(in)
			case e.step == looking:
				p.left(a, e, in, reply)
			default:
				p.strangers(a, e, in, reply)
			}
		})
	case idle, opening, entering, starting, retiring, exiting, shutting:
		ops := p.ops(e)
		a.Multi(ops, func(results []session.OpResult, err error) {
			in := answered{err: err}
			for i, r := range results {
				if r.Err != nil {
					switch in.at = p.culprit(e, ops[i].Path()); in.at {
					case above:
						in.foreign = "a node in " + ops[i].Path()
					case party:
						in.foreign = ops[i].Path()
					case other, record, earlier, directory:
					}
					break
				}
			}
			if n := len(results); err == nil && results[n-1].Stat != nil {
				in.count = int(results[n-1].Stat.NumChildren)
			}
			reply(in)
		})
	}
}

// left answers looking, after it has read the nodes up to the first that a session owns: the names
// before are those of no party.
func (p *performer) left(a client.Async, e request, in answered, reply func(answered)) {
	if len(in.names) == 0 {
		reply(in)
		return
	}
	a.Exists(p.node(e.round, in.names[0]), func(stat *session.Stat, err error) {
		switch {
		case err != nil:
			reply(answered{err: err})
		case stat != nil && stat.EphemeralOwner != 0:
			in.count = len(in.names)
			reply(in)
		default:
			if stat != nil {
				p.warn(e.round, in.names[0])
				in.ownerless = append(in.ownerless, in.names[0])
			}
			in.names = in.names[1:]
			p.left(a, e, in, reply)
		}
	})
}

// strangers answers listing, after it has read the nodes of the handles that were not met. If there
// are too few names, it reads none.
func (p *performer) strangers(a client.Async, e request, in answered, reply func(answered)) {
	var strange []string
	if len(present(in.names)) >= e.parties {
		for _, name := range in.names {
			if id, _ := nodes.PartyEntry(name); !has(e.met, id) {
				strange = append(strange, name)
			}
		}
	}
	left := len(strange)
	if left == 0 {
		reply(in)
		return
	}
	for _, name := range strange {
		a.Exists(p.node(e.round, name), func(stat *session.Stat, err error) {
			switch {
			case err != nil:
				in.err = err
			case stat == nil: // it is gone since: the round does not begin with it
			case stat.EphemeralOwner != 0:
				id, _ := nodes.PartyEntry(name)
				in.met = append(in.met, id)
			default:
				p.warn(e.round, name)
				in.names = slices.DeleteFunc(in.names, func(other string) bool { return other == name })
			}
			if left--; left == 0 {
				reply(in)
			}
		})
	}
}

// warn logs a node that no session owns, once.
func (p *performer) warn(round int, name string) {
	node := p.node(round, name)
	if _, again := p.warned[node]; again {
		return
	}
	if p.warned == nil {
		p.warned = make(map[string]struct{})
	}
	p.warned[node] = struct{}{}
	p.session.Logger().Warn("a node of no session is no party of a barrier, and is deleted when its round is over", "recipe", recipe, "path", p.path, "node", node)
}

// String describes the barrier in one short line.
func (d *Double) String() string { return "double barrier " + d.path }

// Format implements [fmt.Formatter]: every verb prints String, without reading the fields.
func (d *Double) Format(f fmt.State, _ rune) { client.Print(f, d) }
