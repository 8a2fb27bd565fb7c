package election

import (
	"fmt"
	"sync"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// An Observer reports which candidate leads, without being one. Create it with [Observe].
// It is safe for concurrent use, and must be closed.
type Observer struct {
	// Set by Observe, and constant.
	session *session.Session
	store   *store
	actor   *actors.Actor[input, LeaderChanged]
	follow  follower  // follows the leader, anew in each epoch
	owned   owned.Set // ended by Close

	mu   sync.Mutex
	view view  // as of the newest step
	err  error // the reason for which the watcher has ended; nil after Close
}

// Observe returns an observer of the election at path, whether or not there is an election yet. In
// the standard layout it watches one node.
//
// If opts is nil, the default options are used. The error names the argument that is wrong. A later
// failure ends the observer, and [Observer.Err] returns it.
func Observe(s *session.Session, path string, opts *ObserveOptions) (*Observer, error) {
	layout := client.Options(opts).Layout
	if err := validate(s, path, Options{Layout: layout}); err != nil {
		return nil, err
	}
	o := &Observer{session: s, store: newStore(layout, path, "")}
	o.follow = follower{store: o.store, owned: &o.owned}
	o.actor = actors.Start(watcher{view: view{dir: o.store.dir}}, actors.Role[watcher, input, effect, LeaderChanged]{
		Name:    "observer of election " + path,
		Perform: func(effect, func(input)) {}, // a watcher has no effects
		Observe: o.observe,
		Stop:    leave{},
		Merge:   func(_, next LeaderChanged) (LeaderChanged, bool) { return next, true },
	})
	tell := func(in input) { _ = o.actor.Tell(in) }
	o.owned.Follow(client.Of(s), func(ev session.Event) {
		tell(heard{ev})
		if c, ok := ev.(session.Connected); ok {
			o.follow.begin(client.Of(s).Async(c.Epoch), func(s sighting) { tell(sighted{c.Epoch, s}) }, func(err error) { tell(blinded{c.Epoch, err}) })
		}
	}, nil)
	return o, nil
}

// Events returns the channel of changes, always the same one. It begins with the present leader.
// Changes that are not received merge into the newest. The channel is closed after the last event,
// when the observer has ended: receive with "ev, ok := <-events", because a select over a closed
// channel spins.
func (o *Observer) Events() <-chan LeaderChanged { return o.actor.Events() }

// Leader returns the leader by the newest knowledge, without waiting. It returns false if there is
// none, and when the observer has ended.
func (o *Observer) Leader() (leader Leader, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	leader = o.view.event().Leader
	return leader, leader.Node != ""
}

// Done returns a channel that is closed when the observer has ended.
func (o *Observer) Done() <-chan struct{} { return o.actor.Ended() }

// Err returns the reason for which the observer has ended: [session.ErrClosed], or the error with
// which the leader's node cannot be read, such as [session.ErrNoAuth]. It returns nil before the
// end, and after Close.
func (o *Observer) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Close stops the observer. Changes that have not been received are discarded, except for the last
// one. Close may be called any number of times.
func (o *Observer) Close() {
	o.owned.End()
	o.actor.Close()
}

// observe brings the accessors up to date with the watcher.
func (o *Observer) observe(now watcher, events []LeaderChanged) {
	o.mu.Lock()
	if o.view = now.view; now.ended {
		o.view = view{dir: o.store.dir} // it does not learn of later leaders
	}
	if now.err != nil {
		o.err = fmt.Errorf("observe election %s: %w", o.store.path, now.err)
	}
	o.mu.Unlock()

	// The session's observer is the caller's code, so it is called without holding the lock.
	for _, ev := range events {
		client.Of(o.session).Observer().Leader(o.store.path, ev.Leader.Node, ev.Leader.Data, ev.Term)
	}
}

// A watcher is an observer as a pure function. It emits each change of the leader that a
// sighting of the present epoch shows:
//
//	no session ── connected ► following ── sighting of this epoch ► the view, and an event if it is news
//	     ▲                     │  │  ▲                                   │
//	     │ connected anew      │  │  └───────────────────────────────────┘
//	     └─────────────────────┘  │
//	                              └── leave, closed, or the leader cannot be read ► ended
type watcher struct {
	// Set by each sighting that is not older within its session; never cleared, so that the next
	// session is compared with the emitted leader.
	view view

	// Set by Connected, never cleared. A sighting of another epoch is late, and ignored.
	epoch int

	// Set by leave, by the end of the sessions, and by a leader that cannot be read; then inputs
	// are ignored.
	ended bool

	err error // set with ended: the reason; nil after leave
}

// Ended implements [actors.Machine].
func (w watcher) Ended() bool { return w.ended }

// Step implements [actors.Machine]. Its inputs have the type of a candidate's inputs.
func (w watcher) Step(in input, out *actors.Effects[effect, LeaderChanged]) watcher {
	if w.ended {
		return w
	}
	switch in := in.(type) {
	case heard:
		switch ev := in.Event.(type) {
		case session.Connected:
			w.epoch, w.view = ev.Epoch, w.view.anew() // the follower begins anew too
		case session.Closed:
			w.ended, w.err = true, session.ErrClosed
		case session.Suspended, session.Lapsed, session.Resumed, session.Expired:
		}
	case sighted:
		var news bool
		if in.epoch != w.epoch { // late, of a session that is over
			break
		}
		if w.view, news = w.view.see(in.sighting); news {
			out.Emit = append(out.Emit, w.view.event())
		}
	case blinded:
		if in.epoch == w.epoch && !client.Over(in.err) {
			w.ended, w.err = true, in.err
		}
	case leave:
		w.ended = true
	// inputs of a candidate
	case placed, heeded, disturbed, prepared, touched, overlooked, resign, acknowledge, noted, transfer, sought, handed, refused, lead, returned, overdue, lapsed:
	}
	return w
}

// String describes the observer in one short line.
func (o *Observer) String() string { return "observer of election " + o.store.path }

// Format implements [fmt.Formatter]: every verb prints the result of String, and reads nothing
// else.
func (o *Observer) Format(f fmt.State, _ rune) { client.Print(f, o) }
