package line

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is the whole protocol, as a pure function: no goroutines, no
// channels, no clock, no I/O. The performer of its effects is in performer.go.

type state int

const (
	outside    state = iota // there is no session
	preparing               // the parent is being looked at, or made
	joining                 // our node is being created
	recovering              // our node may have been created: we are looking for it
	waiting                 // our node exists, others are ahead
	claiming                // it is our turn: what the line is for is being claimed
	held                    // it is ours
	clearing                // our node is gone, what a lost create may have left is being removed
	leaving                 // our node is being removed
	ended
)

func (s state) String() string {
	return [...]string{
		"outside", "preparing", "joining", "recovering", "waiting", "claiming", "held", "clearing", "leaving", "ended",
	}[s]
}

// A parent is what we know of the parent of the contenders.
type parent int

const (
	unseen  parent = iota // nothing
	bare                  // it is empty and ours to write: we join in one transaction
	foreign               // it carries data, or is not ours to write: we join by the published recipe
)

func (p parent) String() string { return [...]string{"unseen", "bare", "foreign"}[p] }

// An attempt to stand in line lasts until its node or its session is gone.
// Every answer names the attempt for which the question was asked.
type attempt struct {
	epoch int // of the session; 0 if there is none
	n     int // counts the attempts of this handle, from 1
}

func (a attempt) of() attempt { return a }

// An Input is something that happened.
//
//sumtype:decl
type Input interface{ input() }

type (
	// Leave is the command to give up the place, or what is held.
	Leave struct{}
	// Downgrade is the command to exclude others that share no more. The reply
	// is nil when that is done.
	Downgrade struct{ Reply actors.Reply[error] }
	// Look says that something has changed on which the rule depends.
	Look struct{}
	// Take says that what the line is for is handed to us, whoever is ahead.
	Take      struct{}
	heard     struct{ session.Event } // what became of the session
	inspected struct {                // answers inspectParent
		attempt
		exists, empty bool
	}
	made   struct{ attempt } // answers makeParent: by us, so it is empty
	joined struct {          // answers createNode
		attempt
		node string
		// What the transaction says of the moment of the creation, both 0 if
		// it was none: our node's czxid, and how many children there were.
		czxid    int64
		children int
		data     string // as in [Sight]
	}
	listed struct { // answers listParent
		attempt
		Sight
	}
	watched struct { // answers watchTarget: it exists
		attempt
		target       Target
		czxid, owner int64
		announced    bool // of one that is watched until [Changed]: it has been
		obstacle          // of another's node: for people
	}
	gone struct { // told once after watched: what was awaited has happened
		attempt
		target Target
	}
	marked struct { // a node that is watched carries the mark of revocation
		attempt
		target   Target
		deadline time.Time // by when we have to leave; zero if that is up to us
	}
	claimed struct { // answers claim: by us, at the zxid
		attempt
		zxid int64
	}
	occupied  struct{ attempt } // answers claim: it is another's
	changed   struct{ attempt } // answers changeNode
	announced struct{ attempt } // answers announce
	asked     struct {          // answers ask
		attempt
		node    string
		overdue bool // it has had the time that it was given
	}
	ascertained struct { // answers ascertain
		attempt
		lives bool // false if that cannot be known in time
	}
	withdrawn struct { // answers withdrawNode, and withdrawAll with an empty node
		attempt
		node string
	}
	failed struct { // answers any of them but withdrawNode and withdrawAll
		what Effect
		err  error
	}
)

func (f failed) of() attempt { return f.what.of() }

func (Leave) input()       {}
func (Downgrade) input()   {}
func (Look) input()        {}
func (Take) input()        {}
func (heard) input()       {}
func (inspected) input()   {}
func (made) input()        {}
func (joined) input()      {}
func (listed) input()      {}
func (watched) input()     {}
func (gone) input()        {}
func (marked) input()      {}
func (claimed) input()     {}
func (occupied) input()    {}
func (changed) input()     {}
func (announced) input()   {}
func (asked) input()       {}
func (ascertained) input() {}
func (withdrawn) input()   {}
func (failed) input()      {}

// An Effect is something to do about it. It belongs to the epoch of its attempt,
// must not be done in another, and is answered by exactly one input; unwatchTarget, complain and
// answer by none.
//
//sumtype:decl
type Effect interface {
	of() attempt
	effect()
}

