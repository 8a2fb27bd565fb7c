package election

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

const (
	id    = "11111111-2222-3333-4444-555555555555"
	other = "_c_other-n_0000000001"
)

func newMachine() machine {
	return machine{place: line.New(id, Standard.rule("/e/successors"), true, false), view: view{dir: "/e/candidates"}, data: "me"}
}

// alphabet returns what can be told to m, possible or not, given what its place has asked for.
func alphabet(m machine, asked []line.Effect) []input {
	var ins []input
	newest := m.view.newest
	for _, in := range placeAlphabet(m.place.Epoch(), asked, newest+1) {
		ins = append(ins, placed{in})
	}
	of, h := m.tenure, m.handing
	ins = append(ins,
		sighted{m.follow, sighting{at: newest + 1}},
		sighted{m.follow, sighting{at: newest, term: newest, record: record{Node: other}}},
		sighted{m.follow, sighting{at: newest, term: m.term, record: record{Node: other}}},
		sighted{m.follow, sighting{at: newest + 1, term: newest + 1, record: record{Node: other}}},
		sighted{m.follow, sighting{at: newest + 1, term: newest + 1, record: record{Node: other, Successor: m.place.Node()}}},
		sighted{m.follow + 1, sighting{at: newest + 1, term: newest + 1, record: record{Node: other}}},
		touched{m.follow}, touched{m.follow + 1}, overlooked{glance{m.follow}, errUnknown}, overlooked{glance{m.follow}, session.ErrNoNode}, overlooked{glance{m.follow}, session.ErrExpired},
		blinded{m.follow, session.ErrNoAuth}, blinded{m.follow, session.ErrExpired},
		leave{}, resign{}, resign{term: m.term}, acknowledge{}, transfer{node: other}, transfer{node: m.node},
		lead{}, returned{}, overdue{m.work.term}, overdue{9}, refused{expect{h.tenure, h.to}}, lapsed{lapse{h.tenure}}, heard{session.Connected{Epoch: 1}},
	)
	if next := m.heir.heed; next != (heed{}) {
		ins = append(
			ins,
			heeded{next, sighting{at: newest, term: newest, record: record{Node: next.next}}},
			heeded{next, sighting{at: newest, term: newest, record: record{Node: next.next, Successor: m.place.Node()}}},
			heeded{next, sighting{at: newest}},
			heeded{heed{next.epoch, "-"}, sighting{at: newest, term: newest, record: record{Node: "-"}}},
			disturbed{next, true}, disturbed{next, false}, disturbed{heed{next.epoch, "-"}, true},
		)
	}
	for _, err := range []error{nil, session.ErrNoNode, errUnknown, session.ErrExpired, session.ErrNoAuth} {
		if m.term == 0 || m.place.Claimed() != 0 { // an heir sends no note before its claim is made
			ins = append(ins, noted{of: note{tenure: of}, zxid: newest + 1, err: err})
		}
		ins = append(ins,
			sought{of: seek{h.tenure, h.to}, exists: true, err: err},
			sought{of: seek{h.tenure, h.to}, err: err},
			handed{of: hand{tenure: h.tenure, to: h.to}, err: err},
		)
	}
	if asked := m.heir.asked; asked != (prepare{}) {
		ins = append(ins, prepared{of: asked, zxid: newest + 1}, prepared{of: asked, err: errUnknown}, prepared{of: asked, err: session.ErrExpired}, prepared{of: asked, err: session.ErrNoAuth})
	}
	return append(ins,
		handed{of: hand{tenure: h.tenure, to: h.to}, untold: true},
		handed{of: hand{tenure: h.tenure, to: h.to}, err: session.ErrNoNode, nobody: true},
		handed{of: hand{tenure: h.tenure, to: h.to}, err: session.ErrNoNode, gone: true},
	)
}

// A stage is where in the documented grammar a candidate is:
//
//	(Elected (Suspended | Resumed)* Deposed)* Left
//
// with Standing, LeaderChanged and Overrun anywhere before Left.
type stage struct {
	leads, suspended, left bool
	newest                 int64
	stands                 string
}

