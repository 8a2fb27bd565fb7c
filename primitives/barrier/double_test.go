package barrier_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// rounds has every handle go through so many rounds, and counts the parties inside: none is alone,
// and none has left while another is inside.
func rounds(t *testing.T, handles []*barrier.Double, n int, meddle func(round int)) {
	t.Helper()
	var inside, entered atomic.Int64
	var wg sync.WaitGroup
	for i, d := range handles {
		wg.Go(func() {
			for round := range n {
				if i == 0 {
					meddle(round)
				}
				if err := d.Enter(t.Context()); err != nil {
					t.Errorf("%d enters round %d: %v", i, round, err)
					return
				}
				inside.Add(1)
				entered.Add(1)
				inside.Add(-1)
				if err := d.Leave(t.Context()); err != nil {
					t.Errorf("%d leaves round %d: %v", i, round, err)
					return
				}
				if all := entered.Load(); all < int64((round+1)*len(handles)) {
					t.Errorf("%d has left round %d when %d had entered", i, round, all)
				}
				if in := inside.Load(); in != 0 && entered.Load() == int64((round+1)*len(handles)) {
					t.Errorf("%d has left round %d when %d were inside", i, round, in)
				}
			}
		})
	}
	wg.Wait()
}

func TestRounds(t *testing.T) {
	bubble(t, 5, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		handles := doubles(t, s, 5)
		events := handles[0].Events()
		rounds(t, handles, 20, func(int) {})
		if left := parties(srv); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
		var last barrier.DoubleEvent
		for _, ev := range kit.Drain(events) {
			last = ev
		}
		check.Equal[barrier.DoubleEvent](t, last, barrier.Left{Round: 20}, "the last event is")
		srv.Reap()
		srv.Reap()
		srv.Reap()
		if left := srv.Paths(); len(left) > 1 {
			t.Errorf("%q are left", left)
		}
	})
}

// TestRecordRemoved has the server remove the record between two rounds: their numbers go on for
// handles that have seen some.
func TestRecordRemoved(t *testing.T) {
	bubble(t, 3, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		handles := doubles(t, s, 3)
		events := handles[0].Events()
		const times = 4
		for range times {
			rounds(t, handles, 2, func(int) {})
			for range 3 {
				srv.Reap()
			}
			if left := srv.Paths(); len(left) > 1 {
				t.Fatalf("%q are left", left)
			}
		}
		seen := 0
		for _, ev := range kit.Drain(events) {
			if in, is := ev.(barrier.Entered); is {
				if seen++; in.Round != seen {
					t.Errorf("round %d is called %d", seen, in.Round)
				}
			}
		}
		check.Equal(t, seen, 2*times, "rounds")
	})
}

// TestRequestsPerRound counts them: they are linear in the parties, and so are notifications. A
// party that leaves makes two requests.
func TestRequestsPerRound(t *testing.T) {
	for _, n := range []int{5, 10, 100} { // the record of 100 is too large for a watch that is not used to be kept
		bubble(t, n, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
			handles := make([]*barrier.Double, n)
			for i := range s {
				handles[i] = double(t, s[i], n, "")
			}
			rounds(t, handles, 2, func(int) {})
			srv.ResetRequests()
			notified.Store(0)
			const many = 5
			rounds(t, handles, many, func(int) {})
			if made, woken := srv.Requests().Total(), notified.Load(); made != many*(5*n+2) || woken > many*int64(3*n-1) {
				t.Errorf("%d parties: %d rounds take %d requests and %d notifications", n, many, made, woken)
			}
			srv.ResetRequests()
			notified.Store(0)
			var calls []<-chan error
			for _, d := range handles {
				calls = append(calls, begin(func() error { return d.Enter(t.Context()) }))
			}
			for _, call := range calls {
				check.Must(t, kit.Returned(t, "Enter", call))
			}
			// Of each party: the creation, the watch of its own node, the record; and a list and
			// the beginning. The record wakes each up.
			entering, woken := srv.Requests().Total(), notified.Load()
			check.True(t, entering == 3*n+2 && woken == int64(n), "%d parties enter with %d requests, and are notified %d times", n, entering, woken)
			calls = calls[:0]
			leaving := 0
			for i, d := range handles {
				srv.ResetRequests()
				calls = append(calls, begin(func() error { return d.Leave(t.Context()) }))
				synctest.Wait()
				if left := srv.Requests().Total(); left != 2 {
					t.Errorf("party %d of %d leaves with %d requests", i, n, left)
				}
				leaving += srv.Requests().Total()
			}
			for _, call := range calls {
				check.Must(t, kit.Returned(t, "Leave", call))
			}
			// Each is notified of the end of its own node, and all but the last of the end of the
			// round.
			woken = notified.Load() - woken
			check.True(t, woken == int64(2*n-1), "%d parties leave, and are notified %d times", n, woken)
			t.Logf("%d parties: %d requests to enter and %d to leave", n, entering, leaving)
		})
	}
}

