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

// This file is a candidate as a pure function. Its place in line is a machine of its
// own: one after the other, because a candidate that is deposed or resigns stands
// again. This machine adds the view of the leader, the requests to a leader, and the
// function that works during a term.
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
	// Its place in line, which holds while we lead, and for as long afterwards as our function works.
	place line.Machine
	stood string // the node as which Standing was told last; "" before

	// What it knows of the leader.
	view      view
	data      string      // of our node; constant
	observes  observation // when the leader is followed; constant
	follow    int         // the epoch whose sightings count: the last in which we stood; 0 at first
	following bool        // set when the leader's node is followed in that epoch; cleared with the epoch or by unfollow
	heard     int64       // set to the sighting of a leader that hands over to us, upon which we have acted; it named our node

	// Our own term.
	tenure            // set by elect, cleared by depose; zero while we do not lead
	acknowledged bool // set when that is written down in this term; cleared by the next
	suspended    bool // set by Suspended, cleared by Resumed and with the term

	// What is asked of a leader.
	handing handing             // zero while no transfer is under way
	resigns actors.Reply[error] // set by a resignation that waits until the place is given up; answered then

	// The function of Lead.
	wanted bool                      // set when a call waits for a term to lead in; cleared when it has one
	lead   actors.Reply[termOrError] // of the call that waits, or whose function works
	work   work                      // zero while no function works

	// The end.
	closing bool  // set when the place is given up for good; never cleared
	err     error // why; set with closing, nil if that was asked for
	ended   bool  // set when Left is told; then nothing happens any more
}

// An observation says when a candidate follows who leads. Every candidate follows, unless
// its options say otherwise; a leader has to, because its record may be overwritten, and so
// has a candidate that hands over, to hear that it is done.
type observation int8

const (
	always  observation = iota
	leading             // only while it leads, or hands over
	never               // in layouts without a leader's node, where nothing is handed over
)

// A work is the function that leads. It goes on until it returns, whatever becomes of
// the term.
type work struct {
	term    int64       // set when it begins, cleared when it has returned; 0 if there is none
	overdue bool        // set when it has been told that it takes too long, which is told once
	then    line.Effect // set to the effect that waits until it has returned; nil if nothing
}

// Ended implements [actors.Machine]. A machine that has ended has emitted Left. Its
// function has returned, unless it takes too long.
func (m machine) Ended() bool { return m.ended }

// leading returns our term, while there may be work that needs leadership: not while
// the connection is lost, though no other candidate leads then.
func (m machine) leading() (term int64, yes bool) {
	return m.term, m.term != 0 && !m.suspended
}

// A turn is a step under way: the machine as it is by now, and what the step has asked for
// so far. Its effects are performed, and its events delivered, in the order in which they
// were asked for.
type turn struct {
	machine
	out *effects
}

func (t *turn) do(e ...effect)   { t.out.Do = append(t.out.Do, e...) }
func (t *turn) emit(ev ...Event) { t.out.Emit = append(t.out.Emit, ev...) }

// Step implements [actors.Machine]. Inputs that mean nothing any more are ignored.
// What follows from the state that an input has led to is done once, at the end, by
// settle.
func (m machine) Step(in input, out *effects) machine {
	if m.ended {
		return m
	}
	t := turn{machine: m, out: out}
	switch in := in.(type) {
	case placed:
		t.advance(in.Input)
	case sighted: // of another epoch it may be older than what we know
		if in.epoch == t.follow {
			t.see(in.sighting)
		}
	case blinded: // a candidate that cannot see the leader could not be handed over to
		if in.epoch == t.follow && !client.Over(in.err) {
			t.end(in.err)
		}
	case touched: // if the leader is followed, its record is on its way
		if in.epoch == t.follow && !t.following {
			t.do(glance(in))
		}
	case overlooked: // if there is no record, no leader hands over to us
		if !t.following && in.of.epoch == t.follow && session.Passing(in.err) {
			t.do(in.of)
		}
	case leave: // to leave twice is to leave once
		t.end(nil)
	case resign:
		t.resign(in)
	case acknowledge:
		t.acknowledge(in.reply)
	case noted: // in whatever term it was written
		t.noted(in)
	case restored: // a write that was lost is repeated, and so is one that an acknowledgement came after
		if ours := t.term != 0 && t.tenure == in.of.tenure; ours && !client.Over(in.err) && (session.Passing(in.err) || t.acknowledged && !in.of.acknowledged) {
			t.do(restore{t.tenure, t.acknowledged})
		}
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
	case lead: // a call of Lead
		t.wait(in.reply)
	case returned: // or it was given up before it began
		if in.of == t.lead {
			t.returned()
		}
	case overdue: // of this function, and once
		if in.term == t.work.term && !t.work.overdue {
			t.work.overdue = true
			t.emit(Overrun{in.term})
		}
	case heard: // it is told with its place
	}
	t.settle()
	return t.machine
}

