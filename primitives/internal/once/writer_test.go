package once

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// TestEnter: what waits for an epoch begins once, with the first that comes.
func TestEnter(t *testing.T) {
	w, begun := &Writer{}, []int(nil)
	w.makes = append(w.makes, func(epoch int, err error) {
		check.OK(t, err, "the epoch")
		begun = append(begun, epoch)
	})
	w.enter(3, nil)
	w.enter(4, nil)
	check.EqualSlices(t, begun, []int{3}, "it begins in the epochs")
}

// TestNoteBare: that a client may make no markers is reported once, and the writer goes on.
func TestNoteBare(t *testing.T) {
	var reasons []error
	w := &Writer{}
	w.Bare = func(reason error) { reasons = append(reasons, reason) }
	w.noteBare(session.ErrNoAuth)
	w.noteBare(session.ErrNoAuth)
	check.EqualSlices(t, reasons, []error{session.ErrNoAuth}, "reported")
	check.True(t, w.bare, "it writes without markers")
}