// The next round begins with those for whom there was no room, and not before the first is over.
func TestMoreThanParties(t *testing.T) {
	bubble(t, 5, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		handles := doubles(t, s, 2)
		in := make(chan *barrier.Double, len(handles))
		refused := make(chan error, len(handles))
		for _, d := range handles {
			go func() {
				if err := d.Enter(t.Context()); err != nil {
					refused <- err
					return
				}
				in <- d
			}()
			synctest.Wait()
		}
		for range 2 {
			check.Require(t, len(in) == 2, "%d are in", len(in))
			one, two := <-in, <-in
			first := begin(func() error { return one.Leave(t.Context()) })
			kit.Waits(t, "Leave", first)
			if len(in) > 0 {
				t.Fatal("the next round begins before this one is over")
			}
			check.Must(t, two.Leave(t.Context()))
			check.Must(t, kit.Returned(t, "Leave", first))
		}
		if left := parties(srv); len(left) != 1 || len(in)+len(refused) > 0 {
			t.Errorf("%q are left, %d in, %d refused", left, len(in), len(refused))
		}
		for _, d := range handles {
			d.Close()
		}
		if err := <-refused; !errors.Is(err, barrier.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// A crash before the round makes room; a crash inside does not hold the others for ever.
func TestCrashes(t *testing.T) {
	bubble(t, 5, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		handles := doubles(t, s, 3)
		enter := func(i int) <-chan error {
			call := begin(func() error { return handles[i].Enter(t.Context()) })
			synctest.Wait()
			return call
		}
		dead := enter(0)
		srv.Freeze(s[0].ID(), zktest.Both)
		srv.Expire(s[0].ID())
		one := enter(1)
		two := enter(2)
		kit.Waits(t, "Enter of two", one)
		three := enter(3)
		for _, call := range []<-chan error{one, two, three} {
			check.Must(t, kit.Returned(t, "Enter", call))
		}
		kit.Waits(t, "Enter of the dead", dead)
		leaver := begin(func() error { return handles[1].Leave(t.Context()) })
		kit.Waits(t, "Leave", leaver)
		// Two crash inside, one after the other, and no party is left to count.
		for _, i := range []int{2, 3} {
			srv.Freeze(s[i].ID(), zktest.Both)
		}
		kit.Pass(30 * time.Second)
		check.Must(t, kit.Returned(t, "Leave", leaver))
		for _, i := range []int{2, 3} {
			if err := handles[i].Leave(t.Context()); !errors.Is(err, barrier.ErrNotEntered) || !errors.Is(err, session.ErrLapsed) {
				t.Errorf("the crashed %d leaves: %v", i, err)
			}
		}
	})
}

// Cancelled, Enter is out with nothing left, or in, and says so.
func TestCancelled(t *testing.T) {
	for delay := range 40 {
		bubble(t, 2, zktest.Config{Latency: 10 * time.Millisecond}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
			handles := doubles(t, s, 2)
			ctx, stop := context.WithCancel(t.Context())
			one := begin(func() error { return handles[0].Enter(ctx) })
			two := begin(func() error { return handles[1].Enter(t.Context()) })
			<-time.After(time.Duration(delay)*5*time.Millisecond + time.Millisecond)
			stop()
			if delay%2 == 1 {
				srv.DropReply(zktest.Match{Session: s[0].ID()})
			}
			kit.Pass(5 * time.Second)
			switch err := kit.Returned(t, "Enter", one); {
			case err == nil:
				check.Must(t, kit.Returned(t, "Enter", two))
				both := begin(func() error { return handles[0].Leave(t.Context()) })
				check.Must(t, handles[1].Leave(t.Context()))
				kit.Pass(15 * time.Second)
				check.Must(t, kit.Returned(t, "Leave", both))
			case errors.Is(err, context.Canceled):
				kit.Waits(t, "Enter of one alone", two)
				if left := parties(srv); len(left) != 1 {
					t.Errorf("%q are left", left)
				}
			default:
				t.Error(err)
			}
		})
	}
}

// Whatever reply or request is lost, whatever session expires: five rounds.
func TestFaultAtEveryRequest(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Server, zktest.Match){
		"reply lost":   (*zktest.Server).DropReply,
		"request lost": (*zktest.Server).DropRequest,
		"busy":         func(srv *zktest.Server, m zktest.Match) { srv.AnswerError(m, -127) },
	} {
		t.Run(name, func(t *testing.T) {
			for skip := range 14 {
				bubble(t, 3, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
					fault(srv, zktest.Match{Session: s[0].ID(), Skip: skip})
					handles := doubles(t, s, 3)
					rounds(t, handles, 5, func(int) {})
					if left := parties(srv); len(left) > 0 {
						t.Errorf("%q are left", left)
					}
				})
			}
		})
	}
}

