package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// This file has the workloads whose handles stand for the life of a process.

// stand keeps a handle open until Over, and opens another when it has ended by itself.
func (c *Client) stand(do func()) {
	c.Standing.Go(func() {
		for !isClosed(c.Over) && c.Context.Err() == nil {
			do()
			c.rest(time.Second, c.Over)
		}
	})
}

// closing calls the function at Over, or when the process dies, unless the handle is done before.
func (c *Client) closing(done <-chan struct{}, closeHandle func()) {
	c.Standing.Go(func() {
		select {
		case <-done:
		case <-c.Over:
			closeHandle()
		case <-c.Context.Done():
			closeHandle()
		}
	})
}

func sessions() Workload {
	const name = "session"
	return Workload{Name: name, Path: "/", Run: func(c *Client) {
		events := c.Session.Events(context.WithoutCancel(c.Context)) // they end with the session
		handle := c.name(name)
		c.Last.Go(func() {
			for ev := range events {
				told := history.Told{Recipe: name, Path: "/", Handle: handle, Kind: kindOf(ev)}
				if connected, is := ev.(session.Connected); is {
					told.Session = connected.ID
				}
				c.Record.Tell(told)
			}
		})
	}}
}

func elections() Workload {
	const name, path = "election", "/elections/0"
	return Workload{Name: name, Path: "/elections", Nodes: marks(name), Run: func(c *Client) {
		c.candidate(name, path, election.Standard)
	}}
}

// candidate stands in an election.
func (c *Client) candidate(name, path string, layout election.Layout) {
	dice := c.Dice()
	c.stand(func() {
		e, err := election.New(c.Session, path, &election.Options{Data: c.data(), Layout: layout, IgnoreLeader: c.Number%2 == 1})
		if err != nil {
			return
		}
		handle, since := c.name(name), c.Record.Moment()
		terms := &holdings{}
		c.closing(e.Done(), func() {
			terms.close()
			e.Close()
		})
		for ev := range e.Events() {
			c.Record.Tell(history.Told{Recipe: name, Path: path, Handle: handle, Kind: kindOf(ev)})
			switch ev := ev.(type) {
			case election.Elected:
				about := history.Operation{Recipe: name, Path: path, Handle: fmt.Sprintf("%s.%d", handle, ev.Term)}
				about.Token, about.Node, about.Session = ev.Term, e.Node(), c.Session.ID()
				grant := about
				grant.Kind = judge.Acquire
				begun := since
				c.Record.Begin(grant).End(history.OK, func(o *history.Operation) { o.Call = begun })
				leader, guard, seed := c.ending(about), e.Guard(), dice.Uint64()
				terms.hold(0, leader)
				if term, leading := e.Leading(); leading && term == ev.Term { // else the guard may be of a later term
					c.Standing.Go(func() { c.lead(rand.New(rand.NewPCG(seed, 0)), e, layout, leader, about, guard) })
				}
			case election.Deposed:
				terms.lose(0)
				since = c.Record.Moment()
			case election.Standing, election.LeaderChanged, election.Suspended, election.Resumed, election.Overrun, election.Left:
			}
		}
	})
}

// holdings are the grants of one handle that are not over, by shard.
type holdings struct {
	mu     sync.Mutex
	all    map[int]*ending
	closed bool
}

func (h *holdings) hold(i int, e *ending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = make(map[int]*ending)
	}
	if h.all[i] = e; h.closed {
		e.lose()
	}
}

func (h *holdings) of(i int) *ending {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[i]
}

func (h *holdings) lose(i int) { h.of(i).lose() }

// close records the end of all grants. It is called before the handle is closed.
func (h *holdings) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, e := range h.all {
		e.lose()
	}
}

// lead acts as a leader does, for one term. Only our own layout has transfers.
func (c *Client) lead(dice *rand.Rand, e *election.Candidate, layout election.Layout, over *ending, about history.Operation, guard session.Op) {
	write := c.behind(about.Recipe, only(func() session.Op { return guard }))
	leads := func() bool {
		term, leading := e.Leading()
		return leading && term == about.Token
	}
	for leads() && !c.stopped() {
		c.guarded(about, write)
		c.rest(upTo(dice, 300*time.Millisecond), c.Stop)
		c.guarded(about, write)
		ctx, cancel := context.WithTimeout(c.Context, 10*time.Second)
		switch dice.IntN(4) {
		case 0:
			_ = e.Acknowledge(ctx) // only observers see that
		case 1:
		case 2:
			if leads() && !c.stopped() {
				_ = over.release(func() error { return e.Resign(ctx) })
			}
		default:
			all, err := election.Candidates(ctx, c.Session, about.Path, &election.ObserveOptions{Layout: layout})
			if err == nil && layout == election.Standard && len(all) > 0 && leads() && !c.stopped() {
				_ = over.release(func() error { return e.Transfer(ctx, all[dice.IntN(len(all))].Node) })
			}
		}
		cancel()
	}
}

