package barrier_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
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
		all[i] = openReal(t, proxy.Addrs())
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
	ok(t, <-cutter)
}

// TestRealBarrier raises and lifts on one server what is waited for on another.
func TestRealBarrier(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	one, two := openReal(t, []string{ens.Addr(0)}), openReal(t, []string{ens.Addr(1)})
	raiser, waiter := single(t, one, nil), single(t, two, &barrier.Options{Sync: true})
	for range 20 {
		ok(t, raiser.Raise(t.Context()))
		waits := begin(func() error { return waiter.Wait(t.Context()) })
		for ev := range waiter.Events() {
			if _, is := ev.(barrier.Raised); is {
				break
			}
		}
		ok(t, raiser.Lift(t.Context()))
		ok(t, <-waits)
		gate, err := raiser.TryRaise(t.Context())
		ok(t, err)
		ok(t, gate.Lift(t.Context()))
	}
}

func openReal(t *testing.T, addrs []string) *session.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s := check.Have(session.Open(ctx, addrs, &session.Options{Timeout: 20 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
	t.Cleanup(s.Close)
	return s
}
