package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/primitives/barrier"
)

// period is for how long all processes meet at one path. A path that is used once needs that: a
// process that was killed comes back to the path of the others.
const period = 6 * time.Second

// now returns the number of the period, which is the same in all processes.
func (c *Client) now() int64 { return int64(c.Record.Moment().At / period) }

// rendezvous calls the function once in each period, with its number.
func (c *Client) rendezvous(do func(dice *rand.Rand, number int64)) {
	dice := c.Dice()
	c.Work.Go(func() {
		for !c.stopped() {
			number := c.now()
			do(dice, number)
			c.rest(time.Duration(number+1)*period-c.Record.Moment().At, c.Stop)
		}
	})
}

// latches has a latch for each period. One more arrivals open it than there are processes, each of
// which arrives twice.
func latches() Workload {
	const name, dir = "latch", "/latches"
	return Workload{Name: name, Path: dir, Run: func(c *Client) {
		c.rendezvous(func(dice *rand.Rand, number int64) {
			c.latch(dice, history.Operation{Recipe: name, Path: fmt.Sprint(dir, "/", number), Limit: c.Of + 1})
		})
	}}
}

// latch waits at a latch, and arrives there meanwhile: under the name of the process, and without a
// name. A process opens a latch alone that does not open by then, or whose nodes an operator has
// deleted.
func (c *Client) latch(dice *rand.Rand, about history.Operation) {
	l, err := barrier.NewLatch(c.Session, about.Path, about.Limit)
	if err != nil {
		return
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(c.Context)
	c.Work.Go(func() {
		defer cancel()
		c.pass(Patience, about, l.Wait)
	})
	nameless := func() { c.arrive(ctx, dice, about, "", l.CountDown) }
	name := fmt.Sprint("p", c.Number)
	byName := func() {
		c.arrive(ctx, dice, about, name, func(ctx context.Context) error { return l.Arrive(ctx, name) })
	}
	c.rest(upTo(dice, period/4), c.Stop)
	byName()
	c.rest(upTo(dice, period/4), c.Stop)
	nameless()
	if dice.IntN(2) == 0 { // it counts once
		byName()
	}
	for c.rest(2*period, ctx.Done()); ctx.Err() == nil; c.rest(2*period, ctx.Done()) {
		for range about.Limit {
			nameless()
		}
	}
}

// arrive repeats an arrival until it is acknowledged. Without a name each call is another arrival.
func (c *Client) arrive(ctx context.Context, dice *rand.Rand, about history.Operation, name string, arrive func(ctx context.Context) error) {
	about.Kind = judge.Arrive
	for ctx.Err() == nil {
		c.Pause()
		about.Argument = name
		if name == "" {
			about.Argument = c.name("arrival")
		}
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond+upTo(dice, 5*time.Second))
		p := c.Record.Begin(about)
		err := arrive(short)
		cancel()
		end(p, err, nil)
		if err == nil {
			return
		}
		c.rest(100*time.Millisecond, nil)
	}
}

// pass waits until the way is free. With less than all patience the caller may give up before.
func (c *Client) pass(patience time.Duration, about history.Operation, wait func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(c.Context, patience)
	defer cancel()
	c.Pause()
	about.Kind = judge.Pass
	p := c.Record.Begin(about)
	err := wait(ctx)
	end(p, err, nil)
	if patience == Patience && errors.Is(err, context.DeadlineExceeded) && c.Context.Err() == nil {
		c.stuck(about.Recipe, about.Path, c.name(about.Recipe), errPatience.Error())
	}
}
