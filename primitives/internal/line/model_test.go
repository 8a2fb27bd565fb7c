package line

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/session"
)

// This file explores several lock machines over a model of ZooKeeper and of the
// session layer: every interleaving, breadth first, up to a number of states, and
// random walks beyond. What the model takes for granted of a session is what
// Machine.go takes for granted.

var (
	modelStates = flag.Int("model.states", 300_000, "states to explore, over all scenarios")
	modelWalks  = flag.Int("model.walks", 9_000, "random walks, over all scenarios")
)

// A scenario is a start, and what may go wrong.
type scenario struct {
	name       string
	sessions   []int    // of each contender, its session
	kinds      []Kind   // likewise; nil if all are exclusive
	missing    bool     // there is no parent
	data       bool     // the parent carries data
	noAuth     bool     // the parent's data may not be written
	children   []string // foreign
	warm       bool     // the parent was seen to be empty
	container  bool     // the parent is reaped when empty
	background bool
	weak       bool // after a reconnect, watches that were not answered are set after what waited, not before
	faults     faults
	deep       int // how much more than others it takes to find what it is for; 0 for 1
}

// faults are how often each may happen.
type faults struct{ cuts, ends, closes, strikes, razes, reaps, crashes, zombies, marks, refusals int8 }

var scenarios = []scenario{
	{name: "alone", sessions: []int{0}, missing: true, faults: faults{cuts: 1, strikes: 1}},
	{name: "alone, warm", sessions: []int{0}, warm: true, container: true, faults: faults{cuts: 1, ends: 1, reaps: 1}},
	{name: "alone, late create", sessions: []int{0}, warm: true, faults: faults{cuts: 1, zombies: 1, strikes: 1}},
	{name: "alone, data in the parent", sessions: []int{0}, data: true, weak: true, faults: faults{cuts: 1, strikes: 1, razes: 1}},
	{name: "alone, closed", sessions: []int{0}, warm: true, faults: faults{cuts: 1, closes: 1}},
	{name: "asked for, the heir", sessions: []int{0, 1}, warm: true, faults: faults{marks: 1, strikes: 1}, deep: 10},
	{name: "two", sessions: []int{0, 1}, warm: true},
	{name: "two, cold, one session", sessions: []int{0, 0}, missing: true},
	{name: "two, one struck", sessions: []int{0, 1}, warm: true, faults: faults{strikes: 1}},
	{name: "two, one crashed", sessions: []int{0, 1}, warm: true, faults: faults{crashes: 1}},
	{name: "calm", sessions: []int{0, 1, 2}, warm: true},
	{name: "calm, one session for two", sessions: []int{0, 0, 1}, warm: true},
	{name: "cold", sessions: []int{0, 1, 2}, missing: true},
	{name: "cold start, reaped and razed", sessions: []int{0, 1}, missing: true, container: true, faults: faults{reaps: 2, razes: 1}},
	{name: "data in the parent", sessions: []int{0, 1, 2}, data: true, faults: faults{strikes: 1}},
	{name: "parent not ours to write", sessions: []int{0, 1}, noAuth: true, warm: true, faults: faults{razes: 1, cuts: 1}},
	{name: "foreign children", sessions: []int{0, 1, 2}, warm: true, children: []string{"config", "_c_x", "lock-x"}},
	{name: "operator", sessions: []int{0, 1, 2}, warm: true, faults: faults{strikes: 2}},
	{name: "operator, one session", sessions: []int{0, 0, 0}, warm: true, faults: faults{strikes: 2}},
	{name: "razed", sessions: []int{0, 1, 2}, warm: true, faults: faults{razes: 1, strikes: 1}},
	{name: "disconnected", sessions: []int{0, 1}, warm: true, faults: faults{cuts: 2}},
	{name: "disconnected, watches last", sessions: []int{0, 1, 2}, warm: true, weak: true, faults: faults{cuts: 1, strikes: 1}},
	{name: "disconnected alone", sessions: []int{0}, missing: true, faults: faults{cuts: 3, razes: 1}},
	{name: "disconnected in the plain recipe", sessions: []int{0, 1}, data: true, weak: true, faults: faults{cuts: 1, razes: 1}},
	{name: "late creates", sessions: []int{0, 1}, warm: true, faults: faults{cuts: 2, zombies: 1}},
	{name: "late creates, struck", sessions: []int{0}, warm: true, faults: faults{cuts: 2, zombies: 2, strikes: 2, razes: 1}},
	{name: "expired", sessions: []int{0, 1, 2}, warm: true, faults: faults{cuts: 1, ends: 1}},
	{name: "expired, one session for two", sessions: []int{0, 0, 1}, warm: true, faults: faults{cuts: 1, ends: 1}},
	{name: "expired alone", sessions: []int{0}, missing: true, faults: faults{cuts: 3, ends: 2, strikes: 1}},
	{name: "crashed", sessions: []int{0, 1, 2}, warm: true, faults: faults{crashes: 2}},
	{name: "closed", sessions: []int{0, 0, 1}, warm: true, faults: faults{closes: 1, cuts: 1}},
	{name: "in the background", sessions: []int{0, 1}, warm: true, background: true, faults: faults{cuts: 1, strikes: 1}},
	{name: "reader and writer", sessions: []int{0, 1}, kinds: []Kind{Read, Write}, warm: true, faults: faults{cuts: 1}},
	{name: "writer, reader, writer", sessions: []int{0, 1, 2}, kinds: []Kind{Write, Read, Write}, warm: true},
	{name: "reader, exclusive, reader", sessions: []int{0, 1, 2}, kinds: []Kind{Read, Exclusive, Read}, missing: true, faults: faults{strikes: 1}},
	{name: "readers of one session, and writers", sessions: []int{0, 0, 1, 1}, kinds: []Kind{Read, Read, Write, Write}, warm: true},
	{name: "readers and writers, data in the parent", sessions: []int{0, 1, 2}, kinds: []Kind{Read, Write, Read}, data: true, weak: true, faults: faults{cuts: 1, strikes: 1}},
	{name: "readers, cold, reaped and razed", sessions: []int{0, 1}, kinds: []Kind{Read, Read}, missing: true, container: true, faults: faults{reaps: 2, razes: 1, cuts: 1}},
	{name: "reader alone", sessions: []int{0}, kinds: []Kind{Read}, missing: true, faults: faults{cuts: 2, zombies: 1, strikes: 1, razes: 1}},
	{name: "reader, parent not ours to write", sessions: []int{0, 1}, kinds: []Kind{Read, Write}, warm: true, noAuth: true, faults: faults{cuts: 1, razes: 1}},
	{name: "readers and writers crash", sessions: []int{0, 1, 2}, kinds: []Kind{Write, Read, Write}, warm: true, faults: faults{crashes: 2}},
	{name: "readers and writers expire", sessions: []int{0, 1, 2}, kinds: []Kind{Read, Write, Read}, warm: true, faults: faults{cuts: 1, ends: 1}},
	{name: "downgrade alone", sessions: []int{0}, kinds: []Kind{Write}, warm: true, faults: faults{cuts: 2, zombies: 2, strikes: 1, ends: 1}},
	{name: "downgrade refused", sessions: []int{0}, kinds: []Kind{Write}, warm: true, faults: faults{cuts: 1, zombies: 1, strikes: 1, refusals: 1}},
	{name: "downgrade alone, in the background", sessions: []int{0}, kinds: []Kind{Write}, warm: true, background: true, faults: faults{cuts: 2, zombies: 1, strikes: 1, closes: 1}},
	{name: "downgrade before a writer and a reader", sessions: []int{0, 1, 2}, kinds: []Kind{Write, Write, Read}, warm: true},
	{name: "downgrade, cut", sessions: []int{0, 1}, kinds: []Kind{Write, Write}, warm: true, faults: faults{cuts: 1, zombies: 1}},
	{name: "downgrade, struck", sessions: []int{0, 1}, kinds: []Kind{Write, Read}, warm: true, faults: faults{cuts: 1, strikes: 2}},
	{name: "downgrade, expired", sessions: []int{0, 1}, kinds: []Kind{Write, Exclusive}, warm: true, faults: faults{cuts: 1, ends: 1, zombies: 1}},
	{name: "downgrade, razed", sessions: []int{0, 1}, kinds: []Kind{Write, Read}, data: true, weak: true, faults: faults{cuts: 1, razes: 1}},
	{name: "downgrade before an exclusive line", sessions: []int{0, 1, 1}, kinds: []Kind{Write, Exclusive, Exclusive}, warm: true, faults: faults{strikes: 1}},
	{name: "asked for alone", sessions: []int{0}, warm: true, faults: faults{cuts: 2, marks: 2, strikes: 2}},
	{name: "asked for in line", sessions: []int{0, 1, 2}, warm: true, faults: faults{marks: 2, strikes: 2}},
	{name: "asked for in one session", sessions: []int{0, 0}, warm: true, faults: faults{marks: 2, strikes: 2, cuts: 1}},
	{name: "asked for, and downgraded", sessions: []int{0, 1}, kinds: []Kind{Write, Write}, warm: true, faults: faults{marks: 2, strikes: 1, cuts: 1}},
	{name: "everything shared", sessions: []int{0, 1, 2, 3}, kinds: []Kind{Write, Read, Write, Read}, missing: true, container: true, weak: true, faults: faults{cuts: 3, ends: 1, strikes: 2, razes: 1, reaps: 1, crashes: 1, zombies: 2, marks: 2, refusals: 1}},
	{name: "everything shared, two sessions", sessions: []int{0, 0, 1, 1}, kinds: []Kind{Write, Read, Exclusive, Write}, warm: true, faults: faults{cuts: 3, ends: 2, strikes: 2, razes: 1, zombies: 2, marks: 2, refusals: 1}},
	{name: "everything", sessions: []int{0, 1, 2}, missing: true, container: true, weak: true, faults: faults{cuts: 3, ends: 1, strikes: 2, razes: 1, reaps: 1, crashes: 1, zombies: 1}},
	{name: "everything, one session for two", sessions: []int{0, 0, 1}, warm: true, faults: faults{cuts: 3, ends: 2, strikes: 2, razes: 1, zombies: 1}},
}

