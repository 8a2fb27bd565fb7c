package barrier

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/internal/exploration"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
)

// This file goes through every interleaving of up to five handles of a double barrier for two,
// three or four parties. The machines are those that run in production. They share a small model of
// the nodes, without performers; machine_test.go has the performers, and random walks. A hall is a
// value that is copied, so a state costs some microseconds.
//
// A step is one of these: the server executes the request of a party; a follow delivers what the
// nodes show now; a timer fires; a user enters, leaves, cancels or closes; a fault.
//
// Fewer steps than in reality are enough:
//
//   - A party has one request under way. It waits as long as the walk likes, and the machine takes
//     the answer when the server gives it. A machine changes nothing but itself and its next
//     request, which waits in turn.
//   - A follow delivers at any moment, not only in the order of the wire. That adds histories.
//     Nothing is delivered that a machine ignores: a directory that still stands, or the node of a
//     name that was given up.
//   - A connection that breaks is one step, together with what it does to the request under way:
//     the reply is lost, or the request, and the client knows of that or not. The client could
//     notice later. Then its next request is later too. A read that fails is made again, which
//     changes nothing.
//   - A session that ends is one step for the same reason. If the client ends it, the server has
//     the request and the nodes until it expires the session. If the server ends it first, both are
//     gone, and the client notices at once. An answer that says so only has the machine wait for
//     the event, so one order of the two stands for both.
//   - A new session, and a process that starts again, are there at once. They do nothing before
//     their follow delivers.
//   - Unless the setting says slow, users enter and leave at once. The request waits as long as a
//     user would.
//   - Timers fire when nothing else happens, and as often as the setting says at any moment.
//   - Handles are alike. Of the halls that differ in their order only, one is gone through. Names
//     of the same age are listed in any order, which has more histories than the order of their
//     IDs.
//   - A handle that is out and never enters again, is not gone into: only its node and its session
//     on the server count.
//   - A server looks for empty containers once a minute, and removes one of them then. What is
//     under way is over before the next.
//   - Of time the machines compare records only: the record before and after it was removed. So the
//     number of the record stands for the zxid.

// A setting says what a hall begins with, and what may go wrong in it.
type setting struct {
	parties, handles int8
	enters           int8 // of each handle
	bare             bool // there is no node yet
	slow             bool // users enter and leave at any moment
	faults           int8 // a process crashes, a connection is cut, so that a reply is lost or a request, or a session ends
	again            bool // processes that have crashed start again
	cancels          int8 // of an Enter, or of a handle that closes
	reaps            int8 // of empty containers, by the server
	ticks            int8 // timers that fire at any moment
	mutant           mutant
	lax              lax
}

// A lax server leaves out what a transaction checks.
type lax struct{ members, earlier, opening, retiring bool }

func (s *setting) String() string {
	name := fmt.Sprintf("%d of %d x %d", s.parties, s.handles, s.enters)
	for _, f := range []struct {
		name string
		n    int8
	}{{"faults", s.faults}, {"cancels", s.cancels}, {"reaps", s.reaps}, {"ticks", s.ticks}} {
		if f.n > 0 {
			name += fmt.Sprintf(" %s=%d", f.name, f.n)
		}
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"bare", s.bare}, {"slow", s.slow}, {"again", s.again}} {
		if f.set {
			name += " " + f.name
		}
	}
	return name
}

const mostHandles = 5

type (
	// A hall is a state of everything. It is copied by assignment: its slices are replaced, not
	// modified.
	hall struct {
		*setting
		gen     int8 // counts the records
		stands  bool // the record does
		version int32
		fresh   bool // it has no data
		book    book
		dirs    uint16 // the rounds of which there is a directory
		ins     uint16 // and the lower one in it
		nodes   []node // of parties, by handle and name
		ghosts  []ghost
		handles [mostHandles]process
		left    left
		list    []string // set while a machine takes a list of entrants
		reaped  bool     // set when the server removes a container, cleared when all is quiet
	}
	// Left is how many may happen yet.
	left struct{ faults, cancels, reaps, ticks int8 }
	node struct {
		name    string
		round   int8
		handle  int8
		session int8
	}
	// A process is the present one of a handle, with its session.
	process struct {
		m       machine
		crashed bool
		starts  int8 // counts processes
		session int8 // counts sessions
		asks    bool
		request request // if it asks
		record  int32   // what was delivered last
		guard   guard   // epoch 0 for none
		awaits  bool
		timer   bool
		enters  int8 // rounds that it will enter yet
		calls   call // of the user
		listed  int8 // the round that lists it, while it does not know; 0 for none
		last    int8 // the newest round that it has entered
		gen     int8 // the record of that
		cancels bool // the user has cancelled Enter
		dies    bool // its session is over, which it is learning
	}
	// A ghost is a session that its client has left. The server has yet to expire it.
	ghost struct {
		handle, session int8
		asks            bool
		request         request
	}
)

// What was delivered of the record, if that is not a state of it.
const (
	inactive int32 = -1
	unread   int32 = -2
)

// A call is what a user waits for.
type call int8

const (
	calm call = iota
	toEnter
	toLeave
)

// A move is what happens next.
type move struct {
	kind    moveKind
	n       int8
	variant int8
}

type moveKind int8

const (
	serves     moveKind = iota // the server executes the request; the variant is the order of names of the same age
	reads                      // the record is delivered
	mourns                     // its own node is gone
	sees                       // the awaited round is removed
	connects                   // anew
	enters                     // the user does
	leaves                     // the user does
	straggles                  // the request of a client that has left is executed
	buries                     // the server expires the session of a client that has left
	fires                      // the timer; variant 1: nothing else happens
	losesReply                 // to the request, which is executed
	losesAsked                 // the request; variant 1: the client knows that it was not sent
	expires                    // by the client's clock
	evicts                     // by the server; variant 1: the client hears that its node is gone
	crashes
	withdraws // the user cancels Enter
	closes
	reaps // an empty container
	rests // nothing happens by itself: the rest of the way is that of [hall.rests]
)

