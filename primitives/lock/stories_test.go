package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// A story happens on real servers and on the server in memory alike.
type story struct {
	name string
	play func(t *testing.T, c *kit.Stage)
}

func stories() []story {
	all := []story{
		{"foreign children", foreignChildren},
		{"bad input", badInput},
		{"context", contexts},
		{"do", do},
		{"try", try},
		{"guard", guard},
		{"contenders", contenders},
		{"background", background},
		{"ends", ends},
		{"holder's node deleted", holderDeleted},
		{"waiter's node deleted", waiterDeleted},
		{"expired", expired},
		{"parent reaped, cold exists", parentReaped(false, zktest.OpExists)},
		{"parent reaped, cold multi", parentReaped(false, zktest.OpMulti)},
		{"parent reaped, warm multi", parentReaped(true, zktest.OpMulti)},
	}
	for _, c := range faultCases() {
		all = append(all, story{"faults, " + c.name, c.faults})
		seen := make(zktest.Counts)
		for i, op := range c.steps[:len(c.steps)-1] {
			all = append(all, story{fmt.Sprintf("parent deleted, %s %d %v", c.name, i, op), c.parentDeleted(op, seen[op])})
			seen[op]++
		}
	}
	return all
}

func TestStoriesInMemory(t *testing.T) {
	t.Parallel()
	for _, story := range stories() {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			kit.InBubble(t, 0, story.play)
		})
	}
}

func TestRealStories(t *testing.T) {
	t.Parallel()
	ens := zktest.SharedEnsemble(t, 3)
	for _, story := range stories() {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			story.play(t, kit.OnEnsemble(t, ens))
		})
	}
}

// A case of the table of faults.
type faultCase struct {
	name string
	// steps are the requests of an acquire-and-release, but for syncs.
	steps   []zktest.Op
	waiter  bool
	prepare func(t *testing.T, s, other *session.Session, path string)
}

func faultCases() []faultCase {
	cold := func(*testing.T, *session.Session, *session.Session, string) {}
	foreign := func(t *testing.T, _, other *session.Session, path string) {
		dir, _ := znode.Split(path)
		kit.Ensure(t, other, dir, nil)
		kit.Ensure(t, other, path, []byte("somebody else's"))
	}
	warm := func(t *testing.T, s, _ *session.Session, path string) {
		dir, _ := znode.Split(path)
		kit.Ensure(t, s, dir, nil)
		kit.Ensure(t, s, path, nil)
		client.Of(s).Saw(path, 0, true)
	}
	const (
		exists, container, multi, create = zktest.OpExists, zktest.OpCreateContainer, zktest.OpMulti, zktest.OpCreate
		get, list, remove                = zktest.OpGetData, zktest.OpGetChildren2, zktest.OpDelete
	)
	return []faultCase{
		{"cold", []zktest.Op{exists, container, container, container, multi, get, remove}, false, cold},
		{"warm", []zktest.Op{multi, get, remove}, false, warm},
		{"foreign", []zktest.Op{exists, get, create, get, list, remove}, false, foreign},
		{"cold waiter", []zktest.Op{exists, multi, get, list, get, remove}, true, cold},
		{"warm waiter", []zktest.Op{multi, create, get, list, get, remove}, true, warm},
		{"foreign waiter", []zktest.Op{exists, get, create, get, list, get, remove}, true, foreign},
	}
}

// begin makes what is there before, and returns who holds the lock already.
func (test faultCase) begin(t *testing.T, s, other *session.Session, path string) (holder *lock.Lock) {
	t.Helper()
	test.prepare(t, s, other, path)
	if test.waiter {
		holder = acquire(t, other, path)
	}
	if err := s.Sync(check.Patient(t), path); err != nil { // its server may be behind
		t.Fatal(err)
	}
	return holder
}

// A faultKind is what can happen to one request.
type faultKind struct {
	name    string
	plan    func(c *kit.Stage, m zktest.Match)
	cuts    bool // the connection is cut when the request is on its way
	cancels bool // the caller's context ends then
}

