package line

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zkactors/zkactors/actors"
)

// This file has the fields of a machine, and the moves that several states share. The picture in
// step.go names the file with the steps of each state.

// A state is the part of the protocol that the contender is in. It decides which inputs mean
// something.
type state int8

const (
	outside    state = iota // there is no session
	preparing               // the parent is being inspected, or created
	joining                 // our node is being created
	recovering              // our node may have been created: a list is to show it
	waiting                 // our node exists, others are ahead
	claiming                // none is ahead, and the claim is under way
	held                    // the grant is ours
	// Our node is gone, and nodes that a lost create may have left are being deleted.
	clearing
	leaving // our node is being deleted
	ended
)

func (s state) String() string {
	return [...]string{
		"outside", "preparing", "joining", "recovering", "waiting", "claiming", "held", "clearing", "leaving", "ended",
	}[s]
}

// A parent is our knowledge of the contenders' parent. It decides how a node is created. We prefer
// a transaction that also writes to the parent, because its answer has the number of children.
type parent int8

const (
	unseen parent = iota // nothing
	bare                 // it is empty and ours to write: we join in one transaction
	// It carries data, or is not ours to write: we join by the published recipe.
	foreign
)

func (p parent) String() string { return [...]string{"unseen", "bare", "foreign"}[p] }

// A Machine is the state of one place in line. It is comparable.
type Machine struct {
	// The handle's GUID, from which the GUIDs of its attempts are derived; constant.
	id string

	rule         Rule // which contender waits for which; another, weaker one after a downgrade
	inBackground bool // end without waiting until our node is deleted; constant

	// The state, and the fields that outlive one attempt.
	state     state
	parent    parent        // set by inspected and made; unseen again after Invalid
	session   int64         // id of the present or last session; set when it begins
	timeout   time.Duration // of that session; set with it
	past      int64         // the newest zxid of earlier sessions; set with session
	attempt   Attempt       // Epoch: set and cleared with the session; N: counts
	condition string        // its newest reading, if the performer follows it; "" before

	// The events so far. Only suspended is ever cleared: events are not taken back.
	ahead        int  // as in the newest Waiting; -1 if there was none
	suspended    bool // set by Suspended, cleared by Resumed; only while we hold
	lapsed       bool // set by Lapsed, cleared by Resumed, and with the session: nothing is waited for
	revoked      bool // set by Revoked; then revokeRequested is set too
	finalEmitted bool // set by Released, Lost and NotGranted; afterwards no event is emitted
	attemptState
}

// attemptState has the fields of one attempt. It is cleared when another attempt begins, and when
// the session ends.
type attemptState struct {
	// Our own node.
	node  string // set when its creation is known, cleared when its deletion is
	czxid int64  // of node; 0 until known. Without claims, known before a grant
	token int64  // set by the grant, then constant; 0 before

	// The czxid of our claim; 0 until it is confirmed, which an inherited grant precedes.
	claimed int64

	// The token that we inherit with the deletion of target, cleared with it. 0 if its deletion is
	// not yet the grant, because the rule claims.
	inherits int64

	owned bool // set when the watch on node is confirmed, cleared by a downgrade

	// Set by the first snapshot after czxid became known, cleared with node. Until it is set, the
	// condition may have been another when node was created.
	proven bool

	// Set when node is known and the watch on it is yet to be requested, cleared by the request. It
	// is never set while we claim or hold. While it is set together with later, we learn of the end
	// of node only when target has gone.
	unwatched bool

	// Set when a create or a downgrade of unknown outcome is repeated. While set, there may be
	// unknown nodes with our GUID, so all are deleted at the end.
	maybeDuplicate bool

	// Our knowledge of others. target and beside are set while we wait, and cleared by the grant.
	listing bool // set while a list is under way, cleared by its answer
	stale   bool // set by news that the list under way may not show, cleared with listing

	// Watched beside our node: a contender or the members while we wait, our claim while we hold.
	target Target

	instead Target // set to a target that the members replace, cleared with target

	// The keys of targets that are watched as well until they are gone, each with a slash behind
	// it.
	beside string

	// The predecessor, to be watched when target has gone; set while many are ahead, cleared with
	// target.
	later string

	// Set by a list if target and beside are all that is ahead, cleared by any other news. While
	// set, the deletion of the last of them is the grant.
	deletionGrants bool

	// Set on a grant that has to be announced, until a list shows whether a contender is still
	// behind; cleared by that list, or by the announcement.
	unannounced bool

	// Set when target is found to be of our own session, cleared with target. While set, the end of
	// the session may have caused its deletion, and deleted our node too.
	sameSession bool

	// Requests to leave, and downgrades.
	revokeRequested bool      // set when node carries a revoke request, cleared by a downgrade
	revokeBy        time.Time // set with revokeRequested: its deadline; zero if it has none

	// Set when a reader's claim has replaced the writer's. While set, no other contender can own
	// the claim.
	downgraded bool

	change
}

