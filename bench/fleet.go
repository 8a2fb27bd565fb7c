package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkactors/zkactors/bench/crew"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// fleetOptions are the values of the flags of the command fleet.
type fleetOptions struct {
	sessions int
	process  int // sessions in one process
	lines    int
	runs     int
	clients  []string
	steady   []steadyState
	storms   []storm
	timeout  time.Duration
	tick     time.Duration
	settle   time.Duration
	window   time.Duration
	watch    time.Duration
	outage   time.Duration
	away     time.Duration
	settings map[string]string
	heap     string
	warm     time.Duration

	syncLimit int
	json      string
	markdown  string
}

func parseFleet(args []string, log io.Writer) (o fleetOptions, err error) {
	flags := flag.NewFlagSet("bench fleet", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.IntVar(&o.sessions, "sessions", 60, "the sessions of the fleet; in the storms frozen-*, down and one-way-*, of each role")
	flags.IntVar(&o.process, "process", 500, "sessions in one process")
	flags.IntVar(&o.lines, "lines", 100, "the locks that the waiting sessions share")
	flags.IntVar(&o.runs, "runs", 1, "how often each state and storm is measured with each client, in turns")
	clients := flags.String("clients", "ours,plain", "ours and plain (go-zookeeper's own), with commas between; ours+tick knows the servers' tick, ours+answered has LeaseAnswered, ours+committed has LeaseCommitted")
	filter := flags.String("filter", "", "these states and storms only: names or patterns, with commas between: "+strings.Join(fleetNames(), ", "))
	flags.DurationVar(&o.timeout, "timeout", 10*time.Second, "the session timeout")
	flags.DurationVar(&o.tick, "tick", 2*time.Second, "the servers' tickTime")
	flags.IntVar(&o.syncLimit, "sync-limit", 5, "the servers' syncLimit, in ticks")
	flags.DurationVar(&o.settle, "settle", 6*time.Second, "pause before a measurement")
	flags.DurationVar(&o.window, "window", 30*time.Second, "how long a steady state is measured")
	flags.DurationVar(&o.watch, "watch", 30*time.Second, "how long a fleet is watched after a storm")
	flags.DurationVar(&o.outage, "outage", 3*time.Second, "how long servers refuse in the storm outage")
	flags.DurationVar(&o.away, "away", 10*time.Second, "how long a server is away in the storms return and rolling")
	flags.DurationVar(&o.warm, "warm", 10*time.Second, "how long the servers are warmed up")
	flags.StringVar(&o.heap, "heap", "1g", "the memory of each server")
	o.settings = make(map[string]string)
	flags.Func("setting", "a line key=value of the servers' configuration, such as snapCount=10000; may be repeated", func(s string) error {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			return fmt.Errorf("%q is not key=value", s)
		}
		o.settings[key] = value
		return nil
	})
	flags.StringVar(&o.json, "json", "", "write every run to this file, as JSON")
	flags.StringVar(&o.markdown, "markdown", "", "write the tables to this file, between its marks if it has them, as docs/scale.md does")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("there is no argument %q: see -help", flags.Arg(0))
	}
	if o.sessions <= 0 || o.process <= 0 || o.lines <= 0 || o.runs <= 0 || o.syncLimit <= 0 {
		return o, fmt.Errorf("-sessions %d, -process %d, -lines %d, -runs %d, -sync-limit %d: must be positive", o.sessions, o.process, o.lines, o.runs, o.syncLimit)
	}
	o.clients = strings.Split(*clients, ",")
	for _, client := range o.clients {
		if _, _, err := library(client); err != nil {
			return o, err
		}
	}
	names := make(map[string]string)
	for _, name := range fleetNames() {
		names[name] = ""
	}
	chosen, err := matching("-filter", "state or storm", strings.Split(*filter, ","), names, log)
	if err != nil {
		return o, err
	}
	for _, s := range steadyStates() {
		if chosen[s.name] {
			o.steady = append(o.steady, s)
		}
	}
	for _, s := range storms() {
		if chosen[s.name] {
			o.storms = append(o.storms, s)
		}
	}
	return o, nil
}

func fleetNames() (names []string) {
	for _, s := range steadyStates() {
		names = append(names, s.name)
	}
	for _, s := range storms() {
		names = append(names, s.name)
	}
	return names
}

// fleetBench measures many sessions on three real servers.
type fleetBench struct {
	opts    fleetOptions
	log     io.Writer
	self    string // the program's own file
	dir     string // of the servers' data, and of the sockets
	ens     *zktest.Ensemble
	sockets int // the number of sockets so far, which names the next one
	roots   int // the number of measurements so far, which names the next one's node

	steady []steadyResult
	storms []stormResult
}

