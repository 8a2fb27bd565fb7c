package lock_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// prior are options for a priority.
func prior(priority int) *lock.Options {
	return &lock.Options{Layout: lock.Prioritized, Priority: priority}
}

func preempting(priority int, after time.Duration) *lock.Options {
	return &lock.Options{Layout: lock.Prioritized, Priority: priority, Preempt: true, PreemptAfter: after}
}

// inRoom runs f in a bubble with a server and some sessions.
func inRoom(t *testing.T, sessions int, f func(t *testing.T, srv *zktest.Server, all []*session.Session)) {
	t.Helper()
	kit.Sessions(t, zktest.Config{}, sessions, session.Options{}, f)
}

// runInRoom is inRoom in a subtest.
func runInRoom(t *testing.T, name string, sessions int, f func(t *testing.T, srv *zktest.Server, all []*session.Session)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inRoom(t, sessions, f) })
}

type openFunc = func(*session.Session, string, *lock.Options) (*lock.Lock, error)

func opened(t *testing.T, open openFunc, s *session.Session, path string, opts *lock.Options) *lock.Lock {
	t.Helper()
	l := check.Open(open(s, path, opts))(t)
	l.Events() // keep all that happens
	return l
}

// standsAt opens a lock and returns when it stands in line, or holds.
func standsAt(t *testing.T, open openFunc, s *session.Session, path string, opts *lock.Options) *lock.Lock {
	t.Helper()
	l := opened(t, open, s, path, opts)
	synctest.Wait()
	return l
}

// remains returns what there is at path that is more than who may come again needs.
func remains(t *testing.T, s *session.Session, path string) []string {
	t.Helper()
	names := kit.Children(t, s, path)
	if slices.Contains(names, "readers") {
		for _, name := range kit.Children(t, s, znode.Join(path, "readers")) {
			names = append(names, "readers/"+name)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "readers" })
}

// Of those who wait, the highest priority is next; of the same, who came first.
func TestPriorityOrder(t *testing.T) {
	inRoom(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		holder := standsAt(t, lock.New, all[0], "/a/l", prior(0))
		check.Require(t, holds(holder), "not held")
		var waiters []*lock.Lock
		for i, priority := range []int{-1000, 0, 7, 0, 1000, 7} {
			waiters = append(waiters, standsAt(t, lock.NewWrite, all[i%3], "/a/l", prior(priority)))
		}
		line := check.Have(lock.Contenders(t.Context(), all[1], "/a/l", prior(0)))(t)
		var priorities []int
		for _, c := range line {
			priorities = append(priorities, c.Priority)
			check.True(t, c.Holding == (c.Node == holder.Node()) && c.Kind == lock.Write, "%+v", c)
		}
		check.EqualSlices(t, priorities, []int{1000, 7, 7, 0, 0, 0, -1000})
		token := holder.Token()
		holder.Close()
		for _, i := range []int{4, 2, 5, 1, 3, 0} {
			synctest.Wait()
			for j, l := range waiters {
				check.Equal(t, holds(l), j == i, j, "holds, at the turn of", i)
			}
			if got := waiters[i].Token(); got <= token {
				t.Errorf("token %d after %d", got, token)
			} else {
				token = got
			}
			waiters[i].Close()
		}
		check.Len(t, remains(t, all[0], "/a/l"), 0)
	})
}

// Readers share, and a writer of a higher priority goes before those who do not hold yet.
func TestPriorityShared(t *testing.T) {
	inRoom(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		first := standsAt(t, lock.NewRead, all[0], "/l", prior(0))
		second := standsAt(t, lock.NewRead, all[1], "/l", prior(-3))
		writer := standsAt(t, lock.NewWrite, all[2], "/l", prior(1))
		late := standsAt(t, lock.NewRead, all[0], "/l", prior(0))
		urgent := standsAt(t, lock.NewRead, all[1], "/l", prior(2))
		for i, row := range []struct {
			l    *lock.Lock
			want bool
		}{{first, true}, {second, true}, {writer, false}, {late, false}, {urgent, true}} {
			check.Equal(t, holds(row.l), row.want, i, "holds")
		}
		line := check.Have(lock.Contenders(t.Context(), all[0], "/l", prior(0)))(t)
		holding := ""
		for _, c := range line {
			holding += fmt.Sprintf("%v %d %v, ", c.Kind, c.Priority, c.Holding)
		}
		check.Equal(t, holding, "read 2 true, write 1 false, read 0 true, read 0 false, read -3 true, ")
		for _, l := range []*lock.Lock{first, urgent, second} {
			check.False(t, holds(writer), "a writer among readers")
			l.Close()
			synctest.Wait()
		}
		check.True(t, holds(writer) && !holds(late) && writer.Token() > urgent.Token(), "the writer was to be next")
		writer.Close()
		check.True(t, holds(late) && late.Token() > writer.Token(), "the reader was to be next")
		late.Close()
		check.Len(t, remains(t, all[0], "/l"), 0)
	})
}

