package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// withSessions runs f with n sessions on a server in memory, in a bubble. Each begins with another
// replica.
func withSessions(t *testing.T, n int, config zktest.Config, f func(t *testing.T, srv *zktest.Server, all []*session.Session)) {
	t.Helper()
	spread(t, config, n, 20*time.Second, f)
}

// runWithSessions is withSessions in a subtest.
func runWithSessions(t *testing.T, name string, n int, config zktest.Config, f func(t *testing.T, srv *zktest.Server, all []*session.Session)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { withSessions(t, n, config, f) })
}

// spread is withSessions with a timeout.
func spread(t *testing.T, config zktest.Config, n int, timeout time.Duration, f func(t *testing.T, srv *zktest.Server, all []*session.Session)) {
	t.Helper()
	kit.Run(t, config, func(w kit.World) {
		all := make([]*session.Session, n)
		for i := range all {
			all[i] = w.OpenFrom(i, session.Options{Timeout: timeout})
			defer all[i].Close()
		}
		f(w.T, w.Server, all)
	})
}

// opens is how locks of each kind are opened, acquired and tried.
var opens = map[lock.Kind]struct {
	join         func(*session.Session, string, *lock.Options) (*lock.Lock, error)
	acquire, try func(context.Context, *session.Session, string, *lock.Options) (*lock.Lock, error)
}{
	lock.Exclusive: {lock.New, lock.Acquire, lock.TryAcquire},
	lock.Read:      {lock.NewRead, lock.AcquireRead, lock.TryAcquireRead},
	lock.Write:     {lock.NewWrite, lock.AcquireWrite, lock.TryAcquireWrite},
}

// joinAs stands in line, and waits until that is so.
func joinAs(t *testing.T, kind lock.Kind, s *session.Session, path string, opts *lock.Options) *lock.Lock {
	t.Helper()
	l := check.Open(opens[kind].join(s, path, opts))(t)
	synctest.Wait()
	return l
}

func acquireAs(t *testing.T, kind lock.Kind, s *session.Session, path string, opts *lock.Options) *lock.Lock {
	t.Helper()
	return check.Open(opens[kind].acquire(t.Context(), s, path, opts))(t)
}

// holds reports whether a lock is held, when all is quiet.
func holds(l *lock.Lock) bool {
	synctest.Wait()
	select {
	case <-l.Done():
		return false
	default:
		return l.Token() != 0
	}
}

func mustRelease(t *testing.T, locks ...*lock.Lock) {
	t.Helper()
	for _, l := range locks {
		check.OK(t, l.Release(t.Context()))
	}
	synctest.Wait()
}

// A book is what is known of who holds a lock of readers and writers.
type book struct {
	mu                sync.Mutex
	readers, writers  int
	token             int64 // the highest of a writer
	shared            int64 // and of a reader
	newest            int   // of all that were granted, the highest number
	grants, together  int   // of readers
	exclusive, lowers int
}

// enter notes a grant.
func (b *book) enter(t *testing.T, kind lock.Kind, l *lock.Lock) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if kind == lock.Read {
		b.readers++
		b.grants++
		b.together += b.readers
	} else {
		b.writers++
		b.exclusive++
	}
	check.False(t, b.writers > 1 || b.writers == 1 && b.readers > 0, "%d writers and %d readers", b.writers, b.readers)
	n := number(t, l.Node())
	if kind == lock.Read {
		check.True(t, l.Token() > b.token, "a reader has token %d, after %d of a writer", l.Token(), b.token)
		b.shared = max(b.shared, l.Token())
	} else {
		check.True(t, l.Token() > max(b.token, b.shared), "a writer has token %d, after %d, and %d of a reader", l.Token(), b.token, b.shared)
		b.token = l.Token()
		check.AtLeast(t, n, b.newest, "the number of a writer")
	}
	b.newest = max(b.newest, n)
}

// lower notes that a lock is about to be downgraded.
func (b *book) lower() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writers--
	b.readers++
	b.lowers++
}

// leave notes that a lock is about to be released.
func (b *book) leave(kind lock.Kind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if kind == lock.Read {
		b.readers--
	} else {
		b.writers--
	}
}

