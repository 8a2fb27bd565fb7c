// Package receipt writes each transaction of a handle once, and knows the server's clock from it.
package receipt

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/once"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/session"
)

// ErrClosed means that the handle of the receipts is closed.
var ErrClosed = errors.New("queue: closed")

// A Writer writes the markers of package once, by which a handle knows the fate of its
// transactions. The writes show the server's clock.
type Writer struct {
	once.Writer

	NewID func() string
	clock clock

	mu     sync.Mutex
	closed bool   // set by End
	waits  []wait // calls that End ends
}

// A wait is a call that waits.
type wait struct {
	of     any    // the waiter of the call, or whatever names it
	closed func() // called by End
}

// New returns the writer of a handle, for the directory.
func New(s client.Session, dir string) *Writer {
	rs := &Writer{NewID: znode.NewGUID}
	rs.Session, rs.Dir, rs.Closed = s, dir, ErrClosed
	rs.Name = func(int) string { return znode.GUIDName(rs.NewID(), "receipt") }
	rs.Wrote = rs.clock.note
	return rs
}

// Open returns ErrClosed after End.
func (rs *Writer) Open() error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closed {
		return ErrClosed
	}
	return nil
}

// TellClosed has closed called by End, or at once after it, unless the waiter leaves before.
func (rs *Writer) TellClosed(w any, closed func()) {
	rs.mu.Lock()
	if !rs.closed {
		rs.waits = append(except(rs.waits, w), wait{w, closed})
		closed = func() {}
	}
	rs.mu.Unlock()
	closed()
}

func except(waits []wait, w any) []wait {
	return slices.DeleteFunc(waits, func(other wait) bool { return other.of == w })
}

// Forget undoes TellClosed.
func (rs *Writer) Forget(w any) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.waits = except(rs.waits, w)
}

// End ends the calls that wait, removes the receipts, and calls closed when all of that is gone.
func (rs *Writer) End(closed func()) {
	rs.mu.Lock()
	rs.closed = true
	waits := slices.Clone(rs.waits)
	rs.mu.Unlock()
	rs.Hold()
	rs.Close(closed)
	for _, w := range waits {
		w.closed()
	}
	rs.Release()
}

// EndAll is End. It waits until that is done, or the session is over, which deletes the receipts
// too, or has lapsed, or ctx ends. If the server refuses for a session timeout to delete them, that
// is the error.
func (rs *Writer) EndAll(ctx context.Context, live *session.Session) error {
	var subscription owned.Set
	defer subscription.End()
	return procedure.AwaitAnswer(ctx, func(done func(error)) {
		rs.End(func() { done(rs.Refused()) })
		Lapses(rs.Session, live, &subscription, func() { done(nil) })
		if live.State() == nil { // before the first session
			done(nil)
		}
	})
}

// Lapses has over called when the session is over, or out of reach for so long that it may be. Live
// is nil in a model.
func Lapses(s client.Session, live *session.Session, set *owned.Set, over func()) {
	ends := func(ev session.Event) {
		switch ev.(type) {
		case session.Lapsed, session.Expired, session.Closed:
			over()
		case nil, session.Connected, session.Suspended, session.Resumed:
		}
	}
	set.Follow(s, ends, nil)
	if live != nil { // between two sessions there is no event before the next
		ends(live.State())
	}
}

// A clock is an estimate of the server's clock, from the last write of the handle.
type clock struct {
	mu             sync.Mutex
	known          bool
	sent, answered time.Duration // the ages of the session when the write was sent, and answered
	ms             int64         // the time that the server has given to it, since 1970
}

// note notes that the server has given the time to a write that was sent and answered at these
// ages.
func (c *clock) note(sent, answered time.Duration, ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.sent, c.answered, c.ms = true, sent, answered, ms
}

// Least returns how far the server's clock moves at least while the session ages by d: its rate may
// differ by one percent. That counts for no longer than an estimate does: a call that has waited
// for hours would be minutes late.
func Least(d time.Duration) time.Duration { return d - min(d, stale)/100 }

// most returns how far the server's clock moves at most.
func most(d time.Duration) time.Duration { return d + d/100 }

// stale is the greatest age of an estimate of the server's clock: it can be set, and another server
// can become the leader.
const stale = 10 * time.Second

// Now reads the server's clock, which costs a transaction unless it was read lately. The time is at
// least low, and less than high.
func (rs *Writer) Now(epoch int, answer func(low, high int64, err error)) {
	if low, high, ok := rs.clock.at(rs.Session.Age()); ok {
		answer(low, high, nil)
		return
	}
	rs.Begin(epoch, nil, func(_ []session.OpResult, err error) {
		low, high, ok := rs.clock.at(rs.Session.Age())
		switch {
		case ok:
			err = nil
		case err == nil: // its reply was lost
			err = session.ErrDisconnected
		}
		answer(low, high, err)
	})
}

// Glance is Now for a client that may only read: if the handle has no receipt, the transaction that
// reads the clock leaves none. A receipt is ephemeral, so the session would prove its lease for it
// as long as the handle is open.
func (rs *Writer) Glance(epoch int, answer func(low, high int64, err error)) {
	if _, _, ok := rs.clock.at(rs.Session.Age()); ok || rs.Marked() || rs.Open() != nil {
		rs.Now(epoch, answer)
		return
	}
	rs.Hold()
	rs.glance(epoch, func(err error) {
		rs.Release()
		low, high, _ := rs.clock.at(rs.Session.Age())
		answer(low, high, err)
	})
}

// glance notes the time of a transaction that creates and deletes a node.
func (rs *Writer) glance(epoch int, answer func(error)) {
	node, sent, a := znode.Join(rs.Dir, rs.Name(epoch)), rs.Session.Age(), rs.Session.Async(epoch)
	ops := []session.Op{
		session.CreateOp(node, nil, session.Persistent), session.SetOp(node, nil, 0), session.DeleteOp(node, 1),
	}
	a.Multi(ops, func(results []session.OpResult, err error) {
		switch {
		case err == nil:
			rs.clock.note(sent, rs.Session.Age(), results[1].Stat.Mtime)
			answer(nil)
		case session.InDoubt(err): // whether or not it was done, it has left nothing
			answer(session.ErrDisconnected)
		case errors.Is(err, session.ErrNoNode):
			a.EnsurePath(rs.Dir, func(_ bool, err error) {
				if err != nil {
					answer(err)
					return
				}
				rs.glance(epoch, answer)
			})
		default:
			answer(err)
		}
	})
}

func (c *clock) at(age time.Duration) (low, high int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const ms = time.Millisecond
	return c.ms + int64(Least(age-c.answered)/ms), c.ms + int64(most(age-c.sent)/ms) + 2, c.known && age-c.answered < stale
}

// Until returns after which time low has grown by so many ms, so that a client which waits for that
// need not ask twice. After a long time the clock is read again.
func Until(ms int64) time.Duration {
	d := time.Duration(ms) * time.Millisecond
	if d < stale {
		d += d/99 + time.Millisecond // Least of d is enough
	}
	return d
}

// Age returns how old an item is that was first put at the time, in ms by the server's clock.
func (rs *Writer) Age(since int64) time.Duration {
	low, _, _ := rs.clock.at(rs.Session.Age())
	return max(0, time.Duration(low-since)*time.Millisecond)
}
