package config_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRealCounter counts on three servers, whose replies are lost and connections cut, and
// whose leader is killed.
func TestRealCounter(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	var sessions []*session.Session
	for range 5 {
		ctx := check.Patient(t)
		s := check.Open(session.Open(ctx, proxy.Addrs(), &session.Options{Timeout: 40 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
		sessions = append(sessions, s)
	}
	var killed atomic.Bool
	leader := ens.Leader()
	confirmed, unknown := count(t, sessions, 20, func(i int) {
		switch {
		case i == 50:
			killed.Store(true)
			ens.Kill(leader)
		case i%7 == 0:
			proxy.DropReply(zktest.Match{Op: zktest.OpMulti})
		case i%11 == 0:
			proxy.DropRequest(zktest.Match{Op: zktest.OpMulti})
		case i%13 == 0:
			proxy.Disconnect(0)
		}
	})
	check.True(t, confirmed == 100 && unknown == 0 && killed.Load(), "%d confirmed, %d unknown, of 100", confirmed, unknown)
	v := check.Open(config.Open(sessions[0], "/app/counter", config.JSON[int], &config.Options{Sync: true}))(t)
	n, _, err := v.Get(t.Context())
	check.True(t, err == nil && n == 100, "the counter says %d, %v", n, err)
}