func (s stage) next(ev Event) (stage, bool) {
	ok := !s.left
	switch ev := ev.(type) {
	case Standing:
		ok = ok && !s.leads && ev.Node != s.stands
		s.stands = ev.Node
	case Elected:
		ok = ok && !s.leads && s.stands != ""
		s.leads = true
	case Suspended:
		ok = ok && s.leads && !s.suspended
		s.suspended = true
	case Resumed:
		ok = ok && s.leads && s.suspended
		s.suspended = false
	case Deposed:
		ok = ok && s.leads && errors.Is(ev.Err, ErrDeposed)
		s.leads, s.suspended = false, false
	case LeaderChanged:
		ok = ok && ev.Term >= s.newest
		s.newest = ev.Term
	case Overrun:
	case Left:
		ok = ok && !s.leads
		s.left = true
	}
	return s, ok
}

var modelStates = flag.Int("election.states", hasten.Usually(25_000, 6_000), "states to go through, in each exploration")

// TestExhaustion goes through the states that a candidate can reach, in two terms and two
// places in line, and checks every step.
func TestExhaustion(t *testing.T) {
	if testing.Short() {
		t.Skip("an exploration")
	}
	for name, observes := range map[string]observation{"always": always, "leading": leading} {
		t.Run("follows "+name, func(t *testing.T) { exhaust(t, observes) })
	}
}

// exhaust goes through the states of a candidate that follows the leader then.
func exhaust(t *testing.T, observes observation) {
	type position struct {
		machine
		stage
		asked []line.Effect // by the place
	}
	t.Helper()
	start := position{machine: newMachine()}
	start.observes = observes
	step := func(p position, in input) (position, error) {
		m, out := p.after(in)
		next := position{m, p.stage, asks(p.asked, out.Do)}
		complaint := inspect(p.machine, in, m, out)
		for _, ev := range out.Emit {
			var ok bool
			if next.stage, ok = next.next(ev); !ok {
				complaint = "breaks the grammar"
			}
		}
		switch {
		case complaint != "":
		case next.leads != (m.term != 0):
			complaint = "leads in secret"
		case next.left != m.ended:
			complaint = "ends in silence"
		case next.stage.suspended != m.suspended:
			complaint = "is suspended in secret"
		}
		if complaint != "" {
			return next, fmt.Errorf("%s: Do %v, Emit %v", complaint, out.Do, out.Emit)
		}
		return next, nil
	}
	heir := start // of the leader: as a newcomer it would become that late
	for _, in := range behind() {
		var err error
		heir, err = step(heir, in)
		check.Must(t, err)
	}
	var given check.Given
	states, steps := exploration.Search[position, input, string]{
		Inputs: func(p position) []input {
			if p.view.newest > 3 {
				return nil
			}
			return alphabet(p.machine, p.asked)
		},
		Step: step, Limit: *modelStates / 2, Given: &given,
		Key: func(p position) string {
			if p.view.newest > 3 {
				return ""
			}
			return fmt.Sprintf("%v %v %v %v %v", p.machine, p.view, p.handing, p.heir, p.stage)
		},
	}.Run(t, start, heir)
	check.Explored(t, "input", given)
	t.Logf("%d states, %d steps", states, steps)
}

// isOver reports whether an input is an answer that says that the session is over.
func isOver(in input) bool {
	var err error
	switch in := in.(type) { // the others are no answers
	case overlooked:
		err = in.err
	case noted:
		err = in.err
	case sought:
		err = in.err
	case handed:
		err = in.err
	case prepared:
		err = in.err
	}
	return err != nil && client.Over(err)
}

