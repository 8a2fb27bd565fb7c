package election

import (
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A follower reports which candidate leads. It watches the leader's node; in layouts without one,
// it watches the list of the candidates and the first of them.
type follower struct {
	store *store
	owned *owned.Set // of the handle

	// The candidate that is watched, in layouts without a leader's node. It is used in the
	// session's order.
	first string
}

// begin follows the leader in a new epoch. tell is called in the session's order.
func (f *follower) begin(requests client.Async, tell func(sighting), fail func(error)) {
	follow := func(_ client.Async, r session.Reading, tell func(sighting), _ func(error)) { tell(f.sight(r)) }
	path, aspect := f.store.leader, session.AspectData
	if f.store.layout != Standard {
		follow, path, aspect = f.followLine, f.store.dir, session.AspectChildren
	}
	begun := false
	f.owned.Keep(followed{}, requests.Follow(path, aspect, true, func(r session.Reading, err error) {
		if err != nil {
			fail(err)
			return
		}
		if !begun { // the watch of the last epoch has ended
			begun, f.first = true, ""
		}
		follow(requests, r, tell, fail)
	}))
}

// Keys of a follower's things in the owned set: the subscription to the leader's node or the list,
// and the watch on the first in line.
type (
	followed struct{}
	foremost struct{}
)

// end ends both.
func (f *follower) end() {
	f.owned.Cancel(followed{})
	f.owned.Cancel(foremost{})
}

// sight returns the sighting by a reading of the leader's node. A node without an owner names no
// leader.
func (f *follower) sight(r session.Reading) sighting {
	s := sighting{at: r.Zxid}
	if r.Stat != nil {
		s.at = r.Stat.Mzxid
		if r.Stat.EphemeralOwner != 0 {
			s.record = nodes.ParseLeader(r.Data)
			s.term = s.TermOf(r.Stat.Czxid)
		}
		f.store.sighted(s.record, r.Stat.Version)
	}
	return s
}

// followLine finds the first in line. Its term is the czxid of its node.
func (f *follower) followLine(requests client.Async, r session.Reading, tell func(sighting), fail func(error)) {
	first := ""
	if all := grammars[f.store.layout].Line(r.Names); len(all) > 0 {
		first = all[0].Name
	}
	if first != "" && first == f.first {
		return
	}
	f.first = first
	if first == "" {
		f.owned.Cancel(foremost{})
		tell(sighting{at: r.Zxid})
		return
	}
	read := func(data []byte, stat *session.Stat, err error) {
		switch {
		case err == nil:
			tell(sighting{at: stat.Czxid, term: stat.Czxid, record: record{Node: first, Data: string(data)}})
		case session.Passing(err), client.Over(err), isNoNode(err): // the children will show more
		default:
			fail(err)
		}
	}
	f.owned.Keep(foremost{}, owned.Func(requests.Watch(znode.Join(f.store.dir, first), read, read)))
}
