package group

import (
	"fmt"
	"strings"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// Options are optional parameters for [Join]. A nil *Options is equivalent to a zero
// Options.
type Options struct {
	// Layout decides the names of nodes. The default is [Standard].
	Layout Layout

	// ConflictAfter is the time for which a member with the same id counts as a ghost, whose end is
	// waited for. The wait begins anew for another ghost, and after a suspension. The default is
	// twice the timeout of the session. The server does not report the timeouts of other sessions:
	// set ConflictAfter if an earlier version of the process had a longer timeout.
	ConflictAfter time.Duration

	// TakeOver replaces a member with the same id that still stands after ConflictAfter, which is
	// two session timeouts by default, instead of leaving with [ErrDuplicate]. It does not replace
	// a member at once, as the options TakeOver of package discovery and Replace of package naming
	// do. It means nothing once this member has [Joined]. A node that no session owns is no member,
	// and is not replaced.
	TakeOver bool
}

// WatchOptions are optional parameters for [Watch]. A nil *WatchOptions is equivalent
// to a zero WatchOptions.
type WatchOptions struct {
	// Layout is that of the members. The default is [Standard].
	Layout Layout

	// Sync makes the first report at least as new as the call, which costs a round trip.
	Sync bool
}

// validate refuses what cannot be done, before any I/O.
func validate(s *session.Session, path, id string, data []byte, o Options) error {
	return recipe.Check(s, "group", path, func(valid bool) (errs []error) {
		if !valid {
			// neither the id nor the data can be checked
		} else if err := validateID(path, id); err != nil {
			errs = append(errs, fmt.Errorf("group: id: %w", err))
		} else if err := fits(s, path, id, data); err != nil {
			errs = append(errs, fmt.Errorf("group: %w", err))
		}
		errs = append(errs, o.Layout.check(data)...)
		if o.ConflictAfter < 0 {
			errs = append(errs, fmt.Errorf("group: %w: Options.ConflictAfter %v: must not be negative", session.ErrInvalidArgument, o.ConflictAfter))
		}
		return errs
	})
}

func validateID(path, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: it is empty", session.ErrInvalidArgument)
	case strings.Contains(id, "/"):
		return fmt.Errorf("%w: %q has a / in it", session.ErrInvalidArgument, id)
	}
	return session.ValidatePath(znode.Join(path, id))
}

// fits returns why the payload is too large for the requests that contain it.
func fits(s *session.Session, path, id string, data []byte) error {
	node := znode.Join(path, id)
	if err := client.Of(s).Fits(session.DeleteOp(node, 0), session.CreateOp(node, data, session.Ephemeral)); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}
