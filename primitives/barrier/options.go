package barrier

import (
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// DoubleOptions are optional parameters for [NewDouble]. A nil *DoubleOptions is equivalent
// to a zero DoubleOptions.
type DoubleOptions struct {
	// Name names the handle in [Entered]. It must be a valid name of a node. Names need
	// not differ. The default is the ID of the handle, which is random.
	Name string
}

// Options are optional parameters for [New]. A nil *Options is equivalent to a zero Options.
type Options struct {
	// Sync makes [Barrier.Wait] see what others had done when it was called: the server is
	// brought up to date with its leader first, which costs a round trip. By default the
	// first look may be as old as the server is behind.
	Sync bool
}

func validate(s *session.Session, path string) error {
	return client.Validate(recipe, s, func() error { return client.CheckPlace(s, "barrier: path", path, "a barrier") })
}
