package group_test

import (
	"context"
	"errors"

	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/session"
)

// callSites is what users write, and is only to compile.
func callSites(ctx context.Context, s *session.Session, data []byte) error {
	m, err := group.Join(s, "/groups/workers", "host-1", []byte("10.0.0.7:80"), nil)
	if err != nil {
		return err
	}
	for ev := range m.Events() {
		switch ev := ev.(type) {
		case group.Joined:
		case group.MembersChanged:
			_, _, _ = ev.Members, ev.Added, ev.Removed
		case group.Blinded:
		case group.Suspended:
		case group.Resumed:
		case group.Gone:
		case group.Left:
			_ = errors.Is(ev.Err, group.ErrDuplicate)
		}
	}
	err = m.Update(ctx, data)
	g, err2 := group.Watch(s, "/groups/workers", nil)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	for ev := range g.Events() {
		_ = ev.Members
	}
	return nil
}

var _ = callSites
