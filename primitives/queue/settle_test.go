package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestAckWith acknowledges an item in a transaction of the caller's: all or nothing, and once.
func TestAckWith(t *testing.T) {
	create := func(path string) session.Op { return session.CreateOp(path, nil, session.Persistent) }
	t.Run("done", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q := open(t, s[0], nil)
			put(t, q, "a", "b", "c")
			c := consume(t, q, 3)
			defer c.Close()
			a, b, last := next(t, c), next(t, c), next(t, c)
			srv.DropReply(zktest.Match{Op: zktest.OpMulti})
			ok(t, a.AckWith(t.Context(), create("/done-a"), create("/also-a")))
			check.Is(t, a.AckWith(t.Context(), create("/again")), queue.ErrNotClaimed)
			ok(t, b.AckWith(t.Context()))
			done := make(chan error, 2)
			go func() { done <- last.AckWith(t.Context(), create("/done-c")) }()
			ok(t, <-done)
			for path, want := range map[string]bool{"/done-a": true, "/also-a": true, "/again": false, "/done-c": true} {
				stat, err := s[0].Exists(t.Context(), path)
				ok(t, err)
				check.True(t, (stat != nil) == want, "%s: %v", path, stat)
			}
			n, err := q.Len(t.Context())
			ok(t, err)
			check.Equal(t, n, 0)
		})
	})
	t.Run("refused", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			ok(t, s[0].EnsurePath(t.Context(), "/there"))
			q := open(t, s[0], nil)
			put(t, q, "a")
			c := consume(t, q, 1)
			defer c.Close()
			a := next(t, c)
			for _, op := range []session.Op{
				create("/there"), session.DeleteOp("/nowhere", 0), session.CheckOp("/there", 7),
				create("no path"), session.CreateOp("/large", make([]byte, 2<<20), session.Persistent), // these cannot be sent
			} {
				err := a.AckWith(t.Context(), create("/new"), op)
				check.True(t, err != nil && !errors.Is(err, queue.ErrNotClaimed) && !session.InDoubt(err), "%v", err)
			}
			large := session.CreateOp("/new", make([]byte, 1<<20), session.Persistent)
			check.Is(t, a.AckWith(t.Context(), large), session.ErrTooLarge)
			stat, err := s[0].Exists(t.Context(), "/new")
			ok(t, err)
			check.True(t, stat == nil && a.Context().Err() == nil, "%v", stat)
			ok(t, a.AckWith(t.Context(), create("/new")))
		})
	})
	t.Run("refused while the consumer leaves", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q := open(t, s[0], nil)
			put(t, q, "a")
			c := consume(t, q, 1)
			a := next(t, c)
			srv.Delay(zktest.Match{Op: zktest.OpMulti}, time.Second)
			done := make(chan error, 1)
			go func() { done <- a.AckWith(t.Context(), session.DeleteOp("/nowhere", 0)) }()
			synctest.Wait()
			c.Close()
			check.Is(t, <-done, session.ErrNoNode)
			check.Equal(t, len(left(srv, "claims")), 0)
			equal(t, "left", drain(t, q), []string{"a"})
		})
	})
}

// TestItemContext ends when the item is settled, or its claim is lost, and not before.
func TestItemContext(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		check.Is(t, queue.Item{}.Context().Err(), context.Canceled)
		q := open(t, s[0], nil)
		put(t, q, "a", "b", "c", "d")
		c := consume(t, q, 4)
		a, b, d, e := next(t, c), next(t, c), next(t, c), next(t, c)
		copied := a
		pass(time.Minute)
		for _, item := range []queue.Item{a, b, d, e} {
			check.True(t, item.Context().Err() == nil, "%v", context.Cause(item.Context()))
		}
		ok(t, a.Ack(t.Context()))
		check.Is(t, context.Cause(copied.Context()), context.Canceled)
		ok(t, b.Reject(t.Context()))
		check.Is(t, context.Cause(b.Context()), context.Canceled)
		check.True(t, d.Context().Err() == nil, "%v", context.Cause(d.Context()))
		srv.Expire(s[0].ID())
		<-d.Context().Done()
		check.Is(t, context.Cause(d.Context()), queue.ErrNotClaimed)
		again := next(t, c)
		c.Close()
		<-again.Context().Done()
		check.Is(t, context.Cause(again.Context()), queue.ErrNotClaimed)
	})
}

// TestItemContextWithoutItsCaller: the context of an item ends with the settlement, also if the
// caller has left before. It lasts while the claim does.
func TestItemContextWithoutItsCaller(t *testing.T) {
	slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		put(t, q, "a", "b", "c")
		c := consume(t, q, 3)
		defer c.Close()
		a, b, d := next(t, c), next(t, c), next(t, c)
		for _, settle := range []func(context.Context) error{
			a.Ack,
			b.Reject,
			func(ctx context.Context) error { return d.AckWith(ctx, session.DeleteOp("/nowhere", 0)) },
		} {
			ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
			check.Is(t, settle(ctx), session.ErrUnknownOutcome)
			leave()
		}
		check.Is(t, d.Ack(t.Context()), queue.ErrNotClaimed) // it is being settled
		pass(time.Second)
		check.Is(t, context.Cause(a.Context()), context.Canceled)
		check.Is(t, context.Cause(b.Context()), context.Canceled)
		check.True(t, d.Context().Err() == nil, "%v", context.Cause(d.Context()))
		ok(t, d.Ack(t.Context()))
		check.Is(t, context.Cause(d.Context()), context.Canceled)
	})
}

