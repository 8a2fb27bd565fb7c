package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/once"
	"github.com/zkactors/zkactors/primitives/internal/owned"
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

	mu        sync.Mutex
	deletions map[string]deletions // by the directory of the values
}

// Deletions are the state of the node that each transaction writes that deletes a value of the
// directory. A value that was deleted and created again has its old versions once more: so each
// transaction also checks the version of this node, of before its first reading.
type deletions struct {
	version int32
	stale   bool // another client may have written since
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
	t := &Transactor{session: s, dir: dir, sync: o.Sync, deletions: make(map[string]deletions)}
	t.once.Session, t.once.Dir, t.once.Closed = client.Of(s), o.Markers, ErrClosed
	t.once.Name = func(epoch int) string { return znode.GUIDName(znode.NewGUID(), strconv.Itoa(epoch)+"-transactor") }
	return t, nil
}

// A Tx is a transaction that is being made. It belongs to the call of the function that received
// it.
type Tx struct {
	ctx   context.Context //nolint:containedctx // of the call
	of    *Transactor
	nodes map[string]*txNode // by name
	names []string           // in the order of their reads

	deletions map[string]int32 // the versions that are to stand, by directory
}

// A txNode is a node as a transaction has read it, and is to write it.
type txNode struct {
	data    []byte
	version int32
	exists  bool

	written bool
	gone    bool   // is to be deleted
	next    []byte // is to be written, unless gone
}

// Do runs f, and commits what it has written with [Store] and [Tx.Delete], all or nothing, if
// nothing of what it has read has changed meanwhile. Otherwise f runs again, until it succeeds or
// ctx ends: so f must have no other effects. The result is as if the transactions had been done one
// after the other: serializable, as long as values are deleted by transactions only. For the server
// compares versions, which begin anew when a value is created again: so transactions share a node
// _config-deletions beside the values, and a client that may neither read nor create it has to do
// without. While f runs, what it reads may be of different moments, as it may find out. That a
// value is missing is checked by creating and deleting its node.
//
// If f returns an error, nothing is written, and Do returns that error; unless what f has read was
// not true at one moment: then f runs again.
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
	pauses.Clock = client.Of(t.session)
	defer pauses.End()
	for {
		tx := &Tx{ctx: ctx, of: t, nodes: make(map[string]*txNode), deletions: make(map[string]int32)}
		failed := f(tx)
		err := t.commit(ctx, tx, failed != nil)
		if isConflict(err) {
			t.doubt(tx)
		}
		switch {
		case err == nil:
			return failed
		case failed != nil && !isConflict(err):
			return failed // it is not known whether that was true at one moment
		case !isConflict(err) && (session.InDoubt(err) || !session.Passing(err)):
			return t.explain(err)
		}
		if err := pauses.Wait(ctx, err); err != nil {
			return t.explain(client.Of(t.session).Explain(err))
		}
	}
}

// isConflict reports whether a node was not as it had been read, so that nothing was written.
func isConflict(err error) bool {
	return !session.InDoubt(err) && client.IsAny(err, session.ErrBadVersion, session.ErrNodeExists, session.ErrNoNode)
}

