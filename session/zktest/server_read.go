package zktest

import (
	"strings"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// read answers what the replica can answer from its own tree.
func (s *Server) read(c *conn, q *wire.Request) (code, *wire.Reply) {
	r := c.replica
	switch q.Op { //nolint:exhaustive // the others are no reads
	case OpExists:
		return r.exists(c, q)
	case OpGetData:
		return r.getData(c, q)
	case OpGetChildren, OpGetChildren2:
		return r.getChildren(c, q)
	case OpGetACL:
		return r.getACL(c, q.Path)
	case OpGetAllChildren:
		if _, err := r.readable(c, q.Path, permRead); err != codeOK {
			return err, nil
		}
		return codeOK, &wire.Reply{Count: r.tree.countBelow(q.Path)}
	case OpGetEphemerals:
		reply := &wire.Reply{}
		for _, p := range r.tree.ephemeralsOf(c.session.id) {
			if strings.HasPrefix(p, q.Path) || strings.TrimSpace(q.Path) == "" {
				reply.Names = append(reply.Names, p)
			}
		}
		return codeOK, reply
	case OpMultiRead:
		return r.multiRead(c, q.Ops)
	case OpWhoAmI:
		reply := &wire.Reply{}
		for _, id := range c.who {
			reply.ACL = append(reply.ACL, wire.ACL{Scheme: id.scheme, ID: userOf(id)})
		}
		return codeOK, reply
	case OpSetWatches, OpSetWatches2:
		r.setWatches(c, q)
		return codeOK, nil
	case OpAddWatch:
		if q.Kind != 0 && q.Kind != 1 {
			return codeMarshalling, nil
		}
		mode := watchPersistent + watchMode(q.Kind)
		r.data.add(q.Path, c, mode)
		r.child.add(q.Path, c, mode)
		return codeOK, &wire.Reply{}
	case OpCheckWatches, OpRemoveWatches:
		if q.Kind < 1 || q.Kind > 3 {
			return codeMarshalling, nil
		}
		return r.endWatches(c, q.Path, q.Kind, q.Op == OpRemoveWatches), nil
	}
	return codeUnimplemented, nil
}

// readable returns the node at path if the client may read it.
func (r *replica) readable(c *conn, path string, perms int32) (*node, code) {
	n := r.tree.node(path)
	if n == nil {
		return nil, codeNoNode
	}
	if !allowed(n.acl, perms, c.who) {
		return nil, codeNoAuth
	}
	return n, codeOK
}

func (r *replica) exists(c *conn, q *wire.Request) (code, *wire.Reply) {
	if strings.IndexByte(q.Path, 0) >= 0 {
		return codeBadArguments, nil
	}
	n := r.tree.node(q.Path)
	if n != nil && r.server.differs.existsNeedsRead && !allowed(n.acl, permRead, c.who) {
		return codeNoAuth, nil
	}
	if q.Watch {
		r.data.add(q.Path, c, watchOnce)
	}
	if n == nil {
		return codeNoNode, nil
	}
	return codeOK, &wire.Reply{Stat: r.tree.status(n)}
}

func (r *replica) getData(c *conn, q *wire.Request) (code, *wire.Reply) {
	n, err := r.readable(c, q.Path, permRead)
	if err != codeOK {
		return err, nil
	}
	if q.Watch {
		r.data.add(q.Path, c, watchOnce)
	}
	return codeOK, &wire.Reply{Data: n.data, Stat: r.tree.status(n)}
}

func (r *replica) getChildren(c *conn, q *wire.Request) (code, *wire.Reply) {
	n, err := r.readable(c, q.Path, permRead)
	if err != codeOK {
		return err, nil
	}
	if q.Watch {
		r.child.add(q.Path, c, watchOnce)
	}
	return codeOK, &wire.Reply{Names: n.children(), Stat: r.tree.status(n)}
}

func (r *replica) getACL(c *conn, path string) (code, *wire.Reply) {
	n, err := r.readable(c, path, permRead|permAdmin)
	if err != codeOK {
		return err, nil
	}
	list := n.acl
	if !allowed(n.acl, permAdmin, c.who) {
		list = masked(list)
	}
	return codeOK, &wire.Reply{ACL: wireACL(list), Stat: r.tree.status(n)}
}

func (r *replica) multiRead(c *conn, ops []wire.Request) (code, *wire.Reply) {
	if reads, writes := kindsOf(ops); writes {
		if reads {
			return codeMarshalling, nil
		}
		return codeMarshalling, &wire.Reply{} // see reply
	}
	results := make([]wire.Result, len(ops))
	for i := range ops {
		o := ops[i]
		o.Watch = false // no watch is set
		read := r.getData
		if o.Op == OpGetChildren {
			read = r.getChildren
		}
		err, reply := read(c, &o)
		if err != codeOK {
			results[i] = wire.Result{Op: wire.OpError, Code: err}
			continue
		}
		results[i] = wire.Result{Op: o.Op, Data: reply.Data, Names: reply.Names, Stat: reply.Stat}
	}
	return codeOK, &wire.Reply{Results: results}
}

func (r *replica) setWatches(c *conn, q *wire.Request) {
	since := q.Zxid
	data, exist, child, stay, recursive := q.Watches[0], q.Watches[1], q.Watches[2], q.Watches[3], q.Watches[4]
	again := func(paths []string, t *watchTable, changed eventType, last func(*node) int64) {
		for _, path := range paths {
			switch n := r.tree.node(path); {
			case n == nil:
				c.notify(eventDeleted, path, noZxid)
			case last(n) > since:
				c.notify(changed, path, noZxid)
			default:
				t.add(path, c, watchOnce)
			}
		}
	}
	again(data, &r.data, eventDataChanged, func(n *node) int64 { return n.Mzxid })
	for _, path := range exist {
		if r.tree.node(path) != nil {
			c.notify(eventCreated, path, noZxid)
		} else {
			r.data.add(path, c, watchOnce)
		}
	}
	again(child, &r.child, eventChildrenChanged, func(n *node) int64 { return n.Pzxid })
	for _, path := range stay {
		r.data.add(path, c, watchPersistent)
		r.child.add(path, c, watchPersistent)
	}
	for _, path := range recursive {
		r.data.add(path, c, watchRecursive)
		r.child.add(path, c, watchRecursive)
	}
}

// endWatches looks for watches of a kind (1 children, 2 data, 3 any), and
// removes them or not.
func (r *replica) endWatches(c *conn, path string, kind int32, remove bool) code {
	found := false
	for bit, table := range map[int32]*watchTable{1: &r.child, 2: &r.data} {
		switch {
		case kind&bit == 0:
		case remove:
			found = table.remove(path, c) || found
		default:
			found = table.contains(path) || found
		}
	}
	if !found {
		return codeNoWatcher
	}
	return codeOK
}
