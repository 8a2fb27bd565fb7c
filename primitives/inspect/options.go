package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// Options are optional parameters for [Look] and [Watch]. A nil *Options is equivalent to a zero
// Options.
type Options struct {
	// MaxNodes bounds how many nodes a survey reads. The default is 50,000.
	MaxNodes int

	// MaxWaiters bounds how many waiters of a line are read: the first. [Thing.Line] counts all.
	// The default is 0: no bound.
	MaxWaiters int

	// MaxWatched bounds the watches that [Watch] keeps. Nodes beyond are read again every five
	// seconds. The default is 5,000.
	MaxWatched int

	// Window bounds how many reads are under way at once. The default is 128.
	Window int

	// Pause is the time for which [Watch] gathers changes before it reads them. It is longer by 5
	// µs for each node of the last survey, and by 50 µs for each name in the directories with more
	// than 64 names that the last survey has read. The default is 250 ms.
	Pause time.Duration
}

func (o *Options) withDefaults() Options {
	v := client.Options(o)
	v.MaxNodes = cmp.Or(v.MaxNodes, 50_000)
	v.MaxWatched = cmp.Or(v.MaxWatched, 5_000)
	v.Window = cmp.Or(v.Window, 128)
	v.Pause = cmp.Or(v.Pause, 250*time.Millisecond)
	return v
}

// validate refuses bad arguments, before any I/O.
func validate(s *session.Session, path string, o Options) error {
	return client.Validate("inspect", s, func() error { return o.validate(path) })
}

// validate returns an error for each option that is negative, and for a path that is malformed.
func (o *Options) validate(path string) error {
	var errs []error
	if err := session.ValidatePath(path); err != nil {
		errs = append(errs, fmt.Errorf("inspect: path: %w", err))
	}
	for name, n := range map[string]int{
		"MaxNodes": o.MaxNodes, "MaxWaiters": o.MaxWaiters, "MaxWatched": o.MaxWatched, "Window": o.Window, "Pause": int(min(o.Pause, 0)),
	} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("inspect: %w: Options.%s is negative", session.ErrInvalidArgument, name))
		}
	}
	return errors.Join(errs...)
}
