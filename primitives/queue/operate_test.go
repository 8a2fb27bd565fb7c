package queue_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestPause: a pause stops all consumers and takers within a second, whatever they have listed, and
// nobody else. They go on when it ends.
func TestPause(t *testing.T) {
	work := func(done func()) {
		<-time.After(10 * time.Millisecond)
		done()
	}
	for how, workers := range map[string]func(ctx context.Context, q *queue.Queue, done func()){
		"consumers": func(ctx context.Context, q *queue.Queue, done func()) {
			_ = q.Run(ctx, 4, func(context.Context, queue.Item) error {
				work(done)
				return nil
			})
		},
		"takers": func(ctx context.Context, q *queue.Queue, done func()) {
			for {
				if _, err := q.Take(ctx); err != nil {
					return
				}
				work(done)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) { testPause(t, srv, s, workers) })
		})
	}
}

func testPause(t *testing.T, srv *zktest.Server, s []*session.Session, workers func(ctx context.Context, q *queue.Queue, done func())) {
	q := open(t, s[0], nil)
	putAll(t, q, numbers(2000)...)
	ctx, stop := context.WithCancel(t.Context())
	var done atomic.Int32
	var working sync.WaitGroup
	for i := range s {
		working.Go(func() { workers(ctx, open(t, s[i], nil), func() { done.Add(1) }) })
	}
	kit.Pass(300 * time.Millisecond)
	check.Must(t, open(t, s[2], nil).Pause(t.Context()))
	check.Must(t, q.Pause(t.Context()))
	check.Equal(t, check.Have(q.Paused(t.Context()))(t), true)
	kit.Pass(time.Second)
	was := done.Load()
	check.Within(t, was, 30, 1500)
	put(t, q, numbers(100)...)
	kit.Pass(time.Second) // a new bucket wakes one
	srv.ResetRequests()
	kit.Pass(time.Minute)
	check.Equal(t, done.Load(), was, "while it is paused")
	check.Equal(t, srv.Requests()[zktest.OpGetChildren2], 0, "lists of idle clients")
	check.Equal(t, length(t, q), 2100-int(was))
	check.Fails(q.TryTake(t.Context()))(t, queue.ErrEmpty)
	check.Fails(q.Peek(t.Context()))(t, queue.ErrEmpty)
	check.Must(t, q.Resume(t.Context()))
	check.Must(t, q.Resume(t.Context()))
	check.Must(t, q.Drain(t.Context()))
	kit.Pass(time.Second)
	check.Equal(t, done.Load(), 2100)
	check.Equal(t, check.Have(q.Paused(t.Context()))(t), false)
	stop()
	working.Wait()
}

// TestPausedEmpty: a queue without nodes can be paused. It is paused for those that come later.
func TestPausedEmpty(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		check.Must(t, q.Resume(t.Context()))
		srv.DropReply(zktest.Match{Op: zktest.OpMulti})
		check.Must(t, q.Pause(t.Context()))
		put(t, q, "a")
		c := consume(t, q, 1)
		kit.Pass(time.Minute)
		check.None(t, c.Items())
		srv.DropReply(zktest.Match{Op: zktest.OpMulti})
		check.Must(t, q.Resume(t.Context()))
		check.Must(t, next(t, c).Ack(t.Context()))
		c.Close()
		check.Must(t, q.Close(t.Context()))
		check.Is(t, q.Pause(t.Context()), queue.ErrClosed)
	})
}

// TestPurgeQueue deletes what nobody has claimed, whatever its priority or delay is.
func TestPurgeQueue(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		p := ranked(t, s[0], nil)
		check.Have(p.PutAll(t.Context(), bytesOf(numbers(1500)), 3))(t)
		check.Have(p.PutAfter(t.Context(), []byte("later"), 3, time.Hour))(t)
		c := consume(t, p, 1)
		held := next(t, c)
		srv.ResetRequests()
		srv.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: 3})
		check.Equal(t, check.Have(p.Purge(t.Context()))(t), 1500)
		check.AtMost(t, srv.Requests()[zktest.OpMulti], 40, "transactions")
		check.AtMost(t, srv.Requests()[zktest.OpGetData], 4, "reads")
		check.Equal(t, length(t, p), 1)
		check.Must(t, held.Ack(t.Context()))
		c.Close()
		check.Equal(t, check.Have(p.Purge(t.Context()))(t), 0)
	})
}