type (
	// A world is a state of everything.
	world struct {
		s       *scenario
		parent  bool
		nodes   []znode
		zxid    int64
		number  int32
		token   int64 // the highest that was granted to who excludes others
		shared  int64 // and to readers
		struck  []string
		asked   []string // nodes that were marked
		last    int64    // session id
		links   []link
		actors  []contender
		dying   []dead
		zombies []request // of sessions that are alive
		left    faults
	}
	znode struct {
		name         string
		czxid, owner int64
		marked       bool
	}
	// A contender is a Machine and its mailbox.
	contender struct {
		Machine
		mail    []Input
		asked   bool // to leave
		dead    bool
		lowered lowering
		grammar phase
	}
	// A link is a client's session.
	link struct {
		state   linkState
		epoch   int // 0: between two sessions
		count   int // of epochs
		id      int64
		out     []request // sent
		lost    []request // executed, and the answer lost
		held    []request // to be sent after the reconnect
		watches []watching
	}
	// A watching is one watch of a session, for several subscribers.
	watching struct {
		node   string
		known  bool // it stands; else a read is under way, or to be made
		subs   []request
		czxid  int64
		owner  int64
		marked bool
	}
	request struct {
		actor   int
		do      Effect
		sweep   bool  // a deletion on behalf of a withdrawAll
		told    bool  // a subscriber was told of the node
		session int64 // of a zombie
	}
	lowering int8 // what has become of a downgrade
	// dead is a session that the server has yet to expire.
	dead struct {
		id  int64
		out []request
	}
	linkState int8
	action    struct {
		kind    string
		i       int
		variant int
		node    string
	}
	violation = exploration.ViolationError
)

const (
	up linkState = iota
	cut
	down
)

const (
	unwanted lowering = iota
	wanted
	lowered
	refused
)

// shared is the grammar of all kinds.
var shared = &Grammar{Prefix: Published, Separated: true, Marks: []Mark{{"lock-", Exclusive}, {"read-", Read}, {"write-", Write}}}

// rule returns that of a contender.
func (s *scenario) rule(actor int) First {
	if s.kinds == nil {
		return exclusive
	}
	return First{Grammar: shared, Kind: s.kinds[actor], EventGrants: true}
}

