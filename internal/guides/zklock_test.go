package guides

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	zklock "github.com/zkactors/zkactors/internal/guides/from-zk-lock"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const path = "/locks/report"

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// beside plays with a session and a connection of go-zookeeper to one server.
func beside(t *testing.T, play func(w kit.World, s *session.Session, conn *zk.Conn)) {
	t.Helper()
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		dial := func(network, address string, _ time.Duration) (net.Conn, error) {
			return w.DialContext(context.Background(), network, address)
		}
		conn, _, err := zk.Connect(w.Addrs(), 10*time.Second, zk.WithLogger(quiet{}), zk.WithDialer(dial))
		check.Must(w, err)
		defer conn.Close()
		play(w, w.Open(session.Options{}), conn)
	})
}

// contender returns a zk.Lock.
func contender(conn *zk.Conn) *zk.Lock { return zk.NewLock(conn, path, zk.WorldACL(zk.PermAll)) }

// TestSideBySide: each waits for the other.
func TestSideBySide(t *testing.T) {
	beside(t, func(w kit.World, s *session.Session, conn *zk.Conn) {
		first, second := contender(conn), contender(conn)
		check.Must(w, first.Lock())
		working, end := false, make(chan struct{})
		ours := kit.Begin(func() error {
			return zklock.Report(w.Context(), s, func(context.Context) error { working = true; <-end; return nil })
		})
		check.False(w, working, "both hold the lock")
		check.Must(w, first.Unlock())
		synctest.Wait()
		check.True(w, working, "the next in line does not hold the lock")
		locked := kit.Begin(second.Lock)
		check.None(w, locked, "both hold the lock")
		close(end)
		check.Must(w, errors.Join(<-ours, <-locked, second.Unlock()))
	})
}

// TestLoss: the loss is no success, even if the work does not look.
func TestLoss(t *testing.T) {
	beside(t, func(w kit.World, s *session.Session, _ *zk.Conn) {
		check.Is(w, zklock.Report(w.Context(), s, func(ctx context.Context) error {
			w.Expire(s.ID())
			<-ctx.Done()
			return nil
		}), lock.ErrLost)
	})
}

// TestLossOfOld: zk.Lock does not notice that its node is gone.
func TestLossOfOld(t *testing.T) {
	beside(t, func(w kit.World, s *session.Session, conn *zk.Conn) {
		old := contender(conn)
		check.Must(w, old.Lock())
		check.Must(w, lock.Revoke(w.Context(), s, path, &lock.RevokeOptions{ForceAfter: time.Millisecond}))
		check.Open(lock.TryAcquire(w.Context(), s, path, nil))(w)
		for range 2 {
			check.Is(w, old.Unlock(), zk.ErrNoNode)
		}
		check.Is(w, old.Lock(), zk.ErrDeadlock)
	})
}

// TestReaders: zk.Lock fails beside a reader, and its node blocks all others.
func TestReaders(t *testing.T) {
	beside(t, func(w kit.World, s *session.Session, conn *zk.Conn) {
		r := check.Have(lock.AcquireRead(w.Context(), s, path, nil))(w)
		check.True(w, contender(conn).Lock() != nil, "zk.Lock holds the lock beside a reader")
		r.Close()
		check.Fails(lock.TryAcquire(w.Context(), s, path, nil))(w, lock.ErrHeld)
	})
}

// TestCuratorReaders: in the layout of Curator a reader waits for zk.Lock, and zk.Lock for readers
// and writers.
func TestCuratorReaders(t *testing.T) {
	opts := &lock.Options{Layout: lock.Curator}
	for name, try := range map[string]func(context.Context, *session.Session, string, *lock.Options) (*lock.Lock, error){
		"read": lock.TryAcquireRead, "write": lock.TryAcquireWrite,
	} {
		t.Run(name, func(t *testing.T) {
			beside(t, func(w kit.World, s *session.Session, conn *zk.Conn) {
				ours := check.Have(try(w.Context(), s, path, opts))(w)
				old := contender(conn)
				locked := kit.Begin(old.Lock)
				check.Fails(try(w.Context(), s, path, opts))(w, lock.ErrHeld) // it does not pass a zk.Lock that waits
				check.None(w, locked, "zk.Lock holds the lock, too")
				ours.Close()
				check.Must(w, <-locked)
				check.Fails(try(w.Context(), s, path, opts))(w, lock.ErrHeld)
				check.OK(w, old.Unlock())
			})
		})
	}
}

// TestCredentials: zk.Lock fails behind a node that it may not read. Its node then blocks all
// others.
func TestCredentials(t *testing.T) {
	beside(t, func(w kit.World, s *session.Session, conn *zk.Conn) {
		check.Must(w, s.EnsurePath(w.Context(), path))
		secured := w.Open(session.Options{
			Auth: []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}, ACL: session.CreatorAll(),
		})
		l := check.Have(lock.Acquire(w.Context(), secured, path, nil))(w)
		check.Is(w, contender(conn).Lock(), zk.ErrNoAuth)
		l.Close()
		check.Fails(lock.TryAcquire(w.Context(), s, path, nil))(w, lock.ErrHeld)
	})
}
