package once

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/session"
)

const (
	// small is the size of transactions that every server takes. Its default is 1 MiB.
	small = 32 << 10

	// suspectTries and provenTries are how often the reply to a larger transaction may be lost: one
	// that is larger than all that were answered, and one that is not.
	suspectTries = 2
	provenTries  = 10
)

// A limit is the knowledge of the transactions that the servers of a session take, which may be
// smaller than session.Options.MaxRequest.
type limit struct {
	mu       sync.Mutex
	answered int           // bytes of the largest transaction that was answered; 0 if none is larger than small
	refused  int           // bytes of the smallest that was given up; 0 if none was, or it is forgotten
	at       time.Duration // the age of the session when the newest was given up
}

// remembers is the time after which a refusal is forgotten: servers may have been replaced.
const remembers = time.Hour

// limitKey is the key of the limit of a session.
type limitKey struct{}

func (w *Writer) limit() *limit {
	return w.Session.Local(limitKey{}, func() any { return new(limit) }).(*limit)
}

// size returns the number of bytes of a transaction, beside its marker.
func (w *Writer) size(ops []session.Op) int { return w.Session.Room() - w.Session.Room(ops...) }

// tries returns how many replies to a transaction may be lost.
func (w *Writer) tries(size int) int {
	if size <= small {
		return 0
	}
	l := w.limit()
	l.mu.Lock()
	defer l.mu.Unlock()
	if size <= l.answered {
		return provenTries
	}
	return suspectTries
}

// note notes that a server has answered a transaction.
func (w *Writer) note(size int) {
	if size <= small {
		return
	}
	l := w.limit()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answered = max(l.answered, size); l.refused <= size {
		l.refused = 0
	}
}

// giveUp notes that no server has answered a transaction.
func (w *Writer) giveUp(size int) error {
	l := w.limit()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused == 0 || size < l.refused {
		l.refused = size
	}
	l.at = w.Session.Age()
	if l.answered >= size { // servers have changed
		l.answered = 0
	}
	return fmt.Errorf("%w: %w of a transaction of %d bytes, which was not done; is jute.maxbuffer of the servers smaller than session.Options.MaxRequest?", session.ErrTooLarge, ErrLost, size)
}

// Takes reports whether a transaction of the operations is likely to be answered: it is as small as
// the session requires, and smaller than those that were given up. Others are begun if they cannot
// be divided.
func (w *Writer) Takes(ops ...session.Op) bool {
	if w.Session.Fits(append(slices.Clip(ops), w.Longest())...) != nil {
		return false
	}
	return w.TakesSize(w.size(ops))
}

// TakesSize is Takes of a transaction of so many bytes, beside its marker, which the session sends.
func (w *Writer) TakesSize(size int) bool {
	if size <= small {
		return true
	}
	l := w.limit()
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.Session.Age()-l.at > remembers {
		l.refused = 0
	}
	return l.refused == 0 || size <= max(l.answered, l.refused/2)
}