// inspect returns what is wrong with a step, or "".
func inspect(before machine, in input, m machine, out effects) string {
	if before.ended && (m != before || len(out.Do)+len(out.Emit) > 0) {
		return "acts after the end"
	}
	over := isOver(in)
	for _, e := range out.Do {
		switch e := e.(type) {
		case hand:
			if over || m.term != 0 || m.work.term != 0 || !m.place.Holding() {
				return "hands over what it has not given up"
			}
		case inPlace:
			works := m.work.term != 0 && (!m.closing || !m.work.overdue)
			if works && before.work.term == m.work.term && line.Withdraws(e.Effect) && m.place.Leaving() {
				return "gives up its place while its function runs"
			}
		case engage:
			if term, yes := m.leading(); e.err == nil && (!yes || e.term != term) {
				return "engages without a term"
			}
		case note:
			if over || m.term == 0 || e.tenure != m.tenure || m.place.Claimed() == 0 {
				return "acknowledges what is not its own"
			}
		case postpone:
			if !m.deferred {
				return "postpones an acknowledgement for ever"
			}
		case proceed:
			if !before.deferred || m.deferred {
				return "hands back what it has not postponed"
			}
		case seek:
			if over || m.term == 0 {
				return "seeks a successor and does not lead"
			}
		case follow:
			if !m.following || e.epoch != m.follow {
				return "does not know that it follows"
			}
		case unfollow:
			if m.following || m.observes == always || m.term != 0 {
				return "follows no more, and has to"
			}
		case glance:
			if over || m.following || e.epoch != m.follow {
				return "looks at what it follows"
			}
		case lapse:
			if m.handing.to == "" || m.handing.phase != offered {
				return "waits for a successor that it does not hand over to"
			}
		case heed:
			if m.heir.heed != e || m.place.Next() != e.next {
				return "heeds what it is not behind"
			}
		case unheed:
			if before.heir.heed == (heed{}) || before.heir.heed == m.heir.heed {
				return "heeds no more, and has to"
			}
		case prepare:
			// The term stays its own if it is not next for a while: so it is repeated then, too.
			failed, repeats := in.(prepared)
			repeats = repeats && failed.of == e
			if over || m.heir.asked != e || !repeats && (m.heir.led == 0 || e.heed != m.heir.heed) {
				return "prepares a term that it does not inherit"
			}
		case expect, bear, answer:
		}
	}
	if m.term != 0 && (!m.place.Holding() || m.node != m.place.Node()) {
		return "leads without a place"
	}
	if m.deferred && (m.term == 0 || m.place.Claimed() != 0) {
		return "defers an acknowledgement without a reason"
	}
	if m.ended {
		return ""
	}
	// However it came to be so, it ends.
	end := m
	for _, in := range []input{leave{}, returned{}, placed{told(closes)}} {
		end, _ = end.after(in)
	}
	if !end.ended {
		return fmt.Sprintf("does not end: %v, after %T", end, in)
	}
	return ""
}

// --- rows

// script feeds inputs to a machine.
func script(m machine, ins ...input) machine {
	for _, in := range ins {
		m, _ = m.after(in)
	}
	return m
}

// tell feeds what the server tells to its place.
func (m machine) tell(all ...int) machine {
	for _, what := range all {
		m, _ = m.after(placed{told(what)})
	}
	return m
}

func kinds[T any](all []T) string {
	s := ""
	for _, e := range all {
		s += fmt.Sprintf("%T ", e)
	}
	return s
}

