package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/session"
)

// A Want is one of the locks that are acquired together.
type Want struct {
	Path string
	Kind Kind // the default is Exclusive
}

// An All is one attempt to hold several locks at once: all of them or none. It is acquired at most
// once, and is over when it is released, or when one of the locks is lost. Create one with [NewAll]
// or [AcquireAll].
//
// An All joins the lines of all its locks in one transaction. So of two of them one is ahead
// wherever they meet, and they never wait for each other, in whatever order they name the paths.
// This is no published recipe: Curator's InterProcessMultiLock acquires one lock after the other,
// and two callers with other orders wait for ever. In each line it is a contender like any other,
// also for the clients of other libraries, and waits as a [Lock] does. While it waits for one of
// the locks, others wait for it in all lines. If a node of it is deleted before all locks are held,
// it joins all lines again, at their ends.
//
// A client that holds a single lock and waits for another one, while an All waits for both, can
// block itself and the All for ever: it came first in one line, and second in the other. Let a
// client that holds one lock acquire others only together with it, or with a context that ends.
// [AcquireAll] has this danger, too, in the context of another lock.
//
// An All is safe for concurrent use, and must be closed.
type All struct {
	handle  *contender.Several[Event]
	session *session.Session
	wants   []Want
}

// NewAll joins the lines for all locks, and returns at once: [All.Events] reports what happens. A
// session without a connection joins when it has one.
//
// Two calls of one goroutine may join in the other order. If the second is to stand behind, make it
// when the first has reported [Waiting] or [Acquired].
//
// If opts is nil, the default options are used. They apply to all locks. The layout [Prioritized]
// is refused: there the server decides at each grant which contender holds, so two callers could
// wait for each other. All nodes are created in one request, whose size
// [session.Options.MaxRequest] limits: with short paths to some thousand locks. The error names the
// argument that is wrong; nothing else fails here.
func NewAll(s *session.Session, wants []Want, opts *Options) (*All, error) {
	o := opts.withDefaults()
	wants = slices.Clone(wants)
	if err := validateAll(s, wants, o); err != nil {
		return nil, err
	}
	recipes := make([]*contender.Recipe, len(wants))
	for i, w := range wants {
		recipes[i] = recipeOf(w.Path, w.Kind, o)
	}
	return &All{contender.OpenSeveral(s, recipes, &presentation, o.ReleaseInBackground), s, wants}, nil
}

// AcquireAll joins the lines for all locks, and returns when it holds all of them. If ctx ends
// first, it leaves all lines, as [Acquire] leaves one. If there is no place in a line, or it is
// lost for another reason than a deletion or an expiry, the error names the path, and wraps the
// reason.
//
// If ctx comes from the context of a lock on one of the paths that is held and excludes the new
// one, the call fails at once, as [Acquire] does. If that is a read lock, and the new one is too,
// the call does not wait: it fails with [ErrReentered] if another contender is ahead of any of the
// locks.
func AcquireAll(ctx context.Context, s *session.Session, wants []Want, opts *Options) (*All, error) {
	shares := false
	for _, w := range wants {
		with, err := reenters(ctx, s, w.Path, w.Kind)
		if err != nil {
			return nil, err
		}
		shares = shares || with
	}
	a, err := NewAll(s, wants, opts)
	if err != nil {
		return nil, err
	}
	if err := await(ctx, a.handle, shares); err != nil {
		return nil, err
	}
	return a, nil
}

// TryAcquireAll is [AcquireAll], but fails with [ErrHeld] when another contender is ahead in one of
// the lines. Then it has left all lines again, unless ctx ended before the confirmation.
func TryAcquireAll(ctx context.Context, s *session.Session, wants []Want, opts *Options) (*All, error) {
	for _, w := range wants {
		if _, err := reenters(ctx, s, w.Path, w.Kind); err != nil && !errors.Is(err, ErrReentered) {
			return nil, err
		}
	}
	a, err := NewAll(s, wants, opts)
	if err != nil {
		return nil, err
	}
	if err := a.handle.TryAcquire(ctx, "try", ErrHeld); err != nil {
		return nil, err
	}
	return a, nil
}

// DoAll acquires all locks, and runs f while it holds them, as [Do] does with one.
func DoAll(ctx context.Context, s *session.Session, wants []Want, opts *Options, f func(ctx context.Context, token int64) error) error {
	if f == nil {
		return fmt.Errorf("lock: f: %w: the function is nil", session.ErrInvalidArgument)
	}
	a, err := AcquireAll(ctx, s, wants, opts)
	if err != nil {
		return err
	}
	return a.handle.Do(ctx, a.Context, func(ctx context.Context) error { return f(ctx, a.Token()) })
}

