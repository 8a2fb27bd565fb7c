package queue

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// This file is the whole protocol of a consumer, as a pure function: no goroutines, no
// channels, no clock, no I/O. The performer of its effects is in consumer.go.
//
// The consumer fetches items in phases, which follow each other as long as there is room:
//
//	           look                    read                   claim
//	resting ───────► looking ► resting ─────► reading ► resting ─────► claiming ► resting
//	   ▲                │ nothing to claim                                │ offered to readers
//	   └─── changed ◄───┘ follow: wait in line
//
// An item goes through these states. Only items that are wanted or later are held:
//
//	listed ► kept ► wanted ► offered ► taken ► leaving ► concluded
//	           │   (claim is    │      (by a    │ rejected
//	           │    under way)  │      reader)  ▼
//	           │                └ recalled ►  moving ► in the dead letters, or in a delayed bucket
//	           └── attempts used up ────────►   │
//	                                            └ refused ► set aside, where it is, for a while
//
// A list that is half a second old is refreshed before more of it is claimed. A transaction that
// settles items also claims the next, if these are read already.
//
// A claim ahead of a delivery is tentative: it counts no attempt. If the consumer crashes, its
// items are marked as tentative. Such an item is claimed for a reader that waits, and the claim
// counts. So each crash but the first counts for all items that readers had received, and for no
// other.
//
// An item that cannot be moved to the dead letters goes back with the reason, and this consumer
// leaves it out of its lists until it tries again.
//
// A reader whose delivery is lost with the session may work on, deaf to its context. It counts as
// busy until it settles the delivery in vain, or is seen to receive: what was claimed for it would
// wait, while other consumers are idle. A reader that does not settle a lost delivery, and waits,
// looks like one that works. So the consumer tries now and then: it claims one item more, which
// goes back if no reader has received it within a second.
//
// A consumer that leaves claims nothing more. It withdraws the offered items, gives back all held
// items, waits for the answers, and parts. The end of the session ends all claims.

// A phase is the step by which the consumer gets more items. Every answer leads back to
// resting, from where proceed begins the next phase.
type phase int

const (
	resting    phase = iota // no request for items is under way
	looking_                // look: the queue is being listed
	refreshing              // look: delayed items that may be due are being listed
	reading                 // read: items that it wants to claim are being read
	claiming                // claim, or a conclude that claims: the transaction is on its way
)

func (p phase) String() string {
	return [...]string{"resting", "looking", "refreshing", "reading", "claiming"}[p]
}

// A requestID names a question within an epoch. An answer counts only if its requestID is the
// newest: otherwise it belongs to another session, or to another question.
type requestID struct{ epoch, n int }

// An input is an event that the machine reacts to. Answers name the turn, the number or the item
// that they answer.
//
// sumtype:decl
type input interface{ input() }

type (
	leave  struct{}                // commanded, or the actor was stopped
	enough struct{}                // commanded: readers receive nothing more, and settle what they have
	attend struct{}                // a reader asks for items
	heard  struct{ session.Event } // an event of the session
	looked struct {                // answers look
		requestID
		view stock.View
		err  error
	}
	changed struct{ requestID } // answers follow: the view may be old
	aged    struct{ requestID } // answers age
	got     struct {            // answers read
		requestID
		items []*layout.Claimed // the items that exist
		err   error
	}
	claims struct { // answers claim
		requestID
		err error
	}
	taken    struct{ *layout.Claimed } // a reader has received the item
	recalled struct {                  // answers recall
		*layout.Claimed
		ok bool // set if no reader has received the item, or will
	}
	settle  struct{ settling }  // commanded; its reply gets one answer
	settled struct{ err error } // answers conclude; a [stock.RefusalError] if the server refused one operation
	moved   struct {            // answers move
		settling
		err error
	}
	freed  struct{}                     // answers free
	rested struct{ place layout.Place } // answers rest
	grown  struct{}                     // answers grow
	tried  struct{}                     // answers try
	ticked struct{}                     // answers tick
	parted struct{}                     // answers part
)

func (leave) input()    {}
func (enough) input()   {}
func (attend) input()   {}
func (heard) input()    {}
func (looked) input()   {}
func (changed) input()  {}
func (aged) input()     {}
func (got) input()      {}
func (claims) input()   {}
func (taken) input()    {}
func (recalled) input() {}
func (settle) input()   {}
func (settled) input()  {}
func (moved) input()    {}
func (freed) input()    {}
func (rested) input()   {}
func (grown) input()    {}
func (tried) input()    {}
func (ticked) input()   {}
func (parted) input()   {}

// An effect asks the performer for one action. One input answers each effect that asks the server,
// but for sweep.
//
// sumtype:decl
type effect interface{ effect() }

type (
	look struct { // list items that no consumer has claimed
		requestID
		want int  // at least so many, if there are
		due  bool // set if only delayed items that are due are wanted, all of them

		patient bool // set if the list is old some time after the next change
	}
	follow struct { // answer when the view may have changed, in line
		requestID
		view   stock.View
		claims bool // set if other consumers have claims: the end of one is a change
		rotate bool // set if the consumer goes to the end of the line first: another goes first
	}
	quit struct{} // leave the line
	age  struct { // answer when the list that answers the request is old
		requestID
		patient bool // set if it is, as long as nothing changes
	}
	grow struct{} // answer after a long time, in which servers may have changed
	read struct {
		requestID
		places []layout.Place
	}
	claim struct { // in one transaction: it creates all claims, or none
		requestID
		items []*layout.Claimed
	}
	offer    struct{ items []*layout.Claimed } // put the items on the shelf, from which readers receive them
	withdraw struct{}                          // take everything from the shelf
	recall   struct{ *layout.Claimed }         // take the item from the shelf
	conclude struct {                          // settle the items in one transaction
		epoch  int
		items  []settling
		claims []*layout.Claimed // that the transaction claims too
	}
	move struct { // to the dead letters, or into a delayed bucket
		epoch int
		settling
	}
	rest struct { // answer after a while, which is longer after more tries
		place layout.Place
		tries int
		delay time.Duration // at least
		err   error         // why the item could not be moved; nil if it was not tried
	}
	sweep struct { // delete the claim of an item that is gone; is not answered
		epoch int
		place layout.Place
	}
	forsake struct{} // free what is yet to be claimed
	free    struct { // delete a claim of the session, until that is confirmed or the epoch has ended
		epoch   int
		session int64
		place   layout.Place
	}
	try      struct{ tries int }       // answer after a second, and ever later after more tries in vain
	tick     struct{}                  // answer after half the time after which an item may be forgotten
	remind   struct{ *layout.Claimed } // report that the item may be forgotten
	part     struct{}                  // remove the receipts, once nothing uses them
	received struct{ *layout.Claimed } // report a delivery
	over     struct {                  // report its end, if it was reported
		*layout.Claimed
		end conclusion
	}
	answer struct { // give a command its reply
		reply actors.Reply[error]
		err   error
		ends  *delivery // whose claim is gone; nil if there is none
	}
)

