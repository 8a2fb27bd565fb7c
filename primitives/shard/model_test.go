package shard

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/session"
)

var schedules = flag.Int("shard.schedules", 0, "the number of schedules of TestSchedules; 0 is the default")

// This file plays members at random, on nodes that are simulated, with a line for each shard that
// grants the first. Members come, leave, crash and lose their sessions; answers and news come in
// any order, replies get lost, and users give late or not at all. When nothing more happens, every
// shard has its owner, as even as weights allow.

// A simNode is the plan or a record, with the version that its readers compare.
type simNode struct {
	data    []byte
	version int32
	id      int // another one for each creation
}

// A world has the nodes, and the members.
type world struct {
	t       *testing.T
	r       *rand.Rand
	shards  int
	plan    *simNode
	records map[string]*simNode
	members map[string]*agent // whose node stands
	copies  map[string]bool   // members whose nodes no session owns
	lines   [][]queued
	agents  []*agent
	created int
	faults  int

	refusals int // of places
	trace    []string
	erasing  []func() // what an operator is about to delete, in order

	generation string // the plan's child; "" if there is none
	dir        bool   // there is a directory of records
	moves      int    // Assigned events

	given *check.Given
}

// A queued is a contender in the line of a shard.
type queued struct {
	of     *agent
	serial int
	told   bool
}

// An agent is a member, and its performer.
type agent struct {
	w    *world
	id   string
	m    *member
	epoc int

	pending   []func() // answers, in any order
	reading   bool     // a reading of the record is on its way
	recordOf  int      // epoch in which the record is followed; 0 for none
	recordAt  simNode  // as it was reported last
	reported  bool
	watching  string
	goneTold  int  // -1 not reported, 0 there, 1 gone, 2 of no session
	blind     bool // the next report is an error
	holds     map[int]stage
	dead      bool
	left      bool
	inBetween bool            // its session has expired, and the next has not begun
	over      map[queued]bool // places that were left: they join no line again
	stopped   bool
	losing    map[int]bool // shards of a session that has ended
}

func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(w.trace[max(0, len(w.trace)-80):], "\n"))
}

func (w *world) join(id string, weight int) {
	a := &agent{w: w, id: id, m: newMember(w.shards, 2, Peer{ID: id, Weight: weight}), holds: map[int]stage{}, over: map[queued]bool{}, losing: map[int]bool{}, goneTold: -1}
	w.agents = append(w.agents, a)
	w.say("%s begins, weight %d", id, weight)
	a.connect()
}

// connect lets the agent's node stand, unless another of its ID does.
func (a *agent) connect() {
	a.epoc++
	epoch := a.epoc
	a.later(func() {
		if a.epoc != epoch || a.m.stopping {
			return
		}
		a.w.members[a.id] = a
		a.tell(present{presence.Joined{Epoch: epoch}})
	})
}

func (a *agent) later(f func()) { a.pending = append(a.pending, f) }

// muchLater lets n other things happen before.
func (a *agent) muchLater(n int, f func()) {
	if n > 0 {
		next := f
		f = func() { a.muchLater(n-1, next) }
	}
	a.later(f)
}

// tell steps the machine, and performs its effects.
func (a *agent) tell(in input) {
	if a.dead {
		return
	}
	var out actors.Effects[effect, Event]
	check.Note(a.w.given, in)
	a.w.say("%s %T%+v", a.id, in, in)
	a.m = a.m.Step(in, &out)
	for _, ev := range out.Emit {
		a.event(ev)
	}
	for _, e := range out.Do {
		a.w.say("    %s does %T%+v", a.id, e, e)
		a.perform(e)
	}
	asks := 0
	for _, p := range a.m.places {
		if p.stage == asking || p.stage == asked {
			asks++
		}
		if p.stage == waits && !a.m.in {
			a.w.fail("%s waits, and is gone", a.id)
		}
	}
	if asks != a.m.asking || asks > a.m.atOnce {
		a.w.fail("%s asks for %d shards at once, and counts %d", a.id, asks, a.m.asking)
	}
}

