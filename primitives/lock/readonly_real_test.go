package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRealReadOnly: two of three servers end. The third answers reads, refuses writes, and neither
// keeps a lock nor grants one. When the others are back, the session moves to a server with a
// quorum.
func TestRealReadOnly(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.SyncLimit(5), zktest.JVMFlags("-Dreadonlymode.enabled=true"),
		zktest.Setting("localSessionsEnabled", "true"), zktest.Setting("localSessionsUpgradingEnabled", "true"))
	ctx := check.Patient(t)
	left := ens.Followers()[0]
	others := []int{(left + 1) % 3, (left + 2) % 3}
	addrs := ens.Addrs()
	opts := &session.Options{Timeout: 4 * time.Second, ServerTick: 100 * time.Millisecond, ReadOnly: true}
	s := check.Open(session.Open(ctx, addrs, opts))(t)
	check.Have(s.Create(ctx, "/value", []byte("x"), session.Persistent))(t)
	check.Must(t, s.Sync(ctx, "/"))
	l := check.Have(lock.Acquire(ctx, s, "/lock", nil))(t)
	for _, i := range others {
		ens.Kill(i)
	}
	<-l.Done() // no read-only server keeps it
	check.Is(t, l.Err(), lock.ErrLost)
	check.Reads(s.Get(ctx, "/value"))(t, "x")
	check.Require(t, s.ReadOnly(), "%v is not read-only", s)
	check.Fails(s.Set(ctx, "/value", nil, session.AnyVersion))(t, session.ErrReadOnly)
	waiter := check.Have(lock.New(s, "/lock", nil))(t)
	short, cancel := context.WithTimeout(ctx, time.Second)
	if l, err := lock.Acquire(short, s, "/other", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", l, err)
	}
	cancel()
	if stat, err := s.Exists(ctx, "/other"); stat != nil || err != nil {
		t.Errorf("%v, %v", stat, err)
	}
	check.None(t, waiter.Done(), "the waiter has ended")
	check.Equal(t, waiter.Token(), 0, "a token of a read-only server")
	plain := check.Have(session.Start(addrs[left:left+1], nil))(t)
	short, cancel = context.WithTimeout(ctx, time.Second)
	check.Fails(plain.Exists(short, "/"))(t, context.DeadlineExceeded) // without the option
	cancel()
	plain.Close()

	ens.Restart(others...)
	for ev := range waiter.Events() {
		if _, is := ev.(lock.Acquired); is {
			break
		}
	}
	check.True(t, waiter.Token() != 0 && !s.ReadOnly(), "%v, %v", waiter.Err(), s)
	waiter.Close()
	l.Close()
}
