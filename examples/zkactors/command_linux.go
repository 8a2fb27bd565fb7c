package main

import "syscall"

// attributes has the command lead a session, and killed with zkactors.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
