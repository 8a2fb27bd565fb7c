package config_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// count has every session increment the counter so often, and returns how many times
// that was confirmed, and how many times it is unknown.
func count(t *testing.T, sessions []*session.Session, times int, trouble func(i int)) (confirmed, unknown int) {
	t.Helper()
	var yes, maybe, begun atomic.Int64
	var all sync.WaitGroup
	for _, s := range sessions {
		v := counter(t, s)
		all.Go(func() {
			defer v.Close()
			for range times {
				trouble(int(begun.Add(1)))
				switch err := v.Update(t.Context(), increment); {
				case err == nil:
					yes.Add(1)
				case errors.Is(err, session.ErrUnknownOutcome):
					maybe.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return int(yes.Load()), int(maybe.Load())
}

// A lost reply is no reason to count twice, nor to count not at all.
func TestCounterUnderLostReplies(t *testing.T) {
	inBubble(t, 10, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		confirmed, unknown := count(t, s, 100, func(i int) {
			switch m := (zktest.Match{Op: zktest.OpMulti, Session: s[i%10].ID()}); {
			case i%7 == 0:
				srv.DropReply(m)
			case i%11 == 0:
				srv.DropRequest(m)
			case i%13 == 0:
				srv.DropReply(zktest.Match{Op: zktest.OpGetData, Session: s[i%10].ID()})
			case i%17 == 0:
				srv.Disconnect(s[i%10].ID())
			}
		})
		srv.ClearFaults()
		check.True(t, confirmed == 1000 && unknown == 0, "%d confirmed, %d unknown, of 1,000", confirmed, unknown)
		noMarkers(t, srv)
		got, _, err := counter(t, s[0]).Get(t.Context())
		check.True(t, err == nil && got == 1000, "counted to %d (%v), want exactly 1,000", got, err)
	})
}

// With expiries, what is not confirmed may have been counted, and nothing else.
func TestCounterUnderExpiries(t *testing.T) {
	inBubble(t, 10, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		confirmed, unknown := count(t, s, 40, func(i int) {
			victim := s[i%10].ID()
			switch {
			case i%9 == 0: // done, and then the session is over before the marker can be read
				srv.DropReply(zktest.Match{Op: zktest.OpMulti, Session: victim})
				time.AfterFunc(10*time.Millisecond, func() { srv.Expire(victim) })
			case i%10 == 0:
				srv.Expire(victim)
			case i%11 == 0:
				srv.DropRequest(zktest.Match{Op: zktest.OpMulti, Session: victim})
			case i%19 == 0:
				srv.DropReply(zktest.Match{Op: zktest.OpMulti, Session: victim})
				srv.Freeze(victim, zktest.ToClient)
				time.AfterFunc(time.Minute, func() { srv.Thaw(victim) })
			}
		})
		srv.ClearFaults()
		srv.Thaw(0)
		t.Logf("%d confirmed, %d unknown", confirmed, unknown)
		check.True(t, confirmed+unknown == 400 && unknown != 0 && confirmed >= 200, "%d confirmed, %d unknown, of 400", confirmed, unknown)
		got, _, err := counter(t, s[0]).Get(t.Context())
		check.True(t, err == nil && got >= confirmed && got <= confirmed+unknown, "counted to %d (%v), want between %d and %d", got, err, confirmed, confirmed+unknown)
		kit.Pass(time.Minute)
		noMarkers(t, srv)
	})
}

// The one case that cannot be known: applied, and the session is gone.
func TestUnknownWhenTheSessionIsGone(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		v, other := counter(t, s[0]), counter(t, s[1])
		check.Must(t, v.Set(t.Context(), 1))
		id := s[0].ID()
		srv.DropReply(zktest.Match{Op: zktest.OpMulti, Session: id})
		done := make(chan error, 1)
		go func() { done <- v.Update(t.Context(), increment) }()
		srv.Refuse(true)
		synctest.Wait()
		srv.Expire(id)
		srv.Refuse(false)
		err := <-done
		check.True(t, errors.Is(err, session.ErrUnknownOutcome) && errors.Is(err, session.ErrExpired), "%v, want an unknown outcome", err)
		value(t, other, 2, 1)
		check.Must(t, v.Update(t.Context(), increment)) // in the next session
		value(t, other, 3, 2)
	})
}

// Set is done once, too: a repetition would undo what others have set since.
func TestSetIsNotRepeated(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		v, other := counter(t, s[0]), counter(t, s[1])
		// The first time without a marker: the directory and the node are made on the way.
		for round, skip := range []int{1, 0} {
			srv.DropReply(zktest.Match{Op: zktest.OpMulti, Session: s[0].ID(), Skip: skip})
			srv.Delay(zktest.Match{Op: zktest.OpGetData, Session: s[0].ID(), Path: "/app/_config-markers/*"}, 5*time.Second)
			done := make(chan error, 1)
			go func() { done <- v.Set(t.Context(), 10) }()
			kit.Pass(4 * time.Second) // it was applied, which is not known
			check.Must(t, other.Set(t.Context(), 20))
			check.Must(t, <-done)
			got, _, err := other.Get(t.Context())
			check.Require(t, err == nil && got == 20, "round %d: %d (%v), want the last one, 20", round, got, err)
			check.Must(t, srv.AwaitFault(time.Second))
		}
	})
}