// A change replaces our node by one that excludes less. It is zero while no downgrade is under way,
// except for without.
type change struct {
	to      string              // name of the new node; set by the command, cleared at the end
	reply   actors.Reply[error] // of the command; answered exactly once, when to is cleared
	without bool                // set when our node is gone, by the change or not; cleared with to
}

// New returns the machine of a handle. id is a UUID in text form. warm means that the parent is
// known to exist and to be empty.
func New(id string, rule Rule, warm, inBackground bool) Machine {
	m := Machine{id: id, rule: rule, inBackground: inBackground, ahead: -1}
	if warm {
		m.parent = bare
	}
	return m
}

func (m Machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v(%d.%d %v", m.state, m.attempt.Epoch, m.attempt.N, m.parent)
	for _, f := range []struct {
		set  bool
		text string
	}{
		{m.inBackground, "background"},
		{m.past != 0, fmt.Sprintf("past=%d", m.past)},
		{m.ahead >= 0, fmt.Sprintf("ahead=%d", m.ahead)},
		{m.node != "", "node=" + m.node},
		{m.czxid != 0, fmt.Sprintf("czxid=%d", m.czxid)},
		{m.token != m.czxid && m.token != 0, fmt.Sprintf("token=%d", m.token)},
		{m.claimed != m.token && m.claimed != 0, fmt.Sprintf("claimed=%d", m.claimed)},
		{m.inherits != 0, fmt.Sprintf("inherits=%d", m.inherits)},
		{m.owned, "owned"},
		{m.proven, "proven"},
		{m.unwatched, "unwatched"},
		{m.maybeDuplicate, "maybeDuplicate"},
		{m.listing, "listing"},
		{m.stale, "stale"},
		{m.target != Target{}, "target=" + m.target.String()},
		{m.beside != "", "beside=" + m.beside},
		{m.later != "", "later=" + m.later},
		{m.deletionGrants, "deletionGrants"},
		{m.unannounced, "unannounced"},
		{m.sameSession, "sameSession"},
		{m.revokeRequested, "revokeRequested"},
		{m.to != "", "to=" + m.to},
		{m.without, "without"},
		{m.downgraded, "downgraded"},
		{m.condition != "", "condition=" + m.condition},
		{m.suspended, "suspended"},
		{m.lapsed, "lapsed"},
		{m.revoked, "revoked"},
		{m.finalEmitted, "finalEmitted"},
	} {
		if f.set {
			b.WriteString(" " + f.text)
		}
	}
	return b.String() + ")"
}

// Ended implements [actors.Machine].
func (m Machine) Ended() bool { return m.state == ended }

// Holding reports whether the contender holds.
func (m Machine) Holding() bool { return m.state == held }

// Waiting reports whether our node stands in line and, as far as we know, others are ahead.
func (m Machine) Waiting() bool { return m.state == waiting }

// Leaving reports whether the place is given up, without confirmation so far.
func (m Machine) Leaving() bool { return m.state == leaving }

// Standing reports whether our node stands in line, as far as we know. Then node is set, except in
// the step in which its end becomes known.
func (m Machine) Standing() bool {
	return m.state == waiting || m.state == claiming || m.state == held
}

// Watching returns the target whose change a waiter awaits.
func (m Machine) Watching() Target { return m.target }

// Next returns, where the rule claims, the only contender ahead, if its deletion would lead to our
// claim; else "".
func (m Machine) Next() string {
	if m.rule.Traits().Claims && m.state == waiting && m.deletionGrants && m.owned && !m.sameSession && m.beside == "" {
		return m.target.Node
	}
	return ""
}

// Claimed returns the czxid of our claim; 0 until it is confirmed.
func (m Machine) Claimed() int64 { return m.claimed }

// Ahead returns the number of contenders ahead, as of the newest Waiting; -1 if there was none.
func (m Machine) Ahead() int { return m.ahead }

// Epoch returns the epoch of the session in which we stand in line; 0 if there is none.
func (m Machine) Epoch() int { return m.attempt.Epoch }

// Node returns the name of our node; "" while there is none.
func (m Machine) Node() string {
	if m.Ended() {
		return ""
	}
	return m.node
}

// guid is the GUID of the present attempt.
func (m Machine) guid() string { return attemptGUID(m.id, m.attempt.N) }

// isNew reports whether the caller has not yet received a place in line. Only a new contender may
// be refused because of its arguments: any other has been promised its place.
func (m Machine) isNew() bool { return m.ahead < 0 }

// deleted is the reason of the loss when our node, or our claim, is gone while we hold. After a
// revoke request, the client that made it counts as the cause. The server also deletes both when it
// ends the session, and reports the deletion first. The holder has to stop in any case, so the loss
// is emitted at once.
func (m Machine) deleted() error {
	if m.revokeRequested {
		return ErrRevoked
	}
	return ErrNodeDeleted
}

// A turn is a machine during a step, with the accumulator of its effects. They are performed after
// the step, in the order in which they were requested.
type turn struct {
	*Machine
	out *Effects
}

func (m *turn) do(e Effect)   { m.out.Do = append(m.out.Do, e) }
func (m *turn) emit(ev Event) { m.out.Emit = append(m.out.Emit, ev) }

// reportAhead emits the number of contenders ahead, if it has changed. It may grow: others may have
// priority.
func (m *turn) reportAhead(ahead int) {
	if ahead != m.ahead {
		m.ahead = ahead
		m.emit(Waiting{ahead})
	}
}

// look requests a list, unless one is under way. A list under way suffices, because its answer
// comes after the news that was the trigger, so it is newer. If the answer consists of two reads,
// it may not be: then stale is set, and another list follows. No deletion is a grant before the
// list.
func (m *turn) look() {
	m.deletionGrants = false
	if m.listing {
		m.stale = m.rule.Traits().AnnouncesGrants
		return
	}
	m.list()
}

func (m *turn) list() {
	m.listing = true
	m.do(ListParent{m.attempt})
}

// watch requests a watch.
func (m *turn) watch(t Target) { m.do(WatchTarget{m.attempt, t}) }

// watchOwn requests the watch on our node, unless it was requested before, together with the
// targets of the keys.
func (m *turn) watchOwn(with string) {
	switch {
	case !m.unwatched:
	case with == "":
		m.watch(Target{Node: m.node})
	default:
		m.do(WatchTogether{m.attempt, m.node, with})
	}
	m.unwatched = false
}

// watchBeside makes the targets those that are watched beside the target. It returns the targets
// whose watches have yet to be requested. The keys of the targets are kept in one string, because a
// machine is comparable; each has a slash behind it. So a target beside is the name of a contender,
// which contains none.
func (m *turn) watchBeside(targets []Target) (begin []Target) {
	before := m.beside
	if before == "" && len(targets) == 0 {
		return nil
	}
	m.beside = ""
	for key := range strings.SplitSeq(before, "/") {
		if t := TargetOf(key); key != "" && !slices.Contains(targets, t) {
			m.do(UnwatchTarget{m.attempt, t})
		}
	}
	for _, t := range targets {
		if m.beside += t.String() + "/"; !strings.Contains("/"+before, "/"+t.String()+"/") {
			begin = append(begin, t)
		}
	}
	return begin
}

// isWatchedBeside reports whether the target is watched beside another.
func (m *turn) isWatchedBeside(t Target) bool {
	return m.beside != "" && t.Until <= Changed && strings.Contains("/"+m.beside, "/"+t.String()+"/")
}

// unwatch ends all watches except the one on our own node, which lasts until the attempt ends.
func (m *turn) unwatch() {
	m.watchBeside(nil)
	m.unwatchTarget()
}

// unwatchTarget ends the watch on the target, and forgets our knowledge of it.
func (m *turn) unwatchTarget() {
	if m.target != (Target{}) {
		m.do(UnwatchTarget{m.attempt, m.target})
		m.forgetTarget()
	}
}

func (m *turn) forgetTarget() {
	m.target, m.instead, m.later, m.deletionGrants, m.sameSession, m.inherits = Target{}, Target{}, "", false, false, 0
}

// clear deletes all nodes that may stand for us, before we join the line anew. The attempt stays
// the same until that is confirmed, because its GUID names these nodes. Other answers of that
// attempt mean nothing any more.
func (m *turn) clear() {
	m.unwatch()
	m.state, m.attemptState = clearing, attemptState{}
	m.do(WithdrawAll{m.attempt, m.guid()})
}

// leave gives up the grant, or the place in line. If nothing has to be withdrawn, the machine ends.
// A second call does nothing, so that the handle may repeat the command.
func (m *turn) leave() {
	if m.state == leaving {
		return
	}
	m.depart()
	if m.state != leaving {
		m.end(Released{})
	}
}

// fail emits the end, and then withdraws our node. So the holder stops before the next contender
// can get the grant, if the holder hears of the reason in time. The end that follows emits nothing,
// because a handle emits one last event. The reason is that of the first failure.
func (m *turn) fail(err error) {
	last := m.over(err)
	m.depart()
	m.finalEmitted = true
	m.emit(last)
}

// over is the last event of a contender that has not left.
func (m *turn) over(err error) Event {
	switch {
	case m.Holding():
		return Lost{err}
	case !m.isNew():
		return NotGranted{fmt.Errorf("place in line lost: %w", err)}
	}
	return NotGranted{fmt.Errorf("cannot join: %w", err)}
}

// depart withdraws every node that may stand for us: one node if no other can be ours, otherwise
// all with our GUID. A claim that may have been made is withdrawn with the node. If no node stands,
// the machine has ended. A machine that leaves in the background, or when the session has lapsed,
// has ended too, and the session completes the withdrawal.
func (m *turn) depart() {
	m.unwatch()
	claims := m.rule.Traits().Claims && (m.state == claiming || m.Holding())
	switch {
	case m.state == clearing: // it is being withdrawn
	case m.maybeDuplicate, m.state == joining, m.state == recovering, m.to != "", claims && m.node == "":
		m.do(WithdrawAll{m.attempt, m.guid()})
		m.node = ""
	case m.node != "":
		m.do(WithdrawNode{m.attempt, m.node})
	default:
		m.state = ended
		return
	}
	if m.to != "" {
		m.do(Answer{m.attempt, m.reply, ErrNotHeld})
	}
	m.state, m.listing, m.change = leaving, false, change{}
	if m.inBackground || m.lapsed {
		m.state = ended
	}
}

// end enters the last state, and emits the last event unless it was emitted before.
func (m *turn) end(last Event) {
	m.state = ended
	if !m.finalEmitted {
		m.finalEmitted = true
		m.emit(last)
	}
}

// cut ends with the session. A contender that was leaving has been released: the server deletes its
// node either way.
func (m *turn) cut(err error) {
	last := m.over(err)
	if m.state == leaving {
		last = Released{}
	}
	m.end(last)
}