// A priority where there is none, and none that there is.
func TestPriorityBadInput(t *testing.T) {
	inRoom(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		for _, row := range []struct {
			opts lock.Options
			want []string
		}{
			{lock.Options{Layout: lock.Prioritized, Priority: 1001}, []string{"Options.Priority", "1001", "-1000 to 1000"}},
			{lock.Options{Layout: lock.Prioritized, Priority: -1001}, []string{"Options.Priority", "-1001"}},
			{lock.Options{Priority: 1}, []string{"Options.Priority", "standard layout"}},
			{lock.Options{Layout: lock.Curator, Priority: 1}, []string{"Options.Priority", "curator layout"}},
			{lock.Options{Layout: lock.Kazoo, Preempt: true}, []string{"Options.Preempt", "kazoo layout"}},
			{lock.Options{Layout: lock.Prioritized, Preempt: true, PreemptAfter: -1}, []string{"Options.PreemptAfter", "negative"}},
			{lock.Options{Layout: lock.Prioritized, PreemptAfter: 1}, []string{"Options.PreemptAfter", "without Options.Preempt"}},
			{lock.Options{Layout: lock.Prioritized + 1, Priority: 1}, []string{"Options.Layout"}},
		} {
			_, err := lock.New(all[0], "/l", &row.opts)
			if !errors.Is(err, session.ErrInvalidArgument) {
				t.Errorf("%+v: %v", row.opts, err)
				continue
			}
			for _, word := range row.want {
				check.True(t, strings.Contains(err.Error(), word), "%+v: %v does not say %q", row.opts, err, word)
			}
		}
		check.Equal(t, lock.Prioritized.String(), "prioritized", lock.Prioritized)
	})
}

func TestPriorityRefusesOthers(t *testing.T) {
	refused := func(t *testing.T, s *session.Session, path string, opts *lock.Options) {
		t.Helper()
		if _, err := lock.Acquire(t.Context(), s, path, opts); !errors.Is(err, lock.ErrLayout) || errors.Is(err, lock.ErrLost) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := lock.TryAcquireRead(t.Context(), s, path, opts); !errors.Is(err, lock.ErrLayout) {
			t.Errorf("%s: %v", path, err)
		}
	}
	inRoom(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		for _, layout := range []lock.Layout{lock.Standard, lock.Curator, lock.Kazoo} {
			opts := &lock.Options{Layout: layout}
			path := "/theirs/" + layout.String()
			theirs := standsAt(t, lock.NewWrite, all[0], path, opts)
			refused(t, all[1], path, prior(0))
			if _, err := lock.Contenders(t.Context(), all[1], path, prior(0)); !errors.Is(err, lock.ErrLayout) {
				t.Errorf("%v: %v", layout, err)
			}
			check.True(t, holds(theirs), "%v: lost: %v", layout, theirs.Err())
			theirs.Close()

			path = "/ours/" + layout.String()
			ours := standsAt(t, lock.New, all[0], path, prior(0))
			next := standsAt(t, lock.New, all[0], path, prior(0))
			refused(t, all[1], path, opts)
			if _, err := lock.Contenders(t.Context(), all[1], path, opts); !errors.Is(err, lock.ErrLayout) {
				t.Errorf("%v: %v", layout, err)
			}
			check.Is(t, lock.Revoke(t.Context(), all[1], path, &lock.RevokeOptions{Layout: layout}), lock.ErrLayout, layout)
			// One that believes to know the path does not look at it before.
			client.Of(all[2]).SetWarm(path, true)
			refused(t, all[2], path, opts)
			check.True(t, holds(ours), "%v: lost: %v", layout, ours.Err())
			ours.Close()
			check.True(t, holds(next), "%v: not next: %v", layout, next.Err())
			next.Close()
			refused(t, all[1], path, opts) // also when nobody is there
		}
		for _, path := range []string{"/data", "/other"} {
			kit.Ensure(t, all[0], path, []byte("priority "+path))
			refused(t, all[1], path, prior(0))
			opened(t, lock.New, all[1], path, nil).Close()
		}
		// What a session knows of a path may be so no more.
		standsAt(t, lock.New, all[1], "/once", prior(0)).Close()
		kit.RemoveAll(t, all[0], "/once")
		theirs := standsAt(t, lock.New, all[0], "/once", nil)
		refused(t, all[1], "/once", prior(0))
		if data, _, err := all[0].Get(t.Context(), "/once"); !holds(theirs) || err != nil || len(data) > 0 {
			t.Errorf("%v, %q, %v", theirs.Err(), data, err)
		}
		theirs.Close()
		kit.Ensure(t, all[0], "/empty", nil)
		client.Of(all[1]).SetWarm("/empty", true)
		l := standsAt(t, lock.New, all[1], "/empty", prior(0))
		check.True(t, holds(l), "an empty path is no priority's")
		node := l.Node()
		l.Close()
		check.Reads(all[0].Get(t.Context(), "/empty"))(t, "priority 1\n"+strings.TrimPrefix(node, "/empty/"))
	})
}

