package session_test

import (
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRealReadOnly: a real server that has lost its quorum refuses the session, and serves reads to
// the next one, until there is a quorum again.
func TestRealReadOnly(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.JVMFlags("-Dreadonlymode.enabled=true"),
		zktest.Setting("localSessionsEnabled", "true"), zktest.Setting("localSessionsUpgradingEnabled", "true"))
	ctx := check.Patient(t)
	s := kit.Open(t, ens.Addrs(), &session.Options{Timeout: 20 * time.Second, ServerTick: 100 * time.Millisecond, ReadOnly: true})
	check.Have(s.Create(ctx, "/kept", []byte("x"), session.Persistent))(t)
	leader, followers := ens.Leader(), ens.Followers()
	rest := kit.Open(t, []string{ens.Addr(followers[1])}, nil)
	if err := rest.Sync(ctx, "/"); err != nil { // the server that is left knows the node
		t.Fatal(err)
	}
	rest.Close()
	events := s.Events(ctx)
	await[session.Connected](t, events)

	defer s.Hold()()
	ens.Kill(leader)
	ens.Kill(followers[0])
	await[session.Lapsed](t, events)
	if data, _, err := s.Get(ctx, "/kept"); err != nil || string(data) != "x" { // when the server serves it
		t.Fatalf("%q, %v", data, err)
	}
	check.True(t, s.ReadOnly(), "the session is not read-only")
	check.Is(t, s.Healthy(ctx), session.ErrReadOnly)
	check.Fails(s.Set(ctx, "/kept", nil, session.AnyVersion))(t, session.ErrReadOnly)

	ens.Restart(leader, followers[0])
	zktest.Await(t, events, func(ev session.Event) bool {
		_, resumed := ev.(session.Resumed)
		_, connected := ev.(session.Connected)
		return resumed || connected
	})
	check.Have(s.Set(ctx, "/kept", []byte("y"), session.AnyVersion))(t)
}
