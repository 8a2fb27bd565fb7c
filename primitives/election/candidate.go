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
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// A Candidate stands for election until it is closed: it may lead any number of times.
// Create it with [New]. It is safe for concurrent use, and must be closed.
type Candidate struct {
	session client.Session
	opts    Options
	place   *place
	line    *line.Performer
	actor   *actors.Actor[input, Event]
	tell    func(input) // hands the actor an input
	follow  follower
	owned   owned.Set
	begun   time.Duration // since the session's beginning, when it began to wait
	stands  chan struct{} // closed when it stands for the first time

	mu      sync.Mutex
	now     machine       // what the accessors tell of
	stood   bool          // stands is closed
	since   time.Duration // it leads
	err     error         // why it has left
	end     func(error)   // of the context in which the function of Lead works; nil if there is none
	overrun int64         // the newest term whose function has overrun
}

// Stand stands for election at path, and returns when the candidate is in line: a later candidate
// is behind it. If ctx ends before that, the error is its cause, and the candidate leaves in the
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

// New stands for election at path, and returns at once: [Candidate.Events] tells what
// happens. A session that is not connected stands when it is.
//
// If opts is nil, the default options are used. The error names what is wrong with the
// arguments; otherwise nothing fails here.
func New(s *session.Session, path string, opts *Options) (*Candidate, error) {
	o := opts.withDefaults()
	if err := validate(s, path, o); err != nil {
		return nil, err
	}
	c := newCandidate(client.Of(s), path, o, znode.NewGUID())
	client.Of(s).Observer().Waiting("election", path)
	c.tell = func(in input) { _ = c.actor.Tell(in) } // one that has left needs nothing
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

// newCandidate returns a candidate that does nothing yet.
func newCandidate(s client.Session, path string, o Options, guid string) *Candidate {
	c := &Candidate{
		stands: make(chan struct{}), session: s, opts: o, place: newPlace(o.Layout, path, string(o.Data)), begun: s.Age(),
	}
	c.follow = follower{place: c.place, owned: &c.owned}
	place := c.place.recipe()
	observes := always
	if o.IgnoreLeader {
		place.Touched = func(epoch int) { c.tell(touched{epoch}) }
		if observes = leading; o.Layout != Standard {
			observes = never
		}
	}
	c.line = line.NewPerformer(s, place)
	c.now = machine{
		place: line.New(guid, place.Rule, s.Warm(place.Dir), false),
		view:  view{dir: c.place.dir}, data: c.place.data, observes: observes,
	}
	return c
}

// answer tells the machine of an answer, after a pause if the server was busy.
func (c *Candidate) answer(err error, in input) { c.owned.Answer(err, func() { c.tell(in) }) }

// Events returns the channel of events, which is always the same one:
//
//	(Elected (Suspended | Resumed)* Deposed)* Left
//
// with [Standing], [LeaderChanged] and [Overrun] anywhere before [Left]. It begins with the newest
// event before the first call. Before that come the newest of each of these three, Standing only until Deposed,
// and Elected while it leads, with Suspended until Resumed. The channel is closed after the last event: receive with "ev, ok :=
// <-events", because a select over a closed channel spins.
func (c *Candidate) Events() <-chan Event { return c.actor.Events() }

// Done returns a channel that is closed when the candidate has left, for good.
func (c *Candidate) Done() <-chan struct{} { return c.actor.Ended() }

// Err returns why it has left. It returns nil while it has not, and after
// [Candidate.Close].
func (c *Candidate) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Leading returns the term in which this candidate leads, without waiting. It is false
// while the connection is lost, though no other candidate leads then, and in the very
// step in which the candidate is deposed.
func (c *Candidate) Leading() (term int64, leading bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if term, leading = c.now.leading(); !leading {
		return 0, false
	}
	return term, true
}

// Leader returns the leader, as far as is known, without waiting. It is false if there is
// none.
func (c *Candidate) Leader() (leader Leader, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leader = c.now.view.event().Leader
	return leader, leader.Node != ""
}

// Node returns the path of the node with which the candidate stands in line, which is
// another one each time it stands; "" while there is none.
func (c *Candidate) Node() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if node := c.now.place.Node(); node != "" {
		return znode.Join(c.place.dir, node)
	}
	return ""
}

