package session

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/servers"
)

// An Observer receives reports of a session and the recipes on it, for metrics. Its methods are
// called on the goroutines of sessions and recipes, many at once, and with no lock held. They must
// return at once and must not wait for the session, which answers nothing meanwhile. A panic is not
// recovered; a call of [runtime.Goexit] ends the report, and nothing else. Embed
// [NopObserver] to implement only some.
//
// A recipe has the name of its package, and paths are those that the caller gave. Each Waiting is
// followed by one Waited or GaveUp: so the difference is how many wait now. Likewise each Waited is
// followed by one Held, and the difference is how many hold now. Queues have methods of their own:
// each Delivered is followed by one Settled, and the difference is how many items are in work now.
type Observer interface {
	// Request is called once for every request that was answered, or was given up before it was
	// sent: with its operation, the time since the caller made it, and its error. A read that finds
	// no node has no error.
	Request(op string, took time.Duration, err error)

	// State receives every event of the session.
	State(ev Event)

	// Waiting is called when a recipe begins to wait for a grant: a contender in line, a candidate
	// that does not lead, a member or a name whose node does not exist. It is called again when a
	// candidate was deposed, or when a node is gone that the recipe keeps.
	Waiting(recipe, path string)

	// Waited receives the time for which a recipe waited until its grant.
	Waited(recipe, path string, took time.Duration)

	// GaveUp receives the time for which a recipe waited in vain, until it left, or lost its
	// place.
	GaveUp(recipe, path string, took time.Duration)

	// Held receives the time for which a lock, a lease of a semaphore, a term, a membership or a
	// name was held. It is called when the grant is given back or lost. Barriers, transactions and
	// values report nothing.
	Held(recipe, path string, took time.Duration)

	// Lost is called with the reason when a recipe lost its grant. It is not called when a node is
	// gone that the recipe makes again.
	Lost(recipe, path string, err error)

	// Failed is called with the reason when a recipe ends without a grant, and was not asked to: it
	// cannot join, or has lost its place in line.
	Failed(recipe, path string, err error)

	// Revoked is called when a holder is asked to give up a lock.
	Revoked(recipe, path string)

	// Leader receives a report from each candidate and each observer of an election when it learns
	// of a leader: the node of the leader, "" while there is none, its data, and its term, or the
	// last term while there is none. Several candidates and observers on one path repeat the same
	// report, and a report may be late: a smaller term is old news.
	Leader(path, node string, data []byte, term int64)

	// Members receives from each watcher of a group the number of members.
	Members(path string, n int)

	// Put is called once for each call that puts items into a queue: with the number of items, the
	// time since the caller made it, and its error. If there is an error, no item was put, unless
	// it wraps [ErrUnknownOutcome].
	Put(path string, items int, took time.Duration, err error)

	// Delivered is called when a reader has received an item of a queue. Age is the time since the
	// item was first put, by the server's clock, with the delay that its producer gave it. Attempt
	// counts the deliveries of the item, from 1. An item that a consumer has claimed ahead is not
	// delivered yet.
	Delivered(path string, age time.Duration, attempt int)

	// Settled is called when a delivery ends, with the time since Delivered. Its end is
	// "acknowledged" or "rejected" if the server has confirmed that. It is "lost" if the claim
	// ended first, with the session or with the consumer, or if the outcome is unknown. It is
	// "taken" if the item was delivered at most once, by Take: then Settled follows Delivered at
	// once.
	Settled(path, end string, worked time.Duration)

	// Buried is called when an item of a queue has moved to the dead letters of the queue.
	Buried(path string)
}

// NopObserver is an [Observer] that does nothing.
type NopObserver struct{}

// Request implements [Observer].
func (NopObserver) Request(string, time.Duration, error) {}

// State implements [Observer].
func (NopObserver) State(Event) {}

// Waiting implements [Observer].
func (NopObserver) Waiting(string, string) {}

// Waited implements [Observer].
func (NopObserver) Waited(string, string, time.Duration) {}

// GaveUp implements [Observer].
func (NopObserver) GaveUp(string, string, time.Duration) {}

// Held implements [Observer].
func (NopObserver) Held(string, string, time.Duration) {}

// Lost implements [Observer].
func (NopObserver) Lost(string, string, error) {}

// Failed implements [Observer].
func (NopObserver) Failed(string, string, error) {}

