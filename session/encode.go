package session

import (
	"fmt"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// target returns the path on the server of a node, or why there cannot be such a node.
func (s *core) target(path string) (string, error) {
	if err := ValidatePath(path); err != nil {
		return "", err
	}
	return s.absolute(path), nil
}

// fits reports why a request of so many bytes cannot be sent.
func (s *core) fits(bytes int) error {
	if limit := s.opts.MaxRequest; bytes > limit {
		return fmt.Errorf("%w: the request has %d bytes with data, paths and ACLs, the limit is %d (session.Options.MaxRequest)", ErrTooLarge, bytes, limit)
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

// aclOf returns the ACL of a node as it goes out: that of the session if acl is nil.
func (s *core) aclOf(acl []ACL) []wire.ACL {
	if acl == nil {
		return s.acl
	}
	return wireACL(acl)
}

// absoluteNew returns the path on the server of a node that is to be created. The name
// of a sequential one may be nothing but the number.
func (s *core) absoluteNew(path string, mode CreateMode) string {
	if path == "/" && mode.IsSequential() {
		return string(s.chroot) + path
	}
	return s.absolute(path)
}

// setCreate sets the fields of a request that creates a node. The path and the mode are valid.
func (s *core) setCreate(w *wire.Request, path string, data []byte, mode CreateMode, acl []ACL) {
	w.Op, w.Path, w.Data, w.ACL, w.Flags = createOpcode(mode), s.absoluteNew(path, mode), data, s.aclOf(acl), int32(mode.kind())
	if w.Op == wire.OpCreateTTL {
		w.TTL = mode.ttl().Milliseconds()
	}
}

// appendMulti appends the frame of a transaction to nothing.
func (s *core) appendMulti(b []byte, ops []Op) []byte {
	var w wire.Request
	b = wire.BeginMulti(b, 0)
	for i := range ops {
		o := &ops[i]
		if o.kind == opKindCreate {
			s.setCreate(&w, o.path, o.data, o.mode, o.acl)
		} else {
			w.Op, w.Path, w.Data, w.Version = o.opcode(), s.absolute(o.path), o.data, o.version
		}
		b = wire.AppendPart(b, &w)
	}
	return wire.EndMulti(b)
}

// multiSize is at least the size of the frame of a transaction.
func (s *core) multiSize(ops []Op) int {
	n := recordSize(0, nil)
	for i := range ops {
		n += recordSize(len(s.chroot)+len(ops[i].path)+len(ops[i].data), s.aclOf(ops[i].acl))
	}
	return n
}