func shards() Workload {
	const name, path, n = "shard", "/shards", 4
	return Workload{Name: name, Path: path, Nodes: marks(name), Run: func(c *Client) {
		dice := c.Dice()
		c.stand(func() {
			since := c.Record.Moment()
			m, err := shard.Join(c.Session, path, n, &shard.Options{ID: fmt.Sprint("m", c.Number), GiveWithin: 3 * time.Second})
			if err != nil {
				return
			}
			handle := c.name(name)
			owned := &holdings{}
			c.closing(m.Done(), func() {
				owned.close()
				m.Close()
			})
			for ev := range m.Events() {
				kind := kindOf(ev)
				switch ev := ev.(type) {
				case shard.Assigned:
					about := history.Operation{Recipe: name, Path: fmt.Sprintf("%s/shards/%d", path, ev.Shard)}
					about.Handle, about.Token, about.Session = fmt.Sprintf("%s.%d.%d", handle, ev.Shard, ev.Token), ev.Token, c.Session.ID()
					grant := about
					grant.Kind = judge.Acquire
					c.Record.Begin(grant).End(history.OK, func(o *history.Operation) { o.Call = since })
					owned.hold(ev.Shard, c.ending(about))
					if guard := m.Guard(ev.Shard); m.Token(ev.Shard) == ev.Token {
						c.Standing.Go(func() { c.guarded(about, c.behind(name, only(func() session.Op { return guard }))) })
					}
				case shard.Revoke:
					over, late := owned.of(ev.Shard), upTo(dice, 200*time.Millisecond)
					c.Standing.Go(func() {
						c.rest(late, nil)
						_ = over.release(func() error { m.GiveGrant(ev.Shard, ev.Token); return nil })
					})
				case shard.Lost:
					kind = "ShardLost"
					owned.lose(ev.Shard)
				case shard.Joined, shard.Suspended, shard.Resumed, shard.Gone, shard.Left:
				}
				c.Record.Tell(history.Told{Recipe: name, Path: path, Handle: handle, Kind: kind})
			}
		})
	}}
}

func groups() Workload {
	const name, path = "group", "/group"
	return Workload{Name: name, Path: path, Run: func(c *Client) {
		c.stand(func() {
			m, err := group.Join(c.Session, path, fmt.Sprint("m", c.Number), []byte(c.Record.Process()), &group.Options{ConflictAfter: time.Millisecond, TakeOver: true})
			if err != nil {
				return
			}
			handle := c.name(name)
			c.closing(m.Done(), m.Close)
			c.stopping(m.Done(), "members", path, handle)
			for ev := range m.Events() {
				c.Record.Tell(history.Told{Recipe: name, Path: path, Handle: handle, Kind: kindOf(ev)})
				if changed, is := ev.(group.MembersChanged); is {
					c.members(path, handle, namesOf(changed.Members, func(m group.Member) string { return m.ID }))
				}
			}
		})
	}}
}

// members records the members that a watcher of a directory receives, until Quiet.
func (c *Client) members(path, handle string, names []string) {
	if !isClosed(c.Quiet) {
		c.Record.Tell(history.Told{Recipe: "members", Path: path, Handle: handle, Kind: judge.Members, Value: strings.Join(names, ",")})
	}
}

func namesOf[M any](all []M, name func(M) string) (names []string) {
	for _, m := range all {
		names = append(names, name(m))
	}
	return names
}

// A watcher of a directory receives its members.
type watcher[M any] interface {
	Done() <-chan struct{}
	Close()
	Changes() <-chan M
}

// follow records what a watcher of the directory receives, until the watcher ends.
func follow[M any](c *Client, w watcher[M], path, handle string, names func(M) []string) {
	c.closing(w.Done(), w.Close)
	c.stopping(w.Done(), "members", path, handle)
	for members := range w.Changes() {
		c.members(path, handle, names(members))
	}
}

