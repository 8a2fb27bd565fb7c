package presence

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/session"
)

// This file lets several machines meet at one path, over a model of ZooKeeper and of the
// session layer: every interleaving, breadth first, up to a number of states, and random
// walks beyond.

var (
	modelStates = flag.Int("model.states", 48_000, "states to explore, over all scenarios")
	modelWalks  = flag.Int("model.walks", 10_000, "random walks, over all scenarios")
)

// A scenario is who wants the name, and what may go wrong.
type scenario struct {
	name     string
	who      []Machine
	nobody   bool // a node of no session stands there
	stranger bool // or one of a session that does not use this library, and ends
	faults   faults
	updates  int8
}

// faults are how often each may happen.
type faults struct{ cuts, ends, kills, strikes, crashes int8 }

var (
	meek   = Machine{data: "0", rev: 1}
	bold   = Machine{data: "0", rev: 1, takeOver: true}
	rash   = Machine{data: "0", rev: 1, takeOver: true, atOnce: true}
	stormy = faults{cuts: 3, ends: 2, kills: 1, strikes: 1, crashes: 1}

	scenarios = []scenario{
		{name: "alone", who: []Machine{meek}, faults: faults{cuts: 2, ends: 1, strikes: 1}, updates: 1},
		{name: "two meek", who: []Machine{meek, meek}, faults: faults{cuts: 1, ends: 1}},
		{name: "two bold", who: []Machine{bold, bold}, faults: faults{cuts: 1}},
		{name: "two bold, one expires", who: []Machine{bold, bold}, faults: faults{cuts: 1, ends: 1}},
		{name: "two rash", who: []Machine{rash, rash}, faults: faults{cuts: 1, ends: 1}},
		{name: "a rash one and an update", who: []Machine{meek, rash}, faults: faults{cuts: 1}, updates: 1},
		{name: "a bold one and a crash", who: []Machine{meek, bold}, faults: faults{crashes: 1, cuts: 1}},
		{name: "an operator", who: []Machine{meek, bold}, faults: faults{strikes: 2, cuts: 1}},
		{name: "a node of nobody", who: []Machine{meek, bold}, nobody: true, faults: faults{cuts: 1, strikes: 1}},
		{name: "a node of nobody, and a rash one", who: []Machine{rash, bold}, nobody: true, faults: faults{cuts: 1, ends: 1}},
		{name: "a stranger", who: []Machine{meek, rash}, stranger: true, faults: faults{cuts: 1}},
		{name: "a stranger, everything", who: []Machine{rash, bold}, stranger: true, faults: stormy, updates: 1},
		{name: "three", who: []Machine{meek, bold, rash}, faults: faults{cuts: 1, ends: 1, strikes: 1}},
		{name: "two, everything", who: []Machine{meek, bold}, faults: stormy, updates: 2},
		{name: "three, everything", who: []Machine{bold, bold, bold}, faults: stormy, updates: 2},
		{name: "three rash, everything", who: []Machine{rash, rash, meek}, faults: stormy, updates: 2},
	}
)

type (
	// A world is a state of everything.
	world struct {
		s    *scenario
		node znode
		zxid int64
		last int64 // session
		all  []contender
		old  []dead
		left faults
	}
	znode struct {
		exists       bool
		owner, czxid int64
		version      int32
		data         string
	}
	// A contender is a machine, its mailbox, and its session.
	contender struct {
		Machine
		mail    []Input
		out     []Effect // sent
		lost    []Effect // executed, and the answer lost
		held    []Effect // to be sent after the reconnect
		state   linkState
		epoch   int // 0: between two sessions
		count   int // of epochs
		ids     []int64
		killed  bool // the server has ended the session, and it has not been told
		follows bool
		news    bool // the node has changed since it was read
		timer   int
		timed   ghost // what the timer is for
		passed  ghost // what was waited for
		ever    bool  // Joined was told
		stood   bool  // its node has, since the last reconnect
		asked   bool  // to leave
		crashed bool
		updates int
		best    int   // the newest update that the server has had
		pending []int // those that wait for an answer
	}
	// dead is a session that the server has yet to expire.
	dead struct {
		who int
		id  int64
		out []Effect
	}
	linkState int8
	action    struct {
		kind       string
		i, variant int
	}
	violation = exploration.ViolationError
)