// play has contenders of all kinds take a lock at random, in so many rounds.
func (b *book) play(t *testing.T, all []*session.Session, path string, contenders, rounds int, pause func(*rand.Rand)) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range contenders {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for range rounds / contenders {
				kind := lock.Read
				if r.IntN(4) == 0 {
					kind = []lock.Kind{lock.Write, lock.Write, lock.Exclusive}[r.IntN(3)]
				}
				l, err := opens[kind].acquire(t.Context(), all[i%len(all)], path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				b.enter(t, kind, l)
				pause(r)
				if kind == lock.Write && r.IntN(2) == 0 {
					token, node := l.Token(), l.Node()
					b.lower() // from now on others who share may come
					kind = lock.Read
					check.OK(t, l.Downgrade(t.Context()))
					check.True(t, l.Token() == token && l.Node() != node && number(t, l.Node()) == number(t, node), "token %d at %s, it was %d at %s", l.Token(), l.Node(), token, node)
					pause(r)
				}
				b.leave(kind)
				check.OK(t, l.Release(t.Context()))
				l.Close()
			}
		})
	}
	wg.Wait()
	t.Logf("%d writers, %d downgrades, and %d readers, %.2f at once", b.exclusive, b.lowers, b.grants, float64(b.together)/float64(b.grants))
	check.True(t, b.together > b.grants, "readers do not share")
}

// TestReadersAndWriters: no writer with anybody, readers together, and a writer after those
// ahead of it at its arrival, however many readers come later.
func TestReadersAndWriters(t *testing.T) {
	rounds := hasten.Sized(2000, 100)
	pause := func(r *rand.Rand) { <-time.After(time.Duration(r.IntN(20)) * time.Millisecond) }
	runWithSessions(t, "calm", 4, zktest.Config{Latency: time.Millisecond}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		kit.Ensure(t, all[0], "/l", nil)
		new(book).play(t, all, "/l", 8, rounds, pause)
		check.Len(t, kit.Children(t, all[0], "/l"), 0)
	})
	runWithSessions(t, "lagging replicas and faults", 6, zktest.Config{Replicas: 3, Lag: 7 * time.Millisecond, Latency: time.Millisecond}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		kit.Ensure(t, all[0], "/l", nil)
		over := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, 1))
			for n := 0; ; n++ {
				select {
				case <-over:
					t.Logf("%d faults", n)
					return
				case <-time.After(time.Duration(r.IntN(300)) * time.Millisecond):
				}
				id := all[r.IntN(len(all))].ID()
				switch r.IntN(3) {
				case 0:
					srv.Disconnect(id)
				case 1:
					srv.DropReply(zktest.Match{Session: id})
				default:
					srv.DropRequest(zktest.Match{Session: id})
				}
			}
		})
		new(book).play(t, all, "/l", 12, rounds, pause)
		close(over)
		wg.Wait()
		srv.ClearFaults()
		check.Len(t, kit.Children(t, all[0], "/l"), 0)
	})
}

// TestOrderOfReadersAndWriters: a reader that comes after a writer that waits, waits, too.
func TestOrderOfReadersAndWriters(t *testing.T) {
	withSessions(t, 2, zktest.Config{}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		line := make([]*lock.Lock, 0, 7)
		for i, kind := range []lock.Kind{lock.Write, lock.Read, lock.Write, lock.Read, lock.Read, lock.Exclusive, lock.Read} {
			line = append(line, joinAs(t, kind, all[i%2], "/l", nil))
		}
		for i, want := range []string{"W......", ".R.....", "..W....", "...RR..", "....R..", ".....E.", "......R"} {
			got := ""
			for j, l := range line {
				if holds(l) {
					got += string("WRWRRER"[j])
				} else {
					got += "."
				}
			}
			check.Equal(t, got, want, "after", i, "releases")
			mustRelease(t, line[i])
		}
	})
}

// TestWakeUps counts what a release makes others ask for, each of whom has a session.
func TestWakeUps(t *testing.T) {
	const readers = 50
	repeat := func(kind lock.Kind, n int) []lock.Kind { return slices.Repeat([]lock.Kind{kind}, n) }
	for _, test := range []struct {
		name  string
		line  []lock.Kind
		steps []int // requests of others at each release, from the first in line; 0 also where an event alone grants
	}{
		{"readers behind a writer", slices.Concat(repeat(lock.Write, 1), repeat(lock.Read, readers)), []int{0, 0, 0}},
		{"writers behind a writer", repeat(lock.Write, 10), []int{1, 1, 1}},  // a list each
		{"exclusive contenders", repeat(lock.Exclusive, 10), []int{0, 1, 1}}, // the third finds out that it is second: a list, unless it has watched all ahead
		{"readers behind writers", slices.Concat(repeat(lock.Write, 3), repeat(lock.Read, readers)), []int{1, 1, readers, 0}},
		{"a writer behind readers", slices.Concat(repeat(lock.Read, 5), repeat(lock.Write, 2)), []int{0, 0, 0, 0, 1, 1}},
		{"a writer, readers, a writer, readers", []lock.Kind{lock.Write, lock.Read, lock.Read, lock.Write, lock.Read, lock.Read, lock.Read}, []int{0, 0, 1, 3, 0}},
	} {
		runWithSessions(t, test.name, len(test.line), zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			line := make([]*lock.Lock, len(test.line))
			for i, kind := range test.line {
				line[i] = joinAs(t, kind, all[i], "/l", nil)
			}
			for i, want := range test.steps {
				srv.ResetRequests()
				mustRelease(t, line[i])
				got := kit.WithoutSyncs(srv.Requests())
				got[zktest.OpDelete]--
				check.Equal(t, got.Total(), want, "release", i, got)
			}
		})
	}
}

