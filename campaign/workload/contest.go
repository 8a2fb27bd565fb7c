package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/semaphore"
)

// An Attempt is one try to hold something, of the library or of a peer.
type Attempt interface {
	// Follow reports the events of the attempt, as long as there are any. The token is that of an
	// event with the kind "Acquired".
	Follow(tell func(kind string, token int64))

	// Done is closed when it is held no more; never by a peer that does not say so.
	Done() <-chan struct{}

	Nodes() []string                            // of the grant, one for each path
	Write(ctx context.Context, id string) error // behind the guard of the grant, if the peer has any
	Release(ctx context.Context) error
	Close()
}

// A contest is what contenders contend for.
type contest struct {
	recipe, path  string
	also          []string // further paths, whose locks are held together with the first
	weight, limit int
	long          time.Duration // for which some hold at most, without a request; 0 for none
	open          func() (Attempt, error)
	result        func() string // of a grant; nil if it has none
}

// long is how long some holders work: longer than a session lives.
const long = 9 * time.Second

// longSecond returns it for the second of two paths.
func longSecond(i int) time.Duration { return time.Duration(i) * long }

const acquired = "Acquired"

// contend goes through one attempt. Its grant is one on each of the paths.
func (c *Client) contend(dice *rand.Rand, k contest) {
	about := history.Operation{Recipe: k.recipe, Path: k.path, Handle: c.name(k.recipe), Weight: k.weight, Limit: k.limit}
	a, err := k.open()
	if err != nil {
		return // the session is closed
	}
	all := []*tenure{c.tenure(about)}
	for i, path := range k.also {
		other := about
		other.Path, other.Handle = path, fmt.Sprintf("%s+%d", about.Handle, i+1)
		all = append(all, c.tenure(other))
	}
	lose := func() {
		for _, t := range all {
			t.over.lose()
		}
	}
	write := func() {
		for _, t := range all {
			c.guarded(t.about, a.Write)
		}
	}
	granted, ended := make(chan struct{}), make(chan struct{})
	var follower sync.WaitGroup
	defer follower.Wait()
	defer a.Close()
	follower.Go(func() {
		defer close(ended)
		a.Follow(func(kind string, token int64) {
			c.Record.Tell(history.Told{Recipe: k.recipe, Path: k.path, Handle: about.Handle, Kind: kind, Token: token})
			if kind == acquired {
				result := ""
				if k.result != nil {
					result = k.result()
				}
				for i, node := range a.Nodes() {
					all[i].granted(token, c.SessionID(), node, result)
				}
				close(granted)
			}
		})
	})
	follower.Go(func() {
		select {
		case <-a.Done():
			lose()
		case <-ended:
		}
	})
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case <-granted:
	case <-ended:
	case <-c.Context.Done():
	case <-patience.C:
		c.stuck(k.recipe, k.path, about.Handle, errPatience.Error())
	}
	if !isClosed(granted) {
		for _, t := range all {
			t.pending.End(history.Failed, nil)
		}
		a.Close()
		return
	}
	write()
	work := upTo(dice, 60*time.Millisecond)
	if k.long > 0 && dice.IntN(4) == 0 {
		work = upTo(dice, k.long)
	}
	c.rest(work, a.Done())
	write()
	release := func() error {
		ctx, cancel := context.WithTimeout(c.Context, Patience)
		defer cancel()
		return a.Release(ctx)
	}
	for _, t := range all {
		inner := release
		release = func() error { return t.over.release(inner) }
	}
	_ = release() // the history has its error
}

// A tenure is the record of a grant on one path.
type tenure struct {
	about   history.Operation
	pending *history.Pending
	over    *ending
}

func (c *Client) tenure(about history.Operation) *tenure {
	grant := about
	grant.Kind = judge.Acquire
	return &tenure{about, c.Record.Begin(grant), c.ending(about)}
}

func (t *tenure) granted(token, session int64, node, result string) {
	t.about.Token, t.about.Session, t.about.Node = token, session, node
	t.pending.End(history.OK, func(o *history.Operation) { o.Token, o.Session, o.Node, o.Result = token, session, node, result })
}

// SessionID returns the id of the session; 0 if there is none.
func (c *Client) SessionID() int64 {
	if c.Conn != nil {
		return c.Conn.SessionID()
	}
	return c.Session.ID()
}

// A handle is what locks and leases have in common.
type handle interface {
	Done() <-chan struct{}
	Release(ctx context.Context) error
	Close()
}

