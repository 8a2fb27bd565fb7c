package election

import (
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A follower reports which candidate leads. It watches the leader's node, or where there
// is none, the list of the candidates and the first of them.
type follower struct {
	place *place
	owned *owned.Set // of the handle
	first string     // the candidate that is watched, where there is no leader's node; of the session's order
}

// begin follows in another epoch: the last one has ended. tell is called in the session's
// order.
func (f *follower) begin(requests client.Async, tell func(sighting), fail func(error)) {
	follow := func(_ client.Async, r session.Reading, tell func(sighting), _ func(error)) { tell(f.sight(r)) }
	path, aspect := f.place.leader, session.AspectData
	if f.place.layout != Standard {
		follow, path, aspect = f.followLine, f.place.dir, session.AspectChildren
	}
	begun := false
	f.owned.Keep(followed{}, requests.Follow(path, aspect, true, func(r session.Reading, err error) {
		if err != nil {
			fail(err)
			return
		}
		if !begun { // the first of the last epoch is not watched any more
			begun, f.first = true, ""
		}
		follow(requests, r, tell, fail)
	}))
}

// The keys of the things that a follower owns: what is followed, and the watch on the
// first in line.
type (
	followed struct{}
	foremost struct{}
)

// end ends what is followed.
func (f *follower) end() {
	f.owned.Cancel(followed{})
	f.owned.Cancel(foremost{})
}

// sight returns what the leader's node says. One that no session owns is not a leader's.
func (f *follower) sight(r session.Reading) sighting {
	s := sighting{at: r.Zxid}
	if r.Stat != nil {
		s.at = r.Stat.Mzxid
		if r.Stat.EphemeralOwner != 0 {
			s.term, s.record = r.Stat.Czxid, nodes.ParseLeader(r.Data)
		}
		f.place.sighted(s.record, r.Stat.Version)
	}
	return s
}

// followLine finds out who is first. Its term begins with its node.
func (f *follower) followLine(requests client.Async, r session.Reading, tell func(sighting), fail func(error)) {
	first := ""
	if names := f.place.layout.first().Line(r.Names); len(names) > 0 {
		first = names[0]
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
		case session.Passing(err), client.Over(err), isNoNode(err): // the children tell more
		default:
			fail(err)
		}
	}
	f.owned.Keep(foremost{}, owned.Func(requests.Watch(znode.Join(f.place.dir, first), read, read)))
}
