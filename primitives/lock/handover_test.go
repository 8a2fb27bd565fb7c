package lock_test

import (
	"fmt"
	"maps"
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

// TestHandOver: a hand-over is one commit, and the event that it causes: then the next contender
// holds the lock. Meanwhile one more contender finds out that it is next, which takes a list,
// unless only two were ahead of it when it came. The server also sends an event to the session that
// released, because that has watched its own node.
func TestHandOver(t *testing.T) {
	const latency = 10 * time.Millisecond
	for _, contenders := range []int{2, 3, 10, 100} {
		runWithSessions(t, fmt.Sprint(contenders), contenders, zktest.Config{Latency: latency}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			var line []*lock.Lock
			for _, s := range all {
				line = append(line, check.Have(lock.New(s, "/l", &lock.Options{ReleaseInBackground: true}))(t))
				<-time.After(time.Second)
			}
			requests := func() zktest.Counts {
				all := srv.Requests()
				maps.DeleteFunc(all, func(op zktest.Op, _ int) bool { return op == zktest.OpSync || op == zktest.OpCheck }) // heartbeats
				return all
			}
			for i := range min(contenders-1, 5) {
				srv.ResetRequests()
				line[i].Close()
				<-time.After(2 * latency)
				synctest.Wait()
				check.True(t, line[i+1].Token() != 0, "hand-over %d takes more than a round trip, %v", i, 2*latency)
				if got, want := requests(), (zktest.Counts{zktest.OpDelete: 1}); !maps.Equal(got, want) {
					t.Errorf("hand-over %d takes %v, want %v", i, got, want)
				}
				<-time.After(time.Second)
				want, events := zktest.Counts{zktest.OpDelete: 1}, 2
				if i+2 < contenders {
					events = 3
				}
				if i > 0 && i+2 < contenders {
					want[zktest.OpGetChildren2] = 1
				}
				if got := requests(); !maps.Equal(got, want) || srv.Events() != events {
					t.Errorf("after hand-over %d: %v and %d events, want %v and %d", i, got, srv.Events(), want, events)
				}
			}
			for _, l := range line {
				l.Close()
			}
		})
	}
}

// TestWatchesOfWaiters counts the watches that each contender of a line adds. Behind many a waiter
// needs one, however it has joined, but for that of its own node where it has read the number of
// its creation with it. Whatever it is told of by more is learned when that fires: the hand-over
// then takes the requests that set the others.
func TestWatchesOfWaiters(t *testing.T) {
	const contenders, far = 24, 16
	for name, row := range map[string]struct {
		used                    bool
		joins, watches, handing int
	}{
		"in a transaction":        {used: false, joins: 4, watches: 1, handing: 4}, // with a look at the path
		"by the published recipe": {used: true, joins: 5, watches: 2, handing: 3},  // with a transaction that is refused
	} {
		runWithSessions(t, name, contenders+1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			if row.used { // then only the session that has used it last is sure of the path
				for i := range all {
					mustAcquire(t, all[contenders-i], "/l").Close()
				}
			}
			synctest.Wait()
			var line []*lock.Lock
			for i, s := range all[1:] {
				srv.ResetRequests()
				before := srv.Watches()
				line = append(line, join(t, s, "/l", nil))
				synctest.Wait()
				want := min(i+1, 3)
				if i > far {
					want = row.watches
					check.Equal(t, kit.WithoutSyncs(srv.Requests()).Total(), row.joins, "requests of contender", i, srv.Requests())
				}
				check.Equal(t, srv.Watches()-before, want, "watches behind", i)
			}
			for i := range contenders - 2 {
				srv.ResetRequests()
				line[i].Close()
				synctest.Wait()
				want := 1 // the release
				switch next := i + 2; {
				case next > far:
					want = row.handing
				case next > 2:
					want = 2 // with a list
				}
				check.Equal(t, kit.WithoutSyncs(srv.Requests()).Total(), want, "requests of hand-over", i, srv.Requests())
			}
		})
	}
}

// TestFarWaiterDeleted: an operator deletes a waiter's node, which it does not watch yet. The
// waiter learns that when its turn comes near, and stands in line again.
func TestFarWaiterDeleted(t *testing.T) {
	const contenders, deleted = 22, 19
	withSessions(t, contenders, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		var line []*lock.Lock
		for _, s := range all {
			line = append(line, join(t, s, "/l", nil))
			synctest.Wait()
		}
		stand, err := lock.Contenders(t.Context(), all[0], "/l", nil)
		check.Must(t, err)
		srv.ResetRequests()
		check.Must(t, all[0].Delete(t.Context(), stand[deleted].Node, session.AnyVersion))
		synctest.Wait()
		check.Equal(t, srv.RequestsOf(all[deleted].ID()).Total(), 0, "requests")
		for i, l := range line {
			if i != deleted {
				check.Require(t, holds(l), "%d does not hold", i)
				l.Close()
				synctest.Wait()
			}
		}
		check.True(t, holds(line[deleted]), "it does not stand in line again")
	})
}

// TestHandOverAtOnce: each holder releases as soon as it holds. That a contender learns that it is
// next takes no longer than the hand-over before its own.
func TestHandOverAtOnce(t *testing.T) {
	const contenders, latency = 30, 10 * time.Millisecond
	withSessions(t, contenders, zktest.Config{Latency: latency}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		var line []*lock.Lock
		for _, s := range all {
			line = append(line, check.Have(lock.New(s, "/l", nil))(t))
			<-time.After(time.Second)
		}
		var wg sync.WaitGroup
		defer wg.Wait()
		began := time.Now()
		for i, l := range line {
			kit.Await[lock.Acquired](t, l.Events())
			took, want := time.Since(began), time.Duration(i)*2*latency
			check.Equal(t, took, want, i, "hand-overs take want a round trip each")
			wg.Go(l.Close)
		}
	})
}