func (m move) String() string {
	return fmt.Sprintf("%s %d.%d", [...]string{
		"serves", "reads", "mourns", "sees", "connects", "enters", "leaves", "straggles", "buries", "fires", "losesReply", "losesAsked",
		"expires", "evicts", "crashes", "withdraws", "closes", "reaps", "rests",
	}[m.kind], m.n, m.variant)
}

// wrong is a violation.
type wrong string

func violate(format string, args ...any) { panic(wrong(fmt.Sprintf(format, args...))) }

func newHall(s *setting) *hall {
	h := &hall{setting: s, left: left{s.faults, s.cancels, s.reaps, s.ticks}}
	if !s.bare {
		h.gen, h.stands, h.version, h.book = 1, true, 1, book{Parties: int(s.parties)}
		h.dirs, h.ins = 1<<1, 1<<1
	}
	for i := range h.all() {
		h.all()[i].enters = s.enters
		h.start(i)
	}
	return h
}

func (h *hall) all() []process { return h.handles[:h.setting.handles] }

// Names of nodes have their parts at these places.
const (
	since   = 9
	handle  = 11 + 7
	started = 11 + 9
	entry   = 11 + 36 + 1
)

// start starts a process.
func (h *hall) start(n int) {
	p := &h.handles[n]
	p.starts++
	p.session++
	p.record = inactive
	entries := p.m.entries // names go on with the numbers of the last process
	p.m = newMachine(fmt.Sprintf("%08d-%04d-4000-8000-000000000000", n, p.starts), "", int(h.parties))
	p.m.entries = entries
	h.take(n, heard{session.Connected{Epoch: int(p.session), Timeout: time.Second}})
}

// done reports whether the handle is out for good.
func (p *process) done() bool {
	return !p.asks && (p.m.stage == ended || p.m.stage == resting && p.enters == 0 && p.calls == calm)
}

// --- machines and users

// take has a machine take an input, and its user act on it.
func (h *hall) take(n int, in input) {
	p := &h.handles[n]
	if change := h.mutant.input; change != nil {
		if in = change(in); in == nil {
			return
		}
	}
	var out effects
	before := p.m
	p.m = p.m.Step(in, &out)
	if h.mutant.twist != nil {
		h.mutant.twist(before, in, &p.m)
	}
	for _, e := range out.Do {
		h.perform(n, e)
	}
	for _, ev := range out.Emit {
		h.receives(n, ev)
	}
	if p.m.Ended() {
		p.record, p.guard, p.awaits, p.timer = inactive, guard{}, false, false
	}
	if !h.slow {
		h.wish(n)
	}
}

// wish has the user enter or leave, if that is what comes next.
func (h *hall) wish(n int) {
	switch p := &h.handles[n]; {
	case p.calls != calm:
	case p.m.stage == resting && p.enters > 0:
		p.calls = toEnter
		h.take(n, enter{})
	case p.m.stage == inside:
		p.calls = toLeave
		h.take(n, leave{})
	}
}

// perform does what a performer does.
func (h *hall) perform(n int, e effect) {
	p := &h.handles[n]
	if change := h.mutant.effect; change != nil {
		if e = change(e); e == nil {
			return
		}
	}
	switch e := e.(type) {
	case follow:
		p.record = unread
	case unfollow:
		p.record = inactive
	case guard:
		p.guard = e
	case unguard:
		p.guard = guard{}
	case await:
		p.awaits = true
	case unawait:
		p.awaits, p.timer = false, false
	case wait:
		p.timer = true
	case request:
		if p.asks {
			violate("%d asks for %v, and for %v", n, p.request.step, e.step)
		}
		p.asks, p.request = true, e
		if e.step == starting { // with the oldest, of which the order of the list decides, not the hash of a name
			p.request.book.Members = slices.Sorted(slices.Values(present(h.list)[:h.parties]))
		}
	case answer:
		h.returns(n, e.err)
	case confirm:
	case readLater:
		violate("%d has resumed", n)
	case abandon:
		violate("%d abandons %s", n, e.name)
	}
}

// returns ends what the user has called.
func (h *hall) returns(n int, err error) {
	p := &h.handles[n]
	was := p.calls
	p.calls = calm
	switch {
	case was == calm:
		violate("%d is answered: %v", n, err)
	case err == nil && was == toEnter:
		if p.m.stage != inside {
			violate("%d enters, and is %v", n, p.m)
		}
	case err == nil:
		if p.m.stage != resting {
			violate("%d leaves, and is %v", n, p.m)
		}
	case was == toEnter && p.cancels && errors.Is(err, errWithdrawn):
	case (p.m.stage == closing || p.m.stage == ended) && errors.Is(err, ErrClosed):
	default:
		violate("%d: call %d returns %v", n, was, err)
	}
	p.cancels = false
}

// receives checks an event.
func (h *hall) receives(n int, ev DoubleEvent) {
	p := &h.handles[n]
	switch ev := ev.(type) {
	case Entered:
		name := p.m.name
		switch {
		case h.book.Round != ev.Round || !slices.Contains(h.book.Members, name) || int(p.listed) != ev.Round:
			violate("%d enters round %d, the record is %v", n, ev.Round, h.book)
		case len(ev.Members) != int(h.parties) || !slices.Contains(ev.Members, p.m.id):
			violate("%d is told of %v", n, ev.Members)
		case h.at(n, name) < 0:
			violate("%d enters without a node", n)
		case p.gen == h.gen && ev.Round <= int(p.last):
			violate("%d enters round %d after %d", n, ev.Round, p.last)
		}
		p.listed, p.last, p.gen = 0, int8(ev.Round), h.gen
		p.enters--
	case Left:
		if ev.Round != int(p.last) {
			violate("%d has left %d, not %d", n, ev.Round, p.last)
		}
		if i := slices.IndexFunc(h.nodes, func(o node) bool { return int(o.round) == ev.Round }); i >= 0 && h.gen == p.gen {
			violate("%d has left round %d, and %s is inside", n, ev.Round, h.nodes[i].name)
		}
	case Lost:
		if !p.dies {
			violate("%d has lost %v", n, ev.Err)
		}
	case Withdrawn:
		if ev.Err != nil {
			violate("%d withdraws: %v", n, ev.Err)
		}
		h.out(n)
	case Closed:
		if ev.Err != nil {
			violate("%d closes: %v", n, ev.Err)
		}
		h.out(n)
	case Waiting, Leaving:
	}
}