// TestListsOfReaders: n readers behind k writers make n + k lists at most, and k + 1 of the
// released wake them.
func TestListsOfReaders(t *testing.T) {
	const n, k = 30, 8
	withSessions(t, n+k, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		var line []*lock.Lock
		for i, s := range all {
			kind := lock.Write
			if i >= k {
				kind = lock.Read
			}
			line = append(line, joinAs(t, kind, s, "/l", nil))
		}
		srv.ResetRequests()
		mustRelease(t, line[:k]...)
		for _, l := range line[k:] {
			check.True(t, holds(l), "a reader waits")
		}
		check.AtMost(t, srv.Requests()[zktest.OpGetChildren2], n+k, "lists")
	})
}

func TestDowngrade(t *testing.T) {
	withSessions(t, 3, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		ctx := t.Context()
		s := all[0]
		kit.Ensure(t, s, "/l", nil)
		kit.Ensure(t, s, "/d", nil)
		w := acquireAs(t, lock.Write, s, "/l", &lock.Options{Data: []byte("me")})
		first, second := joinAs(t, lock.Read, all[1], "/l", nil), joinAs(t, lock.Read, all[2], "/l", nil)
		next := joinAs(t, lock.Write, all[1], "/l", nil)
		late := joinAs(t, lock.Read, all[2], "/l", nil)
		check.Require(t, !holds(first) && !holds(second) && !holds(next) && !holds(late), "it is held by others")
		token, node, guard := w.Token(), w.Node(), w.Guard()
		work, cancel := w.Context(ctx)
		defer cancel()
		check.Must(t, w.Downgrade(ctx))
		check.True(t, w.Token() == token && w.Node() != node && work.Err() == nil, "token %d, node %s, %v", w.Token(), w.Node(), work.Err())
		// One transaction: the parent's children have changed last when the node was made.
		parent := check.Have(s.Exists(ctx, "/l"))(t)
		data, stat, err := s.Get(ctx, w.Node())
		if err != nil || stat.Czxid != parent.Pzxid || stat.EphemeralOwner != s.ID() || string(data) != "me" {
			t.Errorf("%q, made at %d by %d; the children changed at %d; %v", data, stat.Czxid, stat.EphemeralOwner, parent.Pzxid, err)
		}
		check.True(t, holds(first) && holds(second) && !holds(next) && !holds(late), "the wrong ones proceed")
		check.Fails(s.Multi(ctx, guard, session.SetOp("/d", nil, session.AnyVersion)))(t, session.ErrNoNode) // the writer's guard
		if _, err := s.Multi(ctx, w.Guard(), session.SetOp("/d", nil, session.AnyVersion)); err != nil {
			t.Errorf("the reader's guard: %v", err)
		}
		line, err := lock.Contenders(ctx, s, "/l", nil)
		check.True(t, err == nil && len(line) == 5 && line[0].Kind == lock.Read && line[0].Node == w.Node() && string(line[0].Data) == "me", "%+v, %v", line, err)
		for i, c := range line {
			check.Equal(t, c.Holding, i < 3, "contender", i, c)
		}
		check.Is(t, w.Downgrade(ctx), lock.ErrNotWrite) // again
		mustRelease(t, first, second)
		check.False(t, holds(next), "a writer with the one that was downgraded")
		mustRelease(t, w)
		check.True(t, holds(next) && !holds(late), "the writer waits")
		check.True(t, next.Token() > token, "token %d after %d", next.Token(), token)
		check.Is(t, context.Cause(work), lock.ErrReleased, "released")
	})
}

