package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/session"
)

// A Mutex is an exclusive lock across processes that is locked and unlocked any number of times,
// like a [sync.Mutex]. Create it with [NewMutex] or [NewReentrantMutex].
//
// Every Lock, and every TryLock, that returns nil needs one Unlock, also after the lock is lost. A
// Mutex is safe for concurrent use. It needs no Close: an unlocked mutex has no node on the server.
// Create it with [NewMutex]: the zero Mutex cannot be locked.
// Of the goroutines that wait in Lock, only one stands in line there.
type Mutex struct {
	session   *session.Session
	path      string
	opts      Options
	reentrant bool

	// Filled from the beginning of a Lock until it fails, or until its Unlock.
	slot chan struct{}

	mu    sync.Mutex
	held  *Lock // set when Lock succeeds, cleared by the last Unlock; it may be lost meanwhile
	depth int   // number of Locks without an Unlock; 0 while held is nil
}

// NewMutex returns an unlocked mutex for the lock at path, which all contenders share. It makes no
// request. [Mutex.Lock] in a context of [Mutex.Context] fails with [ErrReentered].
//
// If opts is nil, the default options are used. The error names the argument that is wrong.
func NewMutex(s *session.Session, path string, opts *Options) (*Mutex, error) {
	o := opts.withDefaults()
	if err := validate(s, path, o); err != nil {
		return nil, err
	}
	return &Mutex{session: s, path: path, opts: o, slot: make(chan struct{}, 1)}, nil
}

// NewReentrantMutex is [NewMutex] for a mutex that is reentrant by context: while it is held, Lock
// and TryLock in a context of [Mutex.Context] return nil at once. It takes as many Unlocks as Locks
// to release it.
func NewReentrantMutex(s *session.Session, path string, opts *Options) (*Mutex, error) {
	m, err := NewMutex(s, path, opts)
	if err != nil {
		return nil, err
	}
	m.reentrant = true
	return m, nil
}

// Lock locks the mutex, and returns nil when it is held. Otherwise it returns an error like
// [Acquire], and needs no Unlock.
func (m *Mutex) Lock(ctx context.Context) error {
	if entered, err := m.reenter(ctx); entered || err != nil {
		return err
	}
	select {
	case m.slot <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("acquire lock %s: %w: held by this process", m.path, context.Cause(ctx))
	}
	return m.take(Acquire(ctx, m.session, m.path, &m.opts))
}

// TryLock is [Mutex.Lock], but fails with [ErrHeld] when the mutex is not free, as [TryAcquire]
// does.
func (m *Mutex) TryLock(ctx context.Context) error {
	entered, err := m.reenter(ctx)
	if entered || err != nil && !errors.Is(err, ErrReentered) {
		return err
	}
	select {
	case m.slot <- struct{}{}:
	default:
		return fmt.Errorf("try lock %s: %w", m.path, ErrHeld)
	}
	return m.take(TryAcquire(ctx, m.session, m.path, &m.opts))
}

// reenter locks a reentrant mutex once more in a context of its own.
func (m *Mutex) reenter(ctx context.Context) (entered bool, err error) {
	if m.session == nil {
		return false, fmt.Errorf("lock: %w: the Mutex was not created with NewMutex", session.ErrInvalidArgument)
	}
	if _, err = reenters(ctx, m.session, m.path, Exclusive); !errors.Is(err, ErrReentered) {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reentrant && m.held != nil && slices.Contains(contender.Holders[*Lock](ctx, m.session, m.path), m.held) {
		m.depth++
		return true, nil
	}
	return false, err
}

// take keeps the lock that Lock has acquired.
func (m *Mutex) take(l *Lock, err error) error {
	if err != nil {
		<-m.slot
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held, m.depth = l, 1
	return nil
}

// Unlock unlocks the mutex; any goroutine may call it. It waits for the release as [Lock.Release]
// does. If ctx ends first, the mutex is unlocked, and the release goes on. If the lock was lost,
// the error wraps [ErrLost], and the mutex is unlocked. If the mutex was not locked, the error is
// [ErrNotHeld].
func (m *Mutex) Unlock(ctx context.Context) error {
	if err := client.CheckContext(ctx); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	m.mu.Lock()
	l := m.held
	if l == nil {
		m.mu.Unlock()
		return fmt.Errorf("unlock %s: %w", m.path, ErrNotHeld)
	}
	m.depth--
	if m.depth > 0 {
		m.mu.Unlock()
		return l.Err()
	}
	m.held = nil
	m.mu.Unlock()
	defer func() { <-m.slot }()
	return l.Release(ctx)
}

// current returns the lock that is held, or that was lost before its Unlock; nil while the mutex is
// unlocked.
func (m *Mutex) current() *Lock {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// of asks the current lock. While the mutex is unlocked, it returns free.
func of[T any](m *Mutex, ask func(*Lock) T, free T) T {
	if l := m.current(); l != nil {
		return ask(l)
	}
	return free
}

// over is a closed channel.
var over = func() <-chan struct{} { //nolint:gochecknoglobals // it is constant
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// Done returns the [Lock.Done] of the lock that is held now. While the mutex is unlocked, the
// channel is closed.
func (m *Mutex) Done() <-chan struct{} { return of(m, (*Lock).Done, over) }

// Err returns an error that wraps [ErrLost] and the reason, if the lock was lost and no Unlock has
// followed. It returns nil while the lock is held, and while the mutex is unlocked.
func (m *Mutex) Err() error { return of(m, (*Lock).Err, nil) }

// Context returns a context that ends with parent, and with the lock that is held now. Its cause
// wraps [ErrLost] after a loss, and is [ErrReleased] after a release. While the mutex is unlocked,
// the context has ended, with [ErrNotHeld]. If parent is nil, it has ended, with a cause that wraps
// [session.ErrInvalidArgument].
func (m *Mutex) Context(parent context.Context) (context.Context, context.CancelFunc) {
	if l := m.current(); l != nil {
		return l.Context(parent)
	}
	ctx, end := context.WithCancelCause(contender.ParentContext(parent))
	end(ErrNotHeld)
	return ctx, func() {}
}

// Token returns the [Lock.Token] of the lock that is held; 0 while the mutex is unlocked.
func (m *Mutex) Token() int64 { return of(m, (*Lock).Token, 0) }

// Node returns the [Lock.Node] of the lock that is held; "" while the mutex is unlocked.
func (m *Mutex) Node() string { return of(m, (*Lock).Node, "") }

// Guard returns the [Lock.Guard] of the lock that is held. While the mutex is unlocked, it refuses
// every transaction.
func (m *Mutex) Guard() session.Op { return contender.GuardOf(m.path, m.Node(), ErrLost) }

// String describes the mutex in one short line.
func (m *Mutex) String() string { return "mutex " + m.path }

// Format implements [fmt.Formatter]: every verb prints the result of String, and reads nothing
// else.
func (m *Mutex) Format(f fmt.State, _ rune) { client.Print(f, m) }
