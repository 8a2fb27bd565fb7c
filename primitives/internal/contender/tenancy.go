package contender

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
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

	// Observe, if not nil, is called with each event of the line, on the actor's goroutine, when
	// the accessors are up to date and before the effects of the step are performed.
	Observe func(line.Event)

	// Retried says that the recipe joins the line again when it was refused: then the observer
	// hears of no failure.
	Retried bool

	Lost     error // wrapped by [Handle.Err] after a loss, and by the error of a guard that refuses
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

// A tenancy is what callers see of a handle, from the call that opens it to its end: the part that
// a [Handle] and a [Several] have in common. It is safe for concurrent use.
type tenancy[In, Ev any] struct {
	actor        *actors.Actor[In, Ev]
	leave        In // the command
	session      client.Session
	presentation *Presentation[Ev]
	name         string   // of the recipe
	paths        []string // of the lines

	mu      sync.Mutex
	signals [signals]chan struct{} // closed when raised; nil until a caller asks for it
	raised  [signals]bool
	token   int64
	err     error // the reason of the loss or failure; nil before it, and after a release
	stands  error // why the place is not given up although it was released; nil if it is

	// When the handle was opened and, from the grant on, when it was acquired; by the session's
	// age.
	since time.Duration

	// The contender that is watched; nil if there is none, or it was not read.
	blocker *front

	barred bool // the blocker is known to hold

	forfeited bool // set by Forfeit, before contexts end

	// It is no longer held, or never will be. It is set before contexts end, and they end before
	// done.
	over bool

	// The contexts of the grant. Forfeit and the step that ends the grant may run at the same time.
	// Each ends the whole list, so no context lasts when either has raised done. Therefore the list
	// does not change from over or forfeited on. The step clears it when all contexts have ended.
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

// begin notes that the lines are about to be joined.
func (h *tenancy[In, Ev]) begin(c client.Session, leave In, presentation *Presentation[Ev], name string, paths ...string) {
	h.session, h.leave, h.presentation, h.name, h.paths, h.since = c, leave, presentation, name, paths, c.Age()
	for _, path := range paths {
		c.Observer().Waiting(name, path)
	}
}

// inline reports whether the step of an input is short. A step that goes through the names of the
// members is not: there may be thousands.
func inline(in line.Input) bool {
	_, isList := in.(line.Listed)
	_, isSeen := in.(line.Seen)
	return !isList && !isSeen
}

// tell hands the machine an input, unless it has ended.
func (h *tenancy[In, Ev]) tell(in In) { _ = h.actor.Tell(in) }

// Acquire waits until the place is held. If it fails, it has given up the place; if ctx has ended,
// in the background.
func (h *tenancy[In, Ev]) Acquire(ctx context.Context) error {
	return h.acquire(ctx, "acquire", nil, nil)
}

// TryAcquire waits until the place is held, or fails with taken when another contender is ahead.
// Then it has given up the place, unless ctx ended before the confirmation. The error names op.
func (h *tenancy[In, Ev]) TryAcquire(ctx context.Context, op string, taken error) error {
	return h.acquire(ctx, op, h.when(queued), taken)
}

func (h *tenancy[In, Ev]) acquire(ctx context.Context, op string, queued <-chan struct{}, taken error) error {
	var err error
	select {
	case <-h.when(decided):
		if h.Token() != 0 { // it may be lost by now, which the holder finds out
			return nil
		}
		return fmt.Errorf("%s %w", op, h.Err())
	case <-queued:
		_ = h.Release(ctx) // it goes on
		err = client.Both(taken, h.standing())
	case <-ctx.Done():
		err = h.blocked(context.Cause(ctx)) // before it leaves
		h.tell(h.leave)
	}
	return h.failed(op, err)
}

// blocked adds the contender ahead, if it is known, to the reason for which the wait has ended.
func (h *tenancy[In, Ev]) blocked(err error) error {
	h.mu.Lock()
	ahead, holds := h.blocker, h.barred
	h.mu.Unlock()
	if ahead == nil {
		return err
	}
	return fmt.Errorf("%w: %s", err, describe(ahead.Obstacle, holds, ahead.target.Node, h.session.Deadline(0)))
}

// Do acquires the place, runs f with a context of the grant, and releases the place. It waits for
// the release until ctx ends.
func (h *tenancy[In, Ev]) Do(ctx context.Context, within func(context.Context) (context.Context, context.CancelFunc), f func(ctx context.Context) error) error {
	if err := h.Acquire(ctx); err != nil {
		return err
	}
	defer h.Release(ctx) //nolint:errcheck // if f has not returned; it goes on
	work, end := within(ctx)
	defer end()
	err := f(work)
	if err == nil {
		err = h.Err()
	}
	_ = h.Release(ctx) // it goes on
	return client.Both(err, h.standing())
}

// Events returns the channel of events.
func (h *tenancy[In, Ev]) Events() <-chan Ev { return h.actor.Events() }

// Done returns a channel that is closed in the step in which the place is lost, and before a
// release is sent. The contexts of the grant end before it is closed.
func (h *tenancy[In, Ev]) Done() <-chan struct{} { return h.when(done) }

// Revoked returns a channel that is closed when another client asks the holder to leave.
func (h *tenancy[In, Ev]) Revoked() <-chan struct{} { return h.when(revoked) }

// Err returns the reason of the loss, or why there was no grant; nil before, and after a release.
func (h *tenancy[In, Ev]) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Context returns a context that ends when the place is lost or released, or with parent.
func (h *tenancy[In, Ev]) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	d := &derived{end: end}
	h.mu.Lock()
	over, reason := h.over || h.forfeited, h.reason()
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
		if i := slices.Index(h.contexts, d); i >= 0 && !h.over && !h.forfeited {
			h.contexts = slices.Delete(h.contexts, i, i+1)
		}
	}
}