// TestLossAfterDowngrade: the reader's node is watched like the writer's.
func TestLossAfterDowngrade(t *testing.T) {
	withSessions(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		ctx := t.Context()
		for _, at := range []string{"at once", "later"} {
			w := acquireAs(t, lock.Write, all[0], "/l", nil)
			check.Must(t, w.Downgrade(ctx))
			if at == "later" {
				synctest.Wait()
			}
			check.Must(t, all[1].Delete(ctx, w.Node(), session.AnyVersion))
			<-w.Done()
			if err := w.Err(); !errors.Is(err, lock.ErrNodeDeleted) || !errors.Is(err, lock.ErrLost) {
				t.Errorf("%s: %v", at, err)
			}
			if err := w.Downgrade(ctx); !errors.Is(err, lock.ErrLost) || !strings.Contains(err.Error(), "/l") {
				t.Errorf("%s: %v", at, err)
			}
		}
		// And while it is under way.
		w := acquireAs(t, lock.Write, all[0], "/l", nil)
		synctest.Wait()
		srv.Delay(zktest.Match{Op: zktest.OpMulti, Session: all[0].ID()}, time.Second)
		downgraded := kit.Begin(func() error { return w.Downgrade(ctx) })
		check.Must(t, all[1].Delete(ctx, w.Node(), session.AnyVersion))
		if err := <-downgraded; !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrNodeDeleted) {
			t.Errorf("meanwhile: %v", err)
		}
		check.Len(t, kit.Children(t, all[1], "/l"), 0)
	})
}

// TestDowngradeGoesOn: the caller has left.
func TestDowngradeGoesOn(t *testing.T) {
	withSessions(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		w := acquireAs(t, lock.Write, all[0], "/l", nil)
		r := joinAs(t, lock.Read, all[1], "/l", nil)
		srv.Delay(zktest.Match{Op: zktest.OpMulti, Session: all[0].ID()}, time.Second)
		why := errors.New("because")
		ctx, cancel := context.WithCancelCause(t.Context())
		downgraded := kit.Begin(func() error { return w.Downgrade(ctx) })
		check.Is(t, w.Downgrade(t.Context()), lock.ErrNotWrite) // a second one meanwhile
		cancel(why)
		if err := <-downgraded; !errors.Is(err, why) || !strings.Contains(err.Error(), "/l") {
			t.Errorf("%v", err)
		}
		<-time.After(2 * time.Second)
		check.True(t, holds(w) && holds(r), "it has not gone on")
		// Released while another is under way.
		mustRelease(t, w, r)
		w = acquireAs(t, lock.Write, all[0], "/l", nil)
		synctest.Wait()
		srv.Delay(zktest.Match{Op: zktest.OpMulti, Session: all[0].ID()}, time.Second)
		downgraded = kit.Begin(func() error { return w.Downgrade(t.Context()) })
		mustRelease(t, w)
		if err := <-downgraded; !errors.Is(err, lock.ErrNotHeld) || errors.Is(err, lock.ErrLost) {
			t.Errorf("released meanwhile: %v", err)
		}
		check.Len(t, kit.Children(t, all[1], "/l"), 0)
	})
}

func TestNothingToDowngrade(t *testing.T) {
	withSessions(t, 1, zktest.Config{}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		ctx := t.Context()
		for _, kind := range []lock.Kind{lock.Exclusive, lock.Read, lock.Write} {
			holder, waiter := acquireAs(t, kind, all[0], "/nothing", nil), joinAs(t, lock.Write, all[0], "/nothing", nil)
			check.Is(t, waiter.Downgrade(ctx), lock.ErrNotHeld) // a waiter
			if kind != lock.Write {
				check.Is(t, holder.Downgrade(ctx), lock.ErrNotWrite, kind)
			}
			check.True(t, holds(holder) && !holds(waiter), "a downgrade that was refused has changed something")
			mustRelease(t, waiter, holder)
			check.Is(t, holder.Downgrade(ctx), lock.ErrNotHeld, kind, "released")
		}
	})
}

