package zktest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sessions returns the ids of the sessions that the leader knows, in the order
// in which they began.
func (s *Server) Sessions() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sortedKeys(s.sessions)
}

// Paths returns the paths of all nodes but ZooKeeper's own, in order, as the
// leader sees them.
func (s *Server) Paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var paths []string
	for p := range s.tree.nodes {
		if !isSpecial(p) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// Watches returns how many watches there are, at all replicas.
func (s *Server) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.replicas {
		n += r.data.total() + r.child.total()
	}
	return n
}

// SetCversion sets how many children the node at path is to have had: the next
// sequential one gets that number. The range of the number ends at 2147483647;
// what follows is -2147483648.
func (s *Server) SetCversion(path string, cversion int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.node(path)
	if n == nil {
		return fmt.Errorf("zktest: no node at %s", path)
	}
	n.Cversion = cversion
	for _, r := range s.replicas {
		if n := r.tree.node(path); n != nil {
			n.Cversion = cversion
		}
	}
	return nil
}

const (
	wordVersion = "3.8.0-zktest, built on 2022-02-25 08:49 UTC"
	wordUnknown = " is not executed because it is not in the whitelist.\n"
)

// fourLetterWord answers a word that comes in the place of a length. Those that
// the server does not know are no words.
func (s *Server) fourLetterWord(word string, r *replica) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch word {
	case "ruok":
		return "imok", true
	case "srvr":
		return s.wordServer(r), true
	case "mntr":
		return s.wordMonitor(r), true
	case "wchs":
		return s.wordWatches(r), true
	case "dump":
		return s.wordDump(r), true
	case "cons":
		return s.wordConnections(r), true
	case "isro":
		return "rw", true
	case "conf", "crst", "dirs", "envi", "gtmk", "srst", "stat", "stmk", "wchc", "wchp", "hash":
		return word + wordUnknown, true
	}
	return "", false
}

func (s *Server) mode(r *replica) string {
	switch {
	case len(s.replicas) == 1:
		return "standalone"
	case r == s.leader():
		return "leader"
	}
	return "follower"
}

// leader returns the first replica that is not cut off.
func (s *Server) leader() *replica {
	for _, r := range s.replicas {
		if !r.isolated {
			return r
		}
	}
	return nil
}

func (s *Server) connected(r *replica) []*conn {
	var all []*conn
	for c := range s.clients {
		if c.replica == r {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *conn) int {
		return strings.Compare(a.net.RemoteAddr().String(), b.net.RemoteAddr().String())
	})
	return all
}

func (s *Server) wordServer(r *replica) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Zookeeper version: %s\n", wordVersion)
	fmt.Fprintf(&b, "Latency min/avg/max: 0/0.0/0\n")
	fmt.Fprintf(&b, "Received: %d\n", s.stats.received)
	fmt.Fprintf(&b, "Sent: %d\n", s.stats.sent)
	fmt.Fprintf(&b, "Connections: %d\n", len(s.connected(r)))
	fmt.Fprintf(&b, "Outstanding: 0\n")
	fmt.Fprintf(&b, "Zxid: 0x%x\n", r.tree.zxid)
	fmt.Fprintf(&b, "Mode: %s\n", s.mode(r))
	// The server counts the root twice.
	fmt.Fprintf(&b, "Node count: %d\n", len(r.tree.nodes)+1)
	return b.String()
}

func (s *Server) wordMonitor(r *replica) string {
	ephemerals := 0
	for _, own := range r.tree.ephemerals {
		ephemerals += len(own)
	}
	var b strings.Builder
	put := func(key string, value any) { fmt.Fprintf(&b, "zk_%s\t%v\n", key, value) }
	put("version", wordVersion)
	put("server_state", s.mode(r))
	put("ephemerals_count", ephemerals)
	put("num_alive_connections", len(s.connected(r)))
	put("avg_latency", "0.0")
	put("outstanding_requests", 0)
	put("znode_count", len(r.tree.nodes)+1)
	put("global_sessions", len(s.sessions))
	put("local_sessions", 0)
	put("packets_received", s.stats.received)
	put("packets_sent", s.stats.sent)
	put("watch_count", r.data.total()+r.child.total())
	put("approximate_data_size", r.tree.bytes)
	put("uptime", s.elapsed())
	put("max_latency", 0)
	put("min_latency", 0)
	put("max_node_deleted_watch_count", s.stats.maxDeletedWatches)
	put("cnt_node_deleted_watch_count", s.stats.deletedEvents)
	put("sum_node_deleted_watch_count", s.stats.deletedWatches)
	return b.String()
}

