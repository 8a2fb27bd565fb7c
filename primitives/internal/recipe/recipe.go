// Package recipe has what the constructors of all recipes have in common: options that may be nil, arguments
// that are refused, and events that merge until they are received.
package recipe

import (
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// Or returns the options at o, or the zero options if o is nil.
func Or[O any](o *O) (options O) {
	if o != nil {
		options = *o
	}
	return options
}

// Check returns why the recipe with the name refuses a session and a path, before any I/O. It joins the errors of
// more, which checks the other arguments if it is not nil; valid reports whether the path can be used.
func Check(s *session.Session, name, path string, more func(valid bool) []error) error {
	if s == nil {
		return fmt.Errorf("%s: %w: session is nil", name, session.ErrInvalidArgument)
	}
	var errs []error
	err := client.CheckPath(s, path)
	if err != nil {
		errs = append(errs, fmt.Errorf("%s: path: %w", name, err))
	}
	if more != nil {
		errs = append(errs, more(err == nil)...)
	}
	if _, closed := s.State().(session.Closed); closed {
		errs = append(errs, fmt.Errorf("%s: %w", name, session.ErrClosed))
	}
	return errors.Join(errs...)
}

// Newest merges events of the type Level, as in [actors.Role]: the newest stands for those that were not received.
func Newest[Level, Ev any](last, next Ev) (Ev, bool) { return next, are[Level, Level](last, next) }

// Undone cancels an event of the type Done that is followed by one of the type Reversed, as in [actors.Role].
func Undone[Done, Reversed, Ev any](last, next Ev) bool { return are[Done, Reversed](last, next) }

func are[A, B any](last, next any) bool {
	_, a := last.(A)
	_, b := next.(B)
	return a && b
}