// out checks that a handle which says that it is out has nothing left.
func (h *hall) out(n int) {
	p := &h.handles[n]
	if p.listed != 0 {
		violate("%d is out, and listed in round %d", n, p.listed)
	}
	if i := slices.IndexFunc(h.nodes, func(o node) bool { return int(o.handle) == n && o.session == p.session }); i >= 0 && p.m.epoch != 0 {
		violate("%d is out, and leaves %s", n, h.nodes[i].name)
	}
}

// --- the server

// at returns the index of a node; -1 if there is none.
func (h *hall) at(n int, name string) int {
	return slices.IndexFunc(h.nodes, func(o node) bool { return int(o.handle) == n && o.name == name })
}

func (h *hall) remove(i int) { h.nodes = slices.Delete(slices.Clone(h.nodes), i, i+1) }

// in returns the names of the nodes of a round.
func (h *hall) in(round int) (names []string) {
	for _, o := range h.nodes {
		if int(o.round) == round {
			names = append(names, o.name)
		}
	}
	slices.Sort(names)
	return names
}

func (h *hall) count(round int) (n int) {
	for _, o := range h.nodes {
		if int(o.round) == round {
			n++
		}
	}
	return n
}

func (h *hall) refused(at culprit, err error) answered { return answered{err: err, at: at} }

// checks returns how a transaction fails that expects a version of the record.
func (h *hall) checks(version int32) error {
	switch {
	case !h.stands:
		return session.ErrNoNode
	case version != session.AnyVersion && version != h.version:
		return session.ErrBadVersion
	}
	return nil
}

// set writes the record.
func (h *hall) set(b book) { h.version, h.fresh, h.book = h.version+1, false, b }

// execute executes a request of a session, and returns the answer.
func (h *hall) execute(r request, n, by int8) answered {
	bit := uint16(1) << r.round
	switch r.step {
	case ensuring:
		if !h.stands {
			h.gen++
			h.stands, h.version, h.fresh, h.book = true, 0, true, book{}
		}
	case syncing:
	case rereading:
		return answered{read: h.sight()}
	case inspecting:
		if !h.stands {
			return answered{err: session.ErrNoNode}
		}
		names := []string{}
		for round := range 16 {
			if h.dirs>>round&1 != 0 {
				names = append(names, fmt.Sprint(round))
			}
		}
		return answered{names: names}
	case checking:
		if !h.stands {
			return answered{err: session.ErrNoNode}
		}
		return answered{names: h.book.Members}
	case listing, looking:
		if h.ins&bit == 0 && r.step == listing {
			return answered{err: session.ErrNoNode}
		}
		names := h.in(r.round)
		return answered{count: len(names), names: names, czxid: int64(h.gen)}
	case opening:
		switch err := h.checks(r.version); {
		case err != nil:
			return h.refused(record, err)
		case r.again && h.dirs&bit == 0:
			return h.refused(directory, session.ErrNoNode)
		case r.again && h.ins&bit != 0:
			return h.refused(directory, session.ErrNotEmpty)
		case !r.again && h.dirs&bit != 0:
			return h.refused(directory, session.ErrNodeExists)
		case h.dirs&(bit<<1) != 0 && !h.lax.opening:
			return h.refused(other, session.ErrNodeExists)
		case !h.fresh && (r.book.Round != h.book.Round || !slices.Equal(r.book.Members, h.book.Members)):
			violate("the record %v becomes %v", h.book, r.book)
		}
		h.set(r.book)
		h.dirs, h.ins = h.dirs|bit, h.ins|bit
	case entering:
		switch err := h.checks(r.version); {
		case err != nil:
			return h.refused(record, err)
		case h.ins&bit == 0:
			return h.refused(party, session.ErrNoNode)
		case h.at(int(n), r.name) >= 0:
			return h.refused(party, session.ErrNodeExists)
		case h.reaps == 0 && h.book.Round >= r.round:
			violate("%s comes late for round %d", r.name, r.round)
		}
		h.nodes = append(slices.Clip(h.nodes), node{r.name, int8(r.round), n, by})
		slices.SortFunc(h.nodes, func(a, b node) int {
			return cmp.Or(cmp.Compare(a.handle, b.handle), strings.Compare(a.name, b.name))
		})
		return answered{count: h.count(r.round)}
	case starting:
		return h.begin(r)
	case retiring, exiting:
		return h.delete(r, n)
	case shutting:
		switch {
		case !r.again && h.ins&bit == 0:
			return h.refused(directory, session.ErrNoNode)
		case !r.again && h.count(r.round) > 0:
			return h.refused(directory, session.ErrNotEmpty)
		case h.dirs&bit == 0:
			return h.refused(above, session.ErrNoNode)
		case r.again && h.ins&bit != 0:
			return answered{err: session.ErrNotEmpty, at: above, foreign: "in"}
		}
		h.dirs, h.ins = h.dirs&^bit, h.ins&^bit
	case idle:
		violate("%d asks for nothing", n)
	}
	return answered{}
}

