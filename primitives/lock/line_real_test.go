package lock_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRealLine has the servers to itself, and reads what they count.
func TestRealLine(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	t.Run("twenty contenders", func(t *testing.T) { twentyContenders(t, ens) })
	t.Run("requests", func(t *testing.T) { requests(t, ens) })
	t.Run("watches", func(t *testing.T) { watches(t, ens) })
}

// A grant is what a contender was told.
type grant struct {
	token int64
	node  string
}

// twentyContenders pass a lock around, five hundred times with -lock.campaign.
func twentyContenders(t *testing.T, ens *zktest.Ensemble) {
	const sessions, contenders = 5, 20
	rounds := often(5, 25)
	ctx := check.Patient(t)
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	operator := kit.Open(t, ens.Addrs(), nil)
	const path = "/twenty"
	kit.Ensure(t, operator, path, nil) // numbers would begin anew if it was reaped
	var all []*session.Session
	for range sessions {
		all = append(all, kit.Open(t, proxy.Addrs(), nil))
	}
	keys := []string{"zk_sum_node_deleted_watch_count", "zk_sum_node_changed_watch_count", "zk_sum_node_children_watch_count"}
	before := sum(t, ens, keys...)
	proxy.StartTrace()

	var (
		holders atomic.Int32
		mu      sync.Mutex
		grants  []grant
		wg      sync.WaitGroup
	)
	began := time.Now()
	for i := range contenders {
		s := all[i%sessions]
		wg.Go(func() {
			for range rounds {
				l, err := lock.Acquire(ctx, s, path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				check.Equal(t, holders.Add(1), 1, "holders")
				mu.Lock()
				grants = append(grants, grant{l.Token(), l.Node()})
				mu.Unlock()
				holders.Add(-1)
				check.OK(t, l.Release(ctx))
				l.Close()
			}
		})
	}
	wg.Wait()
	t.Logf("%d grants in %v", len(grants), time.Since(began))

	for i := 1; i < len(grants); i++ {
		if grants[i].token <= grants[i-1].token {
			t.Errorf("token %d after %d", grants[i].token, grants[i-1].token)
		}
		now, last := number(t, grants[i].node), number(t, grants[i-1].node)
		check.Equal(t, now, last+1, "what was granted after", last)
	}

	// The servers' own count, from ZooKeeper 3.6 on, and who was told of which release.
	after := sum(t, ens, keys...)
	if _, counts := after[keys[0]]; counts {
		countedWatches(t, ens, before, after, keys, len(grants))
	}
	told := make(map[string][]int64)
	for _, r := range proxy.Trace() {
		if r.Dir == zktest.ToClient && r.Op == 0 {
			for _, node := range r.Paths {
				told[node] = append(told[node], r.Session)
			}
		}
	}
	most := 0
	for _, g := range grants {
		most = max(most, len(told[g.node]))
		check.AtMost(t, len(told[g.node]), 3, "the release of", g.node, "woke")
		delete(told, g.node)
	}
	check.True(t, len(told) == 0, "other notifications: %v", told)
	t.Logf("a release was told to %d sessions at most, with its own", most)
}

// countedWatches compares what the servers have counted with the deletions.
func countedWatches(t *testing.T, ens *zktest.Ensemble, before, after map[string]int, keys []string, deletions int) {
	t.Helper()
	if n := after[keys[0]] - before[keys[0]]; n > 3*deletions || n < deletions {
		t.Errorf("%d watches fired for %d deletions", n, deletions)
	} else {
		t.Logf("%d watches fired for %d deletions", n, deletions)
	}
	for _, key := range keys[1:] {
		check.Equal(t, after[key]-before[key], 0, key)
	}
	for i := range ens.Size() {
		most, err := strconv.ParseFloat(ens.Mntr(i)["zk_max_node_deleted_watch_count"], 64)
		check.True(t, err == nil && most <= 3, "server %d: one deletion fired %v watches, %v", i, most, err)
	}
}

// requests: what an uncontended cycle costs when the parent is warm.
func requests(t *testing.T, ens *zktest.Ensemble) {
	const cycles = 50
	ctx := check.Patient(t)
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	s, operator := kit.Open(t, proxy.Addrs(), nil), kit.Open(t, ens.Addrs(), nil)
	const path = "/requests"
	kit.Ensure(t, operator, path, nil)
	acquire(t, s, path).Close() // warms the parent

	proxy.ResetRequests()
	before := ens.Proposals()
	for range cycles {
		acquire(t, s, path).Close()
	}
	check.Equal(t, ens.Proposals()-before, 2*cycles, "proposals for", cycles, "cycles")
	want := zktest.Counts{zktest.OpMulti: cycles, zktest.OpGetData: cycles, zktest.OpDelete: cycles}
	check.EqualMaps(t, kit.WithoutSyncs(proxy.Requests()), want)

	// No call waits for the second and the third request: they are done after both
	// calls have returned.
	before = ens.Proposals()
	proxy.Delay(zktest.Match{Op: zktest.OpGetData}, 2*time.Second)
	l := check.Have(lock.Acquire(ctx, s, path, &lock.Options{ReleaseInBackground: true}))(t)
	check.Must(t, proxy.AwaitFault(check.Patience))
	proxy.Freeze(s.ID(), zktest.ToServer)
	l.Close()
	check.Len(t, kit.Children(t, operator, path), 1, "acquire and close have waited")
	proxy.Thaw(s.ID())
	check.Must(t, s.Sync(ctx, path))
	check.Len(t, kit.Children(t, operator, path), 0)
	check.Equal(t, ens.Proposals()-before, 2, "proposals for a cycle")
}

// watches: none is left that is not needed.
func watches(t *testing.T, ens *zktest.Ensemble) {
	const contenders = 4
	cycles := often(200, 1000)
	ctx := check.Patient(t)
	var all []*session.Session
	for i := range ens.Size() {
		all = append(all, kit.Open(t, []string{ens.Addr(i)}, nil))
	}
	const path = "/watches"
	kit.Ensure(t, all[0], path, nil)
	standing := func() (n int, detail string) {
		for i := range ens.Size() {
			answer := check.Have(ens.FourLetterWord(i, "wchs"))(t)
			_, total, ok := strings.Cut(strings.TrimSpace(answer), "Total watches:")
			var k int
			_, err := fmt.Sscan(total, &k)
			check.Require(t, err == nil && ok, "wchs: %q", answer)
			n += k
			more := check.Have(ens.FourLetterWord(i, "wchp"))(t)
			detail += more
		}
		return n, detail
	}
	settle := func() {
		for _, s := range all {
			check.Must(t, s.Sync(ctx, path))
		}
	}
	if n, detail := standing(); n != 0 {
		t.Fatalf("%d watches before: %s", n, detail)
	}
	var wg sync.WaitGroup
	for i := range contenders {
		s := all[i%len(all)]
		wg.Go(func() {
			for range cycles / contenders {
				check.OK(t, lock.Do(ctx, s, path, nil, func(context.Context, int64) error { return nil }))
			}
		})
	}
	wg.Wait()
	settle()
	if n, detail := standing(); n != 0 {
		t.Errorf("%d watches after %d cycles: %s", n, cycles, detail)
	}

	// Waiters that come and go while one holds it: what they have watched stays parked,
	// once for each session.
	holder := acquire(t, all[0], path)
	for range 50 {
		for _, s := range all {
			l := join(t, s, path, nil)
			kit.Await[lock.Waiting](t, l.Events())
			l.Close()
		}
	}
	settle()
	if n, detail := standing(); n > len(all) {
		t.Errorf("%d watches after waiters have come and gone: %s", n, detail)
	}
	release(t, holder)
	settle()
	if n, detail := standing(); n != 0 {
		t.Errorf("%d watches after all: %s", n, detail)
	}
}