func TestRows(t *testing.T) {
	leader := newMachine().tell(connects, joinsAlone, claims)
	worker, _ := leader.after(lead{})
	own := leader.tenure
	blind := newMachine()
	blind.observes = leading
	heir := newMachine().tell(connects, joinsBehind)
	successor := sighting{at: 50, term: 50, record: record{Node: other, Successor: heir.place.Node()}}
	handing := script(leader, transfer{node: other}, sought{of: seek{own, other}, exists: true})
	for _, row := range []struct {
		danger string
		before machine
		in     input
		do     string
		emit   string
		check  func(m machine) bool
	}{
		{"a leader that resigns is deposed before its node is given up", leader, resign{}, "election.inPlace election.inPlace ", "election.Deposed election.LeaderChanged ", nil},
		{"the node of a resigned leader stays while its function runs", worker, resign{}, "election.bear election.inPlace ", "election.Deposed election.LeaderChanged ", func(m machine) bool { return m.work.then != nil }},
		{"a resignation in another term", leader, resign{term: 3}, "election.answer ", "", func(m machine) bool { return m.term != 0 }},
		{"what an operator has left stays while the function runs", worker, placed{told(nodeGone)}, "election.bear election.inPlace ", "election.Deposed election.LeaderChanged ", func(m machine) bool { return m.work.then != nil }},
		{"a candidate is sought before anything is given up", leader, transfer{node: other}, "election.seek ", "", func(m machine) bool { return m.term != 0 }},
		{"a leader stops before it hands over", first(leader.after(transfer{node: other})), sought{of: seek{own, other}, exists: true}, "election.hand ", "election.Deposed election.LeaderChanged ", nil},
		{"a leader hands over when its function has returned", first(worker.after(transfer{node: other})), sought{of: seek{own, other}, exists: true}, "election.bear ", "election.Deposed election.LeaderChanged ", nil},
		{"one that ignores the leader reads once what was written for it", blind.tell(connects, joinsBehind), touched{1}, "election.glance ", "", nil},
		{"not for another epoch", blind.tell(connects, joinsBehind), touched{2}, "", "", nil},
		{"and once more if that was lost", blind.tell(connects, joinsBehind), overlooked{glance{1}, errUnknown}, "election.glance ", "", nil},
		{"not if there is no leader", blind.tell(connects, joinsBehind), overlooked{glance{1}, session.ErrNoNode}, "", "", nil},
		{"who cannot see the leader leaves", heir, blinded{1, session.ErrNoAuth}, "election.inPlace ", "", func(m machine) bool { return m.closing && m.err == session.ErrNoAuth }}, //nolint:errorlint // the error itself
		{"not if that was in another epoch", heir, blinded{2, session.ErrNoAuth}, "", "", nil},
		{"one that follows the leader does not", heir, touched{1}, "", "", nil},
		{"one that ignores the leader follows its own record", blind.tell(connects, joinsAlone), placed{told(claims)}, "election.inPlace election.follow ", "election.LeaderChanged election.Elected ", nil},
		{"and no longer than it leads", blind.tell(connects, joinsAlone, claims), resign{}, "election.inPlace election.inPlace election.unfollow ", "election.Deposed election.LeaderChanged ", nil},
		{"nobody to hand over to", first(leader.after(transfer{node: other})), sought{of: seek{own, other}}, "election.answer ", "", func(m machine) bool { return m.term != 0 && m.handing.to == "" }},
		{"a search of another term", first(leader.after(transfer{node: other})), sought{of: seek{tenure{1, 3, ""}, other}, exists: true}, "", "", nil},
		{"a transfer beside another", first(leader.after(transfer{node: other})), transfer{node: other}, "election.answer ", "", nil},
		{"the successor is watched", handing, handed{of: hand{tenure: own, to: other}}, "election.expect ", "", nil},
		{"a handover is repeated", handing, handed{of: hand{tenure: own, to: other}, err: errUnknown}, "election.hand ", "", nil},
		{"the successor is gone", handing, refused{expect{own, other}}, "election.answer election.inPlace election.inPlace ", "", nil},
		{"the successor leads", handing, sighted{1, sighting{at: 99, term: 99, record: record{Node: other}}}, "", "election.LeaderChanged ", func(m machine) bool { return m.place.Holding() && m.term == 0 }},
		{"an older leader", leader, sighted{1, sighting{at: 3, term: 3, record: record{Node: other}}}, "", "", nil},
		{"a leader of another epoch", leader, sighted{2, sighting{at: 99, term: 99, record: record{Node: other}}}, "", "", nil},
		{"an acknowledgement of unknown outcome is repeated", leader, noted{of: note{tenure: own}, err: errUnknown}, "election.note ", "", nil},
		{"an acknowledgement that came too late", newMachine(), noted{of: note{tenure: own}, err: errUnknown}, "election.answer ", "", nil},
		{"a newer leader", leader, sighted{1, sighting{at: 99, term: 99, record: record{Node: other}}}, "election.inPlace election.inPlace ", "election.Deposed election.LeaderChanged election.LeaderChanged ", func(m machine) bool { return m.term == 0 && m.view.Node == other }},
		{"no leader any more", leader, sighted{1, sighting{at: 99}}, "election.inPlace election.inPlace ", "election.Deposed election.LeaderChanged ", func(m machine) bool { return m.term == 0 && m.place.Leaving() }},
		{"no record any more of what it hands over", handing, sighted{1, sighting{at: 99}}, "election.answer election.inPlace election.inPlace ", "", func(m machine) bool { return m.place.Leaving() && m.handing.to == "" }},
		{"nor once it leaves, when its end is the answer", first(handing.after(leave{})), sighted{1, sighting{at: 99}}, "", "", func(m machine) bool { return m.handing.to == other }},
		{"no leader before our term", leader, sighted{1, sighting{at: 3}}, "", "", func(m machine) bool { return m.term != 0 }},
		{"handed over while its own node was deleted", handing, handed{of: hand{tenure: own, to: other}, err: session.ErrNoNode, gone: true}, "", "", func(m machine) bool { return m.place.Holding() && m.handing.to == other }},
		{"a leader that is deposed while it seeks", first(leader.after(transfer{node: other})), placed{told(claimGone)}, "election.answer election.inPlace election.inPlace ", "election.Deposed election.LeaderChanged ", func(m machine) bool { return m.handing.to == "" }},
		{"a candidate that closes keeps nobody waiting for a term", first(newMachine().tell(connects, joinsBehind).after(lead{})), leave{}, "election.engage election.inPlace ", "", func(m machine) bool { return !m.wanted }},
		{"it is handed over to us", heir, sighted{1, successor}, "election.inPlace election.inPlace ", "election.LeaderChanged ", nil},
		{"and has been taken by another: once is enough", first(heir.after(sighted{1, successor})), placed{told(taken)}, "election.inPlace ", "", func(m machine) bool { return m.place.Waiting() }},
		{"a record of our own", leader, sighted{1, sighting{at: own.term + 1, term: own.term, record: record{Node: own.node, Acknowledged: true}}}, "", "election.LeaderChanged ", nil},
		{"no work that needs leadership while suspended", leader.tell(suspends), lead{}, "", "", func(m machine) bool { return m.wanted }},
		{"it begins when the connection is back", first(leader.tell(suspends).after(lead{})), placed{told(resumes)}, "election.inPlace election.engage ", "election.Resumed ", nil},
		{"a lost session stands again in the next", leader.tell(expires), placed{told(connects)}, "election.inPlace ", "", nil},
		{"two functions", worker, lead{}, "election.engage ", "", nil},
		{"overrun is told once", first(first(worker.after(resign{})).after(overdue{own.term})), overdue{own.term}, "", "", nil},
		{"who closes does not wait for ever", first(worker.after(leave{})), overdue{own.term}, "election.inPlace ", "election.Overrun ", nil},
		{"who resigns does", first(worker.after(resign{})), overdue{own.term}, "", "election.Overrun ", nil},
		{"nothing is withdrawn in a session that is over", first(worker.after(resign{})).tell(expires), returned{}, "", "", nil},
		{"a closed session waits for the function", worker.tell(closes), returned{}, "", "election.Left ", func(m machine) bool { return m.ended }},
	} {
		m, out := row.before.after(row.in)
		if kinds(out.Do) != row.do || kinds(out.Emit) != row.emit || row.check != nil && !row.check(m) {
			t.Errorf("%s:\n%v\n-> %v\nDo %s\nEmit %s", row.danger, row.before, m, kinds(out.Do), kinds(out.Emit))
		}
	}
}

