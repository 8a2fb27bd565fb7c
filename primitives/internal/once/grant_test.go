package once

import (
	"errors"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// TestAnOldWriteKeepsYoungerMarkers: a write of an epoch that is over does not forget the marker of
// the present one, which Close would not remove then.
func TestAnOldWriteKeepsYoungerMarkers(t *testing.T) {
	w := Writer{Closed: errors.New("closed")}
	w.free = []Marker{{Node: "/m/2", Epoch: 2}}
	got := w.grant(Write{Epoch: 1})
	check.True(t, got.Marker.Node == "", "granted %v", got.Marker)
	check.True(t, len(w.free) == 1, "free: %v", w.free)
}
