package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// only returns the one contender at path.
func only(t *testing.T, s *session.Session, path string) lock.Contender {
	t.Helper()
	all, err := lock.Contenders(t.Context(), s, path, nil)
	check.Require(t, err == nil && len(all) == 1, "contenders: %v, %v", all, err)
	return all[0]
}

// The holder is asked, once, and told so by event and channel. Its identity survives.
func TestRevoke(t *testing.T) {
	inBubble(t, session.Options{}, func(t *testing.T, _ *zktest.Server, a, b *session.Session) {
		held := check.Open(lock.Acquire(t.Context(), a, "/l", &lock.Options{Data: []byte("host-1")}))(t)
		kit.Await[lock.Acquired](t, held.Events())
		synctest.Wait()
		for range 2 { // who asks again is no news
			check.Must(t, lock.Revoke(t.Context(), b, "/l", nil))
		}
		if ev := kit.Await[lock.Revoked](t, held.Events()); !ev.Deadline.IsZero() {
			t.Errorf("%v", ev)
		}
		<-held.Revoked()
		synctest.Wait()
		check.False(t, isClosed(held.Done()), "the lock is lost")
		c := only(t, b, "/l")
		check.True(t, string(c.Data) == "host-1" && c.Revoked && c.Holding, "%+v", c)
		check.OK(t, held.Release(t.Context()))
		if ev, ok := <-held.Events(); ok && ev != (lock.Released{}) {
			t.Errorf("%v", ev)
		}
		check.Is(t, lock.Revoke(t.Context(), b, "/l", nil), lock.ErrNotHeld) // nothing to revoke
	})
}

// A mark that was written before the grant is told after it.
func TestRevokeWaiter(t *testing.T) {
	inBubble(t, session.Options{}, func(t *testing.T, _ *zktest.Server, a, b *session.Session) {
		first := mustAcquire(t, a, "/l")
		second := check.Open(lock.New(b, "/l", nil))(t)
		kit.Await[lock.Waiting](t, second.Events())
		all, err := lock.Contenders(t.Context(), a, "/l", nil)
		check.Require(t, err == nil && len(all) == 2 && !all[1].Holding, "%v, %v", all, err)
		check.Must(t, lock.RevokeNode(t.Context(), a, all[1].Node, nil))
		synctest.Wait()
		check.False(t, isClosed(second.Revoked()), "a waiter is told that it is revoked")
		first.Close()
		kit.Await[lock.Acquired](t, second.Events())
		kit.Await[lock.Revoked](t, second.Events())
	})
}

// TestRevokeAtEveryPoint marks the node while each of the requests of an acquisition is
// held back, on a free path and behind another.
func TestRevokeAtEveryPoint(t *testing.T) {
	for _, queued := range []bool{false, true} {
		for _, kind := range []func(*session.Session, string, *lock.Options) (*lock.Lock, error){lock.New, lock.NewRead, lock.NewWrite} {
			for skip := range 6 {
				inBubble(t, session.Options{}, func(t *testing.T, srv *zktest.Server, a, b *session.Session) {
					kit.Ensure(t, b, "/l", nil)
					var first *lock.Lock
					if queued {
						first = mustAcquire(t, b, "/l")
						defer first.Close()
					}
					srv.Delay(zktest.Match{Session: a.ID(), Skip: skip}, time.Second)
					l := check.Open(kind(a, "/l", nil))(t)
					l.Events()
					synctest.Wait() // what is held back is all that moves
					marked := false
					all := check.Have(lock.Contenders(t.Context(), b, "/l", nil))(t)
					for _, c := range all {
						if c.Session == a.ID() {
							marked = true
							check.Must(t, lock.RevokeNode(t.Context(), b, c.Node, nil))
						}
					}
					<-time.After(2 * time.Second)
					if first != nil {
						first.Close()
					}
					kit.Await[lock.Acquired](t, l.Events())
					<-time.After(2 * time.Second)
					check.Equal(t, isClosed(l.Revoked()), marked, "skip", skip, "queued", queued, "told")
				})
			}
		}
	}
}

