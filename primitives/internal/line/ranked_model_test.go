package line

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/session"
)

// This file explores lines with priorities as model_test.go does those without: machines
// over a model of the tree, with what is claimed there, and of the session layer. What
// recipes do in several requests is several steps here, too.

var (
	rankedStates = flag.Int("ranked.states", 90_000, "states of lines with priorities to explore, over all scenarios")
	rankedWalks  = flag.Int("ranked.walks", 4_000, "random walks of lines with priorities, over all scenarios")
)

// A rankedScenario is a start, and what may go wrong, and how often.
type rankedScenario struct {
	name       string
	contenders []Ranked
	sessions   []int // of each contender
	force      bool  // who is asked to leave is made to, some time later
	background bool
	left       rankedFaults
}

type rankedFaults struct{ cuts, ends, strikes, crashes, lates, lessens int8 }

func rankedScenarios() []rankedScenario {
	reader := func(priority int) Ranked { return Ranked{Kind: Read, Priority: priority} }
	writer := func(priority int) Ranked { return Ranked{Kind: Write, Priority: priority} }
	preempting := func(r Ranked) Ranked {
		r.Preempt = true
		return r
	}
	two, three, kin := []int{0, 1}, []int{0, 1, 2}, []int{0, 0, 1}
	w, r := writer, reader
	return []rankedScenario{
		{name: "alone", contenders: []Ranked{w(0)}, sessions: []int{0}, left: rankedFaults{cuts: 2, lates: 1, strikes: 1}},
		{name: "alone, reading", contenders: []Ranked{r(0)}, sessions: []int{0}, left: rankedFaults{cuts: 2, lates: 1, strikes: 1}},
		{name: "alone, lessened", contenders: []Ranked{w(0)}, sessions: []int{0}, left: rankedFaults{cuts: 1, lates: 1, strikes: 1, lessens: 1}},
		{name: "two writers", contenders: []Ranked{w(0), w(5)}, sessions: two, left: rankedFaults{strikes: 1}},
		{name: "two equals", contenders: []Ranked{w(0), w(0)}, sessions: two, left: rankedFaults{strikes: 1, crashes: 1}},
		{name: "writer and reader", contenders: []Ranked{w(0), r(5)}, sessions: two, left: rankedFaults{cuts: 1, lates: 1}},
		{name: "reader and writer", contenders: []Ranked{r(0), w(5)}, sessions: two, left: rankedFaults{cuts: 1, lates: 1}},
		{name: "two readers", contenders: []Ranked{r(0), r(5)}, sessions: two, left: rankedFaults{strikes: 1}},
		{name: "lessened before a writer", contenders: []Ranked{w(0), w(0)}, sessions: two, left: rankedFaults{lessens: 1, strikes: 1}},
		{name: "lessened before a reader", contenders: []Ranked{w(0), r(-1)}, sessions: two, left: rankedFaults{lessens: 1, cuts: 1, lates: 1}},
		{name: "three writers", contenders: []Ranked{w(0), w(5), w(0)}, sessions: three},
		{name: "three of all kinds", contenders: []Ranked{r(0), w(5), r(3)}, sessions: three},
		{name: "three, one session for two", contenders: []Ranked{w(0), r(5), w(3)}, sessions: kin, left: rankedFaults{strikes: 1}},
		{name: "preempted", contenders: []Ranked{w(0), preempting(w(5))}, sessions: two, left: rankedFaults{cuts: 1, lates: 1}},
		{name: "preempted by force", contenders: []Ranked{w(0), preempting(w(5))}, sessions: two, force: true, left: rankedFaults{cuts: 1}},
		{name: "preempted readers by force", contenders: []Ranked{r(0), r(1), preempting(w(5))}, sessions: three, force: true},
		{name: "preempted by force, lessened", contenders: []Ranked{w(0), preempting(w(5))}, sessions: two, force: true, left: rankedFaults{lessens: 1, cuts: 1}},
		{name: "expired", contenders: []Ranked{w(0), w(5), r(3)}, sessions: three, left: rankedFaults{cuts: 1, ends: 1}},
		{name: "late", contenders: []Ranked{w(0), w(5)}, sessions: two, left: rankedFaults{cuts: 2, lates: 2, strikes: 1}},
		{name: "in the background", contenders: []Ranked{w(0), r(5)}, sessions: two, background: true, left: rankedFaults{cuts: 1, lates: 1, strikes: 1}},
		{name: "everything", contenders: []Ranked{w(0), preempting(w(5)), r(3)}, sessions: three, force: true, left: rankedFaults{cuts: 3, ends: 1, strikes: 2, crashes: 1, lates: 2, lessens: 1}},
		{name: "everything, four", contenders: []Ranked{w(0), r(0), preempting(r(5)), preempting(w(3))}, sessions: []int{0, 1, 2, 2}, force: true, left: rankedFaults{cuts: 3, ends: 2, strikes: 2, crashes: 1, lates: 2, lessens: 1}},
		{name: "everything, asked only", contenders: []Ranked{r(0), preempting(w(5)), r(3), w(0)}, sessions: []int{0, 1, 0, 2}, left: rankedFaults{cuts: 3, ends: 2, strikes: 2, crashes: 1, lates: 2, lessens: 1}},
	}
}