func faultKinds() []faultKind {
	delay := func(c *kit.Stage, m zktest.Match) { c.Delay(m, 30*time.Millisecond) }
	return []faultKind{
		{"reply lost", func(c *kit.Stage, m zktest.Match) { c.DropReply(m) }, false, false},
		{"request lost", func(c *kit.Stage, m zktest.Match) { c.DropRequest(m) }, false, false},
		{"cut", delay, true, false},
		{"cancelled", delay, false, true},
		{"cut and cancelled", delay, true, true},
		{"reply lost and cancelled", func(c *kit.Stage, m zktest.Match) { c.DropReply(m) }, false, true},
	}
}

// Whatever happens to whatever request of an acquire-and-release, there is no node of
// it afterwards, in the same session; and if no caller gave up, it succeeded.
func (test faultCase) faults(t *testing.T, c *kit.Stage) {
	s, other := c.Open(t), c.OpenDirect(t)
	id := s.ID()
	var paths []string
	prepare := func(name string) (path string, holder *lock.Lock) {
		path = fmt.Sprintf("/%x-%s/lock", id, strings.ReplaceAll(name, " ", "-"))
		paths = append(paths, path)
		return path, test.begin(t, s, other, path)
	}

	path, holder := prepare("clean")
	before := c.RequestsOf(id)
	l := join(t, s, path, nil)
	if holder != nil {
		kit.Await[lock.Waiting](t, l.Events())
		// Until it has told that, it may have the answer of the list only.
		check.Must(t, s.Sync(check.Patient(t), path))
		release(t, holder)
	}
	kit.Await[lock.Acquired](t, l.Events())
	release(t, l)
	after := c.RequestsOf(id)
	for op, n := range before {
		if after[op] -= n; after[op] == 0 {
			delete(after, op)
		}
	}
	want := count(test.steps)
	check.EqualMaps(t, after, want, "requests")

	chosen := hasten.OneIn(2, 5)
	for _, kind := range faultKinds() {
		seen := make(zktest.Counts)
		for i, op := range test.steps {
			if seen[op]++; !chosen() {
				continue
			}
			name := fmt.Sprintf("%s %d %v", kind.name, i, op)
			path, holder := prepare(name)
			kind.plan(c, zktest.Match{Op: op, Session: id, Skip: seen[op] - 1})
			check.OK(t, fault(t, c, s, other, path, holder, op == zktest.OpDelete, kind), name)
		}
	}
	for _, path := range paths {
		check.Len(t, kit.Children(t, other, path), 0, path)
	}
	check.Equal(t, s.ID(), id, "the session has not survived")
}

// fault acquires and releases a lock while a fault is under way.
func fault(t *testing.T, c *kit.Stage, s, other *session.Session, path string, holder *lock.Lock, atRelease bool, kind faultKind) error {
	strike := func(cancel func()) error {
		if err := c.AwaitFault(check.Patience); err != nil {
			return err
		}
		if kind.cuts {
			c.Disconnect(s.ID())
		}
		if kind.cancels {
			cancel()
		}
		return nil
	}
	type result struct {
		l   *lock.Lock
		err error
	}
	acquired := make(chan result, 1)
	ctx, cancel := context.WithCancel(check.Patient(t))
	defer cancel()
	go func() {
		l, err := lock.Acquire(ctx, s, path, nil)
		acquired <- result{l, err}
	}()
	if !atRelease {
		if err := strike(cancel); err != nil {
			return err
		}
	} else if holder != nil {
		awaitLine(t, other, path, 2)
	}
	var got result
	if holder != nil {
		if !atRelease && kind.cancels {
			got = <-acquired // while it waits
			acquired <- got
		}
		release(t, holder)
	}
	got = <-acquired
	switch {
	case got.err == nil:
		defer got.l.Close()
		released := make(chan error, 1)
		ctx, cancel := context.WithCancel(check.Patient(t))
		defer cancel()
		go func() { released <- got.l.Release(ctx) }()
		if atRelease {
			if err := strike(cancel); err != nil {
				return err
			}
		}
		if err := <-released; err != nil && (!kind.cancels || !errors.Is(err, context.Canceled)) {
			return fmt.Errorf("released: %w", err)
		}
	case !kind.cancels || atRelease || !errors.Is(got.err, context.Canceled):
		return fmt.Errorf("acquired: %w", got.err)
	}
	// What was held back has come through when this is answered.
	if err := s.Sync(check.Patient(t), path); err != nil {
		return err
	}
	awaitEmpty(t, other, path)
	return nil
}

