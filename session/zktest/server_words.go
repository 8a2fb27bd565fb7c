package zktest

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file answers the four letter words in the formats of ZooKeeper 3.8.0, all
// of which are on its whitelist. What the server in memory does not measure is
// zero.

const (
	traceMask = 306 // of what a real server writes into its log
)

// fourLetterWords has the function that answers each word that the server knows.
//
//nolint:gochecknoglobals // it is constant
var fourLetterWords = map[string]func(s *Server, c *conn) string{
	"conf": (*Server).wordConfig,
	"cons": (*Server).wordConnections,
	"crst": (*Server).wordResetConnections,
	"dirs": func(*Server, *conn) string { return "datadir_size: 0\nlogdir_size: 0\n" },
	"dump": (*Server).wordDump,
	"envi": func(s *Server, _ *conn) string { return s.wordEnvironment() },
	"gtmk": func(*Server, *conn) string { return strconv.Itoa(traceMask) },
	"isro": func(*Server, *conn) string { return "rw" },
	"mntr": (*Server).wordMonitor,
	"ruok": func(*Server, *conn) string { return "imok" },
	"srst": (*Server).wordResetServer,
	"srvr": func(s *Server, c *conn) string { return s.wordFirst() + s.wordServer(c.replica) },
	"stat": (*Server).wordStatus,
	"stmk": func(*Server, *conn) string { return "" }, // see the caller
	"wchc": func(_ *Server, c *conn) string { return wordWatchesByClient(&c.replica.data) },
	"wchp": func(_ *Server, c *conn) string { return wordWatchesByPath(&c.replica.data) },
	"wchs": func(_ *Server, c *conn) string { return wordWatches(&c.replica.data) },
}

