package actors_test

import (
	"slices"
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
