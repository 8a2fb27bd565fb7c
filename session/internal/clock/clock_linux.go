package clock

import (
	"syscall"
	"time"
	"unsafe"
)

// machineSlept returns how long the machine has slept since it was started: by how much
// the clock that goes on meanwhile is ahead of the one that does not.
func machineSlept() time.Duration {
	const monotonic, boottime = 1, 7
	for range 10 {
		before := systemClock(monotonic)
		boot := systemClock(boottime)
		if systemClock(monotonic)-before < time.Millisecond { // not interrupted in between
			return boot - before
		}
	}
	return 0
}

func systemClock(id uintptr) time.Duration {
	var ts syscall.Timespec
	// The call does not wait, so the scheduler need not know of it.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0
	}
	return time.Duration(ts.Nano())
}