type (
	inspectParent struct {
		attempt
		isNew bool // as in [Sight]
	}
	makeParent struct{ attempt } // with all its ancestors
	createNode struct {          // ephemeral and sequential
		attempt
		guid  string
		plain bool // not in one transaction with a write to the parent
	}
	listParent  struct{ attempt }
	watchTarget struct { // until what is awaited has happened
		attempt
		target Target
	}
	unwatchTarget struct {
		attempt
		target Target
	}
	claim struct { // what the line is for
		attempt
		node  string
		again bool // an earlier one may have been done
	}
	changeNode struct { // delete the node and create another in its place, in one transaction
		attempt
		from, to string
	}
	announce struct { // to those who watch our node until it is [Changed]
		attempt
		node string
	}
	ask struct { // the holder with the node to leave; by force if it has had its time
		attempt
		node string
	}
	ascertain struct{ attempt } // whether the session lives, whose nodes are deleted when it ends
	complain  struct {          // to people
		attempt
		reason string
	}
	withdrawNode struct { // until it is confirmed, or the epoch has ended; first what it claims
		attempt
		node string
	}
	withdrawAll struct { // whatever was created with this GUID, likewise
		attempt
		guid string
	}
	answer struct {
		attempt
		reply actors.Reply[error]
		err   error
	}
)

func (inspectParent) effect() {}
func (makeParent) effect()    {}
func (createNode) effect()    {}
func (listParent) effect()    {}
func (watchTarget) effect()   {}
func (unwatchTarget) effect() {}
func (claim) effect()         {}
func (changeNode) effect()    {}
func (announce) effect()      {}
func (ask) effect()           {}
func (ascertain) effect()     {}
func (complain) effect()      {}
func (withdrawNode) effect()  {}
func (withdrawAll) effect()   {}
func (answer) effect()        {}

// Effects are what a step asks for.
type Effects = actors.Effects[Effect, Event]

// Withdraws reports whether the effect is to give up what is held, or may be.
func Withdraws(e Effect) bool {
	switch e.(type) {
	case withdrawNode, withdrawAll:
		return true
	case inspectParent, makeParent, createNode, listParent, watchTarget, unwatchTarget, claim, changeNode, announce, ask, ascertain, complain, answer:
	}
	return false
}

// Closes reports whether the input says that there will not be another session.
func Closes(in Input) bool {
	return in == Input(heard{session.Closed{}})
}

// A Machine is the state of one place in line. It is comparable.
type Machine struct {
	id           string // the handle's GUID, from which those of its attempts are derived
	rule         Rule
	inBackground bool // leave without waiting for the confirmation

	state     state
	parent    parent
	session   int64 // the id of the present or last session
	attempt   attempt
	ahead     int  // what the last Waiting said; -1 if there was none
	suspended bool // Suspended was emitted, and no Resumed since
	revoked   bool // Revoked was emitted
	said      bool // the last event was emitted
	place
}

// place is what belongs to one attempt.
type place struct {
	node     string // our node; "" while it is not known to exist
	czxid    int64  // its czxid; 0 until known
	token    int64  // of the grant
	owned    bool   // the watch on it is confirmed
	suspect  bool   // a create of unknown outcome was repeated: there may be nodes we do not know
	listing  bool   // a list is under way
	stale    bool   // something has happened meanwhile that it may not show
	target   Target // what is watched beside our node; zero if nothing
	instead  Target // of this: it has announced itself, or cannot be read; zero if of nothing
	beside   string // names of nodes that are watched as well until they are gone, each with a slash behind it
	heir     bool   // target is all that is ahead, so that its deletion is the grant
	kin      bool   // target is of our own session, whose end would delete it and our node at once
	marked   bool   // we are asked to leave
	bereft   bool   // our node, or our claim, is gone while we hold; it is being ascertained why
	until    time.Time
	lessened bool // what is claimed has been exchanged for less, which only we can have
	change
}

// A change is that of our node into one that excludes less.
type change struct {
	to      string // what it is to be; "" if none is under way
	reply   actors.Reply[error]
	without bool // our node is gone, which is part of it, or not
	unclear bool // it was done or not: a list is to tell
}

