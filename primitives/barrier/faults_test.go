package barrier_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A question is what may become of a request.
type question string

const (
	replyLost     question = "reply lost"
	requestLost   question = "request lost"
	contextEnded  question = "context ended"
	expiredUndone question = "session expired, not done"
	expiredDone   question = "session expired, done"
	nodesGone     question = "nodes gone"
	busy          question = "refused: busy"
	forbidden     question = "refused: no right"
)

// A scene is what a command is called in: the first session calls, and others are elsewhere.
type scene struct {
	*testing.T
	srv   *zktest.Server
	s     []*session.Session
	b     []*barrier.Barrier // one in each session
	d     []*barrier.Double
	gate  *barrier.Gate
	calls []<-chan error // of others
	stood bool           // a barrier, when the command was called
}

// A command is a row of the table.
type command struct {
	requests string // that the first session makes, when nothing goes wrong
	before   func(*scene)
	call     func(context.Context, *scene) error
	then     func(*scene) // what others do when the call is under way
	want     error        // when nothing goes wrong
	expired  error        // when the session expires while the call waits
	gone     []error      // when all nodes are deleted while the call waits, beside want
	stands   bool         // whether a barrier stands when the call has returned what it wants
	double   bool
	leaves   bool // of a double barrier, and does not enter
	lifted   bool // whether the barrier is lifted, however the call ends
}

func commands() map[string]command {
	raised := func(c *scene) { check.Must(c.T, c.b[1].Raise(c.Context())) }
	raise := func(ctx context.Context, c *scene) error { return c.b[0].Raise(ctx) }
	wait := func(ctx context.Context, c *scene) error { return c.b[0].Wait(ctx) }
	try := func(ctx context.Context, c *scene) (err error) {
		c.gate, err = c.b[0].TryRaise(ctx)
		return err
	}
	gated := func(c *scene) { check.Must(c.T, try(c.Context(), c)) }
	enter := func(ctx context.Context, c *scene) error { return c.d[0].Enter(ctx) }
	leave := func(ctx context.Context, c *scene) error { return c.d[0].Leave(ctx) }
	other := func(c *scene, do func(*barrier.Double, context.Context) error) {
		c.calls = append(c.calls, begin(func() error { return do(c.d[1], c.Context()) }))
		synctest.Wait()
	}
	enters := func(c *scene) { other(c, (*barrier.Double).Enter) }
	leaves := func(c *scene) { other(c, (*barrier.Double).Leave) }
	round := func(c *scene) {
		enters(c)
		check.Must(c.T, enter(c.Context(), c))
		check.Must(c.T, kit.Returned(c.T, "Enter", c.calls[0]))
		c.calls = nil
	}
	return map[string]command{
		"Raise":            {requests: "create:2 createContainer:1 getData:1", call: raise, stands: true},
		"Raise what is":    {requests: "create:1 getData:1", before: raised, call: raise, stands: true},
		"Lift":             {requests: "delete:1 exists:1 getData:1", before: raised, call: func(ctx context.Context, c *scene) error { return c.b[0].Lift(ctx) }},
		"Wait":             {requests: "getData:1 sync:1", call: wait},
		"Wait for Lift":    {requests: "exists:1 getData:1 sync:1", before: raised, call: wait, lifted: true, then: func(c *scene) { check.Must(c.T, c.b[1].Lift(c.Context())) }},
		"TryRaise":         {requests: "createContainer:1 getData:1 multi:2", call: try, stands: true, expired: session.ErrExpired},
		"TryRaise in vain": {requests: "getData:1 multi:1", before: raised, call: try, want: barrier.ErrRaised, stands: true, expired: session.ErrExpired, gone: []error{nil}},
		"Gate.Lift":        {requests: "delete:1 exists:1 getData:2 setData:1", before: gated, lifted: true, call: func(ctx context.Context, c *scene) error { return c.gate.Lift(ctx) }},
		"Enter first":      {requests: "createContainer:3 exists:1 getData:5 multi:2", double: true, call: enter, then: enters},
		"Enter last":       {requests: "exists:1 getChildren2:1 getData:3 multi:2", double: true, before: enters, call: enter},
		"Enter next":       {requests: "getChildren2:1 getData:2 multi:2", double: true, before: func(c *scene) { round(c); leaves(c); check.Must(c.T, leave(c.Context(), c)); c.calls = nil; enters(c) }, call: enter},
		"Leave first":      {requests: "getData:1 multi:1", double: true, leaves: true, before: round, call: leave, then: leaves, gone: []error{barrier.ErrNotEntered}, expired: barrier.ErrNotEntered},
		"Leave last":       {requests: "multi:2", double: true, leaves: true, before: func(c *scene) { round(c); leaves(c) }, call: leave, gone: []error{barrier.ErrNotEntered}, expired: barrier.ErrNotEntered},
	}
}

