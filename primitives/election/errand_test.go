package election

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/session"
)

var errUnknown = errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)

// TestErrands has rows for steps that are easy to get wrong.
func TestErrands(t *testing.T) {
	claim1 := claims("a", "data", handover{}, false)
	look := claims("a", "data", handover{}, true)
	take := claims("a", "data", handover{to: "a", from: "b", version: 3}, false)
	held := claim{node: "a", held: true, version: 2}
	resign := withdraws("a", "", held)
	for _, row := range []struct {
		danger string
		errand errand
		reply  reply
		step   step
		result result
	}{
		{"a claim is a claim", claim1, reply{zxid: 7, version: 1}, trying, result{done: true, zxid: 7, version: 1}},
		{"somebody else may be the leader, or we", claim1, reply{err: session.ErrNodeExists, failed: 1}, looking, result{}},
		{"our own node is gone", claim1, reply{err: session.ErrNoNode}, trying, result{done: true, err: session.ErrNoNode}},
		{"a claim may have been done", claim1, reply{err: errUnknown}, trying, result{done: true, err: errUnknown}},
		{"an earlier claim was done", look, reply{record: record{node: "a"}, owner: 1, czxid: 7, version: 2}, looking, result{done: true, zxid: 7, version: 2}},
		{"an earlier claim was not done", look, reply{err: session.ErrNoNode}, trying, result{}},
		{"a read is repeated", look, reply{err: session.ErrDisconnected}, looking, result{}},
		{"another leads", look, reply{record: record{node: "b"}, owner: 1}, looking, result{done: true, taken: true}},
		{"another leads whose record nobody understands", look, reply{owner: 1}, looking, result{done: true, taken: true}},
		{"another hands over to us", look, reply{record: record{node: "b", successor: "a"}, owner: 1, version: 3}, taking, result{}},
		{"another hands over to another", look, reply{record: record{node: "b", successor: "c"}, owner: 1}, looking, result{done: true, taken: true}},
		{"nobody's node is in the way", look, reply{version: 4}, replacing, result{}},
		{"who hands over has gone", take, reply{err: session.ErrNoNode, failed: 1}, taking, result{done: true, taken: true}},
		{"who was to take over has gone", take, reply{err: session.ErrNoNode, failed: 0}, taking, result{done: true, err: session.ErrNoNode}},
		{"somebody else was quicker", take, reply{err: session.ErrBadVersion, failed: 2}, taking, result{done: true, taken: true}},
		{"nobody's node has changed", errand{step: replacing, node: "a"}, reply{err: session.ErrBadVersion, failed: 1}, looking, result{}},
		{"nobody's node has gone", errand{step: replacing, node: "a"}, reply{err: session.ErrNoNode, failed: 1}, looking, result{}},
		{"nobody's node has children", errand{step: replacing, node: "a"}, reply{err: session.ErrNotEmpty, failed: 1}, replacing, result{done: true, err: ErrNotElection}},
		{"nobody's node must not be deleted", errand{step: replacing, node: "a"}, reply{err: session.ErrNoAuth, failed: 1}, replacing, result{done: true, err: session.ErrNoAuth}},

		{"all is given up at once", resign, reply{}, resigning, result{done: true}},
		{"it may have been given up", resign, reply{err: errUnknown}, removing, result{}},
		{"somebody has deleted our node, and not the leader's", resign, reply{err: session.ErrNoNode}, removing, result{}},
		{"what could not be given up at once is, one after the other", errand{step: removing, node: "a"}, reply{}, removing, result{done: true}},
		{"the session is over", resign, reply{err: session.ErrExpired}, resigning, result{done: true}},
	} {
		next, res := row.errand.next(row.reply)
		if next.step != row.step || res.done != row.result.done || res.zxid != row.result.zxid || res.version != row.result.version || res.taken != row.result.taken || !errors.Is(res.err, row.result.err) {
			t.Errorf("%s: step %v, %+v", row.danger, next.step, res)
		}
	}
}

