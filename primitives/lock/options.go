package lock

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/mark"
	"github.com/zkactors/zkactors/primitives/internal/priority"
	"github.com/zkactors/zkactors/session"
)

// The limits of [Options.Priority].
const (
	LowestPriority  = priority.Lowest
	HighestPriority = priority.Highest
)

// Options are optional parameters for [New] and the functions built on it. A nil
// *Options is equivalent to a zero Options.
type Options struct {
	// Data is stored in the node that stands in line, for [Contenders], for people, and for the
	// error of an [Acquire] behind it whose context ends. The default, nil, is host:pid of the
	// process; data that are empty, but not nil, are nothing.
	Data []byte

	// Layout is how nodes are named. The default is [Standard].
	Layout Layout

	// Priority is what the contender is worth: one of a higher priority goes before all of
	// a lower one that do not hold the lock yet. It is from [LowestPriority] to
	// [HighestPriority], and needs the layout [Prioritized]. The default is 0.
	Priority int

	// Preempt has those of a lower priority who hold the lock asked to release it, as by
	// [Revoke], as soon as nobody else is to go before. It needs the layout [Prioritized].
	// [TryAcquire] asks nobody.
	Preempt bool

	// PreemptAfter is how long they have for that before the lock is taken away from
	// them, with [ErrRevoked]. Zero, the default, leaves it to them. A holder whose node
	// may not be written cannot be asked, and keeps the lock.
	PreemptAfter time.Duration

	// ReleaseInBackground makes [Lock.Release] and [Lock.Close] return at once:
	// the session sees the release through.
	ReleaseInBackground bool
}

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	v.Data = line.Identity(v.Data)
	return v
}

// validate refuses what cannot be done, before any I/O.
func validate(s *session.Session, path string, opts Options) error {
	if s == nil {
		return fmt.Errorf("lock: %w: session is nil", session.ErrInvalidArgument)
	}
	var errs []error
	if err := s.CheckPath(path); err != nil {
		errs = append(errs, fmt.Errorf("lock: path: %w", err))
		path = "/" // the data are checked in any case
	}
	if err := fits(s, path, opts); err != nil {
		errs = append(errs, fmt.Errorf("lock: Options.Data: %w", err))
	}
	if err := opts.Layout.validate(); err != nil {
		errs = append(errs, fmt.Errorf("lock: Options.Layout: %w", err))
	} else {
		errs = append(errs, validatePriority(opts)...)
	}
	if yes, _ := mark.Read(opts.Data); yes {
		errs = append(errs, fmt.Errorf("lock: Options.Data: %w: it reads as a mark of revocation", session.ErrInvalidArgument))
	}
	if _, closed := s.State().(session.Closed); closed {
		errs = append(errs, fmt.Errorf("lock: %w", session.ErrClosed))
	}
	return errors.Join(errs...)
}

// fits reports why the data cannot be sent.
func fits(s *session.Session, path string, opts Options) error {
	set := session.SetOp(path, nil, 0)
	// More than it takes, without a string for the path of the node.
	if s.Fits(session.CreateOp(path, opts.Data, session.EphemeralSequential), session.CheckOp("/"+longestName, 0), set) == nil {
		return nil
	}
	return s.Fits(session.CreateOp(session.Join(path, longestName), opts.Data, session.EphemeralSequential), set)
}

// longestName is at least as long as the name of any contender, but for its number.
const longestName = "_c_00000000-0000-4000-8000-000000000000-p0000-write-"

// validatePriority refuses what is no priority, and priorities where there are none.
func validatePriority(o Options) (errs []error) {
	refuse := func(option, format string, args ...any) {
		errs = append(errs, fmt.Errorf("lock: Options.%s: %w: "+format, append([]any{option, session.ErrInvalidArgument}, args...)...))
	}
	switch {
	case o.Layout != Prioritized && o.Priority != 0:
		refuse("Priority", "%d in the %v layout, which has none: Options.Layout is to be Prioritized", o.Priority, o.Layout)
	case o.Priority < LowestPriority || o.Priority > HighestPriority:
		refuse("Priority", "%d is not from %d to %d", o.Priority, LowestPriority, HighestPriority)
	}
	switch {
	case o.Layout != Prioritized && o.Preempt:
		refuse("Preempt", "there is none in the %v layout: Options.Layout is to be Prioritized", o.Layout)
	case o.PreemptAfter < 0:
		refuse("PreemptAfter", "%v is negative", o.PreemptAfter)
	case o.PreemptAfter > 0 && !o.Preempt:
		refuse("PreemptAfter", "%v without Options.Preempt", o.PreemptAfter)
	}
	return errs
}
