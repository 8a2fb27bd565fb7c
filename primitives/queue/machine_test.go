package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// A partner plays the server, the session and the readers of a machine, by chance, and keeps what
// was asked for.
type partner struct {
	*testing.T
	rand  *rand.Rand
	asker *actors.Actor[input, Event] // where replies come from
	m     machine

	asked     []effect // without an answer
	offered   []*layout.Claimed
	delivered []*layout.Claimed
	late      []*layout.Claimed // that a reader has received, which the machine has not heard yet
	working   map[layout.ClaimID]bool
	settling  map[actors.Reply[error]]*layout.Claimed
	ended     map[layout.ClaimID]bool // whose context has ended
	lost      map[layout.ClaimID]bool // whose context ends with a session
	epoch     int
	connected bool
	ends      bool                        // a refusal may end the consumer
	hang      bool                        // readers never settle what is lost
	replies   map[actors.Reply[error]]int // how many answers each has got
	events    []string
	next      int
	story     []string
	given     *check.Given
}

func (p *partner) fail(format string, args ...any) {
	p.Helper()
	p.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(p.story, "\n"))
}

func (p *partner) input(in input) {
	check.Note(p.given, in)
	p.story = append(p.story, fmt.Sprintf("%T %+v", in, in))
	m, out := p.m.after(in)
	p.m = m
	for _, ev := range out.Emit {
		p.events = append(p.events, strings.Fields(ev.String())[0])
	}
	end := conclusion("") // that was reported just before an answer
	for _, e := range out.Do {
		p.story = append(p.story, fmt.Sprintf("    %T %+v", e, e))
		switch e := e.(type) {
		case received:
			if !p.m.observed {
				p.fail("reported for nobody")
			}
			if id := e.ID(); p.working[id] {
				p.fail("%v is delivered twice", id)
			}
			p.working[e.ID()] = true
		case over:
			if !p.m.observed {
				p.fail("reported for nobody")
			}
			delete(p.working, e.ID())
			end = e.end
			continue
		case offer:
			p.offered = append(p.offered, e.items...)
		case withdraw:
			p.offered = nil
		case answer:
			if e.reply != (actors.Reply[error]{}) {
				if end != "" && (end == lost) != (e.err != nil) || end == "" && e.err == nil && p.m.observed {
					p.fail("reported %q, and answered %v", end, e.err)
				}
				item := p.settling[e.reply]
				p.ended[item.ID()] = p.ended[item.ID()] || e.ends != nil
				stays := slices.ContainsFunc(p.m.held, func(h held) bool { return h.ID() == item.ID() })
				if ended := p.ended[item.ID()]; ended && stays || !ended && !stays && !p.lost[item.ID()] && !p.m.leaving {
					p.fail("the context of %v has ended: %t", item.Place, ended)
				}
				p.replies[e.reply]++
				if p.replies[e.reply] > 1 {
					p.fail("a second answer")
				}
			}
		case quit, sweep, remind: // have no answer
		case look, follow, age, read, claim, recall, conclude, move, rest, grow, try, tick, part, free:
			p.asked = append(p.asked, e)
		}
		end = ""
	}
	held := map[layout.Place]bool{}
	for _, h := range p.m.held {
		if held[h.Place] {
			p.fail("%v is held twice", h.Place)
		}
		held[h.Place] = true
	}
	most := p.m.prefetch
	if p.m.joint { // these are settled by the same transaction
		most += len(p.m.under)
	}
	if len(p.m.held) > most {
		p.fail("%d items are held", len(p.m.held))
	}
	if p.m.follow != (requestID{}) && len(p.m.listed) > 0 {
		p.fail("it waits for a change although items are listed: %v", p.m)
	}
	if m := p.m; m.newest.epoch == 0 && (m.phase != resting || len(m.listed)+len(m.held)+len(m.queue) > 0) {
		p.fail("it has no session: %v", m)
	}
}

