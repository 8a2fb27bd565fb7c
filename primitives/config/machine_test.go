package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

var (
	errLost        = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrDisconnected)
	errLostForEver = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrExpired)
)

func fresh() machine[string] { return newMachine(watch.Text()) }

func reading(zxid, czxid, mzxid int64, version int32, data string) read {
	return read{session.Reading{Zxid: zxid, Data: []byte(data), Stat: &session.Stat{Czxid: czxid, Mzxid: mzxid, Version: version}}}
}

func nothing(zxid int64) read { return read{session.Reading{Zxid: zxid}} }

// script plays inputs, and returns what the last one leads to.
func script(m machine[string], ins ...input) (machine[string], effects) {
	var out effects
	for _, in := range ins {
		m, out = m.Step(in)
	}
	return m, out
}

// describe writes effects down.
func describe(out effects) string {
	var all []string
	for _, e := range out.Do {
		switch e := e.(type) {
		case put:
			marker := "make"
			if e.stands {
				marker = fmt.Sprint(e.seen)
			}
			all = append(all, fmt.Sprintf("put@%d %v marker=%s", e.epoch, e.write, marker))
		case look:
			all = append(all, fmt.Sprintf("look@%d #%d", e.epoch, e.n))
		case ensure:
			all = append(all, fmt.Sprintf("ensure@%d markers=%v", e.epoch, e.markers))
		case withdraw:
			all = append(all, fmt.Sprintf("withdraw@%d", e.epoch))
		case answer:
			all = append(all, fmt.Sprintf("answer %v", e.err))
		case confirm:
			all = append(all, fmt.Sprintf("confirm %v", e.done))
		case follow:
			all = append(all, "follow")
		case unfollow:
			all = append(all, "unfollow")
		}
	}
	for _, ev := range out.Emit {
		all = append(all, "* "+ev.String())
	}
	return strings.Join(all, "; ")
}