func (look) effect()     {}
func (follow) effect()   {}
func (quit) effect()     {}
func (age) effect()      {}
func (grow) effect()     {}
func (read) effect()     {}
func (claim) effect()    {}
func (offer) effect()    {}
func (withdraw) effect() {}
func (recall) effect()   {}
func (conclude) effect() {}
func (move) effect()     {}
func (rest) effect()     {}
func (sweep) effect()    {}
func (free) effect()     {}
func (forsake) effect()  {}
func (try) effect()      {}
func (tick) effect()     {}
func (remind) effect()   {}
func (part) effect()     {}
func (received) effect() {}
func (over) effect()     {}
func (answer) effect()   {}

// effects accumulates the requests of one step.
type effects = actors.Effects[effect, Event]

// A held is an item that the consumer has claimed, or is claiming. It is offered to
// readers while none of the flags is set.
type held struct {
	*layout.Claimed
	wanted  bool // set with claim, cleared by its answer; while set, the claim may not exist
	taken   bool // set when a reader has received it; never cleared
	leaving bool // set when it is to be settled or moved, cleared if the server refuses that; while set, no other settlement counts
	stuck   bool // set when it could not be taken back; never cleared. While set, it is not exchanged
	lapsed  bool // set when the session has lapsed while it was being settled: it is free if it stays
	ticks   int  // counts since it was taken
}

// offered reports whether no reader has received the item.
func (h held) offered() bool { return !h.taken && !h.leaving && !h.wanted }

// working reports whether a reader has it.
func (h held) working() bool { return h.taken && !h.leaving }

// An aside is an item that could not be moved to the dead letters.
type aside struct {
	place layout.Place
	tries int
	due   bool // set when it is to be tried again; while not set, lists leave it out
}

// A machine is the state of a consumer. After every step:
//
//   - At most one question of the phases and one conclude are under way.
//   - Without a session the phase is resting, and nothing is listed, held or queued.
//   - At most prefetch items are held, beside those that a transaction settles that claims others.
//   - The items of queue and under are held and leaving, unless their session is over, or they are
//     not claimed.
//   - The consumer is in line only while it looks, reads or claims, or has a follow.
//   - Every reply of a command was given, or its item is in queue, under or moves.
type machine struct {
	// Options; constant.
	prefetch int  // how many items are held at most
	limit    int  // of attempts; 0 if there is none
	urgent   bool // set if there are priorities: later items may come before those that are held
	settles  bool // set if readers settle each delivery before they receive the next, also a lost one
	beside   int  // bytes that an item takes beside its data
	observed bool // set if deliveries and their ends are reported

	// The greatest number of bytes of the items of one transaction; 0 if there is no limit.
	full  int  // as the options allow; constant
	most  int  // halved if it is too large for the server, doubled by the answer to grow
	grows bool // set with grow, cleared by its answer; set while most is less than full

	// The request for more items, and the place in line.
	phase   phase
	newest  requestID // of the newest question; its epoch is set by a session, and 0 while there is none
	follow  requestID // of the follow that is not answered; zero otherwise. While set, nothing is listed, and a look would find nothing more
	seen    follow    // the newest follow
	inLine  bool      // set with follow, cleared with quit; while set, the performer has a waiter
	took    bool      // set when items were claimed, cleared with follow; while set, the others in line are next
	yielded bool      // set when the consumer lets others in line go first; cleared by the next look

	// The items. The slices are replaced, never written to: an earlier machine shares them.
	listed  []layout.Place    // set by a look, joined by items that go back; emptied by any sign that it is old
	list    requestID         // of the look that has set or refreshed it
	old     bool              // set half a second after that, or after the next change if patient; while set, nothing is claimed from it
	patient bool              // set by a look without room, cleared by the next with room
	kept    []*layout.Claimed // items that were read and not claimed; those that are not listed are not claimed
	reads   []layout.Place    // the items of the newest read; means something in reading only
	ahead   int               // how many items are read while there is no room; grows with each claim, reset by rivals
	heavy   int               // bytes of the largest item of the newest read
	rivalry layout.Rivalry    // with other consumers; where to begin in a list
	held    []held            // in the order in which they were claimed; emptied when the session ends
	queue   []settling        // items to be concluded, once under is empty
	under   []settling        // items of the conclude that is under way; emptied by its answer
	joint   bool              // set with a conclude that claims too, cleared by its answer
	moves   []settling        // items of each move that is under way; a look must not claim them again
	asides  []aside           // items that could not be moved; emptied when the session ends

	// The readers.
	attended bool // set when a reader has asked for the items; never cleared
	readers  int  // as the options say; more once readers have worked on more items at the same time
	recalls  bool // set with recall, cleared by its answer
	ticking  bool // set with tick, cleared by its answer

	// The readers whose deliveries are lost, and who are not known to be back. Their items are
	// not claimed.
	strays []held
	trial  bool // set while one of them counts as free, to see whether it receives
	tries  int  // in vain, since one was back
	trying bool // set with try, cleared by its answer, or when its answer would mean nothing

	// The items that were offered when the session ended: a reader may have received them before.
	// Emptied by the next offer.
	late []*layout.Claimed

	session int64 // the id of the present session, or of the last

	lapsed bool // set by Lapsed, cleared by the next connection: a consumer that leaves waits for nothing

	// The end.
	done    bool  // set by enough, and with leaving; while set, nothing new is claimed
	leaving bool  // set by leave, or by an error that does not pass; while set, nothing stays claimed
	err     error // set with leaving, or by the end of the sessions; nil after a command
	parting bool  // set with part, after which nothing is under way
	ended   bool  // set with Closed; then every input is ignored
}

// String shows the sizes of the lists only, for transcripts.
func (m machine) String() string {
	return fmt.Sprintf("%v epoch=%d listed=%d held=%d queue=%d under=%d", m.phase, m.newest.epoch, len(m.listed), len(m.held), len(m.queue), len(m.under))
}

// Ended implements [actors.Machine]. A machine that has ended has no claim on the server,
// as far as it can know.
func (m machine) Ended() bool { return m.ended }

// A turn is a machine that is about to follow another, with the accumulator of its
// effects.
type turn struct {
	machine
	*effects
}

