package line

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/session"
)

// This file explores several machines with the rule of semaphores over a model of the
// server and of sessions: of one line, whose limit changes. Requests and their answers are
// on their way for a while, a list is two requests, and watches fire once and are set
// again by a read, as those of package session.

var poolWalks = flag.Int("model.leases", 25_000, "random walks of leases, over all scenarios")

type (
	poolScenario struct {
		name    string
		record  Record
		rules   []Leases // of each contender, which has a session of its own
		limits  []int    // to which the limit may be set
		cold    bool     // nobody has seen the parent
		cuts    int
		ends    int
		strikes int // deletions by an operator
		sets    int // of the limit
		lates   int // creates that are done after a cut
	}

	pool struct {
		s        *poolScenario
		record   Record
		changes  int // of the record
		members  int // changes of the children
		nodes    []poolNode
		zxid     int64
		number   int32
		ids      int64
		parts    []poolPart
		dying    []int64
		late     []poolLate
		struck   map[string]bool
		cuts     int
		ends     int
		strikes  int
		sets     int
		lates    int
		overruns int // how often more was held than the limit, after it was lowered
	}
	poolNode struct {
		name    string
		czxid   int64
		owner   int64
		version int
	}
	poolPart struct {
		Machine
		rule    Leases
		grammar phase
		asked   bool
		granted int // the limit that was read for the grant
		up      bool
		epoch   int // 0: between two sessions
		count   int // of epochs
		id      int64
		mail    []Input
		todo    []poolRequest // asked for by the machine, not submitted
		out     []poolRequest // on the way to the server
		wire    []poolNews    // on the way from the server
		entries map[string]poolEntry
		armed   map[string]bool // watches on the server
		join    joined          // answered by the transaction, while the record is awaited
		joinErr error
		seen    listed // likewise for the list
		seenErr error
	}
	// A poolLate is a create that is done after its connection was cut.
	poolLate struct {
		part    int
		session int64
		do      createNode
	}
	poolRequest struct {
		do     Effect
		second bool   // the read of the record that follows
		key    string // of the read of a watch, whose do is nil
	}
	poolNews struct {
		answers poolRequest
		fired   string // the watch with this key
		deleted bool
		in      Input // for the machine
		err     error
		// What a read has found.
		version      int
		czxid, owner int64
		text         string
	}
	// A poolEntry is a watch as the client knows it.
	poolEntry struct {
		armed        bool
		sub          watchTarget // who wants it, with a zero attempt if nobody
		told         bool
		version      int
		czxid, owner int64
	}
)

const (
	membersKey = "members"
	recordKey  = "record"
)

