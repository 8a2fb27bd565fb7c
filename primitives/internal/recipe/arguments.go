package recipe

import (
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// Check is [client.Validate] for a recipe with a path, which is not the root: other recipes have
// their places below that. more, if not nil, checks the other arguments, and Check joins its
// errors. valid says whether the path can be used.
func Check(s *session.Session, name, path string, more func(valid bool) []error) error {
	return validate(s, name, more, func() error { return client.CheckPlace(s, name, "path", path, "the place of a recipe") })
}

// CheckDir is Check for a directory of places, which may be the root.
func CheckDir(s *session.Session, name, path string, more func(valid bool) []error) error {
	return validate(s, name, more, func() error {
		if err := client.CheckPath(s, path); err != nil {
			return fmt.Errorf("%s: path: %w", name, err)
		}
		return nil
	})
}

func validate(s *session.Session, name string, more func(valid bool) []error, place func() error) error {
	return client.Validate(name, s, func() error {
		err := place()
		if more == nil {
			return err
		}
		return errors.Join(err, errors.Join(more(err == nil)...))
	})
}