// begin begins a round.
func (h *hall) begin(r request) answered {
	next := uint16(1) << (r.round + 1)
	if err := h.checks(r.version); err != nil {
		return h.refused(record, err)
	}
	if r.round > 1 && h.dirs>>(r.round-1)&1 != 0 && !h.lax.earlier {
		return h.refused(earlier, session.ErrNodeExists)
	}
	for _, name := range r.book.Members {
		if !slices.ContainsFunc(h.nodes, func(o node) bool { return int(o.round) == r.round && o.name == name }) && !h.lax.members {
			return h.refused(party, session.ErrNoNode)
		}
	}
	if !r.again && h.dirs&next != 0 {
		return h.refused(other, session.ErrNodeExists)
	}
	if r.book.Round != h.book.Round+1 || len(r.book.Members) != int(h.parties) {
		violate("%v follows round %d", r.book, h.book.Round)
	}
	h.set(r.book)
	if !r.again {
		h.dirs, h.ins = h.dirs|next, h.ins|next
	}
	owners := 0
	for _, o := range h.nodes {
		switch p := &h.handles[o.handle]; {
		case int(o.round) < r.round:
			violate("round %d begins, and %s is in the last", r.round, o.name)
		case int(o.round) != r.round || !slices.Contains(r.book.Members, o.name):
			continue
		case h.live(o) && p.m.stage != closing:
			p.listed = o.round
		}
		owners++
	}
	if owners != len(r.book.Members) {
		violate("round %d begins with a ghost: %v", r.round, r.book.Members)
	}
	for i, a := range r.book.Members {
		for _, b := range r.book.Members[:i] {
			if nodes.PartyName(a) == nodes.PartyName(b) {
				violate("round %d lists a handle twice: %v", r.round, r.book.Members)
			}
		}
	}
	return answered{}
}

// live reports whether the handle that has created a node is still in that session.
func (h *hall) live(o node) bool {
	p := &h.handles[o.handle]
	return !p.crashed && p.m.epoch != 0 && p.session == o.session
}

// delete deletes the node of a party.
func (h *hall) delete(r request, n int8) answered {
	if r.step == retiring && !h.lax.retiring {
		if err := h.checks(r.version); err != nil {
			return h.refused(record, err)
		}
	}
	i := h.at(int(n), r.name)
	if i < 0 {
		return h.refused(party, session.ErrNoNode)
	}
	p := &h.handles[n]
	if h.live(h.nodes[i]) && p.m.stage != leaving && p.m.stage != closing && h.book.Round == r.round && slices.Contains(h.book.Members, r.name) {
		violate("%d deletes its node, and is in round %d", n, r.round)
	}
	h.remove(i)
	return answered{count: h.count(r.round)}
}

// bury removes what a session leaves.
func (h *hall) bury(handle, session int8) {
	h.nodes = slices.DeleteFunc(slices.Clone(h.nodes), func(o node) bool { return o.handle == handle && o.session == session })
}

// sight returns what a reading of the record shows now.
func (h *hall) sight() sight {
	s := sight{zxid: int64(h.gen)}
	if h.stands {
		s.czxid, s.version, s.fresh, s.book, s.nodes = int64(h.gen), h.version, h.fresh, h.book, bits.OnesCount16(h.dirs)
	}
	return s
}

// shows returns what a follow of the record delivers now, as a number.
func (h *hall) shows() int32 {
	if !h.stands {
		return int32(h.gen)<<8 | 0xff
	}
	return int32(h.gen)<<8 | h.version
}

// --- faults

// lose ends a session of which the client learns now.
func (h *hall) lose(n int, buried, mourned bool) {
	p := &h.handles[n]
	g := ghost{int8(n), p.session, p.asks && writes(p.request), p.request}
	if !g.asks {
		g.request = request{}
	}
	stands := slices.ContainsFunc(h.nodes, func(o node) bool { return int(o.handle) == n && o.session == p.session })
	if buried {
		h.bury(g.handle, g.session)
	} else if g.asks || stands {
		h.ghosts = append(slices.Clip(h.ghosts), g)
		slices.SortFunc(h.ghosts, func(a, b ghost) int {
			return cmp.Or(cmp.Compare(a.handle, b.handle), cmp.Compare(a.session, b.session))
		})
	}
	p.listed = 0
	if p.crashed {
		return
	}
	p.dies = true
	epoch := p.m.epoch
	if mourned {
		was := p.guard
		p.guard = guard{}
		h.take(n, lost{was.epoch, was.name, session.ErrNoNode})
	}
	p.record, p.guard, p.awaits = inactive, guard{}, false
	if p.asks {
		h.fail(n, errExpired)
	}
	h.take(n, heard{session.Expired{Epoch: epoch}})
	p.record, p.guard, p.awaits, p.dies = inactive, guard{}, false, false
	if p.asks {
		violate("%d asks for %v without a session", n, p.request.step)
	}
	if h.cancels == 0 {
		h.connect(n)
	}
}

var (
	errLost    = errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected)
	errExpired = errors.Join(session.ErrUnknownOutcome, session.ErrExpired)
)

// fail answers the request of a handle with an error.
func (h *hall) fail(n int, err error) {
	p := &h.handles[n]
	id := p.request.requestID
	p.asks, p.request = false, request{}
	h.take(n, answered{requestID: id, err: err})
}

func (h *hall) connect(n int) {
	p := &h.handles[n]
	p.session++
	h.take(n, heard{session.Connected{Epoch: int(p.session), Timeout: time.Second}})
}

func writes(r request) bool {
	switch r.step {
	case inspecting, listing, checking, looking, syncing, rereading, idle:
		return false
	case ensuring, opening, entering, starting, retiring, exiting, shutting:
	}
	return true
}

// --- moves

