package zktest

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// A tree is the znodes as one server sees them. It knows nothing of sessions,
// connections or watches.
type tree struct {
	nodes      map[string]*node
	ephemerals map[int64]map[string]struct{} // by session
	reapable   map[string]struct{}           // containers and nodes with a TTL
	zxid       int64                         // of the newest transaction
	bytes      int64                         // of paths and data
	stuck      bool                          // see Config.StuckSequences
	differs    *differences                  // of the server's profile
}

type node struct {
	data      []byte // never modified, only replaced
	acl       []acl  // likewise
	wire.Stat        // without Cversion as clients see it, DataLength and NumChildren
	sets      int32  // writes to the children that the cversion counts: see differences.countsDataSets

	// The children, and where each of them stands in names.
	names []string
	index map[string]int
}

const (
	containerOwner int64 = math.MinInt64
	ttlMask        int64 = -1 << 56
	maxTTL         int64 = 1<<40 - 1
)

func isContainer(owner int64) bool { return owner == containerOwner }
func isTTL(owner int64) bool       { return owner&ttlMask == ttlMask }
func isEphemeral(owner int64) bool { return owner != 0 && !isContainer(owner) && !isTTL(owner) }

// newTree returns what the server starts with.
func (s *Server) newTree() *tree {
	t := newTree(s.differs)
	t.stuck = s.config.StuckSequences
	if len(s.addrs) > 1 { // a server that is alone writes none
		t.nodes["/zookeeper/config"].data = []byte(s.membership())
	}
	return t
}

// membership is the configuration of the ensemble.
func (s *Server) membership() string {
	var b strings.Builder
	for i, addr := range s.addrs {
		host, _, _ := net.SplitHostPort(addr)
		fmt.Fprintf(&b, "server.%d=%s:0:0:participant;%s\n", i+1, host, addr)
	}
	return b.String() + "version=0"
}

func newTree(d *differences) *tree {
	t := &tree{
		differs:    d,
		nodes:      make(map[string]*node),
		ephemerals: make(map[int64]map[string]struct{}),
		reapable:   make(map[string]struct{}),
	}
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		t.nodes[path] = &node{data: []byte{}, acl: openACL()}
		t.bytes += int64(len(path))
		if path != "/" {
			dir, name := split(path)
			t.nodes[dir].add(name)
		}
	}
	config := t.nodes["/zookeeper/config"]
	config.acl, config.Aversion = readACL(), -1
	return t
}

// clone returns a copy that has a life of its own.
func (t *tree) clone() *tree {
	c := &tree{
		nodes:      make(map[string]*node, len(t.nodes)),
		ephemerals: make(map[int64]map[string]struct{}, len(t.ephemerals)),
		reapable:   make(map[string]struct{}),
		zxid:       t.zxid,
		bytes:      t.bytes,
		stuck:      t.stuck,
		differs:    t.differs,
	}
	for path, n := range t.nodes {
		n2 := *n
		n2.names = slices.Clone(n.names)
		n2.index = nil
		if n.index != nil {
			n2.index = make(map[string]int, len(n.index))
			for i, name := range n2.names {
				n2.index[name] = i
			}
		}
		c.nodes[path] = &n2
	}
	for session, paths := range t.ephemerals {
		all := make(map[string]struct{}, len(paths))
		for p := range paths {
			all[p] = struct{}{}
		}
		c.ephemerals[session] = all
	}
	for p := range t.reapable {
		c.reapable[p] = struct{}{}
	}
	return c
}

// node returns the node at path, or nil. To the server "" is the root as well.
func (t *tree) node(path string) *node {
	if path == "" {
		path = "/"
	}
	return t.nodes[path]
}

func (n *node) add(name string) {
	if n.index == nil {
		n.index = make(map[string]int)
	}
	n.index[name] = len(n.names)
	n.names = append(n.names, name)
}

