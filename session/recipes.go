package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/zkactors/zkactors/session/internal/conn"
	"github.com/zkactors/zkactors/session/internal/watches"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// ForRecipes returns the methods that recipes need, and other users of a session do not. Package
// internal/client of this module calls them for recipes (docs/adr/0028).
//
//nolint:revive // the documentation of users must not have the type: its methods are not for them
func ForRecipes() forRecipes { return forRecipes{} }

// forRecipes is the other side of a session: the one declaration of each method that only recipes
// call.
type forRecipes struct{}

// Age returns how long ago the session was started, by a clock that never goes back: for
// recipes that report to the [Observer] how long something took.
func (forRecipes) Age(s *Session) time.Duration { return s.conn.Clock.Now() }

// CheckContext refuses a nil context with [ErrInvalidArgument].
func (forRecipes) CheckContext(ctx context.Context) error { return checkContext(ctx) }

// longestRecipePath leaves room for names, data and ACLs in every request of a recipe.
const longestRecipePath = 32 << 10

// CheckPath reports why path cannot be the path of a recipe, wrapping [ErrInvalidPath]. It
// refuses more than [ValidatePath]: paths of more than 32 KiB, and ZooKeeper's own nodes,
// which are /zookeeper and all below it on the server. It does no I/O.
func (forRecipes) CheckPath(s *Session, path string) error {
	if err := ValidatePath(path); err != nil {
		return err
	}
	full := s.absolute(path)
	switch {
	case len(full) > longestRecipePath:
		return fmt.Errorf("%w %q: it has %d bytes, the limit is %d", ErrInvalidPath, abbreviated(path), len(full), longestRecipePath)
	case full == "/zookeeper" || strings.HasPrefix(full, "/zookeeper/"):
		return fmt.Errorf("%w %q: /zookeeper belongs to the servers", ErrInvalidPath, path)
	}
	return nil
}

// Explain adds to the error of a wait that ended with its context the last failure of each server,
// if the session is not connected. It is for recipes: the errors of requests say so themselves.
func (forRecipes) Explain(s *Session, err error) error {
	var request *OpError
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) || errors.As(err, &request) {
		return err
	}
	return s.waitedInVain(err)
}

// Fits reports why a transaction of these operations cannot be sent.
func (forRecipes) Fits(s *Session, ops ...Op) error {
	if s.multiSize(ops) <= s.opts.MaxRequest {
		return nil
	}
	return s.fits(len(s.appendMulti(nil, ops)) - 4)
}

// Room returns how many bytes more the transaction of the operations may have, at least.
func (forRecipes) Room(s *Session, ops ...Op) int { return s.opts.MaxRequest - s.multiSize(ops) }

// FollowCreated is [Async.Follow] of the data of an ephemeral node that Share has just created,
// with this data and the ACL of the session. The results are those of the creation, and of a write
// to the parent in the same transaction.
func (forRecipes) FollowCreated(a Async, path string, data []byte, created, parent OpResult, tell func(Reading, error)) *Subscription {
	s := a.session
	if created.company < 2 || parent.Stat == nil || !s.readsOwn() {
		return a.Follow(path, AspectData, false, tell)
	}
	return a.follow(path, AspectData, newSubscription(tell), createdWith(data, parent))
}

// createdWith returns the known reading of an ephemeral node that was created in one transaction
// with a write to the parent. Its owner is not set.
func createdWith(data []byte, parent OpResult) watches.Reading {
	zxid, when := parent.Stat.Mzxid, parent.Stat.Mtime
	stat := &wire.Stat{Czxid: zxid, Mzxid: zxid, Pzxid: zxid, Ctime: when, Mtime: when, DataLength: int32(len(data))}
	return watches.Reading{Data: data, Stat: stat}
}

// readsOwn reports whether the session may certainly read what it creates.
func (s *Session) readsOwn() bool {
	return !slices.ContainsFunc(s.acl, func(a wire.ACL) bool {
		return a.Perms&int32(PermRead) == 0 || a.Scheme != "world" && a.Scheme != "auth"
	})
}