// fourLetterWord answers a word that comes in the place of a length. Those that
// the server does not know are no words.
func (s *Server) fourLetterWord(word string, c *conn) (string, bool) {
	answer, ok := fourLetterWords[word]
	if !ok {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.received++
	s.stats.received++
	reply := answer(s, c)
	c.sent++
	s.stats.sent++
	return reply, true
}

// wordFirst returns the line with the version.
func (s *Server) wordFirst() string {
	if s.config.Profile.IsKeeper() {
		return "ClickHouse Keeper version: " + s.differs.version + "\n"
	}
	return "Zookeeper version: " + s.differs.version + "\n"
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

// connected returns the connections of a replica but those that end.
func (s *Server) connected(r *replica) []*conn {
	var all []*conn
	for c := range s.clients {
		if c.replica == r && !c.ending.Load() {
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
	fmt.Fprintf(&b, "Latency min/avg/max: 0/0.0/0\n")
	fmt.Fprintf(&b, "Received: %d\n", s.stats.received)
	fmt.Fprintf(&b, "Sent: %d\n", s.stats.sent)
	fmt.Fprintf(&b, "Connections: %d\n", len(s.connected(r)))
	fmt.Fprintf(&b, "Outstanding: 0\n")
	fmt.Fprintf(&b, "Zxid: 0x%x\n", r.tree.zxid)
	fmt.Fprintf(&b, "Mode: %s\n", s.mode(r))
	// The server counts the root twice.
	fmt.Fprintf(&b, "Node count: %d\n", len(r.tree.nodes)+1)
	if s.mode(r) == "leader" {
		b.WriteString("Proposal sizes last/min/max: -1/-1/-1\n")
	}
	return b.String()
}

func (s *Server) wordStatus(c *conn) string {
	var b strings.Builder
	b.WriteString(s.wordFirst() + "Clients:\n")
	for _, other := range s.connected(c.replica) {
		b.WriteString(other.line(c) + ")\n")
	}
	return b.String() + "\n" + s.wordServer(c.replica)
}

func (s *Server) wordResetServer(*conn) string {
	s.stats = statistics{}
	return "Server stats reset.\n"
}

func (s *Server) wordResetConnections(c *conn) string {
	for _, other := range s.connected(c.replica) {
		other.received, other.sent, other.lastOp, other.lastXid = 0, 0, -1, -1
	}
	return "Connection stats reset.\n"
}

func (s *Server) wordConfig(c *conn) string {
	replica := c.replica
	_, port, _ := net.SplitHostPort(s.addrs[replica.index])
	var b strings.Builder
	fmt.Fprintf(&b, "clientPort=%s\nsecureClientPort=-1\n", port)
	fmt.Fprintf(&b, "dataDir=memory\ndataDirSize=0\ndataLogDir=memory\ndataLogSize=0\n")
	fmt.Fprintf(&b, "tickTime=%d\nmaxClientCnxns=0\n", s.config.Tick.Milliseconds())
	fmt.Fprintf(&b, "minSessionTimeout=%d\nmaxSessionTimeout=%d\n", s.config.MinTimeout.Milliseconds(), s.config.MaxTimeout.Milliseconds())
	fmt.Fprintf(&b, "clientPortListenBacklog=-1\n")
	if len(s.replicas) == 1 {
		return b.String() + "serverId=0\n"
	}
	fmt.Fprintf(&b, "serverId=%d\ninitLimit=10\nsyncLimit=5\n", replica.index+1)
	fmt.Fprintf(&b, "electionAlg=3\nelectionPort=0\nquorumPort=0\npeerType=0\nmembership: \n")
	return b.String() + s.membership()
}

func (s *Server) wordEnvironment() string {
	var b strings.Builder
	b.WriteString("Environment:\n")
	for _, pair := range [][2]string{
		{"zookeeper.version", s.differs.version},
		{"host.name", "localhost"},
		{"java.version", runtime.Version()},
		{"java.vendor", "none"},
		{"java.home", "none"},
		{"java.class.path", "none"},
		{"java.library.path", "none"},
		{"java.io.tmpdir", os.TempDir()},
		{"java.compiler", "<NA>"},
		{"os.name", runtime.GOOS},
		{"os.arch", runtime.GOARCH},
		{"os.version", "none"},
		{"user.name", "none"},
		{"user.home", "none"},
		{"user.dir", "none"},
		{"os.memory.free", "0MB"},
		{"os.memory.max", "0MB"},
		{"os.memory.total", "0MB"},
	} {
		fmt.Fprintf(&b, "%s=%s\n", pair[0], pair[1])
	}
	return b.String()
}

func (s *Server) wordMonitor(c *conn) string {
	r := c.replica
	ephemerals := 0
	for _, own := range r.tree.ephemerals {
		ephemerals += len(own)
	}
	var b strings.Builder
	put := func(key string, value any) { fmt.Fprintf(&b, "zk_%s\t%v\n", key, value) }
	put("version", s.differs.version)
	put("server_state", s.mode(r))
	proposals := 0
	switch s.mode(r) {
	case "leader":
		proposals = s.proposals
		put("peer_state", "leading - broadcast")
		put("leader_uptime", s.elapsed())
		put("learners", len(s.replicas)-1)
		put("pending_syncs", 0)
		put("quorum_size", len(s.replicas))
		put("synced_followers", s.followers())
		put("synced_non_voting_followers", 0)
		put("synced_observers", 0)
	case "follower":
		put("peer_state", "following - broadcast")
		put("quorum_size", len(s.replicas))
	}
	put("proposal_count", proposals)
	put("sessionless_connections_expired", s.stats.neverGreeted)
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
func wordWatches(data *watchTable) string {
	return fmt.Sprintf("%d connections watching %d paths\nTotal watches:%d\n", len(data.byConn), len(data.byPath), data.total())
}

func wordWatchesByClient(data *watchTable) string {
	paths := make(map[int64][]string)
	for watcher, all := range data.byConn {
		paths[watcher.sessionID()] = sortedKeys(all)
	}
	var b strings.Builder
	for _, id := range sortedKeys(paths) {
		fmt.Fprintf(&b, "0x%x\n\t%s\n", uint64(id), strings.Join(paths[id], "\n\t"))
	}
	return b.String() + "\n"
}

func wordWatchesByPath(data *watchTable) string {
	var b strings.Builder
	for _, path := range sortedKeys(data.byPath) {
		var ids []int64
		for watcher := range data.byPath[path] {
			ids = append(ids, watcher.sessionID())
		}
		slices.Sort(ids)
		fmt.Fprintf(&b, "%s\n", path)
		for _, id := range ids {
			fmt.Fprintf(&b, "\t0x%x\n", uint64(id))
		}
	}
	return b.String() + "\n"
}

func (s *Server) wordDump(c *conn) string {
	r := c.replica
	var b strings.Builder
	b.WriteString("SessionTracker dump:\n")
	if s.mode(r) == "follower" {
		fmt.Fprintf(&b, "Global Sessions(%d):\n", len(s.sessions))
		for _, id := range sortedKeys(s.sessions) {
			fmt.Fprintf(&b, "0x%x\t%dms\n", uint64(id), s.sessions[id].timeout)
		}
	} else {
		expiring := make(map[int64][]string)
		for _, id := range sortedKeys(s.sessions) {
			at := s.sessions[id].deadline
			expiring[at] = append(expiring[at], fmt.Sprintf("0x%x", uint64(id)))
		}
		fmt.Fprintf(&b, "Session Sets (%d)/(%d):\n", len(expiring), len(s.sessions))
		b.WriteString(s.expiries(expiring))
	}
	b.WriteString("ephemeral nodes dump:\n")
	fmt.Fprintf(&b, "Sessions with Ephemerals (%d):\n", len(r.tree.ephemerals))
	for _, id := range sortedKeys(r.tree.ephemerals) {
		fmt.Fprintf(&b, "0x%x:\n", uint64(id))
		for _, path := range r.tree.ephemeralsOf(id) {
			fmt.Fprintf(&b, "\t%s\n", path)
		}
	}
	conns := s.connected(r)
	expiring := make(map[int64][]string)
	for _, other := range conns {
		at := other.expires
		if other.session != nil {
			at = other.session.deadline
		}
		expiring[at] = append(expiring[at], fmt.Sprintf("ip: /%s sessionId: 0x%x", other.net.RemoteAddr(), uint64(other.sessionID())))
	}
	b.WriteString("Connections dump:\n")
	fmt.Fprintf(&b, "Connections Sets (%d)/(%d):\n", len(expiring), len(conns))
	b.WriteString(s.expiries(expiring))
	return b.String()
}

// expiries lists what ends at what time, in milliseconds since the start.
func (s *Server) expiries(expiring map[int64][]string) string {
	var b strings.Builder
	for _, at := range sortedKeys(expiring) {
		when := s.started.Add(time.Duration(at) * time.Millisecond)
		fmt.Fprintf(&b, "%d expire at %s:\n", len(expiring[at]), when.Format(time.UnixDate))
		for _, what := range expiring[at] {
			fmt.Fprintf(&b, "\t%s\n", what)
		}
	}
	return b.String()
}

func (s *Server) wordConnections(c *conn) string {
	var b strings.Builder
	for _, other := range s.connected(c.replica) {
		b.WriteString(other.line(c))
		if other.session != nil {
			fmt.Fprintf(&b, ",sid=0x%x,lop=%s,est=%d,to=%d", uint64(other.session.id), cmp.Or(operationWords[other.lastOp], "NA"), other.since.UnixMilli(), other.timeout)
			if other.lastXid >= 0 {
				fmt.Fprintf(&b, ",lcxid=0x%x", other.lastXid)
			}
			fmt.Fprintf(&b, ",lzxid=0x%x,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0", c.replica.tree.zxid)
		}
		b.WriteString(")\n")
	}
	return b.String() + "\n"
}

// line returns how the words begin to describe a connection. Nothing more is read
// from the one that asks.
func (c *conn) line(asking *conn) string {
	reading := 1
	if c == asking {
		reading = 0
	}
	return fmt.Sprintf(" /%s[%d](queued=%d,recved=%d,sent=%d", c.net.RemoteAddr(), reading, len(c.waiting), c.received, c.sent)
}

// followers returns how many replicas hear from the leader.
func (s *Server) followers() int {
	n := -1
	for _, r := range s.replicas {
		if !r.isolated {
			n++
		}
	}
	return n
}

// operationWords has what the server calls an operation, where it has four letters for it.
//
//nolint:gochecknoglobals // it is constant
var operationWords = map[Op]string{
	0: "SESS", OpCreateSession: "SESS", OpPing: "PING",
	OpCreate: "CREA", OpCreate2: "CREA", OpCreateContainer: "CREA", OpCreateTTL: "CREA",
	OpDelete: "DELE", OpDeleteContainer: "DELE",
	OpExists: "EXIS", OpGetData: "GETD", OpSetData: "SETD", OpGetACL: "GETA", OpSetACL: "SETA",
	OpGetChildren: "GETC", OpGetChildren2: "GETC",
	OpSync: "SYNC", OpMulti: "MULT", OpSetWatches: "SETW",
}
