package commit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zkactors/zkactors/session"
)

// TestTranscripts replays the stories in testdata, of one machine each. Run it with -rewrite to let
// it write down what happens.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var step func(d *datadriven.TestData) (string, error)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var story string
			var err error
			switch d.Cmd {
			case "coordinator":
				story, step = newCoordinatorStory(d)
			case "site":
				story, step = newSiteStory(d)
			default:
				story, err = step(d)
			}
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return story
		})
	})
}

// newCoordinatorStory has a coordinator take inputs, and tells what it does.
func newCoordinatorStory(d *datadriven.TestData) (string, func(*datadriven.TestData) (string, error)) {
	r := storyRecord(d)
	m, first := newMachine(r), []effect(nil)
	if d.HasArg("resumed") {
		m, first = resumed(r), resumption()
	}
	return tellStep(m, effects{Do: first}), func(d *datadriven.TestData) (string, error) {
		in := coordinatorInput(m, r, d)
		if in == nil {
			return "", fmt.Errorf("unknown input %s", d.Cmd)
		}
		var did effects
		m, did = m.after(in)
		return tellStep(m, did), nil
	}
}

// newSiteStory has a site take inputs, and tells what it does.
func newSiteStory(d *datadriven.TestData) (string, func(*datadriven.TestData) (string, error)) {
	r := storyRecord(d)
	m := standing("/tx")
	return tellStep(m, siteEffects{Do: []siteEffect{followParent{}}}), func(d *datadriven.TestData) (string, error) {
		in := siteStoryInput(r, d)
		if in == nil {
			return "", fmt.Errorf("unknown input %s", d.Cmd)
		}
		var did siteEffects
		m, did = m.after(in)
		return tellStep(m, did), nil
	}
}

func tellStep[M, Do any](m M, did struct {
	Do   []Do
	Emit []Event
},
) string {
	var s strings.Builder
	s.WriteString(tellState(m) + "\n")
	for _, e := range did.Do {
		s.WriteString("  " + tellEffect(e) + "\n")
	}
	for _, ev := range did.Emit {
		s.WriteString("* " + ev.String() + "\n")
	}
	return s.String()
}

// tellState says how far a machine is: its phase, or for each transaction the ballot and the
// request of the site, and the outcome that it knows.
func tellState(m any) string {
	switch m := m.(type) {
	case machine:
		return m.phase.String() + flagged(" "+m.outcome.String(), m.outcome != Outcome{})
	case sitemachine:
		s := m.site + flagged(" away", !m.stands()) + flagged(" over", m.over)
		for _, p := range m.parts {
			s += " [" + p.id
			if p.rec != nil {
				s += " " + p.ballot.name(m.site)
			}
			if s += flagged(" "+p.task.String(), p.task != idle) + flagged(" gone", p.gone); p.outcome != nil {
				s += " " + p.outcome.String()
			}
			s += "]"
		}
		for _, r := range m.rested {
			s += " (" + r.id + ")"
		}
		return s
	}
	return fmt.Sprint(m)
}

