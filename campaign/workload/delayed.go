package workload

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
)

// This file has the workloads of what queues and semaphores promise of single items and leases:
// their delays, their priorities, and their numbers.

// delays has items with delays, which are taken, and delivered by consumers that reject some with
// another delay.
func delays() Workload {
	const path, most = "/queues/delayed", 4 * time.Second
	return Workload{Name: "delay", Path: path, Run: func(c *Client) {
		q, err := queue.New(c.Session, path, nil)
		if err != nil {
			return
		}
		c.loop(500*time.Millisecond, func(dice *rand.Rand) {
			o := history.Operation{Recipe: queueName, Path: path}
			if dice.IntN(4) > 0 {
				o.Delay = upTo(dice, most)
			}
			c.putAs(o, func(ctx context.Context, data []byte) (string, error) { return q.PutAfter(ctx, data, o.Delay) })
		})
		c.loop(time.Second, func(dice *rand.Rand) { c.take(dice, queueName, path, q) })
		c.consumeAll(path, q)
		c.drain(queueName, path, q)
	}}
}

// urgencies has items of four priorities. More are put than taken, so that most takes have a
// choice.
func urgencies() Workload {
	const path = "/queues/prioritized"
	return Workload{Name: "urgency", Path: path, Run: func(c *Client) {
		q, err := queue.NewPriority(c.Session, path, nil)
		if err != nil {
			return
		}
		put := func(priority int) {
			o := history.Operation{Recipe: queueName, Path: path, Priority: priority}
			c.putAs(o, func(ctx context.Context, data []byte) (string, error) { return q.Put(ctx, data, int32(priority)) })
		}
		c.loop(400*time.Millisecond, func(dice *rand.Rand) { put(dice.IntN(4) - 1) })
		c.loop(600*time.Millisecond, func(dice *rand.Rand) { c.take(dice, queueName, path, q) })
		c.Standing.Go(func() {
			c.rest(Patience*10, c.Over)
			if c.Number == 0 { // with a write of its own its server knows of all that was put before
				put(0)
				c.rest(2*time.Second, nil)
			}
			c.takeAll(queueName, path, q)
		})
	}}
}

// numbers has leases with numbers, and some without, in one line.
func numbers() Workload {
	const name, path, limit = "semaphore", "/numbers/0", 4
	return Workload{Name: "number", Path: "/numbers", Run: func(c *Client) {
		for range 2 {
			c.loop(250*time.Millisecond, func(dice *rand.Rand) {
				opts := semaphore.Options{Weight: 1 + dice.IntN(2), Data: c.data(), Numbered: dice.IntN(4) > 0}
				k := c.lease(contest{recipe: name, path: path, weight: opts.Weight, limit: limit, long: longSecond(dice.IntN(2))}, &opts)
				c.contend(dice, k)
			})
		}
	}}
}

// A call is an operation of the library that may outlive the session in which it begins.
type call struct {
	*history.Pending

	c       *Client
	session int64
}

// beginInSession records the call of an operation whose Session is that of its client, if it is the
// same all the time.
func (c *Client) beginInSession(o history.Operation) call {
	return call{c.Record.Begin(o), c, c.SessionID()}
}

func (p call) end(err error, enter func(o *history.Operation)) {
	end(p.Pending, err, func(o *history.Operation) {
		if p.session == p.c.SessionID() {
			o.Session = p.session
		}
		if enter != nil {
			enter(o)
		}
	})
}
