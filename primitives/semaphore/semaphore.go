package semaphore

import (
	"context"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// A Lease is one attempt to be among the holders of a semaphore. It is acquired at most once, and
// is over when it is released or lost. Create one with [New] or [Acquire].
//
// A Lease is safe for concurrent use, and must be closed.
type Lease struct {
	handle  *contender.Handle[Event]
	session *session.Session
	path    string
	weight  int
	numbers *numbers // nil if it has no number
}

// New joins the line for a lease of the semaphore at path, and returns at once: [Lease.Events]
// reports what happens. A session without a connection joins when it has one. New records the limit
// if there is no record yet.
//
// Two calls of one goroutine may join in the other order. If the second is to stand behind, make it
// when the first has reported [Waiting] or [Acquired].
//
// If opts is nil, the default options are used. The error names the argument that is wrong; nothing
// else fails here. If another limit is recorded, or the path belongs to another recipe
// ([ErrForeign]), the lease receives [Failed].
func New(s *session.Session, path string, limit int, opts *Options) (*Lease, error) {
	return open(s, path, limit, opts, nil)
}

// open joins the line for a lease that does not wait for the leases within.
func open(s *session.Session, path string, limit int, opts *Options, within []*Lease) (*Lease, error) {
	o := opts.withDefaults()
	if err := validate(s, path, limit, o); err != nil {
		return nil, err
	}
	l := rule(limit, o)
	r := recipeOf(path, o.Data, l, inside(l, within))
	n, _ := r.Claim.(*numbers)
	return &Lease{contender.Open(s, r, &presentation, o.ReleaseInBackground), s, path, o.Weight, n}, nil
}

// inside returns the rule of a lease that is requested in the context of others.
func inside(r admission, within []*Lease) line.Rule {
	if len(within) == 0 {
		return r
	}
	n := nested{admission: r}
	for _, l := range within {
		_, name := znode.Split(l.Node())
		n.within += name + "/"
	}
	return n
}

// Acquire joins the line for a lease of the semaphore at path, and returns when it holds the lease.
//
// If ctx ends first, the error is its cause and, if it is known, the contender ahead. The place in
// line is then given up in the background: whatever the network does, the node is deleted when the
// session is connected, or ends. The path and its limit stay for a while, see the package comment.
// If another limit is recorded, the error wraps [ErrLimit], and nothing is left behind. If there is
// no place in line for another reason, or it is lost, the error wraps the reason: see [Failed].
//
// If ctx comes from [Lease.Context] of leases of the same session and path, the call must not wait
// for these. The error is [ErrReentered] if they leave no room, or if a waiter ahead cannot have
// room before they are released. A lease that was granted under a greater limit than the present
// one counts as such a waiter while it is held.
func Acquire(ctx context.Context, s *session.Session, path string, limit int, opts *Options) (*Lease, error) {
	l, err := enter(ctx, s, path, limit, opts)
	if err != nil {
		return nil, err
	}
	if err := l.handle.Acquire(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// TryAcquire is [Acquire], but fails with [ErrFull] when there is no room at once. Then it has left
// the line again, unless ctx ended before the confirmation.
func TryAcquire(ctx context.Context, s *session.Session, path string, limit int, opts *Options) (*Lease, error) {
	if err := client.Usable(ctx); err != nil {
		return nil, fmt.Errorf("acquire semaphore %s: %w", path, err)
	}
	l, err := New(s, path, limit, opts)
	if err != nil {
		return nil, err
	}
	if err := l.handle.TryAcquire(ctx, "try", ErrFull); err != nil {
		return nil, err
	}
	return l, nil
}

// Do acquires a lease of the semaphore at path, and runs f while it holds it. The context of f ends
// when the lease is lost, with a cause that wraps [ErrLost], or when ctx ends. Do releases the
// lease after f has returned, and waits for the release until ctx ends; then the release goes on in
// the background.
//
// Do refuses a nil f before it acquires a lease. It returns the error of f. If f returned nil, and
// the lease was lost before f returned, the error wraps [ErrLost]. If f panics, or calls
// [runtime.Goexit], the lease is released, and that goes on.
func Do(ctx context.Context, s *session.Session, path string, limit int, opts *Options, f func(ctx context.Context) error) error {
	if f == nil {
		return fmt.Errorf("semaphore: f: %w: the function is nil", session.ErrInvalidArgument)
	}
	l, err := enter(ctx, s, path, limit, opts)
	if err != nil {
		return err
	}
	return l.handle.Do(ctx, l.Context, f)
}

// enter joins the line, unless the leases to which ctx belongs leave no room for another.
func enter(ctx context.Context, s *session.Session, path string, limit int, opts *Options) (*Lease, error) {
	if err := client.Usable(ctx); err != nil {
		return nil, fmt.Errorf("acquire semaphore %s: %w", path, err)
	}
	o := opts.withDefaults()
	sum, within := o.Weight, contender.Holders[*Lease](ctx, s, path)
	for _, l := range within {
		sum += l.weight
	}
	if sum > max(limit, o.Weight) && !o.AnyLimit {
		return nil, fmt.Errorf("acquire semaphore %s: %w: %d of %d", path, ErrReentered, sum, limit)
	}
	return open(s, path, limit, opts, within)
}

// Events returns the channel of events, always the same one:
//
//	Waiting* (Acquired (Suspended | Resumed)* (Released | Lost) | Released | Failed)
//
// It begins with the newest event before the first call. While the lease is held, Acquired comes
// before that one. When the lease is over, only the last event comes. The channel is closed after
// it: receive with "ev, ok := <-events", because a select over a closed channel spins.
func (l *Lease) Events() <-chan Event { return l.handle.Events() }

// Done returns a channel that is closed when the lease is no longer held, or never will be: in the
// step in which the loss is known, and before a release is sent. The contexts end before it is
// closed.
func (l *Lease) Done() <-chan struct{} { return l.handle.Done() }

// Err returns an error that wraps [ErrLost] and the reason, if the lease was lost, and the error of
// [Failed], if it was not acquired. Before that, and after a release, it returns nil.
func (l *Lease) Err() error { return l.handle.Err() }

// Context returns a context that ends with parent, and with the lease. Its cause wraps [ErrLost]
// after a loss, is [ErrReleased] after a release, and else the error of [Failed]. The cancel
// function frees its resources, and so does the end of the lease. If parent is nil, the context has
// ended, with a cause that wraps [session.ErrInvalidArgument].
func (l *Lease) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return l.handle.Context(contender.Within(parent, l.session, l.path, l, l.Done()))
}

// ID identifies the lease among all leases of the semaphore; 0 before it is acquired. It is no
// fencing token: leases overlap, and a later lease may have a smaller ID.
func (l *Lease) ID() int64 { return l.handle.Token() }

// Number returns the number of the lease: from 0, and less than the limit of the call; with
// [Options.AnyLimit] also less than the recorded limit, if that is greater. No other lease with
// [Options.Numbered] has the number while this one is held. Use it as the worker of a generator of
// IDs, as a port, or as a slot. Number returns -1 without Numbered, and before the lease is
// acquired. A process that is paused may use its number when another has it already: [Lease.Guard]
// protects from that.
//
// Do not delete the nodes of numbers by hand. The holder receives [Lost] in a round trip. Until
// then the next lease may have the same number, and it may lose its node by the release of the
// first.
func (l *Lease) Number() int {
	if l.numbers == nil || l.ID() == 0 {
		return noNumber
	}
	return l.numbers.number()
}

// Node returns the path of the lease's node; "" before the lease is acquired.
func (l *Lease) Node() string { return l.handle.Node() }

// Guard returns an operation for [session.Session.Multi]. With it, the server refuses the
// transaction, with [ErrNotHeld] and [session.ErrNoNode], unless the lease is still held. Before
// the lease is acquired, every transaction is refused.
func (l *Lease) Guard() session.Op { return l.handle.Guard() }

// Release gives up the lease, or the place in line. It returns nil when the server has confirmed
// that, or when the session is over; with [Options.ReleaseInBackground] it returns at once. If the
// server refuses the deletion of the node for a session timeout, the error says so, and the
// attempts go on: no other contender gets it until one succeeds. If ctx ends first, it returns the
// cause, and the release goes on. If the lease had been lost, it returns [Lease.Err]. It may be
// called any number of times.
func (l *Lease) Release(ctx context.Context) error { return l.handle.Release(ctx) }

// Close releases the lease and waits as [Lease.Release] does, at most until the session's lease has
// ended. Undelivered events are discarded, except for the last one. Close may be called any number
// of times.
func (l *Lease) Close() { l.handle.Close() }

// String describes the lease in one short line.
func (l *Lease) String() string { return "lease of semaphore " + l.path }

// Format implements [fmt.Formatter]: every verb prints the result of String, and reads nothing
// else.
func (l *Lease) Format(f fmt.State, _ rune) { client.Print(f, l) }
