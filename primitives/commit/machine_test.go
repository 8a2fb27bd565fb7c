package commit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/hasten"
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
			[]input{first, begun{}, passed{}, counted{names: []string{"y-a", "s-b"}}},
			"begin{1}; " + followed + "; ; unfollow{} decide{aborted by coordinator: the deadline passed: b} <voted a yes>",
		},
		"a site that was never there has not died": {
			[]input{first, begun{}, counted{names: []string{"s-a", "s-b"}}, attended{names: []string{"a"}}, attended{names: []string{}}, counted{names: []string{"s-a", "s-b"}}},
			"begin{1}; " + followed + "; ; ; followBallots{}; unfollow{} decide{aborted by coordinator: a site was gone before it voted: a}",
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
				counted{names: []string{"y-a", "s-b"}},
			},
			"begin{1}; " + followed + "; ; ; followBallots{}; <voted a yes>; followBallots{}; " +
				"unfollow{} decide{aborted by coordinator: a site was gone before it voted: b}",
		},
		"a vote counts while its data is read: neither the death of the site nor the deadline is its fault": {
			[]input{
				first,
				begun{},
				attended{names: []string{"a", "b"}},
				counted{names: []string{"Y-a", "s-b"}},
				attended{names: []string{"b"}},
				passed{},
				voteRead{"a", Yes, nil, nil},
			},
			"begin{1}; " + followed + "; ; readVote{a 1}; ; ; unfollow{} decide{aborted by coordinator: the deadline passed: b} <voted a yes>",
		},
		"the session is closed while the transaction is being created": {
			[]input{first, heard{session.Closed{}}},
			"begin{1}; respond{outcome unknown: session closed} <left: session closed>",
		},
		"what became of the beginning cannot be read": {
			[]input{first, begun{errLost}, looked{err: session.ErrNoAuth}},
			"begin{1}; look{}; respond{outcome unknown: not authorized} <left: not authorized>",
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
	for seed := range grammarSeeds() {
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
				recorded{err},
				appeared{epoch, err},
				retired{random.IntN(2), err},
				removed{err},
				heard{session.Expired{Epoch: epoch}},
				heard{session.Suspended{}},
				giveUp{},
			}
			in := inputs[random.IntN(len(inputs))]
			if random.IntN(3) == 0 {
				epoch++
				in = heard{session.Connected{Epoch: epoch}}
			}
			var did effects
			m, did = m.after(in)
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
}

func TestSiteGrammar(t *testing.T) {
	grammar := regexp.MustCompile(`^((prepare;)?((committed|aborted|forgotten);)?)?left;$`)
	errs := []error{nil, nil, errLost, session.ErrNoNode, session.ErrNodeExists, session.ErrBadVersion, session.ErrNotEmpty, session.ErrBusy}
	r := &record{ID: "t", GUID: "g", Sites: []string{"a", "b"}}
	seen := map[string]bool{}
	for seed := range grammarSeeds() {
		random := rand.New(rand.NewPCG(seed, 3))
		n := name{"t", "g"}
		r.Mode = Mode(random.IntN(2))
		m := sitemachine{site: "a"}
		m, _ = m.after(siteListed{names: []string{"t", "_sites"}})
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
				siteCounted{n, []string{"s-a", "n-b"}, err},
				siteAttended{[]string{"a"}, err},
				sitePassed{n, timer(random.IntN(2))},
				castVote{id: "t", vote: Vote(1 + random.IntN(2))},
				siteAnswered{name: n, task: voting, err: err},
				siteAnswered{name: n, task: deciding, err: err},
				finish{id: "t"},
				siteAnswered{name: n, task: finishing, left: random.IntN(2), err: err},
				siteAnswered{name: n, task: clearing, err: err},
				siteHeard{session.Suspended{}},
				siteRead{id: "t", err: session.ErrNoNode},
			}
			in := inputs[random.IntN(len(inputs))]
			if read, ok := in.(siteRead); ok && vanished || ok && errors.Is(read.err, session.ErrNoNode) && random.IntN(4) > 0 {
				continue
			} else if ok && errors.Is(read.err, session.ErrNoNode) {
				vanished = true
			}
			var did siteEffects
			m, did = m.after(in)
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
}

func namesOf(events []Event) string {
	var s strings.Builder
	for _, ev := range events {
		s.WriteString(strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T;", ev), "commit.")))
	}
	return s.String()
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

// TestResumedDecided: a coordinator that resumes a decided transaction first looks whether it is there yet. It records nothing,
// and waits for no vote.
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

// TestSiteThatMayNotRead: a site that may not list the transactions, read a record or list the ballots leaves with the error.
func TestSiteThatMayNotRead(t *testing.T) {
	for _, in := range []siteInput{
		siteListed{err: session.ErrNoAuth},
		siteRead{id: "t", err: session.ErrNoAuth},
		siteAnswered{name: name{"t", "g"}, task: checking, err: session.ErrNoAuth},
	} {
		m, _ := sitemachine{site: "a"}.after(siteListed{names: []string{"t"}})
		m, did := m.after(siteRead{id: "t", rec: &record{ID: "t", GUID: "g", Sites: []string{"a"}}})
		if want := siteEffect(check{name{"t", "g"}}); !slices.Contains(did.Do, want) {
			t.Fatalf("it does %v, want %v", did.Do, want)
		}
		m, did = m.after(in)
		if left, is := slices.Concat(did.Emit, []Event{nil})[0].(Left); !is || !errors.Is(left.Err, session.ErrNoAuth) || !m.Ended() {
			t.Errorf("%T: it emits %v", in, did.Emit)
		}
	}
}
