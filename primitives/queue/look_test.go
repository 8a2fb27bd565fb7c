package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestLookDue: while nothing is due, a look for what is due costs one request, and one for the
// bucket of the present minute if that has items. It shows nothing that a consumer has claimed, nor
// what is not delayed.
func TestLookDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		srv, err := zktest.NewServer(zktest.Config{InProcess: true, Tick: time.Second})
		must(err)
		defer srv.Close()
		s, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: srv.DialContext})
		must(err)
		defer s.Close()
		q, err := New(s, "/jobs", nil)
		must(err)
		_, err = q.Put(t.Context(), []byte("at once"))
		must(err)
		due := func(want, requests int) stock.View {
			t.Helper()
			_, err := q.Put(t.Context(), []byte("shows the clock"))
			must(err)
			srv.ResetRequests()
			seen := make(chan stock.View, 1)
			q.at.LookDue(q.receipts, 0, func(v stock.View, err error) {
				must(err)
				seen <- v
			})
			v := <-seen
			if n := srv.Requests().Total(); len(v.Places) != want || n != requests {
				t.Errorf("%d are due, with %d requests, want %d, %d", len(v.Places), n, want, requests)
			}
			return v
		}
		due(0, 1)
		<-time.After(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) // a minute begins
		_, err = q.PutAfter(t.Context(), []byte("tomorrow"), 24*time.Hour)
		must(err)
		due(0, 1)
		for _, delay := range []time.Duration{10 * time.Second, 11 * time.Second, 20 * time.Second} {
			_, err = q.PutAfter(t.Context(), []byte("soon"), delay)
			must(err)
		}
		if v := due(0, 2); v.Due == 0 || v.Due > q.at.Session.Age()+10*time.Second+5*time.Millisecond {
			t.Errorf("due at %v", v.Due)
		}
		<-time.After(12 * time.Second)
		v := due(2, 3)
		must(s.EnsurePath(t.Context(), q.at.Claim(v.Places[0].ID())))
		if got := due(1, 3).Places[0]; got != v.Places[1] {
			t.Errorf("%v is due, want %v", got, v.Places[1])
		}
	})
}
