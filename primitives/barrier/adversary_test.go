package barrier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
)

// An adversary gives a party any answers, also those that no server of the models gives: refusals
// for good, and nodes of other recipes.
type adversary struct {
	*testing.T
	rand  *rand.Rand
	mild  bool                                        // most requests succeed, and readings are rare
	ask   func(in func(actors.Reply[error]) input)    // calls in with a reply that is new
	give  func(in func(actors.Reply[struct{}]) input) // likewise
	m     machine
	trace []string

	epoch   int      // of the session; 0 between two
	epochs  int      // so far
	over    bool     // an answer has said that the session is over
	asked   *request // without an answer
	czxid   int64
	zxid    int64
	version int32

	calls   []actors.Reply[error]          // each Enter and Leave
	entered actors.Reply[error]            // the newest Enter
	owed    map[actors.Reply[error]]int    // answers so far
	acks    map[actors.Reply[struct{}]]int // likewise
	cancels map[actors.Reply[struct{}]]actors.Reply[error]
	events  strings.Builder
}

func (a *adversary) fail(format string, args ...any) {
	a.Helper()
	a.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(a.trace[max(0, len(a.trace)-60):], "\n"))
}

// input has the machine take an input, and notes what it does.
func (a *adversary) input(in input) {
	a.Helper()
	var out effects
	before := a.m
	a.m = a.m.Step(in, &out)
	a.trace = append(a.trace, fmt.Sprintf("%T%+v\n  -> %v", in, in, a.m))
	if before.Ended() && len(out.Do)+len(out.Emit) > 0 {
		a.fail("it acts after its end")
	}
	for _, e := range out.Do {
		a.trace = append(a.trace, fmt.Sprintf("    %T%+v", e, e))
		switch e := e.(type) {
		case request:
			if a.asked != nil || e.epoch != a.epoch || a.over {
				a.fail("it asks in epoch %d, while %+v has no answer", a.epoch, a.asked)
			}
			a.asked = &e
		case answer:
			if a.owed[e.reply]++; a.owed[e.reply] > 1 || !slices.Contains(a.calls, e.reply) {
				a.fail("answer %d", a.owed[e.reply])
			}
		case confirm:
			if a.acks[e.reply]++; a.acks[e.reply] > 1 || a.owed[a.cancels[e.reply]] == 0 {
				a.fail("confirmation %d of a call with %d answers", a.acks[e.reply], a.owed[a.cancels[e.reply]])
			}
		case follow, unfollow, guard, unguard, await, unawait, wait, readLater, abandon:
		}
	}
	for _, ev := range out.Emit {
		a.trace = append(a.trace, fmt.Sprintf("        %T%+v", ev, ev))
		name := strings.TrimPrefix(fmt.Sprintf("%T;", ev), "barrier.")
		a.events.WriteString(name)
	}
}

// command gives the machine a command whose reply is new.
func (a *adversary) command(in func(actors.Reply[error]) input) {
	a.Helper()
	var reply actors.Reply[error]
	a.ask(func(r actors.Reply[error]) input {
		reply = r
		return tick{}
	})
	a.calls = append(a.calls, reply)
	a.input(in(reply))
}

func (a *adversary) enter() {
	a.Helper()
	a.command(func(r actors.Reply[error]) input {
		a.entered = r
		return enter{r}
	})
}

func (a *adversary) leave() {
	a.Helper()
	a.command(func(r actors.Reply[error]) input { return leave{r} })
}

// cancel cancels the newest Enter, which may have its answer.
func (a *adversary) cancel() {
	a.Helper()
	if a.entered == (actors.Reply[error]{}) {
		return
	}
	in := cancel{what: a.entered}
	a.give(func(r actors.Reply[struct{}]) input {
		in.reply = r
		return tick{}
	})
	a.cancels[in.reply] = in.what
	a.input(in)
}

var anyErrors = []error{
	nil, nil, nil, session.ErrNoNode, session.ErrNodeExists, session.ErrBadVersion, session.ErrNotEmpty, session.ErrNoAuth, session.ErrTooLarge,
	session.ErrDisconnected, session.ErrBusy, errors.Join(session.ErrUnknownOutcome, session.ErrDisconnected), session.ErrExpired,
}

func (a *adversary) err() error {
	if a.mild && a.rand.IntN(6) > 0 {
		return nil
	}
	return anyErrors[a.rand.IntN(len(anyErrors))]
}

func (a *adversary) names() []string {
	all := []string{"0000000001-x-1-b", "0000000001-y-2-c", "0000000002-x-3-b"}[:a.rand.IntN(4)]
	if a.m.name != "" && a.rand.IntN(4) > 0 {
		all = append(all, a.m.name)
	}
	return all
}

// sight reads a record: of another czxid now and then, of a round before or after ours, with us or
// without.
func (a *adversary) sight() sight {
	a.zxid++
	switch a.rand.IntN(12) {
	case 0:
		a.czxid, a.version = a.zxid, 0
	case 1:
		return sight{zxid: a.zxid}
	case 2, 3, 4:
		a.version++
	}
	round := max(0, a.m.node+a.rand.IntN(3)-2)
	s := sight{
		zxid: a.zxid, czxid: a.czxid, version: a.version, fresh: a.rand.IntN(8) == 0, nodes: a.rand.IntN(4),
		book: book{Round: round, Parties: 2, Members: a.names()},
	}
	switch a.rand.IntN(12) {
	case 0:
		s.bad = ErrLayout
	case 1:
		s.book.Parties = 3
	}
	if s.fresh {
		s.book = book{}
	}
	return s
}