// Any client may write a mark, in any way: the published word alone is enough.
func TestMarksOfOthers(t *testing.T) {
	for mark, force := range map[string]time.Duration{"unlock": 0, "__REVOKE__": 0, "unlock 30s": 30 * time.Second, "unlock\nhost-1": 0} {
		inBubble(t, session.Options{}, func(t *testing.T, _ *zktest.Server, a, b *session.Session) {
			held := mustAcquire(t, a, "/l")
			kit.Await[lock.Acquired](t, held.Events())
			synctest.Wait()
			check.Have(b.Set(t.Context(), held.Node(), []byte(mark), session.AnyVersion))(t)
			ev := kit.Await[lock.Revoked](t, held.Events())
			check.False(t, force == 0 && !ev.Deadline.IsZero() || force > 0 && time.Until(ev.Deadline) != force, "%q: %v", mark, ev)
		})
	}
	for _, data := range []string{"unlocked", "unlock x", "unlock -1s", "host-1\nunlock", "__REVOKE__ ", " unlock"} {
		inBubble(t, session.Options{}, func(t *testing.T, _ *zktest.Server, a, b *session.Session) {
			held := mustAcquire(t, a, "/l")
			check.Have(b.Set(t.Context(), held.Node(), []byte(data), session.AnyVersion))(t)
			synctest.Wait()
			check.False(t, isClosed(held.Revoked()), "%q is taken for a mark", data)
		})
	}
}

// A holder that does not answer loses the lock at the deadline; one that answers is not
// forced.
func TestForce(t *testing.T) {
	for _, consents := range []bool{true, false} {
		inBubble(t, session.Options{}, func(t *testing.T, _ *zktest.Server, a, b *session.Session) {
			held := mustAcquire(t, a, "/l")
			kit.Await[lock.Acquired](t, held.Events())
			next := check.Open(lock.New(b, "/l", nil))(t)
			synctest.Wait()
			begun := time.Now()
			revoked := make(chan error, 1)
			go func() { revoked <- lock.Revoke(t.Context(), b, "/l", &lock.RevokeOptions{ForceAfter: time.Minute}) }()
			ev := kit.Await[lock.Revoked](t, held.Events())
			check.Within(t, ev.Deadline.Sub(begun), time.Minute, time.Minute+time.Second, "told")
			if consents {
				<-time.After(time.Second)
				held.Close()
			} else {
				<-held.Done()
				check.AtLeast(t, time.Since(begun), time.Minute, "forced after")
				err := held.Err()
				check.True(t, errors.Is(err, lock.ErrRevoked) && errors.Is(err, lock.ErrLost), "%v", err)
			}
			check.OK(t, <-revoked)
			kit.Await[lock.Acquired](t, next.Events())
		})
	}
}

// A holder that is frozen is forced all the same, and knows by its deadline.
func TestForceFrozenHolder(t *testing.T) {
	inBubble(t, session.Options{Timeout: 20 * time.Second}, func(t *testing.T, srv *zktest.Server, a, b *session.Session) {
		held := mustAcquire(t, a, "/l")
		synctest.Wait()
		srv.Freeze(a.ID(), zktest.Both)
		defer srv.Thaw(0)
		begun := time.Now()
		check.Must(t, lock.Revoke(t.Context(), b, "/l", &lock.RevokeOptions{ForceAfter: time.Second}))
		check.Within(t, time.Since(begun), time.Second, 2*time.Second, "forced after")
		mustAcquire(t, b, "/l").Close()
		<-held.Done()
		check.AtMost(t, time.Since(begun), 20*time.Second, "told after")
		check.Is(t, held.Err(), lock.ErrLost)
	})
}

// All readers that hold are asked, and no other contender.
func TestRevokeReaders(t *testing.T) {
	inBubble(t, session.Options{}, func(t *testing.T, _ *zktest.Server, a, b *session.Session) {
		var readers []*lock.Lock
		for range 3 {
			r := check.Open(lock.AcquireRead(t.Context(), a, "/l", nil))(t)
			readers = append(readers, r)
		}
		w := check.Open(lock.NewWrite(b, "/l", nil))(t)
		kit.Await[lock.Waiting](t, w.Events())
		behind := check.Open(lock.NewRead(b, "/l", nil))(t)
		synctest.Wait()
		check.Must(t, lock.Revoke(t.Context(), b, "/l", &lock.RevokeOptions{ForceAfter: time.Second}))
		for _, r := range readers {
			<-r.Done()
			check.Is(t, r.Err(), lock.ErrRevoked)
		}
		kit.Await[lock.Acquired](t, w.Events())
		synctest.Wait()
		check.True(t, !isClosed(w.Revoked()) && !isClosed(behind.Revoked()), "a waiter was asked")
	})
}

