package commit

import (
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// This file runs one coordinator and up to three sites, with their performers, in the model of
// ZooKeeper.
//
// What is a step: a server executes a request, or the process of a party takes an input, crashes,
// or starts again. Presence is not a matter of this model (package presence has its own): the node
// of a site is there as soon as no earlier session has it, and goes when its session is expired.
// Users vote as planned, and finish when they receive an outcome.
//
// In scenes that are eager, a machine takes its inputs at once: that loses nothing while no
// session loses its connection or expires. A step of a machine changes nothing but
// the machine, and adds requests to the end of a queue, where they wait as long as the explorer
// likes; what an input that waits would show, a request that waits shows too.

const (
	modelParent = "/tx"
	modelID     = "t"
	modelDir    = modelParent + "/" + modelID + "/g"
)

// siteNames are in no other word.
var siteNames = []string{"α", "β", "γ"}

var thisName, thisTx = name{modelID, "g"}, Tx{modelID, "g"}

// A scene is one transaction, and what may go wrong.
type scene struct {
	mode    Mode
	plan    []Vote // of the sites' users; 0 does not vote
	faults  zkmodel.Faults
	budget  int  // how many faults at most, of all kinds
	ticks   int  // how many timers fire
	late    bool // the sites begin when the transaction is there
	lazy    bool // machines take their inputs when the explorer likes
	away    bool // a coordinator that crashed does not come back
	keep    bool // the record is kept
	unasked bool // users vote when the explorer likes
	mutant  mutant
}

func (s scene) String() string {
	text := fmt.Sprintf("%v %v", s.mode, s.plan)
	for _, f := range []struct {
		n    int
		name string
	}{
		{int(s.faults.Cuts), "cuts"},
		{int(s.faults.Lates), "lates"},
		{int(s.faults.Expires), "expires"},
		{int(s.faults.Kills), "kills"},
		{int(s.faults.Crashes), "crashes"},
		{int(s.faults.Busy), "busy"},
		{int(s.faults.Lags), "lags"},
		{int(s.faults.Restores), "restores"},
		{int(s.faults.Backups), "backups"},
		{int(s.faults.Relapses), "relapses"},
		{s.ticks, "ticks"},
		{s.budget, "at most"},
	} {
		if f.n > 0 {
			text += fmt.Sprintf(" %s=%d", f.name, f.n)
		}
	}
	return text + flagged(" late", s.late) + flagged(" lazy", s.lazy) + flagged(" away", s.away) + flagged(" keep", s.keep) + flagged(" unasked", s.unasked)
}

type (
	stage struct {
		*zkmodel.World
		s       *scene
		parties []*party // the coordinator, and the sites
		budget  int
		ticks   int
		outcome *Outcome // that was recorded
		undone  *Outcome // that was recorded before a restore
		began   bool
		lapsed  bool   // the servers have come back with older data, which no client can tell
		yes     []bool // by site: its Yes was there
		counted int64  // when the ballots changed that were seen last
	}
	// A party is a process.
	party struct {
		n           int
		site        string // "" for the coordinator
		at          *zkmodel.Session
		before      []*zkmodel.Session // of earlier processes
		transaction *zkmodel.Runner[machine, input, effect, Event]
		participant *zkmodel.Runner[sitemachine, siteInput, siteEffect, Event]
		survey      *zkmodel.Runner[surveying, []*record, struct{}, struct{}]
		found       []*record // by a survey, and not yet resumed
		told        *Outcome  // ever, in this history
		ever        bool      // told, also in an earlier one
		here        bool      // told, by this process
		old         bool      // told of an outcome that is undone, by this process: it has not noticed the restore
		stands      int       // the epoch in which its presence stood last, as it was told
		votedBy     []bool    // the votes that were there when a timer fired: no abort may miss one
		prepared    bool      // the user of this process has yet to vote
		voted       bool      // ever, as the user was told
		finished    bool      // ever, as the user was told
		left        error
	}
)

// surveying is a process that surveys, and ends when it has the records.
type surveying struct{ over bool }

func (m surveying) Ended() bool { return m.over }

func (surveying) Step([]*record, *actors.Effects[struct{}, struct{}]) surveying {
	return surveying{over: true}
}

func newStage(s *scene) *stage {
	at := []zkmodel.Node{{Path: modelParent, Czxid: 1}, {Path: znode.Join(modelParent, nodes.Sites), Czxid: 1}}
	w := &stage{World: zkmodel.New(s.faults, 1, at...), s: s, budget: s.budget, ticks: s.ticks, yes: make([]bool, len(s.plan))}
	w.Root, w.Prompt = modelParent, func(string) bool { return true } // a server refuses what comes late from a session that has moved on
	w.parties = []*party{{at: w.Sessions[0]}}
	for i := range s.plan {
		w.parties = append(w.parties, &party{n: i + 1, site: siteNames[i]})
	}
	coordinate := func() {
		r := &record{ID: modelID, GUID: "g", Mode: s.mode, Deadline: time.Minute, TakeoverAfter: time.Second, Keep: s.keep}
		for _, p := range w.parties[1:] {
			r.Sites = append(r.Sites, p.site)
		}
		w.coordinate(w.parties[0], r, newMachine(r), nil)
		w.parties[0].transaction.Tell(start{})
	}
	if s.late {
		coordinate()
		w.rest()
	}
	for _, p := range w.parties[1:] {
		w.start(p)
	}
	w.settle()
	if !s.late {
		w.rest()
		coordinate()
	}
	w.settle()
	return w
}

// coordinate runs a transaction.
func (w *stage) coordinate(p *party, r *record, m machine, first []effect) {
	t := newTransaction(w.s.mutant.session(p.at), modelParent, r, fmt.Sprint(len(w.Actors)))
	t.owned.Clock = p.at
	p.transaction = zkmodel.Run(w.World, p.at, m, actors.Role[machine, input, effect, Event]{
		Begin: first, Perform: around(w.s.mutant, t.perform), Observe: t.observe,
	}, func(in input, _ machine, did effects) {
		w.times(p, in)
		for _, e := range did.Do {
			if d, is := e.(decide); is {
				w.proposes(p, d.Outcome)
			}
		}
		for _, ev := range did.Emit {
			w.coordinated(p, ev)
		}
	})
	p.transaction.Begin(func() { t.owned.Follow(p.at, func(ev session.Event) { p.transaction.Tell(heard{ev}) }, nil) })
}

// start starts the process of a party.
func (w *stage) start(p *party) {
	if p.at != nil && p.at.Crashed() {
		p.before = append(p.before, p.at)
	}
	if p.at == nil || p.at.Crashed() {
		p.at = w.Open()
	}
	p.here, p.old, p.prepared, p.left, p.found, p.stands, p.votedBy = false, false, false, nil, nil, 0, nil
	if p.site == "" {
		v := &survey{session: p.at, parent: modelParent}
		p.transaction = nil
		p.survey = zkmodel.Run(w.World, p.at, surveying{}, actors.Role[surveying, []*record, struct{}, struct{}]{
			Begin: []struct{}{{}},
			Perform: func(_ struct{}, tell func([]*record)) {
				v.begin(func(error) { tell(v.records) })
			},
		}, func(found []*record, _ surveying, _ actors.Effects[struct{}, struct{}]) { p.found = found })
		return
	}
	participant := &Participant{session: w.s.mutant.session(p.at), parent: modelParent, site: p.site}
	participant.owned.Clock = p.at
	p.participant = zkmodel.Run(w.World, p.at, sitemachine{parent: modelParent, site: p.site}, actors.Role[sitemachine, siteInput, siteEffect, Event]{
		Perform: around(w.s.mutant, participant.perform), Observe: participant.observe,
	}, func(in siteInput, _ sitemachine, did siteEffects) {
		w.times(p, in)
		for _, e := range did.Do {
			if r, is := e.(propose); is {
				w.proposes(p, r.Outcome)
			}
			r, ok := e.(respond)
			late := ok && (errors.Is(r.err, ErrDecided) || errors.Is(r.err, ErrVoted) || (p.here || w.Restored()) && errors.Is(r.err, ErrNoTransaction) ||
				w.Restored() && errors.Is(r.err, ErrUndecided))
			switch {
			case ok && r.err != nil && !late:
				zkmodel.Violate("%s: %v", p.site, r.err)
			case ok && r.err == nil && (p.here || p.old): // the vote was answered before the outcome
				p.finished = true
			case ok && r.err == nil:
				p.voted = true
				if dir := (place{modelParent, modelID, "g"}); w.began && w.outcome == nil && !w.Restored() && w.Node(dir.ballot(nodes.Unvoted+p.site)) != nil {
					zkmodel.Violate("%s has voted, and its vote is not there", p.site)
				}
			}
		}
		for _, ev := range did.Emit {
			w.participated(p, ev)
		}
	})
	p.participant.Begin(func() {
		participant.owned.Follow(p.at, func(ev session.Event) { p.participant.Tell(siteHeard{ev}) }, nil)
	})
}

// --- what users do, and see

func (w *stage) coordinated(p *party, ev Event) {
	switch ev := ev.(type) {
	case Committed:
		w.learns(p, Outcome{Committed: true, By: ev.By})
	case Aborted:
		w.learns(p, Outcome{Reason: ev.Reason, Site: ev.Site, By: ev.By})
	case Left:
		p.left = ev.Err
		switch {
		case errors.Is(ev.Err, ErrForgotten):
			if w.Node(znode.Join(modelParent, modelID)) != nil && !w.lapsed {
				zkmodel.Violate("forgotten, and there")
			}
		case errors.Is(ev.Err, session.ErrUnknownOutcome), p.at.Epoch() == 0:
		default:
			zkmodel.Violate("the coordinator leaves: %v", ev.Err)
		}
	case Voted:
		if i := slices.IndexFunc(w.parties, func(o *party) bool { return o.site == ev.Site }); w.s.plan[i-1] != ev.Vote {
			zkmodel.Violate("%v, planned %v", ev, w.s.plan[i-1])
		}
	case Prepare, Forgotten:
		zkmodel.Violate("the coordinator receives %v", ev)
	}
}

func (w *stage) participated(p *party, ev Event) {
	switch ev := ev.(type) {
	case Prepare:
		if p.voted && !w.lapsed { // a relapse may undo a transaction that is begun again, so that the site meets it twice
			zkmodel.Violate("%s is asked again", p.site)
		}
		p.old = false // it takes part anew
		if p.prepared = w.s.plan[p.n-1] != 0; !w.s.unasked {
			w.vote(p)
		}
	case Committed:
		w.learns(p, Outcome{Committed: true, By: ev.By})
		p.participant.Tell(finish{tx: thisTx})
	case Aborted:
		o := Outcome{Reason: ev.Reason, Site: ev.Site, By: ev.By}
		w.learns(p, o)
		p.participant.Tell(finish{tx: thisTx})
	case Forgotten:
		if !w.Restored() {
			zkmodel.Violate("%s receives %v", p.site, ev)
		}
		p.ever = true
	case Left, Voted:
		zkmodel.Violate("%s receives %v", p.site, ev)
	}
}

func (w *stage) vote(p *party) {
	if p.prepared {
		p.prepared = false
		p.participant.Tell(castVote{tx: thisTx, vote: w.s.plan[p.n-1]})
	}
}

// proposes checks that an abort for a missing vote does not rest on a list that is older than the
// end of the timer.
func (w *stage) proposes(p *party, o Outcome) {
	for i, there := range p.votedBy {
		if there && !w.Restored() && (o.Reason == TimedOut || o.Reason == SiteGone) && o.Site == w.parties[i+1].site {
			zkmodel.Violate("%q proposes %v, and the vote was there before the timer fired", p.site, o)
		}
	}
}

// times notes the votes that are there when a party takes the end of a timer.
func (w *stage) times(p *party, in any) {
	switch in := in.(type) {
	case passed, lapsed:
	case sitePassed:
		if in.timer == patrol || in.timer == pause {
			return
		}
	default:
		return
	}
	p.votedBy = make([]bool, len(w.yes))
	for _, name := range w.Children(modelDir) {
		for i, site := range siteNames[:len(w.yes)] {
			p.votedBy[i] = p.votedBy[i] || name == nodes.VotedYes+site || name == nodes.VotedNo+site
		}
	}
}

// learns checks an outcome that a party receives: it is recorded, and the same for all.
func (w *stage) learns(p *party, o Outcome) {
	undone := w.undone != nil && *w.undone == o
	switch {
	case w.lapsed: // what it has read may be undone
	case undone && p.at.Killed() && !p.here && !p.old: // it is told what it had read before
		p.ever, p.old = true, true
		return
	case undone && !p.here: // likewise
	case w.outcome == nil || *w.outcome != o:
		zkmodel.Violate("%q receives %v, recorded is %v", p.site, o, w.outcome)
	case p.here:
		zkmodel.Violate("%q receives an outcome twice", p.site)
	case p.finished:
		zkmodel.Violate("%q receives an outcome after it has finished", p.site)
	}
	p.told, p.ever, p.here = &o, true, true
}

// --- what happens

// Actions implements [exploration.World].
func (w *stage) Actions() (normal, wishes, faulty []zkmodel.Action) {
	normal, faulty = w.World.Actions()
	normal = slices.DeleteFunc(normal, func(a zkmodel.Action) bool { return a.Kind == "timer" && w.ticks == 0 && !w.busy(a) })
	if w.budget == 0 {
		faulty = slices.DeleteFunc(faulty, func(a zkmodel.Action) bool { return a.Kind != "late" })
	}
	for i, p := range w.parties {
		if w.down(p) {
			normal = append(normal, zkmodel.Action{Kind: "start", I: i})
		}
		if w.s.unasked && p.prepared && !w.down(p) {
			wishes = append(wishes, zkmodel.Action{Kind: "vote", I: i})
		}
	}
	return normal, wishes, faulty
}

// busy reports whether a timer is a short pause, after an answer of a busy server, or for missing
// sites to come back.
func (w *stage) busy(a zkmodel.Action) bool {
	switch e := w.Timer(a.I).(type) {
	case await:
		return e.timer == absence
	case awaitDeadline:
		return false
	}
	return true
}

// down reports whether a process has crashed, and may start.
func (w *stage) down(p *party) bool {
	return p.at.Crashed() && (p.site != "" || !w.s.away)
}

// Apply implements [exploration.World].
func (w *stage) Apply(a zkmodel.Action) {
	switch a.Kind {
	case "start":
		w.start(w.parties[a.I])
	case "vote":
		w.vote(w.parties[a.I])
	case "timer":
		if !w.busy(a) {
			w.ticks--
		}
		w.World.Apply(a)
	case "restore", "relapse":
		w.budget--
		w.World.Apply(a)
		w.lapsed = a.Kind == "relapse"
		w.again()
	case "cut", "expire", "kill", "crash", "busy", "lag":
		w.budget--
		w.World.Apply(a)
	default:
		w.World.Apply(a)
	}
	w.settle()
}

// again begins a new history: what was recorded, told and voted is what the restored nodes say.
func (w *stage) again() {
	w.undone, w.began, w.outcome, w.counted = w.outcome, false, nil, -1
	if n := w.Node(znode.Join(modelParent, modelID)); n == nil || n.Version == 0 { // else all votes were there before
		w.yes = make([]bool, len(w.yes))
	}
	for _, p := range w.parties {
		p.told, p.here, p.old, p.voted, p.finished = nil, false, false, false, false
	}
}

// settle has machines take their inputs in eager scenes, and goes on after surveys.
func (w *stage) settle() {
	for again := true; again; {
		again = false
		w.observe()
		for _, p := range w.parties[1:] {
			again = w.appear(p) || again
		}
		for i, actor := range w.Actors {
			for !w.s.lazy && actor.Waiting() {
				w.World.Apply(zkmodel.Action{Kind: "step", I: i})
				again = true
			}
		}
		for _, r := range w.parties[0].found {
			w.coordinate(w.parties[0], r, resumed(r), resumption())
			w.parties[0].survey, w.parties[0].found, again = nil, nil, true
		}
	}
}

// appear has the presence of a site stand, if no other session has it, and tells its process when
// its own server shows that.
func (w *stage) appear(p *party) (told bool) {
	node := presenceNode(modelParent, p.site)
	if p.at == nil || !p.at.Online() || p.participant.Ended() {
		return false
	}
	if w.Node(node) == nil {
		w.Plant(node, p.at)
	}
	if w.Node(node).Owner != p.at.ID() || !p.at.Sees(node) || p.stands == p.at.Epoch() {
		return false
	}
	p.stands = p.at.Epoch()
	p.participant.Tell(stood{p.stands})
	return true
}

// observe takes note of what the server has: one outcome, and commit only after every Yes.
func (w *stage) observe() {
	n := w.Node(znode.Join(modelParent, modelID))
	if n == nil {
		return
	}
	ballots := w.Node(modelDir).Pzxid
	if w.began && ballots == w.counted && n.Version == 0 == (w.outcome == nil) {
		return
	}
	w.counted = ballots
	dir := place{modelParent, modelID, "g"}
	for i := range w.yes {
		site := w.parties[i+1].site
		w.yes[i] = w.yes[i] || w.Node(dir.ballot(nodes.VotedYes+site)) != nil
		if w.yes[i] && w.Node(dir.ballot(nodes.VotedNo+site)) != nil {
			zkmodel.Violate("%s votes twice", site)
		}
	}
	w.began = true
	r, err := decode(modelID, []byte(n.Data))
	switch {
	case err != nil:
		zkmodel.Violate("%v", err)
	case r.Outcome == nil && w.outcome != nil, w.outcome != nil && *w.outcome != *r.Outcome:
		zkmodel.Violate("decided twice: %v, %v", w.outcome, r.Outcome)
	case r.Outcome != nil && r.Outcome.Committed && slices.Contains(w.yes, false):
		zkmodel.Violate("committed with the votes %v", w.yes)
	}
	w.outcome = r.Outcome
}

// Check implements [exploration.World].
func (w *stage) Check() {
	if w.began && w.outcome == nil && w.Node(znode.Join(modelParent, modelID)) == nil {
		zkmodel.Violate("removed undecided")
	}
}

// rest goes on until nothing happens by itself but timers.
func (w *stage) rest() {
	for range 10 * exploration.Rest {
		normal, _ := w.World.Actions()
		i := slices.IndexFunc(normal, func(a zkmodel.Action) bool { return a.Kind != "timer" })
		if i < 0 {
			return
		}
		w.Apply(normal[i])
	}
	zkmodel.Violate("no rest in %d steps", 10*exploration.Rest)
}

// idle reports whether nothing happens by itself but timers.
func (w *stage) idle() bool {
	normal, _ := w.World.Actions()
	return !slices.ContainsFunc(normal, func(a zkmodel.Action) bool { return a.Kind != "timer" })
}

// Finish implements [exploration.Finisher]: from every state in which nothing happens by itself,
// without further faults, all parties that live come to an end, and nothing is left. Sites that
// crashed start again; a coordinator that crashed stays away.
func (w *stage) Finish() {
	if !w.idle() || w.lapsed { // no watch tells of a node that is older than its last reading
		return
	}
	w.Left, w.budget, w.ticks = zkmodel.Faults{}, 0, 1000
	for _, p := range w.parties[1:] {
		w.vote(p)
		if p.at.Crashed() {
			w.start(p)
		}
	}
	for range 40 {
		w.rest()
		if w.done() {
			return
		}
		normal, _ := w.World.Actions()
		for range normal { // each of which is a timer
			if again, _ := w.World.Actions(); len(again) > 0 {
				w.World.Apply(again[0])
				w.settle()
			}
			w.rest()
		}
	}
	zkmodel.Violate("it does not end: %v", w.Nodes())
}

// done reports whether all is over.
func (w *stage) done() bool {
	for _, n := range w.Nodes() {
		if below, ok := strings.CutPrefix(n.Path, modelParent+"/"); ok && !strings.HasPrefix(below, "_") {
			return false
		}
	}
	if t := w.parties[0].transaction; t != nil && !t.Ended() {
		return false
	}
	if w.s.keep && w.began && len(w.Children(znode.Join(modelParent, nodes.TransactionRecords))) != 1 {
		return false
	}
	for _, p := range w.parties[1:] {
		if len(p.participant.M.parts)+len(p.participant.M.rested) > 0 || w.began && !p.ever {
			return false
		}
	}
	return true
}

// --- states

var modelSeed = maphash.MakeSeed()

// Key implements [exploration.World]. Sites whose users vote alike are alike: of all worlds that
// differ in their names, the one with the least key stands for all. What tells such sites apart is
// only which of them an abort names as the reason.
func (w *stage) Key() uint64 {
	least := uint64(math.MaxUint64)
	for _, names := range w.s.renamings() {
		least = min(least, w.keyAs(names))
	}
	return least
}

// renamings returns the names that the sites may have instead of theirs, in the order of the sites.
func (s scene) renamings() [][]string {
	own := make([]string, len(s.plan))
	for i := range own {
		own[i] = siteNames[i]
	}
	all := [][]string{own}
	if s.lazy {
		return all // what waits in a mailbox is not shown name by name
	}
	for i := range own {
		for _, names := range slices.Clone(all) {
			for j := i + 1; j < len(own); j++ {
				if s.plan[i] == s.plan[j] {
					swapped := slices.Clone(names)
					swapped[i], swapped[j] = swapped[j], swapped[i]
					all = append(all, swapped)
				}
			}
		}
	}
	return all
}

func (w *stage) keyAs(names []string) uint64 {
	var pairs []string
	for i, name := range names {
		pairs = append(pairs, siteNames[i], name)
	}
	rename := strings.NewReplacer(pairs...).Replace
	of := func(session *zkmodel.Session) string {
		for _, p := range w.parties {
			if p.at == session {
				return rename(p.site) + "*"
			}
		}
		return "" // of an earlier process
	}
	lines := w.Sketch(zkmodel.View{
		Name:    rename,
		Session: func(n int) string { return of(w.Sessions[n]) + w.earlier(n, rename) },
		Actor: func(n int) string {
			if n < 0 {
				return "-"
			}
			return of(w.Actors[n].Session())
		},
		Show: func(v any) string { return rename(show(v)) },
	})
	lines = append(lines, fmt.Sprint(w.budget, w.ticks, w.began, w.Restored(), w.lapsed), rename(fmt.Sprint(w.outcome, w.undone)))
	for i, p := range w.parties {
		line := fmt.Appendf(nil, "party %s %v %v %v %v %v %v %v %v ", p.site, p.told != nil, p.ever, p.old, p.here, p.prepared, p.voted, p.finished, p.left)
		if i > 0 {
			line = fmt.Append(line, w.yes[i-1])
		}
		for j, there := range p.votedBy {
			line = append(line, flagged(" missed:"+siteNames[j], there)...)
		}
		switch {
		case p.at.Crashed():
			line = append(line, " crashed"...)
		case p.participant != nil:
			line = appendMail(append(line, p.participant.M.String()...), p.participant.Mail)
		case p.survey != nil:
			line = fmt.Appendf(line, "survey %t %d", p.survey.M.over, len(p.survey.Mail)) // the request of its round is in the session
		case p.transaction != nil:
			line = appendMail(append(line, p.transaction.M.String()...), p.transaction.Mail)
		}
		words := strings.Fields(rename(string(line))) // which say themselves of which site they are
		if len(names) > 1 && !w.s.lazy {
			slices.Sort(words)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	slices.Sort(lines)
	var h maphash.Hash
	h.SetSeed(modelSeed)
	for _, line := range lines {
		_, _ = h.WriteString(line)
		_ = h.WriteByte('\n')
	}
	return h.Sum64()
}

// earlier returns the name of a session of an earlier process.
func (w *stage) earlier(n int, rename func(string) string) string {
	for _, p := range w.parties {
		if at := slices.Index(p.before, w.Sessions[n]); at >= 0 {
			return fmt.Sprint(rename(p.site), at)
		}
	}
	return ""
}

func appendMail[In any](to []byte, mail []In) []byte {
	for _, in := range mail {
		to = append(fmt.Appendf(to, " %T", in), show(in)...)
	}
	return to
}

// show shows what has pointers in it.
func show(v any) string {
	switch v := v.(type) {
	case zkmodel.Node:
		_, outcome, _ := strings.Cut(v.Data, "outcome") // all else in a record is the same
		return outcome
	case siteRead:
		if v.rec == nil {
			return fmt.Sprint(v.err)
		}
		return fmt.Sprint(v.rec.Outcome, v.err)
	case looked:
		if v.found == nil {
			return fmt.Sprint(v.err)
		}
		return fmt.Sprint(v.found.Outcome, v.err)
	case propose:
		return "propose " + v.String()
	case clearUp:
		return "clearUp"
	case castVote:
		return v.vote.String()
	case finish, start, begin, look, followBallots, followSites, respond:
		return fmt.Sprintf("%T", v)
	}
	return fmt.Sprintf("%T %v", v, v)
}

// --- scenes

var (
	modelFull   = flag.Bool("commit.full", false, "go through the larger scenes of the models too")
	modelStates = flag.Int("commit.states", 200_000, "states of each of these that are gone through at most")
)

// TestModel goes through all states of small scenes (see [hasten.Thorough]), and with -commit.full
// through those of larger ones: up to three sites, with their performers.
func TestModel(t *testing.T) {
	chosen := hasten.OneIn(1, 5)
	for _, s := range scenes(*modelFull) {
		if !chosen() || s.faults.Restores > 0 && !hasten.Thorough() {
			continue // restored servers are in the walks, too
		}
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			states, all, trace, err := exploration.Explore(func() exploration.World[zkmodel.Action] { return newStage(&s) }, *modelStates)
			if err != nil {
				exploration.Tell[zkmodel.Action](newStage(&s), trace, func(line string) { t.Log(line) })
				t.Fatalf("%v, after %d states", err, states)
			}
			t.Logf("%d states, complete: %v", states, all)
			if !all && !*modelFull {
				t.Error("there are more")
			}
		})
	}
}

// TestModelWalks goes at random through all faults, beyond what can be gone through state by state.
func TestModelWalks(t *testing.T) {
	walks := 0
	for _, mode := range []Mode{Coordinated, Peer} {
		for _, plan := range [][]Vote{{Yes, Yes, Yes}, {Yes, No}, {Yes, Yes, 0}} {
			for _, lazy := range []bool{false, true} {
				if walks++; walks%2 == 0 && !*modelFull {
					continue
				}
				s := scene{
					mode: mode, plan: plan, budget: 6, ticks: 4, unasked: true, keep: lazy, lazy: lazy,
					faults: zkmodel.Faults{Crashes: 3, Cuts: 3, Lates: 1, Expires: 1, Kills: 1, Busy: 1, Lags: 2},
				}
				if walks%4 == 1 {
					s.faults.Restores, s.faults.Backups = 1, 1
				}
				t.Run(s.String(), func(t *testing.T) {
					exploration.Test(t, func(bool) exploration.World[zkmodel.Action] { return newStage(&s) }, 1,
						func(exploration.World[zkmodel.Action]) error { return nil })
				})
			}
		}
	}
}

// TestModelRelapses goes at random through worlds in which the servers come back with older data,
// which no client can tell: no Commit is recorded without every Yes.
func TestModelRelapses(t *testing.T) {
	for _, mode := range []Mode{Coordinated, Peer} {
		for _, plan := range [][]Vote{{Yes}, {Yes, Yes}} {
			s := scene{mode: mode, plan: plan, budget: 3, ticks: 4, unasked: true, faults: zkmodel.Faults{Relapses: 1, Cuts: 1, Lags: 1}}
			t.Run(s.String(), func(t *testing.T) {
				exploration.Test(t, func(bool) exploration.World[zkmodel.Action] { return newStage(&s) }, 1,
					func(exploration.World[zkmodel.Action]) error { return nil })
			})
		}
	}
}

// scenes returns those that are gone through. Sites are alike but for their votes, so plans are
// ordered.
func scenes(full bool) []scene {
	one, two, three := [][]Vote{{Yes}}, [][]Vote{{Yes, Yes}, {Yes, No}, {Yes, 0}}, [][]Vote{{Yes, Yes, Yes}, {Yes, Yes, No}, {Yes, Yes, 0}}
	var all []scene
	for _, mode := range []Mode{Coordinated, Peer} {
		// add adds a scene for each plan.
		add := func(plans [][]Vote, s scene) {
			for _, plan := range plans {
				s.mode, s.plan = mode, plan
				all = append(all, s)
			}
		}
		crash, lost := zkmodel.Faults{Crashes: 1}, zkmodel.Faults{Cuts: 1, Expires: 1, Kills: 1}
		add(one, scene{faults: zkmodel.Faults{Busy: 1, Lags: 1}, budget: 1, late: true})
		restored := scene{faults: zkmodel.Faults{Restores: 1, Backups: 1}, budget: 1}
		if mode == Peer && !full { // which is ten times as many states
			restored.faults.Backups = 0
		}
		add(one, restored)
		if mode == Coordinated || full {
			add(one, scene{faults: crash, budget: 1, away: true, late: true})
			add(one, scene{ticks: 1, unasked: true, keep: true})
			add(one, scene{faults: crash, budget: 1})
			add(one, scene{faults: lost, budget: 1})
			add(two, scene{})
			add(three, scene{})
		}
		if full && mode == Coordinated {
			add(two, scene{faults: crash, budget: 1})
			add(two, scene{faults: lost, budget: 1})
			add(two, scene{ticks: 1, unasked: true})
		}
	}
	return all
}
