package zktest

import (
	"slices"
	"strings"
)

// An operation is a write, alone or as a part of a multi.
type operation struct {
	op      Op
	path    string
	data    []byte
	acl     []acl
	flags   int32
	version int32
	ttl     int64
}

// Flags of create.
const (
	flagEphemeral = 1 << iota
	flagSequential
	flagContainer // alone
	flagTTL       = flagContainer | 1
)

func parseOperation(op Op, d *decoder) operation {
	o := operation{op: op, ttl: -1}
	var ok bool
	o.path, ok = d.string()
	switch op { //nolint:exhaustive // the others are no operations
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		o.data, o.acl, o.flags = d.buffer(), d.acls(), d.int32()
		if op == OpCreateTTL {
			o.ttl = d.int64()
		}
		d.failed = d.failed || !ok
	case OpDelete:
		o.version = d.int32()
		d.failed = d.failed || !ok
	case OpCheck:
		o.version = d.int32()
	case OpSetData:
		o.data, o.version = d.buffer(), d.int32()
	case OpSetACL:
		o.acl, o.version = d.acls(), d.int32()
	case OpGetData, OpGetChildren:
		d.bool()
		d.failed = d.failed || !ok
	default:
		d.failed = true
	}
	// The frame will be used again.
	if o.data != nil {
		o.data = append([]byte{}, o.data...)
	}
	return o
}

// write executes a write of any kind at the leader, and answers it.
func (s *Server) write(c *conn, xid int32, op Op, d *decoder) {
	s.proposals++
	t := txn{zxid: s.tree.zxid + 1, time: s.now()}
	var err code
	var result body
	switch op { //nolint:exhaustive // all others are alike
	case OpMulti:
		t.changes, err, result = s.multi(c, d, t)
	case OpReconfig:
		err = codeReconfigDisabled
	case OpDeleteContainer:
		// ZooKeeper takes the whole frame for the path, which is never one.
		err = codeBadArguments
	case OpCreateSession:
		timeout := d.int32()
		if d.failed {
			err = codeMarshalling
			break
		}
		s.extend(c.session, timeout)
		s.commit(t)
		c.replica.catchUp()
		s.answerHandshake(c, c.session)
		return
	default:
		o := parseOperation(op, d)
		if d.failed {
			err = codeMarshalling
			break
		}
		var ch change
		var changes bool
		if ch, changes, err = s.prepare(c, o); err != codeOK {
			break
		}
		if changes {
			s.tree.apply(ch, t.zxid, t.time)
			t.changes = []change{ch}
		}
		result = s.result(o.op, ch)
	}
	s.commitApplied(t)
	c.replica.catchUp()
	if op == OpCheck && err == codeOK {
		// ZooKeeper 3.8 fails to write the answer, and sends none.
		return
	}
	s.answer(c, xid, err, result)
}

// result returns the body of the answer to a write that has just been applied.
func (s *Server) result(op Op, ch change) body {
	switch op { //nolint:exhaustive // the others have none
	case OpCreate:
		return func(b []byte) []byte { return appendString(b, ch.path) }
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		st := s.tree.node(ch.path).status()
		return func(b []byte) []byte { return appendStat(appendString(b, ch.path), st) }
	case OpSetData, OpSetACL:
		st := s.tree.node(ch.path).status()
		return func(b []byte) []byte { return appendStat(b, st) }
	}
	return func(b []byte) []byte { return b }
}

// multi executes operations in turn, all or none.
func (s *Server) multi(c *conn, d *decoder, t txn) ([]change, code, body) {
	all, kinds := parseMulti(d)
	if d.failed || kinds.reads {
		return nil, codeMarshalling, nil
	}
	var changes []change
	var undos []undo
	var out []byte
	for i, o := range all {
		ch, does, err := s.prepare(c, o)
		if err != codeOK {
			for _, u := range slices.Backward(undos) {
				s.tree.revert(u)
			}
			return nil, codeOK, func(b []byte) []byte {
				for j := range all {
					switch {
					case j < i:
						b = appendMultiError(b, codeOK)
					case j == i:
						b = appendMultiError(b, err)
					default:
						b = appendMultiError(b, codeRuntimeInconsistency)
					}
				}
				return appendMultiHeader(b, opError, true, -1)
			}
		}
		if does {
			undos = append(undos, s.tree.apply(ch, t.zxid, t.time))
			changes = append(changes, ch)
		}
		kind := o.op
		if kind == OpCreateContainer || kind == OpCreateTTL {
			kind = OpCreate2
		}
		out = s.result(o.op, ch)(appendMultiHeader(out, kind, false, 0))
	}
	return changes, codeOK, func(b []byte) []byte { return appendMultiHeader(append(b, out...), opError, true, -1) }
}

// kinds are what there is in a multi.
type kinds struct{ reads, writes, mixed bool }

// parseMulti returns the operations of a multi. What creations are called does
// not matter, their flags do.
func parseMulti(d *decoder) ([]operation, kinds) {
	var all []operation
	var k kinds
	for {
		op, done := Op(d.int32()), d.bool()
		d.int32()
		if d.failed || done {
			k.mixed = k.reads && k.writes
			return all, k
		}
		o := parseOperation(op, d)
		isTTL := o.flags == flagTTL || o.flags == flagTTL+1
		switch {
		case op == OpGetData || op == OpGetChildren:
			k.reads = true
		case op == OpSetACL, isTTL && op != OpCreateTTL:
			d.failed = true
		case op == OpDelete || op == OpSetData || op == OpCheck:
			k.writes = true
		default:
			k.writes = true
			if o.flags == flagContainer {
				o.op, o.ttl = OpCreateContainer, -1
			} else if !isTTL {
				o.op, o.ttl = OpCreate, -1
			}
		}
		all = append(all, o)
	}
}

