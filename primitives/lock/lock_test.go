package lock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// This file keeps what once went wrong.

// inBubble runs f with two sessions on a server in memory, in a bubble.
func inBubble(t *testing.T, opts session.Options, f func(t *testing.T, srv *zktest.Server, a, b *session.Session)) {
	t.Helper()
	kit.Sessions(t, zktest.Config{}, 2, opts, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		f(t, srv, all[0], all[1])
	})
}

func mustAcquire(t *testing.T, s *session.Session, path string) *lock.Lock {
	t.Helper()
	return check.Open(lock.Acquire(t.Context(), s, path, nil))(t)
}

// TestHolderIsToldAfterThrottling: the read after a change of the holder's node fails, and
// then the node is deleted.
func TestHolderIsToldAfterThrottling(t *testing.T) {
	inBubble(t, session.Options{}, func(t *testing.T, srv *zktest.Server, a, b *session.Session) {
		held := mustAcquire(t, a, "/l")
		synctest.Wait() // until its node is watched
		const throttled = -127
		srv.AnswerError(zktest.Match{Op: zktest.OpGetData, Session: a.ID()}, throttled)
		check.Have(b.Set(t.Context(), held.Node(), []byte("x"), session.AnyVersion))(t)
		check.Must(t, b.Delete(t.Context(), held.Node(), session.AnyVersion))
		<-held.Done()
		check.Is(t, held.Err(), lock.ErrNodeDeleted)
	})
}

// TestForeignParent: every create by the published recipe that fails.
func TestForeignParent(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Server){
		"lost reply":   func(srv *zktest.Server) { srv.DropReply(zktest.Match{Op: zktest.OpCreate}) },
		"lost request": func(srv *zktest.Server) { srv.DropRequest(zktest.Match{Op: zktest.OpCreate}) },
		"throttled":    func(srv *zktest.Server) { srv.AnswerError(zktest.Match{Op: zktest.OpCreate}, -101) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, session.Options{}, func(t *testing.T, srv *zktest.Server, a, b *session.Session) {
				check.Have(b.Create(t.Context(), "/l", []byte("data"), session.Persistent))(t)
				fault(srv)
				held := mustAcquire(t, a, "/l")
				check.Reads(b.Get(t.Context(), "/l"))(t, "data", "the data of the path")
				held.Close()
				names, _, err := b.Children(t.Context(), "/l")
				check.True(t, err == nil && len(names) == 0, "%q are left, %v", names, err)
			})
		})
	}
}

// TestAccessorsInAnswers: they are called where the session tells its answers.
func TestAccessorsInAnswers(t *testing.T) {
	inBubble(t, session.Options{}, func(t *testing.T, _ *zktest.Server, a, _ *session.Session) {
		for range 300 {
			l := check.Have(lock.New(a, "/l", nil))(t)
			answered := make(chan struct{}, 20)
			for range cap(answered) {
				a.Async(0).Exists("/", func(*session.Stat, error) {
					_, _, _, _ = l.Token(), l.Node(), l.Err(), l.Guard()
					_, end := l.Context(t.Context())
					end()
					answered <- struct{}{}
				})
			}
			l.Close()
			for range cap(answered) {
				<-answered
			}
		}
	})
}

// TestCloseWithoutPermissionToDelete: Close is bounded, and the janitor goes on.
func TestCloseWithoutPermissionToDelete(t *testing.T) {
	acl := []session.ACL{{Perms: session.PermRead | session.PermWrite | session.PermCreate, Scheme: "world", ID: "anyone"}}
	inBubble(t, session.Options{ACL: acl, Timeout: 6 * time.Second}, func(t *testing.T, _ *zktest.Server, a, _ *session.Session) {
		held := mustAcquire(t, a, "/l")
		begun := time.Now()
		held.Close()
		check.AtMost(t, time.Since(begun), 12*time.Second, "Close took")
	})
}

// TestDataAtTheLimit: what New accepts can be sent.
func TestDataAtTheLimit(t *testing.T) {
	inBubble(t, session.Options{MaxRequest: 8 << 10}, func(t *testing.T, _ *zktest.Server, a, _ *session.Session) {
		refused := 0
		for n := 6 << 10; n < 9<<10; n += 10 {
			l, err := lock.New(a, "/l", &lock.Options{Data: make([]byte, n)})
			if err != nil {
				check.Require(t, errors.Is(err, session.ErrTooLarge), "%v", err)
				refused++
				continue
			}
			for ev := range l.Events() {
				if _, ok := ev.(lock.Acquired); ok {
					break
				}
				if lost, ok := ev.(lock.Lost); ok {
					t.Fatalf("%d bytes: %v", n, lost.Err)
				}
			}
			l.Close()
		}
		check.True(t, refused != 0, "everything is accepted")
	})
}