// TestOurs has rows for which node of a leader is given up.
func TestOurs(t *testing.T) {
	says := func(node string) []byte { return record{node: node}.bytes() }
	for _, row := range []struct {
		danger string
		errand errand
		data   []byte
		stat   session.Stat
		ours   bool
	}{
		{"another's", errand{node: "a"}, says("b"), session.Stat{EphemeralOwner: 1}, false},
		{"nobody's", errand{node: "a"}, says("a"), session.Stat{}, false},
		{"ours", errand{node: "a"}, says("a"), session.Stat{EphemeralOwner: 1}, true},
		{"of one of our nodes", errand{prefix: "pre-"}, says("pre-a"), session.Stat{EphemeralOwner: 1}, true},
		{"of none of our nodes", errand{prefix: "pre-"}, nil, session.Stat{EphemeralOwner: 1}, false},
		{"ours, whatever it says", errand{node: "a", zxid: 7}, nil, session.Stat{EphemeralOwner: 1, Czxid: 7}, true},
		{"another's, whatever it says", errand{node: "a", zxid: 7}, says("a"), session.Stat{EphemeralOwner: 1, Czxid: 8}, false},
	} {
		if ours := row.errand.is(&row.stat) && row.errand.says(row.data); ours != row.ours {
			t.Errorf("%s: %v", row.danger, ours)
		}
	}
}

// --- a model: everything that three candidates can do to the nodes of an election

const crowd = 3

type role int8

const (
	out role = iota
	inLine
	claimant
	leading
	handingOver
	givingUp
)

// A modelled is one candidate.
type modelled struct {
	role   role
	node   string // its name, while it has not been given up
	number int    // by which it stands in line
	seen   handover
	maybe  bool // it may have claimed
	again  bool
	term   int64
	errand errand
	served bool // the request of the errand was answered
	janitor
	reply int // with that, in the table of the model
	gens  int
}

// A janitor is what the session does for a candidate that gives up.
type janitor struct {
	removed bool  // the candidate's nodes are
	looked  bool  // the leader's node was the candidate's,
	saw     int32 // and had this version
}

// A tree is what the server has.
type tree struct {
	alive   [crowd]bool // the nodes of the candidates
	leader  bool
	record  record
	owner   int // the candidate, from 1
	version int32
	term    int64
	zxid    int64
	numbers int
}

type modelWorld struct {
	tree
	who    [crowd]modelled
	losses int
	deaths int
	hands  int
	newest int64 // term
}

type model struct {
	t       *testing.T
	replies []reply // that are under way, so that a world can be compared
	index   map[string]int
}

func (m *model) keep(r reply) int {
	key := fmt.Sprintf("%+v", r)
	i, ok := m.index[key]
	if !ok {
		i = len(m.replies)
		m.replies = append(m.replies, r)
		m.index[key] = i
	}
	return i
}

func nodeName(i, gen int) string { return fmt.Sprintf("%c%d-n", 'a'+i, gen) }

func ownerOf(node string) int { return int(node[0] - 'a') }

// exists reports whether a candidate's node is there.
func (w *modelWorld) exists(node string) bool {
	i := ownerOf(node)
	return w.alive[i] && w.who[i].node == node
}