// The successor of a contender that was asked was not asked itself.
func TestForceAnotherTenancy(t *testing.T) {
	inBubble(t, session.Options{}, func(t *testing.T, srv *zktest.Server, a, b *session.Session) {
		held := mustAcquire(t, a, "/l")
		node := held.Node()
		revoked := make(chan error, 1)
		go func() { revoked <- lock.Revoke(t.Context(), b, "/l", &lock.RevokeOptions{ForceAfter: time.Minute}) }()
		<-held.Revoked()
		// The revoker does not see it go: he is away, and back too late.
		srv.Freeze(b.ID(), zktest.Both)
		check.Must(t, a.Delete(t.Context(), node, session.AnyVersion))
		check.Have(a.Create(t.Context(), node, []byte("another"), session.Persistent))(t)
		srv.Thaw(b.ID())
		check.OK(t, <-revoked)
		stat, err := a.Exists(t.Context(), node)
		check.True(t, err == nil && stat != nil, "it was deleted: %v, %v", stat, err)
	})
}

// A lost reply to any of the revoker's requests changes nothing.
func TestRevokeUnderLostReplies(t *testing.T) {
	for skip := range 6 {
		inBubble(t, session.Options{}, func(t *testing.T, srv *zktest.Server, a, b *session.Session) {
			held := mustAcquire(t, a, "/l")
			synctest.Wait()
			srv.DropReply(zktest.Match{Session: b.ID(), Skip: skip})
			check.OK(t, lock.Revoke(t.Context(), b, "/l", &lock.RevokeOptions{ForceAfter: time.Second}), "skip", skip)
			<-held.Done()
			check.Is(t, held.Err(), lock.ErrRevoked, "skip", skip)
		})
	}
}

// A revocation whose caller leaves forces no holder.
func TestRevokeGivenUp(t *testing.T) {
	inBubble(t, session.Options{}, func(t *testing.T, _ *zktest.Server, a, b *session.Session) {
		held := mustAcquire(t, a, "/locks/given-up")
		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		check.Is(t, lock.Revoke(ctx, b, "/locks/given-up", &lock.RevokeOptions{ForceAfter: time.Minute}), why)
		<-time.After(2 * time.Minute)
		check.True(t, !isClosed(held.Done()) && isClosed(held.Revoked()), "forced by nobody, or not asked")
	})
}

func TestRevokeBadInput(t *testing.T) {
	inBubble(t, session.Options{}, func(t *testing.T, srv *zktest.Server, a, _ *session.Session) {
		synctest.Wait()
		srv.ResetRequests()
		for want, err := range map[string]error{
			"ForceAfter":     lock.Revoke(t.Context(), a, "/l", &lock.RevokeOptions{ForceAfter: -1}),
			"Layout":         lock.Revoke(t.Context(), a, "/l", &lock.RevokeOptions{Layout: 17}),
			"path":           lock.Revoke(t.Context(), a, "l", nil),
			"session":        lock.Revoke(t.Context(), nil, "/l", nil),
			"session ":       lock.RevokeNode(t.Context(), nil, "/l/lock-0000000000", nil),
			"node":           lock.RevokeNode(t.Context(), a, "/l/", nil),
			"does not stand": lock.RevokeNode(t.Context(), a, "/l/config", nil),
		} {
			check.True(t, err != nil && strings.Contains(err.Error(), strings.TrimSpace(want)), "%s: %v", want, err)
		}
		check.Equal(t, srv.Requests().Total(), 0, "requests")
		check.Is(t, lock.RevokeNode(t.Context(), a, "/l/lock-0000000000", nil), lock.ErrNotHeld)                   // no such node
		check.Fails(lock.New(a, "/l", &lock.Options{Data: []byte("unlock\nhost")}))(t, session.ErrInvalidArgument) // data that reads as a mark
	})
}
