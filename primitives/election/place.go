package election

import (
	"errors"
	"sync"

	"github.com/zkactors/zkactors/primitives/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// A place is where an election is, and what one candidate knows of its claim.
type place struct {
	layout Layout
	path   string
	dir    string // of the candidates
	leader string // the leader's node, in the standard layout
	data   string // of the candidate

	mu       sync.Mutex
	handover handover // what was seen last
	claim    claim
}

func newPlace(layout Layout, path, data string) *place {
	p := &place{layout: layout, path: path, dir: path, data: data}
	if layout == Standard {
		p.dir, p.leader = session.Join(path, candidatesNode), session.Join(path, leaderNode)
	}
	return p
}

// recipe returns that of the place in line.
func (p *place) recipe() *line.Recipe {
	r := &line.Recipe{Name: "election", Path: p.path, Dir: p.dir, Data: []byte(p.data), Rule: p.layout.rule()}
	r.Ways = &line.Ways{Inspect: inspectGuests}
	if p.layout == Standard {
		r.Ways = &line.Ways{
			Inspect:  p.inspects,
			Beside:   p.beside,
			Claim:    p.claims,
			Claimed:  func(*line.Recipe, string) string { return p.leader },
			Withdraw: p.withdraws,
		}
	}
	return r
}

// inspects implements [line.Ways] Inspect.
func (p *place) inspects(_ *line.Recipe, requests client.Async, _ bool, answer func(exists, empty bool, err error)) {
	var taken error
	p.vacant(requests, func(err error) { taken = err })
	requests.Exists(p.dir, func(stat *session.Stat, err error) {
		if err == nil {
			err = taken
		}
		answer(stat != nil, stat != nil && stat.DataLength == 0, err)
	})
}

// inspectGuests is [line.Ways] Inspect in the layouts of others: who stands there already by
// another one is no reason to stand there for a moment.
func inspectGuests(r *line.Recipe, requests client.Async, _ bool, answer func(exists, empty bool, err error)) {
	requests.Children(r.Dir, func(names []string, stat *session.Stat, err error) {
		if isNoNode(err) {
			answer(false, false, nil)
			return
		}
		if err == nil {
			err = r.Rule.Locate(line.Sight{Names: names}, "", session.NewGUID()).Err
		}
		answer(true, err == nil && stat.DataLength == 0, err)
	})
}

// beside implements [line.Ways] Beside: nothing, but others may stand above the candidates by
// another layout.
func (p *place) beside(_ *line.Recipe, requests client.Async, answer func(data string, err error)) {
	p.vacant(requests, func(err error) { answer("", err) })
}

func (p *place) vacant(requests client.Async, answer func(error)) {
	line.Vacant(requests, p.path, func(string) bool { return false }, func(err error) {
		if isNoNode(err) {
			err = nil
		}
		answer(err)
	})
}

// sighted takes note of who hands over to whom.
func (p *place) sighted(r record, version int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handover = handover{}
	if r.successor != "" {
		p.handover = handover{to: r.successor, from: r.node, version: version}
	}
}

// wrote takes note of the version of our leader's node.
func (p *place) wrote(node string, version int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.claim.node == node {
		p.claim.version = version
	}
}

// claims implements [line.Ways] Claim.
func (p *place) claims(_ *line.Recipe, requests client.Async, node string, again bool, answer func(zxid int64, taken bool, err error)) {
	p.mu.Lock()
	p.claim = claim{node: node}
	e := claims(node, p.data, p.handover, again)
	p.mu.Unlock()
	p.run(requests, e, func(r result) {
		p.mu.Lock()
		ours := r.err == nil && p.claim.node == node // it has not been given up meanwhile
		switch {
		case ours && r.taken: // and if it was handed over to us, no more
			p.claim, p.handover = claim{}, handover{}
		case ours:
			p.claim = claim{node: node, held: true, zxid: r.zxid, version: r.version}
		}
		p.mu.Unlock()
		answer(r.zxid, r.taken, r.err)
	})
}

// withdraws implements [line.Ways] Withdraw. What a lost creation has left beside our node
// has claimed nothing, and goes without our claim.
func (p *place) withdraws(_ *line.Recipe, requests client.Async, node, prefix string, answer func()) {
	var c claim
	p.mu.Lock()
	if node == "" || node == p.claim.node {
		c, p.claim = p.claim, c
	}
	p.mu.Unlock()
	p.run(requests, withdraws(node, prefix, c), func(result) { answer() })
}

// run does an errand.
func (p *place) run(requests client.Async, e errand, finish func(result)) {
	p.perform(requests, e, func(r reply) {
		next, res := e.next(r)
		if res.done {
			finish(res)
			return
		}
		p.run(requests, next, finish)
	})
}

// perform asks for the next thing.
func (p *place) perform(requests client.Async, e errand, answer func(reply)) {
	switch r := e.ask(); r.kind {
	case readLeader:
		requests.Get(p.leader, func(data []byte, stat *session.Stat, err error) {
			if err != nil {
				answer(reply{err: err})
				return
			}
			answer(reply{record: parseRecord(data), czxid: stat.Czxid, owner: stat.EphemeralOwner, version: stat.Version})
		})
	case transact:
		p.transact(requests, r.ops, answer)
	case withdraw:
		nodes := session.Removal{Path: session.Join(p.dir, e.node)}
		if e.node == "" {
			nodes = session.Removal{Path: p.dir, Prefix: e.prefix}
		}
		if !e.sure {
			nodes.Then = &session.Removal{Path: p.leader, Is: e.is, Says: e.says}
		}
		requests.Remove(nodes, func(error) { answer(reply{}) })
	}
}

func (p *place) transact(requests client.Async, ops []op, answer func(reply)) {
	all := make([]session.Op, len(ops))
	for i, o := range ops {
		path := p.leader
		if o.node != "" {
			path = session.Join(p.dir, o.node)
		}
		switch o.kind {
		case check:
			all[i] = session.CheckOp(path, o.version)
		case create:
			all[i] = session.CreateOp(path, o.record.bytes(), session.Ephemeral)
		case set:
			all[i] = session.SetOp(path, o.record.bytes(), o.version)
		case remove:
			all[i] = session.DeleteOp(path, o.version)
		}
	}
	requests.Multi(all, func(results []session.OpResult, err error) {
		r := reply{err: err, failed: -1}
		for i, done := range results {
			switch {
			case done.Err != nil && r.failed < 0:
				r.failed = i
			case done.Stat != nil:
				r.zxid, r.version = done.Stat.Mzxid, done.Stat.Version
			}
		}
		answer(r)
	})
}

// write writes the record of a leader that still stands as the node, beside a check that
// there are the others.
func (p *place) write(requests client.Async, r record, others []string, answer func(reply)) {
	var ops []op
	for _, node := range append(others, r.node) {
		ops = append(ops, op{kind: check, node: node, version: session.AnyVersion})
	}
	p.transact(requests, append(ops, op{kind: set, version: session.AnyVersion, record: r}), func(re reply) {
		if re.err == nil {
			p.wrote(r.node, re.version)
		}
		answer(re)
	})
}

func isNoNode(err error) bool { return errors.Is(err, session.ErrNoNode) }
