package queue

import (
	"context"
	"slices"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/session"
)

// Take takes the first item that is due, that no consumer has claimed, and that no other call on
// the handle is taking. It waits for such an item. When ctx ends while a request that takes an item
// is under way, Take waits for the answer, at most until the session ends. It returns the item if
// the request took it.
//
// The item is delivered once, or lost: if the error of Take wraps [session.ErrUnknownOutcome], the
// session has ended. The item whose data it returns may have been taken then, or be taken a little
// later. With any other error no item was taken. A lost reply alone is no error.
func (b *base) Take(ctx context.Context) ([]byte, error) {
	data, err := b.take(ctx, true)
	return data, b.explain(err)
}

// TryTake is Take, but fails with [ErrEmpty] when the session's server knows of no item to take.
func (b *base) TryTake(ctx context.Context) ([]byte, error) {
	data, err := b.take(ctx, false)
	return data, b.explain(err)
}

func (b *base) take(ctx context.Context, wait bool) (data []byte, err error) {
	if err := b.receipts.open(); err != nil {
		return nil, err
	}
	err = procedure.Await(ctx, func(done func(error)) func() {
		return b.newTaker().begin(wait, func(taken []byte, err error) {
			data = taken
			done(err)
		})
	})
	return data, err
}

// A taker performs the effects of a taking.
type taker struct {
	*base
	requests client.Async
	answer   func([]byte, error)
	pauses   owned.Set
	tries    place   // that was picked last; zero before the first
	waiter   *waiter // not nil once there was nothing
	linger   func()  // keeps the newest transaction from being sent, if it was not
	disown   func()  // leaves it
}

func (b *base) newTaker() *taker {
	k := &taker{base: b, requests: b.session.Async(0)}
	k.pauses.Clock = b.session
	return k
}

func (k *taker) begin(wait bool, answer func([]byte, error)) (abandon func()) {
	k.answer = answer
	m := procedure.Run(taking{wait: wait, flat: k.layout.flat()}, k.perform, takingInput(k.pick()))
	return func() { m.Tell(drop{}) }
}

// reorders reports whether a later item may come before those that were listed.
func (b *base) reorders() bool { return b.any || b.layout == Kazoo }

func (k *taker) perform(e takingEffect, tell func(takingInput)) {
	slowly := func(err error, in takingInput) { k.pauses.Answer(err, func() { tell(in) }) }
	switch e := e.(type) {
	case pick:
		tell(k.pick())
	case forget:
		k.listed.keep(nil)
	case survey:
		k.survey(e.claims, func(v view, err error) { slowly(err, surveyed{v, err}) })
	case idle:
		if k.waiter == nil {
			k.waiter = newWaiter(&k.store, k.receipts, waitersDir, 0)
		}
		k.waiter.stand(e.view, false, func() { tell(roused{}) })
		k.receipts.tellClosed(k.waiter, func() { tell(shut{}) })
	case fetch:
		k.fetch(e, slowly)
	case remove:
		k.linger, k.disown = k.batches.begin(e.epoch, k.takeOps(e.item.place, e.item.version), func(results []session.OpResult, err error) {
			tell(removed{refused(results, err)})
		})
	case ready:
		k.requests.EnsurePath(k.dir(claimsDir), func(_ bool, err error) { slowly(err, readied{err}) })
	case linger:
		k.linger()
		k.pauses.Follow(k.session, func(ev session.Event) {
			switch ev.(type) {
			case session.Expired, session.Closed:
				tell(lapsed{})
			case session.Connected, session.Suspended, session.Resumed:
			}
		}, nil)
		if k.live != nil { // between two sessions there is no event before the next
			if _, expired := k.live.State().(session.Expired); expired {
				tell(lapsed{})
			}
		}
	case disown:
		k.disown()
	case give:
		k.listed.settle(k.tries)
		if k.waiter != nil {
			k.waiter.leave()
		}
		k.pauses.End()
		k.answer(e.data, e.err)
	}
}

