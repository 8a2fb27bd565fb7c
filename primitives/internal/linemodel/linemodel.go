// Package linemodel has contenders of a line meet in package zkmodel, for tests: their
// machines, and the performers and recipes that run in production.
package linemodel

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// Root is where the lines are.
const Root = "/l"

// A Scenario is a start, and what may go wrong.
type Scenario struct {
	Name       string
	Sessions   []int // of each contender, its session
	Faults     zkmodel.Faults
	Nodes      []zkmodel.Node
	Warm       string // what the sessions have seen, if anything
	Background bool
	Weak       bool // as in [zkmodel.World]
	Downgrades int8
	Marks      int8 // of contenders who are asked to leave
	Sets       int8 // of what the rule depends on
	Strikable  func(path string) bool
	Effort     int // how much more than others it takes to find what it is for; 0 for 1
}

// A Kind is what a line is for, and what must hold there.
type Kind struct {
	// Recipe returns that of a contender, and what it keeps beside its performer.
	Recipe func(s client.Session, contender int) (r *line.Recipe, keeps any)

	// Sight returns all of the line.
	Sight func(w *World) line.Sight

	// Marks says how a node is marked, and whether it is.
	Mark   func(data string) string
	Marked func(data string) bool

	// Sets returns what may be written to the root, given what it says; nil if nothing.
	Sets func(data string) []string

	// Preempts reports whether a contender has others leave; nil if none does.
	Preempts func(contender int) bool

	// Refusal is why a contender may find no place in line; nil if there is no reason. Disagrees
	// reports whether that may come after it was told its place.
	Refusal   error
	Disagrees func(contender int) bool

	// Claim returns the path of the claim of a node; nil if there is none.
	Claim func(w *World, node string) string

	// Herd returns how many the deletion of a child of the line may wake.
	Herd func(w *World, name string, names []string) int

	// Hold returns how much of the limit a contender holds, and the limit; if nil, it
	// excludes others unless it reads.
	Hold func(w *World, c *Contender) (weight, limit int)

	// Granted and Check say what is wrong when a contender has just been let in, and in
	// every state.
	Granted func(w *World, c *Contender)
	Check   func(w *World, holders []*Contender)
}

// A World is a state of everything.
type World struct {
	*zkmodel.World
	*Kind
	All       []*Contender
	Dir       string // in which contenders stand
	Found     string // the data of the root at the start
	Token     int64  // the highest that was granted to one that excludes others
	Shared    int64  // and to any
	scenario  *Scenario
	downgrade int8 // left
	marks     int8
	sets      int8
	asked     []string // the nodes that were marked
	history   *History // of a random walk
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
	Token     int64  // of the grant
	Data      string // that was read last, until it was let in, of what the rule depends on
	N         int
	Told      bool // that others are ahead
	Ahead     int  // of these, as it was told last
	rule      line.Rule
	phase     phase
	suspended bool
	revoked   bool
	asked     bool // to leave
	lowering  lowering
	confirm   func() // notes that it has
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
		}
		r, keeps := k.Recipe(at, i)
		w.Dir = r.Dir
		p := line.NewPerformer(at, r)
		warm := at.Warm(r.Dir) && (r.Hooks == nil || !r.Plain)
		if r.Hooks != nil && r.Warmth != nil {
			warm = at.Warm(r.Warmth(r))
		}
		c := &Contender{rule: r.Rule, N: i}
		m := line.New(fmt.Sprintf("%08d-0000-4000-8000-000000000000", i), r.Rule, warm, s.Background)
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

// GUID returns that in the name of a contender.
func GUID(name string) string {
	const begins, ends = len("_c_"), len("_c_00000000-0000-0000-0000-000000000000")
	if len(name) <= ends || name[:begins] != "_c_" || name[ends] != '-' {
		return ""
	}
	return name[begins:ends]
}

// weaker returns what stands for a contender that has downgraded.
func (c *Contender) weaker(node string) (name string, ok bool) {
	if node == "" {
		return "", false
	}
	_, name, ok = c.rule.Downgrade(node)
	return name, ok
}

