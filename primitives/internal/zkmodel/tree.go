package zkmodel

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// A Node is a node of the tree.
type Node struct {
	Path, Data                 string
	Czxid, Mzxid, Pzxid, Owner int64
	Ctime, Mtime               int64 // the restores before it was created, and written
	Version                    int32
	Made                       int32 // children, ever: the number of the next sequential one
	Container                  bool
	Locked                     bool // its data cannot be changed, for want of a permission
}

// A tree is sorted by path, and never modified.
type tree []Node

func (t tree) index(path string) (int, bool) {
	return slices.BinarySearchFunc(t, path, func(n Node, path string) int { return cmp.Compare(n.Path, path) })
}

func (t tree) children(path string) (names []string) {
	prefix := strings.TrimSuffix(path, "/") + "/"
	for _, n := range t {
		if name, ok := strings.CutPrefix(n.Path, prefix); ok && name != "" && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

func (t tree) stat(i int) *session.Stat {
	n := t[i]
	return &session.Stat{
		Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid, Version: n.Version, EphemeralOwner: n.Owner,
		Ctime: n.Ctime, Mtime: n.Mtime,
		DataLength: int32(len(n.Data)), NumChildren: int32(len(t.children(n.Path))),
	}
}

// A change is the change of a node by a transaction.
type change struct {
	path string
	kind changeKind
}

type changeKind int8

const (
	created changeKind = iota
	deleted
	written
	reshaped // its children have changed
)

// A txn is a transaction under way.
type txn struct {
	tree
	zxid    int64
	era     int64
	owner   int64
	changes []change
}

func (t *txn) create(path string, data []byte, mode session.CreateMode) (string, error) {
	dir, _ := znode.Split(path)
	p, ok := t.index(dir)
	switch {
	case !ok:
		return "", session.ErrNoNode
	case t.tree[p].Owner != 0:
		return "", session.ErrNoChildrenForEphemerals
	}
	if mode.IsSequential() {
		path = fmt.Sprintf("%s%010d", path, t.tree[p].Made)
	}
	i, exists := t.index(path)
	if exists {
		return "", session.ErrNodeExists
	}
	t.tree[p].Made++
	t.tree[p].Pzxid = t.zxid
	n := Node{Path: path, Data: string(data), Czxid: t.zxid, Mzxid: t.zxid, Pzxid: t.zxid, Ctime: t.era, Mtime: t.era, Container: mode == session.Container}
	if mode.IsEphemeral() {
		n.Owner = t.owner
	}
	t.tree = slices.Insert(t.tree, i, n)
	t.changes = append(t.changes, change{path, created}, change{dir, reshaped})
	return path, nil
}

func (t *txn) at(path string, version int32) (int, error) {
	i, ok := t.index(path)
	switch {
	case !ok:
		return 0, session.ErrNoNode
	case version != session.AnyVersion && version != t.tree[i].Version:
		return 0, session.ErrBadVersion
	}
	return i, nil
}

func (t *txn) set(path string, data []byte, version int32) (*session.Stat, error) {
	i, err := t.at(path, version)
	if err != nil {
		return nil, err
	}
	n := &t.tree[i]
	if n.Locked {
		return nil, session.ErrNoAuth
	}
	n.Data, n.Mzxid, n.Mtime = string(data), t.zxid, t.era
	n.Version++
	t.changes = append(t.changes, change{path, written})
	return t.stat(i), nil
}

func (t *txn) delete(path string, version int32) error {
	i, err := t.at(path, version)
	switch {
	case err != nil:
		return err
	case len(t.children(path)) > 0:
		return session.ErrNotEmpty
	}
	t.tree = slices.Delete(t.tree, i, i+1)
	dir, _ := znode.Split(path)
	p, _ := t.index(dir)
	t.tree[p].Pzxid = t.zxid
	t.changes = append(t.changes, change{path, deleted}, change{dir, reshaped})
	return nil
}

// An op is a [session.Op], whose fields reflection can read.
type op struct {
	kind       int64
	path, data string
	mode       session.CreateMode
	version    int32
}

func opOf(o session.Op) op {
	v := reflect.ValueOf(o)
	return op{
		kind: v.FieldByName("kind").Int(), path: o.Path(), data: string(v.FieldByName("data").Bytes()),
		mode: session.CreateMode(v.FieldByName("mode").Int()), version: int32(v.FieldByName("version").Int()),
	}
}

// The kinds of operations, as in package session.
const (
	opCheck = iota + 1
	opCreate
	opSet
	opDelete
)

func opsOf(ops []session.Op) []op {
	all := make([]op, len(ops))
	for i, o := range ops {
		all[i] = opOf(o)
	}
	return all
}

func (t *txn) do(o op) (r session.OpResult) {
	switch o.kind {
	case opCheck:
		_, r.Err = t.at(o.path, o.version)
	case opCreate:
		r.Path, r.Err = t.create(o.path, []byte(o.data), o.mode)
	case opSet:
		r.Stat, r.Err = t.set(o.path, []byte(o.data), o.version)
	case opDelete:
		r.Err = t.delete(o.path, o.version)
	default:
		panic("zkmodel: the zero Op")
	}
	return r
}