func first(m machine, _ effects) machine { return m }

// TestRecords: what is written can be read, and what is not ours is not taken for it.
func TestRecords(t *testing.T) {
	for _, r := range []record{
		{Node: "n"},
		{Node: "n", Acknowledged: true},
		{Node: "n", Successor: "m", Data: "\n\nleader 1\n"},
		{Node: "n", Acknowledged: true, Successor: "m", Data: "acknowledged"},
	} {
		check.Equal(t, nodes.ParseLeader(r.Bytes()), r)
	}
	for _, text := range []string{"", "leader 1", "leader 1\n\n", "leader 2\nnode n\n\n", "node n\n\n", "leader 1\nnode n"} {
		check.Equal(t, nodes.ParseLeader([]byte(text)), (record{}), text, "is read as")
	}
	check.Equal(t, nodes.ParseLeader([]byte("leader 1\nnode n\nsince yesterday\n\nd")), (record{Node: "n", Data: "d"}), "a later version is read as")
}

var _ actors.Machine[machine, input, effect, Event] = machine{}

// after is Step with effects of its own.
func (m machine) after(in input) (machine, effects) {
	var out effects
	m = m.Step(in, &out)
	return m, out
}

// TestKeep: what a reader that comes late begins with.
func TestKeep(t *testing.T) {
	stands, leads, changed, suspended, overrun := Standing{"n"}, Elected{1}, LeaderChanged{Term: 1}, Suspended{}, Overrun{1}
	for _, row := range []struct {
		earlier, next Event
		stays         bool
	}{
		{stands, leads, true},
		{stands, Deposed{}, false},
		{stands, Standing{"o"}, false},
		{leads, overrun, true},
		{leads, Deposed{}, false},
		{changed, leads, true},
		{changed, LeaderChanged{Term: 2}, false},
		{changed, Deposed{}, true},
		{suspended, overrun, true}, // of an earlier term
		{suspended, changed, true},
		{suspended, Deposed{}, false},
		{overrun, suspended, true},
		{overrun, Overrun{2}, false},
		{Deposed{}, stands, false},
		{Resumed{}, overrun, false},
	} {
		check.Equal(t, keep(row.earlier, row.next), row.stays, row.earlier, "before", row.next)
	}
}