// Lowered reports whether a weaker node stands for a contender, which it may not know.
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
		w.SetData(Root, w.Sets(w.Node(Root).Data)[a.I])
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
	if woken := slices.Compact(w.Woken); gone != "" && len(woken) > most {
		zkmodel.Violate("herd: the deletion of %s wakes %v", gone, woken)
	}
}

// remember notes in the history what has changed.
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

// enters notes in the history that a contender was let in.
func (w *World) enters(c *Contender) {
	switch {
	case w.Hold != nil:
		weight, _ := w.Hold(w, c)
		w.history.Enter(c.N, weight, 0)
	case strings.Contains(c.M.Node(), "read-"):
		w.history.Enter(c.N, 1, c.Token)
	default:
		w.history.Enter(c.N, Capacity, c.Token)
	}
}

// told follows a step of a machine.
func (w *World) told(c *Contender, in line.Input, before line.Machine, did line.Effects) {
	if data := read(in); data != "" && !before.Holding() {
		c.Data = data
	}
	for _, ev := range did.Emit {
		c.follow(ev)
		switch ev := ev.(type) {
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
		case line.Released:
			w.history.Leave(c.N)
		case line.Waiting, line.Suspended, line.Resumed, line.Revoked:
		}
	}
	for _, e := range did.Do {
		v := reflect.ValueOf(e)
		if v.Type().Name() != "answer" {
			continue
		}
		failed := !v.FieldByName("err").IsNil()
		if c.lowering != wanted {
			zkmodel.Violate("contender %d answers a downgrade twice: %v", c.N, c.M)
		}
		if c.lowering = refused; failed {
			continue
		}
		c.lowering = lowered
		c.confirm()
		if _, more := c.weaker(c.M.Node()); more && strings.Contains(c.M.Node(), "write-") {
			zkmodel.Violate("contender %d has not downgraded: %v", c.N, c.M)
		}
	}
}

// hears is told of an input that a contender is about to hear. News of another contender's
// node that let it in must not come before the news that its own is gone.
func (w *World) hears(c *Contender, in line.Input) {
	if kind := reflect.TypeOf(in).Name(); kind != "gone" && kind != "failed" || c.M.Node() == "" || c.Session().Sees(znode.Join(w.Dir, c.M.Node())) {
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

// read returns what was read beside the names, if the input says so.
func read(in line.Input) string {
	switch v := reflect.ValueOf(in); v.Type().Name() {
	case "joined":
		return v.FieldByName("data").String()
	case "listed", "seen":
		return v.FieldByName("Data").String()
	}
	return ""
}

// follow checks the grammar of events.
func (c *Contender) follow(ev line.Event) {
	ok := c.phase != over
	switch ev := ev.(type) {
	case line.Waiting:
		ok = c.phase == inLine
		c.Told, c.Ahead = true, ev.Ahead
	case line.Acquired:
		ok = c.phase == inLine
		c.phase = holding
	case line.Suspended:
		ok = c.phase == holding && !c.suspended
		c.suspended = true
	case line.Resumed:
		ok = c.phase == holding && c.suspended
		c.suspended = false
	case line.Revoked:
		ok = c.phase == holding && !c.revoked
		c.revoked = true
	case line.Released, line.Lost:
		c.phase = over
	}
	if !ok {
		zkmodel.Violate("contender %d: %T%v breaks the grammar", c.N, ev, ev)
	}
}

// lost checks why a contender says that it has lost.
func (w *World) lost(c *Contender, before line.Machine, err error) {
	f := w.scenario.Faults
	forced := errors.Is(err, line.ErrRevoked)
	switch {
	case errors.Is(err, session.ErrExpired), errors.Is(err, session.ErrClosed):
		if c.Session().Epoch() == before.Epoch() {
			zkmodel.Violate("contender %d has lost a session that lives: %v", c.N, err)
		}
	case forced || errors.Is(err, line.ErrNodeDeleted):
		asked := w.Demanded(before.Node()) || slices.ContainsFunc(w.asked, func(node string) bool {
			return GUID(node) == GUID(before.Node()) // a downgrade carries the mark on
		})
		switch {
		case forced && !asked:
			zkmodel.Violate("contender %d was asked to leave %s by no contender", c.N, before.Node())
		case !w.struck(c, before.Node()) && !c.Session().Killed() && c.Session().Epoch() == before.Epoch():
			zkmodel.Violate("contender %d has lost %s, which was not deleted", c.N, before.Node())
		}
	case f.Full > 0 && errors.Is(err, session.ErrSessionFull), f.Busy > 0 && errors.Is(err, zkmodel.ErrBusy):
	case w.Refusal != nil && errors.Is(err, w.Refusal):
		if before.Holding() || c.Told && !w.Disagrees(c.N) {
			zkmodel.Violate("contender %d disagrees too late: %v", c.N, err)
		}
	default:
		zkmodel.Violate("contender %d has lost for nothing: %v", c.N, err)
	}
}

// Demanded reports whether another contender has asked for a node, or might have.
func (w *World) Demanded(node string) bool {
	return slices.ContainsFunc(w.All, func(c *Contender) bool {
		return w.Preempts != nil && w.Preempts(c.N) && c.M.Node() != node
	})
}

// struck reports whether another client has deleted what stands for a contender's attempt,
// or may have.
func (w *World) struck(_ *Contender, node string) bool {
	guid := GUID(node)
	return w.Demanded(node) || guid != "" && slices.ContainsFunc(w.Struck, func(n zkmodel.Node) bool {
		return strings.Contains(n.Path, guid) || strings.Contains(n.Data, guid)
	})
}

// Doomed reports whether what a contender has is over, and it has yet to hear of that.
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
		if w.Under(c.N, func(e any) bool { return reflect.TypeOf(e).Name() == "listParent" }) > 1 {
			zkmodel.Violate("contender %d asks for two lists at once", c.N)
		}
	}
	w.Kind.Check(w, holders)
	if w.Quiet() {
		w.checkQuiet()
	}
}

