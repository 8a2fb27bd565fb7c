package zktest

import (
	"slices"
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
			s.dismiss(c)
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
		s.dismiss(c)
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
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpSetACL, OpCheck, OpMulti, OpReconfig,
		OpDeleteContainer, OpCreateSession:
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
		s.dismiss(c)
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
		s.dismiss(c)
		return false
	case isWrite(op):
		if s.sessions[c.session.id] == nil {
			// The replica learns of it now.
			c.replica.catchUp()
			s.dismiss(c)
			return false
		}
		s.write(c, xid, op, &d)
	default:
		err, body := s.read(c, op, &d)
		if err == codeUnimplemented {
			c.reply(xid, -1, err, nil)
			s.dismiss(c)
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
		s.dismiss(c)
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