// do and emit enter an effect, or an event, behind those of the same step.
func (s *turn) do(e effect)   { s.Do = append(s.Do, e) }
func (s *turn) emit(ev Event) { s.Emit = append(s.Emit, ev) }

// Step implements [actors.Machine]. Each case enters one input into the state. The consequences of
// the state are left to proceed, at the end of every step.
func (m machine) Step(in input, out *effects) machine {
	if m.ended {
		return m
	}
	s := &turn{machine: m, effects: out}
	// Only held, asides and strays are written to in place. An append to queue never overwrites the
	// array of an earlier machine.
	s.held, s.asides, s.queue, s.strays = slices.Clone(m.held), slices.Clone(m.asides), slices.Clip(m.queue), slices.Clone(m.strays)
	switch in := in.(type) {
	case leave:
		s.leave(nil)
	case enough:
		s.stop()
	case attend:
		s.attended = true
	case heard:
		s.hear(in.Event)
	case looked:
		switch {
		case in.requestID != s.newest:
		case s.phase == looking_:
			s.looked(in)
		case s.phase == refreshing:
			s.refreshed(in)
		}
	case changed:
		if in.requestID == s.follow {
			s.changed()
		}
	case aged:
		if in.requestID == s.list {
			s.old = true
		}
	case got:
		if in.requestID == s.newest && s.phase == reading {
			s.got(in)
		}
	case claims:
		if in.requestID == s.newest && s.phase == claiming {
			s.claimed(in.err)
		}
	case taken:
		s.taken(in.Claimed)
	case recalled:
		s.recalled(in)
	case settle:
		s.settle(in.settling)
	case settled:
		s.settled(in.err)
	case moved:
		s.moved(in)
	case freed:
		s.freed()
	case rested:
		s.rested(in.place)
	case grown:
		s.grown()
	case tried:
		s.tried()
	case ticked:
		s.ticked()
	case parted:
		s.end()
	}
	s.proceed()
	return s.machine
}

// find returns the index of a claim among the held claims; -1 if it is not held. The version tells
// two claims of one item apart.
func (s *turn) find(c *layout.Claimed) int { return find(s.held, c) }

func find(all []held, c *layout.Claimed) int {
	return slices.IndexFunc(all, func(h held) bool { return h.Place == c.Place && h.Version == c.Version })
}

// holds reports whether the item is held, in any version.
func (s *turn) holds(p layout.Place) bool {
	return slices.ContainsFunc(s.held, func(h held) bool { return h.Place == p })
}

// hear follows an event of the session. A consumer goes on with the next session, and
// ends only with the last.
func (s *turn) hear(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		s.newest, s.session = requestID{ev.Epoch, s.newest.n + 1}, ev.ID // so that no answer from an earlier session counts
	case session.Suspended:
		s.emit(Suspended{})
	case session.Lapsed:
		if s.lapsed = true; !s.leaving { // else it is abandoned
			s.lapse()
		}
	case session.Resumed:
		s.lapsed = false
		s.emit(Resumed{})
	case session.Expired:
		s.lapsed = false
		if !s.leaving { // else Closed follows
			s.emit(Lost{len(s.held)})
		}
		s.lose(session.ErrExpired)
	case session.Closed:
		s.lose(session.ErrClosed)
		// The machine ends before an answer could come.
		for _, u := range slices.Concat(s.under, s.moves) {
			s.finish(u, fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrClosed))
		}
		s.under, s.moves = nil, nil
		s.done, s.leaving = true, true
		if s.err == nil {
			s.err = session.ErrClosed
		}
	}
}

// lose gives up all claims, which the server deletes with the session. Requests that are
// under way are still answered, and end as settled and moved say.
func (s *turn) lose(why error) {
	s.do(withdraw{})
	for _, q := range s.queue {
		s.finish(q, fmt.Errorf("%w: %w", ErrNotClaimed, why))
	}
	s.late = nil
	for _, h := range s.held {
		s.drop(h)
	}
	s.untried()
	s.newest = requestID{0, s.newest.n + 1}
	s.phase, s.held, s.queue, s.asides, s.joint, s.recalls = resting, nil, nil, nil, false, false
	s.stale()
	s.kept = nil
	s.quit()
}

// drop notes that a claim is lost.
func (s *turn) drop(h held) {
	switch {
	case h.working():
		s.over(h.Claimed, lost)
		s.strays = append(s.strays, h)
	case h.offered():
		s.late = append(s.late, h.Claimed)
	}
}

// lapse gives up the claims that are confirmed, as others may have the items soon. The session
// lives on, so they are deleted, which leaves the items as a crash would. A settlement that is
// under way may yet be done: the claim stands until its answer. So does one that is being made, of
// which no reader knows.
func (s *turn) lapse() {
	s.do(withdraw{})
	s.late = nil
	var stay []held
	lost := 0
	for _, h := range s.held {
		under := slices.ContainsFunc(slices.Concat(s.under, s.moves), func(q settling) bool { return q.Place == h.Place && q.Version == h.Version })
		if !h.wanted {
			lost++
		}
		if h.wanted || under && !s.leaving {
			h.lapsed = !h.wanted
			stay = append(stay, h)
			continue
		}
		s.drop(h)
		s.free(h.Place)
	}
	var queue []settling
	for _, q := range s.queue {
		if s.find(q.Claimed) < 0 { // it was never claimed
			queue = append(queue, q)
			continue
		}
		s.finish(q, fmt.Errorf("%w: %w", ErrNotClaimed, session.ErrLapsed))
	}
	s.held, s.queue = stay, queue
	s.under, s.moves = s.doubted(s.under), s.doubted(s.moves)
	s.untried()
	s.again()
	if lost > 0 && !s.leaving {
		s.emit(Lost{lost})
	}
}

func (s *turn) free(p layout.Place) { s.do(free{s.newest.epoch, s.session, p}) }

// doubted answers settlements whose requests are under way: their outcome is not waited for.
func (s *turn) doubted(all []settling) []settling {
	all = slices.Clone(all)
	for i := range all {
		if all[i].reply != (actors.Reply[error]{}) {
			s.finish(all[i], fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrLapsed))
			all[i].reply = actors.Reply[error]{}
		}
	}
	return all
}

// again has the queue listed anew.
func (s *turn) again() {
	s.follow = requestID{}
	if s.phase == looking_ || s.phase == refreshing {
		s.phase = resting
	}
	s.stale()
}

// freed follows the end of a claim that had lapsed. No change tells of it: it was ours.
func (s *turn) freed() {
	if !s.done {
		s.again()
	}
}

