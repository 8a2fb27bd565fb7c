package actors

import (
	"context"
	"errors"
)

var errNilContext = errors.New("actors: Ask: ctx is nil")

// A Reply carries the answer to a command back to its caller. To a machine it is an opaque
// token: it comes with the command, and goes out in the effect that answers it.
// The zero Reply discards its answer. A Reply is comparable.
type Reply[T any] struct{ ch chan T }

// Give answers, and never blocks. Only the first answer counts.
func (r Reply[T]) Give(answer T) {
	select {
	case r.ch <- answer:
	default:
	}
}

// Late returns the answer to a command that [Ask] has given up, if it has come
// meanwhile.
func (r Reply[T]) Late() (answer T, given bool) {
	select {
	case answer = <-r.ch:
		return answer, true
	default:
		return answer, false
	}
}

// Ask tells the actor a command, and waits for the answer. If ctx ends before it is given,
// Ask returns the cause, and the command goes on; if the machine ends without giving one,
// [ErrEnded]. If ctx is nil, the actor receives nothing.
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
