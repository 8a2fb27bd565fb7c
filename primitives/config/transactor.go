package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/once"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// This file has transactions over several values: what etcd and others call software transactional
// memory. A function reads and writes values; what it has read is checked in the transaction that
// writes, and if anything has changed meanwhile, the function runs again.

// A Transactor runs transactions over the values below a directory. Create it with
// [NewTransactor]. It is safe for concurrent use, and must be closed.
type Transactor struct {
	session *session.Session
	dir     string
	sync    bool
	once    once.Writer
	closed  atomic.Bool

	// The deletions are a node that each transaction writes that deletes a value. A value that was
	// deleted and created again has its old versions once more: so each transaction that has read a
	// value also checks the version of this node, of before its first reading.
	mu        sync.Mutex
	deletions int32 // the version that was read last, unless stale
	known     bool  // the node was read, or created
	stale     bool  // another client may have written since
}

// NewTransactor returns a transactor for the values below dir. Each is a node as [Open] has it: a
// [Value] may be open at its path. Options.Markers is by default _config-markers in dir, and
// Options.Sync makes the first read of each transaction as new as the call, which costs a round
// trip; without it, a transaction that has read older values runs again.
//
// If opts is nil, the default options are used. The error names the argument that is refused.
func NewTransactor(s *session.Session, dir string, opts *Options) (*Transactor, error) {
	if err := validate(s, dir, nil); err != nil {
		return nil, err
	}
	o := client.Options(opts)
	if o.Markers == "" {
		o.Markers = defaultMarkers(znode.Join(dir, "value"))
	}
	if err := client.CheckPath(s, o.Markers); err != nil {
		return nil, fmt.Errorf("config: Options.Markers: %w", err)
	}
	t := &Transactor{session: s, dir: dir, sync: o.Sync}
	t.once.Session, t.once.Dir, t.once.Closed = client.Of(s), o.Markers, ErrClosed
	t.once.Name = func(epoch int) string { return znode.GUIDName(znode.NewGUID(), strconv.Itoa(epoch)+"-transactor") }
	return t, nil
}

// A Tx is a transaction that is being made. It belongs to the call of the function that received
// it: after that, [Load], [Store] and [Tx.Delete] fail with [session.ErrInvalidArgument].
type Tx struct {
	over  atomic.Bool     // set when the function has returned
	ctx   context.Context //nolint:containedctx // of the call
	of    *Transactor
	lease int64              // when it began: behind that, other data may come in the place of what it has read
	nodes map[string]*txNode // by name
	names []string           // in the order of their reads

	guarded   bool  // deletions is set
	deletions int32 // the version of the node of deletions
}

// A txNode is a node as a transaction has read it, and is to write it.
type txNode struct {
	data    []byte
	version int32
	exists  bool
	missing string // if it does not exist: the path of the highest node above it that does not either, or its own

	written bool
	gone    bool   // is to be deleted
	next    []byte // is to be written, unless gone
}

// Do runs f, and commits what it has written with [Store] and [Tx.Delete], all or nothing, if
// nothing of what it has read has changed meanwhile. Otherwise f runs again, until it succeeds or
// ctx ends: so f must have no other effects. The result is as if the transactions had been done one
// after the other: serializable, as long as values are deleted by transactions only. For the server
// compares versions, which begin anew when a value is created again: so transactors share a node
// _config-deletions in their directory, which stays, and a client that may neither read nor create
// it has to do without. Transactors of values that any of them deletes have the same directory.
// While f runs, what it reads may be of different moments, as it may find out. That a value is
// missing is checked by creating and deleting its node, or one above it.
//
// If f panics, or calls [runtime.Goexit], nothing is written, and that goes on. If f returns an
// error, nothing is written, and Do returns that error; unless what f has read was not true at one
// moment: then f runs again.
//
// It is done once or not at all, whatever reply is lost. If the error wraps
// [session.ErrUnknownOutcome], it may have been done, or be done a little later; with any other
// error nothing was written, nor will be.
func (t *Transactor) Do(ctx context.Context, f func(tx *Tx) error) error {
	if err := client.Usable(ctx); err != nil {
		return t.explain(err)
	}
	switch {
	case f == nil:
		return t.explain(fmt.Errorf("%w: f is nil", session.ErrInvalidArgument))
	case t.closed.Load():
		return t.explain(ErrClosed)
	}
	if t.sync {
		if err := t.session.Sync(ctx, t.dir); err != nil {
			return t.explain(err)
		}
	}
	var pauses owned.Set
	defer pauses.End()
	for {
		tx := &Tx{ctx: ctx, of: t, lease: client.Of(t.session).Lease(), nodes: make(map[string]*txNode)}
		failed := tx.run(f)
		err := t.commit(ctx, tx, failed != nil)
		if isConflict(err) {
			t.doubt()
		}
		switch {
		case err == nil:
			return failed
		case failed != nil && !isConflict(err):
			return failed // it is not known whether that was true at one moment
		case isConflict(err):
			err = pauses.StepBack(ctx)
		case !session.Passing(err), session.InDoubt(err) && tx.writes(failed != nil):
			return t.explain(err)
		default:
			err = pauses.Wait(ctx, err)
		}
		if err != nil {
			return t.explain(client.Of(t.session).Explain(err))
		}
	}
}

