package zktest

import (
	"slices"
	"sync"
	"time"
)

// A Clock gives a [Server] the time. The default is the clock of package time, which is the
// bubble's clock inside a testing/synctest bubble.
type Clock interface {
	// Now returns the time.
	Now() time.Time

	// AfterFunc calls f after d, in a goroutine of the clock's, unless stop
	// is called before. It must not call f itself.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// A ManualClock is a [Clock] that moves only when [ManualClock.Advance] is called. Its zero value
// is ready, and stands at the beginning of the year 2000. It is safe for concurrent use.
type ManualClock struct {
	mu     sync.Mutex
	passed time.Duration
	timers []*manualTimer
}

type manualTimer struct {
	at time.Duration
	f  func()
}

// Now implements [Clock].
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(c.passed)
}

// AfterFunc implements [Clock].
func (c *ManualClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &manualTimer{at: c.passed + d, f: f}
	c.timers = append(c.timers, t)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.timers, t)
		if i >= 0 {
			c.timers = slices.Delete(c.timers, i, i+1)
		}
		return i >= 0
	}
}

// Advance moves the clock by d. When it returns, all functions that were due meanwhile have run, in
// order, each at its time.
func (c *ManualClock) Advance(d time.Duration) {
	c.mu.Lock()
	end := c.passed + d
	for {
		next := -1
		for i, t := range c.timers {
			if t.at <= end && (next < 0 || t.at < c.timers[next].at) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		t := c.timers[next]
		c.timers = slices.Delete(c.timers, next, next+1)
		c.passed = max(c.passed, t.at)
		c.mu.Unlock()
		t.f()
		c.mu.Lock()
	}
	c.passed = end
	c.mu.Unlock()
}
