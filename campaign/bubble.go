package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/campaign/overlay"
	"github.com/zkactors/zkactors/campaign/scenario"
	"github.com/zkactors/zkactors/campaign/workload"
)

// options are the values of the flags of "campaign bubble".
type options struct {
	scenario   string
	seeds      uint64
	first      uint64
	seed       int64
	system     string
	parallel   int
	keep       string
	verbose    bool
	twice      bool
	unseeded   bool
	maxPrinted int
}

func bubbleCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "bubble", Short: "play scenarios with servers in memory, in virtual time; a seed decides everything", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.scenario, "scenario", "", "play these only, with commas between; all without: see campaign scenarios")
	f.Uint64Var(&o.seeds, "seeds", 5, "play each with so many seeds")
	f.Uint64Var(&o.first, "first", 1, "the first of the seeds")
	f.Int64Var(&o.seed, "seed", -1, "play this seed only")
	f.StringVar(&o.system, "system", string(workload.ZKActors), "whose recipes: "+string(workload.ZKActors)+", or the control "+string(workload.ZKLock))
	f.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "how many processes at once")
	f.StringVar(&o.keep, "keep", "", "write the histories with violations to this directory, as lines of JSON")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print each history on standard output, and the rest on standard error")
	f.BoolVar(&o.twice, "twice", false, "play each history twice, and compare the two")
	f.BoolVar(&o.unseeded, "unseeded", false, "on Go's runtime as it is: another history each time")
	f.IntVar(&o.maxPrinted, "print", 20, "print so many violations of a history")
	return cmd
}

// keepIn makes the directory for histories, if they are to be kept.
func keepIn(dir string) error {
	if dir == "" {
		return nil
	}
	return os.MkdirAll(dir, 0o700)
}

// A game is one history to be played.
type game struct {
	scenario string
	seed     uint64
}

// A result is what became of a game.
type result struct {
	game
	void       bool
	operations int
	violations []judge.Violation
	crash      string // what the process printed that did not come to its end
	differs    bool   // the second time
}

func (o *options) run(ctx context.Context, out, progress io.Writer) error {
	games, err := o.games()
	if err != nil {
		return err
	}
	if err := keepIn(o.keep); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "campaign-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the directory for temporary files
	if o.verbose {                           // standard output has the history, and no more
		out = progress
	}
	_, _ = fmt.Fprintln(progress, "building; the first time takes a minute or more")
	binary, err := o.build(ctx, dir)
	if err != nil {
		return err
	}
	rows, found := make(map[string]*row), 0
	for r := range o.play(ctx, binary, dir, games) {
		if r.crash != "" && ctx.Err() != nil { // the history was interrupted
			continue
		}
		t := rows[r.scenario]
		if t == nil {
			t = &row{}
			rows[r.scenario] = t
		}
		t.histories++
		t.operations += r.operations
		if r.void {
			t.voids++
		}
		if r.differs {
			t.differences++
			_, _ = fmt.Fprintf(out, "%s seed %d: the second history differs from the first\n", r.scenario, r.seed)
		}
		if r.crash != "" {
			t.crashes++
			found++
			_, _ = fmt.Fprintf(out, "%s seed %d does not come to its end; again with:\n  %s\n%s\n", r.scenario, r.seed, o.command(r.game), r.crash)
		}
		if len(r.violations) > 0 {
			t.violations++
			found++
			_, _ = fmt.Fprintf(out, "%s seed %d; again with:\n  %s\n", r.scenario, r.seed, o.command(r.game))
			list(out, r.violations, o.maxPrinted)
		}
		done := 0
		for _, t := range rows {
			done += t.histories
		}
		_, _ = fmt.Fprintf(progress, "\r%d of %d histories, %d with violations ", done, len(games), found)
	}
	_, _ = fmt.Fprintln(progress)
	err = report(out, workload.System(o.system), names(), rows)
	return cmp.Or(ctx.Err(), err)
}