// hold keeps the next request that matches from reaching the server while meanwhile
// happens.
func hold(t *testing.T, c *kit.Stage, m zktest.Match, begin, meanwhile func()) {
	t.Helper()
	c.Delay(m, time.Second)
	begin()
	check.Must(t, c.AwaitFault(check.Patience))
	c.Freeze(m.Session, zktest.ToServer)
	meanwhile()
	c.Thaw(m.Session)
}

// An operator deletes the parent with all that is in it, between any two requests of an
// acquire.
func (test faultCase) parentDeleted(op zktest.Op, skip int) func(t *testing.T, c *kit.Stage) {
	return func(t *testing.T, c *kit.Stage) {
		s, other, path := scene(t, c, "/lock")
		var l *lock.Lock
		holder := test.begin(t, s, other, path)
		hold(t, c, zktest.Match{Op: op, Session: s.ID(), Skip: skip},
			func() { l = join(t, s, path, nil) },
			func() {
				kit.RemoveAll(t, other, path)
				if holder != nil {
					<-holder.Done()
					check.Is(t, holder.Err(), lock.ErrNodeDeleted)
				}
			})
		got := kit.Await[lock.Acquired](t, l.Events())
		check.True(t, l.Token() == got.Token && got.Token != 0, "token %d, event %v", l.Token(), got)
		if holder != nil {
			check.True(t, got.Token > holder.Token(), "token %d after %d", got.Token, holder.Token())
		}
		next := lockAgain(t, other, path, l)
		check.True(t, next > got.Token, "token %d after %d", next, got.Token)
	}
}

// lockAgain gets the lock after l, which may have been lost, and returns the token.
func lockAgain(t *testing.T, s *session.Session, path string, l *lock.Lock) int64 {
	t.Helper()
	err := l.Release(check.Patient(t))
	check.False(t, err != nil && !errors.Is(err, lock.ErrNodeDeleted), "%v", err)
	next := acquire(t, s, path)
	defer release(t, next)
	return next.Token()
}

// The server reaps the parent as an empty container, at any point of an acquire at which
// it is empty.
func parentReaped(warm bool, op zktest.Op) func(t *testing.T, c *kit.Stage) {
	return func(t *testing.T, c *kit.Stage) {
		s, other, path := scene(t, c, "-reaped")
		former := acquire(t, other, path) // until it leaves, the server reaps nothing
		if warm {
			client.Of(s).Saw(path, check.Have(s.Exists(t.Context(), path))(t).Version, true)
		}
		var l *lock.Lock
		hold(t, c, zktest.Match{Op: op, Session: s.ID()},
			func() { l = join(t, s, path, nil) },
			func() {
				release(t, former)
				check.OK(t, watch.UntilGone(check.Patient(t), other, path))
			})
		got := kit.Await[lock.Acquired](t, l.Events())
		check.True(t, got.Token > former.Token(), "token %d after %d", got.Token, former.Token())
		release(t, l)
	}
}

