package naming_test

import (
	"context"
	"errors"

	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/session"
)

// callSites is what users write, and is only to compile.
func callSites(ctx context.Context, s *session.Session) error {
	err := naming.Register(ctx, s, "/names", "billing/primary", []byte("10.0.0.7:80"), nil)
	err = errors.Join(err, naming.Register(ctx, s, "/names", "billing/primary", nil, &naming.Options{Ephemeral: true}))
	data, err2 := naming.Lookup(ctx, s, "/names", "billing/primary")
	_, _ = data, errors.Is(err2, naming.ErrNotFound)
	w, err3 := naming.Watch(s, "/names", "billing/primary", nil)
	if err3 == nil {
		for state := range w.Changes() {
			_, _ = state.Exists, state.Data
		}
	}
	return errors.Join(err, err2, err3)
}

var _ = callSites