// serve executes what candidate i asks for, or a part of it that is not answered.
func (w *modelWorld) serve(i int) (_ reply, done bool) {
	c := &w.who[i]
	q := c.errand.ask()
	switch q.kind {
	case readLeader:
		if !w.leader {
			return reply{err: session.ErrNoNode}, true
		}
		return reply{record: w.record, czxid: w.term, owner: int64(w.owner), version: w.version}, true
	case withdraw:
		ours := w.leader && c.errand.is(&session.Stat{EphemeralOwner: int64(w.owner), Czxid: w.term}) && c.errand.says(w.record.bytes())
		switch {
		case !c.removed:
			w.alive[i] = false
			if !c.errand.sure {
				c.removed = true
				return reply{}, false
			}
		case c.looked && w.leader && w.version == c.saw: // whosever it is by now
			w.leader, w.record, w.owner = false, record{}, 0
		case ours:
			c.looked, c.saw = true, w.version
			return reply{}, false
		}
		c.removed, c.looked, c.saw = false, false, 0
	case transact:
		next := *w
		if q.ops[len(q.ops)-1].kind == set { // only terms matter
			next.zxid++
		}
		for n, o := range q.ops {
			if err := next.do(i, o); err != nil {
				return reply{err: err, failed: n}, true
			}
		}
		*w = next
		return reply{zxid: w.zxid, version: w.version}, true
	}
	return reply{}, true
}

// answer has candidate i told of a reply.
func (w *modelWorld) answer(i int, r int) { w.who[i].reply, w.who[i].served = r, true }

func (w *modelWorld) do(i int, o op) error {
	switch {
	case o.node != "" && !w.exists(o.node):
		return session.ErrNoNode
	case o.node != "" && o.kind == remove:
		w.alive[ownerOf(o.node)] = false
	case o.node != "":
	case o.kind == create && w.leader:
		return session.ErrNodeExists
	case o.kind == create:
		w.leader, w.record, w.owner, w.version, w.term = true, o.record, i+1, 0, w.zxid
	case !w.leader:
		return session.ErrNoNode
	case o.version != session.AnyVersion && o.version != w.version:
		return session.ErrBadVersion
	case o.kind == remove:
		w.leader, w.record, w.owner = false, record{}, 0
	case o.kind == set:
		w.record = o.record
		w.version++
	}
	return nil
}

func (w *modelWorld) first(i int) bool {
	for j := range crowd {
		if j != i && w.alive[j] && w.who[j].number < w.who[i].number {
			return false
		}
	}
	return w.alive[i]
}

func (w *modelWorld) start(i int, e errand) {
	c := &w.who[i]
	c.errand, c.served, c.reply = e, false, 0
}

func (w *modelWorld) claims(i int) {
	c := &w.who[i]
	c.role, c.maybe = claimant, true
	w.start(i, claims(c.node, "", c.seen, c.again))
	c.again = false
}

func (w *modelWorld) withdraws(i int, node string) {
	c := &w.who[i]
	known := claim{}
	if c.maybe {
		known = claim{node: c.node, held: c.role == leading || c.role == handingOver, zxid: c.term, version: 1}
		if c.role == handingOver {
			known.version = 2
		}
	}
	c.role, c.term = givingUp, 0
	w.start(i, withdraws(node, c.node, known))
}

// deliver hands candidate i the reply, and returns what is wrong.
func (w *modelWorld) deliver(i int, r reply) string {
	c := &w.who[i]
	e, res := c.errand.next(r)
	if !res.done {
		w.start(i, e)
		return ""
	}
	c.errand, c.served = errand{}, false
	switch {
	case c.role == givingUp:
		*c = modelled{gens: c.gens}
	case res.err != nil && errors.Is(res.err, session.ErrUnknownOutcome):
		c.again = true
		w.claims(i)
	case res.err != nil && errors.Is(res.err, session.ErrDisconnected):
		w.claims(i)
	case res.err != nil && !w.alive[i]:
		w.withdraws(i, "")
	case res.err != nil:
		c.role = inLine
	case res.taken:
		c.role, c.maybe, c.seen = inLine, false, handover{}
	default:
		c.role, c.term = leading, res.zxid
		for j := range crowd {
			if j != i && w.who[j].role == leading {
				return "two leaders"
			}
		}
		if c.term <= w.newest {
			return fmt.Sprintf("term %d after %d", c.term, w.newest)
		}
		if w.record.node != c.node || w.term != c.term {
			return "leads without a record"
		}
		w.newest = c.term
	}
	return ""
}

