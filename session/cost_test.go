//go:build unix && !race

// The race detector changes what everything costs.

package session_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCostOfRequests counts allocations, of all goroutines of the session.
func TestCostOfRequests(t *testing.T) {
	s := mustOpenAt(t, check.Apart(t, "TestResponderProcess", responderVariable))
	failed := make(chan error)
	answer := func(_ *session.Stat, err error) { failed <- err }
	ctx := context.Background()
	for name, row := range map[string]struct {
		most    float64
		request func() error
	}{
		"asynchronous": {5, func() error { s.Async(0).Exists("/some/node", answer); return <-failed }},
		"blocking":     {8, func() error { _, err := s.Exists(ctx, "/some/node"); return err }},
	} {
		allocs := testing.AllocsPerRun(5000, func() {
			check.OK(t, row.request())
		})
		check.True(t, allocs <= row.most, "%s: %v allocations, want at most %v", name, allocs, row.most)
	}
}

// TestCostOfNoObserver: a report that is for nobody takes no memory.
func TestCostOfNoObserver(t *testing.T) {
	s := mustOpenAt(t, check.Apart(t, "TestResponderProcess", responderVariable))
	allocs := testing.AllocsPerRun(1000, func() {
		o := s.Observer()
		o.Put("/q", 1, time.Second, nil)
		o.Delivered("/q", time.Second, 1)
		o.Settled("/q", "acknowledged", time.Second)
		o.Buried("/q")
	})
	check.True(t, allocs == 0, "%v allocations", allocs)
}

// live returns the bytes of heap and stacks in use.
func live() int {
	runtime.GC()
	runtime.GC() // the first one only marks; stacks shrink in the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc + stats.StackInuse)
}

// TestCostOfIdling includes the server's side.
func TestCostOfIdling(t *testing.T) {
	const n, most = 200, 96 << 10
	srv := zktest.Start(t)
	mustOpenAt(t, srv.Addrs()[0])
	before := live()
	for range n {
		mustOpenAt(t, srv.Addrs()[0])
	}
	check.AtMost(t, (live()-before)/n, most, "bytes of an idle session")
}

// TestCostOfLargeFrames: buffers that have grown shrink again.
func TestCostOfLargeFrames(t *testing.T) {
	srv := zktest.Start(t)
	s := mustOpenAt(t, srv.Addrs()[0])
	litter(t, s, "/many", 4000)
	check.Have(s.Create(t.Context(), "/large", nil, session.Persistent))(t)
	small := func() int {
		for range 100 {
			check.Must(t, exists(t, s))
		}
		return live()
	}
	before := small()
	for range 3 {
		names, _, err := s.Children(t.Context(), "/many")
		check.Require(t, err == nil && len(names) == 4000, "%d children, %v", len(names), err)
		for _, data := range [][]byte{bytes.Repeat([]byte("x"), 1e6), nil} {
			check.Have(s.Set(t.Context(), "/large", data, session.AnyVersion))(t)
		}
	}
	check.AtMost(t, small()-before, 256<<10, "bytes kept after large requests and replies")
}

// litter makes n children with names of a thousand bytes.
func litter(t *testing.T, s *session.Session, dir string, n int) {
	t.Helper()
	ops := []session.Op{session.CreateOp(dir, nil, session.Persistent)}
	for i := range n {
		ops = append(ops, session.CreateOp(fmt.Sprintf("%s/%01000d", dir, i), nil, session.Persistent))
		if len(ops) == 400 || i == n-1 {
			check.Have(s.Multi(t.Context(), ops...))(t)
			ops = ops[:0]
		}
	}
}
