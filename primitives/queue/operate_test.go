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
	_, err := q.PutAll(t.Context(), bytesOf(numbers(2000)))
	ok(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var done atomic.Int32
	var working sync.WaitGroup
	for i := range s {
		working.Go(func() { workers(ctx, open(t, s[i], nil), func() { done.Add(1) }) })
	}
	pass(300 * time.Millisecond)
	ok(t, open(t, s[2], nil).Pause(t.Context()))
	ok(t, q.Pause(t.Context()))
	paused, err := q.Paused(t.Context())
	check.True(t, paused && err == nil, "%v, %v", paused, err)
	pass(time.Second)
	was := done.Load()
	check.Within(t, was, 30, 1500)
	put(t, q, numbers(100)...)
	pass(time.Second) // a new bucket wakes one
	srv.ResetRequests()
	pass(time.Minute)
	check.Equal(t, done.Load(), was, "while it is paused")
	check.Equal(t, srv.Requests()[zktest.OpGetChildren2], 0, "lists of idle clients")
	n, err := q.Len(t.Context())
	check.True(t, n == 2100-int(was) && err == nil, "%d items, %v", n, err)
	_, err = q.TryTake(t.Context())
	check.Is(t, err, queue.ErrEmpty)
	_, err = q.Peek(t.Context())
	check.Is(t, err, queue.ErrEmpty)
	ok(t, q.Resume(t.Context()))
	ok(t, q.Resume(t.Context()))
	ok(t, q.Drain(t.Context()))
	pass(time.Second)
	check.Equal(t, done.Load(), 2100)
	paused, err = q.Paused(t.Context())
	check.True(t, !paused && err == nil, "%v, %v", paused, err)
	stop()
	working.Wait()
}

// TestPausedEmpty: a queue without nodes can be paused. It is paused for those that come later.
func TestPausedEmpty(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		ok(t, q.Resume(t.Context()))
		srv.DropReply(zktest.Match{Op: zktest.OpMulti})
		ok(t, q.Pause(t.Context()))
		put(t, q, "a")
		c := consume(t, q, 1)
		pass(time.Minute)
		check.None(t, c.Items())
		srv.DropReply(zktest.Match{Op: zktest.OpMulti})
		ok(t, q.Resume(t.Context()))
		ok(t, next(t, c).Ack(t.Context()))
		c.Close()
		ok(t, q.Close(t.Context()))
		check.Is(t, q.Pause(t.Context()), queue.ErrClosed)
	})
}

// TestPurgeQueue deletes what nobody has claimed, whatever its priority or delay is.
func TestPurgeQueue(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		p, err := queue.NewPriority(s[0], at, nil)
		ok(t, err)
		_, err = p.PutAll(t.Context(), bytesOf(numbers(1500)), 3)
		ok(t, err)
		_, err = p.PutAfter(t.Context(), []byte("later"), 3, time.Hour)
		ok(t, err)
		c, err := p.Consume(&queue.ConsumeOptions{Prefetch: 1})
		ok(t, err)
		held := next(t, c)
		srv.ResetRequests()
		srv.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: 3})
		n, err := p.Purge(t.Context())
		ok(t, err)
		check.Equal(t, n, 1500)
		check.AtMost(t, srv.Requests()[zktest.OpMulti], 40, "transactions")
		check.AtMost(t, srv.Requests()[zktest.OpGetData], 4, "reads")
		n, err = p.Len(t.Context())
		check.True(t, n == 1 && err == nil, "%d items, %v", n, err)
		ok(t, held.Ack(t.Context()))
		c.Close()
		n, err = p.Purge(t.Context())
		check.True(t, n == 0 && err == nil, "%d purged, %v", n, err)
	})
}

// TestDrain waits until the last item is acknowledged, and looks rarely.
func TestDrain(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		ok(t, q.Drain(t.Context()))
		_, err := q.PutAll(t.Context(), bytesOf(numbers(300)))
		ok(t, err)
		drained := make(chan error, 1)
		go func() { drained <- open(t, s[1], nil).Drain(t.Context()) }()
		c := consume(t, q, 1)
		defer c.Close()
		srv.ResetRequests()
		begun := time.Now()
		for i := range 300 {
			item := next(t, c)
			pass(10 * time.Millisecond)
			if i == 299 {
				pass(time.Minute)
				check.None(t, drained)
			}
			ok(t, item.Ack(t.Context()))
		}
		ok(t, <-drained)
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
		ok(t, s[0].EnsurePath(t.Context(), at+"/locks"))
		before := strings.Join(srv.Paths(), "\n")
		q := open(t, s[0], nil)
		_, err := q.Purge(t.Context())
		_, err2 := q.Paused(t.Context())
		for _, err := range []error{err, err2, q.Pause(t.Context()), q.Resume(t.Context()), q.Drain(t.Context())} {
			check.Is(t, err, queue.ErrLayout)
		}
		check.Equal(t, strings.Join(srv.Paths(), "\n"), before)
	})
}
