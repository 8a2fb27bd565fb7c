package queue

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// Receipts are the ephemeral nodes by which a client knows what became of its transactions. Each transaction
// has its own while it is under way.
type receipts struct {
	session client.Session
	dir     string
	newID   func() string
	clock   clock

	mu    sync.Mutex
	free  []receipt // that no transaction has
	made  int       // how many were made
	over  bool      // set by close. While set, nothing is kept, and nothing begins
	using int       // how many transactions, and other things that leave nodes, are under way
	waits []wait    // calls that close ends
	idle  []func()  // called when the last of them ends after close
}

// A wait is that of a call.
type wait struct {
	waiter *waiter
	closed func() // called by close
}

// take returns a receipt that is free, and otherwise a new one, without a node.
func (rs *receipts) take() (receipt, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.over {
		return receipt{}, ErrClosed
	}
	rs.using++
	n := len(rs.free)
	if n == 0 {
		return receipt{}, nil
	}
	r := rs.free[n-1]
	rs.free = rs.free[:n-1]
	return r, nil
}

// note notes that a receipt is there. The answer is its number.
func (rs *receipts) note() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.made++
	return rs.made
}

// next returns the number of the next receipt that is made.
func (rs *receipts) next() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.made + 1
}

// open returns [ErrClosed] after close.
func (rs *receipts) open() error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.over {
		return ErrClosed
	}
	return nil
}

// put gives back a receipt whose version is known, or the empty one.
func (rs *receipts) put(r receipt) {
	rs.mu.Lock()
	if rs.over && r.node != "" {
		rs.mu.Unlock()
		rs.discard(r)
		return
	}
	if r.node != "" {
		rs.free = append(rs.free, r)
	}
	rs.using--
	var idle []func()
	if rs.over && rs.using == 0 {
		idle, rs.idle = rs.idle, nil
	}
	rs.mu.Unlock()
	for _, closed := range idle {
		closed()
	}
}

// tellClosed has closed called by close, or at once after it, unless the waiter leaves before.
func (rs *receipts) tellClosed(w *waiter, closed func()) {
	rs.mu.Lock()
	if !rs.over {
		rs.waits = append(except(rs.waits, w), wait{w, closed})
		closed = func() {}
	}
	rs.mu.Unlock()
	closed()
}

func except(waits []wait, w *waiter) []wait {
	return slices.DeleteFunc(waits, func(other wait) bool { return other.waiter == w })
}

// forget undoes tellClosed.
func (rs *receipts) forget(w *waiter) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.waits = except(rs.waits, w)
}

// hold has close wait until put gives back the empty receipt.
func (rs *receipts) hold() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.using++
}

// discard removes a receipt. If its version is in doubt, the transaction that is in doubt cannot come later.
func (rs *receipts) discard(r receipt) {
	if r.node == "" {
		rs.put(r)
		return
	}
	rs.session.Async(0).Withdraw(r.node, func() { rs.put(receipt{}) })
}

// close removes the receipts, and calls closed when they are gone.
func (rs *receipts) close(closed func()) {
	rs.mu.Lock()
	rs.over = true
	free := rs.free
	rs.free = nil
	rs.using += len(free) + 1 // with this call
	rs.idle = append(rs.idle, closed)
	waits := slices.Clone(rs.waits)
	rs.mu.Unlock()
	for _, w := range waits {
		w.closed()
	}
	for _, r := range free {
		rs.discard(r)
	}
	rs.put(receipt{})
}

// begin does the operations. The answer has a result for each of them, but none if the transaction was done
// and its reply lost. If the error wraps [session.ErrUnknownOutcome], it may have been done; with any
// other it was not, and will not be. After leave, which has it answered at once, nothing more is sent.
func (rs *receipts) begin(epoch int, ops []session.Op, answer func([]session.OpResult, error)) (leave func()) {
	return rs.beginBefore(0, epoch, ops, answer)
}

