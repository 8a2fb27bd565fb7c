package zkmodel

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/session"
)

// Faults says how often each fault may happen.
type Faults struct {
	Cuts    int8 // of a connection
	Lates   int8 // requests that are executed after their connection was cut
	Expires int8 // that the client finds by itself, as where servers resume no session
	Lapses  int8 // of leases, while the server may keep the session; as many as Expires if that is more
	Kills   int8 // expiries by the server, of which the client hears when it reconnects
	Closes  int8 // of sessions
	Crashes int8 // of clients
	Busy    int8 // requests that are refused
	Full    int8 // creations of ephemeral nodes that the session refuses
	Denials int8 // requests, or operations of transactions, that the client is not allowed to do
	Lags    int8 // followers that stop following
	Strikes int8 // deletions of nodes by an operator
	Razes   int8 // of the whole tree below [World.Root]
	Reaps   int8 // of empty containers

	// By an operator, to the nodes of [New] or to the newest backup. Every session ends.
	Restores int8

	Backups int8 // of the present tree

	// Restores of the tree of an earlier moment, which the sessions of that moment outlive: no
	// client notices.
	Relapses int8
}

// An Action is one thing that happens.
type Action struct {
	Kind       string
	I, Variant int
	Node       string
}

func (a Action) String() string {
	s := fmt.Sprintf("%s %d", a.Kind, a.I)
	if a.Variant != 0 {
		s += fmt.Sprintf(" variant %d", a.Variant)
	}
	return strings.TrimRight(s+" "+a.Node, " ")
}

// ErrBusy is the answer of a busy server.
var ErrBusy = &session.ServerError{Code: -127}

// An Actor runs in the model. See [Run].
type Actor interface {
	// Waiting reports whether there is an input to take.
	Waiting() bool

	// Pending describes the input that it takes next; "" if there is none.
	Pending() string
	Step()
	Ended() bool
	String() string

	Session() *Session
	crash()
}

// A World is a server, its sessions, and the actors in them.
type World struct {
	Left Faults
	Weak bool // see the package documentation

	// Prompt reports whether a request that writes this data last is not executed late once the
	// session was served again; nil means never.
	Prompt func(data string) bool

	Root     string                 // the tree in which operators delete
	Strikes  func(path string) bool // whether they delete the node; nil means all
	Sessions []*Session
	Actors   []Actor
	Struck   []Node // the nodes that operators have deleted

	// Deleting, if not nil, receives each node that is deleted on request.
	Deleting func(actor int, owner int64, n Node)

	// Given, if not nil, notes the inputs of the actors.
	Given *check.Given

	// The actors whose watches fired in the last action.
	Woken []int

	tree   tree
	zxid   int64
	backup tree  // the tree that a restore brings back
	saved  tree  // the tree that a relapse brings back; nil before it is kept
	knows  int64 // the newest session that it knows
	era    int64 // counts the restores, and the relapses
	ids    int64
	owners []int // the session that has, or has had, the id n+1
	clock  time.Duration
	dying  []dying
	lates  []late
	timers []*timer
	shared []any
	now    *activity
	soon   []func()
	keyed  bool // a caller asks for Key
	serial bool // set by Serial: then sessions keep told
}

type (
	// dying is a session that the server has yet to expire.
	dying struct {
		id  int64
		out []*request
	}
	late struct {
		id        int64
		overtaken bool // the session was served since
		*request
	}
	timer struct {
		due time.Duration
		f   func()
		act *activity
		s   *Session
	}
	// An activity is the sum of the consequences of one effect of a machine.
	activity struct {
		actor int
		of    any // the effect
		hash  uint64
	}
)

// first is the number of the last transaction before a world begins.
const first = 100

// New returns a world with so many sessions, which are connected, and the nodes.
func New(faults Faults, sessions int, nodes ...Node) *World {
	faults.Lapses = max(faults.Lapses, faults.Expires)
	w := &World{Left: faults, zxid: first, tree: tree{{Path: "/"}}, now: &activity{actor: -1}}
	for _, n := range nodes {
		i, _ := w.tree.index(n.Path)
		w.tree = slices.Insert(w.tree, i, n)
	}
	if faults.Restores > 0 {
		w.backup = w.tree
	}
	for range sessions {
		w.Open()
	}
	return w
}

