package fifo

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
)

// TestQueue compares a queue with a slice. Long runs of one kind let it grow and become empty.
func TestQueue(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 0))
	var q Queue[*int]
	var want []*int
	for range 300 {
		most := []int{3, 100, 3 * maxKept}[dice.IntN(3)]
		for range dice.IntN(most) {
			v := new(int)
			q.Push(v)
			want = append(want, v)
		}
		if dice.IntN(10) == 0 && len(want) > 0 {
			want = slices.Clone(want[1:])
			q.Set(want)
			want = slices.Clone(want)
		}
		for range min(dice.IntN(most), q.Len()) {
			check.Equal(t, q.Pop(), want[0], "not the oldest")
			want = want[1:]
		}
		check.Require(t, q.Len() == len(want) && slices.Equal(q.All(), want), "%d items, want %d", q.Len(), len(want))
		if used := q.items[:cap(q.items)]; slices.ContainsFunc(used[:q.head], func(v *int) bool { return v != nil }) {
			t.Fatal("an item that was taken is kept")
		}
	}
	for q.Len() > 0 {
		q.Pop()
	}
	check.AtMost(t, cap(q.items), maxKept, "an empty queue has room for")
}