// New returns the machine of a handle. id is a UUID in text form. warm says
// that the parent has been seen to exist and to be empty.
func New(id string, rule Rule, warm, inBackground bool) Machine {
	m := Machine{id: id, rule: rule, inBackground: inBackground, ahead: -1}
	if warm {
		m.parent = bare
	}
	return m
}

// Again returns the machine that stands in line anew, at its end, for one that has ended
// but for a closed session.
func (m Machine) Again(out *Effects) Machine {
	next := Machine{
		id: m.id, rule: m.rule, inBackground: m.inBackground,
		parent: m.parent, session: m.session, attempt: m.attempt, ahead: -1,
	}
	if next.attempt.epoch == 0 {
		return next
	}
	t := turn{next, out}
	t.enter()
	return t.Machine
}

func (m Machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v(%d.%d %v", m.state, m.attempt.epoch, m.attempt.n, m.parent)
	for _, f := range []struct {
		set  bool
		text string
	}{
		{m.inBackground, "background"},
		{m.ahead >= 0, fmt.Sprintf("ahead=%d", m.ahead)},
		{m.node != "", "node=" + m.node},
		{m.czxid != 0, fmt.Sprintf("czxid=%d", m.czxid)},
		{m.token != m.czxid && m.token != 0, fmt.Sprintf("token=%d", m.token)},
		{m.owned, "owned"},
		{m.suspect, "suspect"},
		{m.listing, "listing"},
		{m.stale, "stale"},
		{m.target != Target{}, "target=" + m.target.String()},
		{m.beside != "", "beside=" + m.beside},
		{m.heir, "heir"},
		{m.kin, "kin"},
		{m.marked, "marked"},
		{m.to != "", "to=" + m.to},
		{m.without, "without"},
		{m.bereft, "bereft"},
		{m.lessened, "lessened"},
		{m.unclear, "unclear"},
		{m.suspended, "suspended"},
		{m.revoked, "revoked"},
		{m.said, "said"},
	} {
		if f.set {
			b.WriteString(" " + f.text)
		}
	}
	return b.String() + ")"
}

// Ended implements [actors.Machine].
func (m Machine) Ended() bool { return m.state == ended }

// Holding reports whether it is our turn, and what the line is for is ours.
func (m Machine) Holding() bool { return m.state == held }

// Waiting reports whether our node stands in line, and others are ahead as far as we know.
func (m Machine) Waiting() bool { return m.state == waiting }

// Standing reports whether our node stands in line, as far as we know.
func (m Machine) Standing() bool { return m.standing() }

// Leaving reports whether it is given up, and that is not confirmed.
func (m Machine) Leaving() bool { return m.state == leaving }

// Epoch returns that of the session in which we stand in line; 0 if there is none.
func (m Machine) Epoch() int { return m.attempt.epoch }

// Node returns the name of our node; "" while there is none.
func (m Machine) Node() string {
	if m.Ended() {
		return ""
	}
	return m.node
}

// guid is the GUID of the present attempt.
func (m Machine) guid() string { return attemptGUID(m.id, m.attempt.n) }

// Step implements [actors.Machine]. Inputs that mean nothing in the current
// state are ignored: they answer a question nobody asks any more.
func (m Machine) Step(in Input, out *Effects) Machine {
	t := turn{m, out}
	t.step(in)
	return t.Machine
}

// A turn is one step of a machine: what it becomes, and what it asks for.
type turn struct {
	Machine
	out *Effects
}

func (m *turn) do(e Effect)   { m.out.Do = append(m.out.Do, e) }
func (m *turn) emit(ev Event) { m.out.Emit = append(m.out.Emit, ev) }

// step is Step in place.
func (m *turn) step(in Input) {
	if a, ok := in.(interface{ of() attempt }); ok && a.of() != m.attempt {
		return
	}
	if _, ok := in.(Downgrade); m.Ended() && !ok {
		return
	}
	m.take(in)
}

func (m *turn) take(in Input) {
	switch in := in.(type) {
	case Leave:
		m.leave()
	case Look:
		switch {
		case m.state == waiting:
			m.look()
		case m.Holding() && m.rule.Announces():
			m.do(announce{m.attempt, m.node})
		}
	case Take:
		if m.state == waiting && m.rule.Claims() {
			m.first()
		}
	case heard:
		m.heard(in.Event)
	case inspected:
		if m.state == preparing {
			m.inspected(in.exists, in.empty)
		}
	case made:
		if m.state == preparing {
			m.parent = bare
			m.join()
		}
	case joined:
		if m.state == joining {
			m.joined(in)
		}
	case listed:
		if m.listing {
			stale := m.stale
			m.listing, m.stale = false, false
			m.listed(in.Sight, stale)
		}
	case watched:
		m.watched(in)
	case gone:
		m.gone(in.target)
	case marked:
		if m.standing() && !m.marked && in.target == (Target{Node: m.node}) {
			m.marked, m.until = true, in.deadline
			m.revoke()
		}
	case claimed:
		if m.state == claiming {
			m.token = in.zxid
			m.grant()
		}
	case occupied:
		if m.state == claiming {
			m.yield()
		}
	case changed:
		if m.to != "" && !m.unclear {
			m.changed()
		}
	case asked:
		if in.overdue && m.state == waiting {
			m.look()
		}
	case ascertained:
		if m.bereft {
			m.fail(m.deleted(in.lives))
		}
	case withdrawn:
		m.withdrawn(in.node)
	case failed:
		m.failed(in.what, in.err)
	case Downgrade:
		m.downgrade(in.Reply)
	case announced: // nothing to do
	}
}

// heard follows what became of the session.
func (m *turn) heard(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		if m.state == outside {
			m.session, m.attempt.epoch = ev.ID, ev.Epoch
			m.enter()
		}
	case session.Suspended:
		m.suspend(ev.Deadline)
	case session.Resumed:
		m.resume()
	case session.Expired:
		if ev.Epoch == m.attempt.epoch {
			m.expire()
		}
	case session.Closed:
		m.end(Lost{session.ErrClosed})
	}
}

