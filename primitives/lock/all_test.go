package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// exclusively wants exclusive locks at the paths.
func exclusively(paths ...string) (all []lock.Want) {
	for _, path := range paths {
		all = append(all, lock.Want{Path: path})
	}
	return all
}

func acquireAll(t *testing.T, s *session.Session, paths ...string) *lock.All {
	t.Helper()
	return check.Open(lock.AcquireAll(t.Context(), s, exclusively(paths...), nil))(t)
}

// TestAllCost: locks that a session knows are acquired by one transaction and a watch each, and
// released by another.
func TestAllCost(t *testing.T) {
	inRoom(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		paths := []string{"/l/a", "/l/b", "/l/c"}
		acquireAll(t, all[0], paths...).Close()
		for range 3 {
			srv.ResetRequests()
			before := srv.Proposals()
			a := acquireAll(t, all[0], paths...)
			synctest.Wait()
			a.Close()
			check.EqualMaps(t, kit.WithoutSyncs(srv.Requests()), zktest.Counts{zktest.OpMulti: 2, zktest.OpGetData: 3})
			check.Equal(t, srv.Proposals()-before, 2, "proposals")
		}
	})
}

// TestAll follows one handle from the line to the loss of one of its locks.
func TestAll(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		single := mustAcquire(t, all[1], "/b")
		a := check.Open(lock.NewAll(all[0], []lock.Want{{Path: "/a", Kind: lock.Read}, {Path: "/b"}, {Path: "/c", Kind: lock.Write}}, nil))(t)
		events := a.Events()
		check.Equal(t, <-events, lock.Event(lock.Waiting{Ahead: 1}))
		synctest.Wait()
		if _, err := all[0].Multi(t.Context(), a.Guards()...); !errors.Is(err, lock.ErrNotHeld) || a.Token() != 0 || a.Nodes() != nil {
			t.Error("held before the grant:", a.Token(), a.Nodes(), err)
		}
		single.Close()
		acquired, _ := (<-events).(lock.Acquired)
		check.True(t, acquired.Token > single.Token() && acquired.Token == a.Token() && acquired.Node != "", "%v", acquired)
		nodes := a.Nodes()
		check.Len(t, nodes, 3)
		for _, node := range nodes {
			stat := check.Have(all[1].Exists(t.Context(), node))(t)
			check.Equal(t, stat.Czxid, a.Token(), node)
		}
		shared := check.Open(lock.TryAcquireRead(t.Context(), all[1], "/a", nil))(t)
		check.Fails(lock.TryAcquire(t.Context(), all[1], "/c", nil))(t, lock.ErrHeld)
		check.Have(all[0].Multi(t.Context(), append(a.Guards(), session.CreateOp("/d", nil, session.Persistent))...))(t)
		work, cancel := a.Context(t.Context())
		defer cancel()

		check.OK(t, all[1].Delete(t.Context(), nodes[1], session.AnyVersion))
		lost, _ := (<-events).(lock.Lost)
		check.Is(t, lost.Err, lock.ErrLost)
		check.Is(t, lost.Err, lock.ErrNodeDeleted)
		check.Is(t, a.Err(), lock.ErrNodeDeleted)
		check.True(t, strings.Contains(lost.Err.Error(), "/b") && strings.Contains(a.Err().Error(), "lock /a, /b, /c"), "%v; %v", lost.Err, a.Err())
		<-work.Done()
		check.Is(t, context.Cause(work), lock.ErrLost)
		_, err := all[0].Multi(t.Context(), a.Guards()...)
		check.Is(t, err, lock.ErrNotHeld)
		if ev, more := <-events; more {
			t.Error(ev, "after the end")
		}
		synctest.Wait()
		for _, path := range []string{"/b", "/c"} {
			check.Len(t, kit.Children(t, all[1], path), 0, path)
		}
		shared.Close()
	})
}

