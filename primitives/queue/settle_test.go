package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
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
			a, b, last := next(t, c), next(t, c), next(t, c)
			srv.DropReply(zktest.Match{Op: zktest.OpMulti})
			check.Must(t, a.AckWith(t.Context(), create("/done-a"), create("/also-a")))
			check.Is(t, a.AckWith(t.Context(), create("/again")), queue.ErrNotClaimed)
			check.Must(t, b.AckWith(t.Context()))
			check.Must(t, last.AckWith(t.Context(), create("/done-c")))
			for path, want := range map[string]bool{"/done-a": true, "/also-a": true, "/again": false, "/done-c": true} {
				stat := check.Have(s[0].Exists(t.Context(), path))(t)
				check.True(t, (stat != nil) == want, "%s: %v", path, stat)
			}
			check.Equal(t, length(t, q), 0)
		})
	})
	t.Run("refused", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			check.Must(t, s[0].EnsurePath(t.Context(), "/there"))
			q := open(t, s[0], nil)
			put(t, q, "a")
			c := consume(t, q, 1)
			a := next(t, c)
			for _, op := range []session.Op{
				create("/there"), session.DeleteOp("/nowhere", 0), session.CheckOp("/there", 7),
				create("no path"), session.CreateOp("/large", make([]byte, 2<<20), session.Persistent), // these cannot be sent
			} {
				err := a.AckWith(t.Context(), create("/new"), op)
				check.True(t, err != nil && !errors.Is(err, queue.ErrNotClaimed) && !session.InDoubt(err), "%v", err)
			}
			check.Is(t, a.AckWith(t.Context(), session.CreateOp("/new", make([]byte, 1<<20), session.Persistent)), session.ErrTooLarge)
			stat := check.Have(s[0].Exists(t.Context(), "/new"))(t)
			check.True(t, stat == nil && a.Context().Err() == nil, "%v", stat)
			check.Must(t, a.AckWith(t.Context(), create("/new")))
		})
	})
	t.Run("refused while the consumer leaves", func(t *testing.T) {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q := open(t, s[0], nil)
			put(t, q, "a")
			c := consume(t, q, 1)
			a := next(t, c)
			srv.Delay(zktest.Match{Op: zktest.OpMulti}, time.Second)
			done := kit.Begin(func() error { return a.AckWith(t.Context(), session.DeleteOp("/nowhere", 0)) })
			c.Close()
			check.Is(t, <-done, session.ErrNoNode)
			check.Equal(t, len(left(srv, "claims")), 0)
			check.EqualSlices(t, drain(t, q), []string{"a"}, "left")
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
		kit.Pass(time.Minute)
		for _, item := range []queue.Item{a, b, d, e} {
			check.True(t, item.Context().Err() == nil, "%v", context.Cause(item.Context()))
		}
		check.Must(t, a.Ack(t.Context()))
		check.Is(t, context.Cause(copied.Context()), context.Canceled)
		check.Must(t, b.Reject(t.Context()))
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
		kit.Pass(time.Second)
		check.Is(t, context.Cause(a.Context()), context.Canceled)
		check.Is(t, context.Cause(b.Context()), context.Canceled)
		check.True(t, d.Context().Err() == nil, "%v", context.Cause(d.Context()))
		check.Must(t, d.Ack(t.Context()))
		check.Is(t, context.Cause(d.Context()), context.Canceled)
	})
}

// TestForgotten: an item that no reader has settled for long is reported, once.
func TestForgotten(t *testing.T) {
	bubble(t, 0, func(t *testing.T, srv *zktest.Server, _ ...*session.Session) {
		logs := new(records)
		q := open(t, openSession(t, srv, session.Options{Logger: logs.logger()}), nil)
		put(t, q, "a", "b")
		c := consume(t, q, 2)
		forgotten, settled := next(t, c), next(t, c)
		kit.Pass(5 * time.Minute)
		check.Must(t, settled.Ack(t.Context()))
		check.Equal(t, logs.count("not settled"), 0)
		kit.Pass(3 * time.Hour)
		check.Equal(t, logs.count("not settled"), 1)
		check.True(t, strings.Contains(logs.all(), forgotten.ID), "%s", logs.all())
		check.Must(t, forgotten.Ack(t.Context()))
	})
}

// TestRejectAfter: an item comes again after the delay, with its cause, its ID and its age, and not
// before; others come meanwhile. A delay of nothing returns it to its place.
func TestRejectAfter(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		put(t, q, "a", "b", "c")
		c := consume(t, q, 1)
		a := next(t, c)
		began := time.Now()
		check.Must(t, a.RejectAfter(t.Context(), time.Hour, errors.New("later")))
		b := next(t, c)
		check.Equal(t, string(b.Data), "b")
		check.Must(t, b.RejectAfter(t.Context(), -time.Second, nil))
		b = next(t, c)
		check.True(t, string(b.Data) == "b" && b.Attempt == 2 && b.Cause == "", "%+v", b)
		check.Must(t, b.Ack(t.Context()))
		check.Must(t, next(t, c).Ack(t.Context()))
		select {
		case again := <-c.Items():
			check.True(t, again.ID == a.ID && again.Attempt == 2 && again.Cause == "later" && again.Put.Equal(a.Put), "%+v", again)
			late := time.Since(began) - time.Hour
			check.True(t, late >= 0 && late < time.Second, "it is %v late", late)
			check.Must(t, again.Ack(t.Context()))
		case <-time.After(2 * time.Hour):
			t.Error("it does not come again")
		}
	})
}

// TestRejectEphemeral: an item that belongs to its producer's session cannot be moved. The consumer
// that has rejected it leaves it alone for the whole delay. It ends with that session.
func TestRejectEphemeral(t *testing.T) {
	for delay, reject := range map[time.Duration]func(queue.Item, context.Context) error{
		500 * time.Millisecond: queue.Item.Reject, // half of a second, at least
		time.Minute:            func(item queue.Item, ctx context.Context) error { return item.RejectAfter(ctx, time.Minute, nil) },
	} {
		bubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
			put(t, open(t, s[0], &queue.Options{Ephemeral: true}), "a")
			q := open(t, s[1], nil)
			c := consume(t, q, 1)
			first := next(t, c)
			began := time.Now()
			check.Must(t, reject(first, t.Context()))
			again := <-c.Items()
			check.True(t, again.ID == first.ID && again.Attempt == 2, "%+v", again)
			check.Within(t, time.Since(began), delay, delay+2*time.Second)
			check.Must(t, again.Reject(t.Context()))
			s[0].Close()
			kit.Pass(time.Minute)
			check.Equal(t, length(t, q), 0)
		})
	}
}

// TestOneTransaction: a consumer that claims one item at a time needs a read and a transaction for
// each: the settlement of an item claims the next.
func TestOneTransaction(t *testing.T) {
	slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		const n = 500
		putAll(t, q, numbers(n)...)
		c := consume(t, q, 1)
		check.Must(t, next(t, c).Ack(t.Context()))
		srv.ResetRequests()
		began := time.Now()
		for range n - 1 {
			check.Must(t, next(t, c).Ack(t.Context()))
		}
		got := srv.Requests()
		check.AtMost(t, got[zktest.OpMulti], n*11/10, "transactions")
		check.AtMost(t, got[zktest.OpGetData], n, "reads")
		check.AtMost(t, got[zktest.OpGetChildren2], 20, "lists")
		check.AtMost(t, time.Since(began), n*12*time.Millisecond)
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
