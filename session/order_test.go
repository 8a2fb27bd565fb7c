package session

import (
	"slices"
	"sync"
	"testing"
)

// TestOrderIsKept: a step that is put by another step comes behind those that are there.
func TestOrderIsKept(t *testing.T) {
	o := newOrder(func() {})
	var done []int
	note := func(n int) func() { return func() { done = append(done, n) } }
	o.put(note(1))
	o.put(func() {
		note(2)()
		o.put(note(4))
		o.run()
		if len(done) != 2 {
			t.Errorf("done %v inside of the second", done)
		}
	})
	o.add(function(note(3)))
	if done != nil {
		t.Fatalf("done %v by those who put them", done)
	}
	o.run()
	if !slices.Equal(done, []int{1, 2, 3, 4}) {
		t.Errorf("done %v", done)
	}
}

func TestOrderIsOneAtATime(t *testing.T) {
	o := newOrder(func() {})
	var wg sync.WaitGroup
	running, done := 0, 0
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				o.put(func() {
					if running++; running != 1 {
						t.Error("two at a time")
					}
					running--
					done++
				})
				o.run()
			}
		})
	}
	wg.Wait()
	o.run()
	if done != 8000 {
		t.Errorf("done %d", done)
	}
}
