package election

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// This file is a candidate as a pure function. Its place in line is a machine of its own:
// one after the other, because who is deposed or resigns stands again. This one adds who
// leads, what a leader is asked to do, and the function that works while it does.

// An input is something that happened.
//
//sumtype:decl
type input interface{ input() }

type (
	// placed is for the place in line.
	placed struct{ line.Input }
	// sighted tells what was read of the leader, in the epoch.
	sighted struct {
		epoch int
		sighting
	}
	// blinded tells that it cannot be read any more.
	blinded struct {
		epoch int
		err   error
	}

	// touched tells that our node was written to: who hands over to us does so.
	touched struct{ epoch int }
	// overlooked answers glance, if there was nothing to see.
	overlooked struct {
		of  glance
		err error
	}

	// heard tells an observer what became of the session.
	heard struct{ session.Event }

	// leave is the command to end.
	leave struct{}
	// resign is the command to give up the leadership of the term; 0 for any.
	resign struct {
		term   int64
		prompt bool // the reply does not wait until the place is given up
		reply  actors.Reply[error]
	}
	// acknowledge is the command to write down that the leader has done its procedure.
	acknowledge struct{ reply actors.Reply[error] }
	// transfer is the command to hand over to another candidate.
	transfer struct {
		node  string
		reply actors.Reply[error]
	}
	// lead is the command to say when there is a term to lead in.
	lead struct{ reply actors.Reply[termOrError] }
	// returned tells that the function that led has returned, or does not want to any more,
	// on whose behalf lead was told.
	returned struct{ of actors.Reply[termOrError] }

	noted struct { // answers note
		of   note
		zxid int64
		err  error
	}
	restored struct { // answers restore
		of  restore
		err error
	}
	sought struct { // answers seek
		of     seek
		exists bool
		data   string // of its node
		err    error
	}
	handed struct { // answers hand
		of     hand
		err    error
		nobody bool // there is no such candidate
		gone   bool // our own node is gone: whatever happened to it is told otherwise
	}
	refused struct{ of expect } // answers expect: the successor's node is gone, or cannot be watched
	overdue struct{ term int64 }
)

func (placed) input()      {}
func (sighted) input()     {}
func (blinded) input()     {}
func (touched) input()     {}
func (overlooked) input()  {}
func (heard) input()       {}
func (leave) input()       {}
func (resign) input()      {}
func (acknowledge) input() {}
func (transfer) input()    {}
func (lead) input()        {}
func (returned) input()    {}
func (noted) input()       {}
func (restored) input()    {}
func (sought) input()      {}
func (handed) input()      {}
func (refused) input()     {}
func (overdue) input()     {}

type termOrError struct {
	term int64
	err  error
}

// An effect is something to do about it. Those that name an epoch must not be done in
// another.
//
//sumtype:decl
type effect interface{ effect() }

type (
	// inPlace is what the place in line asks for.
	inPlace struct{ line.Effect }
	// follow has us told of the leader.
	follow struct{ epoch int }
	// unfollow ends that.
	unfollow struct{}
	// glance reads the leader's node once.
	glance struct{ epoch int }
	// note writes down that the leader has acknowledged.
	note struct {
		tenure
		reply actors.Reply[error]
	}
	// restore writes down who leads, where somebody else has written that he does.
	restore struct {
		tenure
		acknowledged bool
	}
	// seek asks whether there is a candidate.
	seek struct {
		tenure
		to string
	}
	// hand writes down who is to lead next, if there is such a candidate.
	hand struct {
		tenure
		to           string
		toData       string // what the node of that carries
		acknowledged bool
	}
	// expect has us told when the successor's node is gone.
	expect struct {
		tenure
		to string
	}
	// bear lets the function of a term go on for a while.
	bear struct{ term int64 }
	// answer replies to a command.
	answer struct {
		reply actors.Reply[error]
		err   error
	}
	// engage tells the function of Lead the term.
	engage struct {
		reply actors.Reply[termOrError]
		termOrError
	}
)

