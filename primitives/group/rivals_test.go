package group_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// told reads what has been told so far, in short words.
func told(m *group.Membership) (all []string) {
	synctest.Wait()
	for {
		select {
		case ev, ok := <-m.Events():
			if !ok {
				return all
			}
			if _, view := ev.(group.MembersChanged); !view {
				all = append(all, fmt.Sprintf("%T", ev)[len("group."):])
			}
			synctest.Wait()
		default:
			return all
		}
	}
}

var bold = &group.Options{TakeOver: true, ConflictAfter: 3 * time.Second}

// TestSuccessorStays: who took an id over while its owner's session expired keeps it,
// whatever the owner was allowed to do at first.
func TestSuccessorStays(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		a, b := w.openGated(), w.open()
		first := w.joined(a.Session, "first", bold)
		a.Cut()
		second := w.join(b, "host-1", "second", nil)
		await[group.Joined](w, second) // when the ghost of the first has gone
		kit.Pass(20 * time.Second)
		a.Mend()
		check.Is(w, await[group.Gone](w, first).Err, session.ErrExpired)
		check.Is(w, await[group.Left](w, first).Err, group.ErrDuplicate)
		kit.Pass(time.Minute)
		w.expectOwner(b)
		check.Len(w, told(second), 0, "the second was told")
	})
}

// TestWaitBeginsAnew: the wait is for one ghost. One that comes after it has its own.
func TestWaitBeginsAnew(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		a, b := w.open(), w.open()
		node := workers + "/host-1"
		check.Must(w, a.EnsurePath(w.Context(), workers))
		check.Have(a.Create(w.Context(), node, nil, session.Ephemeral))(w)
		began := time.Now()
		m := w.join(b, "host-1", "", &group.Options{TakeOver: true, ConflictAfter: 20 * time.Second})
		kit.Pass(15 * time.Second)
		check.Have(a.Multi(w.Context(), session.DeleteOp(node, 0), session.CreateOp(node, []byte("another"), session.Ephemeral)))(w)
		await[group.Joined](w, m)
		check.Within(w, time.Since(began), 35*time.Second, 36*time.Second, "joined after")
	})
}

// TestHeldUp: what was asked of a member that is cut off does not reach the node of
// another that has taken its place meanwhile. It is told so, and not that it is back.
func TestHeldUp(t *testing.T) {
	for what, do := range map[string]func(w world, m *group.Membership) error{
		"nothing": func(world, *group.Membership) error { return group.ErrDuplicate },
		"update":  func(w world, m *group.Membership) error { return m.Update(w.Context(), []byte("late")) },
		"leave": func(w world, m *group.Membership) error {
			if err := m.Leave(w.Context()); err != nil {
				return err
			}
			return group.ErrDuplicate // it had left in time
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, zktest.Config{}, func(w world) {
				a, b := w.openGated(), w.open()
				first := w.joined(a.Session, "first", nil)
				a.Cut()
				result := kit.Begin(func() error { return do(w, first) })
				second := w.joined(b, "second", bold)
				a.Mend()
				check.Is(w, <-result, group.ErrDuplicate)
				<-first.Done()
				check.EqualSlices(w, told(first), []string{"Suspended", "Left"}, "the first was told")
				w.expectOwner(b)
				check.Reads(b.Get(w.Context(), workers+"/host-1"))(w, "second", "the payload")
				check.Len(w, told(second), 0, "the second was told")
			})
		})
	}
}

// TestSlowRequest: a request that is on its way while another takes the id does no harm
// that lasts, and is not taken for a success.
func TestSlowRequest(t *testing.T) {
	for what, do := range map[string]func(w world, m *group.Membership) error{
		"update": func(w world, m *group.Membership) error { return m.Update(w.Context(), []byte("late")) },
		"leave": func(w world, m *group.Membership) error {
			if err := m.Leave(w.Context()); err != nil {
				return err
			}
			return group.ErrDuplicate // it had left in time
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, zktest.Config{}, func(w world) {
				a, b := w.open(), w.open()
				first := w.joined(a, "first", nil)
				w.Delay(zktest.Match{Op: zktest.OpSetData, Session: a.ID()}, time.Second)
				result := kit.Begin(func() error { return do(w, first) })
				node := workers + "/host-1"
				check.Have(b.Multi(w.Context(), session.DeleteOp(node, 1), session.CreateOp(node, []byte("b"), session.Ephemeral)))(w)
				check.Is(w, <-result, group.ErrDuplicate)
				<-first.Done()
				w.expectOwner(b)
			})
		})
	}
}

