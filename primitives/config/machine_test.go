package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
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
		m, out = m.after(in)
	}
	return m, out
}

// describe writes effects down.
func describe(out effects) string { return strings.Join(lines(out), "; ") }

func lines(out effects) []string {
	var all []string
	for _, e := range out.Do {
		switch e := e.(type) {
		case put:
			all = append(all, fmt.Sprintf("put@%d %v marker=%d", e.epoch, e.write, e.seen))
		case mark:
			all = append(all, fmt.Sprintf("mark@%d #%d", e.epoch, e.n))
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
	return all
}

func TestRows(t *testing.T) {
	at, second := attempt{1, 1}, attempt{1, 2}
	set := submit{write{always: true, version: session.AnyVersion}}
	update := submit{write{version: 5}}
	plus := func(before []input, more ...input) []input { return slices.Concat(before, more) }
	created := []input{heard{session.Connected{Epoch: 1}}, update}
	begun := plus(created, answered{attempt: at, step: marking})                                      // #1 is under way
	lost := plus(begun, answered{step: writing, attempt: at, err: errLost})                           // and its reply is lost
	setting := []input{heard{session.Connected{Epoch: 1}}, set, answered{attempt: at, step: marking}} // #1 is under way
	done := plus(setting, answered{step: writing, attempt: at, seen: 1})                              // a marker with version 1
	next := plus(done, update)                                                                        // #2 is under way
	nextLost := plus(next, answered{step: writing, attempt: second, err: errLost})                    // and its reply is lost
	twice := plus(lost, answered{step: looking, attempt: at, exists: true})                           // #1 is under way again
	closing := plus(begun, leave{}, answered{step: writing, attempt: at, seen: 1})                    // the marker is being removed
	across := plus(begun, heard{session.Expired{Epoch: 1}}, heard{session.Connected{Epoch: 2}})       // the answer is of the past
	unmarked := plus(created, answered{attempt: at, step: marking, err: session.ErrNoNode})           // there is no directory for it
	parentless := plus(setting, answered{step: writing, attempt: at, err: session.ErrNoNode})         // the node is to be made
	for _, row := range []struct {
		danger string
		before []input
		in     input
		want   string
	}{
		{"wait for a session", nil, set, ""},
		{"the marker is made before the first write", []input{set}, heard{session.Connected{Epoch: 1}}, "mark@1 #1"},
		{"which follows when it stands", created, answered{attempt: at, step: marking}, "put@1 update=5#1 marker=0"},
		{"the second writes to the same", done, update, "put@1 update=5#2 marker=1"},
		{"a marker whose reply is lost is made again", created, answered{attempt: at, step: marking, err: errLost}, "mark@1 #1"},
		{"which it may have been", plus(created, answered{attempt: at, step: marking, err: errLost}), answered{attempt: at, step: marking, err: session.ErrNodeExists}, "put@1 update=5#1 marker=0"},
		{"one that may stand is removed", plus(created, leave{}), answered{attempt: at, step: marking, err: errLost}, "answer config handle closed; withdraw@1"},
		{"one that cannot does not", plus(created, leave{}), answered{attempt: at, step: marking, err: session.ErrNoAuth}, "answer not authorized; * closed"},
		{"a reply that is lost is no answer", begun, answered{step: writing, attempt: at, err: errLost}, "look@1 #1"},
		{"do not write twice what was done", lost, answered{step: looking, attempt: at, exists: true, tells: 1, seen: 1}, "answer <nil>"},
		{"do again what was not", lost, answered{step: looking, attempt: at, exists: true}, "put@1 update=5#1 marker=0"},
		{"the marker tells of the write before", nextLost, answered{step: looking, attempt: second, exists: true, tells: 1, seen: 1}, "put@1 update=5#2 marker=1"},
		{"a marker that is gone proves nothing", nextLost, answered{step: looking, attempt: second}, "answer outcome unknown: " + errMarker.Error()},
		{"nor at the first write", lost, answered{step: looking, attempt: at}, "answer outcome unknown: " + errMarker.Error()},
		{"nor one that somebody else has written to", nextLost, answered{step: looking, attempt: second, exists: true, tells: 1, seen: 2}, "answer outcome unknown: " + errMarker.Error()},
		{"the next write makes another", plus(nextLost, answered{step: looking, attempt: second}), set, "mark@1 #3"},
		{"or takes it as it is", plus(nextLost, answered{step: looking, attempt: second, exists: true, seen: 7}), set, "put@1 set#3 marker=7"},
		{"busy: it may have been done", begun, answered{step: writing, attempt: at, err: session.ErrBusy}, "look@1 #1"},
		{"busy: the marker may stand", created, answered{attempt: at, step: marking, err: session.ErrBusy}, "mark@1 #1"},
		{"busy: it is looked at again", lost, answered{step: looking, attempt: at, err: session.ErrBusy}, "look@1 #1"},
		{"nobody can know", begun, answered{step: writing, attempt: at, err: errLostForEver}, "answer outcome unknown: session expired"},
		{"the epoch ended while we looked", lost, answered{step: looking, attempt: at, err: session.ErrExpired}, "answer outcome unknown: session expired"},
		{"nobody may look", lost, answered{step: looking, attempt: at, err: session.ErrNoAuth}, "answer outcome unknown: not authorized"},
		{"look again when the answer is lost", lost, answered{step: looking, attempt: at, err: session.ErrDisconnected}, "look@1 #1"},
		{"do not look in another epoch", across, answered{step: writing, attempt: at, err: errLost}, "answer outcome unknown: connection lost"},
		{"what was never sent is sent in the next epoch", across, answered{step: writing, attempt: at, err: session.ErrExpired}, "mark@2 #1"},
		{"but not before that has begun", plus(begun, heard{session.Expired{Epoch: 1}}), answered{step: writing, attempt: at, err: session.ErrExpired}, ""},
		{"one that was thought lost has come", twice, answered{step: writing, attempt: at, err: session.ErrBadVersion, marker: true}, "look@1 #1"},
		{"and then somebody deleted the marker", twice, answered{step: writing, attempt: at, err: session.ErrNoNode, marker: true}, "look@1 #1"},
		{"there is no directory for markers", created, answered{attempt: at, step: marking, err: session.ErrNoNode}, "ensure@1 markers=true"},
		{"there is now", unmarked, answered{attempt: at, step: ensuring}, "mark@1 #1"},
		{"somebody deleted our marker before anything was in doubt", next, answered{step: writing, attempt: second, err: session.ErrNoNode, marker: true}, "mark@1 #2"},
		{"somebody wrote to it before", next, answered{step: writing, attempt: second, err: session.ErrBadVersion, marker: true}, "look@1 #2"},
		{"an update of what is gone is not the creation of it", begun, answered{step: writing, attempt: at, err: session.ErrNoNode}, "answer " + errConflict.Error()},
		{"somebody was faster", begun, answered{step: writing, attempt: at, err: session.ErrBadVersion}, "answer " + errConflict.Error()},
		{"what is known of one write is not doubted of the next", plus(twice, answered{step: writing, attempt: at, err: session.ErrBadVersion}, set), answered{step: writing, attempt: second, err: session.ErrNoNode, marker: true}, "mark@1 #2"},
		{"nor of what was taken back", plus(lost, heard{session.Suspended{}}, answered{step: looking, attempt: at, exists: true}, forget{}, set, heard{session.Resumed{}}), answered{step: writing, attempt: second, err: session.ErrNoNode, marker: true}, "mark@1 #2"},
		{"set makes the node", setting, answered{step: writing, attempt: at, err: session.ErrNoNode}, "put@1 set+#1 marker=0"},
		{"and what is above it", parentless, answered{step: writing, attempt: at, err: session.ErrNoNode}, "ensure@1 markers=false"},
		{"unless somebody else did", parentless, answered{step: writing, attempt: at, err: session.ErrNodeExists}, "put@1 set#1 marker=0"},
		{"one write at a time", begun, set, ""},
		{"what waits for a connection can be taken back", []input{heard{session.Connected{Epoch: 1}}, heard{session.Suspended{}}}, set, ""},
		{"it goes on with it", []input{heard{session.Connected{Epoch: 1}}, heard{session.Suspended{}}, set}, heard{session.Resumed{}}, "mark@1 #1"},
		{"also in the next epoch", []input{heard{session.Connected{Epoch: 1}}, heard{session.Suspended{}}, set, heard{session.Expired{Epoch: 1}}}, heard{session.Connected{Epoch: 2}}, "mark@2 #1"},
		{"a session that is gone is not resumed", []input{heard{session.Connected{Epoch: 1}}, set, answered{attempt: at, step: marking}, heard{session.Expired{Epoch: 1}}, answered{step: writing, attempt: at, err: session.ErrExpired}}, heard{session.Resumed{}}, ""},
		{"the marker of a write under way is removed after it", begun, leave{}, "unfollow"},
		{"which is still answered", plus(begun, leave{}), answered{step: writing, attempt: at, seen: 1}, "answer <nil>; withdraw@1"},
		{"also when its reply is lost", plus(begun, leave{}), answered{step: writing, attempt: at, err: errLost}, "look@1 #1"},
		{"but it is not repeated", plus(lost, leave{}), answered{step: looking, attempt: at, exists: true}, "answer config handle closed; withdraw@1"},
		{"the end comes after the marker's", closing, withdrawn{1}, "* closed"},
		{"who has not written leaves at once", []input{heard{session.Connected{Epoch: 1}}}, leave{}, "unfollow; * closed"},
		{"a closed session has no markers", done, heard{session.Closed{}}, "unfollow; * closed: session closed"},
		{"nor has an expired one", plus(done, heard{session.Expired{Epoch: 1}}), leave{}, "unfollow; * closed"},
		{"what a closed session has not done is told as such", begun, answered{step: writing, attempt: at, err: session.ErrClosed}, "answer config handle closed: session closed"},
		{"an answer from the past", plus(begun, answered{step: writing, attempt: at, err: session.ErrBadVersion}, update), answered{step: writing, attempt: at}, ""},
		{"what may have been sent is not taken back", begun, forget{}, "confirm false"},
		{"nor what is in doubt", lost, forget{}, "confirm false"},
		{"what was not sent is", plus(begun, heard{session.Expired{Epoch: 1}}, answered{step: writing, attempt: at, err: session.ErrExpired}), forget{}, "confirm true"},
		{"and what waits for a session", []input{set}, forget{}, "confirm true"},
		{"or for its marker", created, forget{}, "confirm true"},
		{"which the next one then has", plus(created, forget{}, set), answered{attempt: at, step: marking}, "put@1 set#2 marker=0"},
		{"or for a directory", unmarked, forget{}, "confirm true"},
		{"an error about what was taken back", plus(created, set, forget{}), answered{attempt: at, step: marking, err: session.ErrNoAuth}, "mark@1 #2"},
		{"likewise", plus(unmarked, set, forget{}), answered{attempt: at, step: ensuring, err: session.ErrNoAuth}, "mark@1 #2"},
		{"an error about a marker of the past", across, answered{step: writing, attempt: at, err: session.ErrNoNode, marker: true}, "mark@2 #1"},
		{"nor does it say what became of the one before", plus(twice, heard{session.Expired{Epoch: 1}}, heard{session.Connected{Epoch: 2}}), answered{step: writing, attempt: at, err: session.ErrNoNode, marker: true}, "answer outcome unknown: no such node"},
		{"a marker of the past that is gone proves nothing", plus(lost, heard{session.Expired{Epoch: 1}}, heard{session.Connected{Epoch: 2}}), answered{step: looking, attempt: at}, "answer outcome unknown: session expired"},
		{"a marker of the past is not that of the present", plus(across, answered{step: writing, attempt: at}), update, "mark@2 #2"},
		{"nor one that was made in it", plus(created, heard{session.Expired{Epoch: 1}}, heard{session.Connected{Epoch: 2}}), answered{attempt: at, step: marking}, "mark@2 #1"},
		{"old news of an expiry", []input{heard{session.Connected{Epoch: 2}}, set, answered{attempt: attempt{2, 1}, step: marking}, answered{step: writing, attempt: attempt{2, 1}, seen: 1}, heard{session.Expired{Epoch: 1}}}, update, "put@2 update=5#2 marker=1"},
		{"the epoch ended before the directory was made", plus(unmarked, heard{session.Expired{Epoch: 1}}, heard{session.Connected{Epoch: 2}}), answered{attempt: at, step: ensuring, err: session.ErrExpired}, "mark@2 #1"},
		{"it cannot be made", unmarked, answered{attempt: at, step: ensuring, err: session.ErrNoAuth}, "answer not authorized"},
		{"nor can the marker", created, answered{attempt: at, step: marking, err: session.ErrSessionFull}, "answer " + session.ErrSessionFull.Error()},
		{"the session is closed while the marker is removed", closing, heard{session.Closed{}}, "* closed"},
		{"an older reading", []input{reading(9, 1, 9, 3, "new")}, reading(8, 1, 8, 2, "old"), ""},
		{"the same once more", []input{reading(9, 1, 9, 3, "new")}, reading(10, 1, 9, 3, "new"), ""},
		{"made again, with the same version", []input{reading(9, 1, 1, 0, "a")}, reading(12, 11, 11, 0, "a"), "* changed version=0"},
		{"there has never been one", nil, nothing(3), "* deleted"},
		{"that is told once", []input{nothing(3)}, nothing(4), ""},
		{"follow in the next epoch", nil, unfollowed{session.ErrExpired}, "follow"},
		{"or give up", nil, unfollowed{session.ErrNoAuth}, "unfollow; * closed: not authorized"},
		{"nothing is told after the end began", plus(begun, leave{}), reading(9, 1, 9, 3, "new"), ""},
	} {
		m, _ := script(fresh(), row.before...)
		next, out := m.after(row.in)
		check.Equal(t, describe(out), row.want, row.danger, m, row.in, "->", next)
	}
}

// TestEveryInputInEveryState goes through all states of a handle with up to two writes,
// and gives every input in each, possible or not.
func TestEveryInputInEveryState(t *testing.T) {
	if testing.Short() {
		t.Skip("an exploration")
	}
	type node struct {
		m       machine[string]
		pending int // writes without an answer
		gone    bool
	}
	var inputs []input
	for epoch := 1; epoch <= 2; epoch++ {
		inputs = append(inputs, heard{session.Connected{Epoch: epoch}}, heard{session.Expired{Epoch: epoch}}, withdrawn{epoch})
		for n := 1; n <= 2; n++ {
			at := attempt{epoch, n}
			for _, err := range []error{
				nil, session.ErrNoNode, session.ErrNodeExists, session.ErrNoAuth, session.ErrExpired, session.ErrDisconnected, errLost, errLostForEver,
			} {
				inputs = append(inputs, answered{attempt: at, step: marking, err: err}, answered{step: writing, attempt: at, err: err}, answered{step: writing, attempt: at, err: err, marker: err != nil}, answered{step: looking, attempt: at, err: err}, answered{attempt: at, step: ensuring, err: err})
			}
			inputs = append(inputs, answered{step: looking, attempt: at, exists: true, tells: 1}, answered{step: looking, attempt: at, exists: true, tells: 2})
		}
	}
	inputs = append(inputs, leave{}, heard{session.Closed{}}, heard{session.Suspended{}}, heard{session.Resumed{}}, forget{}, unfollowed{session.ErrExpired}, unfollowed{session.ErrNoAuth},
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
			next.m, out = at.m.after(in)
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
				case mark, put, look, ensure:
					asked++
					if _, is := e.(put); is && (at.m.phase != open || next.m.phase != open || !next.m.up || !next.m.stands) {
						fail("it writes when it is closing, or suspended, or has no marker")
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
				if (next.m.touched || next.m.stands) && !next.gone {
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
	check.AtLeast(t, len(seen), 500, "states")
	t.Logf("%d states", len(seen))
}

func isAnswer(in input) bool {
	switch in.(type) {
	case answered:
		return true
	case leave, heard, read, unfollowed, submit, forget, withdrawn:
		return false
	}
	return false
}

// progress fails the test if a handle that leaves does not end when its questions are
// answered.
func progress(t *testing.T, m machine[string]) {
	t.Helper()
	begin := m
	m, _ = m.after(leave{})
	for range 5 {
		switch {
		case m.Ended():
			return
		case m.phase == leaving:
			m, _ = m.after(withdrawn{m.epoch})
		case m.step == marking:
			m, _ = m.after(answered{attempt: m.asked, step: marking, err: errLost})
		case m.step == writing:
			m, _ = m.after(answered{step: writing, attempt: m.asked, err: errLost})
		case m.step == looking:
			m, _ = m.after(answered{step: looking, attempt: m.asked})
		case m.step == ensuring:
			m, _ = m.after(answered{attempt: m.asked, step: ensuring})
		}
	}
	t.Fatalf("%v does not end: %v", begin, m)
}

func TestUndeliveredEvents(t *testing.T) {
	all := []Event{Changed[int]{Version: 1}, Deleted{}, Invalid{Err: errors.New("x")}, Closed{}}
	for _, a := range all {
		for _, b := range all {
			ev, merged := merge(a, b)
			check.True(t, merged && ev == b, "%v and %v become %v", a, b, ev)
		}
	}
}

// after is Step with effects of its own.
func (m machine[T]) after(in input) (machine[T], effects) {
	var out effects
	m = m.Step(in, &out)
	return m, out
}
