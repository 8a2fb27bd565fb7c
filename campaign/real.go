package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/campaign/real"
	"github.com/zkactors/zkactors/campaign/workload"
)

// ensembles are the values of the flags of "campaign real".
type ensembles struct {
	scenario   string
	version    string
	system     string
	lasts      time.Duration
	rounds     int
	seed       uint64
	processes  int
	keep       string
	verbose    bool
	maxPrinted int
}

func realCommand() *cobra.Command {
	var o ensembles
	cmd := &cobra.Command{
		Use: "real", Short: "play scenarios on ensembles of three real servers; processes are killed and stopped by signals", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.scenario, "scenario", "", "play these only, with commas between; all without: see campaign scenarios")
	f.StringVar(&o.version, "version", "", `the version of the servers, such as 3.9.5, or "debian"; without, scenarios take turns with those of the matrix`)
	f.StringVar(&o.system, "system", string(workload.ZKActors), fmt.Sprintf("whose recipes: %s, or the controls %s, %s and %s", workload.ZKActors, workload.ZKLock, workload.Curator, workload.Kazoo))
	f.DurationVar(&o.lasts, "lasts", 90*time.Second, "how long faults strike")
	f.IntVar(&o.rounds, "rounds", 1, "play all so often, each time on another version")
	f.Uint64Var(&o.seed, "seed", 1, "of the faults, and of the work; the next round has the next")
	f.IntVar(&o.processes, "processes", 4, "how many processes")
	f.StringVar(&o.keep, "keep", "", "write the histories with violations to this directory; without, to one for temporary files")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print each history on standard output, and the rest on standard error")
	f.IntVar(&o.maxPrinted, "print", 20, "print so many violations of a history")
	return cmd
}

func (o *ensembles) run(ctx context.Context, out, progress io.Writer) error {
	games, err := o.games()
	if err != nil {
		return err
	}
	if err := keepIn(o.keep); err != nil {
		return err
	}
	history := out
	if o.verbose {
		out = progress
	}
	rows, unjudged := make(map[string]*row), make(map[string]string)
	for i, g := range games {
		_, _ = fmt.Fprintf(progress, "%d of %d: %s on %s, seed %d\n", i+1, len(games), g.Scenario.Name, version(g.Version), g.Seed)
		h, err := real.Play(ctx, g)
		if ctx.Err() != nil { // the history was interrupted
			break
		}
		r := rows[g.Scenario.Name]
		if r == nil {
			r = &row{}
			rows[g.Scenario.Name] = r
		}
		r.histories++
		if err != nil {
			r.crashes++
			_, _ = fmt.Fprintf(out, "%s does not come to its end: %v\n", g.Scenario.Name, err)
			continue
		}
		if o.verbose {
			if err := h.Write(history); err != nil {
				return err
			}
		}
		maps.Copy(unjudged, h.Head.Unjudged)
		if err := o.judge(out, h, r); err != nil {
			return err
		}
	}
	var judged []string
	for _, c := range judge.Checkers() {
		if unjudged[c.Name] == "" {
			judged = append(judged, c.Name)
		}
	}
	_, _ = fmt.Fprintln(out, "judged by", strings.Join(judged, ", "))
	for _, name := range slices.Sorted(maps.Keys(unjudged)) {
		_, _ = fmt.Fprintf(out, "not, or not always, judged by %s: %s\n", name, unjudged[name])
	}
	err = report(out, workload.System(o.system), realNames(), rows)
	return cmp.Or(ctx.Err(), err)
}

// judge judges a history, and keeps it if it has violations.
func (o *ensembles) judge(out io.Writer, h *history.History, r *row) error {
	r.operations += len(h.Operations)
	void, violations := h.Void(), []judge.Violation(nil)
	if void {
		r.voids++
	} else {
		violations = judge.All(h)
	}
	stops := h.Count(func(f *history.Fault) bool { return f.Kind == history.Stopped })
	_, _ = fmt.Fprintf(out, "  %d operations, %d commits, %d faults, %d times a process did nothing; void %v, %d violations\n", len(h.Operations), len(h.Commits), len(h.Faults)-stops, stops, void, len(violations))
	if h.Head.Diverged != "" {
		_, _ = fmt.Fprintf(out, "  the servers differ: %s\n", h.Head.Diverged)
	}
	if len(violations) == 0 {
		return nil
	}
	r.violations++
	list(out, violations, o.maxPrinted)
	dir := o.keep
	if dir == "" {
		dir = os.TempDir()
	}
	file := filepath.Join(dir, fmt.Sprintf("history-%s-%s-%s-%d.json", h.Head.System, h.Head.Scenario, time.Now().Format("20060102-150405"), h.Head.Seed))
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // an error is one of Write, too
	_, _ = fmt.Fprintf(out, "  judge it again with:\n  go run ./campaign judge %s\n", file)
	return h.Write(f)
}

// games returns what is to be played.
func (o *ensembles) games() ([]real.Options, error) {
	chosen := realNames()
	if o.scenario != "" {
		chosen = strings.Split(o.scenario, ",")
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var all []real.Options
	for round := range o.rounds {
		for i, name := range chosen {
			s, ok := real.Find(name)
			if !ok {
				return nil, fmt.Errorf("there is no scenario %q for real servers: see campaign scenarios", name)
			}
			matrix := real.Versions()
			g := real.Options{
				Scenario: s, Seed: o.seed + uint64(round), System: workload.System(o.system), Version: matrix[(i+round)%len(matrix)],
				Lasts: o.lasts, Processes: o.processes, Worker: []string{binary},
			}
			switch o.version {
			case "":
			case "debian":
				g.Version = ""
			default:
				g.Version = o.version
			}
			all = append(all, g)
		}
	}
	return all, nil
}

func realNames() []string {
	var all []string
	for _, s := range real.All() {
		all = append(all, s.Name)
	}
	return all
}

func version(v string) string {
	if v == "" {
		return "Debian's version"
	}
	return v
}
