package zkmodel

import "github.com/zkactors/zkactors/actors"

// A Caller makes calls of a client, one after the other: a machine without a state of its own.
type Caller struct {
	Calls int // begun so far
}

// A Call is both the input and the effect that begins the call of the number, from 0.
type Call struct{ N int }

// Calling is a Caller in a world.
type Calling = Runner[Caller, Call, Call, struct{}]

// Calls enters a caller into the world. Each call is made by do.
func Calls(w *World, s *Session, do func(n int)) *Calling {
	return Run(w, s, Caller{}, actors.Role[Caller, Call, Call, struct{}]{
		Perform: func(c Call, _ func(Call)) { do(c.N) },
	}, nil)
}

// Step implements [actors.Machine].
func (c Caller) Step(in Call, out *actors.Effects[Call, struct{}]) Caller {
	c.Calls++
	out.Do = append(out.Do, in)
	return c
}

// Ended implements [actors.Machine].
func (Caller) Ended() bool { return false }