// Children that are no contenders change nothing.
func foreignChildren(t *testing.T, c *kit.Stage) {
	ctx := check.Patient(t)
	a, b := c.Open(t), c.OpenDirect(t)
	path := fmt.Sprintf("/%x-foreign", a.ID())
	kit.Ensure(t, a, path, nil)
	names := []string{
		"config", "_c_", "_c_x", "lock-x", "nested", "ключ", "鎖-lock-", "lock-00000000011", "block-0000000000",
		"_c_00000000-0000-4000-8000-000000000000-reader-0000000000",
	}
	for _, name := range names {
		kit.Ensure(t, a, znode.Join(path, name), []byte("somebody's"))
	}
	kit.Ensure(t, a, path+"/nested/lock-0000000000", nil)
	kit.Ensure(t, a, path+"/nested/deeper", nil)
	names = kit.Children(t, a, path)

	last := int64(0)
	for range 3 {
		first := acquire(t, a, path)
		second := join(t, b, path, nil)
		check.Equal(t, kit.Await[lock.Waiting](t, second.Events()).Ahead, 1)
		third := join(t, a, path, nil)
		check.Equal(t, kit.Await[lock.Waiting](t, third.Events()).Ahead, 2)
		check.Fails(lock.TryAcquire(ctx, b, path, nil))(t, lock.ErrHeld) // try
		line := awaitLine(t, b, path, 3)
		check.True(t, line[0].Node == first.Node() && line[0].Holding && line[1].Session == b.ID(), "line: %+v", line)
		for _, l := range []*lock.Lock{first, second, third} {
			kit.Await[lock.Acquired](t, l.Events())
			check.True(t, l.Token() > last, "token %d after %d", l.Token(), last)
			last = l.Token()
			release(t, l)
		}
		free := check.Have(lock.TryAcquire(ctx, b, path, nil))(t)
		last = free.Token()
		free.Close()
	}
	check.EqualSlices(t, kit.Children(t, b, path), names, "there were")
}

// expired: a session that the server has ended.
func expired(t *testing.T, c *kit.Stage) {
	s, other, path := scene(t, c, "-expired")
	holder := acquire(t, s, path)
	work, cancel := holder.Context(t.Context())
	defer cancel()
	events := make(chan []lock.Event, 1)
	go func() {
		var all []lock.Event
		for ev := range holder.Events() {
			all = append(all, ev)
		}
		events <- all
	}()
	var waiters []*lock.Lock
	for range 3 {
		l := join(t, s, path, nil)
		kit.Await[lock.Waiting](t, l.Events())
		waiters = append(waiters, l)
	}
	stranger := join(t, other, path, nil)
	check.Equal(t, kit.Await[lock.Waiting](t, stranger.Events()).Ahead, 4)
	old := s.ID()
	c.Expire(old)

	token := holder.Token()
	all := <-events
	// The server may hang up more than once before it says why.
	for i, ev := range all {
		var ok bool
		switch {
		case i == 0:
			acquired, is := ev.(lock.Acquired)
			ok = is && strings.HasSuffix(holder.Node(), "/"+acquired.Node)
		case i == len(all)-1:
			ok = isLost(ev)
		case i%2 == 1:
			suspended, is := ev.(lock.Suspended)
			ok = is && !suspended.Deadline.IsZero()
		default:
			_, ok = ev.(lock.Resumed)
		}
		check.True(t, ok, "event %d of %v", i, all)
	}
	// It may see its node go before it sees why.
	err := holder.Err()
	if !errors.Is(err, lock.ErrLost) || !errors.Is(err, session.ErrExpired) && !errors.Is(err, lock.ErrNodeDeleted) || !strings.Contains(err.Error(), path) {
		t.Errorf("the holder is told %v", err)
	}
	check.Is(t, context.Cause(work), lock.ErrLost)
	check.Is(t, holder.Release(check.Patient(t)), lock.ErrLost)

	// The stranger is the first now, and the waiters stand behind it, each once.
	kit.Await[lock.Acquired](t, stranger.Events())
	line := awaitLine(t, other, path, 4)
	check.True(t, line[0].Session == other.ID() && s.ID() != old, "line: %+v", line)
	for _, contender := range line[1:] {
		check.Equal(t, contender.Session, s.ID(), "the session that is first in", line)
	}
	check.True(t, stranger.Token() > token, "token %d after %d", stranger.Token(), token)
	token = stranger.Token()
	release(t, stranger)
	granted := grants(waiters)
	releaseInTurn(t, token, line[1:], granted)
	awaitEmpty(t, other, path)
}

func isLost(ev lock.Event) bool {
	_, lost := ev.(lock.Lost)
	return lost
}

