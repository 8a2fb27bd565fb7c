package line

import (
	"errors"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
)

// A contender for a lock with priorities is refused, although the grammar reads its name.
func TestRankedIsAnotherLayout(t *testing.T) {
	const own = "_c_01234567-89ab-4cde-8f01-23456789abcd-write-0000000002"
	rule := First{Grammar: shared, Kind: nodes.Write}
	for name, want := range map[string]bool{
		"_c_11234567-89ab-4cde-8f01-23456789abcd-p1000-write-0000000001":  true,
		"_c_11234567-89ab-4cde-8f01-23456789abcd-p2000-read--2147483648":  true,
		"_c_11234567-89ab-4cde-8f01-23456789abcd-p1000-write-1":           false,
		"_c_11234567-89ab-4cde-8f01-23456789abcd-p10x0-write-0000000001":  false,
		"_c_11234567-89ab-4cde-8f01-23456789abcd-p1000-write-read-000000": false,
		"_c_11234567-89ab-4cde-8f01-23456789abcd-p1":                      false,
		"_c_11234567-89ab-4cde-8f01-23456789abcd-write-0000000001":        false,
		"": false,
	} {
		p := rule.Locate(Snapshot{Names: []string{name, own}}, own, "01234567-89ab-4cde-8f01-23456789abcd")
		check.Equal(t, errors.Is(p.Err, ErrLayout), want, name, "refused:", p.Err)
	}
}

// TestOtherLayout: the error distinguishes contenders of another recipe from those of another
// layout.
func TestOtherLayout(t *testing.T) {
	const lease = "_c_11234567-89ab-4cde-8f01-23456789abcd-lease-0000000001"
	const lock = "_c_11234567-89ab-4cde-8f01-23456789abcd-lock-0000000001"
	for _, row := range []struct {
		own     nodes.Recipe
		name    string
		foreign bool
	}{{nodes.OfLock, lock, false}, {nodes.OfLock, lease, true}, {"", lease, false}} {
		err := OtherLayout(row.own, row.name)
		check.Is(t, err, ErrLayout)
		check.Equal(t, errors.Is(err, nodes.ErrForeign), row.foreign, "to", row.own, "foreign is", row.name)
	}
}