// reply answers the request under way.
func (a *adversary) reply(err error) {
	a.Helper()
	r := *a.asked
	a.asked = nil
	in := answered{
		requestID: r.requestID, err: err, settled: a.rand.IntN(2) == 0, at: culprit(a.rand.IntN(int(party) + 1)), count: a.rand.IntN(6),
		czxid: a.rand.Int64N(a.zxid + 1), names: a.names(),
	}
	switch r.step {
	case rereading:
		in.read = a.sight()
	case inspecting:
		in.names = []string{"1", "2", "foreign"}[:a.rand.IntN(4)]
	case checking:
		if a.rand.IntN(4) == 0 {
			in.bad = ErrLayout
		}
	case looking, shutting:
		if in.count = a.rand.IntN(3); a.rand.IntN(3) == 0 {
			in.foreign = "foreign"
		}
		if r.step == looking && a.rand.IntN(3) == 0 {
			in.ownerless = a.names()
		}
	case starting:
		switch a.rand.IntN(4) {
		case 0:
			in.at, in.err = earlier, session.ErrNodeExists
		case 1:
			in.at, in.err = other, session.ErrNodeExists
		}
	case listing:
		in.met = []string{"a", "b", "c"}[:a.rand.IntN(4)]
	case idle, ensuring, opening, entering, retiring, exiting, syncing:
	}
	a.over = errors.Is(in.err, session.ErrExpired)
	a.input(in)
}

// move does one of the things that can happen.
func (a *adversary) move() {
	a.Helper()
	switch n := a.rand.IntN(24); {
	case a.epoch == 0 || a.over && n < 12:
		a.session()
	case a.asked != nil && n < 12:
		a.reply(a.err())
	case a.m.stage == resting && n < 12:
		a.enter()
	case a.m.stage == inside && n < 6:
		a.leave()
	case n < 16 && (!a.mild || a.m.sight.n == 0 || n == 12):
		a.input(saw{a.epoch, a.sight()})
	case n == 16:
		a.input(blind{a.epoch, a.err()})
	case n == 17:
		a.input(lost{a.epoch, a.m.name, []error{session.ErrNoNode, session.ErrNoAuth}[a.rand.IntN(2)]})
	case n == 18 && a.m.awaited != 0:
		a.input(over{a.epoch, a.m.awaited, a.zxid - 1, a.err()})
	case n == 19:
		a.input(tick{a.m.ticks})
	case n == 20:
		a.enter()
	case n == 21:
		a.leave()
	case n == 22 && a.rand.IntN(2) == 0:
		a.cancel()
	case n == 23 && a.rand.IntN(4) == 0:
		a.session()
	default:
		a.input(heard{session.Resumed{}})
		a.input(due{a.epoch, a.m.sight.n})
	}
}

// session ends the session, or begins the next.
func (a *adversary) session() {
	a.Helper()
	if a.epoch == 0 {
		a.epochs++
		a.epoch, a.over, a.asked = a.epochs, false, nil
		a.input(heard{session.Connected{ID: int64(a.epoch), Epoch: a.epoch, Timeout: time.Second}})
		return
	}
	old := a.epoch
	a.epoch, a.over, a.asked = 0, false, nil
	a.input(heard{session.Expired{Epoch: old}})
}

// TestAnyAnswer plays many stories, whose answers fit nothing: each command is answered once, a
// cancel after its Enter, one request is under way at a time, the events have the grammar, and a
// handle that is closed ends.
func TestAnyAnswer(t *testing.T) {
	asker := actors.Start(machine{}, actors.Role[machine, input, effect, DoubleEvent]{Perform: func(effect, func(input)) {}, Stop: closeHandle{}})
	defer asker.Close()
	nobody, cancel := context.WithCancel(t.Context())
	cancel()
	grammar := regexp.MustCompile(`^((Waiting;)*(Entered;(Leaving;)*(Left|Lost);|Withdrawn;))*(Waiting;)*(Entered;(Leaving;)*)?Closed;$`)
	stories := hasten.Sized(hasten.Usually[uint64](10_000, 1000), 150)
	for i := range stories {
		seed := hasten.Seed() + i
		a := &adversary{
			T: t, rand: rand.New(rand.NewPCG(seed, 1)), m: newMachine("a1b2c3d4", "a", 2), zxid: 3, czxid: 1,
			owed: map[actors.Reply[error]]int{}, acks: map[actors.Reply[struct{}]]int{}, cancels: map[actors.Reply[struct{}]]actors.Reply[error]{},
			mild: seed%2 == 0, trace: []string{fmt.Sprint("seed ", seed)},
			ask:  func(in func(actors.Reply[error]) input) { _, _ = actors.Ask(nobody, asker, in) },
			give: func(in func(actors.Reply[struct{}]) input) { _, _ = actors.Ask(nobody, asker, in) },
		}
		for range 200 {
			a.move()
		}
		a.input(closeHandle{})
		for n := seed % 8; n > 0 && !a.m.Ended(); n-- { // commands come also while it closes
			a.move()
		}
		if seed%5 == 0 && !a.m.Ended() {
			a.epoch, a.asked = 0, nil
			a.input(heard{session.Closed{}})
		}
		for n := 0; !a.m.Ended(); n++ {
			switch {
			case n > 20:
				a.fail("it does not end")
			case a.asked != nil:
				a.reply(nil)
			default:
				a.session()
			}
		}
		a.input(tick{})
		for _, reply := range a.calls {
			if a.owed[reply] != 1 {
				a.fail("%d answers to a command", a.owed[reply])
			}
		}
		for ack := range a.cancels {
			if a.acks[ack] != 1 {
				a.fail("%d confirmations of a cancel", a.acks[ack])
			}
		}
		if !grammar.MatchString(a.events.String()) {
			a.fail("events %q", a.events.String())
		}
	}
	t.Logf("%d schedules", stories)
}
