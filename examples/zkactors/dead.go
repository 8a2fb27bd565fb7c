package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
)

// An undertaker implements the commands on dead letters.
type undertaker struct {
	taker

	dead  string
	all   bool
	count int
}

func (p *program) deadCommand() *cobra.Command {
	u := &undertaker{taker: taker{program: p}}
	group := &cobra.Command{
		Use:   "dead list|redrive|purge PATH",
		Short: "List the dead letters of a queue, send them back, or delete them",
		Long: `An item that workers have rejected too often becomes a dead letter of its queue. PATH is that of the queue.

` + statusHelp,
		Example: "  zkactors dead list /queues/mail\n  zkactors dead redrive /queues/mail 6b3d…\n  zkactors dead purge --all --yes /queues/mail",
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("dead: list, redrive or purge is missing")
			}
			return usage("dead: there is no %q: it is list, redrive or purge", args[0])
		},
		DisableFlagsInUseLine: true,
	}
	act := func(use, short, long string, do func(context.Context, string, []string) error) *cobra.Command {
		c := p.command(&cobra.Command{Use: use, Short: short, Long: short + ".\n\n" + long + "\n\n" + statusHelp}, func(ctx context.Context, path string, ids []string) error {
			if u.dead != "" {
				if err := session.ValidatePath(u.dead); err != nil {
					return usage("--dead-letter %q: %w", u.dead, err)
				}
			}
			return do(ctx, path, ids)
		})
		c.Flags().StringVar(&u.dead, "dead-letter", "", "the `path` of the dead letters, if it is not PATH/dead")
		return c
	}
	list := act("list PATH [flags]", "List the dead letters of the queue at PATH",
		`Each line has the id, when it was buried, how many attempts there were, its priority, the error of the last rejection,
and the beginning of the data.`, u.list)
	list.Flags().IntVar(&u.count, "count", 0, "list at most `N` letters; 0 is all")
	redrive := act("redrive PATH [id…]", "Put dead letters at the end of the queue at PATH again",
		`They are put in their order, each once, with their ids, and as if they had not been delivered yet.`, u.redrive)
	redrive.Flags().BoolVar(&u.all, "all", false, "all dead letters")
	purge := act("purge PATH [id…]", "Delete dead letters of the queue at PATH", `They are lost.`, u.purge)
	purge.Flags().BoolVar(&u.all, "all", false, "all dead letters")
	purge.Flags().BoolVarP(&u.yes, "yes", "y", false, "do not ask")
	group.AddCommand(list, redrive, purge)
	return group
}

// use opens the dead letters of a queue, and closes them after f.
func (u *undertaker) use(ctx context.Context, path string, f func(ctx context.Context, dead *queue.Letters) error) error {
	return u.with(ctx, func(ctx context.Context, s *session.Session) error {
		dead, err := queue.DeadLetters(ctx, s, path, &queue.Options{DeadLetter: u.dead})
		if err != nil {
			return err
		}
		return errors.Join(f(ctx, dead), dead.Close(context.WithoutCancel(ctx)))
	})
}

// A letterJSON is a dead letter in JSON.
type letterJSON struct {
	ID       string    `json:"id"`
	Priority int32     `json:"priority,omitempty"`
	Attempts int       `json:"attempts"`
	Cause    string    `json:"cause,omitempty"`
	Origin   string    `json:"origin,omitempty"`
	Put      time.Time `json:"put"`
	Buried   time.Time `json:"buried"`
	Data     string    `json:"data,omitempty"`
	Base64   string    `json:"base64,omitempty"` // instead of data that is no text
}

// together is the number of lines whose columns are aligned.
const together = 100

func (u *undertaker) list(ctx context.Context, path string, _ []string) error {
	if u.count < 0 {
		return usage("--count %d is negative", u.count)
	}
	return u.use(ctx, path, func(ctx context.Context, dead *queue.Letters) error {
		now, n := time.Now(), 0
		w := tabwriter.NewWriter(u.stdout, 0, 0, 2, ' ', 0)
		for l, err := range dead.All(ctx) {
			switch {
			case err != nil:
				return errors.Join(w.Flush(), err)
			case u.json:
				out := letterJSON{l.ID, l.Priority, l.Attempts, l.Cause, l.Origin, l.Put.UTC(), l.Buried.UTC(), string(l.Data), ""}
				if !utf8.Valid(l.Data) {
					out.Data, out.Base64 = "", base64.StdEncoding.EncodeToString(l.Data)
				}
				if err := u.printJSON(out); err != nil {
					return err
				}
			default:
				const shown = 60
				_, _ = fmt.Fprintf(w, "%s\t%s ago\t%s\tpriority %d\t%s\t%s\n", l.ID, age(l.Buried, now), count(l.Attempts, "attempt"), l.Priority,
					text(l.Cause), text(strings.ToValidUTF8(string(l.Data[:min(len(l.Data), shown)]), "")))
			}
			if n++; n == u.count {
				break
			}
			if n%together == 0 {
				if err := w.Flush(); err != nil {
					return err
				}
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if n == 0 {
			return fail(exitNothing, "%s: there are no dead letters", path)
		}
		return nil
	})
}

// chosen checks that the command line names letters, or all.
func (u *undertaker) chosen(command string, ids []string) error {
	switch {
	case len(ids) == 0 && !u.all:
		return usage("dead %s: an id or --all is missing", command)
	case len(ids) > 0 && u.all:
		return usage("dead %s: --all leaves no choice: there must be no id %q", command, ids[0])
	}
	return nil
}

func (u *undertaker) redrive(ctx context.Context, path string, ids []string) error {
	if err := u.chosen("redrive", ids); err != nil {
		return err
	}
	return u.use(ctx, path, func(ctx context.Context, dead *queue.Letters) error {
		if !u.all {
			if err := dead.Redrive(ctx, ids...); err != nil || !u.json {
				return err
			}
			return u.counted("redriven", len(ids), "dead letter")
		}
		n, err := dead.RedriveAll(ctx)
		return errors.Join(u.counted("redriven", n, "dead letter"), err)
	})
}

func (u *undertaker) purge(ctx context.Context, path string, ids []string) error {
	if err := u.chosen("purge", ids); err != nil {
		return err
	}
	if err := u.askable(); err != nil {
		return err
	}
	question := fmt.Sprintf("Delete %s of %s?", count(len(ids), "dead letter"), path)
	if u.all {
		question = "Delete all dead letters of " + path + "?"
	}
	return u.use(ctx, path, func(ctx context.Context, dead *queue.Letters) error {
		if !u.yes {
			if err := u.ask(question); err != nil {
				return err
			}
		}
		if !u.all {
			if err := dead.Purge(ctx, ids...); err != nil || !u.json {
				return err
			}
			return u.counted("deleted", len(ids), "dead letter")
		}
		n, err := dead.PurgeAll(ctx)
		return errors.Join(u.counted("deleted", n, "dead letter"), err)
	})
}
