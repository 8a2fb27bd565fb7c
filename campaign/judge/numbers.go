package judge

import (
	"slices"
	"strconv"

	"github.com/zkactors/zkactors/campaign/history"
)

// Numbers checks that each number of a lease is from 0 and less than the limit, and that no two
// leases have the same one at once, as far as holders can see. After the first deletion by an
// operator only the range is judged: a holder that has lost the node of its number may delete that
// of the next.
func Numbers(h *history.History) []Violation {
	v := verdict{check: "Numbers"}
	all := tenuresOf(h)
	for _, p := range places(all) {
		byNumber := make(map[int][]*tenure)
		for _, t := range all[p] {
			if t.grant.Result == "" {
				continue
			}
			number, err := strconv.Atoi(t.grant.Result)
			if err != nil || number < 0 || number >= t.grant.Limit {
				v.add(p.recipe, p.path, "%s has the number %q, with a limit of %d", describe(t), t.grant.Result, t.grant.Limit)
				continue
			}
			byNumber[number] = append(byNumber[number], t)
		}
		for _, number := range sortedKeys(byNumber) {
			v.twice(h, p, number, byNumber[number])
		}
	}
	return v.all
}

// twice adds leases that have a number while another has it.
func (v *verdict) twice(h *history.History, p place, number int, all []*tenure) {
	slices.SortFunc(all, func(a, b *tenure) int { return a.grant.Return.Compare(b.grant.Return) })
	for i, next := range all {
		if slices.ContainsFunc(h.Faults, func(f history.Fault) bool { return meddles(f, p.path) && f.At.Before(next.grant.Return) }) {
			return
		}
		for _, former := range all[:i] {
			if !former.excused && (!former.over || next.grant.Return.Before(former.from)) {
				v.add(p.recipe, p.path, "%s has the number %d, which %s has", describe(next), number, describe(former))
			}
		}
	}
}
