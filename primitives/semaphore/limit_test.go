package semaphore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestSetLimitBehindALaggingReplica: a limit that was set before, by another client, is
// not what a follower that lags still says.
func TestSetLimitBehindALaggingReplica(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		setLimit(t, all[0], 5)
		<-time.After(2 * time.Second)
		for i, s := range all {
			setLimit(t, all[(i+1)%3], 7)
			setLimit(t, s, 5)
			<-time.After(2 * time.Second)
			record(t, all[0], "5 unit")
		}
	}, zktest.Replicas(3, time.Second))
}

// TestBackInLineAfterSetLimit: who comes back to the line, and finds that it is gone, has
// been in line, and takes the limit that has been set meanwhile.
func TestBackInLineAfterSetLimit(t *testing.T) {
	for _, w := range []int{1, 2} {
		inBubble(t, 3, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			operator := all[2]
			held := acquire(t, all[0], 2, weight(2))
			waiter := join(t, all[1], 2, weight(w))
			next[semaphore.Waiting](t, waiter)
			srv.Refuse(true)
			srv.Disconnect(all[1].ID())
			<-time.After(10 * time.Second)
			held.Close()
			srv.Reap()
			srv.Reap()
			setLimit(t, operator, 3)
			srv.Refuse(false)
			<-time.After(10 * time.Second)
			expect(t, []*semaphore.Lease{waiter}, 0)
			check.OK(t, waiter.Err(), "weight", w)
		})
	}
}

// TestHandWritten: what an operator writes by hand, without the mark.
func TestHandWritten(t *testing.T) {
	for _, text := range []string{"", "4"} {
		runInBubble(t, text, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
			leases := []*semaphore.Lease{acquire(t, all[0], 4, weight(3))}
			check.Have(all[2].Set(t.Context(), path, []byte(text), session.AnyVersion))(t)
			if text != "4" {
				setLimit(t, all[2], 4)
			}
			leases = append(leases, join(t, all[1], 4, nil), join(t, all[1], 4, nil), join(t, all[2], 4, nil))
			synctest.Wait()
			n := 0
			for _, l := range leases {
				if held(l) {
					n++
				}
			}
			check.Equal(t, n, 2, "holders of leases of 4, one of them 3")
		})
	}
}

// TestHandWrittenWhileWaiting: a limit written by hand moves who waits as any other.
func TestHandWrittenWhileWaiting(t *testing.T) {
	for _, w := range []int{1, 2} {
		inBubble(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
			leases := []*semaphore.Lease{acquire(t, all[0], 2, nil), join(t, all[1], 2, weight(2)), join(t, all[1], 2, weight(w))}
			synctest.Wait()
			check.Have(all[2].Set(t.Context(), path, []byte("9"), session.AnyVersion))(t)
			<-time.After(time.Second)
			expect(t, leases, 0, 1, 2)
			for _, l := range leases {
				check.OK(t, l.Err())
			}
		})
	}
}

// TestSetLimitDoesNotUndo: another client sets the limit between the lost reply to its
// creation and the next look.
func TestSetLimitDoesNotUndo(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		check.Must(t, all[0].EnsurePath(t.Context(), "/limits"))
		srv.DropReply(zktest.Match{Session: all[0].ID(), Path: path, Skip: 1})
		srv.Delay(zktest.Match{Op: zktest.OpGetData, Session: all[0].ID(), Skip: 1}, time.Second)
		first := make(chan error)
		go func() { first <- semaphore.SetLimit(t.Context(), all[0], path, 6) }()
		<-time.After(500 * time.Millisecond)
		record(t, all[1], "6 unit")
		setLimit(t, all[1], 7)
		check.Is(t, <-first, session.ErrUnknownOutcome) // it was set before, or not
		record(t, all[0], "7 unit")
	})
}

// TestRazedWhileItIsInspected: an operator deletes the path between two reads of a new contender,
// which makes it anew.
func TestRazedWhileItIsInspected(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		setLimit(t, all[1], 1)
		check.Must(t, all[1].EnsurePath(t.Context(), path+"/config")) // so that it looks for contenders of other layouts
		srv.Delay(zktest.Match{Op: zktest.OpGetChildren2, Path: path, Session: all[0].ID()}, time.Second)
		l := join(t, all[0], 1, nil)
		<-time.After(100 * time.Millisecond)
		raze(t, all[1], path)
		<-time.After(5 * time.Second)
		check.Must(t, srv.AwaitFault(0))
		check.True(t, held(l), "%v", l.Err())
	})
}

// TestRazedWhileItIsMade: an operator deletes the path between its creation and that of the line
// below it. The limit is recorded all the same, and a contender that had a place in line stands
// there again.
func TestRazedWhileItIsMade(t *testing.T) {
	for name, waits := range map[string]bool{"new": false, "a waiter": true} {
		runInBubble(t, name, 3, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			making := func() {
				srv.Delay(zktest.Match{Op: zktest.OpCreateContainer, Path: path + "/leases", Session: all[1].ID()}, time.Second)
			}
			var first, l *semaphore.Lease
			if waits {
				first = acquire(t, all[0], 1, nil)
				l = join(t, all[1], 1, nil)
				<-time.After(time.Second)
				making()
				razeAtOnce(t, all[2])
			} else {
				making()
				l = join(t, all[1], 1, nil)
			}
			<-time.After(100 * time.Millisecond)
			check.Must(t, all[2].Delete(t.Context(), path, session.AnyVersion))
			<-time.After(5 * time.Second)
			check.Must(t, srv.AwaitFault(0))
			check.True(t, held(l) && (first == nil || !held(first)), "%v", l.Err())
			record(t, all[2], "1 unit")
		})
	}
}

// razeAtOnce is raze in one transaction: a waiter whose place is gone finds no line to stand in
// again.
func razeAtOnce(t *testing.T, s *session.Session) {
	t.Helper()
	var ops []session.Op
	for _, name := range children(t, s) {
		ops = append(ops, session.DeleteOp(path+"/leases/"+name, session.AnyVersion))
	}
	ops = append(ops, session.DeleteOp(path+"/leases", session.AnyVersion), session.DeleteOp(path, session.AnyVersion))
	check.Have(s.Multi(t.Context(), ops...))(t)
}
