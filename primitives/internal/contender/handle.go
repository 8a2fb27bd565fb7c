package contender

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// A Presentation converts the events and errors of the line to those of a recipe.
type Presentation[Ev any] struct {
	Tell   func(line.Event) Ev            // converts an event other than ConditionChanged
	Merge  func(last, next Ev) (Ev, bool) // as in [actors.Role]
	Cancel func(last, next Ev) bool       // likewise
	Keep   func(earlier, next Ev) bool    // likewise

	// Changed returns the recipe's own event for a change of its condition, or false if this change
	// is no event. before and now are answers of [Condition.Read]. If Changed is nil, the recipe
	// has no such event.
	Changed func(before, now string) (Ev, bool)

	Lost     error // wrapped by [Handle.Err], and by the error of a guard that refuses
	Released error // the cause with which contexts end at a release
}

// event converts an event of the line to the recipe's, if it has one for it.
func (p *Presentation[Ev]) event(ev line.Event) (own Ev, is bool) {
	changed, is := ev.(line.ConditionChanged)
	switch {
	case !is:
		return p.Tell(ev), true
	case p.Changed == nil:
		return own, false
	}
	return p.Changed(changed.Before, changed.Now)
}

// A Handle is one place in line. It is acquired at most once, and is over when it is released or
// lost. It is safe for concurrent use, and must be closed.
type Handle[Ev any] struct {
	performer Performer
	actor     *actors.Actor[line.Input, Ev]

	presentation *Presentation[Ev]

	// The machine belongs to the actor, which steps it in place: a place that is held for long
	// costs no more memory than its fields.
	machine line.Machine

	// The accumulator of its steps. Between steps it has the events of the last one.
	did line.Effects

	room [2]line.Event // memory for the events of a step, which rarely are more

	// front describes the contender that is watched. It is set when the watch is confirmed, and
	// cleared by the grant. It counts only while the machine waits for that target.
	front *front

	mu      sync.Mutex
	signals [signals]chan struct{} // closed when raised; nil until a caller asks for it
	raised  [signals]bool
	token   int64
	node    string
	err     error // the reason of the loss; nil before it, and after a release

	// When the handle was opened and, from the grant on, when it was acquired; by the session's
	// age.
	since time.Duration

	// The contender that is watched; nil if there is none, or it was not read.
	blocker *front

	barred bool // the blocker is known to hold

	// It is no longer held, or never will be. It is set before contexts end, and they end before
	// done.
	over bool

	contexts []*derived
}

// A signal is raised at most once.
type signal int8

const (
	queued  signal = iota // another contender was seen ahead
	decided               // it is held, or was, or never will be
	done                  // it is no longer held, or never will be
	revoked               // another client has asked the holder to leave
	signals = int(iota)
)

// A derived is a context that ends with the handle.
type derived struct{ end context.CancelCauseFunc }

// Open joins the line, and returns at once. With inBackground, a release does not wait for the
// confirmation.
func Open[Ev any](s *session.Session, r *Recipe, presentation *Presentation[Ev], inBackground bool) *Handle[Ev] {
	c := client.Of(s)
	h := &Handle[Ev]{presentation: presentation, since: c.Age()}
	h.performer.begin(c, r)
	c.Observer().Waiting(r.Name, r.Path)
	h.machine = line.New(znode.NewGUID(), r.Rule, h.performer.Warm(), inBackground)
	h.did.Emit = h.room[:0]
	h.actor = actors.Start(h, actors.Role[*Handle[Ev], line.Input, line.Effect, Ev]{
		Name: r.Name, Perform: h.performer.Perform, Inline: inline, Stop: line.Leave{},
		Merge: presentation.Merge, Cancel: presentation.Cancel, Keep: presentation.Keep,
	})
	h.performer.Begin(h.tell, h.actor)
	return h
}

// inline reports whether the step of an input is short. A step that goes through the names of the
// members is not: there may be thousands.
func inline(in line.Input) bool {
	_, isList := in.(line.Listed)
	_, isSeen := in.(line.Seen)
	return !isList && !isSeen
}

// tell hands the machine an input, unless it has ended.
func (h *Handle[Ev]) tell(in line.Input) { _ = h.actor.Tell(in) }

// Acquire waits until the place is held. If it fails, it has given up the place; if ctx has ended,
// in the background.
func (h *Handle[Ev]) Acquire(ctx context.Context) error {
	return h.acquire(ctx, "acquire", nil, nil)
}

// TryAcquire waits until the place is held, or fails with taken when another contender is ahead.
// Then it has given up the place, unless ctx ended before the confirmation. The error names op.
func (h *Handle[Ev]) TryAcquire(ctx context.Context, op string, taken error) error {
	return h.acquire(ctx, op, h.when(queued), taken)
}

