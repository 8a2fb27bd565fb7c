// Package observed has the code that the observers for Prometheus and for OpenTelemetry share.
package observed

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
)

// reasons maps errors to values of the label for the reason of a failure. The first entry that an
// error wraps counts.
var reasons = []struct { //nolint:gochecknoglobals // they are constant
	err  error
	name string
}{
	{lock.ErrRevoked, "revoked"},
	{lock.ErrNodeDeleted, "node_deleted"},
	{lock.ErrLayout, "layout"},
	{semaphore.ErrLimit, "limit"},
	{session.ErrHistoryLost, "history_lost"},
	{queue.ErrFull, "full"},
	{queue.ErrLayout, "layout"},
	{queue.ErrClosed, "closed"},
	{session.ErrUnknownOutcome, "unknown_outcome"},
	{session.ErrLapsed, "session_lapsed"},
	{session.ErrExpired, "session_expired"},
	{session.ErrClosed, "session_closed"},
	{session.ErrDisconnected, "disconnected"},
	{session.ErrReadOnly, "read_only"},
	{session.ErrBusy, "busy"},
	{session.ErrAuthFailed, "auth_failed"},
	{session.ErrNoAuth, "no_auth"},
	{session.ErrSessionFull, "session_full"},
	{session.ErrTooLarge, "too_large"},
	{session.ErrNoNode, "no_node"},
	{session.ErrNodeExists, "node_exists"},
	{session.ErrBadVersion, "bad_version"},
	{session.ErrNotEmpty, "not_empty"},
	{session.ErrInvalidArgument, "invalid"},
	{session.ErrInvalidPath, "invalid"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "canceled"},
}

// Reason returns the value of a label for an error: "ok" for nil, and one of a few others. So a
// metric has few series, whatever the texts of the errors.
func Reason(err error) string {
	if err == nil {
		return "ok"
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.name
		}
	}
	return "other"
}

// States has the values of the label for the state of a session.
var States = []string{"connecting", "connected", "suspended", "expired", "closed"} //nolint:gochecknoglobals // they are constant

// State returns the state that an event begins, and the name of the event.
func State(ev session.Event) (state, event string) {
	switch ev.(type) {
	case session.Connected:
		return "connected", "connected"
	case session.Resumed:
		return "connected", "resumed"
	case session.Suspended:
		return "suspended", "suspended"
	case session.Lapsed:
		return "suspended", "lapsed"
	case session.Expired:
		return "expired", "expired"
	case session.Closed:
		return "closed", "closed"
	}
	return "connecting", "none"
}

// A Key is a recipe at a path.
type Key struct{ Recipe, Path string }

// Waits has the waits in progress. The zero value is ready for use, also concurrently.
type Waits struct {
	mu    sync.Mutex
	begun map[Key][]time.Time // the times of beginning, ascending; no list is empty
}

// Begin records that a wait begins now.
func (w *Waits) Begin(k Key, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun == nil {
		w.begun = make(map[Key][]time.Time)
	}
	w.begun[k] = append(w.begun[k], now)
}

// End records that a wait ends now, and that it took the given time. An observer does not learn
// which of several waits with one key has ended. End removes the one that began closest to that
// time ago.
func (w *Waits) End(k Key, now time.Time, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, then := w.begun[k], now.Add(-took)
	if len(all) == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(all, then, time.Time.Compare)
	if i == len(all) || i > 0 && then.Sub(all[i-1]) <= all[i].Sub(then) {
		i--
	}
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		delete(w.begun, k)
		return
	}
	w.begun[k] = all
}

// Oldest returns, for each key, when the oldest wait in progress began.
func (w *Waits) Oldest() map[Key]time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	oldest := make(map[Key]time.Time, len(w.begun))
	for k, all := range w.begun {
		oldest[k] = all[0]
	}
	return oldest
}

// Leaders has the newest leader of each election, by path. The zero value is ready for use, also
// concurrently.
type Leaders struct {
	mu     sync.Mutex
	newest map[string]Leader
}

// A Leader is the leader of an election in one term.
type Leader struct {
	Name string // "" while the election has no leader
	Term int64
}

// See records a report of a leader, unless it is older than an earlier report or repeats it. Then
// it calls changed with the last leader and the present one. The calls are in the order of the
// changes.
func (l *Leaders) See(path string, now Leader, changed func(before, now Leader)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.newest[path]
	if now.Term < before.Term || now == before {
		return
	}
	if l.newest == nil {
		l.newest = make(map[string]Leader)
	}
	l.newest[path] = now
	if changed != nil {
		changed(before, now)
	}
}

// Newest returns the newest leader of each election.
func (l *Leaders) Newest() map[string]Leader {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.newest)
}

// LeaderName returns the data of a leader's node as the value of a label: at most 64 bytes, in
// printable characters.
func LeaderName(node string, data []byte) string {
	if node == "" {
		return ""
	}
	const longest = 64
	name := []rune(string(data[:min(len(data), longest)]))
	for i, r := range name {
		if r < ' ' || r > '~' {
			name[i] = '?'
		}
	}
	return string(name)
}

// A Queue is a queue.Queue or a queue.Priority.
type Queue = interface {
	Len(ctx context.Context) (int, error)
}

// Queues has the queues whose lengths are exported, by name. The zero value is ready for use, also
// concurrently.
type Queues struct {
	mu  sync.Mutex
	all map[string]Queue
}

// Add adds a queue.
func (q *Queues) Add(name string, queue Queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all == nil {
		q.all = make(map[string]Queue)
	}
	q.all[name] = queue
}

// Lengths requests the length of each queue. A queue that does not answer in time is left out.
func (q *Queues) Lengths(ctx context.Context) map[string]int {
	q.mu.Lock()
	all := maps.Clone(q.all)
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	lengths := make(map[string]int, len(all))
	for name, queue := range all {
		if n, err := queue.Len(ctx); err == nil {
			lengths[name] = n
		}
	}
	return lengths
}
