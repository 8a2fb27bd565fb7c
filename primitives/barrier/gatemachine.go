package barrier

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is how a gate is raised, kept and lifted, as a pure function. The performer of its
// effects is in gate.go.
//
// # Why one at a time
//
// The gate is the node at the path, which is created and written to in one transaction: the reply
// has its Czxid, the token. A gate is held only after such a reply, or after a read that has
// found a gate's node of its session that no other gate of the session has. The id in the node does
// not decide that: a gate that is being lifted writes its own id to the node that it takes for its
// own, which may be another by then. A gate ends as soon as the node with the token is gone, or the session.
//
// # Why none is left
//
// A creation whose reply was lost may have been done. While it may have been, every way out of
// TryRaise removes, in the background, a gate's node of the session that no other gate of the session has.

// A gateStage is how far a gate is.
type gateStage int

const (
	trying   gateStage = iota // TryRaise was called
	standing                  // the node stands
	falling                   // the node is being removed, if it stands
	fallen
)

func (s gateStage) String() string {
	return [...]string{"trying", "standing", "falling", "fallen"}[s]
}

// A gateStep is a request of TryRaise.
type gateStep int

const (
	raising gateStep = iota
	making           // the parent
	peering          // whose node it is that stands
)

func (s gateStep) String() string { return [...]string{"raising", "making", "peering"}[s] }

// A gateInput is something that happened.
//
//sumtype:decl
type gateInput interface{ gateInput() }

type (
	try struct { // commanded, once; the reply gets one answer
		reply actors.Reply[error]
	}
	lift struct { // commanded, also when TryRaise is not wanted any more; the reply gets one answer
		reply actors.Reply[error]
	}
	replied struct { // answers ply
		turn
		err   error
		token int64 // of the node, after raising and peering
		mine  bool  // after peering: a gate of the session has made the node, and no other has it
	}
	minded struct { // told after mind, any number of times
		epoch int
		token int64
	}
	unminded struct { // the last that is told after mind
		epoch int
		err   error
	}
	removed struct{ err error } // answers raze
)

func (stop) gateInput()     {}
func (became) gateInput()   {}
func (try) gateInput()      {}
func (lift) gateInput()     {}
func (replied) gateInput()  {}
func (minded) gateInput()   {}
func (unminded) gateInput() {}
func (removed) gateInput()  {}

// A gateEffect is something to do about it.
//
//sumtype:decl
type gateEffect interface{ gateEffect() }

type (
	ply struct { // make a request
		turn
		step    gateStep
		id      string
		session int64
	}
	mind struct{ epoch int } // watch the node
	raze struct {            // remove the node with the token; or, if that is 0, the one of the session that no other gate has
		epoch   int
		id      string
		session int64
		token   int64
	}
	reply struct {
		to  actors.Reply[error]
		err error
	}
)

func (ply) gateEffect()   {}
func (mind) gateEffect()  {}
func (raze) gateEffect()  {}
func (reply) gateEffect() {}

type gateEffects = actors.Effects[gateEffect, GateEvent]

// gatePrefix is how the data of gates begins.
const gatePrefix = "gate-"

// A gate is the machine of a [Gate]. It requests nothing before try.
type gate struct {
	id      string // unique, the data of the node
	stage   gateStage
	epoch   int   // in which the gate is raised; 0 before there is a session
	session int64 // on the server, of the epoch
	step    gateStep
	turns   int  // counts requests
	waiting bool // set while a request is under way
	halted  bool // set when an answer said that the session is over; the session tells next
	doubted bool // set by a creation whose reply was lost, and by a creation that was given up: the node may stand
	token   int64
	asked   bool  // set by try. Before that nothing is requested: the reply would be lost
	severed error // set when the session ended before try, which it answers
	asker   actors.Reply[error]
	lifters []actors.Reply[error]
	silent  bool  // set when no event is to follow: Raised was not emitted, or Lost was
	err     error // why the gate is held no more, after a loss
}

func newGate(id string) gate { return gate{id: gatePrefix + id, silent: true} }

// Ended implements [actors.Machine].
func (g gate) Ended() bool { return g.stage == fallen }

// over reports whether the gate was held and is not any more.
func (g gate) over() bool { return g.token != 0 && g.stage > standing }

func (g gate) String() string {
	return fmt.Sprintf("%v(epoch=%d token=%d %v waiting=%v doubted=%v)", g.stage, g.epoch, g.token, g.step, g.waiting, g.doubted)
}

// A gating is one step of a gate: what it becomes, and what it asks for.
type gating struct {
	gate
	out *gateEffects
}

// Step implements [actors.Machine].
func (g gate) Step(in gateInput, out *gateEffects) gate {
	if g.Ended() {
		return g
	}
	t := gating{gate: g, out: out}
	t.take(in)
	t.advance()
	return t.gate
}