// kind returns what a contender wants now.
func (c contender) kind() Kind { return c.rule.(First).Kind }

func (a action) String() string {
	s := fmt.Sprintf("%s %d", a.kind, a.i)
	if a.variant != 0 {
		s += fmt.Sprintf(" variant %d", a.variant)
	}
	return strings.TrimRight(s+" "+a.node, " ")
}

func actorID(i int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", i) }

func newWorld(s *scenario) *world {
	w := &world{s: s, parent: !s.missing, zxid: 100, left: s.faults}
	for _, name := range s.children {
		w.nodes = append(w.nodes, znode{name: name, czxid: 1})
	}
	w.links = make([]link, slices.Max(s.sessions)+1)
	for i := range s.sessions {
		w.actors = append(w.actors, contender{Machine: New(actorID(i), s.rule(i), s.warm, s.background)})
	}
	for i := range w.links {
		w.connect(i)
	}
	return w
}

func (w *world) Clone() *world {
	c := *w
	c.nodes, c.struck, c.asked, c.zombies = slices.Clone(w.nodes), slices.Clone(w.struck), slices.Clone(w.asked), slices.Clone(w.zombies)
	c.links, c.actors, c.dying = slices.Clone(w.links), slices.Clone(w.actors), slices.Clone(w.dying)
	for i := range c.links {
		l := &c.links[i]
		l.out, l.lost, l.held = slices.Clone(l.out), slices.Clone(l.lost), slices.Clone(l.held)
		l.watches = slices.Clone(l.watches)
		for j := range l.watches {
			l.watches[j].subs = slices.Clone(l.watches[j].subs)
		}
	}
	for i := range c.actors {
		c.actors[i].mail = slices.Clone(c.actors[i].mail)
	}
	for i := range c.dying {
		c.dying[i].out = slices.Clone(c.dying[i].out)
	}
	return &c
}

// --- what can happen

func (w *world) Actions() (normal, faulty []action) {
	add := func(kind string, i int, variants int) {
		for v := range variants {
			normal = append(normal, action{kind: kind, i: i, variant: v})
		}
	}
	fault := func(kind string, i int, variants int) {
		for v := range variants {
			faulty = append(faulty, action{kind: kind, i: i, variant: v})
		}
	}
	for i, a := range w.actors {
		if a.dead {
			continue
		}
		if len(a.mail) > 0 {
			add("step", i, 1)
		}
		if !a.asked && !a.Ended() {
			add("leave", i, 1)
		}
		if a.kind() == Write && a.Holding() && !a.asked && a.lowered == unwanted {
			add("downgrade", i, 1)
		}
	}
	for i, l := range w.links {
		if w.crashed(i) {
			continue
		}
		if l.state != down && len(l.out) > 0 {
			add("serve", i, 1)
			if _, ok := l.out[0].do.(changeNode); ok && w.left.refusals > 0 {
				fault("refuse", i, 1)
			}
		}
		switch {
		case l.epoch == 0:
			add("connect", i, 1)
		case l.state == up:
			if w.left.cuts > 0 {
				fault("cut", i, 1)
			}
		case l.state == cut:
			variants := 2 // which comes first, suspended or the failures
			if slices.ContainsFunc(l.out, func(r request) bool { return doubtful(r.do) }) {
				variants = 4 // and whether it is known that the create was never sent
				if w.left.zombies > 0 {
					variants = 6 // or it is executed late
				}
			}
			add("notice", i, variants)
		default:
			add("reconnect", i, 1)
		}
		if w.left.ends > 0 && l.epoch != 0 && l.state != up {
			fault("expire", i, 2)
		}
		if w.left.closes > 0 && l.epoch != 0 {
			fault("close", i, 2)
		}
		if w.left.crashes > 0 {
			fault("crash", i, 1)
		}
	}
	for i, d := range w.dying {
		add("bury", i, 1)
		if len(d.out) > 0 {
			add("straggle", i, 1)
		}
	}
	for i := range w.zombies {
		add("late", i, 2)
	}
	if w.left.strikes > 0 {
		for _, n := range w.nodes {
			faulty = append(faulty, action{kind: "strike", node: n.name})
		}
	}
	if w.left.marks > 0 {
		for _, n := range w.nodes {
			if n.owner != 0 && !n.marked {
				faulty = append(faulty, action{kind: "mark", node: n.name})
			}
		}
	}
	if w.left.razes > 0 && w.parent {
		fault("raze", 0, 1)
	}
	if w.left.reaps > 0 && w.parent && len(w.nodes) == 0 && w.s.container {
		fault("reap", 0, 1)
	}
	return normal, faulty
}

// doubtful reports whether an effect must not just be repeated when its answer is lost.
func doubtful(do Effect) bool {
	_, creates := do.(createNode)
	_, changes := do.(changeNode)
	return creates || changes
}

// crashed reports whether nobody is left in the session.
func (w *world) crashed(link int) bool {
	for i, s := range w.s.sessions {
		if s == link && !w.actors[i].dead {
			return false
		}
	}
	return true
}

// Apply does one thing. It panics with a violation if something is wrong then.
func (w *world) Apply(a action) {
	switch a.kind {
	case "step":
		w.step(a.i)
	case "leave":
		w.actors[a.i].asked = true
		w.mail(a.i, Leave{})
	case "downgrade":
		w.actors[a.i].lowered = wanted
		w.mail(a.i, Downgrade{})
	case "mark":
		w.left.marks--
		w.mark(a.node)
	case "refuse":
		w.left.refusals--
		l := &w.links[a.i]
		r := l.out[0]
		l.out = l.out[1:]
		w.refuse(r, session.ErrSessionFull)
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
		w.notice(a.i, a.variant)
	case "reconnect":
		w.reconnect(a.i)
	case "expire":
		w.left.ends--
		w.finish(a.i, a.variant == 1, heard{session.Expired{Epoch: w.links[a.i].epoch}})
	case "close":
		w.left.closes--
		w.finish(a.i, a.variant == 1, heard{session.Closed{}})
		for i, s := range w.s.sessions {
			w.actors[i].asked = w.actors[i].asked || s == a.i
		}
	case "crash":
		w.left.crashes--
		l := &w.links[a.i]
		for i, s := range w.s.sessions {
			if s == a.i {
				w.actors[i].dead, w.actors[i].mail = true, nil
			}
		}
		if l.epoch != 0 {
			w.dying = append(w.dying, dead{l.id, l.out})
		}
		*l = link{state: down}
	case "bury":
		id := w.dying[a.i].id
		w.dying = slices.Delete(w.dying, a.i, a.i+1)
		for _, n := range slices.Clone(w.nodes) {
			if n.owner == id {
				w.delete(n.name)
			}
		}
	case "straggle":
		d := &w.dying[a.i]
		r := d.out[0]
		d.out = d.out[1:]
		w.late(r, d.id)
	case "late":
		r := w.zombies[a.i]
		w.zombies = slices.Delete(w.zombies, a.i, a.i+1)
		if a.variant == 0 {
			w.late(r, r.session)
		}
	case "strike":
		w.left.strikes--
		w.struck = append(w.struck, a.node)
		w.delete(a.node)
	case "raze":
		w.left.razes--
		for _, n := range slices.Clone(w.nodes) {
			w.struck = append(w.struck, n.name)
			w.delete(n.name)
		}
		w.parent = false
	case "reap":
		w.left.reaps--
		w.parent = false
	default:
		panic("unknown action " + a.kind)
	}
	w.check()
}

// --- the server

func (w *world) find(name string) int {
	return slices.IndexFunc(w.nodes, func(n znode) bool { return n.name == name })
}

func (w *world) create(r request, owner int64) joined {
	e := r.do.(createNode)
	w.zxid++
	name := fmt.Sprintf("%s%010d", w.s.rule(r.actor).Name(e.guid), w.number)
	w.number++
	w.nodes = append(w.nodes, znode{name: name, czxid: w.zxid, owner: owner})
	in := joined{attempt: e.attempt, node: name}
	if !e.plain {
		in.czxid, in.children = w.zxid, len(w.nodes)
	}
	return in
}

// refused is what the server says to a create now, or nil.
func (w *world) refused(e createNode) error {
	switch {
	case !w.parent:
		return session.ErrNoNode
	case w.s.noAuth && !e.plain:
		return session.ErrNoAuth
	case w.s.data && !e.plain && w.number > 0:
		return nil // the parent was made anew, empty
	case w.s.data && !e.plain && !w.struckParent():
		panic(violation("a transaction overwrites the data of the parent"))
	}
	return nil
}

// struckParent reports whether the original parent is gone, and its data with it.
func (w *world) struckParent() bool { return w.left.razes < w.s.faults.razes }

// late executes a request to which there will be no answer.
func (w *world) late(r request, owner int64) {
	switch e := r.do.(type) {
	case createNode:
		if w.refused(e) == nil {
			w.create(r, owner)
		}
	case makeParent:
		w.parent = true
	case withdrawNode:
		w.delete(e.node)
	case changeNode:
		_ = w.change(e, owner)
	case inspectParent, listParent, watchTarget, unwatchTarget, withdrawAll, complain, answer: // change nothing
	case claim, announce, ask: // of other rules
	}
}

// change puts one node in the place of another.
func (w *world) change(e changeNode, owner int64) error {
	switch {
	case w.find(e.to) >= 0:
		return session.ErrNodeExists
	case w.find(e.from) < 0:
		return session.ErrNoNode
	}
	w.zxid++
	w.nodes = append(w.nodes, znode{name: e.to, czxid: w.zxid, owner: owner})
	w.delete(e.from)
	return nil
}

// mark asks the contender of a node to leave.
func (w *world) mark(node string) {
	w.nodes[w.find(node)].marked = true
	w.asked = append(w.asked, node)
	for i := range w.links {
		if l := &w.links[i]; l.state == up && l.epoch != 0 {
			if j := slices.IndexFunc(l.watches, func(e watching) bool { return e.node == node && e.known }); j >= 0 {
				w.reread(l, j)
			}
		}
	}
}

// reread follows the news that the data of a node has changed: nothing is watched until
// it has been read again.
func (w *world) reread(l *link, watch int) {
	e := &l.watches[watch]
	if len(e.subs) == 0 {
		l.watches = slices.Delete(l.watches, watch, watch+1)
		return
	}
	e.known = false
	l.out = append(l.out, request{do: watchTarget{target: deletion(e.node)}})
}

func (w *world) delete(name string) {
	i := w.find(name)
	if i < 0 {
		return
	}
	most := w.herd(w.nodes[i].name)
	w.nodes = slices.Delete(w.nodes, i, i+1)
	woken := 0
	for i := range w.links {
		if w.links[i].state == up && w.links[i].epoch != 0 {
			woken += w.vanished(i, name)
		}
	}
	if woken > most {
		panic(violation(fmt.Sprintf("herd: the deletion of %s wakes %d", name, woken)))
	}
}

// herd returns how many may be woken by the deletion of a node: its own contender, the
// readers directly behind it, unless it is a reader, and one more, or two where nobody
// shares.
func (w *world) herd(name string) int {
	me, ok := shared.Parse(name)
	if !ok {
		return 0
	}
	if me.Kind == Read {
		return 2
	}
	var names []string
	for _, n := range w.nodes {
		names = append(names, n.name)
	}
	behind := 0
	for _, c := range shared.Line(names) {
		if compare(me.Number, c, me) <= 0 {
			continue
		}
		if c.Kind != Read {
			break
		}
		behind++
	}
	return 1 + max(2, behind+1)
}

// vanished tells a session that a node is gone, if it had a confirmed watch on it.
func (w *world) vanished(i int, name string) (woken int) {
	l := &w.links[i]
	j := slices.IndexFunc(l.watches, func(e watching) bool { return e.node == name && e.known })
	if j < 0 {
		return 0
	}
	subs := l.watches[j].subs
	l.watches = slices.Delete(l.watches, j, j+1)
	for _, s := range subs {
		if l.unsure(s.actor) {
			w.mail(s.actor, failed{s.do, session.ErrNoNode})
			continue
		}
		w.mail(s.actor, gone{s.do.of(), deletion(name)})
		if a := w.actors[s.actor]; a.heir && a.owned && s.do.of() == a.attempt && w.find(a.node) < 0 && !a.knows() {
			panic(violation(fmt.Sprintf("contender %d, whose node is gone, is told of the next one first", s.actor)))
		}
	}
	return len(subs)
}

// knows reports whether a contender has been told that its node is gone.
func (c contender) knows() bool {
	return slices.ContainsFunc(c.mail, func(in Input) bool {
		f, ok := in.(failed)
		return in == Input(gone{c.attempt, deletion(c.node)}) || ok && f.what == Effect(watchTarget{c.attempt, deletion(c.node)})
	})
}

// unsure reports whether some watch of a contender does not stand at the moment.
func (l link) unsure(actor int) bool {
	return slices.ContainsFunc(l.watches, func(e watching) bool {
		return !e.known && slices.ContainsFunc(e.subs, func(s request) bool { return s.actor == actor })
	})
}

// serve executes a request and answers it, unless the connection is cut.
func (w *world) serve(i int, r request) {
	l := &w.links[i]
	if r.sweep {
		w.delete(r.do.(withdrawNode).node)
		return
	}
	var in Input
	var more []request
	switch e := r.do.(type) {
	case inspectParent:
		in = inspected{e.attempt, w.parent, !w.s.data || w.struckParent()}
	case makeParent:
		in = made(e)
		if w.parent {
			in = failed{e, session.ErrNodeExists}
		} else {
			w.parent, w.number = true, 0
		}
	case createNode:
		if err := w.refused(e); err != nil {
			in = failed{e, err}
		} else {
			in = w.create(r, l.id)
		}
	case listParent:
		names := make([]string, len(w.nodes))
		for i, n := range w.nodes {
			names[i] = n.name
		}
		in = listed{e.attempt, Sight{Names: names}}
		if !w.parent {
			in = failed{e, session.ErrNoNode}
		}
	case watchTarget:
		if l.state == up {
			w.plant(i, e.target.Node)
		}
		return
	case withdrawNode:
		w.delete(e.node)
		in = withdrawn(e)
	case withdrawAll:
		w.zombies = slices.DeleteFunc(w.zombies, func(r request) bool {
			if c, ok := r.do.(createNode); ok {
				return c.guid == e.guid
			}
			return strings.HasPrefix(r.do.(changeNode).to, Published(e.guid))
		})
		in = withdrawn{attempt: e.attempt}
		for _, n := range w.nodes {
			if strings.HasPrefix(n.name, Published(e.guid)) {
				more = append(more, request{actor: r.actor, do: withdrawNode{e.attempt, n.name}, sweep: true})
			}
		}
		if len(more) > 0 {
			more = append(more, r)
		}
	case changeNode:
		if err := w.change(e, l.id); err != nil {
			in = failed{e, err}
		} else {
			in = changed{e.attempt}
		}
	case unwatchTarget, claim, announce, ask, complain, answer:
		panic(fmt.Sprintf("%T on the wire", e))
	}
	switch l = &w.links[i]; {
	case l.state != up:
		l.lost = append(l.lost, r)
	case len(more) > 0:
		l.out = append(l.out, more...)
	default:
		w.mail(r.actor, in)
	}
}

func (w *world) plant(i int, node string) {
	l := &w.links[i]
	j := slices.IndexFunc(l.watches, func(e watching) bool { return e.node == node })
	if j < 0 {
		return // nobody wants it any more
	}
	e := &l.watches[j]
	n := w.find(node)
	if n < 0 {
		subs := e.subs
		l.watches = slices.Delete(l.watches, j, j+1)
		for _, s := range subs {
			w.mail(s.actor, failed{s.do, session.ErrNoNode})
		}
		return
	}
	e.known, e.czxid, e.owner, e.marked = true, w.nodes[n].czxid, w.nodes[n].owner, w.nodes[n].marked
	for i := range e.subs {
		w.inform(e, &e.subs[i])
	}
}

// inform tells a subscriber what has been read.
func (w *world) inform(e *watching, s *request) {
	at := s.do.of()
	if !s.told {
		s.told = true
		w.mail(s.actor, watched{at, deletion(e.node), e.czxid, e.owner, false})
	}
	if e.marked {
		w.mail(s.actor, marked{attempt: at, target: deletion(e.node)})
	}
}

// --- the session

func (w *world) mail(i int, in Input) {
	if a := &w.actors[i]; !a.dead && !a.Ended() {
		a.mail = append(a.mail, in)
	}
}

func (w *world) tell(link int, in Input) {
	for i, s := range w.s.sessions {
		if s == link {
			w.mail(i, in)
		}
	}
}

func (w *world) connect(i int) {
	l := &w.links[i]
	w.last++
	*l = link{epoch: l.count + 1, count: l.count + 1, id: w.last}
	w.tell(i, heard{session.Connected{Epoch: l.epoch, ID: l.id}})
}

// submit takes a request from a Machine.
func (w *world) submit(actor int, do Effect) {
	i := w.s.sessions[actor]
	l := &w.links[i]
	r := request{actor: actor, do: do}
	if do.of().epoch != l.epoch {
		w.refuse(r, session.ErrExpired)
		return
	}
	isNode := func(node string) func(watching) bool {
		return func(e watching) bool { return e.node == node }
	}
	switch e := do.(type) {
	case watchTarget:
		if j := slices.IndexFunc(l.watches, isNode(e.target.Node)); j >= 0 {
			had := &l.watches[j]
			had.subs = append(had.subs, r)
			if had.known {
				w.inform(had, &had.subs[len(had.subs)-1])
			}
			return
		}
		l.watches = append(l.watches, watching{node: e.target.Node, subs: []request{r}})
	case unwatchTarget:
		if j := slices.IndexFunc(l.watches, isNode(e.target.Node)); j >= 0 {
			l.watches[j].subs = slices.DeleteFunc(l.watches[j].subs, func(s request) bool { return s.actor == actor })
		}
		return
	case inspectParent, makeParent, createNode, listParent, changeNode, withdrawNode, withdrawAll:
	case claim, announce, ask, complain, answer: // of other rules
	}
	if l.state == down {
		l.held = append(l.held, r)
	} else {
		l.out = append(l.out, r)
	}
}

// refuse answers a request with err.
func (w *world) refuse(r request, err error) {
	switch e := r.do.(type) {
	case claim, announce, ask, complain, answer: // of other rules
	case unwatchTarget:
	case withdrawNode:
		if !r.sweep {
			w.mail(r.actor, withdrawn(e))
		}
	case withdrawAll:
		w.mail(r.actor, withdrawn{attempt: e.attempt})
	case inspectParent, makeParent, createNode, listParent, changeNode, watchTarget:
		w.mail(r.actor, failed{r.do, err})
	}
}

// notice is when the client learns that its connection is gone.
func (w *world) notice(i, variant int) {
	l := &w.links[i]
	l.state = down
	if variant&1 == 1 {
		w.tell(i, heard{session.Suspended{}})
	}
	unknown := errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)
	again := []request{}
	for n, r := range append(l.lost, l.out...) {
		executed := n < len(l.lost)
		switch e := r.do.(type) {
		case inspectParent, listParent:
			w.refuse(r, session.ErrDisconnected)
		case makeParent:
			w.refuse(r, unknown)
		case createNode, changeNode:
			err := unknown
			if !executed && variant/2 == 1 {
				err = session.ErrDisconnected
			}
			if !executed && variant/2 == 2 && w.left.zombies > 0 {
				w.left.zombies--
				w.zombies = append(w.zombies, request{actor: r.actor, do: e, session: l.id})
			}
			w.refuse(r, err)
		case watchTarget: // set again after the reconnect
		case withdrawNode, withdrawAll:
			again = append(again, r)
		case unwatchTarget:
		case claim, announce, ask, complain, answer: // of other rules
		}
	}
	l.out, l.lost, l.held = nil, nil, append(again, l.held...)
	if variant&1 == 0 {
		w.tell(i, heard{session.Suspended{}})
	}
}

