package claim

import (
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// A server has another's claim, and answers a transaction when the test says so.
type server struct {
	client.Async
	answer func([]session.OpResult, error)
}

func (s *server) Multi(_ []session.Op, answer func([]session.OpResult, error)) { s.answer = answer }

func (*server) Get(_ string, answer func([]byte, *session.Stat, error)) {
	answer([]byte("another"), &session.Stat{}, nil)
}

const (
	guidA = "_c_0000000a-0000-0000-0000-000000000000-"
	guidB = "_c_0000000b-0000-0000-0000-000000000000-"
)

// take begins a claim, and returns the server that is to answer it.
func take(k *Keeper[plain], node string) *server {
	s := &server{}
	k.Take(s, plain{node}, node, false, func(int64, bool, error) {})
	return s
}

// TestTaken: a contender that finds another's claim has none.
func TestTaken(t *testing.T) {
	k := &Keeper[plain]{}
	s := take(k, guidA+"1")
	check.Equal(t, k.Claim(), Claim{Node: guidA + "1"}, "while it is under way")
	s.answer(nil, session.ErrNodeExists)
	check.Equal(t, k.Claim(), Claim{}, "after it was refused")
}

// TestExchanged: the claim goes to the contender that has replaced its own, and to no other.
func TestExchanged(t *testing.T) {
	k := &Keeper[plain]{}
	take(k, guidA+"1").answer([]session.OpResult{{Stat: &session.Stat{Mzxid: 7}}}, nil)
	k.Exchanged(guidB+"1", guidB+"2")
	check.Equal(t, k.Claim(), Claim{Node: guidA + "1", Held: true, Zxid: 7}, "another was replaced")
	k.Exchanged(guidA+"1", guidA+"2")
	check.Equal(t, k.Claim(), Claim{Node: guidA + "2", Held: true, Zxid: 7}, "it was replaced")
}

// TestSettled: only a claim that is under way, of this contender or of one with the prefix, is
// waited for, and only until it is answered.
func TestSettled(t *testing.T) {
	for _, test := range []struct {
		node, prefix string
		waits        bool
	}{
		{guidA + "1", "", true},
		{guidA + "2", guidA, false},
		{guidB + "1", guidB, false},
		{"", guidA, true},
		{"", guidB, false},
	} {
		k := &Keeper[plain]{}
		settled := 0
		ask := func() { k.Settled(test.node, test.prefix, func() { settled++ }) }
		ask()
		check.Equal(t, settled, 1, test, "before")
		s := take(k, guidA+"1")
		ask()
		check.Equal(t, settled == 1, test.waits, test, "while it is under way")
		s.answer(nil, session.ErrNodeExists)
		check.Equal(t, settled, 2, test, "answered")
		ask()
		check.Equal(t, settled, 3, test, "after")
	}
}
