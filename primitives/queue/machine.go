package queue

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
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
//	listed ► read ► wanted ► offered ► taken ► leaving ► concluded
//	           │   (claim is           (by a    │ rejected too often
//	           │    under way)          reader) ▼
//	           └── attempts used up ───────► buried
//
// A consumer that leaves claims nothing more. It withdraws the offered items, gives back all held
// items, waits for the answers, and parts. The end of the session ends all claims.

// A phase is the step by which the consumer gets more items. Every answer leads back to
// resting, from where proceed begins the next phase.
type phase int

const (
	resting  phase = iota // no request for items is under way
	looking_              // look: the queue is being listed
	reading               // read: items that it wants to claim are being read
	claiming              // claim: the transaction is on its way
)

func (p phase) String() string { return [...]string{"resting", "looking", "reading", "claiming"}[p] }

// A requestID names a question within an epoch. An answer counts only if its requestID is the
// newest: otherwise it belongs to another session, or to another question.
type requestID struct{ epoch, n int }

// A settling is a claimed item that is to be acknowledged, rejected, or taken back.
type settling struct {
	claimed
	how   settlement
	reply actors.Reply[error] // of the command; empty if the consumer itself gives the item back
}

// An input is an event that the machine reacts to. Answers name the turn, the number or the item
// that they answer.
//
//sumtype:decl
type input interface{ input() }

type (
	leave  struct{}                // commanded, or the actor was stopped
	heard  struct{ session.Event } // an event of the session
	looked struct {                // answers look
		requestID
		view view
		err  error
	}
	changed struct{ requestID } // answers follow: the view may be old
	got     struct {            // answers read
		requestID
		items []claimed // the items that exist, as many as one transaction can claim
		gone  bool      // set if others were deleted since they were listed
		rest  []place   // the items that exist and did not fit
		err   error
	}
	claims struct { // answers claim
		requestID
		err error
	}
	taken   struct{ claimed }  // a reader has received the item
	settle  struct{ settling } // commanded; its reply gets one answer
	settled struct {           // answers conclude; err is a [refusal] if the server refused one operation
		n   int
		err error
	}
	buried struct { // answers bury
		settling
		err error
	}
	parted struct{} // answers part
)

func (leave) input()   {}
func (heard) input()   {}
func (looked) input()  {}
func (changed) input() {}
func (got) input()     {}
func (claims) input()  {}
func (taken) input()   {}
func (settle) input()  {}
func (settled) input() {}
func (buried) input()  {}
func (parted) input()  {}

// An effect asks the performer for one action. One input answers each effect that asks the server,
// but for sweep.
//
//sumtype:decl
type effect interface{ effect() }

type (
	look struct { // list items that no consumer has claimed
		requestID
		want int // at least so many, if there are
	}
	follow struct { // answer when the view may have changed, in line
		requestID
		view   view
		claims bool // set if other consumers have claims: the end of one is a change
		rotate bool // set if the consumer goes to the end of the line first: another goes first
	}
	quit struct{} // leave the line
	read struct {
		requestID
		places []place
	}
	claim struct { // in one transaction: it creates all claims, or none
		requestID
		items []claimed
	}
	offer    struct{ items []claimed } // put the items on the shelf, from which readers receive them
	withdraw struct{}                  // take everything from the shelf
	conclude struct {                  // settle the items in one transaction
		epoch, n int
		items    []settling
	}
	bury struct { // move the item to the dead letters; how is takeBack if it is not claimed
		epoch int
		settling
	}
	sweep struct { // delete the claim of an item that is gone; is not answered
		epoch int
		place place
	}
	part   struct{} // remove the receipts, once nothing uses them
	answer struct { // give a command its reply
		reply actors.Reply[error]
		err   error
	}
)

func (look) effect()     {}
func (follow) effect()   {}
func (quit) effect()     {}
func (read) effect()     {}
func (claim) effect()    {}
func (offer) effect()    {}
func (withdraw) effect() {}
func (conclude) effect() {}
func (bury) effect()     {}
func (sweep) effect()    {}
func (part) effect()     {}
func (answer) effect()   {}

// effects accumulates the requests of one step.
type effects = actors.Effects[effect, Event]