// A server that lags knows the former holder only. Revoke asks the present one.
func TestRevokeBehindALaggingReplica(t *testing.T) {
	withSessions(t, 3, zktest.Config{Replicas: 2, Lag: 500 * time.Millisecond, Latency: time.Millisecond}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		first := acquire(t, all[0], "/l")
		second := join(t, all[2], "/l", nil)
		<-time.After(5 * time.Second) // every server knows that
		release(t, first)
		kit.Await[lock.Acquired](t, second.Events())
		check.OK(t, lock.Revoke(t.Context(), all[1], "/l", nil))
		<-second.Revoked()
	})
}

// A server that lags knows no holder. Revoke asks the one that there is.
func TestRevokeBehindAReplicaThatKnowsNoHolder(t *testing.T) {
	kit.Run(t, zktest.Config{Replicas: 2, Lag: 500 * time.Millisecond, Latency: time.Millisecond}, func(w kit.World) {
		s, operator := w.OpenAt(0, session.Options{}), w.OpenAt(1, session.Options{})
		l := acquire(w, s, "/l")
		check.Must(w, lock.Revoke(w.Context(), operator, "/l", nil))
		<-l.Revoked()
	})
}

// The lock is handed over between the list of the holders and the request to the one found.
func TestRevokeDuringAHandOver(t *testing.T) {
	inRoom(t, 3, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		first := standsAt(t, lock.New, all[0], "/l", nil)
		second := standsAt(t, lock.New, all[1], "/l", nil)
		srv.Delay(zktest.Match{Session: all[2].ID(), Op: zktest.OpSetData}, time.Second)
		var revoked error
		var wg sync.WaitGroup
		wg.Go(func() { revoked = lock.Revoke(t.Context(), all[2], "/l", nil) })
		synctest.Wait()
		release(t, first)
		wg.Wait()
		synctest.Wait()
		check.True(t, revoked == nil && isClosed(second.Revoked()), "the present holder was asked: %v; %v", isClosed(second.Revoked()), revoked)
		release(t, second)
		check.Is(t, lock.Revoke(t.Context(), all[2], "/l", nil), lock.ErrNotHeld) // nobody holds it
	})
}

// A contender that does not wait has no holder asked to leave.
func TestTryAcquireDoesNotPreempt(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		low := standsAt(t, lock.New, all[0], "/l", prior(0))
		check.Fails(lock.TryAcquire(t.Context(), all[1], "/l", preempting(5, time.Minute)))(t, lock.ErrHeld)
		<-time.After(time.Hour)
		check.True(t, !isClosed(low.Revoked()) && !isClosed(low.Done()), "the holder was asked to leave: %v", low.Err())
	})
}

// To hear of the end of a node needs no permission to read it, and no room for its data.
func TestUnreadableNeighbour(t *testing.T) {
	for name, theirs := range map[string]session.Options{
		"ACL":  {ACL: session.CreatorAll(), Auth: []session.Auth{{Scheme: "digest", Secret: []byte("a:a")}}},
		"size": {MaxRequest: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Run(t, zktest.Config{}, func(w kit.World) {
				t := w.T
				a, b := w.Open(theirs), w.Open(session.Options{MaxReply: 512 << 10})
				kit.Ensure(t, b, "/l", nil)
				var waiters []*lock.Lock
				for i, s := range []*session.Session{a, a, b, b} {
					opts := &lock.Options{}
					if name == "size" && s == a {
						opts.Data = bytes.Repeat([]byte("x"), 700_000)
					}
					waiters = append(waiters, standsAt(t, lock.New, s, "/l", opts))
					if i > 1 && isClosed(waiters[i].Done()) {
						t.Fatalf("a neighbour of what cannot be read: %v", waiters[i].Err())
					}
				}
				for i, l := range waiters {
					check.True(t, holds(l), "%d does not hold: %v", i, l.Err())
					release(t, l)
				}
			})
		})
	}
}

