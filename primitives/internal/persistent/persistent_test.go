package persistent

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSettle: what is known of a write whose reply was lost, from what stands there.
func TestSettle(t *testing.T) {
	stat := func(czxid int64, version int32, owner int64) *session.Stat {
		return &session.Stat{Czxid: czxid, Version: version, EphemeralOwner: owner}
	}
	const same, other, replace, meek = true, false, true, false
	for what, c := range map[string]struct {
		before, now   *session.Stat
		same, replace bool
		want          error // nil: nothing was done
	}{
		"a create that was not done":           {nil, nil, other, meek, nil},
		"that was":                             {nil, stat(9, 0, 0), same, meek, errStands},
		"and changed by another":               {nil, stat(9, 1, 0), other, meek, ErrTaken},
		"into the same":                        {nil, stat(9, 1, 0), same, meek, ErrTaken},
		"which is as good for a replacement":   {nil, stat(9, 1, 0), same, replace, errStands},
		"and for the same that goes":           {nil, stat(9, 0, 5), same, meek, ErrTaken},
		"which is to be replaced":              {nil, stat(9, 0, 5), same, replace, session.ErrUnknownOutcome},
		"that another was faster with, or not": {nil, stat(9, 0, 0), other, replace, session.ErrUnknownOutcome},
		"a set that was not done":              {stat(9, 3, 0), stat(9, 3, 0), other, replace, nil},
		"that was done":                        {stat(9, 3, 0), stat(9, 4, 0), same, replace, errStands},
		"that another was faster with":         {stat(9, 3, 0), stat(9, 4, 0), other, replace, nil},
		"or later":                             {stat(9, 3, 0), stat(9, 5, 0), other, replace, session.ErrUnknownOutcome},
		"of a name that was removed":           {stat(9, 3, 0), nil, other, replace, session.ErrUnknownOutcome},
		"and registered anew":                  {stat(9, 3, 0), stat(10, 3, 0), other, replace, session.ErrUnknownOutcome},
		"a taking that was not done":           {stat(9, 1, 5), stat(9, 1, 5), other, replace, nil},
		"when it had been changed":             {stat(9, 1, 5), stat(9, 7, 5), same, replace, nil},
		"that was done, too":                   {stat(9, 1, 5), stat(10, 0, 0), same, replace, errStands},
		"by another":                           {stat(9, 1, 5), stat(10, 1, 6), same, replace, session.ErrUnknownOutcome},
		"of one that went":                     {stat(9, 1, 5), nil, other, replace, session.ErrUnknownOutcome},
	} {
		err := settle(c.before, c.now, c.same, c.replace)
		check.False(t, !errors.Is(err, c.want) || errors.Is(err, ErrTaken) && !errors.Is(err, session.ErrUnknownOutcome), "%s: %v, want %v", what, err, c.want)
	}
}
