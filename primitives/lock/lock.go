package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/priority"
	"github.com/zkactors/zkactors/session"
)

// A Lock is one attempt to hold a lock. It is acquired at most once, and is over when it is
// released or lost. Create one with [New] or [Acquire].
//
// A Lock is safe for concurrent use, and must be closed.
type Lock struct {
	handle  *contender.Handle[Event]
	session *session.Session
	path    string
	kind    Kind // as it was opened
	layout  Layout
}

// New joins the line for the lock at path, which all contenders share, and returns at once:
// [Lock.Events] reports what happens. A session without a connection joins when it has one.
//
// Two calls of one goroutine may join in the other order. If the second is to stand behind, make it
// when the first has reported [Waiting] or [Acquired].
//
// At a path of another recipe the lock receives [Failed], with [ErrForeign].
//
// If opts is nil, the default options are used. The error names the argument that is wrong; nothing
// else fails here.
func New(s *session.Session, path string, opts *Options) (*Lock, error) {
	return open(s, path, Exclusive, opts)
}

// Acquire joins the line for the lock at path, and returns when it holds the lock.
//
// If ctx ends first, the error is its cause and, if it is known, the contender ahead. The place in
// line is then given up in the background: whatever the network does, the node is deleted when the
// session is connected, or ends. If there is no place in line, or it is lost, the error wraps the
// reason: see [Failed].
//
// If ctx comes from [Lock.Context] of a lock of the same session and path that is not over, the
// call would wait for itself, and fails at once. The error is [ErrUpgrade] if that is a read lock,
// or a write lock that was downgraded; otherwise it is [ErrReentered].
func Acquire(ctx context.Context, s *session.Session, path string, opts *Options) (*Lock, error) {
	return acquire(ctx, s, path, Exclusive, opts)
}

// TryAcquire is [Acquire], but fails with [ErrHeld] when another contender is ahead in line. Then
// it has left the line again, unless ctx ended before the confirmation. If a contender of another
// layout stands there, the error wraps [ErrLayout] instead. A transaction of the
// servers decides, or a list behind it: no server that lags behind shows a lock free.
func TryAcquire(ctx context.Context, s *session.Session, path string, opts *Options) (*Lock, error) {
	return tryAcquire(ctx, s, path, Exclusive, opts)
}

// Do acquires the lock at path, and runs f while it holds it. The context of f ends when the lock
// is lost, with a cause that wraps [ErrLost], or when ctx ends. token is the fencing token of the
// grant. Do releases the lock after f has returned, and waits for the release until ctx ends; then
// the release goes on in the background.
//
// Do refuses a nil f before it acquires the lock. It returns the error of f. If f returned nil, and
// the lock was lost before f returned, the error wraps [ErrLost]. If f panics, or calls
// [runtime.Goexit], the lock is released, and that goes on.
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

func open(s *session.Session, path string, kind Kind, opts *Options) (*Lock, error) {
	o := opts.withDefaults()
	if err := validate(s, path, o); err != nil {
		return nil, err
	}
	if o.Delay > 0 && kind != Exclusive {
		return nil, errDelay
	}
	r := recipeOf(path, kind, o)
	if o.Layout == Prioritized {
		r = priority.New(client.Of(s), path, priority.Options{
			Data: o.Data, Kind: nodes.Kind(kind), Priority: o.Priority, Preempt: o.Preempt, PreemptAfter: o.PreemptAfter,
		}).Recipe()
	}
	h := contender.Open(s, r, &presentation, o.ReleaseInBackground)
	return &Lock{h, s, path, kind, o.Layout}, nil
}

// recipeOf returns the recipe of a lock in a layout without priorities.
func recipeOf(path string, kind Kind, o Options) *contender.Recipe {
	r := &contender.Recipe{Name: "lock", Path: path, Dir: path, Data: o.Data, Rule: o.Layout.rule(kind), Revocable: true}
	if first, is := r.Rule.(line.First); is && o.Delay > 0 {
		r.Rule, r.Claim = delayed{first}, newDelayer(path, o.Delay)
	}
	if o.Layout == Kazoo {
		r.Parent = contender.Published{Dir: path, Persistent: true}
	}
	return r
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
	if err := await(ctx, l.handle, shares); err != nil {
		return nil, err
	}
	return l, nil
}

// An acquirable is a handle of one lock, or of several.
type acquirable interface {
	Acquire(ctx context.Context) error
	TryAcquire(ctx context.Context, op string, taken error) error
}

// await waits until a handle holds. If it shares with the caller's own read lock, a writer ahead
// would wait for that lock, so the call does not wait.
func await(ctx context.Context, h acquirable, shares bool) error {
	if shares {
		return h.TryAcquire(ctx, "acquire", ErrReentered)
	}
	return h.Acquire(ctx)
}

