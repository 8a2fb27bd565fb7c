package claim

import (
	"errors"
	"testing"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// plain is a claim of one node, whose data names the contender.
type plain struct{ node string }

func (p plain) Take() []session.Op {
	return []session.Op{session.CreateOp("/claim", []byte(p.node), session.Ephemeral)}
}

func (p plain) Refused(_ int, err error) (plain, Verdict) {
	if errors.Is(err, session.ErrNodeExists) {
		return p, Verdict{Next: Look}
	}
	return p, Verdict{Err: err}
}

func (plain) Evidence() []string { return []string{"/claim"} }

func (p plain) Judge(found []Found) (plain, Verdict) {
	switch f := found[0]; {
	case errors.Is(f.Err, session.ErrNoNode):
		return p, Verdict{Next: Take}
	case f.Err != nil:
		return p, Verdict{Err: f.Err}
	case string(f.Data) == p.node:
		return p, Verdict{Zxid: f.Stat.Czxid}
	}
	return p, Verdict{Taken: true}
}

func (plain) Resign(c Claim) []session.Op {
	return []session.Op{session.DeleteOp("/"+c.Node, session.AnyVersion), session.DeleteOp("/claim", c.Version)}
}

func (plain) Remove(node, _ string, _ Claim, claimed bool) session.Removal {
	r := session.Removal{Path: "/" + node}
	if claimed {
		r.Then = &session.Removal{Path: "/claim", Says: func(data []byte) bool { return string(data) == node }}
	}
	return r
}

// TestMachine has a row for each arrow of the diagram in the package comment.
func TestMachine(t *testing.T) {
	unknown := errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)
	found := func(data string, err error) reply {
		return reply{found: []Found{{Data: []byte(data), Stat: &session.Stat{Czxid: 5}, Err: err}}}
	}
	held := Claim{Node: "a", Held: true, Zxid: 5}
	for _, row := range []struct {
		arrow string
		m     machine[plain]
		reply reply
		step  step
		want  Verdict
	}{
		{"made", takes(plain{"a"}, false), reply{zxid: 7, version: 1}, taking, Verdict{Zxid: 7, Version: 1}},
		{"refused", takes(plain{"a"}, false), reply{err: session.ErrNodeExists}, looking, Verdict{Next: Look}},
		{"unknown", takes(plain{"a"}, false), reply{err: unknown}, taking, Verdict{Err: unknown}},
		{"doubted, and ours", takes(plain{"a"}, true), found("a", nil), looking, Verdict{Zxid: 5}},
		{"doubted, and free", takes(plain{"a"}, true), found("", session.ErrNoNode), taking, Verdict{Next: Take}},
		{"doubted, and another's", takes(plain{"a"}, true), found("b", nil), looking, Verdict{Taken: true}},
		{"not to be read", takes(plain{"a"}, true), found("", session.ErrNoAuth), looking, Verdict{Err: session.ErrNoAuth}},
		{"resigned", givesUp(plain{}, "a", "", held, true), reply{}, resigning, Verdict{}},
		{"not resigned", givesUp(plain{}, "a", "", held, true), reply{err: unknown}, removing, Verdict{Next: Take}},
		{"the session is over", givesUp(plain{}, "a", "", held, true), reply{err: session.ErrExpired}, resigning, Verdict{}},
		{"of another contender", givesUp(plain{}, "b", "", held, true), reply{}, removing, Verdict{}},
		{"of several", givesUp(plain{}, "", "a", held, true), reply{}, removing, Verdict{}},
		{"not confirmed", givesUp(plain{}, "a", "", Claim{Node: "a"}, true), reply{}, removing, Verdict{}},
	} {
		next, v := row.m.next(row.reply)
		if next.step != row.step || v.Next != row.want.Next || v.Zxid != row.want.Zxid || v.Version != row.want.Version || v.Taken != row.want.Taken || !errors.Is(v.Err, row.want.Err) {
			t.Errorf("%s: %v, %+v", row.arrow, next.step, v)
		}
	}
}

// A remover is asked for removals alone, and remembers none.
type remover struct{ client.Async }

func (remover) Remove(_ session.Removal, answer func(error)) (cancel func()) {
	answer(nil)
	return func() {}
}

// TestOthersOfAnAttempt: a node that a repeated create has left is removed, and the claim of the
// other one stays.
func TestOthersOfAnAttempt(t *testing.T) {
	const guid = "_c_00000000-0000-0000-0000-000000000000-"
	k := &Keeper[plain]{claim: Claim{Node: guid + "b", Held: true}, tried: guid}
	over := false
	k.GiveUp(remover{}, plain{}, guid+"a", "", func(error) { over = true })
	if !over || k.Claim() != (Claim{Node: guid + "b", Held: true}) {
		t.Errorf("%v, %+v", over, k.Claim())
	}
}
