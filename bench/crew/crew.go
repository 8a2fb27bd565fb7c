// Package crew runs the sessions of a fleet that live in one process. The bench starts a driver for
// each crew, and calls the methods of all crews at once. For that a driver connects to the socket
// that the parameter control names, and serves the methods of [Crew] on the connection until the
// bench closes it.
package crew

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"
	"time"

	"github.com/zkactors/zkactors/bench/driver"
)

// The roles of a session.
const (
	Own     = "own"     // holds a lock that no other session wants
	Line    = "line"    // waits in line for a lock, or holds it
	Config  = "config"  // follows a node's data
	Lead    = "lead"    // stands for election
	Consume = "consume" // takes items of a queue
	Enroll  = "enroll"  // is a member of a group; the path is that of its node
)

// atOnce is the number of sessions of a crew that open, or acquire, at the same time.
const atOnce = 16

// Program returns the program of a driver. open returns the opener of one client's sessions.
func Program(open func(Options) Opener) driver.Program {
	return func(r *driver.Run) error {
		conn, err := net.Dial("unix", r.Param("control"))
		if err != nil {
			return err
		}
		c := &Crew{servers: r.Servers, timeout: r.Timeout, open: open}
		server := rpc.NewServer()
		if err := server.Register(c); err != nil {
			return errors.Join(err, conn.Close())
		}
		server.ServeConn(conn) // until the bench closes it
		return c.close()
	}
}

// Options are the settings of a crew's sessions.
type Options struct {
	Servers []string
	Timeout time.Duration
	Variant []string      // changes of the client's defaults, by name: see [OursVariants]
	Tick    time.Duration // of the servers
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// An Opener opens a session. It returns when the session is connected.
type Opener func(report func(kind Kind, id int64)) (Member, error)

// A Member is one session of either client.
type Member interface {
	// Play begins a role. For Own, Enroll and Config it returns when the session holds the lock, is
	// a member, or has read the node. For the other roles it does not wait.
	Play(role, path string) error
	Close() error
}

// A Kind is the kind of an entry in a session's journal.
type Kind int

// The kinds of entries.
const (
	Connected Kind = iota // a new session
	Suspended
	Resumed
	Expired  // the client counts the session as lost
	Granted  // the session begins to hold a lock, to lead, or to be a member
	Deprived // a holder, leader or member learns of the loss
	Took     // an item of a queue was delivered
)

// An Entry is a change in a session's life.
type Entry struct {
	Member  int
	Session int64 // the session's id; for Took the number in the item's data
	Kind    Kind
	At      time.Time
}

// A Dial is an attempt to connect.
type Dial struct {
	At     time.Time
	Failed bool
}

// A Crew is the receiver of the remote calls.
type Crew struct {
	servers []string
	timeout time.Duration
	open    func(Options) Opener
	network network
	members []Member
	before  driver.Footprint

	mu      sync.Mutex
	journal []Entry
}

// Opening is the argument of [Crew.Open].
type Opening struct {
	Sessions int
	Variant  []string
	Tick     time.Duration // of the servers
	Within   time.Duration // the openings are spread evenly over this time
}

// Open opens the sessions.
func (c *Crew) Open(o Opening, _ *struct{}) error {
	c.before = driver.Memory()
	c.members = make([]Member, o.Sessions)
	open := c.open(Options{Servers: c.servers, Timeout: c.timeout, Variant: o.Variant, Tick: o.Tick, Dial: c.network.dial})
	began := time.Now()
	return each(o.Sessions, func(i int) (err error) {
		<-time.After(time.Until(began.Add(o.Within / time.Duration(o.Sessions) * time.Duration(i))))
		c.members[i], err = open(func(kind Kind, id int64) { c.note(i, kind, id) })
		return err
	})
}

func (c *Crew) note(member int, kind Kind, id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.journal = append(c.journal, Entry{member, id, kind, time.Now()})
}

// A Part is a role of one session.
type Part struct {
	Member int
	Role   string
	Path   string
}

// Play gives sessions their roles.
func (c *Crew) Play(parts []Part, _ *struct{}) error {
	return each(len(parts), func(i int) error {
		p := parts[i]
		if err := c.members[p.Member].Play(p.Role, p.Path); err != nil {
			return fmt.Errorf("%s %s: %w", p.Role, p.Path, err)
		}
		return nil
	})
}

// A Usage is what a crew has used so far.
type Usage struct {
	CPU            time.Duration
	Sent, Received float64 // bytes of the open connections; 0 on systems that do not count them
	Memory         driver.Footprint
}

// Use reports the usage. With collect it measures the memory of the sessions, after a garbage
// collection.
func (c *Crew) Use(collect bool, u *Usage) error {
	if collect {
		u.Memory = driver.Memory().Since(c.before)
	}
	u.Sent, u.Received = c.network.traffic()
	u.CPU = driver.CPUTime()
	return nil
}

// Cut ends all connections at once, as the failure of a network device would.
func (c *Crew) Cut(struct{}, *struct{}) error {
	c.network.cut()
	return nil
}

// Refuse has all attempts to connect fail until the given time.
func (c *Crew) Refuse(until time.Time, _ *struct{}) error {
	c.network.refuse(until)
	return nil
}

// A Log is the observations of a crew.
type Log struct {
	Entries []Entry
	Dials   []Dial
	Servers map[string]int // open connections by address
}

// Report returns the observations since the given time.
func (c *Crew) Report(since time.Time, l *Log) error {
	c.mu.Lock()
	for _, e := range c.journal {
		if !e.At.Before(since) {
			l.Entries = append(l.Entries, e)
		}
	}
	c.mu.Unlock()
	l.Dials, l.Servers = c.network.report(since)
	return nil
}

// Close closes the sessions.
func (c *Crew) Close(struct{}, *struct{}) error { return c.close() }

func (c *Crew) close() error {
	all := c.members
	c.members = nil
	return each(len(all), func(i int) error {
		if all[i] == nil {
			return nil
		}
		return all[i].Close()
	})
}

// each calls f for all numbers below n, several at once. It returns the first error when all calls
// have returned.
func each(n int, f func(i int) error) error {
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	return driver.Each(min(n, atOnce), func(int) (err error) {
		for i := range next {
			err = cmp.Or(err, f(i))
		}
		return err
	})
}
