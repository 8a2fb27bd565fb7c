package session_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var schedules = flag.Int("session.schedules", hasten.Usually(60, 20), "random schedules of faults and commands; 2000 are a campaign")

// TestSchedules plays random faults, lists of servers and commands in a bubble. Each request is
// answered once. A write that is said to be done was done once, and one that is said not to be done
// was not. Close returns in time. When the faults end, the session is connected. No lock is held
// while the observer or the log is called.
func TestSchedules(t *testing.T) {
	for seed := range hasten.Sized(*schedules, 6) {
		ok := t.Run(fmt.Sprint("schedule ", seed), func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second, Replicas: 3, Lag: 50 * time.Millisecond, Latency: 2 * time.Millisecond},
				func(t *testing.T, srv *zktest.Server, opts *session.Options) {
					newSchedule(t, uint64(seed), srv, opts).play()
				})
		})
		if !ok {
			t.FailNow()
		}
	}
}

// A schedule is a session in the storm, with what its requests were answered.
type schedule struct {
	*testing.T
	srv     *zktest.Server
	dice    *rand.Rand
	s, calm *session.Session
	events  chan []session.Event // those of the session, when it has ended

	followed []*session.Subscription
	siblings []*session.Session
	callers  sync.WaitGroup

	mu       sync.Mutex
	asked    int
	answered int
	done     [6]int // writes to each node
	doubtful [6]int // writes that may have been done
}

func newSchedule(t *testing.T, seed uint64, srv *zktest.Server, opts *session.Options) *schedule {
	t.Helper()
	c := &schedule{T: t, srv: srv, dice: rand.New(rand.NewPCG(seed, 9)), events: make(chan []session.Event, 1)}
	c.calm = mustOpen(t, srv.Addrs()[:1], &session.Options{Timeout: 20 * time.Second, Dialer: srv.DialContext})
	for i := range c.done {
		check.Have(c.calm.Create(t.Context(), c.node(i), nil, session.Persistent))(t)
	}
	if c.flip() {
		unlocking(opts)
	}
	if c.flip() {
		opts.Auth = []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}
	}
	opts.ReadOnly = c.flip()
	opts.Timeout = []time.Duration{4, 8, 12}[c.dice.IntN(3)] * time.Second
	c.s = check.Have(session.Start(srv.Addrs(), opts))(t)
	if u, is := opts.Observer.(*unlocked); is {
		u.session.Store(c.s)
	}
	events := c.s.Events(context.Background())
	go func() {
		var all []session.Event
		for ev := range events {
			all = append(all, ev)
		}
		c.events <- all
	}()
	return c
}

func (c *schedule) flip() bool                         { return c.dice.IntN(2) == 0 }
func (c *schedule) node(i int) string                  { return fmt.Sprintf("/n%d", i) }
func (c *schedule) upTo(d time.Duration) time.Duration { return time.Duration(c.dice.Int64N(int64(d))) }

// ask returns a function that takes the answer to a request, which writes to the node unless that
// is negative.
func (c *schedule) ask(node int) (answer func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	answered := false
	return func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.False(answered, "answered twice")
		answered = true
		c.answered++
		switch {
		case node < 0:
		case err == nil:
			c.done[node]++
		case session.InDoubt(err):
			c.doubtful[node]++
		}
	}
}

func (c *schedule) False(is bool, what string) {
	c.Helper()
	check.False(c, is, "%s", what)
}

// faults change what the servers and the network do.
func (c *schedule) faults() []func() {
	srv, id := c.srv, c.s.ID()
	const throttled, authFailed = -127, -115
	match := zktest.Match{Session: id, Skip: c.dice.IntN(3)}
	end := func() {
		srv.Thaw(0)
		srv.Refuse(false)
	}
	return []func(){
		func() { srv.Disconnect(id) },
		func() { srv.Freeze(id, zktest.Direction(c.dice.IntN(4))) },
		end, end,
		func() { srv.Refuse(true) },
		func() {
			if c.dice.IntN(4) == 0 {
				srv.Expire(id)
			}
		},
		func() { srv.Isolate(1 + c.dice.IntN(2)) },
		func() {
			srv.Heal(1)
			srv.Heal(2)
		},
		func() { srv.DropReply(match) },
		func() { srv.DropRequest(match) },
		func() { srv.AnswerError(zktest.Match{Op: zktest.OpAuth, Session: id}, authFailed) },
		func() {
			for range c.dice.IntN(5) {
				srv.AnswerError(zktest.Match{Op: zktest.OpSync, Session: id}, throttled)
				srv.AnswerError(zktest.Match{Op: zktest.OpSetWatches, Session: id}, throttled)
			}
		},
	}
}

