package history

import (
	"slices"
	"sync"
	"time"
)

// A Recorder records a history. It is safe for concurrent use.
type Recorder struct {
	now     func() time.Duration
	journal journal // guarded by mu

	mu   sync.Mutex
	seq  int64
	h    History
	open []*Pending
}

// NewRecorder returns a recorder whose moments are of the clock.
func NewRecorder(head Head, now func() time.Duration) *Recorder {
	return &Recorder{now: now, h: History{Head: head}}
}

// moment returns the present moment. The lock is held.
func (r *Recorder) moment() Moment {
	r.seq++
	return Moment{r.now(), r.seq}
}

// Commit records a transaction of the servers.
func (r *Recorder) Commit(c Commit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.At = r.moment()
	r.h.Commits = append(r.h.Commits, c)
	r.journal.write(line{Commit: &c})
}

// Fault records a fault. It is to be called before the fault has an effect.
func (r *Recorder) Fault(f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.At = r.moment()
	r.h.Faults = append(r.h.Faults, f)
	r.journal.write(line{Fault: &f})
}

// FaultAt records a fault that began before.
func (r *Recorder) FaultAt(at Moment, f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.At = at
	r.h.Faults = append(r.h.Faults, f)
	r.journal.write(line{Fault: &f})
}

// Moment returns the present moment.
func (r *Recorder) Moment() Moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moment()
}

// Client returns the recorder of one life of a process.
func (r *Recorder) Client(process string) *Client {
	return &Client{recorder: r, process: process}
}

// History returns the history so far. Operations that have not returned have an unknown outcome.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.h
	h.Operations = slices.Clone(h.Operations)
	for _, p := range r.open {
		o := p.o
		o.Outcome = Unknown
		h.Operations = append(h.Operations, o)
	}
	slices.SortFunc(h.Operations, func(a, b Operation) int { return a.Call.Compare(b.Call) })
	return &h
}

// A Client records what one life of a process does. It is safe for concurrent use.
type Client struct {
	recorder *Recorder
	process  string
	killed   bool // guarded by the recorder's lock; then nothing more is recorded
}

// Process returns the name of this life of the process.
func (c *Client) Process() string { return c.process }

// Kill ends the records of this life: a process that is gone says nothing any more. Its operations
// that have not returned never do.
func (c *Client) Kill() {
	c.recorder.mu.Lock()
	defer c.recorder.mu.Unlock()
	c.killed = true
	c.recorder.h.Faults = append(c.recorder.h.Faults, Fault{At: c.recorder.moment(), Kind: Killed, Process: c.process})
}

// Moment returns the present moment.
func (c *Client) Moment() Moment { return c.recorder.Moment() }

// Tell records an event that a handle told its user.
func (c *Client) Tell(t Told) {
	c.recorder.mu.Lock()
	defer c.recorder.mu.Unlock()
	if c.killed {
		return
	}
	t.Process, t.At = c.process, c.recorder.moment()
	c.recorder.h.Told = append(c.recorder.h.Told, t)
	c.recorder.journal.write(line{Told: &t})
}

// Begin records the call of an operation, which is to be ended.
func (c *Client) Begin(o Operation) *Pending {
	c.recorder.mu.Lock()
	defer c.recorder.mu.Unlock()
	o.Process, o.Call = c.process, c.recorder.moment()
	p := &Pending{client: c, o: o, key: o.Call.Seq}
	if !c.killed {
		c.recorder.open = append(c.recorder.open, p)
		o.Outcome = Unknown
		c.recorder.journal.write(line{Operation: &o, Key: p.key})
	}
	return p
}

// A Pending is an operation that has not returned.
type Pending struct {
	client *Client
	o      Operation // guarded by the recorder's lock once the operation is open
	key    int64     // in the journal
}

// Enter enters what the caller has decided since the call, before it acts on it: if the process is
// killed then, the history knows what the operation may do. It counts after Kill, too, because a
// request may still go out until the connection breaks.
func (p *Pending) Enter(enter func(o *Operation)) {
	r := p.client.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.open, p) {
		return
	}
	enter(&p.o)
	o := p.o
	o.Outcome = Unknown
	r.journal.write(line{Operation: &o, Key: p.key})
}

// End records the return of an operation. The function may be nil; it enters what is known then.
func (p *Pending) End(outcome Outcome, enter func(o *Operation)) {
	r := p.client.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.open, p)
	if i < 0 || p.client.killed {
		return
	}
	r.open = slices.Delete(r.open, i, i+1)
	p.o.Outcome, p.o.Return = outcome, r.moment()
	if enter != nil {
		enter(&p.o)
	}
	r.h.Operations = append(r.h.Operations, p.o)
	r.journal.write(line{Operation: &p.o, Key: p.key})
}

// Drop forgets an operation that turned out to be none.
func (p *Pending) Drop() {
	r := p.client.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.open, p); i >= 0 && !p.client.killed {
		r.open = slices.Delete(r.open, i, i+1)
		r.journal.write(line{Dropped: p.key})
	}
}

// Instant records an operation that takes no time.
func (c *Client) Instant(o Operation) { c.Begin(o).End(OK, nil) }
