package order

import (
	"slices"
	"sync"
	"testing"
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
		if len(done) != 2 {
			t.Errorf("done %v inside of the second", done)
		}
	})
	o.Add(Func(note(3)))
	if done != nil {
		t.Fatalf("done %v by those who put them", done)
	}
	o.Run()
	if !slices.Equal(done, []int{1, 2, 3, 4}) {
		t.Errorf("done %v", done)
	}
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
	if done != 8000 {
		t.Errorf("done %d", done)
	}
}