// normal returns the moves that happen by themselves.
func (h *hall) normal(to []move) []move {
	for i := range h.all() {
		p, n := &h.handles[i], int8(i)
		switch {
		case p.crashed || p.done():
			continue
		case p.m.epoch == 0 && p.m.stage != ended:
			to = append(to, move{connects, n, 0})
		}
		if p.asks {
			for variant := range h.orders(p.request) {
				to = append(to, move{serves, n, int8(variant)})
			}
		}
		if p.record == unread || p.record != inactive && p.record != h.shows() {
			to = append(to, move{reads, n, 0})
		}
		if p.guard.epoch != 0 && p.guard.name == p.m.name && h.at(i, p.guard.name) < 0 {
			to = append(to, move{mourns, n, 0})
		}
		if p.awaits && (h.dirs>>p.m.awaited&1 == 0 || int64(h.gen) > p.m.known) {
			to = append(to, move{sees, n, 0})
		}
		if h.slow && p.calls == calm && p.m.stage == resting && p.enters > 0 {
			to = append(to, move{enters, n, 0})
		}
		if h.slow && p.calls == calm && p.m.stage == inside {
			to = append(to, move{leaves, n, 0})
		}
	}
	for i, g := range h.ghosts {
		if to = append(to, move{buries, int8(i), 0}); g.asks {
			to = append(to, move{straggles, int8(i), 0})
		}
	}
	if len(to) > 0 {
		return to
	}
	for i := range h.all() {
		if h.handles[i].timer {
			to = append(to, move{fires, int8(i), 1})
		}
	}
	return to
}

// more returns the other moves.
func (h *hall) more(to []move, calm bool) []move {
	for i := range h.all() {
		p, n := &h.handles[i], int8(i)
		if p.crashed || p.done() {
			continue
		}
		if p.timer && h.left.ticks > 0 && !calm {
			to = append(to, move{fires, n, 0})
		}
		if p.m.stage == gathering && h.left.cancels > 0 && !p.cancels {
			to = append(to, move{withdraws, n, 0})
		}
		if p.m.stage != closing && h.left.cancels > 0 {
			to = append(to, move{closes, n, 0})
		}
		if h.left.faults == 0 {
			continue
		}
		if p.asks && writes(p.request) {
			to = append(to, move{losesReply, n, 0}, move{losesAsked, n, 0}, move{losesAsked, n, 1})
		}
		if p.m.epoch != 0 {
			if to = append(to, move{expires, n, 0}, move{evicts, n, 0}); p.guard.epoch != 0 && h.at(i, p.guard.name) >= 0 {
				to = append(to, move{evicts, n, 1})
			}
		}
		to = append(to, move{crashes, n, 0})
	}
	if h.left.reaps == 0 || h.reaped {
		return to
	}
	for round := range int8(16) {
		if h.dirs>>round&1 != 0 && (h.ins>>round&1 == 0 || h.count(int(round)) == 0) {
			to = append(to, move{reaps, round, 0})
		}
	}
	if h.stands && h.dirs == 0 {
		to = append(to, move{reaps, 0, 1})
	}
	return to
}

// quiet reports whether nothing happens but that users enter and leave, and timers fire.
func (h *hall) quiet() bool {
	return !slices.ContainsFunc(h.normal(nil), func(m move) bool { return m.kind != enters && m.kind != leaves && m.kind != fires })
}

// orders returns in how many orders of age a list may be of which a round will begin.
func (h *hall) orders(r request) int {
	if r.step != listing || h.count(r.round) <= int(h.parties) {
		return 1
	}
	_, tied, wanted := h.ties(r.round)
	n := 0
	for set := range 1 << len(tied) {
		if bits.OnesCount(uint(set)) == wanted {
			n++
		}
	}
	return n
}

// ties splits the names of a round into those that are surely taken, and those of which so many are
// wanted.
func (h *hall) ties(round int) (taken, tied []string, wanted int) {
	names := h.in(round)
	last := names[h.parties-1][since]
	for _, name := range names {
		switch {
		case name[since] < last:
			taken = append(taken, name)
		case name[since] == last:
			tied = append(tied, name)
		}
	}
	return taken, tied, int(h.parties) - len(taken)
}