func (inPlace) effect()  {}
func (follow) effect()   {}
func (unfollow) effect() {}
func (glance) effect()   {}
func (note) effect()     {}
func (restore) effect()  {}
func (seek) effect()     {}
func (hand) effect()     {}
func (expect) effect()   {}
func (bear) effect()     {}
func (answer) effect()   {}
func (engage) effect()   {}

type effects = actors.Effects[effect, Event]

// A tenure is one term of our own.
type tenure struct {
	epoch int
	term  int64
	node  string // of the candidate
}

// A machine is a candidate. It is comparable.
type machine struct {
	place  line.Machine
	view   view
	data   string // of our node
	follow int    // the epoch whose sightings count: the last in which we stood; 0 at first

	observes  observation // is constant
	following bool        // set when the leader's node is followed in that epoch, cleared with the epoch or by unfollow

	stood string // the node as which Standing was told last
	heard int64  // the sighting of a leader that hands over to us, upon which we have acted; it named our node

	tenure       // zero while we do not lead
	acknowledged bool
	suspended    bool

	handing handing
	resigns actors.Reply[error] // who waits until the place is given up

	wanted bool                      // somebody waits for a term to lead in
	lead   actors.Reply[termOrError] // whose, or whose function works
	work   work

	closing bool  // the place is given up for good
	err     error // why
	ended   bool
}

// An observation says when a candidate follows who leads.
type observation int8

const (
	always  observation = iota
	leading             // only while it leads, or hands over
	never
)

// A handing is a transfer under way.
type handing struct {
	tenure
	to    string // "" if there is none
	data  string // of the node of that; set when it was found
	phase phase
	reply actors.Reply[error]
}

type phase int8

const (
	seeking phase = iota // is there such a candidate
	ceasing              // we lead no more; our function may still be running
	offered              // the successor is to take over
	settled              // it, or another, does
)

// A work is the function that leads.
type work struct {
	term    int64       // 0 if there is none
	overdue bool        // it has been told that it takes too long
	then    line.Effect // what has to wait until it has returned; nil if nothing
}

func (m machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v leader=%s/%d", m.place, m.view.leading().node, m.view.leading().term)
	for _, f := range []struct {
		set  bool
		text string
	}{
		{m.term != 0, fmt.Sprintf("leading=%d", m.term)},
		{m.acknowledged, "acknowledged"},
		{m.suspended, "suspended"},
		{m.handing.to != "", fmt.Sprintf("to=%s/%d", m.handing.to, m.handing.phase)},
		{m.wanted, "wanted"},
		{m.work.term != 0, fmt.Sprintf("work=%d", m.work.term)},
		{m.work.overdue, "overdue"},
		{m.work.then != nil, "then"},
		{m.closing, "closing"},
		{m.ended, "ended"},
	} {
		if f.set {
			b.WriteString(" " + f.text)
		}
	}
	return b.String()
}

// Ended implements [actors.Machine].
func (m machine) Ended() bool { return m.ended }

// leading returns our term, while there may be work that needs leadership.
func (m machine) leading() (term int64, yes bool) {
	return m.term, m.term != 0 && !m.suspended
}

// A turn is a step under way.
type turn struct {
	machine
	out *effects
}

func (t *turn) do(e ...effect)   { t.out.Do = append(t.out.Do, e...) }
func (t *turn) emit(ev ...Event) { t.out.Emit = append(t.out.Emit, ev...) }

