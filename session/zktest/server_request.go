package zktest

import (
	"slices"
	"strings"
)

// handle takes in a frame, and reports whether the connection goes on.
func (c *conn) handle(frame []byte) bool {
	s := c.server
	if !c.pass() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.session == nil {
		// Only now it is known whose connection this is.
		h, _ := parseHandshake(frame)
		if f := s.frozen[h.session]; h.session != 0 && f.requests {
			c.setFrozen(s.frozen[everySession].or(f))
			s.mu.Unlock()
			ok := c.pass()
			s.mu.Lock()
			if !ok {
				return false
			}
		}
	}
	c.received++
	s.stats.received++
	v := s.judge(c, frame)
	if v.delay > 0 {
		s.mu.Unlock()
		c.flush()
		ok := c.pause(v.delay)
		s.mu.Lock()
		if !ok {
			return false
		}
	}
	if v.drop {
		if v.cut {
			c.end()
		}
		return !v.cut
	}
	return s.execute(c, request{frame: frame, mute: v.mute, cut: v.cut, fail: v.fail})
}

// execute does what is asked, or has it wait for the leader. It reports whether
// the connection goes on. The server's lock is held.
func (s *Server) execute(c *conn, q request) bool {
	if c.ending.Load() || s.closed {
		return false
	}
	if len(c.waiting) > 0 || c.replica.isolated && needsLeader(c, q.frame) {
		q.frame = append([]byte{}, q.frame...)
		c.waiting = append(c.waiting, q)
		return true
	}
	c.mute = q.mute
	var more bool
	if q.fail == codeOK {
		more = s.run(c, q.frame)
	} else {
		more = s.refuse(c, q.frame, q.fail)
	}
	c.mute = false
	if q.cut {
		c.end()
		return false
	}
	return more && !c.ending.Load()
}

// needsLeader reports whether a replica cannot answer by itself.
func needsLeader(c *conn, frame []byte) bool {
	if c.session == nil {
		return true
	}
	d := decoder{rest: frame}
	d.int32()
	op := Op(d.int32())
	return isWrite(op) || op == OpSync || op == OpCloseSession
}

func isWrite(op Op) bool {
	switch op { //nolint:exhaustive // the others are not
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpSetACL, OpCheck, OpMulti, OpReconfig:
		return true
	}
	return false
}

func (s *Server) run(c *conn, frame []byte) bool {
	if c.session == nil {
		return s.connect(c, frame)
	}
	d := decoder{rest: frame}
	xid, op := d.int32(), Op(d.int32())
	if d.failed {
		return false
	}
	c.lastOp, c.lastXid = op, xid
	if op == OpAuth {
		return s.authenticate(c, xid, &d)
	}
	// The leader takes writes only from where the session is, and anything of
	// its own clients.
	moved := s.sessions[c.session.id] != nil && c.session.replica != c.replica
	if moved && op != OpCloseSession && (isWrite(op) || c.replica == s.leader()) {
		c.end()
		return false
	}
	s.touch(c)
	switch {
	case op == OpPing:
		s.answer(c, xidPing, codeOK, nil)
	case op == OpSync:
		c.replica.catchUp()
		path, ok := d.string()
		s.answerDecoded(c, xid, &d, codeOK, func(b []byte) []byte {
			if !ok {
				return appendInt32(b, -1)
			}
			return appendString(b, path)
		})
	case op == OpCloseSession:
		// The end of the session would end the connection before the answer.
		delete(c.replica.conns, c.session.id)
		if s.sessions[c.session.id] != nil {
			s.endSession(c.session, 0)
		}
		c.replica.catchUp()
		s.answer(c, xid, codeOK, nil)
		c.end()
		s.retire(c)
		return false
	case isWrite(op):
		if s.sessions[c.session.id] == nil {
			c.end()
			return false
		}
		s.write(c, xid, op, &d)
	default:
		err, body := s.read(c, op, &d)
		if err == codeUnimplemented {
			c.reply(xid, -1, err, nil)
			c.end()
			return false
		}
		s.answerDecoded(c, xid, &d, err, body)
	}
	return true
}

// refuse answers a request with an error, without having looked at it.
func (s *Server) refuse(c *conn, frame []byte, err code) bool {
	if c.session == nil {
		return false
	}
	d := decoder{rest: frame}
	s.touch(c)
	s.answer(c, d.int32(), err, nil)
	return true
}

func (s *Server) answer(c *conn, xid int32, err code, body func([]byte) []byte) {
	c.reply(xid, c.replica.tree.zxid, err, body)
}

