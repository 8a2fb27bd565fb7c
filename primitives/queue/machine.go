package queue

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// This file is the whole protocol of a consumer, as a pure function: no goroutines, no channels, no clock, no
// I/O. The performer of its effects is in consumer.go.

// A phase is what the consumer does to get more items.
type phase int

const (
	resting  phase = iota // nothing: it has enough, there are none, or there is no session
	looking_              // it lists the queue
	reading               // it reads items that it wants to claim
	claiming              // the claims are on their way
)

func (p phase) String() string { return [...]string{"resting", "looking", "reading", "claiming"}[p] }

// A turn belongs to an epoch of the session. Answers to the questions of an earlier turn are ignored.
type turn struct{ epoch, n int }

// A settling is a claimed item of which it is asked what is to become of it.
type settling struct {
	claimed
	how   settlement
	reply actors.Reply[error]
}

// An input is something that happened.
//
//sumtype:decl
type input interface{ input() }

type (
	leave  struct{}                // commanded, or the actor was stopped
	heard  struct{ session.Event } // what became of the session
	looked struct {                // answers look
		turn
		view view
		err  error
	}
	changed struct{ turn } // answers follow
	got     struct {       // answers read: without the items that are gone
		turn
		items []claimed
		gone  bool    // whether there are such
		rest  []place // those that did not fit into one transaction
		err   error
	}
	claims struct { // answers claim
		turn
		err error
	}
	taken   struct{ claimed }  // a reader has received the item
	settle  struct{ settling } // commanded; its reply gets one answer
	settled struct {           // answers conclude
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

// An effect is something to do about it.
//
//sumtype:decl
type effect interface{ effect() }

type (
	look struct { // list items that are not claimed
		turn
		want int
	}
	follow struct { // answer when the view may have changed, in line
		turn
		view   view
		claims bool // whether others have claimed something
		rotate bool // whether others are next
	}
	quit struct{} // leave the line
	read struct {
		turn
		places []place
	}
	claim struct { // in one transaction
		turn
		items []claimed
	}
	offer    struct{ items []claimed } // to readers
	withdraw struct{}                  // all items that are offered
	conclude struct {                  // in one transaction
		epoch, n int
		items    []settling
	}
	bury struct { // move the item to the dead letters; if it is not claimed, how is takeBack
		epoch int
		settling
	}
	sweep struct { // remove the claim of an item that is gone
		epoch int
		place place
	}
	part   struct{} // remove what the consumer has beside its claims
	answer struct {
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

type effects = actors.Effects[effect, Event]

// A held is an item that the consumer has claimed.
type held struct {
	claimed
	wanted  bool // set with claim, and cleared with its answer
	taken   bool // set when a reader has received it
	leaving bool // set when it is to be settled, and cleared when the server has refused that
}

// machine is the state of a consumer.
type machine struct {
	prefetch int
	limit    int  // of attempts; 0 if there is none
	urgent   bool // whether there are priorities

	phase  phase
	turn   turn // of the newest question of the phase; the epoch is 0 while there is none
	follow turn // of the newest follow; zero when it was answered. While set, there was nothing more to claim
	inLine bool // set with follow, cleared with quit and with the session
	took   bool // set when items were claimed, cleared with follow. While set, others in line are next

	listed []place    // seen, and not tried yet
	rivals bool       // set when another consumer had an item first, cleared when what was listed is used up, or nothing was
	chance uint64     // where to begin among rivals; grows with each use
	held   []held     // in the order in which they were claimed; emptied when the session expires
	queue  []settling // to be concluded after those that are on their way
	under  []settling // on their way; set with conclude, emptied with its answer
	n      int        // counts conclude
	graves []settling // on their way to the dead letters

	leaving bool  // set by leave or an error that stays. While set, nothing new is claimed
	err     error // why; nil after a command
	parting bool  // set with part
	ended   bool
}

func (m machine) String() string {
	return fmt.Sprintf("%v epoch=%d listed=%d held=%d queue=%d under=%d", m.phase, m.turn.epoch, len(m.listed), len(m.held), len(m.queue), len(m.under))
}

// Ended implements [actors.Machine].
func (m machine) Ended() bool { return m.ended }

// A step is a machine that is about to follow another, and what it asks for.
type step struct {
	machine
	*effects
}

func (s *step) do(e effect)   { s.Do = append(s.Do, e) }
func (s *step) emit(ev Event) { s.Emit = append(s.Emit, ev) }

// Step implements [actors.Machine].
func (m machine) Step(in input, out *effects) machine {
	if m.ended {
		return m
	}
	s := &step{machine: m, effects: out}
	s.held, s.queue = slices.Clone(m.held), slices.Clip(m.queue) // what is listed is never written to
	switch in := in.(type) {
	case leave:
		s.leave(nil)
	case heard:
		s.hear(in.Event)
	case looked:
		if in.turn == s.turn && s.phase == looking_ {
			s.looked(in)
		}
	case changed:
		if in.turn == s.follow {
			s.follow = turn{}
			s.listed = nil
		}
	case got:
		if in.turn == s.turn && s.phase == reading {
			s.got(in)
		}
	case claims:
		if in.turn == s.turn && s.phase == claiming {
			s.claimed(in)
		}
	case taken:
		if i := s.find(in.claimed); i >= 0 {
			s.held[i].taken = true
		}
	case settle:
		s.settle(in.settling)
	case settled:
		if in.n == s.n && len(s.under) > 0 {
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

// find returns the place of an item among those that are held, and -1 if this very claim is not.
func (s *step) find(c claimed) int {
	return slices.IndexFunc(s.held, func(h held) bool { return h.place == c.place && h.version == c.version })
}

func (s *step) hear(ev session.Event) {
	switch ev := ev.(type) {
	case session.Connected:
		s.turn = turn{ev.Epoch, s.turn.n + 1}
	case session.Suspended:
		s.emit(Suspended{})
	case session.Resumed:
		s.emit(Resumed{})
	case session.Expired:
		if !s.leaving {
			s.emit(Lost{len(s.held)})
		}
		s.lose(session.ErrExpired)
	case session.Closed:
		s.lose(session.ErrClosed)
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

// lose gives up all claims, which go with the session. What is on its way is still answered.
func (s *step) lose(why error) {
	s.do(withdraw{})
	for _, q := range s.queue {
		s.do(answer{q.reply, fmt.Errorf("%w: %w", ErrNotClaimed, why)})
	}
	s.turn = turn{0, s.turn.n + 1}
	s.phase, s.follow, s.listed, s.held, s.queue = resting, turn{}, nil, nil, nil
	s.quit()
}

// leave gives back what is held, when the claims that are on their way have been answered.
func (s *step) leave(err error) {
	if s.leaving {
		return
	}
	s.leaving, s.err = true, err
	s.follow = turn{}
	s.do(withdraw{})
	if s.phase != claiming {
		s.phase = resting
	}
	s.giveBack()
}

// quit leaves the line: another is first.
func (s *step) quit() {
	if s.inLine {
		s.inLine = false
		s.do(quit{})
	}
}

func (s *step) giveBack() {
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

// ask begins a phase.
func (s *step) ask(p phase) turn {
	s.phase = p
	s.turn.n++
	return s.turn
}

// proceed does whatever there is to do.
func (s *step) proceed() {
	if s.ended {
		return
	}
	if len(s.under) == 0 && len(s.queue) > 0 && s.turn.epoch != 0 {
		n := min(len(s.queue), maxBatch)
		s.n++
		s.under, s.queue = s.queue[:n:n], s.queue[n:]
		s.do(conclude{s.turn.epoch, s.n, s.under})
	}
	if !s.leaving {
		s.fetch()
	}
	if s.phase == resting && s.follow == (turn{}) {
		s.quit()
	}
	switch {
	case !s.leaving:
	case s.phase != resting || len(s.under) > 0 || len(s.queue) > 0 || len(s.graves) > 0:
	case s.turn.epoch == 0:
		s.end()
	case !s.parting:
		s.parting = true
		s.do(part{})
	}
}

func (s *step) end() {
	s.ended = true
	s.emit(Closed{s.err})
}

// maxBatch is how many items one transaction claims or settles.
const maxBatch = 64

// fetch goes on to claim items.
func (s *step) fetch() {
	if s.phase != resting || s.turn.epoch == 0 {
		return
	}
	room := s.room()
	switch {
	case room > 0 && !s.urgent && 2*room < s.prefetch && s.offered():
		// The readers have something. More will be claimed at once a little later.
	case len(s.listed) > 0 && room > 0:
		n := min(room, len(s.listed), maxBatch)
		places := slices.Clone(s.listed[:n])
		if s.listed = s.listed[n:]; len(s.listed) == 0 {
			s.follow = turn{} // there may be more
			s.rivals = false
		}
		s.do(read{s.ask(reading), places})
	case s.follow != turn{}: // nothing has changed
	case room > 0 && len(s.listed) == 0, s.urgent:
		want := max(room, 1)
		if s.rivals {
			want = max(want, min(spread*s.prefetch, bucketSize))
		}
		s.do(look{s.ask(looking_), want})
	}
}

// spread is how many times as many items as they prefetch rivals list, and a bucket at most.
const spread = 16

// lost notes that another consumer has items that were listed. What else was listed may be old too.
func (s *step) lost() {
	s.rivals = true
	s.listed, s.follow = nil, turn{}
}

// scatter begins at a place by chance among those that are alike, so that rivals do not read the same items and claim
// them in vain. The places before it come last.
func (s *step) scatter() {
	alike := slices.IndexFunc(s.listed, func(p place) bool {
		return p.bucket.priority != s.listed[0].bucket.priority || p.bucket.after != s.listed[0].bucket.after
	})
	if alike < 0 {
		alike = len(s.listed)
	}
	if alike < 2 {
		return
	}
	const odd = 0x9e3779b97f4a7c15 // Fibonacci hashing
	s.chance++
	at := int(s.chance * odd >> 1 % uint64(alike))
	s.listed = slices.Concat(s.listed[at:alike], s.listed[:at], s.listed[alike:])
}

// room returns how many more items the consumer wants. An item that is more urgent than all that are
// offered has room.
func (s *step) room() int {
	room := s.prefetch - len(s.held)
	if room > 0 || !s.urgent || len(s.listed) == 0 {
		return room
	}
	most, offered := int32(0), false
	for _, h := range s.held {
		if !h.taken && !h.leaving && (!offered || h.place.bucket.priority < most) {
			most, offered = h.place.bucket.priority, true
		}
	}
	if offered && s.listed[0].bucket.priority < most || !offered && s.taken() < s.prefetch {
		return 1
	}
	return 0
}

// offered reports whether there are items that no reader has received.
func (s *step) offered() bool {
	return slices.ContainsFunc(s.held, func(h held) bool { return !h.taken && !h.leaving && !h.wanted })
}

func (s *step) taken() (n int) {
	for _, h := range s.held {
		if h.taken {
			n++
		}
	}
	return n
}

// failed goes on after an error. It reports whether there was one.
func (s *step) failed(err error) bool {
	switch {
	case err == nil:
		return false
	case session.Over(err) || session.Passing(err):
		s.listed, s.follow = nil, turn{} // what was listed may still be there
	default:
		s.phase = resting
		s.leave(err)
	}
	return true
}

func (s *step) looked(in looked) {
	s.phase = resting
	if s.failed(in.err) {
		return
	}
	s.listed = slices.DeleteFunc(slices.Clone(in.view.places), func(p place) bool {
		return slices.ContainsFunc(s.graves, func(q settling) bool { return q.place == p })
	})
	if s.rivals = s.rivals && len(s.listed) > 0; s.rivals {
		s.scatter()
	}
	if len(s.listed) == 0 || s.urgent {
		s.follow = s.ask(resting)
		others := slices.ContainsFunc(in.view.left, func(p place) bool {
			return !slices.ContainsFunc(s.held, func(h held) bool { return h.place == p })
		})
		s.do(follow{s.follow, in.view, others, s.took || len(s.listed) > 0})
		s.inLine, s.took = true, false
	}
}

// got claims what was read, or moves it to the dead letters.
func (s *step) got(in got) {
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
		if s.limit > 0 && c.attempt >= s.limit {
			s.bury(settling{claimed: c, how: takeBack})
			continue
		}
		items = append(items, c)
	}
	if len(items) > 0 {
		s.do(claim{s.ask(claiming), items})
		s.wanted(items)
	}
}

// wanted holds items from the moment at which the claims go out, so that the answer need only confirm them.
func (s *step) wanted(items []claimed) {
	for _, c := range items {
		s.held = append(s.held, held{claimed: c.next(), wanted: true})
	}
}

// claimed offers what was claimed.
func (s *step) claimed(in claims) {
	s.phase = resting
	if in.err != nil {
		s.held = slices.DeleteFunc(s.held, func(h held) bool { return h.wanted })
		s.listed, s.follow = nil, turn{}
		var no *refusal
		if errors.As(in.err, &no) && isAny(in.err, session.ErrNodeExists, session.ErrNoNode, session.ErrBadVersion) {
			s.lost()
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
	if s.leaving {
		s.giveBack()
		return
	}
	s.took = true
	s.do(offer{fresh})
}

// bury moves an item to the dead letters.
func (s *step) bury(q settling) {
	s.graves = append(slices.Clone(s.graves), q)
	s.do(bury{s.turn.epoch, q})
}

func (s *step) settle(q settling) {
	i := s.find(q.claimed)
	if i < 0 || s.held[i].leaving || s.held[i].wanted {
		s.do(answer{q.reply, ErrNotClaimed})
		return
	}
	h := &s.held[i]
	h.leaving = true
	if q.how == reject && s.limit > 0 && q.attempt >= s.limit {
		s.bury(q)
		return
	}
	s.queue = append(s.queue, q)
}

// settled answers those who asked. After the refusal of one the others go again.
func (s *step) settled(err error) {
	under := s.under
	s.under = nil
	stays := false // claimed
	var no *refusal
	switch {
	case errors.As(err, &no):
		i := no.index / 2
		if no.index%2 == 1 && errors.Is(err, session.ErrNoNode) { // somebody has deleted the item, and not its claim
			s.do(sweep{s.turn.epoch, under[i].place})
		}
		s.queue = slices.Concat(under[:i], under[i+1:], s.queue)
		under = under[i : i+1]
		if isAny(err, session.ErrNoNode, session.ErrBadVersion) {
			err = fmt.Errorf("%w: %w", ErrNotClaimed, err)
		} else {
			stays = !s.leaving
		}
	case session.Over(err) && !session.InDoubt(err):
		err = fmt.Errorf("%w: %w", ErrNotClaimed, err)
	}
	for _, u := range under {
		if i := s.find(u.claimed); i >= 0 && stays {
			s.held[i].leaving = false
		} else {
			s.forget(u.claimed)
		}
		s.do(answer{u.reply, err})
		if u.how != acknowledge {
			s.follow = turn{} // it is there again
		}
	}
	if s.turn.epoch == 0 { // the session is over, and so are the claims
		for _, q := range s.queue {
			s.do(answer{q.reply, fmt.Errorf("%w: %w", ErrNotClaimed, session.ErrExpired)})
		}
		s.queue = nil
	}
}

func (s *step) forget(c claimed) {
	if i := s.find(c); i >= 0 {
		s.held = slices.Delete(s.held, i, i+1)
	}
}

func (s *step) buried(in buried) {
	s.graves = slices.DeleteFunc(slices.Clone(s.graves), func(q settling) bool { return q.place == in.place && q.version == in.version })
	fails := false // and the consumer ends
	var no *refusal
	err := in.err
	switch {
	case err == nil:
		s.emit(Buried{in.place.id()})
	case errors.As(err, &no) && isAny(err, session.ErrNoNode, session.ErrBadVersion, session.ErrNodeExists):
		if in.how == reject && no.index == 1 && errors.Is(err, session.ErrNoNode) { // as in settled
			s.do(sweep{s.turn.epoch, in.place})
		}
		err = fmt.Errorf("%w: %w", ErrNotClaimed, err)
	case session.InDoubt(err):
	case session.Over(err):
		err = fmt.Errorf("%w: %w", ErrNotClaimed, err)
	default:
		fails = true
	}
	if i := s.find(in.claimed); i >= 0 && fails {
		s.held[i].leaving = false // it goes back
	} else {
		s.forget(in.claimed)
	}
	if err != nil {
		s.follow = turn{} // it may be there yet
	}
	s.do(answer{in.reply, err})
	switch {
	case fails && s.leaving:
		s.giveBack()
	case fails:
		s.leave(err)
	}
}