func (w *world) reconnect(i int) {
	l := &w.links[i]
	l.state = up
	w.tell(i, heard{session.Resumed{}})
	var pending []request
	for _, e := range slices.Clone(l.watches) {
		n := w.find(e.node)
		if e.known && n >= 0 && w.nodes[n].marked != e.marked {
			j := slices.IndexFunc(l.watches, func(o watching) bool { return o.node == e.node })
			l.watches[j].known, e.known = false, false
		}
		if !e.known {
			pending = append(pending, request{do: watchTarget{target: deletion(e.node)}})
		} else if n < 0 {
			w.vanished(i, e.node)
		}
	}
	held := slices.DeleteFunc(l.held, func(r request) bool { _, ok := r.do.(watchTarget); return ok })
	if l.held = nil; w.s.weak {
		l.out = append(held, pending...)
	} else {
		l.out = append(pending, held...)
	}
}

// finish ends a session on the side of the client. The server will find out later.
func (w *world) finish(i int, told bool, in Input) {
	l := &w.links[i]
	err := session.ErrExpired
	if Closes(in) {
		err = session.ErrClosed
	}
	if told {
		w.tell(i, in)
	}
	pending := slices.Concat(l.lost, l.out, l.held)
	w.dying = append(w.dying, dead{l.id, l.out})
	for _, e := range l.watches {
		for _, s := range e.subs {
			if !e.known {
				w.refuse(s, err)
			}
		}
	}
	for _, r := range pending {
		if _, ok := r.do.(watchTarget); !ok {
			w.refuse(r, err)
		}
	}
	if !told {
		w.tell(i, in)
	}
	w.zombies = slices.DeleteFunc(w.zombies, func(r request) bool { return r.session == l.id })
	*l = link{state: down, count: l.count}
	if errors.Is(err, session.ErrClosed) {
		l.state, l.epoch = up, -1 // for good
	}
}