func (g *gating) do(e gateEffect)   { g.out.Do = append(g.out.Do, e) }
func (g *gating) emit(ev GateEvent) { g.out.Emit = append(g.out.Emit, ev) }

func (g *gating) take(in gateInput) {
	switch in := in.(type) {
	case try:
		g.asked, g.asker = true, in.reply
		if g.severed != nil {
			g.fail(g.severed)
		}
	case lift:
		g.lifters = append(slices.Clip(g.lifters), in.reply)
		g.lift()
	case stop:
		g.lift()
	case became:
		g.became(in.Event)
	case replied:
		if g.stage == trying && in.turn == (turn{g.epoch, g.turns}) && g.waiting {
			g.waiting = false
			g.replied(in)
		}
	case minded:
		if g.stage == standing && in.epoch == g.epoch && in.token > g.token {
			g.lose(ErrNodeGone)
		}
	case unminded:
		if g.stage == standing && in.epoch == g.epoch {
			g.unminded(in.err)
		}
	case removed:
		if g.stage == falling {
			g.fall(in.err)
		}
	}
}

// advance makes the next request, if none is under way.
func (g *gating) advance() {
	if g.stage == trying && g.asked && g.epoch != 0 && !g.waiting && !g.halted {
		g.turns++
		g.waiting = true
		g.do(ply{turn{g.epoch, g.turns}, g.step, g.id, g.session})
	}
}

func (g *gating) became(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		if g.epoch == 0 {
			g.epoch, g.session = ev.Epoch, ev.ID
		}
	case session.Expired:
		if ev.Epoch == g.epoch {
			g.sever(session.ErrExpired)
		}
	case session.Closed:
		g.sever(session.ErrClosed)
	case session.Suspended, session.Resumed:
	}
}

// replied follows a request of TryRaise.
func (g *gating) replied(in replied) {
	switch {
	case session.Over(in.err):
		g.halted = true
	case session.Passing(in.err):
		g.doubted = g.doubted || g.step == raising && session.InDoubt(in.err)
	case g.step == making && in.err == nil:
		g.step = raising
	case g.step == raising && errors.Is(in.err, session.ErrNoNode):
		g.step = making
	case g.step == raising && errors.Is(in.err, session.ErrNodeExists) && g.doubted:
		g.step = peering
	case errors.Is(in.err, session.ErrNodeExists):
		g.fail(ErrRaised)
	case g.step == peering && errors.Is(in.err, session.ErrNoNode):
		g.step = raising
	case in.err != nil:
		g.fail(in.err)
	case g.step == peering && !in.mine:
		g.fail(ErrRaised)
	default:
		g.stand(in.token)
	}
}

// stand goes on when the node is known to stand.
func (g *gating) stand(token int64) {
	g.stage, g.token, g.silent = standing, token, false
	g.do(reply{g.asker, nil})
	g.do(mind{g.epoch})
	g.emit(Raised{token})
}

// fail ends TryRaise, and leaves no node.
func (g *gating) fail(err error) {
	g.do(reply{g.asker, err})
	if g.doubted {
		g.raze()
		return
	}
	g.fall(nil)
}

func (g *gating) raze() {
	g.stage = falling
	g.do(raze{g.epoch, g.id, g.session, g.token})
}

// lift begins to remove the node, if it may stand.
func (g *gating) lift() {
	switch g.stage {
	case trying:
		g.doubted = g.doubted || g.waiting && g.step == raising
		g.fail(errWithdrawn)
	case standing:
		g.raze()
	case falling, fallen:
	}
}

func (g *gating) unminded(err error) {
	switch {
	case session.Over(err): // the session tells next
	case errors.Is(err, session.ErrNoNode):
		g.lose(ErrNodeGone)
	case session.Passing(err):
		g.do(mind{g.epoch})
	default: // it may be replaced, and nobody would notice
		g.silent, g.err = true, err
		g.emit(Lost{err})
		g.raze()
	}
}

// lose ends a gate whose node is gone.
func (g *gating) lose(err error) {
	g.err = err
	g.fall(err)
}

// sever ends the gate with its session, with which the node goes.
func (g *gating) sever(err error) {
	switch g.stage {
	case trying:
		if g.doubted = false; !g.asked {
			g.severed = err
			return
		}
		g.fail(err)
	case standing:
		g.lose(err)
	case falling:
		g.fall(nil)
	case fallen:
	}
}

// fall ends the gate.
func (g *gating) fall(err error) {
	g.stage = fallen
	for _, to := range g.lifters {
		g.do(reply{to, err})
	}
	g.lifters = nil
	switch {
	case g.silent:
	case err != nil:
		g.emit(Lost{err})
	default:
		g.emit(Released{})
	}
	g.silent = true
}