// advance hands an input to the place in line, and follows what that tells. The loss
// of the place before it was held means that there is no place for us: then the
// candidate leaves. While our function works, the place is not given up: then keeps
// the effect.
func (t *turn) advance(in line.Input) {
	held := t.place.Holding()
	var did line.Effects
	t.place = t.place.Step(in, &did)
	// It stands by another node each time, and is told so once, before it is elected.
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
			if t.depose(ev.Err); !held { // there is no place for us
				t.end(ev.Err)
			}
		case line.Waiting, line.Revoked, line.Released:
		}
	}
	// The node of a leader keeps others from being elected while its function works.
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

// settle does what follows from the state that a step has led to, in this order: the
// place is given up that a function has kept for too long; the end of the place is
// followed; a transfer goes on when the function has returned; a leadership is taken
// that is handed over to us; the leader is followed, or no more; and a function begins
// to work.
func (t *turn) settle() {
	if t.work.then != nil && t.closing && t.work.overdue {
		t.do(inPlace{t.work.then}) // a candidate that is closed does not wait for longer
		t.work.then = nil
	}
	// The end of the place may begin another, which may lead at once.
	if t.place.Ended() {
		t.givenUp()
	}
	if t.ended {
		return
	}
	// Our node stands, so no other candidate leads: so the successor's name may be written into the record.
	if t.work.term == 0 && t.handing.to != "" && t.handing.phase == ceasing && t.place.Holding() {
		t.handing.phase = offered
		t.do(hand{t.handing.tenure, t.handing.to, t.handing.data, t.acknowledged})
	}
	// It is handed over to us. One sighting is acted upon once: if another was faster, a newer one says so.
	if t.view.Successor != "" && t.view.Successor == t.place.Node() && t.place.Waiting() && t.heard != t.view.at {
		t.heard = t.view.at
		t.advance(line.Take{})
	}
	t.observe()
	// A function begins only while the connection is there, and works on when it is lost.
	if _, yes := t.leading(); yes && t.wanted {
		t.wanted, t.work = false, work{term: t.term}
		t.do(engage{t.lead, termOrError{term: t.term}})
	}
}