// --- the machines, and what must hold

func (w *world) step(i int) {
	a := &w.actors[i]
	in := a.mail[0]
	a.mail = a.mail[1:]
	before := a.Machine
	var out Effects
	a.Machine, out = a.Step(in)
	if a.Ended() {
		a.mail = nil
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
			switch forced := errors.Is(ev.Err, ErrRevoked); {
			case forced && !slices.Contains(w.asked, before.node):
				panic(violation(fmt.Sprintf("contender %d was asked by nobody to leave %s", i, before.node)))
			case errors.Is(ev.Err, ErrNodeDeleted) && before.marked:
				panic(violation(fmt.Sprintf("contender %d is not told that it was forced to leave %s", i, before.node)))
			case (forced || errors.Is(ev.Err, ErrNodeDeleted)) && !slices.Contains(w.struck, before.node) && !slices.Contains(w.struck, before.to) && !w.gone(i) && !w.lowered(before):
				panic(violation(fmt.Sprintf("contender %d has lost %s, and nobody has deleted it", i, before.node)))
			}
		case Waiting, Suspended, Resumed, Revoked, Released:
		}
	}
	for _, e := range out.Do {
		if e, ok := e.(answer); ok {
			if a.lowered != wanted || e.err == nil && (a.kind() != Read || !a.Holding() && !a.Ended()) {
				panic(violation(fmt.Sprintf("contender %d answers %v to a downgrade: %v", i, e.err, a.Machine)))
			}
			if a.lowered = lowered; e.err != nil {
				a.lowered = refused
			}
			continue
		}
		w.submit(i, e)
	}
}