type (
	rankedWorld struct {
		s      *rankedScenario
		nodes  []rankedNode // contenders, the holder, and readers, by their paths
		zxid   int64
		number int32
		writes int64 // the highest token of a grant that excluded all others
		tokens int64 // the highest of all
		last   int64 // session id
		links  []rankedLink
		actors []rankedActor
		dying  []rankedLink // sessions that the server has yet to expire: their ids, and what is on the way
		lates  []rankedRequest
		struck []string
		left   rankedFaults
	}
	rankedNode struct {
		path         string
		by           string // of the holder
		czxid, owner int64
		marked       bool
	}
	rankedActor struct {
		Machine
		mail    []Input
		asked   []string // whom it has asked, and overdue: who has had its time
		overdue []string
		leaving bool
		dead    bool
		grammar phase
	}
	rankedLink struct {
		state   linkState
		epoch   int
		count   int
		id      int64
		out     []rankedRequest
		lost    []rankedRequest
		held    []rankedRequest
		watches []rankedWatch
	}
	rankedWatch struct {
		actor int
		at    attempt
		Target
		known bool
		czxid int64
		told  bool // of a mark
	}
	rankedRequest struct {
		actor   int
		do      Effect
		step    int    // of those that take several
		names   string // of a list, before what is read beside it
		session int64  // of a late one
	}
)

func newRankedWorld(s *rankedScenario) *rankedWorld {
	w := &rankedWorld{s: s, zxid: 100, left: s.left, links: make([]rankedLink, slices.Max(s.sessions)+1)}
	for i := range s.contenders {
		w.actors = append(w.actors, rankedActor{Machine: New(actorID(i), s.contenders[i], false, s.background)})
	}
	for i := range w.links {
		w.connect(i)
	}
	return w
}

func (w *rankedWorld) Clone() *rankedWorld {
	c := *w
	c.nodes, c.lates, c.struck = slices.Clone(w.nodes), slices.Clone(w.lates), slices.Clone(w.struck)
	c.links, c.actors, c.dying = slices.Clone(w.links), slices.Clone(w.actors), slices.Clone(w.dying)
	for i := range c.links {
		l := &c.links[i]
		l.out, l.lost, l.held, l.watches = slices.Clone(l.out), slices.Clone(l.lost), slices.Clone(l.held), slices.Clone(l.watches)
	}
	for i := range c.dying {
		c.dying[i].out = slices.Clone(c.dying[i].out)
	}
	for i := range c.actors {
		a := &c.actors[i]
		a.mail, a.asked, a.overdue = slices.Clone(a.mail), slices.Clone(a.asked), slices.Clone(a.overdue)
	}
	return &c
}

// Key is the canonical form of a state.
func (w *rankedWorld) Key(to []byte) []byte {
	b := bytes.NewBuffer(to)
	fmt.Fprint(b, w.nodes, w.zxid, w.number, w.writes, w.tokens, w.last, w.struck, w.left)
	requests := func(all []rankedRequest) {
		for _, r := range all {
			fmt.Fprintf(b, "%d %T%+v %d %s %d;", r.actor, r.do, r.do, r.step, r.names, r.session)
		}
		b.WriteByte('|')
	}
	for _, l := range append(slices.Clone(w.links), w.dying...) {
		fmt.Fprint(b, l.state, l.epoch, l.count, l.id, l.watches)
		requests(l.out)
		requests(l.lost)
		requests(l.held)
	}
	requests(w.lates)
	for _, a := range w.actors {
		m := a.Machine
		fmt.Fprint(b, m, m.session, m.kin, m.listing, m.said, a.asked, a.overdue, a.leaving, a.dead, a.grammar)
		for _, in := range a.mail {
			switch in := in.(type) {
			case failed:
				fmt.Fprintf(b, "failed %T%+v %s;", in.what, in.what, in.err)
			case Downgrade:
				b.WriteString("downgrade;")
			case Leave, Look, Take, announced, asked, changed, claimed, gone, heard, inspected, joined, listed, made,
				marked, occupied, watched, withdrawn:
				fmt.Fprintf(b, "%T%+v;", in, in)
			}
		}
	}
	return b.Bytes()
}