// TestFourQuestions asks of every request of every command: what if its reply is lost, the context
// ends, the session expires, the nodes are gone?
func TestFourQuestions(t *testing.T) {
	for name, cmd := range commands() {
		t.Run(name, func(t *testing.T) {
			counts := make(zktest.Counts)
			cmd.play(t, func(c *scene) {
				c.srv.ResetRequests()
				call := begin(func() error { return cmd.call(c.Context(), c) })
				kit.Pass(time.Second)
				if cmd.then != nil {
					cmd.then(c)
				}
				check.Is(c, kit.Returned(c.T, name, call), cmd.want)
				synctest.Wait()
				counts = c.srv.RequestsOf(c.s[0].ID())
				maps.DeleteFunc(counts, func(op zktest.Op, _ int) bool { return op == zktest.OpCheck }) // heartbeats
			})
			var made []string
			chosen := hasten.OneIn(3, 7)
			for op, n := range counts {
				made = append(made, fmt.Sprintf("%v:%d", op, n))
				for k := range n {
					for _, q := range []question{replyLost, requestLost, contextEnded, expiredUndone, expiredDone, nodesGone, busy, forbidden} {
						if !chosen() {
							continue
						}
						cell := fmt.Sprintf("%v %d, %s", op, k, q)
						t.Run(cell, func(t *testing.T) {
							cmd.play(t, func(c *scene) { cmd.ask(c, cell, q, zktest.Match{Session: c.s[0].ID(), Op: op, Skip: k}) })
						})
					}
				}
			}
			slices.Sort(made)
			check.Equal(t, strings.Join(made, " "), cmd.requests, "it makes")
		})
	}
}

// play sets the scene.
func (cmd command) play(t *testing.T, f func(*scene)) {
	t.Helper()
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		c := &scene{T: t, srv: srv, s: s}
		if cmd.double {
			c.d = doubles(t, s, 2)
		} else {
			c.b = []*barrier.Barrier{single(t, s[0], nil), single(t, s[1], &barrier.Options{NoSync: true})}
		}
		synctest.Wait()
		if cmd.before != nil {
			cmd.before(c)
			synctest.Wait()
		}
		c.stood = slices.Contains(srv.Paths(), path)
		f(c)
	})
}

// ask asks a question of one request.
func (cmd command) ask(c *scene, cell string, q question, at zktest.Match) {
	ctx, stop := context.WithCancel(c.Context())
	defer stop()
	switch q {
	case replyLost:
		c.srv.DropReply(at)
	case requestLost:
		c.srv.DropRequest(at)
	case contextEnded, nodesGone:
		c.srv.Delay(at, 3*time.Second)
	case expiredUndone:
		c.srv.Refuse(true)
		c.srv.DropRequest(at)
	case expiredDone:
		c.srv.Refuse(true)
		c.srv.DropReply(at)
	case busy:
		c.srv.AnswerError(at, -127)
	case forbidden:
		c.srv.AnswerError(at, -102)
	}
	call := begin(func() error { return cmd.call(ctx, c) })
	meddled := false
	meddle := func() {
		kit.Pass(time.Second)
		if meddled || c.srv.AwaitFault(0) != nil {
			return // it is a request that is made later
		}
		meddled = true
		switch q {
		case contextEnded:
			stop()
		case expiredUndone, expiredDone:
			c.srv.Expire(c.s[0].ID())
			c.srv.Refuse(false)
		case nodesGone:
			raze(c.T, c.s[1], "/barriers")
		case replyLost, requestLost, busy, forbidden:
		}
		kit.Pass(time.Second)
	}
	meddle()
	if cmd.then != nil {
		kit.Pass(5 * time.Second)
		cmd.then(c)
	}
	meddle()
	kit.Pass(time.Minute)
	if !meddled {
		c.Errorf("%s: the request was not made", cell)
	}
	if len(call) == 0 && cmd.double && (q == contextEnded || q == expiredUndone || q == expiredDone || q == nodesGone) {
		// The round may have begun when the session expired, or the nodes went: the other is in it.
		check.Must(c.T, kit.Returned(c.T, cell+": the other", c.calls[0]))
		if err := c.d[1].Leave(c.Context()); q != nodesGone || !errors.Is(err, barrier.ErrNotEntered) {
			check.Must(c.T, err)
		}
		c.calls = []<-chan error{begin(func() error { return c.d[1].Enter(c.Context()) })}
		kit.Pass(time.Minute)
	}
	if len(call) == 0 {
		c.Errorf("%s: it never returns", cell)
		return
	}
	err := <-call
	switch cancelled := q == contextEnded && errors.Is(err, context.Canceled); {
	case errors.Is(err, cmd.want), cancelled:
	case (q == expiredDone || q == expiredUndone) && cmd.expired != nil && errors.Is(err, cmd.expired):
	case q == forbidden && errors.Is(err, session.ErrNoAuth):
	case q == nodesGone && slices.ContainsFunc(cmd.gone, func(target error) bool { return errors.Is(err, target) }):
	default:
		c.Errorf("%s: %v", cell, err)
	}
	if cmd.double {
		cmd.goOn(c, cell, q, err)
	} else {
		cmd.look(c, cell, q, err)
	}
}

