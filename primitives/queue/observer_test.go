package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// A bookkeeper notes the reports about the queue.
type bookkeeper struct {
	session.NopObserver
	mu   sync.Mutex
	said []string
}

func (c *bookkeeper) note(path, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if path != at {
		format = path + ": " + format
	}
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

func (c *bookkeeper) Put(path string, items int, took time.Duration, err error) {
	outcome := "put"
	for _, known := range []error{session.ErrUnknownOutcome, queue.ErrFull, queue.ErrClosed, session.ErrTooLarge, context.Canceled} {
		if errors.Is(err, known) {
			outcome = known.Error()
			break
		}
	}
	if err != nil && outcome == "put" {
		outcome = err.Error()
	}
	c.note(path, "%s: %d in %v", outcome, items, took.Round(time.Second))
}

func (c *bookkeeper) Delivered(path string, age time.Duration, attempt int) {
	c.note(path, "delivered %d at %v", attempt, age.Round(time.Second))
}

func (c *bookkeeper) Settled(path, end string, worked time.Duration) {
	c.note(path, "%s after %v", end, worked.Truncate(time.Second))
}

func (c *bookkeeper) Buried(path string) { c.note(path, "buried") }

// heard fails the test unless these reports have come since the last call.
func (c *bookkeeper) heard(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	check.EqualSlices(t, c.said, want, "reported ")
	c.said = nil
}

// observed is bubble with a session that has an observer, and another session.
func observed(t *testing.T, f func(t *testing.T, srv *zktest.Server, s, other *session.Session, c *bookkeeper)) {
	t.Helper()
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, other ...*session.Session) {
		c := &bookkeeper{}
		f(t, srv, openSession(t, srv, session.Options{Observer: c}), other[0], c)
	})
}

// TestObservedPuts: each call is reported once, whatever becomes of it.
func TestObservedPuts(t *testing.T) {
	observed(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session, c *bookkeeper) {
		q := open(t, s, &queue.Options{MaxItems: 4})
		put(t, q, "1")
		c.heard(t, "put: 1 in 0s")
		putAll(t, q, numbers(2)...)
		c.heard(t, "put: 2 in 0s")
		check.Have(q.PutAfter(t.Context(), []byte("4"), time.Hour))(t)
		c.heard(t, "put: 1 in 0s")
		once(t, open(t, s, nil), "5")
		c.heard(t, "put: 1 in 0s")
		check.Fails(open(t, s, &queue.Options{MaxItems: 1, RefuseWhenFull: true}).PutAll(t.Context(), bytesOf(numbers(2))))(t, queue.ErrFull)
		c.heard(t, queue.ErrFull.Error()+": 2 in 0s")
		check.Fails(q.Put(t.Context(), make([]byte, 2<<20)))(t, session.ErrTooLarge)
		c.heard(t, session.ErrTooLarge.Error()+": 1 in 0s")

		// There is no room for a while.
		time.AfterFunc(5*time.Second, func() { drain(t, open(t, other, nil)) })
		put(t, q, "5")
		c.heard(t, "put: 1 in 5s")

		srv.DropReply(zktest.Match{Session: s.ID(), Op: zktest.OpMulti})
		put(t, q, "6")
		kit.Pass(time.Minute)
		c.heard(t, "put: 1 in 0s")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		check.Fails(q.Put(ctx, []byte("never")))(t, context.Canceled)
		c.heard(t, context.Canceled.Error()+": 1 in 0s")

		srv.DropReply(zktest.Match{Session: s.ID(), Op: zktest.OpMulti})
		srv.Refuse(true)
		begun := time.Now()
		time.AfterFunc(time.Minute, func() { srv.Refuse(false) })
		check.Fails(q.PutAll(t.Context(), bytesOf(numbers(1))))(t, session.ErrUnknownOutcome)
		took := time.Since(begun).Round(time.Second)
		kit.Pass(time.Minute)
		c.heard(t, fmt.Sprintf("%v: 1 in %v", session.ErrUnknownOutcome, took))

		check.Must(t, q.Close(t.Context()))
		check.Fails(q.Put(t.Context(), []byte("7")))(t, queue.ErrClosed)
		c.heard(t, queue.ErrClosed.Error()+": 1 in 0s")
	})
}

