// Package linemodel runs the contenders of a line in package zkmodel, for tests: their machines,
// with the performers and recipes of production.
package linemodel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// Root is the path of the lines.
const Root = "/l"

// A Scenario is the start of a world, with its faults.
type Scenario struct {
	Name       string
	Sessions   []int // the session of each contender
	Faults     zkmodel.Faults
	Nodes      []zkmodel.Node
	Warm       string // the parent that the sessions have seen, if any
	Background bool
	Weak       bool // as in [zkmodel.World]
	Downgrades int8
	Marks      int8 // revoke requests
	Sets       int8 // changes of the condition
	Strikable  func(path string) bool
	Effort     int // as in [exploration.Test]; 0 means 1
}

// A Kind describes a kind of line, and the properties that it must have.
type Kind struct {
	// Recipe returns the recipe of a contender, and the state that it keeps beside its performer.
	Recipe func(s client.Session, contender int) (r *contender.Recipe, keeps any)

	// Snapshot returns the present snapshot of the line.
	Snapshot func(w *World) line.Snapshot

	// Mark adds a revoke request to the data of a node. Marked reports whether there is one.
	Mark   func(data string) string
	Marked func(data string) bool

	// Sets returns the data that may be written to the root, given its present data; nil if none.
	Sets func(data string) []string

	// Preempts reports whether a contender asks others to leave; nil if none does.
	Preempts func(contender int) bool

	// Refusal is the error with which a contender may be refused; nil if none is. Disagrees reports
	// whether the refusal may come after the contender has received its place.
	Refusal   error
	Disagrees func(contender int) bool

	// Claim returns the path of a node's claim; nil if the rule does not claim.
	Claim func(w *World, node string) string

	// Herd returns the number of contenders that the deletion of a child of the line may wake.
	Herd func(w *World, name string, names []string) int

	// Hold returns how much of the limit a contender holds, and the limit. If it is nil, a
	// contender excludes others unless it is a reader.
	Hold func(w *World, c *Contender) (weight, limit int)

	// Granted checks a contender's new grant, and Check checks every state.
	Granted func(w *World, c *Contender)
	Check   func(w *World, holders []*Contender)
}

// A World is a state of everything.
type World struct {
	*zkmodel.World
	*Kind
	All       []*Contender
	Dir       string // the parent of the contenders
	Found     string // the data of the root at the start
	Written   string // to the root, by an operator
	Token     int64  // the highest token of a contender that excludes others
	Shared    int64  // the highest token of any contender
	scenario  *Scenario
	downgrade int8 // left
	marks     int8
	sets      int8
	asked     []string // the nodes that were marked
	history   *History // of a random walk
}

// Phases are the events of a contender so far.
type Phases struct {
	phase     phase
	suspended bool
	revoked   bool
}

type phase int8

const (
	inLine phase = iota
	holding
	over
)

type lowering int8

const (
	unwanted lowering = iota
	wanted
	lowered
	refused
)

// A Contender is a machine with its performer.
type Contender struct {
	*zkmodel.Runner[line.Machine, line.Input, line.Effect, line.Event]
	Token int64  // of the grant
	Data  string // the newest condition that it read before its grant
	N     int
	Told  bool // it has received that others are ahead
	Ahead int  // the number of these, by its newest event
	Phases
	rule     line.Rule
	asked    bool // to leave
	lowering lowering
	confirm  func() // notes its downgrade in the history
}