// validateAll refuses bad arguments, before any I/O.
func validateAll(s *session.Session, wants []Want, o Options) error {
	const anyPath = "/any"
	if err := validate(s, anyPath, o); err != nil {
		return err
	}
	if len(wants) == 0 {
		return fmt.Errorf("lock: wants: %w: there are none", session.ErrInvalidArgument)
	}
	if o.Layout == Prioritized {
		return fmt.Errorf("lock: Options.Layout: %w: %v: its locks cannot be acquired together", session.ErrInvalidArgument, o.Layout)
	}
	if o.Delay > 0 {
		return fmt.Errorf("lock: Options.Delay: %w: locks that are acquired together have none", session.ErrInvalidArgument)
	}
	var errs []error
	var ops []session.Op
	seen := make(map[string]int, len(wants))
	for i, w := range wants {
		argument := fmt.Sprintf("wants[%d]", i)
		if err := client.CheckPlace(s, "lock", argument+".Path", w.Path, "a lock"); err != nil {
			errs = append(errs, err)
			continue
		}
		if first, twice := seen[w.Path]; twice {
			errs = append(errs, fmt.Errorf("lock: %s.Path: %w: %s is wants[%d] too", argument, session.ErrInvalidArgument, w.Path, first))
		}
		if w.Kind < Exclusive || w.Kind > Write {
			errs = append(errs, fmt.Errorf("lock: %s.Kind: %w: there is no kind %d", argument, session.ErrInvalidArgument, int(w.Kind)))
		}
		seen[w.Path] = i
		ops = append(ops, session.CreateOp(znode.Join(w.Path, longestName), o.Data, session.EphemeralSequential), session.SetOp(w.Path, nil, 0))
	}
	if err := client.Of(s).Fits(ops...); err != nil && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("lock: wants: %d locks in one request: %w", len(wants), err))
	}
	return errors.Join(errs...)
}

// Events returns the channel of events, as [Lock.Events] does. They are those of one lock:
//
//	Waiting* (Acquired (Suspended | Resumed | Revoked)* (Released | Lost) | Released | Failed)
//
// Waiting has the number of contenders ahead in the line where most are ahead. Acquired comes when
// all locks are held, with the name of the node of the first. Revoked comes when one of the locks
// is asked for: the holder consents by the release of all. The errors of Lost and of Failed name
// the path. The channel is closed after the last event: receive with "ev, ok := <-events", because
// a select over a closed channel spins.
func (a *All) Events() <-chan Event { return a.handle.Events() }

// Done returns a channel that is closed when not all locks are held any more, or never will be, as
// [Lock.Done] does.
func (a *All) Done() <-chan struct{} { return a.handle.Done() }

// Revoked returns a channel that is closed when all locks are held and another client asks for one.
// The request may be older than the grant.
func (a *All) Revoked() <-chan struct{} { return a.handle.Revoked() }

// Err returns an error that wraps [ErrLost] and the reason, and names the path, if one of the locks
// was lost, and the error of [Failed], if they were not acquired. Before that, and after a release,
// it returns nil.
func (a *All) Err() error { return a.handle.Err() }

// Context returns a context that ends with parent, and when not all locks are held any more, as
// [Lock.Context] does.
func (a *All) Context(parent context.Context) (context.Context, context.CancelFunc) {
	for _, w := range a.wants {
		parent = contender.Within(parent, a.session, w.Path, a, a.Done()) //nolint:fatcontext // one value for each path
	}
	return a.handle.Context(parent)
}

// Token returns the fencing token of the grant, the same for all locks; 0 before. It grows with
// every exclusive grant of each path, to any client, as [Lock.Token] does.
func (a *All) Token() int64 { return a.handle.Token() }

// Nodes returns the paths of the nodes of the grant, in the order of the wants; nil before.
func (a *All) Nodes() []string { return a.handle.Nodes() }

// Guards returns operations for [session.Session.Multi], one for each lock. With them, the server
// refuses the transaction, with [ErrNotHeld] and [session.ErrNoNode], unless all locks are still
// held. Before they are acquired, every transaction is refused.
func (a *All) Guards() []session.Op { return a.handle.Guards() }

// Release gives up all locks, or all places in line, in one transaction. It returns as
// [Lock.Release] does.
func (a *All) Release(ctx context.Context) error { return a.handle.Release(ctx) }

// Close releases all locks, and waits as [Lock.Close] does. It may be called any number of times.
func (a *All) Close() { a.handle.Close() }

// held returns the kind of the lock on one of the paths.
func (a *All) held(path string) Kind {
	return a.wants[slices.IndexFunc(a.wants, func(w Want) bool { return w.Path == path })].Kind
}

// String describes the locks in one short line.
func (a *All) String() string {
	return fmt.Sprintf("%d locks from %s on", len(a.wants), a.wants[0].Path)
}

// Format implements [fmt.Formatter]: every verb prints the result of String, and reads nothing
// else.
func (a *All) Format(f fmt.State, _ rune) { client.Print(f, a) }