// TestLaggingReplicas has ten parties on replicas that lag, with connections cut all the time.
func TestLaggingReplicas(t *testing.T) {
	config := zktest.Config{Replicas: 3, Lag: 70 * time.Millisecond, Latency: 2 * time.Millisecond}
	bubble(t, 10, config, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		r := rand.New(rand.NewPCG(1, 2))
		n := hasten.Sized(hasten.Usually(1000, 250), 60)
		ctx, stop := context.WithCancel(t.Context())
		var cutter sync.WaitGroup
		cutter.Go(func() {
			for ctx.Err() == nil {
				srv.Disconnect(s[r.IntN(len(s))].ID())
				<-time.After(50 * time.Millisecond)
			}
		})
		rounds(t, doubles(t, s, 10), n, func(int) {})
		stop()
		cutter.Wait()
	})
}

func TestRefusals(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		closed, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext})
		check.Must(t, err)
		closed.Close()
		synctest.Wait()
		srv.ResetRequests()
		for what, x := range map[string]struct {
			err  error
			want error
			name string // of the argument
		}{
			"no parties":           {second(barrier.NewDouble(s[0], path, 0, nil)), session.ErrInvalidArgument, "parties"},
			"less":                 {second(barrier.NewDouble(s[0], path, -1, nil)), session.ErrInvalidArgument, "parties"},
			"a million":            {second(barrier.NewDouble(s[0], path, 1_000_000, nil)), session.ErrTooLarge, "parties"},
			"no path":              {second(barrier.NewDouble(s[0], "", 1, nil)), session.ErrInvalidPath, "path"},
			"a relative path":      {second(barrier.NewDouble(s[0], "x", 1, nil)), session.ErrInvalidPath, "path"},
			"the root":             {second(barrier.NewDouble(s[0], "/", 1, nil)), session.ErrInvalidPath, "path"},
			"two faults":           {second(barrier.NewDouble(s[0], "/", 0, nil)), session.ErrInvalidArgument, "path"},
			"a name with /":        {second(barrier.NewDouble(s[0], path, 1, &barrier.DoubleOptions{Name: "a/b"})), session.ErrInvalidArgument, "Name"},
			"no session":           {second(barrier.NewDouble(nil, path, 1, nil)), session.ErrInvalidArgument, "session"},
			"a closed session":     {second(barrier.NewDouble(closed, path, 1, nil)), session.ErrClosed, "session"},
			"a barrier's no path":  {second(barrier.New(s[0], "", nil)), session.ErrInvalidPath, "path"},
			"a barrier at /":       {second(barrier.New(s[0], "/", nil)), session.ErrInvalidPath, "path"},
			"a barrier's path":     {second(barrier.New(s[0], "/a/", nil)), session.ErrInvalidPath, "path"},
			"a barrier's session":  {second(barrier.New(nil, path, nil)), session.ErrInvalidArgument, "session"},
			"a barrier of the end": {second(barrier.New(closed, path, nil)), session.ErrClosed, "session"},
		} {
			check.True(t, errors.Is(x.err, x.want) && strings.Contains(x.err.Error(), x.name), "%s: %v", what, x.err)
		}
		check.Equal(t, srv.Requests().Total(), 0, "requests")

		one, other := double(t, s[0], 1, "a"), double(t, s[1], 2, "b")
		if err := one.Leave(t.Context()); !errors.Is(err, barrier.ErrNotEntered) {
			t.Errorf("left before it entered: %v", err)
		}
		check.Must(t, one.Enter(t.Context()))
		if err := one.Enter(t.Context()); !errors.Is(err, barrier.ErrEntered) {
			t.Errorf("entered twice: %v", err)
		}
		if err := other.Enter(t.Context()); !errors.Is(err, barrier.ErrParties) {
			t.Errorf("another number: %v", err)
		}
		if err := other.Leave(t.Context()); !errors.Is(err, barrier.ErrNotEntered) {
			t.Errorf("left after a refusal: %v", err)
		}
		check.Must(t, one.Leave(t.Context()))
		for range 3 {
			srv.Reap()
		}
		calls := []<-chan error{begin(func() error { return other.Enter(t.Context()) })}
		kit.Waits(t, "Enter of one of two", calls[0])
		if err := one.Enter(t.Context()); !errors.Is(err, barrier.ErrParties) {
			t.Errorf("the number has changed: %v", err)
		}
		other.Close()
		if err := kit.Returned(t, "Enter", calls[0]); !errors.Is(err, barrier.ErrClosed) {
			t.Errorf("closed while it enters: %v", err)
		}
		for what, err := range map[string]error{"Enter": other.Enter(t.Context()), "Leave": other.Leave(t.Context())} {
			check.True(t, errors.Is(err, barrier.ErrClosed), "%s after Close: %v", what, err)
		}
		plain := single(t, s[0], nil)
		plain.Close()
		for what, err := range map[string]error{
			"Raise": plain.Raise(t.Context()), "Lift": plain.Lift(t.Context()), "Wait": plain.Wait(t.Context()), "TryRaise": second(plain.TryRaise(t.Context())),
		} {
			check.True(t, errors.Is(err, barrier.ErrClosed), "%s after Close: %v", what, err)
		}

		_, err = s[0].Create(t.Context(), "/foreign", []byte("{}"), session.Persistent)
		check.Must(t, err)
		d, err := barrier.NewDouble(s[0], "/foreign", 1, nil)
		check.Must(t, err)
		defer d.Close()
		if err := d.Enter(t.Context()); !errors.Is(err, barrier.ErrLayout) {
			t.Errorf("a foreign node: %v", err)
		}
		if len(parties(srv)) > 0 {
			t.Errorf("%q are left", parties(srv))
		}
	})
}

