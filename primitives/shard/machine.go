package shard

import (
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/session"
)

// This file has the machine of a member. It does three things side by side:
//
// It follows its record, and makes the shards that it owns agree with that. Each shard has a line
// of its own, as an exclusive lock has: so it is owned by one member, whatever the plan says.
//
//	        wanted: stand         Acquired: Assigned
//	absent ──────────────► waits ───────────────────► owned
//	  ▲ ▲                    │ not wanted               │ not wanted: ask (few at once)
//	  │ │                    ▼                          ▼
//	  │ └── ended ──────── leaves ◄─────────────────  asked: Revoke
//	  └──── ended: Lost, from owned and asked  Give, or overdue: Lost
//
// It plans, when it sees that the plan does not agree with the members: it has no record, or one
// with another weight, or its neighbour is gone. For this it looks, and replaces the plan. If many
// have come at once, it looks on only if those before it have not planned meanwhile.
//
//	         needed                      differs            done, or refused for good
//	idle ────────────► looking ─► placing ─────► writing ─────────────────────► idle, until there is news
//	  ▲                 │           │ agrees       │ another was faster, or perhaps done
//	  │     others first│           └────────► idle└──────► pausing ──► idle
//	  └──── pausing ◄───┘
//
// The placement is a function of the user's, which may fail or never return: all else goes on.
//
// It keeps its node among the members, by package presence, whose events it passes on.

// A stage is where in the picture above a shard is.
type stage int8

const (
	absent stage = iota
	waits
	owns
	asking // as owns; the performer is setting the time
	asked
	leaves
)

// A place is a shard as a member has it.
type place struct {
	stage   stage
	wanted  bool
	refused bool // the server has refused it; cleared by news of the record, and after a rest
	failed  bool // it was refused; cleared by a grant
	unequal bool // among those to be reconciled
	queued  bool // among those to be revoked
	serial  int  // counts the places in the line of the shard
	token   int64
}

// A phase of the planning.
type phase int8

const (
	idle phase = iota
	looking
	placing
	writing
	pausing
)

// An input is an event that a member reacts to.
//
//sumtype:decl
type input interface{ input() }

type (
	present  struct{ presence.Event } // of the member's node
	recorded struct {                 // news of our record
		record *record // nil if there is none
		err    error   // why it cannot be read
	}
	neighbour struct { // news of the member that we watch
		id        string
		gone      bool
		ownerless bool  // no session owns its node, so it is gone; set with gone
		err       error // why it is not watched
	}
	acquired struct { // answers stand
		shard, serial int
		token         int64
	}
	ended struct { // answers stand and leave: the place is gone
		shard, serial int
		err           error // nil if it was left
		stands        error // why its node stands yet although it was left
	}
	revoked struct { // answers ask
		shard, serial int
		by            time.Time
	}
	overdue struct{ shard, serial int } // follows ask
	looked  struct {                    // answers look
		sight
		err error
	}
	placed struct { // answers arrange
		write  write
		needed bool // there is something to write
		err    error
	}
	slow   struct{}            // answers arrange after a while, beside placed: the placement may never return
	wrote  struct{ err error } // answers replace
	due    struct{}            // answers pause
	rested struct{}            // answers rest

	give struct { // commanded
		shard int
		token int64 // of the grant; 0 for any
	}
	weigh struct { // commanded
		weight int
		reply  actors.Reply[error]
	}
	drain struct{} // commanded: leave when the shards are given
	stop  struct{} // commanded: leave at once
)

func (present) input()   {}
func (recorded) input()  {}
func (neighbour) input() {}
func (acquired) input()  {}
func (ended) input()     {}
func (revoked) input()   {}
func (overdue) input()   {}
func (looked) input()    {}
func (placed) input()    {}
func (slow) input()      {}
func (wrote) input()     {}
func (due) input()       {}
func (rested) input()    {}
func (give) input()      {}
func (weigh) input()     {}
func (drain) input()     {}
func (stop) input()      {}

// An effect asks the performer for one thing.
//
//sumtype:decl
type effect interface{ effect() }

