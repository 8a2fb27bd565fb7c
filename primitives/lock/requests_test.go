package lock_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// many is how many locks of one session are acquired at once.
const many = 512

// withMany has a session whose requests take 5 ms, and many paths that it knows.
func withMany(t *testing.T, f func(t *testing.T, srv *zktest.Server, s *session.Session, acquireAll func() []*lock.Lock)) {
	t.Helper()
	config := zktest.Config{Latency: 2500 * time.Microsecond}
	kit.Sessions(t, config, 1, session.Options{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		var paths []string
		for i := range many {
			paths = append(paths, fmt.Sprintf("/many-%d", i))
			check.Must(t, all[0].EnsurePath(t.Context(), paths[i]))
			client.Of(all[0]).Saw(paths[i], 0, true)
		}
		f(t, srv, all[0], func() []*lock.Lock {
			locks := make([]*lock.Lock, many)
			var wg sync.WaitGroup
			for i, path := range paths {
				wg.Go(func() {
					var err error
					locks[i], err = lock.Acquire(t.Context(), all[0], path, nil)
					check.OK(t, err)
				})
			}
			wg.Wait()
			return locks
		})
	})
}

// TestManyShareTransactions counts what the cycles of many locks cost when all are acquired at
// once, and then released at once. The first four requests go out at once, and the others together.
func TestManyShareTransactions(t *testing.T) {
	withMany(t, func(t *testing.T, srv *zktest.Server, _ *session.Session, acquireAll func() []*lock.Lock) {
		for range 3 {
			srv.ResetRequests()
			locks := acquireAll()
			const acquisition, release = 6, 5 // with 512 acquisitions of two operations each, 600 at a time
			if n, requests := srv.Proposals(), srv.Requests(); n != acquisition || requests[zktest.OpMulti] != acquisition {
				t.Errorf("%d proposals: %v", n, requests)
			}
			synctest.Wait()
			srv.ResetRequests()
			var wg sync.WaitGroup
			for _, l := range locks {
				wg.Go(l.Close)
			}
			wg.Wait()
			if n, requests := srv.Proposals(), srv.Requests(); n != release {
				t.Errorf("%d proposals: %v", n, requests)
			}
		}
	})
}

// TestManyInDoubt counts what it costs to resolve transactions of unknown outcome: one sync, no
// second attempt, and as many lists of a parent as for requests that went alone.
func TestManyInDoubt(t *testing.T) {
	withMany(t, func(t *testing.T, srv *zktest.Server, s *session.Session, acquireAll func() []*lock.Lock) {
		acquired := make(chan []*lock.Lock)
		srv.ResetRequests()
		go func() { acquired <- acquireAll() }()
		<-time.After(9 * time.Millisecond) // two transactions of all but four are done, and not answered
		srv.Disconnect(s.ID())
		locks := <-acquired
		requests := srv.Requests()
		lists := requests[zktest.OpGetChildren2]
		check.True(t, requests[zktest.OpSync] == 1 && requests[zktest.OpMulti] == 6 && lists <= 2*many, "%v", requests)
		for _, l := range locks {
			check.OK(t, l.Err())
			l.Close()
		}
	})
}

// TestTurns counts what a lock costs two sessions that take turns, without contention: one of them
// pays what it would pay alone, and the other a list more, in place of the write to the path.
func TestTurns(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		cycle := func(s *session.Session) (zktest.Counts, int) {
			srv.ResetRequests()
			before := srv.Proposals()
			l := check.Have(lock.Acquire(t.Context(), s, "/l", nil))(t)
			synctest.Wait()
			l.Close()
			return kit.WithoutSyncs(srv.Requests()), srv.Proposals() - before
		}
		for range 3 { // a path that both know
			for _, s := range all {
				cycle(s)
			}
		}
		for i := range 5 {
			for n, want := range []zktest.Counts{
				{zktest.OpCreate: 1, zktest.OpGetData: 1, zktest.OpGetChildren2: 1, zktest.OpDelete: 1},
				{zktest.OpMulti: 1, zktest.OpGetData: 1, zktest.OpDelete: 1},
			} {
				requests, proposals := cycle(all[n])
				check.EqualMaps(t, requests, want, "session", n, "turn", i)
				check.Equal(t, proposals, 2, "proposals of session", n)
			}
		}
	})
}
