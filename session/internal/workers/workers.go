// Package workers has the goroutines of a session, which end with it.
package workers

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// A Group has the goroutines of one session. The session ends when all of them have.
type Group struct {
	sync.WaitGroup

	// Closing is closed when the session is being closed. What only waits ends then.
	Closing chan struct{}
}

// New returns a group without goroutines.
func New() *Group { return &Group{Closing: make(chan struct{})} }

// Until returns a context that ends when the channel is closed, or cancel is called.
func (g *Group) Until(ended <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	g.Go(func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// NewPauses returns pauses between attempts, each longer than the last, but at most as long as
// that.
func NewPauses(first, longest time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first),
		backoff.WithMaxInterval(longest),
		backoff.WithMaxElapsedTime(0),
	)
}