// Step implements [actors.Machine]. Inputs that mean nothing any more are ignored.
func (m machine) Step(in input, out *effects) machine {
	if m.ended {
		return m
	}
	t := turn{machine: m, out: out}
	switch in := in.(type) {
	case placed:
		t.advance(in.Input)
	case sighted:
		if in.epoch == t.follow {
			t.see(in.sighting)
		}
	case blinded:
		if in.epoch == t.follow && !session.Over(in.err) {
			t.end(in.err)
		}
	case touched:
		if in.epoch == t.follow && !t.following {
			t.do(glance(in))
		}
	case overlooked:
		if in.of.epoch == t.follow && session.Passing(in.err) {
			t.do(in.of)
		}
	case leave:
		t.end(nil)
	case resign:
		t.resign(in)
	case acknowledge:
		t.acknowledge(in.reply)
	case noted:
		t.noted(in)
	case restored:
		if ours := t.term != 0 && t.tenure == in.of.tenure; ours && !session.Over(in.err) && (session.Passing(in.err) || t.acknowledged && !in.of.acknowledged) {
			t.do(restore{t.tenure, t.acknowledged})
		}
	case transfer:
		t.transfer(in)
	case sought:
		t.sought(in)
	case handed:
		t.handed(in)
	case refused:
		if t.hands(in.of.tenure, offered) {
			t.fallBack(ErrNoCandidate)
		}
	case lead:
		t.wait(in.reply)
	case returned:
		if in.of == t.lead {
			t.returned()
		}
	case overdue:
		if in.term == t.work.term && !t.work.overdue {
			t.work.overdue = true
			t.emit(Overrun{in.term})
		}
	case heard: // it is told with its place
	}
	t.settle()
	return t.machine
}

