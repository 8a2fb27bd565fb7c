package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/session"
)

// fewWaiters is the number of waiters of a line that are shown without --all.
const fewWaiters = 10

func (p *program) lsCommand() *cobra.Command {
	var all bool
	var look view
	c := p.command(&cobra.Command{
		Use:   "ls [PATH]",
		Short: "List the locks with holders and waiters, elections, queues … below a path",
		Long: `List the locks, semaphores, elections, queues, barriers, transactions, groups and values at PATH and below it. Of each
line it shows the holders and the first ten waiters, with their data (host:pid by default) and their sessions. Beside a
waiter stands how long it has waited. Beside a holder stands the time since its grant, or "?": the nodes of most recipes
do not show it. "zkactors watch" sees the grants, and shows the time.

The first line counts the states. With --sort wait, the recipe with the longest wait comes first. On a terminal, waits of
--slow and more are yellow, and those of --stuck and more red, unless the variable NO_COLOR is set.

Nodes that the servers do not let you read are listed as forbidden. A path whose last contender has left is an empty
node, and is not listed. What stands below the path of a recipe, and is no part of it, is listed too. A node of no session,
as in a copied tree, is marked. The default of PATH is /.

` + statusHelp,
		Example: "  zkactors ls /\n  zkactors ls --sort wait --slow 30s /\n  zkactors ls --all /locks/backup\n  zkactors ls --json / | jq '.things[] | select(.kind == \"lock\")'",
	}, func(ctx context.Context, path string, _ []string) error {
		if err := look.validate(); err != nil {
			return err
		}
		return p.with(ctx, func(ctx context.Context, s *session.Session) error {
			survey, err := inspect.Look(ctx, s, path, &inspect.Options{MaxWaiters: few(all)})
			switch {
			case err != nil:
				return err
			case !survey.Exists:
				return fail(exitNothing, "there is no node %s", path)
			}
			look.now, look.color = time.Now(), p.colors()
			survey = look.order(survey)
			if p.json {
				return p.printJSON(survey)
			}
			return p.printf("%s", render(survey, look))
		})
	})
	look.flags(c, &all)
	return c
}

// flags adds the flags of the commands that show surveys.
func (v *view) flags(c *cobra.Command, all *bool) {
	c.Flags().BoolVar(all, "all", false, "show all waiters, not only the first ten of a line")
	c.Flags().StringVar(&v.sort, "sort", byPath, "the `order` of the recipes: path, or wait, which begins with the longest wait")
	c.Flags().DurationVar(&v.slow, "slow", time.Minute, "on a terminal, waits of this `duration` are yellow")
	c.Flags().DurationVar(&v.stuck, "stuck", 10*time.Minute, "and those of this `duration` are red")
	_ = c.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions([]string{byPath, byWait}, cobra.ShellCompDirectiveNoFileComp))
}

// colors reports whether text is printed with colors.
func (p *program) colors() bool {
	return p.terminal(p.stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func few(all bool) int {
	if all {
		return 0
	}
	return fewWaiters
}

// thingAt returns the thing at the path, or an error unless it has one of the kinds.
func thingAt(ctx context.Context, s *session.Session, path string, kinds ...inspect.Kind) (inspect.Thing, error) {
	survey, err := inspect.Look(ctx, s, path, nil)
	if err != nil {
		return inspect.Thing{}, err
	}
	var names []string
	for _, kind := range kinds {
		names = append(names, string(kind))
		for _, t := range survey.Things {
			if t.Path == path && t.Kind == kind {
				return t, nil
			}
		}
	}
	for _, t := range survey.Things {
		switch {
		case t.Path == path && t.Forbidden:
			return t, fail(exitForbidden, "%s: %w", path, errors.New(t.Problem))
		case t.Path == path:
			return t, fail(exitNothing, "%s is no %s: it is of the kind %s", path, strings.Join(names, " or "), t.Kind)
		}
	}
	if !survey.Exists {
		return inspect.Thing{}, fail(exitNothing, "there is no node %s", path)
	}
	return inspect.Thing{}, fail(exitNothing, "%s: no client holds it or waits for it", path)
}