// event checks the grammar of each shard.
func (a *agent) event(ev Event) {
	a.w.say("        %s says %v", a.id, ev)
	if a.left {
		a.w.fail("%s: %v after Left", a.id, ev)
	}
	is := func(shard int, from ...stage) {
		if !slices.Contains(from, a.holds[shard]) {
			a.w.fail("%s: %v from stage %d", a.id, ev, a.holds[shard])
		}
	}
	switch ev := ev.(type) {
	case Assigned:
		is(ev.Shard, absent)
		a.holds[ev.Shard] = owns
		a.w.moves++
		if line := a.w.lines[ev.Shard]; !a.lostIt(ev.Shard) && (len(line) == 0 || line[0].of != a) {
			a.w.fail("%s: %v, and it is not first", a.id, ev)
		}
	case Revoke:
		is(ev.Shard, owns)
		a.holds[ev.Shard] = asked
	case Lost:
		is(ev.Shard, owns, asked)
		a.holds[ev.Shard] = absent
		if !errors.Is(ev.Err, ErrLost) {
			a.w.fail("%s: %v", a.id, ev)
		}
	case Left:
		a.left = true
	case Joined, Suspended, Resumed, Gone:
	}
}

func (a *agent) perform(e effect) {
	w := a.w
	switch e := e.(type) {
	case stand:
		if !a.m.in || !a.m.read {
			w.fail("%s stands in line, and knows nothing", a.id)
		}
		if w.refusals > 0 && w.r.IntN(4) == 0 { // the place is refused, for now
			w.refusals--
			a.later(func() { a.tell(ended{shard: e.shard, serial: e.serial, err: errRefused}) })
			return
		}
		a.later(func() {
			w.line(e.shard, queued{of: a, serial: e.serial})
		})
	case leave:
		a.over[queued{a, e.shard<<16 + e.serial, false}] = true
		if a.holds[e.shard] == owns && !a.stopped && !a.m.departed {
			w.fail("%s leaves the line of shard %d, which its user has", a.id, e.shard)
		}
		a.later(func() {
			w.unline(e.shard, func(s queued) bool { return s.of == a && s.serial == e.serial })
			a.later(func() { a.tell(ended{shard: e.shard, serial: e.serial}) })
		})
		if a.holds[e.shard] == owns || a.holds[e.shard] == asked {
			a.holds[e.shard] = absent // its user has stopped before
		}
	case ask:
		a.later(func() {
			a.tell(revoked{e.shard, e.serial, time.Time{}})
			a.muchLater(w.r.IntN(20), func() {
				if w.r.IntN(3) == 0 {
					a.tell(overdue(e))
				} else {
					a.holdsNot(e.shard)
					a.tell(give{shard: e.shard})
				}
			})
		})
	case follow:
		a.recordOf, a.reported = e.epoch, false
	case watch:
		a.watching, a.goneTold, a.blind = e.id, -1, w.r.IntN(10) == 0
	case look:
		a.look(e)
	case arrange:
		if w.r.IntN(10) == 0 {
			a.later(func() { a.tell(slow{}) })
		}
		a.muchLater(w.r.IntN(3), func() { a.tell(placedBy(e, w.shards, Balanced)) })
	case yield:
		a.later(func() { a.tell(due{}) })
	case replace:
		a.later(func() { a.write(e.write) })
	case pause:
		if e.tries > 1000 {
			w.fail("%s tries for ever", a.id)
		}
		a.later(func() { a.tell(due{}) })
	case rest:
		a.later(func() { a.tell(rested{}) })
	case suspect:
		a.later(func() { a.tell(neighbour{id: e.id, gone: true}) })
	case renew, answer:
	case complain:
		if errors.Is(e.err, errBlind) || errors.Is(e.err, errRefused) {
			return
		}
		w.fail("%s complains: %v", a.id, e.err)
	case depart:
		a.later(func() {
			if w.members[a.id] == a {
				delete(w.members, a.id)
			}
			a.epoc++
			a.recordOf = 0
			a.later(func() { a.tell(present{presence.Left{}}) })
		})
	}
}

