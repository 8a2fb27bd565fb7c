package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/primitives/lock"
)

// errAgain is how a function fails that is to run again.
var errAgain = errors.New("not this time")

// outcomes has one function for each period that is to run once in the life of the cluster. Many
// ask for its outcome, also when the period is over.
func outcomes() Workload {
	const name, dir = "once", "/outcomes"
	return Workload{Name: "outcome", Path: dir, Run: func(c *Client) {
		c.loop(800*time.Millisecond, func(dice *rand.Rand) {
			number := max(0, c.now()-int64(dice.IntN(2)))
			patience := Patience
			if dice.IntN(3) == 0 {
				patience = 100*time.Millisecond + upTo(dice, 5*time.Second)
			}
			ctx, cancel := context.WithTimeout(c.Context, patience)
			defer cancel()
			path := fmt.Sprint(dir, "/", number)
			if dice.IntN(4) == 0 {
				c.outcome(ctx, name, path)
				return
			}
			err := c.once(ctx, dice, history.Operation{Recipe: name, Path: path, Handle: c.name(name)})
			if patience == Patience && errors.Is(err, context.DeadlineExceeded) && c.Context.Err() == nil {
				c.stuck(name, path, "", errPatience.Error())
			}
		})
	}}
}

// once asks for the outcome of a function that may have to run for that. Its run is a grant.
func (c *Client) once(ctx context.Context, dice *rand.Rand, about history.Operation) error {
	ask := about
	ask.Kind = judge.Ask
	asked, granted := c.Record.Begin(ask), c.tenure(about)
	c.Pause()
	outcome, err := lock.Once(ctx, c.Session, about.Path, &lock.Options{Data: c.data()}, func(ctx context.Context, token int64) ([]byte, error) {
		asked.Enter(func(o *history.Operation) { o.Argument = about.Handle })
		granted.granted(token, c.SessionID(), "", "")
		defer context.AfterFunc(ctx, granted.over.lose)()
		defer granted.over.lose()
		work, early := upTo(dice, 300*time.Millisecond), ctx.Done()
		if dice.IntN(6) == 0 {
			work = upTo(dice, long)
		}
		if dice.IntN(2) == 0 { // it does not look at its context
			early = nil
		}
		c.rest(work, early)
		if dice.IntN(4) == 0 {
			return nil, errAgain
		}
		return []byte(about.Handle), nil
	})
	granted.pending.End(history.Failed, nil) // if it did not run
	end(asked, err, func(o *history.Operation) { o.Result = string(outcome) })
	return err
}

// outcome looks whether there is an outcome. If the server shows none, it may lag behind.
func (c *Client) outcome(ctx context.Context, recipe, path string) {
	p := c.Record.Begin(history.Operation{Recipe: recipe, Path: path, Kind: judge.Ask})
	outcome, done, err := lock.Outcome(ctx, c.Session, path)
	if err == nil && !done {
		p.Drop()
		return
	}
	end(p, err, func(o *history.Operation) { o.Result = string(outcome) })
}
