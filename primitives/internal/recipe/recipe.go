// Package recipe has what several recipes have in common: arguments that are refused, reads of many nodes, containers, and
// events that merge until they are received.
package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
)

// Check is [client.Validate] for a recipe with a path. It joins the errors of more, which checks the other arguments if it is not
// nil; valid reports whether the path can be used.
func Check(s *session.Session, name, path string, more func(valid bool) []error) error {
	return client.Validate(name, s, func() error {
		var errs []error
		err := client.CheckPath(s, path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: path: %w", name, err))
		}
		if more != nil {
			errs = append(errs, more(err == nil)...)
		}
		return errors.Join(errs...)
	})
}

// Newest merges events of the type Level, as in [actors.Role]: the newest stands for those that were not received.
func Newest[Level, Ev any](last, next Ev) (Ev, bool) { return next, are[Level, Level](last, next) }

// Undone cancels an event of the type Done that is followed by one of the type Reversed, as in [actors.Role].
func Undone[Done, Reversed, Ev any](last, next Ev) bool { return are[Done, Reversed](last, next) }

// Stays keeps an event of the type Begun for a reader that comes later, as in [actors.Role]. It stays until the next one of the
// type, or one of the type Over.
func Stays[Begun, Over, Ev any](earlier, next Ev) bool {
	_, begun := any(earlier).(Begun)
	_, again := any(next).(Begun)
	_, over := any(next).(Over)
	return begun && !again && !over
}

func are[A, B any](last, next any) bool {
	_, a := last.(A)
	_, b := next.(B)
	return a && b
}

// Map returns what f returns of each, in order.
func Map[A, B any](all []A, f func(A) B) []B {
	mapped := make([]B, len(all))
	for i, a := range all {
		mapped[i] = f(a)
	}
	return mapped
}

// A Reading is the answer to the read of a node.
type Reading struct {
	Data []byte
	Stat *session.Stat
	Err  error
}

// Get reads a node.
func Get(ctx context.Context, s *session.Session, path string) (r Reading) {
	r.Data, r.Stat, r.Err = s.Get(ctx, path)
	return r
}

// Read reads nodes, all at once. The readings have the order of the paths. A read that may succeed later is made again. The
// error is the cause if ctx ends first.
func Read(ctx context.Context, s *session.Session, paths []string) ([]Reading, error) {
	answers := make([]chan Reading, len(paths))
	for i, path := range paths {
		answers[i] = make(chan Reading, 1)
		s.Async(0).Get(path, func(data []byte, stat *session.Stat, err error) { answers[i] <- Reading{data, stat, err} })
	}
	all := make([]Reading, len(paths))
	for i, path := range paths {
		select {
		case all[i] = <-answers[i]:
		case <-ctx.Done():
			return nil, client.Of(s).Explain(context.Cause(ctx))
		}
		if session.Passing(all[i].Err) { // nothing is lost by reading again
			all[i] = Get(ctx, s, path)
		}
	}
	return all, nil
}

// MakeContainer makes a container, and persistent nodes above it, unless it is there. made says that this call has.
func MakeContainer(requests client.Async, path, data string, answer func(made bool, err error)) {
	client.MakeContainer(requests, path, data, func(err error) {
		switch {
		case errors.Is(err, session.ErrNodeExists):
			answer(false, nil)
		case errors.Is(err, session.ErrNoNode):
			dir, _ := znode.Split(path)
			requests.EnsurePath(dir, func(_ bool, err error) {
				if err != nil {
					answer(false, err)
					return
				}
				MakeContainer(requests, path, data, answer)
			})
		case errors.Is(err, session.ErrNoAuth):
			// The server looks at the parent's ACL before it looks for the node.
			requests.Exists(path, func(stat *session.Stat, existsErr error) {
				if existsErr == nil && stat != nil {
					err = nil
				}
				answer(false, err)
			})
		default:
			answer(err == nil, err)
		}
	})
}
