package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/campaign/record"
)

// refindCommand looks for recorded faults in the code before their mends.
func refindCommand() *cobra.Command {
	var limit time.Duration
	command := &cobra.Command{
		Use:   "refind [id…]",
		Short: "Find recorded faults again, in the code before their mends",
		Long: `Refind takes the faults of campaign/record/faults.tsv one by one. Their commands are to fail in the
code before the mend, and to pass with it. What has become of each is written into
campaign/record/tries.tsv. Without an id, it takes all that were found when they were tried last.`,
		RunE: func(cmd *cobra.Command, ids []string) (err error) {
			all, err := record.Faults()
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				tries, err := record.Tries()
				if err != nil {
					return err
				}
				for _, t := range tries {
					if t.Result == record.Found || t.Result == record.Hung {
						ids = append(ids, t.ID)
					}
				}
			}
			chosen, err := record.Choose(all, ids)
			if err != nil {
				return err
			}
			finder, err := record.OpenFinder(cmd.Context(), all, limit)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, finder.Close()) }()
			found := 0
			for _, f := range chosen {
				t, err := finder.Find(cmd.Context(), f)
				if err != nil {
					return fmt.Errorf("%s: %w", f.ID, err)
				}
				if err := finder.Note(all, []record.Try{t}); err != nil {
					return err
				}
				if t.Result == record.Found || t.Result == record.Hung {
					found++
				}
				say(cmd, "%-32s %-18s %6.1f s  %s\n", t.ID, t.Result, t.Seconds, t.Found)
			}
			say(cmd, "%d of %d found again\n", found, len(chosen))
			if found < len(chosen) {
				return errors.New("some faults were not found again")
			}
			return nil
		},
	}
	command.Flags().DurationVar(&limit, "limit", record.DefaultLimit, "how long one test may take")
	return command
}

// say prints a line of a report. What cannot be printed is in the tables.
func say(cmd *cobra.Command, format string, args ...any) {
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), format, args...)
}
