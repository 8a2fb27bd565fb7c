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
	// Ephemeral makes the name live as long as the session. [Keep] implies it.
	Ephemeral bool

	// Replace takes the name from its owner, without a wait. It does so once, and not again if an
	// ephemeral name is lost later.
	Replace bool

	// ConflictAfter is the time for which an ephemeral name of another session counts as a ghost.
	// The registration waits for the end of the ghost, before it fails with [ErrTaken]. The wait
	// begins anew for another ghost, and after a suspension. The default is twice the timeout of
	// the session. The server does not report the timeouts of other sessions: set ConflictAfter if
	// an earlier version of the process had a longer one.
	ConflictAfter time.Duration
}

// validate refuses options and data that cannot be used, before any I/O.
func validate(s *session.Session, node string, data []byte, o Options) error {
	if o.ConflictAfter < 0 {
		return fmt.Errorf("naming: %w: Options.ConflictAfter %v: must not be negative", session.ErrInvalidArgument, o.ConflictAfter)
	}
	if err := client.Of(s).Fits(session.DeleteOp(node, 0), session.CreateOp(node, data, session.Persistent)); err != nil {
		return fmt.Errorf("naming: data: %w", err)
	}
	return nil
}