// --- what can happen

func (w *rankedWorld) Actions() (normal, faulty []action) {
	add := func(all *[]action, kind string, i, variants int) {
		for v := range variants {
			*all = append(*all, action{kind: kind, i: i, variant: v})
		}
	}
	for i, a := range w.actors {
		switch {
		case a.dead:
			continue
		case len(a.mail) > 0:
			add(&normal, "step", i, 1)
		}
		if !a.leaving && !a.Ended() {
			add(&normal, "leave", i, 1)
		}
		if w.s.force && !a.Ended() {
			for j, node := range a.asked {
				if !slices.Contains(a.overdue, node) {
					add(&normal, "wait", i*10+j, 1)
				}
			}
		}
		if w.left.lessens > 0 && a.Holding() && a.to == "" && a.rule.(Ranked).Kind == Write {
			add(&faulty, "lessen", i, 1)
		}
	}
	for i, l := range w.links {
		if w.crashed(i) {
			continue
		}
		if l.state != down && len(l.out) > 0 {
			add(&normal, "serve", i, 1)
		}
		switch {
		case l.epoch == 0:
			add(&normal, "connect", i, 1)
		case l.state == up && w.left.cuts > 0:
			add(&faulty, "cut", i, 1)
		case l.state == cut:
			variants := 1
			if w.left.lates > 0 && slices.ContainsFunc(l.out, lasting) {
				variants = 2
			}
			add(&normal, "notice", i, variants)
		case l.state == down:
			add(&normal, "reconnect", i, 1)
		}
		if w.left.ends > 0 && l.epoch != 0 && l.state != up {
			add(&faulty, "expire", i, 1)
		}
		if w.left.crashes > 0 {
			add(&faulty, "crash", i, 1)
		}
	}
	for i, d := range w.dying {
		add(&normal, "bury", i, 1)
		if len(d.out) > 0 {
			add(&normal, "straggle", i, 1)
		}
	}
	for i := range w.lates {
		add(&normal, "late", i, 2)
	}
	if w.left.strikes > 0 {
		for _, n := range w.nodes {
			faulty = append(faulty, action{kind: "strike", node: n.path})
		}
	}
	return normal, faulty
}

// lasting reports whether a request may be executed late to some effect.
func lasting(r rankedRequest) bool {
	switch r.do.(type) {
	case createNode, claim, changeNode:
		return true
	case announce, complain, answer, ask, inspectParent, listParent, makeParent, unwatchTarget, watchTarget, withdrawAll, withdrawNode:
	}
	return false
}

// stragglers are the requests of a session that has ended for its client.
func (l rankedLink) stragglers() []rankedRequest {
	return slices.DeleteFunc(slices.Clone(l.out), func(r rankedRequest) bool { return !lasting(r) })
}

// bereave leaves a session to the server, which will find out later.
func (w *rankedWorld) bereave(i int) {
	l := &w.links[i]
	if l.epoch != 0 {
		w.dying = append(w.dying, rankedLink{id: l.id, out: l.stragglers()})
	}
	w.lates = slices.DeleteFunc(w.lates, func(r rankedRequest) bool { return r.session == l.id })
	*l = rankedLink{state: down, count: l.count}
}

func (w *rankedWorld) crashed(link int) bool {
	for i, s := range w.s.sessions {
		if s == link && !w.actors[i].dead {
			return false
		}
	}
	return true
}

