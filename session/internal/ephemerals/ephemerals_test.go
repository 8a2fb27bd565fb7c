package ephemerals

import (
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
