package lock

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
// channels, no clock, no I/O. The performer of its effects is in lock.go.

type state int

const (
	outside    state = iota // there is no session
	preparing               // the parent is being looked at, or made
	joining                 // our node is being created
	recovering              // our node may have been created: we are looking for it
	waiting                 // our node exists, others are ahead
	held                    // our node is first: the lock is ours
	clearing                // our node is gone, what a lost create may have left is being removed
	leaving                 // our node is being removed
	ended
)

func (s state) String() string {
	return [...]string{"outside", "preparing", "joining", "recovering", "waiting", "held", "clearing", "leaving", "ended"}[s]
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

// An input is something that happened.
//
//sumtype:decl
type input interface{ input() }

type (
	leave     struct{} // commanded, or the actor was stopped
	connected struct { // a session has been established
		epoch   int
		session int64
	}
	suspended struct{ deadline time.Time } // its connection is lost
	resumed   struct{}                     // its connection is back
	expired   struct{ epoch int }          // it is gone, with all its nodes
	closed    struct{}                     // there will not be another
	inspected struct {                     // answers inspectParent
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
	}
	listed struct { // answers listParent
		attempt
		names []string
	}
	watched struct { // answers watchNode: it exists
		attempt
		node         string
		czxid, owner int64
	}
	gone struct { // told once after watched: it exists no more
		attempt
		node string
	}
	withdrawn struct { // answers withdrawNode, and withdrawAll with an empty node
		attempt
		node string
	}
	failed struct { // answers any of them but withdrawNode and withdrawAll
		effect
		err error
	}
)

func (leave) input()     {}
func (connected) input() {}
func (suspended) input() {}
func (resumed) input()   {}
func (expired) input()   {}
func (closed) input()    {}
func (inspected) input() {}
func (made) input()      {}
func (joined) input()    {}
func (listed) input()    {}
func (watched) input()   {}
func (gone) input()      {}
func (withdrawn) input() {}
func (failed) input()    {}

// An effect is something to do about it. It belongs to the epoch of its attempt,
// must not be done in another, and is answered by exactly one input; unwatchNode by
// none.
//
//sumtype:decl
type effect interface {
	of() attempt
	effect()
}

type (
	inspectParent struct{ attempt }
	makeParent    struct{ attempt } // with all its ancestors
	createNode    struct {          // ephemeral and sequential
		attempt
		guid  string
		plain bool // not in one transaction with a write to the parent
	}
	listParent struct{ attempt }
	watchNode  struct { // until it is gone
		attempt
		node string
	}
	unwatchNode struct {
		attempt
		node string
	}
	withdrawNode struct { // until it is confirmed, or the epoch has ended
		attempt
		node string
	}
	withdrawAll struct { // whatever was created with this GUID, likewise
		attempt
		guid string
	}
)

func (inspectParent) effect() {}
func (makeParent) effect()    {}
func (createNode) effect()    {}
func (listParent) effect()    {}
func (watchNode) effect()     {}
func (unwatchNode) effect()   {}
func (withdrawNode) effect()  {}
func (withdrawAll) effect()   {}

type effects = actors.Effects[effect, Event]

func do(e ...effect) effects { return effects{Do: e} }

// machine is the state of a lock. It is comparable.
type machine struct {
	id           string // the handle's GUID, from which those of its attempts are derived
	inBackground bool   // leave without waiting for the confirmation

	state     state
	parent    parent
	session   int64 // the id of the present or last session
	attempt   attempt
	ahead     int  // what the last Waiting said; -1 if there was none
	suspended bool // Suspended was emitted, and no Resumed since
	said      bool // the last event was emitted
	place
}

// place is what belongs to one attempt.
type place struct {
	node    string // our node; "" while it is not known to exist
	czxid   int64  // its czxid, the token; 0 until known
	owned   bool   // the watch on it is confirmed
	suspect bool   // a create of unknown outcome was repeated: there may be nodes we do not know
	listing bool   // a list is under way
	target  string // the node ahead that is watched; "" if none
	heir    bool   // target is all that is ahead, so that its deletion is the grant
	kin     bool   // target is of our own session, whose end would delete it and our node at once
}

// newMachine returns the machine of a handle. id is a UUID in text form. warm says
// that the parent has been seen to exist and to be empty.
func newMachine(id string, warm, inBackground bool) machine {
	m := machine{id: id, inBackground: inBackground, ahead: -1}
	if warm {
		m.parent = bare
	}
	return m
}

func (m machine) String() string {
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
		{m.owned, "owned"},
		{m.suspect, "suspect"},
		{m.listing, "listing"},
		{m.target != "", "target=" + m.target},
		{m.heir, "heir"},
		{m.kin, "kin"},
		{m.suspended, "suspended"},
		{m.said, "said"},
	} {
		if f.set {
			b.WriteString(" " + f.text)
		}
	}
	return b.String() + ")"
}