// grants yields locks when they are acquired.
func grants(locks []*lock.Lock) <-chan *lock.Lock {
	granted := make(chan *lock.Lock, len(locks))
	for _, l := range locks {
		go func() {
			for ev := range l.Events() { // until it is closed
				if _, ok := ev.(lock.Acquired); ok {
					granted <- l
				}
			}
		}()
	}
	return granted
}

// Bad input is refused before anything is sent, and does no harm.
func badInput(t *testing.T, c *kit.Stage) {
	ctx := check.Patient(t)
	s := c.Open(t)
	held := acquire(t, s, "/bad-input")
	if err := s.Sync(ctx, "/"); err != nil { // so that the lock is at rest
		t.Fatal(err)
	}
	closed := c.OpenDirect(t)
	closed.Close()
	large := &lock.Options{Data: make([]byte, 1100<<10)}
	const good = "/bad-input/good"

	c.ResetRequests()
	for _, test := range []struct {
		name string
		s    *session.Session
		path string
		opts *lock.Options
		is   error
		says string // the argument
	}{
		{"nil session", nil, good, nil, session.ErrInvalidArgument, "session"},
		{"closed session", closed, good, nil, session.ErrClosed, "session"},
		{"empty", s, "", nil, session.ErrInvalidPath, "path"},
		{"relative", s, "a", nil, session.ErrInvalidPath, "path"},
		{"slash at the end", s, "/a/", nil, session.ErrInvalidPath, "path"},
		{"two slashes", s, "/a//b", nil, session.ErrInvalidPath, "path"},
		{"dots", s, "/a/../b", nil, session.ErrInvalidPath, "path"},
		{"NUL", s, "/a\x00b", nil, session.ErrInvalidPath, "path"},
		{"large", s, good, large, session.ErrTooLarge, "Options.Data"},
		{"two at once", s, "a", large, session.ErrInvalidPath, "Options.Data"},
	} {
		l, newErr := lock.New(test.s, test.path, test.opts)
		a, acquireErr := lock.Acquire(ctx, test.s, test.path, test.opts)
		f, tryErr := lock.TryAcquire(ctx, test.s, test.path, test.opts)
		cs, contendersErr := lock.Contenders(ctx, test.s, test.path, test.opts)
		doErr := lock.Do(ctx, test.s, test.path, test.opts, func(context.Context, int64) error {
			t.Errorf("%s: done", test.name)
			return nil
		})
		for call, err := range map[string]error{
			"New": newErr, "Acquire": acquireErr, "TryAcquire": tryErr, "Do": doErr, "Contenders": contendersErr,
		} {
			check.True(t, errors.Is(err, test.is) && strings.Contains(err.Error(), "lock") && strings.Contains(err.Error(), test.says), "%s: %s: %v", test.name, call, err)
		}
		check.True(t, l == nil && a == nil && f == nil && cs == nil, "%s: there is something", test.name)
	}
	check.Equal(t, c.RequestsOf(s.ID()).Total(), 0, "requests were sent")
	check.OK(t, lock.Do(ctx, s, good, nil, func(context.Context, int64) error { return nil })) // the session has not suffered
	check.True(t, held.Err() == nil, "the lock has suffered: %v", held.Err())
}

