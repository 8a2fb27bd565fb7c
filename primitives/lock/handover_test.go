package lock_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestHandOver: a hand-over is one commit, and the event that it causes: then the next contender holds the
// lock. Meanwhile one more contender finds out that it is next, which takes a list, unless only two were ahead
// of it when it came. The server also sends an event to the session that released, because that has watched its own node.
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

// TestHandOverAtOnce: each holder releases as soon as it holds. That a contender learns that it is next takes
// no longer than the hand-over before its own.
func TestHandOverAtOnce(t *testing.T) {
	const contenders, latency = 10, 10 * time.Millisecond
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
			await[lock.Acquired](t, l)
			took, want := time.Since(began), time.Duration(i)*2*latency
			check.Equal(t, took, want, i, "hand-overs take want a round trip each")
			wg.Go(l.Close)
		}
	})
}
