package commit

import (
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

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
