package zktest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// judge counts a request, and says what becomes of it.
func (s *Server) judge(c *conn, frame []byte) verdict {
	op := OpCreateSession
	if c.session != nil {
		op = opOf(frame)
	}
	switch op { //nolint:exhaustive // all others are requests
	case OpPing, OpCreateSession, OpCloseSession:
	default:
		s.counts[op]++
		own := s.bySession[c.session.id]
		if own == nil {
			own = make(Counts)
			if s.sessions[c.session.id] != nil {
				s.bySession[c.session.id] = own
			}
		}
		own[op]++
	}
	if len(s.faults.open) == 0 {
		return verdict{}
	}
	session := c.sessionID()
	var paths []string
	if c.session == nil {
		h, _ := wire.ParseConnectRequest(frame) // a malformed one is of no session
		session = h.Session
	} else {
		paths = pathsOf(frame)
	}
	f := s.faults.next(session, op, paths)
	if f == nil {
		return verdict{}
	}
	s.faults.settle(f)
	return f.what
}

// lateness returns how late a notification is to be delivered.
func (s *Server) lateness(c *conn, path string) time.Duration {
	f := s.faults.nextLate(c.sessionID(), path)
	if f == nil {
		return 0
	}
	s.faults.settle(f)
	return f.late
}

func (s *Server) addFault(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.add(f)
}

// DropRequest implements [Faults].
func (s *Server) DropRequest(m Match) {
	s.addFault(dropRequest(m))
}

// DropReply implements [Faults].
func (s *Server) DropReply(m Match) {
	s.addFault(dropReply(m))
}

// SwallowRequest loses the next request that matches, and leaves the connection
// open: it is never answered.
func (s *Server) SwallowRequest(m Match) {
	s.addFault(fault{match: m, what: verdict{drop: true}, name: "SwallowRequest"})
}

// SwallowReply applies the next request that matches, loses its reply, and
// leaves the connection open.
func (s *Server) SwallowReply(m Match) {
	s.addFault(fault{match: m, what: verdict{mute: true}, name: "SwallowReply"})
}

// Stall lets the server forget the next request that matches until the next packet of its
// connection comes, be it a ping: ZooKeeper 3.8.0 loses a wake-up so, once in tens of thousands of
// operations.
func (s *Server) Stall(m Match) {
	s.addFault(fault{match: m, what: verdict{stall: true}, name: "Stall"})
}

// Delay implements [Faults].
func (s *Server) Delay(m Match, d time.Duration) {
	s.addFault(delayed(m, d))
}

// AnswerError answers the next request that matches with the error, by its number in the protocol,
// without executing it. The answer to a handshake cannot carry an error: its connection is closed.
func (s *Server) AnswerError(m Match, err int32) {
	s.addFault(fault{match: m, what: verdict{fail: code(err)}, name: "AnswerError"})
}

// DelayEvent delays the next notification that matches by path and session by d, and everything
// that follows it on that connection: the protocol promises that replies do not overtake it.
func (s *Server) DelayEvent(m Match, d time.Duration) {
	if d > 0 {
		s.addFault(fault{match: m, late: d, name: "DelayEvent"})
	}
}

// ClearFaults removes the faults that have not hit yet.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.faults.open) > 0 {
		s.faults.settle(s.faults.open[0])
	}
}

// AwaitFault implements [Faults]. It waits for the faults of all kinds.
func (s *Server) AwaitFault(timeout time.Duration) error {
	return s.faults.await(&s.mu, timeout, s.done)
}

// connsOf returns the connections of a session, or of all.
func (s *Server) connsOf(session int64) []*conn {
	var all []*conn
	for c := range s.clients {
		if session == everySession || c.sessionID() == session || c.greets == session {
			all = append(all, c)
		}
	}
	inOrder(all)
	return all
}

// inOrder sorts connections by when they were made, so that what the server does follows from what
// happens, and not from the order of a map.
func inOrder(all []*conn) {
	slices.SortFunc(all, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
}

// Disconnect implements [Faults].
func (s *Server) Disconnect(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.connsOf(session) {
		c.cut()
		s.retire(c)
	}
}

// Refuse implements [Faults].
func (s *Server) Refuse(refuse bool) {
	s.dialMu.Lock()
	defer s.dialMu.Unlock()
	s.refusing = refuse
}

// Freeze implements [Faults].
func (s *Server) Freeze(session int64, dir Direction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var f flow
	switch dir {
	case Both:
		f = flow{true, true, true}
	case ToServer:
		f.requests = true
	case ToClient:
		f.replies, f.events = true, true
	case ToClientButEvents:
		f.replies = true
	}
	s.frozen[session] = s.frozen[session].or(f)
	s.refreeze(session)
}

// Thaw implements [Faults].
func (s *Server) Thaw(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session == everySession {
		clear(s.frozen)
	} else {
		delete(s.frozen, session)
	}
	s.refreeze(session)
}

func (s *Server) refreeze(session int64) {
	for _, c := range s.connsOf(session) {
		f := s.frozen[everySession]
		if c.session != nil {
			f = f.or(s.frozen[c.session.id])
		} else if c.greets != 0 {
			f = f.or(s.frozen[c.greets])
		}
		c.setFrozen(f)
	}
}

// Expire implements [Faults].
func (s *Server) Expire(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session == everySession {
		for _, id := range sortedKeys(s.sessions) {
			s.endSession(s.sessions[id], s.keep)
		}
	} else if sess := s.sessions[session]; sess != nil {
		s.endSession(sess, s.keep)
	}
}

// KeepEphemerals makes the nodes of sessions that expire from now on stay for d
// longer than the session. Closing a session still removes them at once.
func (s *Server) KeepEphemerals(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep = d
}

// Requests implements [Faults].
func (s *Server) Requests() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// RequestsOf is [Server.Requests] for one session that has not ended.
func (s *Server) RequestsOf(session int64) Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.bySession[session])
}

// Proposals returns how many requests have gone through the leader as
// transactions since the start or the last [Server.ResetRequests]: every write,
// also a failed one.
func (s *Server) Proposals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proposals
}

// Events returns how many events of watches the server has sent since the start or the last
// [Server.ResetRequests].
func (s *Server) Events() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events
}

// ResetRequests implements [Faults].
func (s *Server) ResetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counts)
	clear(s.bySession)
	s.proposals, s.events = 0, 0
}

// Total returns the sum of all counts.
func (c Counts) Total() int {
	n := 0
	for _, v := range c {
		n += v
	}
	return n
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
