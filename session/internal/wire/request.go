package wire

import "encoding/binary"

// A Request is a request of any kind, or an operation of a multi. Each operation uses
// the fields that its record has in ZooKeeper. Records of reconfig, of requests between
// servers and of unknown operations are not parsed: Data contains them.
type Request struct {
	Op      Op
	Path    string
	NoPath  bool   // set if the path is null
	Data    []byte // of a node; the secret of auth; the token of sasl; a record that is not parsed
	ACL     []ACL
	Flags   int32 // of a create
	TTL     int64 // in ms
	Version int32
	Watch   bool
	Kind    int32  // of checkWatches and removeWatches, the mode of addWatch, the type of auth
	Scheme  string // of auth
	Ops     []Request
	Zxid    int64        // of setWatches: the newest zxid that the client has seen
	Watches *[5][]string // data, exist, child; of setWatches2 also persistent, recursive
}

// AppendRequest appends a frame.
func AppendRequest(b []byte, xid int32, r *Request) []byte {
	at := len(b)
	b = appendRequestHeader(b, xid, r.Op)
	switch r.Op { //nolint:exhaustive // the others stand in appendBody
	case OpMulti, OpMultiRead:
		for i := range r.Ops {
			b = AppendPart(b, &r.Ops[i])
		}
		b = appendMultiEnd(b)
	default:
		b = appendBody(b, r)
	}
	setLength(b[at:])
	return b
}

// BeginMulti begins the frame of a multi, for a caller that makes its operations one by one.
// [AppendPart] appends an operation, and [EndMulti] ends the frame. When the frame begins, b is
// empty.
func BeginMulti(b []byte, xid int32) []byte { return appendRequestHeader(b, xid, OpMulti) }

// AppendPart appends an operation of a multi.
func AppendPart(b []byte, r *Request) []byte {
	return appendBody(appendMultiHeader(b, r.Op, false, -1), r)
}

// AppendPartsOf appends the operations of a multi from the frame of that multi. From the frame of
// another request it appends that request as an operation.
func AppendPartsOf(b, frame []byte) []byte {
	const header, end = 4 + 4 + 4, 4 + 1 + 4
	op := Op(binary.BigEndian.Uint32(frame[8:]))
	if op == OpMulti {
		return append(b, frame[header:len(frame)-end]...)
	}
	return append(appendMultiHeader(b, op, false, -1), frame[header:]...)
}

// EndMulti ends the frame of a multi.
func EndMulti(frame []byte) []byte {
	frame = appendMultiEnd(frame)
	setLength(frame)
	return frame
}

func appendRequestHeader(b []byte, xid int32, op Op) []byte {
	b = appendInt32(b, 0)
	b = appendInt32(b, xid)
	return appendInt32(b, int32(op))
}

// SetXid changes the transaction id of a frame that AppendRequest has made.
func SetXid(frame []byte, xid int32) { binary.BigEndian.PutUint32(frame[4:], uint32(xid)) }

// ParseRequestHeader reads the first two fields of the body of a request.
func ParseRequestHeader(body []byte) (xid int32, op Op, err error) {
	d := decoder{rest: body}
	xid, op = d.int32(), Op(d.int32())
	return xid, op, d.err()
}

// ParseRequest reads the body of a request. Like ZooKeeper, it ignores trailing bytes.
// Beside an error it returns the fields before the malformed one.
func ParseRequest(body []byte) (xid int32, r Request, err error) {
	d := decoder{rest: body}
	xid, r.Op = d.int32(), Op(d.int32())
	switch r.Op { //nolint:exhaustive // the others stand in parseBody
	case OpMulti, OpMultiRead:
		for op, ok := d.next(); ok; op, ok = d.next() {
			if !isPart(op) {
				d.fail()
				break
			}
			r.Ops = append(r.Ops, Request{Op: op})
			d.body(&r.Ops[len(r.Ops)-1])
		}
	default:
		d.body(&r)
	}
	return xid, r, d.err()
}

// OnlyChecks reports whether the body of a request is a multi that has only checks. It reads no
// further than the first other operation.
func OnlyChecks(body []byte) bool {
	d := decoder{rest: body}
	d.int32()
	if Op(d.int32()) != OpMulti {
		return false
	}
	checks := 0
	op, ok := d.next()
	for ; ok && op == OpCheck; op, ok = d.next() {
		d.buffer()
		d.int32()
		checks++
	}
	return checks > 0 && !ok && !d.failed
}

