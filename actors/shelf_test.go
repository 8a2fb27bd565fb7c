package actors_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/zkactors/zkactors/actors"
)

// TestShelf has values received in their order, whenever they come, and none that was taken back.
func TestShelf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken []int
		s := actors.NewShelf("test", func(a, b int) bool { return a/10 < b/10 }, func(v int) { taken = append(taken, v) })
		for _, v := range []int{20, 21, 10} {
			s.Put(v)
			synctest.Wait() // the first is offered before the next comes
		}
		s.Put(11)
		var got []int
		for range 3 {
			got = append(got, <-s.Values())
			s.Put(0)
		}
		got = append(got, <-s.Values())
		if want := []int{10, 0, 0, 0}; !slices.Equal(got, want) {
			t.Errorf("received %v, want %v", got, want)
		}
		synctest.Wait()
		s.Clear()
		synctest.Wait()
		s.Put(30)
		if v := <-s.Values(); v != 30 {
			t.Errorf("received %d after Clear", v)
		}
		s.Put(31)
		s.Close()
		s.Close()
		if v, open := <-s.Values(); open {
			t.Errorf("received %d after Close", v)
		}
		if want := append(got, 30); !slices.Equal(taken, want) {
			t.Errorf("told of %v, want %v", taken, want)
		}
	})
}

// TestRecall takes back values that no reader has received, also the one that is offered, and no
// other. Each recall has one answer, also after Close.
func TestRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken []int
		s := actors.NewShelf("test", func(a, b int) bool { return a < b }, func(v int) { taken = append(taken, v) })
		recall := func(v int) bool {
			var answers []bool
			s.Recall(func(w int) bool { return v == w }, func(ok bool) { answers = append(answers, ok) })
			synctest.Wait()
			if len(answers) != 1 {
				t.Fatalf("%d answers", len(answers))
			}
			return answers[0]
		}
		for _, v := range []int{1, 2, 3} {
			s.Put(v)
		}
		synctest.Wait()
		if recall(4) || !recall(1) || recall(1) || !recall(3) {
			t.Error("1 and 3 can be recalled once, and 4 cannot")
		}
		if v := <-s.Values(); v != 2 {
			t.Errorf("received %d", v)
		}
		if recall(2) {
			t.Error("2 was received, and is recalled")
		}
		s.Put(5)
		s.Close()
		if recall(5) {
			t.Error("5 is recalled after Close")
		}
		if !slices.Equal(taken, []int{2}) {
			t.Errorf("told of %v", taken)
		}
	})
}

// TestRecallOrReceive has readers and recalls compete: each value comes out once.
func TestRecallOrReceive(t *testing.T) {
	const n = 2000
	var mu sync.Mutex
	out := map[int]int{}
	count := func(v int) {
		mu.Lock()
		defer mu.Unlock()
		out[v]++
	}
	s := actors.NewShelf("test", func(a, b int) bool { return a < b }, count)
	var working sync.WaitGroup
	for range 2 {
		working.Go(func() {
			for range s.Values() {
			}
		})
	}
	var answered sync.WaitGroup
	for v := range n {
		s.Put(v)
		answered.Add(1)
		s.Recall(func(w int) bool { return v == w }, func(ok bool) {
			if ok {
				count(v)
			}
			answered.Done()
		})
	}
	answered.Wait()
	s.Close()
	working.Wait()
	for v := range n {
		if out[v] != 1 {
			t.Fatalf("%d came out %d times", v, out[v])
		}
	}
}
