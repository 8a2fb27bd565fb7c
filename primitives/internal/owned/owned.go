// Package owned keeps the resources that a handle of a recipe has beside its machine: the
// subscription to the events of the session, watches and timers. They end together, with the
// handle.
package owned

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// A Thing is an activity that lasts until it is cancelled, like a [session.Subscription].
type Thing interface{ Cancel() }

// A Func is a Thing; calling the function cancels it.
type Func func()

// Cancel implements [Thing].
func (f Func) Cancel() { f() }

// A Set has the things that one handle owns. The zero Set is ready for use. A Set is safe for
// concurrent use. Do not call its methods while holding a lock that a thing acquires.
type Set struct {
	// Clock, if not nil, is asked for timers instead of [actors.After].
	Clock Clock

	mu    sync.Mutex
	items []item
	room  [4]item       // memory for items of most handles
	over  bool          // set by End. While set, nothing is kept.
	pause time.Duration // the last pause, see [Set.Answer]
	steps int           // the calls of [Set.StepBack]
}

// A Clock has timers like [actors.After].
type Clock interface {
	After(d time.Duration, f func()) (stop func())
}

type item struct {
	key   any
	thing Thing
}

// events is the key of the subscription to the events of the session.
type events struct{}

// Follow calls tell with every event of the session, beginning with its present state. If ended is
// not nil, the session waits for it before it ends itself on the server.
func (s *Set) Follow(of client.Session, tell func(session.Event), ended <-chan struct{}) {
	s.Keep(events{}, Func(of.Subscribe(func(ev session.Event) (settled <-chan struct{}) {
		tell(ev)
		if _, closed := ev.(session.Closed); closed {
			return ended
		}
		return nil
	})))
}

// Keep keeps a thing until the end, and cancels an earlier one with the same key.
func (s *Set) Keep(key any, thing Thing) {
	s.mu.Lock()
	last := s.remove(key)
	if s.over {
		last = thing
	} else {
		s.add(item{key, thing})
	}
	s.mu.Unlock()
	if last != nil {
		last.Cancel()
	}
}

func (s *Set) add(i item) {
	if s.items == nil {
		s.items = s.room[:0]
	}
	before := s.items
	s.items = append(before, i)
	if len(before) == cap(before) {
		clear(before) // the room keeps nothing alive
	}
}

// Cancel cancels the thing with the key, if there is one.
func (s *Set) Cancel(key any) {
	s.mu.Lock()
	last := s.remove(key)
	s.mu.Unlock()
	if last != nil {
		last.Cancel()
	}
}

// remove takes out the thing with the key, and things that have ended by themselves.
func (s *Set) remove(key any) (last Thing) {
	s.items = slices.DeleteFunc(s.items, func(i item) bool {
		if i.key == key {
			last = i.thing
			return true
		}
		t, ends := i.thing.(interface{ Over() bool })
		return ends && t.Over()
	})
	return last
}

// Get returns the thing with the key; nil if there is none.
func (s *Set) Get(key any) Thing {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.items {
		if i.key == key {
			return i.thing
		}
	}
	return nil
}

// Any reports whether a thing with another key has the property.
func (s *Set) Any(except any, property func(Thing) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.items, func(i item) bool { return i.key != except && property(i.thing) })
}

// After calls f when d has passed, unless the set ends first, or another timer with the key
// is started.
func (s *Set) After(key any, d time.Duration, f func()) {
	t, after := new(timer), actors.After
	if s.Clock != nil {
		after = s.Clock.After
	}
	t.stop = after(d, func() {
		t.fired.Store(true)
		f()
	})
	s.Keep(key, t)
}

type timer struct {
	stop  func()
	fired atomic.Bool
}

func (t *timer) Cancel()    { t.stop() }
func (t *timer) Over() bool { return t.fired.Load() }

// The pause before a request is repeated.
const shortest, longest = 20 * time.Millisecond, 5 * time.Second

// Answer calls f, which answers the machine with the error of a request, or nil. If the server was
// busy, Answer pauses first, so that the machine may repeat the request at once. The pause grows
// from one busy answer to the next.
func (s *Set) Answer(err error, f func()) {
	if pause := s.rest(err); pause > 0 {
		s.After(new(int), pause, f)
		return
	}
	f()
}

// Tell is [Set.Answer] with an input for the machine. Without a pause it allocates nothing.
func Tell[In any](s *Set, err error, tell func(In), in In) {
	if pause := s.rest(err); pause > 0 {
		s.After(new(int), pause, func() { tell(in) })
		return
	}
	tell(in)
}

// Wait pauses after an error as [Set.Answer] does. It returns the cause if ctx ends first.
func (s *Set) Wait(ctx context.Context, err error) error {
	return await(ctx, func(over func()) { s.Answer(err, over) })
}

// StepBack pauses for a random time, twice as long with each call, up to a second: so that of many
// that change one node at once not all are refused but one. It returns the cause if ctx ends first.
func (s *Set) StepBack(ctx context.Context) error {
	const step, doublings = 4 * time.Millisecond, 8
	s.mu.Lock()
	pause := rand.N(step << s.steps)
	s.steps = min(s.steps+1, doublings)
	s.mu.Unlock()
	return await(ctx, func(over func()) { s.After(new(int), pause, over) })
}

// await returns nil when a pause is over, and the cause if ctx has ended by then. If both come at
// once, a caller that went on would fail again, and could forget what is in doubt.
func await(ctx context.Context, begin func(over func())) error {
	over := make(chan struct{})
	begin(func() { close(over) })
	select {
	case <-over:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

func (s *Set) rest(err error) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !errors.Is(err, session.ErrBusy) {
		s.pause = 0
		return 0
	}
	s.pause = min(max(2*s.pause, shortest), longest)
	return s.pause
}

// End cancels everything.
func (s *Set) End() {
	s.mu.Lock()
	items := s.items
	s.items, s.over = nil, true
	s.mu.Unlock()
	for _, i := range items {
		i.thing.Cancel()
	}
	clear(items)
}

// Remove removes nodes, and returns nil when they are gone. If the removal is refused, it returns
// the error. If ctx ends first, it returns the cause and stops removing.
func Remove(ctx context.Context, s *session.Session, r session.Removal) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	answer := make(chan error, 1)
	r.Impatient = true
	cancel := r.Begin(s.Async(0), func(err error) { answer <- err })
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		cancel()
		return context.Cause(ctx)
	}
}
