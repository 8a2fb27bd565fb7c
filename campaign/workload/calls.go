package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/judge"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/queue"
)

// This file has the workloads whose promises are about calls: rounds, items, transactions, values.

func barriers() Workload {
	const name, path = "barrier", "/barriers/0"
	return Workload{Name: name, Path: "/barriers", Run: func(c *Client) {
		dice := c.Dice()
		c.Work.Go(func() {
			for !c.stopped() {
				c.rounds(dice, name, path, max(2, c.Of-1))
				c.rest(time.Second, c.Stop)
			}
		})
	}}
}

// A visit is one call of Enter or Leave, whose outcome comes as an event.
type visit struct {
	pending *history.Pending
	round   int // after the end
	done    chan struct{}
}

// rounds goes through rounds of a double barrier with one handle.
func (c *Client) rounds(dice *rand.Rand, recipe, path string, parties int) {
	handle := c.name(recipe)
	party := strings.ReplaceAll(handle, "/", "_")
	d, err := barrier.NewDouble(c.Session, path, parties, &barrier.DoubleOptions{Name: party})
	if err != nil {
		return
	}
	defer d.Close()
	about := history.Operation{Recipe: recipe, Path: path, Handle: handle, Argument: party, Limit: parties}
	visits := make(chan *visit, 1)
	c.Work.Go(func() { c.followRounds(d, about, visits) })
	for !c.stopped() {
		c.rest(100*time.Millisecond+upTo(dice, 600*time.Millisecond), nil)
		enter := about
		enter.Kind = judge.Enter
		v := &visit{c.Record.Begin(enter), 0, make(chan struct{})}
		visits <- v
		ctx, cancel := context.WithTimeout(c.Context, 5*time.Second+upTo(dice, 5*time.Second))
		err := d.Enter(ctx) // the event says more
		cancel()
		if !c.await(v, err, visits, about) || d.Err() != nil {
			return
		}
		if v.round == 0 {
			continue
		}
		c.Pause()
		c.rest(upTo(dice, 100*time.Millisecond), nil)
		leave := about
		leave.Kind, leave.Token = judge.Leave, int64(v.round)
		v = &visit{c.Record.Begin(leave), 0, make(chan struct{})}
		visits <- v
		ctx, cancel = context.WithTimeout(c.Context, Patience)
		err = d.Leave(ctx)
		cancel()
		if !c.await(v, err, visits, about) || d.Err() != nil {
			return
		}
	}
}

// await waits for the event of a call that has returned. There is none if the call failed because
// the party had fallen out of the round before.
func (c *Client) await(v *visit, err error, visits <-chan *visit, about history.Operation) bool {
	c.rest(time.Second, v.done)
	if isClosed(v.done) {
		return true
	}
	if errors.Is(err, context.DeadlineExceeded) && c.Context.Err() == nil {
		c.stuck(about.Recipe, about.Path, about.Handle, errPatience.Error())
	}
	select {
	case <-visits:
		v.pending.End(history.Failed, nil)
	case <-v.done:
	}
	return c.Context.Err() == nil
}

// followRounds records the events of a party, and ends its visits.
func (c *Client) followRounds(d *barrier.Double, about history.Operation, visits <-chan *visit) {
	round := 0
	finish := func(outcome history.Outcome, enter func(o *history.Operation)) {
		select {
		case v := <-visits:
			v.pending.End(outcome, enter)
			v.round = round
			close(v.done)
		default: // no call is waiting
		}
	}
	for ev := range d.Events() {
		c.Record.Tell(history.Told{Recipe: about.Recipe, Path: about.Path, Handle: about.Handle, Kind: kindOf(ev)})
		switch ev := ev.(type) {
		case barrier.Entered:
			round = ev.Round
			finish(history.OK, func(o *history.Operation) {
				o.Token, o.Result = int64(ev.Round), strings.Join(ev.Members, ",")
			})
		case barrier.Left:
			finish(history.OK, nil)
			round = 0
		case barrier.Lost:
			fall := about
			fall.Kind, fall.Token = judge.Fall, int64(round)
			c.Record.Instant(fall)
			finish(history.Failed, nil)
			round = 0
		case barrier.Withdrawn, barrier.Closed:
			finish(history.Failed, nil)
		case barrier.Waiting, barrier.Leaving:
		}
	}
}

// queueName is the recipe of all queues.
const queueName = "queue"