// New returns the world in which a scenario begins.
func New(k *Kind, s *Scenario, keyed bool) *World {
	w := &World{
		World: zkmodel.New(s.Faults, slices.Max(s.Sessions)+1, s.Nodes...), Kind: k, scenario: s,
		downgrade: s.Downgrades, marks: s.Marks, sets: s.Sets,
	}
	w.Root, w.Weak, w.Strikes = Root, s.Weak, s.Strikable
	if n := w.Node(Root); n != nil {
		w.Found = n.Data
	}
	if w.history = NewHistory(w.limit()); keyed {
		w.history = nil
		w.Keyed()
	}
	for i, n := range s.Sessions {
		at := w.Sessions[n]
		if s.Warm != "" {
			at.SetWarm(s.Warm, true)
			if n := w.Node(s.Warm); n != nil && n.Data == "" {
				at.Saw(s.Warm, n.Version, false)
				at.Saw(s.Warm, n.Version, false)
			}
		}
		r, keeps := k.Recipe(at, i)
		w.Dir = r.Dir
		p := contender.NewPerformer(at, r)
		c := &Contender{rule: r.Rule, N: i}
		m := line.New(fmt.Sprintf("%08d-0000-4000-8000-000000000000", i), r.Rule, p.Warm(), s.Background)
		c.Runner = zkmodel.Run(w.World, at, m, actors.Role[line.Machine, line.Input, line.Effect, line.Event]{
			Perform: p.Perform,
			Observe: func(m line.Machine, _ []line.Event) {
				if m.Ended() {
					p.End()
				}
			},
		}, func(in line.Input, before line.Machine, did line.Effects) { w.told(c, in, before, did) })
		c.Hears = func(in line.Input) { w.hears(c, in) }
		w.All = append(w.All, c)
		w.Share(p)
		w.Share(keeps)
		c.Begin(func() { p.Begin(c.Tell, nil) })
	}
	return w
}

// Actions implements [exploration.World].
func (w *World) Actions() (normal, wishes, faulty []zkmodel.Action) {
	normal, faulty = w.World.Actions()
	for i, c := range w.All {
		if c.Ended() {
			continue
		}
		if !c.asked {
			wishes = append(wishes, zkmodel.Action{Kind: "leave", I: i})
		}
		if _, ok := c.weaker(c.M.Node()); ok && w.downgrade > 0 && c.M.Holding() && !c.asked && c.lowering == unwanted {
			wishes = append(wishes, zkmodel.Action{Kind: "downgrade", I: i})
		}
	}
	for _, name := range w.Children(w.Dir) {
		n := w.Node(znode.Join(w.Dir, name))
		if w.marks > 0 && n.Owner != 0 && GUID(name) != "" && !w.Marked(n.Data) {
			faulty = append(faulty, zkmodel.Action{Kind: "mark", Node: n.Path})
		}
	}
	if n := w.Node(Root); w.sets > 0 && w.Sets != nil && n != nil {
		for i, data := range w.Sets(n.Data) {
			if n.Data != data {
				faulty = append(faulty, zkmodel.Action{Kind: "set", I: i})
			}
		}
	}
	return normal, wishes, faulty
}

// GUID returns the GUID in the name of a contender.
func GUID(name string) string {
	const begins, ends = len("_c_"), len("_c_00000000-0000-0000-0000-000000000000")
	if len(name) <= ends || name[:begins] != "_c_" || name[ends] != '-' {
		return ""
	}
	return name[begins:ends]
}

// weaker returns the name of the contender's node after a downgrade.
func (c *Contender) weaker(node string) (name string, ok bool) {
	if node == "" {
		return "", false
	}
	_, name, ok = c.rule.Downgrade(node)
	return name, ok
}

// Lowered reports whether a weaker node stands for a contender, which may not know that yet.
func (w *World) Lowered(c *Contender) bool {
	name, ok := c.weaker(c.M.Node())
	return ok && w.Node(znode.Join(w.Dir, name)) != nil
}