// TestUpgrade: who would wait for itself is told, and asks the server for nothing.
func TestUpgrade(t *testing.T) {
	withSessions(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		ctx, s := t.Context(), all[0]
		refused := func(name string, l *lock.Lock, work context.Context) {
			t.Helper()
			synctest.Wait()
			srv.ResetRequests()
			begun := time.Now()
			if err := l.Upgrade(ctx); !errors.Is(err, lock.ErrUpgrade) || !strings.Contains(err.Error(), "/l") {
				t.Errorf("%s: %v", name, err)
			}
			for _, kind := range []lock.Kind{lock.Exclusive, lock.Write} {
				for _, f := range []func(context.Context, *session.Session, string, *lock.Options) (*lock.Lock, error){opens[kind].acquire, opens[kind].try} {
					if l, err := f(work, s, "/l", nil); !errors.Is(err, lock.ErrUpgrade) || l != nil || !strings.Contains(err.Error(), "/l") {
						t.Errorf("%s: %v: %v", name, kind, err)
					}
				}
			}
			check.Is(t, lock.Do(work, s, "/l", nil, func(context.Context, int64) error { return nil }), lock.ErrUpgrade, name)
			n := kit.WithoutSyncs(srv.Requests()).Total()
			check.True(t, n == 0 && time.Since(begun) <= 0, "%s: %d requests, %v", name, n, time.Since(begun))
		}
		r := acquireAs(t, lock.Read, s, "/l", nil)
		work, cancel := r.Context(ctx)
		defer cancel()
		type key struct{}
		refused("a reader", r, context.WithValue(work, key{}, 1))

		// What is no upgrade is not refused.
		again := check.Have(lock.AcquireRead(work, s, "/l", nil))(t)
		other := check.Have(lock.AcquireWrite(work, s, "/other", nil))(t)
		check.Fails(lock.TryAcquireWrite(work, all[1], "/l", nil))(t, lock.ErrHeld) // of another session
		inner, cancel := again.Context(work)
		defer cancel()
		refused("a reader within", again, inner)
		mustRelease(t, r, again, other)

		w := acquireAs(t, lock.Write, s, "/l", nil)
		work, cancel = w.Context(ctx)
		defer cancel()
		check.Is(t, w.Upgrade(ctx), lock.ErrUpgrade)                           // a writer
		check.Fails(lock.TryAcquireWrite(work, s, "/l", nil))(t, lock.ErrHeld) // a writer
		check.Must(t, w.Downgrade(ctx))
		refused("a writer that was downgraded", w, work)
	})
}

// TestWhoExcludesWhom, in every layout.
func TestWhoExcludesWhom(t *testing.T) {
	kinds := []lock.Kind{lock.Exclusive, lock.Read, lock.Write}
	for _, layout := range []lock.Layout{lock.Standard, lock.Curator, lock.Kazoo} {
		runWithSessions(t, layout.String(), 2, zktest.Config{}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
			ctx, opts := t.Context(), &lock.Options{Layout: layout}
			for _, first := range kinds {
				for _, second := range kinds {
					for i := range all { // of the same session, too
						held := acquireAs(t, first, all[0], "/l", opts)
						l, err := opens[second].try(ctx, all[i], "/l", opts)
						share := first == lock.Read && second == lock.Read
						check.False(t, share != (err == nil) || !share && !errors.Is(err, lock.ErrHeld), "%v, and then %v: %v", first, second, err)
						if err == nil {
							mustRelease(t, l)
						}
						next := joinAs(t, second, all[i], "/l", opts)
						mustRelease(t, held)
						check.True(t, holds(next), "%v waits for %v that is gone", second, first)
						mustRelease(t, next)
						check.Len(t, kit.Children(t, all[0], "/l"), 0)
					}
				}
			}
			// A reader does not get past a writer that waits.
			held, writer := acquireAs(t, lock.Read, all[0], "/l", opts), joinAs(t, lock.Write, all[1], "/l", opts)
			check.Fails(lock.TryAcquireRead(ctx, all[0], "/l", opts))(t, lock.ErrHeld) // past a writer
			mustRelease(t, held)
			check.OK(t, writer.Downgrade(ctx))
			if l, err := lock.TryAcquireRead(ctx, all[0], "/l", opts); err != nil {
				t.Errorf("with one that was downgraded: %v", err)
			} else {
				mustRelease(t, l)
			}
			check.Fails(lock.TryAcquireWrite(ctx, all[0], "/l", opts))(t, lock.ErrHeld) // with one that was downgraded
		})
	}
}