func TestRows(t *testing.T) {
	at := attempt{1, 1}
	set := submit{write{always: true, version: session.AnyVersion}}
	update := submit{write{version: 5}}
	begun := slices.Clip([]input{connected{1}, update})
	marked := []input{connected{1}, set, wrote{attempt: at}, update} // #2, and a marker with version 0
	second := attempt{1, 2}
	for _, row := range []struct {
		danger string
		before []input
		in     input
		want   string
	}{
		{"wait for a session", nil, set, ""},
		{"the marker is made by the first write", []input{set}, connected{1}, "put@1 set#1 marker=make"},
		{"and written to by the second", marked[:3], update, "put@1 update=5#2 marker=0"},
		{"a reply that is lost is no answer", begun, wrote{attempt: at, err: errLost}, "look@1 #1"},
		{"do not write twice what was done", append(begun, wrote{attempt: at, err: errLost}), looked{attempt: at, exists: true, n: 1}, "answer <nil>"},
		{"do again what was not", append(begun, wrote{attempt: at, err: errLost}), looked{attempt: at}, "put@1 update=5#1 marker=make"},
		{"the marker tells of the write before", append(marked, wrote{attempt: second, err: errLost}), looked{attempt: second, exists: true, n: 1}, "put@1 update=5#2 marker=0"},
		{"a marker that is gone proves nothing", append(marked, wrote{attempt: second, err: errLost}), looked{attempt: second}, "answer outcome unknown: our marker was deleted by somebody else"},
		{"nobody can know", begun, wrote{attempt: at, err: errLostForEver}, "answer outcome unknown: session expired"},
		{"the epoch ended while we looked", append(begun, wrote{attempt: at, err: errLost}), looked{attempt: at, err: session.ErrExpired}, "answer outcome unknown: session expired"},
		{"do not look in another epoch", append(begun, expired{1}, connected{2}), wrote{attempt: at, err: errLost}, "answer outcome unknown: connection lost"},
		{"what was never sent is sent in the next epoch", append(begun, expired{1}, connected{2}), wrote{attempt: at, err: session.ErrExpired}, "put@2 update=5#1 marker=make"},
		{"but not before that has begun", append(begun, expired{1}), wrote{attempt: at, err: session.ErrExpired}, ""},
		{"one that was thought lost has come", append(begun, wrote{attempt: at, err: errLost}, looked{attempt: at}), wrote{attempt: at, err: session.ErrNodeExists, marker: true}, "look@1 #1"},
		{"likewise, with a marker", marked, wrote{attempt: second, err: session.ErrBadVersion, marker: true}, "look@1 #2"},
		{"there is no directory for markers", begun, wrote{attempt: at, err: session.ErrNoNode, marker: true}, "ensure@1 markers=true"},
		{"somebody deleted our marker", marked, wrote{attempt: second, err: session.ErrNoNode, marker: true}, "put@1 update=5#2 marker=make"},
		{"an update of what is gone is not the creation of it", begun, wrote{attempt: at, err: session.ErrNoNode}, "answer " + errConflict.Error()},
		{"somebody was faster", begun, wrote{attempt: at, err: session.ErrBadVersion}, "answer " + errConflict.Error()},
		{"set makes the node", []input{connected{1}, set}, wrote{attempt: at, err: session.ErrNoNode}, "put@1 set+#1 marker=make"},
		{"and what is above it", []input{connected{1}, set, wrote{attempt: at, err: session.ErrNoNode}}, wrote{attempt: at, err: session.ErrNoNode}, "ensure@1 markers=false"},
		{"unless somebody else did", []input{connected{1}, set, wrote{attempt: at, err: session.ErrNoNode}}, wrote{attempt: at, err: session.ErrNodeExists}, "put@1 set#1 marker=make"},
		{"one write at a time", begun, set, ""},
		{"the marker of a write under way is removed after it", begun, leave{}, "unfollow"},
		{"which is still answered", append(begun, leave{}), wrote{attempt: at}, "answer <nil>; withdraw@1"},
		{"also when its reply is lost", append(begun, leave{}), wrote{attempt: at, err: errLost}, "look@1 #1"},
		{"but it is not repeated", append(begun, leave{}, wrote{attempt: at, err: errLost}), looked{attempt: at}, "answer config handle closed; withdraw@1"},
		{"the end comes after the marker's", append(begun, leave{}, wrote{attempt: at}), withdrawn{1}, "* closed"},
		{"who has not written leaves at once", []input{connected{1}}, leave{}, "unfollow; * closed"},
		{"a closed session has no markers", marked[:3], closed{}, "unfollow; * closed: session closed"},
		{"nor has an expired one", append(marked[:3:3], expired{1}), leave{}, "unfollow; * closed"},
		{"an answer from the past", append(begun, wrote{attempt: at, err: session.ErrBadVersion}, update), wrote{attempt: at}, ""},
		{"take back what was not sent", append(begun, wrote{attempt: at, err: session.ErrExpired}, expired{1}), forget{}, "confirm false"},
		{"take back what waits for a session", []input{set}, forget{}, "confirm true"},
		{"an error about a marker of the past", append(begun, expired{1}, connected{2}), wrote{attempt: at, err: session.ErrNodeExists, marker: true}, "put@2 update=5#1 marker=make"},
		{"a marker of the past that is gone proves nothing", append(begun, wrote{attempt: at, err: errLost}, expired{1}, connected{2}), looked{attempt: at}, "answer outcome unknown: session expired"},
		{"a marker of the past is not that of the present", []input{connected{1}, set, expired{1}, connected{2}, wrote{attempt: at}}, update, "put@2 update=5#2 marker=make"},
		{"old news of an expiry", []input{connected{2}, set, wrote{attempt: attempt{2, 1}}, expired{1}}, update, "put@2 update=5#2 marker=0"},
		{"the epoch ended before the directory was made", append(begun, wrote{attempt: at, err: session.ErrNoNode, marker: true}, expired{1}, connected{2}), ensured{at, session.ErrExpired}, "put@2 update=5#1 marker=make"},
		{"it cannot be made", append(begun, wrote{attempt: at, err: session.ErrNoNode, marker: true}), ensured{at, session.ErrNoAuth}, "answer not authorized"},
		{"the session is closed while the marker is removed", append(begun, leave{}, wrote{attempt: at}), closed{}, "* closed"},
		{"an older reading", []input{reading(9, 1, 9, 3, "new")}, reading(8, 1, 8, 2, "old"), ""},
		{"the same once more", []input{reading(9, 1, 9, 3, "new")}, reading(10, 1, 9, 3, "new"), ""},
		{"made again, with the same version", []input{reading(9, 1, 1, 0, "a")}, reading(12, 11, 11, 0, "a"), "* changed version=0"},
		{"there has never been one", nil, nothing(3), "* deleted"},
		{"that is told once", []input{nothing(3)}, nothing(4), ""},
		{"follow in the next epoch", nil, unfollowed{session.ErrExpired}, "follow"},
		{"or give up", nil, unfollowed{session.ErrNoAuth}, "unfollow; * closed: not authorized"},
		{"nothing is told after the end began", append(begun, leave{}), reading(9, 1, 9, 3, "new"), ""},
	} {
		m, _ := script(fresh(), row.before...)
		next, out := m.Step(row.in)
		if got := describe(out); got != row.want {
			t.Errorf("%s:\n%v\n%T\n-> %v\n%s\nwant %s", row.danger, m, row.in, next, got, row.want)
		}
	}
}

