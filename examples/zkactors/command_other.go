//go:build unix && !linux

package main

import "syscall"

// attributes has the command lead a session.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