const (
	up linkState = iota
	cut
	down
)

func newWorld(s *scenario) *world {
	w := &world{s: s, zxid: 100, left: s.faults}
	if s.nobody {
		w.node = znode{exists: true, czxid: 1}
	}
	if s.stranger {
		const id = 99
		w.node = znode{exists: true, czxid: 1, owner: id}
		w.old = []dead{{id: id}}
	}
	for _, m := range s.who {
		w.all = append(w.all, contender{Machine: m})
	}
	for i := range w.all {
		w.connect(i)
	}
	return w
}

func (w *world) Clone() *world {
	c := *w
	c.all, c.old = slices.Clone(w.all), slices.Clone(w.old)
	for i := range c.all {
		a := &c.all[i]
		a.mail, a.out, a.lost, a.held = slices.Clone(a.mail), slices.Clone(a.out), slices.Clone(a.lost), slices.Clone(a.held)
		a.ids, a.pending = slices.Clone(a.ids), slices.Clone(a.pending)
	}
	for i := range c.old {
		c.old[i].out = slices.Clone(c.old[i].out)
	}
	return &c
}

func (a *contender) id() int64 {
	if a.epoch == 0 {
		return -1
	}
	return a.ids[len(a.ids)-1]
}

// --- what can happen

func (w *world) Actions() (normal, faulty []action) {
	for i := range w.all {
		a := &w.all[i]
		add := func(ok bool, kind string, variants int) {
			for v := range variants {
				if ok {
					normal = append(normal, action{kind, i, v})
				}
			}
		}
		fault := func(ok bool, kind string) {
			if ok {
				faulty = append(faulty, action{kind, i, 0})
			}
		}
		if a.crashed {
			continue
		}
		add(len(a.mail) > 0, "step", 1)
		add(a.state != down && a.epoch != 0 && len(a.out) > 0, "serve", 1)
		add(a.news && a.follows && a.state == up && !a.ended, "read", 1)
		add(a.timer != 0 && !a.ended, "patience", 1)
		add(a.epoch == 0, "connect", 1)
		add(a.epoch != 0 && a.state == cut, "notice", 2)
		add(a.epoch != 0 && a.state == down, "reconnect", 1)
		fault(!a.asked && !a.ended, "leave")
		fault(!a.ended && a.updates < int(w.s.updates), "update")
		fault(w.left.cuts > 0 && a.epoch != 0 && a.state == up, "cut")
		fault(w.left.ends > 0 && a.epoch != 0 && a.state == down, "expire")
		fault(w.left.kills > 0 && a.epoch != 0 && a.state != up && !a.killed, "kill")
		fault(w.left.crashes > 0 && a.epoch != 0, "crash")
	}
	for i, d := range w.old {
		normal = append(normal, action{"bury", i, 0})
		if len(d.out) > 0 {
			normal = append(normal, action{"straggle", i, 0})
		}
	}
	if w.left.strikes > 0 && w.node.exists {
		faulty = append(faulty, action{"strike", 0, 0})
	}
	return normal, faulty
}

// Apply does one thing. It panics with a violation if something is wrong then.
func (w *world) Apply(by action) {
	a := &w.all[min(by.i, len(w.all)-1)]
	switch by.kind {
	case "step":
		w.step(by.i)
	case "serve":
		e := a.out[0]
		a.out = a.out[1:]
		in := w.serve(by.i, a.id(), e)
		switch {
		case in == nil:
		case a.state == up:
			a.mail = append(a.mail, in)
		default:
			a.lost = append(a.lost, e)
		}
	case "read":
		a.news = false
		a.mail = append(a.mail, saw{a.epoch, w.sight(by.i, true)})
	case "patience":
		a.mail = append(a.mail, patient{a.timer})
		a.timer = 0
	case "connect":
		w.connect(by.i)
	case "notice":
		w.notice(a, by.variant == 0)
	case "reconnect":
		if a.killed {
			w.expire(a)
			break
		}
		a.state, a.news, a.stood = up, true, w.node.owner == a.id()
		a.mail = append(a.mail, heard{session.Resumed{}})
		a.out, a.held = a.held, nil
	case "leave":
		a.asked = true
		a.mail = append(a.mail, Leave{})
	case "update":
		a.updates++
		a.mail = append(a.mail, Update{fmt.Sprint(a.updates), actors.Reply[error]{}})
	case "cut":
		w.left.cuts--
		a.state = cut
	case "expire":
		w.left.ends--
		w.old = append(w.old, dead{by.i, a.id(), slices.Concat(a.out)})
		w.expire(a)
	case "kill":
		w.left.kills--
		a.killed = true
		w.bury(a.id())
	case "crash":
		w.left.crashes--
		w.old = append(w.old, dead{by.i, a.id(), slices.Concat(a.out)})
		a.crashed, a.mail = true, nil
	case "bury":
		id := w.old[by.i].id
		w.old = slices.Delete(w.old, by.i, by.i+1)
		w.bury(id)
	case "straggle":
		d := &w.old[by.i]
		e := d.out[0]
		d.out = d.out[1:]
		w.serve(d.who, d.id, e)
	case "strike":
		w.left.strikes--
		w.put(znode{})
	default:
		panic("unknown action " + by.kind)
	}
	w.check()
}

