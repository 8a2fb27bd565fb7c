//go:build !race

// The race detector changes what everything costs.

package actors_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
)

const idleActors = 10_000

// A cell is what a primitive keeps for each actor, in its smallest form.
type cell = actors.Actor[input, event]

// startIdle starts actors that have taken an input, performed an effect,
// delivered an event, and wait.
func startIdle(n int) []*cell {
	cells := make([]*cell, n)
	for i := range cells {
		cells[i] = actors.Start(counter{}, actors.Role[counter, input, effect, event]{
			Name:    fmt.Sprintf("idle /benchmark/locks/%06d", i),
			Begin:   []effect{echo{1}},
			Perform: perform,
			Observe: func(counter, []event) {},
			Stop:    stop{},
			Merge:   merge,
			Cancel:  cancel,
		})
	}
	for _, c := range cells {
		<-c.Events()
	}
	return cells
}

// costOfIdle returns bytes of heap and stack, and goroutines, for each of n
// waiting actors.
func costOfIdle(n int) (bytes, goroutines float64) {
	before := measure()
	cells := startIdle(n)
	after := measure()
	for _, c := range cells {
		c.Stop()
	}
	for _, c := range cells {
		c.Close()
	}
	return float64(after.bytes-before.bytes) / float64(n), float64(after.goroutines-before.goroutines) / float64(n)
}

type usage struct{ bytes, goroutines int64 }

func measure() usage {
	runtime.GC()
	runtime.GC() // the first one only marks; stacks shrink in the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return usage{int64(stats.HeapInuse + stats.StackInuse), int64(runtime.NumGoroutine())}
}

func BenchmarkIdle(b *testing.B) {
	var bytes, goroutines float64
	for b.Loop() {
		bytes, goroutines = costOfIdle(idleActors)
	}
	b.ReportMetric(bytes, "B/actor")
	b.ReportMetric(goroutines, "goroutines/actor")
}

// BenchmarkStep is one input, one step, and one event that a waiting reader
// receives.
func BenchmarkStep(b *testing.B) {
	// Small numbers would not be allocated.
	a := actors.Start(counter{n: 1000}, actors.Role[counter, input, effect, event]{Stop: stop{}, Perform: perform, Merge: merge, Cancel: cancel})
	defer a.Close()
	events := a.Events()
	b.ReportAllocs()
	for b.Loop() {
		if a.Tell(tick{}) != nil {
			b.Fatal("ended")
		}
		<-events
	}
}

// BenchmarkAsk is a command with a reply.
func BenchmarkAsk(b *testing.B) {
	a := actors.Start(counter{}, actors.Role[counter, input, effect, event]{Stop: stop{}, Perform: perform, Merge: merge})
	defer a.Close()
	b.ReportAllocs()
	for b.Loop() {
		check.Have(actors.Ask(b.Context(), a, getCount))(b)
	}
}

// BenchmarkStream is an event through a stream to a waiting reader.
func BenchmarkStream(b *testing.B) {
	s := actors.NewStream[int]("benchmark", nil)
	defer s.Close()
	events := s.Events()
	b.ReportAllocs()
	for b.Loop() {
		s.Put(1)
		<-events
	}
}

// BenchmarkBacklog is an event through a stream whose reader comes late.
func BenchmarkBacklog(b *testing.B) {
	const backlog = 10_000
	b.ReportAllocs()
	for b.Loop() {
		s := actors.NewStream[int]("benchmark", nil)
		for i := range backlog {
			s.Put(i)
		}
		s.End()
		for range s.Events() {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/backlog, "ns/event")
}

func TestCostOfWaiting(t *testing.T) {
	bytes, goroutines := costOfIdle(idleActors)
	t.Logf("%.0f bytes, %.3f goroutines for each actor", bytes, goroutines)
	check.True(t, bytes <= 1280, "a waiting actor costs %.0f bytes, want at most 1280", bytes)
	check.True(t, goroutines <= 0.01, "a waiting actor costs %.3f goroutines, want 0", goroutines)
}

func TestCostOfStep(t *testing.T) {
	// Small numbers would not be allocated.
	a := actors.Start(counter{n: 1000}, actors.Role[counter, input, effect, event]{Stop: stop{}, Perform: perform, Merge: merge, Cancel: cancel})
	defer a.Close()
	events := a.Events()
	allocs := testing.AllocsPerRun(2000, func() {
		_ = a.Tell(tick{})
		<-events
	})
	check.True(t, allocs <= 2, "a step with one event allocates %.1f times, want at most 2", allocs)
}
