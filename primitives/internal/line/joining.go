package line

import (
	"errors"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/session"
)

// This file has the steps of a contender that joins the line: from a session to a node that
// is its own.
//
// At most one create is on its way. After one of unknown outcome the children are
// listed, and a node with our GUID is adopted. Where the list shows none, the create
// is repeated; the first may still be done, so from then on [place.maybeDuplicate] holds, and
// whatever has our GUID is removed at the end.

// enter stands in line anew, by an attempt of its own: nothing of the last one holds
// any more. A parent that was seen is taken to be there still; a create that fails
// tells otherwise.
func (m *turn) enter() {
	m.place = place{}
	m.attempt.n++
	if m.parent == unseen {
		m.inspect()
		return
	}
	m.join()
}

// isNew reports whether the caller has not received a place in line. Only a new
// contender may be refused because of its arguments: another one has been promised its
// place.
func (m Machine) isNew() bool { return m.ahead < 0 }

// inspect asks whether the parent exists, and whether it carries data. A new contender
// asks for more: whether the recipe of the line suits it.
func (m *turn) inspect() {
	m.state = preparing
	m.do(inspectParent{m.attempt, m.isNew()})
}

// inspected decides how to join: an empty parent is ours to write. Data in it may be in
// use by another recipe, and is left alone.
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

// make asks for the parent, with all that is missing above it. A parent that another
// client has created meanwhile is inspected, because it may carry data.
func (m *turn) make() {
	m.state = preparing
	m.do(makeParent{m.attempt})
}

// join asks for our node. Where the rule needs a list in any case, it goes out with
// the create. One that is under way was asked for with an earlier create, and shows
// less: it is looked at, and then another is.
func (m *turn) join() {
	m.state = joining
	m.do(createNode{m.attempt, m.guid(), m.parent == foreign})
	if m.rule.Lists() && !m.listing { // one that is under way was asked for with an earlier create
		m.listing = true
		m.do(listParent{m.attempt})
	}
}

// joined follows the creation of our node. A transaction says how many children there
// were at its zxid: if the rule has room for as many, it is our turn, and no list is
// needed.
func (m *turn) joined(in joined) {
	m.node, m.czxid, m.unwatched = in.node, in.czxid, true
	if in.children > 0 && m.rule.Room(in.children, in.data) { // no other node was there at that very zxid, or there is room for all
		m.first()
		return
	}
	m.queue()
}

// queue finds out which contenders are ahead of our node. The watch on that goes out with theirs, if its
// czxid is known: a deletion since is told then. Else it is the first to go out, because the czxid comes with it.
func (m *turn) queue() {
	m.state = waiting
	if m.czxid == 0 {
		m.watchOwn("")
	}
	m.look()
}

// watchOwn has our node watched, unless it is, and the others that have the keys.
func (m *turn) watchOwn(with string) {
	switch {
	case !m.unwatched:
	case with == "":
		m.watch(Target{Node: m.node})
	default:
		m.do(watchTogether{m.attempt, m.node, with})
	}
	m.unwatched = false
}

// recovered adopts the node that a create of unknown outcome has left, or repeats the
// create. The oldest of several is adopted: it stands furthest ahead.
func (m *turn) recovered(s Sight) {
	ours := slices.DeleteFunc(m.rule.Line(s.Names), func(name string) bool {
		return !strings.HasPrefix(name, m.rule.Prefix(m.guid()))
	})
	if len(ours) == 0 {
		m.maybeDuplicate = true
		m.join()
		return
	}
	m.node, m.unwatched = ours[0], true // the others are withdrawn as zombies
	m.queue()
}

// notInspected asks again after what passes. Any other failure ends the attempt: there
// is nothing to withdraw yet.
func (m *turn) notInspected(err error) {
	if session.Passing(err) {
		m.inspect()
		return
	}
	m.fail(err)
}

// notMade follows the failure to make the parent. Another client may have made it, with
// data in it: then it is inspected like any other.
func (m *turn) notMade(err error) {
	switch {
	case errors.Is(err, session.ErrNodeExists): // by another client, which may have put data in it
		m.inspect()
	case session.Passing(err):
		m.make()
	default:
		m.fail(err)
	}
}

// notJoined follows the failure of a create. In doubt, a list tells whether there is a
// node; without a parent, it is made; where it may not be written, we join without
// that.
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
