package barrier_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestReapedMeanwhile: a party's request for a directory is late. Meanwhile the server removes the
// record several times, and others go on with rounds, until their record has the version that the
// party knows. The late request changes nothing of their round, and no other round begins beside.
func TestReapedMeanwhile(t *testing.T) {
	for _, before := range []bool{true, false} { // whether another party comes before the request does
		reapedMeanwhile(t, before)
	}
}

func reapedMeanwhile(t *testing.T, before bool) {
	t.Helper()
	bubble(t, 4, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		a, b, c, d := double(t, s[0], 2, "a"), double(t, s[1], 2, "b"), double(t, s[2], 2, "c"), double(t, s[3], 2, "d")
		enter := func(x, y *barrier.Double) {
			one := begin(func() error { return x.Enter(t.Context()) })
			ok(t, y.Enter(t.Context()))
			ok(t, settled(t, "Enter", one))
		}
		leave := func() {
			one := begin(func() error { return b.Leave(t.Context()) })
			ok(t, c.Leave(t.Context()))
			ok(t, settled(t, "Leave", one))
		}
		reap := func(node string) {
			for slices.Contains(srv.Paths(), node) {
				srv.Reap()
			}
		}
		version := func() int32 {
			_, stat, err := s[3].Get(t.Context(), path)
			ok(t, err)
			return stat.Version
		}
		enter(b, c)
		leave()
		reap(path + "/2")
		known := version()
		srv.Delay(zktest.Match{Op: zktest.OpMulti, Path: path, Session: s[0].ID(), Skip: 1}, 3*time.Second)
		late := begin(func() error { return a.Enter(t.Context()) })
		pass(time.Second)
		for range 2 {
			reap(path)
			enter(b, c)
			leave()
		}
		reap(path)
		enter(b, c)
		check.Equal(t, version(), known, "the version of a younger record")
		if !before {
			pass(time.Minute)
		}
		other := begin(func() error { return d.Enter(t.Context()) })
		pass(time.Minute)
		waits(t, "Enter beside a round", late)
		waits(t, "Enter beside a round", other)
		leave()
		ok(t, settled(t, "Enter", late))
		ok(t, settled(t, "Enter", other))
	})
}
