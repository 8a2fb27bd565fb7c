package lock_test

import (
	"context"
	"fmt"
	"os"
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

// mutexOf returns a mutex for /m.
func mutexOf(t *testing.T, open func(*session.Session, string, *lock.Options) (*lock.Mutex, error), s *session.Session) *lock.Mutex {
	t.Helper()
	return check.Have(open(s, "/m", nil))(t)
}

// wants fails the test unless the error is one of those.
func wants(t *testing.T, err error, sentinels ...error) {
	t.Helper()
	for _, sentinel := range sentinels {
		check.Is(t, err, sentinel)
	}
}

// isOver reports whether the channel is closed.
// TestMutexExcludes has the goroutines of two processes count without another protection than the
// mutex: the race detector watches those of each.
func TestMutexExcludes(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		const each, rounds = 4, 10
		var inside sync.Mutex // is free whenever a holder tries it
		var workers sync.WaitGroup
		sums := make([]int, len(all))
		for i, s := range all {
			m := mutexOf(t, lock.NewMutex, s)
			for range each {
				workers.Go(func() {
					for range rounds {
						if err := m.Lock(t.Context()); err != nil {
							t.Error(err)
							return
						}
						if !inside.TryLock() {
							t.Error("two hold it")
							return
						}
						inside.Unlock()
						sums[i]++
						check.OK(t, m.Unlock(t.Context()))
					}
				})
			}
		}
		workers.Wait()
		for _, sum := range sums {
			check.Equal(t, sum, each*rounds, sums)
		}
		check.Len(t, kit.Children(t, all[0], "/m"), 0, "left behind")
	})
}

// TestMutexStates: what the accessors say while the mutex is unlocked, held, and unlocked again.
func TestMutexStates(t *testing.T) {
	inRoom(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		ctx, s := t.Context(), all[0]
		m := mutexOf(t, lock.NewMutex, s)
		free := func() {
			t.Helper()
			if !isClosed(m.Done()) || m.Err() != nil || m.Token() != 0 || m.Node() != "" || m.String() != "mutex /m" || fmt.Sprintf("%+v", m) != "mutex /m" {
				t.Error(m.Err(), m.Token(), m.Node(), m)
			}
			work, end := m.Context(ctx)
			defer end()
			wants(t, context.Cause(work), lock.ErrNotHeld)
			_, err := s.Multi(ctx, m.Guard(), session.CreateOp("/free", nil, session.Persistent))
			wants(t, err, lock.ErrNotHeld)
			wants(t, m.Unlock(ctx), lock.ErrNotHeld)
		}
		free()
		check.Must(t, m.Lock(ctx))
		work, end := m.Context(ctx)
		defer end()
		check.Have(s.Multi(ctx, m.Guard(), session.CreateOp("/held", nil, session.Persistent)))(t)
		check.True(t, !isClosed(m.Done()) && m.Token() != 0 && strings.HasPrefix(m.Node(), "/m/"), "%v %v", m.Token(), m.Node())
		done, before := m.Done(), m.Token()
		check.Must(t, m.Unlock(ctx))
		wants(t, context.Cause(work), lock.ErrReleased)
		check.True(t, isClosed(done), "done is open after Unlock")
		free()
		check.Must(t, m.TryLock(ctx))
		check.True(t, m.Token() > before, "the token did not grow: %v %v", before, m.Token())
		wants(t, m.TryLock(ctx), lock.ErrHeld)
		check.Must(t, m.Unlock(ctx))
	})
}

// TestMutexWaitEnds: a Lock whose context ends leaves nothing behind, wherever it waits.
func TestMutexWaitEnds(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		mine, theirs := mutexOf(t, lock.NewMutex, all[0]), mutexOf(t, lock.NewMutex, all[1])
		check.Must(t, mine.Lock(t.Context()))
		for _, m := range []*lock.Mutex{mine, theirs} { // in this process, and in line
			ctx, end := context.WithTimeout(t.Context(), time.Second)
			wants(t, m.Lock(ctx), context.DeadlineExceeded)
			end()
		}
		wants(t, theirs.TryLock(t.Context()), lock.ErrHeld)
		synctest.Wait()
		check.Len(t, kit.Children(t, all[0], "/m"), 1)
		check.Must(t, mine.Unlock(t.Context()))
		check.Must(t, theirs.Lock(t.Context()))
		ended, end := context.WithCancel(t.Context())
		end()
		if err := theirs.Unlock(ended); err != nil { // the release may have been confirmed
			wants(t, err, context.Canceled)
		}
		check.Must(t, mine.Lock(t.Context()))
		check.Must(t, mine.Unlock(t.Context()))
	})
}