// An attempt is one of the library's handles.
type attempt[E any] struct {
	handle
	nodes  func() []string
	events <-chan E
	token  func(E) int64 // of an event that has one; 0 of others
	write  func(ctx context.Context, id string) error
}

// Follow implements [Attempt].
func (a attempt[E]) Follow(tell func(string, int64)) {
	for ev := range a.events {
		tell(kindOf(ev), a.token(ev))
	}
}

// Nodes implements [Attempt].
func (a attempt[E]) Nodes() []string { return a.nodes() }

// Write implements [Attempt].
func (a attempt[E]) Write(ctx context.Context, id string) error { return a.write(ctx, id) }

func lockToken(ev lock.Event) int64 {
	a, _ := ev.(lock.Acquired) // others have none
	return a.Token
}

// lockAttempt returns the attempt of a lock that was opened.
func (c *Client) lockAttempt(recipe string, l *lock.Lock, err error) (Attempt, error) {
	if err != nil {
		return nil, err
	}
	return attempt[lock.Event]{l, only(l.Node), l.Events(), lockToken, c.behind(recipe, only(l.Guard))}, nil
}

// only returns the nodes, or the guards, of a handle that has one.
func only[T any](get func() T) func() []T {
	return func() []T { return []T{get()} }
}

func locks() Workload {
	const name = "lock"
	return Workload{Name: name, Path: "/locks", Nodes: marks(name), Run: func(c *Client) {
		for i := range 2 {
			c.loop(250*time.Millisecond, func(dice *rand.Rand) {
				path := fmt.Sprint("/locks/", i)
				c.contend(dice, contest{recipe: name, path: path, long: longSecond(i), open: func() (Attempt, error) {
					l, err := lock.New(c.Session, path, &lock.Options{Data: c.data(), ReleaseInBackground: dice.IntN(4) == 0})
					return c.lockAttempt(name, l, err)
				}})
			})
		}
	}}
}

// together has contenders for one of two locks, and for both at once, in both orders.
func together() Workload {
	const name, dir = "lock", "/together"
	paths := []string{dir + "/0", dir + "/1"}
	return Workload{Name: "together", Path: dir, Run: func(c *Client) {
		c.loop(500*time.Millisecond, func(dice *rand.Rand) {
			first := dice.IntN(2)
			k := contest{recipe: name, path: paths[first], open: func() (Attempt, error) {
				l, err := lock.New(c.Session, paths[first], &lock.Options{Data: c.data()})
				return c.lockAttempt(name, l, err)
			}}
			if dice.IntN(2) == 0 {
				k.also = []string{paths[1-first]}
				k.open = func() (Attempt, error) {
					l, err := lock.NewAll(c.Session, []lock.Want{{Path: paths[first]}, {Path: paths[1-first]}}, &lock.Options{Data: c.data()})
					if err != nil {
						return nil, err
					}
					return attempt[lock.Event]{l, l.Nodes, l.Events(), lockToken, c.behind(name, l.Guards)}, nil
				}
			}
			c.contend(dice, k)
		})
	}}
}

// priorities has contenders of four priorities, some of which ask holders of a lower one to leave.
func priorities() Workload {
	const name, path = "lock", "/priorities/0"
	return Workload{Name: "priority", Path: "/priorities", Run: func(c *Client) {
		c.loop(500*time.Millisecond, func(dice *rand.Rand) {
			opts := lock.Options{Data: c.data(), Layout: lock.Prioritized, Priority: dice.IntN(4), Preempt: dice.IntN(3) == 0}
			c.contend(dice, contest{recipe: name, path: path, open: func() (Attempt, error) {
				l, err := lock.New(c.Session, path, &opts)
				return c.lockAttempt(name, l, err)
			}})
		})
	}}
}

// manyReaders is more than there are.
const manyReaders = 1 << 20

func readWrite() Workload {
	const name, path = "readwrite", "/readwrite/0"
	return Workload{Name: name, Path: "/readwrite", Nodes: marks(name), Run: func(c *Client) {
		for range 2 {
			c.loop(250*time.Millisecond, func(dice *rand.Rand) {
				k := contest{recipe: name, path: path, weight: 1, limit: manyReaders, open: func() (Attempt, error) {
					l, err := lock.NewRead(c.Session, path, &lock.Options{Data: c.data()})
					return c.lockAttempt(name, l, err)
				}}
				if dice.IntN(3) == 0 {
					k.weight = 0
					k.open = func() (Attempt, error) {
						l, err := lock.NewWrite(c.Session, path, &lock.Options{Data: c.data()})
						return c.lockAttempt(name, l, err)
					}
				}
				c.contend(dice, k)
			})
		}
	}}
}