// A line may be longer than a reply. Only contenders that have to list it leave.
func TestLineOverTheLimitOfReplies(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		t, srv := w.T, w.Server
		s := w.Open(session.Options{MaxReply: 4 << 10})
		held := standsAt(t, lock.New, s, "/l", nil)
		next := standsAt(t, lock.New, s, "/l", nil)
		var more []string
		for i := range 100 {
			node := check.Have(s.Create(t.Context(), "/l/"+strings.Repeat("x", i)+"-lock-", nil, session.EphemeralSequential))(t)
			more = append(more, node)
		}
		last := standsAt(t, lock.New, s, "/l", nil)
		check.Is(t, last.Err(), session.ErrTooLarge, "one that cannot list the line")
		srv.Disconnect(s.ID())
		<-time.After(time.Second)
		check.Require(t, !isClosed(next.Done()) && holds(held), "after a reconnect: %v, %v", held.Err(), next.Err())
		for _, node := range more {
			check.Must(t, s.Delete(t.Context(), node, session.AnyVersion))
		}
		release(t, held)
		check.True(t, holds(next), "then: %v", next.Err())
	})
}

// A mark that is written while the holder downgrades is carried to the node of the reader.
func TestMarkIsNotLostInADowngrade(t *testing.T) {
	for _, layout := range []lock.Layout{lock.Standard, lock.Curator, lock.Prioritized} {
		t.Run(layout.String(), func(t *testing.T) {
			inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
				l := standsAt(t, lock.NewWrite, all[0], "/l", &lock.Options{Layout: layout, Data: []byte("who")})
				srv.Freeze(all[0].ID(), zktest.ToClient)
				check.Must(t, lock.Revoke(t.Context(), all[1], "/l", &lock.RevokeOptions{Layout: layout}))
				var failed error
				var wg sync.WaitGroup
				wg.Go(func() { failed = l.Downgrade(t.Context()) })
				synctest.Wait()
				srv.Thaw(all[0].ID())
				wg.Wait()
				synctest.Wait()
				check.True(t, failed == nil && isClosed(l.Revoked()), "downgrade: %v; asked: %v", failed, isClosed(l.Revoked()))
				line, err := lock.Contenders(t.Context(), all[1], "/l", &lock.Options{Layout: layout})
				if err != nil || len(line) != 1 || line[0].Kind != lock.Read || !line[0].Revoked || layout != lock.Curator && string(line[0].Data) != "who" {
					t.Errorf("%+v, %v", line, err)
				}
			})
		})
	}
}

// An operator deletes what the holder has claimed, and not the holder's node. Nobody else is
// granted the lock before the holder has heard of that.
func TestHolderDeletedAlone(t *testing.T) {
	inRoom(t, 3, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		low := standsAt(t, lock.New, all[0], "/l", prior(0))
		high := standsAt(t, lock.New, all[1], "/l", prior(5))
		srv.Freeze(all[0].ID(), zktest.ToClient)
		check.Must(t, all[2].Delete(t.Context(), "/l/holder", session.AnyVersion))
		highest := standsAt(t, lock.New, all[2], "/l", prior(9))
		check.True(t, !holds(high) && !holds(highest) && holds(low), "held by %v, %v, %v", holds(low), holds(high), holds(highest))
		srv.Thaw(all[0].ID())
		check.True(t, holds(highest) && errors.Is(low.Err(), lock.ErrNodeDeleted), "then: %v, %v", highest.Err(), low.Err())
	})
}

// A lock that is asked for within its own context would wait for itself.
func TestReentered(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		s := all[0]
		for what, acquire := range map[string]func(context.Context, *session.Session, string, *lock.Options) (*lock.Lock, error){
			"exclusive": lock.Acquire, "write": lock.AcquireWrite,
		} {
			l := check.Have(acquire(t.Context(), s, "/l", nil))(t)
			work, cancel := l.Context(t.Context())
			for kind, open := range opens {
				again, err := open.acquire(work, s, "/l", nil)
				check.True(t, errors.Is(err, lock.ErrReentered) && again == nil && strings.Contains(err.Error(), "/l"), "%s, then %v: %v", what, kind, err)
				if _, err := open.try(work, s, "/l", nil); !errors.Is(err, lock.ErrHeld) {
					t.Errorf("%s, then a try of %v: %v", what, kind, err)
				}
			}
			check.Is(t, lock.Do(work, s, "/l", nil, func(context.Context, int64) error { return nil }), lock.ErrReentered, what, "then Do")
			other, err := lock.Acquire(work, s, "/other", nil)
			check.Must(t, err)
			other.Close()
			release(t, l)
			l, err = acquire(context.WithoutCancel(work), s, "/l", nil)
			check.Must(t, err, what, "when it is released")
			release(t, l)
			cancel()
		}
	})
}

