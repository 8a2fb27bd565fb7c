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
	// Sync makes [Value.Get] return the value that other clients had written when it was called:
	// the server is brought up to date with its leader first, which costs a round trip. By default
	// it may be as old as the server is behind, but never older than the values that this session
	// has seen.
	Sync bool

	// Markers is the directory for the markers of writers, which must be allowed to
	// create and delete there. It may be shared by any number of values. The default is
	// _config-markers beside the value.
	Markers string
}

func (o *Options) withDefaults(path string) Options {
	v := client.Options(o)
	if v.Markers == "" {
		v.Markers = defaultMarkers(path)
	}
	return v
}

// defaultMarkers returns the directory of the markers beside a value.
func defaultMarkers(path string) string {
	dir, _ := znode.Split(path)
	return znode.Join(dir, nodes.ConfigMarkers)
}

// validate refuses options that cannot be met, before any I/O.
func validate(s *session.Session, path string, opts *Options) error {
	return client.Validate("config", s, func() error {
		err := client.CheckPlace(s, "config", "path", path, "a value")
		if opts == nil || opts.Markers == "" {
			return err
		}
		if refused := client.CheckPath(s, opts.Markers); refused != nil {
			return errors.Join(err, fmt.Errorf("config: Options.Markers: %w", refused))
		}
		if strings.HasPrefix(opts.Markers+"/", path+"/") {
			return errors.Join(err, fmt.Errorf("config: Options.Markers: %w %q: it must not be the value, or below it", session.ErrInvalidPath, opts.Markers))
		}
		return err
	})
}
