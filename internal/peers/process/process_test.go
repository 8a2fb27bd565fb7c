//go:build unix

package process

import (
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play starts a shell script.
func play(t *testing.T, script string) *Process {
	t.Helper()
	p := check.Have(Start(exec.CommandContext(t.Context(), "/bin/sh", "-c", script)))(t)
	t.Cleanup(p.End)
	return p
}

// rest returns the lines that the program prints from now on.
func rest(p *Process) (all []string) {
	for line := range p.Lines() {
		all = append(all, line)
	}
	return all
}

// TestConversation: a program exchanges lines, and ends with its standard input.
func TestConversation(t *testing.T) {
	p := play(t, `echo ready; while read line; do echo "said $line"; done; echo end`)
	check.True(t, p.Pid() > 0, "pid %d", p.Pid())
	check.Equal(t, <-p.Lines(), "ready", "the first line")
	check.Must(t, p.Say("a b"))
	check.Equal(t, <-p.Lines(), "said a b", "the answer")
	check.Must(t, p.Close())
	check.Equal(t, strings.Join(rest(p), "; "), "end", "the rest")
	check.Must(t, p.Wait())
	check.Must(t, p.Wait())
}

// TestEnds: after the end of a program, the reason and its complaints are there.
func TestEnds(t *testing.T) {
	for script, want := range map[string]string{
		"exit 3":                       "exit status 3",
		"echo no more >&2; exit 4":     "exit status 4",
		"kill -9 $$":                   "signal: killed",
		"yes x | tr -d '\\n'; exit 0":  "token too long", // a line without an end
		"echo one; exec 1>&-; exit 5 ": "exit status 5",
	} {
		p := play(t, script)
		rest(p)
		if err := p.Wait(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
		check.Equal(t, p.Complaints() != "", strings.Contains(script, ">&2"), script, p.Complaints())
		p.Kill() // it is gone: Kill must not kill another process
	}
	if _, err := Start(exec.CommandContext(t.Context(), "/no/such/program")); err == nil {
		t.Error("a program that is not there was started")
	}
}

// TestEnd: End kills a process with its children, whatever the process does, and may be called any
// number of times. A surviving child would keep the standard output open, for which End waits.
func TestEnd(t *testing.T) {
	for _, script := range []string{
		"cat; cat",
		"while true; do echo more; done",
		"exec 1>&-; cat",
		"sleep 1000 & wait",
	} {
		p := play(t, script)
		p.End()
		p.End()
		check.True(t, p.Say("more") != nil, "%s: it listens", script)
	}
}