var (
	errBlind   = errors.New("it cannot be read")
	errRefused = errors.New("the place is refused")
)

// holdsNot notes that the user has stopped.
func (a *agent) holdsNot(shard int) {
	if a.holds[shard] == asked {
		a.holds[shard] = absent
	}
}

// look reads in steps, between which anything may happen.
func (a *agent) look(e look) {
	w, epoch := a.w, a.epoc
	over := func() bool {
		if a.epoc != epoch || a.inBetween {
			a.later(func() { a.tell(looked{err: session.ErrExpired}) })
			return true
		}
		return false
	}
	w.created++
	s := sight{generation: fmt.Sprint("g", w.created)}
	a.later(func() {
		if over() {
			return
		}
		if w.plan != nil {
			p, err := decodePlan(w.plan.data)
			check.Must(w.t, err)
			s.plan, s.version = &p, w.plan.version
		}
		a.later(func() {
			if over() {
				return
			}
			s.listed = slices.Concat(slices.Collect(maps.Keys(w.members)), slices.Collect(maps.Keys(w.copies)))
			slices.Sort(s.listed)
			a.later(func() {
				if over() {
					return
				}
				for id := range w.records {
					s.records = append(s.records, id)
				}
				slices.Sort(s.records)
				s.bare = !w.dir
				strangers := s.strangers(w.shards)
				if i := slices.Index(strangers, a.id); i > 0 && !e.thoroughly {
					s.ahead = i
					a.later(func() { a.tell(looked{sight: s}) })
					return
				}
				a.later(func() {
					if over() {
						return
					}
					s.known = map[string]Peer{}
					for _, id := range slices.Clone(s.listed) {
						if w.copies[id] && (e.wary || slices.Contains(strangers, id)) {
							s.strike(id)
						}
					}
					for _, id := range strangers {
						if of := w.members[id]; of != nil && of != a {
							s.known[id] = of.m.self
						}
					}
					a.later(func() { a.tell(looked{sight: s}) })
				})
			})
		})
	})
}

// write replaces the plan and the records, all or nothing. The reply may get lost, or the request.
func (a *agent) write(x write) {
	w := a.w
	lose := w.faults > 0 && w.r.IntN(6) == 0
	if lose {
		w.faults--
		w.say("the reply to %s is lost", a.id)
	}
	if lose && w.r.IntN(2) == 0 || a.inBetween {
		a.later(func() { a.tell(wrote{session.ErrUnknownOutcome}) })
		return
	}
	err := func() error {
		switch {
		case x.version < 0 && w.plan != nil:
			return session.ErrNodeExists
		case x.version >= 0 && w.plan == nil:
			return session.ErrNoNode
		case x.version >= 0 && w.plan.version != x.version:
			return session.ErrBadVersion
		case !x.begins && w.generation != x.generation:
			now, err := decodePlan(w.plan.data)
			check.Must(w.t, err)
			if now.generation == x.generation && w.generation == "" {
				w.generation = x.generation
			}
			return session.ErrNoNode
		case x.bare && w.dir:
			return session.ErrNodeExists
		case !x.bare && !w.dir && len(x.create) > 0:
			return session.ErrNoNode
		}
		for _, r := range x.create {
			if w.records[r.id] != nil {
				return session.ErrNodeExists
			}
		}
		for _, r := range x.set {
			if w.records[r.id] == nil {
				return session.ErrNoNode
			}
		}
		for _, id := range x.remove {
			if w.records[id] == nil {
				return session.ErrNoNode
			}
		}
		return nil
	}()
	if err == nil {
		if w.plan != nil && string(w.plan.data) == string(x.data) && len(x.create) == 0 { // else they were deleted
			w.fail("%s writes what was there", a.id)
		}
		if w.plan == nil {
			w.plan = &simNode{version: -1}
		}
		w.plan.data, w.plan.version = x.data, w.plan.version+1
		w.generation, w.dir = x.generation, true
		for _, r := range x.create {
			w.created++
			w.records[r.id] = &simNode{r.data, 0, w.created}
		}
		for _, r := range x.set {
			w.records[r.id].data = r.data
			w.records[r.id].version++
		}
		for _, id := range x.remove {
			delete(w.records, id)
		}
	}
	if lose {
		err = session.ErrUnknownOutcome
	}
	a.later(func() { a.tell(wrote{err}) })
}

