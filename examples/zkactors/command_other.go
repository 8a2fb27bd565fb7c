//go:build unix && !linux

package main

import "syscall"

// attributes makes the command the leader of a session.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
