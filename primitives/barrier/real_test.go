package barrier_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var realRounds = flag.Int("barrier.rounds", hasten.Usually(30, 10), "rounds on real servers; 1,000 are a campaign")

// TestRealRounds has ten parties go through rounds on three servers, while connections are cut
// every 50 ms.
func TestRealRounds(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	all := make([]*session.Session, 10)
	for i := range all {
		all[i] = kit.Open(t, proxy.Addrs(), nil)
	}
	ctx, stop := context.WithCancel(t.Context())
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	cutter := begin(func() error {
		r := rand.New(rand.NewPCG(3, 4))
		for {
			select {
			case <-ticker.C:
				proxy.Disconnect(all[r.IntN(len(all))].ID())
			case <-ctx.Done():
				return nil
			}
		}
	})
	handles := doubles(t, all, 10)
	rounds(t, handles, *realRounds, func(int) {})
	stop()
	check.Must(t, <-cutter)
}

// TestRealBarrier raises and lifts on one server what is waited for on another.
func TestRealBarrier(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	one, two := kit.Open(t, []string{ens.Addr(0)}, nil), kit.Open(t, []string{ens.Addr(1)}, nil)
	raiser, waiter := single(t, one, nil), single(t, two, nil)
	for range 20 {
		check.Must(t, raiser.Raise(t.Context()))
		waits := begin(func() error { return waiter.Wait(t.Context()) })
		for ev := range waiter.Events() {
			if _, is := ev.(barrier.Raised); is {
				break
			}
		}
		check.Must(t, raiser.Lift(t.Context()))
		check.Must(t, <-waits)
		gate, err := raiser.TryRaise(t.Context())
		check.Must(t, err)
		check.Must(t, gate.Lift(t.Context()))
	}
}