// Ended implements [actors.Machine].
func (m machine) Ended() bool { return m.state == ended }

// holding reports whether the lock is ours.
func (m machine) holding() bool { return m.state == held }

// guid is the GUID of the present attempt.
func (m machine) guid() string { return guid(m.id, m.attempt.n) }

// Step implements [actors.Machine]. Inputs that mean nothing in the current
// state are ignored: they answer a question nobody asks any more.
func (m machine) Step(in input) (machine, effects) {
	if a, ok := in.(interface{ of() attempt }); m.Ended() || ok && a.of() != m.attempt {
		return m, effects{}
	}
	switch in := in.(type) {
	case leave:
		return m.leave()
	case connected:
		if m.state == outside {
			m.session, m.attempt.epoch = in.session, in.epoch
			return m.enter()
		}
	case suspended:
		return m.suspend(in.deadline)
	case resumed:
		return m.resume()
	case expired:
		if in.epoch == m.attempt.epoch {
			return m.expire()
		}
	case closed:
		return m.end(lost(session.ErrClosed))
	case inspected:
		if m.state == preparing {
			return m.inspected(in.exists, in.empty)
		}
	case made:
		if m.state == preparing {
			m.parent = bare
			return m.join()
		}
	case joined:
		if m.state == joining {
			return m.joined(in)
		}
	case listed:
		if m.listing {
			m.listing = false
			return m.listed(in.names)
		}
	case watched:
		switch {
		case in.node == m.node && m.standing():
			return m.watched(in)
		case in.node == m.target:
			m.kin = in.owner == m.session
		}
	case gone:
		return m.gone(in.node)
	case withdrawn:
		return m.withdrawn(in.node)
	case failed:
		return m.failed(in.effect, in.err)
	}
	return m, effects{}
}

// standing reports whether our node stands in line.
func (m machine) standing() bool { return m.state == waiting || m.state == held }

// enter stands in line anew.
func (m machine) enter() (machine, effects) {
	m.place = place{}
	m.attempt.n++
	if m.parent == unseen {
		return m.inspect()
	}
	return m.join()
}

func (m machine) inspect() (machine, effects) {
	m.state = preparing
	return m, do(inspectParent{m.attempt})
}

func (m machine) inspected(exists, empty bool) (machine, effects) {
	switch {
	case !exists:
		return m.make()
	case empty:
		m.parent = bare
	default:
		m.parent = foreign
	}
	return m.join()
}

func (m machine) make() (machine, effects) {
	m.state = preparing
	return m, do(makeParent{m.attempt})
}

func (m machine) join() (machine, effects) {
	m.state = joining
	return m, do(createNode{m.attempt, m.guid(), m.parent == foreign})
}

func (m machine) joined(in joined) (machine, effects) {
	m.node, m.czxid = in.node, in.czxid
	if in.children == 1 { // ours: nobody else has been there at that very zxid
		m, out := m.grant()
		out.Do = append(out.Do, watchNode{m.attempt, m.node})
		return m, out
	}
	return m.queue()
}

// queue watches our node, and finds out who is ahead of it. In this order, so
// that a node that the list shows is a node whose deletion we shall hear of.
func (m machine) queue() (machine, effects) {
	m.state = waiting
	m, out := m.look()
	return m, do(append([]effect{watchNode{m.attempt, m.node}}, out.Do...)...)
}

// look asks for a list, unless one is under way. That one will do: whatever made us
// ask has reached us before its answer, so it happened before.
func (m machine) look() (machine, effects) {
	if m.listing {
		return m, effects{}
	}
	m.listing, m.heir = true, false
	return m, do(listParent{m.attempt})
}