// ordered returns a list of names in one of the orders.
func (h *hall) ordered(round, order int) (names []string) {
	taken, tied, wanted := h.ties(round)
	for set := range 1 << len(tied) {
		if bits.OnesCount(uint(set)) != wanted {
			continue
		}
		if order--; order >= 0 {
			continue
		}
		names = taken
		var rest []string
		for i, name := range tied {
			if set>>i&1 != 0 {
				names = append(names, name)
			} else {
				rest = append(rest, name)
			}
		}
		slices.Sort(names)
		names = append(names, rest...)
		break
	}
	for _, name := range h.in(round) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (h *hall) apply(m move) {
	h.do(m)
	h.reaped = h.reaped && !h.quiet()
}

func (h *hall) do(m move) {
	n := int(m.n)
	switch m.kind { //nolint:exhaustive // the others are below
	case straggles:
		h.ghosts = slices.Clone(h.ghosts)
		g := &h.ghosts[n]
		r := g.request
		g.asks, g.request = false, request{}
		h.execute(r, g.handle, g.session)
		return
	case buries:
		g := h.ghosts[n]
		h.ghosts = slices.Delete(slices.Clone(h.ghosts), n, n+1)
		h.bury(g.handle, g.session)
		return
	case reaps:
		h.left.reaps--
		h.reap(m)
		return
	}
	p := &h.handles[n]
	switch m.kind {
	case serves:
		r := p.request
		in := h.execute(r, m.n, p.session)
		in.settled = p.record == h.shows()
		if r.step == listing && len(in.names) > int(h.parties) {
			in.names = h.ordered(r.round, int(m.variant))
		}
		p.asks, p.request, in.requestID = false, request{}, r.requestID
		if r.step == listing {
			h.list = in.names
		}
		h.take(n, in)
		h.list = nil
	case reads:
		p.record = h.shows()
		h.take(n, saw{p.m.epoch, h.sight()})
	case mourns:
		was := p.guard
		p.guard = guard{}
		h.take(n, lost{was.epoch, was.name, session.ErrNoNode})
	case sees:
		in := over{epoch: p.m.epoch, round: p.m.awaited, err: session.ErrNoNode}
		if p.awaits = false; h.dirs>>p.m.awaited&1 != 0 {
			in.err, in.czxid = nil, int64(h.gen)
		}
		h.take(n, in)
	case connects:
		h.connect(n)
	case enters, leaves:
		h.wish(n)
	case fires:
		if p.timer = false; m.variant == 0 {
			h.left.ticks--
		}
		h.take(n, tick{p.m.ticks})
	case losesReply:
		h.left.faults--
		h.execute(p.request, m.n, p.session)
		h.fail(n, errLost)
	case losesAsked:
		h.left.faults--
		if m.variant == 0 {
			h.fail(n, errLost)
		} else {
			h.fail(n, session.ErrDisconnected)
		}
	case expires, evicts:
		h.left.faults--
		h.lose(n, m.kind == evicts, m.variant == 1)
	case crashes:
		h.left.faults--
		h.crash(n)
	case withdraws:
		h.left.cancels--
		h.cancel(n)
	case closes:
		h.left.cancels--
		h.close(n)
	case straggles, buries, reaps, rests:
	}
}

// crash ends a process, and starts the next.
func (h *hall) crash(n int) {
	p := &h.handles[n]
	if p.crashed = true; p.m.epoch != 0 {
		h.lose(n, false, false)
	}
	*p = process{m: machine{entries: p.m.entries}, crashed: !h.again, starts: p.starts, session: p.session, last: p.last, gen: p.gen, enters: p.enters}
	if h.again {
		h.start(n)
	}
}

// cancel has the user of a handle cancel Enter.
func (h *hall) cancel(n int) {
	h.handles[n].cancels = true
	h.take(n, cancel{})
}

// close closes a handle.
func (h *hall) close(n int) {
	p := &h.handles[n]
	p.listed, p.enters = 0, 0
	h.take(n, closeHandle{})
}

// reap removes an empty container.
func (h *hall) reap(m move) {
	h.reaped = true
	bit := uint16(1) << m.n
	switch {
	case m.variant == 1:
		h.stands, h.version, h.fresh, h.book = false, 0, false, book{}
	case h.ins&bit != 0:
		h.ins &^= bit
	default:
		h.dirs &^= bit
	}
}

// --- the end

// rests checks a hall in which nothing happens by itself, and brings it to its end: those that wait
// in vain cancel.
func (h *hall) rests() {
	waiting := 0
	for i := range h.all() {
		switch p := &h.handles[i]; {
		case p.crashed || p.done():
		case p.m.stage == gathering && !p.m.retire && p.listed == 0:
			waiting++
		default:
			violate("%d is stuck: %v", i, p.m)
		}
	}
	if waiting >= int(h.parties) {
		violate("%d wait, and no round begins", waiting)
	}
	for i := range h.all() {
		if p := &h.handles[i]; p.m.stage == gathering {
			p.enters = 0
			h.cancel(i)
		}
	}
	for range 1000 {
		var some [8]move
		if moves := h.normal(some[:0]); len(moves) > 0 {
			h.apply(moves[0])
			continue
		}
		h.ends()
		return
	}
	violate("no rest")
}

// ends checks that nothing is left, but for the record and the directories that the server will
// remove.
func (h *hall) ends() {
	for i := range h.all() {
		if p := &h.handles[i]; !p.crashed && !p.done() {
			violate("%d never ends: %v", i, p.m)
		}
	}
	if len(h.nodes) > 0 {
		violate("%s is left", h.nodes[0].name)
	}
	if kept := uint16(3) << h.book.Round; h.dirs&^kept != 0 {
		violate("after round %d there are %b", h.book.Round, h.dirs)
	}
}

// --- states

// An encoder writes a hall as bytes, the same for halls that differ in the order of handles. Every
// field of a machine is in it, or is the same in all halls with the same bytes.
type encoder struct {
	h     *hall
	begun [][]string // the different members in the requests that may begin a round
	to    exploration.Bytes
	parts [mostHandles][]byte
	seed  maphash.Seed
}

// key returns a hash.
func (e *encoder) key(h *hall) uint64 {
	e.h = h
	e.begins()
	least := uint64(math.MaxUint64)
	permute(e.begun, 0, func() {
		e.hall()
		least = min(least, maphash.Bytes(e.seed, e.to))
	})
	return least
}

// permute calls f with all in each order.
func permute[T any](all []T, from int, f func()) {
	if from >= len(all)-1 {
		f()
		return
	}
	for i := from; i < len(all); i++ {
		all[from], all[i] = all[i], all[from]
		permute(all, from+1, f)
		all[from], all[i] = all[i], all[from]
	}
}

// begins finds the different members in the requests that may begin a round.
func (e *encoder) begins() {
	e.begun = e.begun[:0]
	look := func(asks bool, r request) {
		if asks && e.may(r) && e.which(r) < 0 {
			e.begun = append(e.begun, r.book.Members)
		}
	}
	for i := range e.h.all() {
		look(e.h.handles[i].asks, e.h.handles[i].request)
	}
	for _, g := range e.h.ghosts {
		look(g.asks, g.request)
	}
}

// which returns the index of the members in a request that may begin a round; -1 if it may not.
func (e *encoder) which(r request) int {
	if !e.may(r) {
		return -1
	}
	return slices.IndexFunc(e.begun, func(names []string) bool { return slices.Equal(names, r.book.Members) })
}

func (e *encoder) hall() {
	h := e.h
	e.to = e.to[:0]
	for i := range h.all() {
		e.handle(int8(i))
		e.parts[i] = append(e.parts[i][:0], e.to...)
		e.to = e.to[:0]
	}
	parts := e.parts[:h.setting.handles]
	slices.SortFunc(parts, bytes.Compare)
	e.to.Flags(h.stands, h.fresh, h.reaped && h.left.reaps > 0)
	e.to.Numbers(int(h.gen), int(h.version), h.book.Round, int(h.dirs), int(h.ins))
	l := h.left
	e.to.Numbers(int(l.faults), int(l.cancels), int(l.reaps), int(l.ticks))
	for _, part := range parts {
		e.to.Numbers(len(part))
		e.to = append(e.to, part...)
	}
}

// may reports whether a request may begin a round. The version of a record grows.
func (e *encoder) may(r request) bool { return r.step == starting && e.h.checks(r.version) == nil }

// name writes a name of a handle. It is compared with others of that handle only, and by its age.
func (e *encoder) name(p *process, name string) {
	if name == "" {
		e.to.Numbers(0)
		return
	}
	starts, entries := int8(0), 0
	for _, c := range name[started : started+4] {
		starts = starts*10 + int8(c-'0')
	}
	for _, c := range name[entry:] {
		entries = entries*10 + int(c-'0')
	}
	e.to.Numbers(1+int(p.starts-starts), int(name[since]-'0'), p.m.entries-entries)
}

func (e *encoder) handle(n int8) {
	h, p := e.h, &e.h.handles[n]
	if e.to.Flags(p.crashed, p.done()); !p.crashed && !p.done() {
		e.process(p)
		e.machine(&p.m)
	}
	for _, o := range h.nodes {
		if o.handle == n {
			e.to.Numbers(int(o.round), int(p.session-o.session))
			e.name(p, o.name)
			e.to.Flags(slices.Contains(h.book.Members, o.name))
		}
	}
	e.to.Numbers(-1)
	for _, g := range h.ghosts {
		if g.handle == n {
			e.to.Numbers(int(p.session - g.session))
			e.request(p, g.asks, g.request)
		}
	}
	e.to.Numbers(-1)
	for _, names := range e.begun {
		for _, name := range names {
			if int8(name[handle]-'0') == n {
				e.name(p, name)
			}
		}
		e.to.Numbers(-1)
	}
}

func (e *encoder) process(p *process) {
	e.to.Flags(p.awaits, p.timer, p.cancels, p.guard.epoch != 0 && p.guard.name == p.m.name, p.gen == e.h.gen, p.record == e.h.shows())
	e.to.Numbers(int(min(p.record, 0)), int(p.enters), int(p.calls), int(p.listed), int(p.last))
	e.request(p, p.asks, p.request)
}

func (e *encoder) request(p *process, asks bool, r request) {
	if !asks {
		e.to.Numbers(-1)
		return
	}
	e.to.Numbers(int(r.step), r.round, int(r.version), r.book.Round)
	e.to.Numbers(e.which(r))
	e.to.Flags(r.again)
	e.name(p, r.name)
}

func (e *encoder) machine(m *machine) {
	s := m.sight
	e.to.Numbers(int(m.stage), int(m.step), m.newest, m.since, m.node, int(m.root), m.round, m.awaited, int(m.known), int(m.younger))
	e.to.Flags(m.epoch != 0, m.halted, m.following, m.synced, m.untold, m.sure, m.doubted, m.again)
	e.to.Flags(m.aside, m.duty, m.spare, m.deserted, m.retire, m.failure != nil, m.look, m.err != nil)
	e.to.Flags(len(m.acks) > 0, s.n > 0, s.n == m.stale, s.n == m.inspected, s.n == m.based, s.fresh, s.crowded())
	e.to.Flags(m.name != "", m.name != "" && slices.Contains(s.book.Members, m.name))
	e.to.Flags(m.stage == leaving && slices.Contains(e.h.book.Members, m.member)) // if it does not now, it never does again
	e.to.Numbers(int(s.zxid), int(s.czxid), int(s.version), s.book.Round)
}

// --- the walk

// A walk goes through all halls that follow from one, depth first.
type walk struct {
	encoder
	exploration.Depth
	halls []*hall // the memory for those on the way
	way   []move
	ends  int  // halls in which nothing happens by itself
	keys  bool // are checked
}

// from goes through what follows from the hall at the end of the way.
func (k *walk) from() {
	h := k.halls[len(k.way)]
	key := k.key(h)
	if k.keys {
		k.compare(key, h)
	}
	switch first, round := k.Enter(key); {
	case round:
		violate("it goes round")
	case !first:
		return
	}
	if len(k.halls) == len(k.way)+1 {
		k.halls = append(k.halls, new(hall))
	}
	var some [32]move
	moves := h.normal(some[:0])
	calm := len(moves) == 0 || moves[0].kind == fires
	next := k.halls[len(k.way)+1]
	if len(moves) == 0 {
		k.ends++
		k.way = append(k.way, move{kind: rests})
		*next = *h
		next.rests()
		k.way = k.way[:len(k.way)-1]
	}
	for _, m := range h.more(moves, calm) {
		k.way = append(k.way, m)
		*next = *h
		next.apply(m)
		k.from()
		k.way = k.way[:len(k.way)-1]
	}
	k.Leave(key)
}

// compare checks that halls with the same key are followed by halls with the same keys.
func (k *walk) compare(key uint64, h *hall) {
	var keys []uint64
	moves := h.normal(nil)
	for _, m := range h.more(moves, len(moves) == 0 || moves[0].kind == fires) {
		next := *h
		next.apply(m)
		keys = append(keys, k.key(&next))
	}
	if !k.Alike(key, keys) {
		violate("one key for halls that go on differently")
	}
}

// explore goes through all halls of a setting. It returns what is wrong, and how that came about.
func (s *setting) explore(compared bool) (states, ends int, way []move, err error) {
	k := &walk{encoder: encoder{seed: maphash.MakeSeed()}, keys: compared}
	defer func() {
		states, ends, way = k.States(), k.ends, k.way
		switch r := recover().(type) {
		case nil:
		case wrong:
			err = errors.New(string(r))
		default:
			panic(r)
		}
	}()
	k.halls = []*hall{newHall(s)}
	k.from()
	return states, ends, way, err
}

// tell goes a way again, and says what happens.
func (s *setting) tell(way []move, say func(string, ...any)) {
	defer func() { _ = recover() }()
	h := newHall(s)
	for _, m := range way {
		if m.kind == rests {
			return
		}
		doing := m.String()
		if m.kind == serves || m.kind == losesReply || m.kind == losesAsked {
			r := h.handles[m.n].request
			doing += fmt.Sprintf(": %v %d %s@%d", r.step, r.round, r.name, r.version)
		}
		say("%s", doing)
		h.apply(m)
		for i := range h.all() {
			say("    %d: %v", i, h.handles[i].m)
		}
		say("    %v@%d %v", h.book, h.version, h.nodes)
	}
}

func brief() bool { return exploration.Brief(*full) }

var full = flag.Bool("barrier.full", false, "go through the larger settings of the exhaustive walk too")

// TestExhaustive goes through all states of all settings, or of the smaller ones: see
// [hasten.Thorough]. With -barrier.full it goes through those of larger ones too.
// With four parties and two rounds these are so many states, and a million of them takes a minute
// or two of one processor:
//
//	a crash and a restart, a cut or the end of a session; a timer fires early    33,120
//	the same, and users are slow                                                 69,313
//	the same, and an Enter or a handle is cancelled                             184,110
//	the same, and the server removes three containers                           225,148
//	two of these faults                                                         997,026
func TestExhaustive(t *testing.T) {
	for _, s := range settings() {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			states, ends, way, err := s.explore(false)
			if err != nil {
				s.tell(way, t.Logf)
				t.Fatalf("%v, after %v", err, way)
			}
			t.Logf("%d states, %d at rest, %v", states, ends, time.Since(began).Round(time.Millisecond))
		})
	}
}

