package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
)

// A limiter implements the command set-limit.
type limiter struct {
	taker
	create bool
}

func (p *program) setLimitCommand() *cobra.Command {
	l := &limiter{taker: taker{program: p}}
	c := p.command(&cobra.Command{
		Use:   "set-limit PATH N… [flags]",
		Short: "Change the limit of a semaphore",
		Long: `Change the limit of the semaphore at PATH to N, at once. If it rises, waiters proceed. If it sinks, holders keep their
leases, so for a while more may be held. A waiter that wants more than N is refused. So is a client that comes later and
asks for the old limit, as "zkactors lock --limit" does, unless its program accepts any limit: change the programs too.

Only a semaphore of this library records a limit that can be changed. With --create the limit is recorded before the first
client comes, and stays after the last.

` + statusHelp,
		Example: "  zkactors set-limit /limits/export 8\n  zkactors set-limit --yes --create /limits/import 2",
	}, l.run)
	c.Flags().BoolVarP(&l.yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&l.create, "create", false, "record the limit if there is no semaphore yet")
	return c
}

func (l *limiter) run(ctx context.Context, path string, args []string) error {
	if len(args) != 1 {
		return usage("set-limit: one number follows PATH")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 {
		return usage("set-limit: %q is not a positive number", args[0])
	}
	if err := l.askable(); err != nil {
		return err
	}
	return l.with(ctx, func(ctx context.Context, s *session.Session) error {
		old, err := l.present(ctx, s, path)
		if err != nil {
			return err
		}
		if !l.yes {
			if err := l.ask(l.question(path, old, n)); err != nil {
				return err
			}
		}
		if err := semaphore.SetLimit(ctx, s, path, n); err != nil {
			return err
		}
		if l.json {
			return l.printJSON(map[string]any{"path": path, "limit": n, "was": old.Limit})
		}
		return l.printf("%s: limit %d\n", path, n)
	})
}

// present returns the semaphore at the path, or the zero Thing if one may be created there.
func (l *limiter) present(ctx context.Context, s *session.Session, path string) (inspect.Thing, error) {
	thing, err := thingAt(ctx, s, path, inspect.Semaphore)
	if err != nil {
		stat, failed := s.Exists(ctx, path)
		switch {
		case failed != nil:
			return thing, failed
		case stat != nil:
			return thing, err
		case l.create:
			return inspect.Thing{}, refuseOthers(ctx, s, path)
		}
		return thing, fail(exitNothing, "there is no semaphore %s: --create records a limit for one", path)
	}
	if thing.Layout != "standard" {
		return thing, fail(exitNothing, "%s: semaphores of this layout (%s) have no limit that can be changed", path, thing.Layout)
	}
	if _, err := semaphore.Limit(ctx, s, path); errors.Is(err, semaphore.ErrLimit) {
		return thing, fail(exitNothing, "%w", err)
	}
	return thing, nil
}

func (l *limiter) question(path string, old inspect.Thing, n int) string {
	if old.Limit == 0 {
		return fmt.Sprintf("Record the limit %d for %s?", n, path)
	}
	text := fmt.Sprintf("Change the limit of %s from %d to %d?", path, old.Limit, n)
	if old.Held > n {
		text = fmt.Sprintf("%d are held, and stay held until they are released. %s", old.Held, text)
	}
	return text
}