// A reader within the context of a read lock does not wait for a writer that waits for that.
func TestReenteredReader(t *testing.T) {
	for name, layout := range map[string]lock.Layout{"standard": lock.Standard, "Curator": lock.Curator, "prioritized": lock.Prioritized} {
		for _, what := range []string{"read lock", "downgraded"} {
			inRoom(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
				s, opts := all[0], &lock.Options{Layout: layout}
				outer := standsAt(t, lock.NewRead, s, "/l", opts)
				if what == "downgraded" {
					release(t, outer)
					outer = standsAt(t, lock.NewWrite, s, "/l", opts)
					check.Must(t, outer.Downgrade(t.Context()))
				}
				work, cancel := outer.Context(t.Context())
				defer cancel()
				inner, err := lock.AcquireRead(work, s, "/l", opts)
				check.Must(t, err, name, what, "nobody is between")
				release(t, inner)
				writer := standsAt(t, lock.NewWrite, all[1], "/l", opts)
				if again, err := lock.AcquireRead(work, s, "/l", opts); !errors.Is(err, lock.ErrReentered) || again != nil || !strings.Contains(err.Error(), "acquire lock /l:") {
					t.Errorf("%s, %s: a writer is between: %v", name, what, err)
				}
				if _, err := lock.TryAcquireRead(work, s, "/l", opts); !errors.Is(err, lock.ErrHeld) {
					t.Errorf("%s, %s: a try: %v", name, what, err)
				}
				if line, err := lock.Contenders(t.Context(), s, "/l", opts); err != nil || len(line) != 2 {
					t.Errorf("%s, %s: %v stand in line; %v", name, what, line, err)
				}
				release(t, outer)
				check.True(t, holds(writer), "%s, %s: then the writer does not hold", name, what)
			})
		}
	}
}

// A release that is not confirmed holds up no caller whose context has ended.
func TestDoReturnsWithItsContext(t *testing.T) {
	inRoom(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		err := lock.Do(ctx, all[0], "/l", nil, func(ctx context.Context, _ int64) error {
			srv.Delay(zktest.Match{Op: zktest.OpDelete}, 2*time.Second)
			cancel()
			<-ctx.Done()
			return nil
		})
		took := time.Since(began)
		check.True(t, err == nil && took <= 0, "%v after %v", err, took)
		<-time.After(5 * time.Second)
		check.Len(t, kit.Children(t, all[0], "/l"), 0, "it is not released")
	})
}

// A guard that refuses is told from a node that is missing.
func TestRefusedGuard(t *testing.T) {
	inRoom(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		s := all[0]
		l := standsAt(t, lock.New, s, "/l", nil)
		waits := standsAt(t, lock.New, s, "/l", nil)
		for what, row := range map[string]struct {
			guard session.Op
			path  string
			want  error
		}{
			"held":                   {l.Guard(), "/l", nil},
			"held, and nothing else": {l.Guard(), "/missing", session.ErrNoNode},
			"not acquired":           {waits.Guard(), "/l", lock.ErrNotHeld},
			"neither":                {waits.Guard(), "/missing", lock.ErrNotHeld},
		} {
			_, err := s.Multi(t.Context(), row.guard, session.SetOp(row.path, nil, session.AnyVersion))
			if !errors.Is(err, row.want) || row.want != nil && !errors.Is(err, session.ErrNoNode) || errors.Is(row.want, session.ErrNoNode) && errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("%s: %v", what, err)
			}
		}
		guard := l.Guard()
		release(t, l)
		if _, err := s.Multi(t.Context(), guard); !errors.Is(err, lock.ErrNotHeld) || !errors.Is(err, lock.ErrLost) || strings.Contains(err.Error(), "lost") {
			t.Errorf("released: %v", err)
		}
	})
}

