package line

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// This file has the machine of a contender that stands in several lines at once: it holds all
// places or none. Its nodes are created in one transaction. So of two such contenders one is ahead
// in every line where they meet, and they never wait for each other.
//
//	          each place is about to join          all hold
//	together ─────────── CreateTogether ─────────────────────► granted ── one is lost ──┐
//	    ▲ │                                                                             │
//	    │ └─ a place is not in line, others are, or by another transaction              ▼
//	    │                      ▼                                                     ending
//	    └── all have left ─ regrouping                                  all have left ──┴─► finished
//
// Every place is a [Machine]. A place never joins alone: its create is held back until all others
// are about to join. So when another client has deleted a node, or a lost reply leaves a create in
// doubt, all places are left, and one transaction joins all lines again. Leave leads from each
// stage to ending, and so does a loss that a new place would not mend.

// A SeveralInput is an input of a [Several]: a [Heard], a [Leave], or one of these.
//
//sumtype:decl
type SeveralInput interface{ several() }

type (
	// InputAt is an answer, or news, for the place in one line.
	InputAt struct {
		Line int
		In   Input
	}
	// Undone answers one of the creates of CreateTogether: it was undone by the refusal of another.
	Undone struct {
		Line    int
		Attempt Attempt
	}
)

func (Heard) several()   {}
func (Leave) several()   {}
func (InputAt) several() {}
func (Undone) several()  {}

// A SeveralEffect is a request of a [Several] to its performer.
//
//sumtype:decl
type SeveralEffect interface{ severalEffect() }

type (
	// EffectAt is an effect of the place in one line.
	EffectAt struct {
		Line int
		Do   Effect
	}
	// CreateTogether creates a node in each line, in one transaction. Each CreateNode is answered
	// for itself. If an operation is refused, only its CreateNode fails, and the others are Undone.
	CreateTogether struct{ Creates []CreateNode }
	// WithdrawTogether withdraws nodes. Each WithdrawNode is answered for itself.
	WithdrawTogether struct{ Nodes []NodeAt }
	// NodeAt is the withdrawal of a node in one line.
	NodeAt struct {
		Line int
		Node WithdrawNode
	}
)

func (EffectAt) severalEffect()         {}
func (CreateTogether) severalEffect()   {}
func (WithdrawTogether) severalEffect() {}

// SeveralEffects are the effects and the events of a step.
type SeveralEffects = actors.Effects[SeveralEffect, Event]

type stage int

const (
	together   stage = iota // the places join, or wait
	regrouping              // they are left, to join again
	granted
	ending // they are left for ever
	finished
)

// A Several is the state of one place in each of several lines.
type Several struct {
	places       []Machine
	paths        []string // of the lines, for errors; constant
	inBackground bool     // end without waiting until the nodes are deleted; constant

	stage   stage
	creates []pending // by line

	// The first loss of a place, and the line; nil while none is lost, and when the places join
	// again. While ending, it says that Lost or NotGranted was emitted.
	lost   error
	lostAt int

	stands error // why a node that was to be withdrawn stands yet; never cleared

	suspended bool      // set by Suspended, cleared by Resumed
	revoked   bool      // a place was asked for since the places have joined
	revokeBy  time.Time // by the first request; zero if that has no deadline
	ahead     int       // as in the newest Waiting; -1 if there was none
}

// A pending create is set while a place is joining.
type pending struct {
	create CreateNode
	is     bool
	sent   bool
	lists  bool // a list is to go out with it
}

// NewSeveral returns the machine of a handle that stands in the lines of the paths. For id and warm
// see [New].
func NewSeveral(id string, paths []string, rules []Rule, warm []bool, inBackground bool) *Several {
	s := &Several{paths: paths, inBackground: inBackground, creates: make([]pending, len(paths)), ahead: -1}
	for i, rule := range rules {
		s.places = append(s.places, New(id, rule, warm[i], false))
	}
	return s
}

// Place returns the place in one line.
func (s *Several) Place(i int) *Machine { return &s.places[i] }

// Ended implements [actors.Machine].
func (s *Several) Ended() bool { return s.stage == finished }

// Holding reports whether the contender holds all places, and may use them.
func (s *Several) Holding() bool { return s.stage == granted }

func (s *Several) String() string {
	stage := [...]string{"together", "regrouping", "granted", "ending", "finished"}[s.stage]
	return fmt.Sprint(stage, " ", s.places)
}

