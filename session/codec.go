package session

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/zkactors/zkactors/session/internal/conn"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// This file turns requests into frames, and replies into results.

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
	return wire.RecordSize(len(w.Path)+len(w.Data), w.ACL)
}

// aclOf returns the ACL of a node as it goes out.
func (e *encoder) aclOf(acl []ACL) []wire.ACL {
	if acl == nil {
		return e.acl
	}
	return wireACL(acl)
}

// absoluteNew returns the path on the server of a node that is to be created. The name of a
// sequential node may be nothing but the number.
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
	n := wire.RecordSize(0, nil)
	for i := range ops {
		n += wire.RecordSize(len(e.chroot)+len(ops[i].path)+len(ops[i].data), e.aclOf(ops[i].acl))
	}
	return n
}

// A chroot is the path on the server of the session's root; "" if both roots are the same.
type chroot string

// absolute returns the path on the server.
func (c chroot) absolute(path string) string {
	if path == "/" && c != "" {
		return string(c)
	}
	return string(c) + path
}

// relative returns the path as the users of the session know it.
func (c chroot) relative(path string) string {
	if rest := strings.TrimPrefix(path, string(c)); rest != "" {
		return rest
	}
	return "/"
}

func nothing(*call, *wire.Reply) (struct{}, error) { return struct{}{}, nil }

func statIn(_ *call, r *wire.Reply) (*Stat, error) { return statOf(&r.Stat), nil }

func readingIn(c *call, r *wire.Reply) (Reading, error) {
	return Reading{Zxid: c.Zxid, Stat: statOf(&r.Stat), Data: bytes.Clone(r.Data), Names: r.Names}, nil
}

func createdIn(c *call, r *wire.Reply) (string, error) {
	if c.Ephemeral > 0 {
		c.session.owns(c, r.Path)
	}
	return c.session.relative(r.Path), nil
}

func deletedIn(c *call, _ *wire.Reply) (struct{}, error) {
	c.Epoch().Ephemerals.Disown(c.Target)
	return struct{}{}, nil
}

type aclResult struct {
	acl  []ACL
	stat *Stat
}

func aclIn(_ *call, r *wire.Reply) (aclResult, error) {
	acl := make([]ACL, len(r.ACL))
	for i, a := range r.ACL {
		acl[i] = ACL{Perms: Perms(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return aclResult{acl, statOf(&r.Stat)}, nil
}

// resultsIn converts the results of a transaction. The error is the error of the operation that
// failed it.
func resultsIn(c *call, reply *wire.Reply) ([]OpResult, error) {
	ops, replies := c.asked, reply.Results
	e, s := c.Epoch(), c.session
	results := make([]OpResult, len(ops))
	var failed error
	for i := range replies {
		r := &replies[i]
		switch {
		case r.Op == wire.OpError:
			// An operation that another's failure undid, or kept from being tried, has not failed.
			if r.Code != wire.CodeOK && r.Code != wire.CodeRuntimeInconsistency {
				why := errOf(r.Code)
				if r.Code == wire.CodeUnimplemented && ops[i].opcode() == wire.OpCreateTTL {
					why = e.Learn(&c.Call, r.Code)
				}
				switch {
				case ops[i].kind == opKindCreate && r.Code == wire.CodeNoNode:
					why = withoutParent(why, ops[i].path)
				case ops[i].kind == opKindCreate && s.opts.anonymous(ops[i].acl):
					why = explained(why)
				}
				results[i].Err = ops[i].refused(why)
				if failed == nil {
					failed = &OpError{Op: "multi", Path: ops[i].path, Err: results[i].Err}
				}
			}
			continue
		case r.Path != "":
			results[i].Path, results[i].company = s.relative(r.Path), c.Company
		}
		if r.HasStat {
			results[i].Stat = statOf(&r.Stat)
		}
		switch {
		case ops[i].kind == opKindCreate && ops[i].mode.IsEphemeral():
			c.session.owns(c, r.Path)
		case ops[i].kind == opKindDelete:
			e.Ephemerals.Disown(s.absolute(ops[i].path))
		}
	}
	return results, failed
}

// owns notes the nodes that the call has created. When many nodes are counted, the session looks
// for them: other clients may have deleted them, and no event reports the deletion of a node that
// is not watched. A read that finds no node corrects the count.
func (s *Session) owns(c *call, path string) {
	c.Owns(path)
	if paths := c.Epoch().Ephemerals.Due(); len(paths) > 0 {
		s.audit(c.Epoch(), paths)
	}
}

// audit is a function of its own because owns allocates nothing.
func (s *Session) audit(e *conn.Epoch, paths []string) {
	e.Ephemerals.Audit(paths, func(path string, next func()) {
		s.requests(e.Number).Exists(s.relative(path), func(*Stat, error) { next() })
	})
}
