package shard

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// failing are the errors with which reads fail, by path. The other nodes have members.
type failing struct {
	client.Async
	errs map[string]error
}

func (f failing) Get(path string, answer func([]byte, *session.Stat, error)) {
	if err := f.errs[path]; err != nil {
		answer(nil, nil, err)
		return
	}
	answer([]byte("{}"), new(session.Stat), nil)
}

// TestUnreadStranger: a look that cannot read the node of a stranger fails. A stranger that has
// left is no failure.
func TestUnreadStranger(t *testing.T) {
	p := &performer{path: "/s", shards: 4, id: "a"}
	for _, want := range []error{session.ErrDisconnected, nil} {
		requests := failing{errs: map[string]error{p.node(membersNode, "b"): want, p.node(membersNode, "c"): session.ErrNoNode}}
		var got []error
		p.meet(requests, new(sight), []string{"a", "b", "c", "d"}, func(err error) { got = append(got, err) })
		check.EqualSlices(t, got, []error{want}, "answers")
	}
}

// TestEndOfMember: what a member follows ends with it.
func TestEndOfMember(t *testing.T) {
	m, ends := &Member{performer: new(performer)}, 0
	m.performer.owned.Keep(t, owned.Func(func() { ends++ }))
	m.observe(&member{}, nil)
	check.Equal(t, ends, 0, "ends before the end")
	m.observe(&member{over: true}, nil)
	check.Equal(t, ends, 1, "ends after it")
}