// error is how a transaction may fail, of which an operation may be refused.
func (p *partner) error(operations int) error {
	index := p.rand.IntN(operations)
	switch p.rand.IntN(12) {
	case 0:
		return &stock.RefusalError{Index: index, Err: session.ErrNoNode}
	case 1:
		return &stock.RefusalError{Index: index, Err: session.ErrNodeExists}
	case 2:
		return fmt.Errorf("%w: %w", session.ErrUnknownOutcome, session.ErrExpired)
	case 3:
		return session.ErrExpired
	case 4:
		return session.ErrTooLarge
	case 5:
		return &stock.RefusalError{Index: index, Err: session.ErrNoAuth}
	case 6:
		return session.ErrInvalidArgument // it cannot be sent
	}
	return nil
}

// unread is how a request that changes nothing may fail.
func (p *partner) unread() error {
	switch p.rand.IntN(60) {
	case 0:
		return session.ErrDisconnected
	case 1:
		return session.ErrExpired
	case 2:
		if p.ends {
			return session.ErrNoAuth
		}
	}
	return nil
}

// reply answers one question.
func (p *partner) reply(e effect) {
	switch e := e.(type) {
	case look:
		in := looked{requestID: e.requestID, err: p.unread()}
		for range p.rand.IntN(5) {
			p.next++
			in.view.Places = append(in.view.Places, layout.Place{Bucket: layout.Bucket{Priority: int32(p.rand.IntN(3))}, Name: fmt.Sprintf("_c_%036d-queue-0000000000", p.next)})
		}
		p.input(in)
	case follow:
		p.input(changed{e.requestID})
	case read:
		in := got{requestID: e.requestID, err: p.unread()}
		for _, at := range e.places {
			if p.rand.IntN(4) > 0 {
				p.next++
				r := layout.Record{Attempts: p.rand.IntN(3), Tentative: p.rand.IntN(4) == 0}
				in.items = append(in.items, &layout.Claimed{Place: at, Data: make([]byte, p.rand.IntN(100)), Record: r, Version: int32(p.next)})
			}
		}
		p.input(in)
	case claim:
		p.input(claims{e.requestID, p.error(2 * len(e.items))})
	case conclude:
		p.input(settled{p.error(2*(len(e.items)+len(e.claims)) + len(e.items[0].ops))})
	case move:
		p.input(moved{e.settling, p.error(3)})
	case recall:
		i := slices.IndexFunc(p.offered, func(c *layout.Claimed) bool { return c.Place == e.Place })
		if i >= 0 {
			p.offered = slices.Delete(p.offered, i, i+1)
		}
		p.input(recalled{e.Claimed, i >= 0})
	case age:
		p.input(aged{e.requestID})
	case rest:
		p.input(rested{e.place})
	case grow:
		p.input(grown{})
	case try:
		p.input(tried{})
	case tick:
		p.input(ticked{})
	case part:
		p.input(parted{})
	case free:
		p.input(freed{})
	case offer, withdraw, answer, received, over, quit, sweep, remind:
		p.fail("nobody can answer %T", e)
	}
}