func (w *rankedWorld) Apply(a action) {
	switch a.kind {
	case "step":
		w.step(a.i)
	case "leave":
		w.actors[a.i].leaving = true
		w.mail(a.i, Leave{})
	case "lessen":
		w.left.lessens--
		w.mail(a.i, Downgrade{actors.Reply[error]{}})
	case "wait":
		actor := &w.actors[a.i/10]
		node := actor.asked[a.i%10]
		actor.overdue = append(actor.overdue, node)
		w.mail(a.i/10, asked{actor.attempt, node, true})
	case "serve":
		l := &w.links[a.i]
		r := l.out[0]
		l.out = l.out[1:]
		w.serve(a.i, r)
	case "connect":
		w.connect(a.i)
	case "cut":
		w.left.cuts--
		w.links[a.i].state = cut
	case "notice":
		w.notice(a.i, a.variant == 1)
	case "reconnect":
		w.reconnect(a.i)
	case "expire":
		w.left.ends--
		w.expire(a.i)
	case "crash":
		w.left.crashes--
		for i, s := range w.s.sessions {
			if s == a.i {
				w.actors[i].dead, w.actors[i].mail = true, nil
			}
		}
		w.bereave(a.i)
	case "bury":
		id := w.dying[a.i].id
		w.dying = slices.Delete(w.dying, a.i, a.i+1)
		for _, n := range slices.Clone(w.nodes) {
			if n.owner == id {
				w.delete(n.path)
			}
		}
	case "straggle":
		d := &w.dying[a.i]
		r := d.out[0]
		d.out = d.out[1:]
		w.execute(r, d.id)
	case "late":
		r := w.lates[a.i]
		w.lates = slices.Delete(w.lates, a.i, a.i+1)
		if a.variant == 0 {
			w.execute(r, r.session)
		}
	case "strike":
		w.left.strikes--
		if i := w.find(a.node); w.nodes[i].by != "" {
			w.struck = append(w.struck, w.nodes[i].by)
		}
		w.struck = append(w.struck, strings.TrimPrefix(a.node, ReadersNode+"/"))
		w.delete(a.node)
	}
	w.check()
}

// --- the server

func (w *rankedWorld) find(path string) int {
	return slices.IndexFunc(w.nodes, func(n rankedNode) bool { return n.path == path })
}

func (w *rankedWorld) create(path, by string, owner int64) {
	w.nodes = append(w.nodes, rankedNode{path: path, by: by, czxid: w.zxid, owner: owner})
}

func (w *rankedWorld) delete(path string) {
	i := w.find(path)
	if i < 0 {
		return
	}
	w.nodes = slices.Delete(w.nodes, i, i+1)
	for j := range w.links {
		l := &w.links[j]
		if l.state != up || l.epoch == 0 {
			continue
		}
		for _, e := range slices.Clone(l.watches) {
			if e.known && e.path() == path {
				w.fire(j, e)
			}
		}
	}
}

func (w *rankedWorld) fire(link int, e rankedWatch) {
	l := &w.links[link]
	l.watches = slices.DeleteFunc(l.watches, func(o rankedWatch) bool { return o.actor == e.actor && o.Target == e.Target })
	w.mail(e.actor, gone{e.at, e.Target})
}

// path is where what is watched stands.
func (t Target) path() string {
	if t.Until == Claim {
		return claimPath(t.Node)
	}
	return t.Node
}

func claimPath(node string) string {
	if r, _ := ParseRank(node); r.Kind == Read {
		return ReadersNode + "/" + node
	}
	return HolderNode
}

func (w *rankedWorld) standing() (s Standing) {
	for _, n := range w.nodes {
		if n.path == HolderNode {
			s.Holder = n.by
		} else if reader, ok := strings.CutPrefix(n.path, ReadersNode+"/"); ok {
			s.Readers = append(s.Readers, reader)
		}
	}
	return s
}

func (w *rankedWorld) names() (names []string) {
	for _, n := range w.nodes {
		if !strings.Contains(n.path, "/") {
			names = append(names, n.path)
		}
	}
	return names
}

// claim is the transaction of a claim.
func (w *rankedWorld) claim(node string, owner int64) error {
	s := w.standing()
	switch {
	case w.find(node) < 0:
		return session.ErrNoNode
	case s.Holder != "", w.find(claimPath(node)) >= 0:
		return session.ErrNodeExists
	case claimPath(node) == HolderNode && len(s.Readers) > 0:
		return session.ErrNotEmpty
	}
	w.zxid++
	by := ""
	if claimPath(node) == HolderNode {
		by = node
	}
	w.create(claimPath(node), by, owner)
	return nil
}

// unclaim removes what is claimed by nodes whose names begin so.
func (w *rankedWorld) unclaim(prefix string) {
	for _, n := range slices.Clone(w.nodes) {
		if n.path == HolderNode && strings.HasPrefix(n.by, prefix) || strings.HasPrefix(n.path, ReadersNode+"/"+prefix) {
			w.delete(n.path)
		}
	}
}