func queues() Workload {
	const path = "/queues/taken"
	return Workload{Name: queueName, Path: "/queues", Run: func(c *Client) {
		q, err := queue.New(c.Session, path, nil)
		if err != nil {
			return
		}
		c.loop(400*time.Millisecond, func(*rand.Rand) { c.put(path, q) })
		c.loop(300*time.Millisecond, func(dice *rand.Rand) { c.take(dice, queueName, path, q) })
		c.drain(queueName, path, q)
	}}
}

// take takes an item, if there is one in time.
func (c *Client) take(dice *rand.Rand, recipe, path string, q taker) {
	ctx, cancel := context.WithTimeout(c.Context, 100*time.Millisecond+upTo(dice, 5*time.Second))
	defer cancel()
	p := c.beginInSession(history.Operation{Recipe: recipe, Path: path, Kind: judge.Take})
	item, err := q.Take(ctx)
	p.end(err, func(o *history.Operation) { o.Result = string(item) })
}

// put puts an item that was never put before.
func (c *Client) put(path string, q *queue.Queue) {
	c.putAs(history.Operation{Recipe: queueName, Path: path}, q.Put)
}

// putAs puts an item with the priority and the delay of the operation.
func (c *Client) putAs(o history.Operation, put func(ctx context.Context, data []byte) (id string, err error)) {
	ctx, cancel := context.WithTimeout(c.Context, 5*time.Second)
	defer cancel()
	o.Kind, o.Argument = judge.Put, c.name("item")
	p := c.beginInSession(o)
	_, err := put(ctx, []byte(o.Argument))
	p.end(err, nil)
}

// keys has each item put twice with one key.
func keys() Workload {
	const path = "/queues/once"
	return Workload{Name: "once", Path: path, Run: func(c *Client) {
		q, err := queue.New(c.Session, path, nil)
		if err != nil {
			return
		}
		c.loop(800*time.Millisecond, func(dice *rand.Rand) { c.putTwice(dice, path, q) })
		c.loop(600*time.Millisecond, func(dice *rand.Rand) { c.take(dice, queueName, path, q) })
		c.drain(queueName, path, q)
	}}
}

// putTwice puts an item two times, as a user does who does not know the outcome of the first call.
// The history has one put for both calls.
func (c *Client) putTwice(dice *rand.Rand, path string, q *queue.Queue) {
	item := c.name("item")
	p := c.Record.Begin(history.Operation{Recipe: queueName, Path: path, Kind: judge.Put, Argument: item})
	var errs [2]error
	for i := range errs {
		ctx, cancel := context.WithTimeout(c.Context, 100*time.Millisecond+upTo(dice, 5*time.Second))
		_, errs[i] = q.PutOnce(ctx, item, []byte(item))
		cancel()
		c.rest(upTo(dice, time.Second), c.Stop)
	}
	first, second := errs[0], errs[1]
	switch duplicate := errors.Is(second, queue.ErrDuplicate); {
	case second == nil, duplicate && outcome(first) == history.Unknown:
		end(p, nil, nil)
	case duplicate || outcome(first) != history.Failed: // a duplicate of what failed was never put
		end(p, first, nil)
	default:
		end(p, second, nil)
	}
}

// drain has the first process take what is left, after all others have closed their consumers.
func (c *Client) drain(recipe, path string, q taker) {
	c.Standing.Go(func() {
		c.rest(Patience*10, c.Over)
		c.takeAll(recipe, path, q)
	})
}

// A taker is a queue, as far as items are taken.
type taker interface {
	Take(ctx context.Context) ([]byte, error)
	TryTake(ctx context.Context) ([]byte, error)
	Close(ctx context.Context) error
}

// takeAll has the first process take all items, and closes the queue.
func (c *Client) takeAll(recipe, path string, q taker) {
	ctx, cancel := context.WithTimeout(c.Context, Patience)
	defer cancel()
	for c.Number == 0 && c.Context.Err() == nil {
		p := c.beginInSession(history.Operation{Recipe: recipe, Path: path, Kind: judge.Drain})
		item, err := q.TryTake(ctx)
		if errors.Is(err, queue.ErrEmpty) {
			p.Drop()
			c.Record.Instant(history.Operation{Recipe: recipe, Path: path, Kind: judge.Empty})
			break
		}
		p.end(err, func(o *history.Operation) { o.Result = string(item) })
		if err != nil {
			break
		}
	}
	_ = q.Close(ctx) // the session is closed next
}