// The session expires at any point.
func TestPriorityExpiry(t *testing.T) {
	t.Parallel()
	for kind, open := range map[string]openFunc{"writer": lock.NewWrite, "reader": lock.NewRead} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for skip := range 14 {
				inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
					s, other := all[0], all[1]
					srv.Delay(zktest.Match{Session: s.ID(), Skip: skip}, time.Second)
					l := opened(t, open, s, "/l", prior(5))
					synctest.Wait() // until it holds, or one request is all that moves
					had := l.Token()
					srv.Expire(s.ID())
					if had != 0 {
						<-l.Done()
						if err := l.Err(); !errors.Is(err, session.ErrExpired) && !errors.Is(err, lock.ErrNodeDeleted) {
							t.Errorf("request %d: %v", skip, err)
						}
					} else {
						kit.Await[lock.Acquired](t, l.Events())
					}
					l.Close()
					next, err := lock.TryAcquire(t.Context(), other, "/l", prior(-5))
					check.Must(t, err, "request", skip)
					next.Close()
					check.Len(t, remains(t, other, "/l"), 0, "request", skip)
				})
			}
		})
	}
}

// The holder is asked, once, and keeps the lock until it consents.
func TestPreempt(t *testing.T) {
	inRoom(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		low := standsAt(t, lock.New, all[0], "/l", &lock.Options{Layout: lock.Prioritized, Data: []byte("host-1")})
		mild := standsAt(t, lock.New, all[1], "/l", prior(3))
		equal := standsAt(t, lock.New, all[1], "/l", preempting(0, 0))
		check.False(t, isClosed(low.Revoked()), "asked by who may not ask")
		high := standsAt(t, lock.New, all[1], "/l", preempting(5, 0))
		higher := standsAt(t, lock.NewRead, all[2], "/l", preempting(6, 0))
		check.True(t, isClosed(low.Revoked()), "not asked")
		_, stat, err := all[1].Get(t.Context(), low.Node())
		check.True(t, err == nil && stat.Version == 1, "marked %d times, %v", stat.Version, err)
		if c, err := lock.Contenders(t.Context(), all[1], "/l", prior(0)); err != nil || !c[3].Revoked || string(c[3].Data) != "host-1" {
			t.Errorf("%+v, %v", c, err)
		}
		<-time.After(time.Hour)
		check.True(t, holds(low) && !holds(high), "asked by force")
		release(t, low)
		check.True(t, holds(higher) && !holds(high) && !isClosed(higher.Revoked()), "the highest was to be next")
		higher.Close()
		for _, l := range []*lock.Lock{high, mild, equal} {
			check.True(t, holds(l), "not next")
			l.Close()
		}
	})
}

