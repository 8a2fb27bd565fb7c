package session

import (
	"bytes"
	"fmt"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// This file encodes requests, and converts their replies.

// target returns the path on the server of a node, or why there cannot be such a node.
func (s *Session) target(path string) (string, error) {
	if err := ValidatePath(path); err != nil {
		return "", err
	}
	return s.absolute(path), nil
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

// fits reports why a request of so many bytes cannot be sent.
func (s *Session) fits(bytes int) error {
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
func (s *Session) aclOf(acl []ACL) []wire.ACL {
	if acl == nil {
		return s.acl
	}
	return wireACL(acl)
}

// absoluteNew returns the path on the server of a node that is to be created. The name
// of a sequential one may be nothing but the number.
func (s *Session) absoluteNew(path string, mode CreateMode) string {
	if path == "/" && mode.IsSequential() {
		return string(s.chroot) + path
	}
	return s.absolute(path)
}

// setCreate sets the fields of a request that creates a node. The path and the mode are valid.
func (s *Session) setCreate(w *wire.Request, path string, data []byte, mode CreateMode, acl []ACL) {
	w.Op, w.Path, w.Data, w.ACL, w.Flags = createOpcode(mode), s.absoluteNew(path, mode), data, s.aclOf(acl), int32(mode.kind())
	if w.Op == wire.OpCreateTTL {
		w.TTL = mode.ttl().Milliseconds()
	}
}

// appendMulti appends the frame of a transaction to nothing.
func (s *Session) appendMulti(b []byte, ops []Op) []byte {
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
func (s *Session) multiSize(ops []Op) int {
	n := recordSize(0, nil)
	for i := range ops {
		n += recordSize(len(s.chroot)+len(ops[i].path)+len(ops[i].data), s.aclOf(ops[i].acl))
	}
	return n
}

// What follows converts replies.

func nothing(*call, *wire.Reply) (struct{}, error) { return struct{}{}, nil }

func statIn(_ *call, r *wire.Reply) (*Stat, error) { return statOf(&r.Stat), nil }

func dataIn(_ *call, r *wire.Reply) (dataResult, error) {
	return dataResult{bytes.Clone(r.Data), statOf(&r.Stat)}, nil
}

func childrenIn(_ *call, r *wire.Reply) (childrenResult, error) {
	return childrenResult{r.Names, statOf(&r.Stat)}, nil
}

func createdIn(c *call, r *wire.Reply) (string, error) {
	e := c.epoch.Load()
	if c.ephemeral > 0 {
		c.owns(r.Path)
	}
	return e.session.relative(r.Path), nil
}

func deletedIn(c *call, _ *wire.Reply) (struct{}, error) {
	c.epoch.Load().ephemerals.disown(c.target)
	return struct{}{}, nil
}

type dataResult struct {
	data []byte
	stat *Stat
}

type childrenResult struct {
	names []string
	stat  *Stat
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

// resultsIn converts the results of a transaction. The error is that of the operation that
// failed it.
func resultsIn(c *call, reply *wire.Reply) ([]OpResult, error) {
	ops, replies := c.asked, reply.Results
	e := c.epoch.Load()
	s := e.session
	results := make([]OpResult, len(ops))
	var failed error
	for i := range replies {
		r := &replies[i]
		switch {
		case r.Op == wire.OpError:
			// What another's failure undid, or kept from being tried, has not failed.
			if r.Code != wire.CodeOK && r.Code != wire.CodeRuntimeInconsistency {
				results[i].Err = ops[i].refused(errOf(r.Code))
				if failed == nil {
					failed = &OpError{Op: "multi", Path: ops[i].path, Err: results[i].Err}
				}
			}
			continue
		case r.Path != "":
			results[i].Path, results[i].company = s.relative(r.Path), c.company
		}
		if r.HasStat {
			results[i].Stat = statOf(&r.Stat)
		}
		switch {
		case ops[i].kind == opKindCreate && ops[i].mode.IsEphemeral():
			c.owns(r.Path)
		case ops[i].kind == opKindDelete:
			e.ephemerals.disown(s.absolute(ops[i].path))
		}
	}
	return results, failed
}

// audit looks for the nodes that are counted, when they are many: other clients may have
// deleted them, and no event reports the deletion of a node that is not watched. A read that finds no node
// corrects the count.
func (e *epoch) audit() {
	if paths := e.ephemerals.due(); len(paths) > 0 {
		e.look(paths)
	}
}

// look reads the nodes at the paths, some at a time.
func (e *epoch) look(paths []string) {
	const window = 64
	under := min(window, len(paths))
	var next func()
	next = func() {
		if len(paths) == 0 {
			if under--; under == 0 {
				e.ephemerals.settled()
			}
			return
		}
		path := paths[0]
		paths = paths[1:]
		e.session.Async(e.number).Exists(e.session.relative(path), func(*Stat, error) { next() })
	}
	for range under {
		next()
	}
}

// owns notes what the call has created.
func (c *call) owns(path string) {
	e := c.epoch.Load()
	e.ephemerals.own(path, c.zxid, confirmed)
	e.audit()
}