func (m machine) listed(names []string) (machine, effects) {
	if m.state == recovering {
		return m.recovered(names)
	}
	return m.rank(names)
}

// recovered adopts the node that a create of unknown outcome has left, or repeats
// the create.
func (m machine) recovered(names []string) (machine, effects) {
	ours := slices.DeleteFunc(line(names), func(name string) bool {
		return !strings.HasPrefix(name, prefix(m.guid()))
	})
	if len(ours) == 0 {
		m.suspect = true
		return m.join()
	}
	m.node = ours[0]
	return m.queue()
}

// rank decides, from the names of the children, whether it is our turn.
func (m machine) rank(names []string) (machine, effects) {
	p := locate(names, m.node, m.guid())
	if !p.present {
		return m.vanish()
	}
	var out effects
	switch {
	case p.ahead > 0:
		m, out = m.wait(p)
	case m.czxid == 0: // no grant without a token
		m, out = m.look()
	default:
		m, out = m.grant()
	}
	for _, node := range p.zombies {
		out.Do = append(out.Do, withdrawNode{m.attempt, node})
	}
	return m, out
}

// wait watches the one ahead of the one ahead, to find out in advance, while others
// work, that we are next; and then the one ahead.
func (m machine) wait(p position) (machine, effects) {
	var out effects
	target := p.second
	if p.ahead == 1 {
		target = p.next
	}
	if target != m.target {
		m, out.Do = m.unwatch()
		m.target = target
		out.Do = append(out.Do, watchNode{m.attempt, target})
	}
	m.heir = p.ahead == 1
	if p.ahead != m.ahead {
		m.ahead = p.ahead
		out.Emit = []Event{Waiting{m.ahead}}
	}
	return m, out
}

func (m machine) unwatch() (machine, []effect) {
	if m.target == "" {
		return m, nil
	}
	e := unwatchNode{m.attempt, m.target}
	m.target, m.heir, m.kin = "", false, false
	return m, []effect{e}
}

func (m machine) grant() (machine, effects) {
	m, e := m.unwatch()
	m.state = held
	return m, effects{Do: e, Emit: []Event{Acquired{Token: m.czxid, Node: m.node}}}
}

func (m machine) watched(in watched) (machine, effects) {
	if in.owner != m.session || m.czxid != 0 && in.czxid != m.czxid {
		return m.vanish() // a node of that name, but not ours
	}
	m.czxid, m.owned = in.czxid, true
	return m, effects{}
}

func (m machine) gone(node string) (machine, effects) {
	switch {
	case node == m.node && m.standing():
		return m.vanish()
	case node == m.target:
		granted := m.heir && m.owned && !m.kin
		m.target, m.heir, m.kin = "", false, false
		if granted {
			return m.grant()
		}
		return m.look()
	}
	return m, effects{}
}

// vanish follows the deletion of our node by somebody else.
func (m machine) vanish() (machine, effects) {
	m.node = ""
	if m.holding() {
		return m.fail(ErrNodeDeleted)
	}
	m, e := m.unwatch()
	if m.suspect {
		m.state, m.place = clearing, place{}
		return m, do(append(e, withdrawAll{m.attempt, m.guid()})...)
	}
	m, out := m.enter()
	return m, do(append(e, out.Do...)...)
}

func (m machine) withdrawn(node string) (machine, effects) {
	switch {
	case node != m.node: // a zombie
	case m.state == clearing:
		return m.enter()
	case m.state == leaving:
		return m.end(Released{})
	}
	return m, effects{}
}

func (m machine) suspend(deadline time.Time) (machine, effects) {
	m.heir = false
	if !m.holding() || m.suspended {
		return m, effects{}
	}
	m.suspended = true
	return m, effects{Emit: []Event{Suspended{deadline}}}
}

func (m machine) resume() (machine, effects) {
	switch {
	case m.state == waiting:
		return m.look()
	case m.holding() && m.suspended:
		m.suspended = false
		return m, effects{Emit: []Event{Resumed{}}}
	}
	return m, effects{}
}