// TestKeys checks that halls go on alike if their keys are the same.
func TestKeys(t *testing.T) {
	chosen := hasten.OneIn(3, 3)
	for _, s := range settings() {
		if s.size() > 2 && !*full || !chosen() {
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			if _, _, way, err := s.explore(true); err != nil {
				t.Fatalf("%v, after %v", err, way)
			}
		})
	}
}

// size grows with the number of states.
func (s *setting) size() int { return int(s.parties) * int(s.enters) * int(1+2*(s.handles-s.parties)) }

// TestWalkFindsMutants has the walk go through machines and servers that lack a precaution.
func TestWalkFindsMutants(t *testing.T) {
	one := setting{parties: 2, handles: 2, enters: 1}
	two := setting{parties: 2, handles: 2, enters: 2}
	three := setting{parties: 2, handles: 3, enters: 1}
	four := setting{parties: 2, handles: 4, enters: 1}
	again := setting{parties: 2, handles: 3, enters: 2}
	all := map[string]setting{
		"a server that does not check the nodes of members":      one.but(setting{faults: 1, lax: lax{members: true}}),
		"a server that begins a round before the last is over":   four.but(setting{lax: lax{earlier: true}}),
		"a server that does not check the record at the retreat": three.but(setting{cancels: 1, lax: lax{retiring: true}}),
		"a server that opens a round before the next":            again.but(setting{slow: true, reaps: 3, lax: lax{opening: true}}),
		"an entrant counts the nodes of its earlier session": one.but(setting{faults: 1, mutant: mutant{input: func(in input) input {
			if a, is := in.(answered); is {
				for i, name := range a.names {
					a.names[i] = name[:entry] + "1"
				}
				slices.Sort(a.names)
			}
			return in
		}}}),
		"a round begins with a directory of another record": again.but(setting{slow: true, reaps: 3, mutant: mutant{input: func(in input) input {
			if a, is := in.(answered); is {
				a.czxid = 0
				return a
			}
			return in
		}}}),
	}
	settings := map[string]setting{
		"a round is begun at any version of the record": three.but(setting{faults: 1}), "no list after a member was missing": one.but(setting{faults: 1, again: true}),
		"the doubt of a creation is forgotten": one.but(setting{faults: 1}), "nobody looks after the dead": two.but(setting{faults: 1, again: true}),
		"the record is not read again": one, "the member that leaves first is done": one,
		"a crash inside is not looked for": two.but(setting{faults: 1, again: true}),
	}
	for name, x := range mutants() {
		if s, is := settings[name]; is {
			s.mutant = x
			all[name] = s
		}
	}
	for name, s := range all {
		if s.size() > 6 && brief() {
			continue
		}
		if states, _, _, err := s.explore(false); err == nil {
			t.Errorf("%s: nothing is wrong", name)
		} else {
			t.Logf("mutant %q is found in %d states: %v", name, states, err)
		}
	}
}