// standing reports whether our node stands in line.
func (m Machine) standing() bool {
	return m.state == waiting || m.state == claiming || m.state == held
}

// enter stands in line anew.
func (m *turn) enter() {
	m.place = place{}
	m.attempt.n++
	if m.parent == unseen {
		m.inspect()
		return
	}
	m.join()
}

// isNew reports whether nobody has been told of a place in line.
func (m Machine) isNew() bool { return m.ahead < 0 }

func (m *turn) inspect() {
	m.state = preparing
	m.do(inspectParent{m.attempt, m.isNew()})
}

func (m *turn) inspected(exists, empty bool) {
	switch {
	case !exists:
		m.make()
		return
	case empty:
		m.parent = bare
	default:
		m.parent = foreign
	}
	m.join()
}

func (m *turn) make() {
	m.state = preparing
	m.do(makeParent{m.attempt})
}

func (m *turn) join() {
	m.state = joining
	m.do(createNode{m.attempt, m.guid(), m.parent == foreign})
	if m.rule.Lists() && !m.listing { // one that is under way was asked for with an earlier create
		m.listing = true
		m.do(listParent{m.attempt})
	}
}

func (m *turn) joined(in joined) {
	m.node, m.czxid = in.node, in.czxid
	if in.children > 0 && m.rule.Room(in.children, in.data) { // nobody else had been there at that very zxid, or there is room for all
		m.first()
		m.do(watchTarget{m.attempt, Target{Node: m.node}})
		return
	}
	m.queue()
}

// queue watches our node, and finds out who is ahead of it. In this order, so
// that a node that the list shows is a node whose deletion we shall hear of.
func (m *turn) queue() {
	m.state = waiting
	m.do(watchTarget{m.attempt, Target{Node: m.node}})
	m.look()
}

// look asks for a list, unless one is under way. That one will do: whatever made us
// ask has reached us before its answer, so it happened before. Not so where the answer
// is made of two reads.
func (m *turn) look() {
	m.heir = false
	if m.listing {
		m.stale = m.rule.Announces()
		return
	}
	m.listing = true
	m.do(listParent{m.attempt})
}