// --- the server

func (w *world) bury(id int64) {
	if w.node.owner == id && w.node.exists {
		w.put(znode{})
	}
}

func (w *world) put(n znode) {
	w.node = n
	for i := range w.all {
		a := &w.all[i]
		a.news = true
		if n.exists && slices.Contains(a.ids, n.owner) {
			a.stood = a.stood || n.owner == a.id()
			k := 0
			_, _ = fmt.Sscan(n.data, &k)
			a.best = max(a.best, k)
		}
	}
}

// sight is what a contender sees now.
func (w *world) sight(i int, data bool) Sight {
	n := w.node
	s := Sight{Exists: n.exists, Owner: n.owner, Past: slices.Contains(w.all[i].ids, n.owner), Czxid: n.czxid, Version: n.version}
	if data {
		s.Data = n.data
	}
	return s
}

// serve executes a request of a session, and returns its answer.
func (w *world) serve(i int, id int64, do Effect) Input {
	a := &w.all[i]
	if a.killed && id == a.id() {
		return nil // the reconnect tells
	}
	w.zxid++
	n := w.node
	fits := func(t turn, version int32) Input {
		switch {
		case !n.exists:
			return failed{t, session.ErrNoNode}
		case n.version != version:
			return failed{t, session.ErrBadVersion}
		}
		return nil
	}
	switch e := do.(type) {
	case create:
		if n.exists {
			return failed{e.turn, session.ErrNodeExists}
		}
		w.put(znode{exists: true, owner: id, czxid: w.zxid, version: birth, data: e.data})
		return created{e.turn, w.zxid, birth}
	case makeParent:
		return done(e)
	case look:
		if !n.exists {
			return failed{e.turn, session.ErrNoNode}
		}
		return looked{e.turn, w.sight(i, !e.bare)}
	case takeOver:
		if no := fits(e.turn, e.version); no != nil {
			return no
		}
		w.mayDelete(a, id)
		w.put(znode{exists: true, owner: id, czxid: w.zxid, version: birth, data: e.data})
		return created{e.turn, w.zxid, birth}
	case store:
		if no := fits(e.turn, e.version); no != nil {
			return no
		}
		n.version++
		n.data = e.data
		w.put(n)
		return stored{e.turn, ghost{n.owner, n.czxid}, n.version}
	case remove:
		if no := fits(e.turn, e.version); no != nil {
			return no
		}
		w.mayDelete(a, id)
		w.put(znode{})
		return done{e.turn}
	case withdraw:
		if n.exists && n.owner == id {
			w.put(znode{})
		}
		return done{e.turn}
	case follow, wait, answer:
	}
	panic(fmt.Sprintf("%T is no request", do))
}

// mayDelete checks that what is deleted is one's own, one's own ghost, or the very node
// that it was asked to be: but for one that has been changed as often since.
func (w *world) mayDelete(a *contender, id int64) {
	n := w.node
	if n.owner == id || slices.Contains(a.ids, n.owner) {
		return
	}
	if a.aim.Owner != id && n.czxid == a.aim.Czxid || n.version > birth && n.czxid != a.aim.Czxid {
		return
	}
	panic(violation(fmt.Sprintf("%v deletes %+v", a.Machine, n)))
}

// --- the session