// answerDecoded answers a request, unless it could not be read.
func (s *Server) answerDecoded(c *conn, xid int32, d *decoder, err code, body func([]byte) []byte) {
	if d.failed {
		err, body = codeMarshalling, nil
	}
	s.answer(c, xid, err, body)
}

func (s *Server) authenticate(c *conn, xid int32, d *decoder) bool {
	d.int32() // type
	scheme, _ := d.string()
	secret := d.buffer()
	switch {
	case d.failed:
		return false
	case scheme == "digest":
		c.identify(digest(string(secret)))
	case scheme == "ip":
	default:
		c.reply(xid, 0, codeAuthFailed, nil)
		c.end()
		return false
	}
	c.reply(xid, 0, codeOK, nil)
	return true
}

func (c *conn) identify(id identity) {
	if !slices.Contains(c.who, id) {
		c.who = append(c.who, id)
	}
}

type body = func([]byte) []byte

// read answers what the replica can answer from its own tree. A result is of no
// account if the request could not be decoded.
func (s *Server) read(c *conn, op Op, d *decoder) (code, body) {
	r := c.replica
	switch op { //nolint:exhaustive // the others are no reads
	case OpExists:
		return r.exists(c, d)
	case OpGetData:
		path, watch := d.path(), d.bool()
		return r.getData(c, path, watch && !d.failed)
	case OpGetChildren, OpGetChildren2:
		path, watch := d.path(), d.bool()
		return r.getChildren(c, path, watch && !d.failed, op == OpGetChildren2)
	case OpGetACL:
		return r.getACL(c, d.path())
	case OpGetAllChildren:
		path := d.path()
		if _, err := r.readable(c, path, permRead); err != codeOK {
			return err, nil
		}
		n := r.tree.countBelow(path)
		return codeOK, func(b []byte) []byte { return appendInt32(b, n) }
	case OpGetEphemerals:
		prefix, _ := d.string()
		var paths []string
		for _, p := range r.tree.ephemeralsOf(c.session.id) {
			if strings.HasPrefix(p, prefix) || strings.TrimSpace(prefix) == "" {
				paths = append(paths, p)
			}
		}
		return codeOK, func(b []byte) []byte { return appendStrings(b, paths) }
	case OpMultiRead:
		return r.multiRead(c, d)
	case OpWhoAmI:
		return codeOK, func(b []byte) []byte {
			b = appendInt32(b, int32(len(c.who)))
			for _, id := range c.who {
				b = appendString(appendString(b, id.scheme), userOf(id))
			}
			return b
		}
	case OpSetWatches, OpSetWatches2:
		return r.setWatches(c, d, op == OpSetWatches2), nil
	case OpAddWatch:
		path, _ := d.string()
		mode := d.int32()
		if d.failed || mode != 0 && mode != 1 {
			return codeMarshalling, nil
		}
		r.data.add(path, c, watchPersistent+watchMode(mode))
		r.child.add(path, c, watchPersistent+watchMode(mode))
		return codeOK, func(b []byte) []byte { return appendInt32(b, 0) }
	case OpCheckWatches, OpRemoveWatches:
		path, kind := d.path(), d.int32()
		if d.failed || kind < 1 || kind > 3 {
			return codeMarshalling, nil
		}
		return r.endWatches(c, path, kind, op == OpRemoveWatches), nil
	}
	return codeUnimplemented, nil
}

// readable returns the node at path if the client may read it.
func (r *replica) readable(c *conn, path string, perms int32) (*node, code) {
	n := r.tree.node(path)
	if n == nil {
		return nil, codeNoNode
	}
	if !allowed(n.acl, perms, c.who) {
		return nil, codeNoAuth
	}
	return n, codeOK
}

func (r *replica) exists(c *conn, d *decoder) (code, body) {
	path, watch := d.path(), d.bool()
	if d.failed {
		return codeMarshalling, nil
	}
	if strings.IndexByte(path, 0) >= 0 {
		return codeBadArguments, nil
	}
	if watch {
		r.data.add(path, c, watchOnce)
	}
	n := r.tree.node(path)
	if n == nil {
		return codeNoNode, nil
	}
	return codeOK, func(b []byte) []byte { return appendStat(b, n.status()) }
}

func (r *replica) getData(c *conn, path string, watch bool) (code, body) {
	n, err := r.readable(c, path, permRead)
	if err != codeOK {
		return err, nil
	}
	if watch {
		r.data.add(path, c, watchOnce)
	}
	return codeOK, func(b []byte) []byte { return appendStat(appendBuffer(b, n.data), n.status()) }
}

