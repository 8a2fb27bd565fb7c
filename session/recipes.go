package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
)

// ForRecipes returns the methods that recipes need, and other users of a session do not. Package
// internal/client of this module declares them, and gives them to recipes (docs/adr/0028).
func ForRecipes() any { return forRecipes{} }

// forRecipes is the other side of a session.
type forRecipes struct{}

// Age returns how long ago the session was started, by a clock that never goes back: for
// recipes that report to the [Observer] how long something took.
func (forRecipes) Age(s *Session) time.Duration { return s.clock.now() }

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

// Explain adds to the error of a wait that ended with its context the last failure of each server, if the
// session is not connected. It is for recipes: the errors of requests say so themselves.
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

// FollowCreated is [Async.Follow] of the data of an ephemeral node, which Share has just created
// with the data and the ACL of the session. The results are those of the creation and of
// a write to the parent in the same transaction.
func (forRecipes) FollowCreated(a Async, path string, data []byte, created, parent OpResult, tell func(Reading, error)) *Subscription {
	s := a.session
	if created.company < 2 || parent.Stat == nil || !s.readsOwn() {
		return a.Follow(path, AspectData, false, tell)
	}
	return a.follow(path, AspectData, &Subscription{tell: tell}, Reading{Data: data, Stat: statCreated(data, parent)})
}

// FollowOnce is [Async.Follow] of the data of a node until it changes: then it ends, with a Reading without
// a Stat and no error, and the node is not read again. A deletion is told as by Follow.
func (forRecipes) FollowOnce(a Async, path string, tell func(Reading, error)) *Subscription {
	return a.follow(path, AspectData, &Subscription{tell: tell, once: true}, Reading{})
}

// other is a node that is watched together with one that was created. The type has no name, so that
// internal/client can write it too.
type other = struct {
	Path string
	Tell func(Reading, error)
}

// FollowTogether is FollowCreated, and watches nodes of others with the same request, which does not
// read them: what is told of each first has a Stat without values. From then on, changes since the creation
// included, it is told of like one that [Async.Follow] follows. The server does not say whether it may be read:
// if not, it sends no event. Only a caller that need not hear of the change may follow a node so.
func (forRecipes) FollowTogether(a Async, path string, data []byte, parent OpResult, tell func(Reading, error), others []other) (sub *Subscription, all []*Subscription) {
	s := a.session
	if parent.Stat == nil || !s.readsOwn() {
		for _, o := range others {
			all = append(all, a.Follow(o.Path, AspectData, false, o.Tell))
		}
		return a.Follow(path, AspectData, false, tell), all
	}
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	epoch, over := a.present()
	var entries []*watchEntry
	size := 0
	follow := func(path string, tell func(Reading, error), known Reading) *Subscription {
		sub := &Subscription{tell: tell}
		full, err := s.target(path)
		if err == nil {
			err = over
		}
		if err != nil {
			s.deny(sub, path, err)
			return sub
		}
		if size += 4 + len(full); size > maxWatches {
			known = Reading{} // it is read
		}
		if e := s.follow(epoch, watchKey{full, watchData}, sub, known); e != nil {
			entries = append(entries, e)
		}
		return sub
	}
	sub = follow(path, tell, Reading{Data: data, Stat: statCreated(data, parent)})
	for _, o := range others {
		all = append(all, follow(o.Path, o.Tell, Reading{Stat: unread}))
	}
	if len(entries) > 0 {
		s.sendPlanting(entries, parent.Stat.Mzxid, false)
	}
	return sub, all
}

// Local returns what a recipe keeps for the whole session under the key: what create
// returned when it was first asked for. The type of the key belongs to the recipe alone.
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

// Rely has the session's lease rest on what a quorum of the servers has committed, until
// release is called: for recipes, as long as they hold, or contend for, what excludes
// others. It is to be called before the request that begins that is made. See the
// package comment for what it costs.
func (forRecipes) Rely(s *Session) (release func()) {
	s.addRelied(1)
	var released atomic.Bool
	return func() {
		if released.CompareAndSwap(false, true) {
			s.addRelied(-1)
		}
	}
}

// Share is [Async.Multi], for operations that may be done in one transaction with those of
// other callers: in the order in which they wait, and with one zxid. Two callers
// that create nodes under one parent never share a transaction. It serves many callers with few
// transactions. If the requests are not those of Sharing, or of no certain epoch, it is Multi.
func (forRecipes) Share(a Async, ops []Op, answer func([]OpResult, error)) {
	a.multi(ops, a.mayShare(), answer)
}

// Sharing returns the requests of one caller in the epoch. Its Share and its [Async.Withdraw] may
// share transactions with those of others, and it has at most one such write without an answer.
// Its requests go out in the order in which they are made, but for what [Async.Follow] and
// [Async.Watch] read: that does not wait for a write.
func (forRecipes) Sharing(s *Session, epoch int) *Async {
	both := &struct {
		Async
		lane lane
	}{Async: s.Async(epoch)}
	both.Async.lane = &both.lane
	return &both.Async
}

// Sibling returns another session with the same servers and options, at once: it is
// not established yet, and what is asked of it waits for that. It has an id and an end
// of its own, and is closed with this one at the latest. The [Observer] is told of its
// requests, not of its state.
//
// It is for what would burden this one: a reconnect takes as long as it takes to set
// all watches of a session again.
func (forRecipes) Sibling(s *Session) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closing:
		return nil, fmt.Errorf("open session: %w", ErrClosed)
	default:
	}
	o := s.opts
	o.Observer = requestObserver{Observer: o.Observer}
	o.Resolve = nil // this session tells its siblings
	sibling := newSession(s.servers.All(), o)
	sibling.parent = s
	if s.beside == nil {
		s.beside = make(map[*Session]struct{})
	}
	s.beside[sibling] = struct{}{}
	go sibling.loop()
	return sibling, nil
}
