package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/campaign/models"
)

// A night is one use of the command models: its flags, and the results so far.
type night struct {
	lasts  time.Duration
	only   []string
	seed   uint64
	full   bool
	sample bool

	runs []models.Run
}

// Seeds of a day, and of each time that a test is run, are others than those before.
const (
	seedsOfARun = 1_000_000
	seedsOfADay = 100 * seedsOfARun
)

// modelsCommand runs the models of all machines.
func modelsCommand() *cobra.Command {
	var n night
	command := &cobra.Command{
		Use:   "models",
		Short: "Run the models and explorations of all machines, on one core",
		Long: `Models runs the tests that go through the models of machines, one after the other, with the flags of
a night, and prints how many states and schedules each has gone through, and how soon planted
mutants are found. In the time that is left it runs those with random schedules again, with other
seeds. A row of a machine that none of them reaches is to be explained in
campaign/models/unreached.tsv.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return n.run(cmd) },
	}
	flags := command.Flags()
	flags.DurationVar(&n.lasts, "for", 2*time.Hour, "how long, all together")
	flags.StringSliceVar(&n.only, "only", nil, "the tests of these packages, from the root; all without")
	flags.Uint64Var(&n.seed, "seed", 0, "the first seed; others each day without")
	flags.BoolVar(&n.sample, "sample", false, "as \"go test\" runs them, without the flags of a night: some minutes")
	flags.BoolVar(&n.full, "full", false, "the largest settings too, which take hours, and are the same each time")
	return command
}

func (n *night) run(cmd *cobra.Command) (err error) {
	tests, err := n.tests()
	if err != nil {
		return err
	}
	if n.seed == 0 {
		today := time.Now()
		n.seed = uint64(today.Year()*10000+int(today.Month())*100+today.Day()) * seedsOfADay
	}
	root, err := exec.CommandContext(cmd.Context(), "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("models runs in a clone of the repository: %w", err)
	}
	runner, err := models.Open(strings.TrimSpace(string(root)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	ctx, cancel := context.WithTimeout(cmd.Context(), n.lasts)
	defer cancel()
	say(cmd, "%-28s %-56s %10s %10s %9s\n", "package", "tests", "states", "schedules", "processor")
	if err := n.play(ctx, cmd, runner, tests); err != nil {
		return err
	}
	n.sum(cmd)
	return errors.Join(n.failures(cmd), n.rows(cmd, runner, tests))
}

// tests returns the tests of the night.
func (n *night) tests() ([]models.Test, error) {
	chosen := slices.DeleteFunc(models.Tests(), func(t models.Test) bool {
		return t.Full && !n.full || len(n.only) > 0 && !slices.Contains(n.only, t.Package)
	})
	for _, p := range n.only {
		if !slices.ContainsFunc(chosen, func(t models.Test) bool { return t.Package == p }) {
			return nil, fmt.Errorf("%s has no models: see campaign/models/tests.go", p)
		}
	}
	if n.sample {
		for i := range chosen {
			chosen[i].Flags, chosen[i].Env = nil, nil
		}
	}
	return chosen, nil
}

// play runs all tests, and then those that play others each time, until the context ends. A sample
// is played once.
func (n *night) play(ctx context.Context, cmd *cobra.Command, runner *models.Runner, tests []models.Test) error {
	seed := n.seed
	for len(tests) > 0 && ctx.Err() == nil {
		for _, t := range tests {
			r, err := runner.Run(ctx, t, seed)
			if err != nil {
				return err
			}
			n.runs = append(n.runs, r)
			say(cmd, "%-28s %-56s %10d %10d %7.1f s  %s\n", t.Package, strings.Join(t.Names, " "), r.States, r.Schedules, r.Processor.Seconds(), r.Outcome)
			if ctx.Err() != nil {
				break
			}
		}
		if n.sample {
			return nil
		}
		tests = slices.DeleteFunc(slices.Clone(tests), func(t models.Test) bool { return !t.Seeded })
		seed += seedsOfARun
	}
	return cmd.Context().Err()
}

// sum prints how many states and schedules the tests have gone through, and after how many of them
// each mutant was found.
func (n *night) sum(cmd *cobra.Command) {
	states, schedules, mutants := 0, 0, 0
	for _, r := range n.runs {
		states, schedules, mutants = states+r.States, schedules+r.Schedules, mutants+len(r.Mutants)
	}
	say(cmd, "%d states and %d schedules, from seed %d\n\n%d planted mutants are found:\n", states, schedules, n.seed, mutants)
	for _, r := range n.runs {
		for _, m := range r.Mutants {
			say(cmd, "%-28s %8d %-9s  %s\n", r.Package, m.After, m.Of, m.Mutant)
		}
	}
	say(cmd, "\n")
}

// failures prints the output of the tests that failed, and how to run them again.
func (n *night) failures(cmd *cobra.Command) error {
	failed := 0
	for _, r := range n.runs {
		if r.Outcome != models.Failed {
			continue
		}
		failed++
		const most = 60 // lines
		say(cmd, "%s\nagain with:\n  %s\n\n", strings.Join(r.Output[max(0, len(r.Output)-most):], "\n"), r.Command())
	}
	if failed > 0 {
		return fmt.Errorf("%d tests failed", failed)
	}
	return nil
}

// rows prints how many rows of each machine were reached. Those that were not fail the night, if
// all of its tests have passed.
func (n *night) rows(cmd *cobra.Command, runner *models.Runner, tests []models.Test) error {
	all, err := runner.Rows()
	if err != nil {
		return err
	}
	explained, err := models.Explained()
	if err != nil {
		return err
	}
	missed, stale := models.Compare(all, explained)
	say(cmd, "%-40s %6s %9s %14s %10s %12s\n", "machine", "rows", "by models", "by tests only", "explained", "not reached")
	for _, file := range models.Files(all) {
		total, by, red := 0, map[models.Reached]int{}, 0
		for _, r := range all {
			if r.File == file {
				total++
				by[r.Reached]++
			}
		}
		for _, r := range missed {
			if r.File == file {
				red++
			}
		}
		say(cmd, "%-40s %6d %9d %14d %10d %12d\n", file, total, by[models.ByModel], by[models.ByTest], by[models.Never]-red, red)
	}
	for _, r := range missed {
		say(cmd, "not reached: %v\n", r)
	}
	if !n.complete(tests) {
		say(cmd, "Some tests were not run to their end, so that the rows are not judged.\n")
		return nil
	}
	for _, u := range stale {
		say(cmd, "reached, or gone, but explained in unreached.tsv: %s, %s: %s\n", u.File, u.Func, u.Code)
	}
	if len(missed) > 0 {
		return fmt.Errorf("%d rows were not reached, and campaign/models/unreached.tsv does not say why", len(missed))
	}
	return nil
}

// complete reports whether each of the tests has passed, and none was left out by --only.
func (n *night) complete(tests []models.Test) bool {
	passed := func(t models.Test) bool {
		return slices.ContainsFunc(n.runs, func(r models.Run) bool {
			return (r.Outcome == models.Passed || r.Outcome == models.Skipped) && r.Same(t)
		})
	}
	return len(n.only) == 0 && !slices.ContainsFunc(tests, func(t models.Test) bool { return !t.Full && !passed(t) })
}