// execute does what a request asks for, and returns the answer to it; nil if there is
// more to do.
func (w *rankedWorld) execute(r rankedRequest, owner int64) Input {
	switch e := r.do.(type) {
	case inspectParent:
		return inspected{e.attempt, true, false}
	case createNode:
		w.zxid++
		name := fmt.Sprintf("%s%010d", w.actors[r.actor].rule.Name(e.guid), w.number)
		w.number++
		w.create(name, "", owner)
		return joined{attempt: e.attempt, node: name}
	case listParent:
		if r.step == 0 {
			return nil
		}
		return listed{e.attempt, Sight{Names: strings.Fields(r.names), Data: w.standing().String()}}
	case claim:
		path := claimPath(e.node)
		err := w.claim(e.node, owner)
		i := w.find(path)
		if err != nil && (i < 0 || path == HolderNode && w.nodes[i].by != e.node) {
			return failed{e, err}
		}
		return claimed{e.attempt, w.nodes[i].czxid}
	case changeNode:
		if h := w.find(HolderNode); w.find(e.from) < 0 || h < 0 || w.nodes[h].by != e.from {
			return failed{e, session.ErrNoNode}
		}
		w.zxid++
		w.create(e.to, "", owner)
		w.create(claimPath(e.to), "", owner)
		w.delete(e.from)
		w.delete(HolderNode)
		return changed{e.attempt}
	case ask:
		a := &w.actors[r.actor]
		if slices.Contains(a.overdue, e.node) {
			w.struck = append(w.struck, e.node)
			if w.delete(e.node); r.step == 0 {
				return nil
			}
			w.unclaim(e.node)
			return asked{e.attempt, e.node, false}
		}
		if !slices.Contains(a.asked, e.node) {
			a.asked = append(a.asked, e.node)
		}
		if i := w.find(e.node); i >= 0 {
			w.nodes[i].marked = true
			w.tellMarks()
		}
		return asked{e.attempt, e.node, false}
	case withdrawNode:
		if r.step == 0 {
			w.delete(e.node)
			return nil
		}
		w.unclaim(e.node)
		return withdrawn(e)
	case withdrawAll:
		if r.step == 0 {
			w.lates = slices.DeleteFunc(w.lates, func(r rankedRequest) bool {
				c, ok := r.do.(createNode)
				d, is := r.do.(changeNode)
				return ok && c.guid == e.guid || is && strings.HasPrefix(d.to, Published(e.guid))
			})
			for _, n := range slices.Clone(w.nodes) {
				if strings.HasPrefix(n.path, Published(e.guid)) {
					w.delete(n.path)
				}
			}
			return nil
		}
		w.unclaim(Published(e.guid))
		return withdrawn{attempt: e.attempt}
	case makeParent, watchTarget, unwatchTarget, announce, complain, answer:
	}
	panic(fmt.Sprintf("%T on the wire", r.do))
}

func (w *rankedWorld) serve(i int, r rankedRequest) {
	l := &w.links[i]
	if e, ok := r.do.(watchTarget); ok {
		if l.state == up {
			w.plant(i, r, e)
		}
		return
	}
	names := strings.Join(w.names(), " ")
	in := w.execute(r, l.id)
	switch l = &w.links[i]; {
	case l.state != up:
		l.lost = append(l.lost, r)
	case in == nil:
		r.step++
		r.names = names
		l.out = append(l.out, r)
	default:
		w.mail(r.actor, in)
	}
}

func (w *rankedWorld) plant(i int, r rankedRequest, e watchTarget) {
	l := &w.links[i]
	j := slices.IndexFunc(l.watches, func(o rankedWatch) bool { return o.actor == r.actor && o.Target == e.target })
	if j < 0 {
		return // it was given up
	}
	n := w.find(e.target.path())
	if n < 0 {
		l.watches = slices.Delete(l.watches, j, j+1)
		w.mail(r.actor, failed{e, session.ErrNoNode})
		return
	}
	l.watches[j].known, l.watches[j].czxid = true, w.nodes[n].czxid
	w.mail(r.actor, watched{e.attempt, e.target, w.nodes[n].czxid, w.nodes[n].owner, false})
	w.tellMarks()
}

// tellMarks tells whoever watches a node with a mark of it, once.
func (w *rankedWorld) tellMarks() {
	for i := range w.links {
		l := &w.links[i]
		for j := range l.watches {
			e := &l.watches[j]
			if n := w.find(e.path()); l.state == up && e.known && !e.told && e.Until == Gone && n >= 0 && w.nodes[n].marked {
				e.told = true
				w.mail(e.actor, marked{e.at, e.Target, time.Time{}})
			}
		}
	}
}

// --- the session

func (w *rankedWorld) mail(i int, in Input) {
	if a := &w.actors[i]; !a.dead && !a.Ended() {
		a.mail = append(a.mail, in)
	}
}

func (w *rankedWorld) tell(link int, in Input) {
	for i, s := range w.s.sessions {
		if s == link {
			w.mail(i, in)
		}
	}
}