// wordWatches is of the watches on data only, as the server's is.
func (s *Server) wordWatches(r *replica) string {
	return fmt.Sprintf("%d connections watching %d paths\nTotal watches:%d\n",
		len(r.data.byConn), len(r.data.byPath), r.data.total())
}

func (s *Server) wordDump(r *replica) string {
	expiring := make(map[int64][]int64)
	for _, id := range sortedKeys(s.sessions) {
		at := s.sessions[id].deadline
		expiring[at] = append(expiring[at], id)
	}
	var b strings.Builder
	b.WriteString("SessionTracker dump:\n")
	fmt.Fprintf(&b, "Session Sets (%d)/(%d):\n", len(expiring), len(s.sessions))
	for _, at := range sortedKeys(expiring) {
		when := s.started.Add(time.Duration(at) * time.Millisecond)
		fmt.Fprintf(&b, "%d expire at %s:\n", len(expiring[at]), when.Format(time.UnixDate))
		for _, id := range expiring[at] {
			fmt.Fprintf(&b, "\t0x%x\n", id)
		}
	}
	b.WriteString("ephemeral nodes dump:\n")
	fmt.Fprintf(&b, "Sessions with Ephemerals (%d):\n", len(r.tree.ephemerals))
	for _, id := range sortedKeys(r.tree.ephemerals) {
		fmt.Fprintf(&b, "0x%x:\n", id)
		for _, path := range r.tree.ephemeralsOf(id) {
			fmt.Fprintf(&b, "\t%s\n", path)
		}
	}
	conns := s.connected(r)
	b.WriteString("Connections dump:\n")
	fmt.Fprintf(&b, "Connections Sets (1)/(%d):\n", len(conns))
	for _, c := range conns {
		fmt.Fprintf(&b, "\tip: /%s sessionId: 0x%x\n", c.net.RemoteAddr(), c.sessionID())
	}
	return b.String()
}

func (s *Server) wordConnections(r *replica) string {
	var b strings.Builder
	for _, c := range s.connected(r) {
		fmt.Fprintf(&b, " /%s[1](queued=%d,recved=%d,sent=%d", c.net.RemoteAddr(), len(c.waiting), c.received, c.sent)
		if c.session != nil {
			fmt.Fprintf(&b, ",sid=0x%x,lop=%s,est=%d,to=%d", c.session.id, wordOf(c.lastOp), c.since.UnixMilli(), c.timeout)
			if c.lastXid >= 0 {
				fmt.Fprintf(&b, ",lcxid=0x%x", c.lastXid)
			}
			fmt.Fprintf(&b, ",lzxid=0x%x,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0", r.tree.zxid)
		}
		b.WriteString(")\n")
	}
	return b.String() + "\n"
}

// wordOf returns what the server calls an operation where it has four letters
// for it.
func wordOf(op Op) string {
	switch op { //nolint:exhaustive // the others have no name
	case 0:
		return "SESS"
	case OpPing:
		return "PING"
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
		return "CREA"
	case OpDelete:
		return "DELE"
	case OpExists:
		return "EXIS"
	case OpGetData:
		return "GETD"
	case OpSetData:
		return "SETD"
	case OpGetACL:
		return "GETA"
	case OpSetACL:
		return "SETA"
	case OpGetChildren, OpGetChildren2:
		return "GETC"
	case OpSync:
		return "SYNC"
	case OpMulti:
		return "MULT"
	case OpSetWatches:
		return "SETW"
	}
	return "NA"
}