// TestDataThatCame: the path was a lock's alone, and carries another client's data by now. A
// session that knew it without stands in line there, and leaves the data as they are.
func TestDataThatCame(t *testing.T) {
	const path, value = "/l", "mine"
	for name, write := range map[string]func(t *testing.T, s *session.Session){
		"written": func(t *testing.T, s *session.Session) {
			check.Have(s.Set(t.Context(), path, []byte(value), session.AnyVersion))(t)
		},
		"made anew": func(t *testing.T, s *session.Session) {
			check.Must(t, s.Delete(t.Context(), path, session.AnyVersion))
			check.Have(s.Create(t.Context(), path, []byte(value), session.Persistent))(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, session.Options{}, func(t *testing.T, _ *zktest.Server, a, b *session.Session) {
				for range 3 {
					mustAcquire(t, a, path).Close()
				}
				write(t, b)
				for range 3 {
					mustAcquire(t, a, path).Close()
					check.Reads(b.Get(t.Context(), path))(t, value)
				}
			})
		})
	}
}

// TestWriteAtTheVersion counts what an uncontended cycle costs: three requests while no other
// session writes to the path. When one does, the first cycle has one more that is refused, and a
// list.
func TestWriteAtTheVersion(t *testing.T) {
	inBubble(t, session.Options{}, func(t *testing.T, srv *zktest.Server, a, b *session.Session) {
		cycle := func(s *session.Session) (requests, multis int) {
			srv.ResetRequests()
			mustAcquire(t, s, "/l").Close()
			synctest.Wait()
			all := kit.WithoutSyncs(srv.Requests())
			for _, n := range all {
				requests += n
			}
			return requests, all[zktest.OpMulti]
		}
		cycle(a)
		cycle(b)
		for i, want := range []int{5, 4, 4, 4} { // while b goes on
			n, multis := cycle(a)
			check.True(t, n <= want+1 && (i == 0 || multis == 0), "cycle %d of a: %d requests, %d transactions", i, n, multis)
			n, multis = cycle(b)
			check.True(t, n == 3 && multis == 1, "cycle %d of b: %d requests, %d transactions", i, n, multis)
		}
		cycle(a) // finds the path as it was
		cycle(a)
		n, multis := cycle(a)
		check.True(t, n == 3 && multis == 1, "a alone: %d requests, %d transactions", n, multis)
	})
}

// TestLateReaderOfTheEnd: when the lock is over, its last event comes alone, whatever was told
// before.
func TestLateReaderOfTheEnd(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *session.Session, l *lock.Lock){
		"released": func(t *testing.T, _ *session.Session, l *lock.Lock) { check.Must(t, l.Release(t.Context())) },
		"closed":   func(_ *testing.T, _ *session.Session, l *lock.Lock) { l.Close() },
		"deleted": func(t *testing.T, s *session.Session, l *lock.Lock) {
			check.Must(t, s.Delete(t.Context(), l.Node(), session.AnyVersion))
			<-l.Done()
			l.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, session.Options{}, func(t *testing.T, _ *zktest.Server, a, b *session.Session) {
				l := mustAcquire(t, a, "/l")
				check.Must(t, lock.Revoke(t.Context(), b, "/l", nil))
				<-l.Revoked()
				end(t, b, l)
				var told []lock.Event
				for ev := range l.Events() {
					told = append(told, ev)
				}
				check.Len(t, told, 1, told)
				switch ev := told[0].(type) {
				case lock.Released:
					check.OK(t, l.Err())
				case lock.Lost:
					check.Is(t, l.Err(), lock.ErrLost)
				case lock.Waiting, lock.Acquired, lock.Suspended, lock.Resumed, lock.Revoked:
					t.Errorf("the last event is %v", ev)
				}
			})
		})
	}
}

// TestDoWithoutFunction: a nil function is refused before the lock is acquired.
func TestDoWithoutFunction(t *testing.T) {
	srv := zktest.Start(t)
	s := check.Open(session.Open(t.Context(), srv.Addrs(), nil))(t)
	if err := lock.Do(t.Context(), s, "/a", nil, nil); !errors.Is(err, session.ErrInvalidArgument) || !strings.Contains(err.Error(), "f:") {
		t.Error(err)
	}
	if stat, err := s.Exists(t.Context(), "/a"); stat != nil || err != nil {
		t.Error("the line is there", err)
	}
}