// TestAnewAfterARestore: of what an earlier session saw, nothing is held against a leader of the
// next one, whose term is smaller: not for a candidate that waits, nor for the end of a transfer,
// nor for a handover to us.
func TestAnewAfterARestore(t *testing.T) {
	leader := newMachine().tell(connects, joinsAlone, claims)
	handing := script(leader, transfer{node: other}, sought{of: seek{leader.tenure, other}, exists: true}, handed{of: hand{tenure: leader.tenure, to: other}})
	waiting := script(newMachine().tell(connects, joinsBehind), sighted{1, sighting{at: 90, term: 90, record: record{Node: "z"}}})
	lower := sighted{2, sighting{at: 2, term: 2, record: record{Node: other}}}
	for _, m := range []machine{handing, waiting} {
		m = script(m, placed{hears(session.Expired{Epoch: 1})}, placed{hears(session.Connected{Epoch: 2, ID: sessionID + 1, Past: 99})})
		m, out := m.after(lower)
		check.True(t, m.view.leading().Node == other && kinds(out.Emit) == "election.LeaderChanged ", "%v of %v", out.Emit, m)
		check.True(t, m.handing.to == "", "it hands over for ever: %v", m)
		_, out = m.after(sighted{2, sighting{at: 3}})
		check.True(t, kinds(out.Emit) == "election.LeaderChanged " && out.Emit[0].(LeaderChanged).Term == 2, "%v", out.Emit)
	}
}

// String names all that is set, for transcripts and for violations that the model finds.
func (m machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v leader=%s/%d", m.place, m.view.leading().Node, m.view.leading().term)
	for _, f := range []struct {
		set  bool
		text string
	}{
		{m.term != 0, fmt.Sprintf("leading=%d", m.term)},
		{m.acknowledged, "acknowledged"},
		{m.suspended, "suspended"},
		{m.handing.to != "", fmt.Sprintf("to=%s/%d", m.handing.to, m.handing.phase)},
		{m.wanted, "wanted"},
		{m.work.term != 0, fmt.Sprintf("work=%d", m.work.term)},
		{m.work.overdue, "overdue"},
		{m.work.then != nil, "then"},
		{m.closing, "closing"},
		{m.ended, "ended"},
	} {
		if f.set {
			b.WriteString(" " + f.text)
		}
	}
	return b.String()
}
