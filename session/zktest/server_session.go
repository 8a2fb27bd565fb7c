package zktest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// A session is a client as the leader knows it.
type session struct {
	id       int64
	replica  *replica // where it is connected
	timeout  int32    // as the last connection negotiated it
	deadline int64    // in milliseconds since the start
}

// everySession stands for all sessions, in the place of the id of a single session.
const everySession int64 = 0

func (s *Server) password(id int64) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(s.secret[:], uint64(id)))
	return sum[:16]
}

// connect opens a session, or connects one that exists. It returns false if
// the connection is to be closed without an answer.
func (s *Server) connect(c *conn, frame []byte) bool {
	h, err := wire.ParseConnectRequest(frame)
	r := c.replica
	if err != nil || h.LastZxid > r.tree.zxid && !s.differs.neverResumes {
		return false
	}
	c.timeout = s.negotiated(h.Timeout)
	sess := s.sessions[h.Session]
	if h.Session == 0 || s.differs.neverResumes {
		sess = &session{id: s.nextSession}
		s.nextSession++
		s.sessions[sess.id] = sess
		s.commit(txn{zxid: s.tree.zxid + 1, time: s.now()})
		r.catchUp()
	} else {
		// Only the newest connection counts, even before its password has been looked at.
		if old := r.conns[h.Session]; old != nil {
			s.dismiss(old)
		}
		if sess == nil || !bytes.Equal(h.Password, s.password(h.Session)) {
			c.old = h.Old
			s.answerHandshake(c, nil)
			s.dismiss(c)
			return true
		}
	}
	sess.replica, sess.timeout = r, c.timeout
	c.session, c.old = sess, h.Old || s.differs.noReadOnly
	c.stopGreeting()
	r.conns[sess.id] = c
	s.touch(c)
	c.setFrozen(s.frozen[everySession].or(s.frozen[sess.id]))
	s.answerHandshake(c, sess)
	return true
}

// negotiated returns the timeout of a session whose client asks for so many milliseconds.
func (s *Server) negotiated(asked int32) int32 {
	d := int64(asked)
	if d == 0 {
		d = s.differs.usual.Milliseconds()
	}
	return int32(max(min(d, s.config.MaxTimeout.Milliseconds()), s.config.MinTimeout.Milliseconds()))
}

// answerHandshake accepts a client for a session, or tells it that there is none.
func (s *Server) answerHandshake(c *conn, sess *session) {
	r := wire.ConnectResponse{Password: make([]byte, 16), Old: c.old}
	if sess != nil {
		r.Timeout, r.Session = c.timeout, sess.id
	}
	if sess != nil && !s.differs.neverResumes {
		r.Password = s.password(sess.id)
	}
	c.send(0, parcel{size: frameSize, bytes: wire.AppendConnectResponse(nil, &r)})
}

// touch notes a sign of life. What an isolated replica hears, the leader does
// not.
func (s *Server) touch(c *conn) {
	if c.replica.isolated {
		return
	}
	s.extend(c.session, c.timeout)
}

// extend has a session expire after the timeout.
func (s *Server) extend(sess *session, timeout int32) {
	sess.deadline = s.roundUp(time.Duration(timeout)*time.Millisecond, s.config.Tick)
	if s.expiryAt == 0 || sess.deadline < s.expiryAt {
		s.scheduleExpiry(sess.deadline)
	}
}

func (s *Server) scheduleExpiry(at int64) {
	if s.stopExpiry != nil {
		s.stopExpiry()
	}
	s.expiryAt = at
	s.stopExpiry = s.after(time.Duration(at-s.elapsed())*time.Millisecond, s.expire)
}

// expire ends the sessions that have been silent for too long.
func (s *Server) expire() {
	s.expiryAt = 0
	now := s.elapsed()
	var next int64
	for _, id := range sortedKeys(s.sessions) {
		sess := s.sessions[id]
		if sess.deadline <= now {
			s.endSession(sess, s.keep)
		} else if next == 0 || sess.deadline < next {
			next = sess.deadline
		}
	}
	if next != 0 {
		s.scheduleExpiry(next)
	}
}

// endSession closes a session. Its nodes go with it, or after a while.
func (s *Server) endSession(sess *session, keep time.Duration) {
	delete(s.sessions, sess.id)
	delete(s.bySession, sess.id)
	t := txn{zxid: s.tree.zxid + 1, time: s.now(), closes: sess.id}
	if keep <= 0 {
		t.changes = s.burial(sess.id)
	} else {
		s.doLater(keep, func() {
			s.commit(txn{zxid: s.tree.zxid + 1, time: s.now(), changes: s.burial(sess.id)})
		})
	}
	s.commit(t)
}

// burial returns what deletes the nodes of a session.
func (s *Server) burial(id int64) []change {
	var changes []change
	for _, path := range s.tree.ephemeralsOf(id) {
		changes = append(changes, s.tree.deletion(path))
	}
	return changes
}

// dismiss closes a connection when everything that was queued has been written.
func (s *Server) dismiss(c *conn) {
	c.end()
	s.retire(c)
}

// retire ends what the server does for a connection.
func (s *Server) retire(c *conn) {
	c.replica.data.forget(c)
	c.replica.child.forget(c)
	if c.session != nil && c.replica.conns[c.session.id] == c {
		delete(c.replica.conns, c.session.id)
	}
	c.waiting = nil
	c.stopGreeting()
}

// now returns the time as nodes record it.
func (s *Server) now() int64 { return s.config.Clock.Now().UnixMilli() }
