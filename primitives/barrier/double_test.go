package barrier_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// rounds has every handle go through so many rounds, and counts who is inside: nobody is alone,
// and nobody has left while another is inside.
func rounds(t *testing.T, handles []*barrier.Double, n int, meddle func(round int)) {
	t.Helper()
	var inside, entered atomic.Int64
	var wg sync.WaitGroup
	for i, d := range handles {
		wg.Go(func() {
			for round := range n {
				if i == 0 {
					meddle(round)
				}
				if err := d.Enter(t.Context()); err != nil {
					t.Errorf("%d enters round %d: %v", i, round, err)
					return
				}
				inside.Add(1)
				entered.Add(1)
				inside.Add(-1)
				if err := d.Leave(t.Context()); err != nil {
					t.Errorf("%d leaves round %d: %v", i, round, err)
					return
				}
				if all := entered.Load(); all < int64((round+1)*len(handles)) {
					t.Errorf("%d has left round %d when %d had entered", i, round, all)
				}
				if in := inside.Load(); in != 0 && entered.Load() == int64((round+1)*len(handles)) {
					t.Errorf("%d has left round %d when %d were inside", i, round, in)
				}
			}
		})
	}
	wg.Wait()
}

func TestRounds(t *testing.T) {
	bubble(t, 5, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		handles := doubles(t, s, 5)
		events := handles[0].Events()
		rounds(t, handles, 20, func(int) {})
		if left := parties(srv); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
		var last barrier.DoubleEvent
		for _, ev := range drain(events) {
			last = ev
		}
		if last != (barrier.Left{Round: 20}) {
			t.Errorf("the last event is %v", last)
		}
		srv.Reap()
		srv.Reap()
		srv.Reap()
		if left := srv.Paths(); len(left) > 1 {
			t.Errorf("%q are left", left)
		}
	})
}