// Guard returns an operation for [session.Session.Multi]. The server refuses the transaction, with
// [ErrNotLeading] and [session.ErrNoNode], unless this candidate still leads in the same term. While it
// does not lead, all transactions are refused.
func (c *Candidate) Guard() session.Op {
	c.mu.Lock()
	defer c.mu.Unlock()
	node := c.now.node
	if node == "" {
		node = znode.GUIDName(znode.NewGUID(), "not-leading")
	}
	return session.GuardOp(znode.Join(c.place.dir, node), ErrNotLeading)
}

// Acknowledge makes every [LeaderChanged] say that the leader has done what it had to do
// first. It returns nil when that is written down. If ctx ends first it returns the
// cause, and the write goes on. It fails with [ErrNotLeading] if the candidate does not
// lead, or no more, and with [ErrLayout] in other layouts than [Standard].
func (c *Candidate) Acknowledge(ctx context.Context) error {
	if c.opts.Layout != Standard {
		return c.refuse("acknowledge", c.opts.Layout.without("acknowledgement"))
	}
	return c.ask(ctx, "acknowledge", func(r actors.Reply[error]) input { return acknowledge{r} })
}

// Resign gives up the leadership, and stands again at the end of the line. The candidate is
// deposed at once; Resign returns nil when the server has confirmed that the place is given
// up, or when the session is over. A function in [Candidate.Lead] has to return before
// that. If ctx ends first it returns the cause, and the resignation goes on. It fails with
// [ErrNotLeading] if the candidate does not lead.
func (c *Candidate) Resign(ctx context.Context) error {
	return c.ask(ctx, "resign", func(r actors.Reply[error]) input { return resign{reply: r} })
}

// Transfer hands the leadership over to the candidate with that node, the path of which
// [Candidates] and [Candidate.Node] tell. It returns nil when that candidate leads.
//
// If there is no such candidate it fails with [ErrNoCandidate], and nothing has happened.
// Otherwise this candidate is deposed before it hands over, and stands again at the end of
// the line. If the other one vanishes before it takes over, the leader has resigned instead:
// the first in line leads, and the error is [ErrNoCandidate] or [ErrNotTaken].
//
// If ctx ends first Transfer returns the cause, and the transfer goes on. It fails with
// [ErrNotLeading] if the candidate does not lead, and with [ErrBusy] while another
// transfer is under way. In other layouts than [Standard] it fails with [ErrLayout].
func (c *Candidate) Transfer(ctx context.Context, node string) error {
	if c.opts.Layout != Standard {
		return c.refuse("transfer", c.opts.Layout.without("transfer"))
	}
	if err := session.ValidatePath(node); err != nil {
		return c.refuse("transfer", fmt.Errorf("node: %w", err))
	}
	dir, name := znode.Split(node)
	if dir != c.place.dir || len(c.opts.Layout.first().Line([]string{name})) == 0 {
		return c.refuse("transfer", fmt.Errorf("%w: %s", ErrNoCandidate, node))
	}
	return c.ask(ctx, "transfer", func(r actors.Reply[error]) input { return transfer{name, r} })
}

func (c *Candidate) refuse(op string, why error) error {
	return fmt.Errorf("%s election %s: %w", op, c.place.path, c.session.Explain(why))
}

// ask gives a command, and returns what it is answered with.
func (c *Candidate) ask(ctx context.Context, op string, command func(actors.Reply[error]) input) error {
	if err := c.failure(client.Ask(ctx, c.actor, command)); err != nil {
		return c.refuse(op, err)
	}
	return nil
}

// failure returns the error of a command, or why it has got no answer.
func (c *Candidate) failure(err error) error {
	if !errors.Is(err, actors.ErrEnded) {
		return err
	}
	if why := c.Err(); why != nil {
		return fmt.Errorf("%w: %w", ErrLeft, why)
	}
	return ErrLeft
}

// Close resigns if the candidate leads, and gives up its place in line. It waits for that,
// at most until the session's deadline has passed; and for the function in
// [Candidate.Lead] to return, at most for [Options.LeadGrace]. Undelivered events are
// discarded, but for the last one. It may be called any number of times.
func (c *Candidate) Close() { c.actor.Close() }

