// Package client is the side of a session that recipes and watches see, and other users do not
// (docs/adr/0028). Performers use its interfaces, so that they run over a model of ZooKeeper too,
// in tests. File handle.go has the common parts of the handles of recipes and watches.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// A Session is a [session.Session], and the clock that goes with it.
type Session interface {
	Async(epoch int) Async

	// Sharing is Async for one caller, whose Share and Withdraw may share transactions with other
	// callers. The requests of one caller keep their order.
	Sharing(epoch int) Async
	Subscribe(tell func(session.Event) (settled <-chan struct{})) (cancel func())
	Local(key any, create func() any) any

	// Warm reports whether the session has seen that the node at path exists and carries no
	// data. SetWarm sets or clears the hint.
	Warm(path string) bool
	SetWarm(path string, warm bool)

	// WriteAt returns the version at which the caller writes to a warm node: it is the node's
	// version, unless another client has written since. If the session is not sure of the version,
	// the caller does not write. Wrote notes the version after the write. Saw notes the version of
	// a node that was seen to carry no data. The session is sure of it if the version is unchanged,
	// or if the node is new to the session and first is set.
	WriteAt(path string) (version int32, sure bool)
	Wrote(path string, version int32)
	Saw(path string, version int32, first bool)
	Fits(ops ...session.Op) error
	Room(ops ...session.Op) int

	// Rely adds n to the number of recipes that hold, or contend for, what excludes others.
	Rely(n int32)

	// Lease returns the number of the present lease, for Under. After a lapse, and in the next
	// epoch, it is another.
	Lease() int64

	// Hold adds n to the number of parties that hold what excludes others.
	Hold(n int32)
	Logger() *slog.Logger
	Observer() session.Observer
	Observed() bool
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
	Withdraw(path string, answer func(error))
	WithdrawAll(dir, prefix string, answer func(error))
	Remove(r session.Removal, answer func(error)) (cancel func())

	// Left notes that the caller has deleted a node of its recipe in a transaction, as Withdraw
	// does.
	Left(path string)

	// Roomy returns the same requests, whose replies may be larger than session.Options.MaxReply.
	Roomy() Async

	// Under returns the same requests, for a caller that rests on what it has read under that
	// lease: they fail with session.ErrLapsed, and are not sent, if the session has another when
	// they are made.
	Under(lease int64) Async
	Watch(path string, answer, changed func(data []byte, stat *session.Stat, err error)) (cancel func())
	Follow(path string, aspect session.Aspect, lasting bool, tell func(session.Reading, error)) Subscription
	FollowCreated(path string, data []byte, created, parent session.OpResult, tell func(session.Reading, error)) Subscription
	FollowOnce(path string, aspect session.Aspect, tell func(session.Reading, error)) Subscription
	FollowTogether(path string, data []byte, parent session.OpResult, tell func(session.Reading, error), others []Other) (sub Subscription, all []Subscription)

	// After is [actors.After].
	After(d time.Duration, f func()) (stop func())
}

// Other is a node of another client, which FollowTogether watches together with a created node.
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

// Settled reports whether a subscription goes on, and has reported all changes that the session has
// heard of. It may be called from any goroutine, with nil too.
func Settled(sub Subscription) bool { return sub != nil && !sub.Over() && !sub.Unsettled() }

// CheckContext refuses a nil context with [session.ErrInvalidArgument].
func CheckContext(ctx context.Context) error { return session.ForRecipes().CheckContext(ctx) }

// CheckPath reports why path cannot be the path of a recipe.
func CheckPath(s *session.Session, path string) error { return session.ForRecipes().CheckPath(s, path) }

// Sibling returns another session with the servers and options of s, which ends with s at the
// latest.
func Sibling(s *session.Session) (*session.Session, error) { return session.ForRecipes().Sibling(s) }

// Over reports whether a request failed because its session is over.
func Over(err error) bool {
	return errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrClosed)
}

// Both returns an error that says both, in one line; nil if both are nil.
func Both(a, b error) error {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return fmt.Errorf("%w; %w", a, b)
}

// IsAny reports whether err is one of the targets.
func IsAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}

// Doubted returns the error of a write of which an earlier attempt may have been done: it wraps
// [session.ErrUnknownOutcome], unless it is in doubt itself.
func Doubted(err error) error {
	if err == nil || session.InDoubt(err) {
		return err
	}
	return fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
}

