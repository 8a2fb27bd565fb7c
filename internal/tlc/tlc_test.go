package tlc_test

import (
	"testing"
	"testing/fstest"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/tlc"
)

const counter = `---- MODULE Counter ----
EXTENDS Naturals
CONSTANT Most
VARIABLE n
Init == n = 0
Next == n < Most /\ n' = n + 1
Spec == Init /\ [][Next]_n /\ WF_n(Next)
Small == n < 4
Grows == [][n' < 4]_n
Arrives == <>(n = 4)
====
`

// TestVerdicts: TLC tells what holds, what does not, and what it cannot read.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	c := tlc.Require(t)
	modules := fstest.MapFS{
		"Counter.tla": {Data: []byte(counter)},
		"Counter.cfg": {Data: []byte("CONSTANT\n  Most = 3\nSPECIFICATION Spec\nINVARIANTS Small\nPROPERTIES\n")},
	}
	for _, row := range []struct {
		name, violated string
		distinct       int
		set            map[string]string
	}{
		{"holds", "", 4, nil},
		{"an invariant", "Small", 5, map[string]string{"Most": "4"}},
		{"an action", "Grows", 5, map[string]string{"Most": "4", "INVARIANTS": "", "PROPERTIES": "Grows"}},
		{"a temporal property", "a temporal property", 4, map[string]string{"PROPERTIES": "Arrives"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := tlc.Model{Modules: modules, Module: "Counter", Config: "Counter.cfg", Set: row.set}
			r := check.Have(c.Check(t.Context(), t.TempDir(), m))(t)
			check.True(t, r.Violated == row.violated && r.Distinct == row.distinct, "%v\n%s", r, r.Output)
		})
	}
	t.Run("a mistake", func(t *testing.T) {
		t.Parallel()
		m := tlc.Model{Modules: modules, Module: "Counter", Config: "Counter.cfg", Set: map[string]string{"Most": "x y"}}
		_, err := c.Check(t.Context(), t.TempDir(), m)
		check.Is(t, err, tlc.ErrNoResult)
	})
}
