//go:build !race

package lock_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
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
			check.Must(t, err)
			synctest.Wait()
			l.Close()
		}
		check.AtMost(t, (heap()-before)/n, 300, "bytes for each")
	})
}

const serverVariable = "ZKACTORS_LOCK_SERVER"

// TestServerProcess is not a test: it is a server in memory in a process of its own, whose
// allocations are not counted with the client's.
func TestServerProcess(t *testing.T) {
	if os.Getenv(serverVariable) == "" {
		t.Skip("no process has asked for a server")
	}
	fmt.Println(zktest.Start(t).Addrs()[0])
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
}

// TestCostOfCycle counts the allocations of an acquisition and its release, of all goroutines
// of the client.
func TestCostOfCycle(t *testing.T) {
	const most = 57
	s := kit.Open(t, []string{check.Apart(t, "TestServerProcess", serverVariable)}, nil)
	kit.Ensure(t, s, "/cycle", nil)
	ctx := context.Background()
	cycle := func() {
		l, err := lock.Acquire(ctx, s, "/cycle", nil)
		check.Must(t, err)
		l.Close()
	}
	for range 2000 { // watches that are parked take memory until there are as many as there may be
		cycle()
	}
	check.AtMost(t, check.Allocs(200, cycle), most, "allocations")
}

// TestCostOfManyCycles counts the allocations of a cycle when all locks of a session are acquired
// at once, the goroutines that acquire them included.
func TestCostOfManyCycles(t *testing.T) {
	const locks, most = 512, 60
	s := kit.Open(t, []string{check.Apart(t, "TestServerProcess", serverVariable)}, nil)
	var paths []string
	for i := range locks {
		paths = append(paths, fmt.Sprintf("/cycle-%d", i))
		kit.Ensure(t, s, paths[i], nil)
	}
	round := func() {
		var wg sync.WaitGroup
		for i := range locks {
			wg.Go(func() {
				l, err := lock.Acquire(context.Background(), s, paths[i], nil)
				if err != nil {
					t.Error(err)
					return
				}
				l.Close()
			})
		}
		wg.Wait()
	}
	for range 4 {
		round()
	}
	allocs := check.Allocs(2, round) / locks
	check.True(t, allocs <= most, "%.1f allocations for each lock, want at most %v", allocs, most)
}