// TestLongPath: the error of a long path names the path, not the data.
func TestLongPath(t *testing.T) {
	srv := zktest.Start(t)
	s := check.Open(session.Open(t.Context(), srv.Addrs(), nil))(t)
	for _, bytes := range []int{600_000, 3_000_000} {
		_, err := lock.New(s, "/"+strings.Repeat("x", bytes), nil)
		check.True(t, errors.Is(err, session.ErrInvalidPath) && !strings.Contains(err.Error(), "Data") && len(err.Error()) <= 500, "%.600v", err)
	}
}

// A slowHandler calls handle with every record, and waits for it.
type slowHandler struct {
	slog.Handler
	handle func()
}

func (h slowHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h slowHandler) Handle(context.Context, slog.Record) error {
	h.handle()
	return nil
}

// TestHolderIsResumed: a reconnect that is faster than the news of the loss does not leave
// the holder suspended.
func TestHolderIsResumed(t *testing.T) {
	var frozen atomic.Pointer[func()]
	opts := session.Options{Timeout: 8 * time.Second, Logger: slog.New(slowHandler{slog.DiscardHandler, func() {
		if thaw := frozen.Swap(nil); thaw != nil {
			(*thaw)()
			<-time.After(10 * time.Millisecond) // that a reconnect needs
		}
	}})}
	inBubble(t, opts, func(t *testing.T, srv *zktest.Server, a, _ *session.Session) {
		held := mustAcquire(t, a, "/l")
		var told []lock.Event
		go func() {
			for ev := range held.Events() {
				told = append(told, ev)
			}
		}()
		<-time.After(10 * time.Second)
		srv.Freeze(a.ID(), zktest.Both)
		thaw := func() { srv.Thaw(0) }
		frozen.Store(&thaw)
		<-time.After(time.Hour)
		synctest.Wait()
		_, ok := told[len(told)-1].(lock.Suspended)
		check.False(t, ok, "an hour after the reconnect: %v", told)
	})
}

// throttled is the code with which a busy server answers.
const throttled = -127

// TestCloseDuringDowngrade: a writer that is closed while its downgrade begins leaves nothing.
func TestCloseDuringDowngrade(t *testing.T) {
	for _, layout := range []lock.Layout{lock.Standard, lock.Curator, lock.Kazoo, lock.Prioritized} {
		t.Run(layout.String(), func(t *testing.T) {
			kit.Sessions(t, zktest.Config{Latency: time.Millisecond}, 2, session.Options{}, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
				opts := &lock.Options{Layout: layout}
				l := check.Have(lock.AcquireWrite(t.Context(), all[0], "/l", opts))(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				_ = l.Downgrade(ctx) // it goes on
				l.Close()
				<-time.After(time.Second)
				check.Len(t, remains(t, all[1], "/l"), 0, "after Close")
				w := check.Have(lock.TryAcquireWrite(t.Context(), all[1], "/l", opts))(t)
				w.Close()
			})
		})
	}
}

// TestNoListsWithoutToken: a contender that waits for its token, because the read of its node is
// throttled, does not list the line meanwhile.
func TestNoListsWithoutToken(t *testing.T) {
	kit.Sessions(t, zktest.Config{Latency: time.Millisecond}, 1, session.Options{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		kit.Ensure(t, all[0], "/l", []byte("somebody's data")) // so that the create tells no czxid
		for range 12 {
			srv.AnswerError(zktest.Match{Op: zktest.OpGetData}, throttled)
		}
		srv.ResetRequests()
		l := check.Have(lock.Acquire(t.Context(), all[0], "/l", nil))(t)
		check.AtMost(t, srv.Requests()[zktest.OpGetChildren2], 2, "lists")
		l.Close()
	})
}

// TestPreemptionIsRepeated: a holder is asked to leave, also where a request for that was
// throttled, and does not lose the lock before.
func TestPreemptionIsRepeated(t *testing.T) {
	for name, op := range map[string]zktest.Op{"get": zktest.OpGetData, "set": zktest.OpSetData} {
		for _, after := range []time.Duration{0, 10 * time.Second} {
			runInRoom(t, name+" "+after.String(), 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
				low := standsAt(t, lock.New, all[0], "/l", prior(0))
				kit.Await[lock.Acquired](t, low.Events())
				for range 5 {
					srv.AnswerError(zktest.Match{Session: all[1].ID(), Op: op, Path: low.Node()}, throttled)
				}
				high := standsAt(t, lock.New, all[1], "/l", preempting(5, after))
				<-low.Revoked()
				check.Must(t, srv.AwaitFault(0))
				check.False(t, isClosed(low.Done()), "lost before it was asked for")
				if after > 0 {
					<-low.Done()
				} else {
					low.Close()
				}
				check.True(t, holds(high), "it is free, and nobody has it")
			})
		}
	}
}

