package watch

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// This file is the machine of a tree: no goroutines, no channels, no clock, no I/O. tree.go feeds
// it. Unlike other machines it is modified by its steps: a tree is too large to be copied for each.
//
// A request ends with its session. What an earlier session has read is not held against what the
// next one reads: the servers may have come back with older data.
//
// A node is known when it stands in the list of its parent. Each of its two aspects, data and
// children, is in one of these states:
//
//	idle ── request ► pending ── pump, within the window ► waiting ── the first answer ► following
//	 ▲                                                        │                             │
//	 └───────────── refused, vanished, or unfollowed ─────────┴─────────────────────────────┘
//
// The list of a node adds its new children, and removes those that are missing. Answers of a server
// that lags behind are recognised by their zxid. The tree is synced when, for the first time, no
// first answer is awaited.
//
// A node may be replaced in one transaction, by one of the same name, or of another: then there was
// no moment without either. So a node whose deletion is reported stays in the tree until the next
// list of its parent, which says whether the name is there again; and a child that a list has no
// more stays until the children that the list has brought have been read.

const (
	// treeWindow limits how many first answers are awaited at a time: enough to keep the
	// session busy.
	treeWindow = 1024

	// sharedNodes limits how many nodes of a tree the user's session watches. The others
	// have a session of their own.
	sharedNodes = 1000

	// patientLists limits how many lists a child that has gone waits for.
	patientLists = 16
)

// A treeNode is a node that stands in the newest list of its parent, or the root.
type treeNode struct {
	// Constant.
	path   string
	parent *treeNode // nil for the root
	depth  int32     // levels below the root
	own    bool      // set if the tree's own session watches it

	gone    bool          // set when it is removed; answers for it are ignored then
	leaving bool          // set when the newest list of its parent has it no more; cleared when a list has it again
	unread  bool          // set when a list has it and it is not in the tree, until it was read, or cannot be
	data    []byte        // set with stat
	missing bool          // set when a read has not found it, cleared by its next reading
	stat    *session.Stat // set by a read, cleared when the node is missing or cannot be read: then it is not in the tree
	names   []string      // of its children, by the newest list; emptied with stat
	aspects [2]treeAspect // by session.Aspect
}

// A treeBatch has the children of a node that its newest list has no more. They stay until those
// that the list has brought were read: one of these may have replaced one of them in one
// transaction.
type treeBatch struct {
	left   []*treeNode
	unread int   // children of the newest list that were not read
	lists  int   // since the batch was empty; at most patientLists
	zxid   int64 // of the newest list
}

// A treeAspect is the knowledge of a node's data, or of its children.
type treeAspect struct {
	zxid      int64                 // of the newest answer to the present request; 0 before, and while following is not set
	number    uint32                // numbers the requests: answers to earlier ones are ignored
	following bool                  // set when it is requested; cleared when that has failed, or is ended
	waiting   bool                  // set from the request until its first answer; counted by the tree
	sub       *session.Subscription // used by the performer alone
}

// A treeInput is an event that a tree reacts to.
//
//sumtype:decl
type treeInput interface{ treeInput() }

type (
	// treeRead is an answer to followNode. The last one has an error.
	treeRead struct {
		node   *treeNode
		aspect session.Aspect
		number uint32
		session.Reading
		err error
	}
	// treeSynced answers catchUpNode, once.
	treeSynced struct {
		node   *treeNode
		number uint32
		err    error
	}
	// want says that the changes have a reader.
	want struct{}
)

func (treeRead) treeInput()   {}
func (treeSynced) treeInput() {}
func (want) treeInput()       {}
func (leave) treeInput()      {}

// A treeEffect is a request of the tree to its performer.
//
//sumtype:decl
type treeEffect interface{ treeEffect() }

type (
	// followNode begins to watch an aspect of a node. The number is in every answer.
	followNode struct {
		node   *treeNode
		aspect session.Aspect
		number uint32
	}
	// unfollowNode ends followNode.
	unfollowNode struct {
		node   *treeNode
		aspect session.Aspect
	}
	// catchUpNode brings the server that the node is read from up to date.
	catchUpNode struct {
		node   *treeNode
		number uint32
	}
)

