package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
)

// flatLayouts returns the layouts of other libraries, by their names in a survey.
func flatLayouts() map[string]queue.Layout {
	return map[string]queue.Layout{"curator": queue.Curator, "kazoo": queue.Kazoo}
}

// A queuer implements the commands on a queue.
type queuer struct {
	*program
	layout   string
	delay    time.Duration
	priority int
	key      string
	lines    bool
	try      bool
	wait     time.Duration
	count    int
}

func (q *queuer) flags(c *cobra.Command) {
	c.Flags().StringVar(&q.layout, "layout", "standard", "`layout` of the queue: standard, curator or kazoo")
	c.Flags().IntVar(&q.priority, "priority", 0, "the `priority` of the items: lower numbers come first")
	_ = c.RegisterFlagCompletionFunc("layout", cobra.FixedCompletions([]string{"standard", "curator", "kazoo"}, cobra.ShellCompDirectiveNoFileComp))
}

func (p *program) putCommand() *cobra.Command {
	q := &queuer{program: p}
	c := p.command(&cobra.Command{
		Use:   "put PATH [item…]",
		Short: "Put items into a queue",
		Long: `Put items into the queue at PATH, and print their ids. Without items on the command line, it puts the data of
standard input: one item, or with --lines an item for each line.

An item is put once, even if a reply of the servers is lost. The items of one call are put in their order. With --key
the item is not put if another item was put with the same key in the last ten minutes. Then the command prints the id of
the other item, and its status is 1.

` + statusHelp,
		Example: "  zkactors put /queues/mail 'to: ann'\n  zkactors put --lines /queues/mail < addresses\n  zkactors put --delay 10m /queues/mail later\n  zkactors put --key order-17 /queues/mail 'to: ann'",
	}, q.put)
	q.flags(c)
	c.Flags().DurationVar(&q.delay, "delay", 0, "deliver the items only after this `duration`")
	c.Flags().BoolVar(&q.lines, "lines", false, "each line of standard input is an item")
	c.Flags().StringVar(&q.key, "key", "", "put the item unless another was put with this `key` lately")
	return c
}

func (p *program) takeCommand() *cobra.Command {
	q := &queuer{program: p}
	c := p.command(&cobra.Command{
		Use:   "take PATH [flags]",
		Short: "Take items out of a queue",
		Long: `Take the first item out of the queue at PATH, and print it with a newline. If the queue is empty it waits for an item.
The item is removed before it is printed: if the output is lost, the item is lost too.

` + statusHelp,
		Example: "  zkactors take /queues/mail\n  zkactors take -n /queues/mail || echo empty\n  zkactors take --count 100 -w 5s /queues/mail",
	}, q.take)
	q.flags(c)
	c.Flags().BoolVarP(&q.try, "try", "n", false, "do not wait if the queue is empty")
	c.Flags().DurationVarP(&q.wait, "wait", "w", 0, "wait at most this `duration` for an item; 0 is forever")
	c.Flags().IntVar(&q.count, "count", 1, "take `N` items")
	return c
}

func (p *program) lenCommand() *cobra.Command {
	return p.command(&cobra.Command{
		Use:   "len PATH",
		Short: "Print the number of items in a queue",
		Long: `Print the number of items in the queue at PATH, including claimed and delayed items. If the node does not exist, the
number is 0.

` + statusHelp,
		Example: "  zkactors len /queues/mail",
	}, func(ctx context.Context, path string, _ []string) error {
		return p.with(ctx, func(ctx context.Context, s *session.Session) error {
			thing, err := thingAt(ctx, s, path, inspect.Queue)
			if thing.Path == "" && statusOf(err) == exitNothing { // an empty queue may have no node, or an empty one
				thing.Queue, err = &inspect.QueueState{}, nil
			}
			switch {
			case err != nil:
				return err
			case p.json:
				return p.printJSON(thing.Queue)
			}
			return p.printf("%d\n", thing.Queue.Items)
		})
	})
}