// A holder that does not consent in time loses it, though it may not hear of that.
func TestPreemptByForce(t *testing.T) {
	const patience = 4 * time.Second
	for _, open := range []openFunc{lock.NewWrite, lock.NewRead} {
		for _, frozen := range []bool{false, true} {
			inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
				low := standsAt(t, open, all[0], "/l", prior(0))
				too := standsAt(t, open, all[0], "/l", prior(-1)) // waits, or shares
				kit.Ensure(t, all[1], "/work", nil)
				began := time.Now()
				if frozen {
					srv.Freeze(all[0].ID(), zktest.ToServer)
					srv.Freeze(all[0].ID(), zktest.ToClient)
				}
				high := opened(t, lock.NewWrite, all[1], "/l", preempting(1, patience))
				ev := kit.Await[lock.Acquired](t, high.Events())
				check.Within(t, time.Since(began), patience, patience+time.Second, "after")
				check.True(t, ev.Token > low.Token(), "token %d after %d", ev.Token, low.Token())
				check.Fails(all[1].Multi(t.Context(), low.Guard(), session.SetOp("/work", nil, session.AnyVersion)))(t, session.ErrNoNode) // guarded by what is lost
				if frozen {
					srv.Thaw(all[0].ID())
				}
				<-low.Done()
				// A frozen holder has not seen that it was asked.
				err := low.Err()
				check.False(t, !errors.Is(err, lock.ErrRevoked) && (!frozen || !errors.Is(err, lock.ErrNodeDeleted)), "%v", err)
				low.Close()
				too.Close()
				check.True(t, holds(high), "%v", high.Err())
				high.Close()
				check.Len(t, remains(t, all[1], "/l"), 0)
			})
		}
	}
}

// Revoke works with this layout, too.
func TestPriorityRevoke(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		for _, open := range []openFunc{lock.NewWrite, lock.NewRead} {
			low := standsAt(t, open, all[0], "/l", prior(0))
			next := standsAt(t, lock.New, all[1], "/l", prior(-1))
			srv.Freeze(all[0].ID(), zktest.ToServer)
			check.Must(t, lock.Revoke(t.Context(), all[1], "/l", &lock.RevokeOptions{Layout: lock.Prioritized, ForceAfter: time.Second}))
			check.True(t, holds(next), "not free")
			srv.Thaw(all[0].ID())
			<-low.Done()
			low.Close()
			next.Close()
		}
		check.Is(t, lock.RevokeNode(t.Context(), all[1], "/l/_c_x-write-0000000001", &lock.RevokeOptions{Layout: lock.Prioritized}), session.ErrInvalidArgument)
	})
}

// A writer that becomes a reader lets readers in, and no writer.
func TestPriorityDowngrade(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		l := standsAt(t, lock.NewWrite, all[0], "/l", prior(0))
		exclusive := standsAt(t, lock.New, all[1], "/l", prior(-9))
		writer := standsAt(t, lock.NewWrite, all[1], "/l", prior(0))
		reader := standsAt(t, lock.NewRead, all[1], "/l", prior(1))
		token := l.Token()
		check.Must(t, l.Downgrade(t.Context()))
		check.True(t, holds(l) && holds(reader) && !holds(writer) && l.Token() == token, "%v %v %v", holds(l), holds(reader), holds(writer))
		check.Is(t, l.Downgrade(t.Context()), lock.ErrNotWrite)
		check.Is(t, writer.Downgrade(t.Context()), lock.ErrNotHeld)
		_, err := all[0].Multi(t.Context(), l.Guard())
		check.OK(t, err)
		l.Close()
		reader.Close()
		check.True(t, holds(writer), "not next")
		writer.Close()
		synctest.Wait()
		check.Is(t, exclusive.Downgrade(t.Context()), lock.ErrNotWrite)
		exclusive.Close()
		check.Len(t, remains(t, all[0], "/l"), 0)
	})
}

