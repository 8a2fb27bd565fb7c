package semaphore

import (
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// Options are optional parameters for [New] and the functions built on it. A nil
// *Options is equivalent to a zero Options.
type Options struct {
	// Weight is the part of the limit that the lease takes, all of it or nothing. The default is 1.
	Weight int

	// Numbered gives the lease a number that no other numbered lease has while it is held, the
	// smallest that is free: see [Lease.Number]. It costs two round trips more. Leases without
	// numbers may stand in the same line.
	Numbered bool

	// AnyLimit accepts any recorded limit. Then the argument is used only if there is no record
	// yet. Without AnyLimit, another argument than the recorded limit is [ErrLimit].
	AnyLimit bool

	// Data is stored in the contender's node; [Holders] returns it. The default, nil, is host:pid
	// of the process. Data that is empty, but not nil, stays empty.
	Data []byte

	// ReleaseInBackground makes [Lease.Release] and [Lease.Close] return at once: the session
	// completes the release.
	ReleaseInBackground bool
}

func (o *Options) withDefaults() Options {
	v := client.Options(o)
	if v.Weight == 0 {
		v.Weight = 1
	}
	v.Data = contender.Identity(v.Data)
	return v
}

// validate refuses bad arguments, before any I/O.
func validate(s *session.Session, path string, limit int, opts Options) error {
	if err := validatePlace(s, path); err != nil {
		return err
	}
	var errs []error
	switch {
	case opts.Weight < 1:
		errs = append(errs, fmt.Errorf("semaphore: Options.Weight: %w: %d is not positive", session.ErrInvalidArgument, opts.Weight))
	case opts.Weight > nodes.MaxLimit:
		errs = append(errs, fmt.Errorf("semaphore: Options.Weight: %w: %d is over %d", session.ErrInvalidArgument, opts.Weight, nodes.MaxLimit))
	case opts.Weight > limit && limit > 0 && !opts.AnyLimit:
		errs = append(errs, fmt.Errorf("semaphore: Options.Weight: %w: %d is over the limit, %d", session.ErrInvalidArgument, opts.Weight, limit))
	}
	errs = append(errs, validateLimit(limit))
	node := znode.Join(leasesOf(path), rule(limit, opts).Name(znode.NewGUID()))
	if err := client.Of(s).Fits(session.CreateOp(node, opts.Data, session.EphemeralSequential), session.SetOp(leasesOf(path), nil, 0)); err != nil {
		errs = append(errs, fmt.Errorf("semaphore: Options.Data: %w", err))
	}
	return errors.Join(errs...)
}

func validateLimit(limit int) error {
	switch {
	case limit < 1:
		return fmt.Errorf("semaphore: limit: %w: %d is not positive", session.ErrInvalidArgument, limit)
	case limit > nodes.MaxLimit:
		return fmt.Errorf("semaphore: limit: %w: %d is over %d", session.ErrInvalidArgument, limit, nodes.MaxLimit)
	}
	return nil
}

// validatePlace refuses a path that cannot be a semaphore.
func validatePlace(s *session.Session, path string) error {
	return recipe.Check(s, "semaphore", path, nil)
}