var poolScenarios = []poolScenario{
	{name: "units", record: Record{2, true}, rules: units(2, 4), cuts: 1, ends: 1, strikes: 1},
	{name: "units, limits", record: Record{2, true}, rules: units(2, 4), limits: []int{1, 2, 3}, sets: 3},
	{name: "units, everything", record: Record{2, true}, rules: units(2, 4), limits: []int{1, 2, 3}, sets: 3, cuts: 3, lates: 2, ends: 1, strikes: 1},
	{name: "two of two", record: Record{Limit: 2}, rules: []Leases{{Limit: 2, Weight: 2}, {Limit: 2, Weight: 2}, {Limit: 2, Weight: 1}}, cuts: 1, ends: 1, strikes: 1},
	{name: "weights", record: Record{Limit: 3}, rules: []Leases{{Limit: 3, Weight: 2}, {Limit: 3, Weight: 1}, {Limit: 3, Weight: 3}, {Limit: 3, Weight: 1}}, cuts: 1, ends: 1, strikes: 1},
	{name: "weights, limits", record: Record{Limit: 3}, rules: []Leases{{Limit: 3, Weight: 2}, {Limit: 3, Weight: 1}, {Limit: 3, Weight: 2}, {Limit: 3, Weight: 1}}, limits: []int{1, 2, 3, 4}, sets: 4},
	{name: "weights, everything", record: Record{Limit: 3}, rules: []Leases{{Any: true, Limit: 1, Weight: 2}, {Limit: 3, Weight: 1}, {Limit: 3, Weight: 2}, {Limit: 3, Weight: 1}}, limits: []int{1, 2, 3, 4}, sets: 4, cuts: 3, lates: 2, ends: 1, strikes: 1},
	{name: "one before many", record: Record{Limit: 4}, rules: []Leases{{Limit: 4, Weight: 4}, {Limit: 4, Weight: 1}, {Limit: 4, Weight: 2}, {Limit: 4, Weight: 1}, {Limit: 4, Weight: 1}}, cuts: 1, ends: 1, strikes: 1},
	{name: "one before many, limits", record: Record{Limit: 4}, rules: []Leases{{Limit: 4, Weight: 3}, {Limit: 4, Weight: 1}, {Limit: 4, Weight: 1}, {Limit: 4, Weight: 1}, {Limit: 4, Weight: 1}}, limits: []int{3, 4, 5}, sets: 3, cuts: 2, lates: 1, ends: 1, strikes: 1},
	{name: "the first weighted one", record: Record{3, true}, cold: true, rules: []Leases{{Limit: 3, Weight: 1}, {Limit: 3, Weight: 3}, {Limit: 3, Weight: 2}, {Limit: 3, Weight: 1}}, cuts: 1, strikes: 1},
	{name: "a weighted one that is wrong about the record", record: Record{3, true}, rules: []Leases{{Limit: 3, Weight: 1}, {Limit: 3, Weight: 3}, {Limit: 3, Weight: 1}}, cuts: 1, strikes: 1},
	{name: "disagreement", record: Record{2, true}, rules: []Leases{{Limit: 2, Weight: 1}, {Limit: 3, Weight: 1}, {Limit: 1, Any: true, Weight: 1}, {Limit: 2, Weight: 1}}, limits: []int{2, 3}, sets: 2, cuts: 1},
}

func units(limit, n int) []Leases {
	return slices.Repeat([]Leases{{Limit: limit, Weight: 1, Any: true}}, n)
}

func newPool(s *poolScenario) *pool {
	w := &pool{s: s, record: s.record, zxid: 100, cuts: s.cuts, ends: s.ends, strikes: s.strikes, sets: s.sets, lates: s.lates, struck: map[string]bool{}}
	for i, rule := range s.rules {
		w.parts = append(w.parts, poolPart{Machine: New(actorID(i), rule, !s.cold, false), rule: rule})
		w.connect(i)
	}
	return w
}

// --- what can happen

func (w *pool) actions() (normal, leaves, faulty []action) {
	for i := range w.parts {
		p := &w.parts[i]
		if len(p.mail) > 0 {
			normal = append(normal, action{kind: "step", i: i})
		}
		if len(p.todo) > 0 && (p.up || p.todo[0].do.of().epoch != p.epoch) {
			normal = append(normal, action{kind: "send", i: i})
		}
		if len(p.out) > 0 && p.up {
			normal = append(normal, action{kind: "serve", i: i})
		}
		if len(p.wire) > 0 && p.up {
			normal = append(normal, action{kind: "hear", i: i})
		}
		switch {
		case p.epoch == 0:
			normal = append(normal, action{kind: "connect", i: i})
		case p.up && w.cuts > 0:
			faulty = append(faulty, action{kind: "cut", i: i})
			if w.lates > 0 && slices.ContainsFunc(p.out, func(r poolRequest) bool { _, ok := r.do.(createNode); return ok && !r.second }) {
				faulty = append(faulty, action{kind: "cut", i: i, variant: 1})
			}
		case !p.up:
			normal = append(normal, action{kind: "reconnect", i: i})
			if w.ends > 0 {
				faulty = append(faulty, action{kind: "expire", i: i})
			}
		}
		if !p.asked && !p.Ended() {
			leaves = append(leaves, action{kind: "leave", i: i})
		}
	}
	for i := range w.dying {
		normal = append(normal, action{kind: "bury", i: i})
	}
	for i := range w.late {
		normal = append(normal, action{kind: "late", i: i})
	}
	if w.strikes > 0 {
		for _, n := range w.nodes {
			faulty = append(faulty, action{kind: "strike", node: n.name})
		}
	}
	if w.sets > 0 {
		for _, n := range w.s.limits {
			if n != w.record.Limit {
				faulty = append(faulty, action{kind: "set", i: n})
			}
		}
	}
	return normal, leaves, faulty
}