// TestLayouts: the names are those of the others who stand in such lines.
func TestLayouts(t *testing.T) {
	const guid, hex = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, `[0-9a-f]{32}`
	names := map[lock.Layout][3]string{
		lock.Standard: {`_c_` + guid + `-lock-`, `_c_` + guid + `-read-`, `_c_` + guid + `-write-`},
		lock.Curator:  {`_c_` + guid + `-lock-`, `_c_` + guid + `-__READ__`, `_c_` + guid + `-__WRIT__`},
		lock.Kazoo:    {hex + `__lock__`, hex + `__rlock__`, hex + `__lock__`},
	}
	for layout, names := range names {
		runWithSessions(t, layout.String(), 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			ctx, s, opts := t.Context(), all[0], &lock.Options{Layout: layout, Data: []byte("me")}
			kit.Ensure(t, s, "/l", nil)
			kinds := []lock.Kind{lock.Exclusive, lock.Read, lock.Write}
			for i, kind := range kinds {
				l := acquireAs(t, kind, s, "/l", opts)
				want := regexp.MustCompile(`^/l/` + names[kind] + fmt.Sprintf("%010d$", i))
				check.True(t, want.MatchString(l.Node()) && slices.Contains(srv.Paths(), l.Node()), "%v is %s", kind, l.Node())
				line, err := lock.Contenders(ctx, s, "/l", opts)
				is := kind
				if layout == lock.Kazoo && kind == lock.Write {
					is = lock.Exclusive // which are the same there
				}
				if err != nil || len(line) != 1 || line[0].Kind != is || line[0].Node != l.Node() || !line[0].Holding || string(line[0].Data) != "me" {
					t.Errorf("%v: %+v, %v", kind, line, err)
				}
				if kind == lock.Write {
					check.OK(t, l.Downgrade(ctx))
					if want := regexp.MustCompile(`^/l/` + names[lock.Read] + fmt.Sprintf("%010d$", i)); !want.MatchString(l.Node()) || !slices.Contains(srv.Paths(), l.Node()) {
						t.Errorf("downgraded, it is %s", l.Node())
					}
				}
				mustRelease(t, l)
			}
		})
	}
	withSessions(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		ctx := t.Context()
		synctest.Wait()
		srv.ResetRequests()
		for _, layout := range []lock.Layout{-1, lock.Prioritized + 1, 99} {
			opts := &lock.Options{Layout: layout}
			var errs []error
			for _, open := range opens {
				_, a := open.join(all[0], "/l", opts)
				_, b := open.acquire(ctx, all[0], "/l", opts)
				_, c := open.try(ctx, all[0], "/l", opts)
				errs = append(errs, a, b, c)
			}
			_, err := lock.Contenders(ctx, all[0], "/l", opts)
			for _, err := range append(errs, err) {
				check.True(t, errors.Is(err, session.ErrInvalidArgument) && strings.Contains(err.Error(), "Layout"), "layout %v: %v", layout, err)
			}
		}
		check.Equal(t, kit.WithoutSyncs(srv.Requests()).Total(), 0, "requests")
	})
}

// TestForeignContenders: the nodes of others, by their names as they make them. Those of other
// layouts are refused.
func TestForeignContenders(t *testing.T) {
	for _, test := range []struct {
		layout lock.Layout
		name   string
		waits  []lock.Kind // who waits for it
	}{
		{lock.Standard, "_c_0123456789abcdef0123456789abcdef-lock-", []lock.Kind{lock.Exclusive, lock.Read, lock.Write}}, // go-zookeeper
		{lock.Standard, "_c_01234567-89ab-4def-8123-456789abcdef-__WRIT__", nil},
		{lock.Standard, "_c_01234567-89ab-4def-8123-456789abcdef-__READ__", nil},
		{lock.Standard, "0123456789abcdef0123456789abcdef__lock__", nil},
		{lock.Standard, "0123456789abcdef0123456789abcdef__rlock__", nil},
		{lock.Standard, "_c_01234567-89ab-4def-8123-456789abcdef-latch-", nil},
		{lock.Standard, "_c_01234567-89ab-4def-8123-456789abcdef-lease-", nil},
		{lock.Standard, "n_", nil},                   // ZooKeeper's election
		{lock.Standard, "x-72057594037927936-", nil}, // ZooKeeper's lock
		{lock.Standard, "x--72057594037927936-", nil},
		{lock.Prioritized, "_c_01234567-89ab-4def-8123-456789abcdef-latch-", nil},
		{lock.Curator, "0123456789abcdef0123456789abcdef__lock__", nil},
		{lock.Kazoo, "_c_01234567-89ab-4def-8123-456789abcdef-__WRIT__", nil},
		{lock.Curator, "_c_01234567-89ab-4def-8123-456789abcdef-lock-", []lock.Kind{lock.Exclusive, lock.Read, lock.Write}},
		{lock.Curator, "_c_01234567-89ab-4def-8123-456789abcdef-__READ__", []lock.Kind{lock.Exclusive, lock.Write}},
		{lock.Curator, "_c_01234567-89ab-4def-8123-456789abcdef-__WRIT__", []lock.Kind{lock.Exclusive, lock.Read, lock.Write}},
		{lock.Curator, "_c_01234567-89ab-4def-8123-456789abcdef-write-", nil},
		{lock.Kazoo, "0123456789abcdef0123456789abcdef__lock__", []lock.Kind{lock.Exclusive, lock.Read, lock.Write}},
		{lock.Kazoo, "0123456789abcdef0123456789abcdef__rlock__", []lock.Kind{lock.Exclusive, lock.Write}},
		{lock.Kazoo, "_c_01234567-89ab-4def-8123-456789abcdef-lock-", nil},
	} {
		runWithSessions(t, test.layout.String()+" "+test.name, 1, zktest.Config{}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
			ctx, s := t.Context(), all[0]
			node := "/l/" + test.name + "0000000000"
			check.Must(t, s.EnsurePath(ctx, "/l"))
			check.Have(s.Create(ctx, node, nil, session.Persistent))(t)
			for kind, open := range opens {
				l, err := open.try(ctx, s, "/l", &lock.Options{Layout: test.layout})
				waits, refused := slices.Contains(test.waits, kind), test.waits == nil
				check.False(t, waits != errors.Is(err, lock.ErrHeld) || refused != errors.Is(err, lock.ErrLayout) || !waits && !refused && err != nil, "%v: %v", kind, err)
				if err == nil {
					mustRelease(t, l)
				}
			}
			if test.waits == nil {
				check.Len(t, kit.Children(t, s, "/l"), 1)
				return
			}

			// When it goes, the waiters proceed.
			l := joinAs(t, lock.Write, s, "/l", &lock.Options{Layout: test.layout})
			check.Must(t, s.Delete(ctx, node, session.AnyVersion))
			check.True(t, holds(l), "it waits for nobody")
		})
	}
}

