package kit

import (
	"sync/atomic"
	"time"
)

// A SteppingClock is the clock of servers, where the next leader may have another time. Its timers
// do not step.
type SteppingClock struct{ ahead atomic.Int64 }

// Step sets the clock ahead of the clients' clock, or behind it.
func (c *SteppingClock) Step(d time.Duration) { c.ahead.Add(int64(d)) }

// Now implements [zktest.Clock].
func (c *SteppingClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// AfterFunc implements [zktest.Clock].
func (*SteppingClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}