func (w *pool) apply(a action) {
	switch a.kind {
	case "step":
		w.step(a.i)
	case "send":
		p := &w.parts[a.i]
		r := p.todo[0]
		p.todo = p.todo[1:]
		if r.do.of().epoch != p.epoch {
			w.fail(a.i, r, session.ErrExpired)
		} else {
			w.send(a.i, r)
		}
	case "serve":
		p := &w.parts[a.i]
		r := p.out[0]
		p.out = p.out[1:]
		w.serve(a.i, r)
	case "hear":
		p := &w.parts[a.i]
		n := p.wire[0]
		p.wire = p.wire[1:]
		w.hear(a.i, n)
	case "leave":
		w.parts[a.i].asked = true
		w.parts[a.i].mail = append(w.parts[a.i].mail, Leave{})
	case "connect":
		w.connect(a.i)
	case "cut":
		w.cuts--
		for _, r := range w.parts[a.i].out {
			if e, ok := r.do.(createNode); ok && !r.second && a.variant == 1 {
				w.lates--
				w.late = append(w.late, poolLate{a.i, w.parts[a.i].id, e})
			}
		}
		w.cut(a.i)
	case "late":
		l := w.late[a.i]
		w.late = slices.Delete(w.late, a.i, a.i+1)
		w.create(w.parts[l.part].rule.Name(l.do.guid), l.session)
	case "reconnect":
		w.reconnect(a.i)
	case "expire":
		w.ends--
		p := &w.parts[a.i]
		p.mail = append(p.mail, heard{session.Expired{Epoch: p.epoch}})
		w.dying = append(w.dying, p.id)
		w.late = slices.DeleteFunc(w.late, func(l poolLate) bool { return l.session == p.id })
		for _, r := range p.out { // withdrawals, which are answered
			w.fail(a.i, r, session.ErrExpired)
		}
		p.epoch, p.id, p.out, p.entries = 0, 0, nil, nil
	case "bury":
		id := w.dying[a.i]
		w.dying = slices.Delete(w.dying, a.i, a.i+1)
		for _, n := range slices.Clone(w.nodes) {
			if n.owner == id {
				w.delete(n.name)
			}
		}
	case "strike":
		w.strikes--
		w.struck[a.node] = true
		w.delete(a.node)
	case "set":
		w.sets--
		w.record.Limit = a.i
		w.recorded()
	}
	w.check()
}

// --- the server

func (w *pool) find(name string) int {
	return slices.IndexFunc(w.nodes, func(n poolNode) bool { return n.name == name })
}

func (w *pool) fire(key string, deleted bool, by int64) (woken int) {
	for i := range w.parts {
		p := &w.parts[i]
		if p.armed[key] {
			delete(p.armed, key)
			p.wire = append(p.wire, poolNews{fired: key, deleted: deleted})
			if e := p.entries[key]; e.sub.attempt == p.attempt && w.waits(p.node) && w.find(p.node) >= 0 && p.id != by {
				woken++
			}
		}
	}
	return woken
}

func (w *pool) recorded() {
	w.changes++
	w.fire(recordKey, false, 0)
}

