package stock

import (
	"errors"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// TestVersions: what a transaction that was refused says of an item.
func TestVersions(t *testing.T) {
	var r *RefusalError
	err := Refused([]session.OpResult{{}, {Err: session.ErrBadVersion}}, session.ErrBadVersion)
	check.True(t, errors.As(err, &r) && r.Index == 1, "%v", err)
	err = Refused([]session.OpResult{{Err: session.ErrNoNode}}, session.ErrUnknownOutcome)
	check.Is(t, err, session.ErrUnknownOutcome)
}