// TestForeignNewcomer: one that comes while we hold is none of our business, but a waiter refuses
// to stand there, and the holder complains when it sees it: both list within a third of the timeout
// after a reconnect.
func TestForeignNewcomer(t *testing.T) {
	const timeout = 9 * time.Second
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		var log strings.Builder
		t, srv := w.T, w.Server
		s := w.Open(session.Options{Timeout: timeout, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		held, waiting := joinAs(t, lock.Exclusive, s, "/l", nil), joinAs(t, lock.Read, s, "/l", nil)
		synctest.Wait()
		check.Have(s.Create(t.Context(), "/l/0123456789abcdef0123456789abcdef__lock__", nil, session.EphemeralSequential))(t)
		srv.Disconnect(s.ID())
		<-time.After(time.Second + timeout/3)
		check.Is(t, waiting.Err(), lock.ErrLayout) // the waiter
		check.True(t, holds(held) && strings.Contains(log.String(), "contended for in another layout"), "the holder: %v; %s", held.Err(), log.String())
	})
}

// TestLostReplies: whatever becomes of whatever request of readers, writers and downgrades,
// it succeeds, and nothing is left.
func TestLostReplies(t *testing.T) {
	faults := map[string]func(srv *zktest.Server, m zktest.Match){
		"reply lost":   (*zktest.Server).DropReply,
		"request lost": (*zktest.Server).DropRequest,
		"late":         func(srv *zktest.Server, m zktest.Match) { srv.Delay(m, time.Second) },
		"both lost": func(srv *zktest.Server, m zktest.Match) { // and the request that follows as well
			srv.DropReply(m)
			m.Skip++
			srv.DropRequest(m)
		},
		"lost again": func(srv *zktest.Server, m zktest.Match) {
			srv.DropRequest(m)
			m.Skip++
			srv.DropReply(m)
		},
	}
	for _, test := range []struct {
		name  string
		ahead []lock.Kind
		kind  lock.Kind
		lower bool
		warm  bool
		opts  *lock.Options
	}{
		{"reader, cold", nil, lock.Read, false, false, nil},
		{"reader, warm", nil, lock.Read, false, true, nil},
		{"reader with a reader", []lock.Kind{lock.Read}, lock.Read, false, true, nil},
		{"reader behind a writer", []lock.Kind{lock.Write}, lock.Read, false, true, nil},
		{"reader behind two writers", []lock.Kind{lock.Write, lock.Write}, lock.Read, false, true, nil},
		{"writer", nil, lock.Write, false, true, nil},
		{"writer behind readers", []lock.Kind{lock.Read, lock.Read}, lock.Write, false, true, nil},
		{"downgrade", nil, lock.Write, true, true, nil},
		{"downgrade behind an exclusive one", []lock.Kind{lock.Exclusive}, lock.Write, true, true, nil},
		{"writer with a priority, cold", nil, lock.Write, false, false, prior(5)},
		{"writer with a priority, warm, behind another", []lock.Kind{lock.Exclusive}, lock.Write, false, true, prior(5)},
		{"reader with a priority, cold", nil, lock.Read, false, false, prior(5)},
		{"reader with a priority, warm, behind another", []lock.Kind{lock.Exclusive}, lock.Read, false, true, prior(5)},
		{"downgrade with a priority, cold", nil, lock.Write, true, false, prior(5)},
		{"downgrade with a priority, warm, behind another", []lock.Kind{lock.Exclusive}, lock.Write, true, true, prior(5)},
	} {
		runWithSessions(t, test.name, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			id := all[0].ID()
			others := test.opts
			if others != nil {
				others = prior(0)
			}
			paths := 0
			cycle := func(name string, lose func()) {
				t.Helper()
				path := fmt.Sprintf("/%d", paths)
				paths++
				switch {
				case test.warm && test.opts != nil:
					acquireAs(t, test.kind, all[0], path, test.opts).Close()
				case test.warm:
					kit.Ensure(t, all[1], path, nil)
					client.Of(all[0]).Saw(path, 0, true)
				}
				var ahead []*lock.Lock
				for _, kind := range test.ahead {
					ahead = append(ahead, joinAs(t, kind, all[1], path, others))
				}
				lose()
				l := check.Open(opens[test.kind].join(all[0], path, test.opts))(t)
				<-time.After(3 * time.Second)
				for _, a := range ahead {
					mustRelease(t, a)
				}
				<-time.After(3 * time.Second)
				check.True(t, holds(l), "%s: it is not held", name)
				token := l.Token()
				if test.lower {
					check.OK(t, l.Downgrade(t.Context()), name)
					if _, err := all[1].Multi(t.Context(), l.Guard()); err != nil || l.Token() != token {
						t.Errorf("%s: %v, token %d, it was %d", name, err, l.Token(), token)
					}
					other, err := lock.TryAcquireRead(t.Context(), all[1], path, others)
					check.Must(t, err, name, "downgraded, and not shared")
					mustRelease(t, other)
				}
				check.OK(t, l.Release(t.Context()), name)
				<-time.After(3 * time.Second)
				check.Len(t, remains(t, all[1], path), 0, name)
				next, err := lock.TryAcquire(t.Context(), all[1], path, others) // the next one need not wait
				check.Must(t, err, name)
				mustRelease(t, next)
			}
			steps := 0
			cycle("clean", func() { steps = -kit.WithoutSyncs(srv.RequestsOf(id)).Total() })
			steps += kit.WithoutSyncs(srv.RequestsOf(id)).Total()
			check.Require(t, steps >= 3, "%d requests", steps)
			for name, plan := range faults {
				for skip := range steps {
					cycle(fmt.Sprintf("%s %d", name, skip), func() { plan(srv, zktest.Match{Session: id, Skip: skip}) })
					srv.ClearFaults()
				}
			}
			check.Equal(t, all[0].ID(), id, "the session has not survived")
		})
	}
}