func (w *pool) create(name string, owner int64) poolNode {
	w.zxid++
	n := poolNode{name: fmt.Sprintf("%s%010d", name, w.number), czxid: w.zxid, owner: owner}
	w.number++
	w.nodes = append(w.nodes, n)
	w.members++
	w.fire(membersKey, false, 0)
	return n
}

func (w *pool) delete(name string) {
	i := w.find(name)
	if i < 0 {
		return
	}
	owner := w.nodes[i].owner
	w.nodes = slices.Delete(w.nodes, i, i+1)
	w.members++
	woken := w.fire(name, true, owner) + w.fire(membersKey, false, owner)
	most := w.fitting() + 1
	if slices.ContainsFunc(w.nodes[:i], func(n poolNode) bool { return w.waits(n.name) }) {
		most++ // the first that waits, ahead of one that leaves the line, is told of all members
	}
	if woken > max(2, most) {
		panic(violation(fmt.Sprintf("herd: the deletion of %s wakes %d, of whom %d fit", name, woken, w.fitting())))
	}
}

// fitting returns how many have not been let in and are within the limit: the greatest that
// anybody may have heard of.
func (w *pool) fitting() (n int) {
	sum, limit := 0, slices.Max(append(slices.Clone(w.s.limits), w.s.record.Limit))
	for _, node := range w.nodes {
		_, weight, _ := ParseLease(node.name)
		if sum += weight; sum <= limit && w.waits(node.name) {
			n++
		}
	}
	return n
}

func (w *pool) serve(i int, r poolRequest) {
	p := &w.parts[i]
	n := poolNews{answers: r}
	switch e := r.do.(type) {
	case nil: // of a watch
		switch r.key {
		case membersKey:
			n.version = w.members
		case recordKey:
			n.version = w.changes
		default:
			j := w.find(r.key)
			if j < 0 {
				n.err = session.ErrNoNode
				break
			}
			n.version, n.czxid, n.owner = w.nodes[j].version, w.nodes[j].czxid, w.nodes[j].owner
		}
		if n.err == nil {
			p.armed[r.key] = true
		}
	case inspectParent: // in one go
		if p.rule.Weight > 1 && w.record.Unit {
			w.record.Unit = false
			w.recorded()
		}
		n.in = inspected{e.attempt, true, true}
		n.err = p.rule.Check(w.record, e.isNew)
	case createNode:
		if r.second {
			n.text = w.record.String()
			break
		}
		node := w.create(p.rule.Name(e.guid), p.id)
		n.in = joined{attempt: e.attempt, node: node.name, czxid: node.czxid, children: len(w.nodes)}
	case listParent:
		if r.second {
			n.text = w.record.String()
			break
		}
		in := listed{attempt: e.attempt}
		for _, node := range w.nodes {
			in.Names = append(in.Names, node.name)
		}
		n.in = in
	case announce:
		if j := w.find(e.node); j < 0 {
			n.err = session.ErrNoNode
		} else {
			w.nodes[j].version++
			w.fire(e.node, false, 0)
		}
		n.in = announced{e.attempt}
	case withdrawNode:
		w.delete(e.node)
		n.in = withdrawn(e)
	case withdrawAll: // in one go
		w.late = slices.DeleteFunc(w.late, func(l poolLate) bool { return l.do.guid == e.guid })
		for _, node := range slices.Clone(w.nodes) {
			if strings.HasPrefix(node.name, Published(e.guid)) {
				w.delete(node.name)
			}
		}
		n.in = withdrawn{attempt: e.attempt}
	case makeParent, watchTarget, unwatchTarget, claim, changeNode, ask, complain, answer:
		panic(fmt.Sprintf("%T on the wire", e))
	}
	p.wire = append(p.wire, n)
}

// --- the session

func (w *pool) connect(i int) {
	p := &w.parts[i]
	w.ids++
	p.count++
	p.up, p.epoch, p.id = true, p.count, w.ids
	p.entries, p.armed, p.wire = map[string]poolEntry{}, map[string]bool{}, nil
	w.follow(i, recordKey, watchTarget{attempt: attempt{p.epoch, -1}, target: Target{Until: Dependence}})
	p.mail = append(p.mail, heard{session.Connected{Epoch: p.epoch, ID: p.id}})
}

