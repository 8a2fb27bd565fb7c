//go:build unix && !race

package outage

import (
	"syscall"
	"time"
)

// cpu returns how long this process has been busy.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
