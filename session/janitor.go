package session

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// The janitor removes nodes. It repeats what fails after a pause, until a server confirms
// that the node is gone, or the epoch is over.

// A Removal names a node that [Removal.Begin] removes.
type Removal struct {
	Path string

	// Is and Says, if not nil, report from its Stat and its data whether the node at the path
	// is the one to remove; another node stays. They are asked before every attempt, and Is once
	// more when the node has been written to. If both are nil, any node is removed that was there
	// when the first attempt reached the server. If the outcome of that is unknown, a node that was
	// created since the session was last told something stays, and an impatient removal
	// answers ErrUnknownOutcome.
	Is   func(*Stat) bool
	Says func(data []byte) bool

	// Guard, if not "", is the path of a node whose version grows before another node can take
	// the place. It is read first, and the deletion is a transaction that checks its version.
	Guard string

	// Contested says that other clients create nodes at the path, which may have the same version.
	// The node is then written to before it is deleted: the reply identifies it, and no
	// new node has the version that it has after that (docs/adr/0009). After a reconnect it is
	// read and written to again.
	Contested bool

	// Replaced, if not nil, is told the Stat of another node that was written to, because it had
	// replaced the one that was read.
	Replaced func(*Stat)

	// Prefix, if not "", says that the children of the path are removed whose names begin with it,
	// which has to contain a GUID, and not the node at the path. They are listed until none is
	// found: a node may be replaced by another with the prefix until it is deleted.
	Prefix string

	// Then, if not nil, is removed afterwards, within the same session timeout.
	Then *Removal

	// Impatient gives up, also what comes then, at the first error that does not pass, the end
	// of the session included. What passes is repeated for as long as that takes.
	Impatient bool
}

// youngest is the highest version of a new node: see package presence.
const youngest = 1

// Begin removes the node. The answer is nil when it is gone, or the epoch over. While the server
// refuses the deletion, for want of a permission for one, the answer is its error after a session
// timeout, and the attempts go on; an impatient removal has ended with its answer. After
// cancel nothing more is sent, and there is no answer.
func (r Removal) Begin(requests Async, answer func(error)) (cancel func()) {
	return r.start(requests, answer).cancel
}

// start is Begin.
func (r Removal) start(requests Async, answer func(error)) *errand {
	both := &struct {
		errand
		job
	}{errand: requests.newErrand(answer)}
	e, j := &both.errand, &both.job
	e.impatient = r.Impatient
	*j = job{Removal: r, requests: requests, errand: e}
	j.begin()
	return e
}

func (r Removal) begin(requests Async, e *errand, done func(error)) {
	(&job{Removal: r, requests: requests, errand: e, done: done}).begin()
}

func (j *job) begin() {
	r, e := &j.Removal, j.errand
	e.mu.Lock()
	j.older, e.newest = e.newest, j
	e.mu.Unlock()
	switch {
	case r.Prefix != "":
		j.list()
	case r.Is == nil && r.Says == nil && r.Guard == "":
		j.delete(AnyVersion, false)
	default:
		j.look()
	}
}

// A job is a removal under way.
type job struct {
	Removal
	requests Async
	errand   *errand
	done     func(error) // nil for the end of the errand
	first    *call       // set when the first deletion of any node has failed

	// Of the errand's mutex.
	call  *call // the newest of its requests
	older *job  // of the errand
}

// ask makes a request, unless the errand is cancelled.
func (j *job) ask(request func() *call) {
	e := j.errand
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.cancelled {
		j.call = request()
	}
}

// last returns the newest request. An answer may come before [job.ask] has noted its call.
func (j *job) last() *call {
	j.errand.mu.Lock()
	defer j.errand.mu.Unlock()
	return j.call
}

