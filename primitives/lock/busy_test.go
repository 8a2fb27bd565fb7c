package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

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
