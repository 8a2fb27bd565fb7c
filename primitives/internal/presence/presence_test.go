package presence

import (
	"errors"
	"slices"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/zkmodel"
	"github.com/zkactors/zkactors/session"
)

// run executes what the session has asked for, at most so many requests.
func run(w *zkmodel.World, s int, most int) {
	for serve := (zkmodel.Action{Kind: "serve", I: s}); most > 0; most-- {
		if normal, _ := w.Actions(); !slices.Contains(normal, serve) {
			return
		}
		w.Apply(serve)
	}
}

// TestWithdrawal: what is of the session is removed. It is told whether another node was found in
// its place before the deletion was sent.
func TestWithdrawal(t *testing.T) {
	const all = 100
	other := func(w *zkmodel.World) {
		w.Apply(zkmodel.Action{Kind: "strike", Node: namePath})
		w.Sessions[1].Async(0).Create(namePath, nil, session.Ephemeral, func(string, error) {})
		run(w, 1, all)
	}
	for _, row := range []struct {
		what   string
		before func(w *zkmodel.World, n *Node)
		at     int // after so many requests
		then   func(w *zkmodel.World)
		other  bool
		stands bool
	}{
		{what: "ours"},
		{what: "nothing", before: func(w *zkmodel.World, _ *Node) { w.Apply(zkmodel.Action{Kind: "strike", Node: namePath}) }},
		{what: "another's", before: func(w *zkmodel.World, _ *Node) { other(w) }, other: true, stands: true},
		{what: "kept by a later handle", before: func(_ *zkmodel.World, n *Node) { _ = newNode(n.session, namePath).claim(nil) }, other: true, stands: true},
		{what: "replaced when it has been read", at: 1, then: other, other: true, stands: true},
		{what: "replaced by a newer one when it has been read", at: 1, then: func(w *zkmodel.World) {
			other(w)
			w.SetData(namePath, "theirs")
			w.SetData(namePath, "theirs")
		}, other: true, stands: true},
		{what: "replaced when it has been written to", at: 2, then: other, stands: true},
		{what: "replaced when it has been deleted", at: 3, then: other, stands: true},
		{what: "replaced when the reply to the deletion was lost", at: 3, then: func(w *zkmodel.World) {
			w.Apply(zkmodel.Action{Kind: "cut"})
			run(w, 0, 1)
			w.Sessions[1].Async(0).Create(namePath, nil, session.Ephemeral, func(string, error) {})
			run(w, 1, all)
			w.Apply(zkmodel.Action{Kind: "notice"})
			w.Apply(zkmodel.Action{Kind: "reconnect"})
		}, stands: true},
	} {
		w := zkmodel.New(zkmodel.Faults{Cuts: 1, Strikes: 1}, 2, zkmodel.Node{Path: nameRoot})
		s := w.Sessions[0]
		s.Async(0).Create(namePath, nil, session.Ephemeral, func(string, error) {})
		run(w, 0, all)
		n := newNode(s, namePath)
		if row.before != nil {
			row.before(w, n)
		}
		answers := 0
		n.withdraw(withdraw{session: s.ID()}, func(other bool, err error) {
			answers++
			check.True(t, err == nil && other == row.other, "%s: other=%v, %v", row.what, other, err)
		})
		if row.then != nil {
			run(w, 0, row.at)
			row.then(w)
		}
		run(w, 0, all)
		node := w.Node(namePath)
		check.True(t, answers == 1 && (node != nil) == row.stands, "%s: %d answers, %+v", row.what, answers, node)
	}
}

// TestLookBehindALaggingReplica: a look that is to be certain sees what the leader knows.
func TestLookBehindALaggingReplica(t *testing.T) {
	for _, sync := range []bool{true, false} {
		w := zkmodel.New(zkmodel.Faults{Lags: 1}, 1, zkmodel.Node{Path: nameRoot}, zkmodel.Node{Path: namePath, Data: "old", Czxid: 1})
		n := newNode(w.Sessions[0], namePath)
		w.Apply(zkmodel.Action{Kind: "lag"})
		w.SetData(namePath, "new")
		var seen Sight
		n.look(look{requestID{1, 1}, sync}, func(s Sight, _ error) { seen = s })
		run(w, 0, 2)
		check.True(t, (seen.Data == "new") == sync && seen.Exists, "sync=%v: %+v", sync, seen)
	}
}

// A scripted session answers requests as a test says, at once.
type scripted struct {
	client.Session
	world  *zkmodel.World // whose timers it has
	fits   error
	answer server
	tell   func(session.Event) (settled <-chan struct{})
}

