package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/campaign/patience"
)

// patienceCommand finds tests whose verdict depends on the speed of the machine.
func patienceCommand() *cobra.Command {
	o := patience.Options{Rhythm: patience.Usual()}
	var phases []string
	var lasts time.Duration
	command := &cobra.Command{
		Use:   "patience",
		Short: "Run all tests many times on a slow machine: find tests whose verdict is one of the clock on the wall",
		Long: `Patience compiles the tests of each package, and runs them many times while it disturbs them:

  load        30 times with -race -short and 10 times without, while eight busy loops load the machine
  one, eight  6 times and 2 times, the same, with GOMAXPROCS=1 and 8
  stops       10 times and 4 times, while the process is stopped for 3 s at random moments
  real        the tests with real servers three times under each of these four

A whole run takes many hours. With --record it goes on where it was stopped: a run that is recorded
is not made again while the package's test binary and its testdata are the same.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Phases, err = patience.Choose(phases); err != nil {
				return err
			}
			return runPatience(cmd, o, lasts)
		},
	}
	flags := command.Flags()
	flags.StringSliceVar(&phases, "phase", nil, "phases, such as stops, real, or real/stops; all without")
	flags.StringSliceVar(&o.Packages, "package", nil, "packages, from the root, such as session/internal/...; all without")
	flags.StringVar(&o.Tests, "test", "", "a pattern of tests, as -run has it; all without")
	flags.Float64Var(&o.Times, "times", 1, "a factor: 0.1 runs a tenth of the times, 2 twice as many")
	flags.Uint64Var(&o.Seed, "seed", 1, "of the moments of the stops")
	flags.IntVar(&o.Processes, "processes", runtime.NumCPU(), "so many runs of a package at a time")
	flags.IntVar(&o.Loops, "loops", 8, "busy loops")
	flags.DurationVar(&o.Limit, "timeout", 30*time.Minute, "of a run, which on a loaded machine may be slow and right")
	flags.DurationVar(&lasts, "for", 0, "how long, all together; until the end without")
	flags.StringVar(&o.Record, "record", "", "the file of the runs, which goes on; a new one without")
	return command
}

func runPatience(cmd *cobra.Command, o patience.Options, lasts time.Duration) (err error) {
	if o.Root, err = ask(cmd.Context(), "git", "rev-parse", "--show-toplevel"); err != nil {
		return fmt.Errorf("patience runs in a clone of the repository: %w", err)
	}
	if o.Commit, err = ask(cmd.Context(), "git", "describe", "--always", "--dirty"); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Loop = []string{self}
	if o.Record == "" {
		dir, err := os.MkdirTemp("", "zkactors-patience-")
		if err != nil {
			return err
		}
		o.Record = filepath.Join(dir, "record.jsonl")
	}
	if o.Record, err = filepath.Abs(o.Record); err != nil {
		return err
	}
	o.Say = func(format string, args ...any) { say(cmd, format, args...) }
	say(cmd, "record: %s, seed: %d\n", o.Record, o.Seed)
	ctx := cmd.Context()
	if lasts > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, lasts)
		defer cancel()
	}
	report, err := patience.Play(ctx, o)
	if err != nil {
		return err
	}
	say(cmd, "\n")
	if err := report.Print(cmd.OutOrStdout()); err != nil {
		return err
	}
	if n := report.Failed(); n > 0 {
		return fmt.Errorf("%d runs failed", n)
	}
	if report.Missing > 0 || len(report.Unseen) > 0 {
		return fmt.Errorf("nothing failed, but it is not the end: with --record %s it goes on; not finished: %s", o.Record, strings.Join(report.Unseen, " "))
	}
	return nil
}

// ask returns what a program prints.
func ask(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	return strings.TrimSpace(string(out)), err
}
