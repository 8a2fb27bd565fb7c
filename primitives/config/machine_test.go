package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
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
			all = append(all, fmt.Sprintf("put@%d %v", e.epoch, e.write))
		case mark:
			all = append(all, fmt.Sprintf("mark@%d #%d", e.epoch, e.n))
		case ensure:
			all = append(all, fmt.Sprintf("ensure@%d", e.epoch))
		case withdraw:
			all = append(all, "withdraw")
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
	marked := func(at attempt, err error) answered { return answered{at, marking, err} }
	wrote := func(at attempt, err error) answered { return answered{at, writing, err} }
	made := func(at attempt, err error) answered { return answered{at, ensuring, err} }
	set := submit{write{always: true, version: session.AnyVersion}}
	update := submit{write{version: 5}}
	plus := func(before []input, more ...input) []input { return slices.Concat(before, more) }
	connected, expired := heard{session.Connected{Epoch: 1}}, heard{session.Expired{Epoch: 1}}
	created := []input{connected, update}
	begun := plus(created, marked(at, nil))                            // #1 is under way
	setting := []input{connected, set, marked(at, nil)}                // #1 is under way
	done := plus(setting, wrote(at, nil))                              // and there is a marker
	closing := plus(begun, leave{}, wrote(at, nil))                    // the marker is being removed
	across := plus(begun, expired, heard{session.Connected{Epoch: 2}}) // the answer is of the past
	parentless := plus(setting, wrote(at, session.ErrNoNode))          // the node is to be made
	for _, row := range []struct {
		danger string
		before []input
		in     input
		want   string
	}{
		{"wait for a session", nil, set, ""},
		{"the marker is made before the first write", []input{set}, connected, "mark@1 #1"},
		{"which follows when it stands", created, marked(at, nil), "put@1 update=5#1"},
		{"the second asks for one too, which is there", done, update, "mark@1 #2"},
		{"and is written", plus(done, update), marked(second, nil), "put@1 update=5#2"},
		{"the session ends before it stands", created, marked(at, session.ErrExpired), "mark@1 #1"},
		{"one that cannot be made", plus(created, leave{}), marked(at, session.ErrNoAuth), "answer not authorized; withdraw"},
		{"the outcome is unknown", begun, wrote(at, errLost), "answer " + errLost.Error()},
		{"nobody can know", begun, wrote(at, errLostForEver), "answer outcome unknown: session expired"},
		{"busy, and it may have been done", begun, wrote(at, session.ErrBusy), "answer " + session.ErrBusy.Error()},
		{"what was never sent is sent in the next epoch", across, wrote(at, session.ErrExpired), "mark@2 #1"},
		{"but not before that has begun", plus(begun, expired), wrote(at, session.ErrExpired), ""},
		{"an update of what is gone is not the creation of it", begun, wrote(at, session.ErrNoNode), "answer " + errConflict.Error()},
		{"somebody was faster", begun, wrote(at, session.ErrBadVersion), "answer " + errConflict.Error()},
		{"set makes the node", setting, wrote(at, session.ErrNoNode), "mark@1 #1"},
		{"it does", parentless, marked(at, nil), "put@1 set+#1"},
		{"and what is above it", plus(parentless, marked(at, nil)), wrote(at, session.ErrNoNode), "ensure@1"},
		{"then it goes on", plus(parentless, marked(at, nil), wrote(at, session.ErrNoNode)), made(at, nil), "mark@1 #1"},
		{"unless somebody else did", plus(parentless, marked(at, nil), wrote(at, session.ErrNodeExists)), marked(at, nil), "put@1 set#1"},
		{"one write at a time", begun, set, ""},
		{"what waits for a connection can be taken back", []input{connected, heard{session.Suspended{}}}, set, ""},
		{"it goes on with it", []input{connected, heard{session.Suspended{}}, set}, heard{session.Resumed{}}, "mark@1 #1"},
		{"also when its marker stood without one", plus(created, heard{session.Suspended{}}, marked(at, nil)), heard{session.Resumed{}}, "mark@1 #1"},
		{"also in the next epoch", []input{connected, heard{session.Suspended{}}, set, expired}, heard{session.Connected{Epoch: 2}}, "mark@2 #1"},
		{"a session that is gone is not resumed", plus(setting, expired, wrote(at, session.ErrExpired)), heard{session.Resumed{}}, ""},
		{"the marker of a write under way is removed after it", begun, leave{}, "unfollow"},
		{"which is still answered", plus(begun, leave{}), wrote(at, nil), "answer <nil>; withdraw"},
		{"also when it is unknown", plus(begun, leave{}), wrote(at, errLost), "answer " + errLost.Error() + "; withdraw"},
		{"but it is not begun anew", plus(begun, leave{}), wrote(at, session.ErrExpired), "answer config handle closed; withdraw"},
		{"nor when its marker stands", plus(created, leave{}), marked(at, nil), "answer config handle closed; withdraw"},
		{"the end comes after the marker's", closing, withdrawn{}, "* closed"},
		{"who has not written leaves at once", []input{connected}, leave{}, "unfollow; * closed"},
		{"a closed session has no markers", done, heard{session.Closed{}}, "unfollow; * closed: session closed"},
		{"nor has an expired one", plus(done, expired), leave{}, "unfollow; * closed"},
		{"what a closed session has not done is told as such", begun, wrote(at, session.ErrClosed), "answer config handle closed: session closed"},
		{"an answer to another question about the same write", begun, marked(at, nil), ""},
		{"the same answer about another write", created, marked(second, nil), ""},
		{"an answer from the past", plus(begun, wrote(at, session.ErrBadVersion), update), wrote(at, nil), ""},
		{"what may have been sent is not taken back", begun, forget{}, "confirm false"},
		{"what was not sent is", plus(begun, expired, wrote(at, session.ErrExpired)), forget{}, "confirm true"},
		{"and what waits for a session", []input{set}, forget{}, "confirm true"},
		{"or for its marker", created, forget{}, "confirm true"},
		{"which the next one then has", plus(created, forget{}, set), marked(at, nil), "put@1 set#2"},
		{"and may be answered", plus(created, forget{}, set, marked(at, nil)), wrote(second, nil), "answer <nil>"},
		{"or for a directory", plus(parentless, marked(at, nil), wrote(at, session.ErrNoNode)), forget{}, "confirm true"},
		{"nobody waits for its marker any more", plus(created, forget{}), marked(at, nil), ""},
		{"nor for the error of that", plus(created, forget{}), marked(at, session.ErrNoAuth), ""},
		{"an error about what was taken back", plus(created, set, forget{}), marked(at, session.ErrNoAuth), "mark@1 #2"},
		{"likewise", plus(parentless, marked(at, nil), wrote(at, session.ErrNoNode), set, forget{}), made(at, session.ErrNoAuth), "mark@1 #2"},
		{"an answer of the past", across, wrote(at, nil), "answer <nil>"},
		{"nor is a marker that was made in it that of the present", plus(created, expired, heard{session.Connected{Epoch: 2}}), marked(at, nil), "mark@2 #1"},
		{"old news of an expiry", []input{heard{session.Connected{Epoch: 2}}, set, marked(attempt{2, 1}, nil), wrote(attempt{2, 1}, nil), expired}, update, "mark@2 #2"},
		{"the epoch ended before the directory was made", plus(parentless, marked(at, nil), wrote(at, session.ErrNoNode), expired, heard{session.Connected{Epoch: 2}}), made(at, session.ErrExpired), "mark@2 #1"},
		{"it cannot be made", plus(parentless, marked(at, nil), wrote(at, session.ErrNoNode)), made(at, session.ErrNoAuth), "answer not authorized"},
		{"nor can the marker", created, marked(at, session.ErrSessionFull), "answer " + session.ErrSessionFull.Error()},
		{"the session is closed while the marker is removed", closing, heard{session.Closed{}}, "* closed"},
		{"but not during a write: that is answered", plus(begun, leave{}), heard{session.Closed{}}, ""},
		{"who leaves twice waits for the marker all the same", closing, leave{}, ""},
		{"a write that comes too late", plus(closing, set), withdrawn{}, "answer config handle closed; * closed"},
		{"an older reading", []input{reading(9, 1, 9, 3, "new")}, reading(8, 1, 8, 2, "old"), ""},
		{"a server reads, and says up to where it has come then: the next may be newer all the same", []input{reading(9, 1, 8, 2, "old")}, reading(9, 1, 9, 3, "new"), "* changed version=3"},
		{"the same once more", []input{reading(9, 1, 9, 3, "new")}, reading(10, 1, 9, 3, "new"), ""},
		{"made again, with the same version", []input{reading(9, 1, 1, 0, "a")}, reading(12, 11, 11, 0, "a"), "* changed version=0"},
		{"there has never been one", nil, nothing(3), "* deleted"},
		{"that is told once", []input{nothing(3)}, nothing(4), ""},
		{"follow in the next epoch", nil, unfollowed{session.ErrExpired}, "follow"},
		{"or give up", nil, unfollowed{session.ErrNoAuth}, "unfollow; * closed: not authorized"},
		{"nothing is told after the end began", plus(begun, leave{}), reading(9, 1, 9, 3, "new"), ""},
	} {
		m := fresh()
		m.told = !slices.ContainsFunc(plus(row.before, row.in), func(in input) bool { _, is := in.(read); return is })
		m, _ = script(m, row.before...)
		next, out := m.after(row.in)
		check.Equal(t, describe(out), row.want, row.danger, m, row.in, "->", next)
	}
}