// contexts: when those of a lock end, and why.
func contexts(t *testing.T, c *kit.Stage) {
	s := c.Open(t)
	path := fmt.Sprintf("/%x-contexts", s.ID())
	l := acquire(t, s, path)
	type key struct{}
	why := errors.New("because")
	parent, end := context.WithCancelCause(context.WithValue(t.Context(), key{}, 1))
	ofParent, cancel := l.Context(parent)
	defer cancel()
	cancelled, cancel := l.Context(t.Context())
	released, cancelReleased := l.Context(t.Context())
	defer cancelReleased()
	check.True(t, ofParent.Err() == nil && ofParent.Value(key{}) == 1, "the context is not its parent's child")
	cancel()
	end(why)
	if context.Cause(cancelled) != context.Canceled || context.Cause(ofParent) != why || released.Err() != nil { //nolint:errorlint // themselves
		t.Errorf("causes: %v, %v, %v", context.Cause(cancelled), context.Cause(ofParent), released.Err())
	}
	release(t, l)
	if cause := context.Cause(released); !errors.Is(cause, lock.ErrReleased) || errors.Is(cause, lock.ErrLost) {
		t.Errorf("released: %v", cause)
	}
	late, cancel := l.Context(t.Context())
	defer cancel()
	check.Is(t, context.Cause(late), lock.ErrReleased, "asked for after the release")

	// One of a waiter ends with the place in line.
	l = acquire(t, s, path)
	waiter := join(t, s, path, nil)
	kit.Await[lock.Waiting](t, waiter.Events())
	waiting, cancel := waiter.Context(t.Context())
	defer cancel()
	release(t, waiter)
	check.Is(t, context.Cause(waiting), lock.ErrReleased, "a waiter that has left")

	// A session that is closed loses its locks before the server is told.
	work, cancel := l.Context(t.Context())
	defer cancel()
	s.Close()
	if cause := context.Cause(work); !errors.Is(cause, lock.ErrLost) || !errors.Is(cause, session.ErrClosed) {
		t.Errorf("the session was closed: %v", cause)
	}
	check.Is(t, kit.Await[lock.Lost](t, l.Events()).Err, session.ErrClosed, "the session was closed")
}

// do: what is done while the lock is held.
func do(t *testing.T, c *kit.Stage) {
	s, other, path := scene(t, c, "-do")
	ctx := check.Patient(t)
	why := errors.New("because")
	last := int64(0)
	err := lock.Do(ctx, s, path, &lock.Options{Data: []byte("me")}, func(ctx context.Context, token int64) error {
		line := awaitLine(t, other, path, 1) //nolint:contextcheck // it has its own
		check.True(t, string(line[0].Data) == "me" && ctx.Err() == nil, "line: %+v, %v", line, ctx.Err())
		last = token
		return why
	})
	if err != why || len(kit.Children(t, other, path)) != 0 { //nolint:errorlint // itself
		t.Errorf("an error: %v", err)
	}
	// Lost meanwhile; it is not released before the function returns.
	next := (*lock.Lock)(nil)
	err = lock.Do(ctx, s, path, nil, func(ctx context.Context, token int64) error {
		check.True(t, token > last, "token %d after %d", token, last)
		next = join(t, other, path, nil)
		kit.Await[lock.Waiting](t, next.Events())
		kit.RemoveAll(t, other, awaitLine(t, other, path, 2)[0].Node) //nolint:contextcheck // it has its own
		<-ctx.Done()
		cause := context.Cause(ctx)
		check.True(t, errors.Is(cause, lock.ErrLost) && errors.Is(cause, lock.ErrNodeDeleted), "the work is told %v", cause)
		return nil
	})
	check.True(t, errors.Is(err, lock.ErrLost) && errors.Is(err, lock.ErrNodeDeleted) && strings.Contains(err.Error(), path), "lost: %v", err)
	kit.Await[lock.Acquired](t, next.Events())
	// A panic releases, too.
	release(t, next)
	func() {
		defer func() { _ = recover() }()
		_ = lock.Do(ctx, s, path, nil, func(context.Context, int64) error { panic(why) })
	}()
	check.Len(t, kit.Children(t, other, path), 0, "after a panic")
	// A context that has ended.
	ended, cancel := context.WithCancelCause(ctx)
	cancel(why)
	err = lock.Do(ended, s, path, nil, func(ctx context.Context, _ int64) error { return context.Cause(ctx) })
	check.Is(t, err, why, "a context that has ended")
	awaitEmpty(t, other, path)
}