// TestSlowTakeOver: a ghost of our own goes just before it is replaced, and a rival comes,
// who stays.
func TestSlowTakeOver(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		a, b := w.open(), w.open()
		first := w.joined(a, "first", nil)
		w.KeepEphemerals(time.Hour)
		w.Delay(zktest.Match{Op: zktest.OpSetData, Path: workers + "/*"}, 2*time.Second)
		w.Expire(a.ID())
		kit.Pass(time.Second)
		check.Must(w, b.Delete(w.Context(), workers+"/host-1", session.AnyVersion))
		w.joined(b, "second", nil)
		check.Is(w, await[group.Left](w, first).Err, group.ErrDuplicate)
		w.expectOwner(b)
		check.Reads(b.Get(w.Context(), workers+"/host-1"))(w, "second", "the payload")
	})
}

// TestPersistentIsNoMember: nor is it a ghost, and it is not ours to delete.
func TestPersistentIsNoMember(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		s := w.open()
		check.Must(w, s.EnsurePath(w.Context(), workers))
		check.Have(s.Create(w.Context(), workers+"/host-1", []byte("mine"), session.Persistent))(w)
		for _, opts := range []*group.Options{nil, bold} {
			began := time.Now()
			m := w.join(s, "host-1", "x", opts)
			left := await[group.Left](w, m)
			check.True(w, errors.Is(left.Err, group.ErrDuplicate) && time.Since(began) <= time.Second, "after %v: %v", time.Since(began), left)
			m.Close()
		}
		check.Reads(s.Get(w.Context(), workers+"/host-1"))(w, "mine")
	})
}

// TestLeavingUnread: a member that may not read its node, and does not know whether it
// was made, leaves none behind.
func TestLeavingUnread(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		other := w.open()
		check.Must(w, other.EnsurePath(w.Context(), workers))
		for _, perms := range []session.Perms{session.PermAll &^ session.PermRead, session.PermAll &^ session.PermRead &^ session.PermWrite} {
			skip := 0
			if perms&session.PermWrite == 0 {
				skip = 1 // the first is refused
			}
			a := w.open(session.ACL{Perms: perms, Scheme: "world", ID: "anyone"})
			w.DropReply(zktest.Match{Op: zktest.OpMulti, Path: workers + "/host-1", Skip: skip})
			m := w.join(a, "host-1", "x", nil)
			check.Is(w, await[group.Left](w, m).Err, session.ErrNoAuth)
			m.Close()
			kit.Pass(time.Second)
			check.Len(w, w.members(), 0)
		}
	})
}

// TestBlinded: a group that may not be read has members that do not see each other.
func TestBlinded(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		owner := w.open(session.ACL{Perms: session.PermCreate | session.PermDelete, Scheme: "world", ID: "anyone"})
		check.Must(w, owner.EnsurePath(w.Context(), workers))
		s := w.open()
		m := w.join(s, "host-1", "1", nil)
		check.Is(w, await[group.Blinded](w, m).Err, session.ErrNoAuth)
		check.OK(w, m.Update(w.Context(), []byte("2")))
		check.EqualSlices(w, w.members(), []string{"host-1"})
		w.Expire(s.ID())
		await[group.Gone](w, m)
		await[group.Joined](w, m)
		check.OK(w, m.Leave(w.Context()))
		check.Len(w, w.members(), 0)
	})
}

// TestEndedContexts: commands go on without those who wait for them.
func TestEndedContexts(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		s := w.open()
		over, cancel := context.WithCancelCause(w.Context())
		why := errors.New("why")
		cancel(why)
		m := w.joined(s, "1", nil)
		w.Freeze(s.ID(), zktest.Both)
		check.Is(w, m.Update(over, []byte("2")), why)
		w.Thaw(s.ID())
		kit.Pass(time.Second)
		check.Reads(s.Get(w.Context(), workers+"/host-1"))(w, "2")
		w.Freeze(s.ID(), zktest.Both)
		check.Is(w, m.Leave(over), why)
		w.Thaw(s.ID())
		<-m.Done()
		there := w.members()
		check.True(w, len(there) == 0 && m.Err() == nil, "there are %q, %v", there, m.Err())
		err := m.Leave(over)
		check.False(w, err != nil && !errors.Is(err, why), "%v", err)
	})
}

