package txnlog

import (
	"maps"
	"slices"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
)

// A Tree is what the transactions so far have left. The zero Tree is empty.
type Tree struct {
	nodes map[string]history.Change // by path, as if each were created
}

// Commit applies a transaction, and returns it for a history whose clock began at the start.
func (t *Tree) Commit(tx Transaction, start time.Time) history.Commit {
	if t.nodes == nil {
		t.nodes = make(map[string]history.Change)
	}
	c := history.Commit{Zxid: tx.Zxid, At: history.Moment{At: tx.Proposed.Sub(start)}, Time: tx.Proposed.UnixMilli()}
	for _, ch := range tx.changes {
		c.Changes = append(c.Changes, t.apply(tx.Session, ch))
	}
	if !tx.Closes {
		return c
	}
	c.Closes = tx.Session
	for _, node := range t.Nodes() {
		if node.Owner == tx.Session {
			c.Changes = append(c.Changes, t.apply(tx.Session, change{kind: deleted, path: node.Path}))
		}
	}
	return c
}

func (t *Tree) apply(session int64, ch change) history.Change {
	former := t.nodes[ch.path]
	switch ch.kind {
	case created:
		node := history.Change{Kind: history.Created, Path: ch.path, Data: history.Kept(ch.data)}
		if ch.ephemeral {
			node.Owner = session
		}
		t.nodes[ch.path] = node
		return node
	case set:
		former.Kind, former.Path, former.Data = history.Created, ch.path, history.Kept(ch.data)
		t.nodes[ch.path] = former
		return history.Change{Kind: history.Set, Path: ch.path, Data: former.Data}
	case deleted:
	}
	delete(t.nodes, ch.path)
	return history.Change{Kind: history.Deleted, Path: ch.path}
}

// Nodes returns all nodes, as if they were created now.
func (t *Tree) Nodes() []history.Change {
	var all []history.Change
	for _, path := range slices.Sorted(maps.Keys(t.nodes)) {
		all = append(all, t.nodes[path])
	}
	return all
}
