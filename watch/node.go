package watch

import (
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// A NodeState is the state of a path. Data and Stat are shared by all readers of the path, and must
// not be modified.
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

// Node watches the data of the node at path, whether or not the node exists. In one session
// Stat.Mzxid never decreases. A later session may read older data, if the servers were restored
// from a backup. A node that was deleted and created again between two states has another
// Stat.Czxid.
//
// If opts is nil, the default options are used. The error names the argument that is refused, and
// why. A later failure ends the watch, and [Watch.Err] returns it.
func Node(s *session.Session, path string, opts *Options) (*Watch[NodeState], error) {
	return begin(s, path, opts, kind[NodeState]{
		name: "node", aspect: session.AspectData, next: nextNode, merge: newest[NodeState],
	})
}

// nextNode compares writes, not data: a node that was created again is another node.
func nextNode(last NodeState, told bool, r session.Reading) (NodeState, bool) {
	state := nodeState(r)
	return state, !told || !client.SameWrite(last.Stat, state.Stat)
}

func nodeState(r session.Reading) NodeState {
	return NodeState{Exists: r.Stat != nil, Data: r.Data, Stat: r.Stat}
}

// newest merges states: only the newest matters.
func newest[S any](_, next S) (S, bool) { return next, true }