// Whatever an operator deletes, its holder is told, and the next one proceeds.
func TestPriorityOperator(t *testing.T) {
	for _, open := range []openFunc{lock.NewWrite, lock.NewRead} {
		for _, claim := range []bool{false, true} {
			inRoom(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
				l := standsAt(t, open, all[0], "/l", prior(0))
				next := standsAt(t, lock.New, all[1], "/l", prior(0))
				node := l.Node()
				if _, name := znode.Split(node); claim {
					node = "/l/holder"
					if !slices.Contains(kit.Children(t, all[2], "/l"), "holder") {
						node = "/l/readers/" + name
					}
				}
				check.Must(t, all[2].Delete(t.Context(), node, session.AnyVersion))
				<-l.Done()
				check.Is(t, l.Err(), lock.ErrNodeDeleted)
				check.True(t, holds(next), "%s deleted: not next", node)
				l.Close()
				check.True(t, holds(next), "%s deleted: lost: %v", node, next.Err())
				// A waiter stands in line again.
				waiter := standsAt(t, lock.New, all[0], "/l", prior(3))
				line, err := lock.Contenders(t.Context(), all[2], "/l", prior(0))
				check.Require(t, err == nil && line[0].Priority == 3, "%v %v", line, err)
				check.Must(t, all[2].Delete(t.Context(), line[0].Node, session.AnyVersion))
				synctest.Wait()
				next.Close()
				check.True(t, holds(waiter), "a waiter is lost")
				// And all of it is deleted.
				kit.RemoveAll(t, all[2], "/l")
				<-waiter.Done()
				waiter.Close()
				again := standsAt(t, open, all[0], "/l", prior(0))
				check.True(t, holds(again), "never again")
				again.Close()
			})
		}
	}
}

// TestPriorityGuardOutlivesClaim: an operator deletes the claim of a holder that is cut off, which
// goes on relying on its guard. No other contender is granted the lock while that guard passes:
// neither one that has listed the line before the holder joined, nor one that ranks before the
// holder.
func TestPriorityGuardOutlivesClaim(t *testing.T) {
	const late = time.Second
	for _, row := range []struct {
		name       string
		open, next openFunc
		priority   int // of the next contender; the holder has 5
	}{
		{"a late writer after a writer", lock.NewWrite, lock.NewWrite, 0},
		{"a late reader after a writer", lock.NewWrite, lock.NewRead, 0},
		{"a late writer after a reader", lock.NewRead, lock.NewWrite, 0},
		{"a writer before a writer", lock.NewWrite, lock.NewWrite, 9},
		{"a reader before a writer", lock.NewWrite, lock.NewRead, 9},
		{"a writer before a reader", lock.NewRead, lock.NewWrite, 9},
	} {
		runInRoom(t, row.name, 3, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			standsAt(t, row.next, all[0], "/l", prior(0)).Close()
			standsAt(t, row.open, all[1], "/l", prior(5)).Close()
			join := func() *lock.Lock { return standsAt(t, row.next, all[0], "/l", prior(row.priority)) }
			var next *lock.Lock
			if row.priority == 0 {
				srv.Delay(zktest.Match{Session: all[0].ID(), Op: zktest.OpGetData, Path: "/l"}, late)
				next = join()
			}
			holder := standsAt(t, row.open, all[1], "/l", prior(5))
			check.Require(t, holds(holder), "it does not hold")
			srv.Freeze(all[1].ID(), zktest.Both)
			_, node := znode.Split(holder.Node())
			claim := "/l/readers/" + node
			if slices.Contains(kit.Children(t, all[2], "/l"), "holder") {
				claim = "/l/holder"
			}
			check.Must(t, all[2].Delete(t.Context(), claim, session.AnyVersion))
			if next == nil {
				next = join()
			}
			<-time.After(2 * late)
			_, err := all[2].Multi(t.Context(), holder.Guard())
			check.True(t, !holds(next) || err != nil, "two hold the lock, and both guards pass")
			srv.Thaw(all[1].ID())
			<-time.After(time.Minute)
			check.Is(t, holder.Err(), lock.ErrNodeDeleted)
			check.True(t, holds(next), "it is never granted")
		})
	}
}

// Whatever is written to the path, there are never two who hold.
func TestPriorityPathWritten(t *testing.T) {
	inRoom(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		write := func(path, data string) {
			t.Helper()
			check.Have(all[2].Set(t.Context(), path, []byte(data), session.AnyVersion))(t)
		}
		// Emptied: it is put right.
		l, next := standsAt(t, lock.NewWrite, all[0], "/a", prior(0)), standsAt(t, lock.New, all[1], "/a", prior(0))
		write("/a", "")
		check.OK(t, l.Downgrade(t.Context()))
		l.Close()
		check.True(t, holds(next), "%v", next.Err())
		write("/a", "")
		release(t, next)
		check.Len(t, remains(t, all[0], "/a"), 0)
		// Used for something else, or by another client, which does not care.
		for path, use := range map[string]func(){
			"/b": func() { write("/b", "mine") },
			"/c": func() {
				node := "/c/" + znode.GUIDName(znode.NewGUID(), "lock-")
				check.Have(all[2].Create(t.Context(), node, nil, session.EphemeralSequential))(t)
			},
		} {
			l, next := standsAt(t, lock.New, all[0], path, prior(0)), standsAt(t, lock.New, all[1], path, prior(0))
			use()
			check.True(t, holds(l), "%v", l.Err())
			release(t, l)
			<-next.Done()
			check.Is(t, next.Err(), lock.ErrLayout, path)
			next.Close()
			names := remains(t, all[0], path)
			check.False(t, slices.ContainsFunc(names, func(name string) bool { return !strings.Contains(name, "lock-") }), "%s: %q", path, names)
		}
	})
}