type (
	stand struct{ shard, serial int } // stand in the line of the shard
	leave struct {                    // leave it
		shard, serial int
		told          bool // of its loss: the user hears of that first
	}
	ask     struct{ shard, serial int } // answer with the time by which the shard is to be given, and when that has passed
	follow  struct{ epoch int }         // follow our record in that session
	watch   struct{ id string }         // follow the member with that ID, and no other; "" for none
	suspect struct{ id string }         // as watch, but say after a rest that it is gone, whether it is or not
	look    struct {                    // read what the plan rests on
		thoroughly bool // else only if this member is to plan before others
		wary       bool // the nodes of all members, not only of strangers: nodes of no session are among them
	}
	arrange struct { // place the shards by what was seen
		sight
		self Peer
	}
	yield    struct{ ahead int } // to the members that plan before: a pause, longer if there are more
	replace  struct{ write }     // replace the plan
	pause    struct{ tries int } // longer after more tries
	rest     struct{}            // before places that were refused are tried again
	complain struct{ err error } // to the log
	renew    struct {            // have our node say who we are
		self  Peer
		reply actors.Reply[error]
	}
	answer struct {
		reply actors.Reply[error]
		err   error
	}
	depart struct{} // give up our node
)

func (stand) effect()    {}
func (leave) effect()    {}
func (ask) effect()      {}
func (follow) effect()   {}
func (watch) effect()    {}
func (look) effect()     {}
func (arrange) effect()  {}
func (replace) effect()  {}
func (yield) effect()    {}
func (pause) effect()    {}
func (rest) effect()     {}
func (complain) effect() {}
func (suspect) effect()  {}
func (renew) effect()    {}
func (answer) effect()   {}
func (depart) effect()   {}

// A member is the machine of a member. Its actor steps it in place: it may have many shards.
type member struct {
	// Set when it is made, and constant.
	shards int
	atOnce int // how many shards are asked for at once, at most

	self   Peer    // as it is to be
	places []place // by shard

	in     bool    // our node stands among the members
	read   bool    // the record was read; cleared with in
	record *record // as it was read last; nil if there is none
	known  bool    // there was a record once
	gone   bool    // the neighbour that the record names is gone, or may be
	blind  bool    // it cannot be watched; cleared when it can
	wary   bool    // set when no session owned the neighbour's node; cleared when the plan agrees

	standing int   // places that are not absent
	asking   int   // places that are asking or asked
	unequal  []int // shards whose places may disagree with the record
	revoking []int // owned shards that are not wanted, and not asked for yet

	phase     phase
	tries     int  // how often another member was faster, or we were refused, since the last success
	satisfied bool // set when the plan was found to agree, or was replaced; cleared by news
	news      bool // set by news, cleared by a look: what was seen may be older
	concerned bool // what is being written includes our record
	yielded   bool // others were to plan before us; cleared when the plan agrees
	hangs     bool // the placement is slow; cleared when it has returned

	complained bool // set when we were refused, cleared when the plan agrees
	refusals   int  // places that are refused
	refusing   bool // set by the complaint about a place, cleared by rested
	resting    bool // set by rest, cleared by rested
	probed     int  // the shard from which on places are tried again

	draining bool // leaves when its shards are given; never cleared
	alone    bool // draining, and no plan can be made; never cleared
	stopping bool // leaves; never cleared
	departed bool // our node is given up
	why      error
	stands   error // the newest reason for which a shard that was given is not free, or our node stands
	over     bool
}

func newMember(shards, atOnce int, self Peer) *member {
	return &member{shards: shards, atOnce: atOnce, self: self, places: make([]place, shards)}
}

// Ended implements [actors.Machine].
func (m *member) Ended() bool { return m.over }

// A turn is a member during a step, with the accumulator of its effects.
type turn struct {
	*member
	*actors.Effects[effect, Event]
}

func (t *turn) do(e effect)   { t.Do = append(t.Do, e) }
func (t *turn) emit(ev Event) { t.Emit = append(t.Emit, ev) }

// Step implements [actors.Machine].
func (m *member) Step(in input, out *actors.Effects[effect, Event]) *member {
	if m.over {
		return m
	}
	t := &turn{m, out}
	t.take(in)
	t.advance()
	return m
}

