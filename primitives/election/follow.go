package election

import (
	"sync"

	"github.com/zkactors/zkactors/primitives/internal/client"
	"github.com/zkactors/zkactors/session"
)

// A follower has somebody told who leads. It watches the leader's node, or where there is
// none, who stands in line and the first of them.
type follower struct {
	place *place

	mu      sync.Mutex
	over    bool
	sub     client.Subscription
	first   string // who is watched, where there is no leader's node
	unwatch func()
}

// begin follows in another epoch: the last one has ended. tell is called in the session's
// order.
func (f *follower) begin(requests client.Async, tell func(sighting), fail func(error)) {
	f.end()
	follow := f.followLeader
	path, aspect := f.place.leader, session.AspectData
	if f.place.layout != Standard {
		follow, path, aspect = f.followLine, f.place.dir, session.AspectChildren
	}
	sub := requests.Follow(path, aspect, true, func(r session.Reading, err error) {
		if err != nil {
			fail(err)
			return
		}
		follow(requests, r, tell, fail)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sub = sub; f.over {
		sub.Cancel()
	}
}

// end cancels what is followed.
func (f *follower) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sub != nil {
		f.sub.Cancel()
	}
	if f.unwatch != nil {
		f.unwatch()
	}
	f.sub, f.unwatch, f.first = nil, nil, ""
}

// close ends it for good.
func (f *follower) close() {
	f.mu.Lock()
	f.over = true
	f.mu.Unlock()
	f.end()
}

// followLeader reads the leader's node. One that no session owns is not a leader's.
func (f *follower) followLeader(_ client.Async, r session.Reading, tell func(sighting), _ func(error)) {
	s := sighting{at: r.Zxid}
	if r.Stat != nil {
		s.at = r.Stat.Mzxid
		if r.Stat.EphemeralOwner != 0 {
			s.term, s.record = r.Stat.Czxid, parseRecord(r.Data)
		}
		f.place.sighted(s.record, r.Stat.Version)
	}
	tell(s)
}

// followLine finds out who is first. Its term begins with its node.
func (f *follower) followLine(requests client.Async, r session.Reading, tell func(sighting), fail func(error)) {
	first := ""
	if names := f.place.layout.first().Line(r.Names); len(names) > 0 {
		first = names[0]
	}
	f.mu.Lock()
	same := f.over || first != "" && first == f.first
	if !same && f.unwatch != nil {
		f.unwatch()
		f.unwatch = nil
	}
	f.first = first
	f.mu.Unlock()
	if same {
		return
	}
	if first == "" {
		tell(sighting{at: r.Zxid})
		return
	}
	read := func(data []byte, stat *session.Stat, err error) {
		switch {
		case err == nil:
			tell(sighting{at: stat.Czxid, term: stat.Czxid, record: record{node: first, data: string(data)}})
		case session.Passing(err), session.Over(err), isNoNode(err): // the children tell more
		default:
			fail(err)
		}
	}
	unwatch := requests.Watch(session.Join(f.place.dir, first), read, read)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.first != first {
		unwatch()
		return
	}
	f.unwatch = unwatch
}
