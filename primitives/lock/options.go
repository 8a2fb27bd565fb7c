package lock

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/session"
)

// Options are optional parameters for [New] and the functions built on it. A nil
// *Options is equivalent to a zero Options.
type Options struct {
	// Data is stored in the node that stands in line, for [Contenders] and for
	// people to see. The default is nothing.
	Data []byte

	// Layout is how nodes are named. The default is [Standard].
	Layout Layout

	// ReleaseInBackground makes [Lock.Release] and [Lock.Close] return at once:
	// the session sees the release through.
	ReleaseInBackground bool
}

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	v.Data = slices.Clone(v.Data)
	return v
}

// validate refuses what cannot be done, before any I/O.
func validate(s *session.Session, path string, opts Options) error {
	if s == nil {
		return fmt.Errorf("lock: %w: session is nil", session.ErrInvalidArgument)
	}
	var errs []error
	if err := session.ValidatePath(path); err != nil {
		errs = append(errs, fmt.Errorf("lock: path: %w", err))
	}
	if err := opts.Layout.validate(); err != nil {
		errs = append(errs, fmt.Errorf("lock: Options.Layout: %w", err))
	}
	node := session.Join(path, session.GUIDName(session.NewGUID(), longestMark))
	if err := s.Fits(session.CreateOp(node, opts.Data, session.EphemeralSequential), session.SetOp(path, nil, 0)); err != nil {
		errs = append(errs, fmt.Errorf("lock: Options.Data: %w", err))
	}
	if yes, _ := marked(opts.Data); yes {
		errs = append(errs, fmt.Errorf("lock: Options.Data: %w: it reads as a mark of revocation", session.ErrInvalidArgument))
	}
	if _, closed := s.State().(session.Closed); closed {
		errs = append(errs, fmt.Errorf("lock: %w", session.ErrClosed))
	}
	return errors.Join(errs...)
}

// longestMark stands for the mark in a name that is at least as long as any.
const longestMark = "__rlock__"