// onQueue returns a command on a whole queue of the standard layout.
func (p *program) onQueue(c *cobra.Command, check func() error, do func(ctx context.Context, q *queue.Priority, path string) error) *cobra.Command {
	c.Long += "\n\n" + statusHelp
	return p.command(c, func(ctx context.Context, path string, _ []string) error {
		if err := check(); err != nil {
			return err
		}
		return (&queuer{program: p, layout: "standard"}).use(ctx, path, func(ctx context.Context, pq *queue.Priority, _ *queue.Flat) error {
			return do(ctx, pq, path)
		})
	})
}

func unchecked() error { return nil }

func (p *program) pauseCommand() *cobra.Command {
	return p.onQueue(&cobra.Command{
		Use:   "pause PATH",
		Short: "Pause a queue for all its workers",
		Long: `Pause the queue at PATH: nobody claims or takes an item of it until "zkactors resume". Workers stop within a second. They
finish the items that they have claimed. Items can be put.`,
		Example: "  zkactors pause /queues/mail",
	}, unchecked, func(ctx context.Context, q *queue.Priority, path string) error {
		if err := q.Pause(ctx); err != nil {
			return err
		}
		return p.did("paused", path)
	})
}

func (p *program) resumeCommand() *cobra.Command {
	return p.onQueue(&cobra.Command{
		Use:     "resume PATH",
		Short:   "End the pause of a queue",
		Long:    "End the pause of the queue at PATH, if it is paused.",
		Example: "  zkactors resume /queues/mail",
	}, unchecked, func(ctx context.Context, q *queue.Priority, path string) error {
		if err := q.Resume(ctx); err != nil {
			return err
		}
		return p.did("resumed", path)
	})
}

func (p *program) drainCommand() *cobra.Command {
	var wait time.Duration
	c := p.onQueue(&cobra.Command{
		Use:     "drain PATH [flags]",
		Short:   "Wait until a queue is empty",
		Long:    "Wait until the queue at PATH has no item, claimed and delayed ones included.",
		Example: "  zkactors drain -w 1h /queues/mail",
	}, func() error {
		if wait < 0 {
			return usage("--wait %v is negative", wait)
		}
		return nil
	}, func(ctx context.Context, q *queue.Priority, path string) error {
		ctx, cancel := waiting(ctx, wait)
		defer cancel()
		if err := q.Drain(ctx); err != nil {
			return err
		}
		return p.did("empty", path)
	})
	c.Flags().DurationVarP(&wait, "wait", "w", 0, "wait at most this `duration`; 0 is forever")
	return c
}

func (p *program) purgeCommand() *cobra.Command {
	t := &taker{program: p}
	c := p.onQueue(&cobra.Command{
		Use:     "purge PATH [flags]",
		Short:   "Delete the items of a queue",
		Long:    "Delete all items of the queue at PATH, delayed ones too, but for those that workers have claimed.",
		Example: "  zkactors pause /queues/mail && zkactors purge --yes /queues/mail",
	}, t.askable, func(ctx context.Context, q *queue.Priority, path string) error {
		if !t.yes {
			if err := t.ask("Delete all items of " + path + "?"); err != nil {
				return err
			}
		}
		n, err := q.Purge(ctx)
		return errors.Join(p.counted("deleted", n, "item"), err)
	})
	c.Flags().BoolVarP(&t.yes, "yes", "y", false, "do not ask")
	return c
}

// counted prints on how many things the command has acted.
func (p *program) counted(what string, n int, noun string) error {
	if p.json {
		return p.printJSON(map[string]int{what: n})
	}
	return p.printf("%s %s\n", count(n, noun), what)
}

// validate checks the flags.
func (q *queuer) validate() error {
	_, ok := flatLayouts()[q.layout]
	switch {
	case !ok && q.layout != "standard":
		return usage("--layout %q is none of standard, curator and kazoo", q.layout)
	case q.priority < math.MinInt32 || q.priority > math.MaxInt32:
		return usage("--priority %d is not a number of 32 bits", q.priority)
	case q.layout != "standard" && q.priority != 0:
		return usage("--priority needs --layout standard")
	case q.layout != "standard" && q.delay != 0:
		return usage("--delay needs --layout standard")
	case q.delay < 0:
		return usage("--delay %v is negative", q.delay)
	case q.wait < 0:
		return usage("--wait %v is negative", q.wait)
	case q.try && q.wait > 0:
		return usage("--try (-n) does not wait: leave it out, or --wait (-w)")
	}
	return nil
}

