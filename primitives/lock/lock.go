package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/mark"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/priority"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// A Lock is one attempt to hold a lock: it is acquired at most once, and over once
// it is released or lost. Create one with [New] or [Acquire].
//
// A Lock is safe for concurrent use, and must be closed.
type Lock struct {
	handle  *line.Handle[Event]
	session *session.Session
	path    string
	kind    Kind // that it was opened as
	layout  Layout
}

// New joins the line for the lock at path, which all contenders share, and returns
// at once: [Lock.Events] tells what happens. A session that is not connected joins
// when it is.
//
// If opts is nil, the default options are used. The error names what is wrong with
// the arguments; otherwise nothing fails here.
func New(s *session.Session, path string, opts *Options) (*Lock, error) {
	return open(s, path, Exclusive, opts)
}

// Acquire joins the line for the lock at path, and returns when the lock is held.
//
// If ctx ends before that, the error is its cause, with the contender that was waited for as far as it is known. The
// place in line is then given up in the background: whatever the network does, the contender's node is deleted when
// the session is connected, or ends. If the place is lost for another reason, the error wraps [ErrLost] and the
// reason.
//
// If ctx comes from [Lock.Context] of a lock of the same session and path that is not over, it
// would wait for itself: the error is [ErrReentered], at once; or [ErrUpgrade], if that is a
// read lock, or a write lock that was downgraded.
func Acquire(ctx context.Context, s *session.Session, path string, opts *Options) (*Lock, error) {
	return acquire(ctx, s, path, Exclusive, opts)
}

// TryAcquire is [Acquire], but fails with [ErrHeld] when another contender is ahead in
// line. Then it has left the line again, unless ctx has ended before that was
// confirmed.
func TryAcquire(ctx context.Context, s *session.Session, path string, opts *Options) (*Lock, error) {
	return tryAcquire(ctx, s, path, Exclusive, opts)
}

// Do runs f while it holds the lock at path. The context of f ends when the lock is
// lost, with a cause that wraps [ErrLost], or when ctx ends; token is that of the
// grant. The lock is released only after f has returned. Do waits for that until ctx ends; then
// the release goes on in the background.
//
// A nil f is refused before the lock is acquired. Do returns the error of f. If f returned none, and the lock was lost before f
// returned, the error wraps [ErrLost].
func Do(ctx context.Context, s *session.Session, path string, opts *Options, f func(ctx context.Context, token int64) error) error {
	if f == nil {
		return fmt.Errorf("lock: f: %w: the function is nil", session.ErrInvalidArgument)
	}
	if _, err := reenters(ctx, s, path, Exclusive); err != nil {
		return err
	}
	l, err := New(s, path, opts)
	if err != nil {
		return err
	}
	return l.handle.Do(ctx, l.Context, func(ctx context.Context) error { return f(ctx, l.Token()) })
}

// How locks depart from the published recipe, and how they are presented.
//
//nolint:gochecknoglobals // they are constant
var (
	hooks        = line.Hooks{Inspect: priority.Inspect, Marked: mark.Split}
	presentation = line.Presentation[Event]{
		Tell: tell, Merge: recipe.Newest[Waiting, Event], Cancel: recipe.Undone[Suspended, Resumed, Event],
		Keep: keep, Lost: ErrLost, Released: ErrReleased,
	}
)

func open(s *session.Session, path string, kind Kind, opts *Options) (*Lock, error) {
	o := opts.withDefaults()
	if err := validate(s, path, o); err != nil {
		return nil, err
	}
	r := &line.Recipe{Name: "lock", Path: path, Dir: path, Data: o.Data, Rule: o.Layout.rule(kind), Hooks: &hooks}
	if o.Layout == Prioritized {
		r = priority.New(client.Of(s), path, priority.Options{
			Data: o.Data, Kind: nodes.Kind(kind), Priority: o.Priority, Preempt: o.Preempt, PreemptAfter: o.PreemptAfter,
		}).Recipe()
	}
	h := line.Open(s, r, &presentation, o.ReleaseInBackground)
	return &Lock{h, s, path, kind, o.Layout}, nil
}

