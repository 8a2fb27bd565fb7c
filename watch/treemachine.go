package watch

import (
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is what a tree does: no goroutines, no channels, no clock, no I/O. What feeds
// it is in tree.go. Unlike other machines it is modified by its steps: a tree is too
// large to be copied for each.

const (
	// treeWindow is how many first reads are under way at a time: enough to keep the
	// session busy.
	treeWindow = 1024

	// sharedNodes is how many nodes of a tree the user's session watches. The others
	// have a session of their own.
	sharedNodes = 1000
)

// A treeNode is one that is watched.
type treeNode struct {
	path    string
	parent  *treeNode // nil for the root
	depth   int32
	own     bool // it is watched through the tree's own session
	gone    bool // from the tree
	data    []byte
	stat    *session.Stat // nil if it has not been read, or is not there
	names   []string      // of its children, as last listed
	aspects [2]treeAspect
}

// A treeAspect is what is known of the data of a node, or of its children.
type treeAspect struct {
	zxid      int64  // of the newest reading that was taken
	turn      uint32 // tells apart one following from the next
	following bool
	waiting   bool                  // for the first answer
	sub       *session.Subscription // the performer's
}

// A treeInput is something that happened to a tree.
//
//sumtype:decl
type treeInput interface{ treeInput() }

type (
	// treeRead is one of the answers to followNode. The last one has an error.
	treeRead struct {
		node   *treeNode
		aspect session.Aspect
		turn   uint32
		session.Reading
		err error
	}
	// treeSynced answers catchUpNode.
	treeSynced struct {
		node *treeNode
		turn uint32
		err  error
	}
	// want says that somebody reads the changes.
	want struct{}
)

func (treeRead) treeInput()   {}
func (treeSynced) treeInput() {}
func (want) treeInput()       {}
func (leave) treeInput()      {}

// A treeEffect is something to do about it.
//
//sumtype:decl
type treeEffect interface{ treeEffect() }

type (
	// followNode begins to watch an aspect of a node.
	followNode struct {
		node   *treeNode
		aspect session.Aspect
		turn   uint32
	}
	// unfollowNode ends that.
	unfollowNode struct {
		node   *treeNode
		aspect session.Aspect
	}
	// catchUpNode brings the server that the node is read from up to date.
	catchUpNode struct {
		node *treeNode
		turn uint32
	}
)

func (followNode) treeEffect()   {}
func (unfollowNode) treeEffect() {}
func (catchUpNode) treeEffect()  {}

// A treeMachine keeps a tree. A node is in it if it stands in the newest list of its
// parent, and its data has been read since.
type treeMachine struct {
	depth  int                    // 0: any
	filter func(path string) bool // nil: all
	shared int                    // nodes that the user's session watches

	nodes   map[string]*treeNode
	root    *treeNode
	size    int // nodes with a stat
	pending []followNode
	head    int // of pending
	waiting int // first answers
	synced  bool
	wanted  bool
	ended   bool
	err     error

	out *actors.Effects[treeEffect, TreeState] // set during a step, nil between steps
	now TreeState
}

func newTreeMachine(path string, depth int, sync bool, filter func(string) bool) (*treeMachine, []treeEffect) {
	m := &treeMachine{depth: depth, filter: filter, shared: sharedNodes, nodes: make(map[string]*treeNode)}
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

func (m *treeMachine) String() string {
	return fmt.Sprintf("tree %s size=%d known=%d waiting=%d pending=%d synced=%v", m.root.path, m.size, len(m.nodes), m.waiting, len(m.pending)-m.head, m.synced)
}

// Ended implements [actors.Machine].
func (m *treeMachine) Ended() bool { return m.ended }

// Step implements [actors.Machine].
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
		m.begin()
	case leave:
		m.end(nil)
	}
	m.pump()
	if !m.synced && !m.ended && m.waiting == 0 {
		m.synced, m.now.Synced = true, true
	}
	if m.wanted && (!m.now.empty() || m.now.Synced) {
		m.now.Synced = m.synced
		out.Emit = append(out.Emit, m.now)
	}
	m.now, m.out = TreeState{}, nil
	return m
}