// Step implements [actors.Machine].
func (s *Several) Step(in SeveralInput, out *SeveralEffects) *Several {
	next := *s
	next.places, next.creates = slices.Clone(s.places), slices.Clone(s.creates)
	next.Advance(in, out)
	return &next
}

// Advance is [Several.Step] in place.
func (s *Several) Advance(in SeveralInput, out *SeveralEffects) {
	if s.Ended() {
		return
	}
	t := &turnOfSeveral{Several: s, out: out}
	switch in := in.(type) {
	case InputAt:
		t.step(in.Line, in.In)
	case Undone:
		if held := &s.creates[in.Line]; held.create.Attempt == in.Attempt {
			held.sent = false
		}
	case Heard:
		t.heard(in)
	case Leave:
		t.leave()
	}
	t.settle()
	t.withdraw()
}

// A turnOfSeveral is a machine during a step.
type turnOfSeveral struct {
	*Several
	out   *SeveralEffects
	nodes []NodeAt // to be withdrawn
}

func (t *turnOfSeveral) do(e SeveralEffect) { t.out.Do = append(t.out.Do, e) }
func (t *turnOfSeveral) emit(ev Event)      { t.out.Emit = append(t.out.Emit, ev) }

// step steps one place.
func (t *turnOfSeveral) step(i int, in Input) {
	var did Effects
	Advance(&t.places[i], in, &did)
	t.did(i, did)
}

// did takes the results of a step of one place.
func (t *turnOfSeveral) did(i int, did Effects) {
	for _, e := range did.Do {
		create, creates := e.(CreateNode)
		withdrawal, withdraws := e.(WithdrawNode)
		_, lists := e.(ListParent)
		switch held := &t.creates[i]; {
		case creates:
			*held = pending{create: create, is: true}
		case withdraws:
			t.nodes = append(t.nodes, NodeAt{i, withdrawal})
		case lists && held.is && !held.sent:
			held.lists = true
		default:
			t.do(EffectAt{i, e})
		}
	}
	if t.places[i].state != joining {
		t.creates[i] = pending{}
	}
	for _, ev := range did.Emit {
		switch ev := ev.(type) {
		case Revoked:
			t.revoke(ev.Deadline)
		case Lost:
			t.lose(i, ev.Err)
		case NotGranted:
			t.lose(i, ev.Err)
		case Suspended: // all are, when all are held
			if t.Holding() && i == 0 {
				t.suspended = true
				t.emit(ev)
			}
		case Resumed:
			if t.suspended && i == 0 {
				t.suspended = false
				t.emit(ev)
			}
		case Released:
			t.stands = cmp.Or(t.stands, ev.Err)
		case Waiting, Acquired, ConditionChanged: // see settle
		}
	}
}

// lose keeps the first loss of a place.
func (t *turnOfSeveral) lose(i int, err error) {
	if t.lost == nil {
		t.lost, t.lostAt = err, i
	}
}

// heard hands an event of the session to all places.
func (t *turnOfSeveral) heard(in Heard) {
	if _, expired := in.Event.(session.Expired); expired {
		for i := range t.places {
			if p := &t.places[i]; p.Ended() { // it takes no input, and may begin again
				p.attempt.Epoch = 0
			}
		}
	}
	if _, lapsed := in.Event.(session.Lapsed); lapsed && t.stage == together {
		for i := range t.places { // each keeps its place: it is no grant yet
			if p := &t.places[i]; p.Holding() {
				p.state, p.token, p.suspended = waiting, 0, false
			}
		}
	}
	if Closes(in) && t.stage == regrouping { // the places are being left, and will not join again
		t.lost = session.ErrClosed
		t.fail()
	}
	for i := range t.places {
		t.step(i, in)
	}
}

// settle does what follows from the states of all places.
func (t *turnOfSeveral) settle() {
	for {
		switch t.stage {
		case together:
			switch {
			case t.lost != nil && !mends(t.lost):
				t.fail()
				continue
			case t.lost != nil, t.torn():
				t.regroup()
				continue
			case t.all(func(i int) bool { return t.creates[i].is && !t.creates[i].sent }):
				t.create()
			case t.all(func(i int) bool { return t.places[i].Holding() }):
				t.grant()
			default:
				t.reportAhead()
			}
		case regrouping:
			switch {
			case !t.all(t.ended):
			case t.stands != nil:
				t.lost = t.stands
				t.fail()
				continue
			default:
				t.rejoin()
				continue
			}
		case granted:
			if t.lost != nil {
				t.fail()
				continue
			}
		case ending:
			if t.all(t.ended) {
				t.finish()
			}
		case finished:
		}
		return
	}
}

