package actors_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/zkactors/zkactors/actors"
)

func TestStreamIsLossless(t *testing.T) {
	const writers, each = 4, 2500
	s := actors.NewStream[int]("test", nil)
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				s.Put(w*each + i)
			}
		})
	}
	go func() {
		writing.Wait()
		s.End(-1, -2)
	}()
	all := drain(s.Events())
	if len(all) != writers*each+2 || all[len(all)-2] != -1 || all[len(all)-1] != -2 {
		t.Fatalf("%d events, ending with %v", len(all), all[max(0, len(all)-2):])
	}
	next := make([]int, writers)
	for _, n := range all[:writers*each] {
		if w := n / each; n%each != next[w] {
			t.Fatalf("writer %d: event %d came when %d was due", w, n%each, next[w])
		}
		next[n/each]++
	}
	s.Close()
}

func TestStreamKeepsWhatCameBeforeItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := actors.NewStream[int]("test", nil)
		s.Put(1)
		s.Put(2)
		s.Put(3)
		synctest.Wait()
		s.End()
		s.Put(4) // too late
		s.End(5)
		<-s.Ended()
		expect(t, drain(s.Events()), 1, 2, 3)
		s.Close()
	})
}

func TestStreamMerges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := actors.NewStream("test", func(last, next int) (int, bool) { return next, true })
		for i := range 10 {
			s.Put(i)
			synctest.Wait()
		}
		events := s.Events()
		if n := <-events; n != 9 {
			t.Errorf("got %d, want the newest", n)
		}
		s.Put(10)
		s.End(11)
		synctest.Wait() // else 10 can be received before 11 is there
		expect(t, drain(events), 11)
		s.Close()
	})
}

func TestStreamClosed(t *testing.T) {
	t.Run("without an end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := actors.NewStream[int]("test", nil)
			s.Put(1)
			s.Put(2)
			s.Close()
			expect(t, drain(s.Events()), 2)
			s.Close()
		})
	})
	t.Run("after the end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := actors.NewStream[int]("test", nil)
			s.Put(1)
			s.Put(2)
			s.End(3, 4)
			s.Close()
			expect(t, drain(s.Events()), 4)
		})
	})
	t.Run("by its reader's context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := actors.NewStream[int]("test", nil)
			ctx, cancel := context.WithCancel(t.Context())
			context.AfterFunc(ctx, s.Close)
			s.Put(1)
			cancel()
			drain(s.Events())
			s.Put(2)
		})
	})
}
