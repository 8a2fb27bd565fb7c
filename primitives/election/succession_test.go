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

// TestHeir: the candidate behind a leader that resigns is elected by the event of that, without a
// request between. Its claim follows, and nothing shows that it came later.
func TestHeir(t *testing.T) {
	const latency = 10 * time.Millisecond
	for _, ignore := range []bool{false, true} {
		runInBubble(t, fmt.Sprintf("ignore %v", ignore), zktest.Config{Latency: latency}, func(w *world) {
			opts := &election.Options{IgnoreLeader: ignore}
			leader := w.elect(w.open(0), opts)
			heir, third := w.stand(w.open(0), opts), w.stand(w.open(0), opts)
			observer := check.Open(election.Observe(w.open(0), path, nil))(w)
			<-time.After(time.Second)
			synctest.Wait()
			began := time.Now()
			check.Must(t, leader.Resign(w.soon()))
			elected, at := await[election.Elected](heir, 0)
			heir.mu.Lock()
			took := heir.log[at-1].at.Sub(began)
			heir.mu.Unlock()
			check.True(w, took <= 2*latency, "elected after %v, with a latency of %v", took, latency)

			// before the claim is made
			check.Must(t, heir.Acknowledge(w.soon()))
			for ev := range observer.Events() {
				if ev.Acknowledged {
					check.Equal(w, ev.Term, elected.Term, "the observed term")
					check.Equal(w, ev.Leader.Node, heir.Node(), "the observed leader")
					break
				}
			}
			<-time.After(time.Second)
			synctest.Wait()
			check.Equal(w, count[election.Deposed](heir), 0, "times that the heir was deposed")
			for _, ev := range heir.events()[at:] {
				if changed, is := ev.(election.LeaderChanged); is {
					check.Equal(w, changed.Leader.Node, heir.Node(), "the leader that the heir sees")
				}
			}
			if !ignore {
				known, _ := third.Leader()
				check.Equal(w, known.Node, heir.Node(), "the leader that the third sees")
			}
		})
	}
}

// TestHeirAtOnce: an heir that hands over or resigns as soon as it is elected does so in its term.
func TestHeirAtOnce(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		for _, transfers := range []bool{false, true} {
			runInBubble(t, fmt.Sprintf("ignore %v, transfers %v", ignore, transfers), zktest.Config{Latency: 10 * time.Millisecond}, func(w *world) {
				opts := &election.Options{IgnoreLeader: ignore}
				leader := w.elect(w.open(0), opts)
				heir, third := w.stand(w.open(0), opts), w.stand(w.open(0), opts)
				<-time.After(time.Second)
				synctest.Wait()
				check.Must(t, leader.Resign(w.soon()))
				elected, _ := await[election.Elected](heir, 0)
				if transfers {
					check.Must(t, heir.Transfer(w.soon(), third.Node()))
				} else {
					check.Must(t, heir.Resign(w.soon()))
				}
				next, _ := await[election.Elected](third, 0)
				check.True(w, next.Term > elected.Term, "term %d after %d", next.Term, elected.Term)
			})
		}
	}
}

// TestHeirOfABusyServer: what an heir acknowledges while its claim is refused by a busy server
// costs nothing until the claim is made.
func TestHeirOfABusyServer(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w *world) {
		leader := w.elect(w.open(0), nil)
		heir := w.stand(w.open(0), nil)
		<-time.After(time.Second)
		for range 9 {
			w.AnswerError(zktest.Match{Op: zktest.OpMulti, Path: path + "/successors", Session: heir.session.ID()}, -127)
		}
		before := w.Requests()[zktest.OpMulti]
		check.Must(t, leader.Resign(w.soon()))
		elected, _ := await[election.Elected](heir, 0)
		check.Must(t, heir.Acknowledge(w.soon()))
		check.AtMost(t, w.Requests()[zktest.OpMulti]-before, 20, "transactions")
		term, leads := heir.Leading()
		check.True(t, leads && term == elected.Term, "leads %v in term %d", leads, term)
	})
}