// TestObservedDeliveries: each delivery is reported once, and so is its end.
func TestObservedDeliveries(t *testing.T) {
	type play = func(t *testing.T, srv *zktest.Server, s *session.Session, c *queue.Consumer)
	for name, row := range map[string]struct {
		play play
		opts queue.Options
		want []string
	}{
		"acknowledged": {play: func(t *testing.T, _ *zktest.Server, _ *session.Session, c *queue.Consumer) {
			item := next(t, c)
			kit.Pass(2 * time.Second)
			check.Must(t, item.Ack(t.Context()))
			check.Is(t, item.Ack(t.Context()), queue.ErrNotClaimed)
		}, want: []string{"delivered 1 at 3s", "acknowledged after 2s"}},
		"not received": {play: func(*testing.T, *zktest.Server, *session.Session, *queue.Consumer) {}},
		"rejected": {play: func(t *testing.T, _ *zktest.Server, _ *session.Session, c *queue.Consumer) {
			check.Must(t, next(t, c).RejectAfter(t.Context(), 5*time.Second, nil))
			check.Must(t, next(t, c).RejectAfter(t.Context(), 0, nil))
			check.Must(t, next(t, c).Ack(t.Context()))
		}, want: []string{
			"delivered 1 at 3s", "rejected after 0s", "delivered 2 at 8s", "rejected after 0s",
			"delivered 3 at 8s", "acknowledged after 0s",
		}},
		"buried": {opts: queue.Options{MaxAttempts: 1}, play: func(t *testing.T, _ *zktest.Server, _ *session.Session, c *queue.Consumer) {
			check.Must(t, next(t, c).Reject(t.Context()))
		}, want: []string{"delivered 1 at 3s", "buried", "rejected after 0s"}},
		"the replies are lost": {opts: queue.Options{MaxAttempts: 2}, play: func(t *testing.T, srv *zktest.Server, s *session.Session, c *queue.Consumer) {
			lose := func() { srv.DropReply(zktest.Match{Session: s.ID(), Op: zktest.OpMulti}) }
			item := next(t, c)
			lose()
			check.Must(t, item.RejectAfter(t.Context(), 0, nil))
			item = next(t, c)
			lose()
			check.Must(t, item.Reject(t.Context()))
		}, want: []string{"delivered 1 at 3s", "rejected after 0s", "delivered 2 at 3s", "buried", "rejected after 0s"}},
		"the caller leaves": {play: func(t *testing.T, srv *zktest.Server, s *session.Session, c *queue.Consumer) {
			item := next(t, c)
			srv.Delay(zktest.Match{Session: s.ID(), Op: zktest.OpMulti}, 2*time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			check.Is(t, item.Ack(ctx), session.ErrUnknownOutcome)
			kit.Pass(time.Minute)
		}, want: []string{"delivered 1 at 3s", "acknowledged after 2s"}},
		"the outcome is unknown": {play: func(t *testing.T, srv *zktest.Server, s *session.Session, c *queue.Consumer) {
			item := next(t, c)
			srv.DropReply(zktest.Match{Session: s.ID(), Op: zktest.OpMulti})
			srv.Refuse(true)
			check.Is(t, item.Ack(t.Context()), session.ErrUnknownOutcome)
			srv.Refuse(false)
			kit.Pass(time.Minute)
		}, want: []string{"delivered 1 at 3s", "lost after 8s"}},
		"an operation of the caller is refused": {play: func(t *testing.T, srv *zktest.Server, s *session.Session, c *queue.Consumer) {
			item := next(t, c)
			check.Is(t, item.AckWith(t.Context(), session.CheckOp("/none", 0)), session.ErrNoNode)
			kit.Pass(time.Second)
			check.Must(t, item.Ack(t.Context()))
		}, want: []string{"delivered 1 at 3s", "acknowledged after 1s"}},
		"an operator deletes the item": {play: func(t *testing.T, srv *zktest.Server, s *session.Session, c *queue.Consumer) {
			item := next(t, c)
			check.Must(t, s.Delete(t.Context(), left(srv, "2147483648-0000000000")[0], session.AnyVersion))
			check.Is(t, item.Ack(t.Context()), queue.ErrNotClaimed)
		}, want: []string{"delivered 1 at 3s", "lost after 0s"}},
		"the session expires": {play: func(t *testing.T, srv *zktest.Server, s *session.Session, c *queue.Consumer) {
			item := next(t, c)
			kit.Pass(2 * time.Second)
			srv.Expire(s.ID())
			kit.Pass(time.Minute)
			check.Is(t, item.Ack(t.Context()), queue.ErrNotClaimed)
		}, want: []string{"delivered 1 at 3s", "lost after 2s"}},
		"the consumer is closed": {play: func(t *testing.T, _ *zktest.Server, _ *session.Session, c *queue.Consumer) {
			item := next(t, c)
			kit.Pass(2 * time.Second)
			c.Close()
			check.Is(t, item.Ack(t.Context()), queue.ErrNotClaimed)
		}, want: []string{"delivered 1 at 3s", "lost after 2s"}},
		"the session is closed": {play: func(t *testing.T, _ *zktest.Server, s *session.Session, c *queue.Consumer) {
			next(t, c)
			kit.Pass(2 * time.Second)
			s.Close()
			<-c.Done()
		}, want: []string{"delivered 1 at 3s", "lost after 2s"}},
	} {
		t.Run(name, func(t *testing.T) {
			observed(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session, c *bookkeeper) {
				put(t, open(t, other, nil), "a")
				kit.Pass(3 * time.Second)
				consumer := consume(t, open(t, s, &row.opts), 1)
				row.play(t, srv, s, consumer)
				consumer.Close()
				c.heard(t, row.want...)
			})
		})
	}
}

