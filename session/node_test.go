package session

import (
	"math"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// TestOwnerOfContainers: no session owns a container, though ClickHouse Keeper says so with a
// number.
func TestOwnerOfContainers(t *testing.T) {
	for told, want := range map[int64]int64{0: 0, math.MinInt64: 0, 42: 42, -42: -42} {
		check.Equal(t, statOf(&wire.Stat{EphemeralOwner: told}).EphemeralOwner, want)
	}
}
