package commit

import (
	"errors"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/session"
)

// TestRecordOutcome: a Commit is not recorded if a vote on which it rests is not there. A ballot
// that the party may not read is taken for there.
func TestRecordOutcome(t *testing.T) {
	r := &record{ID: "t", GUID: "g", Sites: []string{"a", "b"}}
	commit := verdict{Outcome{Committed: true, By: "a"}, "y-a/Y-b"}
	for _, c := range []struct {
		failed int // the number of the operation
		why    error
		want   error
		asked  string
	}{
		{-1, nil, nil, "4"},
		{0, session.ErrNoNode, session.ErrNoNode, "4"},
		{1, session.ErrBadVersion, session.ErrBadVersion, "4"},
		{1, session.ErrNoAuth, session.ErrNoAuth, "4"},
		{2, session.ErrNoNode, errUndone, "4"},
		{3, session.ErrNoNode, errUndone, "4"},
		{2, session.ErrNoAuth, nil, "4 2"},
		{-1, session.ErrDisconnected, session.ErrDisconnected, "4"},
	} {
		q := &queried{multi: func(ops []session.Op) ([]session.OpResult, error) {
			results := make([]session.OpResult, len(ops))
			if c.failed >= len(ops) {
				return results, nil
			}
			if c.failed >= 0 {
				results[c.failed].Err = c.why
			}
			return results, c.why
		}}
		answers := 0
		recordOutcome(q.Async(0), place{"/tx", "t", "g"}, r, commit, func(err error) {
			if answers++; !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%d, %v: %v", c.failed, c.why, err)
			}
		})
		if asked := strings.Join(q.asked, " "); answers != 1 || asked != c.asked {
			t.Errorf("%d, %v: %d answers, asked %s", c.failed, c.why, answers, asked)
		}
	}
}
