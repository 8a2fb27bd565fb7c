package presence

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// This file lets several machines, with their performers, meet at one path in the model of
// ZooKeeper.

const (
	nameRoot = "/g"
	namePath = nameRoot + "/name"
)

// A scenario is who wants the name, and what may go wrong.
type scenario struct {
	name     string
	who      []Machine
	nobody   bool // a node of no session stands there
	stranger bool // or one of a session that does not use this library, and ends
	faults   zkmodel.Faults
	updates  int
}

var (
	meek   = newMachine([]byte("0"), Config{})
	bold   = newMachine([]byte("0"), Config{TakeOver: true})
	rash   = newMachine([]byte("0"), Config{TakeOver: true, AtOnce: true})
	stormy = zkmodel.Faults{Cuts: 3, Expires: 2, Kills: 1, Strikes: 1, Crashes: 1}

	scenarios = []scenario{
		{name: "alone", who: []Machine{meek}, faults: zkmodel.Faults{Cuts: 2, Expires: 1, Strikes: 1}, updates: 1},
		{name: "a restore", who: []Machine{meek, bold}, faults: zkmodel.Faults{Restores: 1, Cuts: 1}, updates: 1},
		{name: "two meek", who: []Machine{meek, meek}, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
		{name: "two bold", who: []Machine{bold, bold}, faults: zkmodel.Faults{Cuts: 1}},
		{name: "two bold, one expires", who: []Machine{bold, bold}, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
		{name: "two rash", who: []Machine{rash, rash}, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
		{name: "a rash one and an update", who: []Machine{meek, rash}, faults: zkmodel.Faults{Cuts: 1}, updates: 1},
		{name: "a bold one and a crash", who: []Machine{meek, bold}, faults: zkmodel.Faults{Crashes: 1, Cuts: 1}},
		{name: "an operator", who: []Machine{meek, bold}, faults: zkmodel.Faults{Strikes: 2, Cuts: 1}},
		{name: "a node of nobody", who: []Machine{meek, bold}, nobody: true, faults: zkmodel.Faults{Cuts: 1, Strikes: 1}},
		{name: "a node of nobody, and a rash one", who: []Machine{rash, bold}, nobody: true, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
		{name: "a stranger", who: []Machine{meek, rash}, stranger: true, faults: zkmodel.Faults{Cuts: 1}},
		{name: "a stranger, everything", who: []Machine{rash, bold}, stranger: true, faults: stormy, updates: 1},
		{name: "three", who: []Machine{meek, bold, rash}, faults: zkmodel.Faults{Cuts: 1, Expires: 1, Strikes: 1}},
		{name: "two, everything", who: []Machine{meek, bold}, faults: stormy, updates: 2},
		{name: "three, everything", who: []Machine{bold, bold, bold}, faults: stormy, updates: 2},
		{name: "three rash, everything", who: []Machine{rash, rash, meek}, faults: stormy, updates: 2},
		{name: "a busy server", who: []Machine{meek, bold}, faults: zkmodel.Faults{Busy: 2, Cuts: 1}, updates: 1},
	}
)

type (
	// A world is a state of everything.
	world struct {
		*zkmodel.World
		s   *scenario
		all []*contender
	}
	contender struct {
		*zkmodel.Runner[Machine, Input, Effect, Event]
		n       int
		ids     []int64 // of its sessions on the server
		timed   ghost   // what it waits for
		passed  ghost   // what it has waited for
		ever    bool    // Joined was told
		stood   bool    // its node has, since the last reconnect
		asked   bool    // to leave
		updates int
		best    int   // the newest update that the server has had
		pending []int // those that wait for an answer
	}
)

func newWorld(s *scenario, keyed bool) *world {
	const strange = 99
	nodes := []zkmodel.Node{{Path: nameRoot}}
	if s.nobody || s.stranger {
		nodes = append(nodes, zkmodel.Node{Path: namePath, Czxid: 1, Mzxid: 1})
	}
	if s.stranger {
		nodes[1].Owner = strange
	}
	w := &world{World: zkmodel.New(s.faults, len(s.who), nodes...), s: s}
	if w.Root = nameRoot; s.stranger {
		w.Stranger(strange)
	}
	w.Deleting = w.mayDelete
	if keyed {
		w.Keyed()
	}
	for i, m := range s.who {
		c := &contender{n: i}
		at := w.Sessions[i]
		n := newNode(at, namePath)
		_ = n.claim(nil) // no other handle is in the session
		c.Runner = zkmodel.Run(w.World, at, m, actors.Role[Machine, Input, Effect, Event]{
			Perform: n.Perform,
			Observe: func(m Machine, _ []Event) {
				if m.Ended() {
					n.End()
				}
			},
		}, func(in Input, before Machine, did Effects) { w.told(c, in, before, did) })
		w.all = append(w.all, c)
		w.Share(n)
		c.Begin(func() { n.Begin(c.Tell, nil) })
	}
	w.follow()
	return w
}

// Actions implements [exploration.World].
func (w *world) Actions() (normal, wishes, faulty []zkmodel.Action) {
	normal, faulty = w.World.Actions()
	for i, c := range w.all {
		if !c.Ended() && !c.asked {
			wishes = append(wishes, zkmodel.Action{Kind: "leave", I: i})
		}
		if !c.Ended() && c.updates < w.s.updates {
			wishes = append(wishes, zkmodel.Action{Kind: "update", I: i})
		}
	}
	return normal, wishes, faulty
}

// Apply implements [exploration.World].
func (w *world) Apply(a zkmodel.Action) {
	switch a.Kind {
	case "leave":
		w.all[a.I].asked = true
		w.all[a.I].Tell(Leave{})
	case "update":
		c := w.all[a.I]
		c.updates++
		c.Tell(Update{strconv.Itoa(c.updates), actors.Reply[error]{}})
	case "connect", "reconnect":
		w.World.Apply(a)
		w.all[a.I].stood = false
	default:
		w.World.Apply(a)
	}
	w.follow()
}

// follow takes note of what the server has.
func (w *world) follow() {
	n := w.Node(namePath)
	for _, c := range w.all {
		if id := c.Session().ID(); id != 0 && !slices.Contains(c.ids, id) {
			c.ids = append(c.ids, id)
			c.passed = ghost{}
		}
		if n == nil || !slices.Contains(c.ids, n.Owner) {
			continue
		}
		c.stood = c.stood || n.Owner == c.Session().ID()
		k, _ := strconv.Atoi(n.Data)
		c.best = max(c.best, k)
	}
}

// mayDelete checks that what is deleted is one's own, one's own ghost, or the very node
// that it was asked to be: but for one that has been changed as often since.
func (w *world) mayDelete(actor int, owner int64, n zkmodel.Node) {
	c := w.all[actor]
	aim := c.M.aim
	switch {
	case n.Owner == owner, slices.Contains(c.ids, n.Owner), aim.Owner != owner && n.Czxid == aim.Czxid, n.Version > birth && n.Czxid != aim.Czxid:
		return
	}
	zkmodel.Violate("%v deletes %+v", c.M, n)
}

func isResumed(in Input) bool { return in == Input(heard{session.Resumed{}}) }

// told follows a step of a machine.
func (w *world) told(c *contender, in Input, was Machine, did Effects) {
	switch in := in.(type) { // the others are the machine's
	case Update:
		c.pending = append(c.pending, was.rev)
	case patient:
		if in.n == was.waiting {
			c.passed = c.timed
		}
	case heard:
		if isResumed(in) {
			c.passed = ghost{}
		}
	}
	for _, ev := range did.Emit {
		switch ev.(type) {
		case Joined, Resumed:
			c.ever = true
			if id := c.Session(); !c.stood && id.Epoch() != 0 && id.Epoch() == c.M.request.epoch && !slices.ContainsFunc(c.Mail, isResumed) {
				zkmodel.Violate("contender %d: %T, and its node has not stood: %v", c.n, ev, c.M)
			}
		case Suspended, Gone, Left:
		}
	}
	for _, e := range did.Do {
		w.asks(c, e)
	}
	if n := w.Node(namePath); c.M.ended && !was.ended && n != nil && n.Owner != 0 && n.Owner == c.Session().ID() && c.M.request.epoch == c.Session().Epoch() && !c.M.lapsed {
		zkmodel.Violate("contender %d leaves a ghost: %v, %+v", c.n, c.M, *n)
	}
}

func (w *world) asks(c *contender, e Effect) {
	switch e := e.(type) { // the others need no check
	case wait:
		c.timed = c.M.ghost
	case answer:
		for range e.replies {
			if k := c.pending[0]; e.err == nil && c.best < k {
				zkmodel.Violate("contender %d: update %d is confirmed, the server has had %d", c.n, k, c.best)
			}
			c.pending = c.pending[1:]
		}
	case takeOver:
		aim := c.M.aim
		if !aim.Past && (c.ever || !w.s.who[c.n].takeOver || !w.s.who[c.n].atOnce && (c.passed != aim.ghost() || aim.Owner == 0)) {
			zkmodel.Violate("contender %d takes over %+v", c.n, aim)
		}
	}
}

// Check implements [exploration.World]: when all is quiet, every machine is where it should
// be, and nothing is left behind.
func (w *world) Check() {
	if !w.Quiet() {
		return
	}
	n := w.Node(namePath)
	kept := 0
	for _, c := range w.all {
		if c.Ended() {
			if left := c.Session().Watched(c.n); !c.Session().Crashed() && len(left) > 0 {
				zkmodel.Violate("contender %d has ended, and watches %v", c.n, left)
			}
			continue
		}
		kept++
		switch {
		case !c.M.joined || c.M.suspended || n == nil || n.Owner != c.Session().ID():
			zkmodel.Violate("contender %d is stuck: %v, %+v", c.n, c.M, n)
		case n.Data != c.M.data || len(c.pending)+len(c.M.waiters) > 0:
			zkmodel.Violate("contender %d has other data: %v, %+v", c.n, c.M, *n)
		}
	}
	if kept == 0 && n != nil && n.Owner != 0 {
		zkmodel.Violate("%+v is a ghost", *n)
	}
}

// Key implements [exploration.World].
func (w *world) Key() uint64 {
	w.Woken = nil
	return zkmodel.Hash(w)
}

func TestModel(t *testing.T) {
	for i := range scenarios {
		s := &scenarios[i]
		t.Run(s.name, func(t *testing.T) {
			exploration.Test(t, func(keyed bool) exploration.World[zkmodel.Action] { return newWorld(s, keyed) }, 1,
				func(w exploration.World[zkmodel.Action]) error {
					for _, c := range w.(*world).all {
						if !c.Ended() {
							return fmt.Errorf("contender %d never ends: %v", c.n, c.M)
						}
					}
					return nil
				})
		})
	}
}
