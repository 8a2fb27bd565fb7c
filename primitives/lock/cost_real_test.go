//go:build !race

// The race detector changes what everything costs.

package lock_test

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
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
// goroutines holds, or after a minute.
func use(t *testing.T, until func(goroutines int) bool) usage {
	t.Helper()
	for ctx := check.Patient(t); ctx.Err() == nil && !until(runtime.NumGoroutine()); {
		<-time.After(time.Millisecond)
	}
	runtime.GC()
	runtime.GC() // the first one only marks; stacks shrink in the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return usage{int(stats.HeapAlloc), int(stats.StackInuse), int(stats.HeapInuse), runtime.NumGoroutine()}
}

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

// TestCostOfHolding holds ten thousand locks in one session.
func TestCostOfHolding(t *testing.T) {
	hasten.Alone(t)
	const n, most = 10_000, 4 << 10
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	ctx := check.Patient(t)
	s, other := kit.Open(t, ens.Addrs(), nil), kit.Open(t, ens.Addrs(), nil)
	kit.Ensure(t, s, "/l", nil)
	acquire(t, s, "/l/warm").Close()
	locks := make([]*lock.Lock, n)
	warm(2 * n)
	before := use(t, func(int) bool { return true })

	began := time.Now()
	for i := range locks {
		l := check.Have(lock.New(s, fmt.Sprintf("/l/%04d", i), nil))(t)
		locks[i] = l
	}
	for _, l := range locks {
		ev, ok := (<-l.Events()).(lock.Acquired)
		check.Require(t, ok, "%v", ev)
	}
	if err := s.Sync(ctx, "/"); err != nil { // so that all watches stand
		t.Fatal(err)
	}
	acquired := time.Since(began)
	held := use(t, func(g int) bool { return g <= before.goroutines+n/100 })
	live, stack, goroutines := (held.live-before.live)/n, (held.stack-before.stack)/n, held.goroutines-before.goroutines
	t.Logf("%d locks, acquired in %v: each costs %d + %d bytes of heap and stack, and %.4f goroutines; with the gaps between objects the heap uses %d bytes",
		n, acquired, live, stack, float64(goroutines)/n, (held.pages-before.pages)/n)
	check.AtMost(t, live+stack, most, "bytes of a held lock")
	check.AtMost(t, goroutines, n/10, "goroutines for", n, "locks")

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
		check.True(t, l.Err() == nil, "lock %d: %v", i, l.Err())
		locks[i] = nil
	}
	check.Must(t, s.Sync(ctx, "/"))
	after := use(t, func(g int) bool { return g <= before.goroutines })
	t.Logf("closed in %v; %d bytes for each are kept by the runtime and by maps", released, (after.live+after.stack-before.live-before.stack)/n)
	check.AtMost(t, after.goroutines, before.goroutines, "goroutines")
	for i := range locks {
		stat, err := other.Exists(ctx, fmt.Sprintf("/l/%04d", i))
		if err != nil || stat != nil && stat.NumChildren != 0 {
			t.Fatalf("/l/%04d: %+v, %v", i, stat, err)
		}
	}
	check.Equal(t, ens.Mntr(0)["zk_watch_count"], "0", "watches are left")
	runtime.KeepAlive(locks)
}

// TestCostOfAcquiring has ten thousand goroutines wait for as many locks, which another session
// holds.
func TestCostOfAcquiring(t *testing.T) {
	hasten.Alone(t)
	const n, most = 10_000, 9 << 10 // half of it is the stack of the caller's own goroutine
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	ctx := check.Patient(t)
	s, other := kit.Open(t, ens.Addrs(), nil), kit.Open(t, ens.Addrs(), nil)
	kit.Ensure(t, s, "/l", nil)
	acquire(t, s, "/l/warm").Close()
	path := func(i int) string { return fmt.Sprintf("/l/%04d", i) }
	holders := make([]*lock.Lock, n)
	for i := range holders {
		l := check.Have(lock.New(other, path(i), nil))(t)
		holders[i] = l
	}
	for _, l := range holders {
		<-l.Events()
	}
	warm(3 * n)
	before := use(t, func(int) bool { return true })
	acquired := make(chan error, n)
	for i := range n {
		go func() {
			l, err := lock.Acquire(ctx, s, path(i), nil)
			if err == nil {
				err = l.Release(ctx)
			}
			acquired <- err
		}()
	}
	for watches := 0; watches < 3*n; { // of the holders, and two of each that waits: also on the node ahead
		check.Must(t, s.Sync(ctx, "/"))
		watches, _ = strconv.Atoi(ens.Mntr(0)["zk_watch_count"])
	}
	check.Must(t, s.Sync(ctx, "/")) // so that the client has the last answer
	waiting := use(t, func(g int) bool { return g <= before.goroutines+n })
	live, stack, goroutines := (waiting.live-before.live)/n, (waiting.stack-before.stack)/n, waiting.goroutines-before.goroutines
	t.Logf("each of %d that wait costs %d + %d bytes of heap and stack, and %.4f goroutines", n, live, stack, float64(goroutines)/n)
	check.AtMost(t, live+stack, most, "bytes of a caller that waits")
	check.AtMost(t, goroutines, n+n/10, "goroutines for", n, "callers")
	for _, l := range holders {
		go l.Close()
	}
	for range n {
		check.Must(t, <-acquired)
	}
}
