// Bench runs this library beside its peers, on the same servers, in turns within one run:
//
//	go run ./bench                             # from the root of the repository: everything, on one server
//	go run ./bench -servers 1,3 -json all.json # on one, and then on three
//	go run ./bench -filter lock,barrier-10 -duration 3s
//	go run ./bench fleet -sessions 3000        # thousands of sessions, in steady states and in storms
//	go run ./bench guard                       # this commit beside the last one whose figures were accepted
//
// Each system runs in a process of its own, which reports its CPU time. If a peer is not installed,
// the bench reports that in one line, and runs the rest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/zkactors/zkactors/bench/crew"
	"github.com/zkactors/zkactors/bench/driver"
	"github.com/zkactors/zkactors/bench/ours"
	"github.com/zkactors/zkactors/bench/peers"
	"github.com/zkactors/zkactors/bench/peers/gozk"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == peers.DriverArgument {
		if err := drive(peers.Library(os.Args[2]), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	start, args := run, os.Args[1:]
	if len(args) > 0 {
		switch args[0] {
		case "fleet":
			start, args = runFleet, args[1:]
		case "guard":
			start, args = runGuard, args[1:]
		}
	}
	if err := start(ctx, args, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// drive runs this program as the driver of a library.
func drive(l peers.Library, in io.Reader, out io.Writer) error {
	switch l {
	case peers.ZKActors:
		return driver.Serve(in, out, withCrew(ours.Programs(), crew.Ours))
	case peers.GoZookeeper:
		return driver.Serve(in, out, withCrew(gozk.Programs(), crew.Plain))
	case peers.Curator, peers.Kazoo, peers.Accepted:
	}
	return fmt.Errorf("%s has a driver of its own", l)
}

// withCrew adds the program that runs the sessions of a fleet.
func withCrew(programs map[string]driver.Program, open func(crew.Options) crew.Opener) map[string]driver.Program {
	programs["crew"] = crew.Program(open)
	return programs
}

// options are the values of the flags.
type options struct {
	offers    []offer
	rtts      []time.Duration
	onDisk    bool
	workloads []workload // with the chosen systems
	duration  time.Duration
	turns     int
	json      string
	markdown  string
	plots     string
	profiles  string
	install   bool
	list      bool
}

// parse parses the flags. It reports unknown workloads to log, and leaves them out.
func parse(args []string, log io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(log)
	servers := flags.String("servers", "1", "start so many servers: 1 or 3, or 1,3 for one run on each; or use the servers at host:port,...")
	rtts := flags.String("rtt", "0", "how long a round trip takes between a client and a server, and between servers: 0, 1ms, or 0,0.3ms,1ms,5ms for a run of each and a table by distance")
	flags.BoolVar(&o.onDisk, "fsync", false, "have the servers started keep their data on disk, not on tmpfs")
	filter := flags.String("filter", "", "run these workloads only: names or patterns, with commas between")
	systems := flags.String("systems", "", "run these systems only: names or patterns, with commas between, and no spaces after the commas")
	limits := flags.Bool("limits", false, "also send the bare requests that each operation cannot do without: the systems whose names begin with raw requests")
	flags.DurationVar(&o.duration, "duration", time.Second, "measure each workload with each system for so long, in each turn")
	flags.IntVar(&o.turns, "turns", 3, "how many turns there are; the median counts")
	flags.StringVar(&o.json, "json", "", "write the results to this file, as JSON")
	flags.StringVar(&o.markdown, "markdown", "", "write the results to this file as tables, between its marks if it has them, as bench/README.md does")
	flags.StringVar(&o.plots, "plots", "", "write pictures to this directory, as SVG")
	flags.StringVar(&o.profiles, "cpuprofile", "", "write CPU profiles of the Go clients to this directory, which costs them a little")
	flags.BoolVar(&o.install, "install-peers", false, "install Debian's packages of ZooKeeper and the peers first")
	flags.BoolVar(&o.list, "list", false, "print the names of the workloads and of the systems, and end")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("there is no argument %q: see -help", flags.Arg(0))
	}
	if o.duration <= 0 || o.turns <= 0 {
		return o, fmt.Errorf("-duration %v, -turns %d: must be positive", o.duration, o.turns)
	}
	if o.offers, err = parseServers(*servers); err != nil {
		return o, err
	}
	if o.rtts, err = parseRoundTrips(*rtts, o.offers); err != nil {
		return o, err
	}
	o.workloads, err = choose(workloads(), *filter, *systems, *limits, log)
	return o, err
}

// choose returns the workloads that match filter, with their systems that match systems. If systems
// is empty, all match, but bare requests only if limits is set. It reports patterns without a match
// to log.
func choose(all []workload, filter, systems string, limits bool, log io.Writer) ([]workload, error) {
	names, known := make(map[string]string), make(map[string]string) // with families
	for _, w := range all {
		names[w.name] = w.family
		for _, s := range w.systems {
			known[s.name] = ""
		}
	}
	workloads, err := matching("-filter", "workload", strings.Split(filter, ","), names, log)
	if err != nil {
		return nil, err
	}
	// A comma that separates patterns has no space after it; in a system's name it has one.
	patterns := strings.Split(strings.ReplaceAll(systems, ", ", "\n"), ",")
	for i := range patterns {
		patterns[i] = strings.ReplaceAll(patterns[i], "\n", ", ")
	}
	chosen, err := matching("-systems", "system", patterns, known, log)
	if err != nil {
		return nil, err
	}
	var left []workload
	for _, w := range all {
		w.systems = slices.DeleteFunc(slices.Clone(w.systems), func(s system) bool {
			return !chosen[s.name] || s.limit && !limits && systems == ""
		})
		if workloads[w.name] && len(w.systems) > 0 {
			left = append(left, w)
		}
	}
	if len(left) == 0 {
		return nil, fmt.Errorf("-systems %s: none of them has the workloads of -filter %s", systems, filter)
	}
	return left, nil
}

// matching returns the names for which the name, or the name of its family, matches one of the
// patterns. The empty pattern, if it is the only one, matches all names.
func matching(flag, kind string, patterns []string, names map[string]string, log io.Writer) (map[string]bool, error) {
	all := strings.Join(patterns, ",")
	chosen := make(map[string]bool)
	for _, pattern := range patterns {
		pattern, found := strings.TrimSpace(pattern), false
		for name, family := range names {
			matches, err := path.Match(pattern, name)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", flag, pattern, err)
			}
			if matches || all == "" || family != "" && pattern == family {
				chosen[name], found = true, true
			}
		}
		if !found {
			_, _ = fmt.Fprintf(log, "bench: there is no %s %q: see -list\n", kind, pattern)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%s %s: no %s is left", flag, all, kind)
	}
	return chosen, nil
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	o, err := parse(args, log)
	switch {
	case errors.Is(err, flag.ErrHelp): // the flags were printed
		return nil
	case err != nil:
		return err
	case o.list:
		list(out)
		return nil
	}
	for _, file := range []string{o.json, o.markdown} {
		if file == "" {
			continue
		}
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644) // fails before the run if the file cannot be written
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	for _, dir := range []string{o.plots, o.profiles} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if o.install {
		if err := install(ctx, log); err != nil {
			return err
		}
	}
	b, err := newBench(o, log)
	if err != nil {
		return err
	}
	defer b.close()
	b.all(ctx)
	r := report{when: time.Now(), machine: machine(), results: b.results, load: b.load(), opts: o}
	return errors.Join(r.print(out), r.write(), ownFailures(b.results), context.Cause(ctx))
}

// list prints the names of the workloads and of the systems.
func list(out io.Writer) {
	_, _ = fmt.Fprintln(out, "workloads:")
	seen := make(map[string]bool)
	var systems []string // in the order in which they run
	for _, w := range workloads() {
		_, _ = fmt.Fprintf(out, "  %-20s %s\n", w.name, w.title)
		for _, s := range w.systems {
			if !seen[s.name] {
				systems = append(systems, s.name)
			}
			seen[s.name] = true
		}
	}
	_, _ = fmt.Fprintf(out, "systems:\n  %s\n", strings.Join(systems, "\n  "))
}

// install installs ZooKeeper and the peers.
func install(ctx context.Context, log io.Writer) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("-install-peers: there is no apt-get to install %s with", strings.Join(peers.Packages(), ", "))
	}
	command := []string{apt}
	if os.Geteuid() != 0 {
		command = []string{"sudo", apt}
	}
	packages := append([]string{"install", "-y", "--no-install-recommends", "zookeeper"}, peers.Packages()...)
	for _, args := range [][]string{{"update"}, packages} {
		args = append(slices.Clone(command), args...)
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("-install-peers: %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}