// TestObservedRun: Run reports what its function does, also if several items are in work at once.
func TestObservedRun(t *testing.T) {
	observed(t, func(t *testing.T, _ *zktest.Server, s, other *session.Session, c *bookkeeper) {
		put(t, open(t, other, nil), numbers(100)...)
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, stop)
		failed := errors.New("failed")
		q := open(t, s, &queue.Options{MaxAttempts: 3})
		check.Is(t, q.Run(ctx, 4, func(_ context.Context, item queue.Item) error {
			<-time.After(time.Second)
			if item.Attempt == 1 && string(item.Data) != "item 0" {
				return nil
			}
			return failed
		}), context.Canceled)
		synctest.Wait()
		count := map[string]int{}
		for _, line := range c.said {
			what, _, _ := strings.Cut(line, " at ")
			count[what]++
		}
		check.EqualMaps(t, count, map[string]int{
			"delivered 1": 100, "delivered 2": 1, "delivered 3": 1,
			"acknowledged after 1s": 99, "rejected after 1s": 3, "buried": 1,
		}, "reports")
	})
}

// TestObservedTakes: what Take delivers is settled at once. What it does not take is not reported.
func TestObservedTakes(t *testing.T) {
	observed(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session, c *bookkeeper) {
		q, putter := open(t, s, nil), open(t, other, nil)
		take := func(want string) {
			t.Helper()
			check.Equal(t, takeOne(t, q), want)
		}
		check.Fails(q.TryTake(t.Context()))(t, queue.ErrEmpty)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check.Fails(q.Take(ctx))(t, context.DeadlineExceeded)
		c.heard(t)

		put(t, putter, "a")
		kit.Pass(3 * time.Second)
		check.Have(q.Peek(t.Context()))(t)
		c.heard(t)
		take("a")
		c.heard(t, "delivered 1 at 3s", "taken after 0s")

		put(t, putter, "b")
		serve(t, putter, back)
		take("b")
		c.heard(t, "delivered 2 at 0s", "taken after 0s")

		put(t, putter, "c")
		srv.DropReply(zktest.Match{Session: s.ID(), Op: zktest.OpMulti})
		take("c")
		c.heard(t, "delivered 1 at 0s", "taken after 0s")

		put(t, putter, "d", "e", "f")
		check.Len(t, check.Have(q.TakeN(t.Context(), 2))(t), 2)
		c.heard(t, "delivered 1 at 0s", "taken after 0s", "delivered 1 at 0s", "taken after 0s")

		srv.DropReply(zktest.Match{Session: s.ID(), Op: zktest.OpMulti})
		srv.Refuse(true)
		time.AfterFunc(time.Minute, func() { srv.Refuse(false) })
		data, err := q.Take(t.Context())
		check.Is(t, err, session.ErrUnknownOutcome)
		check.True(t, string(data) == "f", "%q", data)
		kit.Pass(2 * time.Minute)
		check.True(t, len(c.said) == 2, "reported %q", c.said)
		c.said = c.said[1:] // at an age that depends on the end of the session
		c.heard(t, "lost after 0s")
	})
}