// stopping records that a watcher was there to the end: from Quiet on nothing changes any more.
func (c *Client) stopping(done <-chan struct{}, recipe, path, handle string) {
	c.Standing.Go(func() {
		select {
		case <-done:
		case <-c.Context.Done():
		case <-c.Quiet:
			c.Record.Tell(history.Told{Recipe: recipe, Path: path, Handle: handle, Kind: judge.Stopped})
		}
	})
}

func names() Workload {
	const name, path = "naming", "/names"
	return Workload{Name: name, Path: path, Run: func(c *Client) {
		c.stand(func() {
			r, err := naming.Keep(c.Session, path, fmt.Sprint("n", c.Number), []byte(c.Record.Process()), nil)
			if err != nil {
				return
			}
			handle := c.name(name)
			c.closing(r.Done(), r.Close)
			for ev := range r.Events() {
				c.Record.Tell(history.Told{Recipe: name, Path: path, Handle: handle, Kind: kindOf(ev)})
			}
		})
		c.stand(func() {
			w, err := watch.Children(c.Session, path, nil)
			if err != nil {
				return
			}
			follow(c, w, path, c.name("names"), func(state watch.ChildrenState) []string { return state.Names })
		})
	}}
}

func instances() Workload {
	const name, dir, service = "discovery", "/services", "web"
	const path = dir + "/" + service
	return Workload{Name: name, Path: dir, Run: func(c *Client) {
		dice := c.Dice()
		c.stand(func() {
			instance := discovery.Instance{Service: service, ID: fmt.Sprint("i", c.Number), Address: "127.0.0.1", Port: 1}
			r, err := discovery.Register(c.Session, dir, instance, &discovery.Options{TakeOver: true})
			if err != nil {
				return
			}
			handle := c.name(name)
			c.closing(r.Done(), r.Close)
			for ev := range r.Events() {
				c.Record.Tell(history.Told{Recipe: name, Path: path, Handle: handle, Kind: kindOf(ev)})
				if _, is := ev.(discovery.Registered); is {
					ctx, cancel := context.WithTimeout(c.Context, time.Second)
					instance.Port = 1 + dice.IntN(1000)
					_ = r.Update(ctx, instance) // it goes on if its time is over
					cancel()
				}
			}
		})
		c.stand(func() {
			w, err := discovery.Watch(c.Session, dir, service, nil)
			if err != nil {
				return
			}
			follow(c, w, path, c.name("instances"), func(all []discovery.Instance) []string {
				return namesOf(all, func(i discovery.Instance) string { return i.ID })
			})
		})
	}}
}

func watches() Workload {
	const name, path, nodes = "watch", "/watched", 2
	keep := map[string]string{path + "/keep": ""} // the server removes a directory that has become empty
	return Workload{Name: name, Path: path, Nodes: keep, Run: func(c *Client) {
		for i := range nodes {
			node := fmt.Sprintf("%s/%d", path, i)
			c.stand(func() { c.watch(name, node) })
			c.loop(400*time.Millisecond, func(dice *rand.Rand) { c.change(dice, node) })
		}
	}}
}

// watch records the states of a node as a watcher receives them.
func (c *Client) watch(recipe, node string) {
	w, err := watch.Node(c.Session, node, nil)
	if err != nil {
		return
	}
	handle := c.name(recipe)
	c.closing(w.Done(), w.Close)
	c.stopping(w.Done(), recipe, node, handle)
	for state := range w.Changes() {
		told := history.Told{Recipe: recipe, Path: node, Handle: handle, Kind: judge.State, Session: c.Session.ID()}
		if state.Exists {
			told.Zxid, told.Value = state.Stat.Mzxid, string(state.Data)
		}
		if !isClosed(c.Quiet) {
			c.Record.Tell(told)
		}
	}
}

// change writes to a watched node, or deletes it.
func (c *Client) change(dice *rand.Rand, node string) {
	ctx, cancel := context.WithTimeout(c.Context, 5*time.Second)
	defer cancel()
	value := c.name(base(node))
	p := c.Record.Begin(history.Operation{Recipe: "watch", Path: node, Kind: "change", Argument: value})
	var err error
	switch kinds := []string{"set", "set", "set", "create", "create", "delete"}; kinds[dice.IntN(len(kinds))] {
	case "create":
		_, err = c.Session.Create(ctx, node, []byte(value), session.Persistent)
	case "delete":
		err = c.Session.Delete(ctx, node, session.AnyVersion)
	default:
		_, err = c.Session.Set(ctx, node, []byte(value), session.AnyVersion)
	}
	end(p, err, nil)
}