// Open adds a session, which is connected.
func (w *World) Open() *Session {
	s := &Session{w: w, n: len(w.Sessions)}
	w.Sessions = append(w.Sessions, s)
	s.connect()
	return s
}

// Plant gives an ephemeral node to a connected session, as a part of the program outside the model
// may do. It takes over a node of an earlier owner.
func (w *World) Plant(path string, by *Session) {
	w.Operate(func(t *txn) {
		t.owner = by.id
		if i, ok := t.index(path); ok {
			t.tree[i].Owner = by.id
			return
		}
		_, _ = t.create(path, nil, session.Ephemeral)
	})
	w.settle()
}

// Stranger adds a session of a client outside the model to the server. It will end.
func (w *World) Stranger(id int64) { w.dying = append(w.dying, dying{id: id}) }

// Keyed makes the world keep the data for [World.Key].
func (w *World) Keyed() { w.keyed = true }

// Serial makes [World.Key] depend on the order of all answers to the actors of each session: for
// performers with closures whose state several activities change.
func (w *World) Serial() { w.serial = true }

// Share makes [World.Key] depend on state that performers keep.
func (w *World) Share(v any) { w.shared = append(w.shared, v) }

// Node returns a node; nil if there is none.
func (w *World) Node(path string) *Node {
	if i, ok := w.tree.index(path); ok {
		return &w.tree[i]
	}
	return nil
}

// Children returns the names of the children of a node.
func (w *World) Children(path string) []string { return w.tree.children(path) }

// Nodes returns all nodes.
func (w *World) Nodes() []Node { return w.tree }

// Violate panics with a violation.
func Violate(format string, args ...any) {
	panic(exploration.ViolationError(fmt.Sprintf(format, args...)))
}

// Restored reports whether older data came back, by a restore or a relapse.
func (w *World) Restored() bool { return w.era > 0 }

// Timer returns the effect that waits for a timer.
func (w *World) Timer(i int) (effect any) { return w.timers[i].act.of }

// Quiet reports whether nothing happens without a command or a fault.
func (w *World) Quiet() bool {
	for _, a := range w.Actors {
		if a.Waiting() {
			return false
		}
	}
	for _, s := range w.Sessions {
		if !s.Idle() {
			return false
		}
	}
	return len(w.dying)+len(w.lates)+len(w.timers) == 0
}

// --- what can happen

