package zktest

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

const (
	// frameSize is the size of a frame or a part of it, besides data and names:
	// about the memory that it takes while it waits.
	frameSize = 256

	// writeSize is the number of bytes that are written at once, or a single frame.
	writeSize = 64 << 10

	// burstSize is the number of replies to a burst of requests that are written at once. It
	// is also what the queue keeps room for, twice at most.
	burstSize = 64

	// eventFactor is the multiple of [Config.MaxOwed] that a connection may be owed in
	// all before it is cut. Only notifications get that far: they do not wait
	// for the client to read.
	eventFactor = 16
)

// A parcel is written at once: a reply, a notification, or bytes.
type parcel struct {
	due    time.Time // zero means now
	size   int       // about
	header wire.Header
	op     Op
	reply  *wire.Reply // never changes; nil for a reply without a record
	event  wire.Event  // without a Kind unless the parcel is a notification
	bytes  []byte      // of what is neither; nil for a reply and a notification
}

func (p *parcel) isEvent() bool { return p.event.Kind != 0 }

// appendTo encodes the parcel.
func (p *parcel) appendTo(b []byte) []byte {
	switch {
	case p.isEvent():
		return wire.AppendEvent(b, p.header.Zxid, p.event)
	case p.bytes != nil:
		return append(b, p.bytes...)
	case p.op == OpMultiRead && p.reply != nil && p.header.Code != codeOK:
		// ZooKeeper notices the error after it has begun to answer.
		at := len(b)
		b = wire.AppendReply(b, wire.Header{Xid: p.header.Xid, Zxid: p.header.Zxid}, p.op, p.reply)
		wire.SetCode(b[at:], p.header.Code)
		return b
	}
	return wire.AppendReply(b, p.header, p.op, p.reply)
}

// sizeOf returns about how many bytes a reply takes, before and after it is encoded.
func sizeOf(r *wire.Reply) int {
	if r == nil {
		return frameSize
	}
	size := frameSize + len(r.Path) + len(r.Data) + sizeOfNames(r.Names)
	for _, a := range r.ACL {
		size += frameSize + len(a.Scheme) + len(a.ID)
	}
	for i := range r.Results {
		part := &r.Results[i]
		size += frameSize + len(part.Path) + len(part.Data) + sizeOfNames(part.Names)
	}
	return size
}

func sizeOfNames(names []string) int {
	size := 0
	for _, name := range names {
		size += 4 + len(name)
	}
	return size
}

// An outbound has the replies and notifications that a connection owes its client. It is filled
// under the server's lock; encoding and writing happen without.
type outbound struct {
	mu      sync.Mutex // taken after the server's, held for moments
	changed sync.Cond  // whatever follows
	queue   []parcel
	owed    int // the sizes of what is queued or being written
	frozen  flow
	writing bool // set while a goroutine takes and writes parcels
	closed  bool
	last    time.Time   // the newest due time in the queue
	alarm   func() bool // stops the timer for the first due time; nil without one
}

func (o *outbound) put(p parcel) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	// Nothing overtakes what was sent before.
	if p.due.Before(o.last) {
		p.due = o.last
	}
	o.last = p.due
	o.queue = append(o.queue, p)
	o.owed += p.size
}

// owes returns how many frames and bytes.
func (o *outbound) owes() (frames, bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue), o.owed
}

func (o *outbound) freeze(f flow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frozen = f
	o.changed.Broadcast()
}

// close returns false if it has been called before.
func (o *outbound) close() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	o.closed, o.queue, o.owed = true, nil, 0
	o.stopAlarm()
	o.changed.Broadcast()
	return true
}

func (o *outbound) stopAlarm() {
	if o.alarm != nil {
		o.alarm()
		o.alarm = nil
	}
}

// begin reports whether the caller is the one to write.
func (o *outbound) begin() bool {
	if o.closed || o.writing {
		return false
	}
	o.writing = true
	return true
}

// A batch has the bytes that are written at once. The connections of a server share some: an
// idle connection has none.
type batch struct {
	parcels []parcel
	size    int
	bytes   []byte
}

func (w *batch) clear() {
	clear(w.parcels)
	w.parcels, w.size, w.bytes = w.parcels[:0], 0, w.bytes[:0]
	if cap(w.bytes) > 4*writeSize {
		w.bytes = nil
	}
}

