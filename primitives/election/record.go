package election

import (
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// This file reads the leader's node: see [nodes.Leader].

// A record is the content of the leader's node. It is zero if that cannot be parsed.
type record = nodes.Leader

// A sighting is a reading of the leader at one moment.
type sighting struct {
	at   int64 // the zxid since which it is true
	term int64 // 0 if no candidate leads
	record
}

// A view is the newest knowledge of the leader. It never goes back within a session.
type view struct {
	dir     string // the directory of the candidates
	known   bool   // set by the first sighting, which is news in any case
	newest  int64  // the term of the newest leader that was seen; 0 if none
	least   int64  // likewise in this session; older sightings are dropped
	deposed tenure // set at the end of our term; its leader is not reported
	sighting
}

// see enters a sighting, and reports whether it is news.
func (v view) see(s sighting) (view, bool) {
	if v.known && s.at != 0 && s.at < v.at || s.term != 0 && s.term < v.least {
		return v, false // older than the last one
	}
	before := v
	v.known, v.at = true, max(v.at, s.at)
	if s.term != 0 {
		v.newest, v.least = s.term, s.term
	}
	v.term, v.record = s.term, s.record
	return v, !before.known || v.leading() != before.leading()
}

// anew returns the view for the next session. Sightings of different sessions are not ordered,
// because the servers may have come back with older data.
func (v view) anew() view {
	v.at, v.least = 0, 0
	return v
}

// depose notes the end of our own term.
func (v view) depose(t tenure) (view, bool) {
	before := v
	v.deposed = t
	return v, v.leading() != before.leading()
}

// leading returns the leader to report. A leader that hands over no longer leads, and neither do we
// after Deposed.
func (v view) leading() sighting {
	if v.term == v.deposed.term && v.Node == v.deposed.node || v.Node == "" || v.Successor != "" {
		return sighting{}
	}
	return sighting{term: v.term, record: v.record}
}

func (v view) event() LeaderChanged {
	s := v.leading()
	if s.term == 0 {
		return LeaderChanged{Term: v.newest}
	}
	return LeaderChanged{
		Leader: Leader{Node: znode.Join(v.dir, s.Node), Data: []byte(s.Data)}, Term: s.term, Acknowledged: s.Acknowledged,
	}
}