func (m *turn) listed(s Sight, stale bool) {
	switch {
	case m.state == recovering:
		m.recovered(s)
	case m.state == waiting:
		m.rank(s)
		if stale && m.state == waiting && !m.listing {
			m.listing = true
			m.do(listParent{m.attempt})
		}
	case m.unclear:
		m.compared(s)
	case m.Holding():
		if p := m.rule.Locate(s, m.node, m.guid()); errors.Is(p.Err, ErrLayout) {
			m.do(complain{m.attempt, p.Err.Error()})
		}
	}
}

// recovered adopts the node that a create of unknown outcome has left, or repeats
// the create.
func (m *turn) recovered(s Sight) {
	ours := slices.DeleteFunc(m.rule.Line(s.Names), func(name string) bool {
		return !strings.HasPrefix(name, m.rule.Prefix(m.guid()))
	})
	if len(ours) == 0 {
		m.suspect = true
		m.join()
		return
	}
	m.node = ours[0] // the others are withdrawn as zombies
	m.queue()
}

// rank decides, from the names of the children, whether it is our turn.
func (m *turn) rank(s Sight) {
	s.New = m.isNew()
	p := m.rule.Locate(s, m.node, m.guid())
	switch {
	case p.Err != nil:
		m.fail(p.Err)
		return
	case !p.Present:
		m.vanish()
		return
	case p.Invalid:
		m.start()
		return
	case p.Ahead > 0:
		m.wait(p)
	case m.czxid == 0 && !m.rule.Claims(): // no grant without a token: it comes with the watch on our node
		m.unwatch()
	default:
		m.first()
		if p.Announce {
			m.do(announce{m.attempt, m.node})
		}
	}
	for _, node := range p.Ask {
		m.do(ask{m.attempt, node})
	}
	for _, node := range p.Zombies {
		m.do(withdrawNode{m.attempt, node})
	}
}

// wait watches what the rule says.
func (m *turn) wait(p Position) {
	// Who was found to have announced itself says nothing more before it goes: so all
	// are watched, until somebody else is nearest.
	more := m.accompany(p.Beside)
	if p.Watch != m.target && p.Watch != m.instead {
		m.unwatchTarget()
		m.target = p.Watch
		m.do(watchTarget{m.attempt, m.target})
	}
	m.out.Do = append(m.out.Do, more...)
	m.heir = p.Heir
	m.behind(p.Ahead)
}

// behind tells how many are ahead, if that is news.
func (m *turn) behind(ahead int) {
	if ahead != m.ahead {
		m.ahead = ahead
		m.emit(Waiting{ahead})
	}
}

// accompany has the targets watched beside the target, and no others. It returns the watches to
// begin.
func (m *turn) accompany(targets []Target) (begin []Effect) {
	before := m.beside
	if before == "" && len(targets) == 0 {
		return nil
	}
	m.beside = ""
	for key := range strings.SplitSeq(before, "/") {
		if t := besideOf(key); key != "" && !slices.Contains(targets, t) {
			m.do(unwatchTarget{m.attempt, t})
		}
	}
	for _, t := range targets {
		if m.beside += t.String() + "/"; !strings.Contains("/"+before, "/"+t.String()+"/") {
			begin = append(begin, watchTarget{m.attempt, t})
		}
	}
	return begin
}

// besideOf returns the target of a key, which is what its String returns. The name of a contender ends
// with a digit.
func besideOf(key string) Target {
	if node, ok := strings.CutSuffix(key, Target{Until: Changed}.String()); ok {
		return Target{node, Changed}
	}
	return Target{Node: key}
}

// accompanied reports whether the target is watched beside another.
func (m *turn) accompanied(t Target) bool {
	return m.beside != "" && t.Until <= Changed && strings.Contains("/"+m.beside, "/"+t.String()+"/")
}

// unwatch ends what is watched beside our node.
func (m *turn) unwatch() {
	m.accompany(nil)
	m.unwatchTarget()
}

func (m *turn) unwatchTarget() {
	if m.target != (Target{}) {
		m.do(unwatchTarget{m.attempt, m.target})
		m.target, m.instead, m.heir, m.kin = Target{}, Target{}, false, false
	}
}

// first follows the news that it is our turn.
func (m *turn) first() {
	if !m.rule.Claims() {
		m.token = m.czxid
		m.grant()
		return
	}
	m.unwatch()
	m.state = claiming
	m.do(claim{m.attempt, m.node, false})
}

