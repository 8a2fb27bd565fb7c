// Package client has the interfaces of a session that the performers of recipes use: so
// that they run over a model of ZooKeeper too, in tests.
package client

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// A Session is a [session.Session], and the clock that goes with it.
type Session interface {
	Async(epoch int) Async

	// Sharing is Async for one caller, whose Share and Withdraw may share transactions with those of
	// others: see [session.Async.In].
	Sharing(epoch int) Async
	Subscribe(tell func(session.Event) (settled <-chan struct{})) (cancel func())
	Local(key any, create func() any) any
	Warm(path string) bool
	SetWarm(path string, warm bool)
	Fits(ops ...session.Op) error
	Rely() (release func())
	Logger() *slog.Logger
	Observer() session.Observer
	Explain(err error) error
	Age() time.Duration

	// After is [actors.After], Deadline is [actors.Deadline].
	After(d time.Duration, f func()) (stop func())
	Deadline(after time.Duration) time.Time
}

// Async are the requests of [session.Async].
type Async interface {
	Create(path string, data []byte, mode session.CreateMode, answer func(node string, err error))
	Delete(path string, version int32, answer func(error))
	Get(path string, answer func(data []byte, stat *session.Stat, err error))
	Set(path string, data []byte, version int32, answer func(*session.Stat, error))
	Exists(path string, answer func(*session.Stat, error))
	Children(path string, answer func(names []string, stat *session.Stat, err error))
	Sync(path string, answer func(error))
	Multi(ops []session.Op, answer func([]session.OpResult, error))
	Share(ops []session.Op, answer func([]session.OpResult, error))
	EnsurePath(path string, answer func(made bool, err error))
	Withdraw(path string, answer func())
	WithdrawAll(dir, prefix string, answer func())
	Remove(r session.Removal, answer func(error)) (cancel func())
	Watch(path string, answer, changed func(data []byte, stat *session.Stat, err error)) (cancel func())
	Follow(path string, aspect session.Aspect, lasting bool, tell func(session.Reading, error)) Subscription
	FollowCreated(path string, data []byte, created, parent session.OpResult, tell func(session.Reading, error)) Subscription
	FollowTogether(path string, data []byte, created, parent session.OpResult, tell func(session.Reading, error), beside []session.Beside) (sub Subscription, others []Subscription)

	// After is [actors.After].
	After(d time.Duration, f func()) (stop func())
}

// A Subscription is a [session.Subscription].
type Subscription interface {
	Cancel()
	Over() bool
	Unsettled() bool
}

// Of returns the session as a [Session].
func Of(s *session.Session) Session { return live{s} }

type live struct{ *session.Session }

func (l live) Async(epoch int) Async { return requests{l.Session.Async(epoch)} }

func (l live) Sharing(epoch int) Async {
	r := &struct {
		requests
		lane session.Lane
	}{}
	r.Async = l.Session.Async(epoch).In(&r.lane)
	return r
}

func (live) After(d time.Duration, f func()) (stop func()) { return actors.After(d, f) }
func (live) Deadline(after time.Duration) time.Time        { return actors.Deadline(after) }

type requests struct{ session.Async }

func (r requests) Follow(path string, aspect session.Aspect, lasting bool, tell func(session.Reading, error)) Subscription {
	return r.Async.Follow(path, aspect, lasting, tell)
}

func (r requests) FollowCreated(path string, data []byte, created, parent session.OpResult, tell func(session.Reading, error)) Subscription {
	return r.Async.FollowCreated(path, data, created, parent, tell)
}

func (r requests) FollowTogether(path string, data []byte, created, parent session.OpResult, tell func(session.Reading, error), beside []session.Beside) (sub Subscription, others []Subscription) {
	own, all := r.Async.FollowTogether(path, data, created, parent, tell, beside)
	for _, o := range all {
		others = append(others, o)
	}
	return own, others
}

func (r requests) Remove(what session.Removal, answer func(error)) (cancel func()) {
	return what.Begin(r.Async, answer)
}

func (requests) After(d time.Duration, f func()) (stop func()) { return actors.After(d, f) }

// Log adds a record about a recipe to the log of the session, with the attributes that [session.Session.Observer] gives to
// the records of others. It allocates nothing if the level is disabled.
func Log(s Session, level slog.Level, recipe, path, message string, more slog.Attr) {
	if logger := s.Logger(); logger.Enabled(context.Background(), level) {
		logger.LogAttrs(context.Background(), level, message, slog.String("recipe", recipe), slog.String("path", path), more)
	}
}

// LogLoss is [Log] of a loss: WARN, but INFO if the owner of the session closes it.
func LogLoss(s Session, recipe, path string, why error) {
	level := slog.LevelWarn
	if errors.Is(why, session.ErrClosed) {
		level = slog.LevelInfo
	}
	Log(s, level, recipe, path, "lost", slog.Any("reason", why))
}

// MakeContainer makes a container, where the server has them.
func MakeContainer(requests Async, path, data string, answer func(error)) {
	requests.Create(path, []byte(data), session.Container, func(_ string, err error) {
		if errors.Is(err, session.ErrUnimplemented) || errors.Is(err, session.ErrInvalidArgument) {
			requests.Create(path, []byte(data), session.Persistent, func(_ string, err error) { answer(err) })
			return
		}
		answer(err)
	})
}
