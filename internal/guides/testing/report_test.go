package report

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestMain fails if a handle or a session was not closed.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, addresses []string, opts *session.Options) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), addresses, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// The session expires under the work: its context ends.
func TestLoss(t *testing.T) {
	srv := zktest.Start(t)
	s := open(t, srv.Addrs(), nil)
	err := Run(t.Context(), s, func(ctx context.Context) error {
		srv.Expire(s.ID())
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, lock.ErrLost) {
		t.Error(err)
	}
}

// A reply is lost with its connection: the lock is held all the same, and no node is left behind.
func TestLostReply(t *testing.T) {
	srv := zktest.Start(t)
	s := open(t, srv.Addrs(), nil)
	srv.DropReply(zktest.Match{Path: "/locks/report*"})
	if err := Run(t.Context(), s, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	if err := srv.AwaitFault(10 * time.Second); err != nil {
		t.Error(err) // the test would prove nothing
	}
	for _, path := range srv.Paths() {
		if strings.HasPrefix(path, "/locks/report/") {
			t.Error("left behind:", path)
		}
	}
}

// All servers are down for a minute, which takes no time in a bubble: the work ends before the
// servers would give the lock to another, and a later run succeeds.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.InProcess()) // no sockets: a bubble cannot wait for them
		s := open(t, srv.Addrs(), &session.Options{Timeout: 10 * time.Second, Dialer: srv.DialContext})
		err := Run(t.Context(), s, func(ctx context.Context) error {
			srv.Refuse(true)
			srv.Disconnect(0) // all
			down := time.Now()
			<-ctx.Done()
			if since := time.Since(down); since > 10*time.Second {
				t.Error("the loss came after", since)
			}
			return context.Cause(ctx)
		})
		if !errors.Is(err, session.ErrLapsed) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		srv.Refuse(false)
		if err := Run(t.Context(), s, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

// Real servers: the leader is killed under the work, which goes on.
func TestFailover(t *testing.T) {
	servers := zktest.StartEnsemble(t, 3) // skips the test where there are none, and with -short
	s := open(t, servers.Addrs(), &session.Options{Timeout: 20 * time.Second})
	err := Run(t.Context(), s, func(ctx context.Context) error {
		servers.Kill(servers.Leader())
		return s.Sync(ctx, "/") // returns when there is a new leader
	})
	if err != nil {
		t.Error(err)
	}
}
