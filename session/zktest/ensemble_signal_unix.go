//go:build unix

package zktest

import (
	"errors"
	"os"
	"syscall"
)

func pauseProcess(p *os.Process) error  { return p.Signal(syscall.SIGSTOP) }
func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// endProcess asks the process to end, also if it is paused.
func endProcess(p *os.Process) error { return errors.Join(p.Signal(syscall.SIGTERM), resumeProcess(p)) }