// Without returns err, or nil if it is the expected one.
func Without(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// SameWrite reports whether two readings of a path have seen the same write of its data, or both no
// node. Zxids alone do not say so: servers that come back with older data use them again.
func SameWrite(a, b *session.Stat) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Mzxid == b.Mzxid && a.Czxid == b.Czxid && a.Ctime == b.Ctime && a.Mtime == b.Mtime &&
		a.Version == b.Version && a.EphemeralOwner == b.EphemeralOwner && a.DataLength == b.DataLength
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

func (l live) Age() time.Duration      { return session.ForRecipes().Age(l.Session) }
func (l live) Explain(err error) error { return session.ForRecipes().Explain(l.Session, err) }

func (l live) Fits(ops ...session.Op) error { return session.ForRecipes().Fits(l.Session, ops...) }
func (l live) Room(ops ...session.Op) int   { return session.ForRecipes().Room(l.Session, ops...) }

func (l live) Local(key any, create func() any) any {
	return session.ForRecipes().Local(l.Session, key, create)
}

func (l live) Logger() *slog.Logger       { return session.ForRecipes().Logger(l.Session) }
func (l live) Observer() session.Observer { return session.ForRecipes().Observer(l.Session) }
func (l live) Observed() bool             { return session.ForRecipes().Observed(l.Session) }
func (l live) Rely(n int32)               { session.ForRecipes().Rely(l.Session, n) }
func (l live) Lease() int64               { return session.ForRecipes().Lease(l.Session) }
func (l live) Hold(n int32)               { session.ForRecipes().Hold(l.Session, n) }

// A Holder says, of one party, whether it holds what excludes others. The zero Holder does not.
type Holder struct{ holds bool }

// Set is for one goroutine at a time.
func (h *Holder) Set(s Session, holds bool) {
	if h.holds == holds {
		return
	}
	if h.holds = holds; holds {
		s.Hold(1)
	} else {
		s.Hold(-1)
	}
}

// Subscribe is [session.Session.Subscribe] for a recipe, which may hold what excludes others.
func (l live) Subscribe(tell func(session.Event) (settled <-chan struct{})) (cancel func()) {
	return session.ForRecipes().Subscribe(l.Session, tell)
}

func (l live) Sharing(epoch int) Async {
	return requests{session.ForRecipes().Sharing(l.Session, epoch)}
}

func (live) After(d time.Duration, f func()) (stop func()) { return actors.After(d, f) }
func (live) Deadline(after time.Duration) time.Time        { return actors.Deadline(after) }

type requests struct{ *session.Async }

func (r requests) Follow(path string, aspect session.Aspect, lasting bool, tell func(session.Reading, error)) Subscription {
	return r.Async.Follow(path, aspect, lasting, tell)
}

func (r requests) FollowCreated(path string, data []byte, created, parent session.OpResult, tell func(session.Reading, error)) Subscription {
	return session.ForRecipes().FollowCreated(*r.Async, path, data, created, parent, tell)
}

func (r requests) Under(lease int64) Async {
	return requests{session.ForRecipes().Under(*r.Async, lease)}
}

func (r requests) Roomy() Async { return requests{session.ForRecipes().Roomy(*r.Async)} }

func (r requests) FollowOnce(path string, aspect session.Aspect, tell func(session.Reading, error)) Subscription {
	return session.ForRecipes().FollowOnce(*r.Async, path, aspect, tell)
}

func (r requests) Share(ops []session.Op, answer func([]session.OpResult, error)) {
	session.ForRecipes().Share(*r.Async, ops, answer)
}

func (r requests) FollowTogether(path string, data []byte, parent session.OpResult, tell func(session.Reading, error), others []Other) (sub Subscription, all []Subscription) {
	own, subs := session.ForRecipes().FollowTogether(*r.Async, path, data, parent, tell, others)
	for _, sub := range subs {
		all = append(all, sub)
	}
	return own, all
}

func (r requests) Remove(what session.Removal, answer func(error)) (cancel func()) {
	return session.ForRecipes().Remove(*r.Async, what, answer)
}

func (r requests) Withdraw(path string, answer func(error)) {
	session.ForRecipes().Withdraw(*r.Async, path, answer)
}

func (r requests) Left(path string) { session.ForRecipes().Left(*r.Async, path) }

func (r requests) WithdrawAll(dir, prefix string, answer func(error)) {
	r.Remove(session.Removal{Path: dir, Prefix: prefix}, answer)
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

// MakePersistent makes a persistent node, and containers above it, unless it exists. It answers
// whether this call has made it. It is for parents that are shared with kazoo, whose objects make
// their parent once, and fail when it is gone.
func MakePersistent(requests Async, node string, answer func(made bool, err error)) {
	requests.Create(node, nil, session.Persistent, func(_ string, err error) {
		switch {
		case errors.Is(err, session.ErrNoNode):
			requests.EnsurePath(path.Dir(node), func(_ bool, err error) {
				if err != nil {
					answer(false, err)
					return
				}
				MakePersistent(requests, node, answer)
			})
		case errors.Is(err, session.ErrNoAuth):
			// The server looks at the parent's ACL before it looks for the node.
			requests.Exists(node, func(stat *session.Stat, existsErr error) {
				if existsErr == nil && stat != nil {
					err = nil
				}
				answer(false, err)
			})
		default:
			answer(err == nil, Without(err, session.ErrNodeExists))
		}
	})
}

// MakeContainer makes a container.
func MakeContainer(requests Async, path, data string, answer func(error)) {
	requests.Create(path, []byte(data), session.Container, func(_ string, err error) { answer(err) })
}
