package zktest

// A Transaction is what the leader has applied under one zxid: see [Config.Committed].
type Transaction struct {
	Zxid    int64
	Closes  int64    // the session that it ends, 0 if it ends none
	Changes []Change // in order; none of a transaction that only ends a session

	// Restored is set if this is no transaction: [Server.Restore] has put the nodes of a backup in
	// the place of all nodes, and their newest transaction is Zxid. Then Changes creates them.
	Restored bool
}

// A Change is what a transaction does to one node.
type Change struct {
	Kind  ChangeKind
	Path  string
	Data  []byte // of a node that was created or set; it must not be modified
	Owner int64  // the session of an ephemeral node that was created; 0 if it is none
}

// A ChangeKind says what a [Change] does.
type ChangeKind int

// The kinds of changes. Changes of ACLs are not reported.
const (
	Created ChangeKind = iota
	Deleted
	DataSet
)

// report hands a transaction to the user. The server's lock is held.
func (s *Server) report(t txn) {
	if s.config.Committed == nil {
		return
	}
	told := Transaction{Zxid: t.zxid, Closes: t.closes}
	for _, ch := range t.changes {
		switch ch.kind {
		case nodeCreated:
			told.Changes = append(told.Changes, created(ch.path, ch.data, ch.owner))
		case nodeDeleted:
			told.Changes = append(told.Changes, Change{Kind: Deleted, Path: ch.path})
		case dataSet:
			told.Changes = append(told.Changes, Change{Kind: DataSet, Path: ch.path, Data: ch.data})
		case aclSet:
		}
	}
	if len(told.Changes) > 0 || told.Closes != 0 {
		s.config.Committed(told)
	}
}

// reportRestored hands the state of a backup to the user. The server's lock is held.
func (s *Server) reportRestored() {
	if s.config.Committed == nil {
		return
	}
	told := Transaction{Zxid: s.tree.zxid, Restored: true}
	for _, path := range sortedKeys(s.tree.nodes) {
		if n := s.tree.nodes[path]; !isSpecial(path) {
			told.Changes = append(told.Changes, created(path, n.data, n.EphemeralOwner))
		}
	}
	s.config.Committed(told)
}

func created(path string, data []byte, owner int64) Change {
	if !isEphemeral(owner) {
		owner = 0
	}
	return Change{Kind: Created, Path: path, Data: data, Owner: owner}
}
