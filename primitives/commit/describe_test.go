package commit

import (
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	expect "github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// apart fails the test if machines that differ have equal strings: explorations would take them for
// one.
func apart(t *testing.T, all map[string]string) {
	t.Helper()
	of := map[string]string{}
	for what, s := range all {
		if other, is := of[s]; is {
			t.Errorf("%s and %s have one string: %s", what, other, s)
		}
		of[s] = what
	}
}

// TestSitesApart: sites that differ have different strings.
func TestSitesApart(t *testing.T) {
	site := func(change func(*sitemachine)) string {
		m := standing("")
		change(&m)
		return m.String()
	}
	all := map[string]string{}
	for what, change := range map[string]func(*sitemachine){
		"nothing is known":  func(*sitemachine) {},
		"away":              func(m *sitemachine) { m.at = 0 },
		"it has a list":     func(m *sitemachine) { m.began = true },
		"sites are watched": func(m *sitemachine) { m.attends = true },
		"one is there":      func(m *sitemachine) { m.there = []string{"a"} },
		"another is":        func(m *sitemachine) { m.there = []string{"b"} },
		"one waits":         func(m *sitemachine) { m.waiting = []string{"a"} },
		"another waits":     func(m *sitemachine) { m.waiting = []string{"b"} },
		"over":              func(m *sitemachine) { m.over = true },
	} {
		all[what] = site(change)
	}
	for what, change := range map[string]func(*part){
		"a record":           func(*part) {},
		"no record":          func(p *part) { p.rec = nil },
		"another record":     func(p *part) { p.rec = &record{ID: "t", GUID: "h", Sites: p.rec.Sites} },
		"a vote":             func(p *part) { p.ballot.vote = Yes },
		"another vote":       func(p *part) { p.ballot.vote = No },
		"a list":             func(p *part) { p.decider.listed = true },
		"a ballot is gone":   func(p *part) { p.decider.gone = slices.Clone(p.decider.gone); p.decider.gone[0] = true },
		"ours is gone":       func(p *part) { p.bereft = true },
		"a Commit":           func(p *part) { p.outcome = &Outcome{Committed: true} },
		"an abort":           func(p *part) { p.outcome = &Outcome{Reason: VotedNo} },
		"an abort, undone":   func(p *part) { p.aborted = &Outcome{Reason: VotedNo} },
		"another, undone":    func(p *part) { p.aborted = &Outcome{Reason: TimedOut} },
		"it checks":          func(p *part) { p.task = checking },
		"it clears":          func(p *part) { p.task = clearing },
		"gone":               func(p *part) { p.gone = true },
		"the next is listed": func(p *part) { p.next = true },
		"it is to look":      func(p *part) { p.look = true },
		"it is to vote":      func(p *part) { p.vote = true },
		"with data":          func(p *part) { p.vote, p.data = true, "x" },
		"it has voted":       func(p *part) { p.voted = true },
		"voted with data":    func(p *part) { p.voted, p.data = true, "x" },
		"asked":              func(p *part) { p.asked = true },
		"told":               func(p *part) { p.told = true },
		"sure":               func(p *part) { p.sure = true },
		"patrols":            func(p *part) { p.patrols = true },
		"alone":              func(p *part) { p.alone = 1 },
		"alone again":        func(p *part) { p.alone = 2 },
		"presides":           func(p *part) { p.presides = true },
		"it is to read":      func(p *part) { p.reread = true },
		"paused":             func(p *part) { p.paused = true },
		"unread":             func(p *part) { p.unread = true },
		"unlisted":           func(p *part) { p.unlisted = true },
		"refused":            func(p *part) { p.refusals = 1 },
		"refused again":      func(p *part) { p.refusals = 2 },
		"it is to finish":    func(p *part) { p.finishers = make([]actors.Reply[error], 1) },
		"done":               func(p *part) { p.done = true },
		"it is to clear":     func(p *part) { p.clear = true },
	} {
		all[what] = site(func(m *sitemachine) {
			r := &record{ID: "t", GUID: "g", Sites: []string{"a", "b"}}
			p := &part{id: "t", rec: r, decider: newDecider(r, "a")}
			change(p)
			m.parts = []*part{p}
		})
	}
	for what, change := range map[string]func(*rested){
		"at rest":                func(*rested) {},
		"another at rest":        func(r *rested) { r.guid = "h" },
		"at rest, named":         func(r *rested) { r.named = true },
		"at rest, mute":          func(r *rested) { r.mute = true },
		"at rest, void":          func(r *rested) { r.void = true },
		"at rest, barred":        func(r *rested) { r.barred = true },
		"at rest, watched":       func(r *rested) { r.watching = true },
		"at rest, empty":         func(r *rested) { r.empty = true },
		"at rest, a next listed": func(r *rested) { r.next = true },
	} {
		all[what] = site(func(m *sitemachine) {
			r := &rested{name: name{"t", "g"}}
			change(r)
			m.rested = []*rested{r}
		})
	}
	apart(t, all)
	for what, s := range all {
		expect.Equal(t, strings.HasPrefix(s, "a(away "), what == "away", what, s)
	}
}

// TestCoordinatorsApart: coordinators that differ have different strings.
func TestCoordinatorsApart(t *testing.T) {
	all := map[string]string{}
	for what, change := range map[string]func(*machine){
		"nothing is known": func(*machine) {},
		"it begins":        func(m *machine) { m.phase = beginning },
		"open":             func(m *machine) { m.phase = open },
		"a session":        func(m *machine) { m.epoch = 1 },
		"another":          func(m *machine) { m.epoch = 2 },
		"a ballot":         func(m *machine) { m.stood = 1 },
		"a vote":           func(m *machine) { m.decider.votes[0].vote = Yes },
		"another vote":     func(m *machine) { m.decider.votes[0].vote = No },
		"of another site":  func(m *machine) { m.decider.votes[1].vote = Yes },
		"a site is seen":   func(m *machine) { m.decider.seen[0] = true },
		"a site misses":    func(m *machine) { m.decider.missing[0] = true },
		"late":             func(m *machine) { m.decider.late = true },
		"lapsed":           func(m *machine) { m.decider.lapsed = true },
		"stale":            func(m *machine) { m.decider.stale = true },
		"confirmed":        func(m *machine) { m.decider.confirmed = true },
		"listed":           func(m *machine) { m.decider.listed = true },
		"undone":           func(m *machine) { m.decider.undone = true },
		"beaten":           func(m *machine) { m.decider.beaten = true },
		"it reads":         func(m *machine) { m.reading[0] = true },
		"it reads another": func(m *machine) { m.reading[1] = true },
		"asked":            func(m *machine) { m.asked = true },
		"void":             func(m *machine) { m.void = true },
		"deaf":             func(m *machine) { m.deaf = true },
		"doubt":            func(m *machine) { m.doubt = true },
		"its caller left":  func(m *machine) { m.gave = true },
		"a Commit":         func(m *machine) { m.outcome = Outcome{Committed: true} },
		"an abort":         func(m *machine) { m.outcome = Outcome{Reason: VotedNo} },
		"settled":          func(m *machine) { m.settled = true },
		"closed":           func(m *machine) { m.err = session.ErrClosed },
		"expired":          func(m *machine) { m.err = session.ErrExpired },
	} {
		m := newMachine(&record{ID: "t", GUID: "g", Sites: []string{"a", "b"}})
		change(&m)
		all[what] = m.String()
	}
	apart(t, all)
}

// TestDeciderIsReplaced: news are in the next decider only. An earlier machine has the one before.
func TestDeciderIsReplaced(t *testing.T) {
	for what, follow := range map[string]func(decider) decider{
		"the ballots":          func(d decider) decider { return d.count(parse([]string{nodes.VotedYes + "a", nodes.Unvoted + "b"})) },
		"the present sites":    func(d decider) decider { d, _ = d.attend([]string{"b"}); return d },
		"what the leader says": func(d decider) decider { return d.confirm([]string{"b"}) },
	} {
		d, _ := newDecider(&record{Sites: []string{"a", "b"}}, "c").attend([]string{"a", "b"})
		d, _ = d.attend(nil)
		before := d.describe()
		expect.True(t, follow(d).describe() != before, "%s: no news", what)
		expect.Equal(t, d.describe(), before, what)
	}
}