// observe has the leader followed when it is to be. A new epoch begins without: what
// was followed in the last has ended with it.
func (t *turn) observe() {
	epoch := t.place.Epoch()
	if epoch != 0 && epoch != t.follow {
		t.follow, t.following = epoch, false
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

// givenUp follows the end of the place in line. Unless the candidate is closing, it
// stands again at the end of the line, at once. A closing candidate leaves when its
// function has returned, or takes too long.
func (t *turn) givenUp() {
	t.work.then = nil // its session has ended, or it is done
	if t.resigns != (actors.Reply[error]{}) {
		t.do(answer{reply: t.resigns})
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
		t.ended = true
		t.emit(Left{t.err})
	}
}

// elect begins a term. Its number is the zxid of our claim. We know who leads before
// the leader's node tells.
func (t *turn) elect(ev line.Acquired) {
	t.tenure = tenure{t.place.Epoch(), ev.Token, ev.Node}
	t.acknowledged = false
	t.see(sighting{at: ev.Token, term: ev.Token, record: record{Node: ev.Node, Data: t.data}})
	t.emit(Elected{ev.Token})
}

// depose ends our term, if there is one. The event comes first: no other candidate is
// elected before it, because the place is given up later. The function has its time
// from now on. A transfer for which a candidate is still sought fails; one that has
// gone further goes on.
func (t *turn) depose(why error) {
	if t.term == 0 {
		return
	}
	t.emit(Deposed{fmt.Errorf("%w: %w", ErrDeposed, why)})
	t.viewed(t.view.depose(t.term))
	// Its context ends with the term. It is reported if it goes on for too long.
	if t.work.term == t.term {
		t.do(bear{t.term})
	}
	if t.handing.to != "" && t.handing.phase == seeking {
		t.do(answer{t.handing.reply, ErrNotLeading})
		t.handing = handing{}
	}
	t.tenure, t.suspended = tenure{}, false
}

// see enters a sighting of the leader. A newer term than ours says that ours is over:
// another client has deleted our nodes. A record of our own term that names another
// candidate was overwritten, and is written again. A term behind the one that we hand
// over is the end of the transfer.
func (t *turn) see(s sighting) {
	if s.term != 0 && s.term == t.term && s.Node != "" && s.Node != t.node {
		// An operator has deleted the node of a former leader, which has acknowledged into ours.
		t.do(restore{t.tenure, t.acknowledged})
		return
	}
	if s.term > t.term { // an operator has made room for it, and our place will be told of that
		t.depose(ErrNodeDeleted)
	}
	t.viewed(t.view.see(s))
	// The transfer has come to an end: the successor leads, or another candidate was elected.
	if h := t.handing; h.to != "" && h.phase >= ceasing && t.view.newest > h.term {
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

// viewed keeps the view, and tells it if it is news.
func (t *turn) viewed(v view, news bool) {
	t.view = v
	if news {
		t.emit(v.event())
	}
}

// end gives everything up. The first reason counts. The place is given up like that of
// a leader that resigns; Left is told when that is confirmed.
func (t *turn) end(why error) {
	if t.closing {
		return
	}
	t.closing, t.err = true, why
	if why == nil {
		why = ErrResigned
	}
	t.depose(why)
	// A call of Lead that waits for a term learns that there will be none.
	if t.wanted {
		t.wanted = false
		t.do(engage{t.lead, termOrError{err: ErrLeft}})
	}
	if !t.place.Ended() {
		t.advance(line.Leave{})
	}
}

// resign gives up the leadership. The reply comes when the place is given up, unless
// it is to be prompt. An old term is not resigned: the caller means one that is over.
func (t *turn) resign(in resign) {
	if t.term == 0 || in.term != 0 && in.term != t.term {
		t.do(answer{in.reply, ErrNotLeading})
		return
	}
	// A function that was called off waits for nothing: its caller is not to wait for the place.
	if in.prompt {
		t.do(answer{reply: in.reply})
	} else {
		t.resigns = in.reply
	}
	t.depose(ErrResigned)
	t.advance(line.Leave{})
}

// acknowledge has it written down that the leader has done its procedure. To
// acknowledge twice is to acknowledge once.
func (t *turn) acknowledge(reply actors.Reply[error]) {
	switch {
	case t.term == 0:
		t.do(answer{reply, ErrNotLeading})
	case t.acknowledged:
		t.do(answer{reply, nil})
	default:
		t.do(note{t.tenure, reply})
	}
}

// noted follows the write. In doubt it is done again, which does no harm, while we
// lead in the same term. When our node or the record is gone we lead no more.
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
	case session.Passing(err): // to do it twice does no harm
		t.do(in.of)
		return
	}
	t.do(answer{in.of.reply, err})
}

// wait enters a call that waits to lead. Only one function works at a time, or waits
// for that.
func (t *turn) wait(reply actors.Reply[termOrError]) {
	switch {
	case t.closing:
		t.do(engage{reply, termOrError{err: ErrLeft}})
	case t.wanted || t.work.term != 0:
		t.do(engage{reply, termOrError{err: ErrBusy}})
	default:
		t.wanted, t.lead = true, reply
	}
}

// returned does what had to wait for the function that led. One that was waiting does
// not want to any more.
func (t *turn) returned() {
	if t.work.then != nil {
		t.do(inPlace{t.work.then})
	}
	t.wanted, t.work = false, work{}
}
