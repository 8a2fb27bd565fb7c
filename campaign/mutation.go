package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/campaign/mutation"
)

// mutations has the flags of the command mutate.
type mutations struct {
	packages []string
	sample   int
	seed     uint64
	at       int // a time
	wide     bool
	write    bool
}

// mutateCommand changes the library in one place at a time.
func mutateCommand() *cobra.Command {
	var m mutations
	command := &cobra.Command{
		Use:   "mutate",
		Short: "Change machines, performers and the session in one place at a time, and see which changes no test finds",
		Long: `Mutate compiles each package with all of its mutants, and runs its short tests with one at a time,
then those of the packages that rest on it. A mutant that survives is to be explained in
campaign/mutation/survivors.tsv, or a test is to find it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd) },
	}
	flags := command.Flags()
	flags.StringSliceVar(&m.packages, "package", nil, "packages to mutate, from the root; all that are listed without")
	flags.IntVar(&m.sample, "sample", 0, "so many mutants, chosen by the seed; all without")
	flags.Uint64Var(&m.seed, "seed", 1, "of the sample")
	flags.IntVar(&m.at, "processes", runtime.NumCPU(), "so many mutants at a time")
	flags.BoolVar(&m.wide, "wide", true, "try what survives with the tests of the packages that rest on it, too")
	flags.BoolVar(&m.write, "write", false, "enter survivors into survivors.tsv, and delete those that are found now")
	return command
}

func (m mutations) run(cmd *cobra.Command) error {
	targets, err := m.targets()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(cmd.Context(), "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("mutate runs in a clone of the repository: %w", err)
	}
	root := strings.TrimSpace(string(out))
	list := filepath.Join(root, "campaign", "mutation", "survivors.tsv")
	known, err := mutation.ReadSurvivors(list)
	if err != nil {
		return err
	}
	var tried, survived []mutation.Mutant
	for _, target := range targets {
		t, s, err := m.try(cmd, root, target)
		if err != nil {
			return fmt.Errorf("%s: %w", target.Package, err)
		}
		tried, survived = append(tried, t...), append(survived, s...)
	}
	all := mutation.Join(known, tried, survived)
	if m.write {
		if err := mutation.WriteSurvivors(list, all); err != nil {
			return err
		}
	}
	say(cmd, "%d mutants, %d found, %d survive\n", len(tried), len(tried)-len(survived), len(survived))
	return unexplained(cmd, all, survived)
}

// targets returns the chosen packages.
func (m mutations) targets() ([]mutation.Target, error) {
	if len(m.packages) == 0 {
		return mutation.Targets(), nil
	}
	var chosen []mutation.Target
	for _, name := range m.packages {
		i := slices.IndexFunc(mutation.Targets(), func(t mutation.Target) bool { return t.Package == name })
		if i < 0 {
			return nil, fmt.Errorf("%s is not listed in campaign/mutation/targets.go", name)
		}
		chosen = append(chosen, mutation.Targets()[i])
	}
	return chosen, nil
}

// try tries the mutants of a package, or a sample of them.
func (m mutations) try(cmd *cobra.Command, root string, target mutation.Target) (tried, survived []mutation.Mutant, err error) {
	trial, err := mutation.Prepare(cmd.Context(), root, target)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, trial.Close()) }()
	indexes := rand.New(rand.NewPCG(m.seed, 0)).Perm(len(trial.Mutants))
	if m.sample > 0 {
		indexes = indexes[:min(m.sample, len(indexes))]
	}
	slices.Sort(indexes)
	say(cmd, "%s: %d of %d mutants\n", target.Package, len(indexes), len(trial.Mutants))
	alive, err := trial.Survive(cmd.Context(), indexes, m.at)
	if err != nil {
		return nil, nil, err
	}
	if m.wide && len(alive) > 0 && len(target.Tests) > 0 {
		say(cmd, "%s: %d survive its own tests\n", target.Package, len(alive))
		if err := trial.Widen(cmd.Context()); err != nil {
			return nil, nil, err
		}
		if alive, err = trial.Survive(cmd.Context(), alive, m.at); err != nil {
			return nil, nil, err
		}
	}
	for _, i := range indexes {
		tried = append(tried, trial.Mutants[i])
	}
	for _, i := range alive {
		survived = append(survived, trial.Mutants[i])
	}
	return tried, survived, nil
}

// unexplained fails for survivors that the list does not explain.
func unexplained(cmd *cobra.Command, all []mutation.Survivor, survived []mutation.Mutant) error {
	red := 0
	for _, s := range all {
		if s.Why == "" && slices.Contains(survived, s.Mutant) {
			say(cmd, "not explained: %v\n", s.Mutant)
			red++
		}
	}
	if red > 0 {
		return fmt.Errorf("%d survivors are not explained in campaign/mutation/survivors.tsv", red)
	}
	return nil
}
