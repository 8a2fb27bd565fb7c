package queue_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// smallServer plays with a session on a server that takes smaller requests than the session
// believes.
func smallServer(t *testing.T, f func(t *testing.T, srv *zktest.Server, s ...*session.Session)) {
	t.Helper()
	bubbled(t, zktest.Config{MaxRequest: 100_000, Latency: time.Millisecond}, 1, f)
}

// TestSmallServerPut: an item that is too large for the server is refused. Others are put.
func TestSmallServerPut(t *testing.T) {
	smallServer(t, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		q := open(t, s[0], nil)
		check.Fails(q.Put(ctx, make([]byte, 200_000)))(t, session.ErrTooLarge)
		put(t, q, "small")
		check.EqualSlices(t, drain(t, q), []string{"small"}, "taken")
		check.Must(t, q.Close(ctx))
	})
}

// TestSmallServerConsume: a server takes smaller requests than the session believes. Items that it
// has taken are consumed, a few in a transaction.
func TestSmallServerConsume(t *testing.T) {
	smallServer(t, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		const n = 64
		put(t, q, slices.Repeat([]string{string(make([]byte, 10_000))}, n)...)
		c := consume(t, q, n)
		suspended := 0
		go func() {
			for ev := range c.Events() {
				if _, is := ev.(queue.Suspended); is {
					suspended++
				}
			}
		}()
		for range n - 8 {
			check.Must(t, next(t, c).Ack(t.Context()))
		}
		for range 4 {
			check.Must(t, next(t, c).RejectAfter(t.Context(), 0, nil))
		}
		c.Close()
		check.Equal(t, len(drain(t, q)), 8)
		check.AtMost(t, suspended, 16, "suspensions")
	})
}

// TestSmallServerPutsTogether: calls that are too large for the server together are divided.
func TestSmallServerPutsTogether(t *testing.T) {
	smallServer(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		const n = 128
		q := open(t, s[0], nil)
		put(t, q, "first")
		before := srv.Requests().Total()
		for range 3 {
			crowd(t, n, func(i int) error {
				_, err := q.PutAfter(t.Context(), make([]byte, 10_000), time.Duration(i%2)*time.Hour)
				return err
			})
		}
		requests := srv.Requests().Total() - before
		check.Equal(t, length(t, q), 3*n+1)
		check.AtMost(t, requests, 2*n, "requests")
	})
}

// TestSmallServerMoves: letters, and items, that are too large for the server together go in parts.
func TestSmallServerMoves(t *testing.T) {
	smallServer(t, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		const n = 24
		large := make([]string, n)
		for i := range large {
			large[i] = strings.Repeat(string(rune('a'+i)), 10_000)
		}
		buryLarge(t, s[0], large...)
		dead := letters(t, s[0], nil)
		check.Equal(t, check.Have(dead.RedriveAll(t.Context()))(t), n)
		q := open(t, s[0], nil)
		check.EqualSlices(t, drain(t, q), large, "taken")

		put(t, q, numbers(700)...)
		for taken := 0; taken < 700; {
			taken += len(check.Have(q.TakeN(t.Context(), math.MaxInt))(t))
		}
		check.Equal(t, length(t, q), 0)
	})
}

// buryLarge creates dead letters, each in a transaction of its own.
func buryLarge(t *testing.T, s *session.Session, data ...string) {
	t.Helper()
	const bucket = letterBox + "/items/2147483648-0000000000"
	check.Must(t, s.EnsurePath(t.Context(), bucket))
	for _, d := range data {
		putForeign(t, s, bucket+"/_c_"+fmt.Sprintf("%036x", d[:1])+"-item-", "\n"+d)
	}
}

// TestLargePuts: calls whose items do not fit into one transaction together do not share one.
func TestLargePuts(t *testing.T) {
	const calls = 24
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := flat(t, s[0], at, queue.Curator)
		put(t, q, "first")
		before := srv.Requests()[zktest.OpMulti]
		crowd(t, calls, func(int) error { _, err := q.Put(t.Context(), make([]byte, 600<<10)); return err })
		check.Equal(t, srv.Requests()[zktest.OpMulti]-before, calls, "transactions")
	})
}
