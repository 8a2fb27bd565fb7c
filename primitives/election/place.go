package election

import (
	"errors"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/claim"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// A place is the path of an election, and one candidate's knowledge of its claim.
type place struct {
	layout Layout
	path   string
	dir    string // of the candidates
	leader string // the leader's node, in the standard layout
	data   string // of the candidate

	claims claim.Keeper[bid]

	mu       sync.Mutex
	handover handover // what was seen last
}

// A handover is a sighting of a leader that hands over: the name of its node, and the
// version of the leader's. It is zero where there is none.
type handover struct {
	to, from string
	version  int32
}

func newPlace(layout Layout, path, data string) *place {
	p := &place{layout: layout, path: path, dir: path, data: data}
	if layout == Standard {
		p.dir, p.leader = znode.Join(path, candidatesNode), znode.Join(path, leaderNode)
	}
	return p
}

// recipe returns that of the place in line.
func (p *place) recipe() *line.Recipe {
	r := &line.Recipe{Name: "election", Path: p.path, Dir: p.dir, Data: []byte(p.data), Rule: p.layout.rule()}
	r.Hooks = &line.Hooks{Inspect: inspectGuests}
	if p.layout == Standard {
		r.Hooks = &line.Hooks{
			Inspect:  p.inspects,
			Beside:   p.beside,
			Claim:    p.take,
			Claimed:  func(*line.Recipe, string) string { return p.leader },
			Withdraw: p.withdraw,
		}
	}
	return r
}

// inspects implements [line.Hooks] Inspect.
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

// inspectGuests is [line.Hooks] Inspect in the layouts of other libraries: candidates that
// stand there already by another one is no reason to stand there for a moment.
func inspectGuests(r *line.Recipe, requests client.Async, _ bool, answer func(exists, empty bool, err error)) {
	requests.Children(r.Dir, func(names []string, stat *session.Stat, err error) {
		if isNoNode(err) {
			answer(false, false, nil)
			return
		}
		if err == nil {
			err = r.Rule.Locate(line.Sight{Names: names}, "", znode.NewGUID()).Err
		}
		answer(true, err == nil && stat.DataLength == 0, err)
	})
}

// beside implements [line.Hooks] Beside: nothing, but others may stand above the candidates by
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

// sighted enters which leader hands over to which candidate.
func (p *place) sighted(r record, version int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handover = handover{}
	if r.Successor != "" {
		p.handover = handover{to: r.Successor, from: r.Node, version: version}
	}
}

// bid returns the claim of a candidate, as far as handovers were seen.
func (p *place) bid(node string) bid {
	b := bid{dir: p.dir, leader: p.leader, record: record{Node: node, Data: p.data}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.handover; node != "" && h.to == node {
		b.stands, b.from, b.version = yielded, h.from, h.version
	}
	return b
}

// take implements [line.Hooks] Claim.
func (p *place) take(_ *line.Recipe, requests client.Async, node string, again bool, answer func(zxid int64, taken bool, err error)) {
	p.claims.Take(requests, p.bid(node), node, again, func(zxid int64, taken bool, err error) {
		if taken { // and if it was handed over to us, no more
			p.sighted(record{}, 0)
		}
		answer(zxid, taken, err)
	})
}

// withdraw implements [line.Hooks] Withdraw.
func (p *place) withdraw(_ *line.Recipe, requests client.Async, node, prefix string, answer func()) {
	p.claims.GiveUp(requests, p.bid(""), node, prefix, answer)
}

// write writes the record of a leader that still stands as the node, in one transaction with what is
// to be done first. It answers with the zxid of that, or which operation has failed.
func (p *place) write(requests client.Async, first []session.Op, r record, answer func(zxid int64, failed int, err error)) {
	ops := append(first, session.CheckOp(znode.Join(p.dir, r.Node), session.AnyVersion))
	requests.Multi(append(ops, session.SetOp(p.leader, r.Bytes(), session.AnyVersion)), func(results []session.OpResult, err error) {
		if err != nil {
			answer(0, claim.Failed(results), err)
			return
		}
		stat := results[len(results)-1].Stat
		p.claims.Wrote(r.Node, stat.Version)
		answer(stat.Mzxid, -1, nil)
	})
}

func isNoNode(err error) bool { return errors.Is(err, session.ErrNoNode) }
