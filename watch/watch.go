package watch

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// Options are optional parameters for [Node], [Children] and [Value]. A nil *Options
// is equivalent to a zero Options.
type Options struct {
	// Sync makes the first state at least as new as the call: the server is brought up to date with
	// its leader first, which costs a round trip. By default the first state may be older than the
	// call, by as much as the server lags.
	Sync bool
}

// A Watch is a view of a node, its children or its value, which is kept up to date: see [Node],
// [Children] and [Value]. It is safe for concurrent use, and must be closed.
type Watch[S any] struct {
	name   string
	actor  *actors.Actor[input, S]
	sub    *session.Subscription // belongs to the actor
	reason client.Reason
}

// Changes returns the channel of states, always the same channel. It begins with the present state
// as soon as that is known. A slow reader receives the newest state, not every state. The channel
// is closed after the last state: receive with "state, ok := <-states", because a select over a
// closed channel spins.
func (w *Watch[S]) Changes() <-chan S { return w.actor.Events() }

// Done returns a channel that is closed when the watch has ended.
func (w *Watch[S]) Done() <-chan struct{} { return w.actor.Ended() }

// Err returns why the watch has ended: [session.ErrClosed], or the error that keeps the node from
// being read, such as [session.ErrNoAuth]. It returns nil before the end, and after Close.
func (w *Watch[S]) Err() error { return w.reason.Err() }

// Close ends the watch. States that have not been received are discarded, except the last. Close
// may be called any number of times.
func (w *Watch[S]) Close() { w.actor.Close() }

// validate refuses arguments that cannot be watched, before any I/O.
func validate(s *session.Session, path string) error {
	return client.Validate("watch", s, func() error {
		if err := session.ValidatePath(path); err != nil {
			return fmt.Errorf("watch: path: %w", err)
		}
		return nil
	})
}

// A kind turns readings of one aspect of a node into states.
type kind[S any] struct {
	name   string
	aspect session.Aspect
	next   func(last S, told bool, r session.Reading) (S, bool)
	merge  func(last, next S) (S, bool)
}

// begin starts a watch.
func begin[S any](s *session.Session, path string, opts *Options, k kind[S]) (*Watch[S], error) {
	if err := validate(s, path); err != nil {
		return nil, err
	}
	w := &Watch[S]{name: k.name + " " + path}
	m, first := newMachine(client.Options(opts).Sync, k.next)
	w.actor = actors.Start(m, actors.Role[machine[S], input, effect, S]{
		Name:  w.name,
		Begin: first,
		Perform: func(e effect, answer func(input)) {
			w.perform(s, path, k.aspect, e, answer)
		},
		Observe: w.observe,
		Stop:    leave{},
		Merge:   k.merge,
	})
	return w, nil
}

// observe sets the error that Err returns.
func (w *Watch[S]) observe(m machine[S], _ []S) {
	if m.Ended() && m.err != nil {
		w.reason.Set(fmt.Errorf("watch %s: %w", w.name, m.err))
	}
}

// perform starts one effect.
func (w *Watch[S]) perform(s *session.Session, path string, aspect session.Aspect, e effect, answer func(input)) {
	switch e.(type) {
	case catchUp:
		s.Async(0).Sync(path, func(err error) { rested(err, func() { answer(synced{err}) }) })
	case follow:
		w.sub = s.Async(0).Follow(path, aspect, true, func(r session.Reading, err error) {
			if err != nil {
				answer(failed{err})
				return
			}
			answer(read{r})
		})
	case unfollow:
		w.sub.Cancel()
	}
}

// rested calls f: after a pause, if the server was busy.
func rested(err error, f func()) {
	const pause = 100 * time.Millisecond
	if errors.Is(err, session.ErrBusy) {
		actors.After(pause, f)
		return
	}
	f()
}

// String describes the watch in one short line.
func (w *Watch[S]) String() string { return "watch " + w.name }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (w *Watch[S]) Format(f fmt.State, _ rune) { client.Print(f, w) }
