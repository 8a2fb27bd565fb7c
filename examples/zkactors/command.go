//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// A command is a program that zkactors runs, as the leader of a process group of its own.
type command struct {
	cmd    exec.Cmd
	exited chan struct{} // closed when the command has ended; its children may still run
}

// find finds the command's program.
func find(args []string) (*command, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, err
	}
	return &command{
		cmd:    exec.Cmd{Path: path, Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr},
		exited: make(chan struct{}),
	}, nil
}

// missing reports whether an error of find means that the program does not exist.
func missing(err error) bool {
	return errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)
}

// start starts the command, with additional variables of the environment. An error means that the
// program cannot be executed.
func (c *command) start(env ...string) error {
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.SysProcAttr = attributes()
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait() // status reports how it ended
	}()
	return nil
}

// signal sends a signal to the process group, if it still has a process.
func (c *command) signal(sig syscall.Signal) { _ = syscall.Kill(-c.cmd.Process.Pid, sig) }

// status returns the exit status in the notation of shells.
func (c *command) status() int {
	if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return exitSignal + int(ws.Signal())
	}
	return c.cmd.ProcessState.ExitCode()
}