func try(t *testing.T, c *kit.Stage) {
	s, other, path := scene(t, c, "-try")
	ctx := check.Patient(t)
	held := check.Have(lock.TryAcquire(ctx, s, path, nil))(t)
	for _, s := range []*session.Session{s, other} {
		l, err := lock.TryAcquire(ctx, s, path, nil)
		check.True(t, errors.Is(err, lock.ErrHeld) && strings.Contains(err.Error(), path) && l == nil, "held: %v", err)
		check.Len(t, kit.Children(t, other, path), 1, "it is still in line")
	}
	held.Close()
	again, err := lock.TryAcquire(ctx, other, path, nil)
	check.Require(t, err == nil && again.Token() > held.Token(), "free: %v", err)
	again.Close()
	why := errors.New("because")
	ended, cancel := context.WithCancelCause(ctx)
	cancel(why)
	if l, err := lock.TryAcquire(ended, s, path, nil); err == nil {
		l.Close() // it was faster
	} else if !errors.Is(err, why) {
		t.Errorf("a context that has ended: %v", err)
	}
	awaitEmpty(t, other, path)
}

// guard: a stale holder's write is refused.
func guard(t *testing.T, c *kit.Stage) {
	s, other, path := scene(t, c, "-guard")
	ctx := check.Patient(t)
	data := path + "-data"
	kit.Ensure(t, s, data, nil)
	write := func(s *session.Session, l *lock.Lock) error {
		_, err := s.Multi(ctx, l.Guard(), session.SetOp(data, []byte(l.Node()), session.AnyVersion))
		return err
	}
	holder := acquire(t, s, path)
	check.OK(t, write(s, holder)) // the holder
	waiter := join(t, other, path, nil)
	kit.Await[lock.Waiting](t, waiter.Events())
	check.Is(t, write(other, waiter), session.ErrNoNode) // a waiter
	stale := holder.Node()
	kit.RemoveAll(t, other, stale)
	check.Is(t, write(s, holder), session.ErrNoNode) // a stale holder
	check.True(t, holder.Node() == stale && holder.Guard().Path() == stale, "the guard is for %q", holder.Guard().Path())
	kit.Await[lock.Acquired](t, waiter.Events())
	check.OK(t, write(other, waiter)) // the next holder
	release(t, waiter)
	check.Is(t, write(other, waiter), session.ErrNoNode) // one that has released
}

func contenders(t *testing.T, c *kit.Stage) {
	s, other, path := scene(t, c, "-contenders")
	ctx := check.Patient(t)
	if line, err := lock.Contenders(ctx, s, path, nil); err != nil || line != nil {
		t.Errorf("no such lock: %v, %v", line, err)
	}
	var locks []*lock.Lock
	for i := range 4 {
		l := join(t, []*session.Session{s, other}[i%2], path, &lock.Options{Data: fmt.Appendf(nil, "host-%d", i)})
		<-l.Events()
		locks = append(locks, l)
	}
	release(t, locks[2])
	line := awaitLine(t, s, path, 3)
	for i, want := range []struct {
		data    string
		session int64
	}{{"host-0", s.ID()}, {"host-1", other.ID()}, {"host-3", other.ID()}} {
		got := line[i]
		check.True(t, string(got.Data) == want.data && got.Session == want.session && got.Holding == (i == 0) && got.Kind == lock.Exclusive, "contender %d: %+v", i, got)
	}
	check.Equal(t, line[0].Node, locks[0].Node(), "the holder")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	check.Fails(lock.Contenders(ended, s, path, nil))(t, context.Canceled) // a context that has ended
}

// background: the session sees the release through.
func background(t *testing.T, c *kit.Stage) {
	s, other, path := scene(t, c, "-background")
	opts := &lock.Options{ReleaseInBackground: true}
	l := join(t, s, path, opts)
	kit.Await[lock.Acquired](t, l.Events())
	waiter := join(t, s, path, opts)
	kit.Await[lock.Waiting](t, waiter.Events())
	c.Freeze(s.ID(), zktest.ToServer)
	for _, l := range []*lock.Lock{l, waiter} {
		check.OK(t, l.Release(check.Patient(t)))
		l.Close()
		kit.Await[lock.Released](t, l.Events())
	}
	check.Len(t, kit.Children(t, other, path), 2, "in line")
	c.Disconnect(s.ID())
	c.Thaw(s.ID())
	awaitEmpty(t, other, path)
}

