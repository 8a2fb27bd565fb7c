package recipe

import (
	"context"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// Vacant answers with an error that wraps [nodes.ErrForeign] if the path belongs to another recipe
// than own, by its children or by its data. The data is read if there is any.
func Vacant(requests client.Async, path string, own nodes.Recipe, answer func(error)) {
	requests.Roomy().Children(path, func(names []string, stat *session.Stat, err error) {
		if err == nil {
			err = nodes.Foreign(own, names)
		}
		if err != nil || stat.DataLength == 0 {
			answer(client.Without(err, session.ErrNoNode))
			return
		}
		requests.Roomy().Get(path, func(data []byte, _ *session.Stat, err error) {
			answer(ofOthers(data, err))
		})
	})
}

// AwaitVacant is [Vacant], and returns the answer. A request that fails with a passing error is
// repeated.
func AwaitVacant(ctx context.Context, s *session.Session, path string, own nodes.Recipe) error {
	names, stat, err := s.Children(ctx, path)
	if err == nil {
		err = nodes.Foreign(own, names)
	}
	if err != nil || stat.DataLength == 0 {
		return client.Without(client.Without(err, session.ErrNoNode), session.ErrTooLarge)
	}
	data, _, err := s.Get(ctx, path)
	return ofOthers(data, err)
}

// ofOthers returns an error if the data that was read is the record of a recipe.
func ofOthers(data []byte, err error) error {
	if err == nil && nodes.Owner(data) != "" {
		err = nodes.ForeignData(data)
	}
	return client.Without(err, session.ErrNoNode)
}
