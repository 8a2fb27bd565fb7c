package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// Options are optional parameters for [Open]. A nil *Options is equivalent to a zero
// Options.
type Options struct {
	// Sync makes [Value.Get] return what others had written when it was called: the
	// server is brought up to date with its leader first, which costs a round trip. By
	// default it may be as old as the server is behind, but never older than what this
	// session has seen.
	Sync bool

	// Markers is the directory for the markers of writers, which must be allowed to
	// create and delete there. It may be shared by any number of values. The default is
	// _config-markers beside the value.
	Markers string
}

func (o *Options) withDefaults(path string) Options {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Markers == "" {
		dir, _ := znode.Split(path)
		v.Markers = znode.Join(dir, nodes.ConfigMarkers)
	}
	return v
}

// validate refuses what cannot be done, before any I/O.
func validate(s *session.Session, path string, opts *Options) error {
	if s == nil {
		return fmt.Errorf("config: %w: session is nil", session.ErrInvalidArgument)
	}
	var errs []error
	switch err := client.CheckPath(s, path); {
	case err != nil:
		errs = append(errs, fmt.Errorf("config: path: %w", err))
	case path == "/":
		errs = append(errs, fmt.Errorf("config: path: %w %q: the root cannot be a value", session.ErrInvalidPath, path))
	}
	if opts != nil && opts.Markers != "" {
		if err := client.CheckPath(s, opts.Markers); err != nil {
			errs = append(errs, fmt.Errorf("config: Options.Markers: %w", err))
		} else if strings.HasPrefix(opts.Markers+"/", path+"/") {
			errs = append(errs, fmt.Errorf("config: Options.Markers: %w %q: it must not be the value, or below it", session.ErrInvalidPath, opts.Markers))
		}
	}
	if _, closed := s.State().(session.Closed); closed {
		errs = append(errs, fmt.Errorf("config: %w", session.ErrClosed))
	}
	return errors.Join(errs...)
}
