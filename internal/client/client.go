// Package client is the side of a session that recipes and watches see, and other users do not
// (docs/adr/0028). Its interfaces are what performers use: so that they run over a model of
// ZooKeeper too, in tests. File handle.go has what the handles of recipes and watches have in common.
package client

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// A Session is a [session.Session], and the clock that goes with it.
type Session interface {
	Async(epoch int) Async

	// Sharing is Async for one caller, whose Share and Withdraw may share transactions with those of
	// others. The requests of one caller keep their order.
	Sharing(epoch int) Async
	Subscribe(tell func(session.Event) (settled <-chan struct{})) (cancel func())
	Local(key any, create func() any) any

	// Warm reports whether the session has seen that the node at path exists and carries no
	// data. SetWarm sets or clears the hint.
	Warm(path string) bool
	SetWarm(path string, warm bool)
	Fits(ops ...session.Op) error
	Room(ops ...session.Op) int
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
	FollowOnce(path string, tell func(session.Reading, error)) Subscription
	FollowTogether(path string, data []byte, parent session.OpResult, tell func(session.Reading, error), others []Other) (sub Subscription, all []Subscription)

	// After is [actors.After].
	After(d time.Duration, f func()) (stop func())
}

// Other is a node of another client, which FollowTogether watches with one that was created.
type Other = struct {
	Path string
	Tell func(session.Reading, error)
}

// A Subscription is a [session.Subscription].
type Subscription interface {
	Cancel()
	Over() bool
	Unsettled() bool
}

// hidden declares what [session.ForRecipes] returns: the methods of sessions that are not for other
// users. Package session documents them.
type hidden interface {
	Age(s *session.Session) time.Duration
	CheckContext(ctx context.Context) error
	CheckPath(s *session.Session, path string) error
	Explain(s *session.Session, err error) error
	Fits(s *session.Session, ops ...session.Op) error
	Room(s *session.Session, ops ...session.Op) int
	FollowCreated(a session.Async, path string, data []byte, created, parent session.OpResult, tell func(session.Reading, error)) *session.Subscription
	FollowOnce(a session.Async, path string, tell func(session.Reading, error)) *session.Subscription
	FollowTogether(a session.Async, path string, data []byte, parent session.OpResult, tell func(session.Reading, error), others []Other) (sub *session.Subscription, all []*session.Subscription)
	Local(s *session.Session, key any, create func() any) any
	Logger(s *session.Session) *slog.Logger
	Observer(s *session.Session) session.Observer
	Rely(s *session.Session) (release func())
	Share(a session.Async, ops []session.Op, answer func([]session.OpResult, error))
	Sharing(s *session.Session, epoch int) *session.Async
	Sibling(s *session.Session) (*session.Session, error)
}

func behind() hidden { return session.ForRecipes().(hidden) }

// CheckContext refuses a nil context with [session.ErrInvalidArgument].
func CheckContext(ctx context.Context) error { return behind().CheckContext(ctx) }

// CheckPath reports why path cannot be the path of a recipe.
func CheckPath(s *session.Session, path string) error { return behind().CheckPath(s, path) }

// Sibling returns another session with the servers and options of s, which ends with s at the latest.
func Sibling(s *session.Session) (*session.Session, error) { return behind().Sibling(s) }

// Over reports whether a request failed because its session is over.
func Over(err error) bool {
	return errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrClosed)
}

// IsAny reports whether err is one of the targets.
func IsAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}

// Without returns err, or nil if it is the expected one.
func Without(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// Closed reports whether a channel is closed that carries no values.
func Closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Of returns the session as a [Session].
func Of(s *session.Session) Session { return live{s} }

type live struct{ *session.Session }

func (l live) Async(epoch int) Async {
	a := l.Session.Async(epoch)
	return requests{&a}
}

func (l live) Age() time.Duration      { return behind().Age(l.Session) }
func (l live) Explain(err error) error { return behind().Explain(l.Session, err) }

func (l live) Fits(ops ...session.Op) error { return behind().Fits(l.Session, ops...) }
func (l live) Room(ops ...session.Op) int   { return behind().Room(l.Session, ops...) }

func (l live) Local(key any, create func() any) any { return behind().Local(l.Session, key, create) }
func (l live) Logger() *slog.Logger                 { return behind().Logger(l.Session) }
func (l live) Observer() session.Observer           { return behind().Observer(l.Session) }
func (l live) Rely() (release func())               { return behind().Rely(l.Session) }

func (l live) Sharing(epoch int) Async                     { return requests{behind().Sharing(l.Session, epoch)} }
func (live) After(d time.Duration, f func()) (stop func()) { return actors.After(d, f) }
func (live) Deadline(after time.Duration) time.Time        { return actors.Deadline(after) }

type requests struct{ *session.Async }

func (r requests) Follow(path string, aspect session.Aspect, lasting bool, tell func(session.Reading, error)) Subscription {
	return r.Async.Follow(path, aspect, lasting, tell)
}

func (r requests) FollowCreated(path string, data []byte, created, parent session.OpResult, tell func(session.Reading, error)) Subscription {
	return behind().FollowCreated(*r.Async, path, data, created, parent, tell)
}

func (r requests) FollowOnce(path string, tell func(session.Reading, error)) Subscription {
	return behind().FollowOnce(*r.Async, path, tell)
}

func (r requests) Share(ops []session.Op, answer func([]session.OpResult, error)) {
	behind().Share(*r.Async, ops, answer)
}

func (r requests) FollowTogether(path string, data []byte, parent session.OpResult, tell func(session.Reading, error), others []Other) (sub Subscription, all []Subscription) {
	own, subs := behind().FollowTogether(*r.Async, path, data, parent, tell, others)
	for _, sub := range subs {
		all = append(all, sub)
	}
	return own, all
}

func (r requests) Remove(what session.Removal, answer func(error)) (cancel func()) {
	return what.Begin(*r.Async, answer)
}

func (r requests) WithdrawAll(dir, prefix string, answer func()) {
	r.Remove(session.Removal{Path: dir, Prefix: prefix}, func(error) { answer() })
}

func (requests) After(d time.Duration, f func()) (stop func()) { return actors.After(d, f) }

// Log adds a record about a recipe to the log of the session, with the
// attributes that its other records have. It allocates nothing if the level is disabled.
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
