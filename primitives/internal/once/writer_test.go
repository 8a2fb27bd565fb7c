package once

import (
	"errors"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
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

// A guarded server lets nobody make the directory of the markers.
type guarded struct {
	client.Async
	err error
}

func (g guarded) EnsurePath(_ string, answer func(bool, error)) { answer(false, g.err) }

// TestGuardedDirectory: a client that may not make the directory of the markers writes without
// them. Any other failure says nothing about that.
func TestGuardedDirectory(t *testing.T) {
	for _, reason := range []error{session.ErrNoAuth, session.ErrDisconnected} {
		w := &Writer{Bare: func(error) {}}
		a := &attempts{of: w, requests: guarded{err: reason}}
		var told []Input
		a.perform(Ensure{}, func(in Input) { told = append(told, in) })
		check.Equal(t, w.bare, errors.Is(reason, session.ErrNoAuth), "it writes without markers after", reason)
		check.EqualSlices(t, told, []Input{Ensured{reason}}, "told")
	}
}
