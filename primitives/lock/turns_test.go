package lock_test

import (
	"testing"
	"testing/synctest"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

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