func (w *rankedWorld) connect(i int) {
	l := &w.links[i]
	w.last++
	*l = rankedLink{epoch: l.count + 1, count: l.count + 1, id: w.last}
	w.tell(i, heard{session.Connected{Epoch: l.epoch, ID: l.id}})
}

func (w *rankedWorld) submit(actor int, do Effect) {
	l := &w.links[w.s.sessions[actor]]
	if do.of().epoch != l.epoch {
		w.refuse(rankedRequest{actor: actor, do: do}, session.ErrExpired)
		return
	}
	switch e := do.(type) {
	case complain, answer:
		return
	case watchTarget:
		l.watches = append(l.watches, rankedWatch{actor: actor, at: e.attempt, Target: e.target})
	case unwatchTarget:
		l.watches = slices.DeleteFunc(l.watches, func(o rankedWatch) bool { return o.actor == actor && o.Target == e.target })
		return
	case announce, ask, changeNode, claim, createNode, inspectParent, listParent, makeParent, withdrawAll, withdrawNode:
	}
	r := rankedRequest{actor: actor, do: do}
	if l.state == down {
		l.held = append(l.held, r)
	} else {
		l.out = append(l.out, r)
	}
}

func (w *rankedWorld) refuse(r rankedRequest, err error) {
	switch e := r.do.(type) {
	case withdrawNode:
		w.mail(r.actor, withdrawn(e))
	case withdrawAll:
		w.mail(r.actor, withdrawn{attempt: e.attempt})
	case unwatchTarget, complain, answer, ask:
	case announce, changeNode, claim, createNode, inspectParent, listParent, makeParent, watchTarget:
		w.mail(r.actor, failed{r.do, err})
	}
}

func (w *rankedWorld) notice(i int, late bool) {
	l := &w.links[i]
	l.state = down
	w.tell(i, heard{session.Suspended{}})
	unknown := errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)
	again := []rankedRequest{}
	for n, r := range append(l.lost, l.out...) {
		switch r.do.(type) {
		case inspectParent, listParent:
			w.refuse(r, session.ErrDisconnected)
		case createNode, claim, changeNode:
			if n >= len(l.lost) && late && w.left.lates > 0 {
				w.left.lates--
				w.lates = append(w.lates, rankedRequest{actor: r.actor, do: r.do, session: l.id})
			}
			w.refuse(r, unknown)
		case ask, withdrawNode, withdrawAll:
			r.step = 0
			again = append(again, r)
		case announce, complain, answer, makeParent, unwatchTarget, watchTarget: // set again after the reconnect, if at all
		}
	}
	l.out, l.lost, l.held = nil, nil, append(again, l.held...)
}

func (w *rankedWorld) reconnect(i int) {
	l := &w.links[i]
	l.state = up
	w.tell(i, heard{session.Resumed{}})
	var pending []rankedRequest
	for _, e := range slices.Clone(l.watches) {
		switch n := w.find(e.path()); {
		case !e.known:
			pending = append(pending, rankedRequest{actor: e.actor, do: watchTarget{e.at, e.Target}})
		case n < 0 || w.nodes[n].czxid != e.czxid:
			w.fire(i, e)
		}
	}
	w.tellMarks()
	held := slices.DeleteFunc(l.held, func(r rankedRequest) bool { _, ok := r.do.(watchTarget); return ok })
	l.held, l.out = nil, append(pending, held...)
}

// expire ends a session on the side of the client.
func (w *rankedWorld) expire(i int) {
	l := &w.links[i]
	w.tell(i, heard{session.Expired{Epoch: l.epoch}})
	pending := slices.Concat(l.lost, l.out, l.held)
	w.bereave(i)
	for _, r := range pending {
		w.refuse(r, session.ErrExpired)
	}
}

// --- the machines, and what must hold

func (w *rankedWorld) step(i int) {
	a := &w.actors[i]
	in := a.mail[0]
	a.mail = a.mail[1:]
	before := a.attempt
	doomed := expires(in) || w.struckAny(i)
	var out Effects
	a.Machine, out = a.Step(in)
	if a.Ended() {
		a.mail = nil
	}
	if a.attempt != before {
		a.asked, a.overdue = nil, nil // what it remembers too well does no harm
	}
	for _, ev := range out.Emit {
		if a.grammar = a.grammar.next(ev); a.grammar == broken {
			panic(violation(fmt.Sprintf("contender %d: %v breaks the grammar", i, ev)))
		}
		switch ev := ev.(type) {
		case Acquired:
			if !w.doomed(i) {
				w.granted(i)
			}
		case Lost:
			if !doomed {
				panic(violation(fmt.Sprintf("contender %d has lost for nothing: %v", i, ev.Err)))
			}
		case Released, Resumed, Revoked, Suspended, Waiting:
		}
	}
	for _, e := range out.Do {
		w.submit(i, e)
	}
}

