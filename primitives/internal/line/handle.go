package line

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
	"github.com/zkactors/zkactors/session"
)

// A Presentation is the presentation of places in line by a recipe.
type Presentation[Ev any] struct {
	Tell   func(Event) Ev                 // gives an event its recipe's own type
	Merge  func(last, next Ev) (Ev, bool) // as in [actors.Role]
	Cancel func(last, next Ev) bool       // likewise
	Keep   func(earlier, next Ev) bool    // likewise

	Lost     error // is wrapped by what [Handle.Err] returns, and by a guard that refuses
	Released error // is the cause with which contexts end at a release
}

// A Handle is one place in line: acquired at most once, and over once it is released or
// lost. It is safe for concurrent use, and must be closed.
type Handle[Ev any] struct {
	performer Performer
	actor     *actors.Actor[Input, Ev]

	presentation *Presentation[Ev]

	// The machine belongs to the actor, which steps it in place: a place in line that is held for long costs
	// no more than its fields.
	turn turn
	did  Effects  // the turn's accumulator; between steps it has the events of the last one
	room [2]Event // for the events of a step, which rarely are more

	// front has the data of the contender that is watched. It is set when the watch is
	// confirmed, and cleared by the grant. It counts while the machine waits for that target.
	front *front

	mu       sync.Mutex
	signals  [signals]chan struct{} // closed when raised; nil while no caller waits for that
	raised   [signals]bool
	token    int64
	node     string
	err      error         // why it was lost
	since    time.Duration // it was opened, and from the grant on, since it was acquired; by the session's age
	blocker  *front        // the contender that is watched; nil while there is none, or it was not read
	barred   bool          // the blocker is known to hold
	over     bool          // it is held no more, or never will be: set before contexts are ended, which precedes done
	contexts []*derived
}

// A signal is raised at most once.
type signal int8

const (
	queued  signal = iota // another was seen ahead
	decided               // it is held, or was, or never will be
	done                  // it is held no more, or never will be
	revoked               // a revocation was asked for
	signals = int(iota)
)

// A derived context ends with the handle.
type derived struct{ end context.CancelCauseFunc }

// Open stands in line, and returns at once. inBackground says not to wait, at the end, for
// the confirmation.
func Open[Ev any](s *session.Session, r *Recipe, presentation *Presentation[Ev], inBackground bool) *Handle[Ev] {
	c := client.Of(s)
	h := &Handle[Ev]{presentation: presentation, since: c.Age()}
	h.performer.begin(c, r)
	c.Observer().Waiting(r.Name, r.Path)
	h.turn = turn{New(znode.NewGUID(), r.Rule, c.Warm(h.performer.warmth()) && !h.performer.Plain, inBackground), &h.did}
	h.did.Emit = h.room[:0]
	h.actor = actors.Start(h, actors.Role[*Handle[Ev], Input, Effect, Ev]{
		Name: r.Name, Perform: h.performer.Perform, Inline: inline, Stop: Leave{},
		Merge: presentation.Merge, Cancel: presentation.Cancel, Keep: presentation.Keep,
	})
	h.performer.Begin(h.tell, h.actor)
	return h
}

// inline reports whether the step of an answer is short: all but those that look through the names of the
// members, which may be thousands.
func inline(in Input) bool {
	_, isList := in.(listed)
	_, isSeen := in.(seen)
	return !isList && !isSeen
}

// tell hands the machine an input; one that has ended needs none.
func (h *Handle[Ev]) tell(in Input) { _ = h.actor.Tell(in) }

// Acquire waits until it is held. If that fails, the place has been given up, in the
// background if ctx has ended.
func (h *Handle[Ev]) Acquire(ctx context.Context) error {
	return h.acquire(ctx, "acquire", nil, nil)
}

// TryAcquire waits until it is held, or fails with taken when another contender is ahead. Then
// the place has been given up, unless ctx has ended before that was confirmed. The error names
// op.
func (h *Handle[Ev]) TryAcquire(ctx context.Context, op string, taken error) error {
	return h.acquire(ctx, op, h.when(queued), taken)
}

func (h *Handle[Ev]) acquire(ctx context.Context, op string, queued <-chan struct{}, taken error) error {
	var err error
	select {
	case <-h.when(decided):
		if h.Token() != 0 { // it may be lost since: that is for its holder to see
			return nil
		}
		return fmt.Errorf("%s %w", op, h.Err())
	case <-queued:
		_ = h.Release(ctx) // it goes on
		err = taken
	case <-ctx.Done():
		err = h.performer.session.Explain(h.blocked(context.Cause(ctx))) // before it leaves
		h.tell(Leave{})
	}
	return h.failed(op, err)
}

