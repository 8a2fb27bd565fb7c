package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
)

// A retirer implements the command retire.
type retirer struct {
	taker
	site string
	tx   string
}

func (p *program) retireCommand() *cobra.Command {
	r := &retirer{taker: taker{program: p}}
	c := p.command(&cobra.Command{
		Use:   "retire PATH --site NAME|--transaction ID [flags]",
		Short: "Finish the transactions of a site that will not come back, or end one transaction",
		Long: `Finish all transactions below PATH for a site that will not come back. Without that they would wait for the site forever.

If the site has not voted, the vote is No, and the transaction is aborted. If the site has voted Yes, the transaction is
decided as if the site were there, which may take until the transaction's deadline. The command does not apply the
effects of committed transactions at the site: the transactions that it prints as committed are missing there, unless the
site had applied them. A process that comes back as the site receives none of these transactions. Later transactions must
not name the site.

The command is refused while a process acts for the site.

With --transaction, the sites are those of one transaction for which no process acts: they have died, or have never
joined. Sites that have not voted come first, so that an undecided transaction is aborted. The command prints what that
means for each site. Other transactions of the same sites stay, but for those in which a site has not voted: these may be
aborted, too. Sites for which a process acts finish the transaction themselves. Without a coordinator that may take until
the deadline of the transaction.

` + statusHelp,
		Example: "  zkactors retire /payments --site ledger\n  zkactors retire /payments --transaction o-4711",
	}, r.retire)
	c.Flags().BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	c.Flags().StringVar(&r.site, "site", "", "the `name` of the site")
	c.Flags().StringVar(&r.tx, "transaction", "", "the `id` of a transaction: retire all its sites for which no process acts")
	return c
}

func (r *retirer) retire(ctx context.Context, path string, _ []string) error {
	if (r.site == "") == (r.tx == "") {
		return usage("either --site or --transaction is needed")
	}
	if err := r.askable(); err != nil {
		return err
	}
	return r.with(ctx, func(ctx context.Context, s *session.Session) error {
		sites := []string{r.site}
		var only []commit.Tx
		var err error
		if r.tx != "" {
			sites, only, err = r.sureOfOne(ctx, s, path)
		} else {
			err = r.sure(ctx, s, path)
		}
		if err != nil {
			return err
		}
		var done []commit.Retired
		for _, site := range sites {
			var more []commit.Retired
			more, err = commit.Retire(ctx, s, path, site, only...)
			for _, at := range more {
				if !slices.ContainsFunc(done, func(r commit.Retired) bool { return r.Tx == at.Tx }) {
					done = append(done, at)
				}
			}
			if errors.Is(err, commit.ErrPresent) {
				err = fail(exitNothing, "%s: a process acts for the site %s", path, site)
			}
			if err != nil {
				break
			}
		}
		return errors.Join(r.print(done), err)
	})
}

// sureOfOne prints what the retirement of the absent sites of a transaction means, and asks for a
// confirmation. It returns the sites, those without a vote first, and the transaction.
func (r *retirer) sureOfOne(ctx context.Context, s *session.Session, path string) (sites []string, only []commit.Tx, err error) {
	all, err := commit.List(ctx, s, path)
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(all, func(status commit.Status) bool { return status.ID == r.tx })
	if i < 0 {
		return nil, nil, fail(exitNothing, "%s: there is no transaction %s", path, r.tx)
	}
	_, _ = fmt.Fprintln(r.stderr, text(all[i].String()))
	only = []commit.Tx{all[i].Tx()}
	var voted []string
	for _, at := range all[i].Sites {
		means := ""
		switch {
		case at.Finished:
			means = "it has finished"
		case at.Present:
			means = "a process acts for it, and finishes by itself"
		case all[i].Outcome != nil:
			means = "it does not receive the outcome" + either(all[i].Outcome.Committed, ": its effects are missing there, unless it has applied them", "")
			voted = append(voted, at.Site)
		case at.Vote == 0:
			means = "it has not voted: its vote is No, and the transaction is aborted"
			sites = append(sites, at.Site)
		default:
			means = fmt.Sprintf("it has voted %v, and does not receive the outcome: if that is commit, its effects are missing there", at.Vote)
			voted = append(voted, at.Site)
		}
		_, _ = fmt.Fprintf(r.stderr, "  %s: %s\n", text(at.Site), means)
	}
	if sites = append(sites, voted...); len(sites) == 0 {
		return nil, nil, fail(exitNothing, "%s: the transaction %s waits for no site without a process", path, r.tx)
	}
	for _, other := range all {
		if other.ID != r.tx && other.Outcome == nil &&
			slices.ContainsFunc(other.Sites, func(at commit.SiteStatus) bool { return at.Vote == 0 && slices.Contains(sites, at.Site) }) {
			_, _ = fmt.Fprintln(r.stderr, "it may be aborted, too, as its coordinator sees these sites go:", text(other.String()))
		}
	}
	if r.yes {
		return sites, only, nil
	}
	return sites, only, r.ask(fmt.Sprintf("Retire %s?", text(strings.Join(sites, ", "))))
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