// take enters the input into the state.
func (t *turn) take(in input) {
	switch in := in.(type) {
	case present:
		t.present(in.Event)
	case recorded:
		if t.in {
			t.recorded(in)
		}
	case neighbour:
		if t.record != nil && t.record.Watch == in.id {
			t.neighbour(in)
		}
	case acquired:
		if p := t.at(in.shard, in.serial); p != nil && p.stage == waits {
			p.stage, p.token = owns, in.token
			t.list(in.shard)
			t.emit(Assigned{in.shard, in.token})
			if p.failed {
				p.failed = false
				t.retry(t.shards)
			}
		}
	case ended:
		if p := t.at(in.shard, in.serial); p != nil {
			t.lose(in.shard, p, in)
		}
	case revoked:
		if p := t.at(in.shard, in.serial); p != nil && p.stage == asking {
			p.stage = asked
			t.emit(Revoke{in.shard, p.token, in.by})
		}
	case overdue:
		if p := t.at(in.shard, in.serial); p != nil && p.stage == asked {
			t.forfeit(in.shard, ErrOverdue)
		}
	case give:
		if p := t.places[in.shard]; p.stage == asked && (in.token == 0 || in.token == p.token) {
			t.leave(in.shard)
		}
	case looked:
		if !t.stopping {
			t.looked(in)
		}
	case placed:
		if !t.stopping {
			t.placed(in)
		}
	case slow:
		t.hangs = t.phase == placing
	case wrote:
		t.wrote(in.err)
	case due:
		if t.phase == pausing {
			t.phase = idle
		}
	case rested:
		t.resting, t.refusing = false, false
		t.retry(probes)
		if t.refusals > 0 {
			t.rest()
		}
	case weigh:
		if t.draining || t.stopping {
			t.do(answer{in.reply, ErrLeft})
			return
		}
		t.reweigh(in.weight)
		t.do(renew{t.self, in.reply})
	case drain:
		if !t.draining && !t.stopping {
			t.reweigh(0)
			t.draining = true
		}
	case stop:
		t.stop(nil)
	}
}

// at returns the place in the line of a shard, nil if it is another one by now.
func (t *turn) at(shard, serial int) *place {
	if p := &t.places[shard]; p.serial == serial && p.stage != absent {
		return p
	}
	return nil
}

func (t *turn) present(ev presence.Event) {
	switch ev := ev.(type) {
	case presence.Joined:
		t.in = true
		t.emit(Joined{})
		t.do(follow{ev.Epoch})
	case presence.Suspended:
		t.emit(Suspended{ev.Deadline})
	case presence.Resumed:
		t.emit(Resumed{})
	case presence.Gone:
		t.emit(Gone{ev.Err})
		t.in, t.read, t.record, t.gone, t.yielded = false, false, nil, false, false
		if client.Over(ev.Err) { // the nodes are gone with the session
			t.stands = nil
		}
		t.learn()
		t.do(watch{})
		for shard := range t.places {
			if t.places[shard].stage == waits {
				t.leave(shard)
			}
		}
	case presence.Left:
		t.departed = true
		t.stop(ev.Err)
		t.stands = client.Both(t.stands, ev.Stands)
	}
}

// recorded follows a reading of our record. One of a plan with another number of shards counts for
// nothing.
func (t *turn) recorded(in recorded) {
	if in.record != nil && in.record.Of != t.shards {
		in.record = nil
	}
	if in.err == nil && in.record != nil {
		var all []int
		if all, in.err = parseRanges(in.record.Shards, t.shards); in.err == nil {
			t.want(all)
		}
	}
	switch {
	case client.Over(in.err): // a new session follows
		return
	case in.err != nil:
		t.stop(in.err)
		return
	case in.record == nil:
		t.want(nil)
		in.record, t.record, t.gone = nil, nil, false
		t.do(watch{})
	default:
		if t.record == nil || t.record.Watch != in.record.Watch {
			t.gone = false
			t.do(watch{in.record.Watch})
		}
		t.record, t.known = in.record, true
	}
	t.read = true
	t.learn()
}

// learn notes news, after which the plan may not agree with the members.
func (t *turn) learn() { t.satisfied, t.news = false, true }

// agree notes that the plan agrees with what was seen. Until our record was read, another look
// follows: a record that is deleted before is no news to us.
func (t *turn) agree() {
	t.satisfied, t.tries, t.complained, t.yielded, t.wary = !t.news && t.record != nil, 0, false, false, false
}

