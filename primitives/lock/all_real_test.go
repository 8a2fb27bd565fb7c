package lock_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
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

var togetherFor = flag.Duration("lock.together", 0, "how long 50 callers take three of twenty locks at once on three real servers; 0 means until each has had them a few times")

// TestRealAllAtOnce: 50 callers in 10 sessions take three random locks of twenty each, in random
// orders. None waits for ever, no lock is held by two, and all get about the same number of turns.
func TestRealAllAtOnce(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	const callers, sessions, locks, each, turns = 50, 10, 20, 3, 4
	ens := zktest.SharedEnsemble(t, 3)
	start := time.Now()
	var all []*session.Session
	for range sessions {
		all = append(all, kit.Open(t, ens.Addrs(), nil))
	}
	var holders [locks]atomic.Int32
	var counts [callers]int
	var longest [callers]time.Duration
	var group sync.WaitGroup
	for n := range callers {
		group.Go(func() {
			r, s := rand.New(rand.NewPCG(1, uint64(n))), all[n%sessions]
			for counts[n] < turns || time.Since(start) < *togetherFor {
				mine := r.Perm(locks)[:each]
				var wants []lock.Want
				for _, i := range mine {
					wants = append(wants, lock.Want{Path: fmt.Sprintf("/together/%d", i)})
				}
				began := time.Now()
				a, err := lock.AcquireAll(check.Patient(t), s, wants, nil)
				if err != nil {
					t.Error(err)
					return
				}
				longest[n] = max(longest[n], time.Since(began))
				for _, i := range mine {
					check.Equal(t, holders[i].Add(1), 1, "holders of", i)
				}
				_, err = s.Multi(t.Context(), a.Guards()...)
				check.OK(t, err)
				for _, i := range mine {
					holders[i].Add(-1)
				}
				a.Close()
				counts[n]++
			}
		})
	}
	group.Wait()
	slices.Sort(counts[:])
	t.Logf("turns of a caller: %d to %d, half have %d or more; longest wait %v", counts[0], counts[callers-1], counts[callers/2], slices.Max(longest[:]))
	if *togetherFor > 0 {
		check.AtLeast(t, counts[0], counts[callers/2]/2, "turns of the caller with the fewest")
	}
	for i := range locks {
		check.Len(t, kit.Children(t, all[0], fmt.Sprintf("/together/%d", i)), 0, i)
	}
}
