package zktest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// A fault is an action on a request or a notification, once.
type fault struct {
	match Match
	what  verdict
	late  time.Duration // of a notification; 0 if the fault is for a request
	name  string
}

// A verdict decides on a request.
type verdict struct {
	drop  bool // the server never sees it
	mute  bool // its reply is lost
	cut   bool // the connection ends with it
	fail  code // it is not executed, but answered with this
	delay time.Duration
}

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
	if len(s.faults) == 0 {
		return verdict{}
	}
	session := c.sessionID()
	if c.session == nil {
		h, _ := wire.ParseConnectRequest(frame) // a malformed one is of no session
		session = h.Session
	}
	for i, f := range s.faults {
		if f.late > 0 || !f.match.selects(op, session, frame) {
			continue
		}
		if f.match.Skip > 0 {
			f.match.Skip--
			continue
		}
		s.spend(i)
		return f.what
	}
	return verdict{}
}

func (m Match) selects(op Op, session int64, frame []byte) bool {
	if m.Session != everySession && m.Session != session {
		return false
	}
	if m.Op != op && (m.Op != 0 || hasNoPlainMatch(op)) {
		return false
	}
	return m.Path == "" || op != OpCreateSession && slices.ContainsFunc(pathsOf(frame), m.matchPath)
}

// lateness returns how late a notification is to be delivered.
func (s *Server) lateness(c *conn, path string) time.Duration {
	for i, f := range s.faults {
		if f.late == 0 || f.match.Session != everySession && f.match.Session != c.sessionID() || !f.match.matchPath(path) {
			continue
		}
		if f.match.Skip > 0 {
			f.match.Skip--
			continue
		}
		s.spend(i)
		return f.late
	}
	return 0
}

// spend removes a fault that has hit.
func (s *Server) spend(i int) {
	s.faults = slices.Delete(s.faults, i, i+1)
	if len(s.faults) == 0 && s.faultless != nil {
		close(s.faultless)
		s.faultless = nil
	}
}

func (s *Server) addFault(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// DropRequest implements [Faults].
func (s *Server) DropRequest(m Match) {
	s.addFault(fault{match: m, what: verdict{drop: true, cut: true}, name: "DropRequest"})
}

// DropReply implements [Faults].
func (s *Server) DropReply(m Match) {
	s.addFault(fault{match: m, what: verdict{mute: true, cut: true}, name: "DropReply"})
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

// Delay implements [Faults].
func (s *Server) Delay(m Match, d time.Duration) {
	s.addFault(fault{match: m, what: verdict{delay: d}, name: "Delay"})
}

// AnswerError answers the next request that matches with the error, by its
// number in the protocol, without executing it. A handshake has no way to say
// an error: its connection is closed.
func (s *Server) AnswerError(m Match, err int32) {
	s.addFault(fault{match: m, what: verdict{fail: code(err)}, name: "AnswerError"})
}

// DelayEvent delivers the next notification that matches by path and session
// late by d, and with it whatever follows on that connection: the protocol
// promises that replies do not overtake it.
func (s *Server) DelayEvent(m Match, d time.Duration) {
	if d > 0 {
		s.addFault(fault{match: m, late: d, name: "DelayEvent"})
	}
}

// ClearFaults takes back the faults that have not hit yet.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.faults) > 0 {
		s.spend(0)
	}
}

// AwaitFault implements [Faults]. It waits for the faults of all kinds.
func (s *Server) AwaitFault(timeout time.Duration) error {
	s.mu.Lock()
	if len(s.faults) == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.faultless == nil {
		s.faultless = make(chan struct{})
	}
	faultless := s.faultless
	s.mu.Unlock()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-faultless:
		return nil
	case <-timer.C:
	case <-s.done:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) == 0 {
		return nil
	}
	f := s.faults[0]
	return fmt.Errorf("zktest: %d faults have not hit within %v, the first is %s(%+v)", len(s.faults), timeout, f.name, f.match)
}

// connsOf returns the connections of a session, or of all.
func (s *Server) connsOf(session int64) []*conn {
	var all []*conn
	for c := range s.clients {
		if session == everySession || c.sessionID() == session {
			all = append(all, c)
		}
	}
	return all
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
