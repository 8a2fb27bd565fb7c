package once

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/internal/procedure"
	"github.com/zkactors/zkactors/session"
)

// A Writer does writes once or not at all. It keeps the markers of one handle for its next writes:
// as many as were under way at the same time. It is safe for concurrent use.
type Writer struct {
	// Constant.
	Session client.Session
	Dir     string                 // of the markers: a container
	Name    func(epoch int) string // of a new marker; no two are the same
	Closed  error                  // of writes after Close

	// Wrote, if not nil, is called when a write was done: it was sent and answered at these ages of
	// the session, and the server's clock was then at so many ms since 1970.
	Wrote func(sent, answered time.Duration, ms int64)

	// Bare, if not nil, is called when it is seen that this client may make no markers. Then writes
	// are done without one, and a lost reply leaves the outcome unknown.
	Bare func(reason error)

	follow sync.Once // subscribes to the session

	mu    sync.Mutex
	epoch int                // the present one, as far as the client knows; 0 between two
	ended error              // set when the session has closed; never cleared
	makes []func(int, error) // that wait for the next epoch
	leave func()             // ends the subscription
	bare  bool               // set when no marker may be made; never cleared
	free  []Marker           // that no write has
	made  int                // how many were made
	n     int                // the number of the newest write
	over  bool               // set by Close. While set, nothing is kept, and nothing begins
	using int                // how many writes, and other things that leave nodes, are under way
	idle  []func()           // called when the last of them ends after Close

	refused error // see Refused; never cleared
}

// Begin does the operations in one transaction. The answer has a result for each of them, but none
// if the transaction was done and its reply lost. If the error wraps [session.ErrUnknownOutcome],
// it may have been done; with any other it was not, and will not be. With [session.ErrTooLarge] a
// part of the operations may be taken; see [Writer.Takes]. After Abandon, which has it
// answered at once, nothing more is sent. Epoch is that of [Write].
func (w *Writer) Begin(epoch int, ops []session.Op, answer func([]session.OpResult, error)) (abandon func()) {
	return w.begin(Write{Epoch: epoch}, 0, ops, answer)
}

// BeginBefore is Begin, with a marker that has a lower number unless that is 0. Without such a
// marker the answer is [ErrYounger]: the caller relies on the directory of the markers, and that
// may have been made again.
func (w *Writer) BeginBefore(before, epoch int, ops []session.Op, answer func([]session.OpResult, error)) (abandon func()) {
	return w.begin(Write{Epoch: epoch, Before: before}, 0, ops, answer)
}

// BeginUnder is Begin of operations that rest on what was read under a lease of the session. If it
// has lapsed since, other data may have come in its place: then no attempt is sent, and the answer
// is [session.ErrLapsed] if none was done.
func (w *Writer) BeginUnder(lease int64, epoch int, ops []session.Op, answer func([]session.OpResult, error)) (abandon func()) {
	return w.begin(Write{Epoch: epoch, Rests: true}, lease, ops, answer)
}

// Mark makes a marker, unless one is free. The next write is sent at once then.
func (w *Writer) Mark(epoch int, answer func(error)) {
	w.begin(Write{Epoch: epoch, Marks: true}, 0, nil, func(_ []session.OpResult, err error) { answer(err) })
}

func (w *Writer) begin(of Write, lease int64, ops []session.Op, answer func([]session.OpResult, error)) (abandon func()) {
	w.follow.Do(w.subscribe)
	size := w.size(ops)
	of.Tries, of.Bares = cmp.Or(of.Tries, w.tries(size)), w.Bare != nil && !of.Marks
	a := &attempts{of: w, epoch: of.Epoch, lease: lease, requests: w.Session.Async(of.Epoch), ops: ops, size: size, answer: answer}
	a.pauses.Clock = w.Session
	p := procedure.New(of, a.perform)
	p.Tell(w.grant(of))
	return func() { p.Tell(Abandoned{}) }
}

