package election

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/linemodel"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
)

// This file has candidates meet in the model of ZooKeeper: what runs in production, but for the
// actor's goroutine.

const campaignPath = "/e"

// A campaign is a scenario of an election.
type campaign struct {
	name     string
	sessions []int // of each candidate
	ignores  []int // candidates that ignore the leader
	hands    int8  // transfers
	resigns  int8
	works    int8 // functions that lead
	faults   zkmodel.Faults
}

var (
	twoParties, threeParties = []int{0, 1}, []int{0, 1, 2}

	campaigns = []campaign{
		{name: "lost replies", sessions: threeParties, resigns: 1, faults: zkmodel.Faults{Cuts: 2}},
		{name: "a lost reply, and a death", sessions: threeParties, resigns: 1, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
		{name: "a lost reply, and an operator", sessions: threeParties, resigns: 1, faults: zkmodel.Faults{Cuts: 1, Strikes: 1}},
		{name: "two transfers", sessions: threeParties, hands: 2},
		{name: "a transfer, and a lost reply", sessions: threeParties, hands: 1, faults: zkmodel.Faults{Cuts: 1}},
		{name: "a transfer, and a crash", sessions: threeParties, hands: 1, faults: zkmodel.Faults{Crashes: 1}},
		{name: "a transfer, and an operator", sessions: threeParties, hands: 1, faults: zkmodel.Faults{Strikes: 1}},
		{name: "two transfers, and an operator", sessions: threeParties, hands: 2, faults: zkmodel.Faults{Strikes: 1}},
		{name: "a transfer and a resignation", sessions: twoParties, hands: 1, resigns: 2},
		{name: "one session", sessions: []int{0, 0}, hands: 1, resigns: 1, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
		{name: "functions that lead", sessions: twoParties, hands: 1, resigns: 1, works: 2, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
		{name: "a busy server", sessions: twoParties, hands: 1, resigns: 1, faults: zkmodel.Faults{Busy: 2}},
		{name: "late requests", sessions: twoParties, hands: 1, resigns: 1, faults: zkmodel.Faults{Cuts: 2, Lates: 2}},
		{name: "lagging followers", sessions: threeParties, hands: 1, resigns: 1, faults: zkmodel.Faults{Lags: 2, Cuts: 1}},
		{name: "two transfers, unobserved", sessions: threeParties, ignores: threeParties, hands: 2},
		{name: "a transfer, unobserved, and a lost reply", sessions: threeParties, ignores: threeParties, hands: 1, faults: zkmodel.Faults{Cuts: 1}},
		{name: "a transfer, partly observed, and a death", sessions: threeParties, ignores: []int{1}, hands: 1, resigns: 1, faults: zkmodel.Faults{Expires: 1, Strikes: 1}},
		{name: "functions that lead, unobserved", sessions: twoParties, ignores: twoParties, hands: 1, resigns: 1, works: 2, faults: zkmodel.Faults{Cuts: 1, Expires: 1}},
		{name: "a busy server, unobserved", sessions: twoParties, ignores: twoParties, hands: 1, resigns: 1, faults: zkmodel.Faults{Busy: 2}},
		{name: "lagging followers, unobserved", sessions: threeParties, ignores: threeParties, hands: 1, resigns: 1, faults: zkmodel.Faults{Lags: 2, Cuts: 1}},
		{name: "everything, unobserved", sessions: []int{0, 1, 1}, ignores: []int{0, 1, 2}, hands: 2, resigns: 2, works: 1, faults: zkmodel.Faults{Cuts: 3, Lates: 1, Expires: 1, Crashes: 1, Strikes: 1, Closes: 1}},
		{name: "heirs", sessions: threeParties, resigns: 2},
		{name: "heirs, and lost replies", sessions: threeParties, ignores: twoParties, resigns: 2, faults: zkmodel.Faults{Cuts: 2, Lates: 1}},
		{name: "heirs, and an operator", sessions: threeParties, ignores: threeParties, resigns: 2, faults: zkmodel.Faults{Strikes: 1}},
		{name: "heirs, a transfer, and lagging followers", sessions: threeParties, ignores: threeParties, hands: 1, resigns: 2, faults: zkmodel.Faults{Lags: 2}},
		{name: "heirs of the dead", sessions: threeParties, ignores: []int{1}, hands: 1, resigns: 1, faults: zkmodel.Faults{Crashes: 1, Expires: 1}},
		{name: "a restore", sessions: twoParties, resigns: 2, faults: zkmodel.Faults{Restores: 1}},
		{name: "a restore, and a transfer", sessions: threeParties, hands: 1, resigns: 1, faults: zkmodel.Faults{Restores: 1}},
		{name: "everything", sessions: []int{0, 1, 1}, hands: 2, resigns: 2, works: 1, faults: zkmodel.Faults{Cuts: 3, Lates: 1, Expires: 1, Crashes: 1, Strikes: 1, Closes: 1}},
	}
)

type (
	electorate struct {
		*zkmodel.World
		all                   []*party
		newest                int64 // term
		hands, resigns, works int8
		history               *linemodel.History // of a random walk
		guards                []string           // the paths of all that a leader has put into transactions
	}
	// A party is a candidate with all that it runs on.
	party struct {
		*zkmodel.Runner[machine, input, effect, Event]
		n     int
		stage stage
		asked bool // to leave
	}
)

func newElectorate(s *campaign, keyed bool) *electorate {
	w := &electorate{
		World: zkmodel.New(s.faults, slices.Max(s.sessions)+1, zkmodel.Node{Path: campaignPath, Czxid: 1}),
		hands: s.hands, resigns: s.resigns, works: s.works,
	}
	w.Root = campaignPath
	w.Strikes = func(path string) bool { return path != znode.Join(campaignPath, candidatesNode) }
	if w.history = linemodel.NewHistory(linemodel.Capacity); keyed {
		w.history = nil
		w.Keyed()
	}
	for i, n := range s.sessions {
		at, p := w.Sessions[n], &party{n: i}
		opts := (&Options{Data: []byte{}, IgnoreLeader: slices.Contains(s.ignores, i)}).withDefaults()
		c := newCandidate(at, campaignPath, opts, fmt.Sprintf("%08d-0000-4000-8000-000000000000", i))
		c.owned.Clock = at
		p.Runner = zkmodel.Run(w.World, at, c.now, actors.Role[machine, input, effect, Event]{
			Perform: c.perform,
			Observe: func(m machine, events []Event) {
				c.observe(m, events)
				if guard := c.Guard().Path(); m.term != 0 && !slices.Contains(w.guards, guard) {
					w.guards = append(w.guards, guard)
				}
			},
		}, func(_ input, before machine, did effects) { w.told(p, before, did) })
		c.tell = p.Tell
		w.all = append(w.all, p)
		w.Share(c)
		p.Begin(func() { c.line.Begin(func(in line.Input) { p.Tell(placed{in}) }, nil) })
	}
	return w
}

// Actions implements [exploration.World].
func (w *electorate) Actions() (normal, wishes, faulty []zkmodel.Action) {
	normal, faulty = w.World.Actions()
	wish := func(ok bool, kind string, i int, node string) {
		if ok {
			wishes = append(wishes, zkmodel.Action{Kind: kind, I: i, Node: node})
		}
	}
	for i, p := range w.all {
		if p.Ended() {
			continue
		}
		wish(!p.asked, "leave", i, "")
		wish(w.resigns > 0 && p.M.term != 0, "resign", i, "")
		wish(p.M.term != 0 && !p.M.acknowledged && !p.asked, "acknowledge", i, "")
		wish(w.works > 0 && !p.M.wanted && p.M.work.term == 0, "lead", i, "")
		wish(p.M.work.term != 0, "return", i, "")
		for _, o := range w.all {
			wish(w.hands > 0 && p.M.term != 0 && o != p && o.M.place.Node() != "", "transfer", i, o.M.place.Node())
		}
	}
	return normal, wishes, faulty
}

// Apply implements [exploration.World].
func (w *electorate) Apply(a zkmodel.Action) {
	w.history.Step()
	switch a.Kind {
	case "leave":
		w.all[a.I].asked = true
		w.all[a.I].Tell(leave{})
	case "resign":
		w.resigns--
		w.all[a.I].Tell(resign{})
	case "acknowledge":
		w.all[a.I].Tell(acknowledge{})
	case "lead":
		w.works--
		w.all[a.I].Tell(lead{})
	case "return":
		w.all[a.I].Tell(returned{})
	case "transfer":
		w.hands--
		w.all[a.I].Tell(transfer{node: a.Node})
	default:
		w.World.Apply(a)
	}
	_, r := w.leader()
	for _, p := range w.all {
		w.history.Doomed(p.n, p.asked || w.doomed(p) || p.M.term != 0 && r.Node != p.M.node)
	}
}

func (w *electorate) leader() (n *zkmodel.Node, r record) {
	if n = w.Node(znode.Join(campaignPath, leaderNode)); n != nil {
		r = nodes.ParseLeader([]byte(n.Data))
	}
	return n, r
}

// doomed reports whether what a candidate has is over, and it has yet to hear of that.
func (w *electorate) doomed(p *party) bool {
	guid := linemodel.GUID(p.M.place.Node())
	return p.Dead || p.Session().Killed() || p.Session().Epoch() != p.M.place.Epoch() ||
		guid != "" && slices.ContainsFunc(w.Struck, func(n zkmodel.Node) bool {
			return strings.Contains(n.Path, guid) || strings.Contains(nodes.ParseLeader([]byte(n.Data)).Node, guid)
		})
}

// remember notes in the history that a candidate leads, or leads no more.
func (w *electorate) remember(p *party, ev Event) {
	switch ev := ev.(type) { // the others tell nothing of that
	case Elected:
		if p.Session().Fresh() {
			ev.Term = 0 // it may be smaller than one that was before
		}
		w.history.Enter(p.n, linemodel.Capacity, ev.Term)
	case Deposed, Left:
		w.history.Leave(p.n)
	}
}

// told follows a step of a machine.
func (w *electorate) told(p *party, _ machine, did effects) {
	for _, ev := range did.Emit {
		var ok bool
		if w.Restored() {
			p.stage.newest = 0 // terms may be smaller, of a leader that knows of no earlier ones
		}
		if p.stage, ok = p.stage.next(ev); !ok {
			zkmodel.Violate("candidate %d: %T%v breaks the grammar", p.n, ev, ev)
		}
		elected, is := ev.(Elected)
		if w.remember(p, ev); !is || w.doomed(p) {
			continue
		}
		if elected.Term <= w.newest && !p.Session().Fresh() {
			zkmodel.Violate("candidate %d: term %d after %d", p.n, elected.Term, w.newest)
		}
		w.newest = elected.Term
		n, r := w.leader()
		switch {
		case n == nil && p.M.place.Claimed() == 0: // an heir claims now
		case n == nil || r.Node != p.M.place.Node() || r.TermOf(n.Czxid) != elected.Term:
			zkmodel.Violate("candidate %d leads without a record", p.n)
		}
	}
}

// Check implements [exploration.World]. Whatever an operator has deleted, no transaction with the
// guard of a former leader is done when another leads.
func (w *electorate) Check() {
	leads := -1
	if n, r := w.leader(); n != nil && r.Node != "" {
		for _, guard := range w.guards {
			if _, node := znode.Split(guard); node != r.Node && w.Node(guard) != nil {
				zkmodel.Violate("%s leads, and the guard %s stands", r.Node, guard)
			}
		}
	}
	for _, p := range w.all {
		if p.Ended() || p.M.term == 0 || w.doomed(p) {
			continue
		}
		if leads >= 0 {
			zkmodel.Violate("candidates %d and %d lead", leads, p.n)
		}
		if n, r := w.leader(); (n != nil || p.M.place.Claimed() != 0) && r.Node != p.M.node || n != nil && r.TermOf(n.Czxid) != p.M.term {
			zkmodel.Violate("candidate %d leads in term %d, and %+v", p.n, p.M.term, r)
		}
		leads = p.n
	}
	if w.Quiet() {
		w.checkQuiet(leads)
	}
}

// checkQuiet holds when nothing happens without a command or a fault: one leads, all know it,
// and nothing is left behind. A function that goes on may have others wait.
func (w *electorate) checkQuiet(leads int) {
	stand := 0
	works := slices.ContainsFunc(w.all, func(p *party) bool { return !p.Ended() && p.M.work.term != 0 })
	leader, r := w.leader()
	if leads < 0 { // or one leads of which only a duplicate was struck
		leads = slices.IndexFunc(w.all, func(p *party) bool { return !p.Ended() && p.M.term != 0 })
	}
	for _, p := range w.all {
		if p.Ended() || works && p.M.term == 0 {
			continue
		}
		stand++
		switch node := w.Node(znode.Join(znode.Join(campaignPath, candidatesNode), p.M.place.Node())); {
		case !p.M.place.Waiting() && !p.M.place.Holding():
			zkmodel.Violate("candidate %d is stuck: %v", p.n, p.M)
		case p.M.place.Node() == "" || node == nil:
			zkmodel.Violate("candidate %d has no node: %v", p.n, p.M)
		case p.M.handing.to != "" && p.M.handing.phase != settled:
			zkmodel.Violate("candidate %d hands over for ever: %v", p.n, p.M)
		case leader != nil && p.M.observes == always && p.M.view.leading().Node != r.Node && r.Successor == "":
			zkmodel.Violate("candidate %d does not know who leads: %v, %+v", p.n, p.M, r)
		case p.n == leads && p.M.acknowledged != r.Acknowledged:
			zkmodel.Violate("candidate %d: what it has acknowledged is not written: %+v", p.n, r)
		}
	}
	if stand > 0 && leads < 0 && !works {
		zkmodel.Violate("%d stand, and nobody leads", stand)
	}
	for _, n := range w.Nodes() {
		if n.Owner == 0 || works { // the place of one that leads stays while its function runs
			continue
		}
		if !slices.ContainsFunc(w.all, func(p *party) bool {
			guid := linemodel.GUID(p.M.place.Node())
			return !p.Ended() && guid != "" && (strings.Contains(n.Path, guid) || n.Path == leader.Path && r.Node == p.M.place.Node())
		}) {
			zkmodel.Violate("%s is a ghost: %q", n.Path, n.Data)
		}
	}
}

// Key implements [exploration.World].
func (w *electorate) Key() uint64 {
	w.Woken = nil
	return zkmodel.Hash(w)
}

func TestCampaigns(t *testing.T) {
	for i := range campaigns {
		s := &campaigns[i]
		t.Run(s.name, func(t *testing.T) {
			exploration.Test(t, func(keyed bool) exploration.World[zkmodel.Action] { return newElectorate(s, keyed) }, 1,
				func(w exploration.World[zkmodel.Action]) error {
					at := w.(*electorate)
					for _, p := range at.all {
						if !p.Ended() {
							return fmt.Errorf("candidate %d never ends: %v", p.n, p.M)
						}
					}
					return at.history.Check()
				})
		})
	}
}