func (followNode) treeEffect()   {}
func (unfollowNode) treeEffect() {}
func (catchUpNode) treeEffect()  {}

// A treeMachine keeps a tree. A node is in it if it stands in the newest list of its
// parent, and its data has been read since.
type treeMachine struct {
	// Constant.
	depth  int                    // of the levels that are watched; 0 for all
	filter func(path string) bool // reports whether a node is watched; nil for all
	shared int                    // how many nodes the user's session watches

	nodes   map[string]*treeNode     // by path: the root, and every node of a list
	batches map[*treeNode]*treeBatch // of the children of a node; only where some wait to be removed
	root    *treeNode
	size    int          // the number of nodes with a stat
	pending []followNode // requests that wait for room in the window, from head on
	head    int          // entries before it are empty
	waiting int          // the number of aspects whose first answer is awaited; at most treeWindow, but for catch-ups
	synced  bool         // set when nothing is awaited for the first time; never cleared
	wanted  bool         // set when the changes have a reader; before that none are gathered
	ended   bool         // set by leave, or when the root cannot be watched
	err     error        // set with ended: why; nil after leave

	// Set during a step, and empty between steps.
	out *actors.Effects[treeEffect, TreeState]
	now TreeState // the changes of this step
}

// newTreeMachine returns a tree that has read nothing, and its first effects.
func newTreeMachine(path string, depth int, sync bool, filter func(string) bool) (*treeMachine, []treeEffect) {
	m := &treeMachine{depth: depth, filter: filter, shared: sharedNodes, nodes: make(map[string]*treeNode), batches: make(map[*treeNode]*treeBatch)}
	m.root = &treeNode{path: path}
	m.nodes[path] = m.root
	var first actors.Effects[treeEffect, TreeState]
	m.out = &first
	if sync {
		m.catchUp(m.root)
	} else {
		m.request(m.root, session.AspectData)
		m.request(m.root, session.AspectChildren)
	}
	m.pump()
	m.out = nil
	return m, first.Do
}

// String shows the sizes, for transcripts.
func (m *treeMachine) String() string {
	return fmt.Sprintf("tree %s size=%d known=%d waiting=%d pending=%d synced=%v", m.root.path, m.size, len(m.nodes), m.waiting, len(m.pending)-m.head, m.synced)
}

// Ended implements [actors.Machine]. The nodes stay as they are then.
func (m *treeMachine) Ended() bool { return m.ended }

// Step implements [actors.Machine]. Each input enters one answer; pump then fills the
// window. All changes of a step are one event.
func (m *treeMachine) Step(in treeInput, out *actors.Effects[treeEffect, TreeState]) *treeMachine {
	if m.ended {
		return m
	}
	m.out = out
	switch in := in.(type) {
	case treeRead:
		m.answered(in)
	case treeSynced:
		m.caughtUp(in)
	case want:
		m.begin() // until then, changes are not gathered
	case leave:
		m.end(nil)
	}
	m.pump()
	if !m.synced && !m.ended && m.waiting == 0 {
		m.synced, m.now.Synced = true, true // emitted even if nothing has changed
	}
	if m.wanted && (!m.now.empty() || m.now.Synced) {
		m.now.Synced = m.synced
		out.Emit = append(out.Emit, m.now)
	}
	m.now, m.out = TreeState{}, nil
	return m
}

// begin emits the whole tree as added, for the first reader.
func (m *treeMachine) begin() {
	if m.wanted { // there is one reader
		return
	}
	m.wanted = true
	m.now = TreeState{Synced: m.synced}
	for _, n := range m.nodes {
		if n.stat != nil {
			m.now.Added = append(m.now.Added, n.public())
		}
	}
}

// public returns the node as readers see it.
func (n *treeNode) public() TreeNode { return TreeNode{Path: n.path, Data: n.data, Stat: n.stat} }