// TestEveryInputInEveryState goes through all states of a handle with up to two writes, or a sample
// of them, and gives every input in each, possible or not.
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
		inputs = append(inputs, heard{session.Connected{Epoch: epoch}}, heard{session.Expired{Epoch: epoch}})
		for n := 1; n <= 2; n++ {
			at := attempt{epoch, n}
			for _, err := range []error{
				nil, session.ErrNoNode, session.ErrNodeExists, session.ErrNoAuth, session.ErrExpired, session.ErrDisconnected, errLost, errLostForEver,
			} {
				inputs = append(inputs, answered{at, marking, err}, answered{at, writing, err}, answered{at, ensuring, err})
			}
		}
	}
	inputs = append(inputs, withdrawn{}, leave{}, heard{session.Closed{}}, heard{session.Suspended{}}, heard{session.Resumed{}}, forget{}, unfollowed{session.ErrExpired}, unfollowed{session.ErrNoAuth},
		submit{write{always: true}}, submit{write{version: 1}},
		nothing(0), reading(0, 2, 2, 0, "x"), reading(0, 3, 3, 0, nodes.PriorityMark))
	step := func(at node, in input) (node, error) {
		next := at
		var out effects
		next.m, out = at.m.after(in)
		wrong := func(format string, args ...any) (node, error) {
			return next, fmt.Errorf(format+": %s", append(args, describe(out))...)
		}
		if at.m.Ended() && (describe(out) != "" || next.m.String() != at.m.String()) {
			return wrong("it goes on after its end")
		}
		if _, more := in.(submit); more && !at.m.Ended() {
			next.pending++
		}
		asked := 0
		for _, e := range out.Do {
			switch e := e.(type) {
			case mark, put, ensure:
				asked++
				if _, is := e.(ensure); !is && next.m.theirs != nil {
					return wrong("it asks about a write to a node of others")
				}
				if _, is := e.(put); is && (at.m.phase != open || next.m.phase != open || !next.m.up || at.m.step != marking) {
					return wrong("it writes when it is closing, or suspended, or has no marker")
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
			return wrong("%d new questions, %d writes without an answer", asked, next.pending)
		}
		last := len(out.Emit) - 1
		for i, ev := range out.Emit {
			if _, end := ev.(Closed); end != (next.m.Ended() && i == last) {
				return wrong("Closed is the last event, and only that")
			}
		}
		if next.m.Ended() && !at.m.Ended() {
			if last < 0 || next.pending != 0 {
				return wrong("it ends without a word")
			}
			if next.m.marks && !next.gone {
				return wrong("it leaves its marker behind")
			}
		}
		return next, nil
	}
	var given check.Given
	states, _ := exploration.Search[node, input, string]{
		Inputs: func(at node) []input {
			if at.m.n < 2 {
				return inputs
			}
			return slices.DeleteFunc(slices.Clone(inputs), func(in input) bool { _, more := in.(submit); return more })
		},
		Step: step, Check: func(at node) error { return progress(at.m) }, Given: &given, Sample: 4,
		Key: func(at node) string { return fmt.Sprint(at.m, at.gone, at.m.n) },
	}.Run(t, node{m: fresh()})
	check.Explored(t, "input", given)
	check.AtLeast(t, states, 500, "states")
	t.Logf("%d states", states)
}

func isAnswer(in input) bool {
	_, is := in.(answered)
	return is
}

// progress returns what is wrong if a handle that leaves does not end when its questions are
// answered.
func progress(m machine[string]) error {
	m, _ = m.after(leave{})
	for range 5 {
		switch {
		case m.Ended():
			return nil
		case m.phase == leaving:
			m, _ = m.after(withdrawn{})
		case m.step != idle:
			m, _ = m.after(answered{m.asked, m.step, errLost})
		}
	}
	return fmt.Errorf("it leaves, and does not end: %v", m)
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

// A picky codec does not like question marks.
type picky struct{}

func (picky) Encode(value string) ([]byte, error) { return []byte(value), nil }

func (picky) Decode(data []byte) (string, error) {
	if string(data) == "?" {
		return "", errors.New("a question")
	}
	return string(data), nil
}

// TestTranscripts plays the stories in testdata. The inputs are written by hand, the rest
// by go test -rewrite. An answer is to the question that is open, unless it says otherwise.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		m := newMachine[string](picky{})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			in := parseInput(t, m, d)
			var out effects
			m, out = m.after(in)
			s := m.String() + "\n"
			for _, line := range lines(out) {
				if !strings.HasPrefix(line, "* ") {
					line = "  " + line
				}
				s += line + "\n"
			}
			return s
		})
	})
}