// end goes on with what is to be removed afterwards.
func (j *job) end(err error) {
	switch {
	case j.Then != nil && err == nil:
	case j.done != nil:
		j.done(err)
		return
	default:
		j.errand.end(err)
		return
	}
	then := *j.Then
	then.Impatient = j.Impatient
	then.begin(j.requests, j.errand, j.done)
}

// list removes the children with the prefix.
func (j *job) list() {
	j.ask(func() *call {
		return j.requests.children(j.Path, func(r childrenResult, err error) {
			if err != nil {
				j.again(err, j.list)
				return
			}
			left, found := 1, false
			var refused error
			gone := func(err error) {
				if refused == nil {
					refused = err
				}
				if left--; left > 0 {
					return
				}
				if found && refused == nil {
					j.list()
					return
				}
				j.end(refused)
			}
			for _, name := range r.names {
				if strings.HasPrefix(name, j.Prefix) {
					left++
					found = true
					Removal{Path: Join(j.Path, name), Impatient: j.Impatient}.begin(j.requests, j.errand, gone)
				}
			}
			gone(nil)
		})
	})
}

// look reads what is at the path, and the guard before that.
func (j *job) look() {
	if j.Guard == "" {
		j.read(nil)
		return
	}
	j.ask(func() *call {
		return j.requests.exists(j.Guard, func(guard *Stat, err error) {
			if err == nil && guard == nil {
				err = ErrNoNode
			}
			if err != nil {
				j.again(err, j.look)
				return
			}
			j.read(guard)
		})
	})
}

func (j *job) read(guard *Stat) {
	j.ask(func() *call {
		if !j.Contested && j.Says == nil {
			return j.requests.exists(j.Path, func(stat *Stat, err error) {
				if err == nil && stat == nil {
					err = ErrNoNode
				}
				j.found(dataResult{stat: stat}, guard, err, false)
			})
		}
		return j.requests.get(j.Path, func(r dataResult, err error) {
			if j.Says == nil && isAny(err, ErrNoAuth, ErrTooLarge) {
				j.Contested = false // its data cannot be written back
				err = ErrDisconnected
			}
			j.found(r, guard, err, false)
		})
	})
}

// found decides on the node that was read, or written to.
func (j *job) found(r dataResult, guard *Stat, err error, written bool) {
	switch {
	case err != nil:
		j.again(err, j.look)
	case j.Is != nil && !j.Is(r.stat), j.Says != nil && !j.Says(r.data):
		j.end(nil)
	case j.first != nil && !j.first.knew(r.stat):
		j.endUnknown()
	case guard != nil:
		j.ask(func() *call {
			return j.requests.multi([]Op{CheckOp(j.Guard, guard.Version), DeleteOp(j.Path, AnyVersion)}, func(_ []OpResult, err error) {
				j.again(err, j.look)
			})
		})
	case j.Contested && (!written || r.stat.Version <= youngest):
		j.mark(r)
	default:
		j.delete(r.stat.Version, written)
	}
}

// endUnknown ends a removal of any node that has found another than it knew of: either that has replaced
// the one that was deleted, or nothing was.
func (j *job) endUnknown() {
	if j.Impatient {
		j.end(&OpError{Op: "delete", Path: j.Path, Err: ErrUnknownOutcome})
		return
	}
	j.end(nil)
}

// mark writes to the node the data that it has.
func (j *job) mark(r dataResult) {
	j.ask(func() *call {
		return j.requests.set(j.Path, r.data, r.stat.Version, func(stat *Stat, err error) {
			switch {
			case isAny(err, ErrNoAuth, ErrTooLarge): // a client that may delete need not be allowed to write
				j.delete(r.stat.Version, true)
			case err != nil:
				j.again(err, j.look)
			case stat.Czxid != r.stat.Czxid: // the node is gone, and this is another
				if j.Replaced != nil {
					j.Replaced(stat)
				}
				j.end(nil)
			default:
				j.found(dataResult{r.data, stat}, nil, nil, true)
			}
		})
	})
}

