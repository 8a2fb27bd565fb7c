package session

import (
	"fmt"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// An encoder turns requests into frames.
type encoder struct {
	chroot
	acl   []wire.ACL // of nodes without one of their own
	limit int        // of a request: Options.MaxRequest
}

// target returns the path on the server of a node, or why there cannot be such a node.
func (e *encoder) target(path string) (string, error) {
	if err := ValidatePath(path); err != nil {
		return "", err
	}
	return e.absolute(path), nil
}

// fits reports why a request of so many bytes cannot be sent.
func (e *encoder) fits(bytes int) error {
	if bytes > e.limit {
		return fmt.Errorf("%w: the request has %d bytes with data, paths and ACLs, the limit is %d (session.Options.MaxRequest)", ErrTooLarge, bytes, e.limit)
	}
	return nil
}

// frameSize is at least the size of the frame of a request on one node.
func frameSize(w *wire.Request) int {
	return recordSize(len(w.Path)+len(w.Data), w.ACL)
}

// recordSize is at least the size of a request, or of an operation of a transaction, with so
// many bytes of path and data.
func recordSize(bytes int, acl []wire.ACL) int {
	const fixed = 48 // a create with a TTL has 33 bytes beside these
	n := fixed + bytes
	for _, a := range acl {
		n += 12 + len(a.Scheme) + len(a.ID)
	}
	return n
}

// aclOf returns the ACL of a node as it goes out.
func (e *encoder) aclOf(acl []ACL) []wire.ACL {
	if acl == nil {
		return e.acl
	}
	return wireACL(acl)
}

// absoluteNew returns the path on the server of a node that is to be created. The name
// of a sequential one may be nothing but the number.
func (e *encoder) absoluteNew(path string, mode CreateMode) string {
	if path == "/" && mode.IsSequential() {
		return string(e.chroot) + path
	}
	return e.absolute(path)
}

// fill sets the fields of the request for an operation, which is valid.
func (e *encoder) fill(w *wire.Request, o *Op) {
	w.Op, w.Data = o.opcode(), o.data
	if o.kind != opKindCreate {
		w.Path, w.Version = e.absolute(o.path), o.version
		return
	}
	w.Path, w.ACL, w.Flags = e.absoluteNew(o.path, o.mode), e.aclOf(o.acl), int32(o.mode.kind())
	if w.Op == wire.OpCreateTTL {
		w.TTL = o.mode.ttl().Milliseconds()
	}
}

// appendMulti appends the frame of a transaction to nothing.
func (e *encoder) appendMulti(b []byte, ops []Op) []byte {
	var w wire.Request
	b = wire.BeginMulti(b, 0)
	for i := range ops {
		e.fill(&w, &ops[i])
		b = wire.AppendPart(b, &w)
	}
	return wire.EndMulti(b)
}

// multiSize is at least the size of the frame of a transaction.
func (e *encoder) multiSize(ops []Op) int {
	n := recordSize(0, nil)
	for i := range ops {
		n += recordSize(len(e.chroot)+len(ops[i].path)+len(ops[i].data), e.aclOf(ops[i].acl))
	}
	return n
}