var errorsByName = map[string]error{
	"no-node": session.ErrNoNode, "node-exists": session.ErrNodeExists, "bad-version": session.ErrBadVersion, "no-auth": session.ErrNoAuth,
	"expired": session.ErrExpired, "closed": session.ErrClosed, "disconnected": session.ErrDisconnected, "lost": errLost, "lost-for-ever": errLostForEver,
}

func parseInput(t *testing.T, m machine[string], d *datadriven.TestData) input {
	t.Helper()
	at := m.asked
	var err error
	word, data := map[string]bool{}, ""
	val := map[string]int64{}
	for _, arg := range d.CmdArgs {
		switch known := errorsByName[arg.Key]; {
		case known != nil:
			err = known
		case arg.Key == "data":
			data = arg.Vals[0]
			if data == "priority" { // words cannot have a blank
				data = nodes.PriorityMark
			}
		case len(arg.Vals) == 0:
			word[arg.Key] = true
		default:
			var n int64
			if _, scanErr := fmt.Sscan(arg.Vals[0], &n); scanErr != nil {
				d.Fatalf(t, "%v", scanErr)
			}
			val[arg.Key] = n
		}
	}
	if n, has := val["epoch"]; has {
		at.epoch = int(n)
	}
	version := int32(val["version"])
	switch d.Cmd {
	case "leave":
		return leave{}
	case "connected":
		return heard{session.Connected{Epoch: at.epoch}}
	case "suspended":
		return heard{session.Suspended{}}
	case "resumed":
		return heard{session.Resumed{}}
	case "expired":
		return heard{session.Expired{Epoch: at.epoch}}
	case "closed":
		return heard{session.Closed{}}
	case "read":
		if word["absent"] {
			return nothing(val["zxid"])
		}
		return reading(val["zxid"], val["czxid"], val["mzxid"], version, data)
	case "unfollowed":
		return unfollowed{err}
	case "set":
		return submit{write{always: true, version: session.AnyVersion}}
	case "update":
		return submit{write{version: version, create: word["absent"]}}
	case "forget":
		return forget{}
	case "marked":
		return answered{at, marking, err}
	case "wrote":
		return answered{at, writing, err}
	case "ensured":
		return answered{at, ensuring, err}
	case "withdrawn":
		return withdrawn{}
	}
	d.Fatalf(t, "an unknown input")
	return nil
}