func (r *replica) getChildren(c *conn, path string, watch, withStat bool) (code, body) {
	n, err := r.readable(c, path, permRead)
	if err != codeOK {
		return err, nil
	}
	if watch {
		r.child.add(path, c, watchOnce)
	}
	return codeOK, func(b []byte) []byte {
		b = appendStrings(b, n.children())
		if withStat {
			b = appendStat(b, n.status())
		}
		return b
	}
}

func (r *replica) getACL(c *conn, path string) (code, body) {
	n, err := r.readable(c, path, permRead|permAdmin)
	if err != codeOK {
		return err, nil
	}
	list := n.acl
	if !allowed(n.acl, permAdmin, c.who) {
		list = masked(list)
	}
	return codeOK, func(b []byte) []byte { return appendStat(appendACLs(b, list), n.status()) }
}

func (r *replica) multiRead(c *conn, d *decoder) (code, body) {
	all, kinds := parseMulti(d)
	switch {
	case kinds.mixed || d.failed:
		return codeMarshalling, nil
	case kinds.writes:
		// The server notices too late, when it has begun to answer.
		return codeMarshalling, func(b []byte) []byte { return appendMultiHeader(b, opError, true, -1) }
	}
	var out []byte
	for _, o := range all {
		var err code
		var result body
		if o.op == OpGetData {
			err, result = r.getData(c, o.path, false)
		} else {
			err, result = r.getChildren(c, o.path, false, false)
		}
		if err != codeOK {
			out = appendMultiError(out, err)
		} else {
			out = result(appendMultiHeader(out, o.op, false, 0))
		}
	}
	return codeOK, func(b []byte) []byte { return appendMultiHeader(append(b, out...), opError, true, -1) }
}

func (r *replica) setWatches(c *conn, d *decoder, persistent bool) code {
	since := d.int64()
	data, exist, child := d.paths(), d.paths(), d.paths()
	var stay, recursive []string
	if persistent {
		stay, recursive = d.paths(), d.paths()
	}
	if d.failed {
		return codeMarshalling
	}
	for _, path := range data {
		switch n := r.tree.node(path); {
		case n == nil:
			c.notify(eventDeleted, path)
		case n.mzxid > since:
			c.notify(eventDataChanged, path)
		default:
			r.data.add(path, c, watchOnce)
		}
	}
	for _, path := range exist {
		if r.tree.node(path) != nil {
			c.notify(eventCreated, path)
		} else {
			r.data.add(path, c, watchOnce)
		}
	}
	for _, path := range child {
		switch n := r.tree.node(path); {
		case n == nil:
			c.notify(eventDeleted, path)
		case n.pzxid > since:
			c.notify(eventChildrenChanged, path)
		default:
			r.child.add(path, c, watchOnce)
		}
	}
	for _, path := range stay {
		r.data.add(path, c, watchPersistent)
		r.child.add(path, c, watchPersistent)
	}
	for _, path := range recursive {
		r.data.add(path, c, watchRecursive)
		r.child.add(path, c, watchRecursive)
	}
	return codeOK
}

// endWatches looks for watches of a kind (1 children, 2 data, 3 any), and
// removes them or not.
func (r *replica) endWatches(c *conn, path string, kind int32, remove bool) code {
	found := false
	for bit, table := range map[int32]*watchTable{1: &r.child, 2: &r.data} {
		switch {
		case kind&bit == 0:
		case remove:
			found = table.remove(path, c) || found
		default:
			found = table.contains(path) || found
		}
	}
	if !found {
		return codeNoWatcher
	}
	return codeOK
}

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
	return change{kind: nodeDeleted, path: o.path}, codeOK
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
	ch.path = o.path
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
			changes: []change{{kind: nodeDeleted, path: path}},
		})
	}
}

// pathsOf returns the paths that a request is about.
func pathsOf(op Op, frame []byte) []string {
	d := decoder{rest: frame}
	d.take(8)
	switch op { //nolint:exhaustive // the others begin with a path
	case OpPing, OpAuth, OpSetWatches, OpSetWatches2, OpCloseSession, OpWhoAmI, OpSASL, OpReconfig:
		return nil
	case OpMulti, OpMultiRead:
		var paths []string
		all, _ := parseMulti(&d)
		for _, o := range all {
			paths = append(paths, o.path)
		}
		return paths
	}
	path, _ := d.string()
	return []string{path}
}