// A path with nodes of others is refused, or used beside them. Nothing of theirs is lost.
func TestForeignNodes(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		create := func(node string, mode session.CreateMode) {
			t.Helper()
			_, err := s[1].Create(t.Context(), node, nil, mode)
			check.Must(t, err)
		}
		for _, node := range []string{"/line", "/line/lock-1"} {
			create(node, session.Persistent)
		}
		create("/mortal", session.Ephemeral)
		ordinary, err := barrier.New(s[0], "/line", nil)
		check.Must(t, err)
		defer ordinary.Close()
		entering := func(path string) error {
			d, err := barrier.NewDouble(s[0], path, 1, nil)
			check.Must(t, err)
			defer d.Close()
			return d.Enter(t.Context())
		}
		for what, x := range map[string]struct{ err, want error }{
			"Raise":              {ordinary.Raise(t.Context()), barrier.ErrForeign},
			"Wait":               {ordinary.Wait(t.Context()), barrier.ErrForeign},
			"Lift":               {ordinary.Lift(t.Context()), barrier.ErrForeign},
			"TryRaise":           {second(ordinary.TryRaise(t.Context())), barrier.ErrForeign},
			"Enter":              {entering("/line"), barrier.ErrLayout},
			"Enter below mortal": {entering("/mortal/run"), session.ErrNoChildrenForEphemerals},
			"Enter at mortal":    {entering("/mortal"), session.ErrNoChildrenForEphemerals},
		} {
			check.True(t, errors.Is(x.err, x.want), "%s: %v, want %v", what, x.err, x.want)
			t.Logf("%s: %v", what, x.err)
		}
		// A node beside the parties does not keep members from leaving, but the next round from
		// beginning.
		for round, foreign := range map[int]string{1: path + "/1/in/x", 2: path + "/2/y"} {
			a, b := double(t, s[0], 2, "a"), double(t, s[1], 2, "b")
			both := func(do func(*barrier.Double, context.Context) error) {
				t.Helper()
				one, two := begin(func() error { return do(a, t.Context()) }), begin(func() error { return do(b, t.Context()) })
				kit.Pass(time.Minute)
				check.Must(t, errors.Join(kit.Returned(t, "the call of a", one), kit.Returned(t, "the call of b", two)))
			}
			for n := range round {
				both((*barrier.Double).Enter)
				if n+1 == round {
					create(foreign, session.Persistent)
				}
				both((*barrier.Double).Leave)
			}
			one := begin(func() error { return a.Enter(t.Context()) })
			kit.Waits(t, "Enter of one", one)
			if err := b.Enter(t.Context()); !errors.Is(err, barrier.ErrLayout) {
				t.Errorf("%s: %v", foreign, err)
			} else {
				t.Log(err)
			}
			check.Must(t, s[1].Delete(t.Context(), foreign, session.AnyVersion))
			check.Must(t, b.Enter(t.Context()))
			check.Must(t, kit.Returned(t, "Enter of a", one))
			both((*barrier.Double).Leave)
			raze(t, s[1], path)
			synctest.Wait() // a party that is not told yet would go on with the numbers of the rounds
		}
	})
}

