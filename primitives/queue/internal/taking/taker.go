package taking

import (
	"errors"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/primitives/queue/internal/waiting"
	"github.com/zkactors/zkactors/session"
)

// A Taker performs the effects of a taking.
type Taker struct {
	*Outlet
	requests client.Async
	most     int // how many items it takes
	answer   func([]layout.Claimed, error)
	pauses   owned.Set
	tries    []layout.Place  // that were picked last
	shared   bool            // set if other calls of the handle try them too
	waiter   *waiting.Waiter // not nil once there was nothing
	linger   func()          // keeps the newest transaction from being sent, if it was not
	disown   func()          // leaves it
}

// NewTaker returns a taker of at most n items.
func (o *Outlet) NewTaker(n int) *Taker {
	k := &Taker{Outlet: o, requests: o.Session.Async(0), most: n}
	k.pauses.Clock = o.Session
	return k
}

// Begin takes items, and answers once. Abandon says that the caller waits no longer.
func (k *Taker) Begin(how Machine, answer func([]layout.Claimed, error)) (abandon func()) {
	k.answer = answer
	m := procedure.Run(how, k.perform, input(k.pick(false)))
	return func() { m.Tell(drop{}) }
}

func (k *Taker) perform(e effect, tell func(input)) {
	slowly := func(err error, in input) { k.pauses.Answer(err, func() { tell(in) }) }
	switch e := e.(type) {
	case pick:
		tell(k.pick(e.own))
	case forget:
		k.listed.forget(k.tries, e.rivals && !k.shared)
	case survey:
		k.listed.settle(k.tries, false)
		k.tries = nil
		k.survey(k.most, e.claims, func(v stock.View, own bool, err error) { slowly(err, surveyed{v, own, err}) })
	case idle:
		if k.waiter == nil {
			k.waiter = waiting.New(k.Store, k.receipts, layout.WaitersDir, 0)
		}
		k.waiter.Stand(e.view, false, func() { tell(roused{}) })
		k.receipts.TellClosed(k.waiter, func() { tell(shut{}) })
	case fetch:
		k.read(e.places, slowly)
	case remove:
		k.linger, k.disown = k.batches.begin(k.removal(e.items), func(results []session.OpResult, err error) {
			tell(removed{stock.Refused(results, err)})
		})
	case ready:
		k.requests.EnsurePath(k.Dir(layout.ClaimsDir), func(_ bool, err error) { slowly(err, readied{err}) })
	case linger:
		k.linger()
		receipt.Lapses(k.Session, k.live, &k.pauses, func() { tell(lapsed{}) })
	case disown:
		k.disown()
	case give:
		if k.listed.settle(k.tries, e.err == nil && !e.stays); e.err == nil && e.stays {
			k.listed.putBack(k.tries)
		}
		if k.waiter != nil {
			k.waiter.Leave()
		}
		k.pauses.End()
		k.answer(e.items, e.err)
	}
}

// read reads items, all at once.
func (k *Taker) read(places []layout.Place, answer func(error, input)) {
	var in fetched
	found := make([]*layout.Claimed, len(places))
	left := len(places)
	requests := k.requests
	for i, p := range places {
		requests.Get(k.Node(p), func(data []byte, stat *session.Stat, err error) {
			switch {
			case err == nil:
				item := layout.ItemOf(p, data, stat)
				found[i] = &item
			case !errors.Is(err, session.ErrNoNode):
				in.err = err
			}
			if left--; left > 0 {
				return
			}
			for _, item := range found {
				if item != nil {
					in.items = append(in.items, *item)
				}
			}
			in.old = !k.isCurrent()
			answer(in.err, in)
		})
	}
}

// removal returns the part of the call in a transaction.
func (k *Taker) removal(items []layout.Claimed) *removal {
	r := &removal{items: len(items), claim: -1}
	for _, item := range items {
		ops := k.TakeOps(item.Place, item.Version)
		if len(ops) == stock.ClaimableOps && r.claim < 0 {
			r.claim = len(r.ops)
		}
		r.ops = append(r.ops, ops...)
	}
	return r
}

// pick returns the next places.
func (k *Taker) pick(own bool) picked {
	k.listed.settle(k.tries, true)
	k.tries, k.shared = k.Outlet.pick(k.most, own)
	return picked{k.tries}
}
