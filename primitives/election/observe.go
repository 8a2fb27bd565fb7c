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
	place   *place
	actor   *actors.Actor[input, LeaderChanged]
	follow  follower  // reads the leader's node, anew in each epoch
	owned   owned.Set // ended by Close

	mu   sync.Mutex
	view view  // as of the newest step
	err  error // why the watcher has ended; nil after Close
}

// Observe reports which candidate leads at path, whether or not there is an election yet.
// It watches one node, in the standard layout.
//
// If opts is nil, the default options are used. An argument that is refused is named by
// the error. A later failure ends the observer, and [Observer.Err] returns it.
func Observe(s *session.Session, path string, opts *ObserveOptions) (*Observer, error) {
	layout := client.Options(opts).Layout
	if err := validate(s, path, Options{Layout: layout}); err != nil {
		return nil, err
	}
	o := &Observer{session: s, place: newPlace(layout, path, "")}
	o.follow = follower{place: o.place, owned: &o.owned}
	o.actor = actors.Start(watcher{view: view{dir: o.place.dir}}, actors.Role[watcher, input, effect, LeaderChanged]{
		Name:    "observer of election " + path,
		Perform: func(effect, func(input)) {}, // a watcher asks for nothing
		Observe: o.observe,
		Stop:    leave{},
		Merge:   func(_, next LeaderChanged) (LeaderChanged, bool) { return next, true },
	})
	tell := func(in input) { _ = o.actor.Tell(in) }
	o.owned.Follow(s, func(ev session.Event) {
		tell(heard{ev})
		if c, ok := ev.(session.Connected); ok {
			o.follow.begin(client.Of(s).Async(c.Epoch), func(s sighting) { tell(sighted{c.Epoch, s}) }, func(err error) { tell(blinded{c.Epoch, err}) })
		}
	}, nil)
	return o, nil
}

// Events returns the channel of changes, which is always the same one. It begins with the
// present leader, merges to the newest change while nothing is received, and is closed
// when the observer ends. The channel is closed after the last event: receive with "ev,
// ok := <-events", because a select over a closed channel spins.
func (o *Observer) Events() <-chan LeaderChanged { return o.actor.Events() }

// Leader returns the leader, as far as is known, without waiting. It is false if there is
// none.
func (o *Observer) Leader() (leader Leader, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	leader = o.view.event().Leader
	return leader, leader.Node != ""
}

// Done returns a channel that is closed when the observer has ended.
func (o *Observer) Done() <-chan struct{} { return o.actor.Ended() }

// Err returns why the observer has ended: [session.ErrClosed], or the error that keeps
// the leader from being read, such as [session.ErrNoAuth]. It returns nil while the
// observer goes on, and after Close.
func (o *Observer) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Close stops the observer. Changes that have not been received are discarded, but for
// the last one. It may be called any number of times.
func (o *Observer) Close() {
	o.owned.End()
	o.actor.Close()
}

// observe keeps what the accessors return up to date with the watcher.
func (o *Observer) observe(now watcher, events []LeaderChanged) {
	o.mu.Lock()
	o.view = now.view
	if now.err != nil {
		o.err = fmt.Errorf("observe election %s: %w", o.place.path, now.err)
	}
	o.mu.Unlock()

	// The session's observer is the caller's code: it is not called with the lock held.
	for _, ev := range events {
		client.Of(o.session).Observer().Leader(o.place.path, ev.Leader.Node, ev.Leader.Data, ev.Term)
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
	view  view  // set by each sighting that is not older; never cleared, so that a new session begins with what was emitted
	epoch int   // set by Connected, never cleared; while set, a sighting of another epoch is late and means nothing
	ended bool  // set by leave, the end of the sessions, or a leader that cannot be read; then inputs are ignored
	err   error // set with ended: why; nil after leave
}

// Ended implements [actors.Machine]. The last leader that was seen stays.
func (w watcher) Ended() bool { return w.ended }

// Step implements [actors.Machine]. It shares its inputs with a candidate's machine.
func (w watcher) Step(in input, out *actors.Effects[effect, LeaderChanged]) watcher {
	if w.ended {
		return w
	}
	switch in := in.(type) {
	case heard:
		switch ev := in.Event.(type) {
		case session.Connected:
			w.epoch = ev.Epoch // the follower reads anew
		case session.Closed:
			w.ended, w.err = true, session.ErrClosed
		case session.Suspended, session.Resumed, session.Expired:
		}
	case sighted:
		var news bool
		if in.epoch != w.epoch { // late, from a session that is over
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
	case placed, touched, overlooked, resign, acknowledge, noted, restored, transfer, sought, handed, refused, lead, returned, overdue: // inputs of a candidate
	}
	return w
}

// String describes the observer in one short line.
func (o *Observer) String() string { return "observer of election " + o.place.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (o *Observer) Format(f fmt.State, _ rune) { client.Print(f, o) }
