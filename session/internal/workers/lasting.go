package workers

import (
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// A Lasting is a state that is said when it begins, ever more rarely while it lasts, and when it
// ends. The zero Lasting has not begun.
type Lasting struct {
	count int // of what was noted
	since time.Time
	next  time.Time // from when on it is said again
}

// The shortest and the longest time between two records of a state that lasts.
const (
	soonest = time.Minute
	latest  = time.Hour
)

// Again notes that the state has begun, or lasts. It reports whether to say so, with the attributes
// that say for how long.
func (l *Lasting) Again() (attrs []any, say bool) {
	now := time.Now()
	if l.count++; l.count == 1 {
		l.since = now
	}
	if now.Before(l.next) {
		return nil, false
	}
	attrs = l.attrs(now)
	l.next = now.Add(min(max(2*now.Sub(l.since), soonest), latest))
	return attrs, true
}

// Over notes that the state has ended. It reports whether to say so: if it had begun.
func (l *Lasting) Over() (attrs []any, say bool) {
	attrs, say = l.attrs(time.Now()), l.count > 0
	*l = Lasting{}
	return attrs, say
}

func (l *Lasting) attrs(now time.Time) []any {
	if l.count <= 1 {
		return nil
	}
	return []any{slog.Int("times", l.count), slog.Duration("for", now.Sub(l.since))}
}

// A Retry is an action that fails and is repeated. A nil Retry has not failed.
type Retry struct {
	Pauses *backoff.ExponentialBackOff
	Lasting
	Ended func(attrs []any) // says that the action is not repeated any more
}

// End says that the action has succeeded, or is not repeated for another reason.
func (r *Retry) End() {
	if r == nil {
		return
	}
	if attrs, say := r.Over(); say {
		r.Ended(attrs)
	}
}
