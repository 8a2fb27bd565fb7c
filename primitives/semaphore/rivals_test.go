package semaphore_test

import (
	"testing"
	"time"

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
