package barrier_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const latchPath = "/latches/start-7"

func latches(t *testing.T, n int, play func(t *testing.T, srv *zktest.Server, all []*session.Session)) {
	t.Helper()
	bubble(t, n, zktest.Config{}, play)
}

func latchOf(t *testing.T, s *session.Session, n int) *barrier.Latch {
	t.Helper()
	return check.Open(barrier.NewLatch(s, latchPath, n))(t)
}

func isOpen(l *barrier.Latch) bool {
	synctest.Wait()
	select {
	case <-l.Opened():
		return true
	default:
		return false
	}
}

// TestLatch: it opens with the n-th arrival, and stays open.
func TestLatch(t *testing.T) {
	latches(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		t.Helper()
		a, b := latchOf(t, all[0], 3), latchOf(t, all[1], 3)
		left := func(want int) {
			t.Helper()
			got, err := b.Left(t.Context())
			check.True(t, err == nil && got == want, "%d, %v, want %d", got, err, want)
		}
		left(3)
		check.OK(t, a.Arrive(t.Context(), "host-1"))
		check.OK(t, a.Arrive(t.Context(), "host-1"))
		check.OK(t, b.Arrive(t.Context(), "host-1"))
		left(2)
		check.OK(t, b.CountDown(t.Context()))
		left(1)
		check.False(t, isOpen(a) || isOpen(b), "it is open")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		check.Is(t, a.Wait(ctx), context.DeadlineExceeded)
		check.OK(t, b.CountDown(t.Context()))
		check.True(t, isOpen(a) && isOpen(b), "it is not open")
		check.OK(t, a.Wait(t.Context()))
		check.OK(t, b.CountDown(t.Context())) // one too many
		left(0)
		check.OK(t, latchOf(t, all[0], 3).Wait(t.Context()))
	})
}

// TestLatchTrouble loses each request, or its reply: every arrival counts once.
func TestLatchTrouble(t *testing.T) {
	for _, lose := range []func(*zktest.Server, zktest.Match){(*zktest.Server).DropRequest, (*zktest.Server).DropReply} {
		for skip := range 14 {
			latches(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
				t.Helper()
				lose(srv, zktest.Match{Session: all[0].ID(), Skip: skip})
				a, b := latchOf(t, all[0], 3), latchOf(t, all[1], 3)
				check.OK(t, a.CountDown(t.Context()), skip)
				check.OK(t, a.Arrive(t.Context(), "one"), skip)
				left, err := b.Left(t.Context())
				check.True(t, err == nil && left == 1, "%d: %d left, %v", skip, left, err)
				check.OK(t, a.CountDown(t.Context()), skip)
				check.OK(t, a.Wait(t.Context()), skip)
				check.OK(t, b.Wait(t.Context()), skip)
			})
		}
	}
}

// TestLatchCrowd: many arrive at once, near and far, and one of them opens it.
func TestLatchCrowd(t *testing.T) {
	for _, latency := range []time.Duration{0, 2 * time.Millisecond} {
		bubble(t, 20, zktest.Config{Latency: latency}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			t.Helper()
			const n = 300
			var arriving sync.WaitGroup
			for i := range n {
				arriving.Go(func() {
					l, err := barrier.NewLatch(all[i%len(all)], latchPath, n)
					check.Must(t, err)
					defer l.Close()
					check.OK(t, l.Arrive(t.Context(), fmt.Sprint(i)))
					check.OK(t, l.Wait(t.Context()))
				})
			}
			arriving.Wait()
			t.Logf("%v: %v", latency, srv.Requests())
			check.True(t, srv.Requests().Total() < 30*n, "%v", srv.Requests())
		})
	}
}

// TestLatchByHand: a latch that an operator has opened is open, and an arrival finds that out at
// once.
func TestLatchByHand(t *testing.T) {
	latches(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		t.Helper()
		l := latchOf(t, all[0], 5)
		check.OK(t, l.Arrive(t.Context(), "a"))
		_, err := all[0].Create(t.Context(), latchPath+"/open", nil, session.Persistent)
		check.OK(t, err)
		srv.ResetRequests()
		check.OK(t, l.Arrive(t.Context(), "b"))
		check.OK(t, l.CountDown(t.Context()))
		check.True(t, srv.Requests().Total() <= 8, "%v", srv.Requests())
		check.OK(t, l.Wait(t.Context()))

		// And one whose opening was deleted opens with the next arrival.
		for range 4 {
			check.OK(t, all[0].Delete(t.Context(), latchPath+"/open", session.AnyVersion))
			_, err = all[0].Set(t.Context(), latchPath, []byte("zkactors latch 5 5"), session.AnyVersion)
			check.OK(t, err)
			check.OK(t, l.CountDown(t.Context()))
			stat, err := all[0].Exists(t.Context(), latchPath+"/open")
			check.True(t, stat != nil && err == nil, "%v", err)
		}
	})
}

// TestLatchRefuses what it cannot do, and other nodes.
func TestLatchRefuses(t *testing.T) {
	latches(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		t.Helper()
		s := all[0]
		for _, c := range []struct {
			path string
			n    int
			want error
		}{{latchPath, 0, session.ErrInvalidArgument}, {latchPath, -1, session.ErrInvalidArgument}, {"latch", 1, session.ErrInvalidPath}} {
			_, err := barrier.NewLatch(s, c.path, c.n)
			check.Is(t, err, c.want)
		}
		l := latchOf(t, s, 2)
		for _, name := range []string{"", "a/b", "open"} {
			check.Is(t, l.Arrive(t.Context(), name), session.ErrInvalidArgument, name)
		}
		check.Is(t, l.Arrive(t.Context(), ".."), session.ErrInvalidPath)
		check.OK(t, l.Arrive(t.Context(), "a"))
		other := latchOf(t, s, 3)
		check.Is(t, other.Arrive(t.Context(), "a"), barrier.ErrParties)
		_, err := other.Left(t.Context())
		check.Is(t, err, barrier.ErrParties)
		for _, data := range []string{"", "raised by me", "zkactors latch 2 x", "zkactors latch 2 1 and more"} {
			_, err := s.Set(t.Context(), latchPath, []byte(data), session.AnyVersion)
			check.OK(t, err)
			check.Is(t, l.Arrive(t.Context(), "b"), barrier.ErrLayout)
		}
		l.Close()
		l.Close()
		check.Is(t, l.Wait(t.Context()), barrier.ErrClosed)
	})
}