// Actions implements [exploration.World].
func (w *World) Actions() (normal, faulty []Action) {
	const few = 8
	normal = make([]Action, 0, few)
	add := func(kind string, i, variants int) {
		for v := range variants {
			normal = append(normal, Action{Kind: kind, I: i, Variant: v})
		}
	}
	fault := func(left int8, ok bool, kind string, i, variants int) {
		if left <= 0 || !ok {
			return
		}
		for v := range variants {
			faulty = append(faulty, Action{Kind: kind, I: i, Variant: v})
		}
	}
	for i, a := range w.Actors {
		if a.Waiting() {
			add("step", i, 1)
		}
	}
	for i, s := range w.Sessions {
		switch {
		case s.crashed || s.closed:
			continue
		case s.epoch == 0:
			add("connect", i, 1)
		case s.state == cut:
			add("notice", i, 2*s.fates())
		case s.state == down:
			add("reconnect", i, 1)
		}
		live := s.epoch != 0
		if s.state != down && len(s.out) > 0 {
			add("serve", i, 1)
			fault(w.Left.Busy, s.state == up, "busy", i, 1)
			fault(w.Left.Full, s.state == up && s.out[0].owns(), "full", i, 1)
			fault(w.Left.Denials, s.state == up && s.out[0].kind != sync, "deny", i, max(1, len(s.out[0].ops)))
		}
		if s.lagging {
			add("follow", i, 1)
		}
		fault(w.Left.Cuts, live && s.state == up, "cut", i, 1)
		fault(w.Left.Expires, live && s.state != up, "expire", i, 2)
		fault(w.Left.Lapses, live && s.state == down && !s.lapsed, "lapse", i, 1)
		fault(w.Left.Kills, live && !s.killed, "kill", i, 1)
		fault(w.Left.Closes, live, "close", i, 2)
		fault(w.Left.Crashes, live, "crash", i, 1)
		fault(w.Left.Lags, live && s.state == up && !s.lagging, "lag", i, 1)
	}
	for i, d := range w.dying {
		add("bury", i, 1)
		if len(d.out) > 0 {
			add("straggle", i, 1)
		}
	}
	for i := range w.lates {
		fault(1, true, "late", i, 2)
	}
	for i := range w.timers {
		add("timer", i, 1)
	}
	for _, n := range w.tree {
		if w.Left.Strikes <= 0 && w.Left.Reaps <= 0 {
			break
		}
		switch below := strings.HasPrefix(n.Path, w.Root+"/"); {
		case w.Left.Strikes > 0 && below && (w.Strikes == nil || w.Strikes(n.Path)):
			faulty = append(faulty, Action{Kind: "strike", Node: n.Path})
		case w.Left.Reaps > 0 && n.Container && (below || n.Path == w.Root) && len(w.tree.children(n.Path)) == 0:
			faulty = append(faulty, Action{Kind: "reap", Node: n.Path})
		}
	}
	fault(w.Left.Razes, w.Node(w.Root) != nil, "raze", 0, 1)
	fault(w.Left.Restores, true, "restore", 0, 2)
	fault(w.Left.Backups, w.Left.Restores > 0, "keep", 0, 1)
	fault(w.Left.Relapses, w.saved == nil, "backup", 0, 1)
	fault(w.Left.Relapses, w.saved != nil && !w.revives(), "relapse", 0, 1)
	return normal, faulty
}

// fates returns how many there may be of the writes on the way.
func (s *Session) fates() int {
	switch {
	case !slices.ContainsFunc(s.out, func(r *request) bool { return r.kind == write }):
		return 1
	case s.w.Left.Lates > 0:
		return fates
	}
	return doneLate
}

