package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/primitives/barrier"
)

// plainBarriers has two barriers, each of which every other process raises and lifts. All processes
// wait at both.
func plainBarriers() Workload {
	const name, dir, n = "plain", "/plain", 2
	return Workload{Name: name, Path: dir, Run: func(c *Client) {
		for i := range n {
			path := fmt.Sprint(dir, "/", i)
			b, err := barrier.New(c.Session, path, nil)
			if err != nil {
				return
			}
			c.closing(b.Done(), b.Close)
			handle := c.name(name)
			c.Standing.Go(func() {
				for ev := range b.Events() {
					c.Record.Tell(history.Told{Recipe: name, Path: path, Handle: handle, Kind: kindOf(ev)})
				}
			})
			about := history.Operation{Recipe: name, Path: path}
			if c.Number%n == i {
				c.barring(about, b)
			}
			for range 2 {
				c.waiting(about, b)
			}
		}
	}}
}

// barring raises the barrier again and again, and lifts it each time.
func (c *Client) barring(about history.Operation, b *barrier.Barrier) {
	dice := c.Dice()
	call := func(kind string, do func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(c.Context, 100*time.Millisecond+upTo(dice, 5*time.Second))
		defer cancel()
		c.Pause()
		o := about
		o.Kind = kind
		p := c.Record.Begin(o)
		err := do(ctx)
		end(p, err, nil)
		return err
	}
	c.Work.Go(func() {
		for !c.stopped() {
			c.rest(upTo(dice, 1500*time.Millisecond), c.Stop)
			if call(judge.Raise, b.Raise) == nil {
				c.rest(upTo(dice, 3*time.Second), c.Stop)
			}
			for call(judge.Lift, b.Lift) != nil && c.Context.Err() == nil { // else all wait for ever
				c.rest(100*time.Millisecond, nil)
			}
		}
	})
}

// waiting waits at the barrier again and again. After Stop it is lifted for the last time.
func (c *Client) waiting(about history.Operation, b *barrier.Barrier) {
	dice := c.Dice()
	c.Work.Go(func() {
		for !c.stopped() {
			c.rest(upTo(dice, 500*time.Millisecond), c.Stop)
			patience := Patience
			if dice.IntN(4) == 0 {
				patience = upTo(dice, 2*time.Second)
			}
			c.pass(patience, about, b.Wait)
		}
	})
}
