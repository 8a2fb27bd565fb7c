package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/zkactors/zkactors/session/internal/order"
	"github.com/zkactors/zkactors/session/internal/servers"
)

// A core is what the requests, the watches and the epochs of a session share: they see no more of
// it. The session embeds it.
type core struct {
	opts    Options
	encoder // of requests, which converts paths
	servers *servers.List
	clock   *clock
	order   *order.Order // of everything that the session tells
	workers sync.WaitGroup

	tell     func(input) // hands an input to the machine of the session, in its turn
	readable func()      // a step of the order: tells that a read-only server answers reads

	mu      sync.Mutex
	newest  *epoch        // takes requests; nil once closed
	closing chan struct{} // closed when Close was called
	wake    chan struct{} // holds a value when the loop has something new to wait for
	refused chan struct{} // closed when the credentials were refused
	refuse  sync.Once
	id      atomic.Int64
	rooted  atomic.Bool  // the chroot has been seen
	relied  atomic.Int32 // by how many, see Rely; changed with mu and the newest epoch locked

	// These belong to the order.
	epoch     *epoch // of the machine
	connected Connected

	watches *watchTable
}

// newCore returns a core. Its order, and what tells the session, are for the session to set.
func newCore(addresses []string, o Options) *core {
	s := &core{
		opts: o, encoder: encoder{chroot(o.Chroot), wireACL(o.ACL), o.MaxRequest}, clock: newClock(),
		closing: make(chan struct{}), wake: make(chan struct{}, 1), refused: make(chan struct{}),
		watches: newWatchTable(),
	}
	s.servers = servers.New(addresses, servers.Options{
		Timeout: o.Timeout, Dialer: o.Dialer, TLS: o.TLS,
		Warn: func(message string, args ...any) { s.opts.Logger.Warn(message, args...) },
	})
	return s
}

// newestEpoch returns the epoch that takes requests; nil once the session is closed.
func (s *core) newestEpoch() *epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// poke has the loop look at what it waits for.
func (s *core) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// strict reports whether only what a quorum has committed extends the lease.
func (s *core) strict() bool { return s.opts.Lease == LeaseCommitted && s.relied.Load() > 0 }

func (s *core) addRelied(n int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.newest
	if e == nil {
		s.relied.Add(n)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch s.relied.Add(n) {
	case 0:
		e.settle()
	case n: // the first
		e.rely()
	}
}

// until returns a context that ends when the channel is closed, or cancel is called.
func (s *core) until(ended <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	s.workers.Go(func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// refuseAuth is called when a server does not accept the credentials.
func (s *core) refuseAuth() {
	s.opts.Logger.Error("the server refused the credentials in Options.Auth or Options.SASL")
	s.refuse.Do(func() { close(s.refused) })
}

// later does what has failed again, in the session's order, after the next pause. Pauses are nil
// at first, and returned for the next time. Nothing is done again when the session is being closed.
func (s *core) later(pauses *backoff.ExponentialBackOff, path string, why error, do func()) *backoff.ExponentialBackOff {
	s.opts.Logger.Warn("trying again", "path", path, "reason", why)
	if pauses == nil {
		pauses = newPauses(20*time.Millisecond, 5*time.Second)
	}
	pause := pauses.NextBackOff()
	s.workers.Go(func() {
		select {
		case <-time.After(pause):
			s.order.Put(do)
		case <-s.closing:
		}
	})
	return pauses
}