func (n *node) remove(name string) {
	i, ok := n.index[name]
	if !ok {
		return
	}
	last := len(n.names) - 1
	n.names[i] = n.names[last]
	n.index[n.names[i]] = i
	n.names[last] = ""
	n.names = n.names[:last]
	delete(n.index, name)
	if last == 0 {
		n.names, n.index = nil, nil
	}
}

// children returns the names of the children, roughly from the newest to the oldest: a real server
// has no order either, and a test must notice a client that forgets to sort.
func (n *node) children() []string {
	names := slices.Clone(n.names)
	slices.Reverse(names)
	return names
}

// status returns the Stat that clients receive. The server counts creations; the cversion that
// clients receive counts creations and deletions.
func (t *tree) status(n *node) wire.Stat {
	s := n.Stat
	s.DataLength = int32(len(n.data))
	s.NumChildren = int32(len(n.names))
	s.Cversion = n.Cversion*2 - s.NumChildren + n.sets
	if !isEphemeral(s.EphemeralOwner) && (!isContainer(s.EphemeralOwner) || !t.differs.tellsContainers) {
		s.EphemeralOwner = 0
	}
	return s
}

// countBelow returns how many nodes there are below path.
func (t *tree) countBelow(path string) int32 {
	if path == "/" {
		return int32(len(t.nodes) - 1)
	}
	var count int32
	for p := range t.nodes {
		if strings.HasPrefix(p, path) && len(p) > len(path) && p[len(path)] == '/' {
			count++
		}
	}
	return count
}

// A txn is a transaction, which every replica applies at once.
type txn struct {
	zxid    int64
	time    int64 // milliseconds of the epoch
	changes []change
	closes  int64 // the session that ends with it, or 0
}

// A change is one step of a transaction, with nothing left to decide.
type change struct {
	kind  changeKind
	path  string
	data  []byte
	acl   []acl
	owner int64
	// version is the new one of the data or of the ACL; for a creation the
	// parent's new cversion.
	version int32
	// before and parent are the ACLs of the node and of its parent: a client that may
	// not read them is not notified of the change.
	before, parent []acl
}

// deletion returns the change that deletes a node.
func (t *tree) deletion(path string) change {
	return change{kind: nodeDeleted, path: path, before: t.nodes[path].acl, parent: t.nodes[parentOf(path)].acl}
}

type changeKind int

const (
	nodeCreated changeKind = iota
	nodeDeleted
	dataSet
	aclSet
)

// An undo has the state that a change has destroyed.
type undo struct {
	change
	node    *node     // the deleted one
	wasNode node      // of data or ACL, its fields only
	wasStat wire.Stat // the parent's cversion and pzxid
}

// apply makes a change. It must be possible.
func (t *tree) apply(c change, zxid, now int64) undo {
	u := undo{change: c}
	switch c.kind {
	case nodeCreated:
		dir, name := split(c.path)
		parent := t.nodes[dir]
		u.wasStat = parent.Stat
		parent.add(name)
		// It never goes back, but over the end of its range.
		if c.version > parent.Cversion || c.version == math.MinInt32 && !t.stuck {
			parent.Cversion, parent.Pzxid = c.version, zxid
		}
		t.insert(c.path, &node{
			data: c.data,
			acl:  c.acl,
			Stat: wire.Stat{Czxid: zxid, Mzxid: zxid, Pzxid: zxid, Ctime: now, Mtime: now, EphemeralOwner: c.owner},
		})
	case nodeDeleted:
		u.node = t.nodes[c.path]
		dir, name := split(c.path)
		parent := t.nodes[dir]
		u.wasStat = parent.Stat
		parent.remove(name)
		if !t.differs.keepsPzxid {
			parent.Pzxid = max(parent.Pzxid, zxid)
		}
		t.extract(c.path)
	case dataSet:
		n := t.node(c.path)
		u.wasNode = *n
		t.bytes += int64(len(c.data) - len(n.data))
		n.data, n.Version, n.Mzxid, n.Mtime = c.data, c.version, zxid, now
		t.countSet(c.path, 1)
	case aclSet:
		n := t.node(c.path)
		u.wasNode = *n
		n.acl, n.Aversion = c.acl, c.version
	}
	return u
}