func (m *turn) grant() {
	m.unwatch()
	m.state = held
	if m.rule.Claims() {
		m.target = Target{m.node, Claim}
		m.do(watchTarget{m.attempt, m.target})
	}
	m.emit(Acquired{Token: m.token, Node: m.node})
	m.revoke()
}

// revoke tells a holder, once, that it is asked to leave.
func (m *turn) revoke() {
	if m.Holding() && m.marked && !m.revoked {
		m.revoked = true
		m.emit(Revoked{m.until})
	}
}

// yield waits until what another has claimed is free.
func (m *turn) yield() {
	m.state, m.target = waiting, Target{m.node, Claim}
	m.do(watchTarget{m.attempt, m.target})
	m.behind(1)
}

func (m *turn) watched(in watched) {
	switch {
	case in.target == Target{Node: m.node} && m.standing():
		if in.owner != m.session || m.czxid != 0 && in.czxid != m.czxid {
			m.gone(in.target) // a node of that name, but not ours
			return
		}
		m.czxid, m.owned = in.czxid, true
		if m.state == waiting && !m.listing && m.target == (Target{}) { // nobody was ahead
			m.look()
		}
	case in.announced && m.standing() && m.accompanied(in.target): // since the list that had it watched, or before
		m.look()
	case in.target != m.target || !m.standing():
	case in.target.Until == Claim:
		if m.Holding() && in.czxid != m.token && !m.lessened {
			m.gone(in.target)
		}
	case in.target.Until == Members: // what has changed before is not told
		m.look()
	case in.announced:
		m.watchMembers(in.target)
	default:
		m.kin = in.owner == m.session
	}
}

// watchMembers has the machine told of all members, in the place of one that says no more.
func (m *turn) watchMembers(of Target) {
	m.unwatchTarget()
	m.target, m.instead = Target{Until: Members}, of
	m.do(watchTarget{m.attempt, m.target})
}

func (m *turn) gone(target Target) {
	switch {
	case !m.standing():
	case m.to != "" && (target == Target{Node: m.node} || target == m.target):
		m.without = true // by ourselves, or not: the answer will tell
	case m.Holding() && (target == Target{Node: m.node} || target == m.target): // our node or our claim: nothing else is watched
		m.bereave(target.Until == Gone)
	case target == Target{Node: m.node}:
		m.vanish()
	case m.accompanied(target):
		m.beside = strings.TrimPrefix(strings.Replace("/"+m.beside, "/"+target.String()+"/", "/", 1), "/")
		m.look()
	case target != m.target:
	default:
		granted := m.heir && m.owned && !m.kin
		m.target, m.instead, m.heir, m.kin = Target{}, Target{}, false, false
		if granted {
			m.first()
			return
		}
		m.look()
	}
}

// bereave follows the deletion of our node, or only of our claim, while we hold. The server deletes
// both with the session, and says so before it says that the session has ended.
func (m *turn) bereave(node bool) {
	m.without = m.without || node
	if !m.bereft {
		m.bereft = true
		m.do(ascertain{m.attempt})
	}
}

// deleted is why our node was deleted; lives says that it was not with the session.
func (m Machine) deleted(lives bool) error {
	switch {
	case m.marked:
		return ErrRevoked
	case lives:
		return ErrNodeDeleted
	}
	return errDeleted
}

// vanish follows the deletion of our node by somebody else.
func (m *turn) vanish() {
	m.node = ""
	if m.Holding() { // by an answer to a request
		m.fail(m.deleted(true))
		return
	}
	if m.suspect || m.rule.Claims() {
		m.clear()
		return
	}
	m.unwatch()
	m.enter()
}

// clear removes what may stand for us, to stand in line anew.
func (m *turn) clear() {
	m.unwatch()
	m.state, m.place = clearing, place{}
	m.do(withdrawAll{m.attempt, m.guid()})
}

// start takes nothing for known any more, and stands in line anew.
func (m *turn) start() {
	m.parent = unseen
	m.clear()
}

func (m *turn) withdrawn(node string) {
	switch {
	case node != m.node: // a zombie
	case m.state == clearing:
		m.enter()
	case m.state == leaving:
		m.end(Released{})
	}
}