// line has a contender stand in line, unless it has left.
func (w *world) line(shard int, s queued) {
	s.told = false
	if !s.of.over[queued{s.of, shard<<16 + s.serial, false}] {
		w.lines[shard] = append(w.lines[shard], s)
	}
}

func (w *world) unline(shard int, is func(queued) bool) {
	w.lines[shard] = slices.DeleteFunc(w.lines[shard], is)
}

// news returns what the agent could be told now.
func (a *agent) news() (all []func()) {
	if a.recordOf != 0 && a.recordOf == a.epoc {
		now := a.w.records[a.id]
		var at simNode
		if now != nil {
			at = *now
		}
		if a.reading {
			return nil // readings come one after the other
		}
		if !a.reported || at.id != a.recordAt.id || at.version != a.recordAt.version {
			all = append(all, func() {
				a.reported, a.recordAt = true, at
				news := recorded{}
				if now != nil {
					r, err := decodeRecord(at.data)
					check.Must(a.w.t, err)
					news.record = &r
				}
				a.reading = true
				a.later(func() {
					a.reading = false
					a.tell(news)
				})
			})
		}
	}
	if a.watching != "" && !a.inBetween {
		gone := 0
		switch {
		case a.w.copies[a.watching]:
			gone = 2
		case a.w.members[a.watching] == nil:
			gone = 1
		}
		if gone != a.goneTold { // changes that undo each other are not reported
			all = append(all, func() {
				if a.blind {
					a.blind = false
					a.tell(neighbour{id: a.watching, err: errBlind})
					a.watching = ""
					return
				}
				a.goneTold = gone
				a.tell(neighbour{id: a.watching, gone: gone > 0, ownerless: gone == 2})
			})
		}
	}
	return all
}

// lose reports the loss of a place, after its grant.
func (a *agent) lose(shard, serial int) {
	if p := a.m.places[shard]; p.serial == serial && p.stage == waits {
		a.later(func() { a.lose(shard, serial) })
		return
	}
	a.losing[shard] = false
	a.tell(ended{shard: shard, serial: serial, err: fmt.Errorf("%w: %w", ErrLost, session.ErrExpired)})
}

// lostIt reports whether the loss of a shard is on its way.
func (a *agent) lostIt(shard int) bool { return a.losing[shard] }

// expire ends the session: the server deletes its nodes, and then it is told, in any order.
func (a *agent) expire() {
	w := a.w
	w.say("the session of %s ends", a.id)
	stood := w.members[a.id] == a
	if stood {
		delete(w.members, a.id)
	}
	a.inBetween = true
	for shard := range w.lines {
		for _, s := range w.lines[shard] {
			if s.of == a && s.told {
				a.losing[shard] = true
				a.later(func() { a.lose(shard, s.serial) })
			} else if s.of == a { // it stands in line again, in the next session
				a.later(func() { w.line(shard, s) })
			}
		}
		w.unline(shard, func(s queued) bool { return s.of == a })
	}
	a.later(func() {
		a.inBetween = false
		a.epoc++
		if stood && a.m.in {
			a.tell(present{presence.Gone{Err: session.ErrExpired}})
		}
		if !a.m.stopping {
			a.connect()
		}
	})
}

