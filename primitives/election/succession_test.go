package election_test

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestSuccessionAfterATransfer: a candidate that waits for the guard of a successor knows that
// there is a directory of them. Its claim is one transaction.
func TestSuccessionAfterATransfer(t *testing.T) {
	inBubble(t, zktest.Config{Latency: time.Millisecond}, func(w *world) {
		first, successor := inherited(w)
		kit.Pass(time.Second)
		w.ResetRequests()
		check.Must(t, successor.Resign(w.soon()))
		await[election.Elected](first, 0)
		check.Equal(t, w.RequestsOf(first.session.ID())[zktest.OpMulti], 1, "transactions of the next leader")
	})
}

// TestSuccession: a leader resigns, the next candidate leads, and the former leader stands again.
// However many candidates ignore the leader, that takes the same requests and events.
func TestSuccession(t *testing.T) {
	for _, row := range []struct {
		candidates int
		ignore     bool
		requests   zktest.Counts
		events     int
	}{
		{10, true, zktest.Counts{zktest.OpMulti: 4, zktest.OpGetData: 5, zktest.OpExists: 1, zktest.OpGetChildren2: 5}, 6},
		{10, false, zktest.Counts{zktest.OpMulti: 4, zktest.OpGetData: 13, zktest.OpExists: 10, zktest.OpGetChildren2: 5}, 0},
		{100, true, zktest.Counts{zktest.OpMulti: 4, zktest.OpGetData: 5, zktest.OpExists: 1, zktest.OpGetChildren2: 5}, 6},
		{100, false, zktest.Counts{zktest.OpMulti: 4, zktest.OpGetData: 103, zktest.OpExists: 100, zktest.OpGetChildren2: 5}, 0},
	}[:hasten.Sized(4, 2)] {
		runInBubble(t, fmt.Sprintf("%d, ignore %v", row.candidates, row.ignore), zktest.Config{Latency: 10 * time.Millisecond}, func(w *world) {
			for i := range row.candidates {
				w.stand(w.open(i), &election.Options{IgnoreLeader: row.ignore})
				synctest.Wait()
			}
			leader, term := w.leader(0)
			for range 3 {
				<-time.After(time.Second)
				synctest.Wait()
				w.ResetRequests()
				check.Must(t, leader.Resign(w.soon()))
				<-time.After(time.Second)
				synctest.Wait()
				requests, events := w.Requests(), w.Events()
				maps.DeleteFunc(requests, func(op zktest.Op, _ int) bool { return op == zktest.OpSync || op == zktest.OpCheck }) // heartbeats
				if !row.ignore {
					events = 0 // the leader's node is there again before some watch it
				}
				check.True(t, maps.Equal(requests, row.requests) && events == row.events, "%v and %d events, want %v and %d", requests, events, row.requests, row.events)
				leader, term = w.leader(term)
			}
		})
	}
}