// Apply implements [exploration.World].
func (w *World) Apply(a zkmodel.Action) {
	names := w.Children(w.Dir)
	w.history.Step()
	switch a.Kind {
	case "leave":
		w.All[a.I].asked = true
		w.All[a.I].Tell(line.Leave{})
	case "downgrade":
		w.downgrade--
		w.All[a.I].lowering, w.All[a.I].confirm = wanted, w.history.Lower(a.I)
		w.All[a.I].Tell(line.Downgrade{})
	case "mark":
		w.marks--
		_, name := znode.Split(a.Node)
		w.asked = append(w.asked, name)
		w.SetData(a.Node, w.Mark(w.Node(a.Node).Data))
	case "set":
		w.sets--
		w.Written = w.Sets(w.Node(Root).Data)[a.I]
		w.SetData(Root, w.Written)
	case "close":
		for _, c := range w.All {
			c.asked = c.asked || c.Session() == w.Sessions[a.I]
		}
		w.World.Apply(a)
	default:
		w.World.Apply(a)
	}
	w.remember()
	most, gone := 0, ""
	for _, name := range names {
		if w.Node(znode.Join(w.Dir, name)) == nil {
			most, gone = most+w.Herd(w, name, names), name
		}
	}
	slices.Sort(w.Woken)
	woken := slices.DeleteFunc(slices.Compact(w.Woken), func(i int) bool { // an operator has deleted its node, which it does not know yet
		return i >= 0 && w.All[i].M.Node() != "" && !slices.Contains(names, w.All[i].M.Node())
	})
	if gone != "" && len(woken) > most {
		zkmodel.Violate("herd: the deletion of %s wakes %v", gone, woken)
	}
}

// remember notes changes in the history.
func (w *World) remember() {
	if w.history == nil {
		return
	}
	w.history.Limit(w.limit())
	for _, c := range w.All {
		gone := w.Node(znode.Join(w.Dir, c.M.Node())) == nil && !w.Lowered(c)
		w.history.Doomed(c.N, c.asked || gone || w.Doomed(c))
	}
}

func (w *World) limit() int {
	if w.Hold == nil {
		return Capacity
	}
	_, limit := w.Hold(w, nil)
	return limit
}

// enters notes a grant in the history.
func (w *World) enters(c *Contender) {
	token := c.Token
	if c.Session().Fresh() {
		token = 0 // clients that have seen a greater token refuse it
	}
	switch {
	case w.Hold != nil:
		weight, _ := w.Hold(w, c)
		w.history.Enter(c.N, weight, 0)
	case strings.Contains(c.M.Node(), "read-"):
		w.history.Enter(c.N, 1, token)
	default:
		w.history.Enter(c.N, Capacity, token)
	}
}

// heard checks that a holder loses its grant with the lease, and that a contender in line keeps its
// place.
func (w *World) heard(c *Contender, ev session.Event, before line.Machine) {
	_, lapsed := ev.(session.Lapsed)
	switch {
	case !lapsed:
	case c.M.Holding():
		zkmodel.Violate("contender %d holds without a lease", c.N)
	case before.Waiting() && c.M.Node() != before.Node():
		zkmodel.Violate("contender %d gives up its place with the lease: %v", c.N, c.M)
	}
}

// told checks a step of a machine.
func (w *World) told(c *Contender, in line.Input, before line.Machine, did line.Effects) {
	if data := read(in); data != "" && !before.Holding() {
		c.Data = data
	}
	if h, is := in.(line.Heard); is {
		w.heard(c, h.Event, before)
	}
	for _, ev := range did.Emit {
		c.Follow(c.N, ev)
		switch ev := ev.(type) {
		case line.Waiting:
			c.Told, c.Ahead = true, ev.Ahead
		case line.Acquired:
			c.Token = ev.Token
			w.enters(c)
			if !w.Doomed(c) {
				if w.Node(znode.Join(w.Dir, c.M.Node())) == nil {
					zkmodel.Violate("contender %d holds without a node", c.N)
				}
				w.Granted(w, c)
			}
		case line.Lost:
			w.history.Leave(c.N)
			w.lost(c, before, ev.Err)
		case line.NotGranted:
			w.history.Leave(c.N)
			w.lost(c, before, ev.Err)
		case line.Released:
			w.history.Leave(c.N)
		case line.Suspended, line.Resumed, line.Revoked, line.ConditionChanged:
		}
	}
	for _, e := range did.Do {
		answer, is := e.(line.Answer)
		if !is {
			continue
		}
		if c.lowering != wanted {
			zkmodel.Violate("contender %d answers a downgrade twice: %v", c.N, c.M)
		}
		if c.lowering = refused; answer.Err != nil {
			continue
		}
		c.lowering = lowered
		c.confirm()
		if _, more := c.weaker(c.M.Node()); more && strings.Contains(c.M.Node(), "write-") {
			zkmodel.Violate("contender %d has not downgraded: %v", c.N, c.M)
		}
	}
}