// TestMissingParent: the group is made when it is needed, and made again when it is gone.
func TestMissingParent(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		s := w.open()
		g := w.watch(s)
		m := w.joined(s, "1", nil)
		check.Have(s.Multi(w.Context(), session.DeleteOp(workers+"/host-1", 1), session.DeleteOp(workers, 0)))(w)
		check.Is(w, await[group.Gone](w, m).Err, group.ErrNodeDeleted)
		await[group.Joined](w, m)
		w.expect(g, "host-1=1")
		// One that leaves finds nothing to delete.
		w.Freeze(s.ID(), zktest.ToClient)
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Millisecond)
		defer cancel()
		_ = m.Leave(ctx)
		other := w.open()
		err := other.Delete(w.Context(), workers+"/host-1", session.AnyVersion)
		check.False(w, err != nil && !errors.Is(err, session.ErrNoNode), "%v", err)
		w.Thaw(s.ID())
		<-m.Done()
		check.OK(w, m.Err())
	})
}

// TestThrottled: that a server is too busy for a request is no reason to leave, or not to
// join.
func TestThrottled(t *testing.T) {
	const throttled = -127
	for name, op := range map[string]zktest.Op{"create": zktest.OpMulti, "look": zktest.OpGetData} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, zktest.Config{}, func(w world) {
				s := w.openGated()
				fail := func() {
					for range 10 {
						w.AnswerError(zktest.Match{Op: op}, throttled)
					}
				}
				if op == zktest.OpMulti {
					fail()
				}
				m := w.join(s.Session, "host-1", "one", nil)
				kit.Pass(time.Second)
				if op == zktest.OpGetData { // it looks when it is connected again
					s.Cut()
					fail()
					s.Mend()
				}
				kit.Pass(time.Minute)
				w.expectOwner(s.Session)
				check.OK(w, m.Err())
			})
		})
	}
}

// TestMayNotDelete: a member that may not delete its node leaves with the session at
// last. The command to leave is not held up by that for ever, and a rival's node is not
// touched.
func TestMayNotDelete(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		owner := w.open(session.ACL{Perms: session.PermCreate | session.PermRead, Scheme: "world", ID: "anyone"})
		check.Must(w, owner.EnsurePath(w.Context(), workers))
		a, b := w.open(), w.open()
		first := w.joined(a, "first", nil)
		began := time.Now()
		check.Is(w, first.Leave(w.Context()), session.ErrNoAuth)
		check.Within(w, time.Since(began), 12*time.Second, 24*time.Second, "left after")
		first.Close()
		w.expectOwner(a)
		a.Close()
		w.joined(b, "second", nil)
		kit.Pass(time.Minute)
		w.expectOwner(b)
	})
}

// TestLaterMemberStays: a membership whose node the server did not let go goes on deleting it, but
// not when another one of the same session has taken it over.
func TestLaterMemberStays(t *testing.T) {
	for _, joins := range []bool{true, false} {
		inBubble(t, zktest.Config{}, func(w world) {
			s := w.open()
			first := w.joined(s, "one", nil)
			for range 1000 {
				w.AnswerError(zktest.Match{Op: zktest.OpDelete}, -102)
			}
			check.Is(w, first.Leave(w.Context()), session.ErrNoAuth)
			first.Close()
			var second *group.Membership
			if joins {
				second = w.joined(s, "two", nil)
			}
			before, _ := s.Exists(w.Context(), workers+"/host-1")
			w.ClearFaults()
			kit.Pass(time.Minute)
			if !joins {
				check.Len(w, w.members(), 0, "are left")
				return
			}
			after, err := s.Exists(w.Context(), workers+"/host-1")
			check.True(w, err == nil && after != nil && after.Czxid == before.Czxid, "%+v stood, and now %+v, %v", before, after, err)
			second.Close()
		})
	}
}
