package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCrowdInTrouble has many contenders for many locks, whose sessions share transactions, while
// connections are cut, servers are busy, and an operator deletes nodes: no two holders that stand,
// tokens that grow, a holder that hears of the end of its node, no contender that waits for ever,
// and nothing that is left.
func TestCrowdInTrouble(t *testing.T) {
	for seed := *campaignFirst; seed < *campaignFirst+hasten.Sized(*campaignSeeds, 1); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			config := zktest.Config{Latency: time.Millisecond}
			kit.Sessions(t, config, 3, session.Options{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
				playCrowd(t, srv, all, seed)
			})
		})
	}
}

func playCrowd(t *testing.T, srv *zktest.Server, all []*session.Session, seed uint64) {
	t.Helper()
	const paths, contenders, cycles = 20, 3, 4
	operator := all[2]
	type site struct {
		mu     sync.Mutex
		holder *lock.Lock
		token  int64
		round  int
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	var wg sync.WaitGroup
	for i := range paths {
		at, path := &site{}, fmt.Sprint("/crowd-", i)
		for n := range contenders {
			dice := rand.New(rand.NewPCG(seed, uint64(i*contenders+n)))
			wg.Go(func() {
				for range cycles {
					l, err := lock.Acquire(ctx, all[n%2], path, nil)
					if err != nil {
						t.Errorf("%s: %v", path, err)
						return
					}
					stands := slices.Contains(srv.Paths(), l.Node())
					at.mu.Lock()
					if other := at.holder; other != nil && !isClosed(other.Done()) && stands && slices.Contains(srv.Paths(), other.Node()) {
						t.Errorf("%s: two hold it, with %s and %s", path, other.Node(), l.Node())
					}
					check.True(t, l.Token() > at.token, "%s: token %d after %d", path, l.Token(), at.token)
					at.holder, at.token = l, l.Token()
					at.round++
					at.mu.Unlock()
					<-time.After(time.Duration(dice.IntN(30)) * time.Millisecond)
					if dice.IntN(6) == 0 {
						_ = operator.Delete(ctx, l.Node(), session.AnyVersion)
						select {
						case <-l.Done():
						case <-time.After(time.Minute):
							t.Errorf("%s: the holder of %s is not told that it is gone", path, l.Node())
						}
					}
					at.mu.Lock()
					if at.holder == l {
						at.holder = nil
					}
					at.mu.Unlock()
					l.Close()
				}
			})
		}
	}
	over := make(chan struct{})
	wg.Go(func() {
		dice := rand.New(rand.NewPCG(seed, 1<<20))
		for range 60 {
			m := zktest.Match{Session: all[dice.IntN(2)].ID(), Skip: dice.IntN(4)}
			switch dice.IntN(6) {
			case 0:
				srv.Disconnect(m.Session)
			case 1:
				srv.DropReply(m)
			case 2:
				srv.DropRequest(m)
			case 3:
				srv.Delay(m, time.Duration(dice.IntN(50))*time.Millisecond)
			case 4:
				srv.AnswerError(m, throttled)
			case 5:
				srv.DelayEvent(zktest.Match{Session: m.Session}, time.Duration(dice.IntN(50))*time.Millisecond)
			}
			<-time.After(time.Duration(dice.IntN(20)) * time.Millisecond)
		}
		srv.ClearFaults()
	})
	go func() {
		wg.Wait()
		close(over)
	}()
	<-over
	<-time.After(time.Minute)
	synctest.Wait()
	for _, path := range srv.Paths() {
		check.False(t, strings.HasPrefix(path, "/crowd-") && strings.Count(path, "/") > 1, "%s is left", path)
	}
}