// TestEndedValueOwnsNothing: what a handle owns ends with its machine, and not before.
func TestEndedValueOwnsNothing(t *testing.T) {
	var v Value[string]
	cancelled := false
	v.owned.Keep("a subscription", owned.Func(func() { cancelled = true }))
	m := fresh()
	v.observe(m, nil)
	check.False(t, cancelled, "it has ended before the handle")
	m.phase = ended
	v.observe(m, nil)
	check.True(t, cancelled, "it goes on after the handle")
}

// A counted session counts its subscriptions.
type counted struct {
	client.Session
	subscriptions atomic.Int32
}

func (c *counted) Subscribe(tell func(session.Event) (settled <-chan struct{})) (cancel func()) {
	c.subscriptions.Add(1)
	cancelled := c.Session.Subscribe(tell)
	return func() {
		c.subscriptions.Add(-1)
		cancelled()
	}
}

// TestClosedTransactorOwnsNothing: the session keeps nothing for a transactor that was closed,
// however often that was.
func TestClosedTransactorOwnsNothing(t *testing.T) {
	opts := session.Options{Timeout: 12 * time.Second, ServerTick: time.Second}
	kit.Sessions(t, zktest.Config{Tick: time.Second}, 1, opts, func(t *testing.T, _ *zktest.Server, s []*session.Session) {
		tr := check.Have(NewTransactor(s[0], "/accounts", nil))(t)
		c := &counted{Session: tr.once.Session}
		tr.once.Session = c
		check.OK(t, tr.Do(t.Context(), func(tx *Tx) error { return Store(tx, "a", Text, "x") }))
		check.AtLeast(t, c.subscriptions.Load(), 1)
		for range 2 {
			tr.Close()
			check.Equal(t, c.subscriptions.Load(), 0, "subscriptions of a closed transactor")
		}
	})
}
