package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/filing"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/sharing"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/primitives/queue/internal/taking"
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
// It does no I/O: the path need not exist. At a path of another recipe all calls fail with
// [ErrForeign].
//
// If opts is nil, the default options are used. The error describes the problem in the arguments.
func NewFlat(s *session.Session, path string, layout Layout, opts *FlatOptions) (*Flat, error) {
	o := client.Options(opts)
	err := client.Validate(recipe, s, func() error {
		err := client.CheckPlace(s, "queue", "path", path, "a queue")
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
// server has confirmed it. The data may be empty; nil is empty, too. Consumers of Curator and kazoo
// receive such an item as any other: it is written as data of no bytes. A node without data, which
// other clients may make, they delete, and report that the queue is empty; [Flat.Take] returns it.
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
// at the same time share transactions. Without items it makes no request, and returns nil.
func (f *Flat) PutAll(ctx context.Context, data [][]byte) (names []string, err error) {
	called := f.session.Age()
	defer func() { f.session.Observer().Put(f.path, len(data), f.session.Age()-called, err) }()
	if err := client.CheckContext(ctx); err != nil {
		return nil, f.explain(err)
	}
	if len(data) == 0 {
		return nil, nil
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

// A flatCaller performs the effects of a call.
type flatCaller struct {
	*Flat
	call   flatCall
	data   [][]byte // of the items that it puts
	answer func(flatGive)

	requests client.Async
	pauses   owned.Set
	name     string         // that it tries; guarded by the mutex of the handle
	over     bool           // set when it tries nothing any more; guarded too
	seen     stock.Children // of the path, when there was no item
	linger   func()         // keeps the newest transaction from being sent, if it was not
	forgo    func()         // leaves it
}

// begin has a call done. Abandon has it answered as soon as that loses nothing.
func (k *flatCaller) begin() (abandon func()) {
	k.requests = k.session.Async(0)
	k.pauses.Clock = k.session
	m := procedure.Run(k.call, k.perform, flatInput(flatBegun{k.isChecked()}))
	return func() { m.Tell(flatDrop{}) }
}

// take takes an item, or peeks at one, and waits for the answer.
func (f *Flat) take(ctx context.Context, call flatCall) (data []byte, err error) {
	if err := f.receipts.Open(); err != nil {
		return nil, f.explain(err)
	}
	err = procedure.Await(ctx, func(done func(error)) func() {
		k := &flatCaller{Flat: f, call: call, answer: func(g flatGive) {
			if data = g.item.data; g.item.name != "" && !call.peeks {
				f.reportTaken(g)
			}
			done(g.err)
		}}
		return k.begin()
	})
	return data, f.explain(err)
}

// reportTaken reports to the observer that an item was taken, or perhaps was.
func (f *Flat) reportTaken(g flatGive) {
	end := took
	if g.err != nil {
		end = lost
	}
	o := f.session.Observer()
	o.Delivered(f.path, f.receipts.Age(g.item.since), 1)
	o.Settled(f.path, string(end), 0)
}

func (k *flatCaller) perform(e flatEffect, tell func(flatInput)) {
	slowly := func(err error, in flatInput) { k.pauses.Answer(err, func() { tell(in) }) }
	switch e := e.(type) {
	case flatCheck:
		k.list(func(_ []string, _ stock.Children, err error) { slowly(err, flatDone{err}) })
	case flatMake:
		k.make(func(err error) { slowly(err, flatDone{err}) })
	case flatPick:
		k.settle("", false)
		if k.call.peeks {
			k.list(func(names []string, seen stock.Children, err error) {
				k.seen = seen
				slowly(err, flatPicked{append(names, "")[0], err})
			})
			return
		}
		k.pick(func(name string, seen stock.Children, err error) {
			k.settle(name, false)
			k.seen = seen
			slowly(err, flatPicked{name, err})
		})
	case flatIdle:
		k.idle(tell)
	case flatFetch:
		stock.Present(k.session, &k.pauses, func(epoch int, err error) {
			if err != nil {
				slowly(err, flatRead{flatItem{name: e.name}, err})
				return
			}
			lease := k.session.Lease()
			k.session.Async(epoch).Get(znode.Join(k.path, e.name), func(data []byte, stat *session.Stat, err error) {
				item := flatItem{name: e.name, data: data, epoch: epoch, lease: lease}
				if err == nil {
					item.version, item.since = stat.Version, stat.Ctime
				}
				slowly(err, flatRead{item, err})
			})
		})
	case flatSend:
		answer := func(results []session.OpResult, err error) { tell(flatSent{results, stock.Refused(results, err)}) }
		if k.call.puts {
			k.forgo = k.receipts.Begin(0, k.creations(k.data), answer)
			return
		}
		c := &flatTake{sharing.Part{Answer: answer}, e.item}
		k.forgo = k.takes.Begin(c)
		k.linger = func() { k.takes.Linger(c) }
	case flatLinger:
		k.linger()
		receipt.Lapses(k.session, k.live, &k.pauses, func() { tell(flatLapsed{}) })
	case flatForgo:
		k.forgo()
	case flatGive:
		k.settle("", true)
		if e.err != nil { // what failed is not listed any more, and may still be the first
			k.forget()
		}
		k.receipts.Forget(k)
		k.pauses.End()
		k.answer(e)
	}
}

// idle answers when the path is not as it was seen. Other clients stand in no line: all that wait
// are woken.
func (k *flatCaller) idle(tell func(flatInput)) {
	var once sync.Once
	sub := k.requests.Follow(k.path, session.AspectChildren, true, func(r session.Reading, err error) {
		if err != nil || stock.ChildrenOf(r.Stat) != k.seen {
			once.Do(func() { tell(flatChanged{}) })
		}
	})
	k.pauses.Keep(flatIdle{}, owned.Func(sub.Cancel))
	k.receipts.TellClosed(k, func() { tell(flatShut{}) })
}

// isChecked reports whether the path was seen to be a queue of this layout.
func (f *Flat) isChecked() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.checked
}

// list lists the items, in order.
func (f *Flat) list(answer func(names []string, seen stock.Children, err error)) {
	list := f.session.Async(0).Children
	if !f.isChecked() {
		list = func(path string, answer func([]string, *session.Stat, error)) {
			stock.InspectData(f.session.Async(0), path, answer)
		}
	}
	list(f.path, func(names []string, stat *session.Stat, err error) {
		seen := stock.Children{}
		if err == nil {
			seen = stock.ChildrenOf(stat)
			names = slices.Clone(names)
			if other := f.layout.sort(names); other != "" {
				err = layout.ForeignChild(f.path, other)
			}
		}
		if err = client.Without(err, session.ErrNoNode); err == nil {
			f.mu.Lock()
			f.checked = true
			f.mu.Unlock()
		}
		answer(names, seen, err)
	})
}

// A flatQuestion is answered with the name of an item, "" if there is none.
type flatQuestion func(name string, seen stock.Children, err error)

// pick answers with the first item that no other call of the handle tries. One list serves all
// calls, unless later items may come before those that were listed.
func (f *Flat) pick(answer flatQuestion) {
	f.mu.Lock()
	if len(f.listed) > 0 {
		name := f.listed[0]
		f.listed = f.listed[1:]
		f.tried[name] = true
		f.mu.Unlock()
		answer(name, stock.Children{}, nil)
		return
	}
	f.asking = append(f.asking, answer)
	lists := !f.lists
	f.lists = true
	f.mu.Unlock()
	if lists {
		f.list(f.listedAnew)
	}
}

// listedAnew answers those that have asked for a list. Items that others try are picked only if
// there are no others: they may fail.
func (f *Flat) listedAnew(names []string, seen stock.Children, err error) {
	if err != nil {
		names = nil // they may be another layout's
	}
	f.mu.Lock()
	free := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return f.tried[name] })
	asking := f.asking
	f.asking, f.lists = nil, false
	answers := make([]string, len(asking))
	for i := range asking {
		switch {
		case len(free) > 0:
			answers[i], free = free[0], free[1:]
		case len(names) > 0:
			answers[i] = names[i%len(names)]
		}
		if answers[i] != "" {
			f.tried[answers[i]] = true
		}
	}
	if f.layout != Kazoo {
		f.listed = free
	}
	f.mu.Unlock()
	for i, answer := range asking {
		answer(answers[i], seen, err)
	}
}

// settle notes that the call tries another item now, or none if its name is "".
func (k *flatCaller) settle(name string, over bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.name != "" {
		delete(k.tried, k.name)
	}
	if k.name, k.over = name, k.over || over; k.over { // an answer may come late
		delete(k.tried, name)
	}
}

// forget forgets the list.
func (f *Flat) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed = nil
}

// make makes the path.
func (k *flatCaller) make(answer func(error)) {
	if k.layout != Kazoo {
		k.requests.EnsurePath(k.path, func(_ bool, err error) { answer(err) })
		return
	}
	client.MakePersistent(k.requests, k.path, func(_ bool, err error) { answer(err) })
}

// creations returns the operations that put items.
func (f *Flat) creations(data [][]byte) (ops []session.Op) {
	for _, d := range data {
		if d == nil {
			d = []byte{} // a node without data would be an empty queue to consumers of the others
		}
		ops = append(ops, session.CreateOp(znode.Join(f.path, f.layout.prefix()), d, f.mode))
	}
	return ops
}

// A flatPut is a call that puts items.
type flatPut struct {
	sharing.Part

	data  [][]byte
	alone bool // set when it was refused together with others
}

// flatPuts are the transactions of a handle that put items.
type flatPuts struct {
	sharing.Pool[*flatPut]

	of *Flat
}

func (p *flatPuts) IsFree(_ []*flatPut, under int) bool {
	return under == 0 || under < filing.LaneDepth && p.of.isChecked()
}

func (p *flatPuts) Group(waiting []*flatPut) (n int, begin func(func([]session.OpResult, error)) func()) {
	k := &flatCaller{Flat: p.of, call: flatCall{puts: true}}
	items := len(waiting[0].data)
	n = 1
	for !waiting[0].alone && n < len(waiting) && !waiting[n].alone && items+len(waiting[n].data) <= filing.LaneItems {
		items += len(waiting[n].data)
		n++
	}
	n = sharing.Halve(n, func(n int) bool {
		k.data = nil
		for _, c := range waiting[:n] {
			k.data = append(k.data, c.data...)
		}
		return n == 1 || p.of.receipts.Takes(p.of.creations(k.data)...)
	})
	return n, func(answer func([]session.OpResult, error)) func() {
		k.answer = func(g flatGive) { answer(g.created, g.err) }
		return k.begin()
	}
}

// Divide divides an answer. Calls that were refused together are tried one by one, or as many as
// the server takes.
func (p *flatPuts) Divide(calls []*flatPut, created []session.OpResult, err error) (parts []sharing.Share) {
	again := err != nil && !session.InDoubt(err) && len(calls) > 1
	for _, c := range calls {
		own := created[:min(len(created), len(c.data))]
		created = created[len(own):]
		c.alone = c.alone || again && !errors.Is(err, session.ErrTooLarge)
		parts = append(parts, sharing.Share{Results: own, Err: err, Again: again})
	}
	return parts
}

// A flatTake is the transaction of one taker.
type flatTake struct {
	sharing.Part

	item flatItem
}

// flatTakes are the transactions of a handle that take items. A refused taker is left out, and the
// others go again.
type flatTakes struct {
	sharing.Pool[*flatTake]

	of   *Flat
	size int // of the next; doubled by a success, and halved by a refusal
}

func (*flatTakes) IsFree(_ []*flatTake, under int) bool { return under < taking.BatchDepth }

func (p *flatTakes) Group(waiting []*flatTake) (n int, begin func(func([]session.OpResult, error)) func()) {
	var ops []session.Op
	first, most := waiting[0].item, 0
	has := make(map[string]bool) // two that try the same item would be refused together
	for most < min(len(waiting), max(p.size, 1)) && waiting[most].item.epoch == first.epoch && waiting[most].item.lease == first.lease && !has[waiting[most].item.name] {
		has[waiting[most].item.name] = true
		most++
	}
	n = sharing.Halve(most, func(n int) bool {
		ops = nil
		for _, c := range waiting[:n] {
			ops = append(ops, session.DeleteOp(znode.Join(p.of.path, c.item.name), c.item.version))
		}
		return n == 1 || p.of.receipts.Takes(ops...)
	})
	return n, func(answer func([]session.OpResult, error)) func() {
		return p.of.receipts.BeginUnder(first.lease, first.epoch, ops, answer)
	}
}

func (p *flatTakes) Divide(calls []*flatTake, results []session.OpResult, err error) (parts []sharing.Share) {
	no, isRefusal := errors.AsType[*stock.RefusalError](stock.Refused(results, err))
	tooLarge := errors.Is(err, session.ErrTooLarge) && len(calls) > 1
	switch {
	case err == nil:
		p.size = min(2*max(p.size, 1), taking.FullBatch)
	case isRefusal:
		p.size = max(p.size/2, 1)
	}
	for i := range calls {
		own := sharing.Share{Err: err, Again: tooLarge || isRefusal && no.Index != i}
		if len(results) > i {
			own.Results = results[i : i+1]
		}
		parts = append(parts, own)
	}
	return parts
}
