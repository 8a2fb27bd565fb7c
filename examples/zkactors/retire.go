package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
)

// A retirer implements the command retire.
type retirer struct {
	taker
	site string
}

func (p *program) retireCommand() *cobra.Command {
	r := &retirer{taker: taker{program: p}}
	c := p.command(&cobra.Command{
		Use:   "retire PATH --site NAME [flags]",
		Short: "Finish the transactions of a site that will not come back",
		Long: `Finish all transactions below PATH for a site that will not come back. Without that they would wait for the site forever.

If the site has not voted, the vote is No, and the transaction is aborted. If the site has voted Yes, the transaction is
decided as if the site were there, which may take until the transaction's deadline. The command does not apply the
effects of committed transactions at the site: the transactions that it prints as committed are missing there, unless the
site had applied them. A process that comes back as the site receives none of these transactions. Later transactions must
not name the site.

The command is refused while a process acts for the site.

` + statusHelp,
		Example: "  zkactors retire /payments --site ledger",
	}, r.retire)
	c.Flags().BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	c.Flags().StringVar(&r.site, "site", "", "the `name` of the site")
	return c
}

func (r *retirer) retire(ctx context.Context, path string, _ []string) error {
	if r.site == "" {
		return usage("--site is missing")
	}
	if err := r.askable(); err != nil {
		return err
	}
	return r.with(ctx, func(ctx context.Context, s *session.Session) error {
		if err := r.sure(ctx, s, path); err != nil {
			return err
		}
		done, err := commit.Retire(ctx, s, path, r.site)
		if errors.Is(err, commit.ErrPresent) {
			return fail(exitNothing, "%s: a process acts for the site %s", path, r.site)
		}
		return errors.Join(r.print(done), err)
	})
}

// sure prints the transactions, and asks for a confirmation.
func (r *retirer) sure(ctx context.Context, s *session.Session, path string) error {
	all, err := commit.List(ctx, s, path)
	if err != nil {
		return err
	}
	left := 0
	for _, status := range all {
		for _, at := range status.Sites {
			if at.Site == r.site && !at.Finished {
				left++
				_, _ = fmt.Fprintln(r.stderr, text(status.String()))
			}
		}
	}
	if left == 0 {
		return fail(exitNothing, "%s: no transaction waits for the site %s", path, r.site)
	}
	if r.yes {
		return nil
	}
	return r.ask(fmt.Sprintf("Retire %s, in %d transactions?", text(r.site), left))
}

// print prints the transactions that were finished.
func (r *retirer) print(done []commit.Retired) error {
	if r.json {
		type row struct {
			ID        string `json:"id"`
			GUID      string `json:"guid"`
			Committed bool   `json:"committed"`
		}
		rows := []row{}
		for _, at := range done {
			rows = append(rows, row{at.Tx.ID, at.Tx.GUID, at.Committed})
		}
		return r.printJSON(map[string][]row{"retired": rows})
	}
	for _, at := range done {
		if err := r.printf("%s\n", text(at.String())); err != nil {
			return err
		}
	}
	return nil
}