func (m *turn) suspend(deadline time.Time) {
	m.heir = false
	if m.Holding() && !m.suspended {
		m.suspended = true
		m.emit(Suspended{deadline})
	}
}

func (m *turn) resume() {
	switch {
	case m.bereft:
		m.fail(m.deleted(true))
	case m.state == waiting:
		m.look()
	case m.Holding() && m.suspended:
		m.suspended = false
		m.emit(Resumed{})
		m.look() // others may stand there by another layout since
	}
}

func (m *turn) expire() {
	if m.Holding() || m.state == leaving {
		m.attempt.epoch = 0
		m.end(Lost{session.ErrExpired})
		return
	}
	m.state, m.attempt.epoch, m.place = outside, 0, place{}
}

// downgrade turns what excludes others that share into what does not.
func (m *turn) downgrade(reply actors.Reply[error]) {
	_, to, ok := m.rule.Downgrade(m.node, m.guid())
	switch {
	case !m.Holding(), m.bereft:
		m.do(answer{m.attempt, reply, ErrNotHeld})
		return
	case !ok:
		m.do(answer{m.attempt, reply, ErrNotWrite})
		return
	case m.to != "":
		m.do(answer{m.attempt, reply, fmt.Errorf("%w: a downgrade is under way", ErrNotWrite)})
		return
	}
	m.to, m.reply = to, reply
	m.do(changeNode{m.attempt, m.node, m.to})
}

// changed follows the creation of the node that stands for us now.
func (m *turn) changed() {
	m.do(unwatchTarget{m.attempt, Target{Node: m.node}})
	m.do(watchTarget{m.attempt, Target{Node: m.to}})
	m.do(answer{m.attempt, m.reply, nil})
	m.rule, _, _ = m.rule.Downgrade(m.node, m.guid())
	m.node, m.czxid, m.owned, m.change = m.to, 0, false, change{}
	if m.rule.Claims() {
		m.do(unwatchTarget{m.attempt, m.target})
		m.target, m.lessened = Target{m.node, Claim}, true
		m.do(watchTarget{m.attempt, m.target})
	}
	m.marked, m.until = false, time.Time{} // the mark is gone with the node that carried it
}

// compared finds out what has become of a change.
func (m *turn) compared(s Sight) {
	switch {
	case slices.Contains(s.Names, m.to):
		m.changed()
	case slices.Contains(s.Names, m.node) && !m.without:
		m.suspect, m.unclear = true, false // the first may yet be done, when this one has failed
		m.do(changeNode{m.attempt, m.node, m.to})
	default:
		m.vanish()
	}
}

func (m *turn) notChanged(err error) {
	switch {
	case errors.Is(err, session.ErrNoNode) && !m.suspect && !m.rule.Claims(): // nor has an earlier one been done
		m.vanish()
	case m.without, session.InDoubt(err), errors.Is(err, session.ErrNoNode), errors.Is(err, session.ErrNodeExists):
		m.unclear = true
		m.look()
	case session.Passing(err):
		m.do(changeNode{m.attempt, m.node, m.to})
	default:
		m.do(answer{m.attempt, m.reply, err})
		m.change = change{}
	}
}

// failed follows the failure of e. What ended with its session is forgotten:
// the session tells us of its end. What passes is done again at once: if the server was busy,
// the answer has come after a pause.
func (m *turn) failed(e Effect, err error) {
	if session.Over(err) {
		return
	}
	switch e := e.(type) {
	case inspectParent:
		if m.state == preparing {
			m.notInspected(err)
		}
	case makeParent:
		if m.state == preparing {
			m.notMade(err)
		}
	case createNode:
		if m.state == joining {
			m.notJoined(e.plain, err)
		}
	case listParent:
		if m.listing {
			m.listing, m.stale = false, false
			m.notListed(err)
		}
	case watchTarget:
		m.notWatched(e.target, err)
	case claim:
		if m.state == claiming && e.node == m.node {
			m.notClaimed(e, err)
		}
	case changeNode:
		if m.to == e.to && !m.unclear {
			m.notChanged(err)
		}
	case announce:
		if session.Passing(err) && m.Holding() && e.node == m.node {
			m.do(e)
		}
	case ask, ascertain, unwatchTarget, complain, withdrawNode, withdrawAll, answer: // do not fail
	}
}