func (t *turnOfSeveral) all(is func(i int) bool) bool {
	for i := range t.places {
		if !is(i) {
			return false
		}
	}
	return true
}

func (t *turnOfSeveral) ended(i int) bool { return t.places[i].Ended() }

// torn reports whether one transaction cannot join all lines: some places are in line, and another
// is about to join; or they have joined by several. That happens when a late create has a node that
// another client deletes.
func (t *turnOfSeveral) torn() bool {
	czxid, stands, joins := int64(0), false, false
	for i := range t.places {
		switch p := &t.places[i]; {
		case p.Standing():
			if stands = true; p.czxid == 0 {
				continue
			}
			if czxid != 0 && p.czxid != czxid {
				return true
			}
			czxid = p.czxid
		case t.creates[i].is && !t.creates[i].sent:
			joins = true
		}
	}
	return stands && joins
}

// create joins all lines. The lists that rules want go out behind the transaction.
func (t *turnOfSeveral) create() {
	all := make([]CreateNode, len(t.creates))
	for i := range t.creates {
		all[i], t.creates[i].sent = t.creates[i].create, true
	}
	t.do(CreateTogether{all})
	for i := range t.creates {
		if t.creates[i].lists {
			t.do(EffectAt{i, ListParent{all[i].Attempt}})
			t.creates[i].lists = false
		}
	}
}

// grant emits the grant. The nodes have one czxid, which is the token.
func (t *turnOfSeveral) grant() {
	t.stage = granted
	t.emit(Acquired{Token: t.places[0].token, Node: t.places[0].node})
	if t.revoked {
		t.emit(Revoked{t.revokeBy})
	}
}

// revoke keeps the first request to leave one of the lines, and emits it from the grant on.
func (t *turnOfSeveral) revoke(by time.Time) {
	if t.revoked || t.stage != together && t.stage != granted {
		return
	}
	if t.revoked, t.revokeBy = true, by; t.Holding() {
		t.emit(Revoked{by})
	}
}

// reportAhead emits the number of contenders ahead in the longest line, if it has changed.
func (t *turnOfSeveral) reportAhead() {
	most := 0
	for i := range t.places {
		if p := &t.places[i]; p.Waiting() {
			most = max(most, p.Ahead())
		}
	}
	if most > 0 && most != t.ahead {
		t.ahead = most
		t.emit(Waiting{most})
	}
}

// mends reports whether a contender that has lost a place joins all lines again.
func mends(lost error) bool {
	return client.IsAny(lost, ErrNodeDeleted, ErrRevoked, session.ErrExpired)
}

// regroup leaves all lines, to join them again.
func (t *turnOfSeveral) regroup() {
	t.stage, t.lost, t.revoked, t.revokeBy = regrouping, nil, false, time.Time{}
	t.leaveAll()
}

func (t *turnOfSeveral) leaveAll() {
	for i := range t.places {
		t.step(i, Leave{})
	}
}

// rejoin begins anew in all lines, at their ends.
func (t *turnOfSeveral) rejoin() {
	t.stage = together
	for i := range t.places {
		var did Effects
		t.places[i] = t.places[i].Again(&did)
		t.did(i, did)
	}
}

// fail emits the end, and leaves the other lines.
func (t *turnOfSeveral) fail() {
	held := t.Holding()
	t.stage = ending
	if !client.Over(t.lost) {
		t.lost = fmt.Errorf("%s: %w", t.paths[t.lostAt], t.lost)
	}
	if held {
		t.emit(Lost{t.lost})
	} else {
		t.emit(NotGranted{t.lost})
	}
	t.depart()
}

func (t *turnOfSeveral) leave() {
	if t.stage != ending {
		t.stage, t.lost = ending, nil
		t.depart()
	}
}

func (t *turnOfSeveral) depart() {
	t.leaveAll()
	if t.inBackground {
		t.finish()
	}
}

// finish enters the last stage.
func (t *turnOfSeveral) finish() {
	if t.stage = finished; t.lost == nil {
		t.emit(Released{t.stands})
	}
}

// withdraw requests the withdrawals of the step.
func (t *turnOfSeveral) withdraw() {
	switch len(t.nodes) {
	case 0:
	case 1:
		t.do(EffectAt{t.nodes[0].Line, t.nodes[0].Node})
	default:
		t.do(WithdrawTogether{t.nodes})
	}
}
