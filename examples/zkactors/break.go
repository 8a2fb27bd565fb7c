package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/examples/zkactors/console"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
)

// A taker implements the commands that ask holders to release, or take the lock away.
type taker struct {
	*program
	yes    bool
	node   string
	force  time.Duration
	layout string // "" for that of the nodes
}

func (t *taker) flags(c *cobra.Command) {
	c.Flags().BoolVarP(&t.yes, "yes", "y", false, "do not ask")
	c.Flags().StringVar(&t.node, "node", "", "only the contender whose node has this `name`, or path; it may also be a waiter")
}

func (p *program) revokeCommand() *cobra.Command {
	t := &taker{program: p}
	c := p.command(&cobra.Command{
		Use:   "revoke PATH [flags]",
		Short: "Ask the holders of a lock to release it",
		Long: `Ask the present holders of the lock at PATH to release it. "zkactors lock" ends its command with SIGTERM. A program that
uses the library receives an event. A holder that does not listen for the request goes on.

Curator's mutex has the same nodes as this library's lock, and another mark. --layout curator asks holders that listen
as Curator's revocable mutex does; holders of this library do not hear that.

With --force-after, a holder that has not released the lock after that time loses it, as by "zkactors break".

` + statusHelp,
		Example: "  zkactors revoke /locks/backup\n  zkactors revoke --yes --force-after 1m /locks/backup",
	}, t.revoke)
	t.flags(c)
	c.Flags().StringVar(&t.layout, "layout", "", "`layout` in which to ask: standard, curator, kazoo or prioritized; the default is that of the nodes")
	c.Flags().DurationVar(&t.force, "force-after", 0, "take the lock away from a holder that has not released it after this `duration`")
	return c
}

func (p *program) breakCommand() *cobra.Command {
	t := &taker{program: p}
	c := p.command(&cobra.Command{
		Use:   "break PATH [flags]",
		Short: "Take a lock, a lease or leadership away, by deleting the holder's node",
		Long: `Delete the node of each holder of the lock, the semaphore or the election at PATH. The next contender in line is
granted at once.

A holder that is connected learns of the loss at once. A holder that is cut off learns of it only at its session's
deadline. Until then two clients may believe that they hold the lock. Only fencing tokens protect the resource that they
work on. Ask the holder first: "zkactors revoke".

A node is deleted only if it is still the node that was shown.

` + statusHelp,
		Example: "  zkactors break /locks/backup\n  zkactors break --yes --node _c_6b3d…-lock-0000000041 /locks/backup",
	}, t.break_)
	t.flags(c)
	return c
}

// chosen returns the contenders that the flags choose.
func (t *taker) chosen(thing inspect.Thing) ([]inspect.Contender, error) {
	if t.node == "" {
		holders := thing.Holders()
		if len(holders) == 0 {
			return nil, fail(exitNothing, "%s: no client holds it", thing.Path)
		}
		return holders, nil
	}
	for _, c := range thing.Contenders {
		if _, name := znode.Split(c.Node); name == t.node || c.Node == t.node {
			return []inspect.Contender{c}, nil
		}
	}
	return nil, fail(exitNothing, "--node %s: no contender for %s has this node", t.node, thing.Path)
}

// confirm prints the chosen contenders, and asks the question.
func (t *taker) confirm(question string, chosen []inspect.Contender) error {
	now := time.Now()
	for _, c := range chosen {
		state := "waits for it"
		if c.Holds {
			state = "holds it"
		}
		live := ", session " + c.Session
		if c.Session == "" {
			live = ", and lives with no session"
		}
		_, _ = fmt.Fprintf(t.stderr, "%s %s, in line since %s (%s)%s\n", shown(c.Identity), state, when(c.Since, now), age(c.Since, now), live)
	}
	if t.yes {
		return nil
	}
	return t.ask(question)
}

// ask asks the question, and returns an error unless the answer is yes.
func (t *taker) ask(question string) error {
	_, _ = fmt.Fprintf(t.stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(t.stdin).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a == "y" || a == "yes" {
		return nil
	}
	return fail(exitNothing, "nothing was done")
}

// askable returns an error if the command must ask a question, but has no terminal for that.
func (t *taker) askable() error {
	if !t.yes && !t.terminal(t.stdin) {
		return usage("--yes is missing: there is no terminal on which to ask")
	}
	return nil
}

func (t *taker) revoke(ctx context.Context, path string, _ []string) error {
	if t.force < 0 {
		return usage("--force-after %v is negative", t.force)
	}
	if _, ok := console.LayoutOf(t.layout); t.layout != "" && !ok {
		return usage("--layout %q: there is no such layout", t.layout)
	}
	if err := t.askable(); err != nil {
		return err
	}
	return t.with(ctx, func(ctx context.Context, s *session.Session) error {
		thing, err := thingAt(ctx, s, path, inspect.Lock)
		if err != nil {
			return err
		}
		if t.layout != "" {
			thing.Layout = t.layout
		}
		layout, err := layoutOf(thing)
		if err != nil {
			return err
		}
		chosen, err := t.chosen(thing)
		if err != nil {
			return err
		}
		if err := t.confirm("Ask to release "+path+"?", chosen); err != nil {
			return err
		}
		opts := &lock.RevokeOptions{ForceAfter: t.force, Layout: layout}
		for _, c := range chosen {
			if err := lock.RevokeNode(ctx, s, c.Node, opts); err != nil {
				return err
			}
		}
		return t.done("asked", chosen)
	})
}

// layoutOf returns the layout of a lock, or an error if its contenders cannot be asked to release.
func layoutOf(thing inspect.Thing) (lock.Layout, error) {
	if layout, ok := console.LayoutOf(thing.Layout); ok {
		return layout, nil
	}
	return 0, fail(exitNothing, "%s: contenders of this layout (%s) cannot be asked to release: see zkactors break", thing.Path, thing.Layout)
}

func (t *taker) break_(ctx context.Context, path string, _ []string) error {
	if err := t.askable(); err != nil {
		return err
	}
	return t.with(ctx, func(ctx context.Context, s *session.Session) error {
		thing, err := thingAt(ctx, s, path, inspect.Lock, inspect.Semaphore, inspect.Election)
		if err != nil {
			return err
		}
		chosen, err := t.chosen(thing)
		if err != nil {
			return err
		}
		if err := t.confirm(fmt.Sprintf("Break the %s %s?", thing.Kind, path), chosen); err != nil {
			return err
		}
		for _, c := range chosen {
			if err := inspect.Break(ctx, s, c); err != nil {
				return err
			}
		}
		return t.done("broken", chosen)
	})
}

// done prints the contenders on which the command has acted.
func (t *taker) done(what string, chosen []inspect.Contender) error {
	if t.json {
		return t.printJSON(map[string][]inspect.Contender{what: chosen})
	}
	for _, c := range chosen {
		if err := t.printf("%s %s\n", what, c.Node); err != nil {
			return err
		}
	}
	return nil
}