func (w *pool) send(i int, r poolRequest) {
	p := &w.parts[i]
	switch e := r.do.(type) {
	case watchTarget:
		key := e.target.Node
		if e.target.Until == Members {
			key = membersKey
		}
		w.follow(i, key, e)
	case unwatchTarget:
		key := e.target.Node
		if e.target.Until == Members {
			key = membersKey
		}
		if entry, ok := p.entries[key]; ok && entry.sub.target == e.target {
			entry.sub = watchTarget{}
			p.entries[key] = entry
		}
	case inspectParent, makeParent, createNode, listParent, withdrawNode, withdrawAll, announce, claim, changeNode, ask, complain, answer:
		p.out = append(p.out, r)
	}
}

func (w *pool) follow(i int, key string, e watchTarget) {
	p := &w.parts[i]
	entry, ok := p.entries[key]
	entry.sub, entry.told = e, false
	if !ok {
		p.out = append(p.out, poolRequest{key: key})
	}
	if entry.armed {
		entry = w.tellWatch(i, entry)
	}
	p.entries[key] = entry
}

// tellWatch tells what a read has found.
func (w *pool) tellWatch(i int, e poolEntry) poolEntry {
	p := &w.parts[i]
	if e.sub == (watchTarget{}) {
		return e
	}
	switch {
	case e.sub.target.Until == Dependence, e.told && e.sub.target.Until == Members:
		p.mail = append(p.mail, Look{})
	case e.told && e.sub.target.Until == Changed:
		p.mail = append(p.mail, gone(e.sub))
	case !e.told:
		p.mail = append(p.mail, watched{e.sub.attempt, e.sub.target, e.czxid, e.owner, e.sub.target.Until == Changed && e.version > 0})
	}
	e.told = true
	return e
}

func (w *pool) hear(i int, n poolNews) {
	p := &w.parts[i]
	key := n.answers.key + n.fired
	entry, known := p.entries[key]
	switch {
	case n.fired != "" && (!known || !entry.armed): // older than the read under way
	case n.fired != "":
		entry.armed = false
		switch {
		case n.deleted:
			delete(p.entries, key)
			if entry.sub != (watchTarget{}) {
				p.mail = append(p.mail, gone(entry.sub))
			}
		case entry.sub == (watchTarget{}):
			delete(p.entries, key)
		default:
			p.entries[key] = entry
			p.out = append(p.out, poolRequest{key: key})
		}
	case key != "" && n.err != nil:
		delete(p.entries, key)
		if entry.told {
			p.mail = append(p.mail, gone(entry.sub))
		} else if entry.sub != (watchTarget{}) {
			p.mail = append(p.mail, failed{entry.sub, n.err})
		}
	case key != "":
		entry.armed, entry.version, entry.czxid, entry.owner = true, n.version, n.czxid, n.owner
		p.entries[key] = w.tellWatch(i, entry)
	default:
		w.answer(i, n)
	}
}

// answer puts together what is asked for by two requests, as the performer does.
func (w *pool) answer(i int, n poolNews) {
	p := &w.parts[i]
	reply := func(in Input, err error) {
		if err != nil {
			in = failed{n.answers.do, err}
		}
		p.mail = append(p.mail, in)
	}
	switch e := n.answers.do.(type) {
	case createNode:
		if !n.answers.second {
			if p.join, p.joinErr = (joined{attempt: e.attempt}), n.err; n.err == nil {
				p.join = n.in.(joined)
			}
			if p.rule.Lists() {
				reply(p.join, p.joinErr)
			}
			return
		}
		if p.join.data = n.text; n.err != nil {
			p.join.children = 0
		}
		reply(p.join, p.joinErr)
	case listParent:
		if !n.answers.second {
			if p.seen, p.seenErr = (listed{attempt: e.attempt}), n.err; n.err == nil {
				p.seen = n.in.(listed)
			}
			return
		}
		p.seen.Data = n.text
		if p.seenErr == nil {
			p.seenErr = n.err
		}
		reply(p.seen, p.seenErr)
	case inspectParent, makeParent, watchTarget, unwatchTarget, withdrawNode, withdrawAll, announce, claim, changeNode, ask, complain, answer:
		reply(n.in, n.err)
	}
}

