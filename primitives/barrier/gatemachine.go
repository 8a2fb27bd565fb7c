package barrier

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file raises, keeps and lifts a gate, as a pure function. The performer
// of its effects is in gate.go.
//
//	          try                  created                Lift
//	trying ─────────► requests ──────────────► standing ───────► falling
//	                     │                        │                 │
//	                     │ another stands, or     │ the node, or    │ removed
//	                     │ given up, or failed    │ the session     │
//	                     ▼                        ▼ is gone         ▼
//	          fallen, by way of falling if     fallen (Lost)     fallen (Released)
//	          our node may stand

// A gateStage is the progress of a gate. It only grows.
type gateStage int

const (
	trying   gateStage = iota // not held: TryRaise was called, or will be
	standing                  // held: the node stands, as far as is known
	falling                   // not held any more, or given up: the node is being removed, if it stands
	fallen                    // the last event was emitted, if there is any
)

func (s gateStage) String() string {
	return [...]string{"trying", "standing", "falling", "fallen"}[s]
}

// A gateStep is the request that TryRaise makes next, or has under way.
type gateStep int

const (
	raising gateStep = iota // create the node
	making                  // make the parent
	peering                 // read the node, to learn whose it is: a reply to raising was lost
)

func (s gateStep) String() string { return [...]string{"raising", "making", "peering"}[s] }

// A gateInput is an event that the machine reacts to.
//
//sumtype:decl
type gateInput interface{ gateInput() }

type (
	try struct { // commanded, once; the reply gets one answer
		reply actors.Reply[error]
	}
	lift struct { // commanded, by Lift and when TryRaise is given up; the reply gets one answer
		reply actors.Reply[error]
	}
	replied struct { // answers ply
		err   error
		token int64 // of the node, after raising and peering
		mine  bool  // after peering: a gate of the session has made the node, and no other has it
	}
	minded   struct{ token int64 } // answers mind, any number of times: a node stands
	unminded struct{ err error }   // the last answer to mind
	removed  struct{ err error }   // answers raze
)

func (stop) gateInput()     {}
func (became) gateInput()   {}
func (try) gateInput()      {}
func (lift) gateInput()     {}
func (replied) gateInput()  {}
func (minded) gateInput()   {}
func (unminded) gateInput() {}
func (removed) gateInput()  {}

// A gateEffect asks the performer for one thing.
//
//sumtype:decl
type gateEffect interface{ gateEffect() }

type (
	ply struct { // make the request of the step
		epoch   int
		step    gateStep
		id      string
		session int64
	}
	mind struct{ epoch int } // watch the node
	raze struct {            // remove the node with the token; if that is 0, a node of the session that no other gate has
		epoch   int
		id      string
		session int64
		token   int64
	}
	reply struct { // give a command its reply; is not answered
		to  actors.Reply[error]
		err error
	}
)

func (ply) gateEffect()   {}
func (mind) gateEffect()  {}
func (raze) gateEffect()  {}
func (reply) gateEffect() {}

// gateEffects accumulates what one step asks for.
type gateEffects = actors.Effects[gateEffect, GateEvent]

// gatePrefix begins the data of gates.
const gatePrefix = "gate-"

// A gate is the machine of a [Gate]. It requests nothing before try. After every step:
//
//   - token is set in the stage standing, and constant afterwards.
//   - In the stage fallen, no node of this gate stands, or the removal was refused.
//   - The replies of try and lift were given, once the stage is fallen.
type gate struct {
	id      string // the data of the node; unique, and constant
	stage   gateStage
	epoch   int                   // set by the first session that is heard of; a gate has no other
	session int64                 // the id of that session; set with epoch
	step    gateStep              // set by the answer to the step before: the request that is next, or under way; means something in trying only
	waiting bool                  // set with ply, cleared by its answer. While set, a request is under way, and no other begins
	halted  bool                  // set when an answer says that the session is over, whose end follows; then nothing is requested
	doubted bool                  // set when our node may stand, as the reply to its creation was lost or given up; false after the session
	token   int64                 // set when the node is known to be ours; 0 before that
	asked   bool                  // set by try; before that nothing is requested, as the answer would be lost
	severed error                 // set when the session ends before try, which gets it as answer
	asker   actors.Reply[error]   // set by try, answered once: when the gate stands, or TryRaise fails
	lifters []actors.Reply[error] // set by each lift; answered and cleared when the node is removed, or gone
	err     error                 // set when the gate is lost: why. In falling, the last event was emitted then
}

// newGate returns a gate that is not held.
func newGate(id string) gate { return gate{id: gatePrefix + id} }

// Ended implements [actors.Machine]. Every command has its answer then.
func (g gate) Ended() bool { return g.stage == fallen }

// over reports whether the gate was held, and is not any more.
func (g gate) over() bool { return g.token != 0 && g.stage > standing }

// String is for transcripts.
func (g gate) String() string {
	return fmt.Sprintf("%v(epoch=%d token=%d %v waiting=%v doubted=%v)", g.stage, g.epoch, g.token, g.step, g.waiting, g.doubted)
}