// begin tells the first reader everything.
func (m *treeMachine) begin() {
	if m.wanted {
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

func (n *treeNode) public() TreeNode { return TreeNode{Path: n.path, Data: n.data, Stat: n.stat} }

func (m *treeMachine) note(c change, n TreeNode) {
	if m.wanted {
		note(&m.now, c, n)
	}
}

// request asks for an aspect of a node to be followed, as soon as there is room.
func (m *treeMachine) request(n *treeNode, aspect session.Aspect) {
	a := &n.aspects[aspect]
	if a.following {
		return
	}
	a.following = true
	a.turn++
	m.pending = append(m.pending, followNode{n, aspect, a.turn})
}

// catchUp asks for a node to be read by a server that is up to date.
func (m *treeMachine) catchUp(n *treeNode) {
	a := &n.aspects[session.AspectData]
	a.following, a.waiting = true, true
	a.turn++
	m.waiting++
	m.out.Do = append(m.out.Do, catchUpNode{n, a.turn})
}

func (m *treeMachine) caughtUp(in treeSynced) {
	a := &in.node.aspects[session.AspectData]
	if a.turn != in.turn || !a.following {
		return
	}
	m.settle(a)
	a.following = false
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

// pump begins what there is room for.
func (m *treeMachine) pump() {
	for m.waiting < treeWindow && m.head < len(m.pending) && !m.ended {
		f := m.pending[m.head]
		m.pending[m.head] = followNode{}
		m.head++
		if a := &f.node.aspects[f.aspect]; a.following && a.turn == f.turn {
			a.waiting = true
			m.waiting++
			m.out.Do = append(m.out.Do, f)
		}
	}
	if m.head == len(m.pending) {
		m.pending, m.head = nil, 0
	}
}

// settle notes that the first answer has come, or is not awaited any more.
func (m *treeMachine) settle(a *treeAspect) {
	if a.waiting {
		a.waiting = false
		m.waiting--
	}
}

func (m *treeMachine) answered(in treeRead) {
	n, a := in.node, &in.node.aspects[in.aspect]
	if n.gone || !a.following || a.turn != in.turn {
		return
	}
	m.settle(a)
	switch {
	case in.err != nil:
		a.following = false
		m.refused(n, in)
	case in.Zxid < a.zxid, in.Stat == nil && in.Zxid < n.aspects[session.AspectChildren].zxid:
		// A server that is behind: what is news to it will be told when it is.
	case in.aspect == session.AspectData:
		a.zxid = in.Zxid
		m.found(n, in.Reading)
	default:
		a.zxid = in.Zxid
		m.listed(n, in.Names)
	}
}

// found takes the data of a node.
func (m *treeMachine) found(n *treeNode, r session.Reading) {
	old := n.stat
	if r.Stat == nil {
		m.vanish(n)
		return
	}
	// Ephemeral nodes have no children.
	if r.Stat.EphemeralOwner == 0 && (m.depth == 0 || int(n.depth) < m.depth) {
		m.request(n, session.AspectChildren)
	}
	differs := old == nil || old.Mzxid != r.Stat.Mzxid
	if !differs {
		return
	}
	n.data, n.stat = r.Data, r.Stat
	if old == nil {
		m.size++
		m.note(added, n.public())
	} else {
		m.note(changed, n.public())
	}
}

// listed takes the names of a node's children.
func (m *treeMachine) listed(n *treeNode, names []string) {
	there := make(map[string]struct{}, len(names))
	for _, name := range names {
		there[name] = struct{}{}
	}
	for _, name := range n.names {
		if _, stays := there[name]; !stays {
			if child := m.nodes[session.Join(n.path, name)]; child != nil {
				m.remove(child)
			}
		}
	}
	n.names = names
	for _, name := range names {
		path := session.Join(n.path, name)
		child := m.nodes[path]
		if child == nil {
			if m.filter != nil && !m.filter(path) {
				continue
			}
			child = &treeNode{path: path, parent: n, depth: n.depth + 1, own: len(m.nodes) >= m.shared}
			m.nodes[path] = child
		}
		m.request(child, session.AspectData)
	}
}

// refused goes on where an aspect of a node cannot be followed.
func (m *treeMachine) refused(n *treeNode, in treeRead) {
	switch {
	case session.Passing(in.err):
		m.request(n, in.aspect)
	case errors.Is(in.err, session.ErrClosed) || n == m.root:
		m.end(in.err)
	case !errors.Is(in.err, session.ErrNoNode):
		// It is left out until its parent changes; without its children, if only those
		// cannot be listed.
		if in.aspect == session.AspectData {
			m.vanish(n)
		}
	case in.Zxid != 0 && in.Zxid < max(n.aspects[0].zxid, n.aspects[1].zxid, n.parent.listed()):
		m.unfollow(n, session.AspectData)
		m.unfollow(n, session.AspectChildren)
		m.catchUp(n)
	default:
		m.vanish(n)
		// The parent's list will tell that it is gone, or that it was made again: they
		// come in order, unless from different servers.
		if in.Zxid == 0 && n.own != n.parent.own {
			m.catchUp(n)
		}
	}
}

// listed returns how new the list of a node's children is.
func (n *treeNode) listed() int64 { return n.aspects[session.AspectChildren].zxid }

// vanish takes a node out of the tree, with all below it, but expects it to come back.
func (m *treeMachine) vanish(n *treeNode) {
	for _, name := range n.names {
		if child := m.nodes[session.Join(n.path, name)]; child != nil {
			m.remove(child)
		}
	}
	n.names = nil
	if n != m.root {
		m.unfollow(n, session.AspectData)
		m.unfollow(n, session.AspectChildren)
	}
	if n.stat != nil {
		m.size--
		m.note(removed, n.public())
		n.data, n.stat = nil, nil
	}
}

// remove is vanish for good.
func (m *treeMachine) remove(n *treeNode) {
	m.vanish(n)
	n.gone = true
	delete(m.nodes, n.path)
}

func (m *treeMachine) unfollow(n *treeNode, aspect session.Aspect) {
	a := &n.aspects[aspect]
	m.settle(a)
	if a.following {
		a.following = false
		m.out.Do = append(m.out.Do, unfollowNode{n, aspect})
	}
}

// end ends the tree, and what it asked for of the session that is not its own.
func (m *treeMachine) end(why error) {
	m.ended, m.err = true, why
	for _, n := range m.nodes {
		if !n.own {
			m.unfollow(n, session.AspectData)
			m.unfollow(n, session.AspectChildren)
		}
	}
}
