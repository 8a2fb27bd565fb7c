// Package patience finds tests whose verdict depends on the speed of the machine. It runs the test
// binary of each package many times while it disturbs the machine or the process, and records every
// run. A record outlives the program: a later run goes on where an earlier one was stopped.
package patience

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A Phase is a disturbance, and how often the tests of a package run under it.
type Phase struct {
	Name       string
	Loops      bool // busy loops load the machine
	GOMAXPROCS int  // of the tests; that of the machine if it is 0
	Stops      bool // SIGSTOP at random moments
	Real       bool // only the tests with real servers, which must exist
	Raced      int  // runs with -race -short
	Plain      int  // runs without either
}

// Phases returns all phases, in their order. `one` and `eight` keep the loops: a process that the
// kernel interrupts anywhere meets more orders of events than one that runs alone.
func Phases() []Phase {
	return []Phase{
		{Name: "load", Loops: true, Raced: 30, Plain: 10},
		{Name: "one", Loops: true, GOMAXPROCS: 1, Raced: 6, Plain: 2},
		{Name: "eight", Loops: true, GOMAXPROCS: 8, Raced: 6, Plain: 2},
		{Name: "stops", Stops: true, Raced: 10, Plain: 4},
		{Name: "real/load", Real: true, Loops: true, Plain: 3},
		{Name: "real/one", Real: true, Loops: true, GOMAXPROCS: 1, Plain: 3},
		{Name: "real/eight", Real: true, Loops: true, GOMAXPROCS: 8, Plain: 3},
		{Name: "real/stops", Real: true, Stops: true, Plain: 3},
	}
}

// Choose returns the phases with these names; all without names. The name "real" stands for its
// four.
func Choose(names []string) ([]Phase, error) {
	if len(names) == 0 {
		return Phases(), nil
	}
	var chosen []Phase
	for _, name := range names {
		before := len(chosen)
		for _, p := range Phases() {
			if p.Name == name || strings.HasPrefix(p.Name, name+"/") {
				chosen = append(chosen, p)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("no phase %q: there are load, one, eight, stops, real", name)
		}
	}
	return chosen, nil
}

// A Rhythm says how a process is stopped: for how long, and after which times of running. The
// logarithms of these times are uniform, so that a package of milliseconds is hit. Each tenth stop
// they grow by as much again, so that a package of minutes comes to its end.
type Rhythm struct {
	Stop  time.Duration
	First time.Duration // the least time before the first stop
	Later time.Duration // the least time between two: without it they would be one long stop
	Most  time.Duration
}

// Usual has a stop in 4 s of running, at first.
func Usual() Rhythm {
	return Rhythm{Stop: 3 * time.Second, First: 5 * time.Millisecond, Later: time.Second, Most: 10 * time.Second}
}

// draw returns the time of running after so many stops.
func (r Rhythm) draw(dice *rand.Rand, stops int) time.Duration {
	least := r.First
	if stops > 0 {
		least = r.Later
	}
	random := float64(least) * math.Exp(dice.Float64()*math.Log(float64(r.Most)/float64(least)))
	return time.Duration(random * (1 + float64(stops)/10))
}

// Options say what to run.
type Options struct {
	Root      string   // of the module
	Commit    string   // for the record
	Packages  []string // patterns, from the root; all if there are none
	Phases    []Phase
	Times     float64 // how often, in terms of the phases' own numbers
	Tests     string  // a pattern of -test.run; all if it is empty
	Seed      uint64  // of the moments of the stops
	Processes int     // tests that run at a time
	Loops     int
	Loop      []string      // a command whose process calls [Loop]; see [LoopVariable]
	Limit     time.Duration // of a run
	Rhythm    Rhythm
	Record    string // a file
	Say       func(format string, args ...any)
}

// slack is what a process has, beyond the limit of its tests, for ending by itself.
const slack = time.Minute

// Play runs what the record lacks, and returns the report of all runs that were to be made. When
// the context ends, it stops: the report says what is missing.
func Play(ctx context.Context, o Options) (_ Report, err error) {
	record, err := openRecord(o.Record)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, record.close()) }()
	packages, err := list(ctx, o.Root, o.Packages)
	if err != nil {
		return Report{}, err
	}
	dir, err := os.MkdirTemp("", "zkactors-patience-")
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := player{Options: o, record: record, dir: dir}
	for ; len(packages) > 0 && ctx.Err() == nil; packages = packages[1:] {
		if err := p.try(ctx, packages[0]); ctx.Err() != nil && err != nil {
			break
		} else if err != nil {
			return p.report, err
		}
	}
	p.report.Unseen = packages.names()
	return p.report, nil
}

