package zktest

import (
	"strings"
)

type body = func([]byte) []byte

// read answers what the replica can answer from its own tree. A result is of no
// account if the request could not be decoded.
func (s *Server) read(c *conn, op Op, d *decoder) (code, body) {
	r := c.replica
	switch op { //nolint:exhaustive // the others are no reads
	case OpExists:
		return r.exists(c, d)
	case OpGetData:
		path, watch := d.path(), d.bool()
		return r.getData(c, path, watch && !d.failed)
	case OpGetChildren, OpGetChildren2:
		path, watch := d.path(), d.bool()
		return r.getChildren(c, path, watch && !d.failed, op == OpGetChildren2)
	case OpGetACL:
		return r.getACL(c, d.path())
	case OpGetAllChildren:
		path := d.path()
		if _, err := r.readable(c, path, permRead); err != codeOK {
			return err, nil
		}
		n := r.tree.countBelow(path)
		return codeOK, func(b []byte) []byte { return appendInt32(b, n) }
	case OpGetEphemerals:
		prefix, _ := d.string()
		var paths []string
		for _, p := range r.tree.ephemeralsOf(c.session.id) {
			if strings.HasPrefix(p, prefix) || strings.TrimSpace(prefix) == "" {
				paths = append(paths, p)
			}
		}
		c.weigh(paths)
		return codeOK, func(b []byte) []byte { return appendStrings(b, paths) }
	case OpMultiRead:
		return r.multiRead(c, d)
	case OpWhoAmI:
		who := c.who
		return codeOK, func(b []byte) []byte {
			b = appendInt32(b, int32(len(who)))
			for _, id := range who {
				b = appendString(appendString(b, id.scheme), userOf(id))
			}
			return b
		}
	case OpSetWatches, OpSetWatches2:
		return r.setWatches(c, d, op == OpSetWatches2), nil
	case OpAddWatch:
		path, _ := d.string()
		mode := d.int32()
		if d.failed || mode != 0 && mode != 1 {
			return codeMarshalling, nil
		}
		r.data.add(path, c, watchPersistent+watchMode(mode))
		r.child.add(path, c, watchPersistent+watchMode(mode))
		return codeOK, func(b []byte) []byte { return appendInt32(b, 0) }
	case OpCheckWatches, OpRemoveWatches:
		path, kind := d.path(), d.int32()
		if d.failed || kind < 1 || kind > 3 {
			return codeMarshalling, nil
		}
		return r.endWatches(c, path, kind, op == OpRemoveWatches), nil
	}
	return codeUnimplemented, nil
}

// weigh adds names to the size of the reply.
func (c *conn) weigh(names []string) {
	for _, name := range names {
		c.weight += 4 + len(name)
	}
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

func (r *replica) exists(c *conn, d *decoder) (code, body) {
	path, watch := d.path(), d.bool()
	if d.failed {
		return codeMarshalling, nil
	}
	if strings.IndexByte(path, 0) >= 0 {
		return codeBadArguments, nil
	}
	if watch {
		r.data.add(path, c, watchOnce)
	}
	n := r.tree.node(path)
	if n == nil {
		return codeNoNode, nil
	}
	st := n.status()
	return codeOK, func(b []byte) []byte { return appendStat(b, st) }
}

func (r *replica) getData(c *conn, path string, watch bool) (code, body) {
	n, err := r.readable(c, path, permRead)
	if err != codeOK {
		return err, nil
	}
	if watch {
		r.data.add(path, c, watchOnce)
	}
	data, st := n.data, n.status()
	c.weight += len(data)
	return codeOK, func(b []byte) []byte { return appendStat(appendBuffer(b, data), st) }
}

func (r *replica) getChildren(c *conn, path string, watch, withStat bool) (code, body) {
	n, err := r.readable(c, path, permRead)
	if err != codeOK {
		return err, nil
	}
	if watch {
		r.child.add(path, c, watchOnce)
	}
	names, st := n.children(), n.status()
	c.weigh(names)
	return codeOK, func(b []byte) []byte {
		b = appendStrings(b, names)
		if withStat {
			b = appendStat(b, st)
		}
		return b
	}
}

func (r *replica) getACL(c *conn, path string) (code, body) {
	n, err := r.readable(c, path, permRead|permAdmin)
	if err != codeOK {
		return err, nil
	}
	list := n.acl
	if !allowed(n.acl, permAdmin, c.who) {
		list = masked(list)
	}
	st := n.status()
	return codeOK, func(b []byte) []byte { return appendStat(appendACLs(b, list), st) }
}

func (r *replica) multiRead(c *conn, d *decoder) (code, body) {
	all, kinds := parseMulti(d)
	switch {
	case kinds.mixed || d.failed:
		return codeMarshalling, nil
	case kinds.writes:
		// The server notices too late, when it has begun to answer.
		return codeMarshalling, func(b []byte) []byte { return appendMultiHeader(b, opError, true, -1) }
	}
	var results []body
	for _, o := range all {
		var err code
		var result body
		if o.op == OpGetData {
			err, result = r.getData(c, o.path, false)
		} else {
			err, result = r.getChildren(c, o.path, false, false)
		}
		results = append(results, func(b []byte) []byte {
			if err != codeOK {
				return appendMultiError(b, err)
			}
			return result(appendMultiHeader(b, o.op, false, 0))
		})
	}
	return codeOK, func(b []byte) []byte {
		for _, result := range results {
			b = result(b)
		}
		return appendMultiHeader(b, opError, true, -1)
	}
}

func (r *replica) setWatches(c *conn, d *decoder, persistent bool) code {
	since := d.int64()
	data, exist, child := d.paths(), d.paths(), d.paths()
	var stay, recursive []string
	if persistent {
		stay, recursive = d.paths(), d.paths()
	}
	if d.failed {
		return codeMarshalling
	}
	for _, path := range data {
		switch n := r.tree.node(path); {
		case n == nil:
			c.notify(eventDeleted, path)
		case n.mzxid > since:
			c.notify(eventDataChanged, path)
		default:
			r.data.add(path, c, watchOnce)
		}
	}
	for _, path := range exist {
		if r.tree.node(path) != nil {
			c.notify(eventCreated, path)
		} else {
			r.data.add(path, c, watchOnce)
		}
	}
	for _, path := range child {
		switch n := r.tree.node(path); {
		case n == nil:
			c.notify(eventDeleted, path)
		case n.pzxid > since:
			c.notify(eventChildrenChanged, path)
		default:
			r.child.add(path, c, watchOnce)
		}
	}
	for _, path := range stay {
		r.data.add(path, c, watchPersistent)
		r.child.add(path, c, watchPersistent)
	}
	for _, path := range recursive {
		r.data.add(path, c, watchRecursive)
		r.child.add(path, c, watchRecursive)
	}
	return codeOK
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
