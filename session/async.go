package session

import (
	"fmt"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/conn"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// Async makes requests without waiting for them: for actors of your own, as the recipes are. A
// request returns at once and is answered by exactly one call of answer.
//
// All answers, all watch events, and all events of [Session.Subscribe] come one after another, in
// the order of the wire. They come on goroutines of the session, never on the goroutine of a
// caller. The callbacks must not block: the session answers nothing else meanwhile. A method panics
// if a callback is nil. A panic in a callback ends the process. A callback that ends its goroutine,
// as t.FailNow does, costs the connection at most. Requests go out in the order in which one caller
// makes them. While the session is suspended they wait; if the lease ends they are answered with
// [ErrLapsed], whether or not something was held, and if it expires with [ErrExpired]. A read whose
// reply was lost is answered with [ErrDisconnected], a write with [ErrUnknownOutcome].
type Async struct {
	session  *Session
	epoch    int
	blocking bool       // set for the blocking requests of the session, see [Options.ReadOnly]
	lane     *conn.Lane // of a caller whose writes may share transactions; or nil
	roomy    bool       // replies may be larger than Options.MaxReply
	errand   bool       // they are those of a removal
	lease    int64      // see Under
}

// refuseNil panics if a function is nil that the session would call later: so the trace has the
// caller that has given it.
func refuseNil(isNil bool, argument string) {
	if isNil {
		panic("session: " + argument + " is nil")
	}
}

// requests returns the requests of one epoch; of the present epoch if it is 0.
func (s *Session) requests(epoch int) Async { return Async{session: s, epoch: epoch} }

// Create creates a node with the ACL of the session, and answers with its path. The
// server appends a number to it if the node is sequential.
func (a Async) Create(path string, data []byte, mode CreateMode, answer func(node string, err error)) {
	refuseNil(answer == nil, "Async.Create: answer")
	a.create(path, data, mode, nil, answer)
}

func (a Async) create(path string, data []byte, mode CreateMode, acl []ACL, answer func(string, error)) *call {
	r := newRequest("create", path, createdIn, explaining(a.session, acl, answer))
	o := Op{kind: opKindCreate, path: path, data: data, mode: mode, acl: acl}
	if err := o.validate(); err != nil {
		return r.refuse(a.session, err)
	}
	var w wire.Request
	a.session.fill(&w, &o)
	if mode.IsEphemeral() {
		r.Ephemeral = len(w.Path) + sequenceLength
	}
	return issue(a, &r.call, &w)
}

// Delete deletes the node if it has the version, or any with [AnyVersion].
func (a Async) Delete(path string, version int32, answer func(error)) {
	refuseNil(answer == nil, "Async.Delete: answer")
	a.delete(path, version, func(_ struct{}, err error) { answer(err) })
}

func (a Async) delete(path string, version int32, answer func(struct{}, error)) *call {
	return onNode(a, "delete", path, &wire.Request{Op: wire.OpDelete, Version: version}, deletedIn, answer)
}

// Get reads the data of a node.
func (a Async) Get(path string, answer func(data []byte, stat *Stat, err error)) {
	refuseNil(answer == nil, "Async.Get: answer")
	a.get(path, func(r Reading, err error) { answer(r.Data, r.Stat, err) })
}

func (a Async) get(path string, answer func(Reading, error)) *call {
	return onNode(a, "get", path, &wire.Request{Op: wire.OpGetData}, readingIn, answer)
}

// Set sets the data of a node that has the version, or any with [AnyVersion].
func (a Async) Set(path string, data []byte, version int32, answer func(*Stat, error)) {
	refuseNil(answer == nil, "Async.Set: answer")
	a.set(path, data, version, answer)
}

func (a Async) set(path string, data []byte, version int32, answer func(*Stat, error)) *call {
	return onNode(a, "set", path, &wire.Request{Op: wire.OpSetData, Data: data, Version: version}, statIn, answer)
}

// Exists reads the Stat of a node, nil if there is none.
func (a Async) Exists(path string, answer func(*Stat, error)) {
	refuseNil(answer == nil, "Async.Exists: answer")
	a.exists(path, answer)
}

func (a Async) exists(path string, answer func(*Stat, error)) *call {
	return onNode(a, "exists", path, &wire.Request{Op: wire.OpExists}, statIn, answer)
}

// Children reads the names of a node's children, in no order.
func (a Async) Children(path string, answer func(names []string, stat *Stat, err error)) {
	refuseNil(answer == nil, "Async.Children: answer")
	a.children(path, func(r Reading, err error) { answer(r.Names, r.Stat, err) })
}

func (a Async) children(path string, answer func(Reading, error)) *call {
	return onNode(a, "children", path, &wire.Request{Op: wire.OpGetChildren2}, readingIn, answer)
}

// Sync brings the server that the session is connected to up to what the leader has
// committed.
func (a Async) Sync(path string, answer func(error)) {
	refuseNil(answer == nil, "Async.Sync: answer")
	a.sync(path, func(_ struct{}, err error) { answer(err) })
}

func (a Async) sync(path string, answer func(struct{}, error)) *call {
	return onNode(a, "sync", path, &wire.Request{Op: wire.OpSync}, nothing, answer)
}

// Multi does all the operations, or none. Its error is the error of the operation that could not be
// done. Without operations it makes no request, and answers with nil.
func (a Async) Multi(ops []Op, answer func([]OpResult, error)) {
	refuseNil(answer == nil, "Async.Multi: answer")
	a.multi(ops, false, answer)
}

// multi does the operations. If joins is set, they may share one transaction with those of other
// callers.
func (a Async) multi(ops []Op, joins bool, answer func([]OpResult, error)) *call {
	r := newRequest("multi", firstPath(ops), resultsIn, answer)
	r.asked, r.Joins = ops, joins
	if len(ops) == 0 {
		return r.refuse(a.session, nil) // all of nothing is done
	}
	err := error(nil)
	for i, op := range ops {
		if invalid := op.validate(); err == nil && invalid != nil {
			err = fmt.Errorf("ops[%d]: %w", i, invalid)
		}
		if op.kind == opKindCreate && op.mode.IsEphemeral() {
			r.Ephemeral += len(a.session.absoluteNew(op.path, op.mode)) + sequenceLength
		}
	}
	if err != nil {
		return r.refuse(a.session, err)
	}
	r.Opcode, r.Frame, r.Ops = wire.OpMulti, a.session.appendMulti(make([]byte, 0, a.session.multiSize(ops)), ops), r.FewOps[:0]
	for i := range ops {
		r.Ops = append(r.Ops, ops[i].opcode())
	}
	return r.begin(a)
}

// onNode starts a request on one node.
func onNode[T any](a Async, op, path string, w *wire.Request, convert func(*call, *wire.Reply) (T, error), answer func(T, error)) *call {
	return newRequest(op, path, convert, answer).onNode(a, w)
}

func (r *request[T]) onNode(a Async, w *wire.Request) *call {
	full, err := a.session.target(r.Path)
	if err != nil {
		return r.refuse(a.session, err)
	}
	w.Path = full
	return issue(a, &r.call, w)
}

// issue encodes a request and submits it, or refuses it in its turn.
func issue(a Async, c *call, w *wire.Request) *call {
	c.Opcode, c.Target, c.Plants = w.Op, w.Path, w.Watch
	c.Absent = w.Op == wire.OpExists && !w.Watch
	c.Frame = wire.AppendRequest(make([]byte, 0, frameSize(w)), 0, w)
	return c.begin(a)
}

// begin submits a call that is encoded, or refuses it in its turn.
func (c *call) begin(a Async) *call {
	s := a.session
	c.session, c.number, c.Began, c.Write, c.Blocking, c.Lane, c.Roomy = s, a.epoch, s.conn.Clock.Now(), conn.IsWrite(c.Opcode), a.blocking, a.lane, a.roomy
	c.Errand, c.Lease = a.errand, a.lease
	if err := s.fits(len(c.Frame) - 4); err != nil {
		return c.refuse(s, err)
	}
	s.submit(c)
	return c
}

// submit gives a call to the newest epoch, or refuses it in its turn.
func (s *Session) submit(c *call) {
	if why := s.enqueue(c); why != nil {
		c.refuse(s, why)
	}
}

// enqueue returns why the call cannot be made.
func (s *Session) enqueue(c *call) error {
	e := s.newestEpoch()
	switch {
	case e == nil:
		return ErrClosed
	case c.number != 0 && c.number != e.Number:
		return ErrExpired
	}
	return e.Submit(&c.Call)
}

// mayShare reports whether writes may share transactions.
func (a Async) mayShare() bool { return a.lane != nil && a.epoch != 0 }

// over reports whether an error means that nothing is left to do: the session is closed, or the
// epoch has ended.
func (a Async) over(err error) bool {
	return isAny(err, ErrClosed) || a.epoch != 0 && isAny(err, ErrExpired) && !isAny(err, ErrDisconnected)
}

// A call is a request of the session: the request that a connection carries, and the fields that
// only the session knows.
type call struct {
	conn.Call

	session *Session // set when it is begun, or refused
	asked   []Op     // the operations of a transaction, as the caller has asked for them
	number  int      // of the epoch that it belongs to; 0 if it may be sent in any
}

// Parent implements [conn.Caller].
func (c *call) Parent(operation int) string {
	dir, _ := znode.Split(c.asked[operation].path)
	return dir
}

// Ephemerals implements [conn.Caller].
func (c *call) Ephemerals(yield func(path string) bool) {
	if c.Opcode.IsCreate() {
		yield(c.Target)
		return
	}
	for i := range c.asked {
		if o := &c.asked[i]; o.kind == opKindCreate && o.mode.IsEphemeral() && !yield(c.session.absoluteNew(o.path, o.mode)) {
			return
		}
	}
}

// Unsent implements [conn.Caller]. The next epoch may send a call that belongs to no epoch, if this
// epoch was never announced or the call is a read.
func (c *call) Unsent(why error) {
	s := c.session
	s.conn.Order.Put(func() {
		e := c.Epoch()
		if free := c.number == 0 && (!c.Write || !e.Announced()); free && isAny(why, ErrExpired) {
			e.Ephemerals.Release(c.Ephemeral)
			if why = s.enqueue(c); why == nil {
				return
			}
			c.Ephemeral = 0
		}
		c.Err = why
		c.Run()
	})
}

// refuse answers, in its turn, a call that cannot be made, or with nil one that has nothing to do.
func (c *call) refuse(s *Session, why error) *call {
	c.session = s
	c.Refuse(&s.conn, why)
	return c
}

// A request is a call with a result.
type request[T any] struct {
	call
	result  T
	convert func(*call, *wire.Reply) (T, error)
	tell    func(T, error)
}

// Take implements [conn.Caller].
func (r *request[T]) Take(reply *wire.Reply) (err error) {
	if r.result, err = r.convert(&r.call, reply); err == nil {
		r.session.noteMade(&r.call)
	}
	return err
}

// Answer implements [conn.Caller].
func (r *request[T]) Answer(err error) { r.tell(r.result, err) }

func newRequest[T any](op, path string, convert func(*call, *wire.Reply) (T, error), tell func(T, error)) *request[T] {
	r := &request[T]{convert: convert, tell: tell}
	r.Of, r.Op, r.Path = r, op, path
	return r
}