// take moves to w what may be written now, and returns when more may be: zero if that
// is not known.
func (o *outbound) take(w *batch, now time.Time) (next time.Time) {
	kept := o.queue[:0]
	for i, p := range o.queue {
		if p.isEvent() && o.frozen.events || !p.isEvent() && o.frozen.replies {
			kept = append(kept, p)
			continue
		}
		if late := p.due.After(now); late || w.size >= writeSize {
			if late {
				next = p.due
			}
			kept = append(kept, o.queue[i:]...)
			break
		}
		w.parcels = append(w.parcels, p)
		w.size += p.size
	}
	clear(o.queue[len(kept):])
	o.queue = kept
	if len(kept) == 0 {
		o.last = time.Time{}
		if cap(kept) > 2*burstSize {
			o.queue = nil
		}
	}
	return next
}

// flush has a goroutine write what is queued, unless one is at it.
func (c *conn) flush() {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if (len(c.out.queue) > 0 || c.ending.Load()) && c.out.begin() {
		c.server.conns.Go(c.write)
	}
}

// drain writes what is queued, and returns when the client is owed little enough
// for another request. It reports whether the connection is still there.
func (c *conn) drain() bool {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		if o.begin() {
			o.mu.Unlock()
			c.write()
			o.mu.Lock()
		}
		if o.closed || o.owed <= c.server.config.MaxOwed {
			return !o.closed
		}
		o.changed.Wait()
	}
}

// write writes what may be written now. The caller began it.
func (c *conn) write() {
	w, ok := c.server.batches.Get().(*batch)
	if !ok {
		w = new(batch)
	}
	defer c.server.batches.Put(w)
	for c.fill(w) {
		for i := range w.parcels {
			w.bytes = w.parcels[i].appendTo(w.bytes)
		}
		if _, err := c.net.Write(w.bytes); err != nil {
			c.cut()
		}
	}
}

// fill exchanges what has been written for what is next. It returns false, and
// the writing has ended, if that is nothing.
func (c *conn) fill(w *batch) bool {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.Broadcast()
	if o.closed {
		w.clear()
		o.writing = false
		return false
	}
	o.owed -= w.size
	w.clear()
	now := c.server.config.Clock.Now()
	next := o.take(w, now)
	if len(w.parcels) > 0 {
		return true
	}
	o.writing = false
	o.stopAlarm()
	switch {
	case !next.IsZero():
		o.alarm = c.server.config.Clock.AfterFunc(next.Sub(now), c.flush)
	case len(o.queue) == 0 && c.ending.Load() && !o.frozen.replies:
		o.mu.Unlock()
		c.cut()
		o.mu.Lock()
	}
	return false
}

// An inbound has the requests that come in: with latency, the wire between reading and
// executing.
type inbound struct {
	mu      sync.Mutex
	changed sync.Cond // whatever follows
	frozen  bool
	closed  bool
	late    []lateFrame
	bytes   int // of late
	most    int // of bytes before put waits
}

type lateFrame struct {
	frame []byte // nil at the end of the connection
	due   time.Time
}

func (i *inbound) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	i.changed.Broadcast()
}

func (i *inbound) freeze(frozen bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.frozen = frozen
	i.changed.Broadcast()
}

// pass waits while it is frozen, and returns false when it is closed.
func (i *inbound) pass() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.frozen && !i.closed {
		i.changed.Wait()
	}
	return !i.closed
}

// put waits while there is too much on the wire, and returns false when it is
// closed.
func (i *inbound) put(frame []byte, due time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.bytes > i.most && !i.closed {
		i.changed.Wait()
	}
	i.late = append(i.late, lateFrame{frame, due})
	i.bytes += frameSize + len(frame)
	i.changed.Broadcast()
	return !i.closed
}

// take waits for a frame, and returns false when it is closed.
func (i *inbound) take() (lateFrame, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.late) == 0 && !i.closed {
		i.changed.Wait()
	}
	if i.closed {
		return lateFrame{}, false
	}
	f := i.late[0]
	i.late[0] = lateFrame{}
	i.late = i.late[1:]
	i.bytes -= frameSize + len(f.frame)
	i.changed.Broadcast()
	return f, true
}

// acceptPause is the time for which a listener rests after an error, as ZooKeeper's does:
// without descriptors, the next attempt fails at once.
const acceptPause = 10 * time.Millisecond

// accept hands over the connections of a listener until it is closed.
func accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			serve(c)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			<-time.After(acceptPause)
		}
	}
}