// isPart reports whether the operation may stand in a multi or a multiRead.
func isPart(op Op) bool {
	switch op { //nolint:exhaustive // the others may not
	case OpDelete, OpSetData, OpCheck, OpGetData, OpGetChildren:
		return true
	}
	return op.IsCreate()
}

func appendPath(b []byte, r *Request) []byte {
	if r.NoPath {
		return appendInt32(b, -1)
	}
	return appendString(b, r.Path)
}

// appendBody appends the record of a request.
func appendBody(b []byte, r *Request) []byte {
	switch r.Op { //nolint:exhaustive // the others stand in appendRare
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		b = appendBuffer(appendPath(b, r), r.Data)
		b = appendInt32(appendACLs(b, r.ACL, appendString), r.Flags)
		if r.Op == OpCreateTTL {
			b = appendInt64(b, r.TTL)
		}
	case OpDelete, OpCheck:
		b = appendInt32(appendPath(b, r), r.Version)
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		b = appendBool(appendPath(b, r), r.Watch)
	case OpSetData:
		b = appendInt32(appendBuffer(appendPath(b, r), r.Data), r.Version)
	default:
		b = appendRare(b, r)
	}
	return b
}

// appendRare is appendBody for rare requests that need more of the stack.
func appendRare(b []byte, r *Request) []byte {
	switch r.Op { //nolint:exhaustive // the others have no record
	case OpSetACL:
		b = appendInt32(appendACLs(appendPath(b, r), r.ACL, appendString), r.Version)
	case OpGetACL, OpSync, OpGetEphemerals, OpGetAllChildrenNumber:
		b = appendPath(b, r)
	case OpCheckWatches, OpRemoveWatches, OpAddWatch:
		b = appendInt32(appendPath(b, r), r.Kind)
	case OpSetWatches, OpSetWatches2:
		b = appendInt64(b, r.Zxid)
		watches := r.Watches
		if watches == nil {
			watches = new([5][]string)
		}
		for _, paths := range watches[:lists(r.Op)] {
			b = appendStrings(b, paths, appendString)
		}
	case OpAuth:
		b = appendBuffer(appendString(appendInt32(b, r.Kind), r.Scheme), r.Data)
	case OpSASL:
		b = appendBuffer(b, r.Data)
	case OpPing, OpCloseSession, OpWhoAmI, OpMulti, OpMultiRead:
	default:
		b = append(b, r.Data...)
	}
	return b
}

// body reads the record of a request.
func (d *decoder) body(r *Request) {
	switch r.Op { //nolint:exhaustive // the others have no record
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		d.path(r)
		r.Data, r.ACL, r.Flags = d.buffer(), d.acls(), d.int32()
		if r.Op == OpCreateTTL {
			r.TTL = d.int64()
		}
	case OpDelete, OpCheck:
		d.path(r)
		r.Version = d.int32()
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		d.path(r)
		r.Watch = d.bool()
	case OpSetData:
		d.path(r)
		r.Data, r.Version = d.buffer(), d.int32()
	case OpSetACL:
		d.path(r)
		r.ACL, r.Version = d.acls(), d.int32()
	case OpGetACL, OpSync, OpGetEphemerals, OpGetAllChildrenNumber:
		d.path(r)
	case OpCheckWatches, OpRemoveWatches, OpAddWatch:
		d.path(r)
		r.Kind = d.int32()
	case OpSetWatches, OpSetWatches2:
		r.Zxid = d.int64()
		r.Watches = new([5][]string)
		for i := range r.Watches[:lists(r.Op)] {
			r.Watches[i] = d.strings()
		}
	case OpAuth:
		r.Kind = d.int32()
		r.Scheme, _ = d.string()
		r.Data = d.buffer()
	case OpSASL:
		r.Data = d.buffer()
	case OpPing, OpCloseSession, OpWhoAmI, OpMulti, OpMultiRead:
	default:
		r.Data = d.take(len(d.rest))
	}
}

func (d *decoder) path(r *Request) {
	var ok bool
	r.Path, ok = d.string()
	r.NoPath = !ok && !d.failed
}

// lists returns the number of lists of a setWatches or setWatches2.
func lists(op Op) int {
	if op == OpSetWatches2 {
		return 5
	}
	return 3
}

// RecordSize returns an upper bound of the size of a request, or of an operation of a transaction,
// with the given number of bytes of path and data.
func RecordSize(bytes int, acl []ACL) int {
	const fixed = 48 // a create with a TTL has 33 bytes beside these
	n := fixed + bytes
	for _, a := range acl {
		n += 12 + len(a.Scheme) + len(a.ID)
	}
	return n
}
