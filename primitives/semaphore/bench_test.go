package semaphore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// BenchmarkLease is one acquire-and-release: where there is room, and of eight sessions at
// once who want three. Run it with
//
//	go test -bench . -run '^$' ./primitives/semaphore
func BenchmarkLease(b *testing.B) {
	ens := zktest.StartEnsemble(b, 1, zktest.DataIn("/dev/shm"), zktest.DirectLinks())
	var all []*session.Session
	for range 8 {
		s, err := session.Open(b.Context(), ens.Addrs(), &session.Options{Timeout: 20 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(s.Close)
		all = append(all, s)
	}
	nothing := func(context.Context) error { return nil }
	cycle := func(b *testing.B, s *session.Session, path string, limit, weight int) {
		b.Helper()
		if err := semaphore.Do(b.Context(), s, path, limit, &semaphore.Options{Weight: weight}, nothing); err != nil {
			b.Error(err)
		}
	}
	for name, weight := range map[string]int{"unit": 1, "weighted": 2} {
		b.Run("room/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				cycle(b, all[0], "/room-"+name, 10, weight)
			}
		})
		b.Run("contended/"+name, func(b *testing.B) {
			for b.Loop() {
				var wg sync.WaitGroup
				for _, s := range all {
					wg.Go(func() { cycle(b, s, "/contended-"+name, 3, weight) })
				}
				wg.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(all)), "ns/lease")
		})
	}
}