// tellEffect leaves pointers out.
func tellEffect(e any) string {
	what := fmt.Sprintf("%v", e)
	switch e := e.(type) {
	case respond:
		what = fmt.Sprintf("{%v}", e.err)
	case decide:
		what = "{" + e.String() + "}"
	case remove:
		what = "{" + e.String() + "}"
	case propose:
		what = "{" + e.String() + "}"
	case clearUp:
		what = "{" + e.rec.Outcome.String() + "}"
	case cast:
		what = fmt.Sprintf("{%s %q}", e.ballot.name("a"), e.data)
	case conclude:
		what = "{" + e.ballot.name("a") + "}"
	case readVote:
		what = fmt.Sprintf("{%s %v}", e.site, e.vote)
	case await:
		what = fmt.Sprintf("{%s %v}", [...]string{"deadline", "patrol", "pause", "absence"}[e.timer], e.after)
	case check, watchBallots, unwatch, forget, ascertain:
		what = "{}"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", e), "commit.") + what
}

// storyRecord returns the record of sites a and b.
func storyRecord(d *datadriven.TestData) *record {
	r := &record{ID: "t", GUID: "g", Sites: []string{"a", "b"}, Deadline: time.Minute, TakeoverAfter: 30 * time.Second}
	if d.HasArg("peer") {
		r.Mode = Peer
	}
	return r
}

var storyErrors = map[string]error{
	"no-node": session.ErrNoNode, "node-exists": session.ErrNodeExists, "bad-version": session.ErrBadVersion, "no-auth": session.ErrNoAuth,
	"lost": errLost, "disconnected": session.ErrDisconnected, "expired": session.ErrExpired, "not-empty": session.ErrNotEmpty,
}

// storyWords returns the error that an input names, and all other words.
func storyWords(d *datadriven.TestData) (words []string, failed error) {
	for _, arg := range d.CmdArgs {
		if err, is := storyErrors[arg.Key]; is {
			failed = err
		} else {
			words = append(words, arg.Key)
		}
	}
	return words, failed
}

// storyFound returns what is found at the path of the record.
func storyFound(r *record, words []string) *record {
	switch strings.Join(words, " ") {
	case "undecided":
		return r
	case "committed":
		return r.With(Outcome{Committed: true, By: "b"})
	case "aborted":
		return r.With(Outcome{Reason: VotedNo, Site: "b", By: "b"})
	case "another":
		return &record{ID: "t", GUID: "h", Sites: []string{"b"}}
	}
	return nil
}

func coordinatorInput(m machine, r *record, d *datadriven.TestData) input {
	words, err := storyWords(d)
	left := 1
	if d.HasArg("last") {
		left = 0
	}
	switch d.Cmd {
	case "start":
		return start{}
	case "give-up":
		return giveUp{}
	case "leave":
		return leave{}
	case "connected":
		return heard{session.Connected{Epoch: m.stood + 1}}
	case "suspended":
		return heard{session.Suspended{}}
	case "expired":
		return heard{session.Expired{Epoch: m.epoch}}
	case "closed":
		return heard{session.Closed{}}
	case "begun":
		return begun{err}
	case "ensured":
		return ensured{err}
	case "looked":
		return looked{storyFound(r, words), err}
	case "counted":
		return counted{words, err}
	case "vote-read":
		return voteRead{words[0], map[string]Vote{"yes": Yes, "no": No}[words[1]], []byte("data"), err}
	case "attended":
		return attended{words, err}
	case "passed":
		return passed{}
	case "lapsed":
		return lapsed{}
	case "confirmed":
		ballots, sites := storyLists(words)
		return confirmed{ballots, sites, err}
	case "recorded":
		return recorded{err}
	case "appeared":
		return appeared{m.stood, err}
	case "retired":
		return retired{left, err}
	case "removed":
		return removed{err}
	}
	return nil
}

// storyLists returns the ballots, which have a -, and the sites among words.
func storyLists(words []string) (ballots, sites []string) {
	for _, word := range words {
		if strings.Contains(word, "-") {
			ballots = append(ballots, word)
		} else {
			sites = append(sites, word)
		}
	}
	return ballots, sites
}

// storyTx returns the transaction that a command names: an earlier one with the id if it says so.
func storyTx(d *datadriven.TestData) Tx {
	if d.HasArg("earlier") {
		return Tx{"t", "e"}
	}
	return Tx{"t", "g"}
}

func siteStoryInput(r *record, d *datadriven.TestData) siteInput {
	words, err := storyWords(d)
	n, left := name{"t", "g"}, 1
	if d.HasArg("last") {
		left = 0
	}
	switch d.Cmd {
	case "leave":
		return siteLeave{}
	case "closed":
		return siteHeard{session.Closed{}}
	case "suspended":
		return siteHeard{session.Suspended{}}
	case "expired":
		return siteHeard{session.Expired{}}
	case "connected":
		return siteHeard{session.Connected{Epoch: 2}}
	case "stood":
		return stood{2}
	case "fell":
		return fell{}
	case "displaced":
		return displaced{errors.New("another process has the name")}
	case "listed":
		return siteListed{words, err}
	case "read":
		in := siteRead{id: "t", err: err}
		if d.HasArg("u") {
			in.id, words = "u", words[:len(words)-1]
		}
		in.rec = storyFound(r, words)
		if d.HasArg("by-a-read") {
			in.zxid = 7
		}
		return in
	case "checked":
		return siteAnswered{name: n, task: checking, names: words, err: err}
	case "counted":
		return siteCounted{name: n, names: words, err: err}
	case "attended":
		return siteAttended{words, err}
	case "deadline":
		return sitePassed{n, deadline}
	case "patrol":
		return sitePassed{n, patrol}
	case "pause":
		return sitePassed{n, pause}
	case "lapsed":
		return sitePassed{n, absence}
	case "confirmed":
		ballots, sites := storyLists(words)
		return siteAnswered{name: n, task: confirming, names: ballots, sites: sites, err: err}
	case "vote":
		data := ""
		if d.HasArg("data") {
			data = "data"
		}
		return castVote{tx: storyTx(d), vote: map[string]Vote{"yes": Yes, "no": No}[words[0]], data: data}
	case "cast":
		return siteAnswered{name: n, task: voting, err: err}
	case "recorded":
		return siteAnswered{name: n, task: deciding, err: err}
	case "finish":
		return finish{tx: storyTx(d)}
	case "finished":
		return siteAnswered{name: n, task: finishing, left: left, err: err}
	case "cleared":
		return siteAnswered{name: n, task: clearing, err: err}
	}
	return nil
}