// hears receives each input before the contender does. If a contender's node is gone, it must not
// be granted by the news of another node before it learns of that.
func (w *World) hears(c *Contender, in line.Input) {
	_, happened := in.(line.Happened)
	_, failed := in.(line.Failed)
	if !happened && !failed || c.M.Node() == "" || c.Session().Sees(znode.Join(w.Dir, c.M.Node())) {
		return
	}
	m := c.M
	var did line.Effects
	for _, in := range append(slices.Clone(c.Mail), in) {
		did = line.Effects{}
		m = m.Step(in, &did)
	}
	if slices.ContainsFunc(did.Emit, func(ev line.Event) bool { _, yes := ev.(line.Acquired); return yes }) {
		zkmodel.Violate("contender %d, whose node is gone, is let in by the news of another", c.N)
	}
}

// read returns the condition in an input, if there is one.
func read(in line.Input) string {
	if in, is := in.(line.Joined); is {
		return in.Data
	}
	if in, is := in.(line.Listed); is {
		return in.Data
	}
	seen, _ := in.(line.Seen)
	return seen.Data
}

// Asked reports whether the contender has been asked to leave.
func (p *Phases) Asked() bool { return p.revoked }

// Follow checks an event of contender n by the grammar of events.
func (p *Phases) Follow(n int, ev line.Event) {
	ok := p.phase != over
	switch ev.(type) {
	case line.Waiting:
		ok = p.phase == inLine
	case line.Acquired:
		ok = p.phase == inLine
		p.phase = holding
	case line.Suspended:
		ok = p.phase == holding && !p.suspended
		p.suspended = true
	case line.Resumed:
		ok = p.phase == holding && p.suspended
		p.suspended = false
	case line.Revoked:
		ok = p.phase == holding && !p.revoked
		p.revoked = true
	case line.ConditionChanged:
	case line.Lost:
		ok = p.phase == holding
		p.phase = over
	case line.NotGranted:
		ok = p.phase == inLine
		p.phase = over
	case line.Released:
		p.phase = over
	}
	if !ok {
		zkmodel.Violate("contender %d: %T%v breaks the grammar", n, ev, ev)
	}
}

// lost checks the reason for which a contender has lost its place.
func (w *World) lost(c *Contender, before line.Machine, err error) {
	f := w.scenario.Faults
	forced := errors.Is(err, line.ErrRevoked)
	switch {
	case errors.Is(err, session.ErrExpired), errors.Is(err, session.ErrClosed):
		if c.Session().Epoch() == before.Epoch() {
			zkmodel.Violate("contender %d has lost a session that lives: %v", c.N, err)
		}
	case errors.Is(err, session.ErrLapsed):
		if !before.Holding() || f.Lapses+f.Expires == 0 {
			zkmodel.Violate("contender %d has lapsed, and did not hold: %v", c.N, before)
		}
	case forced || errors.Is(err, line.ErrNodeDeleted):
		asked := w.Demanded(before.Node()) || slices.ContainsFunc(w.asked, func(node string) bool {
			return GUID(node) == GUID(before.Node()) // a downgrade copies the request
		})
		switch {
		case forced && !asked:
			zkmodel.Violate("contender %d was asked to leave %s by no contender", c.N, before.Node())
		case !w.struck(c, before.Node()) && !c.Session().Killed() && c.Session().Epoch() == before.Epoch():
			zkmodel.Violate("contender %d has lost %s, which was not deleted", c.N, before.Node())
		}
	case f.Full > 0 && errors.Is(err, session.ErrSessionFull), f.Busy > 0 && errors.Is(err, zkmodel.ErrBusy):
	case w.Restored() && errors.Is(err, session.ErrHistoryLost):
	case w.Refusal != nil && errors.Is(err, w.Refusal):
		if before.Holding() || c.Told && !w.Disagrees(c.N) {
			zkmodel.Violate("contender %d disagrees too late: %v", c.N, err)
		}
	default:
		zkmodel.Violate("contender %d has lost for nothing: %v", c.N, err)
	}
}

