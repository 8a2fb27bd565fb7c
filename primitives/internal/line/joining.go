package line

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// This file has the steps of a contender that joins the line: from a session to a node of its own,
// and again when the node is lost before the grant.
//
// At most one create is on its way. After a create of unknown outcome the children are listed, and
// a node with our GUID is adopted. If the list shows none, the create is repeated. The first create
// may still be executed, so from then on [attemptState.maybeDuplicate] holds, and all nodes with
// our GUID are deleted at the end.

// enter begins a new attempt, and forgets the last one. A parent that was seen is expected to exist
// still; otherwise the create fails.
func (m *turn) enter() {
	m.attemptState = attemptState{}
	m.attempt.N++
	if m.parent == unseen {
		m.inspect()
		return
	}
	m.join()
}

// inspect asks whether the parent exists, and whether it carries data. For a new contender it also
// asks whether the line suits its arguments.
func (m *turn) inspect() {
	m.state = preparing
	m.do(InspectParent{m.attempt, m.isNew()})
}

// inspected decides how to join. An empty parent is ours to write. Data in it may belong to another
// recipe, and is left alone.
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

// make creates the parent and its missing ancestors. A parent that another client has created
// meanwhile is inspected, because it may carry data.
func (m *turn) make() {
	m.state = preparing
	m.do(MakeParent{m.attempt})
}

// join creates our node. If the rule needs a list in any case, the list goes out with the create. A
// list under way was requested with an earlier create and may not show our node: its answer is
// used, and another list follows.
func (m *turn) join() {
	m.state = joining
	m.do(CreateNode{m.attempt, m.guid(), m.parent == foreign})
	if m.rule.Traits().Lists && !m.listing {
		m.list()
	}
}

// joined handles the creation of our node. The answer to a transaction has the number of children
// at its zxid: if the rule has room for that many, none is ahead, and no list is needed.
func (m *turn) joined(in Joined) {
	m.state, m.node, m.czxid, m.unwatched = waiting, in.Node, in.Czxid, true
	if !m.checkCzxid() {
		return
	}
	// no other node existed at that zxid, or there is room for all
	if in.Children > 0 && m.rule.Room(in.Children, in.Data) {
		m.first()
		return
	}
	m.queue()
}

// queue finds out which contenders are ahead of our node. If the czxid of our node is known, the
// watch on it goes out with theirs, and reports a deletion since. Otherwise it goes out first,
// because the czxid comes with it.
func (m *turn) queue() {
	m.state = waiting
	if m.czxid == 0 {
		m.watchOwn("")
	}
	m.look()
}

// recovered adopts the node that a create of unknown outcome has left, or repeats the create. Of
// several nodes it adopts the oldest, which stands furthest ahead. The others are withdrawn as
// zombies.
func (m *turn) recovered(names []string) {
	var ours []nodes.Contender
	created := m.rule.Name(m.guid())
	for _, name := range names {
		if digits, is := strings.CutPrefix(name, created); is {
			if number, ok := nodes.ParseNumber(digits); ok {
				ours = append(ours, nodes.Contender{Name: name, Number: number})
			}
		}
	}
	if len(ours) == 0 {
		m.maybeDuplicate = true
		m.join()
		return
	}
	nodes.Sort(ours)
	m.node, m.unwatched = ours[0].Name, true
	m.queue()
}

// notInspected repeats the inspection after a passing error, and when the parent was deleted
// between two of the reads: the first of the next reads shows that. Any other failure ends the
// attempt; there is nothing to withdraw yet.
func (m *turn) notInspected(err error) {
	if session.Passing(err) || errors.Is(err, session.ErrNoNode) {
		m.inspect()
		return
	}
	m.fail(err)
}

// notMade handles the failure to create the parent. Another client may have created it, with data
// in it: then it is inspected like any other parent.
func (m *turn) notMade(err error) {
	switch {
	case errors.Is(err, session.ErrNodeExists):
		m.inspect()
	case session.Passing(err):
		m.make()
	default:
		m.fail(err)
	}
}

// notJoined handles the failure of a create. In doubt, a list shows whether there is a node. A
// missing parent is created. If the parent may not be written to, we join without writing to it.
func (m *turn) notJoined(plain bool, err error) {
	switch {
	case session.InDoubt(err):
		m.state = recovering
		m.look()
	case session.Passing(err), // never sent
		errors.Is(err, session.ErrBadVersion): // another client has written to the parent
		m.join()
	case errors.Is(err, session.ErrNoNode):
		m.make()
	case errors.Is(err, session.ErrNoAuth) && !plain:
		m.parent = foreign
		m.join()
	default:
		m.state = preparing // there is nothing to withdraw
		m.fail(err)
	}
}

// vanish handles the deletion of our node by another client. A holder has lost its grant. A waiter
// joins the line anew, at its end. Before that it deletes the nodes that a repeated create, or a
// claim on its way, may have left.
func (m *turn) vanish() {
	m.node = ""
	switch {
	case m.Holding():
		m.fail(m.deleted())
	case m.maybeDuplicate || m.rule.Traits().Claims:
		m.clear()
	default:
		m.unwatch()
		m.enter()
	}
}

// restart forgets the parent and rejoins.
func (m *turn) restart() {
	m.parent = unseen
	m.clear()
}

// withdrawn handles the confirmation that a node, or all nodes with our GUID, are gone. The
// confirmation for a zombie names another node, and means nothing here. After clearing, the next
// attempt may begin, unless our own node would stand before it.
func (m *turn) withdrawn(node string, err error) {
	switch {
	case node != m.node: // a zombie
	case m.state == clearing && err != nil:
		m.end(m.over(err))
	case m.state == clearing:
		m.enter()
	case m.state == leaving && err != nil:
		m.end(Released{fmt.Errorf("not given up, as the server refuses that: %w", err)})
	case m.state == leaving:
		m.end(Released{})
	}
}

// expire handles the end of the session, which deletes all nodes that it owned. A holder has lost
// the grant. A contender that was leaving has left, and waits for no confirmation. A waiter joins
// the line anew in the next session, behind all contenders that came meanwhile.
func (m *turn) expire() {
	if m.Holding() || m.state == leaving {
		m.attempt.Epoch = 0
		m.cut(session.ErrExpired)
		return
	}
	m.state, m.attempt.Epoch, m.lapsed, m.attemptState = outside, 0, false, attemptState{}
}