// subscribe follows the epochs of the session.
func (w *Writer) subscribe() {
	w.Hold()
	leave := w.Session.Subscribe(func(ev session.Event) <-chan struct{} {
		switch ev := ev.(type) {
		case session.Connected:
			w.enter(ev.Epoch, nil)
		case session.Expired:
			w.expired(ev.Epoch)
		case session.Closed:
			w.enter(0, session.ErrClosed)
		case session.Suspended, session.Lapsed, session.Resumed:
		}
		return nil
	})
	w.mu.Lock()
	w.leave = leave
	w.mu.Unlock()
	w.Release()
}

// enter begins an epoch, or ends the last.
func (w *Writer) enter(epoch int, err error) {
	w.mu.Lock()
	w.epoch, w.ended = epoch, err
	makes := w.makes
	w.makes = nil
	w.mu.Unlock()
	for _, f := range makes {
		f(epoch, err)
	}
}

// expired notes that an epoch is over, and its markers with it.
func (w *Writer) expired(epoch int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.epoch == epoch {
		w.epoch = 0
	}
}

// present calls f with the present epoch, or the next.
func (w *Writer) present(f func(epoch int, err error)) {
	w.mu.Lock()
	epoch, err := w.epoch, w.ended
	waits := epoch == 0 && err == nil
	if waits {
		w.makes = append(w.makes, f)
	}
	w.mu.Unlock()
	if !waits {
		f(epoch, err)
	}
}

// grant returns a marker that is free, and otherwise a marker without a node.
func (w *Writer) grant(of Write) Granted {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return Granted{Err: w.Closed}
	}
	w.using++
	if !of.Marks {
		w.n++
	}
	// A marker of an earlier epoch goes with that, or has gone.
	w.free = slices.DeleteFunc(w.free, func(m Marker) bool { return m.Epoch < max(of.Epoch, w.epoch) })
	i := len(w.free) - 1
	for i >= 0 && of.Epoch != 0 && w.free[i].Epoch > of.Epoch { // the write is late, and the marker is for others
		i--
	}
	if i < 0 {
		return Granted{N: w.n, Bare: w.bare}
	}
	m := w.free[i]
	w.free = slices.Delete(w.free, i, i+1)
	return Granted{Marker: m, N: w.n}
}

// Marked reports whether a marker is free, so that the next write makes none.
func (w *Writer) Marked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.free, func(m Marker) bool { return m.Epoch == w.epoch })
}

// noteBare notes that this client may make no markers.
func (w *Writer) noteBare(reason error) {
	w.mu.Lock()
	first := w.Bare != nil && !w.bare
	w.bare = w.Bare != nil
	w.mu.Unlock()
	if first {
		w.Bare(reason)
	}
}

// Next returns the number of the next marker that is made.
func (w *Writer) Next() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.made + 1
}

// Longest returns an operation as long as the write to any marker.
func (w *Writer) Longest() session.Op {
	return session.SetOp(znode.Join(w.Dir, w.Name(math.MaxInt)), number(math.MaxInt), 0)
}

func number(n int) []byte { return []byte(strconv.Itoa(n)) }

// Hold has Close wait for Release: for other nodes that its caller leaves or removes.
func (w *Writer) Hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.using++
}

// Release undoes Hold.
func (w *Writer) Release() { w.keep(Marker{}) }

// keep ends a use of a marker whose version is known, or of none.
func (w *Writer) keep(m Marker) {
	w.mu.Lock()
	if w.over && m.Node != "" {
		w.mu.Unlock()
		w.discard(m)
		return
	}
	if m.Node != "" {
		w.free = append(w.free, m)
	}
	w.using--
	var idle []func()
	if w.over && w.using == 0 {
		if w.leave != nil { // before a caller learns of the end
			idle = append(idle, w.leave)
			w.leave = nil
		}
		idle, w.idle = append(idle, w.idle...), nil
	}
	w.mu.Unlock()
	for _, closed := range idle {
		closed()
	}
}

// discard removes a marker. If its version is in doubt, the attempt that is in doubt cannot come
// later.
func (w *Writer) discard(m Marker) {
	if m.Node == "" {
		w.keep(m)
		return
	}
	w.Session.Async(m.Epoch).Withdraw(m.Node, func(err error) {
		w.mu.Lock()
		w.refused = cmp.Or(w.refused, err)
		w.mu.Unlock()
		w.Release()
	})
}