// delete deletes the node if it has the version. If fleeting, that is true of the present
// connection only: see [call].
func (j *job) delete(version int32, fleeting bool) {
	j.ask(func() *call {
		return j.requests.deleteWhile(fleeting, j.Path, version, func(_ struct{}, err error) {
			if err == nil {
				j.end(nil)
				return
			}
			try := j.look
			switch {
			case version != AnyVersion:
			case isAny(err, ErrDisconnected) && !InDoubt(err): // it was never sent
				try = func() { j.delete(version, false) }
			default:
				j.first = j.last()
			}
			j.again(err, try)
		})
	})
}

// again ends the job, or goes on with try.
func (j *job) again(err error, try func()) {
	switch {
	case j.Impatient && j.requests.over(err):
		j.end(err)
	case err == nil, isNoNode(err), j.requests.over(err):
		j.end(nil)
	case isAny(err, ErrDisconnected, ErrUnknownOutcome, ErrExpired, ErrBadVersion) && !errors.Is(err, errBlamed):
		try()
	case j.Impatient && !Passing(err):
		j.end(err)
	default:
		j.requests.later(j.errand, j.Path, err, try)
	}
}

// Withdraw deletes the node, and tries until that is confirmed, also across reconnects. It
// answers when the node is gone, or the epoch over. Where the server refuses the deletion, for
// want of a permission for one, it answers when it has tried for a session timeout, and goes on
// trying.
func (a Async) Withdraw(path string, answer func()) {
	Removal{Path: path}.start(a, func(error) { answer() })
}

// WithdrawAll deletes every child of dir whose name begins with the prefix, which has to
// contain a GUID, whether or not the reply to its create has come, like [Async.Withdraw].
// It is to be asked for after the create.
func (a Async) WithdrawAll(dir, prefix string, answer func()) {
	Removal{Path: dir, Prefix: prefix}.start(a, func(error) { answer() })
}

// over reports whether an error means that there is nothing left to do, or nobody left
// to do it.
func (a Async) over(err error) bool {
	return isAny(err, ErrClosed) || a.epoch != 0 && isAny(err, ErrExpired) && !isAny(err, ErrDisconnected)
}

// An errand is something that the session does until it succeeds.
type errand struct {
	answer func(error)
	ended  bool                        // answer was called
	until  time.Duration               // by [Session.Age]: answer then, unless it is impatient
	pause  *backoff.ExponentialBackOff // nil until it is tried again

	impatient bool // of a removal: the answer ends it

	mu        sync.Mutex
	newest    *job // of a removal: all are its own, of which those of a prefix go on at once
	cancelled bool
}

func (e *errand) cancel() {
	e.mu.Lock()
	newest := e.newest
	e.newest, e.cancelled = nil, true
	e.mu.Unlock()
	for j := newest; j != nil; j = j.older {
		if c := j.last(); c != nil {
			c.abandon()
		}
	}
}

func (a Async) newErrand(answer func(error)) errand {
	s := a.session
	return errand{answer: answer, until: s.Age() + s.opts.Timeout}
}

func (e *errand) end(err error) {
	if !e.ended {
		e.ended = true
		e.answer(err)
	}
}

// later tries again after a pause, unless the session is being closed.
func (a Async) later(e *errand, path string, why error, do func()) {
	s := a.session
	s.opts.Logger.Warn("trying again", "path", path, "reason", why)
	e.mu.Lock()
	cancelled := e.cancelled
	e.mu.Unlock()
	switch {
	case cancelled:
		return
	case s.Age() > e.until && !e.impatient:
		e.end(why)
	}
	if e.pause == nil {
		e.pause = backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(20*time.Millisecond),
			backoff.WithMaxInterval(5*time.Second),
			backoff.WithMaxElapsedTime(0),
		)
	}
	pause := e.pause.NextBackOff()
	s.workers.Go(func() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
			s.order.put(do)
		case <-s.closing:
		}
	})
}