// A gating is a gate during a step, with the accumulator of its effects.
type gating struct {
	gate
	out *gateEffects
}

// Step implements [actors.Machine]. take enters the input; advance then makes the next
// request of TryRaise.
func (g gate) Step(in gateInput, out *gateEffects) gate {
	if g.Ended() {
		return g
	}
	t := gating{gate: g, out: out}
	t.take(in)
	t.advance()
	return t.gate
}

// do and emit enter an effect, or an event, behind those of the same step.
func (g *gating) do(e gateEffect)   { g.out.Do = append(g.out.Do, e) }
func (g *gating) emit(ev GateEvent) { g.out.Emit = append(g.out.Emit, ev) }

// take enters an input. An answer counts only in the stage that waits for it.
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
		if g.stage == trying && g.waiting {
			g.waiting = false
			g.replied(in)
		}
	case minded:
		if g.stage == standing && in.token > g.token {
			g.lose(ErrNodeGone) // a younger node stands at the path: ours is gone
		}
	case unminded:
		if g.stage == standing {
			g.unminded(in.err)
		}
	case removed:
		if g.stage == falling {
			g.fall(in.err)
		}
	}
}

// advance makes the next request, if none is under way. Only TryRaise makes requests.
func (g *gating) advance() {
	if g.stage == trying && g.asked && g.epoch != 0 && !g.waiting && !g.halted {
		g.waiting = true
		g.do(ply{g.epoch, g.step, g.id, g.session})
	}
}

// became follows an event of the session. A gate belongs to one session, and ends with
// it.
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

// replied follows a request of TryRaise. A node that stands decides: it is ours after a
// doubt, or the gate is raised by another client.
func (g *gating) replied(in replied) {
	switch {
	// The request may have been done, but its node goes with the session.
	case client.Over(in.err):
		g.halted = true
	case session.Passing(in.err):
		g.doubted = g.doubted || g.step == raising && session.InDoubt(in.err) // the same step again
	case g.step == making && in.err == nil:
		g.step = raising
	case g.step == raising && errors.Is(in.err, session.ErrNoNode):
		g.step = making
	// An earlier request may have created the node that stands.
	case g.step == raising && errors.Is(in.err, session.ErrNodeExists) && g.doubted:
		g.step = peering
	case errors.Is(in.err, session.ErrNodeExists): // created by another client
		g.fail(ErrRaised)
	case g.step == peering && errors.Is(in.err, session.ErrNoNode): // the node that stood is gone
		g.step = raising
	case in.err != nil:
		g.fail(in.err)
	case g.step == peering && !in.mine: // another gate of the session has it, or another session
		g.fail(ErrRaised)
	default:
		g.stand(in.token)
	}
}

// stand begins to hold the gate, and to watch its node.
func (g *gating) stand(token int64) {
	g.stage, g.token = standing, token
	g.do(reply{g.asker, nil})
	g.do(mind{g.epoch})
	g.emit(Raised{token})
}

// fail ends TryRaise. A node that may stand is removed first.
func (g *gating) fail(err error) {
	g.do(reply{g.asker, err})
	if g.doubted {
		g.raze()
		return
	}
	g.fall(nil)
}

// raze removes the node. The gate counts as not held from now on.
func (g *gating) raze() {
	g.stage = falling
	g.do(raze{g.epoch, g.id, g.session, g.token})
}

// lift begins to remove the node, if it may stand. A gate that is not raised yet is given
// up.
func (g *gating) lift() {
	switch g.stage {
	case trying:
		g.doubted = g.doubted || g.waiting && g.step == raising
		g.fail(errWithdrawn) // the request under way may yet create the node
	case standing:
		g.raze()
	case falling, fallen:
	}
}

// unminded follows the end of the watch.
func (g *gating) unminded(err error) {
	switch {
	case client.Over(err): // the end of the session follows
	case errors.Is(err, session.ErrNoNode):
		g.lose(ErrNodeGone)
	case session.Passing(err):
		g.do(mind{g.epoch})
	default: // a node that cannot be watched may be replaced unnoticed
		g.err = err
		g.emit(Lost{err})
		g.raze()
	}
}

// lose ends a gate whose node is gone.
func (g *gating) lose(err error) {
	g.fall(err)
	g.err = err
}

// sever ends the gate with its session. The server deletes the node.
func (g *gating) sever(err error) {
	switch g.stage {
	case trying:
		// The server deletes whatever the session has created.
		if g.doubted = false; !g.asked {
			g.severed = err // kept for try
			return
		}
		g.fail(err)
	case standing:
		g.lose(err)
	case falling: // removed, by the server
		g.fall(nil)
	case fallen:
	}
}

// fall ends the gate: it answers every Lift, and emits the last event, if any event was
// emitted.
func (g *gating) fall(err error) {
	g.stage = fallen
	for _, to := range g.lifters {
		g.do(reply{to, err})
	}
	g.lifters = nil
	switch {
	case g.token == 0 || g.err != nil: // there is no event, or the last was emitted
	case err != nil:
		g.emit(Lost{err})
	default:
		g.emit(Released{})
	}
}