// commands use the session.
func (c *schedule) commands() []func() {
	s, i := c.s, c.dice.IntN(len(c.done))
	path := c.node(i)
	write := func() {
		answer := c.ask(i)
		s.Async(0).Set(path, nil, session.AnyVersion, func(_ *session.Stat, err error) { answer(err) })
	}
	share := func() {
		at, is := s.State().(session.Connected)
		if !is {
			return
		}
		for range c.dice.IntN(20) {
			j := c.dice.IntN(len(c.done))
			answer := c.ask(j)
			set := []session.Op{session.SetOp(c.node(j), nil, session.AnyVersion)}
			s.Async(at.Epoch).In(new(session.Lane)).Share(set, func(_ []session.OpResult, err error) { answer(err) })
		}
	}
	move := func() {
		var list []string
		for _, server := range append(c.srv.Addrs(), "nowhere:1") {
			if c.flip() {
				list = append(list, server)
			}
		}
		_ = s.SetServers(list) // an empty list is refused
	}
	return []func(){
		write, write, share, share, move, move,
		func() {
			answer := c.ask(i)
			set := []session.Op{session.SetOp(path, nil, session.AnyVersion), session.CheckOp("/", session.AnyVersion)}
			s.Async(0).Multi(set, func(_ []session.OpResult, err error) { answer(err) })
		},
		func() {
			answer, patience := c.ask(i), c.upTo(4*time.Second)
			c.callers.Go(func() {
				ctx, cancel := context.WithTimeout(c.Context(), patience)
				defer cancel()
				_, err := s.Set(ctx, path, nil, session.AnyVersion)
				answer(err)
			})
		},
		func() {
			sub := s.Async(0).Follow(path, session.AspectData, c.flip(), func(session.Reading, error) {})
			if c.followed = append(c.followed, sub); c.flip() {
				c.followed[c.dice.IntN(len(c.followed))].Cancel()
			}
		},
		func() {
			answer, exits := c.ask(-1), c.dice.IntN(4) == 0
			s.Async(0).Exists(path, func(_ *session.Stat, err error) {
				if answer(err); exits {
					runtime.Goexit() // as t.FailNow does
				}
			})
		},
		func() {
			if sibling, err := s.Sibling(); err == nil {
				c.siblings = append(c.siblings, sibling)
			}
			if len(c.siblings) > 0 && c.flip() {
				sibling := c.siblings[c.dice.IntN(len(c.siblings))]
				c.callers.Go(sibling.Close)
			}
		},
		func() { time.AfterFunc(c.upTo(5*time.Second), s.Rely()) },
		func() {
			patience := c.upTo(5 * time.Second)
			c.callers.Go(func() {
				ctx, cancel := context.WithTimeout(c.Context(), patience)
				defer cancel()
				_ = s.Await(ctx)
			})
		},
	}
}

func (c *schedule) heal() {
	c.srv.ClearFaults()
	c.srv.Thaw(0)
	c.srv.Refuse(false)
	c.srv.Heal(1)
	c.srv.Heal(2)
}

func (c *schedule) play() {
	for range 80 {
		all := append(c.faults(), c.commands()...)
		if all[c.dice.IntN(len(all))](); c.flip() {
			pass(c.upTo(1500 * time.Millisecond))
		}
	}
	if c.flip() {
		c.recovers()
	}
	begun := time.Now()
	c.s.Close()
	check.AtMost(c, time.Since(begun), 2010*time.Millisecond, "Close took")
	c.callers.Wait()
	c.heal()
	pass(time.Minute)
	c.verify()
	if ev := session.OutOfPlace(<-c.events); ev != nil {
		c.Errorf("out of place: %v", ev)
	}
}

// recovers ends the faults, and waits until the session has got over them.
func (c *schedule) recovers() {
	c.heal()
	check.Must(c, c.s.SetServers(c.srv.Addrs()))
	pass(time.Minute)
	check.Have(c.s.Exists(c.Context(), "/"))(c.T)
	check.OK(c, c.s.Await(c.Context()), "a minute after the last fault")
	check.OK(c, c.s.Healthy(c.Context()), "a minute after the last fault")
	c.False(c.s.ReadOnly(), "read-only a minute after the last fault")
	c.verify()
}

// verify compares the answers with the nodes. Nothing is under way.
func (c *schedule) verify() {
	c.Helper()
	synctest.Wait()
	check.Must(c, c.calm.Sync(c.Context(), "/"))
	c.mu.Lock()
	defer c.mu.Unlock()
	check.Equal(c, c.answered, c.asked, "answers")
	for i := range c.done {
		_, stat, err := c.calm.Get(c.Context(), c.node(i))
		check.Must(c, err)
		check.Within(c, int(stat.Version), c.done[i], c.done[i]+c.doubtful[i], "writes to ", c.node(i))
	}
}
