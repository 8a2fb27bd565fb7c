package relay

import (
	"syscall"
	"time"
)

// sharpen has the thread wake up in time: by default the kernel may wait for 50 µs more.
func sharpen() {
	const setTimerSlack = 29 // PR_SET_TIMERSLACK
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0)
}

func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil) // a signal ends it early
}