// want notes which shards are to be ours, in their order.
func (t *turn) want(all []int) {
	if t.alone {
		all = nil
	}
	for shard := range t.places {
		p := &t.places[shard]
		t.refuse(p, false)
		p.wanted = len(all) > 0 && all[0] == shard
		if p.wanted {
			all = all[1:]
		}
		if p.wanted != (p.stage != absent) {
			t.list(shard)
		}
	}
}

// list has a place reconciled with the record.
func (t *turn) list(shard int) {
	if p := &t.places[shard]; !p.unequal {
		p.unequal = true
		t.unequal = append(t.unequal, shard)
	}
}

// leave leaves the line of a shard, of which its user has no use.
func (t *turn) leave(shard int) { t.quit(shard, false) }

// forfeit takes a shard from its user, and leaves its line.
func (t *turn) forfeit(shard int, why error) {
	t.emit(Lost{shard, fmt.Errorf("%w: %w", ErrLost, why)})
	t.quit(shard, true)
}

func (t *turn) quit(shard int, told bool) {
	p := &t.places[shard]
	if p.stage == asking || p.stage == asked {
		t.asking--
	}
	p.stage = leaves
	t.do(leave{shard, p.serial, told})
}

// lose follows the end of a place.
func (t *turn) lose(shard int, p *place, in ended) {
	was := p.stage
	if was == asking || was == asked {
		t.asking--
	}
	p.stage = absent
	t.standing--
	t.list(shard)
	switch was {
	case leaves, absent:
		if in.stands != nil {
			t.stands = fmt.Errorf("shard %d: %w", shard, in.stands)
			t.do(complain{t.stands})
		}
	case waits:
		t.refuse(p, true)
		if !p.failed && !t.refusing && !errors.Is(in.err, session.ErrClosed) {
			t.refusing = true
			t.do(complain{fmt.Errorf("shard %d: %w", shard, in.err)})
		}
		p.failed = true
		t.rest()
	case owns, asking, asked:
		t.emit(Lost{shard, in.err})
	}
}

func (t *turn) refuse(p *place, is bool) {
	switch {
	case is && !p.refused:
		t.refusals++
	case !is && p.refused:
		t.refusals--
	}
	p.refused = is
}

func (t *turn) rest() {
	if !t.resting {
		t.resting = true
		t.do(rest{})
	}
}

// probes is how many of the places that were refused are tried again after a rest. If one of them
// is granted, all others are.
const probes = 16

// retry tries so many places again, at most, of those that were refused.
func (t *turn) retry(most int) {
	for n := t.shards; n > 0 && most > 0 && t.refusals > 0; n-- {
		if p := &t.places[t.probed]; p.refused {
			t.refuse(p, false)
			t.list(t.probed)
			most--
		}
		t.probed = (t.probed + 1) % t.shards
	}
}

// neighbour follows news of the member that we watch. If it cannot be watched, it is looked for
// among the others, again and again.
func (t *turn) neighbour(in neighbour) {
	if in.err != nil {
		if !t.blind {
			t.blind = true
			t.do(complain{fmt.Errorf("member %s cannot be watched: %w", in.id, in.err)})
		}
		t.do(suspect{in.id})
		return
	}
	t.blind = t.blind && in.gone
	t.gone, t.wary = in.gone, t.wary || in.ownerless
	t.learn()
}

func (t *turn) reweigh(weight int) {
	t.self.Weight = weight
	t.learn()
}

// stop gives up all places, and our node. The first reason counts. If the user has not asked for
// it, each shard is lost before.
func (t *turn) stop(why error) {
	if t.stopping {
		return
	}
	t.stopping, t.why = true, why
	for shard, p := range t.places {
		if p.stage == absent || p.stage == leaves {
			continue
		}
		if why != nil && p.stage != waits {
			t.forfeit(shard, why)
		} else {
			t.leave(shard)
		}
	}
	if !t.departed {
		t.do(depart{})
	}
}

// looked plans by what was seen.
func (t *turn) looked(in looked) {
	switch {
	case in.err != nil:
		t.phase = idle
		t.refused(in.err)
	case in.ahead > 0:
		t.phase, t.yielded = pausing, true
		t.do(yield{in.ahead})
	default:
		t.phase = placing
		t.do(arrange{in.sight, t.self})
	}
}

