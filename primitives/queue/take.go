package queue

import (
	"context"
	"sync"

	"github.com/zkactors/zkactors/primitives/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// Take takes the first item that no consumer has claimed and that is due, and waits for one. The item is delivered once, or lost: if
// Take fails with an error that wraps [session.ErrUnknownOutcome], the item whose data is returned with the error
// may have been taken, or be taken a little later. With any other error nothing was. A lost reply alone is no error.
func (b *base) Take(ctx context.Context) ([]byte, error) {
	data, err := b.take(ctx, true)
	return data, b.explain(err)
}

// TryTake is Take, but fails with [ErrEmpty] when there is no item to take, as the server knows that the session is
// connected to.
func (b *base) TryTake(ctx context.Context) ([]byte, error) {
	data, err := b.take(ctx, false)
	return data, b.explain(err)
}

func (b *base) take(ctx context.Context, wait bool) (data []byte, err error) {
	if err := b.receipts.open(); err != nil {
		return nil, err
	}
	err = await(ctx, func(done func(error)) func() {
		return b.newTaker().begin(wait, func(taken []byte, err error) {
			data = taken
			done(err)
		})
	})
	return data, err
}

// A taker performs what a taking asks for.
type taker struct {
	*base
	requests client.Async
	answer   func([]byte, error)
	pauses   owned.Set
	waiter   *waiter // not nil once there was nothing
	disown   func()  // leaves the newest transaction
}

func (b *base) newTaker() *taker {
	k := &taker{base: b, requests: b.session.Async(0)}
	k.pauses.Clock = b.session
	return k
}

func (k *taker) begin(wait bool, answer func([]byte, error)) (abandon func()) {
	k.answer = answer
	m := run(taking{wait: wait, flat: k.layout.flat()}, k.perform, takingInput(k.listed.pick(k.reorders())))
	return func() { m.tell(drop{}) }
}

// reorders reports whether a later item may come before those that were listed.
func (b *base) reorders() bool { return b.any || b.layout == Kazoo }

func (k *taker) perform(e takingEffect, tell func(takingInput)) {
	slowly := func(err error, in takingInput) { k.pauses.Answer(err, func() { tell(in) }) }
	switch e := e.(type) {
	case pick:
		tell(k.listed.pick(k.reorders()))
	case keep:
		k.listed.keep(e.places)
	case survey:
		k.look(k.receipts, 0, 1, e.claims, func(v view, err error) { slowly(err, surveyed{v, err}) })
	case idle:
		if k.waiter == nil {
			k.waiter = newWaiter(&k.store, k.receipts, waitersDir, 0)
		}
		k.waiter.stand(e.view, false, func() { tell(roused{}) })
	case fetch:
		k.requests.Get(k.node(e.place), func(data []byte, stat *session.Stat, err error) {
			item := claimed{place: e.place}
			if err == nil {
				item = itemOf(e.place, data, stat)
			}
			slowly(err, fetched{item, err})
		})
	case remove:
		k.disown = k.batches.begin(k.takeOps(e.item.place, e.item.version), func(results []session.OpResult, err error) {
			tell(removed{refused(results, err)})
		})
	case ready:
		k.requests.EnsurePath(k.dir(claimsDir), func(_ bool, err error) { slowly(err, readied{err}) })
	case disown:
		k.disown()
	case give:
		k.pauses.End()
		if k.waiter != nil {
			k.waiter.leave()
		}
		k.answer(e.data, e.err)
	}
}

// takeOps returns what takes an item that has the version.
func (st *store) takeOps(p place, version int32) []session.Op {
	remove := session.DeleteOp(st.node(p), version)
	if st.layout.flat() {
		return []session.Op{remove}
	}
	claim := st.claim(p.id())
	return []session.Op{session.CreateOp(claim, nil, session.Ephemeral), session.DeleteOp(claim, session.AnyVersion), remove}
}

// A listed keeps the places that were listed, and not tried yet.
type listed struct {
	mu     sync.Mutex
	places []place
}

// pick returns the next place. Where a later item may come before it, the rest is forgotten.
func (l *listed) pick(forget bool) (p picked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.places) == 0 {
		return picked{}
	}
	p = picked{l.places[0], true}
	if l.places = l.places[1:]; forget {
		l.places = nil
	}
	return p
}

func (l *listed) keep(places []place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places = places
}
