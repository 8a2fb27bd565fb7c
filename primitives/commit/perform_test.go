package commit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
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

// A queried session keeps requests until the test has them answered, one after another.
type queried struct {
	client.Session

	asked  []string // all requests, in order
	open   []func() // the requests that are not answered
	most   int      // of them at once
	answer func(what string) (names []string, data []byte, err error)
	multi  func(ops []session.Op) ([]session.OpResult, error)
}

// A query makes requests in a queried session.
type query struct {
	client.Async

	of *queried
}

func (q *queried) Async(int) client.Async { return query{of: q} }
func (q query) Roomy() client.Async       { return q }

func (q query) Sync(path string, answer func(error)) {
	q.ask("sync "+path, func([]string, []byte, error) { answer(nil) })
}

func (q query) Children(path string, answer func([]string, *session.Stat, error)) {
	q.ask("list "+path, func(names []string, _ []byte, err error) { answer(names, nil, err) })
}

func (q query) Get(path string, answer func([]byte, *session.Stat, error)) {
	q.ask("read "+path, func(_ []string, data []byte, err error) { answer(data, &session.Stat{Version: 1}, err) })
}

func (q query) ask(what string, answer func([]string, []byte, error)) {
	q.of.asked = append(q.of.asked, what)
	q.of.open = append(q.of.open, func() { answer(q.of.answer(what)) })
	q.of.most = max(q.of.most, len(q.of.open))
}

func (q query) Multi(ops []session.Op, answer func([]session.OpResult, error)) {
	q.of.asked = append(q.of.asked, fmt.Sprint(len(ops)))
	answer(q.of.multi(ops))
}
