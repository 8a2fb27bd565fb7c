package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/campaign/paused"
)

func pausedCommand() *cobra.Command {
	var o paused.Options
	cmd := &cobra.Command{
		Use: "paused", Short: "Jepsen's test of locks: holders pause for longer than their sessions live, and write", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			o.Holder = []string{binary}
			o.Progress = func(done, all int) { _, _ = fmt.Fprintf(cmd.ErrOrStderr(), "\r%d of %d numbers ", done, all) }
			r, err := paused.Play(cmd.Context(), o)
			_, _ = fmt.Fprintln(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', tabwriter.AlignRight)
			_, _ = fmt.Fprintln(w, "\twithout a token\twith its guard\t")
			_, _ = fmt.Fprintf(w, "acknowledged\t%d\t%d\t\n", r.Plain.Acknowledged, r.Guarded.Acknowledged)
			_, _ = fmt.Fprintf(w, "of these lost\t%d\t%d\t\n", r.Plain.Lost, r.Guarded.Lost)
			if err := w.Flush(); err != nil {
				return err
			}
			switch {
			case r.Guarded.Lost > 0:
				return errors.New("numbers behind a guard are lost")
			case r.Plain.Lost == 0:
				return errors.New("no holder was paused at the wrong moment: the test shows nothing")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Version, "version", "", "the version of the servers, such as 3.9.5; Debian's without")
	f.IntVar(&o.Servers, "servers", 3, "how many servers")
	f.IntVar(&o.Holders, "holders", 5, "how many processes")
	f.IntVar(&o.Adds, "adds", 12, "how many numbers each adds")
	f.DurationVar(&o.Timeout, "timeout", 2*time.Second, "of sessions")
	f.DurationVar(&o.Pause, "pause", 4*time.Second, "how long each fourth holder is stopped, between its read and its write")
	return cmd
}
