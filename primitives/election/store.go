package election

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/claim"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// A store has the nodes of an election, as one candidate uses them, and the candidate's knowledge
// of its claim. It is the condition and the claim of the candidate's recipe.
type store struct {
	layout Layout
	path   string
	dir    string // the directory of the candidates
	data   string // the data of the candidate's node

	// In the standard layout.
	leader     string // the leader's node
	successors string // the directory of the guards of successors

	claims claim.Keeper[bid]

	// written is called after a write to the candidate's node; nil if that means nothing to the
	// candidate.
	written func(epoch int)

	mu       sync.Mutex
	handover handover // by the newest sighting
	inherits tenure   // the newest inherited term
	promoted string   // the candidate that claims what was handed over to it; cleared if it comes too late
	directed bool     // there is a directory of successors, by the newest read
}

// A handover is the record of a leader that hands over, and its version. It is zero if no leader
// does.
type handover struct {
	record
	version int32
}

func newStore(layout Layout, path, data string) *store {
	s := &store{layout: layout, path: path, dir: path, data: data}
	if layout == Standard {
		s.dir, s.leader, s.successors = znode.Join(path, candidatesNode), znode.Join(path, leaderNode), znode.Join(path, successorsNode)
	}
	return s
}

// recipe returns the recipe of the candidate's place in line.
func (s *store) recipe() *contender.Recipe {
	r := &contender.Recipe{Name: "election", Path: s.path, Dir: s.dir, Data: []byte(s.data), Rule: s.layout.rule(s.successors)}
	if s.layout == Standard {
		r.Parent, r.Condition, r.Claim = parent{contender.Published{Dir: s.dir}, s}, s, s
	} else {
		r.Parent = guests{contender.Published{Dir: s.dir, Persistent: s.layout == Kazoo}, r.Rule}
	}
	return r
}

// A parent is the directory of the candidates. It refuses contenders of another layout above it.
type parent struct {
	contender.Published
	store *store
}

// Inspect implements [contender.Parent].
func (p parent) Inspect(requests client.Async, isNew bool, answer func(parent *session.Stat, err error)) {
	var taken error
	var above *session.Stat
	var dir *session.Stat
	var unread error
	open := 2
	done := func() {
		if open--; open > 0 {
			return
		}
		if err := cmp.Or(unread, taken); err != nil || above == nil {
			answer(dir, err)
			return
		}
		contender.Vacant(requests, p.store.path, nodes.OfElection, above, func(_ *session.Stat, err error) { answer(dir, err) })
	}
	p.store.around(requests, func(names []string, stat *session.Stat, err error) {
		if above, taken = stat, err; err == nil && isNew { // a candidate in line was first
			taken = line.Foreign(nodes.Foreign(nodes.OfElection, names))
		}
		done()
	})
	requests.Exists(p.Dir, func(stat *session.Stat, err error) {
		dir, unread = stat, err
		done()
	})
}

// guests are the parent in the layouts of other libraries. It refuses contenders of another layout
// before the candidate creates its node.
type guests struct {
	contender.Published
	rule line.Rule
}

// Inspect implements [contender.Parent].
func (g guests) Inspect(requests client.Async, isNew bool, answer func(parent *session.Stat, err error)) {
	requests.Children(g.Dir, func(names []string, stat *session.Stat, err error) {
		if err == nil {
			err = g.rule.Locate(line.Snapshot{Names: names, New: isNew}, "", znode.NewGUID()).Err
		}
		if err != nil {
			answer(nil, client.Without(err, session.ErrNoNode))
			return
		}
		contender.Refuse(requests, g.Dir, names, func(err error) {
			if err != nil {
				answer(nil, err)
				return
			}
			contender.Vacant(requests, g.Dir, nodes.OfElection, stat, answer)
		})
	})
}

// Read implements [contender.Condition]: it reads the names of the successors.
func (s *store) Read(requests client.Async, answer func(data string, err error)) {
	s.around(requests, func(names []string, _ *session.Stat, err error) {
		if !slices.Contains(names, successorsNode) || err != nil {
			answer("", err)
			return
		}
		requests.Children(s.successors, func(names []string, _ *session.Stat, err error) {
			slices.Sort(names) // so that equal snapshots lead to equal positions
			answer(strings.Join(names, "\n"), client.Without(err, session.ErrNoNode))
		})
	})
}