// abandon ends a consumer that leaves while the servers are out of reach. The session deletes its
// claims when it has a connection.
func (s *turn) abandon() {
	s.do(forsake{})
	s.lapse()
	for _, h := range s.held {
		s.free(h.Place)
	}
	for _, u := range slices.Concat(s.under, s.queue, s.moves) {
		s.finish(u, fmt.Errorf("%w: %w", session.ErrUnknownOutcome, ErrClosed))
	}
	s.held, s.under, s.queue, s.moves = nil, nil, nil, nil
	s.quit()
	s.do(part{})
	s.end()
}

// stale forgets what was listed.
func (s *turn) stale() {
	s.rivalry.Leave(s.listed)
	s.listed, s.follow = nil, requestID{}
}

// leave gives back the held items. Items of a claim that is under way go back when the claim is
// answered.
func (s *turn) leave(err error) {
	if s.leaving {
		return
	}
	s.leaving, s.err = true, err
	s.stop()
}

// stop claims nothing more, and gives back the items that no reader has received.
func (s *turn) stop() {
	s.done = true
	s.follow = requestID{}
	s.do(withdraw{})
	if s.phase != claiming {
		s.phase = resting
	}
	s.giveBack()
}

// quit leaves the line, so that another consumer becomes the first in it.
func (s *turn) quit() {
	s.follow = requestID{}
	if s.inLine {
		s.inLine = false
		s.do(quit{})
	}
}

// giveBack settles every item that is held and is not leaving already, but for those that readers
// are to settle. A delivery to a reader counts as an attempt; an item that was only offered goes
// back as if it had not been claimed.
func (s *turn) giveBack() {
	for i := range s.held {
		if h := &s.held[i]; !h.leaving && !h.wanted && (s.leaving || !h.taken) {
			how := takeBack
			if h.taken {
				how = reject
			}
			s.giveUp(h, how)
		}
	}
}

// giveUp has the consumer itself settle a held item.
func (s *turn) giveUp(h *held, how settlement) {
	h.leaving = true
	s.queue = append(s.queue, settling{Claimed: h.Claimed, how: how, cause: h.Cause})
}

// ask begins a phase with a new question. Answers to earlier ones are ignored from now
// on.
func (s *turn) ask(p phase) requestID {
	s.phase = p
	s.newest.n++
	return s.newest
}

// proceed makes every request that the state allows: one conclude, one phase, and the end when
// nothing is under way any more.
func (s *turn) proceed() {
	if s.ended {
		return
	}
	if s.leaving && s.lapsed && s.newest.epoch != 0 {
		s.abandon()
		return
	}
	// One conclude at a time: the settlements of one transaction wait for the transaction before.
	if len(s.under) == 0 && len(s.queue) > 0 && s.newest.epoch != 0 && !s.awaitsRead() {
		s.conclude()
	}
	if !s.done {
		s.seek()
		s.fetch()
	}
	// There are enough items, or none to wait for: the place in line is for another consumer.
	if s.phase == resting && (s.follow == (requestID{}) || s.room() <= 0 && !s.offers()) {
		s.quit()
	}
	switch {
	case !s.leaving:
	case s.phase != resting || len(s.under) > 0 || len(s.queue) > 0 || len(s.moves) > 0: // an answer is due, and comes first
	case s.newest.epoch == 0: // nothing of it is left on the server
		s.end()
	case !s.parting:
		s.parting = true
		s.do(part{})
	}
}

// end emits the last event.
func (s *turn) end() {
	s.ended = true
	s.emit(Closed{s.err})
}

// maxBatch limits how many items one transaction claims or settles.
const maxBatch = 64

// awaitsRead reports whether settlements wait for the items that are being read: then one
// transaction settles, and claims the next, and readers that are fast settle together. Large items
// are not waited for.
func (s *turn) awaitsRead() bool {
	return s.phase == reading && !s.done && len(s.reads)*s.heavy <= soon && !alone(s.queue[0])
}

// soon is the greatest number of bytes that settlements wait for.
const soon = 64 << 10

// alone reports whether a transaction that settles an item claims no others.
func alone(q settling) bool {
	return q.how == reject || solitary(q) // a rejected item may be the next
}

// solitary reports whether a transaction settles only this item.
func solitary(q settling) bool { return q.how == note || len(q.ops) > 0 }

// conclude settles as many items as go into one transaction. It also claims items that are read
// already, if there is room for them then.
func (s *turn) conclude() {
	n, bytes := 0, 0
	for _, q := range s.queue {
		weight := s.beside
		if q.how != acknowledge {
			weight += len(q.Data)
		}
		if n == maxBatch || n > 0 && (s.most > 0 && bytes+weight > s.most || solitary(q) || solitary(s.queue[0])) {
			break
		}
		n, bytes = n+1, bytes+weight
	}
	s.under, s.queue = s.queue[:n:n], s.queue[n:]
	e := conclude{epoch: s.newest.epoch, items: s.under}
	room := s.room()
	for _, q := range s.under {
		if s.find(q.Claimed) >= 0 {
			room++
		}
	}
	if s.phase == resting && !s.done && !s.old && !slices.ContainsFunc(s.under, alone) && s.wants(room) {
		if e.claims = s.ready(room, bytes); len(e.claims) > 0 {
			s.ask(claiming)
			s.joint = true
			s.hold(e.claims)
		}
	}
	s.do(e)
}

// fetch begins the next phase on the way to more items, if there is room for them. In a
// queue with priorities it looks without room too, when items were offered for a while: an urgent
// item may overtake them.
func (s *turn) fetch() {
	if s.phase != resting || s.newest.epoch == 0 {
		return
	}
	room := s.room()
	trade := s.trade()
	var items []*layout.Claimed
	if s.wants(room) {
		items = s.ready(room, 0)
	}
	switch {
	case len(s.listed) > 0 && s.old && (len(items) > 0 || trade >= 0 || s.wants(room) && !s.isKept(s.listed[0])):
		s.refresh()
	case len(items) > 0:
		id := s.ask(claiming)
		s.hold(items)
		s.do(claim{id, items})
	case s.toRead(room, trade) > 0:
		s.reads = s.unread(s.toRead(room, trade))
		s.do(read{s.ask(reading), s.reads})
	case trade >= 0:
		s.recalls = true
		s.do(recall{s.held[trade].Claimed})
	case s.follow != requestID{}: // the last look found nothing, and nothing has changed since
	case room > 0 && len(s.listed) == 0, s.urgent && s.offers() && s.old: // no reader has come for a while
		s.look(room)
	}
}

// wants reports whether to claim items now. While readers have items, more are claimed a little
// later, in one transaction.
func (s *turn) wants(room int) bool {
	return room > 0 && (s.urgent || 2*room >= s.prefetch || !s.offers())
}

