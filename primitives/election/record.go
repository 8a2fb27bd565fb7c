package election

import (
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// This file reads the leader's node: see [nodes.Leader].

// A record is the content of the leader's node. It is zero where that cannot be read.
type record = nodes.Leader

// A sighting is a reading of the leader at one moment.
type sighting struct {
	at   int64 // the zxid from which it has been so
	term int64 // 0 if no candidate leads
	record
}

// A view is the newest knowledge of the leader. It never goes back.
type view struct {
	dir     string // of the candidates
	known   bool   // set by the first sighting, never cleared; while false, every sighting is news
	newest  int64  // the highest term of a sighting; never lowered. A sighting of a lower term comes from a server that lags
	deposed int64  // set when a term of our own ends, never cleared. A leader of that term, or a lower one, is not reported
	sighting
}

// see enters a sighting, and reports whether it is news.
func (v view) see(s sighting) (view, bool) {
	if v.known && s.at != 0 && s.at < v.at || s.term != 0 && s.term < v.newest {
		return v, false // of a server that lags behind the last one
	}
	before := v
	v.known, v.newest, v.at = true, max(v.newest, s.term), max(v.at, s.at)
	v.term, v.record = s.term, s.record
	return v, !before.known || v.leading() != before.leading()
}

// depose takes note of the end of a term of our own.
func (v view) depose(term int64) (view, bool) {
	before := v
	v.deposed = term
	return v, v.leading() != before.leading()
}

// leading returns the leader to be reported: one that hands over leads no more, and neither
// do we after we were told so.
func (v view) leading() sighting {
	if v.term <= v.deposed || v.Node == "" || v.Successor != "" {
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