// observe keeps what the accessors return up to date with the machine.
func (c *Candidate) observe(m machine, events []Event) {
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
				c.err = fmt.Errorf("election %s: %w", c.place.path, ev.Err)
			}
		case LeaderChanged, Suspended, Resumed:
		}
	}
	c.mu.Unlock()

	// The calls that follow run code of the caller, or take its locks.
	if end != nil {
		end(why)
	}
	if m.Ended() {
		c.line.End()
		c.owned.End()
	}
	c.report(events, begun, since, now)
}

// report tells the session's observer.
func (c *Candidate) report(events []Event, begun, since, now time.Duration) {
	observer := c.session.Observer()
	for _, ev := range events {
		switch ev := ev.(type) {
		case Elected:
			observer.Waited("election", c.place.path, now-begun)
		case Deposed:
			observer.Held("election", c.place.path, now-since)
			observer.Waiting("election", c.place.path)
			begun = now
			if !errors.Is(ev.Err, ErrResigned) && !errors.Is(ev.Err, ErrTransferred) {
				observer.Lost("election", c.place.path, ev.Err)
			}
		case Left:
			observer.GaveUp("election", c.place.path, now-begun)
		case LeaderChanged:
			observer.Leader(c.place.path, ev.Leader.Node, ev.Leader.Data, ev.Term)
		case Standing, Suspended, Resumed, Overrun:
		}
	}
}

// perform starts one thing that the machine asked for.
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
	case note:
		c.place.write(c.session.Async(e.epoch), nil, record{Node: e.node, Acknowledged: true, Data: c.place.data}, func(zxid int64, _ int, err error) { c.answer(err, noted{e, zxid, err}) })
	case restore:
		c.place.write(c.session.Async(e.epoch), nil, record{Node: e.node, Acknowledged: e.acknowledged, Data: c.place.data}, func(_ int64, _ int, err error) { c.answer(err, restored{e, err}) })
	case seek:
		c.seek(e)
	case hand:
		c.hand(e, true)
	case expect:
		c.expect(e)
	case bear:
		c.owned.After(bear{}, c.opts.LeadGrace, func() { c.tell(overdue(e)) })
	case answer:
		e.reply.Give(e.err)
	case engage:
		e.reply.Give(e.termOrError)
	}
}

// seek asks the server that the session is connected to, when it knows all that the leader
// does.
func (c *Candidate) seek(e seek) {
	requests := c.session.Async(e.epoch)
	requests.Sync(c.place.dir, func(error) {}) // if it fails, so does what follows
	requests.Get(znode.Join(c.place.dir, e.to), func(data []byte, stat *session.Stat, err error) {
		if isNoNode(err) {
			err = nil
		}
		c.answer(err, sought{e, stat != nil && stat.EphemeralOwner != 0, string(data), err})
	})
}

// hand writes down who is to lead next, if there is such a candidate. To tell it, the transaction begins
// with a write to its node, unless that is not allowed or too large: then only a candidate that follows the
// leader is told.
func (c *Candidate) hand(e hand, tells bool) {
	node := znode.Join(c.place.dir, e.to)
	first := session.CheckOp(node, session.AnyVersion)
	if tells {
		first = session.SetOp(node, []byte(e.toData), session.AnyVersion)
	}
	r := record{Node: e.node, Acknowledged: e.acknowledged, Successor: e.to, Data: c.place.data}
	c.place.write(c.session.Async(e.epoch), []session.Op{first}, r, func(_ int64, failed int, err error) {
		if tells && (errors.Is(err, session.ErrNoAuth) && failed == 0 || errors.Is(err, session.ErrTooLarge)) {
			c.hand(e, false)
			return
		}
		missing := isNoNode(err)
		c.answer(err, handed{of: e, err: err, nobody: missing && failed == 0, gone: missing && failed > 0})
	})
}

// glance reads the leader's node once.
func (c *Candidate) glance(e glance) {
	c.session.Async(e.epoch).Get(c.place.leader, func(data []byte, stat *session.Stat, err error) {
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
	c.owned.Keep(expect{}, owned.Func(c.session.Async(e.epoch).Watch(znode.Join(c.place.dir, e.to), gone, gone)))
}

// String describes the candidate in one short line.
func (c *Candidate) String() string { return "candidate of election " + c.place.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (c *Candidate) Format(f fmt.State, _ rune) { client.Print(f, c) }
