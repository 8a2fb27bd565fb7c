package wire

import (
	"encoding/binary"
	"slices"
)

// A Header begins every reply.
type Header struct {
	Xid  int32
	Zxid int64
	Code Code
}

// A Reply is the record of a reply of any kind without an error. Each operation uses
// the fields that its record has in ZooKeeper.
type Reply struct {
	Path    string
	NoPath  bool // of sync: set if the path is null
	Data    []byte
	Stat    Stat
	Names   []string
	ACL     []ACL // the identities of whoAmI have no Perms
	Count   int32 // of getAllChildrenNumber; the error of addWatch
	Results []Result
}

// A Result is the result of an operation of a multi or a multiRead.
type Result struct {
	Op      Op   // OpError, or the type of the result
	Code    Code // of OpError: CodeOK if a later operation failed
	Path    string
	Stat    Stat
	HasStat bool
	Data    []byte
	Names   []string
}

// ParseHeader reads the header of a reply or a notification, and returns its record.
func ParseHeader(body []byte) (h Header, rest []byte, err error) {
	d := decoder{rest: body}
	h = Header{Xid: d.int32(), Zxid: d.int64(), Code: Code(d.int32())}
	return h, d.rest, d.err()
}

func appendHeader(b []byte, h Header) []byte {
	b = appendInt32(b, h.Xid)
	b = appendInt64(b, h.Zxid)
	return appendInt32(b, int32(h.Code))
}

// AppendReply appends a frame. A reply with an error has no record, and neither has a reply for
// which r is nil.
func AppendReply(b []byte, h Header, op Op, r *Reply) []byte {
	at := len(b)
	b = appendHeader(appendInt32(b, 0), h)
	if h.Code == CodeOK && r != nil {
		b = appendReply(b, op, r)
	}
	setLength(b[at:])
	return b
}

// SetCode changes the error of a frame that AppendReply has made.
func SetCode(frame []byte, c Code) { binary.BigEndian.PutUint32(frame[4+4+8:], uint32(c)) }

func appendReply(b []byte, op Op, r *Reply) []byte {
	switch op { //nolint:exhaustive // the others have no record
	case OpCreate:
		b = appendJavaString(b, r.Path)
	case OpSync:
		if r.NoPath {
			return appendInt32(b, -1)
		}
		b = appendJavaString(b, r.Path)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		b = appendStat(appendJavaString(b, r.Path), &r.Stat)
	case OpExists, OpSetData, OpSetACL:
		b = appendStat(b, &r.Stat)
	case OpGetData, OpReconfig:
		b = appendStat(appendBuffer(b, r.Data), &r.Stat)
	case OpGetACL:
		b = appendStat(appendACLs(b, r.ACL, appendJavaString), &r.Stat)
	case OpGetChildren, OpGetEphemerals:
		b = appendStrings(b, r.Names, appendJavaString)
	case OpGetChildren2:
		b = appendStat(appendStrings(b, r.Names, appendJavaString), &r.Stat)
	case OpGetAllChildrenNumber, OpAddWatch:
		b = appendInt32(b, r.Count)
	case OpSASL:
		b = appendBuffer(b, r.Data)
	case OpWhoAmI:
		b = appendCount(b, len(r.ACL))
		for _, a := range r.ACL {
			b = appendJavaString(appendJavaString(b, a.Scheme), a.ID)
		}
	case OpMulti, OpMultiRead:
		for i := range r.Results {
			b = appendResult(b, &r.Results[i])
		}
		b = appendMultiEnd(b)
	}
	return b
}

func appendResult(b []byte, r *Result) []byte {
	if r.Op == OpError {
		b = appendMultiHeader(b, r.Op, false, int32(r.Code))
		return appendInt32(b, int32(r.Code))
	}
	b = appendMultiHeader(b, r.Op, false, 0)
	switch r.Op { //nolint:exhaustive // the others have no record
	case OpCreate:
		b = appendJavaString(b, r.Path)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		b = appendStat(appendJavaString(b, r.Path), &r.Stat)
	case OpSetData:
		b = appendStat(b, &r.Stat)
	case OpGetData:
		b = appendStat(appendBuffer(b, r.Data), &r.Stat)
	case OpGetChildren:
		b = appendStrings(b, r.Names, appendJavaString)
	}
	return b
}

