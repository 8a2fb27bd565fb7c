package commit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	expect "github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// errLost is the error of a write whose reply was lost.
var errLost = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrDisconnected)

// coordinate has a coordinator of sites a and b take inputs, and returns what it asked for and
// emitted, step by step.
func coordinate(inputs ...input) string {
	m, _ := newMachine(&record{ID: "t", GUID: "g", Sites: []string{"a", "b"}}).after(start{})
	var all []string
	for _, in := range inputs {
		var did effects
		m, did = m.after(in)
		var step []string
		for _, e := range did.Do {
			text := fmt.Sprint(e)
			if r, ok := e.(respond); ok {
				text = fmt.Sprintf("{%v}", r.err)
			} else if _, ok := e.(fmt.Stringer); ok {
				text = "{" + text + "}"
			}
			step = append(step, strings.TrimPrefix(fmt.Sprintf("%T%s", e, text), "commit."))
		}
		for _, ev := range did.Emit {
			step = append(step, "<"+ev.String()+">")
		}
		all = append(all, strings.Join(step, " "))
	}
	return strings.Join(all, "; ")
}

func TestCoordinatorRows(t *testing.T) {
	first, second := heard{session.Connected{Epoch: 1}}, heard{session.Connected{Epoch: 2}}
	expired := heard{session.Expired{Epoch: 1}}
	ours := &record{GUID: "g"}
	aborted := &record{GUID: "g", Outcome: &Outcome{Reason: VotedNo, By: "b"}}
	const followed = "respond{<nil>} followBallots{} followSites{} awaitDeadline{}"
	for name, c := range map[string]struct {
		inputs []input
		want   string
	}{
		"begin again after a lost request": {
			[]input{first, begun{errLost}, looked{}},
			"begin{1}; look{}; begin{1}",
		},
		"do not begin again when the session that began it has expired": {
			[]input{first, begun{errLost}, expired, second, looked{}},
			"begin{1}; look{}; ; ; respond{outcome unknown: session expired} <left: outcome unknown: session expired>",
		},
		"a lost reply to the beginning": {
			[]input{first, begun{errLost}, looked{found: ours}},
			"begin{1}; look{}; " + followed,
		},
		"another transaction has the id": {
			[]input{first, begun{session.ErrNodeExists}, looked{found: &record{GUID: "h"}}},
			"begin{1}; look{}; respond{the transaction exists} <left: the transaction exists>",
		},
		"a new ballot in a new session, and that is deleted": {
			[]input{first, begun{}, expired, second, counted{names: []string{"y-a", "n-b"}}, recorded{}},
			"begin{1}; " + followed + "; ; appear{2}; unfollow{} decide{aborted by coordinator: a site voted no: b} <voted a yes> <voted b no>; " +
				"unfollow{} retire{2} <t aborted by coordinator: a site voted no: b>",
		},
		"another party was first: its outcome counts": {
			[]input{first, begun{}, counted{names: []string{"y-a", "y-b"}}, recorded{session.ErrBadVersion}, looked{found: aborted}},
			"begin{1}; " + followed + "; unfollow{} decide{committed by coordinator} <voted a yes> <voted b yes>; look{}; " +
				"unfollow{} retire{1} <t aborted by b: a site voted no>",
		},
		"a lost reply to the outcome: read it": {
			[]input{first, begun{}, counted{names: []string{"y-a", "y-b"}}, recorded{errLost}, looked{found: ours}},
			"begin{1}; " + followed + "; unfollow{} decide{committed by coordinator} <voted a yes> <voted b yes>; look{}; unfollow{} decide{committed by coordinator}",
		},
		"a site that has finished shows that there is an outcome": {
			[]input{first, begun{}, counted{names: []string{"y-a"}}, looked{found: aborted}},
			"begin{1}; " + followed + "; look{} <voted a yes>; unfollow{} retire{1} <t aborted by b: a site voted no>",
		},
		"a transaction that is gone was not aborted": {
			[]input{first, begun{}, counted{err: session.ErrNoNode}, looked{}, retired{err: session.ErrNoNode}},
			"begin{1}; " + followed + "; look{}; unfollow{} retire{1} <left: " + ErrForgotten.Error() + ">; ",
		},
		"the deadline, before the ballots are known": {
			[]input{first, begun{}, passed{}, counted{names: []string{"y-a", "s-b"}}, confirmed{names: []string{"y-a", "s-b"}}},
			"begin{1}; " + followed + "; ; confirm{} <voted a yes>; decide{aborted by coordinator: the deadline passed: b}",
		},
		"a site that was never there has not died": {
			[]input{first, begun{}, counted{names: []string{"s-a", "s-b"}}, attended{names: []string{"a"}}, attended{names: []string{}}, lapsed{}, confirmed{names: []string{"s-a", "s-b"}}},
			"begin{1}; " + followed + "; ; ; awaitAbsence{}; confirm{}; decide{aborted by coordinator: a site was gone before it voted: a}",
		},
		"a site that has voted and gone has not died, though its vote is seen later; and the next death counts": {
			[]input{
				first,
				begun{},
				counted{names: []string{"s-a", "s-b"}},
				attended{names: []string{"a", "b"}},
				attended{names: []string{"b"}},
				counted{names: []string{"y-a", "s-b"}},
				attended{},
				lapsed{},
				confirmed{names: []string{"y-a", "s-b"}},
			},
			"begin{1}; " + followed + "; ; ; awaitAbsence{}; <voted a yes>; awaitAbsence{}; confirm{}; " +
				"decide{aborted by coordinator: a site was gone before it voted: b}",
		},
		"a vote counts while its data is read: neither the death of the site nor the deadline is its fault": {
			[]input{
				first,
				begun{},
				attended{names: []string{"a", "b"}},
				counted{names: []string{"Y-a", "s-b"}},
				attended{names: []string{"b"}},
				passed{},
				confirmed{names: []string{"Y-a", "s-b"}},
				voteRead{"a", Yes, nil, nil},
			},
			"begin{1}; " + followed + "; ; readVote{a 1}; ; confirm{}; ; decide{aborted by coordinator: the deadline passed: b} <voted a yes>",
		},
		"the session is closed while the transaction is being created": {
			[]input{first, heard{session.Closed{}}},
			"begin{1}; respond{outcome unknown: session closed} <left: session closed>",
		},
		"what became of the beginning cannot be read": {
			[]input{first, begun{errLost}, looked{err: session.ErrNoAuth}},
			"begin{1}; look{}; respond{outcome unknown: not authorized} <left: not authorized>",
		},
		"the id is that of a node of another recipe: nothing of ours was created": {
			[]input{first, begun{errLost}, looked{err: ErrForeign}},
			"begin{1}; look{}; respond{the transaction exists: " + ErrForeign.Error() + "} <left: the transaction exists: " + ErrForeign.Error() + ">",
		},
		"the id is that of a node of another recipe, in another session: ours may have come and gone": {
			[]input{first, begun{errLost}, expired, second, looked{err: ErrForeign}},
			"begin{1}; look{}; ; ; respond{outcome unknown: the transaction exists: " + ErrForeign.Error() + "} " +
				"<left: the transaction exists: " + ErrForeign.Error() + ">",
		},
		"the session is closed before the transaction is created": {
			[]input{heard{session.Closed{}}},
			"respond{session closed} <left: session closed>",
		},
		"the last to finish removes the transaction": {
			[]input{first, begun{}, counted{names: []string{"n-a", "s-b"}}, recorded{}, retired{left: 0}, removed{}},
			"begin{1}; " + followed + "; unfollow{} decide{aborted by coordinator: a site voted no: a} <voted a no>; " +
				"unfollow{} retire{1} <t aborted by coordinator: a site voted no: a>; remove{aborted by coordinator: a site voted no: a}; ",
		},
	} {
		if got := coordinate(c.inputs...); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// grammarSeeds returns how many random histories the grammars are held against.
func grammarSeeds() uint64 {
	if *modelFull {
		return 100_000
	}
	return hasten.Sized[uint64](6_000, 600)
}

// Whatever happens, in whatever order, the events follow the grammar.
func TestCoordinatorGrammar(t *testing.T) {
	grammar := regexp.MustCompile(`^(voted a;)?(voted b;(voted a;)?)?(outcome;|left;)$`)
	errs := []error{nil, errLost, session.ErrNoNode, session.ErrNodeExists, session.ErrBadVersion, session.ErrNotEmpty, session.ErrNoAuth, session.ErrBusy}
	var given expect.Given
	for seed := range hasten.Seeds(t, grammarSeeds()) {
		random := rand.New(rand.NewPCG(seed, 2))
		m := newMachine(&record{ID: "t", GUID: "g", Sites: []string{"a", "b"}})
		events, epoch := "", 0
		for range 60 {
			err := errs[random.IntN(len(errs))]
			outcome := &Outcome{Committed: random.IntN(2) == 0, By: "a"}
			inputs := []input{
				start{},
				begun{err},
				ensured{err},
				looked{err: err},
				looked{found: m.rec},
				looked{found: &record{GUID: "g", Outcome: outcome}},
				looked{found: &record{GUID: "h"}},
				counted{err: err},
				counted{names: []string{"s-a", "y-b"}},
				counted{names: []string{"Y-a", "n-b"}},
				counted{names: []string{"c-x"}},
				voteRead{"a", Yes, nil, err},
				attended{names: []string{"a", "b"}},
				attended{err: err},
				passed{},
				lapsed{},
				confirmed{[]string{"y-a", "s-b"}, []string{"a"}, err},
				recorded{err},
				appeared{epoch, err},
				retired{random.IntN(2), err},
				removed{err},
				heard{session.Expired{Epoch: epoch}},
				heard{session.Suspended{}},
				giveUp{},
			}
			if seed%4 == 0 {
				inputs = append(inputs, leave{})
			}
			in := inputs[random.IntN(len(inputs))]
			if random.IntN(3) == 0 {
				epoch++
				in = heard{session.Connected{Epoch: epoch}}
			}
			expect.Note(&given, in)
			var did effects
			was, before := m, m.String()
			m, did = m.after(in)
			if now := was.String(); now != before {
				t.Fatalf("seed %d: %+v modifies %s: %s", seed, in, before, now)
			}
			for i, site := range m.rec.Sites {
				if was.decider.votes[i].vote != 0 && m.decider.votes[i].vote == 0 { // undone: it is to vote again
					events = strings.ReplaceAll(events, "voted "+site+";", "")
				}
			}
			for _, ev := range did.Emit {
				switch ev := ev.(type) {
				case Voted:
					events += "voted " + ev.Site + ";"
				case Left:
					events += "left;"
				case Committed, Aborted:
					events += "outcome;"
				case Prepare, Forgotten:
					t.Fatal(ev)
				}
			}
		}
		_, did := m.after(heard{session.Closed{}})
		for range did.Emit {
			events += "left;"
		}
		if !grammar.MatchString(events) {
			t.Fatalf("seed %d: %s", seed, events)
		}
	}
	expect.Explored(t, "input", given)
	t.Logf("%d schedules", grammarSeeds())
}

func TestSiteGrammar(t *testing.T) {
	grammar := regexp.MustCompile(`^(((prepare;)?((committed|aborted|forgotten);)?)?undone;)*((prepare;)?((committed|aborted|forgotten);)?)?left;$`)
	errs := []error{nil, nil, errLost, session.ErrNoNode, session.ErrNodeExists, session.ErrBadVersion, session.ErrNotEmpty, session.ErrBusy, session.ErrNoAuth}
	r := &record{ID: "t", GUID: "g", Sites: []string{"a", "b"}}
	seen := map[string]bool{}
	var given expect.Given
	for seed := range hasten.Seeds(t, grammarSeeds()) {
		random := rand.New(rand.NewPCG(seed, 3))
		n := name{"t", "g"}
		r.Mode = Mode(random.IntN(2))
		m, _ := standing("").after(siteListed{names: []string{"t", "_sites"}})
		decided := *r
		decided.Outcome = &Outcome{Committed: random.IntN(2) == 0, By: "b"}
		events, vanished := "", false
		for range 60 {
			err := errs[random.IntN(len(errs))]
			inputs := []siteInput{
				siteRead{id: "t", rec: r},
				siteRead{id: "t", rec: r},
				siteRead{id: "t", rec: &decided},
				siteRead{id: "t", err: errLost},
				siteAnswered{name: n, task: checking, names: []string{"s-a", "y-b", "c-x"}, err: err},
				siteAnswered{name: n, task: checking, names: []string{"y-a", "y-b"}},
				siteAnswered{name: n, task: checking, names: []string{"n-b"}},
				siteCounted{name: n, names: []string{"s-a", "n-b"}, err: err},
				siteAttended{[]string{"a"}, err},
				sitePassed{n, timer(random.IntN(4))},
				castVote{tx: Tx{"t", "g"}, vote: Vote(1 + random.IntN(2))},
				siteAnswered{name: n, task: voting, err: err},
				siteAnswered{name: n, task: confirming, names: []string{"y-a", "s-b"}, err: err},
				siteAnswered{name: n, task: deciding, err: err},
				finish{tx: Tx{"t", "g"}},
				siteAnswered{name: n, task: finishing, left: random.IntN(2), err: err},
				siteAnswered{name: n, task: clearing, err: err},
				siteAnswered{name: n, task: rereading, rec: r, err: err},
				siteAnswered{name: n, task: rereading, rec: &decided},
				siteHeard{session.Suspended{}},
				siteHeard{session.Expired{}},
				siteHeard{session.Connected{Epoch: 1}},
				stood{1},
				fell{},
				siteRead{id: "t", err: session.ErrNoNode},
			}
			if seed%4 == 0 {
				inputs = append(inputs, siteListed{names: []string{"t"}}, siteListed{err: err}, displaced{session.ErrNoAuth}, siteLeave{})
			}
			in := inputs[random.IntN(len(inputs))]
			if read, ok := in.(siteRead); ok && vanished || ok && errors.Is(read.err, session.ErrNoNode) && random.IntN(4) > 0 {
				continue
			} else if ok && errors.Is(read.err, session.ErrNoNode) {
				vanished = true
			}
			var did siteEffects
			was, before := m, m.String()
			expect.Note(&given, in)
			if m, did = m.after(in); undid(was, m, in) {
				events += "undone;"
			}
			if now := was.String(); now != before {
				t.Fatalf("seed %d: %+v modifies %s: %s", seed, in, before, now)
			}
			events += namesOf(did.Emit)
		}
		_, did := m.after(siteLeave{})
		events += namesOf(did.Emit)
		if !grammar.MatchString(events) {
			t.Fatalf("seed %d: %s", seed, events)
		}
		seen[events] = true
	}
	if len(seen) < 6 {
		t.Errorf("only %q", slices.Collect(func(yield func(string) bool) {
			for s := range seen {
				yield(s)
			}
		}))
	}
	expect.Explored(t, "siteInput", given)
	t.Logf("%d schedules", grammarSeeds())
}

// undid reports whether an input has shown that what the site was told, or has finished, was
// undone: it begins its part anew.
func undid(was, now sitemachine, in siteInput) bool {
	switch _, passed := in.(sitePassed); {
	case len(now.parts) == 0:
		return false
	case len(was.parts) == 0:
		return len(was.rested) > 0 && !passed // after a while the rest is removed
	}
	return was.parts[0].told && !now.parts[0].told
}

func namesOf(events []Event) string {
	var s strings.Builder
	for _, ev := range events {
		s.WriteString(strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T;", ev), "commit.")))
	}
	return s.String()
}

// standing returns the site a, whose presence stands.
func standing(parent string) sitemachine {
	m, _ := sitemachine{parent: parent, site: "a"}.after(siteHeard{session.Connected{Epoch: 1}})
	m, _ = m.after(stood{1})
	return m
}

// after is Step with effects of its own.
func (m machine) after(in input) (machine, effects) {
	var out effects
	m = m.Step(in, &out)
	return m, out
}

// after is Step with effects of its own.
func (m sitemachine) after(in siteInput) (sitemachine, siteEffects) {
	var out siteEffects
	m = m.Step(in, &out)
	return m, out
}

// TestResumedDecided: a coordinator that resumes a decided transaction first looks whether it is
// there yet. It records nothing, and waits for no vote.
func TestResumedDecided(t *testing.T) {
	decided := &record{ID: "t", GUID: "g", Sites: []string{"a"}, Outcome: &Outcome{Reason: TimedOut, Site: "a", By: "b"}}
	m, did := resumed(decided).after(heard{session.Connected{Epoch: 1}})
	if want := []effect{appear{1}, look{}}; !slices.Equal(did.Do, want) {
		t.Errorf("it does %v, want %v", did.Do, want)
	}
	if _, did = m.after(looked{found: decided}); len(did.Emit) != 1 || did.Emit[0].String() != "t "+decided.Outcome.String() {
		t.Errorf("it emits %v", did.Emit)
	}
}

// TestSiteThatMayNotRead: a site that may not list the transactions leaves with the error. One that
// may not read a record, or list its ballots, goes on with the other transactions, and asks again
// after a pause.
func TestSiteThatMayNotRead(t *testing.T) {
	m, _ := standing("").after(siteListed{names: []string{"t"}})
	m, did := m.after(siteListed{err: session.ErrNoAuth})
	if left, is := slices.Concat(did.Emit, []Event{nil})[0].(Left); !is || !errors.Is(left.Err, session.ErrNoAuth) || !m.Ended() {
		t.Errorf("it emits %v", did.Emit)
	}
	n := name{"t", "g"}
	for _, c := range []struct {
		in    siteInput
		again siteEffect
	}{
		{siteRead{id: "t", err: session.ErrNoAuth}, followRecord{"t"}},
		{siteAnswered{name: n, task: checking, err: session.ErrNoAuth}, check{n}},
	} {
		m, _ := standing("").after(siteListed{names: []string{"t"}})
		m, did := m.after(siteRead{id: "t", rec: &record{ID: "t", GUID: "g", Sites: []string{"a"}}})
		if want := siteEffect(check{n}); !slices.Contains(did.Do, want) {
			t.Fatalf("it does %v, want %v", did.Do, want)
		}
		m, did = m.after(c.in)
		if want := []siteEffect{await{n, pause, refusedFor}}; !slices.Equal(did.Do, want) || len(did.Emit) > 0 {
			t.Errorf("%T: it does %v, want %v, and emits %v", c.in, did.Do, want, did.Emit)
		}
		if _, did = m.after(sitePassed{n, pause}); !slices.Equal(did.Do, []siteEffect{c.again}) {
			t.Errorf("%T: after the pause it does %v, want %v", c.in, did.Do, c.again)
		}
	}
}

// TestSiteIsRefused: a site that decides asks again after a pause, or when its user votes. If a
// request only failed, it asks again at once.
func TestSiteIsRefused(t *testing.T) {
	r, other := &record{ID: "t", GUID: "g", Mode: Peer, Sites: []string{"a", "b"}}, &record{ID: "u", GUID: "h", Mode: Peer, Sites: []string{"a", "b"}}
	at, next, all := name{"t", "g"}, name{"u", "h"}, []string{"y-a", "y-b"}
	m, _ := standing("").after(siteListed{})
	take := func(in siteInput, want ...siteEffect) {
		t.Helper()
		var did siteEffects
		if m, did = m.after(in); !slices.Equal(did.Do, want) {
			t.Errorf("%T: it does %v, want %v", in, did.Do, want)
		}
	}
	take(siteListed{names: []string{"t"}}, followRecord{"t"})
	take(siteRead{id: "t", rec: r}, await{at, deadline, 0}, watchBallots{at}, watchSites{})
	take(siteCounted{name: at, err: errLost}, watchBallots{at})
	take(siteCounted{name: at, err: session.ErrNoAuth}, await{at, pause, refusedFor})
	take(sitePassed{at, pause}, watchBallots{at})
	take(siteCounted{name: at, err: session.ErrNoAuth}, await{at, pause, 2 * refusedFor})
	take(castVote{tx: thisTx, vote: Yes}, watchBallots{at}, cast{at, ballot{vote: Yes}, ""})
	take(siteAnswered{name: at, task: voting}, respond{})
	take(siteCounted{name: at, names: all}, propose{r, verdict{Outcome{Committed: true, By: "a"}, "y-a/y-b"}, 1})
	take(siteAnswered{name: at, task: deciding, settled: true, err: session.ErrBadVersion}, reread{at})
	take(siteAnswered{name: at, task: rereading, err: session.ErrNoAuth}, await{at, pause, refusedFor})
	take(sitePassed{at, pause}, reread{at})

	// The presence of the sites is followed again for the next transaction.
	take(siteAttended{err: session.ErrNoAuth})
	take(siteListed{names: []string{"t", "u"}}, followRecord{"u"})
	take(siteRead{id: "u", rec: other}, await{next, deadline, 0}, watchBallots{next}, watchSites{})
}

// TestAdmission: of the transactions that are there when a site begins, only mostOpening are read
// at once. One whose state is known makes room for the next, and so does one that may not be read.
func TestAdmission(t *testing.T) {
	var ids []string
	for i := range 2 * mostOpening {
		ids = append(ids, fmt.Sprintf("t%03d", i))
	}
	m := standing("")
	take := func(in siteInput, want int) {
		t.Helper()
		var did siteEffects
		m, did = m.after(in)
		began := 0
		for _, e := range did.Do {
			if _, is := e.(followRecord); is {
				began++
			}
		}
		if began != want {
			t.Errorf("%T: it begins %d transactions, want %d", in, began, want)
		}
	}
	open := func(id string) *record { return &record{ID: id, GUID: "g", Sites: []string{"a", "b"}} }
	take(siteListed{names: ids}, mostOpening)
	take(siteRead{id: ids[0], err: session.ErrNoAuth}, 1)
	take(siteRead{id: ids[1], rec: open(ids[1])}, 0)
	take(siteAnswered{name: name{ids[1], "g"}, task: checking, names: []string{"s-a", "s-b"}}, 1)
	take(siteRead{id: ids[2], rec: open(ids[2]).With(Outcome{Committed: true, By: "b"})}, 0)
	take(siteAnswered{name: name{ids[2], "g"}, task: checking, names: []string{"y-a", "y-b"}}, 1)
	// In the next session the ballots of both are listed anew: that is no beginning.
	take(siteHeard{session.Expired{Epoch: 1}}, 0)
	take(siteHeard{session.Connected{Epoch: 2}}, 0)
	take(stood{2}, 0)
	take(siteRead{id: ids[3], rec: &record{ID: ids[3], GUID: "g", Sites: []string{"b"}}}, 1)
}

// TestCoordinatorOfAnotherHistory: a coordinator whose session expires before its outcome is
// recorded decides by a list of the next session, though it has ended what it followed. So the
// outcome that it records belongs to its session.
func TestCoordinatorOfAnotherHistory(t *testing.T) {
	all, undone := counted{names: []string{"y-a", "y-b"}}, counted{names: []string{"y-a", "s-b"}}
	m, _ := newMachine(&record{ID: "t", GUID: "g", Sites: []string{"a", "b"}}).after(start{})
	take := func(in input, want ...effect) {
		t.Helper()
		var did effects
		if m, did = m.after(in); !slices.Equal(did.Do, want) {
			t.Errorf("%T: it does %v, want %v", in, did.Do, want)
		}
	}
	commit := Outcome{Committed: true, By: "coordinator"}
	take(heard{session.Connected{Epoch: 1}}, begin{1})
	m, _ = m.after(begun{})
	take(all, unfollow{}, decide{verdict{commit, "y-a/y-b"}, 1})
	take(recorded{errLost}, look{})
	take(heard{session.Expired{Epoch: 1}}, followBallots{}, followSites{}, awaitDeadline{})
	take(looked{found: m.rec})
	take(heard{session.Connected{Epoch: 2}}, appear{2})
	take(undone)
	take(heard{session.Expired{Epoch: 2}})
	take(all)
	take(heard{session.Connected{Epoch: 3}}, appear{3}, unfollow{}, decide{verdict{commit, "y-a/y-b"}, 3})
}

// TestSiteOfAnotherHistory: a site that was told an outcome takes part anew when the outcome was
// undone. It finishes only a transaction that is decided, and records an abort again.
func TestSiteOfAnotherHistory(t *testing.T) {
	open := &record{ID: "t", GUID: "g", Sites: []string{"a", "b"}}
	at := name{"t", "g"}
	commit, abort := Outcome{Committed: true, By: "b"}, Outcome{Reason: TimedOut, Site: "b", By: "b"}
	ours := ballot{vote: Yes}
	for _, was := range []Outcome{commit, abort} {
		m, _ := standing("").after(siteListed{names: []string{"t"}})
		take := func(in siteInput, want string, do ...siteEffect) {
			t.Helper()
			var did siteEffects
			m, did = m.after(in)
			do = append(do, did.Do[min(len(do), len(did.Do)):]...) // more may follow
			if !slices.Equal(did.Do, do) || !strings.HasPrefix(namesOf(did.Emit), want) {
				t.Errorf("%v: %T: it does %v, want %v, and emits %v", was, in, did.Do, do, did.Emit)
			}
		}
		told := strings.ToLower(strings.Fields(was.String())[0]) + ";"
		list := siteAnswered{name: at, task: checking, names: []string{"y-a", "y-b"}}
		decided := open.With(was)
		take(siteRead{id: "t", rec: decided, version: 1}, "", check{at})
		take(list, told)
		take(finish{tx: thisTx}, "", conclude{at, ours, 1, 1})
		take(siteAnswered{name: at, task: finishing, err: session.ErrBadVersion}, "", reread{at})
		take(siteAnswered{name: at, task: rereading, rec: open}, "", respond{err: ErrUndecided}, check{at})
		if was.Committed {
			take(list, "")
		} else {
			take(list, "", await{at, deadline, 0}, await{at, patrol, 0}, propose{decided, verdict{Outcome: was}, 1})
		}
		if p := m.parts[0]; was.Committed == (p.task == deciding) {
			t.Errorf("%v: it records it again: %v", was, p.describe("a"))
		}
		take(siteRead{id: "t", rec: open.With(was), version: 1}, "")
		if was.Committed {
			continue
		}
		take(siteAnswered{name: at, task: deciding}, told)
	}
}

// TestBeatenAndNotTold: a site whose outcome is refused for the version of the record reads that if
// the watch has nothing to tell, and after a reconnect. Servers that have come back with older data
// may know the session, and tell it nothing.
func TestBeatenAndNotTold(t *testing.T) {
	r := &record{ID: "t", GUID: "g", Mode: Peer, Sites: []string{"a", "b"}}
	at := name{"t", "g"}
	commit := Outcome{Committed: true, By: "a"}
	for _, settled := range []bool{true, false} {
		m, _ := standing("").after(siteListed{})
		m, _ = m.after(siteListed{names: []string{"t"}})
		m, _ = m.after(siteRead{id: "t", rec: r})
		m, did := m.after(siteCounted{name: at, names: []string{"y-a", "y-b"}})
		if want := (propose{r, verdict{commit, "y-a/y-b"}, 1}); !slices.Contains(did.Do, siteEffect(want)) {
			t.Fatalf("it does %v, want %v", did.Do, want)
		}
		m, did = m.after(siteAnswered{name: at, task: deciding, settled: settled, err: session.ErrBadVersion})
		if settled != slices.Contains(did.Do, siteEffect(reread{at})) {
			t.Errorf("settled: %v: it does %v", settled, did.Do)
		}
		if !settled {
			m, did = m.after(siteHeard{session.Resumed{}})
		}
		if !slices.Contains(did.Do, siteEffect(reread{at})) {
			t.Errorf("after a reconnect it does %v", did.Do)
		}
		if _, did = m.after(siteAnswered{name: at, task: rereading, rec: r}); !slices.Contains(did.Do, siteEffect(propose{r, verdict{commit, "y-a/y-b"}, 1})) {
			t.Errorf("it is undecided: it does %v", did.Do)
		}
	}
}

// TestUndone: a vote that a newer list shows as a ballot without one counts no more. A site that
// has finished has its ballot back, or the record is undecided again, on servers with older data:
// it begins its part anew.
func TestUndone(t *testing.T) {
	r := &record{ID: "t", GUID: "g", Sites: []string{"a", "b"}}
	list := func(names ...string) ballots { return parse(names) }
	d := newDecider(r, "c").count(list(nodes.VotedYes+"a", nodes.VotedYes+"b"))
	if o, next := d.next(); next != toDecide || !o.Committed {
		t.Errorf("all have voted: %v, %v", o, next)
	}
	if o, next := d.count(list(nodes.Unvoted+"a", nodes.VotedYes+"b")).next(); next != toWait {
		t.Errorf("a vote was undone: %v, %v", o, next)
	}
	d = d.count(list(nodes.VotedYes + "b"))
	if _, next := d.next(); next != toRead {
		t.Errorf("a has finished, so there is an outcome: %v", next)
	}
	d.beaten = false
	if o, next := d.next(); next != toWait {
		t.Errorf("there is none, so a's ballot was deleted: %v, %v", o, next)
	}
	if _, next := d.count(list(nodes.VotedYes + "b")).next(); next != toWait {
		t.Errorf("it is still missing: %v", next)
	}
	for what, later := range map[string]decider{"it is back": d, "in another session": d.forget()} {
		if o, next := later.count(list(nodes.VotedYes+"a", nodes.VotedYes+"b")).next(); next != toDecide || !o.Committed {
			t.Errorf("%s: %v, %v", what, o, next)
		}
	}
	if _, next := d.forget().count(list(nodes.VotedYes + "b")).next(); next != toRead {
		t.Errorf("in another session it may have finished: %v", next)
	}

	at := name{"t", "g"}
	rests := sitemachine{site: "a", began: true, rested: []*rested{{name: at, named: true, watching: true}}}
	for what, c := range map[string]struct {
		in    siteInput
		again bool
		ahead bool // the record is followed yet
	}{
		"its ballot is there":     {siteCounted{name: at, names: []string{nodes.VotedYes + "a"}}, true, false},
		"another ballot is there": {siteCounted{name: at, names: []string{nodes.VotedYes + "b"}}, false, false},
		"undecided":               {siteRead{id: "t", rec: r}, true, true},
		"decided":                 {siteRead{id: "t", rec: r.With(Outcome{Committed: true})}, false, true},
	} {
		m := rests
		if c.ahead {
			m.rested = []*rested{{name: at, named: true}}
		}
		var did siteEffects
		m = m.Step(c.in, &did)
		if again := len(m.parts) == 1 && len(m.rested) == 0; again != c.again {
			t.Errorf("%s: it begins anew: %v", what, again)
		}
	}
}

// TestVoteUndone: a vote that was confirmed, and that servers with older data do not have, is cast
// again: the site has promised it. No command is answered for that. A vote of an earlier process
// whose data is not known is not cast.
func TestVoteUndone(t *testing.T) {
	r := &record{ID: "t", GUID: "g", Sites: []string{"a", "b"}}
	at := name{"t", "g"}
	list := func(own string) siteAnswered {
		return siteAnswered{name: at, task: checking, names: []string{own + "a", nodes.Unvoted + "b", "c-x"}}
	}
	for what, c := range map[string]struct {
		data   string
		before siteInput // by which the site knows its vote
		again  bool
	}{
		"this process":                   {"", siteAnswered{name: at, task: voting}, true},
		"this process, with data":        {"data", siteAnswered{name: at, task: voting}, true},
		"this process, by a list":        {"data", list(nodes.VotedYesWithData), true},
		"an earlier process":             {"", list(nodes.VotedYes), true},
		"an earlier process, with data":  {"", list(nodes.VotedYesWithData), false},
		"another vote, before the reply": {"data", list(nodes.VotedNoWithData), false},
	} {
		m, _ := standing("").after(siteListed{names: []string{"t"}})
		step := func(in siteInput) (did siteEffects) {
			m, did = m.after(in)
			return did
		}
		step(siteRead{id: "t", rec: r})
		if !strings.HasPrefix(what, "an earlier") {
			step(list(nodes.Unvoted))
			step(castVote{tx: thisTx, vote: Yes, data: c.data})
			if _, is := c.before.(siteAnswered); is && c.before.(siteAnswered).task == checking {
				step(siteAnswered{name: at, task: voting, err: errLost})
			}
		}
		step(c.before)
		step(siteHeard{session.Expired{Epoch: 1}})
		step(siteHeard{session.Connected{Epoch: 2}})
		if did := step(stood{2}); !slices.Contains(did.Do, siteEffect(check{at})) {
			t.Fatalf("%s: it does %v", what, did.Do)
		}
		vote := cast{at, ballot{Yes, c.data != ""}, c.data}
		did := step(list(nodes.Unvoted))
		if c.again != slices.Contains(did.Do, siteEffect(vote)) || len(did.Emit) > 0 {
			t.Errorf("%s: it does %v, and emits %v", what, did.Do, did.Emit)
		}
		if !c.again {
			continue
		}
		if did = step(castVote{tx: thisTx, vote: No}); !slices.Contains(did.Do, siteEffect(respond{err: ErrVoted})) {
			t.Errorf("%s: another vote: it does %v", what, did.Do)
		}
		for _, err := range []error{errLost, nil} { // the reply is lost, or comes
			if did = step(siteAnswered{name: at, task: voting, err: err}); slices.ContainsFunc(did.Do, isRespond) {
				t.Errorf("%s: it does %v", what, did.Do)
			}
			if err != nil {
				did = step(list(nodes.Unvoted))
			}
		}
		if m.parts[0].vote || m.parts[0].ballot.vote != Yes || len(did.Emit) > 0 {
			t.Errorf("%s: %s, and emits %v", what, m, did.Emit)
		}
		// Not even at the end.
		for _, in := range []siteInput{siteRead{id: "t", err: session.ErrNoNode}, siteLeave{}} {
			again := m
			again.parts = slices.Clone(m.parts)
			if _, did := again.after(in); slices.ContainsFunc(did.Do, isRespond) {
				t.Errorf("%s: %T: it does %v", what, in, did.Do)
			}
		}
	}
}

func isRespond(e siteEffect) bool { _, is := e.(respond); return is }

// TestUnfounded: a party whose Commit is refused, since a vote is not there any more, asks the
// leader for the votes, and goes by these.
func TestUnfounded(t *testing.T) {
	r := &record{ID: "t", GUID: "g", Mode: Peer, Sites: []string{"a", "b"}}
	at, all, left := name{"t", "g"}, []string{"y-a", "Y-b"}, []string{"y-a", "s-b"}
	commit := verdict{Outcome{Committed: true, By: coordinator}, "y-a/Y-b"}

	m, _ := newMachine(r).after(start{})
	take := func(in input, want ...effect) {
		t.Helper()
		var did effects
		if m, did = m.after(in); !slices.Equal(did.Do, want) {
			t.Errorf("%T: it does %v, want %v", in, did.Do, want)
		}
	}
	take(heard{session.Connected{Epoch: 1}}, begin{1})
	take(begun{}, respond{}, followBallots{}, followSites{}, awaitDeadline{})
	take(counted{names: all}, readVote{"b", Yes})
	take(voteRead{"b", Yes, []byte("data"), nil}, unfollow{}, decide{commit, 1})
	take(recorded{errUndone}, followBallots{}, followSites{}, awaitDeadline{}, confirm{})
	take(counted{names: all}) // which the watch has from before
	take(confirmed{err: session.ErrDisconnected}, confirm{})
	take(confirmed{names: left})
	take(counted{names: left})
	take(counted{names: all}, readVote{"b", Yes}) // it has voted again
	take(voteRead{"b", Yes, []byte("data"), nil}, unfollow{}, decide{commit, 1})
	take(recorded{errUndone}, followBallots{}, followSites{}, awaitDeadline{}, confirm{})
	take(confirmed{names: []string{"y-a", "n-b"}}, unfollow{}, decide{verdict{Outcome: Outcome{Reason: VotedNo, Site: "b", By: coordinator}}, 1})

	site, _ := standing("").after(siteListed{})
	commit.By = "a"
	step := func(in siteInput, want ...siteEffect) {
		t.Helper()
		var did siteEffects
		if site, did = site.after(in); !slices.Equal(did.Do, want) {
			t.Errorf("%T: it does %v, want %v", in, did.Do, want)
		}
	}
	step(siteListed{names: []string{"t"}}, followRecord{"t"})
	step(siteRead{id: "t", rec: r}, await{at, deadline, 0}, watchBallots{at}, watchSites{})
	step(siteCounted{name: at, names: all}, propose{r, commit, 1})
	step(siteAnswered{name: at, task: deciding, err: errUndone}, ascertain{at})
	step(siteAnswered{name: at, task: confirming, names: left})
	step(siteCounted{name: at, names: all}, propose{r, commit, 1})
}

// TestSiteAfterTheRecord: the record of a transaction that the site has not finished is gone. Only
// a list that came after the last read of it, while a read has found that, says that another
// transaction may have the id; so does a record with another GUID. Finish succeeds only if the site
// has received the outcome.
func TestSiteAfterTheRecord(t *testing.T) {
	open := &record{ID: "t", GUID: "g", Sites: []string{"a", "b"}}
	at, again := name{"t", "g"}, siteListed{names: []string{"t"}}
	gone := func(zxid int64) siteInput { return siteRead{id: "t", zxid: zxid, err: session.ErrNoNode} }
	for what, c := range map[string]struct {
		inputs  []siteInput
		follows bool // the id, after all
		events  string
	}{
		"a read finds it gone":               {[]siteInput{gone(7)}, false, "forgotten;"},
		"a watch reports it":                 {[]siteInput{gone(0)}, false, "forgotten;"},
		"a read finds it gone, after a list": {[]siteInput{again, gone(7)}, true, "forgotten;"},
		"a watch reports it, after a list":   {[]siteInput{again, gone(0)}, false, "forgotten;"},
		"a read after a list finds it there": {[]siteInput{again, siteRead{id: "t", rec: open}, gone(7)}, false, "forgotten;"},
		"another has the id":                 {[]siteInput{siteRead{id: "t", rec: &record{ID: "t", GUID: "h", Sites: []string{"a"}}}}, true, "forgotten;"},
		"its Commit was read, and not yet emitted": {
			[]siteInput{siteRead{id: "t", rec: open.With(Outcome{Committed: true})}, gone(0), siteAnswered{name: at, task: checking, err: errLost}},
			false, "committed;",
		},
	} {
		m, _ := standing("").after(siteListed{})
		m, _ = m.after(again)
		m, _ = m.after(siteRead{id: "t", rec: open})
		var did siteEffects
		events := ""
		for _, in := range c.inputs {
			m, did = m.after(in)
			events += namesOf(did.Emit)
		}
		if follows := slices.Contains(did.Do, siteEffect(followRecord{"t"})); follows != c.follows || events != c.events {
			t.Errorf("%s: it follows the id: %v, and emits %s", what, follows, events)
		}
		told := events == "committed;"
		if _, did = m.after(finish{tx: thisTx}); told != slices.Contains(did.Do, siteEffect(respond{})) {
			t.Errorf("%s: after Finish it does %v", what, did.Do)
		}
	}
}
