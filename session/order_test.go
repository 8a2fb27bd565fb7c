package session

import (
	"slices"
	"sync"
	"testing"
)

func TestOrderKeepsPlaces(t *testing.T) {
	o := newOrder(func() {})
	var done []int
	note := func(n int) func() { return func() { done = append(done, n) } }
	o.put(note(1))
	place := o.reserve()
	o.put(note(3))
	o.run()
	if !slices.Equal(done, []int{1}) {
		t.Fatalf("done %v before the second place was filled", done)
	}
	o.fill(place, func() {
		note(2)()
		o.put(note(4)) // in its turn, and not now
		o.run()
		if len(done) != 2 {
			t.Errorf("done %v inside of the second", done)
		}
	})
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