// A held is an item that the consumer has claimed, or is claiming. It is offered to
// readers while none of the flags is set.
type held struct {
	claimed
	wanted  bool // set with claim, cleared by its answer; while set, the claim may not exist
	taken   bool // set when a reader has received it; never cleared
	leaving bool // set when it is to be settled or buried, cleared if the server refuses that; while set, no other settlement counts
}

// A machine is the state of a consumer. After every step:
//
//   - At most one question of the phases and one conclude are under way.
//   - Without a session the phase is resting, and nothing is listed, held or queued.
//   - The items of queue and under are held and leaving, unless their session is over.
//   - The consumer is in line only while it looks, reads or claims, or has a follow.
//   - Every reply of a command was given, or its item is in queue, under or graves.
type machine struct {
	// Options; constant.
	prefetch int  // how many items are held at most, but for urgent ones
	limit    int  // of attempts; 0 if there is none
	urgent   bool // set if there are priorities: the line is followed even while there are items

	// The request for more items, and the place in line.
	phase  phase
	newest requestID // of the newest question; its epoch is set by a session, and 0 while there is none
	follow requestID // of the follow that is not answered; zero otherwise. While set, a look would find nothing more
	inLine bool      // set with follow, cleared with quit; while set, the performer has a waiter
	took   bool      // set when items were claimed, cleared with follow; while set, the others in line are next

	// The items. The slices are replaced, never written to: an earlier machine shares them.
	listed []place    // set by a look, joined by items that go back; emptied as its items are read, and by any sign that it is old
	reads  []place    // the items of the newest read; means something in reading only
	rivals bool       // set when another consumer had an item first; cleared when all that was listed is used up
	chance uint64     // where to begin among rivals; begins at random, and grows with each use
	held   []held     // in the order in which they were claimed; emptied when the session ends
	queue  []settling // items to be concluded, once under is empty; each is held, and leaving
	under  []settling // items of the conclude that is under way; emptied by its answer
	n      int        // the number of the newest conclude
	graves []settling // items of each bury that is under way; a look must not claim them again

	// The end.
	leaving bool  // set by leave, or by an error that does not pass; while set, nothing new is claimed
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
	// Only held is written to in place. An append to queue never overwrites the array of an earlier
	// machine.
	s.held, s.queue = slices.Clone(m.held), slices.Clip(m.queue)
	switch in := in.(type) {
	case leave:
		s.leave(nil)
	case heard:
		s.hear(in.Event)
	case looked:
		if in.requestID == s.newest && s.phase == looking_ {
			s.looked(in)
		}
	case changed:
		if in.requestID == s.follow {
			s.follow = requestID{} // so that fetch looks again
			s.listed = nil
		}
	case got:
		if in.requestID == s.newest && s.phase == reading {
			s.got(in)
		}
	case claims:
		if in.requestID == s.newest && s.phase == claiming {
			s.claimed(in)
		}
	case taken:
		if i := s.find(in.claimed); i >= 0 {
			s.held[i].taken = true // now the attempt counts
		}
	case settle:
		s.settle(in.settling)
	case settled:
		if in.n == s.n && len(s.under) > 0 { // not answered by the end of the sessions already
			s.settled(in.err)
		}
	case buried:
		s.buried(in)
	case parted:
		s.end()
	}
	s.proceed()
	return s.machine
}

// find returns the index of a claim among the held claims; -1 if it is not held. The version tells
// two claims of one item apart.
func (s *turn) find(c claimed) int {
	return slices.IndexFunc(s.held, func(h held) bool { return h.place == c.place && h.version == c.version })
}

// hear follows an event of the session. A consumer goes on with the next session, and
// ends only with the last.
func (s *turn) hear(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		s.newest = requestID{ev.Epoch, s.newest.n + 1} // so that no answer from an earlier session counts
	case session.Suspended:
		s.emit(Suspended{})
	case session.Resumed:
		s.emit(Resumed{})
	case session.Expired:
		if !s.leaving { // else Closed follows
			s.emit(Lost{len(s.held)})
		}
		s.lose(session.ErrExpired)
	case session.Closed:
		s.lose(session.ErrClosed)
		// The machine ends before an answer could come.
		for _, u := range slices.Concat(s.under, s.graves) {
			s.do(answer{u.reply, fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrClosed)})
		}
		s.under, s.graves = nil, nil
		s.leaving = true
		if s.err == nil {
			s.err = session.ErrClosed
		}
	}
}

