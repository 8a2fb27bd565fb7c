package zkmodel

import (
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
)

// A Runner runs a machine and its performer, as package actors does: the inputs wait in its
// mailbox, and each step performs the effects of the machine.
type Runner[M actors.Machine[M, In, Do, Ev], In, Do, Ev any] struct {
	M    M
	Mail []In
	Dead bool // its client has crashed

	Hears func(in In) // if not nil, receives each input before the mailbox does

	w    *World
	n    int
	s    *Session
	role actors.Role[M, In, Do, Ev]

	// told, if not nil, receives every step before its effects are performed.
	told func(in In, before M, did actors.Effects[Do, Ev])
}

// Run adds an actor with the machine to the session. told, if not nil, receives every step before
// its effects are performed. Requests that told makes count as the machine's.
func Run[M actors.Machine[M, In, Do, Ev], In, Do, Ev any](w *World, s *Session, m M, role actors.Role[M, In, Do, Ev], told func(in In, before M, did actors.Effects[Do, Ev])) *Runner[M, In, Do, Ev] {
	r := &Runner[M, In, Do, Ev]{M: m, w: w, n: len(w.Actors), s: s, role: role, told: told}
	w.Actors = append(w.Actors, r)
	for _, do := range role.Begin {
		r.perform(do)
	}
	return r
}

// Begin runs f as the actor: requests that f makes are the actor's.
func (r *Runner[M, In, Do, Ev]) Begin(f func()) {
	r.w.within(&activity{actor: r.n}, "begin", f)
	r.w.settle()
}

// Tell puts an input into the mailbox.
func (r *Runner[M, In, Do, Ev]) Tell(in In) {
	if !r.Dead && !r.M.Ended() {
		if r.Hears != nil {
			r.Hears(in)
		}
		r.Mail = append(r.Mail, in)
	}
}

// Session returns the session of the actor.
func (r *Runner[M, In, Do, Ev]) Session() *Session { return r.s }

func (r *Runner[M, In, Do, Ev]) crash() { r.Dead, r.Mail = true, nil }

// Waiting implements [Actor].
func (r *Runner[M, In, Do, Ev]) Waiting() bool { return len(r.Mail) > 0 }

// Pending implements [Actor].
func (r *Runner[M, In, Do, Ev]) Pending() string {
	if len(r.Mail) == 0 {
		return ""
	}
	return describe(r.Mail[0])
}

func describe(v any) string { return fmt.Sprintf("%T%v", v, v) }

// Ended implements [Actor].
func (r *Runner[M, In, Do, Ev]) Ended() bool { return r.Dead || r.M.Ended() }

func (r *Runner[M, In, Do, Ev]) String() string { return fmt.Sprint(r.M) }

// Step implements [Actor].
func (r *Runner[M, In, Do, Ev]) Step() {
	in := r.Mail[0]
	r.Mail = r.Mail[1:]
	before := r.M
	if r.w.Given != nil {
		check.Note(r.w.Given, in)
	}
	var did actors.Effects[Do, Ev]
	if r.M = before.Step(in, &did); r.M.Ended() {
		r.Mail = nil
	}
	if r.told != nil {
		r.told(in, before, did)
	}
	if r.role.Observe != nil {
		r.role.Observe(r.M, did.Emit)
	}
	for _, do := range did.Do {
		r.perform(do)
	}
}

func (r *Runner[M, In, Do, Ev]) perform(do Do) {
	r.w.within(&activity{actor: r.n, of: do}, do, func() { r.role.Perform(do, r.Tell) })
}
