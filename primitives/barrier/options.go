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
	// NoSync saves [Barrier.Wait] a round trip: the server of the session does not synchronize with
	// its leader first. If that server lags behind, Wait may pass a barrier that was raised through
	// another server a moment before the call, or wait for one that was lifted.
	NoSync bool
}

func validate(s *session.Session, path string) error {
	return client.Validate(recipe, s, func() error { return client.CheckPlace(s, "barrier", "path", path, "a barrier") })
}