// Refused returns why a marker stands that was to be removed; nil if all are gone that were.
func (w *Writer) Refused() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// Close removes the markers, and calls closed when they are gone, and writes are no more under way.
// Later writes fail with Closed.
func (w *Writer) Close(closed func()) {
	w.mu.Lock()
	w.over = true
	free := w.free
	w.free = nil
	w.using += len(free) + 1 // with this call
	w.idle = append(w.idle, closed)
	w.mu.Unlock()
	for _, m := range free {
		w.discard(m)
	}
	w.Release()
}

// Attempts perform the effects of a write.
type attempts struct {
	of       *Writer
	epoch    int
	lease    int64 // under which the operations were read; or 0
	requests client.Async
	ops      []session.Op
	size     int // of the operations
	answer   func([]session.OpResult, error)
	pauses   owned.Set
}

func (a *attempts) perform(e Effect, tell func(Input)) {
	w := a.of
	slowly := func(err error, in Input) { owned.Tell(&a.pauses, err, tell, in) }
	switch e := e.(type) {
	case Make:
		if a.epoch != 0 {
			a.make(e.Node, a.epoch, slowly)
			return
		}
		w.present(func(epoch int, err error) {
			if err != nil {
				slowly(err, Made{Marker{Node: e.Node}, err})
				return
			}
			a.make(e.Node, epoch, slowly)
		})
	case Ensure:
		a.requests.EnsurePath(w.Dir, func(_ bool, err error) {
			if errors.Is(err, session.ErrNoAuth) {
				w.noteBare(err)
			}
			slowly(err, Ensured{err})
		})
	case Send:
		began := w.Session.Age()
		ops := a.ops
		if e.Marker.Node != "" {
			ops = slices.Concat([]session.Op{session.SetOp(e.Marker.Node, number(e.N), e.Marker.Version)}, ops)
		}
		requests := a.requests
		if e.Marker.Node != "" { // in a later epoch its end would look like that of an attempt that was done
			requests = w.Session.Async(e.Marker.Epoch)
		}
		if a.lease != 0 {
			requests = requests.Under(a.lease)
		}
		requests.Multi(ops, func(results []session.OpResult, err error) {
			if e.Marker.Node == "" && len(results) > 0 {
				results = slices.Insert(results, 0, session.OpResult{}) // the marker's
			}
			if err == nil && w.Wrote != nil && len(results) > 0 && results[0].Stat != nil {
				w.Wrote(began, w.Session.Age(), results[0].Stat.Mtime)
			}
			if len(results) > 0 {
				w.note(a.size)
			}
			slowly(err, Sent{results, err})
		})
	case Look:
		a.requests.Get(e.Marker.Node, func(data []byte, stat *session.Stat, err error) {
			in := Looked{Err: client.Without(err, session.ErrNoNode)}
			if err == nil {
				in.Exists, in.Version = true, stat.Version
				in.N, _ = strconv.Atoi(string(data)) // data that is not a number is not ours
			}
			slowly(in.Err, in)
		})
	case Void:
		a.requests.Delete(e.Marker.Node, e.Marker.Version, func(err error) { slowly(err, Voided{err}) })
	case PutAway:
		if e.Doubt {
			w.discard(e.Marker)
		} else {
			w.keep(e.Marker)
		}
	case Answer:
		if errors.Is(e.Err, ErrLost) {
			e.Err = w.giveUp(a.size)
		}
		a.answer(e.Results, e.Err)
	}
}

// make creates a marker, which belongs to the epoch.
func (a *attempts) make(node string, epoch int, slowly func(error, Input)) {
	w := a.of
	m := Marker{Node: node, Epoch: epoch}
	if m.Node == "" {
		m.Node = znode.Join(w.Dir, w.Name(a.epoch))
	}
	w.Session.Async(epoch).Create(m.Node, number(0), session.Ephemeral, func(_ string, err error) {
		switch {
		case err == nil, errors.Is(err, session.ErrNodeExists):
			w.mu.Lock()
			w.made++
			m.Made = w.made
			w.mu.Unlock()
		case errors.Is(err, session.ErrNoAuth):
			w.noteBare(err)
		case errors.Is(err, session.ErrExpired):
			w.expired(epoch)
		}
		slowly(err, Made{m, err})
	})
}