// lowered reports whether a node that is weaker stands in the place of a contender's, which
// it may not know.
func (w *world) lowered(m Machine) bool {
	_, weaker, ok := m.rule.Downgrade(m.node, m.guid())
	return ok && w.find(weaker) >= 0
}

// gone reports whether the session of a contender has ended on the server.
func (w *world) gone(i int) bool { return w.links[w.s.sessions[i]].id == 0 }

// granted checks that a contender that has just been granted the lock has nobody to wait
// for, and that its token is greater than all before that it may be compared with.
func (w *world) granted(i int) {
	a := w.actors[i]
	m := a.Machine
	n := w.find(m.node)
	if n < 0 {
		panic(violation(fmt.Sprintf("contender %d holds without a node", i)))
	}
	exclusive := a.kind() != Read
	if m.token != w.nodes[n].czxid || m.token <= w.token || exclusive && m.token <= w.shared {
		panic(violation(fmt.Sprintf("contender %d: token %d after %d and %d of readers, czxid %d", i, m.token, w.token, w.shared, w.nodes[n].czxid)))
	}
	if exclusive {
		w.token = m.token
	} else {
		w.shared = max(w.shared, m.token)
	}
	me, _ := shared.Parse(m.node)
	for _, o := range w.nodes {
		c, ok := shared.Parse(o.name)
		if ok && compare(me.Number, c, me) < 0 && (exclusive || c.Kind != Read) && !strings.HasPrefix(o.name, Published(m.guid())) {
			panic(violation(fmt.Sprintf("contender %d holds before its turn", i)))
		}
	}
}

