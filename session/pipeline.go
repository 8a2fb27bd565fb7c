package session

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// maxInFlight bounds the unanswered requests of one session, well below the
// thousand at which a server stops reading.
const maxInFlight = 512

// A call is one request, from its submission until its answer.
type call struct {
	op        string
	path      string
	number    int     // of the epoch that it belongs to; 0 if it may be sent in any
	write     bool    // repeating it could act twice
	ephemeral int     // bytes of paths of the ephemeral nodes that it creates
	watch     string  // path on the server that it watches as well, if it is a read
	forget    removal // the frame is to be one that ends a watch
	began     time.Time
	do        func(*zk.Conn) error // blocks until the client below has an answer
	answer    func(error)          // runs in the session's loop

	epoch *epoch // that it was submitted to

	state atomic.Int32 // a callState

	// These belong to the link that it goes out on, until do has returned.
	bound bool
	since int64 // the newest zxid seen when it went out
	code  int32
	zxid  int64  // of the reply: what the server knew
	place *place // of its reply, once that has come
}

type callState = int32

const (
	callQueued callState = iota
	callSent
	callAbandoned
)

// abandon withdraws a call that has not been sent. It reports whether it was in
// time.
func (c *call) abandon() bool {
	if !c.state.CompareAndSwap(callQueued, callAbandoned) {
		return false
	}
	if c.epoch != nil {
		c.epoch.pipeline.sweep()
	}
	return true
}

// A pipeline sends the calls of one epoch, one behind the other, without waiting
// for their answers. It holds them back while there is no open link. A call is handed
// to the client below when the one before it has been written: that keeps them in
// order. Locks are taken in the order pipeline, link.
type pipeline struct {
	epoch *epoch
	conn  *zk.Conn

	mu        sync.Mutex
	queue     []*call
	abandoned int   // at least so many of them
	sending   bool  // a call has been handed to the client, and is not written yet
	link      *link // that takes requests
	opened    *link // that is open, but must wait for what an earlier one has lost
	inFlight  int
	lost      int   // in flight on links that have failed
	over      error // why the epoch has ended
}

// submit queues a call. It reports false if the epoch has ended.
func (p *pipeline) submit(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil {
		return false
	}
	p.queue = append(p.queue, c)
	p.advance()
	return true
}

// advance hands the next call to the client, if that can be done now.
func (p *pipeline) advance() {
	for p.over == nil && !p.sending && p.link != nil && len(p.queue) > 0 && p.inFlight < maxInFlight {
		c, l := p.queue[0], p.link
		if c.state.CompareAndSwap(callQueued, callSent) {
			if !l.expect(c) {
				c.state.Store(callQueued)
				return // the link has failed; the next will take it
			}
			p.sending = true
			p.inFlight++
			p.epoch.session.workers.Go(func() { p.perform(c, l) })
		} else {
			p.epoch.ephemerals.release(c.ephemeral)
		}
		p.queue[0] = nil
		if p.queue = p.queue[1:]; len(p.queue) == 0 {
			p.queue = nil
		}
	}
}

// sweep removes abandoned calls from the queue when they may be the most of it.
func (p *pipeline) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.abandoned++; p.abandoned <= len(p.queue)/2 {
		return
	}
	p.abandoned = 0
	p.queue = slices.DeleteFunc(p.queue, func(c *call) bool {
		if c.state.Load() != callAbandoned {
			return false
		}
		p.epoch.ephemerals.release(c.ephemeral)
		return true
	})
}

// wrote is called when the call that was handed to the client has been written.
func (p *pipeline) wrote() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sending = false
	p.advance()
}

// open lets calls out on a link, once everything that was lost with earlier links
// has been answered.
func (p *pipeline) open(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = l
	p.release()
}

func (p *pipeline) release() {
	if p.opened == nil || p.lost > 0 || p.over != nil {
		return
	}
	l := p.opened
	p.opened = nil
	if !l.takes() {
		return // it has failed meanwhile
	}
	p.link = l
	e := p.epoch
	e.mu.Lock()
	in := established{epoch: e.number, id: e.id, timeout: e.timeout, server: l.server}
	e.mu.Unlock()
	e.session.tell(in)
	p.advance()
}

// close is called when a link has failed.
func (p *pipeline) close(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opened == l {
		p.opened = nil
	}
	if p.link == l {
		p.link = nil
		p.lost = p.inFlight
	}
}

// end answers everything that was not sent, and keeps the rest from being sent.
func (p *pipeline) end(why error) {
	p.mu.Lock()
	queue := p.queue
	p.queue, p.over = nil, why
	p.mu.Unlock()
	for _, c := range queue {
		p.epoch.session.unsent(c, why)
	}
}

// requeue puts back a call that was not written.
func (p *pipeline) requeue(c *call) {
	p.mu.Lock()
	over := p.over
	c.state.CompareAndSwap(callSent, callQueued)
	if over == nil {
		p.queue = append([]*call{c}, p.queue...)
	}
	p.sending = false
	p.mu.Unlock()
	p.returned()
	if over != nil {
		p.epoch.session.unsent(c, over)
	}
}

// returned counts a call that is no longer in flight.
func (p *pipeline) returned() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	if p.lost > 0 {
		p.lost--
		p.release()
	}
	p.advance()
}

// perform makes the blocking call to the client below, and settles its outcome.
func (p *pipeline) perform(c *call, l *link) {
	err := c.do(p.conn)
	bound := l.unexpect(c)
	order := p.epoch.session.order
	switch {
	case !bound && transient(err):
		p.requeue(c)
		return
	case !bound: // the client would not even send it
		p.mu.Lock()
		p.sending = false
		p.mu.Unlock()
		c.place = order.reserve()
		err = translate(err)
	case c.place == nil || transient(err):
		if err = c.lost(); c.place == nil {
			c.place = order.reserve()
		}
	case c.code == codeTooLarge && c.write:
		err = fmt.Errorf("%w: reply: %w", ErrUnknownOutcome, ErrTooLarge)
	case c.code != codeOK:
		err = errOf(c.code)
	}
	order.fill(c.place, func() { c.finish(err) })
	p.returned()
	order.run()
}

// transient reports whether the client failed for want of a connection, and not
// because of the request.
func transient(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrClosing) || errors.Is(err, zk.ErrNoServer) ||
		err != nil && err.Error() == refused
}

// refused is what the client below makes of [codeRefused].
const refused = "unknown error: -9001"

// lost returns the error of a call whose reply did not come.
func (c *call) lost() error {
	p := c.epoch.pipeline
	p.mu.Lock()
	why := p.over
	p.mu.Unlock()
	if why == nil {
		why = ErrDisconnected
	}
	if c.write {
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, why)
	}
	return why
}

// finish gives the answer. It runs in the session's loop.
func (c *call) finish(err error) {
	if err != nil {
		err = &OpError{Op: c.op, Path: c.path, Err: err}
	}
	if err != nil {
		c.epoch.ephemerals.release(c.ephemeral)
	}
	if c.state.Load() == callAbandoned {
		return
	}
	s := c.epoch.session
	s.opts.Observer.Request(c.op, time.Since(c.began), c.failure(err))
	c.answer(err)
}