// crash ends the process.
func (a *agent) crash() {
	a.w.say("%s crashes", a.id)
	a.dead = true
	if a.w.members[a.id] == a {
		delete(a.w.members, a.id)
	}
	for shard := range a.w.lines {
		a.w.unline(shard, func(s queued) bool { return s.of == a })
	}
	a.pending = nil
}

// step does one thing that can happen, and reports whether there was any.
func (w *world) step() bool {
	var all []func()
	for _, a := range w.agents {
		if a.dead || a.left {
			continue
		}
		for i, f := range a.pending {
			all = append(all, func() {
				a.pending = slices.Delete(a.pending, i, i+1)
				f()
			})
		}
		all = append(all, a.news()...)
	}
	for shard := range w.lines {
		if len(w.lines[shard]) > 0 && !w.lines[shard][0].told && !w.lines[shard][0].of.inBetween {
			s := &w.lines[shard][0]
			all = append(all, func() {
				s.told = true
				a, serial := s.of, s.serial
				a.later(func() { a.tell(acquired{shard, serial, 1}) })
			})
		}
	}
	if len(w.erasing) > 0 {
		all = append(all, func() {
			f := w.erasing[0]
			w.erasing = w.erasing[1:]
			f()
		})
	}
	if w.faults > 0 {
		for range 1 + len(all)/12 {
			all = append(all, w.trouble)
		}
	}
	if len(all) == 0 {
		return false
	}
	all[w.r.IntN(len(all))]()
	return true
}

// trouble lets something happen to a member, or has one come.
func (w *world) trouble() {
	w.faults--
	a := w.agents[w.r.IntN(len(w.agents))]
	switch w.r.IntN(7) {
	case 0:
		w.comes()
	case 6:
		w.erase()
	case 1:
		if !a.dead && !a.left && !a.inBetween {
			a.expire()
		}
	case 2:
		a.crash()
	case 3:
		a.tell(weigh{weight: w.r.IntN(4)})
	case 4:
		a.tell(drain{})
	case 5:
		a.stopped = true
		a.tell(stop{})
	}
}

// erase has an operator delete everything, node by node; other things happen between.
func (w *world) erase() {
	w.say("everything is erased")
	var all []func()
	for _, id := range slices.Sorted(maps.Keys(w.members)) {
		all = append(all, func() {
			if a := w.members[id]; a != nil {
				a.deleted()
			}
		})
	}
	for _, id := range slices.Sorted(maps.Keys(w.copies)) {
		all = append(all, func() { delete(w.copies, id) })
	}
	for _, id := range slices.Sorted(maps.Keys(w.records)) {
		all = append(all, func() { delete(w.records, id) })
	}
	all = append(all,
		func() { w.dir = w.dir && len(w.records) > 0 },
		func() { w.generation = "" },
		func() {
			if !w.dir && w.generation == "" { // else the plan has a child
				w.plan = nil
			}
		})
	w.erasing = append(w.erasing, all...)
}

// deleted follows the deletion of the agent's node, in the same session.
func (a *agent) deleted() {
	a.w.say("the node of %s is deleted", a.id)
	delete(a.w.members, a.id)
	epoch := a.epoc
	a.later(func() {
		if a.epoc != epoch || a.inBetween || a.m.stopping {
			return
		}
		if a.m.in {
			a.tell(present{presence.Gone{Err: session.ErrNoNode}})
		}
		a.connect()
	})
}

// comes has a member come whose ID no other has.
func (w *world) comes() {
	for i := range 6 {
		id := string(rune('a' + i))
		if !slices.ContainsFunc(w.agents, func(a *agent) bool { return a.id == id && !a.dead && !a.left }) {
			w.join(id, 1+w.r.IntN(3))
			return
		}
	}
}

// settle runs until nothing more happens.
func (w *world) settle() {
	for n := 0; w.step(); n++ {
		if n > 200_000 {
			w.fail("it does not end")
		}
	}
}