// note enters a change into the event of this step, if it has a reader.
func (m *treeMachine) note(c change, n TreeNode) {
	if m.wanted {
		note(&m.now, c, n)
	}
}

// request follows an aspect of a node, as soon as there is room in the window.
func (m *treeMachine) request(n *treeNode, aspect session.Aspect) {
	a := &n.aspects[aspect]
	if a.following {
		return
	}
	a.following = true
	a.number++
	m.pending = append(m.pending, followNode{n, aspect, a.number})
}

// catchUp has the server brought up to date before the node is read again.
func (m *treeMachine) catchUp(n *treeNode) {
	a := &n.aspects[session.AspectData]
	a.following, a.waiting = true, true
	a.number++
	m.waiting++
	m.out.Do = append(m.out.Do, catchUpNode{n, a.number})
}

// caughtUp follows the answer to catchUp.
func (m *treeMachine) caughtUp(in treeSynced) {
	a := &in.node.aspects[session.AspectData]
	if a.number != in.number || !a.following {
		return
	}
	m.settle(a)
	a.ended()
	switch {
	case in.err != nil && !session.Passing(in.err):
		m.end(in.err)
	case in.err != nil:
		m.catchUp(in.node)
	default:
		m.request(in.node, session.AspectData)
		if in.node == m.root {
			m.request(in.node, session.AspectChildren)
		}
	}
}

// pump sends pending requests while the window has room. Those that were ended meanwhile
// are dropped.
func (m *treeMachine) pump() {
	for m.waiting < treeWindow && m.head < len(m.pending) && !m.ended {
		f := m.pending[m.head]
		m.pending[m.head] = followNode{} // so that a removed node can be collected
		m.head++
		if a := &f.node.aspects[f.aspect]; a.following && a.number == f.number {
			a.waiting = true
			m.waiting++
			m.out.Do = append(m.out.Do, f)
		}
	}
	// The array is reused until all of it was sent.
	if m.head == len(m.pending) {
		m.pending, m.head = nil, 0
	}
}

// settle enters that the first answer of an aspect is not awaited any more.
func (m *treeMachine) settle(a *treeAspect) {
	if a.waiting {
		a.waiting = false
		m.waiting--
	}
}

// ended enters that an aspect is not requested any more.
func (a *treeAspect) ended() { a.following, a.zxid = false, 0 }

// answered enters an answer to followNode, unless it is for an earlier request, or older
// than what is known.
func (m *treeMachine) answered(in treeRead) {
	n, a := in.node, &in.node.aspects[in.aspect]
	if n.gone || !a.following || a.number != in.number { // not requested any more
		return
	}
	m.settle(a) // the answer, or the error, is the first of this request
	switch {
	case in.err != nil:
		a.ended()
		m.refused(n, in)
	case in.Zxid < a.zxid, in.Stat == nil && in.Zxid < n.aspects[session.AspectChildren].zxid:
		// The server lags behind. It sends a newer answer when it has caught up.
	case in.aspect == session.AspectData:
		a.zxid = in.Zxid
		m.found(n, in.Reading)
	default:
		a.zxid = in.Zxid
		m.listed(n, in.Names)
	}
}

// found enters the data of a node.
func (m *treeMachine) found(n *treeNode, r session.Reading) {
	old := n.stat
	// The node is missing, and its parent's list is no older: it was deleted since.
	if r.Stat == nil {
		m.vanish(n)
		return
	}
	n.missing = false
	defer m.read(n)
	// Ephemeral nodes have no children.
	if r.Stat.EphemeralOwner == 0 && (m.depth == 0 || int(n.depth) < m.depth) {
		m.request(n, session.AspectChildren)
	}
	if old != nil && client.SameWrite(old, r.Stat) {
		return
	}
	if old != nil && old.Czxid != r.Stat.Czxid && r.Stat.EphemeralOwner != 0 {
		m.removeChildren(n) // it has replaced a node that had some
	}
	n.data, n.stat = r.Data, r.Stat
	if old == nil {
		m.size++
		m.note(added, n.public())
	} else {
		m.note(changed, n.public())
	}
}