func (w *pool) fail(i int, r poolRequest, err error) {
	switch e := r.do.(type) {
	case nil, unwatchTarget:
	case withdrawNode:
		w.parts[i].mail = append(w.parts[i].mail, withdrawn(e))
	case withdrawAll:
		w.parts[i].mail = append(w.parts[i].mail, withdrawn{attempt: e.attempt})
	case watchTarget:
		w.parts[i].mail = append(w.parts[i].mail, failed{e, err})
	case inspectParent, makeParent, createNode, listParent, announce, claim, changeNode, ask, complain, answer:
		w.answer(i, poolNews{answers: r, err: err})
	}
}

func (w *pool) cut(i int) {
	p := &w.parts[i]
	p.up = false
	p.mail = append(p.mail, heard{session.Suspended{}})
	var lost []poolRequest
	for _, n := range p.wire {
		if n.fired == "" {
			lost = append(lost, n.answers)
		}
	}
	lost = append(lost, p.out...)
	p.wire, p.out, p.armed = nil, nil, map[string]bool{}
	for _, r := range lost {
		switch r.do.(type) {
		case nil: // read again after the reconnect
		case withdrawNode, withdrawAll:
			p.out = append(p.out, r)
		case createNode, announce:
			err := session.ErrDisconnected
			if !r.second {
				err = errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)
			}
			w.fail(i, r, err)
		case inspectParent, makeParent, listParent, watchTarget, unwatchTarget, claim, changeNode, ask, complain, answer:
			w.fail(i, r, session.ErrDisconnected)
		}
	}
}

func (w *pool) reconnect(i int) {
	p := &w.parts[i]
	p.up = true
	p.mail = append(p.mail, heard{session.Resumed{}})
	held := p.out
	p.out = nil
	for _, key := range slices.Sorted(maps.Keys(p.entries)) {
		e := p.entries[key]
		now := -1
		switch at := w.find(key); {
		case key == recordKey:
			now = w.changes
		case key == membersKey:
			now = w.members
		case at >= 0:
			now = w.nodes[at].version
		}
		switch {
		case !e.armed:
			p.out = append(p.out, poolRequest{key: key})
		case now != e.version:
			p.wire = append(p.wire, poolNews{fired: key, deleted: now < 0})
		default:
			p.armed[key] = true
		}
	}
	p.out = append(p.out, held...)
}

// --- the machines, and what must hold

func (w *pool) step(i int) {
	p := &w.parts[i]
	in := p.mail[0]
	p.mail = p.mail[1:]
	was := p.Machine
	var out Effects
	p.Machine, out = p.Step(in)
	for _, ev := range out.Emit {
		if p.grammar = p.grammar.next(ev); p.grammar == broken {
			panic(violation(fmt.Sprintf("contender %d: %v breaks the grammar", i, ev)))
		}
		switch ev := ev.(type) {
		case Acquired:
			j, _ := in.(joined)
			l, _ := in.(listed)
			r, err := ParseRecord(j.data + l.Data)
			if err != nil {
				panic(violation("granted without a limit"))
			}
			p.granted = r.Limit
		case Lost:
			disagreed := errors.Is(ev.Err, ErrLimit)
			if holding := p.granted > 0; holding == disagreed || disagreed && was.ahead >= 0 && p.rule.Weight == 1 {
				panic(violation(fmt.Sprintf("contender %d: %v", i, ev.Err)))
			}
		case Waiting, Suspended, Resumed, Revoked, Released:
		}
	}
	for _, e := range out.Do {
		p.todo = append(p.todo, poolRequest{do: e})
		_, lists := e.(listParent)
		if _, creates := e.(createNode); lists || creates && !p.rule.Lists() {
			p.todo = append(p.todo, poolRequest{do: e, second: true})
		}
	}
}

