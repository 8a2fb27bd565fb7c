package workload

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/primitives/barrier"
)

// gates has one barrier that each process tries to raise, for the life of its session. A gate that
// stands is a grant: no two stand at once, and their tokens grow.
func gates() Workload {
	const name, path = "gate", "/gates/0"
	return Workload{Name: name, Path: "/gates", Run: func(c *Client) {
		b, err := barrier.New(c.Session, path, nil)
		if err != nil {
			return
		}
		c.closing(b.Done(), b.Close)
		for range 2 {
			c.loop(300*time.Millisecond, func(dice *rand.Rand) { c.raise(dice, name, path, b) })
		}
	}}
}

// raise goes through one attempt to raise a gate.
func (c *Client) raise(dice *rand.Rand, recipe, path string, b *barrier.Barrier) {
	t := c.tenure(history.Operation{Recipe: recipe, Path: path, Handle: c.name(recipe)})
	ctx, cancel := context.WithTimeout(c.Context, 100*time.Millisecond+upTo(dice, 3*time.Second))
	defer cancel()
	c.Pause()
	g, err := b.TryRaise(ctx)
	if err != nil {
		end(t.pending, err, nil)
		return
	}
	t.granted(g.Token(), c.SessionID(), "", "")
	c.Work.Go(func() {
		for ev := range g.Events() {
			c.Record.Tell(history.Told{Recipe: recipe, Path: path, Handle: t.about.Handle, Kind: kindOf(ev), Token: g.Token()})
		}
	})
	c.Work.Go(func() {
		<-g.Done()
		t.over.lose()
	})
	work := upTo(dice, 300*time.Millisecond)
	if dice.IntN(6) == 0 {
		work = upTo(dice, long)
	}
	c.rest(work, g.Done())
	c.Pause()
	_ = t.over.release(func() error { // the history has its error
		patience, cancel := context.WithTimeout(c.Context, Patience)
		defer cancel()
		return g.Lift(patience)
	})
}