// settled checks what holds when nothing more happens.
func (w *world) settled() {
	var peers []Peer
	held := map[string]int{}
	for _, a := range w.agents {
		if a.dead || a.left {
			continue
		}
		if !a.m.in || a.m.draining || a.m.stopping || w.members[a.id] != a {
			w.fail("%s has not come, or not gone: %+v", a.id, *a.m)
		}
		peers = append(peers, a.m.self)
		for shard, p := range a.m.places {
			if (p.stage != absent) != p.wanted || p.wanted && p.stage != owns || (p.stage == owns) != (a.holds[shard] == owns) {
				w.fail("shard %d of %s: %+v, and its user has %d", shard, a.id, p, a.holds[shard])
			}
			if p.stage == owns {
				held[a.id]++
				if len(w.lines[shard]) != 1 || w.lines[shard][0].of != a {
					w.fail("shard %d: the line of %s is %+v", shard, a.id, w.lines[shard])
				}
			}
		}
	}
	if len(w.records) != len(peers) && len(peers) > 0 {
		w.fail("%d records of %d members", len(w.records), len(peers))
	}
	total, sum := 0, 0
	for _, p := range peers {
		total += p.Weight
	}
	for _, p := range peers {
		sum += held[p.ID]
		if total > 0 && (held[p.ID] < w.shards*p.Weight/total || held[p.ID] > (w.shards*p.Weight+total-1)/total) {
			w.fail("%s has %d shards of %d, weight %d of %d", p.ID, held[p.ID], w.shards, p.Weight, total)
		}
	}
	if total > 0 && sum != w.shards {
		w.fail("%d of %d shards are owned", sum, w.shards)
	}
	for shard, line := range w.lines {
		if len(line) > 1 {
			w.fail("line of shard %d: %+v", shard, line)
		}
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 7)), records: map[string]*simNode{}, members: map[string]*agent{}}
	w.shards = 1 + w.r.IntN(12)
	w.lines = make([][]queued, w.shards)
	w.copies = map[string]bool{}
	if seed%3 == 0 {
		w.copied()
	}
	for range 1 + w.r.IntN(4) {
		w.comes()
	}
	return w
}

// copied brings the nodes of a copied tree: a plan whose members have no session, and now and then
// one more member, which the plan does not have.
func (w *world) copied() {
	s := sight{generation: "g", bare: true, listed: []string{"0", "c0", "z"}[w.r.IntN(3):], known: map[string]Peer{}}
	for _, id := range s.listed {
		s.known[id], w.copies[id] = Peer{ID: id, Weight: 1}, true
	}
	x, _, err := s.replan(w.shards, s.known[s.listed[0]], Balanced, nil)
	check.Must(w.t, err)
	w.plan, w.generation, w.dir = &simNode{data: x.data}, x.generation, true
	for _, r := range x.create {
		w.created++
		w.records[r.id] = &simNode{r.data, 0, w.created}
	}
	w.copies["y"] = w.r.IntN(2) == 0
	if !w.copies["y"] {
		delete(w.copies, "y")
	}
}

// TestSchedules: whatever happens and in whatever order, no shard has two owners, and in the end
// each has one.
func TestSchedules(t *testing.T) {
	n := *schedules
	if n == 0 {
		n = hasten.Sized(hasten.Usually(40_000, 5_000), 2_000)
	}
	var given check.Given
	for seed := range hasten.Seeds(t, uint64(n)) {
		w := newWorld(t, seed)
		w.given = &given
		w.say("seed %d", seed)
		w.faults, w.refusals = w.r.IntN(7), w.r.IntN(3)
		w.settle()
		w.settled()
		if seed%4 == 0 { // and now, one thing after the other
			for range 3 {
				w.faults = 1
				w.settle()
				w.settled()
			}
		}
	}
	if *schedules == 0 { // else they may be few
		check.Explored(t, "input", given)
	}
	t.Logf("%d schedules", n)
}