// TestAllSuspended: a lost connection suspends all locks at once, and so they resume.
func TestAllSuspended(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		g := w.OpenGated(session.Options{})
		a := check.Open(lock.NewAll(g.Session, exclusively("/a", "/b", "/c"), nil))(w)
		events := a.Events()
		acquired := <-events
		for range 2 {
			g.Cut()
			g.Mend()
			suspended, is := (<-events).(lock.Suspended)
			check.True(w, is && suspended.Deadline.After(time.Now()), "%v after %v", suspended, acquired)
			check.Equal(w, <-events, lock.Event(lock.Resumed{}))
			synctest.Wait()
			check.None(w, events)
		}
	})
}

// TestAllInAnyOrder: whatever paths callers name, and in whatever order, all get on, and no lock is
// held by two.
func TestAllInAnyOrder(t *testing.T) {
	const callers, rounds, paths = 10, 20, 5
	inRoom(t, callers, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		var mu sync.Mutex
		holders := map[string]int{}
		var group sync.WaitGroup
		for n, s := range all {
			group.Go(func() {
				r := rand.New(rand.NewPCG(1, uint64(n)))
				for range rounds {
					var mine []string
					for _, i := range r.Perm(paths)[:1+r.IntN(3)] {
						mine = append(mine, fmt.Sprintf("/l/%d", i))
					}
					a, err := lock.AcquireAll(t.Context(), s, exclusively(mine...), nil)
					check.Must(t, err)
					change := func(by int) {
						mu.Lock()
						defer mu.Unlock()
						for _, path := range mine {
							holders[path] += by
							check.True(t, holders[path] <= 1, "%d hold %s", holders[path], path)
						}
					}
					change(1)
					<-time.After(time.Duration(r.IntN(20)) * time.Millisecond)
					change(-1)
					a.Close()
				}
			})
		}
		group.Wait()
	})
}

// TestAllBesideNested: a client that holds one lock and waits for another, for which a contender
// for both waits too, waits until its context ends. The documentation warns of that.
func TestAllBesideNested(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		first := mustAcquire(t, all[1], "/a")
		a := check.Open(lock.NewAll(all[0], exclusively("/b", "/a"), nil))(t)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		check.Fails(lock.Acquire(ctx, all[1], "/b", nil))(t, context.DeadlineExceeded)
		first.Close()
		synctest.Wait()
		check.True(t, a.Token() != 0, "it waits for nobody, and does not hold")
	})
}

// TestAllTry: a call that does not wait leaves no node in any line.
func TestAllTry(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		single := mustAcquire(t, all[1], "/b")
		check.Fails(lock.TryAcquireAll(t.Context(), all[0], exclusively("/a", "/b"), nil))(t, lock.ErrHeld)
		check.Len(t, kit.Children(t, all[1], "/a"), 0)
		check.Len(t, kit.Children(t, all[1], "/b"), 1)
		single.Close()
		check.Have(lock.TryAcquireAll(t.Context(), all[0], exclusively("/a", "/b"), nil))(t).Close()
	})
}

// TestAllGivesUp: the error of a wait names the contender ahead, and no node stays.
func TestAllGivesUp(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		single := check.Open(lock.Acquire(t.Context(), all[1], "/b", &lock.Options{Data: []byte("the other")}))(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := lock.AcquireAll(ctx, all[0], exclusively("/a", "/b", "/c", "/d", "/e"), nil)
		check.Is(t, err, context.DeadlineExceeded)
		check.True(t, strings.Contains(fmt.Sprint(err), "lock /a, /b, /c and 2 more: ") && strings.Contains(fmt.Sprint(err), "held by the other"), "%v", err)
		synctest.Wait()
		check.Len(t, kit.Children(t, all[1], "/a"), 0)
		single.Close()
	})
}

