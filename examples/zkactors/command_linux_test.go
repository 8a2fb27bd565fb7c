package main

import (
	"syscall"
	"testing"

	"github.com/zkactors/zkactors/session/zktest"
)

// TestKilled: if zkactors is killed, its command ends. The next holder waits for the session to
// expire.
func TestKilled(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	p := startScript(t, srv, "echo ready; exec cat")
	p.signal(syscall.SIGKILL)
	p.rest() // returns when they have ended
	if err := p.cmd.Wait(); p.cmd.ProcessState.ExitCode() != -1 {
		t.Error(err)
	}
	if c := line(t, open(t, srv), 1)[0]; !c.Holding {
		t.Errorf("%+v", c)
	}
}