// TestOthersNodes: no party enters beside the double barrier of another library, whose nodes stand
// at the same path.
func TestOthersNodes(t *testing.T) {
	refused := func(t *testing.T, err error) {
		t.Helper()
		check.True(t, errors.Is(err, barrier.ErrLayout) && strings.Contains(err.Error(), "ready"), "entered beside others: %v", err)
	}
	create := func(t *testing.T, s *session.Session, path string) {
		t.Helper()
		_, err := s.Create(t.Context(), path, nil, session.Persistent)
		check.Must(t, err)
	}
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		check.Must(t, s[1].EnsurePath(t.Context(), path))
		create(t, s[1], path+"/ready")
		refused(t, kit.Returned(t, "Enter", begin(func() error { return double(t, s[0], 2, "a").Enter(t.Context()) })))
		if names, _, err := s[1].Children(t.Context(), path); err != nil || len(names) != 1 {
			t.Errorf("there are %q, %v", names, err)
		}
	})
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		handles := doubles(t, s, 2)
		rounds(t, handles, 1, func(int) {})
		create(t, s[1], path+"/ready")
		var calls []<-chan error
		for _, d := range handles {
			calls = append(calls, begin(func() error { return d.Enter(t.Context()) }))
		}
		for _, call := range calls {
			refused(t, kit.Returned(t, "Enter", call))
		}
		if left := parties(srv); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
		check.Must(t, s[1].Delete(t.Context(), path+"/ready", session.AnyVersion))
		rounds(t, handles, 1, func(int) {})
	})
	// What happens between the reading that counts them and the listing.
	list := zktest.Match{Op: zktest.OpGetChildren2}
	for what, meanwhile := range map[string]func(t *testing.T, s *session.Session){
		"others leave": func(t *testing.T, s *session.Session) {
			t.Helper()
			check.Must(t, s.Delete(t.Context(), path+"/ready", session.AnyVersion))
		},
		"the path goes": func(t *testing.T, s *session.Session) {
			t.Helper()
			check.Must(t, s.Delete(t.Context(), path+"/ready", session.AnyVersion))
			check.Must(t, s.Delete(t.Context(), path, session.AnyVersion))
		},
		"the listing is forbidden": nil,
	} {
		bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
			check.Must(t, s[1].EnsurePath(t.Context(), path))
			create(t, s[1], path+"/ready")
			want := session.ErrNoAuth
			if meanwhile == nil {
				const noAuth = -102
				srv.AnswerError(list, noAuth)
			} else {
				srv.Delay(list, time.Second)
			}
			entered := begin(func() error { return double(t, s[0], 1, "a").Enter(t.Context()) })
			synctest.Wait()
			if meanwhile != nil {
				meanwhile(t, s[1])
				want = nil
			}
			kit.Pass(2 * time.Second)
			if err := kit.Returned(t, "Enter", entered); !errors.Is(err, want) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// A membership is lost with the session, or with the node; the handle can enter again.
func TestLost(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		d := double(t, s[0], 1, "a")
		events := d.Events()
		check.Must(t, d.Enter(t.Context()))
		check.Must(t, s[1].Delete(t.Context(), parties(srv)[0], session.AnyVersion))
		synctest.Wait()
		if err := d.Leave(t.Context()); !errors.Is(err, barrier.ErrNotEntered) || !errors.Is(err, barrier.ErrNodeGone) {
			t.Errorf("leave: %v", err)
		}
		kit.Pass(40 * time.Second)
		check.Must(t, d.Enter(t.Context()))
		srv.Expire(s[0].ID())
		kit.Pass(time.Second)
		if err := d.Leave(t.Context()); !errors.Is(err, barrier.ErrNotEntered) {
			t.Errorf("leave: %v", err)
		}
		kit.Pass(40 * time.Second)
		check.Must(t, d.Enter(t.Context()))
		check.Must(t, d.Leave(t.Context()))
		lost := 0
		for _, ev := range kit.Drain(events) {
			if _, is := ev.(barrier.Lost); is {
				lost++
			}
		}
		check.True(t, lost == 2, "lost %d times", lost)
		check.OK(t, d.Err())
		s[0].Close()
		<-d.Done()
		check.Is(t, d.Err(), session.ErrClosed)
	})
}