// TestForgotten: an item that no reader has settled for long is reported, once.
func TestForgotten(t *testing.T) {
	bubble(t, 0, func(t *testing.T, srv *zktest.Server, _ ...*session.Session) {
		logs := new(records)
		s, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext, Logger: logs.logger()})
		ok(t, err)
		defer s.Close()
		q := open(t, s, nil)
		put(t, q, "a", "b")
		c := consume(t, q, 2)
		defer c.Close()
		forgotten, settled := next(t, c), next(t, c)
		pass(5 * time.Minute)
		ok(t, settled.Ack(t.Context()))
		check.Equal(t, logs.count("not settled"), 0)
		pass(24 * time.Hour)
		check.Equal(t, logs.count("not settled"), 1)
		check.True(t, strings.Contains(logs.all(), forgotten.ID), "%s", logs.all())
		ok(t, forgotten.Ack(t.Context()))
	})
}

// TestRejectAfter: an item comes again after the delay, with its cause, its ID and its age, and not
// before; others come meanwhile. A delay of nothing returns it to its place.
func TestRejectAfter(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		put(t, q, "a", "b", "c")
		c := consume(t, q, 1)
		defer c.Close()
		a := next(t, c)
		began := time.Now()
		ok(t, a.RejectAfter(t.Context(), time.Hour, errors.New("later")))
		b := next(t, c)
		check.Equal(t, string(b.Data), "b")
		ok(t, b.RejectAfter(t.Context(), -time.Second, nil))
		b = next(t, c)
		check.True(t, string(b.Data) == "b" && b.Attempt == 2 && b.Cause == "", "%+v", b)
		ok(t, b.Ack(t.Context()))
		ok(t, next(t, c).Ack(t.Context()))
		select {
		case again := <-c.Items():
			check.True(t, again.ID == a.ID && again.Attempt == 2 && again.Cause == "later" && again.Put.Equal(a.Put), "%+v", again)
			late := time.Since(began) - time.Hour
			check.True(t, late >= 0 && late < time.Second, "it is %v late", late)
			ok(t, again.Ack(t.Context()))
		case <-time.After(2 * time.Hour):
			t.Error("it does not come again")
		}
	})
}

// TestRejectEphemeral: an item that belongs to its producer's session cannot be moved. It comes
// again after a while, and ends with that session.
func TestRejectEphemeral(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		put(t, open(t, s[0], &queue.Options{Ephemeral: true}), "a")
		c := consume(t, open(t, s[1], nil), 1)
		defer c.Close()
		first := next(t, c)
		began := time.Now()
		ok(t, first.Reject(t.Context()))
		again := next(t, c)
		check.True(t, again.ID == first.ID && again.Attempt == 2 && time.Since(began) > 100*time.Millisecond, "%+v", again)
		ok(t, again.Reject(t.Context()))
		s[0].Close()
		pass(time.Minute)
		n, err := open(t, s[1], nil).Len(t.Context())
		ok(t, err)
		check.Equal(t, n, 0)
	})
}

// TestOneTransaction: a consumer that claims one item at a time needs a read and a transaction for
// each: the settlement of an item claims the next.
func TestOneTransaction(t *testing.T) {
	slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		const n = 500
		_, err := q.PutAll(t.Context(), bytesOf(numbers(n)))
		ok(t, err)
		c := consume(t, q, 1)
		defer c.Close()
		ok(t, next(t, c).Ack(t.Context()))
		srv.ResetRequests()
		began := time.Now()
		for range n - 1 {
			ok(t, next(t, c).Ack(t.Context()))
		}
		got := srv.Requests()
		check.True(t, got[zktest.OpMulti] <= n*11/10 && got[zktest.OpGetData] <= n && got[zktest.OpGetChildren2] < 20, "%v for %d items", got, n)
		check.True(t, time.Since(began) < n*12*time.Millisecond, "%v for %d items", time.Since(began), n)
	})
}

// A records has the records of a log.
type records struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (r *records) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *records) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

func (r *records) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *records) count(text string) int { return strings.Count(r.all(), text) }

// TestRejectEphemeralAfter: the consumer that has rejected it leaves it alone for the whole delay.
func TestRejectEphemeralAfter(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		put(t, open(t, s[0], &queue.Options{Ephemeral: true}), "a")
		c := consume(t, open(t, s[1], nil), 1)
		defer c.Close()
		first := next(t, c)
		began := time.Now()
		ok(t, first.RejectAfter(t.Context(), time.Minute, nil))
		pass(time.Minute)
		again := next(t, c)
		late := time.Since(began) - time.Minute
		check.True(t, again.ID == first.ID && late >= 0 && late < 2*time.Second, "%+v is %v late", again, late)
	})
}