func newScripted(refused ...error) *scripted {
	w := zkmodel.New(zkmodel.Faults{}, 1)
	return &scripted{Session: w.Sessions[0], world: w, answer: server{refused: refused}}
}

func (s *scripted) Fits(...session.Op) error { return s.fits }

func (s *scripted) Async(epoch int) client.Async {
	s.answer.epochs = append(s.answer.epochs, epoch)
	return &s.answer
}

func (s *scripted) Subscribe(tell func(session.Event) (settled <-chan struct{})) (cancel func()) {
	s.tell = tell
	return func() { s.tell = nil }
}

// A server notes what it is asked. It answers at once, but for parents and watches, which the test
// answers.
type server struct {
	client.Async
	epochs  []int
	refused []error // the failures of its answers, in turn: nil, and when none is left, for none
	multis  [][]session.Op
	parents []func(made bool, err error)
	follows []*followed
	gets    int
}

type followed struct {
	client.Subscription
	tell      func(session.Reading, error)
	cancelled bool
}

func (f *followed) Cancel() { f.cancelled = true }

func (s *server) refusal() (err error) {
	if len(s.refused) > 0 {
		err, s.refused = s.refused[0], s.refused[1:]
	}
	return err
}

func (s *server) Multi(ops []session.Op, answer func([]session.OpResult, error)) {
	s.multis = append(s.multis, slices.Clone(ops))
	results := make([]session.OpResult, len(ops))
	err := s.refusal()
	last := &results[len(ops)-1]
	if last.Err = err; err == nil {
		last.Stat = &session.Stat{Czxid: 7, Version: 1}
	}
	answer(results, err)
}

func (s *server) Sync(_ string, answer func(error)) { answer(s.refusal()) }

func (s *server) Get(_ string, answer func([]byte, *session.Stat, error)) {
	s.gets++
	answer(nil, nil, s.refusal())
}

func (s *server) EnsurePath(_ string, answer func(bool, error)) {
	s.parents = append(s.parents, answer)
}

// Roomy and Children are for parents that may belong to another recipe.
func (s *server) Roomy() client.Async { return s }

func (s *server) Children(_ string, answer func([]string, *session.Stat, error)) {
	answer(nil, &session.Stat{}, s.refusal())
}

func (s *server) Follow(_ string, _ session.Aspect, _ bool, tell func(session.Reading, error)) client.Subscription {
	f := &followed{tell: tell}
	s.follows = append(s.follows, f)
	return f
}

// TestCreation: the write that gives the node its version is left out where it cannot be, and the
// answer names the node where the reply does.
func TestCreation(t *testing.T) {
	broken := errors.New("broken")
	for _, row := range []struct {
		what    string
		fits    error
		refused []error
		effect  Effect
		ops     []int // of each transaction
		want    Input
	}{
		{what: "both", effect: create{requestID: requestID{3, 1}}, ops: []int{2}, want: created{requestID{3, 1}, 7, 1}},
		{what: "too large", fits: session.ErrTooLarge, effect: create{requestID: requestID{3, 1}}, ops: []int{1}, want: created{requestID: requestID{3, 1}}},
		{what: "no permission to write", refused: []error{session.ErrNoAuth}, effect: create{requestID: requestID{3, 1}}, ops: []int{2, 1}, want: created{requestID: requestID{3, 1}}},
		{what: "no permission to write, and none to create", refused: []error{session.ErrNoAuth, broken}, effect: create{requestID: requestID{3, 1}}, ops: []int{2, 1}, want: failed{requestID{3, 1}, broken}},
		{what: "refused", refused: []error{broken}, effect: create{requestID: requestID{3, 1}}, ops: []int{2}, want: failed{requestID{3, 1}, broken}},
		{what: "in the place of another", effect: takeOver{requestID: requestID{3, 1}}, ops: []int{3}, want: created{requestID{3, 1}, 7, 1}},
		{what: "in the place of another, no permission to write", refused: []error{session.ErrNoAuth}, effect: takeOver{requestID: requestID{3, 1}}, ops: []int{3, 2}, want: created{requestID: requestID{3, 1}}},
	} {
		s := newScripted(row.refused...)
		s.fits = row.fits
		var told []Input
		newNode(s, namePath).Perform(row.effect, func(in Input) { told = append(told, in) })
		var ops []int
		for i, multi := range s.answer.multis {
			ops = append(ops, len(multi))
			check.Equal(t, s.answer.epochs[i], 3, row.what)
		}
		check.EqualSlices(t, ops, row.ops, row.what)
		check.EqualSlices(t, told, []Input{row.want}, row.what)
	}
}

