package watch

import (
	"fmt"

	"github.com/zkactors/zkactors/session"
)

// A NodeState is the state of a path. Data and Stat are shared by all who watch it, and
// must not be modified.
type NodeState struct {
	Exists bool
	Data   []byte
	Stat   *session.Stat // nil if there is no node
}

// String returns the state in one line.
func (s NodeState) String() string {
	if !s.Exists {
		return "no node"
	}
	return fmt.Sprintf("%q version=%d mzxid=%d", s.Data, s.Stat.Version, s.Stat.Mzxid)
}

// Node watches the data of the node at path, whether or not there is one. Its states
// are never older than one that it has told: Stat.Mzxid never decreases. A node that
// was deleted and made again between two states shows in Stat.Czxid.
//
// If opts is nil, the default options are used. The error names what is wrong with the
// arguments; what fails later ends the watch, and [Watch.Err] says why.
func Node(s *session.Session, path string, opts *Options) (*Watch[NodeState], error) {
	return begin(s, path, opts, kind[NodeState]{
		name: "node", aspect: session.AspectData, next: nextNode, merge: newest[NodeState],
	})
}

// nextNode compares transactions, not data: what was made again is another node.
func nextNode(last NodeState, told bool, r session.Reading) (NodeState, bool) {
	state := nodeState(r)
	if !told || last.Exists != state.Exists {
		return state, true
	}
	return state, state.Exists && last.Stat.Mzxid != state.Stat.Mzxid
}

func nodeState(r session.Reading) NodeState {
	return NodeState{Exists: r.Stat != nil, Data: r.Data, Stat: r.Stat}
}

// newest merges states of which only the newest matters.
func newest[S any](_, next S) (S, bool) { return next, true }
