package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/session"
)

// A configurer implements the commands on values.
type configurer struct {
	taker

	file     string
	replaces int
	create   bool
}

func (p *program) configCommand() *cobra.Command {
	c := &configurer{taker: taker{program: p}}
	group := &cobra.Command{
		Use:   "config get|set|diff PATH",
		Short: "Read a value of a configuration, replace it, or compare it with a file",
		Long: `A value is the data of one node, as package config, Curator's NodeCache and others read it. Each change of the node has
a version. A set names the version that it replaces, so that it does not undo a change that nobody has looked at.

` + statusHelp,
		Example: `  zkactors config get /config/mail > mail.json
  zkactors config diff /config/mail mail.json
  zkactors config set /config/mail --replaces 3 --file mail.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("config: get, set or diff is missing")
			}
			return usage("config: there is no %q: it is get, set or diff", args[0])
		},
		DisableFlagsInUseLine: true,
	}
	act := func(use, short, long string, do func(context.Context, string, []string) error) *cobra.Command {
		return p.command(&cobra.Command{Use: use, Short: short, Long: long + "\n\n" + statusHelp}, do)
	}
	set := act("set PATH [value…] [flags]", "Replace the value at PATH", `Replace the value at PATH by the argument, or by the content of --file. --replaces names the version of the present value,
which "zkactors config get" and "zkactors ls" show: if the value has another version by now, nothing is done, and the
status is 75. With --create there must be no value yet.

On a terminal the command shows the difference, and asks. Nodes of other recipes are refused, and so are nodes that live
with a session.`, c.set)
	set.Flags().IntVar(&c.replaces, "replaces", -1, "the `version` of the value that is replaced")
	set.Flags().BoolVar(&c.create, "create", false, "create the value, which must not exist")
	set.Flags().StringVarP(&c.file, "file", "f", "", "take the value from this `file`; - is standard input")
	set.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	group.AddCommand(
		act("get PATH", "Print the value at PATH", `Print the value at PATH, byte by byte, and its version on standard error. On a terminal, control characters are escaped.
In JSON, data that is no text is in the field base64.`, c.get),
		set,
		act("diff PATH FILE…", "Compare the value at PATH with a file", `Print the lines of the value at PATH that are not in FILE, with "-", and the lines that only FILE has, with "+". FILE is
what a set would write; - is standard input. The status is 1 if they differ.`, c.diff),
	)
	return group
}

// A value is the data of a node.
type value struct {
	data []byte
	stat *session.Stat
}

// valueAt reads the value at the path. It returns an error if the node belongs to another recipe.
func valueAt(ctx context.Context, s *session.Session, path string) (value, error) {
	if err := s.Sync(ctx, path); err != nil && !errors.Is(err, session.ErrReadOnly) {
		return value{}, err
	}
	data, stat, err := s.Get(ctx, path)
	switch {
	case errors.Is(err, session.ErrNoNode):
		return value{}, fail(exitNothing, "there is no value at %s", path)
	case err != nil:
		return value{}, err
	case stat.EphemeralOwner != 0:
		return value{}, fail(exitNothing, "%s is no value: the node lives with the session %#x", path, uint64(stat.EphemeralOwner))
	}
	return value{data, stat}, refuseOthers(ctx, s, path)
}

// mostLooked bounds how many nodes are read around a value, to find recipes.
const mostLooked = 5000

// refuseOthers returns an error if the path is that of a recipe other than values, or within one.
func refuseOthers(ctx context.Context, s *session.Session, path string) error {
	for at := path; at != "/" && at != ""; at, _ = znode.Split(at) {
		survey, err := inspect.Look(ctx, s, at, &inspect.Options{MaxNodes: mostLooked, MaxWaiters: 1})
		if err != nil {
			return err
		}
		for _, t := range survey.Things {
			within := t.Path == path || strings.HasPrefix(path, t.Path+"/")
			switch t.Kind {
			case inspect.Values, inspect.Group, inspect.Service, inspect.Unreadable:
				within = within && t.Kind == inspect.Service && t.Path == at
			case inspect.Lock, inspect.Semaphore, inspect.Election, inspect.Queue, inspect.Barrier, inspect.DoubleBarrier, inspect.Transactions,
				inspect.Latch, inspect.Once, inspect.Shards:
			}
			if within {
				return fail(exitNothing, "%s is no value: %s is of the kind %s", path, t.Path, t.Kind)
			}
		}
	}
	return nil
}

func (c *configurer) get(ctx context.Context, path string, _ []string) error {
	return c.with(ctx, func(ctx context.Context, s *session.Session) error {
		v, err := valueAt(ctx, s, path)
		if err != nil {
			return err
		}
		changed := time.UnixMilli(v.stat.Mtime)
		if c.json {
			out := struct {
				Path    string    `json:"path"`
				Version int32     `json:"version"`
				Changed time.Time `json:"changed"`
				Data    string    `json:"data,omitempty"`
				Base64  string    `json:"base64,omitempty"` // instead of data that is no text
			}{path, v.stat.Version, changed.UTC(), string(v.data), ""}
			if !utf8.Valid(v.data) {
				out.Data, out.Base64 = "", base64.StdEncoding.EncodeToString(v.data)
			}
			return c.printJSON(out)
		}
		_, _ = fmt.Fprintf(c.stderr, "%s: version %d, changed %s\n", path, v.stat.Version, when(changed, time.Now()))
		if c.terminal(c.stdout) {
			for _, line := range linesOf(v.data) {
				if err := c.printf("%s\n", printable(line)); err != nil {
					return err
				}
			}
			return nil
		}
		return c.printf("%s", v.data)
	})
}

// content returns the content of a file, or of standard input.
func (c *configurer) content(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(c.stdin)
	}
	return os.ReadFile(file)
}

// next returns the new value, from the arguments or the file.
func (c *configurer) next(args []string) ([]byte, error) {
	switch {
	case c.create == (c.replaces >= 0):
		return nil, usage("config set: either --replaces or --create says what is replaced")
	case len(args) > 1:
		return nil, usage("config set: there is no argument %q after the value", args[1])
	case (len(args) == 0) == (c.file == ""):
		return nil, usage("config set: the value is one argument, or --file")
	case c.file == "-" && c.terminal(c.stdin) && !c.yes:
		return nil, usage("config set: with --file - on a terminal, --yes is needed: the answer cannot be read")
	}
	if c.file == "" {
		return []byte(args[0]), notEmpty([]byte(args[0]))
	}
	data, err := c.content(c.file)
	if err != nil {
		return nil, usage("--file: %w", err)
	}
	return data, notEmpty(data)
}

func notEmpty(data []byte) error {
	if len(data) == 0 {
		return usage("config set: the value is empty: an empty node is a barrier")
	}
	return nil
}

func (c *configurer) set(ctx context.Context, path string, args []string) error {
	data, err := c.next(args)
	if err != nil {
		return err
	}
	return c.with(ctx, func(ctx context.Context, s *session.Session) error {
		if c.create {
			return c.make(ctx, s, path, data)
		}
		v, err := valueAt(ctx, s, path)
		if err != nil {
			return err
		}
		stale := func(now int32) error {
			return fail(exitConflict, "%s has version %d by now, not %d: see zkactors config diff", path, now, c.replaces)
		}
		if int(v.stat.Version) != c.replaces {
			return stale(v.stat.Version)
		}
		if err := c.sure(fmt.Sprintf("Replace version %d of %s?", c.replaces, path), v.data, data); err != nil {
			return err
		}
		stat, err := s.Set(ctx, path, data, v.stat.Version)
		if errors.Is(err, session.ErrBadVersion) {
			return fail(exitConflict, "%s was changed meanwhile: see zkactors config diff", path)
		}
		if err != nil {
			return err
		}
		return c.wrote(path, stat.Version)
	})
}

// make creates a value.
func (c *configurer) make(ctx context.Context, s *session.Session, path string, data []byte) error {
	if err := refuseOthers(ctx, s, path); err != nil {
		return err
	}
	if stat, err := s.Exists(ctx, path); err != nil || stat != nil {
		return cmp.Or(err, fail(exitConflict, "there is a node %s: --replaces names the version of its value", path))
	}
	if err := c.sure("Create "+path+"?", nil, data); err != nil {
		return err
	}
	if dir, _ := znode.Split(path); dir != "/" {
		if err := s.EnsurePath(ctx, dir); err != nil {
			return err
		}
	}
	if _, err := s.Create(ctx, path, data, session.Persistent); err != nil {
		return err
	}
	return c.wrote(path, 0)
}

// sure shows the difference on a terminal, and asks.
func (c *configurer) sure(question string, old, next []byte) error {
	if c.yes || !c.terminal(c.stdin) {
		return nil
	}
	for _, line := range difference(old, next) {
		_, _ = fmt.Fprintln(c.stderr, line)
	}
	return c.ask(question)
}

func (c *configurer) wrote(path string, version int32) error {
	if c.json {
		return c.printJSON(map[string]any{"path": path, "version": version})
	}
	return c.printf("%s: version %d\n", path, version)
}

func (c *configurer) diff(ctx context.Context, path string, args []string) error {
	if len(args) != 1 {
		return usage("config diff: one FILE follows PATH")
	}
	next, err := c.content(args[0])
	if err != nil {
		return usage("config diff: %w", err)
	}
	return c.with(ctx, func(ctx context.Context, s *session.Session) error {
		v, err := valueAt(ctx, s, path)
		if err != nil {
			return err
		}
		lines := difference(v.data, next)
		if c.json {
			err = c.printJSON(map[string]any{"path": path, "version": v.stat.Version, "differs": !bytes.Equal(v.data, next), "lines": append([]string{}, lines...)})
		} else {
			for _, line := range lines {
				err = errors.Join(err, c.printf("%s\n", line))
			}
		}
		if err == nil && !bytes.Equal(v.data, next) {
			return &failure{exitNothing, nil}
		}
		return err
	})
}