// Demanded reports whether another contender may have asked the holder with the node to leave.
func (w *World) Demanded(node string) bool {
	return slices.ContainsFunc(w.All, func(c *Contender) bool {
		return w.Preempts != nil && w.Preempts(c.N) && c.M.Node() != node
	})
}

// struck reports whether another client may have deleted a node of a contender's attempt.
func (w *World) struck(_ *Contender, node string) bool {
	guid := GUID(node)
	return w.Demanded(node) || guid != "" && slices.ContainsFunc(w.Struck, func(n zkmodel.Node) bool {
		return strings.Contains(n.Path, guid) || strings.Contains(n.Data, guid)
	})
}

// Doomed reports whether a contender's place is over, which it has yet to learn.
func (w *World) Doomed(c *Contender) bool {
	guid := GUID(c.M.Node())
	return c.Dead || c.Session().Killed() || c.Session().Epoch() != c.M.Epoch() || guid != "" && slices.ContainsFunc(w.Struck, func(n zkmodel.Node) bool {
		return strings.Contains(n.Path, guid) || strings.Contains(n.Data, guid)
	})
}

// Check implements [exploration.World].
func (w *World) Check() {
	var holders []*Contender
	for _, c := range w.All {
		if c.Dead {
			continue
		}
		if c.M.Holding() && !w.Doomed(c) {
			holders = append(holders, c)
			if w.Node(znode.Join(w.Dir, c.M.Node())) == nil && !w.Lowered(c) && !w.Demanded(c.M.Node()) {
				zkmodel.Violate("contender %d holds without a node", c.N)
			}
		}
		if w.Under(c.N, func(e any) bool { _, is := e.(line.ListParent); return is }) > 1 {
			zkmodel.Violate("contender %d asks for two lists at once", c.N)
		}
	}
	w.Kind.Check(w, holders)
	if w.Quiet() {
		w.checkQuiet()
	}
}

// checkQuiet checks a world in which nothing happens without a command or a fault: every contender
// is where it should be, none waits in vain, no node is left behind, and every watch is needed.
func (w *World) checkQuiet() {
	snapshot := w.Snapshot(w)
	waits, holds := 0, 0
	for _, c := range w.All {
		if c.Ended() {
			if left := c.Session().Watched(c.N); len(left) > 0 {
				zkmodel.Violate("contender %d has ended, and watches %v", c.N, left)
			}
			continue
		}
		node := c.M.Node()
		n := w.Node(znode.Join(w.Dir, node))
		watched := slices.DeleteFunc(c.Session().Watched(c.N), func(path string) bool { return path == Root && w.Dir != Root })
		switch {
		case !c.M.Waiting() && !c.M.Holding():
			zkmodel.Violate("contender %d is stuck: %v", c.N, c.M)
		case w.afar(c, watched): // it learns of its own node when the watched one is gone
			waits++
		case node == "" || n == nil:
			zkmodel.Violate("contender %d has no node: %v", c.N, c.M)
		case c.lowering == wanted:
			zkmodel.Violate("contender %d has no answer to a downgrade: %v", c.N, c.M)
		case c.M.Holding() && w.Marked(n.Data) && !c.revoked:
			zkmodel.Violate("contender %d does not know that it is asked to leave: %v", c.N, c.M)
		case !c.Session().Watches(c.N, n.Path, session.AspectData):
			zkmodel.Violate("contender %d does not watch its node: %v", c.N, c.M)
		case len(watched) > 3 && !c.rule.Traits().AnnouncesGrants:
			zkmodel.Violate("contender %d watches too much: %v", c.N, watched)
		case c.M.Holding() && !w.claims(c) && len(watched) > 1, c.M.Holding() && w.claims(c) && !slices.Contains(watched, w.Claim(w, node)):
			zkmodel.Violate("contender %d holds, and watches %v", c.N, watched)
		case c.M.Waiting() && len(watched) < 2:
			zkmodel.Violate("contender %d waits, and watches %v", c.N, watched)
		case c.M.Waiting() && c.rule.Locate(snapshot, node, GUID(node)).Ahead == 0:
			zkmodel.Violate("contender %d waits for no other: %v", c.N, c.M)
		case c.M.Waiting():
			waits++
		default:
			holds++
		}
	}
	if waits > 0 && holds == 0 {
		zkmodel.Violate("a contender waits and none holds")
	}
	for _, n := range w.Nodes() {
		if n.Owner != 0 && !w.foreign(n) && !slices.ContainsFunc(w.All, func(c *Contender) bool { return !c.Ended() && w.belongs(c, n) }) {
			zkmodel.Violate("%s is a ghost", n.Path)
		}
	}
}

