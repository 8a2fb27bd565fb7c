package actors

import "time"

// After calls f when d has passed, on a goroutine of its own, unless it is stopped
// before. With it, a performer answers a machine that waits for a moment. The answer
// names what was waited for, because it may come when stop was just called.
func After(d time.Duration, f func()) (stop func()) {
	timer := time.AfterFunc(d, f)
	return func() { timer.Stop() }
}

// Deadline returns the time that is so far from now: what a performer tells a machine, which
// knows no clock.
func Deadline(after time.Duration) time.Time { return time.Now().Add(after) }
