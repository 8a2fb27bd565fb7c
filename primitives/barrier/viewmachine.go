package barrier

import (
	"errors"
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
		after int64 // the token of a barrier that was seen otherwise
		reply actors.Reply[error]
	}
	give struct{ up actors.Reply[error] } // commanded: nobody waits for the reply any more
)

func (stop) viewInput()      {}
func (became) viewInput()    {}
func (sighted) viewInput()   {}
func (unsighted) viewInput() {}
func (pass) viewInput()      {}
func (give) viewInput()      {}

// A viewEffect is something to do about it.
//
//sumtype:decl
type viewEffect interface{ viewEffect() }

type (
	see    struct{ epoch int } // what is at the path, and what becomes of it
	settle struct {
		reply actors.Reply[error]
		err   error
	}
)

func (see) viewEffect()    {}
func (settle) viewEffect() {}

type viewEffects = actors.Effects[viewEffect, Event]

// A view is one handle.
type view struct {
	epoch   int   // of the present session; 0 if there is none
	zxid    int64 // of the newest sight
	known   bool  // set by the first sight. While set, token is what stands.
	token   int64
	waiters []pass
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
			v.out.Do = append(v.out.Do, see{v.epoch})
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
			v.out.Do = append(v.out.Do, see{v.epoch})
		default:
			v.end(in.err)
		}
	case pass:
		v.waiters = append(slices.Clip(v.waiters), in)
		v.release()
	case give:
		v.waiters = slices.DeleteFunc(slices.Clone(v.waiters), func(p pass) bool { return p.reply == in.up })
	}
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

// release answers the waiters if no barrier stands, but for those that know of a newer one.
func (v *viewing) release() {
	if !v.known || v.token != 0 {
		return
	}
	var rest []pass
	for _, p := range v.waiters {
		if p.after > v.zxid {
			rest = append(rest, p)
			continue
		}
		v.out.Do = append(v.out.Do, settle{p.reply, nil})
	}
	v.waiters = rest
}

func (v *viewing) end(err error) {
	why := ErrClosed
	if err != nil && !errors.Is(err, ErrClosed) {
		why = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	for _, p := range v.waiters {
		v.out.Do = append(v.out.Do, settle{p.reply, why})
	}
	v.waiters, v.over, v.err = nil, true, err
	v.out.Emit = append(v.out.Emit, Closed{err})
}