// Whatever happens to whatever request of one who preempts another, it gets the lock.
func TestPreemptFaults(t *testing.T) {
	t.Parallel()
	for _, force := range []time.Duration{0, 2 * time.Second} {
		t.Run(fmt.Sprint("force after ", force), func(t *testing.T) {
			kit.EachLoss(t, hasten.Sized(hasten.Usually(1, 2), 3), func(t *testing.T, skip int, lose func(*zktest.Server, int64) func()) {
				inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
					low := standsAt(t, lock.New, all[0], "/l", prior(0))
					defer lose(srv, all[1].ID())()
					high := opened(t, lock.New, all[1], "/l", preempting(1, force))
					if force == 0 {
						<-low.Revoked()
						low.Close()
					}
					kit.Await[lock.Acquired](t, high.Events())
					<-low.Done()
					err := low.Err()
					check.False(t, force > 0 && !errors.Is(err, lock.ErrRevoked), "request %d: %v", skip, err)
					release(t, high)
					<-time.After(3 * time.Second)
					check.Len(t, remains(t, all[0], "/l"), 0, "request", skip)
				})
			})
		})
	}
}

// A release wakes few, however many wait.
func TestPriorityWakes(t *testing.T) {
	const crowd = 30
	inRoom(t, crowd+1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		holder := standsAt(t, lock.New, all[crowd], "/l", prior(0))
		priorities := []int{0, 4, 1, 3, 2}
		var waiters []*lock.Lock
		for i, s := range all[:crowd] {
			waiters = append(waiters, standsAt(t, lock.New, s, "/l", prior(priorities[i%len(priorities)])))
		}
		lists, last := 0, holder
		for range crowd {
			srv.ResetRequests()
			last.Close()
			synctest.Wait()
			woken := srv.Requests()[zktest.OpGetChildren2] / 2 // the names, and the readers
			lists += woken
			check.AtMost(t, woken, 3, "a release wakes")
			i := slices.IndexFunc(waiters, holds)
			last = waiters[i]
			waiters = slices.Delete(waiters, i, i+1)
		}
		last.Close()
		check.AtMost(t, lists, 2*crowd, "lists for", crowd, "grants")
		t.Logf("%d lists for %d grants", lists, crowd)
	})
}

// What it costs.
func TestPriorityCost(t *testing.T) {
	inRoom(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		opened(t, lock.New, all[0], "/l", prior(0)).Close()
		for name, open := range map[string]openFunc{"writer": lock.NewWrite, "reader": lock.NewRead} {
			standsAt(t, open, all[0], "/l", prior(0)).Close()
			srv.ResetRequests()
			before := srv.Proposals()
			standsAt(t, open, all[0], "/l", prior(0)).Close()
			check.Equal(t, srv.Proposals()-before, 3, name, "writes", srv.Requests())
			// The path, the holder, and what stands for us are read once, or watched.
			want := zktest.Counts{zktest.OpCreate: 1, zktest.OpGetChildren2: 2, zktest.OpGetData: 4, zktest.OpMulti: 2}
			check.EqualMaps(t, kit.WithoutSyncs(srv.Requests()), want, name)
		}
	})
}

// TestPriorityRandomInMemory: also where followers lag behind what claims are decided on.
func TestPriorityRandomInMemory(t *testing.T) {
	t.Parallel()
	for _, lag := range []time.Duration{0, 3 * time.Millisecond} {
		kit.InBubble(t, lag, func(t *testing.T, c *kit.Stage) { randomPriorities(t, c, hasten.Sized(hasten.Usually(20, 6), 5)) })
	}
}