// A reader that has released the lock upgrades nothing.
func TestNoUpgrade(t *testing.T) {
	withSessions(t, 1, zktest.Config{}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		ctx, s := t.Context(), all[0]
		for _, kind := range []lock.Kind{lock.Read, lock.Write} {
			l := acquireAs(t, kind, s, "/l", nil)
			work, cancel := l.Context(ctx)
			defer cancel()
			if kind == lock.Write {
				check.Must(t, l.Downgrade(ctx))
			}
			inner := check.Have(lock.AcquireRead(work, s, "/l", nil))(t)
			within, cancel := inner.Context(work)
			defer cancel()
			mustRelease(t, inner)
			if _, err := lock.AcquireWrite(context.WithoutCancel(within), s, "/l", nil); !errors.Is(err, lock.ErrUpgrade) {
				t.Errorf("%v, an inner one released: %v", kind, err)
			}
			mustRelease(t, l)
			if _, err := lock.AcquireWrite(work, s, "/l", nil); errors.Is(err, lock.ErrUpgrade) || !errors.Is(err, lock.ErrReleased) {
				t.Errorf("%v, released: %v", kind, err)
			}
			w, err := lock.AcquireWrite(context.WithoutCancel(work), s, "/l", nil)
			if err != nil {
				t.Errorf("%v, released, but not to end: %v", kind, err)
				continue
			}
			mustRelease(t, w)
		}
	})
}