func (h *tenancy[In, Ev]) reason() error {
	if h.err != nil {
		return h.err
	}
	return h.presentation.Released
}

// Token returns the token of the grant; 0 before.
func (h *tenancy[In, Ev]) Token() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token
}

// Release gives up the grant, or the place in line, and returns when that is confirmed. If ctx ends
// first, it returns the cause. If the server refuses it for a session timeout, the error is that,
// and the attempts go on.
func (h *tenancy[In, Ev]) Release(ctx context.Context) error {
	if err := client.CheckContext(ctx); err != nil {
		return h.failed("release", err)
	}
	h.tell(h.leave)
	select {
	case <-h.actor.Ended():
		return cmp.Or(h.Err(), h.standing())
	case <-ctx.Done():
		return h.failed("release", context.Cause(ctx))
	}
}

// standing returns why the place is not given up although it was released.
func (h *tenancy[In, Ev]) standing() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stands
}

// Leave is Release, and returns at once.
func (h *tenancy[In, Ev]) Leave() { h.tell(h.leave) }

// Forfeit ends the contexts of the grant, as Leave does, but the place stands until Leave: so a
// user who has not given it by himself learns of that before another contender is granted.
func (h *tenancy[In, Ev]) Forfeit() {
	h.mu.Lock()
	h.forfeited = true
	contexts, reason := h.contexts, h.reason()
	h.mu.Unlock()
	for _, d := range contexts {
		d.end(reason)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.raise(done)
}

// failed names the operation and the lines in an error, and for a wait that has ended with its
// context the servers that do not answer.
func (h *tenancy[In, Ev]) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", op, h.what(), h.session.Explain(err))
}

// what names the recipe and the lines, or the first of many.
func (h *tenancy[In, Ev]) what() string {
	const most = 3
	if n := len(h.paths) - most; n > 0 {
		return fmt.Sprintf("%s %s and %d more", h.name, strings.Join(h.paths[:most], ", "), n)
	}
	return h.name + " " + strings.Join(h.paths, ", ")
}

// Close releases the place, and waits for the release, at most until the session's lease has ended.
func (h *tenancy[In, Ev]) Close() { h.actor.Close() }

// observe brings the accessors up to date after a step with these events.
func (h *tenancy[In, Ev]) observe(events []line.Event, holding, ended bool) {
	now := h.session.Age()
	var waited time.Duration
	h.mu.Lock()
	for _, ev := range events {
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
			h.err = fmt.Errorf("%s: %w", h.what(), Loss(h.presentation.Lost, ev))
		case line.NotGranted:
			h.err = fmt.Errorf("%s: %w", h.what(), ev.Err)
		case line.Released:
			h.stands = h.failed("release", ev.Err)
		case line.Suspended, line.Resumed, line.ConditionChanged:
		}
	}
	over := !h.over && (ended || h.token != 0 && !holding)
	var contexts []*derived
	if over {
		h.over, contexts = true, h.contexts
	}
	held, since, reason := h.token != 0, h.since, h.reason()
	h.mu.Unlock()

	// The following calls run code of the caller, or take locks of the caller.
	for _, d := range contexts {
		d.end(reason)
	}
	if over {
		h.mu.Lock()
		h.contexts = nil
		h.raise(decided)
		h.raise(done)
		h.mu.Unlock()
	}
	if h.presentation.Observe != nil {
		for _, ev := range events {
			h.presentation.Observe(ev)
		}
	}
	observer := h.session.Observer()
	for _, path := range h.paths {
		h.report(observer, path, events, waited)
		switch {
		case over && held:
			observer.Held(h.name, path, now-since)
		case over:
			observer.GaveUp(h.name, path, now-since)
		}
	}
}

// report notifies the session's observer.
func (h *tenancy[In, Ev]) report(observer session.Observer, path string, events []line.Event, waited time.Duration) {
	for _, ev := range events {
		switch ev := ev.(type) {
		case line.Acquired:
			observer.Waited(h.name, path, waited)
		case line.Lost:
			observer.Lost(h.name, path, Loss(h.presentation.Lost, ev))
		case line.NotGranted:
			if !h.presentation.Retried {
				observer.Failed(h.name, path, ev.Err)
			}
		case line.Revoked:
			observer.Revoked(h.name, path)
		case line.Waiting, line.Suspended, line.Resumed, line.ConditionChanged, line.Released:
		}
	}
}

// when returns a channel that is closed when the signal is raised.
func (h *tenancy[In, Ev]) when(s signal) <-chan struct{} {
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
func (h *tenancy[In, Ev]) raise(s signal) {
	if h.raised[s] {
		return
	}
	h.raised[s] = true
	if h.signals[s] != nil {
		close(h.signals[s])
	}
}

// Loss returns the error of a recipe for a grant that is lost.
func Loss(lost error, ev line.Lost) error { return fmt.Errorf("%w: %w", lost, ev.Err) }