// commit checks what was read, and writes what is to be written, unless only is set.
func (t *Transactor) commit(ctx context.Context, tx *Tx, only bool) error {
	var ops []session.Op
	var above []string // what nodes that do not exist need
	writes := false
	deleting := make(map[string]bool)
	for _, name := range tx.names {
		n, path := tx.nodes[name], znode.Join(t.dir, name)
		dir, _ := znode.Split(path)
		if !n.exists {
			above = append(above, dir)
		}
		writes = writes || n.written && !only
		switch {
		case n.exists && (!n.written || only):
			ops = append(ops, session.CheckOp(path, n.version))
		case n.exists && n.gone:
			ops = append(ops, session.DeleteOp(path, n.version))
			deleting[dir] = true
		case n.exists:
			ops = append(ops, session.SetOp(path, n.next, n.version))
		case n.written && !n.gone && !only:
			ops = append(ops, session.CreateOp(path, n.next, session.Persistent))
		default: // there is no operation that checks that a node does not exist
			ops = append(ops, session.CreateOp(path, nil, session.Persistent), session.DeleteOp(path, session.AnyVersion))
		}
	}
	switch {
	case len(ops) == 0, len(ops) == 1 && !writes:
		return nil // one reading is of one moment
	}
	for _, dir := range slices.Sorted(maps.Keys(tx.deletions)) {
		path, version := znode.Join(dir, nodes.ConfigDeletions), tx.deletions[dir]
		if deleting[dir] {
			ops = append(ops, session.SetOp(path, nil, version))
		} else {
			ops = append(ops, session.CheckOp(path, version))
		}
	}
	if !writes {
		_, err := t.session.Multi(ctx, ops...)
		return t.above(ctx, above, err)
	}
	if len(deleting) > 0 {
		defer t.doubt(tx)
	}
	if err := client.Of(t.session).Fits(append(slices.Clone(ops), t.once.Longest())...); err != nil {
		return err
	}
	answer := make(chan error, 1)
	abandon := t.once.Begin(0, ops, func(_ []session.OpResult, err error) { answer <- err })
	select {
	case err := <-answer:
		return t.above(ctx, above, err)
	case <-ctx.Done():
		abandon()
		err := <-answer
		if session.InDoubt(err) {
			err = fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
		return err
	}
}

// above makes the nodes above those that do not exist, if their lack may be why a commit was
// refused.
func (t *Transactor) above(ctx context.Context, dirs []string, err error) error {
	if !errors.Is(err, session.ErrNoNode) || session.InDoubt(err) {
		return err
	}
	for _, dir := range dirs {
		if failed := t.session.EnsurePath(ctx, dir); failed != nil {
			return failed
		}
	}
	return err
}

// doubt notes that the deletions may not be any more as the transaction has them.
func (t *Transactor) doubt(tx *Tx) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for dir := range tx.deletions {
		t.deletions[dir] = deletions{stale: true}
	}
}

// read returns the node of a name, as the transaction has it.
func (tx *Tx) read(name string) (*txNode, error) {
	if n := tx.nodes[name]; n != nil {
		return n, nil
	}
	path := znode.Join(tx.of.dir, name)
	if err := client.CheckPlace(tx.of.session, "config: name", path, "a value"); err != nil {
		return nil, err
	}
	dir, _ := znode.Split(path)
	guarded, err := tx.guard(dir, false)
	if err != nil {
		return nil, err
	}
	data, stat, err := tx.of.session.Get(tx.ctx, path)
	if err == nil && !guarded {
		if guarded, err = tx.guard(dir, true); guarded { // the value has to be read after the deletions
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

// guard notes the version of the deletions of a directory in the transaction, and reports whether
// it has. Those that no transaction of t has read yet are read, and created, only with unknown.
func (tx *Tx) guard(dir string, unknown bool) (bool, error) {
	if _, has := tx.deletions[dir]; has {
		return true, nil
	}
	t := tx.of
	t.mu.Lock()
	known, has := t.deletions[dir]
	t.mu.Unlock()
	switch {
	case !has && !unknown:
		return false, nil
	case !has || known.stale:
		path := znode.Join(dir, nodes.ConfigDeletions)
		_, stat, err := t.session.Get(tx.ctx, path)
		for errors.Is(err, session.ErrNoNode) {
			_, err = t.session.Create(tx.ctx, path, nil, session.Persistent)
			if err != nil && !session.InDoubt(err) && !errors.Is(err, session.ErrNodeExists) {
				break
			}
			_, stat, err = t.session.Get(tx.ctx, path)
		}
		switch {
		case errors.Is(err, session.ErrNoAuth):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("config %s: %w", path, err)
		}
		known = deletions{version: stat.Version}
		t.mu.Lock()
		t.deletions[dir] = known
		t.mu.Unlock()
	}
	tx.deletions[dir] = known.version
	return true, nil
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
	n, err := tx.read(name)
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

// Delete has the transaction delete a value, if there is one. It fails with [session.ErrNoAuth] if
// the client may not read and create _config-deletions beside the value; see [Transactor.Do].
func (tx *Tx) Delete(name string) error {
	n, err := tx.read(name)
	if err != nil {
		return err
	}
	dir, _ := znode.Split(znode.Join(tx.of.dir, name))
	if _, guarded := tx.deletions[dir]; n.exists && !guarded {
		return fmt.Errorf("config %s: %w", znode.Join(dir, nodes.ConfigDeletions), session.ErrNoAuth)
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
	events.Follow(client.Of(t.session), func(ev session.Event) {
		switch ev.(type) {
		case session.Expired, session.Closed:
			end()
		case session.Connected, session.Suspended, session.Resumed:
		}
	}, nil)
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
