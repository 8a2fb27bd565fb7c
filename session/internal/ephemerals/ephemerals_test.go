package ephemerals

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

func TestEphemeralsAreCounted(t *testing.T) {
	var e Count
	check.Require(t, e.Reserve(mostBytes) && !e.Reserve(1), "the limit is not where it is said to be")
	e.Own("/a", 1, nil)
	e.Own("/a", 1, nil)
	e.Release(mostBytes)
	check.Require(t, !e.Reserve(mostBytes) && e.Reserve(mostBytes-2), "a node that is owned does not count once")
	e.Release(mostBytes - 2)
	e.Disown("/a")
	e.Disown("/a")
	check.Require(t, e.Reserve(mostBytes), "a node that is gone counts")
}

// TestGhosts: a node is a ghost if it is neither owned nor in doubt. There is none when doubts are
// too many to keep.
func TestGhosts(t *testing.T) {
	var e Count
	check.True(t, !e.Made(), "made")
	e.Own("/owned", 1, Confirmed)
	check.True(t, e.Made(), "nothing made")
	e.Own("/deleted", 2, Confirmed)
	e.Disown("/deleted")
	e.Own("/missed", 3, Confirmed)
	e.Miss("/missed")
	e.Doubt(slices.Values([]string{"/doubt", "/doubt-"}))
	e.Miss("/doubt") // the server may be late
	all := []string{"/a", "/owned", "/deleted", "/missed", "/doubt", "/doubt-0000000001"}
	check.EqualSlices(t, e.Ghosts(all), []string{"/a", "/deleted", "/missed"}, "ghosts")
	e.Disown("/doubt-0000000001")
	check.EqualSlices(t, e.Ghosts(all), []string{"/a", "/deleted", "/missed", "/doubt-0000000001"}, "ghosts")
	check.EqualSlices(t, e.Gone(), []string{"/deleted", "/missed", "/doubt-0000000001"}, "gone")
	for i := range mostGone {
		path := fmt.Sprint("/n", i)
		e.Own(path, 4, Confirmed)
		e.Disown(path)
	}
	gone := e.Gone()
	check.True(t, len(gone) == mostGone && slices.Contains(gone, "/n0") && !slices.Contains(gone, "/missed"), "%v", gone)
	for i := range mostDoubts {
		e.Doubt(slices.Values([]string{fmt.Sprint("/d", i)}))
	}
	check.EqualSlices(t, e.Ghosts(all), nil, "ghosts among too many doubts")
}
