package main

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/campaign/real"
	"github.com/zkactors/zkactors/campaign/scenario"
)

func scenariosCommand() *cobra.Command {
	return &cobra.Command{
		Use: "scenarios", Short: "list the scenarios", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, s := range scenario.All() {
				_, _ = fmt.Fprintf(w, "%s\t%s\n", s.Name, s.About)
			}
			_, _ = fmt.Fprintln(w, "\non real servers:\t")
			for _, s := range real.All() {
				_, _ = fmt.Fprintf(w, "%s\t%s\n", s.Name, s.About)
			}
			return w.Flush()
		},
	}
}

func judgeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "judge FILE...", Short: "judge histories that were written to files", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			found := 0
			for _, file := range files {
				f, err := os.Open(file)
				if err != nil {
					return err
				}
				h, err := history.Read(f)
				_ = f.Close() // it was only read
				if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				all := judge.All(h)
				found += len(all)
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d operations, void %v, %d violations\n", file, len(h.Operations), h.Void(), len(all))
				for _, v := range all {
					_, _ = fmt.Fprintln(cmd.OutOrStdout(), " ", v)
				}
			}
			if found > 0 {
				return fmt.Errorf("%d violations", found)
			}
			return nil
		},
	}
}