// A move is one thing that can happen, and what is wrong then.
type move struct {
	name string
	to   modelWorld
	bad  string
}

// moves returns everything that can happen. calm are only those that lead on without a
// command or a fault.
func (m *model) moves(w modelWorld, calm bool) []move {
	var all []move
	add := func(name string, i int, do func(w *modelWorld) string) {
		next := w
		all = append(all, move{fmt.Sprintf("%s %d", name, i), next, ""})
		last := &all[len(all)-1]
		last.bad = do(&last.to)
	}
	well := func(do func(w *modelWorld)) func(w *modelWorld) string {
		return func(w *modelWorld) string {
			do(w)
			return ""
		}
	}
	for i := range crowd {
		c := w.who[i]
		asks := c.errand != errand{} && !c.served
		switch {
		case asks:
			add("served", i, well(func(w *modelWorld) {
				if r, done := w.serve(i); done {
					w.answer(i, m.keep(r))
				}
			}))
			kind := c.errand.ask().kind
			if !calm && w.losses > 0 && kind == withdraw { // the janitor looks again
				add("reply lost", i, well(func(w *modelWorld) {
					w.losses--
					w.serve(i)
					w.who[i].looked, w.who[i].saw = false, 0
				}))
			}
			if !calm && w.losses > 0 && (kind == transact || kind == readLeader) {
				lost := reply{err: errUnknown, failed: -1}
				if kind == readLeader {
					lost.err = session.ErrDisconnected
				}
				add("reply lost", i, well(func(w *modelWorld) {
					w.losses--
					w.serve(i)
					w.answer(i, m.keep(lost))
				}))
				add("request lost", i, well(func(w *modelWorld) { w.losses--; w.answer(i, m.keep(lost)) }))
			}
		case c.served:
			add("told", i, func(w *modelWorld) string { return w.deliver(i, m.replies[c.reply]) })
		}
		switch c.role {
		case out:
			if c.gens < 2 && w.numbers < 4 && (i == 0 || w.who[i-1].gens > 0) { // they are alike
				add("joins", i, well(func(w *modelWorld) {
					w.numbers++
					w.who[i] = modelled{role: inLine, node: nodeName(i, c.gens), number: w.numbers, gens: c.gens + 1}
					w.alive[i] = true
				}))
			}
		case inLine:
			if w.first(i) && !w.leader || w.first(i) && !calm {
				add("claims", i, well(func(w *modelWorld) { w.claims(i) }))
			}
			if w.record.successor == c.node && c.seen == (handover{}) {
				add("sees", i, well(func(w *modelWorld) { w.who[i].seen = handover{c.node, w.record.node, w.version} }))
			}
			if c.seen != (handover{}) && w.alive[i] && (!calm || w.record.successor == c.node && w.exists(w.record.node)) {
				add("takes", i, well(func(w *modelWorld) { w.claims(i) }))
			}
			if !w.alive[i] {
				add("is gone", i, well(func(w *modelWorld) { w.who[i] = modelled{gens: c.gens} }))
			}
		case leading:
			if !w.alive[i] || !w.leader || w.term != c.term {
				add("is deposed", i, well(func(w *modelWorld) { w.withdraws(i, map[bool]string{true: c.node}[w.alive[i]]) }))
			}
		case handingOver:
			if !w.alive[i] {
				add("has handed over", i, well(func(w *modelWorld) { w.withdraws(i, "") }))
			} else if w.record.node == c.node && !w.exists(w.record.successor) {
				add("falls back", i, well(func(w *modelWorld) { w.withdraws(i, c.node) }))
			}
		case claimant, givingUp:
		}
		if calm {
			continue
		}
		switch {
		case c.role == leading && w.alive[i]:
			add("resigns", i, well(func(w *modelWorld) { w.withdraws(i, c.node) }))
			for j := range crowd {
				if to := w.who[j]; j != i && w.hands > 0 && w.alive[j] && w.record.node == c.node {
					add("hands over to "+to.node, i, well(func(w *modelWorld) {
						w.hands--
						w.who[i].role, w.who[i].term = handingOver, 0
						w.record.successor = to.node
						w.version++
					}))
				}
			}
		case c.role == handingOver && w.alive[i]:
			add("closes", i, well(func(w *modelWorld) { w.withdraws(i, c.node) }))
		case c.role == claimant && !asks || c.role == inLine && w.alive[i]:
			add("leaves", i, well(func(w *modelWorld) { w.withdraws(i, c.node) }))
		}
		if w.deaths > 0 && c.role != out {
			add("expires", i, well(func(w *modelWorld) {
				w.deaths--
				w.who[i] = modelled{gens: c.gens}
				w.alive[i] = false
				if w.owner == i+1 {
					w.leader, w.record, w.owner = false, record{}, 0
				}
			}))
			add("loses its node to an operator", i, well(func(w *modelWorld) { w.deaths--; w.alive[i] = false }))
		}
	}
	return all
}