func semaphores() Workload {
	const name, path, limit = "semaphore", "/semaphores/0", 4
	return Workload{Name: name, Path: "/semaphores", Nodes: marks(name), Run: func(c *Client) {
		for range 2 {
			c.loop(250*time.Millisecond, func(dice *rand.Rand) {
				opts := semaphore.Options{Weight: 1 + dice.IntN(3), Data: c.data()}
				c.contend(dice, c.lease(contest{recipe: name, path: path, weight: opts.Weight, limit: limit}, &opts))
			})
		}
	}}
}

// lease returns the contest for a lease with the options.
func (c *Client) lease(k contest, opts *semaphore.Options) contest {
	var l *semaphore.Lease
	k.open = func() (_ Attempt, err error) {
		if l, err = semaphore.New(c.Session, k.path, k.limit, opts); err != nil {
			return nil, err
		}
		token := func(ev semaphore.Event) int64 {
			a, _ := ev.(semaphore.Acquired) // others have none
			return a.ID
		}
		return attempt[semaphore.Event]{l, only(l.Node), l.Events(), token, c.behind(k.recipe, only(l.Guard))}, nil
	}
	if opts.Numbered {
		k.result = func() string { return strconv.Itoa(l.Number()) }
	}
	return k
}

// zkLocks is the control: the lock of go-zookeeper, through the same contest. It reports no loss,
// has no token, and no guard. The czxid of its node serves as a token, as its users are advised.
func zkLocks() Workload {
	return controlLocks(func(c *Client, path string) (Attempt, error) {
		return &zkAttempt{c: c, path: path, lock: zk.NewLock(c.Conn, path, zk.WorldACL(zk.PermAll)), over: make(chan struct{})}, nil
	})
}

// controlLocks is the contest for the locks of a control.
func controlLocks(open func(c *Client, path string) (Attempt, error)) Workload {
	const name = "lock"
	return Workload{Name: name, Path: "/locks", Nodes: marks(name), Run: func(c *Client) {
		for i := range 2 {
			path := fmt.Sprint("/locks/", i)
			for range 2 {
				c.loop(120*time.Millisecond, func(dice *rand.Rand) {
					c.contend(dice, contest{recipe: name, path: path, long: 2 * longSecond(i), open: func() (Attempt, error) { return open(c, path) }})
				})
			}
		}
	}}
}

// A zkAttempt is one use of go-zookeeper's lock.
type zkAttempt struct {
	c    *Client
	path string
	lock *zk.Lock
	node string // set before the grant is reported
	once sync.Once
	over chan struct{}
}

// Follow implements [Attempt]: the lock has no events.
func (a *zkAttempt) Follow(tell func(string, int64)) {
	if err := a.lock.Lock(); err != nil {
		tell("Failed", 0)
		return
	}
	token := a.find()
	if token == 0 {
		tell("Failed", 0)
		_ = a.lock.Unlock() // the grant is not used
		return
	}
	tell(acquired, token)
	<-a.over
	tell("Released", 0)
}

// find looks for the node of the grant: the first in line. It returns its czxid, or 0.
func (a *zkAttempt) find() int64 {
	names, _, err := a.c.Conn.Children(a.path)
	if err != nil {
		return 0
	}
	first := ""
	for _, name := range names {
		if first == "" || number(name) < number(first) {
			first = name
		}
	}
	a.node = a.path + "/" + first
	_, stat, err := a.c.Conn.Exists(a.node)
	if err != nil || stat == nil || stat.EphemeralOwner != a.c.Conn.SessionID() {
		return 0
	}
	return stat.Czxid
}

// number returns the end of a node's name: that of a sequence has ten digits.
func number(name string) string { return name[max(0, len(name)-10):] }

// Done implements [Attempt]: the lock never says that it is lost.
func (a *zkAttempt) Done() <-chan struct{} { return a.over }

// Nodes implements [Attempt].
func (a *zkAttempt) Nodes() []string { return []string{a.node} }

// Write implements [Attempt]: nothing guards it.
func (a *zkAttempt) Write(_ context.Context, id string) error {
	_, err := a.c.Conn.Set(a.c.mark("lock"), []byte(id), -1)
	return err
}

// Release implements [Attempt].
func (a *zkAttempt) Release(context.Context) error {
	err := a.lock.Unlock()
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrSessionExpired) {
		err = nil
	}
	return err
}

// Close implements [Attempt].
func (a *zkAttempt) Close() { a.once.Do(func() { close(a.over) }) }
