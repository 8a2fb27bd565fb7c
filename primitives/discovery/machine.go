package discovery

import (
	"slices"
	"strings"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/watch"
)

// This file has the machine of a watcher, as a pure function: it follows the nodes of a service,
// and emits the instances whenever they differ.
//
//	unread ── all nodes were read once: instances ─► follows ── a difference: instances ─► follows

// A view is a service as its watcher has it.
type view struct {
	dir    string // the path of the service; constant
	format Format // constant
	synced bool   // set when every node was read once; before that nothing is emitted
	nodes  []node // in the order of their names; replaced, never written to
	ended  bool   // set by end; then every input is ignored
	err    error  // set with ended: why
}

// A node is one that was read.
type node struct {
	name     string
	data     string
	instance Instance
	bad      error // why it is no instance; nil if it is one
}

// An input is an event that a view reacts to.
//
//sumtype:decl
type input interface{ input() }

type (
	viewed struct{ watch.TreeState } // the tree below the service has changed
	end    struct{ err error }       // the service cannot be watched any more; nil if a caller closes the watcher
)

func (viewed) input() {}
func (end) input()    {}

// A report is an effect: a node that is no instance was read.
type report struct {
	node string
	err  error
}

// Ended implements [actors.Machine].
func (v view) Ended() bool { return v.ended }

// Step implements [actors.Machine].
func (v view) Step(in input, out *actors.Effects[report, []Instance]) view {
	if v.ended {
		return v
	}
	switch in := in.(type) {
	case viewed:
		return v.apply(in.TreeState, out)
	case end:
		v.ended, v.err = true, in.err
	}
	return v
}

// apply enters the nodes that differ. The order of the changes does not matter: each node differs
// at most once.
func (v view) apply(state watch.TreeState, out *actors.Effects[report, []Instance]) view {
	now := make(map[string]*node)
	for _, n := range state.Removed {
		now[v.name(n.Path)] = nil
	}
	for _, n := range slices.Concat(state.Added, state.Changed) {
		name := v.name(n.Path)
		if name == "" {
			continue
		}
		read := &node{name: name, data: string(n.Data)}
		read.instance, read.bad = v.format.Decode(v.service(), name, n.Data)
		now[name] = read
	}
	differs := false
	all := make([]node, 0, len(v.nodes)+len(now))
	for _, was := range v.nodes {
		is, changed := now[was.name]
		if !changed || is != nil && is.data == was.data {
			all = append(all, was)
			delete(now, was.name)
			continue
		}
		differs = differs || was.bad == nil
	}
	for _, is := range now {
		if is == nil {
			continue
		}
		all = append(all, *is)
		if is.bad != nil {
			out.Do = append(out.Do, report{is.name, is.bad})
		}
		differs = differs || is.bad == nil
	}
	slices.SortFunc(out.Do, func(a, b report) int { return strings.Compare(a.node, b.node) })
	slices.SortFunc(all, func(a, b node) int { return strings.Compare(a.name, b.name) }) // nearly sorted already
	v.nodes = all
	if first := state.Synced && !v.synced; first || v.synced && differs {
		v.synced = true
		out.Emit = append(out.Emit, v.instances())
	}
	return v
}

// instances returns the instances in the order of their IDs.
func (v view) instances() []Instance {
	all := make([]Instance, 0, len(v.nodes))
	for _, n := range v.nodes {
		if n.bad == nil {
			all = append(all, n.instance)
		}
	}
	slices.SortStableFunc(all, func(a, b Instance) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// name returns the name of a node, and "" for that of the service itself.
func (v view) name(path string) string {
	if path == v.dir {
		return ""
	}
	_, name := znode.Split(path)
	return name
}

func (v view) service() string {
	_, name := znode.Split(v.dir)
	return name
}