// look lists the queue.
func (s *turn) look(room int) {
	want := max(room, 1)
	if s.rivalry.Lasts() {
		want = max(want, min(spread*s.prefetch, layout.BucketSize))
	}
	if s.urgent {
		want = max(want, urgentAhead)
	}
	want += len(s.asides) + len(s.moves) // these may be listed too
	s.patient = room <= 0
	s.do(look{requestID: s.ask(looking_), want: want, patient: s.patient})
}

// refresh finds out whether others come before what was listed: delayed items that are due, or with
// priorities any.
func (s *turn) refresh() {
	if s.urgent || s.rivalry.Lasts() {
		s.stale()
		s.look(s.room())
		return
	}
	s.do(look{requestID: s.ask(refreshing), want: 1, due: true})
}

// keeps is the greatest number of bytes of items that are kept, but for one item.
const keeps = 4 << 20

// toRead returns how many listed items to read: as many as there is room for, or the first to be
// exchanged for a claim, and at least the first few, so that they can be claimed at once when there
// is room.
func (s *turn) toRead(room, trade int) int {
	n := max(room, 0)
	switch {
	case n > 0: // and those that the next settlement makes room for
		n = max(n, s.ahead)
	case s.old && trade < 0:
		return 0
	default:
		n = max(1, s.ahead)
	}
	if s.heavy > 0 {
		n = min(n, max(1, keeps/s.heavy))
	}
	if n = min(n, maxBatch, len(s.listed)); n == 0 || s.isKept(s.listed[0]) {
		return 0
	}
	return n
}

// unread returns those of the first n listed items that are not kept.
func (s *turn) unread(n int) []layout.Place {
	return slices.DeleteFunc(slices.Clone(s.listed[:n]), s.isKept)
}

func (s *turn) isKept(p layout.Place) bool {
	return slices.ContainsFunc(s.kept, func(c *layout.Claimed) bool { return c.Place == p })
}

// ready returns the first listed items, if they are kept: at most n, and as many as one transaction
// can claim beside other bytes. An item that a crash has left goes alone, to a reader that waits.
func (s *turn) ready(n, bytes int) (items []*layout.Claimed) {
	for _, p := range s.listed[:min(n, len(s.listed), maxBatch)] {
		i := slices.IndexFunc(s.kept, func(c *layout.Claimed) bool { return c.Place == p })
		if i < 0 {
			break
		}
		c := s.kept[i]
		bytes += s.beside + len(c.Data)
		if s.most > 0 && bytes > s.most && (len(items) > 0 || bytes > s.beside+len(c.Data)) {
			break
		}
		if c.Tentative {
			if len(items) == 0 && s.attended && s.idle() {
				return []*layout.Claimed{c}
			}
			break
		}
		items = append(items, c)
	}
	return items
}

// hold holds items that are being claimed: the first that are listed. The answer only confirms
// them.
func (s *turn) hold(items []*layout.Claimed) {
	s.listed = s.listed[len(items):]
	s.kept = slices.DeleteFunc(slices.Clone(s.kept), func(k *layout.Claimed) bool {
		return slices.ContainsFunc(items, func(c *layout.Claimed) bool { return c.Place == k.Place })
	})
	for _, c := range items {
		s.held = append(s.held, held{Claimed: c.Next(), wanted: true})
	}
	for _, c := range items {
		s.forgetAside(c.Place)
	}
	if len(s.listed) == 0 {
		s.rivalry.UseUp()
	}
}

// unhold undoes hold. If the items can still be claimed as they were read, they are kept.
func (s *turn) unhold(keep bool) {
	var places []layout.Place
	for _, h := range s.held {
		if !h.wanted {
			continue
		}
		places = append(places, h.Place)
		if keep {
			s.kept = append(slices.Clip(s.kept), h.Before())
		}
	}
	s.held = slices.DeleteFunc(s.held, func(h held) bool { return h.wanted })
	s.listed = slices.Concat(places, s.listed)
}

// urgentAhead is how many items a consumer lists at least where each may have a priority of its
// own. An item that is put into one of their buckets later may come after those of the others.
const urgentAhead = 4

// spread says how many times their prefetch rivals list, so that they scatter widely; a
// bucket at most.
const spread = 32

// lost notes that another consumer had an item first. The rest of the list may be old
// too, and the queue is listed again.
func (s *turn) lost() {
	s.rivalry.Meet()
	s.ahead = 1
	s.stale()
	s.kept = nil
}

// room returns how many more items the consumer can hold.
func (s *turn) room() int {
	room := s.prefetch - len(s.held) - s.away()
	if len(s.strays) < max(1, s.readers) {
		return room
	}
	most := 0 // however many there may be for others to receive
	if s.trial {
		most = 1
	}
	for _, h := range s.held {
		if !h.taken {
			most--
		}
	}
	return min(room, most)
}

// away returns how many readers count as busy with deliveries that are lost.
func (s *turn) away() int {
	if s.trial {
		return len(s.strays) - 1
	}
	return len(s.strays)
}

// seek begins to find out whether a reader is back whose delivery is lost, when nothing more could
// be claimed otherwise.
func (s *turn) seek() {
	switch {
	case s.trying || s.newest.epoch == 0 || len(s.strays) == 0:
	case s.trial && s.offers():
		s.trying = true
		s.do(try{0})
	case s.trial || s.settles || s.room() > 0 && !s.awaitsReader() || s.offers():
	case s.tries == 0:
		s.trial = true
	default:
		s.trying = true
		s.do(try{s.tries})
	}
}

// awaitsReader reports whether the next item is one that a crash has left, and no reader counts as
// free.
func (s *turn) awaitsReader() bool {
	return len(s.listed) > 0 && !s.idle() && slices.ContainsFunc(s.kept, func(c *layout.Claimed) bool { return c.Place == s.listed[0] && c.Tentative })
}

// tried follows the end of a pause, after which a reader counts as free, or of a trial, in which no
// reader has received the item.
func (s *turn) tried() {
	if !s.trying { // an earlier one
		return
	}
	s.trying = false
	switch {
	case len(s.strays) == 0:
	case !s.trial:
		s.trial = true
	case s.offers() && !s.recalls:
		s.trial = false
		s.tries++
		for _, h := range slices.Backward(s.held) {
			if h.offered() {
				s.recalls = true
				s.do(recall{h.Claimed})
				break
			}
		}
	}
}

// untried begins anew with the trials: the next is at once.
func (s *turn) untried() { s.trial, s.tries, s.trying = false, 0, false }

// isBack notes that the reader with a lost delivery is back.
func (s *turn) isBack(i int) {
	s.strays = slices.Delete(s.strays, i, i+1)
	s.untried()
}