// TestMutexLost: the loss is told, Unlock says so, and the mutex can be locked again.
func TestMutexLost(t *testing.T) {
	inRoom(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		ctx, s := t.Context(), all[0]
		m := mutexOf(t, lock.NewMutex, s)
		for _, lose := range []func(){
			func() { check.Must(t, s.Delete(ctx, m.Node(), session.AnyVersion)) },
			func() { srv.Expire(s.ID()) },
		} {
			check.Must(t, m.Lock(ctx))
			work, end := m.Context(ctx)
			lose()
			<-m.Done()
			wants(t, m.Err(), lock.ErrLost)
			wants(t, context.Cause(work), lock.ErrLost)
			wants(t, m.TryLock(ctx), lock.ErrHeld) // it was not unlocked
			wants(t, m.Unlock(ctx), lock.ErrLost)
			wants(t, m.Unlock(ctx), lock.ErrNotHeld)
			end()
		}
		check.Must(t, m.Lock(ctx))
		check.Must(t, m.Unlock(ctx))
	})
}

// A hooked context calls ended when one that was derived from it ends, and once before.
type hooked struct {
	context.Context //nolint:containedctx // it is one
	ended           func()
}

func (h hooked) Value(any) any {
	h.ended()
	return nil
}

// TestContextsEndFirst: when Done is closed, the contexts of the lock have ended, whether it is
// lost or released.
func TestContextsEndFirst(t *testing.T) {
	inRoom(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		for name, end := range map[string]func(*lock.Lock){
			"released": func(l *lock.Lock) { check.Must(t, l.Release(t.Context())) },
			"lost":     func(*lock.Lock) { srv.Expire(all[0].ID()) },
		} {
			l := check.Have(lock.Acquire(t.Context(), all[0], "/m", nil))(t)
			ends := 0
			work, cancel := l.Context(hooked{t.Context(), func() {
				check.True(t, !isClosed(l.Done()), "%s: done is closed before a context has ended", name)
				ends++
			}})
			end(l)
			<-l.Done()
			check.True(t, work.Err() != nil, "%s: done is closed, and a context has not ended", name)
			check.True(t, ends > 1, "%s: the context ended unseen", name)
			cancel()
		}
	})
}

// TestAcquiredIsKept: a reader that comes late is told of the grant, and that another client asks
// for the lock, whatever came after that.
func TestAcquiredIsKept(t *testing.T) {
	inRoom(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		l := check.Have(lock.Acquire(t.Context(), all[0], "/m", nil))(t)
		for range 2 {
			srv.Disconnect(0)
			<-time.After(time.Second)
			check.Must(t, lock.Revoke(t.Context(), all[0], "/m", nil))
			<-l.Revoked()
			srv.Disconnect(0)
			<-time.After(time.Second)
		}
		events := l.Events()
		check.Equal(t, fmt.Sprintf("%T", <-events), "lock.Acquired")
		check.Equal(t, fmt.Sprintf("%T", <-events), "lock.Revoked")
		l.Close()
		check.Equal(t, fmt.Sprintf("%T", <-events), "lock.Released")
	})
}

// TestMutexAfterItsContext: within a context that has ended not even a reentrant mutex is locked
// again.
func TestMutexAfterItsContext(t *testing.T) {
	inRoom(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		m := mutexOf(t, lock.NewReentrantMutex, all[0])
		check.Must(t, m.Lock(t.Context()))
		work, end := m.Context(t.Context())
		end()
		wants(t, m.Lock(work), context.Canceled)
		wants(t, m.TryLock(work), context.Canceled)
		check.Must(t, m.Unlock(t.Context()))
		wants(t, m.Unlock(t.Context()), lock.ErrNotHeld)
	})
}

// TestMutexReentered: only a reentrant mutex is locked again within its own context.
func TestMutexReentered(t *testing.T) {
	inRoom(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		s, ctx := all[0], t.Context()
		plain := mutexOf(t, lock.NewMutex, s)
		check.Must(t, plain.Lock(ctx))
		work, end := plain.Context(ctx)
		wants(t, plain.Lock(work), lock.ErrReentered)
		wants(t, plain.TryLock(work), lock.ErrHeld)
		end()
		check.Must(t, plain.Unlock(ctx))

		m := mutexOf(t, lock.NewReentrantMutex, s)
		check.Must(t, m.Lock(ctx))
		work, end = m.Context(ctx)
		defer end()
		token := m.Token()
		check.Must(t, m.Lock(work))
		check.Must(t, m.TryLock(work))
		wants(t, m.TryLock(ctx), lock.ErrHeld) // it is no context of the holder
		_, err := lock.Acquire(work, s, "/m", nil)
		wants(t, err, lock.ErrReentered)
		other := mutexOf(t, lock.NewReentrantMutex, s)
		wants(t, other.Lock(work), lock.ErrReentered) // nor is it its own
		for range 2 {
			check.Must(t, m.Unlock(ctx))
			check.True(t, m.Token() == token && !isClosed(m.Done()), "released before the last Unlock")
		}
		check.Must(t, m.Unlock(ctx))
		wants(t, context.Cause(work), lock.ErrReleased)
		wants(t, m.Lock(work), lock.ErrReleased)

		check.Must(t, m.Lock(ctx))
		work, end = m.Context(ctx)
		defer end()
		check.Must(t, m.Lock(work))
		check.Must(t, s.Delete(ctx, m.Node(), session.AnyVersion))
		<-m.Done()
		wants(t, m.Unlock(ctx), lock.ErrLost)
		wants(t, m.Unlock(ctx), lock.ErrLost)
		wants(t, m.Unlock(ctx), lock.ErrNotHeld)
	})
}