// use opens the queue, as one of all priorities or as a flat one, and closes it after f.
func (q *queuer) use(ctx context.Context, path string, f func(ctx context.Context, pq *queue.Priority, flat *queue.Flat) error) error {
	return q.with(ctx, func(ctx context.Context, s *session.Session) error {
		if layout, ok := flatLayouts()[q.layout]; ok {
			flat, err := queue.NewFlat(s, path, layout, nil)
			if err != nil {
				return err
			}
			return errors.Join(f(ctx, nil, flat), flat.Close(context.WithoutCancel(ctx)))
		}
		pq, err := queue.NewPriority(s, path, nil)
		if err != nil {
			return err
		}
		return errors.Join(f(ctx, pq, nil), pq.Close(context.WithoutCancel(ctx)))
	})
}

func (q *queuer) put(ctx context.Context, path string, args []string) error {
	if err := q.validate(); err != nil {
		return err
	}
	if q.lines && len(args) > 0 {
		return usage("--lines reads standard input: there must be no argument %q", args[0])
	}
	items, err := q.items(args)
	if err != nil {
		return err
	}
	if q.key != "" && (q.delay > 0 || len(items) != 1 || q.layout != "standard") {
		return usage("--key is for one item of a queue of the standard layout, without --delay")
	}
	return q.use(ctx, path, func(ctx context.Context, pq *queue.Priority, flat *queue.Flat) error {
		var ids []string
		var err error
		switch {
		case q.key != "":
			id, failed := pq.PutOnce(ctx, q.key, items[0], int32(q.priority))
			if err = failed; id != "" {
				ids = append(ids, id)
			}
		case flat != nil:
			ids, err = flat.PutAll(ctx, items)
		case q.delay > 0:
			for _, item := range items {
				id, failed := pq.PutAfter(ctx, item, int32(q.priority), q.delay)
				if failed != nil {
					err = failed
					break
				}
				ids = append(ids, id)
			}
		default:
			ids, err = pq.PutAll(ctx, items, int32(q.priority))
		}
		if q.json {
			return errors.Join(err, q.printJSON(map[string][]string{"ids": ids}))
		}
		for _, id := range ids {
			err = errors.Join(err, q.printf("%s\n", id))
		}
		return err
	})
}

// items returns the items on the command line, or else those on standard input.
func (q *queuer) items(args []string) (items [][]byte, err error) {
	for _, arg := range args {
		items = append(items, []byte(arg))
	}
	if len(items) > 0 {
		return items, nil
	}
	all, err := io.ReadAll(q.stdin)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	if !q.lines {
		return [][]byte{all}, nil
	}
	for line := range bytes.Lines(all) {
		items = append(items, bytes.TrimSuffix(line, []byte("\n")))
	}
	if len(items) == 0 {
		return nil, fail(exitNothing, "standard input is empty: there is nothing to put")
	}
	return items, nil
}

func (q *queuer) take(ctx context.Context, path string, _ []string) error {
	if err := q.validate(); err != nil {
		return err
	}
	if q.count < 1 {
		return usage("--count %d is not positive", q.count)
	}
	return q.use(ctx, path, func(ctx context.Context, pq *queue.Priority, flat *queue.Flat) error {
		for range q.count {
			item, err := q.takeOne(ctx, pq, flat)
			if err == nil || item != nil {
				err = errors.Join(q.printItem(item), err)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *queuer) takeOne(ctx context.Context, pq *queue.Priority, flat *queue.Flat) ([]byte, error) {
	ctx, cancel := waiting(ctx, q.wait)
	defer cancel()
	switch {
	case flat != nil && q.try:
		return flat.TryTake(ctx)
	case flat != nil:
		return flat.Take(ctx)
	case q.try:
		return pq.TryTake(ctx)
	}
	return pq.Take(ctx)
}

func (q *queuer) printItem(item []byte) error {
	switch {
	case !q.json:
		return q.printf("%s\n", item)
	case utf8.Valid(item):
		return q.printJSON(map[string]string{"data": string(item)})
	}
	return q.printJSON(map[string][]byte{"base64": item})
}