// trade returns the index of an offered item that goes back so that the first listed item, which is
// more urgent, can be claimed; -1 if there is none, or if other items leave already.
func (s *turn) trade() int {
	if !s.urgent || s.room() > 0 || len(s.listed) == 0 || s.recalls {
		return -1
	}
	least := -1
	for i, h := range s.held {
		switch {
		case h.leaving:
			return -1
		case h.offered() && !h.stuck && (least < 0 || h.Place.Bucket.Priority >= s.held[least].Place.Bucket.Priority):
			least = i
		}
	}
	first := s.listed[0]
	tentative := slices.ContainsFunc(s.kept, func(c *layout.Claimed) bool { return c.Place == first && c.Tentative })
	if least < 0 || tentative || s.held[least].Place.Bucket.Priority <= first.Bucket.Priority {
		return -1
	}
	return least
}

// recalled follows the answer to a recall. An item that no reader has received goes back.
func (s *turn) recalled(in recalled) {
	s.recalls = false
	if i := s.find(in.Claimed); i >= 0 && in.ok && s.held[i].offered() {
		s.giveUp(&s.held[i], takeBack)
	}
}

// offers reports whether there are items that no reader has received. Then no reader waits.
func (s *turn) offers() bool { return slices.ContainsFunc(s.held, held.offered) }

// idle reports whether a reader waits, as far as is known: readers have received all items, and
// work on fewer than they have worked on before.
func (s *turn) idle() bool {
	working := 0
	for _, h := range s.held {
		switch {
		case h.offered() || h.wanted:
			return false
		case h.working():
			working++
		}
	}
	return working+s.away() < max(1, s.readers)
}

// taken follows the delivery of an item. From now on the attempt counts.
func (s *turn) taken(c *layout.Claimed) {
	i := s.find(c)
	if i < 0 {
		if s.isLate(c) {
			s.strays = append(s.strays, held{Claimed: c, taken: true})
		}
		return
	}
	s.receive(i)
	if s.patient { // the list may be older than half a second
		s.old = true
	}
	working := 0
	for _, h := range s.held {
		if h.working() {
			working++
		}
	}
	if working+len(s.strays) > s.readers && len(s.strays) > 0 { // one of those that receive
		s.isBack(0)
	}
	s.readers = max(s.readers, working)
	if !s.ticking {
		s.ticking = true
		s.do(tick{})
	}
}

// isLate reports, once, whether the item was offered when the session ended.
func (s *turn) isLate(c *layout.Claimed) bool {
	n := len(s.late)
	s.late = slices.DeleteFunc(slices.Clone(s.late), func(l *layout.Claimed) bool { return l.ID() == c.ID() })
	return len(s.late) < n
}

// receive notes that a reader has received a held item.
func (s *turn) receive(i int) {
	if h := &s.held[i]; !h.taken {
		h.taken = true
		if s.observed {
			s.do(received{h.Claimed})
		}
	}
}

// over reports the end of a delivery, if there was one.
func (s *turn) over(c *layout.Claimed, end conclusion) {
	if s.observed {
		s.do(over{c, end})
	}
}

// finish answers a settlement whose claim is gone.
func (s *turn) finish(q settling, err error) {
	end := lost
	switch {
	case err != nil || q.reply == actors.Reply[error]{}:
	case q.how == acknowledge:
		end = acknowledged
	default:
		end = rejected
	}
	s.over(q.Claimed, end)
	s.do(answer{q.reply, err, q.delivery})
}

// ticked reports items that readers have had for long, each once.
func (s *turn) ticked() {
	s.ticking = false
	for _, all := range [][]held{s.held, s.strays} {
		for i := range all {
			h := &all[i]
			if !h.working() {
				continue
			}
			s.ticking = true
			if h.ticks++; h.ticks == 2 {
				s.do(remind{h.Claimed})
			}
		}
	}
	if s.ticking {
		s.do(tick{})
	}
}

// failed handles the error of a look, a read or a claim, and reports whether there was an error. An
// error that passes starts over with a look; any other error ends the consumer.
func (s *turn) failed(err error) bool {
	switch {
	case err == nil:
		return false
	case client.Over(err) || session.Passing(err):
		s.stale() // the listed items may still be there
	default: // it would fail again
		s.leave(err)
	}
	return true
}

// changed follows a change of the queue. A consumer without a reader that waits lets the others in
// line go first, once.
func (s *turn) changed() {
	if s.yielded = !s.yielded && !s.idle() && s.phase == resting; s.yielded {
		s.follow = s.ask(resting)
		s.seen.requestID, s.seen.rotate = s.follow, true
		s.do(s.seen)
		return
	}
	s.stale()
}

// news removes items that are not to be claimed: those that are held, or that are being moved, or
// could not be moved a little before. A list may show them, because it is older.
func (s *turn) news(places []layout.Place) []layout.Place {
	return slices.DeleteFunc(slices.Clone(places), func(p layout.Place) bool {
		return s.isAside(p) || slices.ContainsFunc(s.moves, func(q settling) bool { return q.Place == p })
	})
}

// looked follows a list. An empty list puts the consumer in line until the queue changes.
func (s *turn) looked(in looked) {
	s.phase = resting
	if s.failed(in.err) {
		return
	}
	s.listed = s.news(in.view.Places)
	s.kept = slices.DeleteFunc(slices.Clone(s.kept), func(c *layout.Claimed) bool { return !slices.Contains(s.listed, c.Place) })
	s.listed = s.rivalry.Order(s.listed) // without rivals the items are claimed in order
	s.young()
	switch {
	case len(s.listed) == 0:
		s.follow = s.ask(resting)
		// The end of our own claim is no change that brings an item.
		others := slices.ContainsFunc(in.view.Left, func(p layout.Place) bool { return !s.holds(p) })
		s.seen = follow{s.follow, in.view, others, s.took}
		s.do(s.seen)
		s.inLine, s.took, s.yielded = true, false, false
	case s.room() <= 0 && s.trade() < 0: // they are for others, who may be behind it in line
		s.stale()
	}
}

// young notes that the list is new.
func (s *turn) young() {
	s.old, s.list = false, s.newest
	s.do(age{s.list, s.patient})
}

// refreshed follows a list of the delayed items that are due. They come first. If the queue is
// paused, nothing of the list is claimed, and a look waits for the end of the pause.
func (s *turn) refreshed(in looked) {
	s.phase = resting
	if s.failed(in.err) {
		return
	}
	if in.view.Paused {
		s.stale()
		return
	}
	due := slices.DeleteFunc(s.news(in.view.Places), func(p layout.Place) bool { return slices.Contains(s.listed, p) || s.holds(p) })
	s.listed = slices.Concat(due, s.listed)
	s.young()
}