// TestDrain waits until the last item is acknowledged, and looks rarely.
func TestDrain(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		check.Must(t, q.Drain(t.Context()))
		putAll(t, q, numbers(300)...)
		drained := kit.Begin(func() error { return open(t, s[1], nil).Drain(t.Context()) })
		c := consume(t, q, 1)
		srv.ResetRequests()
		begun := time.Now()
		for i := range 300 {
			item := next(t, c)
			kit.Pass(10 * time.Millisecond)
			if i == 299 {
				kit.Pass(time.Minute)
				check.None(t, drained)
			}
			check.Must(t, item.Ack(t.Context()))
		}
		check.Must(t, <-drained)
		check.AtMost(t, time.Since(begun), time.Minute+4*time.Second)
		check.AtMost(t, srv.Requests()[zktest.OpExists], 50, "looks")
		put(t, q, "more")
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		check.Is(t, q.Drain(ctx), context.DeadlineExceeded)
		synctest.Wait()
	})
}

// TestOperateRefused: what is no queue of this layout is not touched.
func TestOperateRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		check.Must(t, s[0].EnsurePath(t.Context(), at+"/locks"))
		before := strings.Join(srv.Paths(), "\n")
		q := open(t, s[0], nil)
		check.Fails(q.Purge(t.Context()))(t, queue.ErrLayout)
		check.Fails(q.Paused(t.Context()))(t, queue.ErrLayout)
		for _, operate := range []func(context.Context) error{q.Pause, q.Resume, q.Drain} {
			check.Is(t, operate(t.Context()), queue.ErrLayout)
		}
		check.Equal(t, strings.Join(srv.Paths(), "\n"), before)
	})
}

// TestDrainEnds: a Drain that waits ends at once with its handle and with its sessions. It goes on
// through the loss of a connection, and of a session.
func TestDrainEnds(t *testing.T) {
	for _, early := range []time.Duration{0, time.Second} {
		for name, test := range map[string]struct {
			happens func(t *testing.T, srv *zktest.Server, q *queue.Queue, s []*session.Session)
			want    error
		}{
			"Close": {func(t *testing.T, _ *zktest.Server, q *queue.Queue, _ []*session.Session) {
				check.Must(t, q.Close(t.Context()))
			}, queue.ErrClosed},
			"the session is closed": {func(_ *testing.T, _ *zktest.Server, _ *queue.Queue, s []*session.Session) { s[0].Close() }, session.ErrClosed},
			"no connection": {func(_ *testing.T, srv *zktest.Server, _ *queue.Queue, s []*session.Session) {
				srv.Disconnect(s[0].ID())
			}, nil},
			"the session expires": {func(_ *testing.T, srv *zktest.Server, _ *queue.Queue, s []*session.Session) { srv.Expire(s[0].ID()) }, nil},
		} {
			t.Run(name, func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					q := open(t, s[0], nil)
					put(t, q, "x")
					drains := kit.Begin(func() error { return q.Drain(t.Context()) })
					kit.Pass(early)
					test.happens(t, srv, q, s)
					if test.want == nil {
						check.EqualSlices(t, drain(t, open(t, s[1], nil)), []string{"x"}, "left")
					}
					check.Is(t, answered(t, drains), test.want)
				})
			})
		}
	}
}

// TestOperateWithoutSession: what an operator reads is read in the next session if there is none,
// and all is done over the next connection.
func TestOperateWithoutSession(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q, dead := open(t, s[0], nil), letters(t, s[0], nil)
		put(t, q, "x")
		for _, fail := range []func(int64){srv.Disconnect, srv.Expire} {
			after := func() *queue.Queue {
				fail(s[0].ID())
				return q
			}
			srv.Disconnect(s[0].ID())
			check.Must(t, q.Pause(t.Context()))
			check.Equal(t, check.Have(after().Paused(t.Context()))(t), true)
			srv.Disconnect(s[0].ID())
			check.Must(t, q.Resume(t.Context()))
			check.Equal(t, peek(t, after()), "x")
			check.Equal(t, check.Have(after().Len(t.Context()))(t), 1)
			fail(s[0].ID())
			check.Fails(dead.PurgeAll(t.Context()))(t, nil)
			fail(s[0].ID())
			check.EqualSlices(t, dataOf(list(t, dead)), nil, "letters")
		}
		check.Equal(t, check.Have(q.Purge(t.Context()))(t), 1)
	})
}