// fetch reads an item: in an epoch that is known, if its removal depends on that.
func (k *taker) fetch(e fetch, answer func(error, takingInput)) {
	read := func(epoch int) {
		k.session.Async(epoch).Get(k.node(e.place), func(data []byte, stat *session.Stat, err error) {
			item := claimed{place: e.place}
			if err == nil {
				item = itemOf(e.place, data, stat)
			}
			answer(err, fetched{item, epoch, err})
		})
	}
	if !e.bound {
		read(0)
		return
	}
	k.present(&k.pauses, func(epoch int, err error) {
		if err != nil {
			answer(err, fetched{claimed{place: e.place}, 0, err})
			return
		}
		read(epoch)
	})
}

// takeOps returns the operations that take an item that has the version. An item of version 0 was
// never claimed: a claim writes to it.
func (st *store) takeOps(p place, version int32) []session.Op {
	remove := session.DeleteOp(st.node(p), version)
	if st.layout.flat() || version == 0 {
		return []session.Op{remove}
	}
	claim := st.claim(p.id())
	return []session.Op{session.CreateOp(claim, nil, session.Ephemeral), session.DeleteOp(claim, session.AnyVersion), remove}
}

// pick returns the next place.
func (k *taker) pick() picked {
	k.listed.settle(k.tries)
	p := k.listed.pick(k.reorders())
	k.tries = p.place
	return p
}

// survey lists the queue for a taker, which picks from the list then. One list is for all takers
// that have asked before it was begun. Takers that have asked since may pick from it too, but an
// empty list says nothing to them.
func (b *base) survey(claims bool, answer func(view, error)) {
	l := &b.listed
	if b.reorders() { // a list is true for one item
		b.look(b.receipts, 0, 1, claims, func(v view, err error) {
			l.keep(v.places)
			answer(v, err)
		})
		return
	}
	l.mu.Lock()
	l.asking = append(l.asking, question{claims, answer})
	l.mu.Unlock()
	b.surveyNext()
}

// surveyNext begins a list for the calls that ask, unless one is under way.
func (b *base) surveyNext() {
	l := &b.listed
	l.mu.Lock()
	if l.surveys || len(l.asking) == 0 {
		l.mu.Unlock()
		return
	}
	asked := l.asking
	l.asking, l.surveys = nil, true
	l.mu.Unlock()
	claims := slices.ContainsFunc(asked, func(q question) bool { return q.claims })
	b.look(b.receipts, 0, len(asked), claims, func(v view, err error) {
		for _, q := range append(asked, l.surveyed(v.places, claims)...) {
			q.answer(v, err)
		}
		b.surveyNext()
	})
}

// A listed keeps the places that were listed, and not tried yet.
type listed struct {
	mu      sync.Mutex
	places  []place
	tried   []place    // that were picked, and may be there yet
	asking  []question // for a new list
	surveys bool       // set while a list is under way
}

// A question is a taker's request for a list.
type question struct {
	claims bool // whether items that are claimed are left out
	answer func(view, error)
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
	l.tried = append(l.tried, p.place)
	return p
}

// settle notes that the taker that has picked a place is done with it.
func (l *listed) settle(p place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.tried, p); i >= 0 {
		l.tried = slices.Delete(l.tried, i, i+1)
	}
}

// keep keeps what was listed, but for the places that other takers try, unless there are no others.
func (l *listed) keep(places []place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tried := make(map[place]bool, len(l.tried))
	for _, p := range l.tried {
		tried[p] = true
	}
	if l.places = slices.DeleteFunc(slices.Clone(places), func(p place) bool { return tried[p] }); len(l.places) == 0 {
		l.places = places
	}
}

// surveyed keeps what was listed, and returns those that have asked since and can pick from it.
func (l *listed) surveyed(places []place, claims bool) (others []question) {
	l.keep(places)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.surveys = false
	if len(places) == 0 {
		return nil
	}
	waits := func(q question) bool { return q.claims && !claims }
	others = slices.DeleteFunc(slices.Clone(l.asking), waits)
	l.asking = slices.DeleteFunc(l.asking, func(q question) bool { return !waits(q) })
	return others
}