// run calls f. The transaction is over when f has returned, panicked, or ended its goroutine.
func (tx *Tx) run(f func(tx *Tx) error) error {
	defer tx.over.Store(true)
	return f(tx)
}

// isConflict reports whether a node was not as it had been read, so that nothing was written.
func isConflict(err error) bool {
	return !session.InDoubt(err) && client.IsAny(err, session.ErrBadVersion, session.ErrNodeExists, session.ErrNoNode)
}

// commit checks the values that the transaction has read, and writes its new ones, unless only is
// set. If nodes above a value that does not exist are missing, too, it climbs, and tries once more.
func (t *Transactor) commit(ctx context.Context, tx *Tx, only bool) error {
	err := t.try(ctx, tx, only)
	if !errors.Is(err, session.ErrNoNode) || session.InDoubt(err) {
		return err
	}
	if failed := t.climb(ctx, tx, only); failed != nil {
		return failed
	}
	return t.try(ctx, tx, only)
}

// climb makes the nodes above those that are to be created, and finds the highest that is missing
// above those that are not.
func (t *Transactor) climb(ctx context.Context, tx *Tx, only bool) error {
	var absent []*txNode
	for _, name := range tx.names {
		n, path := tx.nodes[name], znode.Join(t.dir, name)
		switch {
		case n.exists:
		case !n.creates(only):
			n.missing = path
			absent = append(absent, n)
		default:
			dir, _ := znode.Split(path)
			if tx.creates(dir, only) {
				continue
			}
			if err := t.session.EnsurePath(ctx, dir); err != nil {
				return err
			}
		}
	}
	for _, n := range absent {
		for dir, _ := znode.Split(n.missing); dir != "/" && !tx.creates(dir, only); dir, _ = znode.Split(dir) {
			stat, err := t.session.Exists(ctx, dir)
			if err != nil {
				return err
			}
			if stat != nil {
				break
			}
			n.missing = dir
		}
	}
	return nil
}

// writes reports whether the transaction changes a value, as far as is known before it is sent.
func (tx *Tx) writes(only bool) bool {
	return !only && slices.ContainsFunc(tx.names, func(name string) bool { return tx.nodes[name].written })
}

// creates reports whether the transaction creates the node at a path.
func (tx *Tx) creates(path string, only bool) bool {
	n := tx.nodes[strings.TrimPrefix(path, tx.of.dir+"/")]
	return n != nil && n.creates(only)
}

// creates reports whether its transaction creates the node.
func (n *txNode) creates(only bool) bool { return !n.exists && n.written && !n.gone && !only }

