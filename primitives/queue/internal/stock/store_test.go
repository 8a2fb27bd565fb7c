package stock

import (
	"errors"
	"testing"

	"github.com/zkactors/zkactors/session"
)

// TestVersions: what a transaction that was refused says of an item.
func TestVersions(t *testing.T) {
	no := Refused([]session.OpResult{{}, {Err: session.ErrBadVersion}}, session.ErrBadVersion)
	var r *RefusalError
	if !errors.As(no, &r) || r.Index != 1 {
		t.Errorf("%v", no)
	}
	if err := Refused([]session.OpResult{{Err: session.ErrNoNode}}, session.ErrUnknownOutcome); errors.As(err, &r) && session.InDoubt(err) && !errors.Is(err, session.ErrUnknownOutcome) {
		t.Errorf("%v", err)
	}
}
