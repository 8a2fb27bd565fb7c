package barrier

import (
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is how a barrier is watched, as a pure function. The performer of its effects
// is in barrier.go.

// A viewInput is something that happened.
//
//sumtype:decl
type viewInput interface{ viewInput() }

type (
	stop    struct{}                // commanded, or the actor was stopped
	became  struct{ session.Event } // what became of the session
	sighted struct {                // told after see, any number of times
		epoch int
		zxid  int64 // of the newest transaction that the server knew
		token int64 // 0 if there is no barrier
	}
	unsighted struct { // the last that is told after see
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
	give struct{ up actors.Reply[error] } // commanded: nobody waits for the reply any more
)

func (stop) viewInput()      {}
func (became) viewInput()    {}
func (sighted) viewInput()   {}
func (unsighted) viewInput() {}
func (pass) viewInput()      {}
func (looked) viewInput()    {}
func (give) viewInput()      {}

// A viewEffect is something to do about it.
//
//sumtype:decl
type viewEffect interface{ viewEffect() }

type (
	see  struct{ epoch int } // what is at the path, and what becomes of it
	look struct {            // what is at the path; the server is brought up to date before, if sync is set
		turn
		sync bool
	}
	settle struct {
		reply actors.Reply[error]
		err   error
	}
)

func (see) viewEffect()    {}
func (look) viewEffect()   {}
func (settle) viewEffect() {}

type viewEffects = actors.Effects[viewEffect, Event]

// A waiter waits until no barrier stands.
type waiter struct {
	n     int // names its look
	reply actors.Reply[error]
	saw   bool  // set when its look has found a barrier
	after int64 // the token of that; only a sight that is newer counts
}

// A view is one handle.
type view struct {
	sync    bool  // looks see what others had done before
	epoch   int   // of the present session; 0 if there is none
	zxid    int64 // of the newest sight
	known   bool  // set by the first sight. While set, token is what stands.
	token   int64
	calls   int // counts waiters
	waiters []waiter
	over    bool
	err     error // why
}

// Ended implements [actors.Machine].
func (v view) Ended() bool { return v.over }

func (v view) String() string {
	return fmt.Sprintf("view(epoch=%d known=%v token=%d zxid=%d waiters=%d over=%v)", v.epoch, v.known, v.token, v.zxid, len(v.waiters), v.over)
}

// A viewing is one step of a view: what it becomes, and what it asks for.
type viewing struct {
	view
	out *viewEffects
}

// Step implements [actors.Machine].
func (v view) Step(in viewInput, out *viewEffects) view {
	if v.over {
		return v
	}
	t := viewing{view: v, out: out}
	t.take(in)
	return t.view
}

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
		case in.epoch != v.epoch || session.Over(in.err):
		case session.Passing(in.err):
			v.do(see{v.epoch})
		default:
			v.end(in.err)
		}
	case pass:
		v.calls++
		w := waiter{n: v.calls, reply: in.reply}
		v.waiters = append(slices.Clip(v.waiters), w)
		v.look(w)
	case looked:
		v.looked(in)
	case give:
		v.waiters = slices.DeleteFunc(slices.Clone(v.waiters), func(w waiter) bool { return w.reply == in.up })
	}
}

func (v *viewing) do(e viewEffect) { v.out.Do = append(v.out.Do, e) }

// look has a waiter look, if there is a session. In the next one it looks again.
func (v *viewing) look(w waiter) {
	if v.epoch != 0 && !w.saw {
		v.do(look{turn{v.epoch, w.n}, v.sync})
	}
}

// looked goes on when a waiter knows what stood when it came: what is watched may be older than
// what the session has written.
func (v *viewing) looked(in looked) {
	i := slices.IndexFunc(v.waiters, func(w waiter) bool { return w.n == in.n && !w.saw })
	if i < 0 || in.epoch != v.epoch || session.Over(in.err) {
		return
	}
	w := v.waiters[i]
	switch {
	case session.Passing(in.err):
		v.look(w)
	case in.err != nil:
		v.answer(i, in.err)
	case in.token == 0:
		v.answer(i, nil)
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

// sighted takes what stands, unless it is older than what was taken before.
func (v *viewing) sighted(in sighted) {
	if in.epoch != v.epoch || in.zxid != 0 && in.zxid < v.zxid {
		return
	}
	changed := !v.known || v.token != in.token
	// A server that reports that the node is gone does not say when.
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

// release answers the waiters that have looked if no barrier stands, unless they know of a newer one.
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

func (v *viewing) end(err error) {
	for i := range slices.Backward(v.waiters) {
		v.answer(i, closedBy(err))
	}
	v.over, v.err = true, err
	v.out.Emit = append(v.out.Emit, Closed{err})
}

// closedBy returns the answer to commands of a handle that has ended.
func closedBy(why error) error {
	if why == nil {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrClosed, why)
}