// TestNotPreemptedUnasked: a holder that cannot be asked to leave keeps the lock.
func TestNotPreemptedUnasked(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		low := standsAt(t, lock.New, all[0], "/l", prior(0))
		kit.Await[lock.Acquired](t, low.Events())
		for range 10 {
			srv.AnswerError(zktest.Match{Session: all[1].ID(), Op: zktest.OpSetData, Path: low.Node()}, -102)
		}
		high := standsAt(t, lock.New, all[1], "/l", preempting(5, time.Second))
		<-time.After(time.Hour)
		synctest.Wait()
		check.True(t, !isClosed(low.Revoked()) && !isClosed(low.Done()) && !holds(high), "asked: %v; lost: %v", isClosed(low.Revoked()), low.Err())
	})
}

// TestRevokedAndGone: a holder that has gone when the reply to its mark was lost was
// asked.
func TestRevokedAndGone(t *testing.T) {
	for _, layout := range []lock.Layout{lock.Standard, lock.Prioritized} {
		runInRoom(t, layout.String(), 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			l := standsAt(t, lock.New, all[0], "/l", &lock.Options{Layout: layout})
			kit.Await[lock.Acquired](t, l.Events())
			srv.DropReply(zktest.Match{Session: all[1].ID(), Op: zktest.OpSetData})
			srv.Refuse(true) // until the holder has gone
			revoked := make(chan error, 1)
			go func() { revoked <- lock.Revoke(t.Context(), all[1], "/l", &lock.RevokeOptions{Layout: layout}) }()
			<-l.Revoked()
			l.Close()
			srv.Refuse(false)
			check.OK(t, <-revoked)
		})
	}
}

// TestThrottledRevocation: a revocation goes on where its writes are throttled.
func TestThrottledRevocation(t *testing.T) {
	for op, skip := range map[zktest.Op]int{zktest.OpSetData: 0, zktest.OpDelete: 0, zktest.OpExists: 0, zktest.OpGetData: 1} { // one lists the holders
		inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			l := standsAt(t, lock.New, all[0], "/l", nil)
			kit.Await[lock.Acquired](t, l.Events())
			srv.AnswerError(zktest.Match{Session: all[1].ID(), Op: op, Skip: skip}, throttled)
			check.Must(t, lock.Revoke(t.Context(), all[1], "/l", &lock.RevokeOptions{ForceAfter: time.Second}), op)
			check.Must(t, srv.AwaitFault(0))
			<-l.Done()
		})
	}
}

// TestReadersInDoubt: whatever becomes of the creation of the directory of the readers, a reader is
// granted the lock, and a writer becomes a reader, by one claim each.
func TestReadersInDoubt(t *testing.T) {
	creation := func(s *session.Session) zktest.Match {
		return zktest.Match{Session: s.ID(), Op: zktest.OpCreateContainer, Path: "/l/readers"}
	}
	for name, fault := range map[string]func(*zktest.Server, *session.Session){
		"not done, and throttled": func(srv *zktest.Server, s *session.Session) { srv.AnswerError(creation(s), throttled) },
		"not done, and unknown":   func(srv *zktest.Server, s *session.Session) { srv.DropRequest(creation(s)) },
		"done, and unknown":       func(srv *zktest.Server, s *session.Session) { srv.DropReply(creation(s)) },
	} {
		for does, open := range map[string]openFunc{"reads": lock.NewRead, "downgrades": lock.NewWrite} {
			runInRoom(t, does+", "+name, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
				fault(srv, all[0])
				l := standsAt(t, open, all[0], "/l", prior(0))
				if does == "downgrades" {
					check.Must(t, l.Downgrade(t.Context()))
				}
				<-time.After(time.Minute)
				check.Must(t, srv.AwaitFault(0))
				check.True(t, holds(l), "it does not hold: %v", l.Err())
				check.Len(t, kit.Children(t, all[1], "/l/readers"), 1)
				l.Close()
				check.Len(t, remains(t, all[1], "/l"), 0)
			})
		}
	}
}
