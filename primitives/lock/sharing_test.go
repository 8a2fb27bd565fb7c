package lock

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/priority"
)

// TestLayoutsAgree: in every layout the contenders whose turn it is are those that [nodes.Ahead]
// lets hold.
func TestLayoutsAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for layout := Standard; layout <= Prioritized; layout++ {
		for range 300 {
			var names, guids []string
			var rules []line.Rule
			var want []bool
			var ahead nodes.Ahead
			for i := range 1 + r.IntN(12) {
				kind := Kind(r.IntN(3))
				if layout == Prioritized && kind == Exclusive || r.IntN(2) == 0 {
					kind = Read
				}
				rule := layout.rule(kind)
				if layout == Prioritized {
					rule = priority.New(nil, "/l", priority.Options{Kind: nodes.Kind(kind)}).Recipe().Rule
				}
				guid := fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
				names, guids = append(names, fmt.Sprintf("%s%010d", rule.Name(guid), i)), append(guids, guid)
				rules, want = append(rules, rule), append(want, ahead.Holds(nodes.Kind(kind)))
			}
			for i, rule := range rules {
				p := rule.Locate(line.Snapshot{Names: names}, names[i], guids[i])
				check.True(t, p.Present && (p.Ahead == 0) == want[i], "%v: %q has its turn: %v, want %v", layout, names[:i+1], p.Ahead == 0, want[i])
			}
		}
	}
}