// revert takes back the newest change that has not been taken back.
func (t *tree) revert(u undo) {
	switch u.kind {
	case nodeCreated, nodeDeleted:
		dir, name := split(u.path)
		parent := t.nodes[dir]
		if u.kind == nodeCreated {
			t.extract(u.path)
			parent.remove(name)
		} else {
			t.insert(u.path, u.node)
			parent.add(name)
		}
		parent.Cversion, parent.Pzxid = u.wasStat.Cversion, u.wasStat.Pzxid
	case dataSet, aclSet:
		n := t.node(u.path)
		t.bytes += int64(len(u.wasNode.data) - len(n.data))
		n.data, n.Version, n.Mzxid, n.Mtime = u.wasNode.data, u.wasNode.Version, u.wasNode.Mzxid, u.wasNode.Mtime
		n.acl, n.Aversion = u.wasNode.acl, u.wasNode.Aversion
		if u.kind == dataSet {
			t.countSet(u.path, -1)
		}
	}
}

// countSet counts a write to a child of a node, where that counts.
func (t *tree) countSet(path string, by int32) {
	if t.differs.countsDataSets && path != "" && path != "/" {
		t.nodes[parentOf(path)].sets += by
	}
}

func (t *tree) insert(path string, n *node) {
	t.nodes[path] = n
	t.bytes += int64(len(path) + len(n.data))
	switch {
	case isContainer(n.EphemeralOwner), isTTL(n.EphemeralOwner):
		t.reapable[path] = struct{}{}
	case isEphemeral(n.EphemeralOwner):
		if t.ephemerals[n.EphemeralOwner] == nil {
			t.ephemerals[n.EphemeralOwner] = make(map[string]struct{})
		}
		t.ephemerals[n.EphemeralOwner][path] = struct{}{}
	}
}

func (t *tree) extract(path string) {
	n := t.nodes[path]
	delete(t.nodes, path)
	delete(t.reapable, path)
	t.bytes -= int64(len(path) + len(n.data))
	if own := t.ephemerals[n.EphemeralOwner]; own != nil {
		delete(own, path)
		if len(own) == 0 {
			delete(t.ephemerals, n.EphemeralOwner)
		}
	}
}

// ephemeralsOf returns the paths of a session's nodes, in order.
func (t *tree) ephemeralsOf(session int64) []string {
	own := t.ephemerals[session]
	paths := make([]string, 0, len(own))
	for p := range own {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

// expired returns the containers that have been emptied and the nodes whose TTL
// has passed.
func (t *tree) expired(now int64) []string {
	var paths []string
	for p := range t.reapable {
		n := t.nodes[p]
		if len(n.names) > 0 {
			continue
		}
		// A container that never had a child is still waiting for one.
		if isContainer(n.EphemeralOwner) && n.Cversion > 0 || isTTL(n.EphemeralOwner) && now-n.Mtime > n.EphemeralOwner&maxTTL {
			paths = append(paths, p)
		}
	}
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	return paths
}

// split returns the path of the parent, and the name in it.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return parentOf(path), path[i+1:]
}

func parentOf(path string) string {
	return path[:max(strings.LastIndexByte(path, '/'), 1)]
}

// sequential appends what the parent has counted so far.
func sequential(path string, cversion int32) string {
	return fmt.Sprintf("%s%010d", path, cversion)
}

// validPath reports whether the server accepts a path.
func validPath(path string) bool {
	switch {
	case path == "/":
		return true
	case path == "" || path[0] != '/' || path[len(path)-1] == '/':
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
		for _, r := range name {
			// What is no UTF-8 comes to the server as U+FFFD, and what does not
			// fit into 16 bits as surrogates.
			if r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
				return false
			}
		}
	}
	return true
}

// isSpecial reports whether path cannot be deleted.
func isSpecial(path string) bool {
	switch path {
	case "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config":
		return true
	}
	return false
}
