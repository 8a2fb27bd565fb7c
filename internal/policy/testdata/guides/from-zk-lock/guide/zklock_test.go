package guide

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const path = "/locks/report"

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func clients(t *testing.T) (*zktest.Server, *session.Session, *zk.Conn) {
	t.Helper()
	srv := zktest.Start(t)
	s, err := session.Open(t.Context(), srv.Addrs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	conn, _, err := zk.Connect(srv.Addrs(), 10*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return srv, s, conn
}

// inLine waits until n contenders stand in line.
func inLine(t *testing.T, s *session.Session, n int) {
	t.Helper()
	children, err := watch.Children(s, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer children.Close()
	zktest.Await(t, children.Changes(), func(c watch.ChildrenState) bool { return len(c.Names) == n })
}

// TestSideBySide: each waits for the other.
func TestSideBySide(t *testing.T) {
	_, s, conn := clients(t)
	theirs := func() *zk.Lock { return zk.NewLock(conn, path, zk.WorldACL(zk.PermAll)) }
	first, second := theirs(), theirs()
	if err := first.Lock(); err != nil {
		t.Fatal(err)
	}
	ours, locked := make(chan error, 1), make(chan error, 1)
	began, end := make(chan struct{}), make(chan struct{})
	go func() {
		ours <- Report(t.Context(), s, func(context.Context) error { close(began); <-end; return nil })
	}()
	inLine(t, s, 2)
	select {
	case <-began:
		t.Fatal("both hold the lock")
	default:
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	<-began
	go func() { locked <- second.Lock() }()
	inLine(t, s, 2)
	select {
	case err := <-locked:
		t.Fatal("both hold the lock:", err)
	default:
	}
	close(end)
	if err := errors.Join(<-ours, <-locked, second.Unlock()); err != nil {
		t.Fatal(err)
	}
}

// TestLoss: the loss is no success, even if the work does not look.
func TestLoss(t *testing.T) {
	srv, s, _ := clients(t)
	err := Report(t.Context(), s, func(ctx context.Context) error {
		srv.Expire(s.ID())
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, lock.ErrLost) {
		t.Error(err)
	}
}

// TestLossOfOld: zk.Lock does not notice that its node is gone.
func TestLossOfOld(t *testing.T) {
	_, s, conn := clients(t)
	old := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
	if err := old.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Revoke(t.Context(), s, path, &lock.RevokeOptions{ForceAfter: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	l, err := lock.TryAcquire(t.Context(), s, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 2 {
		if err := old.Unlock(); !errors.Is(err, zk.ErrNoNode) {
			t.Error(err)
		}
	}
	if err := old.Lock(); !errors.Is(err, zk.ErrDeadlock) {
		t.Error(err)
	}
}

// TestReaders: zk.Lock fails beside a reader, and its node blocks all others.
func TestReaders(t *testing.T) {
	_, s, conn := clients(t)
	r, err := lock.AcquireRead(t.Context(), s, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll)).Lock(); err == nil {
		t.Error("zk.Lock holds the lock beside a reader")
	}
	r.Close()
	if _, err := lock.TryAcquire(t.Context(), s, path, nil); !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
}

// TestCuratorReaders: in the layout of Curator a reader waits for zk.Lock, and zk.Lock for readers
// and writers.
func TestCuratorReaders(t *testing.T) {
	_, s, conn := clients(t)
	opts := &lock.Options{Layout: lock.Curator}
	for name, try := range map[string]func(context.Context, *session.Session, string, *lock.Options) (*lock.Lock, error){
		"read": lock.TryAcquireRead, "write": lock.TryAcquireWrite,
	} {
		ours, err := try(t.Context(), s, path, opts)
		if err != nil {
			t.Fatal(name, err)
		}
		old, locked := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll)), make(chan error, 1)
		go func() { locked <- old.Lock() }()
		inLine(t, s, 2)
		if l, err := try(t.Context(), s, path, opts); !errors.Is(err, lock.ErrHeld) {
			t.Error(name, "passes a zk.Lock that waits:", l, err)
		}
		select {
		case err := <-locked:
			t.Fatal(name, "and zk.Lock hold the lock:", err)
		default:
		}
		ours.Close()
		if err := <-locked; err != nil {
			t.Fatal(name, err)
		}
		if l, err := try(t.Context(), s, path, opts); !errors.Is(err, lock.ErrHeld) {
			t.Error(name, "holds beside zk.Lock:", l, err)
		}
		if err := old.Unlock(); err != nil {
			t.Error(name, err)
		}
	}
}

// TestCredentials: zk.Lock fails behind a node that it may not read, and its node blocks all others.
func TestCredentials(t *testing.T) {
	srv, s, conn := clients(t)
	if err := s.EnsurePath(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	secured, err := session.Open(t.Context(), srv.Addrs(), &session.Options{
		Auth: []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}, ACL: session.CreatorAll(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(secured.Close)
	l, err := lock.Acquire(t.Context(), secured, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll)).Lock(); !errors.Is(err, zk.ErrNoAuth) {
		t.Error(err)
	}
	l.Close()
	if _, err := lock.TryAcquire(t.Context(), s, path, nil); !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
}