// Apply implements [exploration.World].
func (w *World) Apply(a Action) {
	w.Woken = nil
	switch a.Kind {
	case "step":
		w.Actors[a.I].Step()
	case "serve":
		w.Sessions[a.I].serve()
	case "busy":
		w.Left.Busy--
		w.refuse(w.Sessions[a.I], ErrBusy)
	case "full":
		w.Left.Full--
		w.refuse(w.Sessions[a.I], session.ErrSessionFull)
	case "deny":
		w.Left.Denials--
		w.deny(w.Sessions[a.I], a.Variant)
	case "connect":
		w.Sessions[a.I].connect()
	case "cut":
		w.Left.Cuts--
		w.Sessions[a.I].state = cut
	case "notice":
		w.Sessions[a.I].notice(a.Variant%2 == 1, a.Variant/2)
	case "reconnect":
		w.Sessions[a.I].reconnect()
	case "expire":
		w.Left.Expires--
		w.Sessions[a.I].finish(a.Variant == 1, session.ErrExpired)
	case "lapse":
		w.Left.Lapses--
		w.Sessions[a.I].lapse()
	case "kill":
		w.Left.Kills--
		s := w.Sessions[a.I]
		s.see()
		// a dead session is refused
		w.lates = slices.DeleteFunc(w.lates, func(l late) bool { return l.id == s.id })
		if s.killed = true; s.state == up {
			w.bury(s.id) // and it receives its watch events
			s.state = cut
		} else {
			w.bury(s.id)
		}
	case "close":
		w.Left.Closes--
		w.Sessions[a.I].finish(a.Variant == 1, session.ErrClosed)
	case "crash":
		w.Left.Crashes--
		w.crash(w.Sessions[a.I])
	case "lag":
		w.Left.Lags--
		s := w.Sessions[a.I]
		s.lagging, s.stale = true, w.tree
	case "follow":
		w.Sessions[a.I].catchUp()
	case "bury":
		id := w.dying[a.I].id
		w.dying = slices.Delete(w.dying, a.I, a.I+1)
		w.bury(id)
	case "straggle":
		d := &w.dying[a.I]
		r := d.out[0]
		d.out = d.out[1:]
		w.transact(r, d.id, nil)
	case "late":
		l := w.lates[a.I]
		w.lates = slices.Delete(w.lates, a.I, a.I+1)
		if lapsed := l.overtaken && w.Prompt != nil && w.Prompt(l.ops[len(l.ops)-1].data); a.Variant == 0 && !lapsed {
			w.transact(l.request, l.id, nil)
		}
	case "timer":
		t := w.timers[a.I]
		w.timers = slices.Delete(w.timers, a.I, a.I+1)
		w.clock = max(w.clock, t.due)
		w.within(t.act, "timer", t.f)
	case "strike":
		w.Left.Strikes--
		w.remove(a.Node)
	case "reap":
		w.Left.Reaps--
		w.Operate(func(t *txn) { _ = t.delete(a.Node, session.AnyVersion) })
	case "raze":
		w.Left.Razes--
		w.remove(w.Root)
	case "restore":
		w.Left.Restores--
		// the client stands for one whose process has begun since
		if w.restore(); a.Variant == 1 {
			w.Sessions[0].seen, w.Sessions[0].fresh = 0, true
		}
	case "keep":
		w.Left.Backups--
		w.backup = w.tree
	case "backup":
		w.saved, w.knows = w.tree, w.ids
	case "relapse":
		w.Left.Relapses--
		w.relapse()
	default:
		panic("unknown action " + a.Kind)
	}
	w.settle()
}

// reused is the number of zxids that are given again after a restore.
const reused = 6

// restore brings the servers back with the backup. They know no session, and give zxids again that
// clients have seen. Requests on their way are lost.
func (w *World) restore() {
	for _, s := range w.Sessions {
		s.see()
	}
	w.tree, w.zxid = w.backup, max(first, w.zxid-reused)
	w.era++
	w.dying, w.lates = nil, nil
	for _, n := range w.backup {
		if n.Owner != 0 && !slices.ContainsFunc(w.dying, func(d dying) bool { return d.id == n.Owner }) {
			w.dying = append(w.dying, dying{id: n.Owner})
		}
	}
	for _, s := range w.Sessions {
		s.lagging, s.stale, s.missed = false, nil, nil
		if s.killed = s.epoch != 0; s.state == up {
			s.state = cut
		}
	}
}

// revives reports whether a relapse would bring back an ephemeral node that a client has deleted,
// and whose session goes on. The client would not delete it again.
func (w *World) revives() bool {
	return slices.ContainsFunc(w.saved, func(n Node) bool {
		return n.Owner != 0 && w.Node(n.Path) == nil &&
			slices.ContainsFunc(w.Sessions, func(s *Session) bool { return s.id == n.Owner && !s.killed })
	})
}

// relapse brings the servers back with the saved tree, and with the sessions of its time. Requests
// on their way are lost. Before such a session connects again, other clients have made so many
// transactions that its client does not notice.
func (w *World) relapse() {
	dead := map[int64]bool{}
	for _, n := range w.saved {
		dead[n.Owner] = n.Owner != 0
	}
	for _, s := range w.Sessions {
		s.lagging, s.stale, s.missed = false, nil, nil
		if s.killed = s.killed || s.id > w.knows; !s.killed {
			s.floor, dead[s.id] = w.zxid, false
		}
		if s.state == up {
			s.state = cut
		}
		s.lost, s.out = append(s.lost, s.out...), nil
	}
	w.dying, w.lates = slices.DeleteFunc(w.dying, func(d dying) bool { dead[d.id] = false; return d.id > w.knows }), nil
	for id := range w.knows {
		if dead[id+1] {
			w.dying = append(w.dying, dying{id: id + 1})
		}
	}
	w.tree, w.saved, w.zxid = w.saved, nil, max(first, w.zxid-reused)
	w.era++
}