// but returns the setting with what may go wrong in another.
func (s *setting) but(o setting) setting {
	o.parties, o.handles, o.enters = s.parties, s.handles, s.enters
	return o
}

// settings returns those that are gone through. A fault is a crash, a lost reply, a lost request,
// or the end of a session.
func settings() (all []setting) {
	for _, of := range []struct {
		setting
		small int // the greatest size that takes no more than a second
	}{
		{setting{slow: true, ticks: 1}, 8},
		{setting{slow: true, bare: true}, 6},
		{setting{slow: true, cancels: 1}, 8},
		{setting{slow: true, reaps: 3}, 6},
		{setting{ticks: 1, faults: 1}, 8},
		{setting{ticks: 1, faults: 1, again: true}, 8},
		{setting{slow: true, faults: 1, again: true}, 8},
		{setting{cancels: 1, faults: 1, again: true}, 4},
		{setting{reaps: 3, faults: 1, again: true}, 4},
		{setting{faults: 2}, 2},
		{setting{faults: 2, again: true}, 2},
		{setting{slow: true, ticks: 1, faults: 1, again: true}, 0},
	} {
		for parties := int8(2); parties <= 4; parties++ {
			for enters := int8(1); enters <= 2; enters++ {
				for spare := range int8(2) {
					s := of.setting
					s.parties, s.handles, s.enters = parties, parties+spare, enters
					if s.faults > 1 && spare > 0 && parties > 2 {
						continue // too many states
					}
					if of.small > 4 && !hasten.Thorough() {
						of.small = 4
					}
					if small := s.size() <= of.small && (s.size() <= 2 || !brief()) && s.faults <= hasten.Sized[int8](2, 1); small || *full {
						all = append(all, s)
					}
				}
			}
		}
	}
	return all
}
