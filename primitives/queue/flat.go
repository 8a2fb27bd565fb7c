package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/sharing"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// A Flat is a queue that it shares with clients of other libraries. Its items stand under its path,
// and have nothing but their data. So it has no priorities of its own, delays, bounds, claims or
// attempts, and no [Consumer]. It is safe for concurrent use. It should be closed when it is not
// used any more, at the latest with its session.
type Flat struct {
	live     *session.Session
	session  client.Session
	path     string
	layout   Layout
	mode     session.CreateMode // of its items
	receipts *receipt.Writer
	puts     flatPuts
	takes    flatTakes

	mu      sync.Mutex
	checked bool            // set when the path was seen to be a queue of this layout
	listed  []string        // the items that were listed and not tried, in order
	tried   map[string]bool // the items that calls try
	asking  []flatQuestion  // calls that wait for a list
	lists   bool            // set while one is under way
}

// A Layout determines which nodes are the items of a [Flat].
type Layout int

const (
	// Curator is the layout of Curator's SimpleDistributedQueue, and of ZooKeeper's own recipe:
	// qn-<sequence> under the path.
	Curator Layout = iota + 1

	// Kazoo is the layout of kazoo's Queue: entry-100-<sequence> under the path, where 100 is the
	// priority. Items with another priority are taken in their order. The path stays when it is
	// empty. kazoo's LockingQueue has a different layout, which this package does not have.
	Kazoo
)

// FlatOptions are optional parameters for [NewFlat]. A nil *FlatOptions is equivalent to a zero
// FlatOptions.
type FlatOptions struct {
	// Ephemeral makes items that are deleted when the session of their producer ends.
	Ephemeral bool

	// Receipts is the directory for the receipts of this client, which show after a lost reply
	// whether a transaction was done. It may be shared by any number of queues. The default is
	// _queue-receipts beside the queue: other clients would take a receipt below the path for an
	// item.
	//
	// The other libraries need no right to create nodes there. If this client has none, it does
	// without receipts, which is logged: then a lost reply leaves the outcome unknown.
	Receipts string
}