// doomed reports whether a holder has yet to hear of its loss.
func (w *pool) doomed(p *poolPart) bool {
	return w.struck[p.node] || slices.ContainsFunc(p.mail, expires)
}

// check holds in every state: what is held is within the limit that was in force when
// the last in line was let in.
func (w *pool) check() {
	sum, last, limit := 0, -1, 0
	for i := range w.parts {
		p := &w.parts[i]
		if !p.Holding() || w.doomed(p) {
			continue
		}
		n := w.find(p.node)
		if n < 0 {
			panic(violation(fmt.Sprintf("contender %d holds without a node", i)))
		}
		if sum += p.rule.Weight; n > last {
			last, limit = n, p.granted
		}
	}
	if sum > limit {
		panic(violation(fmt.Sprintf("%d are held of %d", sum, limit)))
	}
	if sum > w.record.Limit {
		w.overruns++
	}
	if normal, _, _ := w.actions(); len(normal) == 0 {
		w.checkQuiet()
	}
}

func (w *pool) checkQuiet() {
	var mine []string
	sums := map[string]int{}
	sum := 0
	for _, n := range w.nodes {
		_, weight, _ := ParseLease(n.name)
		sum += weight
		sums[n.name] = sum
	}
	for i := range w.parts {
		p := &w.parts[i]
		if p.Ended() {
			continue
		}
		if p.state != waiting && p.state != held || sums[p.node] == 0 {
			panic(violation(fmt.Sprintf("contender %d is stuck: %v", i, p.Machine)))
		}
		mine = append(mine, p.node)
		if p.state == waiting && sums[p.node] <= w.record.Limit {
			panic(violation(fmt.Sprintf("contender %d could go on: %v", i, p.Machine)))
		}
		w.checkWoken(p)
		if ahead := w.find(p.node) - 1; p.state == waiting && p.target.Until == Members && w.waits(w.nodes[ahead].name) {
			panic(violation(fmt.Sprintf("contender %d watches all, and is not next: %v", i, p.Machine)))
		}
	}
	for _, n := range w.nodes {
		if !slices.Contains(mine, n.name) && !slices.ContainsFunc(w.parts, func(p poolPart) bool {
			// What a late create has left goes when its maker leaves.
			return !p.Ended() && p.suspect && strings.HasPrefix(n.name, Published(p.guid()))
		}) {
			panic(violation(n.name + " is a ghost"))
		}
	}
}

// checkWoken holds for a contender that knows its place: the departure of one that makes room
// for it wakes it, whatever others do.
func (w *pool) checkWoken(p *poolPart) {
	at := w.find(p.node)
	if p.state != waiting || p.ahead != at {
		return
	}
	sum := p.rule.Weight
	for _, n := range w.nodes[:at] {
		_, weight, _ := ParseLease(n.name)
		sum += weight
	}
	for _, n := range w.nodes[:at] {
		_, weight, _ := ParseLease(n.name)
		awaited := p.target.Until == Members || p.target.Node == n.name || p.accompanied(Target{Node: n.name})
		if sum-weight <= w.record.Limit && !awaited {
			panic(violation(fmt.Sprintf("nobody would wake %v when %s leaves", p.Machine, n.name)))
		}
	}
}

func (w *pool) waits(node string) bool {
	return slices.ContainsFunc(w.parts, func(p poolPart) bool { return p.node == node && p.state == waiting })
}

