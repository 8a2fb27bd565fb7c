package barrier

import (
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// DoubleOptions are optional parameters for [NewDouble]. A nil *DoubleOptions is equivalent
// to a zero DoubleOptions.
type DoubleOptions struct {
	// Name names the handle in [Entered]. It must be a valid name of a node. Several handles may
	// have the same name. The default is the ID of the handle, which is random.
	Name string
}

// Options are optional parameters for [New]. A nil *Options is equivalent to a zero Options.
type Options struct {
	// Sync makes [Barrier.Wait] see every barrier that was raised or lifted before the call. For
	// that the server first synchronizes with its leader, which costs a round trip. Without Sync,
	// Wait may see an older state, if its server lags behind.
	Sync bool
}

func validate(s *session.Session, path string) error {
	return client.Validate(recipe, s, func() error { return client.CheckPlace(s, "barrier: path", path, "a barrier") })
}
