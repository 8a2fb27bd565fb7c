package semaphore

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

func TestUndeliveredEvents(t *testing.T) {
	if ev, ok := presentation.Merge(Waiting{3}, Waiting{2}); !ok || ev != (Waiting{2}) {
		t.Errorf("merged to %v, %v", ev, ok)
	}
	edges := []Event{Acquired{}, Suspended{}, Resumed{}, Released{}, Lost{}}
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
			_, acquired := a.(Acquired)
			_, lost := b.(Lost)
			_, again := b.(Acquired)
			check.Equal(t, presentation.Keep(a, b), acquired && !lost && !again, b, "keeps", a)
		}
	}
}
