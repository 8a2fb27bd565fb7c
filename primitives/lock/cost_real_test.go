//go:build !race

// The race detector changes what everything costs.

package lock_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session/zktest"
)

type usage struct {
	live       int // bytes of objects on the heap
	stack      int // bytes of stacks
	pages      int // bytes that the heap has in use for objects and the gaps between them
	goroutines int
}

// use returns what is in use, after a collection, when a condition on the number of
// goroutines holds, or after a while.
func use(until func(goroutines int) bool) usage {
	for range 1000 {
		if until(runtime.NumGoroutine()) {
			break
		}
		runtime.Gosched()
	}
	runtime.GC()
	runtime.GC() // the first one only marks; stacks shrink in the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return usage{int(stats.HeapAlloc), int(stats.StackInuse), int(stats.HeapInuse), runtime.NumGoroutine()}
}

// TestCostOfHolding holds ten thousand locks in one session.
func TestCostOfHolding(t *testing.T) {
	const n, most = 10_000, 8 << 10
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	ctx := patient(t)
	s, other := open(t, ens.Addrs(), nil), open(t, ens.Addrs(), nil)
	ensure(t, s, "/l", nil)
	acquire(t, s, "/l/warm").Close()
	locks := make([]*lock.Lock, n)
	before := use(func(int) bool { return true })

	began := time.Now()
	for i := range locks {
		l, err := lock.New(s, fmt.Sprintf("/l/%04d", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		locks[i] = l
	}
	for _, l := range locks {
		if ev, ok := (<-l.Events()).(lock.Acquired); !ok {
			t.Fatalf("%v", ev)
		}
	}
	if err := s.Sync(ctx, "/"); err != nil { // so that all watches stand
		t.Fatal(err)
	}
	acquired := time.Since(began)
	held := use(func(g int) bool { return g <= before.goroutines+n })
	live, stack, goroutines := (held.live-before.live)/n, (held.stack-before.stack)/n, held.goroutines-before.goroutines
	t.Logf("%d locks, acquired in %v: each costs %d + %d bytes of heap and stack, and %.4f goroutines; with the gaps between objects the heap uses %d bytes",
		n, acquired, live, stack, float64(goroutines)/n, (held.pages-before.pages)/n)
	if live+stack > most {
		t.Errorf("a held lock costs %d bytes, more than %d", live+stack, most)
	}
	if goroutines > n {
		t.Errorf("%d goroutines for %d locks", goroutines, n)
	}

	began = time.Now()
	for _, l := range locks {
		go l.Close()
	}
	for _, l := range locks {
		for range l.Events() { // until it is closed
		}
	}
	released := time.Since(began)
	for i, l := range locks {
		if l.Err() != nil {
			t.Errorf("lock %d: %v", i, l.Err())
		}
		locks[i] = nil
	}
	if err := s.Sync(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	after := use(func(g int) bool { return g <= before.goroutines })
	t.Logf("closed in %v; %d bytes for each are kept by the runtime and by maps", released, (after.live+after.stack-before.live-before.stack)/n)
	if after.goroutines > before.goroutines {
		t.Errorf("%d goroutines more than before", after.goroutines-before.goroutines)
	}
	for i := range locks {
		stat, err := other.Exists(ctx, fmt.Sprintf("/l/%04d", i))
		if err != nil || stat != nil && stat.NumChildren != 0 {
			t.Fatalf("/l/%04d: %+v, %v", i, stat, err)
		}
	}
	if watches := ens.Mntr(0)["zk_watch_count"]; watches != "0" {
		t.Errorf("%s watches are left", watches)
	}
	runtime.KeepAlive(locks)
}
