package zktest

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// Flags of create.
const (
	flagEphemeral = 1 << iota
	flagSequential
	flagContainer // alone
	flagTTL       = flagContainer | 1
)

// hasTTL reports whether the flags belong to a node with a TTL.
func hasTTL(q *wire.Request) bool {
	return q.Op.IsCreate() && (q.Flags == flagTTL || q.Flags == flagTTL+1)
}

// isReadable reports whether ZooKeeper can read a well-formed request. Some operations
// take a null path for an empty one, the others fail.
func isReadable(q *wire.Request) bool {
	switch q.Op { //nolint:exhaustive // the others have no path, or need none
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpExists, OpGetData, OpGetChildren, OpGetChildren2,
		OpGetACL, OpGetAllChildren, OpCheckWatches, OpRemoveWatches:
		return !q.NoPath
	case OpMulti, OpMultiRead:
		for i := range q.Ops {
			o := &q.Ops[i]
			if !isReadable(o) || hasTTL(o) && o.Op != OpCreateTTL {
				return false
			}
		}
	}
	return true
}

// write executes a write of any kind at the leader, and answers it.
func (s *Server) write(c *conn, xid int32, q *wire.Request, readable bool) {
	if !readable && s.differs.rejectsMalformed && q.Op != OpMulti && (q.Op != OpDelete || !q.NoPath) {
		s.answer(c, xid, q.Op, codeMarshalling, &wire.Reply{})
		return
	}
	s.proposals++
	t := txn{zxid: s.tree.zxid + 1, time: s.now()}
	var err code
	var reply wire.Reply
	switch {
	case q.Op == OpReconfig:
		err = codeReconfigDisabled
	case q.Op == OpDeleteContainer:
		// ZooKeeper takes the whole frame for the path, which is never one.
		err = codeBadArguments
	case !readable, q.Op == OpCreateSession && len(q.Data) < 4:
		err = codeMarshalling
	case q.Op == OpCreateSession:
		s.extend(c.session, int32(binary.BigEndian.Uint32(q.Data)))
		s.commit(t)
		c.replica.catchUp()
		s.answerHandshake(c, c.session)
		return
	case q.Op == OpMulti:
		t.changes, reply.Results, err = s.multi(c, q.Ops, t)
	default:
		var ch change
		var changes bool
		if ch, changes, err = s.prepare(c, q); err != codeOK {
			break
		}
		if changes {
			s.tree.apply(ch, t.zxid, t.time)
			t.changes = []change{ch}
		}
		reply.Path = ch.path
		if n := s.tree.node(ch.path); n != nil {
			reply.Stat = s.tree.status(n)
		}
	}
	s.commitApplied(t)
	c.replica.catchUp()
	if q.Op == OpCheck && err == codeOK && !s.differs.answersCheck {
		// ZooKeeper 3.8 fails to write the answer, and sends none.
		return
	}
	s.answer(c, xid, q.Op, err, &reply)
}

// multi executes operations in turn, all or none.
func (s *Server) multi(c *conn, ops []wire.Request, t txn) ([]change, []wire.Result, code) {
	if reads, _ := kindsOf(ops); reads {
		return nil, nil, codeMarshalling
	}
	var changes []change
	var undos []undo
	results := make([]wire.Result, len(ops))
	for i := range ops {
		o := &ops[i]
		if o.Op.IsCreate() && !hasTTL(o) && !s.typed(o) {
			return nil, nil, codeMarshalling
		}
		ch, does, err := s.prepare(c, o)
		if err != codeOK {
			for _, u := range slices.Backward(undos) {
				s.tree.revert(u)
			}
			return nil, failedResults(len(ops), i, err), codeOK
		}
		if does {
			undos = append(undos, s.tree.apply(ch, t.zxid, t.time))
			changes = append(changes, ch)
		}
		results[i] = s.result(o.Op, ch)
	}
	return changes, results, codeOK
}

// typed gives a creation in a transaction the operation that counts there. It returns false if the
// flags say none.
func (s *Server) typed(o *wire.Request) bool {
	switch {
	case o.Flags == flagContainer && !s.differs.refusesFlags:
		o.Op = OpCreateContainer
	case !s.differs.create2InMulti || o.Op == OpCreateTTL: // the flags decide, not the operation
		o.Op = OpCreate
	case o.Flags < 0 || o.Flags > flagTTL+1:
		return false
	case o.Op == OpCreateContainer:
		o.Flags &^= flagEphemeral
	}
	return true
}

// failedResults returns the results of n operations, if the one at the index failed.
func failedResults(n, at int, err code) []wire.Result {
	results := make([]wire.Result, n)
	for i := range results {
		results[i].Op = wire.OpError
		switch {
		case i == at:
			results[i].Code = err
		case i > at:
			results[i].Code = codeRuntimeInconsistency
		}
	}
	return results
}

// result returns the result of an operation of a multi that has been applied.
func (s *Server) result(op Op, ch change) wire.Result {
	r := wire.Result{Op: op, Path: ch.path}
	switch op { //nolint:exhaustive // the others have no stat
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		r.Op = OpCreate2
		r.Stat = s.tree.status(s.tree.node(ch.path))
	case OpSetData:
		r.Stat = s.tree.status(s.tree.node(ch.path))
	}
	return r
}

