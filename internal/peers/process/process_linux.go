package process

import (
	"os/exec"
	"runtime"
	"syscall"
)

// ownGroup gives the process a group of its own, and has the kernel kill it when the thread that
// started it ends.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func lockThread() (release func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
