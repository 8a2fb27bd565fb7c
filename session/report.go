package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// This file turns the reports of a session and of the recipes on it into records of the log.

// A reporter passes each report to the observer, and then to the log.
type reporter struct{ session *core }

func (s *core) observer() Observer { return reporter{s} }

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
		r.log(slog.LevelInfo, "session suspended", slog.Time("deadline", ev.Deadline))
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
	r.session.opts.Observer.Waiting(recipe, path)
	r.of(recipe, path, slog.LevelDebug, "waiting", slog.Attr{})
}

// Waited implements [Observer].
func (r reporter) Waited(recipe, path string, took time.Duration) {
	r.session.opts.Observer.Waited(recipe, path, took)
	r.of(recipe, path, levelOf(recipe), "granted", slog.Duration("waited", took))
}

// GaveUp implements [Observer].
func (r reporter) GaveUp(recipe, path string, took time.Duration) {
	r.session.opts.Observer.GaveUp(recipe, path, took)
	r.of(recipe, path, slog.LevelDebug, "gave up", slog.Duration("waited", took))
}

// Held implements [Observer].
func (r reporter) Held(recipe, path string, took time.Duration) {
	r.session.opts.Observer.Held(recipe, path, took)
	r.of(recipe, path, levelOf(recipe), "not held any more", slog.Duration("held", took))
}

// Lost implements [Observer]. The end of a session that its owner closes is no surprise.
func (r reporter) Lost(recipe, path string, err error) {
	r.session.opts.Observer.Lost(recipe, path, err)
	level := slog.LevelWarn
	if errors.Is(err, ErrClosed) {
		level = slog.LevelInfo
	}
	r.of(recipe, path, level, "lost", slog.Any("reason", err))
}

// Revoked implements [Observer].
func (r reporter) Revoked(recipe, path string) {
	r.session.opts.Observer.Revoked(recipe, path)
	r.of(recipe, path, slog.LevelInfo, "revocation requested", slog.Attr{})
}

// Leader implements [Observer]. The data of the leader are not logged.
func (r reporter) Leader(path, node string, data []byte, term int64) {
	r.session.opts.Observer.Leader(path, node, data, term)
	r.log(slog.LevelInfo, "leader changed", slog.String("recipe", "election"), slog.String("path", path), slog.String("leader", node), slog.Int64("term", term))
}

// Members implements [Observer].
func (r reporter) Members(path string, n int) {
	r.session.opts.Observer.Members(path, n)
	r.of("group", path, slog.LevelDebug, "members changed", slog.Int("members", n))
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

// identified is a handler that adds the name and the id of the session to each record.
type identified struct {
	slog.Handler

	session *core
}

// identify returns a logger whose records name the session, and no other: the one that it is a
// sibling of, for example.
func (s *core) identify(l *slog.Logger) *slog.Logger {
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
		r.AddAttrs(slog.String("id", fmt.Sprintf("%#x", id)))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h identified) WithAttrs(attrs []slog.Attr) slog.Handler {
	return identified{h.Handler.WithAttrs(attrs), h.session}
}

// WithGroup implements [slog.Handler].
func (h identified) WithGroup(name string) slog.Handler {
	return identified{h.Handler.WithGroup(name), h.session}
}
