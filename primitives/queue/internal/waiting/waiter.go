package waiting

import (
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/session"
)

// A Waiter waits in line until a queue may have changed.
type Waiter struct {
	of       *stock.Store
	receipts *receipt.Writer
	line     string // the directory of the line
	Wants    int    // how many items its owner wants to put; 0 if it puts none
	requests client.Async
	owned    owned.Set
	machine  *procedure.Procedure[waiting, input, effect]

	mu   sync.Mutex
	view stock.View // what the owner has seen
	wake func()     // the owner, once
	id   string     // of its newest node
	node bool       // whether that was created

	hastes bool // set if the owner is to be woken as soon as it is the first in line
}

// New returns a waiter that is not in line. The name of the line distinguishes waiters for
// different things.
func New(of *stock.Store, rs *receipt.Writer, line string, epoch int) *Waiter {
	w := &Waiter{of: of, receipts: rs, line: of.Dir(line), requests: of.Session.Async(epoch)}
	w.owned.Clock = of.Session
	w.machine = procedure.New(waiting{epoch: epoch}, w.perform)
	return w
}

// Stand has wake called when the queue may have changed since it was seen.
func (w *Waiter) Stand(v stock.View, rotate bool, wake func()) { w.StandFor(v, rotate, false, wake) }

// StandFor is Stand. With hastes, wake is called as soon as it is the first in line.
func (w *Waiter) StandFor(v stock.View, rotate, hastes bool, wake func()) {
	w.mu.Lock()
	w.view, w.wake, w.hastes = v, wake, hastes
	w.mu.Unlock()
	w.machine.Tell(stand{rotate})
}

// Leave leaves the line.
func (w *Waiter) Leave() {
	w.receipts.Forget(w)
	w.receipts.Hold() // until it is handled, perhaps by another goroutine
	w.machine.Tell(depart{})
	w.unwatch()
	w.owned.Cancel(watchAhead{})
}

// unwatch ends the watch of its last turn: only the first in line is woken by the queue.
func (w *Waiter) unwatch() {
	w.owned.Cancel(watchQueue{})
	w.owned.Cancel(due{})
}

// Owns reports whether its node has the name.
func (w *Waiter) Owns(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id != "" && znode.HasGUID(name, w.id)
}

// isHasty reports whether to wake the owner at once.
func (w *Waiter) isHasty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hastes && w.node
}

// seen returns what the owner has seen.
func (w *Waiter) seen() (stock.View, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view, w.wake
}

func (w *Waiter) perform(e effect, tell func(input)) {
	switch e := e.(type) {
	case join:
		w.unwatch()
		w.receipts.Hold() // until the node is there, or known not to be
		id := w.receipts.NewID()
		w.mu.Lock()
		w.id = id
		w.mu.Unlock()
		w.requests.Create(znode.Join(w.line, layout.WaiterOf(id, w.Wants)), nil, session.EphemeralSequential, func(node string, err error) {
			_, name := znode.Split(node)
			w.mu.Lock()
			w.node = err == nil
			w.mu.Unlock()
			w.owned.Answer(err, func() { tell(joined{id, name, err}) })
		})
	case landed:
		w.receipts.Release()
	case found:
		w.requests.EnsurePath(w.line, func(_ bool, err error) {
			w.owned.Answer(err, func() { tell(founded{err}) })
		})
	case rankAgain:
		w.requests.Children(w.line, func(names []string, _ *session.Stat, err error) {
			w.owned.Answer(err, func() { tell(ranked{names, err}) })
		})
	case watchAhead:
		w.unwatch()
		w.owned.Keep(watchAhead{}, w.requests.Follow(znode.Join(w.line, e.name), session.AspectData, false, func(r session.Reading, err error) {
			if foreign := err == nil && r.Stat.EphemeralOwner == 0; err != nil || foreign {
				tell(ahead{e.name, foreign})
			}
		}))
	case watchQueue:
		w.watch(tell)
	case wake:
		_, wake := w.seen()
		wake()
	case retire:
		w.receipts.Hold()
		gone := func(error) { w.receipts.Release() }
		if e.name == "" {
			w.of.Session.Async(0).WithdrawAll(w.line, znode.GUIDName(e.id, ""), gone)
		} else {
			w.of.Session.Async(0).Withdraw(znode.Join(w.line, e.name), gone)
		}
	}
}

// watch watches the directories that were seen, and the time at which the next item is due.
func (w *Waiter) watch(tell func(input)) {
	v, _ := w.seen()
	w.owned.Cancel(watchAhead{})
	if w.isHasty() {
		tell(stirred{})
		return
	}
	w.owned.Keep(watchQueue{}, w.of.Follow(w.requests, v, func() { tell(stirred{}) }))
	age := w.of.Session.Age()
	if at := age + doubtful; v.Doubts && (v.Due == 0 || v.Due > at) {
		v.Due = at
	}
	if v.Due > 0 {
		w.owned.After(due{}, max(0, v.Due-age), func() { tell(stirred{}) })
	}
}

// doubtful is the time after which the first in line looks whether an item is claimed by a node
// that is no claim.
const doubtful = time.Minute

// due is the key of the timer for the next item that is due.
type due struct{}
