package session_test

import (
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRealSlowAfterElection: the leader is killed, and from then on all answers are slow, or the
// next leader stops again and again. The sessions that hold something keep it, and can write. One
// that is cut off at that moment is told at its deadline, before its node goes.
func TestRealSlowAfterElection(t *testing.T) {
	t.Parallel()
	const holders, trip = 6, 800 * time.Millisecond
	for name, slow := range map[string]func(t *testing.T, ens *zktest.Ensemble, proxy *zktest.Proxy) (stop func()){
		"answers are slow": func(_ *testing.T, _ *zktest.Ensemble, proxy *zktest.Proxy) func() {
			proxy.Latency(trip / 2)
			return func() { proxy.Latency(0) }
		},
		"the next leader stops again and again": func(t *testing.T, ens *zktest.Ensemble, _ *zktest.Proxy) func() {
			return hiccups(t, ens)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ens := zktest.StartEnsemble(t, 3, zktest.NoSync(), zktest.SyncLimit(100))
			proxy := zktest.NewProxy(t, ens.Addrs()...)
			leader := ens.Leader()
			witness := kit.Open(t, ens.Addrs(), &session.Options{Timeout: 20 * time.Second})
			opts := &session.Options{Timeout: 20 * time.Second, ServerTick: 100 * time.Millisecond}
			all := make([]ward, holders)
			life := make([]*lives, holders)
			for i := range all {
				all[i] = newWard(t, witness, proxy.Addrs(), opts)
				life[i] = livesOf(all[i].Session)
			}
			opts.Timeout = 10 * time.Second
			lost := newWard(t, witness, proxy.Addrs(), opts)

			proxy.Freeze(id(t, lost.Session), zktest.Both)
			ens.Kill(leader)
			stop := slow(t, ens, proxy)
			t.Cleanup(stop)
			for i, w := range all {
				check.Have(w.Create(check.Patient(t), "/written-", []byte{byte(i)}, session.PersistentSequential))(t)
			}
			t.Logf("told %v before the node went", lost.toldInTime(t))
			for i, w := range all {
				check.Equal(t, life[i].expired.Load(), 0, "sessions lost of a holder")
				check.None(t, w.gone, "the node of a holder is gone")
				check.Must(t, w.Sync(check.Patient(t), "/")) // still, while it is slow
			}
			stop()
			ens.Restart(leader)
		})
	}
}

// hiccups stops the leader again and again, until stopped.
func hiccups(t *testing.T, ens *zktest.Ensemble) (stop func()) {
	t.Helper()
	leader := check.Have(ens.LeaderContext(check.Patient(t)))(t)
	end := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for paused := false; ; paused = !paused {
			select {
			case <-ticker.C:
			case <-end:
				ens.Resume(leader)
				return
			}
			if paused {
				ens.Resume(leader)
			} else {
				ens.Pause(leader)
			}
		}
	})
	return sync.OnceFunc(func() {
		close(end)
		working.Wait()
	})
}
