//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// A command is the leader of a process group of its own.
type command struct {
	cmd    exec.Cmd
	exited chan struct{} // closed when it has ended, whatever it has left behind
}

// find returns the command, if there is one.
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

// missing reports whether the error says that there is no such command.
func missing(err error) bool {
	return errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)
}

// start starts it. The error says why it cannot be executed.
func (c *command) start(env ...string) error {
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.SysProcAttr = attributes()
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait() // see status
	}()
	return nil
}

// signal sends a signal to the group. There may be no process left to get it.
func (c *command) signal(sig syscall.Signal) { _ = syscall.Kill(-c.cmd.Process.Pid, sig) }

// status returns what a shell would call the command's exit status.
func (c *command) status() int {
	if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return exitSignal + int(ws.Signal())
	}
	return c.cmd.ProcessState.ExitCode()
}