// doomed reports whether a contender's claim is over, and it has yet to hear of it.
func (w *world) doomed(i int) bool {
	a := w.actors[i]
	_, weaker, _ := a.rule.Downgrade(a.node, a.guid())
	return a.dead || slices.Contains(w.struck, a.node) || slices.Contains(w.struck, weaker) || slices.ContainsFunc(a.mail, ends)
}

// check holds in every state.
func (w *world) check() {
	holder, alone := -1, false
	for i, a := range w.actors {
		if !a.dead && a.Holding() && !w.doomed(i) {
			// A downgrade may have been done, and it has yet to hear of that.
			sharing := a.kind() == Read || w.lowered(a.Machine)
			if holder >= 0 && (alone || !sharing) {
				panic(violation(fmt.Sprintf("contenders %d and %d hold the lock", holder, i)))
			}
			holder, alone = i, !sharing
			if w.find(a.node) < 0 && !w.lowered(a.Machine) {
				panic(violation(fmt.Sprintf("contender %d holds without a node", i)))
			}
		}
	}
	for _, l := range w.links {
		lists := make([]int, len(w.actors))
		for _, r := range slices.Concat(l.out, l.lost, l.held) {
			if e, ok := r.do.(listParent); ok && e.attempt == w.actors[r.actor].attempt {
				if lists[r.actor]++; lists[r.actor] > 1 {
					panic(violation(fmt.Sprintf("contender %d asks for two lists at once", r.actor)))
				}
			}
		}
	}
	if w.quiet() {
		w.checkQuiet()
	}
}

// quiet reports whether nothing will happen unless somebody makes it.
func (w *world) quiet() bool {
	for _, a := range w.actors {
		if len(a.mail) > 0 {
			return false
		}
	}
	for i, l := range w.links {
		if !w.crashed(i) && (l.state != up || l.epoch == 0 || len(l.out)+len(l.held) > 0) {
			return false
		}
	}
	return len(w.dying) == 0 && len(w.zombies) == 0
}

// checkQuiet holds when all is quiet: everybody is where it should be, nobody waits for
// nothing, nothing is left behind, and every watch is needed.
func (w *world) checkQuiet() {
	var waits, holds int
	for i, a := range w.actors {
		if a.dead || a.Ended() {
			continue
		}
		switch l := w.links[w.s.sessions[i]]; {
		case a.state != waiting && a.state != held:
			panic(violation(fmt.Sprintf("contender %d is stuck: %v", i, a.Machine)))
		case a.to != "" || a.lowered == wanted:
			panic(violation(fmt.Sprintf("contender %d has no answer to a downgrade: %v", i, a.Machine)))
		case a.Holding() && w.nodes[max(0, w.find(a.node))].marked && !a.revoked:
			panic(violation(fmt.Sprintf("contender %d does not know that it is asked to leave: %v", i, a.Machine)))
		case w.find(a.node) < 0:
			panic(violation(fmt.Sprintf("contender %d has no node: %v", i, a.Machine)))
		case !l.watched(i, a.node):
			panic(violation(fmt.Sprintf("contender %d does not watch its node: %v", i, a.Machine)))
		case a.state == waiting && (!l.watched(i, a.target.Node) || w.find(a.target.Node) < 0):
			panic(violation(fmt.Sprintf("contender %d watches nothing ahead: %v", i, a.Machine)))
		case a.state == waiting && !w.blocked(i):
			panic(violation(fmt.Sprintf("contender %d waits for nobody: %v", i, a.Machine)))
		case a.state == waiting:
			waits++
		default:
			holds++
		}
	}
	if waits > 0 && holds == 0 {
		panic(violation("somebody waits and nobody holds"))
	}
	for _, n := range w.nodes {
		if n.owner != 0 && !slices.ContainsFunc(w.actors, func(a contender) bool {
			// What a late create has left goes when its maker leaves.
			return !a.dead && !a.Ended() && (n.name == a.node || a.suspect && strings.HasPrefix(n.name, Published(a.guid())))
		}) {
			panic(violation(fmt.Sprintf("%s is a ghost", n.name)))
		}
	}
	for _, l := range w.links {
		for _, e := range l.watches {
			for _, s := range e.subs {
				if a := w.actors[s.actor]; a.Ended() || e.node != a.node && e.node != a.target.Node {
					if w.find(e.node) >= 0 {
						panic(violation(fmt.Sprintf("contender %d still watches %s", s.actor, e.node)))
					}
				}
			}
		}
	}
}

// blocked reports whether a contender has to wait for another.
func (w *world) blocked(i int) bool {
	a := w.actors[i]
	me, _ := shared.Parse(a.node)
	return slices.ContainsFunc(w.nodes, func(n znode) bool {
		c, ok := shared.Parse(n.name)
		return ok && compare(me.Number, c, me) < 0 && (a.kind() != Read || c.Kind != Read) && !strings.HasPrefix(n.name, Published(a.guid()))
	})
}

// watched reports whether there is a confirmed watch for this contender.
func (l link) watched(actor int, node string) bool {
	return slices.ContainsFunc(l.watches, func(e watching) bool {
		return e.node == node && e.known && slices.ContainsFunc(e.subs, func(s request) bool { return s.actor == actor })
	})
}

// --- the canonical form of a state

type encoder []byte

func (e *encoder) num(n ...int64) {
	for _, n := range n {
		*e = binary.AppendVarint(*e, n)
	}
}

func (e *encoder) str(s string) {
	e.num(int64(len(s)))
	*e = append(*e, s...)
}

func (e *encoder) flag(b ...bool) {
	for _, b := range b {
		if b {
			*e = append(*e, 1)
		} else {
			*e = append(*e, 0)
		}
	}
}

func (e *encoder) attempt(a attempt) { e.num(int64(a.epoch), int64(a.n)) }