// placed replaces the plan, if it does not agree with the placement.
func (t *turn) placed(in placed) {
	t.phase, t.hangs = idle, false
	switch w := in.write; {
	case in.err != nil:
		t.refused(in.err)
	case in.needed:
		if w.unplaced > 0 {
			t.complain(fmt.Errorf("%d shards: the sessions of the members have no room for them", w.unplaced))
		}
		t.phase, t.concerned = writing, w.concerns(t.self.ID)
		t.do(replace{w})
	default:
		t.agree()
		t.watchAgain()
	}
}

// watchAgain watches a neighbour that is in the plan although it was gone: it was back, and may be
// gone again since.
func (t *turn) watchAgain() {
	if t.gone {
		t.gone = false
		t.do(watch{t.record.Watch})
	}
}

// wrote follows the answer to a write of the plan.
func (t *turn) wrote(err error) {
	t.phase = idle
	switch {
	case err == nil:
		t.agree()
		if !t.concerned { // else the record says whom to watch
			t.watchAgain()
		}
	case session.InDoubt(err):
		t.wait() // a look shows then whether it was done
		if t.tries >= oftenInDoubt {
			t.complain(err)
		}
	case client.IsAny(err, session.ErrBadVersion, session.ErrNodeExists, session.ErrNoNode):
		t.wait()
	default:
		t.refused(err)
	}
}

// oftenInDoubt is how often in a row a write is in doubt before that is complained of: the server
// may close the connection because of it.
const oftenInDoubt = 5

// refused follows an error that says nothing about another member. It ends a member of which no
// other knows yet, and one whose number of shards has been replaced; else another may be able to
// plan, and this one tries again. One that is to leave does not wait for that.
func (t *turn) refused(err error) {
	switch {
	case client.Over(err) || session.Passing(err):
	case !t.known, errors.Is(err, ErrShards):
		t.stop(err)
	default:
		t.complain(err)
		t.wait()
		t.despair()
	}
}

// despair has a member that is to leave give its shards without a plan.
func (t *turn) despair() {
	if t.draining && !t.alone {
		t.alone = true
		t.want(nil)
	}
}

func (t *turn) complain(err error) {
	if !t.complained {
		t.complained = true
		t.do(complain{fmt.Errorf("shards cannot be placed: %w", err)})
	}
}

func (t *turn) wait() {
	t.phase = pausing
	t.tries++
	t.do(pause{t.tries})
}

// advance does what follows from the state, whichever input has led to it.
func (t *turn) advance() {
	if !t.stopping {
		if t.hangs {
			t.despair()
		}
		t.reconcile()
	}
	if t.draining && t.standing == 0 && (!t.in || t.alone || t.read && (t.record == nil || t.record.Shards == "")) {
		t.stop(nil)
	}
	if !t.stopping {
		t.plan()
	}
	if t.stopping && t.departed && t.standing == 0 {
		t.over = true
		t.emit(Left{client.Both(t.why, t.stands)})
	}
}

// reconcile makes the places agree with the record.
func (t *turn) reconcile() {
	if !t.read {
		return
	}
	for _, shard := range t.unequal {
		p := &t.places[shard]
		p.unequal = false
		switch {
		case p.stage == absent && p.wanted && !p.refused:
			p.stage = waits
			p.serial++
			t.standing++
			t.do(stand{shard, p.serial})
		case p.stage == waits && !p.wanted:
			t.leave(shard)
		case p.stage == owns && !p.wanted && !p.queued:
			p.queued = true
			t.revoking = append(t.revoking, shard)
		}
	}
	t.unequal = t.unequal[:0]
	for len(t.revoking) > 0 && t.asking < t.atOnce {
		shard := t.revoking[0]
		t.revoking = t.revoking[1:]
		p := &t.places[shard]
		p.queued = false
		if p.stage == owns && !p.wanted {
			p.stage = asking
			t.asking++
			t.do(ask{shard, p.serial})
		}
	}
}

// plan begins to plan, if the record shows that the plan does not agree with the members. A member
// that has come waits for a moment: others may come at the same time.
func (t *turn) plan() {
	switch {
	case t.phase != idle || !t.read || t.satisfied || t.record != nil && t.record.Peer == t.self && !t.gone:
	case t.record == nil && t.tries == 0:
		t.wait()
	default:
		t.phase, t.news = looking, false
		t.do(look{thoroughly: t.record != nil || t.yielded, wary: t.wary})
	}
}
