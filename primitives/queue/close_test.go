package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// faultsOfClose are what may keep Close from its server. Each lasts.
var faultsOfClose = map[string]func(srv *zktest.Server, s *session.Session){
	"none":      func(*zktest.Server, *session.Session) {},
	"no server": func(srv *zktest.Server, s *session.Session) { srv.Refuse(true); srv.Disconnect(s.ID()) },
	"frozen":    func(srv *zktest.Server, s *session.Session) { srv.Freeze(s.ID(), zktest.Both) },
	"deaf":      func(srv *zktest.Server, s *session.Session) { srv.Freeze(s.ID(), zktest.ToServer) },
	"mute":      func(srv *zktest.Server, s *session.Session) { srv.Freeze(s.ID(), zktest.ToClient) },
	"frozen, and no server after": func(srv *zktest.Server, s *session.Session) {
		srv.Freeze(s.ID(), zktest.Both)
		srv.Refuse(true)
	},
	"expired":        func(srv *zktest.Server, s *session.Session) { srv.Expire(s.ID()) },
	"session closed": func(_ *zktest.Server, s *session.Session) { s.Close() },
}

// mostOfClose is the session's timeout, and time to notice it.
const mostOfClose = 15 * time.Second

// closesInTime fails the test unless f returns in time.
func closesInTime(t *testing.T, f func()) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		f()
		close(closed)
	}()
	began := time.Now()
	select {
	case <-closed:
	case <-time.After(time.Hour):
		t.Error("Close has not returned after an hour")
		return
	}
	check.True(t, time.Since(began) <= mostOfClose, "Close has taken %v, want at most %v", time.Since(began), mostOfClose)
}

// TestConsumerClosesInTime: Close of a consumer is bounded by the session's deadline, whatever the
// consumer does, and whatever keeps it from the server.
func TestConsumerClosesInTime(t *testing.T) {
	type world struct {
		*testing.T
		srv      *zktest.Server
		c        *queue.Consumer // of s; the other session puts
		s, other *session.Session
	}
	late := func(w world) { w.srv.Delay(zktest.Match{Op: zktest.OpMulti, Session: w.s.ID()}, time.Hour) }
	fill := func(w world) { put(w.T, open(w.T, w.other, nil), "1", "2", "3") }
	works := func(w world) queue.Item {
		fill(w)
		item := next(w.T, w.c)
		kit.Pass(time.Second)
		return item
	}
	settles := func(settle func(queue.Item, context.Context) error) func(world) {
		return func(w world) {
			item := works(w)
			late(w)
			kit.Begin(func() error { return settle(item, w.Context()) })
		}
	}
	states := map[string]func(w world){
		"new":                  func(world) {},
		"waits, as the first":  func(world) { synctest.Wait() },
		"waits, as the second": func(world) { synctest.Wait() },
		"has items":            func(w world) { works(w) },
		"claims": func(w world) {
			synctest.Wait()
			late(w)
			fill(w)
			synctest.Wait()
		},
		"acknowledges":  settles(queue.Item.Ack),
		"moves an item": settles(queue.Item.Reject),
		"moves an item to a later time": settles(func(item queue.Item, ctx context.Context) error {
			return item.RejectAfter(ctx, time.Hour, nil)
		}),
		"is paused": func(w world) {
			works(w)
			check.Must(w, open(w.T, w.other, nil).Pause(w.Context()))
			kit.Pass(time.Second)
		},
		"is in doubt": func(w world) {
			item := works(w)
			w.srv.DropReply(zktest.Match{Op: zktest.OpMulti, Session: w.s.ID()})
			w.srv.Refuse(true)
			kit.Begin(func() error { return item.Ack(w.Context()) })
		},
	}
	for state, begin := range states {
		for fault, strike := range faultsOfClose {
			t.Run(state+"/"+fault, func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					if state == "waits, as the second" {
						consume(t, open(t, s[1], nil), 2)
						synctest.Wait()
					}
					c := consume(t, open(t, s[0], &queue.Options{MaxAttempts: 1, DeadLetter: dead}), 2)
					begin(world{t, srv, c, s[0], s[1]})
					strike(srv, s[0])
					closesInTime(t, c.Close)
					srv.Refuse(false)
				})
			})
		}
	}
}

// TestCloseGivesBackLargeItems: the items do not go back in one transaction.
func TestCloseGivesBackLargeItems(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		const n = 20
		for range n {
			check.Have(q.Put(t.Context(), make([]byte, 200_000)))(t)
		}
		c := consume(t, q, n)
		for range n / 2 {
			next(t, c)
		}
		synctest.Wait()
		closesInTime(t, c.Close)
		check.Len(t, left(srv, "claims"), 0)
		check.Equal(t, len(drain(t, q)), n)
	})
}

// TestConsumerOfNoServerCloses: the session of a consumer has never had a server.
func TestConsumerOfNoServerCloses(t *testing.T) {
	bubble(t, 0, func(t *testing.T, srv *zktest.Server, _ ...*session.Session) {
		srv.Refuse(true)
		s := check.Have(session.Start(srv.Addrs(), &session.Options{Dialer: srv.DialContext}))(t)
		defer s.Close()
		q := open(t, s, nil)
		c := consume(t, q, 1)
		ctx, cancel := context.WithCancel(t.Context())
		putting := beginPut(ctx, q, "x")
		kit.Pass(time.Minute)
		closesInTime(t, c.Close)
		closesInTime(t, func() { check.Must(t, q.Close(t.Context())) })
		cancel()
		check.Is(t, <-putting, context.Canceled)
	})
}

// TestQueueClosesInTime: Close of a queue ends the calls that wait. It is bounded by the session's
// deadline, but for calls that are under way, and by its context in any case.
func TestQueueClosesInTime(t *testing.T) {
	for fault, strike := range faultsOfClose {
		t.Run(fault, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				ctx, cancel := context.WithCancel(t.Context()) // of calls that Close has not ended
				full := open(t, s[0], &queue.Options{MaxItems: 1})
				put(t, full, "1")
				calls := make(chan error, 3)
				go func() {
					_, err := full.Put(ctx, []byte("2"))
					calls <- err
				}()
				synctest.Wait()
				empty := openAt(t, s[0], "/queues/empty", nil)
				for range 2 { // the second behind the first
					go func() {
						_, err := empty.Take(ctx)
						calls <- err
					}()
					synctest.Wait()
				}
				strike(srv, s[0])
				closesInTime(t, func() { _ = full.Close(t.Context()) })
				closesInTime(t, func() { _ = empty.Close(t.Context()) })
				kit.Pass(time.Second)
				check.Equal(t, len(calls), 3, "calls that have ended")
				cancel()
				srv.Refuse(false)
				for range 3 {
					check.True(t, <-calls != nil, "a call that waits is successful")
				}
			})
		})
		t.Run("a call is under way/"+fault, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := open(t, s[0], nil)
				put(t, q, "1")
				srv.Delay(zktest.Match{Op: zktest.OpMulti, Session: s[0].ID()}, time.Hour)
				putting, cancel := context.WithCancel(t.Context())
				called := make(chan struct{})
				go func() {
					_, _ = q.Put(putting, []byte("2"))
					close(called)
				}()
				synctest.Wait()
				strike(srv, s[0])
				ctx, stop := context.WithTimeout(t.Context(), mostOfClose)
				defer stop()
				closesInTime(t, func() { _ = q.Close(ctx) })
				cancel()
				<-called
				srv.Refuse(false)
			})
		})
	}
}
