package scenario

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkactors/zkactors/session"
)

// Dices returns a function whose results are sources of choices, each for one goroutine.
func Dices(name string, seed uint64) func() *rand.Rand {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // it does not fail
	var rolls atomic.Uint64
	return func() *rand.Rand { return rand.New(rand.NewPCG(seed, hash.Sum64()+rolls.Add(1))) }
}

// A Course is the time of a scenario: when faults strike, and how long they last.
type Course struct {
	*rand.Rand

	end     <-chan struct{}
	lasting sync.WaitGroup
}

// NewCourse returns a course until the end, when the scenario is to return, with no fault left in
// force.
func NewCourse(dice *rand.Rand, end <-chan struct{}) *Course { return &Course{Rand: dice, end: end} }

// UpTo returns a random time.
func (c *Course) UpTo(most time.Duration) time.Duration { return upTo(c.Rand, most) }

func upTo(dice *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(dice.Int64N(int64(most)))
}

// Rest waits, and reports whether the scenario is to go on.
func (c *Course) Rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.end:
		return false
	}
}

// Lasts ends a fault after the time, or at the end of the scenario.
func (c *Course) Lasts(d time.Duration, end func()) {
	c.lasting.Go(func() {
		c.Rest(d)
		end()
	})
}

// Spend does something that ends by itself when the scenario does.
func (c *Course) Spend(do func()) { c.lasting.Go(do) }

// Load has a session write and read much, all at once, until the end of the scenario. Each of its
// callers pauses between two rounds.
func (c *Course) Load(s *session.Session, pause time.Duration) {
	ctx := context.Background()
	const callers, size = 8, 50 << 10
	for i := range callers {
		path := fmt.Sprint("/load-", i)
		c.Spend(func() {
			_, _ = s.Create(ctx, path, nil, session.Persistent) // what fails is no load
			for c.Rest(pause) {
				_, _ = s.Set(ctx, path, make([]byte, size), session.AnyVersion)
				_, _, _ = s.Get(ctx, path)
			}
		})
	}
}

// Await waits for the end of what lasts.
func (c *Course) Await() { c.lasting.Wait() }

// While returns how long a fault lasts: one in four for longer than a session lives.
func (c *Course) While() time.Duration {
	if c.IntN(4) == 0 {
		return Timeout + c.UpTo(Timeout)
	}
	return c.UpTo(Timeout / 2)
}

// Each strikes again and again, about as often as the time says.
func (c *Course) Each(pause time.Duration, strike func()) {
	for c.Rest(c.UpTo(2 * pause)) {
		strike()
	}
	c.Await()
}

// each is Each for a scenario.
func each(pause time.Duration, strike func(w *World)) func(w *World) {
	return func(w *World) { w.Each(pause, func() { strike(w) }) }
}