// refuse answers the first request of a session with an error.
func (w *World) refuse(s *Session, why error) {
	r := s.out[0]
	s.out = s.out[1:]
	w.deliver(r, result{err: why})
}

// deny refuses the first request of a session, or one operation of it.
func (w *World) deny(s *Session, op int) {
	r := s.out[0]
	s.out = s.out[1:]
	res := result{err: session.ErrNoAuth}
	if r.kind == write {
		res.results = make([]session.OpResult, len(r.ops))
		res.results[op].Err = session.ErrNoAuth
	}
	w.deliver(r, res)
}

// owns reports whether the request creates an ephemeral node.
func (r *request) owns() bool {
	return slices.ContainsFunc(r.ops, func(o op) bool { return o.kind == opCreate && o.mode.IsEphemeral() })
}

// settle runs everything that needs no action.
func (w *World) settle() {
	for len(w.soon) > 0 {
		f := w.soon[0]
		w.soon = w.soon[1:]
		f()
	}
}

// later runs f after the callback that runs now has returned.
func (w *World) later(f func()) { w.soon = append(w.soon, f) }

func (w *World) crash(s *Session) {
	w.bereave(s)
	s.crashed, s.epoch, s.id, s.state = true, 0, 0, down
	s.out, s.lost, s.held, s.entries, s.tells, s.missed = nil, nil, nil, nil, nil, nil
	w.timers = slices.DeleteFunc(w.timers, func(t *timer) bool { return t.s == s })
	for _, a := range w.Actors {
		if a.Session() == s {
			a.crash()
		}
	}
}

// bereave leaves a session to the server.
func (w *World) bereave(s *Session) {
	w.lates = slices.DeleteFunc(w.lates, func(l late) bool { return l.id == s.id })
	if s.epoch != 0 && !s.killed {
		writes := slices.DeleteFunc(slices.Clone(s.out), func(r *request) bool { return r.kind != write })
		w.dying = append(w.dying, dying{s.id, writes})
	}
}

// settleLate drops late requests whose nodes are being looked for.
func (w *World) settleLate(id int64, looks *request) {
	w.lates = slices.DeleteFunc(w.lates, func(l late) bool {
		return l.id == id && slices.ContainsFunc(l.ops, func(o op) bool {
			dir, name := znode.Split(o.path)
			return o.kind == opCreate && dir == looks.path && strings.HasPrefix(name, looks.prefix)
		})
	})
}

// --- the server

// Operate changes the tree, as a client that is not in the model.
func (w *World) Operate(f func(t *txn)) {
	t := &txn{tree: slices.Clone(w.tree), zxid: w.zxid + 1, era: w.era}
	f(t)
	w.commit(t)
}

// SetData writes to a node, as a client that is not in the model.
func (w *World) SetData(path, data string) {
	w.Operate(func(t *txn) { _, _ = t.set(path, []byte(data), session.AnyVersion) })
	w.settle()
}

// remove deletes a node and its descendants, one by one from below.
func (w *World) remove(path string) {
	for _, name := range w.Children(path) {
		w.remove(znode.Join(path, name))
	}
	if n := w.Node(path); n != nil {
		w.Struck = append(w.Struck, *n)
	}
	w.Operate(func(t *txn) { _ = t.delete(path, session.AnyVersion) })
}

// bury ends a session on the server.
func (w *World) bury(id int64) {
	w.Operate(func(t *txn) {
		for _, n := range slices.Clone(t.tree) {
			if n.Owner == id {
				_ = t.delete(n.Path, session.AnyVersion)
			}
		}
	})
}