func TestRealPriorities(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	randomPriorities(t, kit.OnEnsemble(t, zktest.SharedEnsemble(t, 3)), often(20, 60))
}

// randomPriorities has contenders of all kinds, some of which preempt others, and counts
// who holds at a time.
func randomPriorities(t *testing.T, c *kit.Stage, rounds int) {
	t.Helper()
	const contenders, path = 9, "/random/l"
	ctx := check.Patient(t)
	var (
		wg               sync.WaitGroup
		writers, readers atomic.Int32
		mu               sync.Mutex
		last             int64 // token of a writer
		most, asked      int32
	)
	for i := range contenders {
		s := c.Open(t)
		r := rand.New(rand.NewPCG(3, uint64(i)))
		wg.Go(func() {
			for range rounds {
				opts := prior(r.IntN(5))
				opts.Preempt = r.IntN(3) == 0
				if r.IntN(5) == 0 {
					c.Disconnect(s.ID())
				}
				acquire, shared := lock.AcquireWrite, r.IntN(2) == 0
				if shared {
					acquire = lock.AcquireRead
				}
				l, err := acquire(ctx, s, path, opts)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				switch {
				case l.Token() <= last:
					t.Errorf("token %d after %d", l.Token(), last)
				case !shared:
					last = l.Token()
				}
				mu.Unlock()
				if shared {
					n := readers.Add(1)
					mu.Lock()
					most = max(most, n)
					mu.Unlock()
				} else if n := writers.Add(1); n != 1 || readers.Load() != 0 {
					t.Errorf("%d writers, %d readers", n, readers.Load())
				}
				if r.IntN(5) == 0 {
					c.Disconnect(s.ID())
				}
				_ = s.Sync(ctx, path) // so that others have time to come
				if isClosed(l.Revoked()) {
					atomic.AddInt32(&asked, 1)
				}
				if !shared && r.IntN(3) == 0 {
					writers.Add(-1)
					readers.Add(1)
					shared = true
					check.OK(t, l.Downgrade(ctx))
				}
				check.False(t, shared && writers.Load() != 0, "a reader beside a writer")
				if shared {
					readers.Add(-1)
				} else {
					writers.Add(-1)
				}
				check.OK(t, l.Release(ctx))
				l.Close()
			}
		})
	}
	wg.Wait()
	operator := c.OpenDirect(t)
	check.Len(t, remains(t, operator, path), 0)
	t.Logf("at most %d readers at a time; %d were asked to leave", most, asked)
}

// A contender that stands anew while holders that it has asked have time left asks
// again.
func TestPreemptFromAnotherPlace(t *testing.T) {
	const patience = 30 * time.Second
	for _, expire := range []bool{false, true} {
		inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			low := standsAt(t, lock.New, all[0], "/l", prior(0))
			high := standsAt(t, lock.New, all[1], "/l", preempting(1, patience))
			check.Require(t, isClosed(low.Revoked()), "not asked")
			<-time.After(patience / 2)
			if expire {
				srv.Expire(all[1].ID())
			} else {
				line, err := lock.Contenders(t.Context(), all[0], "/l", prior(0))
				if err != nil || len(line) != 2 || line[1].Holding && line[0].Holding {
					t.Fatalf("%+v, %v", line, err)
				}
				check.Must(t, all[0].Delete(t.Context(), line[0].Node, session.AnyVersion))
			}
			<-time.After(2 * patience)
			check.True(t, holds(high) && errors.Is(low.Err(), lock.ErrRevoked), "expired %v: nobody was forced: %v", expire, low.Err())
		})
	}
}

// A mark that was not written is written by the next attempt.
func TestPreemptBeforeExpiry(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpGetData, zktest.OpSetData} {
		inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			low := standsAt(t, lock.New, all[0], "/l", prior(0))
			srv.DropRequest(zktest.Match{Session: all[1].ID(), Op: op, Path: low.Node()})
			high := opened(t, lock.New, all[1], "/l", preempting(1, 0))
			synctest.Wait()
			check.Require(t, !isClosed(low.Revoked()), "asked in spite of that")
			srv.Expire(all[1].ID())
			<-time.After(time.Minute)
			check.True(t, isClosed(low.Revoked()), "%v: never asked", op)
			release(t, low)
			check.True(t, holds(high), "not next")
		})
	}
}
