package queue

import (
	"errors"
	"testing"

	"github.com/zkactors/zkactors/session"
)

// TestVersions: what a transaction that was refused says of an item.
func TestVersions(t *testing.T) {
	no := refused([]session.OpResult{{}, {Err: session.ErrBadVersion}}, session.ErrBadVersion)
	var r *refusal
	if !errors.As(no, &r) || r.index != 1 {
		t.Errorf("%v", no)
	}
	if err := refused([]session.OpResult{{Err: session.ErrNoNode}}, session.ErrUnknownOutcome); errors.As(err, &r) && session.InDoubt(err) && !errors.Is(err, session.ErrUnknownOutcome) {
		t.Errorf("%v", err)
	}
}