func acquire(ctx context.Context, s *session.Session, path string, kind Kind, opts *Options) (*Lock, error) {
	shares, err := reenters(ctx, s, path, kind)
	if err != nil {
		return nil, err
	}
	l, err := open(s, path, kind, opts)
	if err != nil {
		return nil, err
	}
	if shares { // a writer ahead waits for the caller's own read lock
		err = l.handle.TryAcquire(ctx, "acquire", ErrReentered)
	} else {
		err = l.handle.Acquire(ctx)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func tryAcquire(ctx context.Context, s *session.Session, path string, kind Kind, opts *Options) (*Lock, error) {
	if _, err := reenters(ctx, s, path, kind); err != nil && !errors.Is(err, ErrReentered) { // a call that does not wait finds it held
		return nil, err
	}
	o := opts.withDefaults()
	if err := validate(s, path, o); err != nil {
		return nil, err
	}
	o.Preempt, o.PreemptAfter = false, 0 // no holder is asked to leave for a contender that does not wait
	l, err := open(s, path, kind, &o)
	if err != nil {
		return nil, err
	}
	if err := l.handle.TryAcquire(ctx, "try", ErrHeld); err != nil {
		return nil, err
	}
	return l, nil
}

// Events returns the channel of events, which is always the same one:
//
//	Waiting* (Acquired (Suspended | Resumed | Revoked)*)? (Released | Lost)
//
// It begins with the newest event before the first call. Before that come Acquired, and Revoked if there
// was that, until Lost, and Suspended until Resumed. The channel is closed after the last event: receive with "ev, ok := <-events", because
// a select over a closed channel spins.
func (l *Lock) Events() <-chan Event { return l.handle.Events() }

// Done returns a channel that is closed when the lock is held no more, or never will
// be: in the very step in which it is lost, and before a release is sent. The contexts have ended by then.
func (l *Lock) Done() <-chan struct{} { return l.handle.Done() }

// Revoked returns a channel that is closed when the lock is held and another client
// asks for it. The request may be older than the grant. The holder consents by
// releasing it.
func (l *Lock) Revoked() <-chan struct{} { return l.handle.Revoked() }

// Err returns why the lock, or the place in line, was lost: an error that wraps
// [ErrLost] and the reason. It returns nil while it is not, and after a release.
func (l *Lock) Err() error { return l.handle.Err() }

// Context returns a context that ends with parent, and with the lock. The cause wraps
// [ErrLost] when it is lost, and is [ErrReleased] when it is released. Its resources
// are freed by the cancel function, or with the lock.
// If parent is nil, the context has ended, with a cause that wraps [session.ErrInvalidArgument].
func (l *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return l.handle.Context(line.Within(parent, l.session, l.path, l, l.Done()))
}

// Token returns the fencing token of the grant, which grows with every exclusive grant of
// the path, to whatever client; 0 before it is acquired. The token of a reader is to be
// compared with that of the highest writer only.
func (l *Lock) Token() int64 { return l.handle.Token() }

// Node returns the path of the node that stands for the grant; "" before the lock is
// acquired. It is another one after [Lock.Downgrade].
func (l *Lock) Node() string { return l.handle.Node() }

// Guard returns an operation for [session.Session.Multi] that makes the server refuse
// the transaction, with [ErrNotHeld] and [session.ErrNoNode], unless the lock is still held.
// Before the lock is acquired it refuses every transaction.
func (l *Lock) Guard() session.Op { return l.handle.Guard() }

// Release gives up the lock, or the place in line. It returns nil when that is
// confirmed, or the session that it was held through is over; with
// [Options.ReleaseInBackground] at once. If ctx ends first it returns the cause, and
// the release goes on. If the lock had been lost, it returns [Lock.Err]. It may be called
// any number of times.
func (l *Lock) Release(ctx context.Context) error { return l.handle.Release(ctx) }

// Close releases the lock and waits as [Lock.Release] does, at most until the session's
// deadline has passed. Undelivered events are discarded, but for the last one. It may
// be called any number of times.
func (l *Lock) Close() { l.handle.Close() }

// now returns the kind of which the lock is: after a downgrade that of a reader.
func (l *Lock) now() Kind {
	_, node := znode.Split(l.Node())
	if c, ok := grammars[l.layout].Parse(node); ok && Kind(c.Kind) == Read {
		return Read
	}
	return l.kind
}

// ErrUpgrade means that a read lock does not turn into a lock that excludes
// others: two readers that both wait for that would wait for ever.
var ErrUpgrade = errors.New("a read lock cannot be upgraded: release it first")

// reenters refuses a context that is nil or has ended, and to wait for a lock that the caller has already. It reports whether the caller has
// one that shares.
func reenters(ctx context.Context, s *session.Session, path string, kind Kind) (shares bool, err error) {
	if err := client.Usable(ctx); err != nil {
		return false, fmt.Errorf("acquire lock %s: %w", path, err)
	}
	for _, l := range line.Holders[*Lock](ctx, s, path) {
		switch held := l.now(); {
		case !nodes.Kind(held).Excludes(nodes.Kind(kind)):
			shares = true
		case held == Read:
			return false, fmt.Errorf("acquire lock %s: %w", path, ErrUpgrade)
		default:
			return false, fmt.Errorf("acquire lock %s: %w", path, ErrReentered)
		}
	}
	return shares, nil
}

// String describes the lock in one short line.
func (l *Lock) String() string { return "lock " + l.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (l *Lock) Format(f fmt.State, _ rune) { client.Print(f, l) }