// TestAllAskedFor: a request for one of the locks is a request for all, and force names the path.
func TestAllAskedFor(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		a := acquireAll(t, all[0], "/a", "/b")
		check.OK(t, lock.Revoke(t.Context(), all[1], "/b", &lock.RevokeOptions{ForceAfter: time.Minute}))
		<-a.Revoked()
		<-a.Done()
		check.Is(t, a.Err(), lock.ErrRevoked)
		check.True(t, strings.Contains(a.Err().Error(), "/b: "), "%v", a.Err())
	})
}

// TestAllInBackground: with the option a release does not wait for the servers. The servers receive
// the withdrawal all the same.
func TestAllInBackground(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		a := check.Have(lock.AcquireAll(t.Context(), all[0], exclusively("/a", "/b"), &lock.Options{ReleaseInBackground: true}))(t)
		srv.Freeze(all[0].ID(), zktest.ToServer)
		a.Close()
		check.Len(t, kit.Children(t, all[1], "/a"), 1)
		srv.Thaw(all[0].ID())
		synctest.Wait()
		for _, path := range []string{"/a", "/b"} {
			check.Len(t, kit.Children(t, all[1], path), 0, path)
		}
	})
}

// TestAllOnKeeper: where the server has no containers, the paths go after the last release, even if
// another session has made them.
func TestAllOnKeeper(t *testing.T) {
	kit.Run(t, zktest.Config{Profile: zktest.Keeper}, func(w kit.World) {
		maker, s := w.Open(session.Options{}), w.Open(session.Options{})
		first := mustAcquire(w.T, maker, "/a")
		second := mustAcquire(w.T, maker, "/b")
		a := check.Open(lock.NewAll(s, exclusively("/a", "/b"), nil))(w)
		synctest.Wait()
		first.Close()
		second.Close()
		maker.Close()
		<-time.After(time.Second)
		check.True(w, a.Token() != 0, "it does not hold")
		a.Close()
		kit.Pass(2 * time.Hour)
		check.Len(w, w.Paths(), 0)
	})
}

// TestAllReentered: in the context of a grant, a call that would wait for that grant is refused.
func TestAllReentered(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		s := all[0]
		check.OK(t, lock.DoAll(t.Context(), s, []lock.Want{{Path: "/a"}, {Path: "/r", Kind: lock.Read}}, nil, func(ctx context.Context, token int64) error {
			check.True(t, token != 0, "no token")
			check.Fails(lock.Acquire(ctx, s, "/a", nil))(t, lock.ErrReentered)
			check.Fails(lock.AcquireWrite(ctx, s, "/r", nil))(t, lock.ErrUpgrade)
			check.Fails(lock.AcquireAll(ctx, s, exclusively("/b", "/a"), nil))(t, lock.ErrReentered)
			check.Fails(lock.TryAcquireAll(ctx, s, exclusively("/b", "/a"), nil))(t, lock.ErrHeld)
			check.Have(lock.AcquireAll(ctx, s, []lock.Want{{Path: "/b"}, {Path: "/r", Kind: lock.Read}}, nil))(t).Close()
			writer := check.Open(lock.NewWrite(all[1], "/r", nil))(t)
			synctest.Wait()
			check.Fails(lock.AcquireAll(ctx, s, []lock.Want{{Path: "/r", Kind: lock.Read}, {Path: "/b"}}, nil))(t, lock.ErrReentered)
			writer.Close()
			return nil
		}))
		failed := errors.New("failed")
		check.Is(t, lock.DoAll(t.Context(), s, exclusively("/a", "/b"), nil, func(context.Context, int64) error { return failed }), failed)
		check.Len(t, kit.Children(t, all[1], "/a"), 0)
	})
}

