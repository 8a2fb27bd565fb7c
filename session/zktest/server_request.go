package zktest

import (
	"slices"

	"github.com/zkactors/zkactors/session/internal/wire"
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
		h, _ := wire.ParseConnectRequest(frame) // a malformed one is of no session
		if f := s.frozen[h.Session]; h.Session != 0 && f.requests {
			c.greets = h.Session
			c.setFrozen(s.frozen[everySession].or(f))
			s.mu.Unlock()
			ok := c.pass()
			s.mu.Lock()
			c.greets = 0
			if !ok {
				return false
			}
		}
	}
	c.received++
	s.stats.received++
	if stalled := c.stalled; stalled != nil {
		c.stalled = nil
		if !s.execute(c, request{frame: stalled}) {
			return false
		}
	}
	v := s.judge(c, frame)
	if v.stall {
		c.stalled = slices.Clone(frame)
		return true
	}
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
	_, op, _ := wire.ParseRequestHeader(frame) // a malformed one is refused
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
	xid, op, err := wire.ParseRequestHeader(frame)
	if err != nil {
		return false
	}
	_, q, err := wire.ParseRequest(frame)
	readable := err == nil && isReadable(&q) && (q.Op != OpMulti || !s.hasUnknown(q.Ops))
	c.lastOp, c.lastXid = op, xid
	if !s.knows(&q) {
		s.touch(c)
		return s.refuseUnknown(c, xid, op)
	}
	if op == OpAuth {
		return readable && s.authenticate(c, xid, &q)
	}
	// The leader takes writes only from where the session is, and anything of
	// its own clients.
	moved := s.sessions[c.session.id] != nil && c.session.replica != c.replica
	if moved && op != OpCloseSession && (isWrite(op) || c.replica == s.leader()) {
		s.dismiss(c)
		return false
	}
	if s.reaches(c, op) {
		s.touch(c)
	}
	switch {
	case op == OpPing:
		s.answer(c, xidPing, op, codeOK, nil)
	case op == OpSync:
		c.replica.catchUp()
		err := codeOK
		if !readable {
			err = codeMarshalling
		}
		s.answer(c, xid, op, err, &wire.Reply{Path: q.Path, NoPath: q.NoPath})
	case op == OpCloseSession:
		// The end of the session would end the connection before the answer.
		delete(c.replica.conns, c.session.id)
		if s.sessions[c.session.id] != nil {
			s.endSession(c.session, 0)
		}
		c.replica.catchUp()
		s.answer(c, xid, op, codeOK, nil)
		s.dismiss(c)
		return false
	case isWrite(op):
		if s.sessions[c.session.id] == nil {
			// The replica learns of it now.
			c.replica.catchUp()
			s.dismiss(c)
			return false
		}
		s.write(c, xid, &q, readable)
	case !readable:
		s.answer(c, xid, op, codeMarshalling, nil)
	default:
		err, r := s.read(c, &q)
		if err == codeUnimplemented {
			return s.refuseUnknown(c, xid, op)
		}
		s.answer(c, xid, op, err, r)
	}
	return true
}

// refuseUnknown ends the connection of a client that has sent an operation which the server does
// not know.
func (s *Server) refuseUnknown(c *conn, xid int32, op Op) bool {
	if !s.differs.hangsUp {
		c.reply(wire.Header{Xid: xid, Zxid: -1, Code: codeUnimplemented}, op, nil)
	}
	s.dismiss(c)
	return false
}

// knows reports whether the server knows a request. One that does not know an operation of a
// transaction refuses that as if it were malformed, but for servers that hang up.
func (s *Server) knows(q *wire.Request) bool {
	if !s.differs.knows(q.Op, false) {
		return false
	}
	return q.Op != OpMulti || !s.differs.hangsUp || !s.hasUnknown(q.Ops)
}

// hasUnknown reports whether the server does not know an operation of a transaction.
func (s *Server) hasUnknown(parts []wire.Request) bool {
	return slices.ContainsFunc(parts, func(part wire.Request) bool { return !s.differs.knows(part.Op, true) })
}

// reaches reports whether the leader hears of a request, which keeps the session alive.
func (s *Server) reaches(c *conn, op Op) bool {
	return !s.differs.readsKeepNothing || c.replica == s.leader() || isWrite(op) || op == OpSync || op == OpPing || op == OpCloseSession
}

// refuse answers a request with an error, without having looked at it.
func (s *Server) refuse(c *conn, frame []byte, err code) bool {
	if c.session == nil {
		return false
	}
	xid, op, _ := wire.ParseRequestHeader(frame) // it is refused in any case
	s.touch(c)
	s.answer(c, xid, op, err, nil)
	return true
}

func (s *Server) answer(c *conn, xid int32, op Op, err code, r *wire.Reply) {
	c.reply(wire.Header{Xid: xid, Zxid: c.replica.tree.zxid, Code: err}, op, r)
}

func (s *Server) authenticate(c *conn, xid int32, q *wire.Request) bool {
	h := wire.Header{Xid: xid}
	switch {
	case q.Scheme == "digest":
		c.identify(digest(string(q.Data)))
	case q.Scheme == "ip" && !s.differs.onlyDigest:
	default:
		h.Code = codeAuthFailed
		c.reply(h, OpAuth, nil)
		s.dismiss(c)
		return false
	}
	c.reply(h, OpAuth, nil)
	return true
}

func (c *conn) identify(id identity) {
	if !slices.Contains(c.who, id) {
		c.who = append(c.who, id)
	}
}
