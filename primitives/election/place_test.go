package election

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/contender"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// This file has what the place of a candidate may be told: by the performer that runs in
// production, over a server that gives each answer that there is.

// sessionID is the id of the candidate's session.
const sessionID = 9

// ahead is another candidate, which came first.
const ahead = "_c_ahead-n_0000000001"

// An outcome is what the server answers.
type outcome struct {
	err   error
	alone bool  // no other candidate is ahead
	taken bool  // another candidate leads
	zxid  int64 // of the claim
}

// outcomes are all of them.
func outcomes(zxid int64) []outcome {
	return []outcome{
		{alone: true, zxid: zxid}, {taken: true}, {err: errUnknown}, {err: session.ErrNoAuth}, {err: session.ErrSessionFull},
	}
}

// news are the events of a session.
func news(epoch int) []line.Input {
	return []line.Input{
		hears(session.Connected{Epoch: 1, ID: sessionID}), hears(session.Suspended{}), hears(session.Resumed{}),
		hears(session.Expired{Epoch: epoch}), hears(session.Closed{}),
	}
}

// hears returns what a place is told of an event of the session.
func hears(ev session.Event) (in line.Input) {
	s := &scripted{}
	p := contender.NewPerformer(s, &contender.Recipe{})
	p.Begin(func(told line.Input) { in = told }, nil)
	s.tell(ev)
	p.End()
	return in
}

// answers returns what the performer tells about the effect if that has the outcome, given the name
// of the candidate's node, and the name that it has then.
func answers(e line.Effect, o outcome, own string) (ins []line.Input, node string) {
	s := &scripted{server: server{own: own, outcome: o}}
	p := contender.NewPerformer(s, &contender.Recipe{
		Dir: "/e/candidates", Rule: Standard.rule("/e/successors"),
		Claim: decided{outcome: o},
	})
	p.Perform(e, func(in line.Input) { ins = append(ins, in) })
	p.End()
	return ins, s.server.own
}

// A decided claim has the outcome.
type decided struct {
	contender.Claim
	outcome
}

func (d decided) Take(_ client.Async, _ string, _ bool, answer func(int64, bool, error)) {
	answer(d.zxid, d.taken, d.err)
}

func (decided) Claimed(string) string { return "/e/leader" }

func (decided) Withdraw(requests client.Async, node, prefix string, answer func(error)) {
	if node == "" {
		requests.WithdrawAll("/e/candidates", prefix, answer)
		return
	}
	requests.Withdraw("/e/candidates/"+node, answer)
}

// placeAlphabet returns what can be told to a place in the epoch that has asked for the effects,
// possible or not. A claim succeeds at the zxid.
func placeAlphabet(epoch int, asked []line.Effect, zxid int64) []line.Input {
	ins, told, own := news(epoch), map[string]bool{}, ""
	for _, e := range asked {
		for _, o := range outcomes(zxid) {
			var all []line.Input
			all, own = answers(e, o, own)
			for _, in := range all {
				if key := fmt.Sprintf("%T%+v", in, in); !told[key] {
					told[key] = true
					ins = append(ins, in)
				}
			}
		}
	}
	return ins
}

// What a place is told in the first attempt, in which a claim succeeds at the zxid 10.
const (
	connects = iota
	suspends
	resumes
	expires
	closes
	joinsAlone
	joinsBehind
	claims
	taken
	nodeGone
	claimGone
)

// told returns an input of the first attempt.
func told(what int) line.Input {
	if what <= closes {
		return news(1)[what]
	}
	m := newMachine().place
	step := func(in line.Input) (do []line.Effect) {
		var did line.Effects
		m = m.Step(in, &did)
		return did.Do
	}
	alone, behind := outcome{alone: true, zxid: 10}, outcome{taken: true}
	last := func(e line.Effect, o outcome) line.Input {
		all, _ := answers(e, o, m.Node())
		return all[len(all)-1]
	}
	create := step(told(connects))[0]
	switch what {
	case joinsAlone:
		return last(create, alone)
	case joinsBehind:
		return last(create, behind)
	}
	joined := step(last(create, alone)) // to claim, and to watch our node
	switch what {
	case claims:
		return last(joined[0], alone)
	case taken:
		return last(joined[0], behind)
	case nodeGone:
		return last(joined[1], alone)
	}
	return last(step(last(joined[0], alone))[0], alone)
}

// asks adds what the place has asked for in a step to what it had before. What is long ago is
// answered.
func asks(asked []line.Effect, did []effect) []line.Effect {
	const most = 10
	asked = slices.Clone(asked)
	for _, e := range did {
		if in, ok := e.(inPlace); ok && !slices.Contains(asked, in.Effect) {
			asked = append(asked, in.Effect)
		}
	}
	return asked[max(0, len(asked)-most):]
}