// settles returns what is wrong when nothing happens any more but what has to.
func (m *model) settles(w modelWorld) string {
	for range 100 {
		moves := m.moves(w, true)
		if len(moves) == 0 {
			break
		}
		if moves[0].bad != "" {
			return moves[0].bad
		}
		w = moves[0].to
	}
	leaders, standing := 0, 0
	for i, c := range w.who {
		if c.role == leading {
			leaders++
			if !w.leader || w.record.node != c.node || w.owner != i+1 {
				return "leads without a record in the end"
			}
		}
		if c.role != out {
			standing++
		}
		if (c.role != out) != w.alive[i] {
			return "a node is left, or missing"
		}
	}
	switch {
	case standing > 0 && leaders != 1:
		return fmt.Sprintf("%d stand, and %d lead", standing, leaders)
	case standing == 0 && w.leader:
		return "a record is left"
	}
	return ""
}

// TestInterleavings goes, breadth first, through what three candidates, each of whom stands
// at most twice, can do with a transfer or two, lost requests and replies, an expiry, and an
// operator who deletes candidates' nodes.
func TestInterleavings(t *testing.T) {
	if testing.Short() {
		t.Skip("an exploration")
	}
	for _, bounds := range []struct{ losses, deaths, hands int }{{2, 0, 0}, {1, 1, 0}, {0, 0, 2}, {1, 0, 1}, {0, 1, 1}} {
		m := &model{t: t, index: make(map[string]int)}
		start := modelWorld{losses: bounds.losses, deaths: bounds.deaths, hands: bounds.hands}
		type origin struct {
			from modelWorld
			name string
		}
		seen := map[modelWorld]origin{start: {}}
		queue := []modelWorld{start}
		story := func(w modelWorld) string {
			var lines []string
			for w != start {
				o := seen[w]
				lines = append(lines, fmt.Sprintf("%-30s %+v %+v", o.name, w.tree, w.who))
				w = o.from
			}
			slices.Reverse(lines)
			return strings.Join(lines, "\n")
		}
		for len(queue) > 0 && len(seen) < *modelStates {
			w := queue[0]
			queue = queue[1:]
			if bad := m.settles(w); bad != "" {
				t.Fatalf("%s, after\n%s", bad, story(w))
			}
			for _, move := range m.moves(w, false) {
				if move.bad != "" {
					t.Fatalf("%s, after\n%s\n%s %+v", move.bad, story(w), move.name, move.to)
				}
				if _, ok := seen[move.to]; !ok {
					seen[move.to] = origin{w, move.name}
					queue = append(queue, move.to)
				}
			}
		}
		t.Logf("%+v: %d worlds, %d not gone through", bounds, len(seen), len(queue))
	}
}