func (w *world) connect(i int) {
	a := &w.all[i]
	w.last++
	a.count++
	a.epoch, a.state, a.killed, a.follows, a.stood, a.passed = a.count, up, false, false, false, ghost{}
	a.ids = append(a.ids, w.last)
	a.mail = append(a.mail, heard{session.Connected{Epoch: a.epoch, ID: w.last, Timeout: time.Second}})
}

func (w *world) expire(a *contender) {
	for _, e := range slices.Concat(a.lost, a.out, a.held) {
		a.mail = append(a.mail, failed{turnOf(e), session.ErrExpired})
	}
	a.mail = append(a.mail, heard{session.Expired{Epoch: a.epoch}})
	a.epoch, a.state, a.out, a.lost, a.held = 0, down, nil, nil, nil
}

// notice is when the client learns that its connection is gone.
func (w *world) notice(a *contender, first bool) {
	a.state = down
	if first {
		a.mail = append(a.mail, heard{session.Suspended{}})
	}
	for _, e := range slices.Concat(a.lost, a.out) {
		err := errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)
		switch e.(type) { //nolint:gochecksumtype // the others are alike
		case look:
			err = session.ErrDisconnected
		case withdraw: // goes on
			a.held = append(a.held, e)
			continue
		}
		a.mail = append(a.mail, failed{turnOf(e), err})
	}
	a.out, a.lost = nil, nil
	if !first {
		a.mail = append(a.mail, heard{session.Suspended{}})
	}
}

func turnOf(do Effect) turn {
	switch e := do.(type) {
	case create:
		return e.turn
	case makeParent:
		return e.turn
	case look:
		return e.turn
	case takeOver:
		return e.turn
	case store:
		return e.turn
	case remove:
		return e.turn
	case withdraw:
		return e.turn
	case follow, wait, answer:
	}
	panic(fmt.Sprintf("%T is no request", do))
}

// submit takes a request from a machine.
func (w *world) submit(i int, do Effect) {
	a := &w.all[i]
	switch e := do.(type) {
	case follow:
		if e.epoch == a.epoch {
			a.follows, a.news = true, true
		}
		return
	case wait:
		a.timer, a.timed = e.n, a.ghost
		return
	case answer:
		for range e.replies {
			if k := a.pending[0]; e.err == nil && a.best < k {
				panic(violation(fmt.Sprintf("contender %d: update %d is confirmed, the server has had %d", i, k, a.best)))
			}
			a.pending = a.pending[1:]
		}
		return
	case takeOver:
		aim := a.aim
		if !aim.Past && (a.ever || !w.s.who[i].takeOver || !w.s.who[i].atOnce && (a.passed != aim.ghost() || aim.Owner == 0)) {
			panic(violation(fmt.Sprintf("contender %d takes over %+v", i, aim)))
		}
	case create, makeParent, look, store, remove, withdraw:
	}
	switch {
	case turnOf(do).epoch != a.epoch:
		a.mail = append(a.mail, failed{turnOf(do), session.ErrExpired})
	case a.state == down:
		a.held = append(a.held, do)
	default:
		a.out = append(a.out, do)
	}
}

// --- the machines, and what must hold

func (w *world) step(i int) {
	a := &w.all[i]
	in := a.mail[0]
	a.mail = a.mail[1:]
	switch in := in.(type) { //nolint:gochecksumtype // the others are the machine's
	case Update:
		a.pending = append(a.pending, a.rev)
	case patient:
		if in.n == a.waiting {
			a.passed = a.timed
		}
	case heard:
		if isResumed(in) {
			a.passed = ghost{}
		}
	}
	was := a.Machine
	next, out := a.Step(in)
	a.Machine = next
	for _, ev := range out.Emit {
		switch ev.(type) {
		case Joined, Resumed:
			a.ever = true
			if !a.stood && a.epoch != 0 && a.epoch == next.turn.epoch && !slices.ContainsFunc(a.mail, isResumed) {
				panic(violation(fmt.Sprintf("contender %d: %T, and its node has not stood: %v", i, ev, next)))
			}
		case Suspended, Gone, Left:
		}
	}
	if !was.ended || len(out.Do) == 0 {
		for _, e := range out.Do {
			w.submit(i, e)
		}
	}
	if a.ended && !was.ended {
		if id := a.id(); next.turn.epoch == a.epoch && w.node.exists && w.node.owner == id || len(a.out)+len(a.held) > 0 {
			panic(violation(fmt.Sprintf("contender %d leaves a ghost: %v, %+v", i, next, w.node)))
		}
		a.mail, a.timer = nil, 0
	}
}

