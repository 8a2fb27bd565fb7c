package patience

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zkactors/zkactors/session/zktest"
)

// run runs a test binary once.
func (p *player) run(ctx context.Context, j job) (_ entry, err error) {
	k := p.key(j)
	e := entry{key: k, Commit: p.Commit, Begin: time.Now(), Seed: p.Seed, Output: p.output(k)}
	if err := os.MkdirAll(filepath.Dir(e.Output), 0o755); err != nil {
		return e, err
	}
	out, err := os.Create(e.Output)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	cmd := p.command(j)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that what it leaves behind ends
	if err := cmd.Start(); err != nil {
		return e, err
	}
	running, end := context.WithCancel(ctx)
	moments := make(chan []float64, 1)
	go func() { moments <- p.disturb(running, cmd.Process, j.phase.Stops, p.dice(k)) }()
	// Goroutines are printed by the tests themselves at the limit, and else by SIGQUIT.
	quit := time.AfterFunc(p.Limit+slack, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	kill := time.AfterFunc(p.Limit+2*slack, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	e.Seconds = time.Since(e.Begin).Seconds()
	overdue := !quit.Stop()
	kill.Stop()
	end()
	e.Stops = <-moments
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // an error means that it has left nothing
	if ctx.Err() != nil {
		return e, os.Remove(e.Output)
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return e, err
	}
	if err == nil {
		e.Outcome, e.Output = passed, ""
		return e, os.Remove(p.output(k))
	}
	text, err := os.ReadFile(e.Output)
	if err != nil {
		return e, err
	}
	o := parse(string(text))
	e.Outcome, e.Failed = failed, o.failed
	if o.hung || overdue {
		e.Outcome = hung
	}
	head := fmt.Sprintf("# cd %s && %s: %v\n# stopped after so many seconds: %.3f\n", j.pkg.name, strings.Join(cmd.Args[1:], " "), cmd.ProcessState, e.Stops)
	return e, os.WriteFile(e.Output, []byte(head+o.text), 0o644)
}

// command returns the command of a run, as "go test" has it.
func (p *player) command(j job) *exec.Cmd {
	args := []string{"-test.v=test2json", "-test.paniconexit0", "-test.timeout=" + p.Limit.String()}
	if j.raced {
		args = append(args, "-test.short")
	}
	tests := p.Tests
	if j.phase.Real && tests == "" {
		tests = realTests
	}
	if tests != "" {
		args = append(args, "-test.run="+tests)
	}
	cmd := exec.Command(j.file, args...)
	cmd.Dir = j.pkg.dir
	for _, v := range cmd.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != "GOMAXPROCS" && !strings.HasPrefix(name, "ZKACTORS_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	if j.phase.GOMAXPROCS > 0 {
		cmd.Env = append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(j.phase.GOMAXPROCS))
	}
	if j.phase.Real {
		cmd.Env = append(cmd.Env, zktest.RequireVariable+"=1")
	}
	return cmd
}

// disturb stops the process at random moments, if it is to be stopped, until the context or the
// process ends. It stops only that process: the servers that it has started go on. If the context
// ends, so does the process.
func (p *player) disturb(ctx context.Context, process *os.Process, stops bool, dice *rand.Rand) (moments []float64) {
	begin := time.Now()
	for stops && pause(ctx, p.Rhythm.draw(dice, len(moments))) && process.Signal(syscall.SIGSTOP) == nil {
		moments = append(moments, time.Since(begin).Seconds())
		pause(ctx, p.Rhythm.Stop)
		_ = process.Signal(syscall.SIGCONT) // an error means that it has ended
	}
	<-ctx.Done()
	_ = process.Kill() // the same
	return moments
}

// pause waits, and reports whether the context goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