// checkQuiet holds when nothing happens without a command or a fault: every contender is
// where it should be, none waits in vain, nothing is left behind, and every watch is
// needed.
func (w *World) checkQuiet() {
	sight := w.Sight(w)
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
		case node == "" || n == nil:
			zkmodel.Violate("contender %d has no node: %v", c.N, c.M)
		case c.lowering == wanted:
			zkmodel.Violate("contender %d has no answer to a downgrade: %v", c.N, c.M)
		case c.M.Holding() && w.Marked(n.Data) && !c.revoked:
			zkmodel.Violate("contender %d does not know that it is asked to leave: %v", c.N, c.M)
		case !c.Session().Watches(c.N, n.Path, session.AspectData):
			zkmodel.Violate("contender %d does not watch its node: %v", c.N, c.M)
		case len(watched) > 3 && !c.rule.Announces():
			zkmodel.Violate("contender %d watches too much: %v", c.N, watched)
		case c.M.Holding() && !w.claims(c) && len(watched) > 1, c.M.Holding() && w.claims(c) && !slices.Contains(watched, w.Claim(w, node)):
			zkmodel.Violate("contender %d holds, and watches %v", c.N, watched)
		case c.M.Waiting() && len(watched) < 2:
			zkmodel.Violate("contender %d waits, and watches %v", c.N, watched)
		case c.M.Waiting() && c.rule.Locate(sight, node, GUID(node)).Ahead == 0:
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
		if n.Owner != 0 && !slices.ContainsFunc(w.All, func(c *Contender) bool { return !c.Ended() && w.belongs(c, n) }) {
			zkmodel.Violate("%s is a ghost", n.Path)
		}
	}
}

func (w *World) claims(c *Contender) bool { return c.rule.Claims() && w.Claim != nil }

// belongs reports whether a node may stand for a contender. What a late create has left goes
// when its maker leaves.
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

// Ended returns what is wrong when nothing can happen any more.
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

// CheckToken checks that a token is the zxid of the grant, and greater than all before that it may
// be compared with.
func (w *World) CheckToken(c *Contender, zxid int64, excludes bool) {
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