// listed enters the names of a node's children. New ones are read, and a child whose deletion was
// reported is requested again. Missing ones are removed when the new ones were read.
func (m *treeMachine) listed(n *treeNode, names []string) {
	out, err := m.leavesOut(n, names)
	if err != nil {
		m.end(err)
		return
	}
	there := make(map[string]struct{}, len(names))
	for _, name := range names {
		there[name] = struct{}{}
	}
	batch := m.batches[n]
	if batch == nil {
		batch = new(treeBatch)
	}
	batch.lists, batch.unread = batch.lists+1, 0
	batch.zxid = n.listed()
	// A child of the same name that was deleted and created again stays known: its data
	// shows that.
	for _, name := range n.names {
		if _, stays := there[name]; stays {
			continue
		}
		switch child := m.nodes[znode.Join(n.path, name)]; {
		case child == nil:
		case child.stat == nil:
			m.remove(child)
		default:
			child.leaving = true
			batch.left = append(batch.left, child)
		}
	}
	n.names = names
	for _, name := range names {
		path := znode.Join(n.path, name)
		child := m.nodes[path]
		if child == nil {
			if out[name] { // its children are not looked for either
				continue
			}
			child = &treeNode{path: path, parent: n, depth: n.depth + 1, own: len(m.nodes) >= m.shared}
			m.nodes[path] = child
		}
		child.leaving = false
		if child.unread = child.stat == nil; child.unread {
			batch.unread++
		}
		m.request(child, session.AspectData) // no request if it is followed already
	}
	batch.left = slices.DeleteFunc(batch.left, func(child *treeNode) bool { return !child.leaving })
	if len(batch.left) == 0 {
		delete(m.batches, n)
		return
	}
	m.batches[n] = batch
	m.settleBatch(n, batch)
}

