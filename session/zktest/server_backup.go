package zktest

// A Backup has what a server keeps on its disk: its nodes, and the sessions that it knows. It is
// not modified, and may be restored any number of times. The zero Backup is an empty disk.
type Backup struct {
	tree     *tree // nil if it is empty
	sessions []session
}

// Backup returns the state of the leader.
func (s *Server) Backup() Backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := Backup{tree: s.tree.clone()}
	for _, id := range sortedKeys(s.sessions) {
		b.sessions = append(b.sessions, *s.sessions[id])
	}
	return b
}

// Restore stops all replicas, and starts them again with the state in the backup: their
// transactions continue from its number. All connections are cut, and a session that the backup
// does not know is gone. A session that it knows has its full timeout again. A client that has seen
// a newer transaction than the replica is not served, as by a real server.
func (s *Server) Restore(b Backup) { s.restore(b, 0) }

// RestoreInReign is [Server.Restore] of an ensemble, whose leader begins a reign: its number is the
// upper half of the numbers of its transactions. A lone server counts no reigns, and keeps 0. If no
// client has seen a later reign, all are served at once.
func (s *Server) RestoreInReign(b Backup, reign int32) { s.restore(b, reign) }

func (s *Server) restore(b Backup, reign int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.connsOf(everySession) {
		c.cut()
		s.retire(c)
	}
	s.later.stopAll() // the nodes of sessions that have expired are those of the backup now
	s.tree = s.newTree()
	if b.tree != nil {
		s.tree = b.tree.clone()
	}
	s.tree.zxid = max(s.tree.zxid, int64(reign)<<32)
	s.reportRestored()
	for _, r := range s.replicas {
		r.stop()
		r.log, r.tree = nil, s.tree
		r.separate()
	}
	clear(s.sessions)
	for _, known := range b.sessions {
		sess := known
		sess.replica = s.replicas[0]
		s.sessions[sess.id] = &sess
		s.extend(&sess, sess.timeout)
	}
}