// A party whose node cannot be watched leaves none behind, and says why.
func TestUnwatchable(t *testing.T) {
	const noAuth = -102
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		d := double(t, s[0], 1, "a")
		check.Must(t, d.Enter(t.Context()))
		srv.AnswerError(zktest.Match{Op: zktest.OpGetData, Path: path + "/*/in/*"}, noAuth)
		_, err := s[1].Set(t.Context(), parties(srv)[0], nil, session.AnyVersion)
		check.Must(t, err)
		kit.Pass(time.Second)
		if err = d.Leave(t.Context()); !errors.Is(err, barrier.ErrNotEntered) {
			t.Errorf("Leave: %v", err)
		}
		check.True(t, errors.Is(err, session.ErrNoAuth) && !errors.Is(err, barrier.ErrNodeGone), "not to be watched: %v", err)
		if left := parties(srv); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	})
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		d := double(t, s[0], 2, "a")
		for range 5 {
			srv.AnswerError(zktest.Match{Op: zktest.OpGetData, Path: path + "/*/in/*"}, noAuth)
		}
		err := kit.Returned(t, "Enter", begin(func() error { return d.Enter(t.Context()) }))
		check.True(t, errors.Is(err, session.ErrNoAuth) && !errors.Is(err, barrier.ErrNodeGone), "not to be watched: %v", err)
		if left := parties(srv); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	})
}

// Children of others with numbers for names are not taken for rounds, and stay.
func TestForeignNumber(t *testing.T) {
	for _, below := range []string{"", "/x"} {
		bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
			check.Must(t, s[1].EnsurePath(t.Context(), path))
			_, err := s[1].Create(t.Context(), path+"/1", []byte("treasure"), session.Persistent)
			check.Must(t, err)
			if below != "" {
				_, err = s[1].Create(t.Context(), path+"/1"+below, nil, session.Persistent)
				check.Must(t, err)
			}
			err = kit.Returned(t, "Enter", begin(func() error { return double(t, s[0], 1, "a").Enter(t.Context()) }))
			check.True(t, errors.Is(err, barrier.ErrLayout), "entered: %v", err)
			if data, _, err := s[1].Get(t.Context(), path+"/1"); err != nil || string(data) != "treasure" {
				t.Errorf("there is %q, %v", data, err)
			}
		})
	}
}

