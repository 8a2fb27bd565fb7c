package barrier

import (
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file raises, keeps and lifts a gate, as a pure function. The performer of its effects is in
// gate.go.
//
//	         created               Lift
//	trying ───────────► standing ─────────► falling
//	   │                    │                  │
//	   │ another stands,    │ the node, or     │ removed
//	   │ given up, failed   │ the session      │
//	   ▼                    ▼ is gone          ▼
//	fallen, by way of    fallen (Lost)      fallen (Released)
//	falling if our node
//	may stand
//
// It is not package presence, which keeps a node too: docs/adr/0069.

// A gateStage is the progress of a gate. It never goes back.
type gateStage int

const (
	trying   gateStage = iota // not held: TryRaise waits for the outcome
	standing                  // held: the node stands, as far as the gate knows
	falling                   // not held any more, or cancelled: the node is being removed, if it stands
	fallen                    // the last event, if the gate has one, was emitted
)

func (s gateStage) String() string {
	return [...]string{"trying", "standing", "falling", "fallen"}[s]
}

// A gateStep is a request of TryRaise: the next one, or the one under way.
type gateStep int

const (
	raising gateStep = iota // create the node
	making                  // create the node's parent
	peering                 // read the node, after the reply to raising was lost: is it ours?
)

func (s gateStep) String() string { return [...]string{"raising", "making", "peering"}[s] }

// A gateInput is an event that the machine reacts to: stop and became, as of a view, or an answer.
//
//sumtype:decl
type gateInput interface{ gateInput() }

type (
	replied struct { // answers ply
		err   error
		token int64 // of the node; after raising and peering
		mine  bool  // after peering: a gate of the session has made the node, and no other has it
	}
	minded   struct{ token int64 } // answers mind, any number of times: a node stands
	unminded struct{ err error }   // the last answer to mind
	removed  struct {              // answers raze
		epoch int
		err   error
	}
)

func (stop) gateInput()     {}
func (became) gateInput()   {}
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
		session int64
	}
	mind struct{ epoch int } // watch the node
	raze struct {            // remove the node with the token; if 0, a node of the session that no other gate holds
		epoch   int
		session int64
		token   int64
	}
)

func (ply) gateEffect()  {}
func (mind) gateEffect() {}
func (raze) gateEffect() {}

// gateEffects accumulates the effects of one step.
type gateEffects = actors.Effects[gateEffect, GateEvent]

// A gate is the machine of a [Gate]. Its zero value knows of no session yet. After every step:
//
//   - token is set in the stage standing, and constant afterwards.
//   - In the stage fallen, no node of this gate stands, or the server refused to remove it.
type gate struct {
	stage   gateStage
	epoch   int      // set by the first session, and constant: a gate belongs to one session
	session int64    // the id of that session; set with epoch
	step    gateStep // set by each answer: the next request, or the one under way. It has a meaning only in trying
	razing  int      // set with raze: the epoch that removes the node. Cleared when that expires, so it is 0 until the next one
	waiting bool     // set with ply, cleared by its answer. While set, no other request begins
	halted  bool     // set when an answer says that the session is over, whose end will follow: nothing is requested
	doubted bool     // set when our node may stand although its creation was not confirmed; cleared with the session
	token   int64    // set when the node is known to be ours; 0 before
	err     error    // set when TryRaise fails, or the gate is lost: why. If set in falling, the last event was emitted
	refused error    // set in fallen if the server did not delete the node: why. It is the result of Lift
}

// Ended implements [actors.Machine].
func (g gate) Ended() bool { return g.stage == fallen }

// over reports whether the gate was held, and is not any more.
func (g gate) over() bool { return g.token != 0 && g.stage > standing }

// String is for transcripts.
func (g gate) String() string {
	return fmt.Sprintf("%v(epoch=%d token=%d %v waiting=%v doubted=%v)", g.stage, g.epoch, g.token, g.step, g.waiting, g.doubted)
}

// A gateTurn is a gate during a step, with the accumulator of its effects.
type gateTurn struct {
	gate
	out *gateEffects
}

// Step implements [actors.Machine]. take enters the input; advance then makes the next
// request of TryRaise.
func (g gate) Step(in gateInput, out *gateEffects) gate {
	if g.Ended() {
		return g
	}
	t := gateTurn{gate: g, out: out}
	t.take(in)
	t.advance()
	return t.gate
}

// do and emit add an effect, or an event, to those of the step.
func (g *gateTurn) do(e gateEffect)   { g.out.Do = append(g.out.Do, e) }
func (g *gateTurn) emit(ev GateEvent) { g.out.Emit = append(g.out.Emit, ev) }

