package election

import (
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// This file is a candidate as a pure function. Its place in line is a machine of package line;
// after its end another follows, because a candidate that is deposed or resigns stands again. This
// machine adds the view of the leader, the commands for a leader, and the function that works
// during a term.
//
//	            stands in line ◄───────────────────────────────────┐
//	                  │ the place is held: Elected                 │
//	                  ▼                                            │ the place has ended:
//	               leads ── lost, resigned, transferred ►          │ it stands again
//	                  │                Deposed                     │
//	                  │                   ▼                        │
//	                  │        its function may still work ────────┤
//	                  │                   │ returned, or none      │
//	                  │                   ▼                        │
//	                  │        the place is given up ──────────────┘
//	                  │          or handed over (transfer.go)
//	                  ▼ closed, in any state
//	               closing ── the place has ended, and the function: Left ► ended

// A machine is a candidate. It is comparable.
type machine struct {
	// Its place in line, which holds while we lead, and after that until our function has returned.
	place line.Machine
	stood string // the node of the newest Standing; "" before

	// Its knowledge of the leader.
	view     view
	data     string      // of our node; constant
	observes observation // when it follows the leader; constant

	// The epoch whose sightings count: the newest in which we stood; 0 before.
	follow int

	// Set when the leader's node is followed in that epoch; cleared by the next epoch, and by
	// unfollow.
	following bool

	// Set to the time of a sighting that named us as the successor, when we have acted on it; 0 in
	// a new epoch.
	heard int64

	heir heir // while we are directly behind the leader

	// Our own term.
	tenure            // set by elect, cleared by depose
	acknowledged bool // set when that is written in this term; cleared by the next
	deferred     bool // set by an acknowledgement that waits for our record; cleared by the record, and with the term
	suspended    bool // set by Suspended, cleared by Resumed and with the term

	// Commands for a leader.
	handing handing // zero while no transfer is under way

	// Set by a resignation that waits until the place is given up; answered and cleared then.
	resigns actors.Reply[error]

	// stands is set when a place was given up, if a server refuses to delete its node: then no
	// candidate leads.
	stands error

	// The function of Lead.
	// Set when a call of Lead waits for a term; cleared when it has one.
	wanted bool

	lead actors.Reply[termOrError] // of the call that waits, or works
	work work                      // zero while no function works

	// The end.
	closing bool  // set when the candidate leaves; never cleared
	err     error // the reason; set with closing; nil after Close
	ended   bool  // set with Left; then all inputs are ignored
}

// An observation says when a candidate follows the leader. Every candidate does, unless its options
// say otherwise. A leader must, because an operator may delete its record. A candidate that hands
// over must, to learn that the successor leads.
type observation int8

const (
	always  observation = iota
	leading             // only while it leads, or hands over
	never               // in layouts without a leader's node and transfers
)

// A work is the function of Lead at work. It lasts until the function returns, also beyond the
// term.
type work struct {
	term    int64       // set when the function begins, cleared when it has returned
	overdue bool        // set by Overrun, which is emitted once for each call
	then    line.Effect // set to the effect that waits for its return; nil if none
}

// Ended implements [actors.Machine]. A machine that has ended has emitted Left. Its function has
// returned, unless it was overdue.
func (m machine) Ended() bool { return m.ended }

// leading returns our term, while work that needs the leadership may begin: not while the
// connection is lost, although no other candidate leads then.
func (m machine) leading() (term int64, yes bool) {
	return m.term, m.term != 0 && !m.suspended
}

// A turn is a machine during a step, with the accumulator of its effects.
type turn struct {
	machine
	out *effects
}

func (t *turn) do(e ...effect)   { t.out.Do = append(t.out.Do, e...) }
func (t *turn) emit(ev ...Event) { t.out.Emit = append(t.out.Emit, ev...) }

// Step implements [actors.Machine]. Inputs that mean nothing any more are ignored. After the input,
// settle draws the consequences of the new state, once.
func (m machine) Step(in input, out *effects) machine {
	if m.ended {
		return m
	}
	t := turn{machine: m, out: out}
	switch in := in.(type) {
	case placed:
		t.advance(in.Input)
	case sighted: // a sighting of another epoch may be older than ours
		if in.epoch == t.follow {
			t.see(in.sighting)
		}
	// a candidate that cannot see the leader could not become its successor
	case blinded:
		if in.epoch == t.follow && !client.Over(in.err) {
			t.end(in.err)
		}
	case heeded:
		if in.of == t.heir.heed {
			t.heeded(in)
		}
	case disturbed:
		if in.of == t.heir.heed {
			t.disturbed(in.deleted)
		}
	case prepared:
		if in.of == t.heir.asked {
			t.prepared(in)
		}
	case touched: // if the leader is followed, a sighting is on its way
		if in.epoch == t.follow && !t.following {
			t.do(glance(in))
		}
	case overlooked: // if there is no record, no leader hands over to us
		if !t.following && in.of.epoch == t.follow && session.Passing(in.err) && !client.Over(in.err) {
			t.do(in.of)
		}
	case leave: // the second leave changes nothing
		t.end(nil)
	case resign:
		t.resign(in)
	case acknowledge:
		t.acknowledge(in)
	case noted: // of any term
		t.noted(in)
	case transfer:
		t.transfer(in)
	case sought:
		t.sought(in)
	case handed:
		t.handed(in)
	case refused: // the successor has left, or crashed
		if t.hands(in.of.tenure, offered) {
			t.fallBack(ErrNoCandidate)
		}
	case lapsed: // the successor does not follow the leader
		if t.hands(in.of.tenure, offered) {
			t.fallBack(ErrNotTaken)
		}
	case lead: // a call of Lead
		t.wait(in.reply)
	case returned: // or its call has given up before
		if in.of == t.lead {
			t.returned()
		}
	case overdue: // for this function, and once
		if in.term == t.work.term && !t.work.overdue {
			t.work.overdue = true
			t.emit(Overrun{in.term})
		}
	case heard: // for observers; a candidate's place has its own
	}
	t.settle()
	return t.machine
}

// advance hands an input to the place in line, and handles its events. If there is no place before
// it is held, or our claim is refused for good, there is no place for us, and the candidate leaves.
// While our function works, the place is not given up: work.then keeps that effect.
func (t *turn) advance(in line.Input) {
	refused := false
	if _, failed := in.(line.Failed); failed {
		refused = t.place.Claimed() == 0
	}
	var did line.Effects
	if lapses(in) && t.work.then != nil {
		t.do(inPlace{t.work.then})
		t.work.then = nil
	}
	t.place = t.place.Step(in, &did)
	// Each time the candidate stands by another node, and emits that once, before it is elected.
	if node := t.place.Node(); t.place.Standing() && node != t.stood {
		t.stood = node
		t.emit(Standing{znode.Join(t.view.dir, node)})
	}
	for _, ev := range did.Emit {
		switch ev := ev.(type) {
		case line.Acquired:
			t.elect(ev)
		case line.Suspended:
			if t.term != 0 {
				t.suspended = true
				t.emit(Suspended(ev))
			}
		case line.Resumed:
			if t.suspended {
				t.suspended = false
				t.emit(Resumed{})
			}
		case line.Lost:
			if t.depose(ev.Err); refused && !errors.Is(ev.Err, line.ErrNodeDeleted) { // there is no place for us
				t.end(ev.Err)
			}
		case line.NotGranted:
			t.end(ev.Err)
		case line.Released:
			t.stands = ev.Err
		case line.Waiting, line.Revoked, line.ConditionChanged:
		}
	}
	// While the function of a leader works, its node keeps others from being elected.
	for _, e := range did.Do {
		if t.work.term != 0 && line.Withdraws(e) && t.place.Leaving() {
			t.work.then = e
			continue
		}
		t.do(inPlace{e})
	}
	if line.Closes(in) {
		t.end(session.ErrClosed)
	}
}

// lapses reports whether the session has lapsed. Then the servers may have another candidate
// elected at any time, and a node that its function keeps is given up when there is a connection.
func lapses(in line.Input) bool {
	h, _ := in.(line.Heard)
	_, is := h.Event.(session.Lapsed)
	return is
}

// settle draws the consequences of the new state, in this order. It gives up the place of a closing
// candidate whose function takes too long. It handles the end of the place. It lets the
// acknowledgements proceed that wait for our record. It continues a transfer when the function has
// returned. It takes over a leadership that is handed over to us. It follows
// the leader, or stops. It lets a function begin to work.
func (t *turn) settle() {
	if t.work.then != nil && t.closing && t.work.overdue {
		t.do(inPlace{t.work.then}) // a closed candidate does not wait longer
		t.work.then = nil
	}
	// After its end another place begins, which may lead at once.
	if t.place.Ended() {
		t.givenUp()
	}
	if t.deferred && (t.term == 0 || t.place.Claimed() != 0) {
		t.deferred = false
		t.do(proceed{})
	}
	if t.ended {
		return
	}
	// Our node stands, so no other candidate leads, and the successor's name may be written into
	// the record.
	if t.work.term == 0 && t.handing.to != "" && t.handing.phase == ceasing && t.place.Holding() && t.place.Claimed() != 0 {
		t.handing.phase = offered
		t.do(hand{t.handing.tenure, t.handing.to, t.handing.data, t.acknowledged})
	}
	// The leadership is handed over to us. We act on a sighting only once: if another candidate was
	// faster, a newer sighting shows it.
	if t.view.Successor != "" && t.view.Successor == t.place.Node() && t.place.Waiting() && t.heard != t.view.at {
		t.heard = t.view.at
		t.advance(line.Promote{})
	}
	t.observe()
	t.inherit()
	// A function begins only while there is a connection, and works on when it is lost.
	if _, yes := t.leading(); yes && t.wanted {
		t.wanted, t.work = false, work{term: t.term}
		t.do(engage{t.lead, termOrError{term: t.term}})
	}
}

// observe begins or ends to follow the leader. A new epoch begins without a subscription: that of
// the last epoch has ended with it.
func (t *turn) observe() {
	epoch := t.place.Epoch()
	if epoch != 0 && epoch != t.follow {
		t.follow, t.following = epoch, false
		t.view, t.heard = t.view.anew(), 0
	}
	wanted := t.observes == always || t.observes == leading && (t.term != 0 || t.handing.to != "")
	switch {
	case wanted && !t.following && epoch != 0:
		t.following = true
		t.do(follow{epoch})
	case t.following && !wanted:
		t.following = false
		t.do(unfollow{})
	}
}

// givenUp handles the end of the place in line. Unless the candidate is closing, it stands again at
// the end of the line, at once. A closing candidate leaves when its function has returned, or takes
// too long.
func (t *turn) givenUp() {
	t.work.then = nil // its session has ended, or it was performed
	if t.resigns != (actors.Reply[error]{}) {
		t.do(answer{reply: t.resigns, err: t.stands})
		t.resigns = actors.Reply[error]{}
	}
	if t.handing.to != "" {
		t.handing.phase = settled
	}
	switch {
	case !t.closing:
		var did line.Effects
		t.place = t.place.Again(&did)
		for _, e := range did.Do {
			t.do(inPlace{e})
		}
	case t.work.term == 0 || t.work.overdue:
		t.ended, t.view = true, view{dir: t.view.dir} // it does not learn of later leaders
		t.emit(Left{client.Both(t.err, t.stands)})
	}
}

// elect begins a term. Its number is the zxid of our claim. We enter ourselves as the leader before
// the leader's node is read.
func (t *turn) elect(ev line.Acquired) {
	t.tenure = tenure{t.place.Epoch(), ev.Token, ev.Node}
	t.acknowledged = false
	t.see(sighting{at: max(ev.Token, t.view.at), term: ev.Token, record: record{Node: ev.Node, Data: t.data}})
	t.emit(Elected{ev.Token})
}

// depose ends our term, if there is one. Deposed is emitted before any other candidate is elected,
// because the place is given up later. The grace period of the function begins. A transfer fails if
// it is still seeking its successor; otherwise it goes on.
func (t *turn) depose(why error) {
	if t.term == 0 {
		return
	}
	t.emit(Deposed{fmt.Errorf("%w: %w", ErrDeposed, why)})
	t.viewed(t.view.depose(t.tenure))
	// The context of the function ends with the term. Overrun reports it if it works for too long.
	if t.work.term == t.term {
		t.do(bear{t.term})
	}
	if t.handing.to != "" && t.handing.phase == seeking {
		t.do(answer{t.handing.reply, ErrNotLeading})
		t.handing = handing{}
	}
	t.tenure, t.suspended = tenure{}, false
}

// see enters a sighting of the leader. If it shows a newer term than ours, or no leader since, our
// term is over: another client has deleted our record. A term after the one that we hand over is
// the end of the transfer.
func (t *turn) see(s sighting) {
	since := t.place.Claimed()
	if t.term != 0 && since == 0 && s.term == 0 { // our record is yet to be written
		return
	}
	if t.term != 0 && (s.term > t.term || s.term == 0 && s.at > since) {
		t.depose(ErrNodeDeleted)
		t.advance(line.Leave{})
	}
	if t.handing.to != "" && t.place.Holding() && s.term == 0 && since != 0 && s.at > since {
		t.fallBack(ErrNotTaken) // without the record no candidate can take over
	}
	t.viewed(t.view.see(s))
	// The transfer has ended: the successor leads, or another candidate was elected.
	if h := t.handing; h.to != "" && h.phase >= ceasing && t.view.newest != h.term {
		var err error
		if t.view.Node != h.to || t.view.term == 0 {
			err = ErrNotTaken
		}
		if h.reply != (actors.Reply[error]{}) {
			t.do(answer{h.reply, err})
			t.handing.reply = actors.Reply[error]{}
		}
		if h.phase == settled {
			t.handing = handing{}
		}
	}
}

// viewed keeps the view, and emits it if it is news.
func (t *turn) viewed(v view, news bool) {
	t.view = v
	if news {
		t.emit(v.event())
	}
}

// end makes the candidate leave. The first reason counts. The place is given up as by a
// resignation; Left is emitted when that is confirmed.
func (t *turn) end(why error) {
	if t.closing {
		return
	}
	t.closing, t.err = true, why
	if why == nil {
		why = ErrResigned
	}
	t.depose(why)
	// A call of Lead that waits for a term receives ErrLeft, and why.
	if t.wanted {
		t.wanted = false
		t.do(engage{t.lead, termOrError{err: t.left()}})
	}
	if !t.place.Ended() {
		t.advance(line.Leave{})
	}
}

// left is [ErrLeft], with the reason if the candidate was not closed.
func (t *turn) left() error {
	if t.err != nil {
		return fmt.Errorf("%w: %w", ErrLeft, t.err)
	}
	return ErrLeft
}

// resign gives up the leadership. The reply comes when the place is given up, or at once if it is
// prompt. A resignation of an earlier term is refused, because that term is over.
func (t *turn) resign(in resign) {
	if t.term == 0 || in.term != 0 && in.term != t.term {
		t.do(answer{in.reply, ErrNotLeading})
		return
	}
	// The caller of a function that was called off does not wait for the end of the place.
	if in.prompt {
		t.do(answer{reply: in.reply})
	} else {
		t.resigns = in.reply
	}
	t.depose(ErrResigned)
	t.advance(line.Leave{})
}

// acknowledge writes the acknowledgement into the record. A second one writes nothing. An heir's
// waits until there is a record.
func (t *turn) acknowledge(in acknowledge) {
	switch {
	case t.term == 0:
		t.do(answer{in.reply, ErrNotLeading})
	case t.acknowledged:
		t.do(answer{in.reply, nil})
	case t.place.Claimed() == 0:
		t.deferred = true
		t.do(postpone{in})
	default:
		t.do(note{t.tenure, in.reply})
	}
}

// noted handles the answer to the write. In doubt the write is repeated, which does no harm, while
// we lead in the same term. If our node or the record is gone, we no longer lead.
func (t *turn) noted(in noted) {
	err, ours := in.err, t.term != 0 && t.tenure == in.of.tenure
	switch {
	case err == nil:
		if ours {
			t.acknowledged = true
			t.see(sighting{at: in.zxid, term: in.of.term, record: record{Node: in.of.node, Data: t.data, Acknowledged: true}})
		}
	case !ours, client.Over(err), errors.Is(err, session.ErrNoNode):
		err = ErrNotLeading
	case session.Passing(err): // a repetition does no harm
		t.do(in.of)
		return
	}
	t.do(answer{in.of.reply, err})
}

// wait enters a call of Lead. Only one function at a time works, or waits for a term.
func (t *turn) wait(reply actors.Reply[termOrError]) {
	switch {
	case t.closing:
		t.do(engage{reply, termOrError{err: t.left()}})
	case t.wanted || t.work.term != 0:
		t.do(engage{reply, termOrError{err: ErrBusy}})
	default:
		t.wanted, t.lead = true, reply
	}
}

// returned performs the effect that had to wait for the return of the function. A call that was
// waiting for a term no longer waits.
func (t *turn) returned() {
	if t.work.then != nil {
		t.do(inPlace{t.work.then})
	}
	t.wanted, t.work = false, work{}
}
