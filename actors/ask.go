package actors

import (
	"context"
	"errors"
)

var errNilContext = errors.New("actors: Ask: ctx is nil")

// A Reply carries the answer to a command back to its caller. A machine treats it as an opaque
// token: it receives the Reply with the command, and returns it in the effect that answers. The
// zero Reply discards its answer. A Reply is comparable.
type Reply[T any] struct{ ch chan T }

// Give answers, and never blocks. Only the first answer counts.
func (r Reply[T]) Give(answer T) {
	select {
	case r.ch <- answer:
	default:
	}
}

// Late returns the answer to a command that [Ask] has given up on, if the answer has arrived since.
func (r Reply[T]) Late() (answer T, given bool) {
	select {
	case answer = <-r.ch:
		return answer, true
	default:
		return answer, false
	}
}

// Ask sends a command to the actor, and waits for the answer. If ctx ends first, Ask returns its
// cause, and the command goes on. If the machine ends without an answer, Ask returns [ErrEnded]. If
// ctx is nil, the actor receives nothing.
func Ask[T, In, Ev any](ctx context.Context, a *Actor[In, Ev], command func(Reply[T]) In) (T, error) {
	var none T
	if ctx == nil {
		return none, errNilContext
	}
	reply := Reply[T]{ch: make(chan T, 1)}
	if err := a.Tell(command(reply)); err != nil {
		return none, err
	}
	select {
	case answer := <-reply.ch:
		return answer, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case <-a.ended.wait():
		select {
		case answer := <-reply.ch: // in the step that ended it
			return answer, nil
		default:
			return none, ErrEnded
		}
	}
}