func (m machine) expire() (machine, effects) {
	if m.holding() || m.state == leaving {
		return m.end(lost(session.ErrExpired))
	}
	m.state, m.attempt.epoch, m.place = outside, 0, place{}
	return m, effects{}
}

// failed follows the failure of e. What ended with its session is forgotten:
// the session tells us of its end.
func (m machine) failed(e effect, err error) (machine, effects) {
	if errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrClosed) {
		return m, effects{}
	}
	switch e := e.(type) {
	case inspectParent:
		if m.state == preparing {
			return m.notInspected(err)
		}
	case makeParent:
		if m.state == preparing {
			return m.notMade(err)
		}
	case createNode:
		if m.state == joining {
			return m.notJoined(e.plain, err)
		}
	case listParent:
		if m.listing {
			m.listing = false
			return m.notListed(err)
		}
	case watchNode:
		return m.notWatched(e.node, err)
	case unwatchNode, withdrawNode, withdrawAll: // do not fail
	}
	return m, effects{}
}

func (m machine) notInspected(err error) (machine, effects) {
	if errors.Is(err, session.ErrDisconnected) {
		return m.inspect()
	}
	return m.fail(err)
}

func (m machine) notMade(err error) (machine, effects) {
	switch {
	case errors.Is(err, session.ErrNodeExists): // by somebody else, who may have put data in it
		return m.inspect()
	case errors.Is(err, session.ErrUnknownOutcome), errors.Is(err, session.ErrDisconnected):
		return m.make()
	}
	return m.fail(err)
}

func (m machine) notJoined(plain bool, err error) (machine, effects) {
	switch {
	case errors.Is(err, session.ErrUnknownOutcome):
		m.state = recovering
		return m.look()
	case errors.Is(err, session.ErrDisconnected): // never sent
		return m.join()
	case errors.Is(err, session.ErrNoNode):
		return m.make()
	case errors.Is(err, session.ErrNoAuth) && !plain:
		m.parent = foreign
		return m.join()
	}
	m.state = preparing // there is nothing of it to withdraw
	return m.fail(err)
}

func (m machine) notListed(err error) (machine, effects) {
	switch {
	case errors.Is(err, session.ErrDisconnected):
		return m.look()
	case !errors.Is(err, session.ErrNoNode):
		return m.fail(err)
	case m.state == recovering:
		m.suspect = true
		return m.make()
	}
	return m.vanish() // with its parent
}

func (m machine) notWatched(node string, err error) (machine, effects) {
	switch {
	case !m.standing() || node != m.node && node != m.target:
		return m, effects{}
	case !errors.Is(err, session.ErrNoNode):
		return m.fail(err)
	}
	m.heir = false // it was gone before it was watched: no event, no grant
	return m.gone(node)
}

// leave gives up the lock, or the place in line.
func (m machine) leave() (machine, effects) {
	if m.state == leaving {
		return m, effects{}
	}
	m, e := m.depart()
	if m.state == leaving {
		return m, do(e...)
	}
	m, out := m.end(Released{})
	out.Do = e
	return m, out
}

// fail reports the loss at once, and then withdraws what is left of us.
func (m machine) fail(err error) (machine, effects) {
	m, e := m.depart()
	m.said = true
	return m, effects{Do: e, Emit: []Event{lost(err)}}
}

// depart withdraws whatever may stand for us.
func (m machine) depart() (machine, []effect) {
	m, e := m.unwatch()
	switch {
	case m.state == clearing: // it is being withdrawn
	case m.suspect, m.state == joining, m.state == recovering:
		e = append(e, withdrawAll{m.attempt, m.guid()})
		m.node = ""
	case m.node != "":
		e = append(e, withdrawNode{m.attempt, m.node})
	default:
		m.state = ended
		return m, e
	}
	m.state, m.listing = leaving, false
	if m.inBackground {
		m.state = ended
	}
	return m, e
}

// end enters the last state, with last words unless they have been said.
func (m machine) end(last Event) (machine, effects) {
	if m.state == leaving {
		last = Released{}
	}
	m.state = ended
	if m.said {
		return m, effects{}
	}
	m.said = true
	return m, effects{Emit: []Event{last}}
}

func lost(err error) Lost { return Lost{fmt.Errorf("%w: %w", ErrLost, err)} }