// Revoked implements [Observer].
func (NopObserver) Revoked(string, string) {}

// Leader implements [Observer].
func (NopObserver) Leader(string, string, []byte, int64) {}

// Members implements [Observer].
func (NopObserver) Members(string, int) {}

// Put implements [Observer].
func (NopObserver) Put(string, int, time.Duration, error) {}

// Delivered implements [Observer].
func (NopObserver) Delivered(string, time.Duration, int) {}

// Settled implements [Observer].
func (NopObserver) Settled(string, string, time.Duration) {}

// Buried implements [Observer].
func (NopObserver) Buried(string) {}

// A requestObserver receives no reports of a session's state.
type requestObserver struct{ Observer }

// State implements [Observer].
func (requestObserver) State(Event) {}

// This file turns the reports of a session and of the recipes on it into records of the log.

// A reporter passes each report to the observer, and then to the log.
type reporter struct{ session *Session }

func (s *Session) observer() Observer { return reporter{s} }

// Request implements [Observer]. Requests are not logged.
func (r reporter) Request(op string, took time.Duration, err error) {
	r.session.opts.Observer.Request(op, took, err)
}

// State implements [Observer].
func (r reporter) State(ev Event) {
	r.session.opts.Observer.State(ev)
	switch ev := ev.(type) {
	case Connected:
		r.log(slog.LevelInfo, "session connected", slog.Int("epoch", ev.Epoch), slog.Duration("timeout", ev.Timeout), slog.String("server", ev.Server))
	case Suspended:
		if ev.Deadline.IsZero() {
			r.log(slog.LevelInfo, "session suspended")
		} else {
			r.log(slog.LevelInfo, "session suspended", slog.Time("deadline", ev.Deadline))
		}
	case Lapsed:
		r.log(slog.LevelWarn, "session lapsed: what was held is lost")
	case Resumed:
		r.log(slog.LevelInfo, "session resumed", slog.String("server", ev.Server))
	case Expired:
		r.log(slog.LevelWarn, "session expired", slog.Int("epoch", ev.Epoch))
	case Closed:
		r.log(slog.LevelInfo, "session closed")
	}
}

// Waiting implements [Observer].
func (r reporter) Waiting(recipe, path string) {
	if r.observed() {
		r.tell(func(o Observer) { o.Waiting(recipe, path) })
	}
	r.of(recipe, path, slog.LevelDebug, "waiting", slog.Attr{})
}

// Waited implements [Observer].
func (r reporter) Waited(recipe, path string, took time.Duration) {
	if r.observed() {
		r.tell(func(o Observer) { o.Waited(recipe, path, took) })
	}
	r.of(recipe, path, levelOf(recipe), "granted", slog.Duration("waited", took))
}

// GaveUp implements [Observer].
func (r reporter) GaveUp(recipe, path string, took time.Duration) {
	if r.observed() {
		r.tell(func(o Observer) { o.GaveUp(recipe, path, took) })
	}
	r.of(recipe, path, slog.LevelDebug, "gave up", slog.Duration("waited", took))
}

// Held implements [Observer].
func (r reporter) Held(recipe, path string, took time.Duration) {
	if r.observed() {
		r.tell(func(o Observer) { o.Held(recipe, path, took) })
	}
	r.of(recipe, path, levelOf(recipe), "not held any more", slog.Duration("held", took))
}

// Lost implements [Observer].
func (r reporter) Lost(recipe, path string, err error) {
	if r.observed() {
		r.tell(func(o Observer) { o.Lost(recipe, path, err) })
	}
	r.over(recipe, path, "lost", err)
}

// Failed implements [Observer].
func (r reporter) Failed(recipe, path string, err error) {
	if r.observed() {
		r.tell(func(o Observer) { o.Failed(recipe, path, err) })
	}
	r.over(recipe, path, "failed", err)
}

// over logs an end. That of a session that its owner closes is no surprise.
func (r reporter) over(recipe, path, how string, err error) {
	level := slog.LevelWarn
	if errors.Is(err, ErrClosed) {
		level = slog.LevelInfo
	}
	r.of(recipe, path, level, how, slog.Any("reason", err))
}