// NewFlat returns the queue at path that has the layout of another library, [Curator] or [Kazoo].
// It does no I/O: the path need not exist.
//
// If opts is nil, the default options are used. The error describes the problem in the arguments.
func NewFlat(s *session.Session, path string, layout Layout, opts *FlatOptions) (*Flat, error) {
	o := client.Options(opts)
	err := client.Validate(recipe, s, func() error {
		err := client.CheckPlace(s, "queue: path", path, "a queue")
		if layout != Curator && layout != Kazoo {
			err = errors.Join(err, fmt.Errorf("queue: layout: %w: %d", session.ErrInvalidArgument, layout))
		}
		if o.Receipts == "" {
			return err
		}
		if refused := client.CheckPath(s, o.Receipts); refused != nil {
			return errors.Join(err, fmt.Errorf("queue: FlatOptions.Receipts: %w", refused))
		}
		if strings.HasPrefix(o.Receipts+"/", path+"/") {
			return errors.Join(err, fmt.Errorf("queue: FlatOptions.Receipts: %w %q: it must not be the queue, or below it", session.ErrInvalidPath, o.Receipts))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	f := newFlatOf(client.Of(s), path, layout, o)
	f.live = s
	return f, nil
}

// newFlatOf is NewFlat, for any session.
func newFlatOf(s client.Session, path string, layout Layout, o FlatOptions) *Flat {
	f := &Flat{session: s, path: path, layout: layout, mode: session.PersistentSequential, tried: make(map[string]bool)}
	if o.Ephemeral {
		f.mode = session.EphemeralSequential
	}
	if o.Receipts == "" {
		parent, _ := znode.Split(path)
		o.Receipts = znode.Join(parent, nodes.QueueReceipts)
	}
	f.receipts = receipt.New(s, o.Receipts)
	f.receipts.Bare = f.noteBare
	f.puts.of, f.takes.of = f, f
	f.puts.Rule, f.takes.Rule = &f.puts, &f.takes
	return f
}

// noteBare notes that there are no receipts.
func (f *Flat) noteBare(reason error) {
	client.Log(f.session, slog.LevelWarn, recipe, f.path, "no receipts: a lost reply leaves the outcome unknown", slog.Any("reason", reason))
}

// Put puts an item behind all others of its priority, and returns the name of its node when the
// server has confirmed it.
//
// If the error wraps [session.ErrUnknownOutcome], ctx has ended, or the session has expired, before
// the outcome was known: the item may have been put, or be put a little later. With any other error
// the item was not put. A lost reply alone is no error, unless there are no receipts; but then the
// name is "". See [FlatOptions.Receipts].
func (f *Flat) Put(ctx context.Context, data []byte) (name string, err error) {
	names, err := f.PutAll(ctx, [][]byte{data})
	if len(names) == 0 {
		return "", err
	}
	return names[0], err
}

// PutAll puts all items or none, one behind the other. It is [Flat.Put] otherwise. Calls that come
// at the same time share transactions.
func (f *Flat) PutAll(ctx context.Context, data [][]byte) (names []string, err error) {
	called := f.session.Age()
	defer func() { f.session.Observer().Put(f.path, len(data), f.session.Age()-called, err) }()
	if err := client.CheckContext(ctx); err != nil {
		return nil, f.explain(err)
	}
	if len(data) == 0 {
		return nil, f.explain(fmt.Errorf("%w: there are no items", session.ErrInvalidArgument))
	}
	if i := slices.IndexFunc(data, func(d []byte) bool { return d == nil }); i >= 0 {
		return nil, f.explain(fmt.Errorf("%w: data of item %d is nil", session.ErrInvalidArgument, i))
	}
	if err := f.session.Fits(append(f.creations(data), f.receipts.Longest())...); err != nil {
		return nil, f.explain(fmt.Errorf("items: %w", err))
	}
	var created []session.OpResult
	err = procedure.Await(ctx, func(done func(error)) func() {
		return f.puts.Begin(&flatPut{Part: sharing.Part{Answer: func(results []session.OpResult, err error) {
			created = results
			done(err)
		}}, data: data})
	})
	if err == nil {
		names = make([]string, len(data))
		for i, r := range created {
			_, names[i] = znode.Split(r.Path)
		}
	}
	return names, f.explain(err)
}

// Take takes the first item that no other call on the handle is taking. It waits for such an item.
// All processes that take begin at the same item: together they are no faster than one. It is
// [Queue.Take] otherwise; a lost reply is an error only if there are no receipts, see
// [FlatOptions.Receipts].
func (f *Flat) Take(ctx context.Context) ([]byte, error) { return f.take(ctx, flatCall{waits: true}) }

// TryTake is Take, but fails with [ErrEmpty] when the session's server knows of no item to take.
func (f *Flat) TryTake(ctx context.Context) ([]byte, error) { return f.take(ctx, flatCall{}) }

// Peek returns the data of the first item, and leaves it where it is. It fails with [ErrEmpty] if
// the session's server knows of none.
func (f *Flat) Peek(ctx context.Context) ([]byte, error) { return f.take(ctx, flatCall{peeks: true}) }

// Len returns the number of items. The session's server may lag behind the others.
func (f *Flat) Len(ctx context.Context) (int, error) {
	if err := f.receipts.Open(); err != nil {
		return 0, f.explain(err)
	}
	n, err := stock.AskAgain(ctx, func(answer func(int, error)) {
		f.list(func(names []string, _ stock.Children, err error) { answer(len(names), err) })
	})
	return n, f.explain(err)
}

// Close removes the receipts of the handle. It is [Queue.Close] otherwise.
func (f *Flat) Close(ctx context.Context) error {
	return f.explain(f.receipts.EndAll(ctx, f.live))
}

func (f *Flat) explain(err error) error { return client.Wrap(f.session, err, "queue ", f.path) }

// String describes the queue in one short line.
func (f *Flat) String() string { return "queue " + f.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (f *Flat) Format(state fmt.State, _ rune) { client.Print(state, f) }

// prefix returns the prefix of the items that are put.
func (l Layout) prefix() string {
	return [...]string{Curator: "qn-", Kazoo: "entry-100-"}[l]
}

// owns reports whether an item has the name.
func (l Layout) owns(name string) bool {
	prefix := l.prefix()
	if l == Kazoo {
		rest, ok := strings.CutPrefix(name, "entry-")
		priority, _, _ := strings.Cut(rest, "-")
		if _, err := strconv.ParseUint(priority, 10, 31); !ok || err != nil || len(priority) < 3 {
			return false
		}
		prefix = "entry-" + priority + "-"
	}
	sequence, ok := strings.CutPrefix(name, prefix)
	_, err := strconv.ParseInt(sequence, 10, 32)
	return ok && err == nil && len(sequence) >= layout.Digits
}