func (h *Handle[Ev]) acquire(ctx context.Context, op string, queued <-chan struct{}, taken error) error {
	var err error
	select {
	case <-h.when(decided):
		if h.Token() != 0 { // it may be lost by now, which the holder finds out
			return nil
		}
		return fmt.Errorf("%s %w", op, h.Err())
	case <-queued:
		_ = h.Release(ctx) // it goes on
		err = taken
	case <-ctx.Done():
		err = h.performer.session.Explain(h.blocked(context.Cause(ctx))) // before it leaves
		h.tell(line.Leave{})
	}
	return h.failed(op, err)
}

// blocked adds the contender ahead, if it is known, to the reason for which the wait has ended.
func (h *Handle[Ev]) blocked(err error) error {
	h.mu.Lock()
	ahead, holds := h.blocker, h.barred
	h.mu.Unlock()
	if ahead == nil {
		return err
	}
	return fmt.Errorf("%w: %s", err, describe(ahead.Obstacle, holds, ahead.target.Node, h.performer.session.Deadline(0)))
}

// Do acquires the place, runs f with a context of the grant, and releases the place. It waits for
// the release until ctx ends.
func (h *Handle[Ev]) Do(ctx context.Context, within func(context.Context) (context.Context, context.CancelFunc), f func(ctx context.Context) error) error {
	if err := h.Acquire(ctx); err != nil {
		return err
	}
	defer func() { _ = h.Release(ctx) }() // it goes on
	work, end := within(ctx)
	defer end()
	if err := f(work); err != nil {
		return err
	}
	return h.Err()
}

// Events returns the channel of events.
func (h *Handle[Ev]) Events() <-chan Ev { return h.actor.Events() }

// Done returns a channel that is closed in the step in which the place is lost, and before a
// release is sent. The contexts of the grant end before it is closed.
func (h *Handle[Ev]) Done() <-chan struct{} { return h.when(done) }

// Revoked returns a channel that is closed when another client asks the holder to leave.
func (h *Handle[Ev]) Revoked() <-chan struct{} { return h.when(revoked) }

// Err returns the reason of the loss; nil before it, and after a release.
func (h *Handle[Ev]) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Context returns a context that ends when the place is lost or released, or with parent.
func (h *Handle[Ev]) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	d := &derived{end: end}
	h.mu.Lock()
	over, reason := h.over, h.reason()
	if !over {
		h.contexts = append(h.contexts, d)
	}
	h.mu.Unlock()
	if over {
		end(reason)
	}
	return ctx, func() {
		end(context.Canceled)
		h.mu.Lock()
		defer h.mu.Unlock()
		if i := slices.Index(h.contexts, d); i >= 0 {
			h.contexts = slices.Delete(h.contexts, i, i+1)
		}
	}
}

func (h *Handle[Ev]) reason() error {
	if h.err != nil {
		return h.err
	}
	return h.presentation.Released
}

// Token returns the token of the grant; 0 before.
func (h *Handle[Ev]) Token() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token
}

// Node returns the path of the node that stands for the grant; "" before.
func (h *Handle[Ev]) Node() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.node == "" {
		return ""
	}
	return znode.Join(h.performer.Dir, h.node)
}

// Guard returns an operation that fails a transaction unless the place is still held.
func (h *Handle[Ev]) Guard() session.Op {
	return GuardOf(h.performer.Dir, h.Node(), h.presentation.Lost)
}

// GuardOf returns an operation that fails a transaction unless the node exists. Its error wraps
// lost. If node is "", it fails every transaction.
func GuardOf(dir, node string, lost error) session.Op {
	if node == "" {
		node = znode.Join(dir, znode.GUIDName(znode.NewGUID(), "not-acquired"))
	}
	return session.GuardOp(node, refusal{lost, line.ErrNotHeld})
}

// Release gives up the grant, or the place in line, and returns when that is confirmed. If ctx ends
// first, it returns the cause.
func (h *Handle[Ev]) Release(ctx context.Context) error {
	if err := client.CheckContext(ctx); err != nil {
		return h.failed("release", err)
	}
	h.tell(line.Leave{})
	select {
	case <-h.actor.Ended():
		return h.Err()
	case <-ctx.Done():
		return h.failed("release", context.Cause(ctx))
	}
}

// Downgrade replaces a writer's grant by a reader's.
func (h *Handle[Ev]) Downgrade(ctx context.Context) error {
	err := client.Ask(ctx, h.actor, func(r actors.Reply[error]) line.Input { return line.Downgrade{Reply: r} })
	if errors.Is(err, actors.ErrEnded) {
		err = line.ErrNotHeld
	}
	if lost := h.Err(); lost != nil && errors.Is(err, line.ErrNotHeld) {
		return fmt.Errorf("downgrade %w", lost)
	}
	return h.failed("downgrade", err)
}

