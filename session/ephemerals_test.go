package session

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

func TestEphemeralsAreCounted(t *testing.T) {
	var e ephemerals
	if !e.reserve(maxEphemeralBytes) || e.reserve(1) {
		t.Fatal("the limit is not where it is said to be")
	}
	e.own("/a", 1, nil)
	e.own("/a", 1, nil)
	e.release(maxEphemeralBytes)
	if e.reserve(maxEphemeralBytes) || !e.reserve(maxEphemeralBytes-2) {
		t.Fatal("a node that is owned does not count once")
	}
	e.release(maxEphemeralBytes - 2)
	e.disown("/a")
	e.disown("/a")
	check.Require(t, e.reserve(maxEphemeralBytes), "a node that is gone counts")
}
