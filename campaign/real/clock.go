package real

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// now returns the time of a clock that all processes of the machine share, and that is never set.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("real: no monotonic clock: %v", err)) // every Linux has one
	}
	return time.Duration(t.Nano())
}

// since returns a clock that began at a time of now.
func since(start time.Duration) func() time.Duration {
	return func() time.Duration { return now() - start }
}
