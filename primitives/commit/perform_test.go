package commit

import (
	"testing"

	"github.com/zkactors/zkactors/primitives/internal/owned"
)

// TestReread: a site that reads the record once more learns its version, without which it could not
// finish.
func TestReread(t *testing.T) {
	r := &record{ID: "t", GUID: "g", Sites: []string{"a"}}
	q := &queried{answer: func(string) ([]string, []byte, error) { return nil, r.Bytes(), nil }}
	var got siteAnswered
	p := &Participant{session: q, parent: "/tx", site: "a"}
	p.perform(reread{thisName}, func(in siteInput) { got = in.(siteAnswered) })
	q.open[0]()
	if got.task != rereading || got.rec == nil || got.version != 1 {
		t.Errorf("%+v", got)
	}
}

// TestUnfollow: a coordinator that knows the outcome follows nothing more, and no timer runs.
func TestUnfollow(t *testing.T) {
	tx, cancelled := newTransaction(&queried{}, "/tx", &record{ID: "t", GUID: "g"}, "c"), 0
	all := []any{ballotsKey{}, sitesKey{}, deadlineKey{}, absenceKey{}}
	for _, key := range all {
		tx.owned.Keep(key, owned.Func(func() { cancelled++ }))
	}
	tx.perform(unfollow{}, nil)
	if cancelled != len(all) {
		t.Errorf("%d of %d were cancelled", cancelled, len(all))
	}
}
