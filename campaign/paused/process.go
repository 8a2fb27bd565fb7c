package paused

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/zkactors/zkactors/internal/peers/process"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// HolderVariable is an environment variable. A program that finds it calls [Work].
const HolderVariable = "ZKACTORS_CAMPAIGN_HOLDER"

// Options say how the test is played on real servers.
type Options struct {
	Version  string // of the servers; "" is Debian's
	Servers  int
	Holders  int           // processes
	Adds     int           // numbers of each holder
	Timeout  time.Duration // of sessions
	Pause    time.Duration // by SIGSTOP, each fourth time that a process holds
	Holder   []string      // the command of a holder
	Progress func(done, all int)
}

// An assignment is the first line that a holder reads.
type assignment struct {
	Servers     []string
	Timeout     time.Duration
	First, Adds int // its numbers
}

// pausing is what a holder says between its read and its write. It goes on when it receives a line.
const pausing = "pausing"

// Work is the main function of a holder.
func Work(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	var a assignment
	if !lines.Scan() {
		return errors.New("a holder is started by campaign paused")
	}
	if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := session.Open(ctx, a.Servers, &session.Options{Timeout: a.Timeout})
	if err != nil {
		return err
	}
	defer s.Close()
	for i := range a.Adds {
		added, err := Add(ctx, s, a.First+i, func() {
			_, _ = fmt.Fprintln(out, pausing) // without a campaign the input ends, too
			lines.Scan()
		})
		if err != nil {
			continue // it was not granted
		}
		text, err := json.Marshal(added)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(out, string(text)) // see above
	}
	return nil
}

// Play plays the test on real servers, with processes that are stopped.
func Play(ctx context.Context, o Options) (r Result, err error) {
	config := zktest.EnsembleConfig{Servers: o.Servers, Version: o.Version, NoSync: true}
	ensemble, err := zktest.NewEnsemble(config) //nolint:contextcheck // it lives longer
	if err != nil {
		return r, err
	}
	defer ensemble.Close()
	s, err := session.Open(ctx, ensemble.Addrs(), nil)
	if err != nil {
		return r, err
	}
	defer s.Close()
	if err := Prepare(ctx, s); err != nil {
		return r, err
	}
	g := &game{Options: o, added: make(chan struct{})}
	var holders sync.WaitGroup
	for i := range o.Holders {
		holders.Go(func() { g.hold(ctx, assignment{ensemble.Addrs(), o.Timeout, i * o.Adds, o.Adds}) })
	}
	holders.Wait()
	if err := errors.Join(g.err, ctx.Err()); err != nil {
		return r, err
	}
	return Judge(ctx, s, g.all)
}

// A game is what is known of all holders so far.
type game struct {
	Options

	mu    sync.Mutex
	all   []Addition
	held  int           // how often a process has held
	added chan struct{} // closed with the next addition, and made anew
	err   error
}

// hold runs one holder to its end.
func (g *game) hold(ctx context.Context, a assignment) {
	if err := g.follow(ctx, a); err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.err = errors.Join(g.err, err)
	}
}

func (g *game) follow(ctx context.Context, a assignment) error {
	cmd := exec.CommandContext(ctx, g.Holder[0], g.Holder[1:]...)
	cmd.Env = append(os.Environ(), HolderVariable+"=1")
	p, err := process.Start(cmd)
	if err != nil {
		return err
	}
	defer p.End()
	first, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := p.Say(string(first)); err != nil {
		return err
	}
	for line := range p.Lines() {
		if line != pausing {
			if err := g.note(line); err != nil {
				return err
			}
			continue
		}
		g.stop(ctx, p)
		if err := p.Say("go on"); err != nil {
			return err
		}
	}
	if err := p.Wait(); err != nil {
		return fmt.Errorf("a holder: %w: %s", err, p.Complaints())
	}
	return nil
}

// stop stops a process that holds, each fourth time. It goes on after the pause, and after another
// has added a number, if any still does.
func (g *game) stop(ctx context.Context, p *process.Process) {
	g.mu.Lock()
	g.held++
	stops, added := g.held%4 == 1, g.added
	g.mu.Unlock()
	if !stops {
		return
	}
	_ = syscall.Kill(p.Pid(), syscall.SIGSTOP) // it waits for a line, and does not end meanwhile
	wait(ctx, g.Pause, nil)
	wait(ctx, 3*g.Pause, added)
	_ = syscall.Kill(p.Pid(), syscall.SIGCONT) // see above
}

func wait(ctx context.Context, d time.Duration, early <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-early:
	case <-ctx.Done():
	}
}

// note keeps what a holder has added.
func (g *game) note(line string) error {
	var a Addition
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		return fmt.Errorf("a holder says %q: %w", line, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, a)
	close(g.added)
	g.added = make(chan struct{})
	if g.Progress != nil {
		g.Progress(len(g.all), g.Holders*g.Adds)
	}
	return nil
}
