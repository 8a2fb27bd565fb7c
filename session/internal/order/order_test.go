package order

import (
	"sync"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// TestOrderIsKept: a step that is put by another step comes behind those that are there.
func TestOrderIsKept(t *testing.T) {
	o := New(func() {})
	var done []int
	note := func(n int) func() { return func() { done = append(done, n) } }
	o.Put(note(1))
	o.Put(func() {
		note(2)()
		o.Put(note(4))
		o.Run()
		check.True(t, len(done) == 2, "done %v inside of the second", done)
	})
	o.Add(Func(note(3)))
	if done != nil {
		t.Fatalf("done %v by those who put them", done)
	}
	o.Run()
	check.EqualSlices(t, done, []int{1, 2, 3, 4}, "done")
}

func TestOrderIsOneAtATime(t *testing.T) {
	o := New(func() {})
	var wg sync.WaitGroup
	running, done := 0, 0
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				o.Put(func() {
					if running++; running != 1 {
						t.Error("two at a time")
					}
					running--
					done++
				})
				o.Run()
			}
		})
	}
	wg.Wait()
	o.Run()
	check.Equal(t, done, 8000, "done")
}
