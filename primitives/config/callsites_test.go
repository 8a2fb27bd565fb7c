package config_test

import (
	"context"

	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/session"
)

// This file holds the promised call sites. It need only compile.

var _ = func(ctx context.Context, s *session.Session) error {
	type Limits struct{ Exports int }
	v, err := config.Open(s, "/config/limits", config.JSON[Limits], nil)
	if err != nil {
		return err
	}
	defer v.Close()
	limits, version, err := v.Get(ctx)
	if err != nil {
		return err
	}
	_ = version
	err = v.Set(ctx, limits)
	if err != nil {
		return err
	}
	err = v.Update(ctx, func(old Limits) (Limits, error) { return old, nil })
	for ev := range v.Events() {
		switch ev := ev.(type) {
		case config.Changed[Limits]:
			_, _ = ev.Value, ev.Version
		case config.Deleted:
		case config.Invalid:
			_ = ev.Err
		case config.Closed:
		}
	}
	return err
}
