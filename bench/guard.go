package main

import (
	"context"
	_ "embed" // of the accepted commits
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/zkactors/zkactors/bench/peers"
)

// guardRows are the workloads that the guard runs.
const guardRows = "lock-1,handover-10,handover-100,succession,queue-one-taken,queue-one-acknowledged"

//go:embed accepted.txt
var acceptedCommits string

// guardOptions are the values of the flags of the command guard.
type guardOptions struct {
	options
	commit string // with which this one is compared
	least  int    // turns
	most   int
}

func parseGuard(args []string, log io.Writer) (o guardOptions, err error) {
	flags := flag.NewFlagSet("bench guard", flag.ContinueOnError)
	flags.SetOutput(log)
	filter := flags.String("filter", guardRows, "run these workloads: names or patterns, with commas between")
	flags.StringVar(&o.commit, "accepted", "", "compare with this commit, and not with the last one of bench/accepted.txt")
	flags.DurationVar(&o.duration, "duration", time.Second, "measure each workload with each system for so long, in each turn")
	flags.IntVar(&o.least, "least", 12, "how many turns there are at least")
	flags.IntVar(&o.most, "most", 40, "how many turns there are at most, while the spread is not below a tenth")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("there is no argument %q: see -help", flags.Arg(0))
	}
	if o.duration <= 0 || o.least <= 0 || o.most < o.least {
		return o, fmt.Errorf("-duration %v, -least %d, -most %d: must be positive, and most not below least", o.duration, o.least, o.most)
	}
	if o.commit == "" {
		if o.commit, err = lastAccepted(acceptedCommits); err != nil {
			return o, err
		}
	}
	o.workloads, err = choose(workloads(), *filter, "zkactors,zk.Lock,curator,kazoo", false, log)
	if err != nil {
		return o, err
	}
	for i, w := range o.workloads {
		o.workloads[i].systems = guardSystems(w)
	}
	return o, nil
}

// guardSystems returns the systems of a row: this commit, the accepted one, and the first peer that
// is installed, if there is one.
func guardSystems(w workload) []system {
	own, before := zkactors(), system{name: "accepted", library: peers.Accepted}
	own.name = "this commit"
	peer := slices.IndexFunc(w.systems, func(s system) bool {
		return s.library != peers.ZKActors && peers.Missing(s.library) == nil
	})
	if peer < 0 {
		return []system{own, before}
	}
	return []system{own, before, w.systems[peer]}
}

// acceptedLine is a line of the file of accepted commits.
var acceptedLine = regexp.MustCompile(`^([0-9a-f]{8,40}) \d{4}-\d\d-\d\d \S`)

// lastAccepted returns the commit of the last line. Lines that begin with # do not count.
func lastAccepted(text string) (commit string, err error) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		match := acceptedLine.FindStringSubmatch(line)
		if match == nil {
			return "", fmt.Errorf("bench/accepted.txt: %q is not a commit, its date and the reason", line)
		}
		commit = match[1]
	}
	if commit == "" {
		return "", errors.New("bench/accepted.txt: no commit is accepted")
	}
	return commit, nil
}

func runGuard(ctx context.Context, args []string, out, log io.Writer) error {
	o, err := parseGuard(args, log)
	switch {
	case errors.Is(err, flag.ErrHelp): // the flags were printed
		return nil
	case err != nil:
		return err
	}
	b, err := newBench(o.options, log)
	if err != nil {
		return err
	}
	defer b.close()
	if err := buildAccepted(ctx, o.commit, b.dir); err != nil {
		return err
	}
	f, err := offer{count: 1}.start(ctx, false, 0)
	if err != nil {
		return err
	}
	defer f.close()
	b.warmUp(ctx, f)
	var rows []guardRow
	for _, w := range o.workloads {
		if rows = append(rows, b.guard(ctx, f, w, o)); ctx.Err() != nil {
			break
		}
	}
	_, err = fmt.Fprintf(out, "%s\nother load: %v\n\n%s\n%s", machine(), b.load(), guardTable(rows, o.commit), notJudgedRows(rows))
	return errors.Join(err, guardFailures(rows, o.commit), context.Cause(ctx))
}