// A player runs the tests of packages.
type player struct {
	Options
	record *record
	dir    string // of test binaries
	report Report
}

// try runs all phases of a package.
func (p *player) try(ctx context.Context, pkg source) (err error) {
	binaries := map[bool]*binary{} // by whether they are raced
	defer func() {
		for _, b := range binaries {
			err = errors.Join(err, os.Remove(b.file))
		}
	}()
	for _, phase := range p.Phases {
		var jobs []job
		for _, raced := range []bool{true, false} {
			times := phase.Plain
			if raced {
				times = phase.Raced
			}
			if times == 0 {
				continue
			}
			b := binaries[raced]
			if b == nil {
				if b, err = compile(ctx, p.Root, p.dir, pkg, raced); err != nil {
					return err
				}
				binaries[raced] = b
			}
			if phase.Real {
				if has, err := b.has(ctx, realTests); err != nil {
					return err
				} else if !has {
					continue
				}
			}
			for number := range max(1, int(math.Ceil(float64(times)*p.Times))) {
				jobs = append(jobs, job{binary: b, phase: phase, number: number + 1})
			}
		}
		if err := p.runAll(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

// A job is one run of a test binary.
type job struct {
	*binary
	phase  Phase
	number int
}

// runAll runs those jobs of a phase that are not recorded, and reports all.
func (p *player) runAll(ctx context.Context, jobs []job) error {
	var missing []job
	for _, j := range jobs {
		if _, is := p.record.find(p.key(j)); !is {
			missing = append(missing, j)
		}
	}
	err := p.runMissing(ctx, missing)
	for _, j := range jobs {
		e, is := p.record.find(p.key(j))
		p.report.add(p.key(j), e, is)
	}
	return err
}

func (p *player) runMissing(ctx context.Context, jobs []job) (err error) {
	if len(jobs) == 0 {
		return nil
	}
	begin := time.Now()
	if jobs[0].phase.Loops {
		loops, err := startLoops(p.Loop, p.Loops)
		defer loops.end()
		if err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	failed := 0
	turns := make(chan job, len(jobs))
	for _, j := range jobs {
		turns <- j
	}
	close(turns)
	var workers sync.WaitGroup
	for range min(p.Processes, len(jobs)) {
		workers.Go(func() {
			for j := range turns {
				e, err := p.run(ctx, j)
				if ctx.Err() != nil {
					return // the run was ended by the context
				}
				if err == nil {
					err = p.record.add(e)
				}
				if err != nil {
					cancel(err)
					return
				}
				if e.Outcome != passed {
					mu.Lock()
					failed++
					mu.Unlock()
					p.Say("  %s %s run %d: %s: %s\n", e.Package, e.mode(), e.Number, e.Outcome, strings.Join(e.Failed, " "))
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.Say("%-40s %-10s %3d runs in %.0f s, %d failed\n", jobs[0].pkg.name, jobs[0].phase.Name, len(jobs), time.Since(begin).Seconds(), failed)
	return nil
}

func (p *player) key(j job) key {
	return key{Package: j.pkg.name, Hash: j.hash, Phase: j.phase.Name, Race: j.raced, Tests: p.Tests, Number: j.number}
}

// dice returns the dice of a run.
func (p *player) dice(k key) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, k.Package, k.Phase, k.Race, k.Number) // a hash has no errors
	return rand.New(rand.NewPCG(p.Seed, h.Sum64()))
}

// output returns the file for the output of a run.
func (p *player) output(k key) string {
	mode := "plain"
	if k.Race {
		mode = "race"
	}
	name := fmt.Sprintf("%s-%s-%d-%.8s.txt", strings.ReplaceAll(k.Phase, "/", "-"), mode, k.Number, k.Hash)
	return filepath.Join(Outputs(p.Record), strings.ReplaceAll(k.Package, "/", "+"), name)
}

// Outputs returns the folder for the output of failed runs.
func Outputs(record string) string { return record + ".outputs" }
