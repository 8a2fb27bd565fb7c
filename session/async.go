package session

import (
	"errors"
	"fmt"

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
	session  *core
	epoch    int
	blocking bool  // set for the blocking requests of the session, see [Options.ReadOnly]
	lane     *lane // of a caller whose writes may share transactions; or nil
}

// requests returns those of one epoch; of whichever is present if it is 0.
func (s *core) requests(epoch int) Async { return Async{session: s, epoch: epoch} }

// Create creates a node with the ACL of the session, and answers with its path. The
// server appends a number to it if the node is sequential.
func (a Async) Create(path string, data []byte, mode CreateMode, answer func(node string, err error)) {
	a.create(path, data, mode, nil, answer)
}

func (a Async) create(path string, data []byte, mode CreateMode, acl []ACL, answer func(string, error)) *call {
	r := newRequest("create", path, createdIn, answer)
	o := Op{kind: opKindCreate, path: path, data: data, mode: mode, acl: acl}
	if err := o.validate(); err != nil {
		return r.refuse(a.session, err)
	}
	var w wire.Request
	a.session.fill(&w, &o)
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
	a.get(path, func(r Reading, err error) { answer(r.Data, r.Stat, err) })
}

func (a Async) get(path string, answer func(Reading, error)) *call {
	return onNode(a, "get", path, &wire.Request{Op: wire.OpGetData}, readingIn, answer)
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
	a.children(path, func(r Reading, err error) { answer(r.Names, r.Stat, err) })
}

func (a Async) children(path string, answer func(Reading, error)) *call {
	return onNode(a, "children", path, &wire.Request{Op: wire.OpGetChildren2}, readingIn, answer)
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

// onNode starts a request on one node.
func onNode[T any](a Async, op, path string, w *wire.Request, convert func(*call, *wire.Reply) (T, error), answer func(T, error)) *call {
	return newRequest(op, path, convert, answer).onNode(a, w)
}

func (r *request[T]) onNode(a Async, w *wire.Request) *call {
	full, err := a.session.target(r.path)
	if err != nil {
		return r.refuse(a.session, err)
	}
	w.Path = full
	return issue(a, &r.call, w)
}

// issue encodes a request and submits it, or refuses it in its turn.
func issue(a Async, c *call, w *wire.Request) *call {
	c.opcode, c.target, c.plants = w.Op, w.Path, w.Watch
	c.absent = w.Op == wire.OpExists && !w.Watch
	c.frame = wire.AppendRequest(make([]byte, 0, frameSize(w)), 0, w)
	return c.begin(a)
}

// begin submits a call that is encoded, or refuses it in its turn.
func (c *call) begin(a Async) *call {
	s := a.session
	c.number, c.began, c.write, c.blocking, c.lane = a.epoch, s.clock.now(), isWrite(c.opcode), a.blocking, a.lane
	if err := s.fits(len(c.frame) - 4); err != nil {
		return c.refuse(s, err)
	}
	s.submit(c)
	return c
}

// submit gives a call to the newest epoch, or refuses it in its turn.
func (s *core) submit(c *call) {
	if why := s.enqueue(c); why != nil {
		c.refuse(s, why)
	}
}

// enqueue returns why the call cannot be made.
func (s *core) enqueue(c *call) error {
	e := s.newestEpoch()
	switch {
	case e == nil:
		return ErrClosed
	case c.number != 0 && c.number != e.number:
		return ErrExpired
	case !e.ephemerals.reserve(c.ephemeral):
		return ErrSessionFull
	}
	err := e.submit(c)
	if err != nil {
		e.ephemerals.release(c.ephemeral)
	}
	return err
}

// unsent answers a call that its epoch did not send: the next one may, if the call
// belongs to none, and this epoch was never announced or the call is a read.
func (s *core) unsent(c *call, why error) {
	s.order.Put(func() {
		e := c.epoch.Load()
		if free := c.number == 0 && (!c.write || !e.announced.Load()); free && errors.Is(why, ErrExpired) {
			e.ephemerals.release(c.ephemeral)
			if why = s.enqueue(c); why == nil {
				return
			}
			c.ephemeral = 0
		}
		c.err = why
		c.Run()
	})
}

// mayShare reports whether writes may share transactions.
func (a Async) mayShare() bool { return a.lane != nil && a.epoch != 0 }

// over reports whether an error means that nothing is left to do: the session is closed, or the
// epoch has ended.
func (a Async) over(err error) bool {
	return isAny(err, ErrClosed) || a.epoch != 0 && isAny(err, ErrExpired) && !isAny(err, ErrDisconnected)
}
