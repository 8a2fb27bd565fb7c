//go:build !race

package commit

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// TestCostFinished: transactions that this site has finished, and others have not, do not slow the
// next one. Its steps copy a word for each when it begins to rest, and nothing before that.
func TestCostFinished(t *testing.T) {
	const many = 1000
	ids := make([]string, many)
	for i := range ids {
		ids[i] = fmt.Sprintf("t%04d", i)
	}
	site := func(listed []string) sitemachine {
		m, _ := standing("").after(siteListed{})
		m, _ = m.after(siteListed{names: listed})
		return m
	}
	life := func(m sitemachine, id string) sitemachine {
		r := &record{ID: id, GUID: "g", Sites: []string{"a", "b"}, Deadline: time.Minute, TakeoverAfter: time.Minute}
		n := name{id, "g"}
		for _, in := range []siteInput{
			siteRead{id: id, rec: r},
			castVote{tx: Tx{id, "g"}, vote: Yes},
			siteAnswered{name: n, task: voting},
			siteRead{id: id, rec: r.With(Outcome{Committed: true})},
			finish{tx: Tx{id, "g"}},
			siteAnswered{name: n, task: finishing, left: 1},
		} {
			m, _ = m.after(in)
		}
		return m
	}
	bytes := func(m sitemachine) uint64 {
		m, _ = m.after(siteListed{names: append([]string{"next"}, ids[:len(m.rested)]...)})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		life(m, "next")
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	full := site(ids)
	for _, id := range ids {
		full = life(full, id)
	}
	if len(full.parts) > 0 || len(full.rested) != many {
		t.Fatalf("%d parts, %d rested", len(full.parts), len(full.rested))
	}
	none, some := bytes(site(nil)), bytes(full)
	t.Logf("%d bytes, and %d with %d transactions left", none, some, many)
	if some > none+4*8*many {
		t.Errorf("%d bytes, and %d with %d transactions left", none, some, many)
	}
}