// TestAllMany: hundreds of locks are one transaction. Where one request is too small for all, the
// error says so before any is sent.
func TestAllMany(t *testing.T) {
	inRoom(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		many := func(n int) (paths []string) {
			for i := range n {
				paths = append(paths, fmt.Sprintf("/l/%d", i))
			}
			return paths
		}
		a := acquireAll(t, all[0], many(500)...)
		check.Len(t, a.Guards(), 500)
		check.Have(all[0].Multi(t.Context(), a.Guards()...))(t)
		check.Equal(t, fmt.Sprint(a), "500 locks from /l/0 on")
		synctest.Wait()
		srv.ResetRequests()
		a.Close()
		check.EqualMaps(t, kit.WithoutSyncs(srv.Requests()), zktest.Counts{zktest.OpMulti: 1})
		srv.ResetRequests()
		_, err := lock.NewAll(all[0], exclusively(many(20_000)...), nil)
		check.Is(t, err, session.ErrTooLarge)
		check.True(t, strings.HasPrefix(fmt.Sprint(err), "lock: wants: 20000 locks in one request: "), "%v", err)
		check.EqualMaps(t, kit.WithoutSyncs(srv.Requests()), zktest.Counts{})
	})
}

// TestAllRefuses bad arguments, each by its name.
func TestAllRefuses(t *testing.T) {
	inRoom(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		for _, bad := range []struct {
			wants []lock.Want
			opts  *lock.Options
			want  error
			names string
		}{
			{nil, nil, session.ErrInvalidArgument, "wants: "},
			{exclusively("/a", "b"), nil, session.ErrInvalidPath, "wants[1].Path: "},
			{exclusively("/a", "/b", "/a"), nil, session.ErrInvalidArgument, "wants[2].Path: "},
			{[]lock.Want{{Path: "/a", Kind: 7}}, nil, session.ErrInvalidArgument, "wants[0].Kind: "},
			{[]lock.Want{{Path: "/a", Kind: -1}}, nil, session.ErrInvalidArgument, "wants[0].Kind: "},
			{exclusively("/a"), &lock.Options{Layout: lock.Prioritized}, session.ErrInvalidArgument, "Options.Layout: "},
			{exclusively("/a"), &lock.Options{Layout: 9}, session.ErrInvalidArgument, "Options.Layout: "},
			{exclusively("/a"), &lock.Options{Priority: 1}, session.ErrInvalidArgument, "Options.Priority: "},
		} {
			_, err := lock.NewAll(all[0], bad.wants, bad.opts)
			check.Is(t, err, bad.want)
			check.True(t, strings.HasPrefix(fmt.Sprint(err), "lock: "+bad.names), "%v", err)
		}
		check.Fails(lock.NewAll(nil, exclusively("/a"), nil))(t, session.ErrInvalidArgument)
		check.Fails(lock.AcquireAll(nil, all[0], exclusively("/a"), nil))(t, session.ErrInvalidArgument) //nolint:staticcheck // as bad callers do
		check.Fails(lock.AcquireAll(t.Context(), all[0], nil, nil))(t, session.ErrInvalidArgument)
		check.Is(t, lock.DoAll(t.Context(), all[0], exclusively("/a"), nil, nil), session.ErrInvalidArgument)
		check.Have(all[0].Create(t.Context(), "/elsewhere", nil, session.Persistent))(t)
		check.Have(all[0].Create(t.Context(), "/elsewhere/-__READ__0000000001", nil, session.Persistent))(t)
		check.Fails(lock.AcquireAll(t.Context(), all[0], exclusively("/a", "/elsewhere"), nil))(t, lock.ErrLayout)
		synctest.Wait()
		check.Len(t, kit.Children(t, all[0], "/a"), 0)
	})
}

// TestAllReaped: locks whose empty parents the servers have removed cost few transactions.
func TestAllReaped(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		var paths []string
		for i := range 200 {
			paths = append(paths, fmt.Sprintf("/l/%d", i))
		}
		acquireAll(t, all[0], paths...).Close()
		synctest.Wait()
		for _, p := range paths {
			check.OK(t, all[1].Delete(t.Context(), p, session.AnyVersion))
		}
		srv.ResetRequests()
		a := acquireAll(t, all[0], paths...)
		synctest.Wait()
		check.True(t, srv.Requests()[zktest.OpMulti] <= 3, "%v", srv.Requests())
		a.Close()
	})
}
