package main

import "syscall"

// attributes makes the command the leader of a session, and has the kernel kill it when zkactors
// ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