// leavesOut returns those of the names that the user's filter leaves out.
func (m *treeMachine) leavesOut(n *treeNode, names []string) (map[string]bool, error) {
	if m.filter == nil {
		return nil, nil
	}
	out := make(map[string]bool)
	err := actors.Contain(func() {
		for _, name := range names {
			path := znode.Join(n.path, name)
			out[name] = m.nodes[path] == nil && !m.filter(path)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%w: TreeOptions.Filter: %w", session.ErrInvalidArgument, err)
	}
	return out, nil
}

// read enters that a child was read, or cannot be.
func (m *treeMachine) read(n *treeNode) {
	if !n.unread {
		return
	}
	n.unread = false
	if batch := m.batches[n.parent]; batch != nil {
		batch.unread--
		m.settleBatch(n.parent, batch)
	}
}

// settleBatch removes the children that the newest list of a node has no more, when those that it
// has were read. One that vanishes before it is read was replaced, too, perhaps: the next list
// decides, but for a parent whose children come and go without end.
func (m *treeMachine) settleBatch(n *treeNode, batch *treeBatch) {
	if batch.unread > 0 && batch.lists < patientLists {
		return
	}
	delete(m.batches, n)
	for _, child := range batch.left {
		child.leaving = false
		if child.stat == nil || child.stat.Czxid <= batch.zxid || child.missing {
			m.remove(child)
			continue
		}
		// It is newer than the list: a newer list follows, unless the servers have lost the node,
		// which a read shows.
		_, name := znode.Split(child.path)
		n.names = append(slices.Clip(n.names), name)
		m.request(child, session.AspectData)
	}
}

// refused goes on when an aspect of a node cannot be followed.
func (m *treeMachine) refused(n *treeNode, in treeRead) {
	switch {
	case session.Passing(in.err):
		m.request(n, in.aspect) // through the next session, if this one is over
	case errors.Is(in.err, session.ErrClosed) || n == m.root: // there is no tree without it
		m.end(in.err)
	case !errors.Is(in.err, session.ErrNoNode):
		// Without its data it is left out, until the children of its parent change. Without its
		// list it has no children.
		if in.aspect == session.AspectData {
			m.vanish(n)
			m.read(n)
		} else {
			m.removeChildren(n)
		}
	// Another node was found in its place; the parent's list may have come before.
	case in.Stat != nil:
		m.forget(n)
		m.request(n, session.AspectData)
	// The answer is older than what is known of the node: it may stand.
	case in.Zxid != 0 && in.Zxid < max(n.aspects[0].zxid, n.aspects[1].zxid, n.parent.listed()):
		m.forget(n)
		m.catchUp(n)
	default:
		m.doubt(n)
		// The parent's list follows, and shows whether it was created again: the two come in
		// order, unless from different servers. If the node is newer than the list, a newer list
		// follows as well, unless the servers have lost the node.
		again := n.missing
		n.missing = in.Zxid != 0
		switch {
		case n.own != n.parent.own && (!n.missing || !again):
			m.catchUp(n)
		case n.missing && n.stat != nil && n.parent.listed() != 0 && n.stat.Czxid > n.parent.listed():
			m.unfollow(n.parent, session.AspectChildren)
			m.request(n.parent, session.AspectChildren)
		}
	}
}

// doubt enters that a node was deleted. It stays until the list of its parent that follows, unless
// that is not watched.
func (m *treeMachine) doubt(n *treeNode) {
	switch {
	case !n.parent.aspects[session.AspectChildren].following:
		m.vanish(n)
		m.read(n)
	case n.stat == nil:
		m.vanish(n)
	default:
		m.forget(n)
	}
}

// forget ends the requests of a node, which stays as it was read last.
func (m *treeMachine) forget(n *treeNode) {
	m.unfollow(n, session.AspectData)
	m.unfollow(n, session.AspectChildren)
}

// listed returns the zxid of the newest list of a node's children.
func (n *treeNode) listed() int64 { return n.aspects[session.AspectChildren].zxid }

// vanish takes a node out of the tree, with all nodes below it. The node is still known,
// and may come back.
func (m *treeMachine) vanish(n *treeNode) {
	m.removeChildren(n)
	// The root is followed although it is missing: it may be created.
	if n != m.root {
		m.forget(n)
	}
	if n.stat != nil {
		m.size--
		m.note(removed, n.public())
		n.data, n.stat = nil, nil
	}
}

// removeChildren removes all nodes below a node.
func (m *treeMachine) removeChildren(n *treeNode) {
	for child := range m.children(n) {
		m.remove(child)
	}
	n.names = nil
	delete(m.batches, n)
}

// children are the known children of a node, those included that its newest list has no more and
// that are still in the tree.
func (m *treeMachine) children(n *treeNode) iter.Seq[*treeNode] {
	return func(yield func(*treeNode) bool) {
		for _, name := range n.names {
			if child := m.nodes[znode.Join(n.path, name)]; child != nil && !yield(child) {
				return
			}
		}
		if batch := m.batches[n]; batch != nil {
			for _, child := range batch.left {
				if child.leaving && !yield(child) {
					return
				}
			}
		}
	}
}

// remove is vanish for a node that its parent's list has no more.
func (m *treeMachine) remove(n *treeNode) {
	n.gone, n.leaving, n.unread = true, false, false
	delete(m.nodes, n.path) // its path may come back as another node
	m.vanish(n)
}

// unfollow ends the request for an aspect, if there is one.
func (m *treeMachine) unfollow(n *treeNode, aspect session.Aspect) {
	a := &n.aspects[aspect]
	m.settle(a)
	if a.following {
		a.ended()
		m.out.Do = append(m.out.Do, unfollowNode{n, aspect})
	}
}

// end ends the tree. The watches of the user's session are ended one by one, those of its
// own session with that.
func (m *treeMachine) end(why error) {
	m.ended, m.err = true, why // answers from now on are ignored
	for _, n := range m.nodes {
		// The user's session goes on without the tree.
		if !n.own {
			m.unfollow(n, session.AspectData)
			m.unfollow(n, session.AspectChildren)
		}
	}
}