// beginBefore is begin, with a receipt that has a lower number unless that is 0. Without one the answer is [errYounger]:
// the caller relies on the directory of the receipts, and that may have been made again.
func (rs *receipts) beginBefore(before, epoch int, ops []session.Op, answer func([]session.OpResult, error)) (leave func()) {
	w := &writing{of: rs, requests: rs.session.Async(epoch), ops: ops, answer: answer}
	w.pauses.Clock = rs.session
	r, err := rs.take()
	p := run(transaction{epoch: epoch, before: before}, w.perform, writeInput(granted{r, err}))
	return func() { p.tell(abandon{}) }
}

// ensure makes a receipt, unless one is free: no receipt has a number that is lower than that of the first.
func (rs *receipts) ensure(epoch int, answer func(error)) {
	rs.beginBefore(1, epoch, nil, func(_ []session.OpResult, err error) { answer(client.Without(err, errYounger)) })
}

// A writing performs what a transaction asks for.
type writing struct {
	of       *receipts
	requests client.Async
	ops      []session.Op
	answer   func([]session.OpResult, error)
	pauses   owned.Set
}

func (w *writing) perform(e writeEffect, tell func(writeInput)) {
	rs := w.of
	switch e := e.(type) {
	case makeReceipt:
		r := receipt{node: e.node}
		if r.node == "" {
			r.node = znode.Join(rs.dir, znode.GUIDName(rs.newID(), "receipt"))
		}
		w.requests.Create(r.node, nil, session.Ephemeral, func(_ string, err error) {
			if err == nil || errors.Is(err, session.ErrNodeExists) {
				r.made = rs.note()
			}
			w.pauses.Answer(err, func() { tell(made{r, err}) })
		})
	case ensureReceipts:
		w.requests.EnsurePath(rs.dir, func(_ bool, err error) {
			w.pauses.Answer(err, func() { tell(ensured{err}) })
		})
	case send:
		began := rs.session.Age()
		ops := slices.Concat([]session.Op{session.SetOp(e.receipt.node, nil, e.receipt.version)}, w.ops)
		w.requests.Multi(ops, func(results []session.OpResult, err error) {
			if err == nil && len(results) > 0 && results[0].Stat != nil {
				rs.clock.note(began, rs.session.Age(), results[0].Stat.Mtime)
			}
			w.pauses.Answer(err, func() { tell(sent{results, err}) })
		})
	case void:
		w.requests.Delete(e.receipt.node, e.receipt.version, func(err error) {
			w.pauses.Answer(err, func() { tell(voided{err}) })
		})
	case putAway:
		if e.doubt {
			rs.discard(e.receipt)
		} else {
			rs.put(e.receipt)
		}
	case outcome:
		w.answer(e.results, e.err)
	}
}

// A clock is an estimate of the server's clock. If both clocks run at the same speed, the server's time is at
// least low plus the session's age, and less than high plus it.
type clock struct {
	mu    sync.Mutex
	known bool
	read  time.Duration // the age at which it was read last
	low   int64         // ms since 1970, when the age was 0
	high  int64
}

// note notes that the server has given the time to a write that was sent and answered at these ages.
func (c *clock) note(sent, answered time.Duration, ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const unit = time.Millisecond
	c.known, c.read, c.low, c.high = true, answered, ms-int64((answered+unit-1)/unit), ms+1-int64(sent/unit)
}

// stale is the greatest age of an estimate of the server's clock: it can be set, and another server can become the
// leader.
const stale = 10 * time.Second

// now reads the server's clock, which costs a transaction unless it was read lately. The time is between low and high.
func (rs *receipts) now(epoch int, answer func(low, high int64, err error)) {
	if low, high, ok := rs.clock.at(rs.session.Age()); ok {
		answer(low, high, nil)
		return
	}
	rs.begin(epoch, nil, func(_ []session.OpResult, err error) {
		low, high, ok := rs.clock.at(rs.session.Age())
		switch {
		case ok:
			err = nil
		case err == nil: // its reply was lost
			err = session.ErrDisconnected
		}
		answer(low, high, err)
	})
}

func (c *clock) at(age time.Duration) (low, high int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const ms = int64(time.Millisecond)
	return c.low + int64(age)/ms, c.high + int64(age)/ms + 1, c.known && age-c.read < stale
}