// TestIdentity: a contender says by default which process it is, in every layout.
func TestIdentity(t *testing.T) {
	host := check.Have(os.Hostname())(t)
	process := fmt.Sprintf("%s:%d", host, os.Getpid())
	inRoom(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		for layout := lock.Standard; layout <= lock.Prioritized; layout++ {
			for want, given := range map[string][]byte{process: nil, "": {}, "me": []byte("me")} {
				path := fmt.Sprintf("/%v-%d", layout, len(want))
				opts := &lock.Options{Data: given, Layout: layout}
				l := standsAt(t, lock.New, all[0], path, opts)
				got := func() string {
					line, err := lock.Contenders(t.Context(), all[1], path, opts)
					check.Require(t, err == nil && len(line) == 1, "%v %v", err, line)
					return string(line[0].Data)
				}
				check.Equal(t, got(), want, layout)
				check.Must(t, lock.Revoke(t.Context(), all[1], path, &lock.RevokeOptions{Layout: layout}))
				<-l.Revoked()
				if layout == lock.Curator { // its mark replaces the data
					want = ""
				}
				check.Equal(t, got(), want, layout, "revoked")
				l.Close()
			}
		}
	})
}

// TestBlocker: the error of a wait that ended names the contender that was waited for, and costs no
// request.
func TestBlocker(t *testing.T) {
	inRoom(t, 3, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		var holder *lock.Lock
		waits := func() string {
			ctx, end := context.WithTimeout(t.Context(), 12*time.Second)
			defer end()
			before := srv.RequestsOf(all[2].ID())
			_, err := lock.Acquire(ctx, all[2], "/l", nil)
			wants(t, err, context.DeadlineExceeded)
			synctest.Wait()
			after := kit.WithoutSyncs(srv.RequestsOf(all[2].ID()))
			for op := range after {
				after[op] -= before[op]
			}
			for _, op := range []zktest.Op{zktest.OpExists, zktest.OpGetChildren2} {
				check.AtMost(t, after[op], 1, after)
			}
			return strings.TrimPrefix(err.Error(), "acquire lock /l: context deadline exceeded: ")
		}
		for data, want := range map[string]string{
			"host-1:7": "held by host-1:7, in line since 12s",
			"a\nb":     `held by "a\nb", in line since 12s`,
		} {
			holder = standsAt(t, lock.New, all[0], "/l", &lock.Options{Data: []byte(data)})
			check.Equal(t, waits(), want)
			check.Must(t, lock.Revoke(t.Context(), all[1], "/l", nil))
			if got, want := waits(), strings.Replace(want, "12s", "24s", 1); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			holder.Close()
		}
		holder = standsAt(t, lock.New, all[0], "/l", &lock.Options{Data: []byte{}})
		if got, want := waits(), "held by "+holder.Node()[len("/l/"):]+", in line since 12s"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		holder.Close()

		reader, writer := standsAt(t, lock.NewRead, all[0], "/rw", nil), standsAt(t, lock.NewWrite, all[1], "/rw", &lock.Options{Data: []byte("writer")})
		ctx, end := context.WithTimeout(t.Context(), 12*time.Second)
		defer end()
		_, err := lock.AcquireRead(ctx, all[2], "/rw", nil)
		if want := "acquire lock /rw: context deadline exceeded: waits behind writer, in line since 12s"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		writer.Close()
		reader.Close()

		srv.Disconnect(all[2].ID())
		srv.Refuse(true)
		ctx, end = context.WithTimeout(t.Context(), time.Second)
		defer end()
		_, err = lock.Acquire(ctx, all[2], "/l", nil)
		check.True(t, err != nil && strings.HasPrefix(err.Error(), "acquire lock /l: context deadline exceeded (not connected: "+srv.Addrs()[0]+": "), "%v", err)
		srv.Refuse(false)
	})
}

// TestZeroMutex: a Mutex that was not created by NewMutex is refused, and not waited for.
func TestZeroMutex(t *testing.T) {
	var m lock.Mutex
	check.Is(t, m.Lock(t.Context()), session.ErrInvalidArgument)
	check.Is(t, m.TryLock(t.Context()), session.ErrInvalidArgument)
	check.Is(t, m.Unlock(t.Context()), lock.ErrNotHeld)
}