// lose gives up all claims, which the server deletes with the session. Requests that are
// under way are still answered, and end as settled and buried say.
func (s *turn) lose(why error) {
	s.do(withdraw{})
	for _, q := range s.queue {
		s.do(answer{q.reply, fmt.Errorf("%w: %w", ErrNotClaimed, why)})
	}
	s.newest = requestID{0, s.newest.n + 1}
	s.phase, s.follow, s.listed, s.held, s.queue = resting, requestID{}, nil, nil, nil
	s.quit()
}

// leave gives back the held items. Items of a claim that is under way go back when the claim is
// answered.
func (s *turn) leave(err error) {
	if s.leaving {
		return
	}
	s.leaving, s.err = true, err
	s.follow = requestID{}
	s.do(withdraw{})
	if s.phase != claiming {
		s.phase = resting
	}
	s.giveBack()
}

// quit leaves the line, so that another consumer becomes the first in it.
func (s *turn) quit() {
	if s.inLine {
		s.inLine = false
		s.do(quit{})
	}
}

// giveBack settles every item that is held and is not leaving already. A delivery to a reader
// counts as an attempt; an item that was only offered goes back as if it had not been claimed.
func (s *turn) giveBack() {
	for i := range s.held {
		if h := &s.held[i]; !h.leaving && !h.wanted {
			h.leaving = true
			how := takeBack
			if h.taken {
				how = reject
			}
			s.queue = append(s.queue, settling{claimed: h.claimed, how: how})
		}
	}
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
	// One conclude at a time: the settlements of one transaction wait for the transaction before.
	if len(s.under) == 0 && len(s.queue) > 0 && s.newest.epoch != 0 {
		n := min(len(s.queue), maxBatch)
		s.n++
		s.under, s.queue = s.queue[:n:n], s.queue[n:]
		s.do(conclude{s.newest.epoch, s.n, s.under})
	}
	if !s.leaving {
		s.fetch()
	}
	// There are enough items, or none to wait for: the place in line is for another consumer.
	if s.phase == resting && s.follow == (requestID{}) {
		s.quit()
	}
	switch {
	case !s.leaving:
	case s.phase != resting || len(s.under) > 0 || len(s.queue) > 0 || len(s.graves) > 0: // an answer is due, and comes first
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

// fetch begins the next phase on the way to more items, if there is room for them. In a
// queue with priorities it looks without room too: an urgent item may overtake those that
// are offered.
func (s *turn) fetch() {
	if s.phase != resting || s.newest.epoch == 0 {
		return
	}
	room := s.room()
	switch {
	case room > 0 && !s.urgent && 2*room < s.prefetch && s.offered():
		// The readers have items. A little later more are claimed in one transaction.
	case len(s.listed) > 0 && room > 0:
		n := min(room, len(s.listed), maxBatch)
		s.reads = slices.Clone(s.listed[:n])
		if s.listed = s.listed[n:]; len(s.listed) == 0 {
			s.follow = requestID{} // the queue may have more than was listed
			s.rivals = false
		}
		s.do(read{s.ask(reading), s.reads})
	case s.follow != requestID{}: // the last look found nothing, and nothing has changed since
	case room > 0 && len(s.listed) == 0, s.urgent:
		want := max(room, 1)
		if s.rivals {
			want = max(want, min(spread*s.prefetch, bucketSize))
		}
		s.do(look{s.ask(looking_), want})
	}
}

// spread says how many times their prefetch rivals list, so that they scatter widely; a
// bucket at most.
const spread = 16

// lost notes that another consumer had an item first. The rest of the list may be old
// too, and the queue is listed again.
func (s *turn) lost() {
	s.rivals = true
	s.listed, s.follow = nil, requestID{}
}

// room returns how many more items the consumer wants. If it holds enough, there is room
// for one more urgent than all that are offered. If none is offered, there is room while
// readers work on fewer than prefetch.
func (s *turn) room() int {
	room := s.prefetch - len(s.held)
	if room > 0 || !s.urgent || len(s.listed) == 0 {
		return room
	}
	most, offered, taken := int32(0), false, 0
	for _, h := range s.held {
		switch {
		case h.taken:
			taken++
		case !h.leaving && (!offered || h.place.bucket.priority < most):
			most, offered = h.place.bucket.priority, true
		}
	}
	if offered && s.listed[0].bucket.priority < most || !offered && taken < s.prefetch {
		return 1
	}
	return 0
}

// offered reports whether there are items that no reader has received.
func (s *turn) offered() bool {
	return slices.ContainsFunc(s.held, func(h held) bool { return !h.taken && !h.leaving && !h.wanted })
}

// failed handles the error of a look, a read or a claim, and reports whether there was an error. An
// error that passes starts over with a look; any other error ends the consumer.
func (s *turn) failed(err error) bool {
	switch {
	case err == nil:
		return false
	case client.Over(err) || session.Passing(err):
		s.listed, s.follow = nil, requestID{} // the listed items may still be there
	default: // it would fail again
		s.phase = resting
		s.leave(err)
	}
	return true
}

// looked follows a list. An empty list puts the consumer in line until the queue changes. With
// priorities every list does: a change may bring an urgent item.
func (s *turn) looked(in looked) {
	s.phase = resting
	if s.failed(in.err) {
		return
	}
	// An item on its way to the dead letters may still be seen.
	s.listed = slices.DeleteFunc(slices.Clone(in.view.places), func(p place) bool {
		return slices.ContainsFunc(s.graves, func(q settling) bool { return q.place == p })
	})
	// Without rivals the items are claimed in order.
	if s.rivals = s.rivals && len(s.listed) > 0; s.rivals {
		s.chance++
		s.listed = scattered(s.listed, s.chance)
	}
	if len(s.listed) == 0 || s.urgent {
		s.follow = s.ask(resting)
		// The end of our own claim is no change that brings an item.
		others := slices.ContainsFunc(in.view.left, func(p place) bool {
			return !slices.ContainsFunc(s.held, func(h held) bool { return h.place == p })
		})
		s.do(follow{s.follow, in.view, others, s.took || len(s.listed) > 0})
		s.inLine, s.took = true, false
	}
}

// got claims the items that were read, or buries those whose attempts are used up.
func (s *turn) got(in got) {
	s.phase = resting
	if s.failed(in.err) {
		return
	}
	s.listed = slices.Concat(in.rest, s.listed)
	if in.gone {
		s.lost()
	}
	var items []claimed
	for _, c := range in.items {
		if s.limit > 0 && c.Attempts >= s.limit {
			s.bury(settling{claimed: c, how: takeBack})
			continue
		}
		items = append(items, c)
	}
	if len(items) > 0 {
		s.do(claim{s.ask(claiming), items})
	}
	// The items are held from now on. The answer only confirms them.
	for _, c := range items {
		s.held = append(s.held, held{claimed: c.next(), wanted: true})
	}
}

// claimed follows the answer to a claim: all items of it are ours, or none is. If the
// consumer leaves meanwhile, they go back without having been offered.
func (s *turn) claimed(in claims) {
	s.phase = resting
	if in.err != nil {
		s.held = slices.DeleteFunc(s.held, func(h held) bool { return h.wanted })
		s.listed, s.follow = nil, requestID{}
		if _, refused := errors.AsType[*refusal](in.err); refused && client.IsAny(in.err, session.ErrNodeExists, session.ErrNoNode, session.ErrBadVersion) {
			s.lost() // a rival has the item, or had it
		} else {
			s.failed(in.err)
		}
		return
	}
	var fresh []claimed
	for i := range s.held {
		if h := &s.held[i]; h.wanted {
			h.wanted = false
			fresh = append(fresh, h.claimed)
		}
	}
	if s.leaving { // now that they exist, the claims can be given back
		s.giveBack()
		return
	}
	s.took = true
	s.do(offer{fresh})
}

// bury asks for the move of an item to the dead letters, in one transaction. Until the
// answer the item is in graves.
func (s *turn) bury(q settling) {
	s.graves = append(slices.Clone(s.graves), q)
	s.do(bury{s.newest.epoch, q})
}

// settle queues a settlement by a reader. A claim that is gone, or is settled already, is
// refused.
func (s *turn) settle(q settling) {
	i := s.find(q.claimed)
	if i < 0 || s.held[i].leaving || s.held[i].wanted {
		s.do(answer{q.reply, ErrNotClaimed})
		return
	}
	h := &s.held[i]
	h.leaving = true
	if q.how == reject && s.limit > 0 && q.Attempts >= s.limit {
		s.bury(q)
		return
	}
	s.queue = append(s.queue, q)
}

// settled follows the answer to a conclude. A refusal is of one item, and nothing of the
// transaction was done: the other items go again.
func (s *turn) settled(err error) {
	under := s.under
	s.under = nil
	stays := false // set if the item is still claimed
	no, refused := errors.AsType[*refusal](err)
	switch {
	case refused:
		i := no.index / 2                                         // each item has two operations: on its claim, and on itself
		if no.index%2 == 1 && errors.Is(err, session.ErrNoNode) { // the item was deleted, and its claim is left
			s.do(sweep{s.newest.epoch, under[i].place})
		}
		s.queue = slices.Concat(under[:i], under[i+1:], s.queue)
		under = under[i : i+1]
		if client.IsAny(err, session.ErrNoNode, session.ErrBadVersion) {
			err = fmt.Errorf("%w: %w", ErrNotClaimed, err)
		} else {
			stays = !s.leaving // a reader may settle it once more
		}
	case client.Over(err) && !session.InDoubt(err): // not done, and the claims are gone
		err = fmt.Errorf("%w: %w", ErrNotClaimed, err)
	}
	for _, u := range under {
		s.release(u.claimed, stays)
		s.do(answer{u.reply, err})
		if u.how != acknowledge {
			s.back(u.place)
		}
	}
	if s.newest.epoch == 0 { // the session is over, and so are the claims
		for _, q := range s.queue {
			s.do(answer{q.reply, fmt.Errorf("%w: %w", ErrNotClaimed, session.ErrExpired)})
		}
		s.queue = nil
	}
}

// back follows the return of an item: it comes before later ones that were listed. A list that is
// under way may be older than the return, and is requested again. After a lost reply the item may
// be gone instead. Then the read finds nothing, as for an item that another consumer has
// acknowledged.
func (s *turn) back(p place) {
	s.follow = requestID{}
	if s.phase == looking_ {
		s.phase = resting
	}
	// A list that is newer than the transaction has the item, also if its answer comes
	// first. Then the item may be claimed again by now.
	known := slices.Contains(s.listed, p) || s.phase == reading && slices.Contains(s.reads, p) ||
		slices.ContainsFunc(s.held, func(h held) bool { return h.place == p })
	if len(s.listed) == 0 || known {
		return
	}
	i := slices.IndexFunc(s.listed, func(q place) bool { return p.compare(q) < 0 })
	if i < 0 {
		i = len(s.listed)
	}
	s.listed = slices.Insert(slices.Clone(s.listed), i, p)
}

// release removes a claim from the held claims. A claim that stays may be settled once more.
func (s *turn) release(c claimed, stays bool) {
	switch i := s.find(c); {
	case i < 0:
	case stays:
		s.held[i].leaving = false
	default:
		s.held = slices.Delete(s.held, i, i+1)
	}
}

// buried follows the answer to a bury. The item has moved, or its claim is gone, or the
// outcome is unknown; if the server refuses the move for another reason, the consumer
// ends with that error.
func (s *turn) buried(in buried) {
	s.graves = slices.DeleteFunc(slices.Clone(s.graves), func(q settling) bool { return q.place == in.place && q.version == in.version })
	fails := false // set if the server refuses the move for good
	err := in.err
	no, refused := errors.AsType[*refusal](err)
	switch {
	case err == nil:
		s.emit(Buried{in.place.id()})
	case refused && client.IsAny(err, session.ErrNoNode, session.ErrBadVersion, session.ErrNodeExists):
		if in.how == reject && no.index == 1 && errors.Is(err, session.ErrNoNode) { // as in settled: the claim is left
			s.do(sweep{s.newest.epoch, in.place})
		}
		err = fmt.Errorf("%w: %w", ErrNotClaimed, err)
	case session.InDoubt(err): // the item may have moved, or not
	case client.Over(err):
		err = fmt.Errorf("%w: %w", ErrNotClaimed, err)
	default:
		fails = true
	}
	s.release(in.claimed, fails) // giveBack below settles a claim that stays
	if err != nil {
		s.follow = requestID{} // the item may be there yet
	}
	s.do(answer{in.reply, err})
	switch {
	case fails && s.leaving: // it is among those that go back
		s.giveBack()
	case fails:
		s.leave(err)
	}
}