func isResumed(in Input) bool { return in == Input(heard{session.Resumed{}}) }

// check holds in every state: when all is quiet, everybody is where it should be, and
// nothing is left behind.
func (w *world) check() {
	normal, _ := w.Actions()
	if len(normal) > 0 {
		return
	}
	held := 0
	for i := range w.all {
		a := &w.all[i]
		if a.crashed || a.ended {
			continue
		}
		held++
		switch {
		case !a.joined || a.suspended || w.node.owner != a.id() || !w.node.exists:
			panic(violation(fmt.Sprintf("contender %d is stuck: %v, %+v", i, a.Machine, w.node)))
		case w.node.data != a.data || len(a.pending)+len(a.waiters) > 0:
			panic(violation(fmt.Sprintf("contender %d has other data: %v, %+v", i, a.Machine, w.node)))
		}
	}
	if held == 0 && w.node.exists && w.node.owner != 0 {
		panic(violation(fmt.Sprintf("%+v is a ghost", w.node)))
	}
}

// --- exploration

// What follows is printed as it is.
type (
	bare  Machine
	plain struct {
		mail            []Input
		out, lost, held []Effect
		ids             []int64
		pending         []int
		numbers         [6]int
		flags           [7]bool
		timed, passed   ghost
	}
)

func (w *world) Key(to []byte) []byte {
	b := bytes.NewBuffer(to)
	fmt.Fprintf(b, "%v %d %v %v\n", w.node, w.zxid, w.old, w.left)
	for _, a := range w.all {
		a.waits = min(a.waits, 3)
		m := a.Machine
		a.Machine = Machine{}
		fmt.Fprintf(b, "%v %v\n", bare(m), plain{a.mail, a.out, a.lost, a.held, a.ids, a.pending, [...]int{
			int(a.state), a.epoch, a.count, a.timer, a.updates, a.best,
		}, [...]bool{a.killed, a.follows, a.news, a.ever, a.stood, a.asked, a.crashed}, a.timed, a.passed})
	}
	return b.Bytes()
}

// walk goes at random until nothing can happen any more.
func walk(s *scenario, r *rand.Rand) (trace []action, err error) {
	w := newWorld(s)
	faultiness := r.Float64() / 4
	calm := 0 // for how many more steps nobody meddles
	for range 4000 {
		normal, faulty := w.Actions()
		switch {
		case len(normal) == 0:
			calm = 0
		case calm > 1:
			calm--
		case calm == 1:
			return trace, errors.New("no rest in 500 steps")
		case r.IntN(60) == 0:
			calm = 500
		}
		choice := normal
		if calm == 0 && len(faulty) > 0 && (len(normal) == 0 || r.Float64() < faultiness) {
			choice = faulty
		}
		if len(choice) == 0 {
			return trace, nil
		}
		by := choice[r.IntN(len(choice))]
		trace = append(trace, by)
		if w, err = exploration.Try(w, by); err != nil {
			return trace, err
		}
	}
	return trace, errors.New("no end in 4000 steps")
}

// tellStory prints a trace with what it does to the machines.
func tellStory(t *testing.T, s *scenario, trace []action) {
	t.Helper()
	w := newWorld(s)
	for _, by := range trace {
		what := fmt.Sprintf("%s %d", by.kind, by.i)
		switch by.kind {
		case "step":
			what += fmt.Sprintf(": %T%v", w.all[by.i].mail[0], w.all[by.i].mail[0])
		case "serve":
			what += fmt.Sprintf(": %T%v", w.all[by.i].out[0], w.all[by.i].out[0])
		}
		next, err := exploration.Try(w, by)
		if by.kind == "step" && next != nil {
			what += fmt.Sprintf("\n\t-> %v", next.all[by.i].Machine)
		}
		if next != nil {
			what += fmt.Sprintf("\n\t%+v", next.node)
		}
		t.Log(what)
		if err != nil {
			return
		}
		w = next
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("explores many states")
	}
	total := 0
	for i := range scenarios {
		s := &scenarios[i]
		t.Run(s.name, func(t *testing.T) {
			states, all, trace, err := exploration.Explore(newWorld(s), (*modelStates-total)/(len(scenarios)-i))
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
}
