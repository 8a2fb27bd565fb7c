package queue

import (
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestLookDue: while nothing is due, a look for what is due costs one request, and one for the
// bucket of the present minute if that has items. It shows nothing that a consumer has claimed, nor
// what is not delayed.
func TestLookDue(t *testing.T) {
	kit.Sessions(t, zktest.Config{Tick: time.Second}, 1, session.Options{Timeout: 12 * time.Second, ServerTick: time.Second}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		q := check.Have(New(s[0], "/jobs", nil))(t)
		check.Have(q.Put(t.Context(), []byte("at once")))(t)
		due := func(want, requests int) stock.View {
			t.Helper()
			check.Have(q.Put(t.Context(), []byte("shows the clock")))(t)
			srv.ResetRequests()
			seen := make(chan stock.View, 1)
			q.at.LookDue(q.receipts, 0, func(v stock.View, err error) {
				check.Must(t, err)
				seen <- v
			})
			v := <-seen
			check.Equal(t, srv.Requests().Total(), requests, "requests")
			check.Len(t, v.Places, want, "due")
			return v
		}
		due(0, 1)
		<-time.After(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) // a minute begins
		check.Have(q.PutAfter(t.Context(), []byte("tomorrow"), 24*time.Hour))(t)
		due(0, 1)
		for _, delay := range []time.Duration{10 * time.Second, 11 * time.Second, 20 * time.Second} {
			check.Have(q.PutAfter(t.Context(), []byte("soon"), delay))(t)
		}
		check.Within(t, due(0, 2).Due, 1, q.at.Session.Age()+10*time.Second+5*time.Millisecond, "due at")
		<-time.After(12 * time.Second)
		v := due(2, 3)
		check.Must(t, s[0].EnsurePath(t.Context(), q.at.Claim(v.Places[0].ID())))
		check.Equal(t, due(1, 3).Places[0], v.Places[1], "due")
	})
}
