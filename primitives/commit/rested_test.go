package commit

import (
	"slices"
	"testing"

	"github.com/zkactors/zkactors/session"
)

// TestBallotsDeletedAtRest: an operator deletes the ballots of an undecided transaction, but not
// its record. A site that was asked rests until the record is gone, and is not asked again:
// whatever was queued when its rest began, a list of the ballots or a timer, does not end it.
func TestBallotsDeletedAtRest(t *testing.T) {
	at := name{"t", "g"}
	var queued []siteInput
	for _, zxid := range []int64{0, 7} {
		queued = append(queued, siteCounted{name: at, zxid: zxid, err: session.ErrNoNode})
	}
	queued = append(queued, siteCounted{name: at}, siteCounted{name: at, names: []string{"s-a", "s-b"}}, siteCounted{name: at, err: session.ErrBusy})
	for clock := range timers {
		queued = append(queued, sitePassed{at, clock})
	}
	for _, first := range queued {
		for _, second := range queued {
			m, _ := standing("").after(siteListed{})
			take := func(in siteInput) (did siteEffects) {
				m, did = m.after(in)
				return did
			}
			r := &record{ID: "t", GUID: "g", Mode: Peer, Sites: []string{"a", "b"}}
			take(siteListed{names: []string{"t"}})
			if did := take(siteRead{id: "t", rec: r}); namesOf(did.Emit) != "prepare;" {
				t.Fatalf("it emits %v", did.Emit)
			}
			if did := take(siteCounted{name: at, err: session.ErrNoNode}); !slices.Contains(did.Do, siteEffect(check{at})) {
				t.Fatalf("it does %v", did.Do)
			}
			take(siteListed{names: []string{"t", "u"}})
			if did := take(siteAnswered{name: at, task: checking, err: session.ErrNoNode}); namesOf(did.Emit) != "forgotten;" {
				t.Fatalf("it emits %v", did.Emit)
			}
			rests := m.String()
			for _, in := range []siteInput{first, second} {
				if did := take(in); len(did.Do)+len(did.Emit) > 0 || m.String() != rests {
					t.Errorf("%T%+v: it does %v, and is %v, want %s", in, in, did.Do, m, rests)
				}
			}
			take(siteListed{names: []string{"t", "u"}})
			if did := take(siteRead{id: "t", rec: r}); len(did.Do)+len(did.Emit) > 0 {
				t.Errorf("after %T%+v and %T%+v it does %v, and emits %v", first, first, second, second, did.Do, did.Emit)
			}
		}
	}
}