// transact executes a request. The session whose server executes it first hears the transactions
// that it has missed.
func (w *World) transact(r *request, owner int64, by *Session) (res result) {
	if by != nil && by.state == up {
		by.catchUp()
	}
	t := &txn{tree: slices.Clone(w.tree), zxid: w.zxid + 1, era: w.era, owner: owner}
	var gone []Node
	for i, o := range r.ops {
		if at, ok := t.index(o.path); ok && o.kind == opDelete {
			gone = append(gone, t.tree[at])
		}
		done := t.do(o)
		if res.results = append(res.results, done); done.Err != nil {
			name := "multi"
			if r.single {
				name = [...]string{"", "check", "create", "set", "delete"}[o.kind]
			}
			res.err = &session.OpError{Op: name, Path: o.path, Err: done.Err}
			for j := range res.results[:i] {
				res.results[j] = session.OpResult{}
			}
			res.results = append(res.results, make([]session.OpResult, len(r.ops)-i-1)...)
			return res
		}
	}
	if w.Deleting != nil {
		for _, n := range gone {
			w.Deleting(r.act.actor, owner, n)
		}
	}
	w.commit(t)
	res.zxid = w.zxid
	return res
}

func (w *World) commit(t *txn) {
	w.tree, w.zxid = t.tree, t.zxid
	for _, s := range w.Sessions {
		if s.lagging {
			s.missed = append(s.missed, *t)
			continue
		}
		s.hear(t.changes)
	}
}

// --- the descriptions of actions, and answers

// Describe implements [exploration.World].
func (w *World) Describe(a Action) string {
	s := a.String()
	switch a.Kind {
	case "step":
		s += ": " + w.Actors[a.I].Pending() + "\n\tof " + w.Actors[a.I].String()
	case "serve", "busy", "full", "deny":
		s += ": " + w.Sessions[a.I].out[0].String()
	case "timer":
		s += fmt.Sprintf(": at %v, of %d", w.timers[a.I].due, w.timers[a.I].act.actor)
	case "late":
		s += ": " + w.lates[a.I].String()
	}
	return s
}

func (r *request) String() string {
	if r.kind == write {
		return fmt.Sprintf("%v for %d", r.ops, r.act.actor)
	}
	watches := ""
	if r.entry != nil {
		watches = " and watch"
	}
	return fmt.Sprintf("%s%s %s for %d", [...]string{"read", "stat", "list", "sync"}[r.kind], watches, r.path, r.act.actor)
}

func (o op) String() string {
	kind := [...]string{"", "check", "create", "set", "delete"}[o.kind]
	switch o.kind {
	case opCreate:
		return fmt.Sprintf("%s %s %q mode %d", kind, o.path, o.data, o.mode)
	case opSet:
		return fmt.Sprintf("%s %s %q at %d", kind, o.path, o.data, o.version)
	}
	return fmt.Sprintf("%s %s at %d", kind, o.path, o.version)
}

// Under returns how many equal effects that have the property are under way for the actor: the
// greatest such number.
func (w *World) Under(actor int, holds func(effect any) bool) (most int) {
	of := map[any]map[*activity]bool{}
	for _, s := range w.Sessions {
		for _, r := range slices.Concat(s.out, s.held) {
			if r.act.actor == actor && r.act.of != nil && holds(r.act.of) {
				if of[r.act.of] == nil {
					of[r.act.of] = map[*activity]bool{}
				}
				of[r.act.of][r.act] = true
				most = max(most, len(of[r.act.of]))
			}
		}
	}
	return most
}

// deliver answers a request.
func (w *World) deliver(r *request, res result) {
	w.within(r.act, res, func() { r.answer(res) })
}

// within runs a callback as a part of an activity.
func (w *World) within(act *activity, news any, f func()) {
	before := w.now
	w.now = act
	if w.keyed {
		act.hash = maphash.Comparable(seed, [2]uint64{act.hash, Hash(news)})
		if w.serial && act.actor >= 0 {
			s := w.Actors[act.actor].Session()
			s.told = maphash.Comparable(seed, [3]uint64{s.told, uint64(act.actor), act.hash})
		}
	}
	f()
	w.now = before
}