// granted checks that tokens grow with those who exclude others.
func (w *rankedWorld) granted(i int) {
	m := w.actors[i].Machine
	n := w.find(claimPath(m.node))
	switch {
	case w.find(m.node) < 0 || n < 0:
		panic(violation(fmt.Sprintf("contender %d holds what it has not", i)))
	case w.nodes[n].czxid != m.token:
		panic(violation(fmt.Sprintf("contender %d: token %d of a claim at %d", i, m.token, w.nodes[n].czxid)))
	case m.token <= w.writes, m.rule.(Ranked).Kind != Read && m.token <= w.tokens:
		panic(violation(fmt.Sprintf("contender %d: token %d after %d and %d", i, m.token, w.writes, w.tokens)))
	}
	w.tokens = max(w.tokens, m.token)
	if m.rule.(Ranked).Kind != Read {
		w.writes = m.token
	}
}

// struckAny reports whether somebody else has deleted anything of a contender's attempt.
func (w *rankedWorld) struckAny(i int) bool {
	a := w.actors[i]
	return slices.ContainsFunc(w.struck, func(node string) bool { return strings.HasPrefix(node, Published(a.guid())) })
}

// doomed reports whether a contender's claim is over, and it has yet to hear of it.
func (w *rankedWorld) doomed(i int) bool {
	a := w.actors[i]
	return a.dead || slices.Contains(w.struck, a.node) || a.to != "" && slices.Contains(w.struck, a.to) || slices.ContainsFunc(a.mail, expires)
}

func (w *rankedWorld) check() {
	var writers, readers []int
	for i, a := range w.actors {
		switch {
		case a.dead || !a.Holding() || w.doomed(i):
		case a.rule.(Ranked).Kind == Read:
			readers = append(readers, i)
		case a.to != "" && w.find(a.to) >= 0: // a reader, and does not know it yet
			readers = append(readers, i)
		default:
			writers = append(writers, i)
		}
	}
	if len(writers) > 1 || len(writers) == 1 && len(readers) > 0 {
		panic(violation(fmt.Sprintf("writers %v and readers %v hold the lock", writers, readers)))
	}
	for _, a := range w.actors {
		if len(a.mail) > 0 {
			return
		}
	}
	for i, l := range w.links {
		if !w.crashed(i) && (l.state != up || l.epoch == 0 || len(l.out)+len(l.held) > 0) {
			return
		}
	}
	if len(w.dying) == 0 && len(w.lates) == 0 {
		w.checkQuiet()
	}
}

// checkQuiet holds when nothing will happen unless somebody makes it.
func (w *rankedWorld) checkQuiet() {
	sight := Sight{Names: w.names(), Data: w.standing().String()}
	for i, a := range w.actors {
		if a.dead || a.Ended() {
			continue
		}
		l := w.links[w.s.sessions[i]]
		watches := func(t Target) bool {
			return w.find(t.path()) >= 0 && slices.ContainsFunc(l.watches, func(e rankedWatch) bool { return e.actor == i && e.Target == t && e.known })
		}
		p := a.rule.Locate(sight, a.node, a.guid())
		switch {
		case a.state != waiting && a.state != held:
			panic(violation(fmt.Sprintf("contender %d is stuck: %v", i, a.Machine)))
		case !watches(deletion(a.node)):
			panic(violation(fmt.Sprintf("contender %d does not watch its node: %v", i, a.Machine)))
		case a.state == waiting && p.Ahead == 0:
			panic(violation(fmt.Sprintf("contender %d waits for nobody: %v", i, a.Machine)))
		case !watches(a.target):
			panic(violation(fmt.Sprintf("contender %d watches nothing: %v", i, a.Machine)))
		case a.state == waiting && slices.ContainsFunc(p.Ask, func(node string) bool {
			return a.target.Node == claimPath(node) && w.find(node) >= 0 && !w.nodes[w.find(node)].marked
		}):
			panic(violation(fmt.Sprintf("contender %d has not asked whom it watches: %v", i, a.Machine)))
		case a.state == waiting && slices.ContainsFunc(p.Ask, func(node string) bool { return a.target.Node == claimPath(node) && slices.Contains(a.overdue, node) }):
			panic(violation(fmt.Sprintf("contender %d is too patient: %v", i, a.Machine)))
		case a.state == held && claimPath(a.node) == HolderNode && w.standing().Holder != a.node:
			panic(violation(fmt.Sprintf("contender %d holds what another has: %v", i, a.Machine)))
		}
	}
	if len(sight.Names) > 0 && w.standing().Holder == "" && len(w.standing().Readers) == 0 {
		panic(violation("somebody waits and nobody holds"))
	}
	for _, n := range w.nodes {
		if !slices.ContainsFunc(w.actors, func(a rankedActor) bool {
			own := n.path == a.node || a.suspect && strings.HasPrefix(n.path, Published(a.guid()))
			claim := a.Holding() && n.path == claimPath(a.node) && (n.by == a.node || n.by == "")
			return !a.dead && !a.Ended() && (own || claim)
		}) {
			panic(violation(fmt.Sprintf("%s is a ghost", n.path)))
		}
	}
	for i, l := range w.links {
		for _, e := range l.watches {
			if a := w.actors[e.actor]; !a.dead && (a.Ended() || e.Target != deletion(a.node) && e.Target != a.target) && w.find(e.path()) >= 0 {
				panic(violation(fmt.Sprintf("contender %d still watches %s through %d", e.actor, e.Target, i)))
			}
		}
	}
}

