package recipe

import (
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// Check is [client.Validate] for a recipe with a path. more, if not nil, checks the other
// arguments, and Check joins its errors. valid says whether the path can be used.
func Check(s *session.Session, name, path string, more func(valid bool) []error) error {
	return client.Validate(name, s, func() error {
		var errs []error
		err := client.CheckPath(s, path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: path: %w", name, err))
		}
		if more != nil {
			errs = append(errs, more(err == nil)...)
		}
		return errors.Join(errs...)
	})
}
