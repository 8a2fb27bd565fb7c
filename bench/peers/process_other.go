//go:build !linux

package peers

import "os/exec"

func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func lockThread() (release func()) { return func() {} }
