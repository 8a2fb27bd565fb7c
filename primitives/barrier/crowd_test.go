package barrier_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCrowd: more parties than the number go round after round. All of them have their turns, and a
// round costs few requests for each party that is left out: it creates a node, reads the record,
// and deletes the node.
func TestCrowd(t *testing.T) {
	const number, each = 10, 5
	for _, many := range []int{13, 60}[:hasten.Sized(hasten.Usually(2, 1), 1)] {
		bubble(t, many, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			turns := make([]int, many)
			handles := doubles(t, s, number)
			for i, d := range handles {
				wg.Go(func() {
					for d.Enter(ctx) == nil {
						turns[i]++
						<-time.After(100 * time.Millisecond)
						check.OK(t, d.Leave(context.WithoutCancel(ctx)))
					}
				})
			}
			<-time.After(time.Second)
			srv.ResetRequests()
			<-time.After(20 * time.Second)
			requests := srv.Requests().Total()
			stop()
			wg.Wait()
			least, most, rounds := turns[0], 0, 0
			for _, n := range turns {
				least, most, rounds = min(least, n), max(most, n), rounds+n
			}
			rounds /= number
			check.True(t, 4*least >= 3*most, "of %d parties one was in %d rounds, another in %d", many, least, most)
			check.AtMost(t, requests/rounds, 5*number+2+each*(many-number), "requests a round of", many)
			for _, d := range handles {
				d.Close()
			}
		})
	}
}

// TestSpare: the entrants that have the duty are cut off before they hear that the number is
// complete. One behind them begins the round, within a session timeout: those that are left out
// stand in the next one. Its members may be the two that are cut off, as chance decides between
// entrants of the same age.
func TestSpare(t *testing.T) {
	const number, many = 2, 6
	bubble(t, many, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		handles := doubles(t, s, number)
		entered := make(chan error, many)
		for i, d := range handles {
			bears := i == 1 || i == 2 // it completes the number, or comes next
			if bears {
				srv.SwallowReply(zktest.Match{Session: s[i].ID(), Op: zktest.OpMulti})
			}
			go func() { entered <- d.Enter(t.Context()) }()
			if <-time.After(100 * time.Millisecond); bears {
				srv.Freeze(s[i].ID(), zktest.Both)
			}
		}
		began := time.Now()
		timeout := s[0].State().(session.Connected).Timeout
		inTheNext := func(node string) bool { return strings.HasPrefix(node, "/barriers/run/2/") }
		for !slices.ContainsFunc(parties(srv), inTheNext) && time.Since(began) < 2*timeout {
			<-time.After(100 * time.Millisecond)
		}
		check.Within(t, time.Since(began), timeout/4, timeout, "the round began after")
		srv.Thaw(0)
		for _, d := range handles {
			d.Close()
		}
	})
}

// TestSpareAfterCrashes: the members of a round crash inside, and so do the entrants that have the
// duty. One behind them removes the round, and begins the next.
func TestSpareAfterCrashes(t *testing.T) {
	const many = 4
	bubble(t, many, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		handles := doubles(t, s, 1)
		check.Must(t, handles[0].Enter(t.Context()))
		entered := entering(t, handles[1])
		for _, d := range handles[2:] {
			entered = entering(t, d)
		}
		for i, d := range handles[:many-1] {
			srv.Freeze(s[i].ID(), zktest.Both)
			go d.Close() // so that it does not come back
		}
		select {
		case err := <-entered:
			check.Must(t, err)
		case <-time.After(3 * s[0].State().(session.Connected).Timeout):
			t.Errorf("no round begins: %q", parties(srv))
		}
		srv.Thaw(0)
		for _, d := range handles {
			d.Close()
		}
	})
}

// entering has a handle enter, and returns when its node stands.
func entering(t *testing.T, d *barrier.Double) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- d.Enter(t.Context()) }()
	<-time.After(100 * time.Millisecond)
	return done
}

// TestAnotherNumber: when no party is there any more, another number of parties may use the path,
// whichever node that is. While one stands, they are refused.
func TestAnotherNumber(t *testing.T) {
	for name, mode := range map[string]session.CreateMode{"ordinary": session.Persistent, "container": session.Container} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, zktest.Config{ReapInterval: time.Minute}, func(t *testing.T, _ *zktest.Server, s []*session.Session) {
				check.Must(t, s[0].EnsurePath(t.Context(), "/barriers"))
				check.Have(s[0].Create(t.Context(), path, nil, mode))(t)
				two := doubles(t, s[:2], 2)
				rounds(t, two, 1, func(int) {})
				early := entering(t, two[0])
				three := doubles(t, s, 3)
				check.Is(t, three[2].Enter(t.Context()), barrier.ErrParties)
				for _, d := range two {
					d.Close()
				}
				check.Is(t, <-early, barrier.ErrClosed)
				end := time.Now().Add(time.Hour)
				for errors.Is(brief(t, three[2]), barrier.ErrParties) {
					check.Require(t, time.Now().Before(end), "for ever")
					<-time.After(time.Minute)
				}
				rounds(t, three, 2, func(int) {})
				for _, d := range three {
					d.Close()
				}
			})
		})
	}
}

// brief has a handle try to enter for a moment.
func brief(t *testing.T, d *barrier.Double) error {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), time.Second)
	defer end()
	return d.Enter(ctx)
}
