package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// Run has f work on the items, on so many goroutines, until ctx ends or the queue cannot be consumed any more. Where
// f returns nil the item is acknowledged, and after an error it is rejected. The context of f is ctx. Run returns
// when the last f has, and the cause of ctx or why the consumer has ended.
//
// An item that f has worked on is delivered again if the session ends before the item is acknowledged. The end of ctx
// does not keep an item from being acknowledged. [Item.Guard] keeps work that does not count out of ZooKeeper.
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
	c, err := b.Consume(&ConsumeOptions{Prefetch: 2 * workers})
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, c.shelf.Stop)
	defer stop()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for item := range c.Items() {
				if err := f(ctx, item); err != nil {
					_ = item.Reject(context.WithoutCancel(ctx)) // it goes back in any case, with its claim
					continue
				}
				if err := item.Ack(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, ErrNotClaimed) {
					b.session.Logger().Warn("item not acknowledged", "recipe", recipe, "path", b.path, "item", item.ID, "reason", err)
				}
			}
		})
	}
	running.Wait()
	if err := c.Err(); err != nil {
		return err
	}
	return b.explain(context.Cause(ctx))
}