// TestLookNeedsItsSync: without the sync, what is read proves nothing.
func TestLookNeedsItsSync(t *testing.T) {
	broken := errors.New("broken")
	s := newScripted(broken)
	var told []Input
	newNode(s, namePath).Perform(look{requestID{1, 1}, true}, func(in Input) { told = append(told, in) })
	check.EqualSlices(t, told, []Input{failed{requestID{1, 1}, broken}})
	check.Equal(t, s.answer.gets, 0)
}

// TestBusyAnswersComeLate: the machine repeats at once what a busy server has refused, and must not
// spin.
func TestBusyAnswersComeLate(t *testing.T) {
	s := newScripted(session.ErrBusy)
	var told []Input
	newNode(s, namePath).Perform(look{requestID: requestID{1, 1}}, func(in Input) { told = append(told, in) })
	check.Len(t, told, 0)
	s.world.Apply(zkmodel.Action{Kind: "timer"})
	check.EqualSlices(t, told, []Input{failed{requestID{1, 1}, session.ErrBusy}})
}

// TestFollowing: one watch in each epoch, and none after the end.
func TestFollowing(t *testing.T) {
	s := newScripted()
	n := newNode(s, namePath)
	var told []Input
	follow := func(epoch int) { n.Perform(follow{epoch}, func(in Input) { told = append(told, in) }) }
	follow(1)
	follow(1)
	check.Len(t, s.answer.follows, 1)
	first := s.answer.follows[0]
	follow(2)
	check.Len(t, s.answer.follows, 2)
	second := s.answer.follows[1]
	check.True(t, first.cancelled && !second.cancelled, "the watch of an earlier epoch goes on, or that of this one does not")
	check.EqualSlices(t, s.answer.epochs, []int{1, 2})
	broken := errors.New("broken")
	second.tell(session.Reading{}, nil)
	second.tell(session.Reading{}, broken)
	check.EqualSlices(t, told, []Input{saw{2, Sight{}}, blind{2, broken}})
	n.End()
	check.True(t, second.cancelled, "the watch goes on after the end")
}

// TestSessionWaits: a session that is closed waits until the node was removed, but for nothing
// after the end.
func TestSessionWaits(t *testing.T) {
	s := newScripted()
	n := newNode(s, namePath)
	ended := make(chan struct{})
	var told []Input
	n.Begin(func(in Input) { told = append(told, in) }, ended)
	check.Equal(t, s.tell(session.Closed{}), (<-chan struct{})(ended))
	check.EqualSlices(t, told, []Input{heard{session.Closed{}}})
	n.End()
	check.True(t, s.tell == nil, "the session is followed after the end")
}

// TestParentOfEachEpoch: the answer of one epoch is not for those that wait in another.
func TestParentOfEachEpoch(t *testing.T) {
	s := newScripted()
	n := newNode(s, namePath)
	var told []Input
	ask := func(epoch int) {
		n.Perform(makeParent{requestID{epoch, 1}}, func(in Input) { told = append(told, in) })
	}
	ask(1)
	ask(1)
	ask(2)
	check.Len(t, s.answer.parents, 2) // one for both of the first epoch
	s.answer.parents[1](true, nil)
	check.EqualSlices(t, told, []Input{done{requestID: requestID{2, 1}}})
	s.answer.parents[0](false, session.ErrExpired)
	check.EqualSlices(t, told[1:], []Input{failed{requestID{1, 1}, session.ErrExpired}, failed{requestID{1, 1}, session.ErrExpired}})
	ask(1)
	check.Len(t, s.answer.parents, 3)
}

// TestParentOfAnOwner: a parent that belongs to a recipe is created below a path of no other
// recipe, and only if that path can be read.
func TestParentOfAnOwner(t *testing.T) {
	s := newScripted(nil, session.ErrNoAuth)
	n := newNode(s, namePath)
	n.owner = nodes.OfGroup
	id := requestID{1, 1}
	var told []Input
	ask := func() { n.Perform(makeParent{id}, func(in Input) { told = append(told, in) }) }
	ask()
	check.Require(t, len(s.answer.parents) == 1, "%d parents are created", len(s.answer.parents))
	s.answer.parents[0](true, nil)
	ask()
	check.Len(t, s.answer.parents, 1)
	check.EqualSlices(t, told, []Input{done{requestID: id}, failed{id, session.ErrNoAuth}})
}