// Roomy returns the same requests, whose replies may have up to 64 MiB, whatever Options.MaxReply
// is: for lists that a recipe cannot do without.
func (forRecipes) Roomy(a Async) *Async { a.roomy = true; return &a }

// Lease returns the number of the present lease, for Under. After a lapse, and in the next epoch,
// it is another.
func (forRecipes) Lease(s *Session) int64 {
	if e := s.newestEpoch(); e != nil {
		return e.Lease()
	}
	return 0 // the session is closed
}

// Under returns the same requests, which fail with [ErrLapsed] and are not sent if the lease was
// another when they were made: they rest on what was read under that lease, and other data may have
// come in its place.
func (forRecipes) Under(a Async, lease int64) *Async { a.lease = lease; return &a }

// FollowOnce is [Async.Follow] of a node until it changes: then it ends, with a Reading without a
// Stat and no error, and the node is not read again. A deletion is reported as by Follow.
func (forRecipes) FollowOnce(a Async, path string, aspect Aspect, tell func(Reading, error)) *Subscription {
	sub := newSubscription(tell)
	sub.watched.Once = true
	return a.follow(path, aspect, sub, watches.Reading{})
}

// other is a node that is watched together with one that was created. The type has no name, so that
// internal/client can write it too.
type other = struct {
	Path string
	Tell func(Reading, error)
}

// FollowTogether is FollowCreated, and watches nodes of other clients with the same request. It
// does not read them: the first reading of each has a Stat without values. From then on the node is
// followed as by [Async.Follow], and changes since the creation are reported. The server does not
// say whether the session may read the node: if not, it sends no event. Only a caller that need not
// learn of the change may follow a node so.
func (forRecipes) FollowTogether(a Async, path string, data []byte, parent OpResult, tell func(Reading, error), others []other) (sub *Subscription, all []*Subscription) {
	s := a.session
	if parent.Stat == nil || !s.readsOwn() {
		for _, o := range others {
			all = append(all, a.Follow(o.Path, AspectData, false, o.Tell))
		}
		return a.Follow(path, AspectData, false, tell), all
	}
	watchers := make([]watches.Watcher, 0, 1+len(others))
	follow := func(path string, tell func(Reading, error), known watches.Reading) *Subscription {
		sub := newSubscription(tell)
		if full, err := s.target(path); err != nil {
			s.deny(sub, path, err)
		} else {
			watchers = append(watchers, watches.Watcher{Key: watches.Key{Path: full, Kind: watches.Data}, Sub: &sub.watched, Known: known})
		}
		return sub
	}
	sub = follow(path, tell, createdWith(data, parent))
	for _, o := range others {
		all = append(all, follow(o.Path, o.Tell, watches.Unread()))
	}
	if err := s.watches.FollowTogether(a.watcher, parent.Stat.Mzxid, watchers); err != nil {
		for _, w := range watchers {
			s.conn.Order.Put(func() { w.Sub.End(watches.Reading{}, s.unwatchable(w.Key.Path, err)) })
		}
	}
	return sub, all
}

// Remove is [Removal.Begin]. Where the session replaces containers by persistent nodes, the session
// then deletes the parent of the recipe when it is empty: the path itself if children of it were
// removed.
func (forRecipes) Remove(a Async, r Removal, answer func(error)) (cancel func()) {
	if a.session.replacesContainers() {
		answered := answer
		answer = func(err error) {
			if err == nil {
				a.session.noteLeaving(r.Path, r.Prefix != "")
			}
			answered(err)
		}
	}
	return r.Begin(a, answer)
}

// Withdraw is [Async.Withdraw]. Where the session replaces containers by persistent nodes, the
// session then deletes the parent of the node when it is empty.
func (forRecipes) Withdraw(a Async, path string, answer func(error)) {
	if a.session.replacesContainers() {
		answered := answer
		answer = func(err error) {
			a.session.noteLeaving(path, false)
			answered(err)
		}
	}
	a.Withdraw(path, answer)
}