// got keeps the items that were read, or moves those whose attempts are used up. If others are
// gone, the rest of the list may be old too.
func (s *turn) got(in got) {
	s.phase = resting
	if s.failed(in.err) {
		return
	}
	bytes := 0
	for _, c := range s.kept {
		bytes += len(c.Data)
	}
	var there []layout.Place
	s.heavy, s.kept = 0, slices.Clone(s.kept)
	for _, c := range in.items {
		there = append(there, c.Place)
		s.heavy = max(s.heavy, len(c.Data))
		switch {
		case s.dead(c, 0):
			s.listed = slices.DeleteFunc(slices.Clone(s.listed), func(p layout.Place) bool { return p == c.Place })
			s.move(settling{Claimed: c, how: discard})
		case bytes == 0 || bytes+len(c.Data) <= keeps: // else it is read again
			bytes += len(c.Data)
			s.kept = append(s.kept, c)
		}
	}
	if len(there) == len(s.reads) {
		return
	}
	for _, p := range s.reads {
		if !slices.Contains(there, p) {
			s.forgetAside(p)
		}
	}
	kept := s.kept
	first := slices.DeleteFunc(slices.Clone(s.listed), func(p layout.Place) bool { return !s.isKept(p) })
	s.lost()
	s.listed, s.kept = first, kept
}

// claimed follows the answer to a claim: all items of it are ours, or none is. If the
// consumer leaves meanwhile, they go back without having been offered.
func (s *turn) claimed(err error) {
	s.phase = resting
	if isTooLarge(err) {
		s.tooLarge(err)
		return
	}
	if err != nil {
		s.unhold(false)
		s.stale()
		if _, refused := errors.AsType[*stock.RefusalError](err); refused && client.IsAny(err, session.ErrNodeExists, session.ErrNoNode, session.ErrBadVersion) {
			s.lost() // a rival has the item, or had it
		} else {
			s.failed(err)
		}
		return
	}
	var fresh []*layout.Claimed
	for i := range s.held {
		if h := &s.held[i]; h.wanted {
			h.wanted = false
			fresh = append(fresh, h.Claimed)
		}
	}
	if s.done { // now that they exist, the claims can be given back
		s.giveBack()
		return
	}
	s.took, s.ahead = true, min(2*max(1, s.ahead), max(prefetched, s.prefetch))
	s.late = nil
	s.do(offer{fresh})
}

// isTooLarge reports whether a transaction was not done because it is too large for the server.
func isTooLarge(err error) bool {
	return errors.Is(err, session.ErrTooLarge) && !session.InDoubt(err)
}

// tooLarge follows a claim that is too large. Fewer items are claimed from now on. A lone item is
// set aside.
func (s *turn) tooLarge(err error) {
	var items []*layout.Claimed
	for _, h := range s.held {
		if h.wanted {
			items = append(items, h.Claimed)
		}
	}
	s.unhold(true)
	if len(items) > 1 {
		s.shrink(items)
		return
	}
	s.listed = slices.DeleteFunc(slices.Clone(s.listed), func(p layout.Place) bool { return p == items[0].Place })
	s.setAside(items[0].Place, 0, err)
}

// shrink limits transactions to half the bytes of these items.
func (s *turn) shrink(items []*layout.Claimed) {
	bytes := 0
	for _, c := range items {
		bytes += s.beside + len(c.Data)
	}
	s.most = max(1, bytes/2)
	if !s.grows {
		s.grows = true
		s.do(grow{})
	}
}

// grown doubles what one transaction may have: the servers may be others by now.
func (s *turn) grown() {
	s.most = min(2*s.most, s.full)
	if s.grows = s.most < s.full; s.grows {
		s.do(grow{})
	}
}

// prefetched is the greatest number of items that are read while there is no room, unless Prefetch
// is more.
const prefetched = 16

// move asks for the move of an item, in one transaction. Until the answer the item is in moves.
func (s *turn) move(q settling) {
	s.moves = append(slices.Clip(s.moves), q)
	s.do(move{s.newest.epoch, q})
}

// dead reports whether the attempts of an item are used up, after so many more.
func (s *turn) dead(c *layout.Claimed, more int) bool {
	return s.limit > 0 && c.Attempts+more >= s.limit
}

// settle queues a settlement by a reader. A claim that is gone, or is settled already, is
// refused.
func (s *turn) settle(q settling) {
	if i := find(s.strays, q.Claimed); i >= 0 {
		s.isBack(i)
	}
	s.isLate(q.Claimed)
	i := s.find(q.Claimed)
	if i < 0 || s.held[i].leaving || s.held[i].wanted {
		s.do(answer{q.reply, ErrNotClaimed, nil})
		return
	}
	s.receive(i)
	s.held[i].leaving = true
	switch {
	case q.how != reject:
	case s.dead(q.Claimed, 1):
		q.how = bury
	case q.delay > 0 && q.Ephemeral: // it cannot be moved, and stay its producer's
		s.setAside(q.Place, q.delay, nil)
	case q.delay > 0:
		q.how = retreat
	}
	if q.how == bury || q.how == retreat {
		s.move(q)
		return
	}
	s.queue = append(s.queue, q)
}

// settled follows the answer to a conclude. A refusal is of one item, and nothing of the
// transaction was done: the other items go again.
func (s *turn) settled(err error) {
	under, joint := s.under, s.joint
	s.under, s.joint = nil, false
	if s.newest.epoch == 0 && err != nil && !session.InDoubt(err) { // not done, and the claims are gone
		for _, u := range under {
			s.finish(u, fmt.Errorf("%w: %w", ErrNotClaimed, session.ErrExpired))
		}
		return
	}
	stays := false // set if the item is still claimed
	no, refused := errors.AsType[*stock.RefusalError](err)
	at := 0 // the index of the item whose operation was refused
	if refused {
		at = no.Index / 2 // each item has two operations: on its claim, and on itself
	}
	if isTooLarge(err) && (joint || len(under) > 1) {
		var items []*layout.Claimed
		for _, u := range under {
			items = append(items, u.Claimed)
		}
		for _, h := range s.held {
			if h.wanted {
				items = append(items, h.Claimed)
			}
		}
		s.shrink(items)
		s.queue = slices.Concat(under, s.queue)
		if joint {
			s.phase = resting
			s.unhold(true)
		}
		return
	}
	switch {
	case refused && joint && at >= len(under): // the claims were refused
		s.queue = slices.Concat(under, s.queue)
		s.claimed(err)
		return
	case joint && refused:
		s.phase = resting
		s.unhold(true)
	case joint:
		s.claimed(err)
	}
	switch {
	case refused && at > 0 && len(under) == 1, isTooLarge(err): // because of the caller's operations
		stays = !s.leaving || len(under[0].ops) > 0
	case refused:
		if no.Index%2 == 1 && errors.Is(err, session.ErrNoNode) && under[at].how != note { // the item was deleted, and its claim is left
			s.do(sweep{s.newest.epoch, under[at].Place})
		}
		s.queue = slices.Concat(under[:at], under[at+1:], s.queue)
		under = under[at : at+1]
		if client.IsAny(err, session.ErrNoNode, session.ErrBadVersion) {
			err = fmt.Errorf("%w: %w", ErrNotClaimed, err)
		} else {
			stays = !s.leaving // a reader may settle it once more
		}
	case session.InDoubt(err):
	case client.Over(err): // not done, and the claims are gone
		err = fmt.Errorf("%w: %w", ErrNotClaimed, err)
	case err != nil: // it could not be sent
		stays = !s.leaving || len(under[0].ops) > 0
	}
	for _, u := range under {
		if s.release(u.Claimed, stays) {
			s.keep(u)
			s.do(answer{u.reply, err, nil})
		} else {
			s.finish(u, err)
		}
		switch u.how {
		case reject, takeBack:
			s.back(u.Place)
		case acknowledge, bury, retreat, discard, strand, note:
		}
	}
	if s.leaving && stays {
		s.giveBack()
	}
}

