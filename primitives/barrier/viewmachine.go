package barrier

import (
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file watches a barrier, as a pure function. The performer of its effects
// is in barrier.go.
//
// A view emits a level: whether a barrier stands. Beside that, waiters pass when none
// does. A waiter first looks for itself, since the watch may lag behind what its caller
// knows:
//
//	          none, or an error: answered
//	pass ─► look ──────────────────────────
//	          │ a barrier stands (saw)
//	          └──► a sight that is newer shows none: answered

// A viewInput is an event that the machine reacts to.
//
//sumtype:decl
type viewInput interface{ viewInput() }

type (
	stop    struct{}                // commanded, or the actor was stopped
	became  struct{ session.Event } // an event of the session
	sighted struct {                // answers see, any number of times
		epoch int
		zxid  int64 // of the read; 0 if a watch reported the deletion
		token int64 // of the barrier; 0 if none stands
	}
	unsighted struct { // the last answer to see
		epoch int
		err   error
	}
	pass struct { // commanded; the reply gets one answer, when no barrier stands
		reply actors.Reply[error]
	}
	looked struct { // answers look
		turn
		err   error
		token int64 // 0 if there is no barrier
		below bool  // set if the node has children
	}
	give struct{ up actors.Reply[error] } // commanded: the caller of pass waits no longer
)

func (stop) viewInput()      {}
func (became) viewInput()    {}
func (sighted) viewInput()   {}
func (unsighted) viewInput() {}
func (pass) viewInput()      {}
func (looked) viewInput()    {}
func (give) viewInput()      {}

// A viewEffect asks the performer for one thing.
//
//sumtype:decl
type viewEffect interface{ viewEffect() }

type (
	see  struct{ epoch int } // watch the path
	look struct {            // read the path once, after a sync if sync is set
		turn
		sync bool
	}
	settle struct { // give pass its reply; is not answered
		reply actors.Reply[error]
		err   error
	}
)

func (see) viewEffect()    {}
func (look) viewEffect()   {}
func (settle) viewEffect() {}

// viewEffects accumulates what one step asks for.
type viewEffects = actors.Effects[viewEffect, Event]

// A waiter is a pass that has no answer. It is removed with its answer, or when its
// caller gives up.
type waiter struct {
	n     int // names its look; unique
	reply actors.Reply[error]
	saw   bool  // set when its look has found a barrier: from then on sights release it
	after int64 // the token of that barrier, set with saw: an older sight does not know of it
}

// A view is one handle. It goes on through all sessions.
type view struct {
	sync    bool     // set if a look syncs first, to see writes of other clients before it; constant
	epoch   int      // of the newest session; 0 before the first
	zxid    int64    // of the newest sight; never falls
	known   bool     // set by the first sight
	token   int64    // of the barrier that stands, by the newest sight; 0 if none does
	calls   int      // numbers the waiters
	waiters []waiter // in the order in which they came; replaced, never written to
	over    bool     // set with Closed; then every waiter has its answer
	err     error    // set with over; nil if a caller asked
}

// Ended implements [actors.Machine]. Every pass has its answer then.
func (v view) Ended() bool { return v.over }

// String is for transcripts.
func (v view) String() string {
	return fmt.Sprintf("view(epoch=%d known=%v token=%d zxid=%d waiters=%d over=%v)", v.epoch, v.known, v.token, v.zxid, len(v.waiters), v.over)
}

// A viewing is a view during a step, with the accumulator of its effects.
type viewing struct {
	view
	out *viewEffects
}

// Step implements [actors.Machine]. A view requests nothing on its own: each input leads
// to its effects directly.
func (v view) Step(in viewInput, out *viewEffects) view {
	if v.over {
		return v
	}
	t := viewing{view: v, out: out}
	t.take(in)
	return t.view
}

// take enters an input. In a new session, what was asked in the last one is asked again.
func (v *viewing) take(in viewInput) {
	switch in := in.(type) {
	case stop:
		v.end(nil)
	case became:
		switch ev := in.Event.(type) {
		case session.Connected:
			v.epoch = ev.Epoch
			v.do(see{v.epoch})
			for _, w := range v.waiters {
				v.look(w)
			}
		case session.Closed:
			v.end(session.ErrClosed)
		case session.Suspended, session.Resumed, session.Expired:
		}
	case sighted:
		v.sighted(in)
	case unsighted:
		switch {
		case in.epoch != v.epoch || client.Over(in.err):
		case session.Passing(in.err):
			v.do(see{v.epoch})
		default:
			v.end(in.err)
		}
	case pass:
		v.calls++ // looks are told apart by it
		w := waiter{n: v.calls, reply: in.reply}
		v.waiters = append(slices.Clip(v.waiters), w)
		v.look(w)
	case looked:
		v.looked(in)
	case give:
		v.waiters = slices.DeleteFunc(slices.Clone(v.waiters), func(w waiter) bool { return w.reply == in.up })
	}
}

// do asks for an effect, after those of the same step.
func (v *viewing) do(e viewEffect) { v.out.Do = append(v.out.Do, e) }

// look has a waiter look, if there is a session. In the next session it looks again.
func (v *viewing) look(w waiter) {
	if v.epoch != 0 && !w.saw {
		v.do(look{turn{v.epoch, w.n}, v.sync})
	}
}

// looked follows the look of a waiter: it shows whether a barrier stood when the waiter
// came.
func (v *viewing) looked(in looked) {
	i := slices.IndexFunc(v.waiters, func(w waiter) bool { return w.n == in.n && !w.saw })
	if i < 0 || in.epoch != v.epoch || client.Over(in.err) { // given up, or of another session, in which it looks again
		return
	}
	w := v.waiters[i]
	switch {
	case session.Passing(in.err): // look again
		v.look(w)
	case in.err != nil:
		v.answer(i, in.err)
	case in.token == 0:
		v.answer(i, nil)
	// The node has children: it is not a barrier, and is never lifted.
	case in.below:
		v.answer(i, errBelow)
	default:
		v.waiters = slices.Clone(v.waiters)
		v.waiters[i].saw, v.waiters[i].after = true, in.token
		v.release()
	}
}

// answer ends the wait of a waiter.
func (v *viewing) answer(i int, err error) {
	v.do(settle{v.waiters[i].reply, err})
	v.waiters = slices.Delete(slices.Clone(v.waiters), i, i+1)
}

// sighted enters a reading of the path, unless an older one follows a newer.
func (v *viewing) sighted(in sighted) {
	if in.epoch != v.epoch || in.zxid != 0 && in.zxid < v.zxid {
		return
	}
	changed := !v.known || v.token != in.token
	// A watch that reports a deletion has no zxid: the newest one that is known stands in for it.
	v.known, v.token, v.zxid = true, in.token, max(v.zxid, in.zxid)
	switch {
	case !changed:
	case v.token == 0:
		v.out.Emit = append(v.out.Emit, Released{})
	default:
		v.out.Emit = append(v.out.Emit, Raised{v.token})
	}
	v.release()
}

// release answers the waiters that have looked, if the newest sight shows no barrier. A
// waiter that knows of a newer barrier goes on to wait.
func (v *viewing) release() {
	if !v.known || v.token != 0 {
		return
	}
	for i, w := range slices.Backward(v.waiters) {
		if w.saw && w.after <= v.zxid {
			v.answer(i, nil)
		}
	}
}

// end answers every waiter, and emits the last event.
func (v *viewing) end(err error) {
	for i := range slices.Backward(v.waiters) {
		v.answer(i, client.Because(ErrClosed, err))
	}
	v.over, v.err = true, err
	v.out.Emit = append(v.out.Emit, Closed{err})
}