func consumers() Workload {
	const path = "/queues/consumed"
	return Workload{Name: "consumer", Path: path, Run: func(c *Client) {
		q, err := queue.New(c.Session, path, &queue.Options{Backoff: queue.Backoff{}})
		if err != nil {
			return
		}
		c.loop(400*time.Millisecond, func(*rand.Rand) { c.put(path, q) })
		c.consumeAll(path, q)
		c.drain(queueName, path, q)
	}}
}

// consumeAll has one consumer after the other until Stop.
func (c *Client) consumeAll(path string, q *queue.Queue) {
	dice := c.Dice()
	c.Work.Go(func() {
		for !c.stopped() {
			c.consume(dice, path, q)
			c.rest(time.Second, c.Stop)
		}
	})
}

// consume delivers and acknowledges until Stop, or until the consumer ends by itself.
func (c *Client) consume(dice *rand.Rand, path string, q *queue.Queue) {
	consumer, err := q.Consume(nil)
	if err != nil {
		return
	}
	defer consumer.Close()
	for {
		select {
		case <-c.Stop:
			return
		case <-c.Context.Done():
			return
		case item, ok := <-consumer.Items():
			if !ok {
				return
			}
			about := history.Operation{Recipe: queueName, Path: path, Argument: string(item.Data), Token: int64(item.Attempt)}
			deliver := about
			deliver.Kind = judge.Deliver
			c.Record.Instant(deliver)
			c.Pause()
			c.rest(upTo(dice, 100*time.Millisecond), nil)
			if dice.IntN(5) == 0 { // it comes again
				ctx, cancel := context.WithTimeout(c.Context, 5*time.Second)
				reject := about
				reject.Kind, reject.Delay = judge.Reject, upTo(dice, time.Second)
				p := c.Record.Begin(reject)
				end(p, item.RejectAfter(ctx, reject.Delay, nil), nil)
				cancel()
				continue
			}
			ctx, cancel := context.WithTimeout(c.Context, 5*time.Second)
			ack := about
			ack.Kind = judge.Ack
			p := c.Record.Begin(ack)
			end(p, item.Ack(ctx), nil)
			cancel()
		}
	}
}

func commits() Workload {
	const name, path = "commit", "/commits"
	return Workload{Name: name, Path: path, Run: func(c *Client) {
		var sites []string
		for i := range c.Of {
			sites = append(sites, fmt.Sprint("site", i))
		}
		votes := c.Dice()
		c.stand(func() { c.site(votes, name, path, sites[c.Number]) })
		c.loop(2*time.Second, func(*rand.Rand) { c.coordinate(name, path, sites) })
	}}
}

// site votes, and finishes what is decided.
func (c *Client) site(dice *rand.Rand, recipe, path, site string) {
	p, err := commit.Join(c.Session, path, site, nil)
	if err != nil {
		return
	}
	c.closing(p.Done(), p.Close)
	for ev := range p.Events() {
		ctx, cancel := context.WithTimeout(c.Context, 5*time.Second)
		var tx commit.Tx
		switch ev := ev.(type) {
		case commit.Prepare:
			vote, text := commit.Yes, judge.Yes
			if dice.IntN(8) == 0 {
				vote, text = commit.No, judge.No
			}
			op := c.Record.Begin(history.Operation{Recipe: recipe, Path: path, Handle: ev.Tx.GUID, Kind: judge.Vote, Argument: site, Result: text})
			end(op, p.Vote(ctx, ev.Tx, vote), nil)
		case commit.Committed:
			tx = ev.Tx
		case commit.Aborted:
			tx = ev.Tx
		case commit.Forgotten, commit.Left, commit.Voted:
		}
		if tx.GUID != "" {
			c.Record.Tell(history.Told{Recipe: recipe, Path: path, Handle: tx.GUID, Kind: kindOf(ev), Value: site})
			_ = p.Finish(ctx, tx) // if it fails, the outcome comes again
		}
		cancel()
	}
}

// coordinate proposes one transaction to all sites.
func (c *Client) coordinate(recipe, path string, sites []string) {
	ctx, cancel := context.WithTimeout(c.Context, 20*time.Second)
	defer cancel()
	op := c.Record.Begin(history.Operation{Recipe: recipe, Path: path, Kind: judge.Begin, Argument: strings.Join(sites, ",")})
	t, err := commit.Begin(ctx, c.Session, path+"/"+strings.ReplaceAll(c.name("tx"), "/", "_"), &commit.Options{
		Sites: sites, Deadline: 5 * time.Second, TakeoverAfter: 2 * time.Second,
	})
	end(op, err, func(o *history.Operation) {
		if err == nil {
			o.Handle = t.Tx().GUID
		}
	})
	if err != nil {
		return
	}
	defer t.Close()
	if decided, err := t.Wait(ctx); err == nil {
		kind := judge.Aborted
		if decided.Committed {
			kind = judge.Committed
		}
		c.Record.Tell(history.Told{Recipe: recipe, Path: path, Handle: t.Tx().GUID, Kind: kind, Value: "coordinator"})
	}
}

