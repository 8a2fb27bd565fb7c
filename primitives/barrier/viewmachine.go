package barrier

import (
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file watches a barrier, as a pure function. The performer of its effects is in barrier.go.
//
// A view emits a level: whether a barrier stands. Beside that, waiters pass when none does. A
// waiter first looks for itself, since its caller may know more than the watch has delivered:
//
//	          none, or an error: answered
//	pass ─► look ──────────────────────────
//	          │ a barrier stands (saw)
//	          └──► a sight that is newer shows none: answered
//
// It is not the view of package watch, which has no waiters: docs/adr/0069.

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
	pass struct { // commanded; reply receives one answer, when no barrier stands
		reply actors.Reply[error]
	}
	looked struct { // answers look
		requestID
		err   error
		token int64 // 0 if there is no barrier
		below bool  // set if the node has children
	}
	give struct{ up actors.Reply[error] } // commanded: the caller of pass stops waiting
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
		requestID
		sync bool
	}
	settle struct { // give the reply of pass; has no answer
		reply actors.Reply[error]
		err   error
	}
)

func (see) viewEffect()    {}
func (look) viewEffect()   {}
func (settle) viewEffect() {}

// viewEffects accumulates the effects of one step.
type viewEffects = actors.Effects[viewEffect, Event]

// A waiter is a pass without an answer. It is removed when it is answered, or when its caller stops
// waiting.
type waiter struct {
	n     int // the number of its look; unique
	reply actors.Reply[error]
	saw   bool // set when its look has found a barrier: from then on a sight may release it

	// after is set with saw: the token of the barrier that look found. A sight that is older does
	// not release the waiter. In the next session it is 1, so every sight counts.
	after int64
}

// A view is the machine of one handle. It lives through all sessions.
type view struct {
	sync    bool     // set if a look syncs first, to see other clients' earlier writes; constant
	epoch   int      // of the newest session; 0 before the first
	zxid    int64    // of the newest sight in this session; 0 before the first
	known   bool     // set by the first sight
	token   int64    // of the barrier that stands in the newest sight; 0 if none does
	calls   int      // numbers the waiters
	waiters []waiter // in the order of their calls; replaced, never modified
	over    bool     // set with Closed, after every waiter is answered
	err     error    // set with over: the reason; nil after Close
}

// Ended implements [actors.Machine]. An ended view has answered every pass.
func (v view) Ended() bool { return v.over }

// String is for transcripts.
func (v view) String() string {
	return fmt.Sprintf("view(epoch=%d known=%v token=%d zxid=%d waiters=%d over=%v)", v.epoch, v.known, v.token, v.zxid, len(v.waiters), v.over)
}

// A viewTurn is a view during a step, with the accumulator of its effects.
type viewTurn struct {
	view
	out *viewEffects
}

// Step implements [actors.Machine]. A view requests nothing on its own: each input leads
// to its effects directly.
func (v view) Step(in viewInput, out *viewEffects) view {
	if v.over {
		return v
	}
	t := viewTurn{view: v, out: out}
	t.take(in)
	return t.view
}

// take enters an input. In a new session every waiter looks again.
func (v *viewTurn) take(in viewInput) {
	switch in := in.(type) {
	case stop:
		v.end(nil)
	case became:
		switch ev := in.Event.(type) {
		case session.Connected:
			v.begin(ev.Epoch)
		case session.Closed:
			v.end(session.ErrClosed)
		case session.Suspended, session.Lapsed, session.Resumed, session.Expired:
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
		v.calls++ // it distinguishes looks
		w := waiter{n: v.calls, reply: in.reply}
		v.waiters = append(slices.Clip(v.waiters), w)
		v.look(w)
	case looked:
		v.looked(in)
	case give:
		v.waiters = slices.DeleteFunc(slices.Clone(v.waiters), func(w waiter) bool { return w.reply == in.up })
	}
}

// begin begins a session. The servers may have come back with older data, so sights of this session
// are not compared with those of the last one. Any sight of this session may release a waiter.
func (v *viewTurn) begin(epoch int) {
	v.epoch, v.zxid = epoch, 0
	v.do(see{v.epoch})
	v.waiters = slices.Clone(v.waiters)
	for i := range v.waiters {
		v.waiters[i].after = min(v.waiters[i].after, 1)
		v.look(v.waiters[i])
	}
}

// do adds an effect to those of the step.
func (v *viewTurn) do(e viewEffect) { v.out.Do = append(v.out.Do, e) }

// look has a waiter look, if there is a session. Otherwise the waiter looks in the next session.
func (v *viewTurn) look(w waiter) {
	if v.epoch != 0 && !w.saw {
		v.do(look{requestID{v.epoch, w.n}, v.sync})
	}
}

// looked follows the look of a waiter, which shows whether a barrier stood when the waiter came.
func (v *viewTurn) looked(in looked) {
	i := slices.IndexFunc(v.waiters, func(w waiter) bool { return w.n == in.n && !w.saw })
	if i < 0 || in.epoch != v.epoch || client.Over(in.err) { // gone, or it looks again in the next session
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
	// The node has children: it is not a barrier, and would never be lifted.
	case in.below:
		v.answer(i, errBelow)
	default:
		v.waiters = slices.Clone(v.waiters)
		v.waiters[i].saw, v.waiters[i].after = true, in.token
		v.release()
	}
}

// answer ends the wait of a waiter.
func (v *viewTurn) answer(i int, err error) {
	v.do(settle{v.waiters[i].reply, err})
	v.waiters = slices.Delete(slices.Clone(v.waiters), i, i+1)
}

// sighted enters a reading of the path, unless it is older than the newest.
func (v *viewTurn) sighted(in sighted) {
	if in.epoch != v.epoch || in.zxid != 0 && in.zxid < v.zxid {
		return
	}
	changed := !v.known || v.token != in.token
	// The report of a deletion has no zxid. It counts as current.
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

// release answers the waiters that have looked, if the newest sight shows no barrier. A waiter
// whose look has found a newer barrier goes on waiting.
func (v *viewTurn) release() {
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
func (v *viewTurn) end(err error) {
	for i := range slices.Backward(v.waiters) {
		v.answer(i, client.Because(ErrClosed, err))
	}
	v.over, v.err = true, err
	v.out.Emit = append(v.out.Emit, Closed{err})
}
