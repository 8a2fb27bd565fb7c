package session

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// Async makes requests without waiting for them: for actors of your own, as the recipes are. A
// request returns at once and is answered by exactly one call of answer.
//
// All answers, all watch events, and all that [Session.Subscribe] tells come one after
// another, in the order of the wire. They come on goroutines of the session, never on that
// of a caller. They must not block: the session answers nothing else meanwhile. A panic in
// one ends the process. Requests go out in the order in which one caller makes them. While
// the session is suspended they wait; if it expires they are answered with [ErrExpired]. A
// read whose reply was lost is answered with [ErrDisconnected], a write with
// [ErrUnknownOutcome].
type Async struct {
	session  *Session
	epoch    int
	blocking bool  // set for the blocking requests of the session, see [Options.ReadOnly]
	lane     *lane // of a caller whose writes may share transactions; or nil
}

// Async returns the asynchronous requests of one epoch, which [Connected] names. In
// any other epoch they are answered with [ErrExpired]. Epoch 0 stands for whichever
// is present.
func (s *Session) Async(epoch int) Async { return Async{session: s, epoch: epoch} }

// Create creates a node with the ACL of the session, and answers with its path. The
// server appends a number to it if the node is sequential.
func (a Async) Create(path string, data []byte, mode CreateMode, answer func(node string, err error)) {
	a.create(path, data, mode, nil, answer)
}

func (a Async) create(path string, data []byte, mode CreateMode, acl []ACL, answer func(string, error)) *call {
	s := a.session
	r := newRequest("create", path, createdIn, answer)
	err := validateCreated(path, mode)
	if err == nil {
		err = mode.validate()
	}
	if err != nil {
		return r.refuse(a.session, err)
	}
	var w wire.Request
	s.setCreate(&w, path, data, mode, acl)
	if w.Op == wire.OpCreate2 {
		w.Op = wire.OpCreate // the Stat is of no use
	}
	if mode.IsEphemeral() {
		r.ephemeral = len(w.Path) + sequenceLength
	}
	return issue(a, &r.call, &w)
}

// Delete deletes the node if it has the version, or any with [AnyVersion].
func (a Async) Delete(path string, version int32, answer func(error)) {
	a.delete(path, version, func(_ struct{}, err error) { answer(err) })
}

func (a Async) delete(path string, version int32, answer func(struct{}, error)) *call {
	return onNode(a, "delete", path, &wire.Request{Op: wire.OpDelete, Version: version}, deletedIn, answer)
}

// Get reads the data of a node.
func (a Async) Get(path string, answer func(data []byte, stat *Stat, err error)) {
	a.get(path, func(r dataResult, err error) { answer(r.data, r.stat, err) })
}

func (a Async) get(path string, answer func(dataResult, error)) *call {
	return onNode(a, "get", path, &wire.Request{Op: wire.OpGetData}, dataIn, answer)
}

// Set sets the data of a node that has the version, or any with [AnyVersion].
func (a Async) Set(path string, data []byte, version int32, answer func(*Stat, error)) {
	a.set(path, data, version, answer)
}

func (a Async) set(path string, data []byte, version int32, answer func(*Stat, error)) *call {
	return onNode(a, "set", path, &wire.Request{Op: wire.OpSetData, Data: data, Version: version}, statIn, answer)
}

// Exists reads the Stat of a node, nil if there is none.
func (a Async) Exists(path string, answer func(*Stat, error)) { a.exists(path, answer) }

func (a Async) exists(path string, answer func(*Stat, error)) *call {
	return onNode(a, "exists", path, &wire.Request{Op: wire.OpExists}, statIn, answer)
}

// Children reads the names of a node's children, in no order.
func (a Async) Children(path string, answer func(names []string, stat *Stat, err error)) {
	a.children(path, func(r childrenResult, err error) { answer(r.names, r.stat, err) })
}

func (a Async) children(path string, answer func(childrenResult, error)) *call {
	return onNode(a, "children", path, &wire.Request{Op: wire.OpGetChildren2}, childrenIn, answer)
}

// Sync brings the server that the session is connected to up to what the leader has
// committed.
func (a Async) Sync(path string, answer func(error)) {
	a.sync(path, func(_ struct{}, err error) { answer(err) })
}