// A party for which there was no room goes before all that came for a later round.
func TestOldestFirst(t *testing.T) {
	for range 3 {
		bubble(t, 9, zktest.Config{}, func(t *testing.T, _ *zktest.Server, s []*session.Session) {
			handles := doubles(t, s, 1)
			entered := make(chan int, len(handles))
			enter := func(i int) {
				go func() {
					if handles[i].Enter(t.Context()) == nil {
						entered <- i
					}
				}()
				synctest.Wait()
			}
			enter(0)
			enter(1)
			enter(2)
			check.Must(t, handles[<-entered].Leave(t.Context()))
			winner := <-entered
			for i := 3; i < len(handles); i++ {
				enter(i)
			}
			check.Must(t, handles[winner].Leave(t.Context()))
			if next := <-entered; next+winner != 1+2 {
				t.Errorf("%d goes before %d", next, 1+2-winner)
			}
			for _, d := range handles {
				d.Close()
			}
		})
	}
}

// A handle at rest is not bothered by the rounds of others.
func TestAtRest(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		handles := doubles(t, s, 1)
		rounds(t, handles[:1], 1, func(int) {})
		rounds(t, handles[1:], 1, func(int) {}) // ends a watch that is kept for the next Enter
		synctest.Wait()
		srv.ResetRequests()
		rounds(t, handles[1:], 3, func(int) {})
		if n := srv.RequestsOf(s[0].ID()).Total(); n != 0 {
			t.Errorf("it made %d requests", n)
		}
	})
}

// What the session has made itself, a gate or not, is not taken for the gate whose creation is in
// doubt.
func TestInDoubtBesideOwn(t *testing.T) {
	bubble(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		b := single(t, s[0], nil)
		refused := func() {
			t.Helper()
			for _, lose := range []func(zktest.Match){srv.DropReply, srv.DropRequest} {
				lose(zktest.Match{Op: zktest.OpMulti})
				if _, err := b.TryRaise(t.Context()); !errors.Is(err, barrier.ErrRaised) {
					t.Errorf("raised beside another: %v", err)
				}
				kit.Pass(5 * time.Second)
			}
			if stat, err := s[0].Exists(t.Context(), path); err != nil || stat == nil {
				t.Errorf("there is %v, %v", stat, err)
			}
		}
		g, err := b.TryRaise(t.Context())
		check.Must(t, err)
		refused()
		kit.Waits(t, "the gate", begin(func() error { <-g.Done(); return g.Err() }))
		check.Must(t, g.Lift(t.Context()))
		_, err = s[0].Create(t.Context(), path, []byte("192.0.2.1"), session.Ephemeral) // as Curator's barriers have
		check.Must(t, err)
		refused()
	})
}

// An Enter that is cancelled while the handle leaves the last round does not enter the next one.
func TestCancelledWhileLeaving(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		a, b := double(t, s[0], 2, "a"), double(t, s[1], 2, "b")
		one := begin(func() error { return a.Enter(t.Context()) })
		check.Must(t, b.Enter(t.Context()))
		check.Must(t, kit.Returned(t, "Enter", one))
		leaver := begin(func() error { return a.Leave(t.Context()) })
		kit.Waits(t, "Leave", leaver)
		ctx, stop := context.WithCancel(t.Context())
		next := begin(func() error { return a.Enter(ctx) })
		kit.Waits(t, "Enter", next)
		stop()
		if err := kit.Returned(t, "Enter", next); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		check.Must(t, b.Leave(t.Context()))
		check.Must(t, kit.Returned(t, "Leave", leaver))
		synctest.Wait()
		if left := parties(srv); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	})
}

// A handle whose session has expired may be back before the server deletes its node. The two nodes
// are one party.
func TestNotWithItself(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		handles := doubles(t, s, 2)
		srv.KeepEphemerals(20 * time.Second)
		first := begin(func() error { return handles[0].Enter(t.Context()) })
		kit.Waits(t, "Enter", first)
		srv.Expire(s[0].ID())
		kit.Pass(5 * time.Second)
		kit.Waits(t, "Enter", first)
		if left := parties(srv); len(left) != 2 {
			t.Fatalf("there are %q, want the old node and the new one", left)
		}
		check.Must(t, handles[1].Enter(t.Context()))
		check.Must(t, kit.Returned(t, "Enter", first))
		leaver := begin(func() error { return handles[0].Leave(t.Context()) })
		kit.Waits(t, "Leave", leaver)
		check.Must(t, handles[1].Leave(t.Context()))
		check.Must(t, kit.Returned(t, "Leave", leaver))
	})
}