func (m *turn) notInspected(err error) {
	if session.Passing(err) {
		m.inspect()
		return
	}
	m.fail(err)
}

func (m *turn) notMade(err error) {
	switch {
	case errors.Is(err, session.ErrNodeExists): // by somebody else, who may have put data in it
		m.inspect()
	case session.Passing(err):
		m.make()
	default:
		m.fail(err)
	}
}

func (m *turn) notJoined(plain bool, err error) {
	switch {
	case session.InDoubt(err):
		m.state = recovering
		m.look()
	case session.Passing(err): // never sent
		m.join()
	case errors.Is(err, session.ErrNoNode):
		m.make()
	case errors.Is(err, session.ErrNoAuth) && !plain:
		m.parent = foreign
		m.join()
	default:
		m.state = preparing // there is nothing of it to withdraw
		m.fail(err)
	}
}

func (m *turn) notListed(err error) {
	switch {
	case m.state != recovering && m.state != waiting && !m.unclear: // nobody wants it any more
	case session.Passing(err):
		m.look()
	case errors.Is(err, session.ErrTooLarge) && m.state == waiting && m.target.Until != Members && m.target != Target{}:
		// There is nothing to do until what is awaited has happened.
	case !errors.Is(err, session.ErrNoNode):
		m.fail(err)
	case m.state == recovering:
		m.suspect = true
		m.make()
	default:
		m.vanish() // with its parent
	}
}

func (m *turn) notWatched(target Target, err error) {
	switch {
	case !m.standing() || target != Target{Node: m.node} && target != m.target && !m.accompanied(target):
		return
	case errors.Is(err, session.ErrNoNode):
	case target == Target{Node: m.node}, target.Until == Members, target.Until == Claim:
		m.fail(err)
		return
	case m.accompanied(target): // the predecessor's news will do
		return
	default: // another's node that may not be read, or is too large: the names of the members tell when it is gone
		m.watchMembers(target)
		return
	}
	m.heir = false // it was gone before it was watched: no event, no grant
	m.gone(target)
}

func (m *turn) notClaimed(e claim, err error) {
	switch {
	case session.InDoubt(err):
		m.do(claim{e.attempt, e.node, true})
	case session.Passing(err):
		m.do(e)
	case errors.Is(err, session.ErrNoNode), errors.Is(err, session.ErrNodeExists),
		errors.Is(err, session.ErrBadVersion), errors.Is(err, session.ErrNotEmpty):
		m.state = waiting // what we thought to know is not so
		m.look()
	default:
		m.fail(err)
	}
}

// leave gives up what is held, or the place in line.
func (m *turn) leave() {
	switch {
	case m.state == leaving:
		return
	case m.bereft:
		m.fail(m.deleted(false))
		return
	}
	m.depart()
	if m.state != leaving {
		m.end(Released{})
	}
}

// fail reports the loss at once, and then withdraws what is left of us.
func (m *turn) fail(err error) {
	m.depart()
	m.said = true
	m.emit(Lost{err})
}

// depart withdraws whatever may stand for us.
func (m *turn) depart() {
	if m.bereft && m.without {
		m.node = ""
	}
	m.bereft, m.without = false, false
	m.unwatch()
	claims := m.rule.Claims() && (m.state == claiming || m.Holding())
	switch {
	case m.state == clearing: // it is being withdrawn
	case m.suspect, m.state == joining, m.state == recovering, m.to != "", claims && m.node == "":
		m.do(withdrawAll{m.attempt, m.guid()})
		m.node = ""
	case m.node != "":
		m.do(withdrawNode{m.attempt, m.node})
	default:
		m.state = ended
		return
	}
	if m.to != "" {
		m.do(answer{m.attempt, m.reply, ErrNotHeld})
	}
	m.state, m.listing, m.change = leaving, false, change{}
	if m.inBackground {
		m.state = ended
	}
}

// end enters the last state, with last words unless they have been said.
func (m *turn) end(last Event) {
	if m.state == leaving {
		last = Released{}
	}
	m.state = ended
	if !m.said {
		m.said = true
		m.emit(last)
	}
}