// ends: releasing and closing, again and again.
func ends(t *testing.T, c *kit.Stage) {
	s, other, path := scene(t, c, "-ends")
	l := acquire(t, s, path)
	why := errors.New("because")
	ended, cancel := context.WithCancelCause(check.Patient(t))
	cancel(why)
	c.Freeze(s.ID(), zktest.ToServer)
	err := l.Release(ended)
	check.True(t, errors.Is(err, why) && strings.Contains(err.Error(), path), "a context that has ended: %v", err)
	<-l.Done() // though the release is not confirmed
	c.Thaw(s.ID())
	awaitEmpty(t, other, path) // it has gone on
	for range 3 {
		release(t, l)
		l.Close()
	}
	check.True(t, l.Err() == nil && l.Token() != 0 && l.Node() != "", "afterwards: %v, %d, %q", l.Err(), l.Token(), l.Node())
	if ev, ok := <-l.Events(); !ok || ev != (lock.Released{}) {
		t.Errorf("the last event is %v", ev)
	}
	if ev, ok := <-l.Events(); ok {
		t.Errorf("after the last event: %v", ev)
	}

	// A waiter, closed from many sides, and one closed before it stands in line.
	holder := acquire(t, other, path)
	waiter := join(t, s, path, nil)
	kit.Await[lock.Waiting](t, waiter.Events())
	closed := make(chan struct{})
	for range 10 {
		go func() {
			waiter.Close()
			closed <- struct{}{}
		}()
	}
	for range 10 {
		<-closed
	}
	early := join(t, s, path, nil)
	early.Close()
	check.Len(t, kit.Children(t, other, path), 1, "in line")
	release(t, holder)
	awaitEmpty(t, other, path)
}

// holderDeleted: an operator deletes the holder's node.
func holderDeleted(t *testing.T, c *kit.Stage) {
	s, other, path := scene(t, c, "-holder")
	holder := acquire(t, s, path)
	if err := s.Sync(check.Patient(t), path); err != nil { // so that its watch stands
		t.Fatal(err)
	}
	waiter := join(t, other, path, nil)
	kit.Await[lock.Waiting](t, waiter.Events())
	c.ResetRequests()
	id := s.ID()
	kit.RemoveAll(t, other, holder.Node())
	// The event alone tells it, without another round trip.
	ev := kit.Await[lock.Lost](t, holder.Events())
	n := c.RequestsOf(id).Total()
	check.False(t, n != 0 && len(c.Direct) > 1, "it takes %d requests to find out", n)
	check.True(t, errors.Is(ev.Err, lock.ErrLost) && errors.Is(ev.Err, lock.ErrNodeDeleted), "%v", ev)
	select {
	case <-holder.Done():
	default:
		t.Error("Done is open after Lost")
	}
	check.Is(t, holder.Release(check.Patient(t)), lock.ErrNodeDeleted)
	_, more := <-holder.Events()
	check.False(t, more, "an event after Lost")
	got := kit.Await[lock.Acquired](t, waiter.Events())
	check.True(t, got.Token > holder.Token(), "token %d after %d", got.Token, holder.Token())
}

// waiterDeleted: an operator deletes the nodes of those who wait.
func waiterDeleted(t *testing.T, c *kit.Stage) {
	s, other, path := scene(t, c, "-waiter")
	holder := acquire(t, s, path)
	var waiters []*lock.Lock
	for range 4 {
		l := join(t, s, path, nil)
		kit.Await[lock.Waiting](t, l.Events())
		waiters = append(waiters, l)
	}
	// The next in line goes to the end of it, then the one in the middle.
	for _, i := range []int{1, 2} {
		line := awaitLine(t, other, path, 5)
		kit.RemoveAll(t, other, line[i].Node)
		for {
			now := awaitLine(t, other, path, 5)
			if now[4].Node != line[4].Node {
				line = slices.Delete(line, i, i+1)
				check.True(t, now[3].Node == line[3].Node && now[1].Node == line[1].Node, "line: %+v", now)
				break
			}
		}
	}
	granted := grants(waiters)
	line := awaitLine(t, other, path, 5)
	release(t, holder)
	releaseInTurn(t, holder.Token(), line[1:], granted)
	awaitEmpty(t, other, path)
}