// ops returns the operations of a transaction. Nodes come before those below them, but are deleted
// after them.
func (t *Transactor) ops(tx *Tx, only bool) (ops []session.Op) {
	var deletes []session.Op
	absent := make(map[string]bool)
	for _, name := range slices.Sorted(slices.Values(tx.names)) {
		n, path := tx.nodes[name], znode.Join(t.dir, name)
		switch {
		case n.exists && (!n.written || only):
			ops = append(ops, session.CheckOp(path, n.version))
		case n.exists && n.gone:
			deletes = append(deletes, session.DeleteOp(path, n.version))
		case n.exists:
			ops = append(ops, session.SetOp(path, n.next, n.version))
		case n.creates(only):
			ops = append(ops, session.CreateOp(path, n.next, session.Persistent))
		default: // there is no operation that checks that a node does not exist
			path = cmp.Or(n.missing, path)
			if !absent[path] {
				absent[path] = true
				ops = append(ops, session.CreateOp(path, nil, session.Persistent), session.DeleteOp(path, session.AnyVersion))
			}
		}
	}
	slices.Reverse(deletes)
	if len(ops)+len(deletes) == 1 && !tx.writes(only) { // one reading is of one moment
		return nil
	}
	guard := znode.Join(t.dir, nodes.ConfigDeletions)
	switch {
	case !tx.guarded:
	case len(deletes) > 0:
		deletes = append(deletes, session.SetOp(guard, nil, tx.deletions))
	default:
		ops = append(ops, session.CheckOp(guard, tx.deletions))
	}
	return append(ops, deletes...)
}

// try sends a transaction.
func (t *Transactor) try(ctx context.Context, tx *Tx, only bool) error {
	ops := t.ops(tx, only)
	switch {
	case len(ops) == 0:
		return nil
	case !tx.writes(only):
		_, err := t.session.Multi(ctx, ops...)
		return err
	}
	if slices.ContainsFunc(tx.names, func(name string) bool { return tx.nodes[name].gone }) {
		defer t.doubt()
	}
	if err := client.Of(t.session).Fits(append(slices.Clone(ops), t.once.Longest())...); err != nil {
		return err
	}
	return procedure.Await(ctx, func(done func(error)) (abandon func()) {
		return t.once.BeginUnder(tx.lease, 0, ops, func(_ []session.OpResult, err error) { done(err) })
	})
}

// doubt notes that the deletions may not be any more as they were read.
func (t *Transactor) doubt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stale = true
}

// read returns the node of a name, as the transaction has it.
func (tx *Tx) read(name string) (*txNode, error) {
	if tx == nil || tx.of == nil || tx.over.Load() {
		return nil, fmt.Errorf("config: tx: %w: the function that received it has returned, or it is none of Transactor.Do", session.ErrInvalidArgument)
	}
	if n := tx.nodes[name]; n != nil {
		return n, nil
	}
	path := znode.Join(tx.of.dir, name)
	if err := client.CheckPlace(tx.of.session, "config", "name", path, "a value"); err != nil {
		return nil, err
	}
	if first, _, _ := strings.Cut(name, "/"); nodes.Beside(first) {
		return nil, fmt.Errorf("config: name: %w %q: %s is not for values", session.ErrInvalidPath, path, first)
	}
	if err := tx.guard(false); err != nil {
		return nil, err
	}
	data, stat, err := tx.of.session.Get(tx.ctx, path)
	if err == nil && !tx.guarded {
		if err = tx.guard(true); tx.guarded { // the value has to be read after the deletions
			data, stat, err = tx.of.session.Get(tx.ctx, path)
		}
	}
	if err = client.Without(err, session.ErrNoNode); err != nil {
		return nil, fmt.Errorf("config %s: %w", path, err)
	}
	n := &txNode{data: data, exists: stat != nil}
	if n.exists {
		n.version = stat.Version
	}
	tx.nodes[name] = n
	tx.names = append(tx.names, name)
	return n, nil
}

// guard notes the version of the deletions in the transaction. If no transaction of t has read them
// yet, they are read, and created, only with unknown.
func (tx *Tx) guard(unknown bool) error {
	t := tx.of
	if tx.guarded {
		return nil
	}
	t.mu.Lock()
	known, stale, version := t.known, t.stale, t.deletions
	t.mu.Unlock()
	switch {
	case !known && !unknown:
		return nil
	case !known || stale:
		var err error
		version, err = t.readDeletions(tx.ctx)
		switch {
		case errors.Is(err, session.ErrNoAuth):
			return nil
		case err != nil:
			return fmt.Errorf("config %s: %w", znode.Join(t.dir, nodes.ConfigDeletions), err)
		}
	}
	tx.guarded, tx.deletions = true, version
	return nil
}