// buildAccepted builds the bench of a commit, in a work tree of its own, as the driver of
// [peers.Accepted] in dir.
func buildAccepted(ctx context.Context, commit, dir string) (err error) {
	run := func(in, name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = in
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("the bench of commit %s: %s %s: %w: %s", commit, name, strings.Join(args, " "), err, out)
		}
		return nil
	}
	tree := filepath.Join(dir, "tree")
	if err := run("", "git", "worktree", "add", "--detach", tree, commit); err != nil {
		return err
	}
	defer func() {
		ctx = context.WithoutCancel(ctx)
		err = errors.Join(err, run("", "git", "worktree", "remove", "--force", tree))
	}()
	return run(tree, "go", "build", "-o", filepath.Join(dir, string(peers.Accepted)), "./bench")
}

// A guardRow has the samples of a workload: of this commit, the accepted one and the peer, turn by
// turn.
type guardRow struct {
	workload workload
	samples  [][]sample
	failed   []error // of each system
}

// guard runs a workload in turns, until each figure is judged or there are too many turns. Every
// second turn has the other order. The systems in Go have a new process in each turn, so that the
// accidents of a process count once.
func (b *bench) guard(ctx context.Context, f *fleet, w workload, o guardOptions) guardRow {
	r := guardRow{w, make([][]sample, len(w.systems)), make([]error, len(w.systems))}
	for turn := range o.most {
		for i := range w.systems {
			if turn%2 == 1 {
				i = len(w.systems) - 1 - i
			}
			s := w.systems[i]
			if r.failed[i] != nil {
				continue
			}
			got, err := b.once(ctx, f, w, s)
			if ctx.Err() != nil {
				return r
			}
			b.loads = append(b.loads, got.others)
			says := got.String()
			if r.failed[i] = err; err != nil {
				says = inOneLine(err)
			} else {
				r.samples[i] = append(r.samples[i], got)
			}
			b.say("%s, turn %d, %s: %s", w.name, turn+1, s.name, says)
			if s.library != peers.Curator && s.library != peers.Kazoo {
				b.end(s.library)
			}
		}
		if r.failed[0] != nil || r.failed[1] != nil || turn+1 >= o.least && r.judged() {
			break
		}
	}
	return r
}

// judged reports whether all figures are judged.
func (r guardRow) judged() bool {
	return !slices.ContainsFunc(quantities(), func(q quantity) bool { return r.judge(q).verdict == notJudged })
}

func (r guardRow) judge(q quantity) judgement { return q.judge(q.ratios(r.samples[0], r.samples[1])) }

// guardTable returns the table of the rows.
func guardTable(rows []guardRow, commit string) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "workload\t\tthis commit\t%.8s\tpeer\t\tthis : accepted\tspread\tturns\t\n", commit) // to a buffer
	for _, r := range rows {
		for _, q := range quantities() {
			cells := []string{r.workload.name, q.name, "", "", "none", ""}
			for i, s := range r.workload.systems {
				cells[2+i] = "failed"
				if len(r.samples[i]) > 0 {
					cells[2+i] = figure(median(r.samples[i], q.of))
				}
				cells[5] = s.name
			}
			if len(r.workload.systems) < 3 {
				cells[5] = ""
			}
			j := r.judge(q)
			_, _ = fmt.Fprintf(table, "%s\t%v\t%s\t%d\t%v\n", strings.Join(cells, "\t"), j.interval, j.width(), len(r.samples[0]), j.verdict)
		}
	}
	_ = table.Flush()
	return text.String()
}

// guardFailures returns what this commit has lost.
func guardFailures(rows []guardRow, commit string) error {
	var failures []error
	for _, r := range rows {
		if err := errors.Join(r.failed[:2]...); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", r.workload.name, err))
			continue
		}
		for _, q := range quantities() {
			if j := r.judge(q); j.verdict == behind {
				failures = append(failures, fmt.Errorf("%s: "+q.loses+" than %.8s: this : accepted is %v", r.workload.name, 100*math.Abs(j.median-1), commit, j.interval))
			}
		}
	}
	return errors.Join(failures...)
}

// notJudgedRows returns a line for each figure whose spread is too large.
func notJudgedRows(rows []guardRow) string {
	var text strings.Builder
	for _, r := range rows {
		for _, q := range quantities() {
			if j := r.judge(q); j.verdict == notJudged {
				_, _ = fmt.Fprintf(&text, "NOT JUDGED: %s, %s: spread after %d turns: %s. A quiet machine would tell.\n",
					r.workload.name, q.name, len(r.samples[0]), j.width())
			}
		}
	}
	return text.String()
}
