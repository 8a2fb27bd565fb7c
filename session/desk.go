package session

import (
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
	"github.com/zkactors/zkactors/session/internal/workers"
)

// An errand is the [Desk] of a removal: it makes the requests of the session until the removal
// succeeds.
type errand struct {
	requests Async
	answer   func(error)
	ended    bool           // answer was called
	until    time.Duration  // by the clock of the session: answer then, unless it is impatient
	retry    *workers.Retry // nil until it is tried again

	impatient bool // the answer ends the removal
	joins     bool // a deletion of any node may share a transaction

	mu        sync.Mutex
	calls     []*call // but for those that were answered
	room      [1]*call
	cancelled bool
}

func (e *errand) cancel() {
	e.mu.Lock()
	calls := e.calls
	e.calls, e.cancelled = nil, true
	e.mu.Unlock()
	for _, c := range calls {
		c.Abandon()
	}
}

// ask makes a request, unless the errand is cancelled.
func (e *errand) ask(request func() *call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cancelled {
		return
	}
	if e.calls == nil {
		e.calls = e.room[:0]
	}
	e.calls = slices.DeleteFunc(e.calls, func(c *call) bool { return c.Answered() })
	e.calls = append(e.calls, request())
}

// Exists implements [Desk].
func (e *errand) Exists(path string, answer func(*Stat, error)) {
	e.ask(func() *call { return e.requests.exists(path, answer) })
}

// Get implements [Desk].
func (e *errand) Get(path string, answer func(data []byte, stat *Stat, err error)) {
	e.ask(func() *call {
		return e.requests.get(path, func(r Reading, err error) { answer(r.Data, r.Stat, err) })
	})
}

// Set implements [Desk].
func (e *errand) Set(path string, data []byte, version int32, answer func(*Stat, error)) {
	e.ask(func() *call { return e.requests.set(path, data, version, answer) })
}

// Multi implements [Desk].
func (e *errand) Multi(ops []Op, answer func([]OpResult, error)) {
	e.ask(func() *call { return e.requests.multi(ops, false, answer) })
}

// List implements [Desk].
func (e *errand) List(path, _ string, answer func(names []string, err error)) {
	e.ask(func() *call {
		return e.requests.children(path, func(r Reading, err error) { answer(r.Names, err) })
	})
}

// Delete implements [Desk].
func (e *errand) Delete(path string, version int32, fleeting bool, answer func(known int64, err error)) {
	d := &deletion{answered: answer}
	d.Of, d.Op, d.Path, d.convert, d.Fleeting = d, "delete", path, deletedIn, fleeting
	d.Joins = e.joins && version == AnyVersion && !fleeting
	e.ask(func() *call { return d.onNode(e.requests, &wire.Request{Op: wire.OpDelete, Version: version}) })
}

// A deletion is a request whose answer includes the newest zxid that was known when it was sent.
type deletion struct {
	request[struct{}]
	answered func(known int64, err error)
}

// Answer implements [conn.Caller].
func (d *deletion) Answer(err error) { d.answered(d.Since, err) }

// Over implements [Desk].
func (e *errand) Over(err error) bool { return e.requests.over(err) }

func (a Async) newErrand(answer func(error)) errand {
	s := a.session
	a.errand = true
	return errand{requests: a, answer: answer, until: s.conn.Clock.Now() + s.opts.Timeout}
}

// Done implements [Desk]. The first outcome is the answer.
func (e *errand) Done(err error) {
	e.mu.Lock()
	cancelled := e.cancelled
	e.mu.Unlock()
	if err == nil {
		e.retry.End()
	}
	if !e.ended && !cancelled {
		e.ended = true
		e.answer(err)
	}
}

// Later implements [Desk]. Nothing is tried again when the session is being closed.
func (e *errand) Later(path string, why error, do func()) {
	s := e.requests.session
	e.mu.Lock()
	cancelled := e.cancelled
	e.mu.Unlock()
	if cancelled {
		return
	}
	e.retry = s.conn.Later(e.retry, path, why, do)
	if s.conn.Clock.Now() > e.until && !e.impatient {
		e.Done(why)
	}
}