// advance hands an input to the place in line.
func (t *turn) advance(in line.Input) {
	held := t.place.Holding()
	var did line.Effects
	t.place = t.place.Step(in, &did)
	if node := t.place.Node(); t.place.Standing() && node != t.stood {
		t.stood = node
		t.emit(Standing{session.Join(t.view.dir, node)})
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

// settle does what follows from the state that a step has led to.
func (t *turn) settle() {
	if t.work.then != nil && t.closing && t.work.overdue {
		t.do(inPlace{t.work.then}) // who closes does not wait for longer
		t.work.then = nil
	}
	if t.place.Ended() {
		t.givenUp()
	}
	if t.ended {
		return
	}
	if t.work.term == 0 && t.handing.to != "" && t.handing.phase == ceasing && t.place.Holding() {
		t.handing.phase = offered
		t.do(hand{t.handing.tenure, t.handing.to, t.handing.data, t.acknowledged})
	}
	if t.view.successor != "" && t.view.successor == t.place.Node() && t.place.Waiting() && t.heard != t.view.at {
		t.heard = t.view.at
		t.advance(line.Take{})
	}
	t.observe()
	if _, yes := t.leading(); yes && t.wanted {
		t.wanted, t.work = false, work{term: t.term}
		t.do(engage{t.lead, termOrError{term: t.term}})
	}
}

// observe has the leader followed when it is to be.
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

// givenUp follows the end of the place in line.
func (t *turn) givenUp() {
	t.work.then = nil // its session has ended
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

// elect begins a term.
func (t *turn) elect(ev line.Acquired) {
	t.tenure = tenure{t.place.Epoch(), ev.Token, ev.Node}
	t.acknowledged = false
	t.see(sighting{at: ev.Token, term: ev.Token, record: record{node: ev.Node, data: t.data}})
	t.emit(Elected{ev.Token})
}

// depose ends our term, if there is one.
func (t *turn) depose(why error) {
	if t.term == 0 {
		return
	}
	t.emit(Deposed{fmt.Errorf("%w: %w", ErrDeposed, why)})
	t.viewed(t.view.depose(t.term))
	if t.work.term == t.term {
		t.do(bear{t.term})
	}
	if t.handing.to != "" && t.handing.phase == seeking {
		t.do(answer{t.handing.reply, ErrNotLeading})
		t.handing = handing{}
	}
	t.tenure, t.suspended = tenure{}, false
}

// see takes note of who leads.
func (t *turn) see(s sighting) {
	if s.term != 0 && s.term == t.term && s.node != "" && s.node != t.node {
		// An operator has deleted the node of a former leader, which has acknowledged into ours.
		t.do(restore{t.tenure, t.acknowledged})
		return
	}
	if s.term > t.term { // an operator has made room for it, and our place will be told of that
		t.depose(ErrNodeDeleted)
	}
	t.viewed(t.view.see(s))
	if h := t.handing; h.to != "" && h.phase >= ceasing && t.view.newest > h.term {
		var err error
		if t.view.node != h.to || t.view.term == 0 {
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

func (t *turn) viewed(v view, news bool) {
	t.view = v
	if news {
		t.emit(v.event())
	}
}

// end gives everything up. The first reason counts.
func (t *turn) end(why error) {
	if t.closing {
		return
	}
	t.closing, t.err = true, why
	if why == nil {
		why = ErrResigned
	}
	t.depose(why)
	if t.wanted {
		t.wanted = false
		t.do(engage{t.lead, termOrError{err: ErrLeft}})
	}
	if !t.place.Ended() {
		t.advance(line.Leave{})
	}
}

// resign gives up the leadership.
func (t *turn) resign(in resign) {
	if t.term == 0 || in.term != 0 && in.term != t.term {
		t.do(answer{in.reply, ErrNotLeading})
		return
	}
	if in.prompt {
		t.do(answer{reply: in.reply})
	} else {
		t.resigns = in.reply
	}
	t.depose(ErrResigned)
	t.advance(line.Leave{})
}

// acknowledge has it written down that the leader has done its procedure.
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

func (t *turn) noted(in noted) {
	err, ours := in.err, t.term != 0 && t.tenure == in.of.tenure
	switch {
	case err == nil:
		if ours {
			t.acknowledged = true
			t.see(sighting{at: in.zxid, term: in.of.term, record: record{node: in.of.node, data: t.data, acknowledged: true}})
		}
	case !ours, session.Over(err), errors.Is(err, session.ErrNoNode):
		err = ErrNotLeading
	case session.Passing(err): // to do it twice does no harm
		t.do(in.of)
		return
	}
	t.do(answer{in.of.reply, err})
}

// transfer hands over to another candidate.
func (t *turn) transfer(in transfer) {
	switch {
	case t.term == 0:
		t.do(answer{in.reply, ErrNotLeading})
	case t.handing.to != "" && t.handing.phase != settled:
		t.do(answer{in.reply, ErrBusy})
	case in.node == t.node:
		t.do(answer{in.reply, fmt.Errorf("%w: it leads already", session.ErrInvalidArgument)})
	default:
		t.handing = handing{tenure: t.tenure, to: in.node, reply: in.reply}
		t.do(seek{t.tenure, in.node})
	}
}

// hands reports whether the transfer of that term is in that phase.
func (t *turn) hands(of tenure, p phase) bool {
	return t.handing.to != "" && t.handing.tenure == of && t.handing.phase == p
}

func (t *turn) sought(in sought) {
	switch {
	case !t.hands(in.of.tenure, seeking):
	case session.Over(in.err): // we shall be deposed
	case session.Passing(in.err):
		t.do(in.of)
	case in.err != nil || !in.exists:
		err := in.err
		if err == nil {
			err = ErrNoCandidate
		}
		t.do(answer{t.handing.reply, err})
		t.handing = handing{}
	default:
		t.handing.phase, t.handing.data = ceasing, in.data
		t.depose(ErrTransferred)
	}
}

func (t *turn) handed(in handed) {
	switch {
	case !t.hands(in.of.tenure, offered), !t.place.Holding(), session.Over(in.err), in.gone: // the place is told of its end
	case in.err == nil:
		t.do(expect{in.of.tenure, in.of.to})
	case in.nobody:
		t.fallBack(ErrNoCandidate)
	case session.Passing(in.err): // to do it twice does no harm
		t.do(in.of)
	default:
		t.fallBack(in.err)
	}
}

// fallBack resigns instead of handing over.
func (t *turn) fallBack(why error) {
	t.do(answer{t.handing.reply, fmt.Errorf("%w, so the leader has resigned", why)})
	t.handing = handing{}
	if t.place.Holding() {
		t.advance(line.Leave{})
	}
}

// wait notes that somebody wants to lead.
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

// returned does what had to wait for the function that led.
func (t *turn) returned() {
	if t.work.then != nil {
		t.do(inPlace{t.work.then})
	}
	t.wanted, t.work = false, work{}
}