// back follows the return of an item: it comes before later ones that were listed. A list that is
// under way may be older than the return, and is requested again. After a lost reply the item may
// be gone instead. Then the read finds nothing, as for an item that another consumer has
// acknowledged.
func (s *turn) back(p layout.Place) {
	s.follow = requestID{}
	if s.phase == looking_ {
		s.phase = resting
	}
	s.kept = slices.DeleteFunc(slices.Clone(s.kept), func(c *layout.Claimed) bool { return c.Place == p })
	// A list that is newer than the transaction has the item, also if its answer comes
	// first. Then the item may be claimed again by now.
	if len(s.listed) == 0 || slices.Contains(s.listed, p) || s.holds(p) || s.isAside(p) {
		return
	}
	i := slices.IndexFunc(s.listed, func(q layout.Place) bool { return p.Compare(q) < 0 })
	if i < 0 {
		i = len(s.listed)
	}
	s.listed = slices.Insert(slices.Clone(s.listed), i, p)
}

// keep offers an item again that could not be taken back.
func (s *turn) keep(q settling) {
	if i := s.find(q.Claimed); i >= 0 && q.how == takeBack {
		s.held[i].stuck = true
		s.do(offer{[]*layout.Claimed{q.Claimed}})
	}
}

// release removes a claim from the held claims. A claim that stays may be settled once more, if it
// is held yet.
func (s *turn) release(c *layout.Claimed, stays bool) (held bool) {
	switch i := s.find(c); {
	case i < 0:
	case stays && !s.held[i].lapsed:
		s.held[i].leaving = false
		return true
	default:
		if stays {
			s.free(c.Place)
		}
		s.held = slices.Delete(s.held, i, i+1)
	}
	return false
}

// moved follows the answer to a move. The item has moved, or its claim is gone, or the outcome is
// unknown. If the server refuses the move for another reason, the item stays where it is.
func (s *turn) moved(in moved) {
	s.moves = slices.DeleteFunc(slices.Clone(s.moves), func(q settling) bool { return q.Place == in.Place && q.Version == in.Version })
	err := in.err
	no, refused := errors.AsType[*stock.RefusalError](err)
	switch {
	case err == nil:
		if in.how != retreat {
			s.emit(Buried{in.Place.ID()})
		}
	case refused && client.IsAny(err, session.ErrNoNode, session.ErrBadVersion, session.ErrNodeExists):
		if in.how != discard && no.Index == 1 && errors.Is(err, session.ErrNoNode) { // as in settled: the claim is left
			s.do(sweep{s.newest.epoch, in.Place})
		}
		err = fmt.Errorf("%w: %w", ErrNotClaimed, err)
	case session.InDoubt(err): // the item may have moved, or not
	case client.Over(err):
		err = fmt.Errorf("%w: %w", ErrNotClaimed, err)
	default:
		s.stays(in)
		return
	}
	s.forgetAside(in.Place)
	s.release(in.Claimed, false)
	if err != nil {
		s.follow = requestID{} // the item may be there yet
	}
	s.finish(in.settling, err)
}

// stays keeps an item that cannot be moved where it is, and leaves it out for a while. One whose
// attempts are used up gets the reason in its record.
func (s *turn) stays(in moved) {
	q := in.settling
	known := q.Stuck != ""
	item := *q.Claimed
	item.Stuck = layout.Bounded(in.err.Error())
	q.Claimed, q.how = &item, note
	if in.how == bury {
		q.how = strand
	}
	if in.how == retreat {
		q.Claimed, q.how = in.Claimed, reject
	}
	if s.newest.epoch == 0 { // the session is over, and so is the claim
		s.finish(q, fmt.Errorf("%w: %w", ErrNotClaimed, session.ErrExpired))
		return
	}
	s.setAside(q.Place, 0, in.err)
	if q.how != note || !known && !s.leaving {
		s.queue = append(s.queue, q)
	}
}

// isAside reports whether an item is left out of the lists.
func (s *turn) isAside(p layout.Place) bool {
	i := s.findAside(p)
	return i >= 0 && !s.asides[i].due
}

func (s *turn) findAside(p layout.Place) int {
	return slices.IndexFunc(s.asides, func(a aside) bool { return a.place == p })
}

// setAside leaves an item out of the lists for a while.
func (s *turn) setAside(p layout.Place, delay time.Duration, err error) {
	i := s.findAside(p)
	if i < 0 {
		i = len(s.asides)
		s.asides = append(s.asides, aside{place: p})
	}
	s.asides[i].due = false
	s.asides[i].tries++
	s.do(rest{p, s.asides[i].tries, delay, err})
}

// rested follows the end of a rest: the item may be listed again. If it was not tried when another
// rest is over, it is gone, or another consumer has it.
func (s *turn) rested(p layout.Place) {
	i := s.findAside(p)
	switch {
	case i < 0:
	case s.asides[i].due:
		s.forgetAside(p)
	default:
		s.asides[i].due = true
		s.back(p)
		s.do(rest{p, s.asides[i].tries, 0, nil})
	}
}

// forgetAside forgets an item that has moved, or is gone.
func (s *turn) forgetAside(p layout.Place) {
	s.asides = slices.DeleteFunc(s.asides, func(a aside) bool { return a.place == p })
}
