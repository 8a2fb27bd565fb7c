package queue_test

import (
	"context"
	"errors"
	"net"
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

// A farConn is a connection on which what is written arrives later.
type farConn struct {
	net.Conn

	late  time.Duration
	mu    sync.Mutex
	chain <-chan struct{} // closed when what was written before has arrived
}

// Write implements [net.Conn].
func (c *farConn) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, arrived := c.chain, make(chan struct{})
	c.chain = arrived
	data = append([]byte(nil), data...)
	time.AfterFunc(c.late, func() {
		defer close(arrived)
		if before != nil {
			<-before
		}
		_, _ = c.Conn.Write(data)
	})
	return len(data), nil
}

// far opens a session whose requests take longer.
func far(t *testing.T, srv *zktest.Server, late time.Duration) *session.Session {
	t.Helper()
	return openSession(t, srv, session.Options{Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := srv.DialContext(ctx, network, address)
		return &farConn{Conn: conn, late: late}, err
	}})
}

// TestFarProducer: a producer far away puts its items into a bounded queue, however fast others put
// theirs.
func TestFarProducer(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		bubbled(t, zktest.Config{Latency: 500 * time.Microsecond}, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			const items = 20
			away := far(t, srv, 20*time.Millisecond)
			opts := &queue.Options{MaxItems: 1_000_000, RefuseWhenFull: refuses}
			a, b := open(t, s[0], opts), open(t, away, opts)
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			var working sync.WaitGroup
			working.Go(func() {
				for ctx.Err() == nil {
					_, _ = a.Put(ctx, []byte("near"))
				}
			})
			kit.Pass(time.Second)
			began := time.Now()
			for range items {
				check.Have(b.Put(ctx, []byte("far")))(t)
			}
			check.AtMost(t, time.Since(began), items*500*time.Millisecond)
			stop()
			working.Wait()
		})
	}
}

// TestFirstInLine: the first in line for room gets its places, however many it wants, before others
// put.
func TestFirstInLine(t *testing.T) {
	for _, n := range []int{1, 2, 5, 10} {
		bubbled(t, zktest.Config{Latency: 500 * time.Microsecond}, 4, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
			patient := &queue.Options{MaxItems: 10}
			a, later := open(t, s[0], patient), open(t, s[3], patient)
			b, taker := open(t, s[1], &queue.Options{MaxItems: 10, RefuseWhenFull: true}), open(t, s[2], nil)
			putAll(t, b, numbers(10)...)
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
			defer stop()
			var working sync.WaitGroup
			working.Go(func() {
				defer stop()
				putAll(t, a, numbers(n)...)
			})
			kit.Pass(time.Second) // it is first in line
			others, taken := 0, 0
			for _, q := range []*queue.Queue{b, b, b, b, later} {
				working.Go(func() {
					for ctx.Err() == nil {
						if _, err := q.Put(ctx, []byte("x")); err == nil {
							others++
						} else if errors.Is(err, queue.ErrFull) {
							<-time.After(5 * time.Millisecond)
						}
					}
				})
			}
			working.Go(func() {
				for ctx.Err() == nil {
					<-time.After(20 * time.Millisecond)
					if _, err := taker.TryTake(ctx); err == nil {
						taken++
					}
				}
			})
			working.Wait()
			// One may put while its context ends.
			check.True(t, others <= 1 && taken <= n+2, "PutAll of %d: others have put %d, %d taken", n, others, taken)
		})
	}
}

// TestTurnOfManyPlaces: who would leave less room than the line wants is refused, and others stand
// in line.
func TestTurnOfManyPlaces(t *testing.T) {
	bubble(t, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		a, b := open(t, s[0], &queue.Options{MaxItems: 10}), open(t, s[1], &queue.Options{MaxItems: 10, RefuseWhenFull: true})
		taker := open(t, s[2], nil)
		putAll(t, b, numbers(8)...)
		done := kit.Begin(func() error { _, err := a.PutAll(t.Context(), bytesOf(numbers(4))); return err })
		check.Equal(t, len(left(srv, "producers")), 1, "in line")
		check.Fails(b.Put(t.Context(), []byte("x")))(t, queue.ErrFull) // though there are two places
		for range 2 {
			check.Have(taker.Take(t.Context()))(t)
		}
		check.Must(t, <-done)
		check.Fails(b.Put(t.Context(), []byte("x")))(t, queue.ErrFull)
		check.Have(taker.Take(t.Context()))(t)
		put(t, b, "y")
		synctest.Wait()
		check.Equal(t, len(left(srv, "producers")), 0, "in line")
	})
}

// TestRequestsBounded: while there is room, and nobody waits, a put into a bounded queue is one
// request.
func TestRequestsBounded(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], &queue.Options{MaxItems: 1000})
		put(t, q, "first")
		before := srv.Requests().Total()
		put(t, q, numbers(100)...)
		check.Equal(t, srv.Requests().Total()-before, 100, "requests")
	})
}
