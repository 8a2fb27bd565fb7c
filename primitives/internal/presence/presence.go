package presence

import (
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// A Config says how a conflict with another session's node ends, and how the parent is made.
type Config struct {
	// ConflictAfter is the time for which the machine waits for the end of another session's node.
	// The default is twice the timeout of the session.
	ConflictAfter time.Duration

	// TakeOver replaces that node after the wait. AtOnce replaces it without a wait, and a
	// persistent node too.
	TakeOver, AtOnce bool

	// Persistent makes the parent a persistent node; otherwise it is a container.
	Persistent bool

	// Owner, if not "", is the recipe whose directory the parent is. Before the parent is created,
	// the node above is read: it must not belong to another recipe.
	Owner nodes.Recipe
}

// A Node performs the effects of a [Machine].
type Node struct {
	session  client.Session
	path     string
	registry *registry

	// As in the Config; constant.
	persistent bool
	owner      nodes.Recipe

	kept    any           // the handle; set by claim, and complete when started is closed
	started chan struct{} // closed when the handle is complete

	owned owned.Set // the watch, the timer and the session's events; ended by End

	following int // the epoch in which the path is watched; used by the actor's goroutine alone
}

// A registry is shared by all nodes that one session keeps.
type registry struct {
	mu     sync.Mutex
	ids    map[int64]struct{} // the ids of all sessions so far: nodes that they own are ghosts of ours
	claims map[string]*Node   // the node that is kept at each path; set by claim, cleared by End

	// making holds an answer for each node that waits until its parent is created. Many nodes
	// that join at once find no parent: the first asks for it, and the answer is for all.
	making map[parent][]func(error)
}

// A parent is created in one epoch: the answer of another is not for its waiters.
type parent struct {
	dir        string
	persistent bool
	owner      nodes.Recipe
	epoch      int
}

type registryKey struct{}

// registryOf returns the registry of the session. The first call creates it, and follows
// the session to learn its ids.
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

// had reports whether id is, or was, the session's.
func (r *registry) had(id int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.ids[id]
	return ok
}

// newMachine returns a machine without a session, whose first update is data.
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

// Begin follows the session for the machine. A session that is closed waits for ended before it
// ends itself, so that the node is deleted.
func (n *Node) Begin(tell func(Input), ended <-chan struct{}) {
	n.owned.Follow(n.session, func(ev session.Event) { tell(heard{ev}) }, ended)
}

// End releases the path, and ends the watch and the timer. It is called when the machine has ended.
func (n *Node) End() {
	n.registry.mu.Lock()
	if n.registry.claims[n.path] == n {
		delete(n.registry.claims, n.path)
	}
	n.registry.mu.Unlock()
	n.owned.End()
}

// Perform starts one effect. Answers of a busy server are delayed, so that the machine may repeat a
// request at once.
func (n *Node) Perform(e Effect, tell func(Input)) {
	reply := func(id requestID, in Input, err error) {
		if err != nil {
			in = failed{id, err}
		}
		n.owned.Answer(err, func() { tell(in) })
	}
	switch e := e.(type) {
	case create:
		n.create(e.requestID, e.data, nil, func(in created, err error) { reply(e.requestID, in, err) })
	case makeParent:
		dir, _ := znode.Split(n.path)
		n.registry.makeParent(n.in(e.requestID), parent{dir, n.persistent, n.owner, e.epoch}, func(err error) { reply(e.requestID, done{requestID: e.requestID}, err) })
	case look:
		n.look(e, func(s Sight, err error) { reply(e.requestID, looked{e.requestID, s}, err) })
	case takeOver:
		n.create(e.requestID, e.data, []session.Op{session.DeleteOp(n.path, e.version)}, func(in created, err error) { reply(e.requestID, in, err) })
	case store:
		n.in(e.requestID).Set(n.path, []byte(e.data), e.version, func(stat *session.Stat, err error) {
			in := stored{requestID: e.requestID}
			if err == nil {
				in.ghost, in.version = ghost{stat.EphemeralOwner, stat.Czxid}, stat.Version
			}
			reply(e.requestID, in, err)
		})
	case withdraw:
		n.withdraw(e, func(other bool, err error) { reply(e.requestID, done{e.requestID, other}, err) })
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

// makeParent creates the parent, unless a request for it is under way, whose answer then serves
// both.
func (r *registry) makeParent(requests client.Async, p parent, answer func(error)) {
	r.mu.Lock()
	waiting := append(r.making[p], answer)
	r.making[p] = waiting
	r.mu.Unlock()
	if len(waiting) > 1 {
		return
	}
	ensure := requests.EnsurePath
	if p.persistent {
		ensure = func(dir string, made func(bool, error)) { client.MakePersistent(requests, dir, made) }
	}
	made := func(_ bool, err error) {
		r.mu.Lock()
		waiting := r.making[p]
		delete(r.making, p)
		r.mu.Unlock()
		for _, answer := range waiting {
			answer(err)
		}
	}
	if p.owner == "" {
		ensure(p.dir, made)
		return
	}
	above, _ := znode.Split(p.dir)
	recipe.Vacant(requests, above, p.owner, func(err error) {
		if err != nil {
			made(false, err)
			return
		}
		ensure(p.dir, made)
	})
}

// in returns the requests of the epoch: after that session they fail, and never arrive in the next.
func (n *Node) in(id requestID) client.Async { return n.session.Async(id.epoch) }

// create sends the operations of first, the creation, and a write that gives the node the version
// birth, in one transaction. The write is left out if the data is too large to be sent twice, or if
// the server refuses it: an ACL may forbid writes to the own node.
func (n *Node) create(id requestID, data string, first []session.Op, tell func(created, error)) {
	plain := append(first, session.CreateOp(n.path, []byte(data), session.Ephemeral))
	send := func(ops []session.Op, refused func()) {
		n.in(id).Multi(ops, func(results []session.OpResult, err error) {
			in := created{requestID: id}
			if len(results) > len(plain) {
				last := results[len(plain)]
				if client.IsAny(last.Err, session.ErrNoAuth) {
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

// look reads the node, after a sync if the effect says so.
func (n *Node) look(e look, tell func(Sight, error)) {
	requests := n.in(e.requestID)
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

// sight returns the sight of a node; stat is nil if none stands.
func (n *Node) sight(data []byte, stat *session.Stat) Sight {
	if stat == nil {
		return Sight{}
	}
	return Sight{
		Exists: true, Owner: stat.EphemeralOwner, Past: n.registry.had(stat.EphemeralOwner),
		Czxid: stat.Czxid, Version: stat.Version, Data: string(data),
	}
}

// follow watches the path, once in each epoch. The watch of an earlier epoch is dropped.
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

// withdraw deletes the node if the session owns it. The session repeats the deletion until it is
// confirmed, also after End. It stops when a later handle keeps the path, because that may have
// taken over this very node. The answer says whether another node was found in its place before the
// deletion was sent.
func (n *Node) withdraw(e withdraw, answer func(other bool, err error)) {
	const certain = 2 // sights of our node: by the read, and by the write that marks it
	other, found := false, 0
	n.in(e.requestID).Remove(session.Removal{
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

// replaced reports whether a later handle keeps the path. The claim of this one is gone then.
func (n *Node) replaced() bool {
	n.registry.mu.Lock()
	defer n.registry.mu.Unlock()
	later := n.registry.claims[n.path]
	return later != nil && later != n
}
