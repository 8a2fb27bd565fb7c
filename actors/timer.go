package actors

import "time"

// After calls f when d has passed, on a goroutine of its own, unless it is stopped before. A
// performer uses it to answer a machine that waits for a time. The answer should name the effect
// that it answers, because it may come just after stop was called.
func After(d time.Duration, f func()) (stop func()) {
	refuseNil(f == nil, "After: f")
	timer := time.AfterFunc(d, f)
	return func() { timer.Stop() }
}

// Deadline returns the time after the given duration from now. A performer hands it to a machine,
// which has no clock.
func Deadline(after time.Duration) time.Time { return time.Now().Add(after) }
