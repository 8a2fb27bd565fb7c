package order

import (
	"runtime"
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
	check.Require(t, done == nil, "done %v by those who put them", done)
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

// TestStepsOutliveTheirGoroutine: a step, or what comes before it, ends the goroutine. The steps
// behind it run, and what is left of it before them, with nothing in between.
func TestStepsOutliveTheirGoroutine(t *testing.T) {
	var done []string
	note := func(what string) { done = append(done, what) }
	exits := 0
	exit := func(what string) func() {
		return func() {
			note(what)
			exits++
			runtime.Goexit()
		}
	}
	checks := 0
	var o *Order
	o = New(func() {
		if checks++; checks == 3 {
			o.InTurn(exit("check"), exit("checked"))
		}
	})
	o.Put(func() {
		o.InTurn(func() { o.InTurn(exit("a"), exit("b")) }, func() { note("c") }, exit("d"))
		t.Error("the goroutine goes on")
	})
	o.Put(exit("e"))
	o.Put(func() { note("f") })
	rounds := 0
	for ; len(o.ready) > 0; rounds++ {
		<-o.ready
		var wg sync.WaitGroup
		wg.Go(o.Run)
		wg.Wait()
	}
	check.EqualSlices(t, done, []string{"a", "b", "c", "d", "e", "check", "checked", "f"}, "done")
	check.Equal(t, rounds, exits+1, "goroutines")

	o.End()
	ended := make(chan struct{})
	o.Put(exit("g"))
	o.Put(func() { close(ended) })
	<-ended
}

// TestEnd: what was put before the end runs in it.
func TestEnd(t *testing.T) {
	o := New(func() {})
	done := false
	o.Put(func() { done = true })
	o.End()
	check.True(t, done, "a step that was put before the end has not run")
}

// TestNothingIsLeft: of a step that returns nothing is left.
func TestNothingIsLeft(t *testing.T) {
	o := New(func() {})
	o.Put(func() { o.InTurn(func() {}) })
	o.Run()
	check.Len(t, o.left, 0, "what is left")
}