// TestEveryInputInEveryState goes through all states of a handle with up to two writes,
// and gives every input in each, possible or not.
func TestEveryInputInEveryState(t *testing.T) {
	type node struct {
		m       machine[string]
		pending int // writes without an answer
		gone    bool
	}
	var inputs []input
	for epoch := 1; epoch <= 2; epoch++ {
		inputs = append(inputs, connected{epoch}, expired{epoch}, withdrawn{epoch})
		for n := 1; n <= 2; n++ {
			at := attempt{epoch, n}
			for _, err := range []error{
				nil, session.ErrNoNode, session.ErrNodeExists, session.ErrNoAuth, session.ErrExpired, session.ErrDisconnected, errLost, errLostForEver,
			} {
				inputs = append(inputs, wrote{attempt: at, err: err}, wrote{attempt: at, err: err, marker: err != nil}, looked{attempt: at, err: err}, ensured{at, err})
			}
			inputs = append(inputs, looked{attempt: at, exists: true, n: 1}, looked{attempt: at, exists: true, n: 2})
		}
	}
	inputs = append(inputs, leave{}, closed{}, forget{}, unfollowed{session.ErrExpired}, unfollowed{session.ErrNoAuth},
		submit{write{always: true}}, submit{write{version: 1}})
	todo := []node{{m: fresh()}}
	seen := map[string]bool{}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, in := range inputs {
			if _, more := in.(submit); more && at.m.n == 2 {
				continue
			}
			next := at
			var out effects
			next.m, out = at.m.Step(in)
			fail := func(what string) { t.Fatalf("%s:\n%v\n%T%+v\n%v\n%s", what, at.m, in, in, next.m, describe(out)) }
			if at.m.Ended() && (describe(out) != "" || next.m.String() != at.m.String()) {
				fail("it goes on after its end")
			}
			if _, more := in.(submit); more && !at.m.Ended() {
				next.pending++
			}
			asked := 0
			for _, e := range out.Do {
				switch e := e.(type) {
				case put, look, ensure:
					asked++
					if _, is := e.(put); is && (at.m.phase != open || next.m.phase != open) {
						fail("it writes when it is closing")
					}
				case answer:
					next.pending--
				case confirm:
					if e.done {
						next.pending--
					}
				case withdraw:
					next.gone = true
				case follow, unfollow:
				}
			}
			if asked > 1 || asked == 1 && at.m.step != idle && !isAnswer(in) || next.pending != len(next.m.queue) {
				fail(fmt.Sprintf("%d new questions, %d writes without an answer", asked, next.pending))
			}
			last := len(out.Emit) - 1
			for i, ev := range out.Emit {
				if _, end := ev.(Closed); end != (next.m.Ended() && i == last) {
					fail("Closed is the last event, and only that")
				}
			}
			if next.m.Ended() && !at.m.Ended() {
				if last < 0 || next.pending != 0 {
					fail("it ends without a word")
				}
				if next.m.touched && !next.gone {
					fail("it leaves its marker behind")
				}
			}
			if key := fmt.Sprint(next.m, next.gone, next.m.n); !seen[key] {
				seen[key] = true
				todo = append(todo, next)
			}
		}
		progress(t, at.m)
	}
	if len(seen) < 500 {
		t.Errorf("only %d states", len(seen))
	}
	t.Logf("%d states", len(seen))
}

func isAnswer(in input) bool {
	switch in.(type) {
	case wrote, looked, ensured:
		return true
	case leave, connected, expired, closed, read, unfollowed, submit, forget, withdrawn:
		return false
	}
	return false
}

// progress fails the test if a handle that leaves does not end when its questions are
// answered.
func progress(t *testing.T, m machine[string]) {
	t.Helper()
	begin := m
	m, _ = m.Step(leave{})
	for range 5 {
		switch {
		case m.Ended():
			return
		case m.phase == leaving:
			m, _ = m.Step(withdrawn{m.epoch})
		case m.step == writing:
			m, _ = m.Step(wrote{attempt: m.asked, err: errLost})
		case m.step == looking:
			m, _ = m.Step(looked{attempt: m.asked})
		case m.step == ensuring:
			m, _ = m.Step(ensured{attempt: m.asked})
		}
	}
	t.Fatalf("%v does not end: %v", begin, m)
}

func TestUndeliveredEvents(t *testing.T) {
	all := []Event{Changed[int]{Version: 1}, Deleted{}, Invalid{Err: errors.New("x")}, Closed{}}
	for _, a := range all {
		for _, b := range all {
			if ev, merged := merge(a, b); !merged || ev != b {
				t.Errorf("%v and %v become %v", a, b, ev)
			}
		}
	}
}
