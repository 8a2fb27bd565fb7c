package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// Options returns a copy of the options of a handle, and zero options if opts is nil.
func Options[O any](opts *O) (o O) {
	if opts != nil {
		o = *opts
	}
	return o
}

// Usable returns why no command can begin with ctx: it is nil, or has ended. It returns nil
// otherwise.
func Usable(ctx context.Context) error {
	if err := CheckContext(ctx); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Ask is [actors.Ask] for a command whose answer is an error. It refuses a nil context. It returns
// the answer, or the error of actors.Ask.
func Ask[In, Ev any](ctx context.Context, a *actors.Actor[In, Ev], command func(actors.Reply[error]) In) error {
	if err := CheckContext(ctx); err != nil {
		return err
	}
	outcome, err := actors.Ask(ctx, a, command)
	return cmp.Or(outcome, err)
}

// Validate returns why a recipe cannot begin: the session is nil, or closed, or refuse returns an
// error. It calls refuse only with a session.
func Validate(recipe string, s *session.Session, refuse func() error) error {
	if s == nil {
		return fmt.Errorf("%s: %w: session is nil", recipe, session.ErrInvalidArgument)
	}
	err := refuse()
	if _, closed := s.State().(session.Closed); closed {
		err = errors.Join(err, fmt.Errorf("%s: %w", recipe, session.ErrClosed))
	}
	return err
}

// CheckPlace is [CheckPath] for the argument that has the path of the recipe. The root is refused
// too.
func CheckPlace(s *session.Session, recipe, argument, path, what string) error {
	err := CheckPath(s, path)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %s: %w", recipe, argument, err)
	case path == "/":
		return fmt.Errorf("%s: %s: %w %q: the root cannot be %s", recipe, argument, session.ErrInvalidPath, path, what)
	}
	return nil
}