func (e *encoder) request(r request) {
	e.num(int64(r.actor), r.session)
	e.flag(r.sweep, r.told)
	e.effect(r.do)
}

func (e *encoder) requests(rs []request) {
	e.num(int64(len(rs)))
	for _, r := range rs {
		e.request(r)
	}
}

func (e *encoder) effect(do Effect) {
	e.attempt(do.of())
	switch do := do.(type) {
	case inspectParent:
		e.num(1)
	case makeParent:
		e.num(2)
	case createNode:
		e.num(3)
		e.flag(do.plain)
		e.str(do.guid)
	case listParent:
		e.num(4)
	case watchTarget:
		e.num(5)
		e.str(do.target.Node)
	case unwatchTarget:
		e.num(6)
		e.str(do.target.Node)
	case withdrawNode:
		e.num(7)
		e.str(do.node)
	case withdrawAll:
		e.num(8)
		e.str(do.guid)
	case changeNode:
		e.num(9)
		e.str(do.from)
	case claim, announce, ask, complain, answer: // of other rules
	}
}

func (e *encoder) event(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		e.num(2, int64(ev.Epoch), ev.ID)
	case session.Suspended:
		e.num(3)
	case session.Resumed:
		e.num(4)
	case session.Expired:
		e.num(5, int64(ev.Epoch))
	case session.Closed:
		e.num(6)
	}
}

func (e *encoder) input(in Input) {
	if a, ok := in.(interface{ of() attempt }); ok {
		e.attempt(a.of())
	}
	switch in := in.(type) {
	case Leave:
		e.num(1)
	case heard:
		e.event(in.Event)
	case inspected:
		e.num(7)
		e.flag(in.exists, in.empty)
	case made:
		e.num(8)
	case joined:
		e.num(9, in.czxid, int64(in.children))
		e.str(in.node)
	case listed:
		e.num(10, int64(len(in.Names)))
		for _, n := range in.Names {
			e.str(n)
		}
	case watched:
		e.num(11, in.czxid, in.owner)
		e.str(in.target.String())
	case gone:
		e.num(12)
		e.str(in.target.String())
	case withdrawn:
		e.num(13)
		e.str(in.node)
	case failed:
		e.num(14)
		e.effect(in.what)
		e.str(in.err.Error())
	case Downgrade:
		e.num(15)
	case marked:
		e.num(16)
		e.str(in.target.String())
	case changed:
		e.num(17)
	case Look, Take, claimed, occupied, announced, asked: // of other rules
	}
}

func (e *encoder) world(w *world) {
	e.flag(w.parent)
	e.num(w.zxid, int64(w.number), w.token, w.shared, w.last)
	f := w.left
	for _, n := range []int8{f.cuts, f.ends, f.closes, f.strikes, f.razes, f.reaps, f.crashes, f.zombies, f.marks, f.refusals} {
		e.num(int64(n))
	}
	e.num(int64(len(w.nodes)), int64(len(w.struck)), int64(len(w.asked)), int64(len(w.dying)))
	for _, n := range w.nodes {
		e.str(n.name)
		e.num(n.czxid, n.owner)
		e.flag(n.marked)
	}
	for _, n := range w.asked {
		e.str(n)
	}
	for _, n := range w.struck {
		e.str(n)
	}
	for _, d := range w.dying {
		e.num(d.id)
		e.requests(d.out)
	}
	e.requests(w.zombies)
	for _, l := range w.links {
		e.num(int64(l.state), int64(l.epoch), int64(l.count), l.id, int64(len(l.watches)))
		e.requests(l.out)
		e.requests(l.lost)
		e.requests(l.held)
		for _, x := range l.watches {
			e.str(x.node)
			e.flag(x.known, x.marked)
			e.num(x.czxid, x.owner)
			e.requests(x.subs)
		}
	}
	for _, a := range w.actors {
		m := a.Machine
		e.flag(a.asked, a.dead, m.suspended, m.said, m.owned, m.suspect, m.listing, m.heir, m.kin, m.marked, m.revoked, m.without, m.unclear)
		e.num(int64(a.grammar), int64(a.lowered), int64(a.kind()), int64(m.state), int64(m.parent), m.session, int64(m.ahead), m.czxid, m.token)
		e.str(m.to)
		e.attempt(m.attempt)
		e.str(m.node)
		e.str(m.target.String())
		e.num(int64(len(a.mail)))
		for _, in := range a.mail {
			e.input(in)
		}
	}
}

// --- exploration

// Key implements [exploration.World].
func (w *world) Key(to []byte) []byte {
	e := encoder(to)
	e.world(w)
	return e
}

// walk goes at random until everything is over.
func walk(s *scenario, r *rand.Rand) (trace []action, err error) {
	w := newWorld(s)
	faultiness := r.Float64() / 4
	patience := 20 * r.Float64()
	calm := 0 // for how many more steps nobody meddles, if positive
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
		if len(own) > 0 && (calm > 0 || r.Float64()*20 < patience) {
			normal = own // let them do something before they leave
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

// tellStory prints a trace with what it does to the machines.
func tellStory(t *testing.T, s *scenario, trace []action) {
	t.Helper()
	w := newWorld(s)
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

func TestModel(t *testing.T) {
	if testing.Short() {
		t.Skip("explores many states")
	}
	total := 0
	for i := range scenarios {
		s := &scenarios[i]
		t.Run(s.name, func(t *testing.T) {
			states, all, trace, err := exploration.Explore(newWorld(s), min(*modelStates-total, (*modelStates-total)/(len(scenarios)-i)*max(1, s.deep)))
			if err != nil {
				tellStory(t, s, trace)
				t.Fatalf("%v, %d states", err, states)
			}
			total += states
			r := rand.New(rand.NewPCG(1, uint64(i)))
			steps := 0
			for range *modelWalks / len(scenarios) {
				trace, err := walk(s, r)
				if err != nil {
					if v := violation(""); errors.As(err, &v) {
						trace = exploration.Shorten(newWorld(s), trace)
					}
					tellStory(t, s, trace)
					t.Fatalf("%v, in a random walk", err)
				}
				steps += len(trace)
			}
			t.Logf("%d states, complete: %v; %d random steps", states, all, steps)
		})
	}
	t.Logf("%d states", total)
}