// look compares what stands with what the command has said.
func (cmd command) look(c *scene, cell string, q question, err error) {
	stat, failed := c.s[1].Exists(c.Context(), path)
	check.Must(c.T, failed)
	stands := stat != nil
	switch {
	case errors.Is(err, session.ErrUnknownOutcome) || q == nodesGone:
	case err == nil && c.gate != nil && cmd.stands && !stands: // it was raised, and lost after that
		if <-c.gate.Done(); (!errors.Is(c.gate.Err(), session.ErrExpired) || cmd.expired == nil) && (q != forbidden || !errors.Is(c.gate.Err(), session.ErrNoAuth)) {
			c.Errorf("%s: the gate is lost: %v", cell, c.gate.Err())
		}
	case errors.Is(err, cmd.want):
		if stands != cmd.stands {
			c.Errorf("%s: %v; a barrier stands: %v", cell, err, stands)
		}
	case stands != (c.stood && !cmd.lifted):
		c.Errorf("%s: %v; a barrier stood: %v, and now: %v", cell, err, c.stood, stands)
	}
}

// goOn ends the round, in which no party is stuck, and has both go through another one.
func (cmd command) goOn(c *scene, cell string, q question, err error) {
	calls := c.calls
	both := func(do func(*barrier.Double, context.Context) error) {
		for _, d := range c.d {
			calls = append(calls, begin(func() error { return do(d, c.Context()) }))
		}
	}
	all := func(what string, lost bool) {
		kit.Pass(2 * time.Minute)
		for _, call := range calls {
			if err := kit.Returned(c.T, cell+": "+what, call); err != nil && (!lost || !errors.Is(err, barrier.ErrNotEntered)) {
				c.Errorf("%s: %s: %v", cell, what, err)
			}
		}
		calls = nil
	}
	lost := q == nodesGone || q == expiredDone || q == expiredUndone
	switch {
	case q != forbidden || err == nil:
	case cmd.leaves: // it is still in, or cannot see how the round ends
		lost = true
		calls = append(calls, begin(func() error { return c.d[0].Leave(c.Context()) }))
	case len(calls[0]) > 0: // the round has begun, and the record that lists both could not be read
		check.Must(c.T, kit.Returned(c.T, cell+": the other", calls[0]))
		check.Must(c.T, c.d[1].Leave(c.Context()))
		calls = []<-chan error{begin(func() error { return c.d[1].Enter(c.Context()) })}
	}
	if !cmd.leaves {
		if err != nil {
			for _, node := range parties(c.srv) {
				if strings.HasSuffix(node, "-p0") {
					c.Errorf("%s: %v, and %s is left", cell, err, node)
				}
			}
			calls = append(calls, begin(func() error { return c.d[0].Enter(c.Context()) }))
		}
		all("Enter", false)
		both((*barrier.Double).Leave)
	}
	all("Leave", lost)
	if left := parties(c.srv); len(left) > 0 {
		c.Errorf("%s: %q are left", cell, left)
	}
	both((*barrier.Double).Enter)
	all("the next Enter", false)
	both((*barrier.Double).Leave)
	all("the next Leave", false)
}

// raze deletes a node with all that is below it.
func raze(t *testing.T, s *session.Session, path string) {
	t.Helper()
	names, _, err := s.Children(t.Context(), path)
	if errors.Is(err, session.ErrNoNode) {
		return
	}
	check.Must(t, err)
	for _, name := range names {
		raze(t, s, znode.Join(path, name))
	}
	err = s.Delete(t.Context(), path, session.AnyVersion)
	if !errors.Is(err, session.ErrNoNode) && !errors.Is(err, session.ErrNotEmpty) { // it was deleted, or is used again
		check.Must(t, err)
	}
}
