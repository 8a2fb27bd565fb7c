package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// Run calls f for each item, on the given number of goroutines, until ctx ends or the queue cannot
// be consumed any more. If f returns nil, the item is acknowledged; if f returns an error, the item
// is rejected. The context of f ends with ctx, and when the claim is lost with the session: then
// its cause wraps [ErrNotClaimed]. Run returns when the last call of f has returned. Its error is
// the cause of ctx, or the reason why the consumer has ended.
//
// A call of [runtime.Goexit] in f counts as an error; a panic is not recovered. A call that never
// returns keeps its worker and its item, and nothing else: when the claim is lost with the session,
// the item goes to another worker, and no other is claimed for the one that hangs.
//
// An item that f has worked on is delivered again if the session ends before the item is
// acknowledged. The end of ctx does not keep an item from being acknowledged. [Item.Guard] keeps
// work that does not count out of ZooKeeper.
func (b *base) Run(ctx context.Context, workers int, f func(ctx context.Context, item Item) error) error {
	if err := client.CheckContext(ctx); err != nil {
		return b.explain(err)
	}
	switch {
	case workers < 1:
		return b.explain(fmt.Errorf("%w: workers: %d", session.ErrInvalidArgument, workers))
	case f == nil:
		return b.explain(fmt.Errorf("%w: f is nil", session.ErrInvalidArgument))
	case ctx.Err() != nil:
		return b.explain(context.Cause(ctx))
	}
	c, err := b.consume(&ConsumeOptions{Readers: workers}, true)
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() {
		c.shelf.Close() // what is not received by now was not delivered, and goes to other consumers
		_ = c.actor.Tell(enough{})
	})
	defer stop()
	var running sync.WaitGroup
	var work func()
	work = func() {
		for item := range c.Items() {
			err, returned := errExited, false
			func() {
				defer func() {
					if returned {
						return
					}
					if panicked := recover(); panicked != nil {
						panic(panicked) // the process ends
					}
					running.Go(func() { b.conclude(ctx, item, err); work() }) // in the place of this goroutine
				}()
				err = item.work(ctx, f)
				returned = true
			}()
			b.conclude(ctx, item, err)
		}
	}
	for range workers {
		running.Go(work)
	}
	running.Wait()
	if err := c.Err(); err != nil {
		return err
	}
	return b.explain(context.Cause(ctx))
}

// errExited is the error of a function that has ended its goroutine.
var errExited = errors.New("the function has called runtime.Goexit")

// conclude settles an item on which a function has worked. It goes back in any case, with its
// claim.
func (b *base) conclude(ctx context.Context, item Item, err error) {
	if err != nil {
		_ = item.reject(context.WithoutCancel(ctx), err)
		return
	}
	if err := item.Ack(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, ErrNotClaimed) {
		b.at.Session.Logger().Warn("item not acknowledged", "recipe", recipe, "path", b.at.Path, "item", item.ID, "reason", err)
	}
}

// work calls f with a context that ends with the claim.
func (i Item) work(ctx context.Context, f func(ctx context.Context, item Item) error) error { //nolint:contextcheck // the claim has one too
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	claim := i.Context()
	defer context.AfterFunc(claim, func() { cancel(context.Cause(claim)) })() //nolint:contextcheck // both end it
	return f(ctx, i)
}