func appendMultiHeader(b []byte, op Op, done bool, err code) []byte {
	b = appendInt32(b, int32(op))
	b = appendBool(b, done)
	return appendInt32(b, int32(err))
}

func appendMultiError(b []byte, err code) []byte {
	return appendInt32(appendMultiHeader(b, opError, false, err), int32(err))
}

// prepare decides what an operation does to the leader's tree, if anything.
func (s *Server) prepare(c *conn, o operation) (ch change, does bool, err code) {
	switch o.op { //nolint:exhaustive // there are no other operations
	case OpDelete:
		ch, err = s.prepareDelete(c, o)
		return ch, true, err
	case OpSetData, OpSetACL, OpCheck:
		return s.prepareUpdate(c, o)
	}
	ch, err = s.prepareCreate(c, o)
	return ch, true, err
}

func (s *Server) prepareCreate(c *conn, o operation) (change, code) {
	isTTL := o.flags == flagTTL || o.flags == flagTTL+1
	ephemeral := !isTTL && o.flags&flagEphemeral != 0
	isSequential := o.flags&flagSequential != 0
	switch {
	case o.flags < 0 || o.flags > flagTTL+1,
		isTTL && (o.ttl <= 0 || o.ttl > maxTTL),
		!isTTL && (o.ttl >= 0 || o.op == OpCreateTTL),
		!strings.Contains(o.path, "/") || strings.IndexByte(o.path, 0) >= 0:
		return change{}, codeBadArguments
	}
	list, ok := resolveACL(o.acl, c.who)
	if !ok {
		return change{}, codeInvalidACL
	}
	parent := s.tree.node(o.path[:strings.LastIndexByte(o.path, '/')])
	if parent == nil {
		return change{}, codeNoNode
	}
	if !allowed(parent.acl, permCreate, c.who) {
		return change{}, codeNoAuth
	}
	path := o.path
	if isSequential {
		path = sequential(path, parent.cversion)
	}
	switch {
	case !validPath(path):
		return change{}, codeBadArguments
	case s.tree.node(path) != nil:
		return change{}, codeNodeExists
	case isEphemeral(parent.owner):
		return change{}, codeNoChildrenForEphemeral
	}
	var owner int64
	switch {
	case o.op == OpCreateContainer:
		owner = containerOwner
	case o.op == OpCreateTTL:
		owner = ttlMask | o.ttl
	case ephemeral:
		owner = c.session.id
	}
	return change{
		kind:    nodeCreated,
		path:    path,
		data:    o.data,
		acl:     list,
		owner:   owner,
		version: parent.cversion + 1,
		parent:  parent.acl,
	}, codeOK
}

func (s *Server) prepareDelete(c *conn, o operation) (change, code) {
	slash := strings.LastIndexByte(o.path, '/')
	if slash < 0 || strings.IndexByte(o.path, 0) >= 0 || isSpecial(o.path) {
		return change{}, codeBadArguments
	}
	parent := s.tree.node(o.path[:slash])
	if parent == nil {
		return change{}, codeNoNode
	}
	if !allowed(parent.acl, permDelete, c.who) {
		return change{}, codeNoAuth
	}
	switch n := s.tree.node(o.path); {
	case n == nil:
		return change{}, codeNoNode
	case o.version != -1 && o.version != n.version:
		return change{}, codeBadVersion
	case len(n.names) > 0:
		return change{}, codeNotEmpty
	}
	return s.tree.deletion(o.path), codeOK
}

// prepareUpdate is for what needs a node, a permission and a version.
func (s *Server) prepareUpdate(c *conn, o operation) (ch change, does bool, err code) {
	if !validPath(o.path) {
		return ch, false, codeBadArguments
	}
	list, ok := resolveACL(o.acl, c.who)
	if o.op == OpSetACL && !ok {
		return ch, false, codeInvalidACL
	}
	n := s.tree.node(o.path)
	if n == nil {
		return ch, false, codeNoNode
	}
	perms, version := permRead, n.version
	ch.path, ch.before = o.path, n.acl
	switch o.op { //nolint:exhaustive // see the caller
	case OpSetData:
		perms, ch.kind, ch.data, does = permWrite, dataSet, o.data, true
	case OpSetACL:
		perms, version, ch.kind, ch.acl, does = permAdmin, n.aversion, aclSet, list, true
	}
	ch.version = version + 1
	switch {
	case !allowed(n.acl, perms, c.who):
		return ch, false, codeNoAuth
	case o.version != -1 && o.version != version:
		return ch, false, codeBadVersion
	}
	return ch, does, codeOK
}

// scheduleReaping begins to delete what nobody needs any more, from time to
// time. The server's lock is held.
func (s *Server) scheduleReaping() {
	s.stopReaping = s.after(s.config.ReapInterval, func() {
		s.reap()
		s.scheduleReaping()
	})
}

// Reap deletes empty containers and nodes whose TTL has passed now, as the
// server does from time to time by itself.
func (s *Server) Reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reap()
}

func (s *Server) reap() {
	for _, path := range s.tree.expired(s.now()) {
		s.commit(txn{
			zxid:    s.tree.zxid + 1,
			time:    s.now(),
			changes: []change{s.tree.deletion(path)},
		})
	}
}