// blocked adds to why the wait has ended what it waited for, as far as that is known.
func (h *Handle[Ev]) blocked(err error) error {
	h.mu.Lock()
	ahead, holds := h.blocker, h.barred
	h.mu.Unlock()
	if ahead == nil {
		return err
	}
	return fmt.Errorf("%w: %s", err, ahead.describe(holds, ahead.target.Node, h.performer.session.Deadline(0)))
}

// Do waits until it is held, runs f with its context, and gives it up. It waits for that until
// ctx ends.
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

// Done returns a channel that is closed in the very step in which it is lost, and before
// a release is sent. The contexts have ended by then.
func (h *Handle[Ev]) Done() <-chan struct{} { return h.when(done) }

// Revoked returns a channel that is closed when another client asks the holder for it.
func (h *Handle[Ev]) Revoked() <-chan struct{} { return h.when(revoked) }

// Err returns why it was lost; nil while it is not, and after a release.
func (h *Handle[Ev]) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Context returns a context that ends when it is lost or released, or with parent.
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

// Token returns that of the grant; 0 before.
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

// Guard returns an operation that fails a transaction unless it is still held.
func (h *Handle[Ev]) Guard() session.Op {
	return GuardOf(h.performer.Dir, h.Node(), h.presentation.Lost)
}

// GuardOf returns an operation that fails a transaction unless there is the node, with an error that
// wraps lost. Without a node it fails every transaction.
func GuardOf(dir, node string, lost error) session.Op {
	if node == "" {
		node = znode.Join(dir, znode.GUIDName(znode.NewGUID(), "not-acquired"))
	}
	return session.GuardOp(node, refusal{lost, ErrNotHeld})
}

// Release gives it up, or the place in line, and returns when that is confirmed; the
// cause if ctx ends first.
func (h *Handle[Ev]) Release(ctx context.Context) error {
	if err := client.CheckContext(ctx); err != nil {
		return h.failed("release", err)
	}
	h.tell(Leave{})
	select {
	case <-h.actor.Ended():
		return h.Err()
	case <-ctx.Done():
		return h.failed("release", context.Cause(ctx))
	}
}

// Downgrade has the holder exclude others that share no more.
func (h *Handle[Ev]) Downgrade(ctx context.Context) error {
	err := client.Ask(ctx, h.actor, func(r actors.Reply[error]) Input { return Downgrade{r} })
	if errors.Is(err, actors.ErrEnded) {
		err = ErrNotHeld
	}
	if lost := h.Err(); lost != nil && errors.Is(err, ErrNotHeld) {
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

// Close releases it and waits for that, at most until the session's deadline has passed.
func (h *Handle[Ev]) Close() { h.actor.Close() }

// observe keeps what the accessors return up to date with the machine.
func (h *Handle[Ev]) observe() {
	m := &h.turn
	now := h.performer.session.Age()
	var waited time.Duration
	h.mu.Lock()
	for _, ev := range h.did.Emit {
		switch ev := ev.(type) {
		case Waiting:
			if h.token == 0 {
				h.raise(queued)
			}
		case Acquired:
			waited, h.token, h.since = now-h.since, ev.Token, now
			h.raise(decided)
		case Revoked:
			h.raise(revoked)
		case Lost:
			h.err = fmt.Errorf("%s %s: %w", h.performer.Name, h.performer.Path, Because(h.presentation.Lost, ev.Err))
		case Suspended, Resumed, Released:
		}
	}
	h.blocker, h.barred = h.ahead()
	if m.Holding() {
		h.node = m.node // another after a downgrade
	}
	over := !h.over && (m.Ended() || h.token != 0 && !m.Holding())
	var contexts []*derived
	if over {
		h.over, contexts, h.contexts = true, h.contexts, nil
	}
	held, since, reason := h.token != 0, h.since, h.reason()
	h.mu.Unlock()

	// The calls that follow run code of the caller, or take its locks.
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

// report tells the session's observer.
func (h *Handle[Ev]) report(events []Event, waited time.Duration) {
	observer := h.performer.session.Observer()
	for _, ev := range events {
		switch ev := ev.(type) {
		case Acquired:
			observer.Waited(h.performer.Name, h.performer.Path, waited)
		case Lost:
			observer.Lost(h.performer.Name, h.performer.Path, Because(h.presentation.Lost, ev.Err))
		case Revoked:
			observer.Revoked(h.performer.Name, h.performer.Path)
		case Waiting, Suspended, Resumed, Released:
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
