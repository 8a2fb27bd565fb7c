//go:build !unix

package process

import "os/exec"

// ownGroup does nothing: on this system a process is killed without its children.
func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func lockThread() (release func()) { return func() {} }