// take enters an input. An answer counts only in the stage that waits for it.
func (g *gateTurn) take(in gateInput) {
	switch in := in.(type) {
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
			g.lose(ErrNodeGone) // a newer node stands at the path: ours is gone
		}
	case unminded:
		if g.stage == standing {
			g.unminded(in.err)
		}
	case removed:
		if g.stage == falling && g.razing == in.epoch {
			g.fall(in.err)
		}
	}
}

// advance makes the next request, if none is under way. Only TryRaise makes requests.
func (g *gateTurn) advance() {
	if g.stage == trying && g.epoch != 0 && !g.waiting && !g.halted {
		g.waiting = true
		g.do(ply{g.epoch, g.step, g.session})
	}
}

// became follows an event of the session. A gate belongs to one session, and ends with it. But if
// the session expires while the gate is being lifted, the server keeps the node for a while: then
// the next session removes it.
func (g *gateTurn) became(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		if g.epoch == 0 {
			g.epoch, g.session = ev.Epoch, ev.ID
		}
		if g.stage == falling && g.razing == 0 {
			g.raze(ev.Epoch)
		}
	case session.Expired:
		if ev.Epoch == max(g.epoch, g.razing) {
			g.sever(session.ErrExpired)
		}
	case session.Closed:
		g.sever(session.ErrClosed)
	case session.Lapsed:
		if g.stage == standing {
			g.forfeit(session.ErrLapsed)
		}
	case session.Suspended, session.Resumed:
	}
}

// replied follows a request of TryRaise. If a node stands, it is either ours, because a reply was
// lost, or another client has raised the barrier.
func (g *gateTurn) replied(in replied) {
	switch {
	// The server may have executed the request, but its node disappears with the session.
	case client.Over(in.err):
		g.halted = true
	case session.Passing(in.err):
		g.doubted = g.doubted || g.step == raising && session.InDoubt(in.err) // and send the same request again
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
	case g.step == peering && !in.mine: // another gate of the session, or another session, has it
		g.fail(ErrRaised)
	default:
		g.stand(in.token)
	}
}

// stand begins to hold the gate, and to watch its node.
func (g *gateTurn) stand(token int64) {
	g.stage, g.token = standing, token
	g.do(mind{g.epoch})
	g.emit(Raised{token})
}

// fail ends TryRaise. If its node may stand, the node is removed first.
func (g *gateTurn) fail(err error) {
	g.err = err
	if g.doubted {
		g.raze(g.epoch)
		return
	}
	g.fall(nil)
}

// raze removes the node, in an epoch. From now on the gate counts as not held.
func (g *gateTurn) raze(epoch int) {
	g.stage, g.razing = falling, epoch
	g.do(raze{epoch, g.session, g.token})
}

// lift begins to remove the node, if it may stand. A TryRaise that still waits is cancelled.
func (g *gateTurn) lift() {
	switch g.stage {
	case trying:
		g.doubted = g.doubted || g.waiting && g.step == raising
		g.fail(errWithdrawn) // the request under way may yet create the node
	case standing:
		g.raze(g.epoch)
	case falling, fallen:
	}
}

// unminded follows the end of the watch.
func (g *gateTurn) unminded(err error) {
	switch {
	case client.Over(err): // the end of the session follows
	case errors.Is(err, session.ErrNoNode):
		g.lose(ErrNodeGone)
	case session.Passing(err):
		g.do(mind{g.epoch})
	default: // another node could replace one that cannot be watched
		g.forfeit(err)
	}
}

// forfeit ends a gate whose node may stand.
func (g *gateTurn) forfeit(err error) {
	g.err = err
	g.emit(Lost{err})
	g.raze(g.epoch)
}

// sever ends the gate with its session. The server deletes the node. Lift waits for that, unless no
// session follows.
func (g *gateTurn) sever(err error) {
	switch g.stage {
	case trying:
		g.doubted = false
		g.fail(err)
	case standing:
		g.lose(err)
	case falling:
		g.razing = 0
		if g.token == 0 || errors.Is(err, session.ErrClosed) {
			g.fall(nil)
		}
	case fallen:
	}
}

// lose ends a gate whose node is gone.
func (g *gateTurn) lose(err error) {
	g.stage, g.err = fallen, err
	g.emit(Lost{err})
}

// fall ends the gate when its node was removed, or the server has refused that. It emits the last
// event, unless that was emitted already, or the gate was never held.
func (g *gateTurn) fall(refused error) {
	g.stage, g.refused = fallen, refused
	switch {
	case g.err != nil:
	case refused != nil:
		g.emit(Lost{refused})
	default:
		g.emit(Released{})
	}
}