// Revoked implements [Observer].
func (r reporter) Revoked(recipe, path string) {
	if r.observed() {
		r.tell(func(o Observer) { o.Revoked(recipe, path) })
	}
	r.of(recipe, path, slog.LevelInfo, "revocation requested", slog.Attr{})
}

// Leader implements [Observer]. The data of the leader are not logged.
func (r reporter) Leader(path, node string, data []byte, term int64) {
	if r.observed() {
		r.tell(func(o Observer) { o.Leader(path, node, data, term) })
	}
	r.log(slog.LevelInfo, "leader changed", slog.String("recipe", "election"), slog.String("path", path), slog.String("leader", node), slog.Int64("term", term))
}

// Members implements [Observer].
func (r reporter) Members(path string, n int) {
	if r.observed() {
		r.tell(func(o Observer) { o.Members(path, n) })
	}
	r.of("group", path, slog.LevelDebug, "members changed", slog.Int("members", n))
}

// Put implements [Observer]. Puts, deliveries and settlements are not logged: there are as many as
// requests. A consumer logs the dead letters, with their IDs.
func (r reporter) Put(path string, items int, took time.Duration, err error) {
	if r.observed() {
		r.tell(func(o Observer) { o.Put(path, items, took, err) })
	}
}

// Delivered implements [Observer].
func (r reporter) Delivered(path string, age time.Duration, attempt int) {
	if r.observed() {
		r.tell(func(o Observer) { o.Delivered(path, age, attempt) })
	}
}

// Settled implements [Observer].
func (r reporter) Settled(path, end string, worked time.Duration) {
	if r.observed() {
		r.tell(func(o Observer) { o.Settled(path, end, worked) })
	}
}

// Buried implements [Observer].
func (r reporter) Buried(path string) {
	if r.observed() {
		r.tell(func(o Observer) { o.Buried(path) })
	}
}

// observed reports whether there is an observer: without one reports cost nothing.
func (r reporter) observed() bool { return forRecipes{}.Observed(r.session) }

// tell has the observer receive the report of a recipe, whose goroutine goes on if the observer
// calls [runtime.Goexit].
func (r reporter) tell(report func(Observer)) {
	_, _ = servers.Outlive(func() (struct{}, error) { report(r.session.opts.Observer); return struct{}{}, nil })
}

// levelOf returns the level of grants: a lock may be granted a thousand times a second, a leader
// is elected now and then.
func levelOf(recipe string) slog.Level {
	if recipe == "lock" || recipe == "semaphore" {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// of logs a report of a recipe. It allocates nothing if the level is disabled.
func (r reporter) of(recipe, path string, level slog.Level, message string, more slog.Attr) {
	if r.session.opts.Logger.Enabled(context.Background(), level) {
		r.log(level, message, slog.String("recipe", recipe), slog.String("path", path), more)
	}
}

func (r reporter) log(level slog.Level, message string, attrs ...slog.Attr) {
	r.session.opts.Logger.LogAttrs(context.Background(), level, message, attrs...)
}

// log writes a record that no context belongs to.
func (s *Session) log(level slog.Level, message string, args ...any) {
	s.opts.Logger.Log(context.Background(), level, message, args...)
}

// identified is a handler that adds the name and the id of the session to each record.
type identified struct {
	slog.Handler

	session *Session
}

// identify returns a logger whose records name the session, and no other session, such as the
// parent of a sibling.
func (s *Session) identify(l *slog.Logger) *slog.Logger {
	handler := l.Handler()
	if other, ok := handler.(identified); ok {
		handler = other.Handler
	}
	return slog.New(identified{handler, s})
}

// Handle implements [slog.Handler].
func (h identified) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	if name := h.session.opts.Name; name != "" {
		r.AddAttrs(slog.String("session", name))
	}
	if id := h.session.id.Load(); id != 0 {
		r.AddAttrs(slog.String("id", znode.SessionID(id)))
	}
	_, err := servers.Outlive(func() (struct{}, error) { return struct{}{}, h.Handler.Handle(ctx, r) })
	return err
}

// WithAttrs implements [slog.Handler].
func (h identified) WithAttrs(attrs []slog.Attr) slog.Handler {
	return identified{h.Handler.WithAttrs(attrs), h.session}
}

// WithGroup implements [slog.Handler].
func (h identified) WithGroup(name string) slog.Handler {
	return identified{h.Handler.WithGroup(name), h.session}
}