// around lists the children of the path, among which may be a directory of successors. It fails if
// contenders of another layout stand above the candidates.
func (s *store) around(requests client.Async, answer func(names []string, path *session.Stat, err error)) {
	requests.Children(s.path, func(names []string, stat *session.Stat, err error) {
		s.mu.Lock()
		s.directed = slices.Contains(names, successorsNode)
		s.mu.Unlock()
		if err == nil {
			err = line.Vacant(nodes.OfElection, names, func(string) bool { return false })
		}
		if err != nil {
			answer(names, stat, client.Without(err, session.ErrNoNode))
			return
		}
		contender.Refuse(requests, s.path, names, func(err error) { answer(names, stat, err) })
	})
}

// guard returns the path of a candidate's guard: see claim.go.
func (s *store) guard(node string) string {
	if b := s.claims.Made(); b.record.Node == node {
		return b.guard()
	}
	return znode.Join(s.dir, node)
}

// Claimed implements [contender.Claim]. For a successor it is the guard, because the leader's node
// is followed anyway.
func (s *store) Claimed(node string) string {
	if b := s.claims.Made(); b.record.Node == node && b.record.Succeeds {
		return b.guard()
	}
	return s.leader
}

// sighted notes which leader hands over to which candidate.
func (s *store) sighted(r record, version int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handover = handover{}
	if r.Successor != "" {
		s.handover = handover{r, version}
	}
}

// bid returns the claim of a candidate, by the newest handover.
func (s *store) bid(node string) bid {
	b := bid{dir: s.dir, leader: s.leader, successors: s.successors, record: record{Node: node, Data: s.data}}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.directed = s.directed
	if node != "" && s.inherits.node == node {
		b.record.Term = s.inherits.term
	}
	if h := s.handover; node != "" && h.Successor == node {
		b, s.promoted = b.succeeding(h.record, h.version), node
	}
	b.promoted = node != "" && node == s.promoted
	return b
}

// Inherit implements [contender.Inheriting].
func (s *store) Inherit(node string, term int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inherits = tenure{node: node, term: term}
}

// Take implements [contender.Claim].
func (s *store) Take(requests client.Async, node string, again bool, answer func(zxid int64, taken bool, err error)) {
	s.claims.Take(requests, s.bid(node), node, again, func(zxid int64, taken bool, err error) {
		switch {
		case errors.Is(err, errUndirected):
			client.MakeContainer(requests, s.successors, "", func(err error) {
				if err = client.Without(err, session.ErrNodeExists); err != nil {
					answer(0, false, err)
					return
				}
				s.Take(requests, node, again, answer)
			})
			return
		case taken: // the leadership is no longer handed over to us
			s.sighted(record{}, 0)
			s.mu.Lock()
			s.promoted = ""
			s.mu.Unlock()
		}
		answer(zxid, taken, err)
	})
}

// Withdraw implements [contender.Claim].
func (s *store) Withdraw(requests client.Async, node, prefix string, answer func(error)) {
	s.claims.Settled(node, prefix, func() {
		b := s.claims.Made()
		if node == "" || b.record.Node != node {
			b = s.bid("")
		}
		s.claims.GiveUp(requests, b, node, prefix, answer)
	})
}

// Written implements [contender.Transferable].
func (s *store) Written(epoch int) {
	if s.written != nil {
		s.written(epoch)
	}
}

// write writes the record of a leader whose guard still stands, in one transaction behind the
// operations first. It answers with the zxid, or with the index of the operation that failed.
func (s *store) write(requests client.Async, first []session.Op, r record, answer func(zxid int64, failed int, err error)) {
	guard := s.guard(r.Node)
	r.Succeeds = guard != znode.Join(s.dir, r.Node)
	ops := append(first, session.CheckOp(guard, session.AnyVersion))
	requests.Multi(append(ops, session.SetOp(s.leader, r.Bytes(), session.AnyVersion)), func(results []session.OpResult, err error) {
		if err != nil {
			answer(0, claim.Failed(results), err)
			return
		}
		stat := results[len(results)-1].Stat
		s.claims.Wrote(r.Node, stat.Version)
		answer(stat.Mzxid, -1, nil)
	})
}

func isNoNode(err error) bool { return errors.Is(err, session.ErrNoNode) }
