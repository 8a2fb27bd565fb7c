package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// woken returns how many sessions make requests while f does something, and how many requests they
// make.
func woken(srv *zktest.Server, all []*session.Session, f func()) (sessions, requests int) {
	synctest.Wait()
	before := make([]int, len(all))
	for i, s := range all {
		before[i] = srv.RequestsOf(s.ID()).Total()
	}
	f()
	synctest.Wait()
	for i, s := range all {
		if n := srv.RequestsOf(s.ID()).Total() - before[i]; n > 0 {
			sessions++
			requests += n
		}
	}
	return sessions, requests
}

// TestTurns: consumers whose readers wait take turns, also those that could claim more.
func TestTurns(t *testing.T) {
	bubble(t, 4, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		var all []*queue.Consumer
		for i := range 3 {
			all = append(all, consume(t, open(t, s[i], nil), 16))
			synctest.Wait()
		}
		putter := open(t, s[3], nil)
		for round := range 3 {
			for i, c := range all {
				put(t, putter, fmt.Sprint(round, i))
				kit.Pass(time.Second)
				select {
				case item := <-c.Items():
					check.True(t, string(item.Data) == fmt.Sprint(round, i), "consumer %d gets %s", i, item.Data)
					check.Must(t, item.Ack(t.Context()))
				default:
					t.Fatalf("round %d: consumer %d has nothing", round, i)
				}
			}
		}
		for _, c := range all {
			c.Close()
		}
	})
}

// TestFirstInLineIsGone: waiters go on when the first of them is closed, or its session expires.
func TestFirstInLineIsGone(t *testing.T) {
	for _, how := range []string{"closed", "expired", "frozen"} {
		bubble(t, 4, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			var all []*queue.Consumer
			for i := range 3 {
				all = append(all, consume(t, open(t, s[i], nil), 1))
				synctest.Wait()
			}
			switch how {
			case "closed":
				all[0].Close()
			case "expired":
				srv.Expire(s[0].ID())
			case "frozen":
				srv.Freeze(s[0].ID(), zktest.Both)
			}
			put(t, open(t, s[3], nil), "x")
			next := all[0].Items() // in its next session
			if how == "closed" {
				next = nil
			}
			select {
			case item := <-next:
				check.Must(t, item.Ack(t.Context()))
			case item := <-all[1].Items():
				check.Must(t, item.Ack(t.Context()))
			case item := <-all[2].Items():
				check.Must(t, item.Ack(t.Context()))
			case <-time.After(time.Minute):
				t.Errorf("%s: nobody is woken", how)
			}
			if how == "frozen" {
				srv.Thaw(s[0].ID())
			}
			for _, c := range all {
				c.Close()
			}
			if n := left(srv, "waiters"); len(n) > 0 {
				t.Errorf("%s: left behind: %q", how, n)
			}
		})
	}
}

// TestClosedWhileSuspended: the next session removes the place in line of a consumer that was
// closed before the last one expired.
func TestClosedWhileSuspended(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		c := consume(t, open(t, s[0], nil), 1)
		synctest.Wait()
		if n := left(srv, "waiters"); len(n) != 1 {
			t.Fatalf("in line: %q", n)
		}
		srv.KeepEphemerals(time.Hour)
		srv.Refuse(true)
		srv.Disconnect(s[0].ID())
		synctest.Wait()
		c.Close()
		srv.Refuse(false)
		kit.Pass(time.Minute)
		check.Len(t, left(srv, "waiters"), 0, "left behind")
	})
}

// TestHerd has idle consumers, and calls of Take, wait in line, where each has been the first
// before: also those that have room for more than one item. An item wakes two of them, the first
// and the second, with 24 requests at most (docs/adr/0018), however many there are.
func TestHerd(t *testing.T) {
	for _, c := range []struct {
		n        int
		prefetch int // 0 for takers
	}{{50, 1}, {50, 2}, {50, 16}, {2, 1}, {16, 0}, {2, 0}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			bubble(t, c.n+1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				ctx, stop := context.WithCancel(t.Context())
				var waiting sync.WaitGroup
				got := make(chan string, 1)
				for i := range c.n {
					q := open(t, s[i], nil)
					if c.prefetch > 0 {
						consumer := consume(t, q, c.prefetch)
						waiting.Go(func() {
							for item := range consumer.Items() {
								check.OK(t, item.Ack(t.Context()))
								got <- string(item.Data)
							}
						})
						context.AfterFunc(ctx, consumer.Close)
					} else {
						waiting.Go(func() {
							for ctx.Err() == nil {
								if data, err := q.Take(ctx); err == nil {
									got <- string(data)
								}
							}
						})
					}
					synctest.Wait()
				}
				putter := open(t, s[c.n], nil)
				for i := range 3 * c.n {
					sessions, requests := woken(srv, s[:c.n], func() {
						put(t, putter, fmt.Sprint(i))
						check.Equal(t, <-got, fmt.Sprint(i))
					})
					if i >= c.n { // the first of each makes its receipt
						check.True(t, sessions <= 2 && requests <= 24, "item %d wakes %d clients, with %d requests", i, sessions, requests)
					}
				}
				stop()
				waiting.Wait()
			})
		})
	}
}