func tryAcquire(ctx context.Context, s *session.Session, path string, kind Kind, opts *Options) (*Lock, error) {
	// a call that does not wait finds the lock held
	if _, err := reenters(ctx, s, path, kind); err != nil && !errors.Is(err, ErrReentered) {
		return nil, err
	}
	o := opts.withDefaults()
	if err := validate(s, path, o); err != nil {
		return nil, err
	}

	// no holder is asked to leave for a contender that does not wait
	o.Preempt, o.PreemptAfter = false, 0

	l, err := open(s, path, kind, &o)
	if err != nil {
		return nil, err
	}
	if err := l.handle.TryAcquire(ctx, "try", ErrHeld); err != nil {
		return nil, err
	}
	return l, nil
}

// Events returns the channel of events, always the same one:
//
//	Waiting* (Acquired (Suspended | Resumed | Revoked)* (Released | Lost) | Released | Failed)
//
// It begins with the newest event before the first call. While the lock is held, Acquired comes
// before that one, and so does Revoked if it was emitted, and Suspended until Resumed. When the
// lock is over, only the last event comes. The channel is closed after it: receive with "ev, ok :=
// <-events", because a select over a closed channel spins.
func (l *Lock) Events() <-chan Event { return l.handle.Events() }

// Done returns a channel that is closed when the lock is no longer held, or never will be: in the
// step in which the loss is known, and before a release is sent. The contexts end before it is
// closed.
func (l *Lock) Done() <-chan struct{} { return l.handle.Done() }

// Revoked returns a channel that is closed when the lock is held and another client asks for it.
// The request may be older than the grant. The holder consents by a release.
func (l *Lock) Revoked() <-chan struct{} { return l.handle.Revoked() }

// Err returns an error that wraps [ErrLost] and the reason, if the lock was lost, and the error of
// [Failed], if it was not acquired. Before that, and after a release, it returns nil.
func (l *Lock) Err() error { return l.handle.Err() }

// Context returns a context that ends with parent, and with the lock. Its cause wraps [ErrLost]
// after a loss, is [ErrReleased] after a release, and else the error of [Failed]. The cancel
// function frees its resources, and so does the end of the lock. If parent is nil, the context has
// ended, with a cause that wraps [session.ErrInvalidArgument].
func (l *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return l.handle.Context(contender.Within(parent, l.session, l.path, l, l.Done()))
}

// Token returns the fencing token of the grant; 0 before. It grows with every exclusive grant of
// the path, to any client. Compare the token of a reader only with the highest token of a writer.
func (l *Lock) Token() int64 { return l.handle.Token() }

// Node returns the path of the node of the grant; "" before. [Lock.Downgrade] replaces the node.
func (l *Lock) Node() string { return l.handle.Node() }

// Guard returns an operation for [session.Session.Multi]. With it, the server refuses the
// transaction, with [ErrNotHeld] and [session.ErrNoNode], unless the lock is still held. Before the
// lock is acquired, every transaction is refused.
func (l *Lock) Guard() session.Op {
	if l.layout != Prioritized {
		return l.handle.Guard()
	}
	return contender.GuardOf(l.path, priority.Guard(l.Node()), ErrLost)
}

// Release gives up the lock, or the place in line. It returns nil when the server has confirmed
// that, or when the session is over; with [Options.ReleaseInBackground] it returns at once. If the
// server refuses the deletion of the node for a session timeout, the error says so, and the
// attempts go on: no other contender gets it until one succeeds. If ctx ends first, it returns the
// cause, and the release goes on. If the lock had been lost, it returns [Lock.Err]. It may be
// called any number of times.
func (l *Lock) Release(ctx context.Context) error { return l.handle.Release(ctx) }

// Close releases the lock and waits as [Lock.Release] does, at most until the session's lease has
// ended. Undelivered events are discarded, except for the last one. Close may be called any number
// of times.
func (l *Lock) Close() { l.handle.Close() }

// A holder holds locks, in whose context others may be requested.
type holder interface{ held(path string) Kind }

// held returns the present kind of the lock: Read after a downgrade.
func (l *Lock) held(string) Kind {
	_, node := znode.Split(l.Node())
	if c, ok := grammars[l.layout].Parse(node); ok && Kind(c.Kind) == Read {
		return Read
	}
	return l.kind
}

// ErrUpgrade means that a read lock cannot become a lock that excludes others: two readers that
// both wait for that would wait for ever.
var ErrUpgrade = errors.New("a read lock cannot be upgraded: release it first")

// reenters refuses a context that is nil or has ended, and a call that would wait for a lock of its
// own caller. It reports whether the caller holds a lock with which the new one can share.
func reenters(ctx context.Context, s *session.Session, path string, kind Kind) (shares bool, err error) {
	if err := client.Usable(ctx); err != nil {
		return false, fmt.Errorf("acquire lock %s: %w", path, err)
	}
	for _, l := range contender.Holders[holder](ctx, s, path) {
		switch held := l.held(path); {
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

// Format implements [fmt.Formatter]: every verb prints the result of String, and reads nothing
// else.
func (l *Lock) Format(f fmt.State, _ rune) { client.Print(f, l) }
