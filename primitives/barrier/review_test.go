package barrier_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A party whose node cannot be watched leaves none behind, and says why.
func TestUnwatchable(t *testing.T) {
	const noAuth = -102
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		d := double(t, s[0], 1, "a")
		ok(t, d.Enter(t.Context()))
		srv.AnswerError(zktest.Match{Op: zktest.OpGetData, Path: path + "/*/in/*"}, noAuth)
		_, err := s[1].Set(t.Context(), parties(srv)[0], nil, session.AnyVersion)
		ok(t, err)
		pass(time.Second)
		if err = d.Leave(t.Context()); !errors.Is(err, barrier.ErrNotEntered) {
			t.Errorf("Leave: %v", err)
		}
		if !errors.Is(err, session.ErrNoAuth) || errors.Is(err, barrier.ErrNodeGone) {
			t.Errorf("not to be watched: %v", err)
		}
		if left := parties(srv); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	})
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		d := double(t, s[0], 2, "a")
		for range 5 {
			srv.AnswerError(zktest.Match{Op: zktest.OpGetData, Path: path + "/*/in/*"}, noAuth)
		}
		err := settled(t, "Enter", begin(func() error { return d.Enter(t.Context()) }))
		if !errors.Is(err, session.ErrNoAuth) || errors.Is(err, barrier.ErrNodeGone) {
			t.Errorf("not to be watched: %v", err)
		}
		if left := parties(srv); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	})
}

// Children of others with numbers for names are not taken for rounds, and stay.
func TestForeignNumber(t *testing.T) {
	for _, below := range []string{"", "/x"} {
		bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
			ok(t, s[1].EnsurePath(t.Context(), path))
			_, err := s[1].Create(t.Context(), path+"/1", []byte("treasure"), session.Persistent)
			ok(t, err)
			if below != "" {
				_, err = s[1].Create(t.Context(), path+"/1"+below, nil, session.Persistent)
				ok(t, err)
			}
			err = settled(t, "Enter", begin(func() error { return double(t, s[0], 1, "a").Enter(t.Context()) }))
			if !errors.Is(err, barrier.ErrLayout) {
				t.Errorf("entered: %v", err)
			}
			if data, _, err := s[1].Get(t.Context(), path+"/1"); err != nil || string(data) != "treasure" {
				t.Errorf("there is %q, %v", data, err)
			}
		})
	}
}

// A leaver that was away while the path was removed and its rounds began with 1 again does not wait for the
// new round of the number.
func TestLeaverOfAnotherTime(t *testing.T) {
	bubble(t, 4, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		a, b := double(t, s[0], 2, "a"), double(t, s[1], 2, "b")
		one := begin(func() error { return a.Enter(t.Context()) })
		ok(t, b.Enter(t.Context()))
		ok(t, settled(t, "Enter", one))
		leaver := begin(func() error { return a.Leave(t.Context()) })
		waits(t, "Leave", leaver)
		srv.Freeze(s[0].ID(), zktest.Both)
		srv.Expire(s[0].ID())
		ok(t, b.Leave(t.Context()))
		for range 3 {
			srv.Reap()
		}
		if left := srv.Paths(); strings.Contains(strings.Join(left, " "), path) {
			t.Fatalf("%q are left", left)
		}
		c, d := double(t, s[2], 2, "c"), double(t, s[3], 2, "d")
		one = begin(func() error { return c.Enter(t.Context()) })
		ok(t, d.Enter(t.Context()))
		ok(t, settled(t, "Enter", one))
		pass(time.Minute)
		ok(t, settled(t, "Leave", leaver))
	})
}

// Lift does not say that a barrier was lifted that was raised before, and stands.
func TestLiftUnseen(t *testing.T) {
	bubble(t, 3, zktest.Config{Replicas: 3, Lag: time.Minute}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		for _, s := range s {
			if at, _ := srv.Serving(s.ID()); at == 0 {
				continue
			}
			b := single(t, s, nil)
			synctest.Wait()
			raiser, err := session.Open(t.Context(), srv.Addrs()[:1], &session.Options{Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: srv.DialContext})
			ok(t, err)
			defer raiser.Close()
			ok(t, single(t, raiser, nil).Raise(t.Context()))
			srv.DropRequest(zktest.Match{Op: zktest.OpDelete, Session: s.ID()})
			err = b.Lift(t.Context())
			stat, failed := raiser.Exists(t.Context(), path)
			ok(t, failed)
			if err == nil && stat != nil || err != nil && !errors.Is(err, session.ErrUnknownOutcome) {
				t.Errorf("Lift: %v; %v stands", err, stat)
			}
			t.Logf("Lift: %v; %v stands", err, stat)
			return
		}
	})
}