// nobodyWaits returns a context that is over.
func nobodyWaits(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// hear has the machine hear of the deliveries.
func (p *partner) hear() {
	for _, item := range p.late {
		p.input(taken{item})
	}
	p.late = nil
}

// move does one thing.
func (p *partner) move() {
	switch k := p.rand.IntN(20); {
	case p.m.Ended():
	case !p.connected && k < 8:
		p.connected = true
		p.epoch++
		p.input(heard{session.Connected{Epoch: p.epoch}})
	case p.connected && k == 0:
		p.connected = false
		for _, item := range p.delivered {
			p.lost[item.ID()] = true
		}
		if p.hang {
			p.delivered = nil
		}
		p.input(heard{session.Expired{Epoch: p.epoch}})
	// Settlements under way at a lapse are in lapse_test.go.
	case p.connected && k == 1 && !p.m.leaving && len(p.m.under)+len(p.m.moves)+len(p.m.queue) == 0:
		p.input(heard{session.Suspended{}})
		for _, item := range p.delivered {
			p.lost[item.ID()] = true
		}
		p.input(heard{session.Lapsed{}})
		p.input(heard{session.Resumed{}})
	case k < 5 && len(p.offered) > 0:
		p.delivered = append(p.delivered, p.offered[0])
		p.late = append(p.late, p.offered[0])
		p.offered = p.offered[1:]
		if k > 1 {
			p.hear()
		}
	case k == 5 && len(p.late) > 0:
		p.hear()
	case k < 10 && len(p.delivered) > 0:
		var reply actors.Reply[error]
		_, _ = actors.Ask(nobodyWaits(p.T), p.asker, func(r actors.Reply[error]) input {
			reply = r
			return changed{}
		})
		p.replies[reply] = 0
		q := settling{Claimed: p.delivered[p.rand.IntN(len(p.delivered))], how: settlement(p.rand.IntN(2)), reply: reply}
		if q.how == reject {
			q.delay = time.Duration(p.rand.IntN(2))
		}
		if q.how == acknowledge && p.rand.IntN(4) == 0 {
			q.ops = []session.Op{session.CheckOp("/", 0)}
		}
		q.delivery = new(delivery)
		p.settling[reply] = q.Claimed
		p.input(settle{q})
	case k == 10 && !p.m.attended:
		p.input(attend{})
	case len(p.asked) > 0:
		i := p.rand.IntN(len(p.asked))
		e := p.asked[i]
		p.asked = append(p.asked[:i:i], p.asked[i+1:]...)
		p.reply(e)
	}
}

// TestChance plays many stories: what is asked is answered once, nothing is held twice, each
// delivery and its end are reported once, there is an end, and the events have the grammar.
func TestChance(t *testing.T) {
	asker := actors.Start(machine{}, actors.Role[machine, input, effect, Event]{Perform: func(effect, func(input)) {}, Stop: leave{}})
	defer asker.Close()
	stories := hasten.Sized(hasten.Usually[uint64](3000, 500), 60)
	var given check.Given
	played := uint64(0)
	for seed := range hasten.Seeds(t, max(stories, 500)) { // as many as it takes until every input was given
		if played++; played > stories && len(given.Missing(t, "input")) == 0 {
			break
		}
		p := &partner{
			T: t, asker: asker, given: &given, ends: seed%11 == 0, hang: seed%2 == 0, rand: rand.New(rand.NewPCG(seed, 1)), replies: map[actors.Reply[error]]int{}, working: map[layout.ClaimID]bool{},
			settling: map[actors.Reply[error]]*layout.Claimed{}, ended: map[layout.ClaimID]bool{}, lost: map[layout.ClaimID]bool{},
			m: machine{observed: seed%8 > 0, settles: seed%9 == 0, prefetch: 1 + int(seed%4), limit: int(seed % 3), urgent: seed%5 == 0, full: int(seed % 2 * 200), most: int(seed % 2 * 200), beside: 20},
		}
		for range 150 {
			p.move()
		}
		if seed%3 == 0 {
			for len(p.late) > 0 { // the shelf is closed before
				p.hear()
			}
			p.input(enough{})
			for range 50 {
				p.move()
			}
			if len(p.offered) > 0 {
				p.fail("offered to nobody: %v", p.offered)
			}
		}
		if seed%7 == 0 {
			p.input(heard{session.Closed{}})
		} else {
			p.input(leave{})
		}
		for range 10000 {
			if p.m.Ended() {
				break
			}
			p.move()
		}
		if !p.m.Ended() {
			p.fail("no end: %v", p.m)
		}
		if len(p.working) > 0 {
			p.fail("no end of %v is reported", p.working)
		}
		for reply, n := range p.replies {
			if n != 1 {
				p.fail("%d answers to %v", n, reply)
			}
		}
		for i, ev := range p.events {
			if last := i == len(p.events)-1; last != strings.HasPrefix(ev, "closed") {
				p.fail("events %q", p.events)
			}
		}
	}
	check.Explored(t, "input", given)
	t.Logf("%d schedules", played)
}

// TestGrammar: the documentation states the one that TestChance checks.
func TestGrammar(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil || !strings.Contains(string(doc), "(Suspended | Resumed | Lost | Buried)* Closed") {
		t.Errorf("doc.go: %v", err)
	}
}

// after is Step with effects of its own.
func (m machine) after(in input) (machine, effects) {
	var out effects
	m = m.Step(in, &out)
	return m, out
}

// connected returns a machine that has a session, and looks for items.
func connected(m machine) machine {
	m, _ = m.after(heard{session.Connected{Epoch: 1}})
	return m
}

// holding returns a machine in a session whose readers have received the items.
func holding(m machine, items ...*layout.Claimed) machine {
	m.newest = requestID{epoch: 1}
	for _, item := range items {
		m.held = append(m.held, held{Claimed: item, taken: true})
	}
	return m
}

// places returns places of the names, of one priority.
func places(names ...string) (all []layout.Place) {
	for _, name := range names {
		all = append(all, layout.Place{Name: name})
	}
	return all
}

// item returns an item that was claimed once.
func item(name string) *layout.Claimed {
	return &layout.Claimed{Place: layout.Place{Name: name}, Version: 1}
}

// does returns the first effect of type E.
func does[E effect](out effects) (e E, is bool) {
	for _, some := range out.Do {
		if e, is = some.(E); is {
			return e, true
		}
	}
	return e, false
}

// TestLostRead: a consumer of a queue with priorities, which watches it all the time, lists it
// again after a read whose reply was lost. Nothing else would change.
func TestLostRead(t *testing.T) {
	m := connected(machine{prefetch: 1, urgent: true})
	m, _ = m.after(looked{requestID: m.newest, view: stock.View{Places: places("x")}})
	check.Equal(t, m.phase, reading)
	m, out := m.after(got{requestID: m.newest, err: session.ErrDisconnected})
	_, looks := does[look](out)
	check.True(t, looks, "%v does %v", m, out.Do)
}

// TestPausedWhileListed: a consumer that learns of a pause claims nothing of its list, and looks
// once more to follow the queue.
func TestPausedWhileListed(t *testing.T) {
	m := connected(machine{prefetch: 1})
	m, _ = m.after(looked{requestID: m.newest, view: stock.View{Places: places("a", "b")}})
	m, _ = m.after(aged{m.list})
	m, _ = m.after(got{requestID: m.newest, items: []*layout.Claimed{{Place: layout.Place{Name: "a"}}}})
	check.Equal(t, m.phase, refreshing)
	paused := stock.View{Paused: true}
	m, out := m.after(looked{requestID: m.newest, view: paused})
	check.True(t, m.phase == looking_ && len(m.listed) == 0 && len(out.Do) == 1, "%v does %v", m, out.Do)
	m, out = m.after(looked{requestID: m.newest, view: paused})
	_, follows := does[follow](out)
	check.True(t, follows && m.phase == resting && len(m.kept) == 0, "%v does %v", m, out.Do)
}

// TestRejectedWhileLooking: a list that is under way when an item goes back may be from before
// that. It is asked for again.
func TestRejectedWhileLooking(t *testing.T) {
	back := item("back")
	m := holding(machine{prefetch: 2}, back)
	m, _ = m.after(settle{settling{Claimed: back, how: reject}})
	check.True(t, m.phase == looking_ && len(m.under) == 1, "%v", m)
	before := m.newest
	m, _ = m.after(settled{})
	m, _ = m.after(looked{requestID: before, view: stock.View{Places: places("later")}})
	check.Equal(t, m.phase, looking_, "it goes on with an old list")
	m, out := m.after(looked{requestID: m.newest, view: stock.View{Places: places("back", "later")}})
	reads, is := does[read](out)
	check.True(t, is && reads.places[0].Name == "back", "%v does %v", m, out.Do)
}

// play answers all that a machine asks for, until it asks for nothing more: all items exist, and
// readers acknowledge them. It returns the items that readers receive, in order.
func play(m machine, out effects) (_ machine, delivered []string) {
	for asked := out.Do; len(asked) > 0; {
		var inputs []input
		if e, is := asked[0].(read); is {
			in := got{requestID: e.requestID}
			for _, p := range e.places {
				in.items = append(in.items, &layout.Claimed{Place: p})
			}
			inputs = append(inputs, in)
		}
		if e, is := asked[0].(claim); is {
			inputs = append(inputs, claims{e.requestID, nil})
		}
		if e, is := asked[0].(offer); is {
			for _, item := range e.items {
				delivered = append(delivered, item.Place.Name)
				inputs = append(inputs, taken{item}, settle{settling{Claimed: item}})
			}
		}
		if _, is := asked[0].(conclude); is {
			inputs = append(inputs, settled{})
		}
		asked = asked[1:]
		for _, in := range inputs {
			m, out = m.after(in)
			asked = append(asked, out.Do...)
		}
	}
	return m, delivered
}

// TestScatter: a consumer with a rival begins anywhere among the most urgent items, and nowhere
// else. Without a backlog it begins at the first again.
func TestScatter(t *testing.T) {
	at := func(priority int32, name string) layout.Place {
		return layout.Place{Bucket: layout.Bucket{Priority: priority}, Name: name}
	}
	there := stock.View{Places: []layout.Place{at(1, "a"), at(1, "b"), at(1, "c"), at(2, "d")}}
	begun := map[string]int{}
	for chance := range uint64(100) {
		m := connected(machine{prefetch: 1, rivalry: layout.Rivalry{Chance: chance}})
		m, out := m.after(looked{requestID: m.newest, view: there})
		reads, is := out.Do[len(out.Do)-1].(read)
		check.Require(t, is && reads.places[0].Name == "a", "it begins with %+v", out.Do)
		m, _ = m.after(got{requestID: m.newest}) // it is gone
		m, out = m.after(looked{requestID: m.newest, view: there})
		m, all := play(m, out)
		begun[all[0]]++
		if slices.Sort(all); !slices.Equal(all, []string{"a", "b", "c", "d"}) {
			t.Errorf("it goes on with %q", all)
		}
		m, _ = m.after(looked{requestID: m.newest})
		m, _ = m.after(changed{m.follow})
		m, out = m.after(looked{requestID: m.newest, view: there})
		if _, all := play(m, out); all[0] != "a" {
			t.Errorf("after there was nothing, it begins at %q", all)
		}
	}
	check.True(t, len(begun) == 3 && min(begun["a"], begun["b"], begun["c"]) >= 20, "it begins at %v", begun)
}

// TestRefusedSettlement: an item whose settlement the server refuses stays claimed, and may be
// settled once more.
func TestRefusedSettlement(t *testing.T) {
	x := item("x")
	m := holding(machine{prefetch: 1}, x)
	m, _ = m.after(settle{settling{Claimed: x, how: acknowledge}})
	m, out := m.after(settled{err: &stock.RefusalError{Index: 0, Err: session.ErrNoAuth}})
	told, is := out.Do[0].(answer)
	check.True(t, is && errors.Is(told.err, session.ErrNoAuth) && !errors.Is(told.err, ErrNotClaimed), "%+v", out.Do)
	m, out = m.after(settle{settling{Claimed: x, how: acknowledge}})
	check.True(t, len(m.under) == 1, "%v does %+v", m, out.Do)
}

// TestRefusedWhileLeaving: a consumer that leaves gives back an item whose reader had operations
// that the server refuses.
func TestRefusedWhileLeaving(t *testing.T) {
	x := item("x")
	m := holding(machine{prefetch: 1}, x)
	m, _ = m.after(settle{settling{Claimed: x, ops: []session.Op{session.DeleteOp("/nowhere", 0)}}})
	m, _ = m.after(leave{})
	m, out := m.after(settled{err: &stock.RefusalError{Index: 2, Err: session.ErrNoNode}})
	told, is := out.Do[0].(answer)
	check.True(t, is && errors.Is(told.err, session.ErrNoNode) && !errors.Is(told.err, ErrNotClaimed), "%+v", out.Do)
	back, is := out.Do[1].(conclude)
	check.True(t, is && len(out.Do) == 2 && back.items[0].Place == x.Place && back.items[0].how == reject, "%+v", out.Do)
	m, out = m.after(settled{})
	check.True(t, m.parting && !m.Ended() && slices.Contains(out.Do, effect(part{})), "%+v", out.Do)
}

// TestSettledAfterTheSession: settlements that were not done, and whose answer comes after the end
// of the session, are not tried again. The consumer need not wait for another session to end.
func TestSettledAfterTheSession(t *testing.T) {
	for _, err := range []error{session.ErrTooLarge, &stock.RefusalError{Index: 2, Err: session.ErrNoAuth}} {
		m := holding(machine{prefetch: 3, done: true}, item("0"), item("1"), item("2"))
		for _, h := range slices.Clone(m.held) {
			m, _ = m.after(settle{settling{Claimed: h.Claimed}})
		}
		m, _ = m.after(settled{})
		check.True(t, len(m.under) == 2 && len(m.queue) == 0, "%v", m)
		m, _ = m.after(heard{session.Expired{Epoch: 1}})
		m, out := m.after(settled{err})
		for _, e := range out.Do {
			if told, is := e.(answer); is {
				check.True(t, errors.Is(told.err, ErrNotClaimed) && !session.InDoubt(told.err), "%v", told.err)
			}
		}
		m, _ = m.after(leave{})
		check.True(t, len(out.Do) == 2 && m.Ended(), "%v does %v", m, out.Do)
	}
}

// TestRefusedTakeBack: an offered item that a more urgent one was to replace is offered again if
// the server refuses to take it back, and is not exchanged any more.
func TestRefusedTakeBack(t *testing.T) {
	x, urgent := item("x"), item("y")
	x.Place.Bucket.Priority, urgent.Version = 5, 0
	m := machine{prefetch: 1, urgent: true, held: []held{{Claimed: x}}, listed: []layout.Place{urgent.Place}, kept: []*layout.Claimed{urgent}}
	m.newest = requestID{epoch: 1}
	m, out := m.after(attend{})
	recalls, is := out.Do[0].(recall)
	check.Require(t, is && recalls.Place == x.Place, "%+v", out.Do)
	m, out = m.after(grown{})
	check.Len(t, out.Do, 0, "effects while it is recalled")
	m, out = m.after(recalled{x, true})
	settles, is := out.Do[0].(conclude)
	check.Require(t, is && settles.items[0].how == takeBack, "%+v", out.Do)
	m, out = m.after(settled{err: &stock.RefusalError{Index: 0, Err: session.ErrNoAuth}})
	again, is := out.Do[0].(offer)
	check.Require(t, is && again.items[0].Place == x.Place && !m.recalls, "%v does %+v", m, out.Do)
	m, _ = m.after(taken{x})
	check.True(t, m.held[0].taken, "%+v", m.held)
}

// TestAsidesAreForgotten: an item that was set aside, and is settled by another consumer, takes no
// room for ever.
func TestAsidesAreForgotten(t *testing.T) {
	x := item("x")
	x.Ephemeral = true
	m := machine{prefetch: 1, held: []held{{Claimed: x, taken: true}}}
	m, out := m.after(settle{settling{Claimed: x, how: reject, delay: time.Hour}})
	rests := func() bool { _, is := does[rest](out); return is }
	check.True(t, rests() && len(m.asides) == 1, "%v", out.Do)
	m, out = m.after(rested{x.Place})
	check.True(t, rests() && len(m.asides) == 1 && m.asides[0].due, "%v", out.Do)
	m, out = m.after(rested{x.Place})
	check.True(t, !rests() && len(m.asides) == 0, "%v", out.Do)
}

// TestLimitsGrowAgain: servers that took small requests only may have been replaced.
func TestLimitsGrowAgain(t *testing.T) {
	m := machine{prefetch: 1, full: 1000, most: 1000}
	s := &turn{machine: m, effects: &effects{}}
	s.shrink([]*layout.Claimed{{Data: make([]byte, 600)}})
	s.shrink([]*layout.Claimed{{Data: make([]byte, 500)}})
	check.Equal(t, len(s.Do), 1)
	m = s.machine
	check.Equal(t, m.most, 250)
	var out effects
	for _, want := range []int{500, 1000} {
		m, out = m.after(grown{})
		check.Equal(t, m.most, want)
	}
	check.True(t, !m.grows && len(out.Do) == 0, "%v", out.Do)
}

// TestSettlementsTooLarge: settlements that are too large together go again, fewer at a time. Items
// of a claim that is too large are the first ones again.
func TestSettlementsTooLarge(t *testing.T) {
	m := machine{prefetch: 2, full: 1000, most: 1000, done: true}
	m.newest = requestID{epoch: 1}
	for i := range 2 {
		x := item(fmt.Sprint(i))
		x.Data = make([]byte, 300)
		m.held = append(m.held, held{Claimed: x, taken: true, leaving: true})
		m.under = append(m.under, settling{Claimed: x})
	}
	m, out := m.after(settled{err: session.ErrTooLarge})
	check.Equal(t, m.most, 300, "bytes of one transaction")
	last, is := out.Do[len(out.Do)-1].(conclude)
	check.True(t, is && len(last.items) > 0, "%+v", out.Do)

	s := &turn{machine: machine{listed: places("c"), held: []held{{Claimed: item("a"), wanted: true}, {Claimed: item("b"), wanted: true}}}, effects: &effects{}}
	s.unhold(true)
	check.EqualSlices(t, s.listed, places("a", "b", "c"), "listed")
}

// TestNoteOfAClaimedItem: a consumer with an old list reads an item that another has claimed, and
// whose attempts are used up by that. If it cannot be moved, the reason is not written: the item
// has the version that the claim has given it.
func TestNoteOfAClaimedItem(t *testing.T) {
	b := &base{}
	b.at.Path = "/q"
	ops := b.settleOps(settling{Claimed: item("_c_00000000-0000-0000-0000-000000000000-item-0000000000"), how: note})
	check.True(t, len(ops) == 3 && b.at.IsClaim(ops[0]) && b.at.IsClaim(ops[1]), "%v", ops)
	check.True(t, alone(settling{how: note}), "it goes with others")
}

// TestLateDelivery: a reader receives an item while the session ends, so that the consumer learns
// of it later. The reader counts as busy, unless it has settled the item by then.
func TestLateDelivery(t *testing.T) {
	item := &layout.Claimed{Place: layout.Place{Name: "_c_x-queue-0000000000"}, Version: 1}
	for _, settles := range []bool{false, true} {
		m := machine{prefetch: 1, readers: 1, attended: true, newest: requestID{1, 1}, held: []held{{Claimed: item}}}
		inputs := []input{heard{session.Expired{}}, taken{item}, heard{session.Connected{Epoch: 2}}}
		want := 1
		if settles {
			inputs, want = slices.Insert(inputs, 1, input(settle{settling{Claimed: item}})), 0
		}
		for _, in := range inputs {
			m = m.Step(in, new(effects))
		}
		check.Len(t, m.strays, want)
	}
}
