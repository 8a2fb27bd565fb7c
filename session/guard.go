package session

import (
	"errors"
	"fmt"
	"log/slog"
)

// This file is what recipes need of a session beside its requests.

// GuardOp fails a transaction unless there is a node at the path. The error of the transaction
// then wraps why, beside [ErrNoNode]: so a guard that refuses differs from a node that is
// missing.
func GuardOp(path string, why error) Op {
	o := CheckOp(path, AnyVersion)
	o.guards = why
	return o
}

// refused returns the error of an operation that failed its transaction.
func (o Op) refused(err error) error {
	if o.guards == nil || !errors.Is(err, ErrNoNode) {
		return err
	}
	return fmt.Errorf("%w: %w", o.guards, err)
}

// Logger returns that of the session's options. Its records carry the name and the id of the
// session.
func (s *Session) Logger() *slog.Logger { return s.opts.Logger }