// Left notes that a recipe has deleted a node of its own in a transaction. Where the session
// replaces containers by persistent nodes, it then deletes the parent when it is empty.
func (forRecipes) Left(a Async, path string) {
	if a.session.replacesContainers() {
		a.session.noteLeaving(path, false)
	}
}

// Local returns the value that a recipe keeps for the whole session under the key. The first call
// with the key takes the value from create. The type of the key belongs to the recipe alone.
func (forRecipes) Local(s *Session, key any, create func() any) any {
	s.localMu.Lock()
	defer s.localMu.Unlock()
	v, ok := s.locals[key]
	if !ok {
		v = create()
		if s.locals == nil {
			s.locals = make(map[any]any)
		}
		s.locals[key] = v
	}
	return v
}

// Logger returns the logger of the session's options. Its records carry the name and the id of
// the session.
func (forRecipes) Logger(s *Session) *slog.Logger { return s.opts.Logger }

// Observer returns the receiver of the reports of recipes: the [Observer] and the log of the
// session's options.
func (forRecipes) Observer(s *Session) Observer { return s.observer() }

// Observed reports whether the session's options have an [Observer]. A recipe need not prepare
// reports that are not logged if they have none.
func (forRecipes) Observed(s *Session) bool {
	_, none := s.opts.Observer.(NopObserver)
	return !none
}

// Rely adds n to the number of recipes that hold, or contend for, an exclusive grant. While there
// is one, the session's lease rests on transactions that a quorum of the servers has committed. A
// recipe calls it before the first request for the grant. See the package comment for its cost.
func (forRecipes) Rely(s *Session, n int32) { s.count(true, n) }

// Hold adds n to the number of parties that hold what excludes others. While there is one, a
// [Lapsed] concerns the users of the session.
func (forRecipes) Hold(s *Session, n int32) { s.count(false, n) }

// Subscribe is [Session.Subscribe] for a recipe. It receives a [Lapsed] in any case: when the
// servers were out of reach for so long, a grant that is on its way to the recipe is none, and a
// party that waits for its own end waits no longer.
func (forRecipes) Subscribe(s *Session, tell func(Event) (settled <-chan struct{})) (cancel func()) {
	sub := &subscriber{session: s, tell: tell, recipe: true}
	sub.begin()
	return sub.cancel
}

// Share is [Async.Multi], for operations that may be done in one transaction with those of other
// callers: in the order in which they wait, and with one zxid. Two callers that create nodes under
// one parent never share a transaction. It serves many callers with few transactions. It is Multi
// if the requests are not from Sharing, or are for epoch 0.
func (forRecipes) Share(a Async, ops []Op, answer func([]OpResult, error)) {
	a.multi(ops, a.mayShare(), answer)
}

// Sharing returns the requests of one caller in the epoch. Its Share and its [Async.Withdraw] may
// share transactions with those of others, and it has at most one such write without an answer. Its
// requests go out in the order in which they are made, except the reads of [Async.Follow] and
// [Async.Watch]: they do not wait for a write.
func (forRecipes) Sharing(s *Session, epoch int) *Async {
	both := &struct {
		Async
		lane conn.Lane
	}{Async: s.Async(epoch)}
	both.Async.lane = &both.lane
	return &both.Async
}

// Sibling returns another session with the same servers and options, at once: it is not established
// yet, and its requests wait until it is. It has an id and an end of its own, and is closed with
// this session at the latest. The [Observer] receives its requests, not its events.
//
// It is for many watches that would burden this session: a reconnect takes as long as it takes to
// set all watches of a session again.
func (forRecipes) Sibling(s *Session) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.conn.Workers.Closing:
		return nil, fmt.Errorf("open session: %w", ErrClosed)
	default:
	}
	o := s.opts
	o.Observer = requestObserver{Observer: o.Observer}
	o.Resolve = nil // this session passes its list to its siblings
	sibling := newSession(s.conn.Servers.All(), o)
	sibling.parent = s
	if s.beside == nil {
		s.beside = make(map[*Session]struct{})
	}
	s.beside[sibling] = struct{}{}
	go sibling.loop()
	return sibling, nil
}