func (a Async) sync(path string, answer func(struct{}, error)) *call {
	return onNode(a, "sync", path, &wire.Request{Op: wire.OpSync}, nothing, answer)
}

// Multi does all the operations, or none. Its error is that of the operation that
// could not be done.
func (a Async) Multi(ops []Op, answer func([]OpResult, error)) { a.multi(ops, false, answer) }

// multi does the operations, if it may so in one transaction with those of others.
func (a Async) multi(ops []Op, joins bool, answer func([]OpResult, error)) *call {
	r := newRequest("multi", firstPath(ops), resultsIn, answer)
	r.asked, r.joins = ops, joins
	err := error(nil)
	if len(ops) == 0 {
		err = fmt.Errorf("%w: ops: there are none", ErrInvalidArgument)
	}
	for i, op := range ops {
		if invalid := op.validate(); err == nil && invalid != nil {
			err = fmt.Errorf("ops[%d]: %w", i, invalid)
		}
		if op.kind == opKindCreate && op.mode.IsEphemeral() {
			r.ephemeral += len(a.session.absoluteNew(op.path, op.mode)) + sequenceLength
		}
	}
	if err != nil {
		return r.refuse(a.session, err)
	}
	r.opcode, r.frame, r.ops = wire.OpMulti, a.session.appendMulti(make([]byte, 0, a.session.multiSize(ops)), ops), r.fewOps[:0]
	for i := range ops {
		r.ops = append(r.ops, ops[i].opcode())
	}
	return r.begin(a)
}

// EnsurePath creates the node at path and its missing ancestors, unless they exist: as
// containers, or as persistent nodes where the server has no containers. The answer
// tells whether the node was made now, and is empty.
func (a Async) EnsurePath(path string, answer func(made bool, err error)) {
	(&ensuring{requests: a}).begin(path, answer)
}

// ensuring makes sure that there is a node. Doing it twice does no harm, so a lost reply is
// no reason to fail.
type ensuring struct {
	requests Async
	over     atomic.Bool // set when the caller has left: nothing is repeated any more
	doubt    error       // of the newest create whose reply was lost
	blamed   int         // how many connections in a row its creates have broken
}

func (e *ensuring) begin(path string, answer func(bool, error)) *call {
	full, err := e.requests.session.target(path)
	if err != nil {
		return newRequest("ensure", path, nil, answer).refuse(e.requests.session, err)
	}
	return e.ensure(full, Container, answer)
}

// ensure works on absolute paths: the chroot itself may be missing.
func (e *ensuring) ensure(full string, mode CreateMode, answer func(bool, error)) *call {
	a := e.requests
	w := wire.Request{Op: wire.OpCreate, Path: full, ACL: a.session.acl}
	if mode == Container {
		w.Op, w.Flags = wire.OpCreateContainer, int32(Container)
	}
	return issue(a, &newRequest("ensure", a.session.relative(full), nothing, func(_ struct{}, err error) {
		again := func() { e.ensure(full, mode, answer) }
		if e.blamed++; !errors.Is(err, errBlamed) {
			e.blamed = 0
		}
		switch {
		case err == nil:
			answer(true, nil)
		case isAny(err, ErrNodeExists):
			answer(false, nil)
		case e.over.Load():
			answer(false, err)
		case mode == Container && isAny(err, ErrUnimplemented, ErrInvalidArgument):
			e.ensure(full, Persistent, answer)
		case isNoNode(err) && full != "/":
			dir, _ := znode.Split(full)
			e.ensure(dir, mode, func(_ bool, err error) {
				if err != nil {
					answer(false, err)
					return
				}
				again()
			})
		case isAny(err, ErrDisconnected) && e.blamed < maxBlamed:
			e.doubt = err
			again()
		case isAny(err, ErrNoAuth):
			// The server looks at the parent's ACL before it looks for the node.
			a.Exists(a.session.relative(full), func(stat *Stat, existsErr error) {
				if existsErr == nil && stat != nil {
					err = nil
				}
				answer(false, err)
			})
		case e.blamed == maxBlamed:
			answer(false, fmt.Errorf("%w; %w", err, errHopeless))
		case e.doubt != nil && isAny(err, ErrExpired, ErrClosed) && !InDoubt(err):
			answer(false, fmt.Errorf("%w: %w", ErrUnknownOutcome, err))
		default:
			answer(false, err)
		}
	}).call, &w)
}