// readDeletions returns the version of the deletions, and creates their node if there is none.
func (t *Transactor) readDeletions(ctx context.Context) (version int32, err error) {
	path := znode.Join(t.dir, nodes.ConfigDeletions)
	t.mu.Lock()
	t.stale = false // what is written from now on makes it stale again
	t.mu.Unlock()
	_, stat, err := t.session.Get(ctx, path)
	for errors.Is(err, session.ErrNoNode) {
		_, err = t.session.Create(ctx, path, nil, session.Persistent)
		if err != nil && !session.InDoubt(err) && !errors.Is(err, session.ErrNodeExists) {
			break
		}
		_, stat, err = t.session.Get(ctx, path)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.stale = true
		return 0, err
	}
	t.known, t.deletions = true, stat.Version
	return stat.Version, nil
}

// Load returns the value of a name, as the transaction has read or written it; the zero value and
// false if there is none. If the data do not decode, the error wraps [ErrInvalid].
func Load[T any](tx *Tx, name string, codec func() Codec[T]) (value T, ok bool, err error) {
	made, err := watch.Make(codec)
	if err != nil {
		return value, false, fmt.Errorf("config: %w", err)
	}
	n, err := tx.read(name)
	if err != nil {
		return value, false, err
	}
	data, exists := n.data, n.exists
	if n.written {
		data, exists = n.next, !n.gone
	}
	if !exists {
		return value, false, nil
	}
	value, err = decode(made, data)
	if err != nil {
		return value, false, fmt.Errorf("config %s: %w", znode.Join(tx.of.dir, name), err)
	}
	return value, true, nil
}

// Store has the transaction write a value. It reads the node of the name first, unless the
// transaction has done so.
func Store[T any](tx *Tx, name string, codec func() Codec[T], value T) error {
	made, err := watch.Make(codec)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	n, err := tx.own(name)
	if err != nil {
		return err
	}
	data, err := watch.Encode(made, value)
	if err != nil {
		return fmt.Errorf("config %s: encode: %w", znode.Join(tx.of.dir, name), err)
	}
	n.written, n.gone, n.next = true, false, data
	return nil
}

// own is read for a node that is to be written. It fails if the node has the record of another
// recipe.
func (tx *Tx) own(name string) (*txNode, error) {
	n, err := tx.read(name)
	if err != nil {
		return nil, err
	}
	if err := own(n.data); err != nil {
		return nil, fmt.Errorf("config %s: %w", znode.Join(tx.of.dir, name), err)
	}
	return n, nil
}

// Delete has the transaction delete a value, if there is one. It fails with [session.ErrNoAuth] if
// the client may not read and create _config-deletions in the directory; see [Transactor.Do].
func (tx *Tx) Delete(name string) error {
	n, err := tx.own(name)
	if err != nil {
		return err
	}
	if n.exists && !tx.guarded {
		return fmt.Errorf("config %s: %w", znode.Join(tx.of.dir, nodes.ConfigDeletions), session.ErrNoAuth)
	}
	n.written, n.gone, n.next = true, true, nil
	return nil
}

// Close ends the transactor, and waits for a write that is under way, and until its marker is gone;
// at most until the session has expired or is closed. A transaction that is under way is still
// answered; later ones fail with [ErrClosed]. It may be called any number of times.
func (t *Transactor) Close() {
	t.closed.Store(true)
	gone := make(chan struct{})
	end := sync.OnceFunc(func() { close(gone) })
	var events owned.Set
	defer events.End()
	over := func(ev session.Event) {
		switch ev.(type) {
		case nil, session.Expired, session.Closed: // its marker, if there is one, ends with the session
			end()
		case session.Lapsed: // the session removes its marker when it has a connection
			end()
		case session.Connected, session.Suspended, session.Resumed:
		}
	}
	events.Follow(t.once.Session, over, nil)
	over(t.session.State()) // an end of before is not told again
	t.once.Close(end)
	<-gone
}

func (t *Transactor) explain(err error) error {
	return client.Wrap(client.Of(t.session), err, "config ", t.dir)
}

// String describes the transactor in one short line.
func (t *Transactor) String() string { return "transactor of " + t.dir }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (t *Transactor) Format(f fmt.State, _ rune) { client.Print(f, t) }
