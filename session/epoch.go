package session

import (
	"time"

	"github.com/zkactors/zkactors/session/internal/conn"
	"github.com/zkactors/zkactors/session/internal/order"
	"github.com/zkactors/zkactors/session/internal/watches"
	"github.com/zkactors/zkactors/session/internal/wire"
	"github.com/zkactors/zkactors/session/internal/workers"
)

// This file is the session as the packages below it see it: an owner for conn, an epoch for
// watches.

// An owner is the session as its epochs see it.
type owner Session

// Tell implements [conn.Owner].
func (o *owner) Tell(r conn.Report) {
	s := (*Session)(o)
	switch r := r.(type) {
	case conn.Established:
		s.conn.Order.PutStep(order.Report(func() {
			if s.epoch.Number != r.Epoch || s.epoch.Live(r.Lapses) {
				s.step(established{epoch: r.Epoch, id: r.ID, timeout: r.Timeout, server: r.Server, past: r.Past})
			}
		}))
	case conn.Severed:
		s.tell(severed{r.Epoch, r.Deadline})
	case conn.Rejected:
		s.tell(rejected{r.Epoch})
	case conn.Changed:
		s.conn.Order.Put(s.haveLook)
	}
}

// Fired implements [conn.Owner].
func (o *owner) Fired(of *conn.Epoch, ev wire.Event) {
	e := o.epoch
	if e.Epoch != of {
		return
	}
	if ev.Kind == wire.EventDeleted {
		e.Ephemerals.Disown(ev.Path)
	}
	o.watches.Fired(e, ev)
}

// Name implements [conn.Owner].
func (*owner) Name(op, path string, err error) error {
	if _, named := err.(*OpError); named { //nolint:errorlint // only an error that is an OpError itself needs no name
		return err
	}
	if op == "create" && isNoNode(err) {
		err = withoutParent(err, path)
	}
	return &OpError{Op: op, Path: path, Err: err}
}

// Observe implements [conn.Owner].
func (o *owner) Observe(op string, took time.Duration, err error) {
	o.opts.Observer.Request(op, took, err)
}

// ErrorOf implements [conn.Owner].
func (*owner) ErrorOf(code wire.Code) error { return errOf(code) }

// An epoch is a ZooKeeper session, as the watches see it.
type epoch struct {
	*conn.Epoch

	session *Session
}

// unwatchable returns the error with which the watches of a node end.
func (s *Session) unwatchable(path string, why error) error {
	return &OpError{Op: "watch", Path: s.relative(path), Err: why}
}

// Later implements [watches.Epoch].
func (e *epoch) Later(retry *workers.Retry, path string, why error, suspicious bool, do func()) *workers.Retry {
	if retry == nil {
		retry = e.session.conn.Retry(e.session.relative(path))
	}
	if suspicious {
		retry.Pauses = workers.NewPauses(e.session.connected.Timeout/4, time.Hour)
	}
	return e.session.conn.Later(retry, e.session.relative(path), why, do)
}

// Found implements [watches.Epoch]. It notes a node that the session owns.
func (e *epoch) Found(path string, stat *wire.Stat) {
	if stat.EphemeralOwner == e.session.connected.ID {
		e.Ephemerals.Own(path, stat.Czxid, nil)
	}
}

// A watchRead is the call that reads a node for a watch.
type watchRead struct {
	call
	read  watches.Read
	found Reading
}

// Read implements [watches.Epoch].
func (e *epoch) Read(read watches.Read) {
	w, roomy := read.Request()
	r := &watchRead{read: read}
	r.Of, r.Op, r.Path = r, "watch", e.session.relative(w.Path)
	a := e.session.requests(e.Number)
	a.roomy = roomy
	issue(a, &r.call, &w)
}

// Take implements [conn.Caller].
func (r *watchRead) Take(reply *wire.Reply) (err error) {
	r.found, err = readingIn(&r.call, reply)
	return err
}

// Answer implements [conn.Caller].
func (r *watchRead) Answer(err error) {
	r.read.Answered(watches.Reading{Zxid: r.Zxid, Stat: (*wire.Stat)(r.found.Stat), Data: r.found.Data, Names: r.found.Names}, err)
}

// A watchSetting is the call that sets watches on nodes that are known.
type watchSetting struct {
	call
	planting watches.Planting
}

// Plant implements [watches.Epoch].
func (e *epoch) Plant(p watches.Planting) {
	e.Plants(p.Plants)
	r := &watchSetting{planting: p}
	r.Of, r.Op, r.Path = r, "watch", e.session.relative(p.Path())
	issue(e.session.requests(e.Number), &r.call, p.Request())
}

// Take implements [conn.Caller].
func (*watchSetting) Take(*wire.Reply) error { return nil }

// Answer implements [conn.Caller].
func (r *watchSetting) Answer(err error) { r.planting.Answered(r.Zxid, err) }

// Unwatch implements [watches.Epoch].
func (e *epoch) Unwatch(key watches.Key) {
	if !e.Removes(key) {
		return // the session ignores the event
	}
	s := e.session
	// An error means that the watch is gone, or that the server cannot remove it: nothing is to be
	// done.
	r := newRequest("unwatch", s.relative(key.Path), nothing, func(struct{}, error) {})
	issue(s.requests(e.Number), &r.call, watches.Removal(key))
}
