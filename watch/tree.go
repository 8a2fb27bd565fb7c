package watch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// TreeOptions are optional parameters for [Tree]. A nil *TreeOptions is equivalent to a
// zero TreeOptions.
type TreeOptions struct {
	// Sync has the meaning of Sync in [Options].
	Sync bool

	// Depth is the number of levels below the root that are watched. The default is all.
	Depth int

	// Filter reports whether the node at path is watched, with the nodes below it. The root always
	// is. Filter depends on nothing but its argument, and must neither block nor call the tree. If
	// it panics, or calls [runtime.Goexit], the tree ends with that error. The default watches
	// every node.
	Filter func(path string) bool
}

// A Cache is a copy of a tree of nodes that follows the servers. Create one with [Tree].
// It is safe for concurrent use, and must be closed.
type Cache struct {
	// Set by Tree, and constant.
	session *session.Session
	path    string
	actor   *actors.Actor[treeInput, TreeState]
	synced  chan struct{} // closed when the whole tree has been read once
	want    sync.Once     // guards the first call of Changes

	// own is the session of the nodes beyond the first: set when the first of them is
	// watched. The actor's goroutine uses it alone until it has ended.
	own *session.Session

	mu   sync.RWMutex // held while a step modifies the tree, or a reader looks at it
	tree *treeMachine
}

// Tree watches the node at path and all nodes below it, whether or not they exist, and keeps a copy
// of them. The Stat.Mzxid of a node never decreases while the node exists, unless the servers come
// back with older data. Different nodes are read one by one, and their states may be of different
// times.
//
// A node that may not be read, or is over [session.Options.MaxReply], is left out until the
// children of its parent change. The first 1,000 nodes are watched through s, and the others
// through a second session, which ends with the cache.
//
// If opts is nil, the default options are used. The error names the argument that is refused, and
// why. A later failure ends the watch, and [Cache.Err] returns it.
func Tree(s *session.Session, path string, opts *TreeOptions) (*Cache, error) {
	o := client.Options(opts)
	err := validate(s, path)
	if o.Depth < 0 {
		err = errors.Join(err, fmt.Errorf("watch: %w: TreeOptions.Depth %d: must not be negative", session.ErrInvalidArgument, o.Depth))
	}
	if err != nil {
		return nil, err
	}
	m, first := newTreeMachine(path, o.Depth, o.Sync, o.Filter)
	c := &Cache{session: s, path: path, synced: make(chan struct{}), tree: m}
	c.actor = actors.Start(lockedTree{m, &c.mu}, actors.Role[lockedTree, treeInput, treeEffect, TreeState]{
		Name:    "tree " + path,
		Begin:   first,
		Perform: c.perform,
		Observe: c.observe,
		Stop:    leave{},    // without a reason: Err returns nil
		Merge:   mergeTrees, // for a slow reader
	})
	return c, nil
}

// A lockedTree is a tree that readers look at between its steps.
type lockedTree struct {
	*treeMachine
	mu *sync.RWMutex
}

// Step implements [actors.Machine]. Readers wait for it, and it for them: neither does
// I/O meanwhile.
func (l lockedTree) Step(in treeInput, out *actors.Effects[treeEffect, TreeState]) lockedTree {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.treeMachine.Step(in, out)
	return l
}

// observe closes synced, once.
func (c *Cache) observe(m lockedTree, _ []TreeState) {
	if m.synced && !client.Closed(c.synced) {
		close(c.synced)
	}
}

// perform starts one effect.
func (c *Cache) perform(e treeEffect, answer func(treeInput)) {
	switch e := e.(type) {
	case followNode: // answered by treeRead, on a goroutine of the session
		node, aspect, number := e.node, e.aspect, e.number
		tell := func(r session.Reading, err error) { answer(treeRead{node, aspect, number, r, err}) }
		// The second session may be refused, which ends the watches that need it.
		s, err := c.sessionOf(node)
		if err != nil {
			tell(session.Reading{}, err)
			return
		}
		node.aspects[aspect].sub = s.Async(0).Follow(node.path, aspect, node.parent == nil, tell) // only the root may be missing: others have a list
	case unfollowNode:
		if sub := e.node.aspects[e.aspect].sub; sub != nil {
			sub.Cancel()
			e.node.aspects[e.aspect].sub = nil
		}
	case catchUpNode:
		s, err := c.sessionOf(e.node)
		if err != nil {
			answer(treeSynced{e.node, e.number, err})
			return
		}
		s.Async(0).Sync(e.node.path, func(err error) { rested(err, func() { answer(treeSynced{e.node, e.number, err}) }) })
	}
}

// sessionOf returns the session through which a node is watched, and opens the second one
// when it is needed first.
func (c *Cache) sessionOf(n *treeNode) (*session.Session, error) {
	if !n.own { // one of the first nodes
		return c.session, nil
	}
	if c.own == nil { // the first node that needs it
		own, err := client.Sibling(c.session)
		if err != nil {
			return nil, err
		}
		c.own = own // Close ends it
	}
	return c.own, nil
}

// Get returns the node at path, as the cache has it.
func (c *Cache) Get(path string) NodeState {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := c.tree.nodes[path]
	if n == nil || n.stat == nil {
		return NodeState{}
	}
	return NodeState{Exists: true, Data: n.data, Stat: n.stat}
}

// Children returns the names of the children that the cache has of the node at path, in
// order.
func (c *Cache) Children(path string) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := c.tree.nodes[path]
	if n == nil {
		return nil
	}
	var names []string
	for child := range c.tree.children(n) {
		if child.stat != nil {
			_, name := znode.Split(child.path)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Nodes returns all nodes that the cache has, in the order of their paths. All are of one
// state of the cache: no change happens between them.
func (c *Cache) Nodes() []TreeNode {
	c.mu.RLock()
	all := make([]TreeNode, 0, c.tree.size)
	for _, n := range c.tree.nodes {
		if n.stat != nil {
			all = append(all, n.public())
		}
	}
	c.mu.RUnlock()
	slices.SortFunc(all, func(a, b TreeNode) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// Len returns the number of nodes that the cache has.
func (c *Cache) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tree.size
}

// Synced returns a channel that is closed when the whole tree has been read once. It is never
// closed if the watch ends before: see [Cache.Done].
func (c *Cache) Synced() <-chan struct{} { return c.synced }

// Changes returns the channel of changes, which is always the same one. It begins with
// the nodes that the cache has at the first call, as [TreeState.Added]. A slow reader
// receives fewer and larger changes. The channel is closed after the last value: receive
// with "ev, ok := <-events", because a select over a closed channel spins.
func (c *Cache) Changes() <-chan TreeState {
	c.want.Do(func() { _ = c.actor.Tell(want{}) }) // a tree that has ended has no more changes
	return c.actor.Events()
}

// Done returns a channel that is closed when the watch has ended. The copy stays as it is.
func (c *Cache) Done() <-chan struct{} { return c.actor.Ended() }

// Err returns why the watch has ended: [session.ErrClosed], or the error that keeps the root from
// being read, such as [session.ErrNoAuth]. It returns nil before the end, and after Close.
func (c *Cache) Err() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.tree.err == nil {
		return nil
	}
	return fmt.Errorf("watch tree %s: %w", c.path, c.tree.err)
}

// Close ends the watch, and the second session if there is one. It may be called any number of
// times.
func (c *Cache) Close() {
	c.actor.Close()
	if c.own != nil {
		c.own.Close()
	}
}

// String describes the cache in one short line.
func (c *Cache) String() string { return "tree " + c.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (c *Cache) Format(f fmt.State, _ rune) { client.Print(f, c) }
