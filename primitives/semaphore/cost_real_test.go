//go:build !race

// The race detector changes what everything costs.

package semaphore_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// warm has n goroutines at once. The runtime keeps what it has allocated for a goroutine that has
// ended: how many work at once, which is chance, must not count as a cost of what they make.
func warm(n int) {
	var all sync.WaitGroup
	end := make(chan struct{})
	for range n {
		all.Go(func() { <-end })
	}
	close(end)
	all.Wait()
}

// TestCostOfHolding holds ten thousand leases in one session: of one semaphore, and each of
// its own.
func TestCostOfHolding(t *testing.T) {
	hasten.Alone(t)
	const n, most = 10_000, 4 << 10
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	for name, pathOf := range map[string]func(int) string{
		"one semaphore": func(int) string { return "/one" },
		"many":          func(i int) string { return fmt.Sprintf("/l/%04d", i) },
	} {
		t.Run(name, func(t *testing.T) {
			s := check.Have(session.Open(t.Context(), ens.Addrs(), nil))(t)
			defer s.Close()
			first, err := semaphore.Acquire(t.Context(), s, pathOf(0), n, nil)
			check.Must(t, err)
			first.Close()
			use := func(goroutines int) (bytes int) {
				for ctx := check.Patient(t); ctx.Err() == nil && runtime.NumGoroutine() > goroutines; { // until the requests' own have ended
					<-time.After(time.Millisecond)
				}
				runtime.GC()
				runtime.GC() // the first one only marks; stacks shrink in the second
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				return int(stats.HeapAlloc + stats.StackInuse)
			}
			warm(2 * n)
			goroutines := runtime.NumGoroutine()
			before := use(goroutines)
			leases := make([]*semaphore.Lease, n)
			for i := range leases {
				leases[i], err = semaphore.New(s, pathOf(i), n, nil)
				check.Must(t, err)
			}
			for i, l := range leases {
				ev := <-l.Events()
				check.Require(t, l.ID() != 0, "%d: %v", i, ev)
			}
			if err := s.Sync(t.Context(), "/"); err != nil { // so that all watches stand
				t.Fatal(err)
			}
			each := (use(goroutines+n/100) - before) / n
			t.Logf("a held lease costs %d bytes of heap and stack", each)
			check.AtMost(t, each, most, "bytes of a held lease")
			for _, l := range leases {
				go l.Close()
			}
			for _, l := range leases {
				for range l.Events() { // until it is closed
				}
			}
		})
	}
}