// kindsOf reports whether a multi contains reads, and writes.
func kindsOf(ops []wire.Request) (reads, writes bool) {
	for i := range ops {
		if ops[i].Op == OpGetData || ops[i].Op == OpGetChildren {
			reads = true
		} else {
			writes = true
		}
	}
	return reads, writes
}

// prepare decides what an operation does to the leader's tree, if anything.
func (s *Server) prepare(c *conn, o *wire.Request) (ch change, does bool, err code) {
	switch o.Op { //nolint:exhaustive // there are no other operations
	case OpDelete:
		ch, err = s.prepareDelete(c, o)
		return ch, true, err
	case OpSetData, OpSetACL, OpCheck:
		return s.prepareUpdate(c, o)
	}
	ch, err = s.prepareCreate(c, o)
	return ch, true, err
}

func (s *Server) prepareCreate(c *conn, o *wire.Request) (change, code) {
	isTTL := hasTTL(o)
	ephemeral := !isTTL && o.Flags&flagEphemeral != 0
	isSequential := o.Flags&flagSequential != 0
	switch {
	case o.Flags < 0 || o.Flags > flagTTL+1, o.Flags >= flagContainer && s.differs.refusesFlags,
		isTTL && (o.TTL <= 0 || o.TTL > maxTTL),
		!isTTL && o.Op == OpCreateTTL,
		!strings.Contains(o.Path, "/") || strings.IndexByte(o.Path, 0) >= 0:
		return change{}, codeBadArguments
	}
	list, ok := s.resolveACL(aclOf(o.ACL), c.who)
	if !ok {
		return change{}, codeInvalidACL
	}
	parent := s.tree.node(o.Path[:strings.LastIndexByte(o.Path, '/')])
	if parent == nil {
		return change{}, codeNoNode
	}
	if !allowed(parent.acl, permCreate, c.who) {
		return change{}, codeNoAuth
	}
	path := o.Path
	if isSequential {
		path = sequential(path, parent.Cversion)
	}
	switch {
	case !validPath(path):
		return change{}, codeBadArguments
	case s.tree.node(path) != nil:
		return change{}, codeNodeExists
	case isEphemeral(parent.EphemeralOwner):
		return change{}, codeNoChildrenForEphemeral
	}
	var owner int64
	switch {
	case o.Op == OpCreateContainer:
		owner = containerOwner
	case o.Op == OpCreateTTL:
		owner = ttlMask | o.TTL
	case ephemeral:
		owner = c.session.id
	}
	return change{
		kind:    nodeCreated,
		path:    path,
		data:    slices.Clone(o.Data), // the frame will be used again
		acl:     list,
		owner:   owner,
		version: parent.Cversion + 1,
		parent:  parent.acl,
	}, codeOK
}

func (s *Server) prepareDelete(c *conn, o *wire.Request) (change, code) {
	slash := strings.LastIndexByte(o.Path, '/')
	if slash < 0 || strings.IndexByte(o.Path, 0) >= 0 || isSpecial(o.Path) {
		return change{}, codeBadArguments
	}
	parent := s.tree.node(o.Path[:slash])
	if parent == nil || s.differs.deletesFirst && s.tree.node(o.Path) == nil {
		return change{}, codeNoNode
	}
	if !allowed(parent.acl, permDelete, c.who) {
		return change{}, codeNoAuth
	}
	switch n := s.tree.node(o.Path); {
	case n == nil:
		return change{}, codeNoNode
	case o.Version != -1 && o.Version != n.Version:
		return change{}, codeBadVersion
	case len(n.names) > 0:
		return change{}, codeNotEmpty
	}
	return s.tree.deletion(o.Path), codeOK
}

// prepareUpdate is for what needs a node, a permission and a version.
func (s *Server) prepareUpdate(c *conn, o *wire.Request) (ch change, does bool, err code) {
	if !validPath(o.Path) {
		return ch, false, codeBadArguments
	}
	list, ok := s.resolveACL(aclOf(o.ACL), c.who)
	if o.Op == OpSetACL && !ok {
		return ch, false, codeInvalidACL
	}
	n := s.tree.node(o.Path)
	if n == nil {
		return ch, false, codeNoNode
	}
	perms, version := permRead, n.Version
	ch.path, ch.before = o.Path, n.acl
	switch o.Op { //nolint:exhaustive // see the caller
	case OpSetData:
		perms, ch.kind, ch.data, does = permWrite, dataSet, slices.Clone(o.Data), true
	case OpSetACL:
		perms, version, ch.kind, ch.acl, does = permAdmin, n.Aversion, aclSet, list, true
	}
	ch.version = version + 1
	switch {
	case !allowed(n.acl, perms, c.who):
		return ch, false, codeNoAuth
	case o.Version != -1 && o.Version != version:
		return ch, false, codeBadVersion
	}
	return ch, does, codeOK
}

// scheduleReaping begins to delete containers and nodes that are not needed any more,
// from time to time. The server's lock is held.
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