// --- exploration

// walkRanked goes at random until everything is over.
func walkRanked(s *rankedScenario, r *rand.Rand) (trace []action, err error) {
	w := newRankedWorld(s)
	faultiness, impatience, calm := r.Float64()/4, r.Float64()/5, 0
	for range 5000 {
		normal, faulty := w.Actions()
		own := slices.DeleteFunc(slices.Clone(normal), func(a action) bool { return a.kind == "leave" })
		switch {
		case len(own) == 0:
			calm = 0
		case calm > 1:
			calm--
		case calm == 1:
			return trace, errors.New("no rest in 500 steps")
		case r.IntN(50) == 0:
			calm = 500
		}
		if len(own) > 0 && (calm > 0 || r.Float64() > impatience) {
			normal = own
		}
		choice := normal
		if calm == 0 && len(faulty) > 0 && (len(normal) == 0 || r.Float64() < faultiness) {
			choice = faulty
		}
		if len(choice) == 0 {
			for i, a := range w.actors {
				if !a.dead && !a.Ended() {
					return trace, fmt.Errorf("contender %d never ends: %v", i, a.Machine)
				}
			}
			return trace, nil
		}
		a := choice[r.IntN(len(choice))]
		trace = append(trace, a)
		if w, err = exploration.Try(w, a); err != nil {
			return trace, err
		}
	}
	return trace, errors.New("no end in 5000 steps")
}

func tellRankedStory(t *testing.T, s *rankedScenario, trace []action) {
	t.Helper()
	w := newRankedWorld(s)
	for _, a := range trace {
		what := a.String()
		if a.kind == "step" {
			what += fmt.Sprintf(": %T%v", w.actors[a.i].mail[0], w.actors[a.i].mail[0])
		}
		if a.kind == "serve" {
			what += fmt.Sprintf(": %T%v", w.links[a.i].out[0].do, w.links[a.i].out[0].do)
		}
		next, err := exploration.Try(w, a)
		if a.kind == "step" && next != nil {
			what += fmt.Sprintf("\n\t-> %v", next.actors[a.i].Machine)
		}
		t.Log(what)
		if err != nil {
			return
		}
		w = next
	}
}

func TestRankedModel(t *testing.T) {
	if testing.Short() {
		t.Skip("explores many states")
	}
	total, all := 0, rankedScenarios()
	for i := range all {
		s := &all[i]
		t.Run(s.name, func(t *testing.T) {
			states, complete, trace, err := exploration.Explore(newRankedWorld(s), (*rankedStates-total)/(len(all)-i))
			if err != nil {
				tellRankedStory(t, s, trace)
				t.Fatalf("%v, %d states", err, states)
			}
			total += states
			r := rand.New(rand.NewPCG(2, uint64(i)))
			steps := 0
			for range *rankedWalks / len(all) {
				trace, err := walkRanked(s, r)
				if err != nil {
					if v := violation(""); errors.As(err, &v) {
						trace = exploration.Shorten(newRankedWorld(s), trace)
					}
					tellRankedStory(t, s, trace)
					t.Fatalf("%v, in a random walk", err)
				}
				steps += len(trace)
			}
			t.Logf("%d states, complete: %v; %d random steps", states, complete, steps)
		})
	}
	t.Logf("%d states", total)
}
