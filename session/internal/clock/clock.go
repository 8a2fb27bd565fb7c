// Package clock tells how long a session has lived, also while the machine sleeps.
package clock

import (
	"sync/atomic"
	"time"
)

// A Clock measures how long a session has lived. It goes on while the machine sleeps, as
// the clocks of the servers do; the monotonic clock of the runtime stands still then.
type Clock struct {
	born  time.Time
	wall  time.Time            // born, without the monotonic reading
	slept atomic.Int64         // how long the machine has slept since, as far as is known; it never shrinks
	asked atomic.Int64         // by how much the wall clock was ahead when the system was asked last
	sleep func() time.Duration // how long the machine has slept since it was started
	start time.Duration        // what that was when the session was born
}

// After a longer jump of the wall clock, ahead or back, the system is asked whether the
// machine has slept.
const wallJump = 20 * time.Millisecond

// New returns the clock of a session that begins now.
func New() *Clock {
	now := time.Now()
	return &Clock{born: now, wall: now.Round(0), sleep: machineSlept, start: machineSlept()}
}

// Now returns the age of the session.
func (c *Clock) Now() time.Duration {
	now := time.Now()
	age := now.Sub(c.born)
	// The wall clock goes on while the machine sleeps. It is read anyway.
	ahead := int64(now.Round(0).Sub(c.wall) - age)
	if jump := time.Duration(ahead - c.asked.Load()); jump.Abs() > wallJump {
		slept := int64(c.sleep() - c.start)
		for known := c.slept.Load(); slept > known && !c.slept.CompareAndSwap(known, slept); {
			known = c.slept.Load()
		}
		c.asked.Store(ahead) // at last: no other goroutine takes the old value for the new
	}
	return age + time.Duration(c.slept.Load())
}

// Time returns the time at which the session has, or had, that age.
func (c *Clock) Time(age time.Duration) time.Time {
	now := c.Now()
	return time.Now().Add(age - now)
}

// Simulate has the clock ask slept, from now on, how long the machine has slept. It is for tests.
func (c *Clock) Simulate(slept func() time.Duration) { c.start, c.sleep = 0, slept }

// Jump has the clock see the wall clock ahead by d. It is for tests.
func (c *Clock) Jump(d time.Duration) { c.asked.Store(-int64(d)) }
