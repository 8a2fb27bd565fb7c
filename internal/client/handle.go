package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// A Reason is the error with which a handle has ended. Methods of the handle read it, and its actor sets it. The
// zero Reason has no error.
type Reason struct {
	mu  sync.Mutex
	err error
}

// Set sets the error.
func (r *Reason) Set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// Err returns the error that was set last.
func (r *Reason) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Options returns a copy of the options of a handle, and zero ones if there are none.
func Options[O any](opts *O) (o O) {
	if opts != nil {
		o = *opts
	}
	return o
}

// Usable returns why no command can begin with ctx: it is nil, or has ended. It returns nil otherwise.
func Usable(ctx context.Context) error {
	if err := CheckContext(ctx); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Ask is [actors.Ask] for a command whose answer is an error. It refuses a nil context. It returns the answer, or
// the error of actors.Ask.
func Ask[In, Ev any](ctx context.Context, a *actors.Actor[In, Ev], command func(actors.Reply[error]) In) error {
	if err := CheckContext(ctx); err != nil {
		return err
	}
	outcome, err := actors.Ask(ctx, a, command)
	return cmp.Or(outcome, err)
}

// Wrap explains an error, and writes before it where it happened. Without an error it returns nil, and allocates nothing.
func Wrap(s Session, err error, where ...string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", strings.Join(where, ""), s.Explain(err))
}

// Print prints what can be printed, for its method Format: as its String, whatever the verb is.
func Print(f fmt.State, what fmt.Stringer) { _, _ = io.WriteString(f, what.String()) }

// Because returns the error, and wraps the reason too if there is one.
func Because(err, why error) error {
	if why == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, why)
}

// Told returns the text of an event that has a reason, or none.
func Told(event string, why error) string {
	if why == nil {
		return event
	}
	return event + ": " + why.Error()
}

// Validate returns why a recipe cannot begin: the session is nil, or closed, or refuse returns an error. It calls refuse only
// with a session.
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

// CheckPlace is [CheckPath] for the argument that is the path of what the recipe implements. The root is refused too.
func CheckPlace(s *session.Session, argument, path, what string) error {
	err := CheckPath(s, path)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", argument, err)
	case path == "/":
		return fmt.Errorf("%s: %w %q: the root cannot be %s", argument, session.ErrInvalidPath, path, what)
	}
	return nil
}
