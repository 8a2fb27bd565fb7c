//go:build !race

package lock_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCostOfClosed: no timer keeps a handle that is closed in memory.
func TestCostOfClosed(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		standsAt(t, lock.New, all[0], "/l", prior(0))
		heap := func() int64 {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		const warm, n = 100, 1000
		before := int64(0)
		for i := range warm + n {
			if i == warm {
				before = heap()
			}
			l, err := lock.New(all[1], "/l", preempting(5, 24*time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			l.Close()
		}
		if per := (heap() - before) / n; per > 300 {
			t.Errorf("%d bytes for each", per)
		}
	})
}
