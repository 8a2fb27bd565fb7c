package zktest

import (
	"cmp"
	"slices"
	"time"
)

// A replica is the server of some of the clients. It has a tree of its
// own while it is behind the leader, or cut off from it; otherwise it shares
// the leader's.
type replica struct {
	server *Server
	index  int

	// Guarded by the server's lock.
	lag         time.Duration
	isolated    bool
	tree        *tree
	data, child watchTable
	conns       map[int64]*conn // by session
	log         []logEntry      // not yet applied; only with a tree of its own
	stopApply   func() bool
}

type logEntry struct {
	txn
	due time.Time
}

func newReplica(s *Server, index int, lag time.Duration) *replica {
	r := &replica{
		server: s,
		index:  index,
		lag:    lag,
		tree:   s.tree,
		data:   newWatchTable(),
		child:  newWatchTable(),
		conns:  make(map[int64]*conn),
	}
	r.separate()
	return r
}

// separate gives the replica a tree of its own if it needs one.
func (r *replica) separate() {
	if (r.lag > 0 || r.isolated) && r.tree == r.server.tree {
		r.tree = r.server.tree.clone()
	}
}

// commit applies a transaction at the leader, and sends it to all.
func (s *Server) commit(t txn) {
	for _, ch := range t.changes {
		s.tree.apply(ch, t.zxid, t.time)
	}
	s.commitApplied(t)
}

// commitApplied sends a transaction to all replicas.
func (s *Server) commitApplied(t txn) {
	s.tree.zxid = t.zxid
	s.report(t)
	for _, r := range s.replicas {
		if r.tree == s.tree {
			r.announce(t)
			continue
		}
		r.log = append(r.log, logEntry{t, s.config.Clock.Now().Add(r.lag)})
		if len(r.log) == 1 {
			r.scheduleApply()
		}
	}
}

// announce tells the replica's clients of a transaction that its tree has.
func (r *replica) announce(t txn) {
	for _, ch := range t.changes {
		switch ch.kind {
		case nodeCreated:
			r.data.trigger(t.zxid, ch.path, eventCreated, ch.acl, nil)
			r.child.trigger(t.zxid, parentOf(ch.path), eventChildrenChanged, ch.parent, nil)
		case nodeDeleted:
			told := r.data.trigger(t.zxid, ch.path, eventDeleted, ch.before, nil)
			r.server.stats.deleted(len(told))
			r.server.stats.deleted(len(r.child.trigger(t.zxid, ch.path, eventDeleted, ch.before, told)))
			r.child.trigger(t.zxid, parentOf(ch.path), eventChildrenChanged, ch.parent, nil)
		case dataSet:
			r.data.trigger(t.zxid, ch.path, eventDataChanged, ch.before, nil)
		case aclSet:
		}
	}
	if c := r.conns[t.closes]; t.closes != 0 && c != nil {
		r.server.dismiss(c)
	}
}

func (st *statistics) deleted(watchers int) {
	if watchers > 0 {
		st.deletedEvents++
		st.deletedWatches += watchers
		st.maxDeletedWatches = max(st.maxDeletedWatches, watchers)
	}
}

func (r *replica) scheduleApply() {
	r.stop()
	if r.isolated || len(r.log) == 0 {
		return
	}
	r.stopApply = r.server.after(r.log[0].due.Sub(r.server.config.Clock.Now()), r.applyDue)
}

func (r *replica) stop() {
	if r.stopApply != nil {
		r.stopApply()
		r.stopApply = nil
	}
}

// applyDue applies what the lag has let through.
func (r *replica) applyDue() {
	now := r.server.config.Clock.Now()
	for len(r.log) > 0 && !r.log[0].due.After(now) {
		r.applyNext()
	}
	r.scheduleApply()
}

func (r *replica) applyNext() {
	t := r.log[0].txn
	r.log[0] = logEntry{}
	r.log = r.log[1:]
	for _, ch := range t.changes {
		r.tree.apply(ch, t.zxid, t.time)
	}
	r.tree.zxid = t.zxid
	r.announce(t)
}

// catchUp applies all that the leader has.
func (r *replica) catchUp() {
	if len(r.log) == 0 {
		return
	}
	for len(r.log) > 0 {
		r.applyNext()
	}
	r.log = nil
	r.stop()
}

// heal connects the replica to the leader, and has done what was waiting for
// it.
func (r *replica) heal() {
	r.isolated = false
	r.catchUp()
	if r.lag == 0 {
		r.tree = r.server.tree
	}
	waiting := make([]*conn, 0, len(r.server.clients))
	for c := range r.server.clients {
		if c.replica == r && len(c.waiting) > 0 {
			waiting = append(waiting, c)
		}
	}
	slices.SortFunc(waiting, func(a, b *conn) int { return cmp.Compare(a.sessionID(), b.sessionID()) })
	for _, c := range waiting {
		requests := c.waiting
		c.waiting = nil
		for _, q := range requests {
			if !r.server.execute(c, q) {
				r.server.dismiss(c)
				break
			}
		}
		c.flush()
	}
}

// Isolate cuts replica i off from the leader: it continues to answer pings and reads, from the
// state that it has, while writes, syncs and handshakes wait, with all that follows them on their
// connection; the leader hears of none of its clients, and expires their sessions. If i is the
// leader, another replica takes over at once.
func (s *Server) Isolate(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.replicas[i]
	r.stop()
	r.isolated = true
	r.separate()
}

// Heal ends what [Server.Isolate] has begun: the replica catches up, and the requests that have
// been waiting are executed. Connections of sessions that have expired meanwhile are closed.
func (s *Server) Heal(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.replicas[i]; r.isolated {
		r.heal()
	}
}

// SetLag sets how much later than the leader replica i sees transactions, from
// the next one on. A lag of zero makes it catch up.
func (s *Server) SetLag(i int, lag time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.replicas[i]
	r.lag = lag
	if lag > 0 {
		r.separate()
	} else if !r.isolated {
		r.catchUp()
		r.tree = s.tree
	}
}

// CatchUp makes replica i apply all transactions of the leader, as a sync through it does.
func (s *Server) CatchUp(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.replicas[i]; !r.isolated {
		r.catchUp()
	}
}

// Serving returns the index of the replica to which the session is connected,
// and false if there is no such session.
func (s *Server) Serving(session int64) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.sessions[session]
	if sess == nil {
		return 0, false
	}
	return sess.replica.index, true
}