// A scripted session has the requests of a server.
type scripted struct {
	client.Session
	server server
	tell   func(session.Event) (settled <-chan struct{})
	kept   int // subscriptions and reliances that have not ended
}

func (s *scripted) Sharing(int) client.Async { return &s.server }
func (s *scripted) Rely(n int32)             { s.kept += int(n) }
func (s *scripted) SetWarm(string, bool)     {}
func (s *scripted) Warm(string) bool         { return false }
func (s *scripted) Age() time.Duration       { return 0 }
func (s *scripted) Observer() session.Observer {
	return session.NopObserver{}
}

func (s *scripted) keep() (end func()) {
	s.kept++
	return func() { s.kept-- }
}

func (s *scripted) Subscribe(tell func(session.Event) (settled <-chan struct{})) (cancel func()) {
	s.tell = tell
	return s.keep()
}

// A server answers every request at once.
type server struct {
	client.Async
	outcome
	own string // the name of the candidate's node
}

func (s *server) Create(path string, _ []byte, _ session.CreateMode, answer func(string, error)) {
	path += "0000000005"
	if s.err == nil {
		_, s.own = znode.Split(path)
	}
	answer(path, s.err)
}

func (s *server) Share(ops []session.Op, answer func([]session.OpResult, error)) {
	if s.err != nil {
		answer(nil, s.err)
		return
	}
	path := ops[0].Path() + "0000000005"
	_, s.own = znode.Split(path)
	children := 2
	if s.alone {
		children = 1
	}
	answer([]session.OpResult{{Path: path}, {Stat: &session.Stat{Mzxid: 7, NumChildren: int32(children)}}}, nil)
}

func (s *server) Children(_ string, answer func([]string, *session.Stat, error)) {
	names := []string{ahead, s.own}
	if s.alone {
		names = names[1:]
	}
	answer(names, &session.Stat{}, s.err)
}

func (s *server) EnsurePath(_ string, answer func(bool, error)) { answer(true, s.err) }

func (s *server) Exists(_ string, answer func(*session.Stat, error)) {
	answer(&session.Stat{}, s.err)
}

func (s *server) Withdraw(_ string, answer func(error))       { answer(nil) }
func (s *server) WithdrawAll(_, _ string, answer func(error)) { answer(nil) }

// Follow tells that the node stands, and then that it is gone.
func (s *server) Follow(_ string, _ session.Aspect, _ bool, tell func(session.Reading, error)) client.Subscription {
	tell(session.Reading{Stat: &session.Stat{Czxid: 7, EphemeralOwner: sessionID}}, s.err)
	if s.err == nil {
		tell(session.Reading{}, session.ErrNoNode)
	}
	return over{}
}

// over is a subscription to what has gone.
type over struct{}

func (over) Cancel()         {}
func (over) Over() bool      { return true }
func (over) Unsettled() bool { return false }

// newPerformer returns a candidate without an actor, and its session.
func newPerformer() (*Candidate, *scripted) {
	s := &scripted{}
	return newCandidate(s, campaignPath, (&Options{Data: []byte{}}).withDefaults(), id), s
}

// TestEndOfPlace: nothing of a candidate that has left stays with the session.
func TestEndOfPlace(t *testing.T) {
	c, s := newPerformer()
	c.line.Begin(func(line.Input) {}, nil)
	check.AtLeast(t, s.kept, 1, "what the session keeps of a candidate")
	c.observe(machine{ended: true}, []Event{Left{}})
	check.Equal(t, s.kept, 0, "what it keeps after the end")
}

// TestWorkBesideTheTerm: a function whose term is over does not begin, and the place does not wait
// for it. When its term is over, the end of its context is no news.
func TestWorkBesideTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newPerformer()
		var told []input
		c.tell = func(in input) { told = append(told, in) }
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		calls := 0
		expect := func(called int) {
			t.Helper()
			again, err := c.work(ctx, 7, returned{}, func(context.Context, int64) error {
				calls++
				c.end(ErrDeposed)
				return nil
			})
			check.True(t, again && err == nil, "%v, %v", again, err)
			check.Equal(t, calls, called, "calls of the function")
		}
		expect(0)
		check.True(t, slices.Equal(told, []input{returned{}}), "before the term: told %v", told)
		c.now.term = 7
		expect(1)
		check.True(t, slices.Equal(told, []input{returned{}, returned{}}), "after the term: told %v", told)
		cancel()
		synctest.Wait()
		check.Len(t, told, 2, "inputs")
	})
}
