package main

import (
	"context"
	"errors"
	"fmt"
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
	c := p.command(&cobra.Command{
		Use:   "ls [PATH]",
		Short: "List the locks with holders and waiters, elections, queues … below a path",
		Long: `List the locks, semaphores, elections, queues, barriers, transactions, groups and values at PATH and below it. Of each
line it shows the holders and the first ten waiters, with their data (host:pid by default), the age of their place in
line, and their sessions.

Nodes that the servers do not let you read are listed as forbidden. A path whose last contender has left is an empty
node, and is not listed. The default of PATH is /.

` + statusHelp,
		Example: "  zkactors ls /\n  zkactors ls --all /locks/backup\n  zkactors ls --json / | jq '.things[] | select(.kind == \"lock\")'",
	}, func(ctx context.Context, path string, _ []string) error {
		return p.with(ctx, func(ctx context.Context, s *session.Session) error {
			survey, err := inspect.Look(ctx, s, path, &inspect.Options{MaxWaiters: few(all)})
			switch {
			case err != nil:
				return err
			case !survey.Exists:
				return fail(exitNothing, "there is no node %s", path)
			case p.json:
				return p.printJSON(survey)
			}
			return p.printf("%s", render(survey, time.Now()))
		})
	})
	c.Flags().BoolVar(&all, "all", false, "show all waiters, not only the first ten of a line")
	return c
}

func few(all bool) int {
	if all {
		return 0
	}
	return fewWaiters
}

func (p *program) watchCommand() *cobra.Command {
	var all bool
	c := p.command(&cobra.Command{
		Use:   "watch [PATH]",
		Short: "Show the locks, elections, queues … below a path, live",
		Long: `Print the output of ls, and print it again after each change, until the command is interrupted. On a terminal it redraws
the screen, and the ages advance. Elsewhere it prints below the last output; with --json, on one line.

It gathers changes for a quarter of a second, and for longer if there is more to read.

` + statusHelp,
		Example: "  zkactors watch /locks\n  zkactors watch --json / | jq -c '[.things[].path]'",
	}, func(ctx context.Context, path string, _ []string) error {
		return p.with(ctx, func(ctx context.Context, s *session.Session) error { return p.watch(ctx, s, path, all) })
	})
	c.Flags().BoolVar(&all, "all", false, "show all waiters, not only the first ten of a line")
	return c
}

// clearScreen moves to the upper left corner, and clears the screen from there.
const clearScreen = "\x1b[H\x1b[J"

func (p *program) watch(ctx context.Context, s *session.Session, path string, all bool) error {
	w, err := inspect.Watch(s, path, &inspect.Options{MaxWaiters: few(all)})
	if err != nil {
		return err
	}
	defer w.Close()
	terminal := p.terminal(p.stdout) && !p.json
	var tick <-chan time.Time
	if terminal {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		tick = ticker.C
	}
	state := p.follow(ctx, s)
	var survey *inspect.Survey
	connection := ""
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case connection = <-state:
		case <-tick:
		case next, ok := <-w.Surveys():
			if !ok {
				return w.Err()
			}
			survey = next
		}
		if survey == nil {
			continue
		}
		if err := p.show(survey, terminal, connection); err != nil {
			return err
		}
		if !terminal { // show prints each survey once
			survey = nil
		}
	}
}

// follow returns a channel with a remark about the connection after each of its changes.
func (p *program) follow(ctx context.Context, s *session.Session) <-chan string {
	state := make(chan string, 16)
	cancel := s.Subscribe(func(ev session.Event) <-chan struct{} {
		text := ""
		if _, ok := ev.(session.Suspended); ok {
			text = "disconnected: this is the last known state"
		}
		select {
		case state <- text:
		default:
		}
		return nil
	})
	context.AfterFunc(ctx, cancel)
	return state
}

func (p *program) show(survey *inspect.Survey, terminal bool, connection string) error {
	switch {
	case p.json:
		text, err := marshalLine(survey)
		if err != nil {
			return err
		}
		return p.printf("%s\n", text)
	case terminal:
		head := fmt.Sprintf("%s  %s  %s", survey.Path, time.Now().Format(time.TimeOnly), connection)
		return p.printf("%s%s\n\n%s", clearScreen, strings.TrimSpace(head), render(survey, time.Now()))
	}
	return p.printf("%s\n%s\n", survey.Taken.Format(time.DateTime), render(survey, survey.Taken))
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
