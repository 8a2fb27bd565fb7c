package presence

import (
	"sync"
	"time"

	"github.com/zkactors/zkactors/primitives/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A Config is how a node is kept.
type Config struct {
	// ConflictAfter is how long a node of another session is waited for. The default
	// is twice the timeout of the session.
	ConflictAfter time.Duration

	// TakeOver replaces it then; AtOnce does not wait.
	TakeOver, AtOnce bool
}

// A Node performs the effects of a [Machine].
type Node struct {
	session  client.Session
	path     string
	registry *registry
	kept     any           // its handle
	started  chan struct{} // closed when that is complete

	owned owned.Set

	following int // the epoch; of the goroutine of the actor
}

// A registry is what is known of a session by those who keep nodes in it.
type registry struct {
	mu     sync.Mutex
	ids    map[int64]struct{} // of the sessions on the server that it has had
	claims map[string]*Node   // by path

	// Who waits until a parent is made, each from the request for it to the answer: many who join at once
	// find that there is none, and one of them makes it.
	making map[parent][]func(error)
}

// A parent is made in one epoch.
type parent struct {
	dir   string
	epoch int
}

type registryKey struct{}

// registryOf returns that of the session.
func registryOf(s client.Session) *registry {
	fresh := false
	v := s.Local(registryKey{}, func() any {
		fresh = true
		return &registry{ids: make(map[int64]struct{}), claims: make(map[string]*Node), making: make(map[parent][]func(error))}
	})
	r := v.(*registry)
	if fresh {
		s.Subscribe(func(ev session.Event) <-chan struct{} {
			if c, ok := ev.(session.Connected); ok {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.ids[c.ID] = struct{}{}
			}
			return nil
		})
	}
	return r
}

func (r *registry) had(id int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.ids[id]
	return ok
}

func newMachine(data []byte, config Config) Machine {
	return Machine{
		conflictAfter: config.ConflictAfter, takeOver: config.TakeOver, atOnce: config.AtOnce,
		data: string(data), rev: 1,
	}
}

func newNode(s client.Session, path string) *Node {
	n := &Node{session: s, path: path, registry: registryOf(s)}
	n.owned.Clock = s
	return n
}

// Begin has the machine told what becomes of the session, which waits for ended before
// it ends itself.
func (n *Node) Begin(tell func(Input), ended <-chan struct{}) {
	n.owned.Follow(n.session, func(ev session.Event) { tell(heard{ev}) }, ended)
}

// End gives up the claim to the path, when the machine has ended.
func (n *Node) End() {
	n.registry.mu.Lock()
	if n.registry.claims[n.path] == n {
		delete(n.registry.claims, n.path)
	}
	n.registry.mu.Unlock()
	n.owned.End()
}

// Perform starts one thing that the machine asked for.
func (n *Node) Perform(e Effect, tell func(Input)) {
	reply := func(t turn, in Input, err error) {
		if err != nil {
			in = failed{t, err}
		}
		n.owned.Answer(err, func() { tell(in) })
	}
	switch e := e.(type) {
	case create:
		n.create(e.turn, e.data, nil, func(in created, err error) { reply(e.turn, in, err) })
	case makeParent:
		dir, _ := session.Split(n.path)
		n.registry.makeParent(n.in(e.turn), parent{dir, e.epoch}, func(err error) { reply(e.turn, done{turn: e.turn}, err) })
	case look:
		n.look(e, func(s Sight, err error) { reply(e.turn, looked{e.turn, s}, err) })
	case takeOver:
		n.create(e.turn, e.data, []session.Op{session.DeleteOp(n.path, e.version)}, func(in created, err error) { reply(e.turn, in, err) })
	case store:
		n.in(e.turn).Set(n.path, []byte(e.data), e.version, func(stat *session.Stat, err error) {
			in := stored{turn: e.turn}
			if err == nil {
				in.ghost, in.version = ghost{stat.EphemeralOwner, stat.Czxid}, stat.Version
			}
			reply(e.turn, in, err)
		})
	case withdraw:
		n.withdraw(e, func(other bool, err error) { reply(e.turn, done{e.turn, other}, err) })
	case follow:
		n.follow(e.epoch, tell)
	case wait:
		n.owned.After(wait{}, e.long, func() { tell(patient{e.n}) })
	case answer:
		for _, r := range e.replies {
			r.Give(e.err)
		}
	}
}

// makeParent makes the parent, unless that is under way.
func (r *registry) makeParent(requests client.Async, p parent, answer func(error)) {
	r.mu.Lock()
	waiting := append(r.making[p], answer)
	r.making[p] = waiting
	r.mu.Unlock()
	if len(waiting) > 1 {
		return
	}
	requests.EnsurePath(p.dir, func(_ bool, err error) {
		r.mu.Lock()
		waiting := r.making[p]
		delete(r.making, p)
		r.mu.Unlock()
		for _, answer := range waiting {
			answer(err)
		}
	})
}

func (n *Node) in(t turn) client.Async { return n.session.Async(t.epoch) }

// create creates the node after first is done, and changes it at once to give it its
// version. That is left out where it cannot be: for data that is too large to be sent
// twice, or who may not write to his own node.
func (n *Node) create(t turn, data string, first []session.Op, tell func(created, error)) {
	plain := append(first, session.CreateOp(n.path, []byte(data), session.Ephemeral))
	send := func(ops []session.Op, refused func()) {
		n.in(t).Multi(ops, func(results []session.OpResult, err error) {
			in := created{turn: t}
			if len(results) > len(plain) {
				last := results[len(plain)]
				if isAny(last.Err, session.ErrNoAuth) {
					refused()
					return
				}
				if last.Stat != nil {
					in.czxid, in.version = last.Stat.Czxid, last.Stat.Version
				}
			}
			tell(in, err)
		})
	}
	whole := append(plain, session.SetOp(n.path, []byte(data), birth-1))
	if n.session.Fits(whole...) != nil {
		send(plain, nil)
		return
	}
	send(whole, func() { send(plain, nil) })
}

func (n *Node) look(e look, tell func(Sight, error)) {
	requests := n.in(e.turn)
	get := func() {
		requests.Get(n.path, func(data []byte, stat *session.Stat, err error) { tell(n.sight(data, stat), err) })
	}
	if !e.sync {
		get()
		return
	}
	requests.Sync(n.path, func(err error) {
		if err != nil {
			tell(Sight{}, err)
			return
		}
		get()
	})
}

func (n *Node) sight(data []byte, stat *session.Stat) Sight {
	if stat == nil {
		return Sight{}
	}
	return Sight{
		Exists: true, Owner: stat.EphemeralOwner, Past: n.registry.had(stat.EphemeralOwner),
		Czxid: stat.Czxid, Version: stat.Version, Data: string(data),
	}
}

// follow watches the node, once in each epoch.
func (n *Node) follow(epoch int, tell func(Input)) {
	if n.following == epoch {
		return
	}
	n.following = epoch
	sub := n.session.Async(epoch).Follow(n.path, session.AspectData, true, func(r session.Reading, err error) {
		if err != nil {
			tell(blind{epoch, err})
			return
		}
		tell(saw{epoch, n.sight(r.Data, r.Stat)})
	})
	n.owned.Keep(follow{}, sub)
}

// withdraw deletes the node if it is of the session, also after the end, until a later handle
// keeps the path: it may have taken over this very node. It answers whether another node was
// found in its place before the deletion was sent.
func (n *Node) withdraw(e withdraw, answer func(other bool, err error)) {
	const certain = 2 // when it was read, and when it was written to
	other, found := false, 0
	n.in(e.turn).Remove(session.Removal{
		Path: n.path, Contested: true,
		Is: func(stat *session.Stat) bool {
			if stat.EphemeralOwner != e.session || n.replaced() {
				other = other || found < certain
				return false
			}
			found++
			return true
		},
		Replaced: func(*session.Stat) { other = true },
	}, func(err error) { answer(other, err) })
}

// replaced reports whether a later handle keeps the path.
func (n *Node) replaced() bool {
	n.registry.mu.Lock()
	defer n.registry.mu.Unlock()
	later := n.registry.claims[n.path]
	return later != nil && later != n
}