// foreign reports whether a node was there at the start.
func (w *World) foreign(n zkmodel.Node) bool {
	return slices.ContainsFunc(w.scenario.Nodes, func(first zkmodel.Node) bool { return first.Path == n.Path })
}

// afar reports whether a contender waits so far behind that it watches only one other node, which
// exists.
func (w *World) afar(c *Contender, watched []string) bool {
	rule, is := c.rule.(line.First)
	if !is || rule.Far == 0 || !c.M.Waiting() || len(watched) != 1 || w.Node(watched[0]) == nil {
		return false
	}
	_, ahead := znode.Split(watched[0])
	_, stands := rule.Parse(ahead)
	return ahead != c.M.Node() && stands
}

func (w *World) claims(c *Contender) bool { return c.rule.Traits().Claims && w.Claim != nil }

// belongs reports whether a node may belong to a contender. A node that a late create has left is
// deleted when its contender leaves.
func (w *World) belongs(c *Contender, n zkmodel.Node) bool {
	own := c.M.Node()
	late := w.scenario.Faults.Lates > 0 || w.scenario.Faults.Cuts > 0
	switch {
	case n.Path == znode.Join(w.Dir, own), c.M.Holding() && w.claims(c) && n.Path == w.Claim(w, own) && (n.Data == own || n.Data == ""):
		return true
	}
	dir, name := znode.Split(n.Path)
	return late && dir == w.Dir && GUID(own) != "" && GUID(name) == GUID(own)
}

// Ended returns the violation of a world in which nothing can happen any more, if any.
func (w *World) Ended() error {
	for _, c := range w.All {
		if !c.Ended() {
			return fmt.Errorf("contender %d never ends: %v", c.N, c.M)
		}
	}
	return w.history.Check()
}

// Test explores a scenario.
func Test(t *testing.T, k *Kind, s *Scenario) {
	t.Helper()
	exploration.Test(t,
		func(keyed bool) exploration.World[zkmodel.Action] { return New(k, s, keyed) },
		max(1, s.Effort),
		func(w exploration.World[zkmodel.Action]) error { return w.(*World).Ended() })
}

// Key implements [exploration.World].
func (w *World) Key() uint64 {
	w.Woken = nil
	return zkmodel.Hash(w)
}

// CheckToken checks that a token is the zxid of the grant, and greater than all earlier tokens that
// it may be compared with.
func (w *World) CheckToken(c *Contender, zxid int64, excludes bool) {
	if c.Session().Fresh() {
		return // it has seen no earlier token
	}
	if c.Token != zxid || c.Token <= w.Token || excludes && c.Token <= w.Shared {
		zkmodel.Violate("contender %d: token %d after %d and %d of readers, granted at %d", c.N, c.Token, w.Token, w.Shared, zxid)
	}
	if w.Shared = max(w.Shared, c.Token); excludes {
		w.Token = c.Token
	}
}

// CheckApart checks that contenders that hold at the same time are readers.
func (w *World) CheckApart(holders []*Contender) {
	excludes := func(c *Contender) bool {
		return !strings.Contains(c.M.Node(), "read-") && !w.Lowered(c)
	}
	if len(holders) > 1 && slices.ContainsFunc(holders, excludes) {
		zkmodel.Violate("contenders %d and %d hold the lock", holders[0].N, holders[1].N)
	}
}
