package workload

import (
	"context"
	"sync"

	"github.com/zkactors/zkactors/session"
)

// A Peer is another program that has a lock.
type Peer interface {
	// Join stands in line for the lock at the path, and returns at once.
	Join(path string) (Claim, error)
}

// A Claim is a peer's place in line, and later its grant.
type Claim interface {
	Acquired() <-chan struct{}
	Lost() <-chan struct{} // closed when the peer learns that it does not hold any more
	Ended() <-chan struct{}
	Node() string
	Release(ctx context.Context) error
}

// peerLocks is the control for programs: their lock, through the same contest. It has no token, and
// no guard. The czxid of its node serves as a token. The process has a session of the library
// beside it, which looks for that, and writes what the lock protects. That session is never cut
// off, so that a holder which is does not wait in its writes; it holds longer instead.
func peerLocks() Workload {
	return controlLocks(func(c *Client, path string) (Attempt, error) {
		claim, err := c.Peer.Join(path)
		return &peerAttempt{c: c, Claim: claim, over: make(chan struct{})}, err
	})
}

// A peerAttempt is one use of a peer's lock.
type peerAttempt struct {
	Claim
	c    *Client
	once sync.Once
	over chan struct{}
}

// Follow implements [Attempt].
func (a *peerAttempt) Follow(tell func(string, int64)) {
	select {
	case <-a.Acquired():
	case <-a.Ended():
		tell("Failed", 0)
		return
	case <-a.over: // the process gives up
		_ = a.Release(a.c.Context) // it is not used
		return
	}
	ctx, cancel := context.WithTimeout(a.c.Context, Patience)
	defer cancel()
	stat, err := a.find(ctx)
	if err != nil || stat == nil {
		_ = a.Release(ctx) // the node is gone already, and the grant is not used
		tell("Failed", 0)
		return
	}
	tell(acquired, stat.Czxid)
	select {
	case <-a.Lost():
		tell("Lost", 0)
	case <-a.over:
		tell("Released", 0)
	}
}

// find looks for the node of the grant, of which another server may know nothing yet.
func (a *peerAttempt) find(ctx context.Context) (*session.Stat, error) {
	if err := a.c.Session.Sync(ctx, a.Node()); err != nil {
		return nil, err
	}
	return a.c.Session.Exists(ctx, a.Node())
}

// Nodes implements [Attempt].
func (a *peerAttempt) Nodes() []string { return []string{a.Node()} }

// Done implements [Attempt].
func (a *peerAttempt) Done() <-chan struct{} { return a.Lost() }

// Write implements [Attempt]: nothing guards it.
func (a *peerAttempt) Write(ctx context.Context, id string) error {
	_, err := a.c.Session.Set(ctx, a.c.mark("lock"), []byte(id), session.AnyVersion)
	return err
}

// Close implements [Attempt].
func (a *peerAttempt) Close() { a.once.Do(func() { close(a.over) }) }
