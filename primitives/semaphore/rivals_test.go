package semaphore_test

import (
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestSetLimitBehindALaggingReplica: a limit that was set before, by somebody else, is not
// what a follower that lags still says.
func TestSetLimitBehindALaggingReplica(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		setLimit(t, all[0], 5)
		<-time.After(2 * time.Second)
		for i, s := range all {
			setLimit(t, all[(i+1)%3], 7)
			setLimit(t, s, 5)
			<-time.After(2 * time.Second)
			record(t, all[0], "5")
		}
	}, zktest.Replicas(3, time.Second))
}

// TestBackInLineAfterSetLimit: who comes back to the line, and finds that it is gone, has
// been in line, and takes the limit that has been set meanwhile.
func TestBackInLineAfterSetLimit(t *testing.T) {
	for _, w := range []int{1, 2} {
		inBubble(t, 3, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			operator := all[2]
			held := acquire(t, all[0], 2, weight(2))
			waiter := join(t, all[1], 2, weight(w))
			next[semaphore.Waiting](t, waiter)
			srv.Refuse(true)
			srv.Disconnect(all[1].ID())
			<-time.After(10 * time.Second)
			held.Close()
			srv.Reap()
			srv.Reap()
			setLimit(t, operator, 3)
			srv.Refuse(false)
			<-time.After(10 * time.Second)
			expect(t, []*semaphore.Lease{waiter}, 0)
			if err := waiter.Err(); err != nil {
				t.Errorf("weight %d: %v", w, err)
			}
		})
	}
}