// names returns those of the scenarios.
func names() []string {
	var all []string
	for _, s := range scenario.All() {
		all = append(all, s.Name)
	}
	return all
}

// games returns the games that are to be played, each scenario in turn.
func (o *options) games() ([]game, error) {
	chosen := names()
	if o.scenario != "" {
		chosen = strings.Split(o.scenario, ",")
	}
	for _, name := range chosen {
		if _, ok := scenario.Find(name); !ok {
			return nil, fmt.Errorf("there is no scenario %q: see campaign scenarios", name)
		}
	}
	first, n := o.first, o.seeds
	if o.seed >= 0 {
		first, n = uint64(o.seed), 1
	}
	var all []game
	for seed := range n {
		for _, name := range chosen {
			all = append(all, game{name, first + seed})
		}
	}
	return all, nil
}

const tested = "github.com/zkactors/zkactors/campaign/bubble"

func (o *options) build(ctx context.Context, dir string) (string, error) {
	if !o.unseeded {
		return overlay.Build(ctx, tested, dir)
	}
	binary := filepath.Join(dir, "campaign.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, tested)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go test -c: %w\n%s", err, text)
	}
	return binary, nil
}

// play plays the games, several at once.
func (o *options) play(ctx context.Context, binary, dir string, games []game) <-chan result {
	todo, results := make(chan game), make(chan result)
	go func() {
		defer close(todo)
		for _, g := range games {
			select {
			case todo <- g:
			case <-ctx.Done():
				return
			}
		}
	}()
	var workers sync.WaitGroup
	for i := range max(1, o.parallel) {
		workers.Go(func() {
			file := filepath.Join(dir, fmt.Sprintf("history-%d.json", i))
			for g := range todo {
				results <- o.one(ctx, binary, file, g)
			}
		})
	}
	go func() {
		workers.Wait()
		close(results)
	}()
	return results
}

// one plays and judges a game.
func (o *options) one(ctx context.Context, binary, file string, g game) result {
	r := result{game: g}
	lines, text, err := o.record(ctx, binary, file, g)
	if err != nil {
		r.crash = fmt.Sprintf("%v\n%s", err, text)
		return r
	}
	if o.twice {
		again, _, err := o.record(ctx, binary, file, g)
		r.differs = err != nil || !bytes.Equal(lines, again)
	}
	if o.verbose {
		_, _ = os.Stdout.Write(lines)
	}
	h, err := history.Read(bytes.NewReader(lines))
	if err != nil {
		r.crash = err.Error()
		return r
	}
	r.operations, r.void = len(h.Operations), h.Void()
	if !r.void {
		r.violations = judge.All(h)
	}
	if o.keep != "" && len(r.violations) > 0 {
		if err := os.WriteFile(filepath.Join(o.keep, fmt.Sprintf("%s-%d.json", g.scenario, g.seed)), lines, 0o600); err != nil {
			r.crash = err.Error()
		}
	}
	return r
}

// record has a process play a game, and returns its history.
func (o *options) record(ctx context.Context, binary, file string, g game) (lines, text []byte, err error) {
	cmd := exec.CommandContext(ctx, binary, "-test.run=^TestHistory$", "-test.timeout=5m", "-campaign.scenario="+g.scenario,
		fmt.Sprint("-campaign.seed=", g.seed), "-campaign.system="+o.system, "-campaign.out="+file)
	if !o.unseeded {
		cmd.Env = append(os.Environ(), overlay.Environment()...)
	}
	text, err = cmd.CombinedOutput()
	if err != nil {
		const most = 20_000
		return nil, text[max(0, len(text)-most):], err
	}
	lines, err = os.ReadFile(file)
	return lines, text, err
}

// command returns what plays a game again.
func (o *options) command(g game) string {
	system := ""
	if o.system != string(workload.ZKActors) {
		system = " --system " + o.system
	}
	return fmt.Sprintf("go run ./campaign bubble --scenario %s --seed %d%s -v", g.scenario, g.seed, system)
}
