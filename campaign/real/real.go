// Package real plays scenarios on ensembles of real servers. The processes are processes of the
// system, which are killed by kill -9 and stopped by SIGSTOP; each reaches the servers through a
// proxy of its own. All moments are of the machine's monotonic clock, so those of all processes can
// be compared. A process writes its journal as it goes; the histories are joined from the journals.
//
// What the servers' trees had is in their transaction logs: see package txnlog. They say when a
// change was proposed, and not when it was committed, so the checker Resumable has not enough.
package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/life"
	"github.com/zkactors/zkactors/campaign/scenario"
	"github.com/zkactors/zkactors/campaign/workload"
	"github.com/zkactors/zkactors/session/zktest"
)

// WorkerVariable is an environment variable. A program that finds it calls [Work].
const WorkerVariable = "ZKACTORS_CAMPAIGN_WORKER"

// Options say what is to be played.
type Options struct {
	Scenario  Scenario
	Seed      uint64
	System    workload.System
	Version   string        // of the servers; "" is Debian's
	Lasts     time.Duration // how long faults strike
	Processes int
	Worker    []string // the command of a worker

	Calm  time.Duration // before the first fault; 5 s without
	After time.Duration // of work without faults; 5 s without
	Still time.Duration // without work, until all is known; 8 s without, which is longer than sessions live
}

func (o *Options) defaults() {
	o.Calm, o.After, o.Still = cmp.Or(o.Calm, 5*time.Second), cmp.Or(o.After, 5*time.Second), cmp.Or(o.Still, 8*time.Second)
}

// A play is one history while it is made.
type play struct {
	Options

	dir      string
	ensemble *zktest.Ensemble
	journals []string
}

// Play plays a scenario, and returns its history.
func Play(ctx context.Context, options Options) (h *history.History, err error) {
	options.defaults()
	p := &play{Options: options}
	if p.dir, err = os.MkdirTemp("", "campaign-real-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.dir)) }()
	config := zktest.EnsembleConfig{
		Servers: servers, Version: options.Version, NoSync: true, Dir: filepath.Join(p.dir, "ensemble"),
		// All that servers miss comes from a log, so that each log has all.
		Settings: map[string]string{"snapshotSizeFactor": "1000000", "preAllocSize": "1024"},
	}
	if options.Scenario.Prepare != nil {
		options.Scenario.Prepare(&config)
	}
	if p.ensemble, err = zktest.NewEnsemble(config); err != nil { //nolint:contextcheck // it lives longer
		return nil, err
	}
	defer p.ensemble.Close()
	return p.history(ctx)
}

// servers is how many servers an ensemble has.
const servers = 3

// history plays on the ensemble.
func (p *play) history(ctx context.Context) (*history.History, error) {
	wall, start := time.Now().Round(0), now()
	clock := since(start)
	record := history.NewRecorder(history.Head{
		Scenario: p.Scenario.Name, Seed: p.Seed, System: string(p.System), Servers: p.versions(),
		Unjudged: map[string]string{"Resumable": "logs say when a change was proposed, and not when it was committed"},
	}, clock)
	operator, err := operate(ctx, p.ensemble.Addrs())
	if err != nil {
		return nil, err
	}
	defer operator.Close()
	paths, err := life.Prepare(ctx, operator, p.System, record.Client("setup"))
	if err != nil {
		return nil, err
	}
	c := &crew{play: p, record: record, start: start}
	defer c.close()
	if err := c.open(p.ensemble.Addrs()); err != nil {
		return nil, err
	}
	for i := range p.Processes {
		c.Start(i)
	}
	if err := c.each("ready", func(w *worker) <-chan struct{} { return w.ready }); err != nil {
		return nil, err
	}
	end := make(chan struct{})
	w := &World{
		Crew: c, Course: scenario.NewCourse(scenario.Dices(p.Scenario.Name, p.Seed)(), end), Ensemble: p.ensemble, Record: record,
		Operator: operator, Paths: paths, Version: p.Version, members: c.all,
		chronicle: &chronicle{dir: filepath.Join(p.dir, "ensemble"), servers: servers, start: wall}, dir: p.dir,
	}
	if err := wait(ctx, p.Calm); err != nil {
		return nil, err
	}
	var faults sync.WaitGroup
	faults.Go(func() { p.Scenario.Play(w) })
	err = wait(ctx, p.Lasts)
	close(end)
	faults.Wait()
	if err = errors.Join(err, w.err, ctx.Err()); err != nil {
		return nil, err
	}
	if err := w.heal(ctx); err != nil {
		return nil, err
	}
	if err := c.finish(ctx); err != nil {
		return nil, err
	}
	// All that the servers will ever commit has been written: there is a leader, and no work.
	h := record.History()
	h.Head.Diverged = c.diverged
	if off := (time.Since(wall) - clock()).Abs(); off > tolerance {
		for _, checker := range []string{"ToldBeforeNextGrant", "NotBeforeDue"} {
			h.Head.Unjudged[checker] = fmt.Sprintf("the clock on the wall was set by %v", off)
		}
	}
	return h, p.join(h, w.chronicle)
}

// tolerance is by how much the clock on the wall may differ from the monotonic clock at the end.
const tolerance = 5 * time.Millisecond

// join adds what the processes and the servers have written.
func (p *play) join(h *history.History, c *chronicle) error {
	for _, name := range p.journals {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // the process was killed when it began
		}
		if err != nil {
			return err
		}
		err = h.Join(f)
		_ = f.Close() // it was only read
		if err != nil {
			return err
		}
	}
	if err := c.read(); err != nil {
		return err
	}
	h.Commits = c.commits
	h.Sort()
	return nil
}

// finish has the processes end their work.
func (c *crew) finish(ctx context.Context) error {
	if err := wait(ctx, c.play.After); err != nil {
		return err
	}
	if err := c.say(stop, worked, func(w *worker) <-chan struct{} { return w.worked }); err != nil {
		return err
	}
	if err := wait(ctx, c.play.Still); err != nil {
		return err
	}
	now := make(chan struct{})
	close(now)
	if err := c.say(quiet, "there", func(*worker) <-chan struct{} { return now }); err != nil {
		return err
	}
	if err := wait(ctx, time.Second); err != nil {
		return err
	}
	// The ephemeral nodes are still there.
	var err error
	if c.diverged, err = divergence(ctx, c.play.ensemble.Addrs()); err != nil {
		return err
	}
	return c.say(over, ended, func(w *worker) <-chan struct{} { return w.ended })
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// versions names the versions of the servers, for people.
func (p *play) versions() string {
	first := name(p.ensemble.Version(0))
	for i := range servers {
		if v := name(p.ensemble.Version(i)); v != first {
			return first + " and " + v
		}
	}
	return first
}

func name(version string) string {
	if version == "" {
		return "Debian's"
	}
	return version
}