// failed names the operation and the lock in an error.
func (h *Handle[Ev]) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %s: %w", op, h.performer.Name, h.performer.Path, err)
}

// Close releases the place, and waits for the release, at most until the session's deadline.
func (h *Handle[Ev]) Close() { h.actor.Close() }

// observe brings the accessors up to date with the machine.
func (h *Handle[Ev]) observe() {
	m := &h.machine
	now := h.performer.session.Age()
	var waited time.Duration
	h.mu.Lock()
	for _, ev := range h.did.Emit {
		switch ev := ev.(type) {
		case line.Waiting:
			if h.token == 0 {
				h.raise(queued)
			}
		case line.Acquired:
			waited, h.token, h.since = now-h.since, ev.Token, now
			h.raise(decided)
		case line.Revoked:
			h.raise(revoked)
		case line.Lost:
			h.err = fmt.Errorf("%s %s: %w", h.performer.Name, h.performer.Path, Because(h.presentation.Lost, ev.Err))
		case line.Suspended, line.Resumed, line.ConditionChanged, line.Released:
		}
	}
	h.blocker, h.barred = h.ahead()
	if m.Holding() {
		h.node = m.Node() // a downgrade has changed it
	}
	over := !h.over && (m.Ended() || h.token != 0 && !m.Holding())
	var contexts []*derived
	if over {
		h.over, contexts, h.contexts = true, h.contexts, nil
	}
	held, since, reason := h.token != 0, h.since, h.reason()
	h.mu.Unlock()

	// The following calls run code of the caller, or take locks of the caller.
	for _, d := range contexts {
		d.end(reason)
	}
	if over {
		h.mu.Lock()
		h.raise(decided)
		h.raise(done)
		h.mu.Unlock()
	}
	if m.Ended() {
		h.performer.End()
	}
	h.report(h.did.Emit, waited)
	switch observer := h.performer.session.Observer(); {
	case over && held:
		observer.Held(h.performer.Name, h.performer.Path, now-since)
	case over:
		observer.GaveUp(h.performer.Name, h.performer.Path, now-since)
	}
}

// report notifies the session's observer.
func (h *Handle[Ev]) report(events []line.Event, waited time.Duration) {
	observer := h.performer.session.Observer()
	for _, ev := range events {
		switch ev := ev.(type) {
		case line.Acquired:
			observer.Waited(h.performer.Name, h.performer.Path, waited)
		case line.Lost:
			observer.Lost(h.performer.Name, h.performer.Path, Because(h.presentation.Lost, ev.Err))
		case line.Revoked:
			observer.Revoked(h.performer.Name, h.performer.Path)
		case line.Waiting, line.Suspended, line.Resumed, line.ConditionChanged, line.Released:
		}
	}
}

// when returns a channel that is closed when the signal is raised.
func (h *Handle[Ev]) when(s signal) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.signals[s] == nil {
		h.signals[s] = make(chan struct{})
		if h.raised[s] {
			close(h.signals[s])
		}
	}
	return h.signals[s]
}

// raise raises a signal. The handle is locked.
func (h *Handle[Ev]) raise(s signal) {
	if h.raised[s] {
		return
	}
	h.raised[s] = true
	if h.signals[s] != nil {
		close(h.signals[s])
	}
}

// A front describes the contender that is watched, by the reading that came with the watch.
type front struct {
	target line.Target
	line.Obstacle
}

// ahead returns the contender that is watched, and whether it is known to hold. It returns nil if
// there is none, or it was not read. Where contenders share, the one watched may itself wait for
// contenders that we do not count, so it is not known to hold.
func (h *Handle[Ev]) ahead() (f *front, holds bool) {
	m := &h.machine
	if f = h.front; !m.Waiting() || f == nil || f.target != m.Watching() {
		return nil, false
	}
	traits := h.performer.Rule.Traits()
	return f, m.Ahead() == 1 && !traits.Lists && !traits.AnnouncesGrants
}

// A refusal is the reason for which a contender has no place in line, or no grant. It wraps the
// error that every loss wraps, but its text does not speak of a loss.
type refusal struct{ lost, why error }

func (r refusal) Error() string   { return r.why.Error() }
func (r refusal) Unwrap() []error { return []error{r.lost, r.why} }

// Because returns the error of a recipe for a place that is lost, or was refused.
func Because(lost, why error) error {
	if _, refused := errors.AsType[line.PlaceError](why); refused || errors.Is(why, session.ErrHistoryLost) {
		return refusal{lost, why}
	}
	return fmt.Errorf("%w: %w", lost, why)
}
