package naming

import (
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// Options are optional parameters for [Register] and [Keep]. A nil *Options is
// equivalent to a zero Options.
type Options struct {
	// Ephemeral makes the name live with the session, instead of for ever. [Keep]
	// implies it.
	Ephemeral bool

	// Replace takes the name from its owner, at once: once, and not again if an
	// ephemeral name is lost later.
	Replace bool

	// ConflictAfter is the time for which an ephemeral name of another session is taken for a
	// ghost, and waited for, before it is [ErrTaken]; the wait begins anew with every one
	// that comes, and after a suspension. The default is twice the timeout of the session: the
	// server does not tell that of others, so that it must be set where an earlier version of
	// the process had a longer one.
	ConflictAfter time.Duration
}

// validate refuses what cannot be registered, before any I/O.
func validate(s *session.Session, node string, data []byte, o Options) error {
	if o.ConflictAfter < 0 {
		return fmt.Errorf("naming: %w: Options.ConflictAfter %v: must not be negative", session.ErrInvalidArgument, o.ConflictAfter)
	}
	if err := client.Of(s).Fits(session.DeleteOp(node, 0), session.CreateOp(node, data, session.Persistent)); err != nil {
		return fmt.Errorf("naming: data: %w", err)
	}
	return nil
}
