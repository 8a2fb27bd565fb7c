package lock

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

func TestUndeliveredEvents(t *testing.T) {
	if ev, ok := presentation.Merge(Waiting{3}, Waiting{2}); !ok || ev != (Waiting{2}) {
		t.Errorf("merged to %v, %v", ev, ok)
	}
	edges := []Event{Acquired{}, Suspended{}, Resumed{}, Revoked{}, Released{}, Lost{}}
	for _, a := range append(edges, Waiting{}) {
		for _, b := range edges {
			if _, ok := presentation.Merge(a, b); ok {
				t.Errorf("%v is merged into %v", b, a)
			}
			if _, ok := presentation.Merge(b, a); ok {
				t.Errorf("%v is merged into %v", a, b)
			}
			_, s := a.(Suspended)
			_, r := b.(Resumed)
			check.Equal(t, presentation.Cancel(a, b), s && r, b, "cancels", a)
		}
	}
}

// TestKeep: what a reader that comes late begins with.
func TestKeep(t *testing.T) {
	all := []Event{Waiting{1}, Acquired{}, Suspended{}, Resumed{}, Revoked{}, Released{}, Lost{}}
	for _, earlier := range all {
		for _, next := range all {
			switch earlier.(type) {
			case Acquired, Suspended, Revoked:
				_, lost := next.(Lost)
				check.Equal(t, keep(earlier, next), earlier != next && !lost, earlier, "before", next)
			case Waiting, Resumed, Released, Lost:
				check.True(t, !keep(earlier, next), "%v stays before %v", earlier, next)
			}
		}
	}
}
