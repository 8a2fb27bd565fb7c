package semaphore

import (
	"context"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// A Lease is one attempt to be among the holders of a semaphore: it is acquired at most
// once, and over once it is released or lost. Create one with [New] or [Acquire].
//
// A Lease is safe for concurrent use, and must be closed.
type Lease struct {
	handle  *line.Handle[Event]
	session *session.Session
	path    string
	weight  int
}

// New joins the line for a lease of the semaphore at path, and returns at once:
// [Lease.Events] tells what happens. A session that is not connected joins when it is.
// The limit is recorded if there is none yet.
//
// If opts is nil, the default options are used. The error names what is wrong with the
// arguments; otherwise nothing fails here. Disagreement about the limit is told by
// [Lost].
func New(s *session.Session, path string, limit int, opts *Options) (*Lease, error) {
	return open(s, path, limit, opts, nil)
}

// open joins the line for a lease that does not wait for the leases within.
func open(s *session.Session, path string, limit int, opts *Options, within []*Lease) (*Lease, error) {
	o := opts.withDefaults()
	if err := validate(s, path, limit, o); err != nil {
		return nil, err
	}
	h := line.Open(s, &line.Recipe{
		Name: "semaphore", Path: path, Dir: leasesOf(path), Data: o.Data, Rule: inside(rule(limit, o), within), Hooks: &hooks,
	}, &presentation, o.ReleaseInBackground)
	return &Lease{h, s, path, o.Weight}, nil
}

// inside returns the rule of a lease that is asked for within others.
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

// Acquire joins the line for a lease of the semaphore at path, and returns when it is
// held.
//
// If ctx ends before that, the error is its cause, with the contender that was waited for as far as
// it is known. The place in line is then given up in the background: whatever the network does, the
// contender's node is deleted when the session is connected, or ends. The path and its limit stay
// for a while, see the package comment. The error wraps [ErrLimit] if another limit is recorded,
// and leaves nothing behind. If the place is lost for another reason, the error wraps [ErrLost] and
// the reason.
//
// If ctx comes from [Lease.Context] of leases of the same session and path, it must not wait for
// these: the error is [ErrReentered] if there cannot be room with them, or if a waiter ahead cannot
// have room before they are released. A lease that was granted under a greater limit than the present one
// is taken for such a waiter, while it is held.
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

// TryAcquire is [Acquire], but fails with [ErrFull] when there is no room at once. Then it
// has left the line again, unless ctx has ended before that was confirmed.
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

// Do runs f while it holds a lease of the semaphore at path. The context of f ends when
// the lease is lost, with a cause that wraps [ErrLost], or when ctx ends. The lease is
// released only after f has returned. Do waits for that until ctx ends; then the release goes on
// in the background.
//
// A nil f is refused before a lease is acquired. Do returns the error of f. If f returned none, and the lease was lost before f
// returned, the error wraps [ErrLost].
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

// enter joins the line, unless the leases that have ctx leave no room for another while they are
// held.
func enter(ctx context.Context, s *session.Session, path string, limit int, opts *Options) (*Lease, error) {
	if err := client.Usable(ctx); err != nil {
		return nil, fmt.Errorf("acquire semaphore %s: %w", path, err)
	}
	o := opts.withDefaults()
	sum, within := o.Weight, line.Holders[*Lease](ctx, s, path)
	for _, l := range within {
		sum += l.weight
	}
	if sum > max(limit, o.Weight) && !o.AnyLimit {
		return nil, fmt.Errorf("acquire semaphore %s: %w: %d of %d", path, ErrReentered, sum, limit)
	}
	return open(s, path, limit, opts, within)
}

// Events returns the channel of events, which is always the same one:
//
//	Waiting* (Acquired (Suspended | Resumed)*)? (Released | Lost)
//
// It begins with the newest event before the first call, and with Acquired before that until it is
// lost. The channel is closed after the last event: receive with "ev, ok := <-events", because
// a select over a closed channel spins.
func (l *Lease) Events() <-chan Event { return l.handle.Events() }

// Done returns a channel that is closed when the lease is held no more, or never will be:
// in the very step in which it is lost, and before a release is sent. The contexts have ended by then.
func (l *Lease) Done() <-chan struct{} { return l.handle.Done() }

// Err returns why the lease, or the place in line, was lost: an error that wraps [ErrLost]
// and the reason. It returns nil while it is not, and after a release.
func (l *Lease) Err() error { return l.handle.Err() }

// Context returns a context that ends with parent, and with the lease. The cause wraps
// [ErrLost] when it is lost, and is [ErrReleased] when it is released. Its resources are
// freed by the cancel function, or with the lease.
// If parent is nil, the context has ended, with a cause that wraps [session.ErrInvalidArgument].
func (l *Lease) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return l.handle.Context(line.Within(parent, l.session, l.path, l, l.Done()))
}

// ID returns what tells the lease from all others of the semaphore; 0 before it is
// acquired. It is no fencing token: leases overlap, and a later one may have a smaller ID.
func (l *Lease) ID() int64 { return l.handle.Token() }

// Node returns the path of the node that stands for the lease; "" before it is acquired.
func (l *Lease) Node() string { return l.handle.Node() }

// Guard returns an operation for [session.Session.Multi] that makes the server refuse the
// transaction, with [ErrNotHeld] and [session.ErrNoNode], unless the lease is still held. Before
// it is acquired it refuses every transaction.
func (l *Lease) Guard() session.Op { return l.handle.Guard() }

// Release gives up the lease, or the place in line. It returns nil when that is
// confirmed, or the session that it was held through is over; with
// [Options.ReleaseInBackground] at once. If ctx ends first it returns the cause, and the
// release goes on. If the lease had been lost, it returns [Lease.Err]. It may be called
// any number of times.
func (l *Lease) Release(ctx context.Context) error { return l.handle.Release(ctx) }

// Close releases the lease and waits as [Lease.Release] does, at most until the session's
// deadline has passed. Undelivered events are discarded, but for the last one. It may be
// called any number of times.
func (l *Lease) Close() { l.handle.Close() }

// String describes the lease in one short line.
func (l *Lease) String() string { return "lease of semaphore " + l.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (l *Lease) Format(f fmt.State, _ rune) { client.Print(f, l) }