func configs() Workload {
	const name, path = "config", "/configs/counter"
	return Workload{Name: name, Path: "/configs", Nodes: map[string]string{path: "0"}, Run: func(c *Client) {
		v, err := config.Open(c.Session, path, config.JSON[int], &config.Options{Sync: true})
		if err != nil {
			return
		}
		c.closing(v.Done(), v.Close)
		handle := c.name(name)
		c.Standing.Go(func() {
			for ev := range v.Events() {
				c.Record.Tell(history.Told{Recipe: name, Path: path, Handle: handle, Kind: kindOf(ev)})
			}
		})
		about := history.Operation{Recipe: name, Path: path}
		c.loop(300*time.Millisecond, func(dice *rand.Rand) {
			ctx, cancel := context.WithTimeout(c.Context, 5*time.Second)
			defer cancel()
			o := about
			if dice.IntN(3) == 0 {
				o.Kind = judge.Get
				p := c.Record.Begin(o)
				value, _, err := v.Get(ctx)
				end(p, err, func(o *history.Operation) { o.Result = strconv.Itoa(value) })
				return
			}
			o.Kind = judge.Update
			p := c.Record.Begin(o)
			err := v.Update(ctx, func(old int) (int, error) {
				// The write of an attempt before was refused: only this one can happen.
				p.Enter(func(o *history.Operation) { o.Argument, o.Result = strconv.Itoa(old), strconv.Itoa(old+1) })
				return old + 1, nil
			})
			end(p, err, nil)
		})
	}}
}

// transactions has values that change together: what all of them are is one value.
func transactions() Workload {
	const name, path = "config", "/accounts"
	return Workload{Name: "transactor", Path: path, Run: func(c *Client) {
		t, err := config.NewTransactor(c.Session, path, &config.Options{Sync: true})
		if err != nil {
			return
		}
		c.Standing.Go(func() {
			c.rest(Patience*10, c.Over)
			t.Close()
		})
		c.loop(250*time.Millisecond, func(dice *rand.Rand) {
			ctx, cancel := context.WithTimeout(c.Context, 5*time.Second)
			defer cancel()
			o := history.Operation{Recipe: name, Path: path, Kind: judge.Update}
			if dice.IntN(3) == 0 {
				o.Kind = judge.Get
				p, read := c.Record.Begin(o), ""
				err := t.Do(ctx, func(tx *config.Tx) (err error) {
					_, read, err = balances(tx)
					return err
				})
				end(p, err, func(o *history.Operation) { o.Result = read })
				return
			}
			seed := dice.Uint64()
			p := c.Record.Begin(o)
			err := t.Do(ctx, func(tx *config.Tx) error { return move(rand.New(rand.NewPCG(seed, 0)), tx, p) })
			end(p, err, nil)
		})
	}}
}

// accounts are the names of the values.
func accounts() []string { return []string{"a", "b", "c", "d", "e"} }

// balances reads all values. The text of them is empty if there is none.
func balances(tx *config.Tx) (all map[string]int, text string, err error) {
	all = make(map[string]int)
	for _, name := range accounts() {
		value, ok, err := config.Load(tx, name, config.JSON[int])
		if err != nil {
			return nil, "", err
		}
		if ok {
			all[name] = value
			text += fmt.Sprintf("%s=%d ", name, value)
		}
	}
	return all, text, nil
}

// move changes two values, or deletes one and changes another. It records what that leads from, and
// to, before it is sent: only the last attempt can happen.
func move(dice *rand.Rand, tx *config.Tx, p *history.Pending) error {
	all, before, err := balances(tx)
	if err != nil {
		return err
	}
	names := accounts()
	dice.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	from, to := names[0], names[1]
	if _, there := all[from]; there && dice.IntN(4) == 0 {
		err = tx.Delete(from)
	} else {
		err = config.Store(tx, from, config.JSON[int], all[from]-1)
	}
	if err != nil {
		return err
	}
	if err := config.Store(tx, to, config.JSON[int], all[to]+1); err != nil {
		return err
	}
	_, after, err := balances(tx)
	if err != nil {
		return err
	}
	p.Enter(func(o *history.Operation) { o.Argument, o.Result = before, after })
	return nil
}