// runFleet is the command fleet.
func runFleet(ctx context.Context, args []string, out, log io.Writer) (err error) {
	o, err := parseFleet(args, log)
	if errors.Is(err, flag.ErrHelp) { // the flags were printed
		return nil
	} else if err != nil {
		return err
	}
	f := &fleetBench{opts: o, log: log}
	if f.self, err = os.Executable(); err != nil {
		return err
	}
	if f.dir, err = os.MkdirTemp(dataDir(false), "zkactors-fleet-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(f.dir)) }()
	linked := slices.ContainsFunc(o.storms, func(s storm) bool { return s.linked })
	f.ens, err = zktest.NewEnsemble(zktest.EnsembleConfig{ //nolint:contextcheck // the servers have an end of their own
		Servers: 3, Dir: filepath.Join(f.dir, "servers"), DirectLinks: !linked, TickTime: o.tick, SyncLimit: o.syncLimit, InitLimit: 10, Settings: o.settings,
		JVMFlags: []string{
			"-Xmx" + o.heap, "-XX:TieredStopAtLevel=4", "-Dznode.container.checkIntervalMs=3600000",
			"-Dzookeeper.preAllocSize=64", // KiB; small, so that the log's length shows how much was written
			"-Dorg.slf4j.simpleLogger.dateTimeFormat=" + logTime,
		},
	})
	if err != nil {
		return errors.New(inOneLine(err))
	}
	defer f.ens.Close()
	err = f.all(ctx)
	r := fleetReport{when: time.Now(), machine: machine(), opts: o, steady: f.steady, storms: f.storms}
	return errors.Join(err, r.print(out), r.write())
}

func (f *fleetBench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(f.log, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// all runs every measurement, with the clients in turns.
func (f *fleetBench) all(ctx context.Context) error {
	if f.opts.warm > 0 {
		if err := f.warmUp(ctx); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	for _, s := range f.opts.steady {
		if err := f.turns(ctx, s.name, func(client string, run int) error {
			r, err := f.measure(ctx, s, client, run)
			if err == nil {
				f.steady = append(f.steady, r)
			}
			return err
		}); err != nil {
			return err
		}
	}
	for _, s := range f.opts.storms {
		if err := f.turns(ctx, s.name, func(client string, run int) error {
			r, err := f.weather(ctx, s, client, run)
			if err == nil {
				f.storms = append(f.storms, r)
				f.say("%v", &r)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleetBench) turns(ctx context.Context, name string, one func(client string, run int) error) error {
	for run := range f.opts.runs {
		for _, client := range f.opts.clients {
			f.say("%s, %s, run %d of %d, %d sessions", name, client, run+1, f.opts.runs, f.opts.sessions)
			if err := one(client, run); err != nil {
				return fmt.Errorf("%s, %s: %w", name, client, cmp.Or(context.Cause(ctx), err))
			}
		}
	}
	return nil
}

// with opens the sessions of each squad, gives each its part, and calls do. All nodes of the
// sessions are below one node, which it deletes at the end.
func (f *fleetBench) with(ctx context.Context, squads []squad, sessions int, do func(all []*company, root string) error) (err error) {
	f.roots++
	at := root + "/fleet-" + strconv.Itoa(f.roots)
	if err := f.prepare(ctx, at); err != nil {
		return err
	}
	began := time.Now()
	var all []*company
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.close())
		}
		if swept := sweep(ctx, f.ens.Addrs(), at); swept != nil && ctx.Err() == nil {
			f.say("%s: %v", at, swept)
		}
	}()
	for _, s := range squads {
		c, err := f.open(ctx, s.client, sessions)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	opened := time.Since(began)
	want := 0 // ephemeral nodes
	for k, s := range squads {
		for i := range sessions {
			if role, _ := s.part(at, i); slices.Contains([]string{crew.Own, crew.Line, crew.Lead, crew.Enroll}, role) {
				want++
			}
		}
		if err := all[k].play(func(i int) (string, string) { return s.part(at, i) }); err != nil {
			return err
		}
	}
	if err := f.awaitNodes(ctx, want); err != nil {
		return err
	}
	f.say("%d sessions opened in %.1f s, ready after %.1f s", len(squads)*sessions, opened.Seconds(), time.Since(began).Seconds())
	return do(all, at)
}

// prepare creates the nodes that sessions share.
func (f *fleetBench) prepare(ctx context.Context, at string) error {
	s, err := session.Open(ctx, f.ens.Addrs(), nil)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, name := range []string{"own", "line", "lead", "queue", "config", "group", "plain"} {
		if err := s.EnsurePath(ctx, at+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// awaitNodes waits until the servers have want ephemeral nodes.
func (f *fleetBench) awaitNodes(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		have := 0.0
		for i := range f.ens.Size() {
			m, err := f.counters(i)
			if err != nil {
				return err
			}
			have = max(have, m["zk_ephemerals_count"])
		}
		if int(have) >= want {
			return nil
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%.0f of %d ephemeral nodes: %w", have, want, err)
		}
	}
}

// warmUp has the servers do the work of the measurements for a while, so that their just-in-time
// compilers have done most of their work.
func (f *fleetBench) warmUp(ctx context.Context) error {
	f.say("warm-up")
	crowd := []squad{{client: "ours", part: inOwn}}
	return f.with(ctx, crowd, min(300, f.opts.sessions), func([]*company, string) error { return wait(ctx, f.opts.warm) })
}

// wait waits for a duration, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// own returns the processes of this measurement.
func (f *fleetBench) own(c *company) []int {
	own := []int{os.Getpid()}
	for i := range f.ens.Size() {
		own = append(own, f.ens.Pid(i))
	}
	for _, p := range c.processes {
		own = append(own, p.Pid())
	}
	return own
}
