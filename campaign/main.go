// Campaign runs scenarios of faults against the recipes, and judges the histories from outside:
//
//	go run ./campaign models                                   # the models of all machines, on one core
//	go run ./campaign bubble --seeds 150                       # 20 scenarios × 150 seeds, in a bubble
//	go run ./campaign bubble --scenario cuts --seed 7 -v       # one of them again, with its history
//	go run ./campaign bubble --system zk.Lock                  # a control, in which faults must be found
//	go run ./campaign real                                     # on real servers, 90 s of each scenario
//	go run ./campaign paused                                   # Jepsen's test of locks
//	go run ./campaign patience                                 # all tests, on a slow machine
//
// It runs from the root of a clone. README.md has more.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/campaign/patience"
	"github.com/zkactors/zkactors/campaign/paused"
	"github.com/zkactors/zkactors/campaign/real"
)

func main() {
	for variable, work := range map[string]func(io.Reader, io.Writer) error{
		real.WorkerVariable: real.Work, paused.HolderVariable: paused.Work, patience.LoopVariable: patience.Loop,
	} {
		if os.Getenv(variable) == "" {
			continue
		}
		if err := work(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "campaign: a process:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use: "campaign", Short: "run scenarios of faults against the recipes, and judge the histories from outside",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(commands()...)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "campaign:", err)
		stop()
		os.Exit(1)
	}
}

func commands() []*cobra.Command {
	return []*cobra.Command{
		modelsCommand(), bubbleCommand(), realCommand(), pausedCommand(), scenariosCommand(), judgeCommand(), refindCommand(), mutateCommand(),
		patienceCommand(),
	}
}