// ParseReply reads the record of a reply without an error into r, whose former results it
// overwrites. The reply answers a request for op. If that was a multi, ops are its operations,
// and the results must match them; nil matches all. Trailing bytes are malformed.
//
// ZooKeeper answers a creation in a multi by the flags of the node: with a path and a
// stat for containers and TTLs, with a path alone for others, even to a create2.
func ParseReply(op Op, ops []Op, rest []byte, r *Reply) error {
	former := r.Results
	*r = Reply{}
	d := decoder{rest: rest}
	switch op { //nolint:exhaustive // the others have no record
	case OpCreate:
		r.Path = d.text()
	case OpSync:
		var ok bool
		r.Path, ok = d.string()
		r.NoPath = !ok
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		r.Path = d.text()
		d.stat(&r.Stat)
	case OpExists, OpSetData, OpSetACL:
		d.stat(&r.Stat)
	case OpGetData, OpReconfig:
		r.Data = d.buffer()
		d.stat(&r.Stat)
	case OpGetACL:
		r.ACL = d.acls()
		d.stat(&r.Stat)
	case OpGetChildren, OpGetEphemerals:
		r.Names = d.strings()
	case OpGetChildren2:
		r.Names = d.strings()
		d.stat(&r.Stat)
	case OpGetAllChildrenNumber, OpAddWatch:
		r.Count = d.int32()
	case OpSASL:
		r.Data = d.buffer()
	case OpWhoAmI:
		r.ACL = d.identities()
	case OpMulti, OpMultiRead:
		d.results(r, former, len(ops))
		if ops != nil && !answers(op, ops, r.Results) {
			return ErrMalformed
		}
	}
	return d.end()
}

func (d *decoder) identities() []ACL {
	n := d.count(4 + 4)
	if n == 0 {
		return nil
	}
	all := make([]ACL, n)
	for i := range all {
		all[i].Scheme, _ = d.string()
		all[i].ID, _ = d.string()
	}
	return all
}

// resultSize is the size of the smallest result, a header.
const resultSize = 4 + 1 + 4

// reusable empties results for further use. It releases the memory of an uncommonly long list.
func reusable(results []Result) []Result {
	const keep = 8
	if cap(results) > keep {
		return nil
	}
	clear(results)
	return results[:0]
}

// results reads the results of a multi with that many operations, into the memory of former
// results.
func (d *decoder) results(r *Reply, former []Result, ops int) {
	if n := min(ops, len(d.rest)/resultSize); n > 0 {
		r.Results = slices.Grow(reusable(former), n)
	}
	for op, ok := d.next(); ok; op, ok = d.next() {
		r.Results = append(r.Results, Result{Op: op})
		d.result(&r.Results[len(r.Results)-1])
	}
}

func (d *decoder) result(r *Result) {
	switch r.Op { //nolint:exhaustive // the others are no results
	case OpError:
		r.Code = Code(d.int32())
	case OpCreate:
		r.Path = d.text()
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		r.Path, r.HasStat = d.text(), true
		d.stat(&r.Stat)
	case OpDelete, OpCheck:
	case OpSetData:
		r.HasStat = true
		d.stat(&r.Stat)
	case OpGetData:
		r.Data, r.HasStat = d.buffer(), true
		d.stat(&r.Stat)
	case OpGetChildren:
		r.Names = d.strings()
	default:
		d.fail()
	}
}

// answers reports whether the results match the operations. A multi fails as a whole,
// the operations of a multiRead fail separately.
func answers(op Op, ops []Op, results []Result) bool {
	if len(results) != len(ops) {
		return false
	}
	failed := op == OpMulti && len(results) > 0 && results[0].Op == OpError
	if failed && !slices.ContainsFunc(results, func(r Result) bool { return r.Code != CodeOK && r.Code != CodeRuntimeInconsistency }) {
		return false // nothing has failed
	}
	for i := range ops {
		sent, got := ops[i], results[i].Op
		switch {
		case got == OpError && (failed || op == OpMultiRead):
		case failed:
			return false
		case sent != got && (!sent.IsCreate() || !got.IsCreate()):
			return false
		}
	}
	return true
}

// An EventKind is a change of a node.
type EventKind int32

// The kinds of events.
const (
	EventCreated         EventKind = 1
	EventDeleted         EventKind = 2
	EventDataChanged     EventKind = 3
	EventChildrenChanged EventKind = 4
)

// An Event is a notification of a watch.
type Event struct {
	Kind  EventKind
	State int32 // of the session: 3 is connected
	Path  string
}

// AppendEvent appends a frame.
func AppendEvent(b []byte, zxid int64, e Event) []byte {
	at := len(b)
	b = appendHeader(appendInt32(b, 0), Header{Xid: XidNotification, Zxid: zxid})
	b = appendInt32(b, int32(e.Kind))
	b = appendInt32(b, e.State)
	b = appendJavaString(b, e.Path)
	setLength(b[at:])
	return b
}

// ParseEvent reads the record of a notification.
func ParseEvent(rest []byte) (Event, error) {
	d := decoder{rest: rest}
	e := Event{Kind: EventKind(d.int32()), State: d.int32(), Path: d.text()}
	return e, d.end()
}