func (w *pool) try(a action) (err error) {
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(violation)
			if !ok {
				panic(fmt.Sprintf("%v, after %v", r, a))
			}
			err = v
		}
	}()
	w.apply(a)
	return nil
}

// walkPool goes at random until everything is over.
func walkPool(s *poolScenario, r *rand.Rand) (w *pool, trace []action, err error) {
	w = newPool(s)
	faultiness, haste := r.Float64()/4, r.Float64()/10
	calm := 0 // for how many more steps nobody meddles, if positive
	for range 5000 {
		normal, leaves, faulty := w.actions()
		if calm > 0 {
			calm--
		} else if r.IntN(50) == 0 {
			calm = 300
		}
		choice := normal
		switch {
		case calm > 0 && len(normal) > 0:
		case len(faulty) > 0 && (len(normal)+len(leaves) == 0 || r.Float64() < faultiness):
			choice = faulty
		case len(leaves) > 0 && (len(normal) == 0 || r.Float64() < haste):
			choice = leaves
		}
		if len(normal) == 0 {
			calm = 0
		}
		if len(choice) == 0 {
			for i := range w.parts {
				if !w.parts[i].Ended() {
					return w, trace, fmt.Errorf("contender %d never ends: %v", i, w.parts[i].Machine)
				}
			}
			return w, trace, nil
		}
		a := choice[r.IntN(len(choice))]
		trace = append(trace, a)
		if err := w.try(a); err != nil {
			return w, trace, err
		}
	}
	return w, trace, errors.New("no end in 5000 steps")
}

// replayPool does what can be done of a trace, and returns that.
func replayPool(s *poolScenario, trace []action, tell func(w *pool, a action)) (done []action, err error) {
	w := newPool(s)
	for _, a := range trace {
		normal, leaves, faulty := w.actions()
		if !slices.Contains(slices.Concat(normal, leaves, faulty), a) {
			continue
		}
		done = append(done, a)
		if tell != nil {
			tell(w, a)
		}
		if err := w.try(a); err != nil {
			return done, err
		}
	}
	return done, nil
}

func shortenPool(s *poolScenario, trace []action) []action {
	for again := true; again; {
		again = false
		for n := len(trace) / 2; n > 0; n /= 2 {
			for i := 0; i+n <= len(trace); i++ {
				if done, err := replayPool(s, slices.Delete(slices.Clone(trace), i, i+n), nil); err != nil {
					trace, again = done, true
					i--
				}
			}
		}
	}
	return trace
}

func TestLeasesModel(t *testing.T) {
	if testing.Short() {
		t.Skip("explores many states")
	}
	for n := range poolScenarios {
		s := &poolScenarios[n]
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, uint64(n)))
			steps, overruns := 0, 0
			for range *poolWalks / len(poolScenarios) {
				w, trace, err := walkPool(s, r)
				if err != nil {
					if v := violation(""); errors.As(err, &v) {
						trace = shortenPool(s, trace)
					}
					_, _ = replayPool(s, trace, func(w *pool, a action) {
						what := a.String()
						switch p := &w.parts[min(a.i, len(w.parts)-1)]; a.kind {
						case "step":
							m, _ := p.Step(p.mail[0])
							what += fmt.Sprintf(": %T%v\n\t-> %v", p.mail[0], p.mail[0], m)
						case "serve":
							what += fmt.Sprintf(": %T%v %v %s", p.out[0].do, p.out[0].do, p.out[0].second, p.out[0].key)
						case "send":
							what += fmt.Sprintf(": %T%v %v", p.todo[0].do, p.todo[0].do, p.todo[0].second)
						case "hear":
							what += fmt.Sprintf(": %T %s %s", p.wire[0].answers.do, p.wire[0].answers.key, p.wire[0].fired)
						}
						t.Log(what)
					})
					t.Fatal(err)
				}
				steps += len(trace)
				overruns += w.overruns
			}
			t.Logf("%d steps; after %d of them more was held than a limit that had been lowered", steps, overruns)
		})
	}
}
