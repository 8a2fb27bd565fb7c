package barrier_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A leaver that was away while the path was removed and its rounds began with 1 again does not wait
// for the new round of the number.
func TestLeaverOfAnotherTime(t *testing.T) {
	bubble(t, 4, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		a, b := double(t, s[0], 2, "a"), double(t, s[1], 2, "b")
		one := begin(func() error { return a.Enter(t.Context()) })
		check.Must(t, b.Enter(t.Context()))
		check.Must(t, kit.Returned(t, "Enter", one))
		leaver := begin(func() error { return a.Leave(t.Context()) })
		kit.Waits(t, "Leave", leaver)
		srv.Freeze(s[0].ID(), zktest.Both)
		srv.Expire(s[0].ID())
		check.Must(t, b.Leave(t.Context()))
		for range 3 {
			srv.Reap()
		}
		if left := srv.Paths(); strings.Contains(strings.Join(left, " "), path) {
			t.Fatalf("%q are left", left)
		}
		c, d := double(t, s[2], 2, "c"), double(t, s[3], 2, "d")
		one = begin(func() error { return c.Enter(t.Context()) })
		check.Must(t, d.Enter(t.Context()))
		check.Must(t, kit.Returned(t, "Enter", one))
		srv.Thaw(0)
		kit.Pass(time.Minute)
		check.Must(t, kit.Returned(t, "Leave", leaver))
	})
}

// Leave ends if the servers come back from a backup that has the directory of the round, but not
// the round. A party that is in the directory by then is of another round of the same number, and
// may wait for the leaver to enter again.
func TestLeaverOfAnotherHistory(t *testing.T) {
	for name, goesOn := range map[string]bool{"the session goes on": true, "the session is over": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
				a, b := double(t, s[0], 2, "a"), double(t, s[1], 2, "b")
				ctx, cancel := context.WithCancel(t.Context())
				early := begin(func() error { return a.Enter(ctx) })
				kit.Waits(t, "Enter", early)
				cancel()
				check.Is(t, kit.Returned(t, "Enter", early), context.Canceled)
				backup, id := srv.Backup(), s[0].ID()

				one := begin(func() error { return a.Enter(t.Context()) })
				check.Must(t, b.Enter(t.Context()))
				check.Must(t, kit.Returned(t, "Enter", one))
				leaver := begin(func() error { return a.Leave(t.Context()) })
				kit.Waits(t, "Leave", leaver)
				transact := func(s *session.Session) {
					for range 500 {
						check.Have(s.Set(t.Context(), "/", nil, session.AnyVersion))(t)
					}
				}
				if !goesOn { // the server serves no session that has seen more than it has
					transact(s[1])
					check.Must(t, s[0].Sync(t.Context(), "/"))
				}

				srv.Restore(backup)
				fresh := check.Open(session.Open(t.Context(), srv.Addrs(), &session.Options{
					Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: srv.DialContext,
				}))(t)
				c := double(t, fresh, 2, "c")
				other := begin(func() error { return c.Enter(t.Context()) })
				kit.Waits(t, "Enter", other)
				if in := parties(srv); len(in) != 1 || !strings.HasPrefix(in[0], path+"/1/in/") {
					t.Fatalf("%q are in", in)
				}
				kit.Waits(t, "Leave", leaver)
				if goesOn {
					transact(fresh)
				}
				kit.Pass(time.Minute)
				check.Equal(t, s[0].ID() == id, goesOn, "the session goes on")
				check.Must(t, kit.Returned(t, "Leave", leaver))
				kit.Waits(t, "Enter", other)
				again := begin(func() error { return a.Enter(t.Context()) })
				kit.Pass(time.Minute)
				check.Must(t, kit.Returned(t, "Enter", again))
				check.Must(t, kit.Returned(t, "Enter", other))
			})
		})
	}
}

// Enter goes on when the servers have come back with older data, and the session does not notice:
// the watch on the record tells nothing, and the record has an older version than the party has
// read. It costs one refusal, and one reading.
func TestEnterOfAnotherHistory(t *testing.T) {
	for name, waits := range map[string]bool{"a party that waits": true, "a party at rest": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
				handles := doubles(t, s, 2)
				both := func(one <-chan error, do func(*barrier.Double, context.Context) error) {
					t.Helper()
					other := begin(func() error { return do(handles[1], t.Context()) })
					kit.Pass(time.Second)
					check.Must(t, kit.Returned(t, "one", one))
					check.Must(t, kit.Returned(t, "the other", other))
				}
				enter := func() error { return handles[0].Enter(t.Context()) }
				leave := func() error { return handles[0].Leave(t.Context()) }
				round := func() {
					t.Helper()
					both(begin(enter), (*barrier.Double).Enter)
					both(begin(leave), (*barrier.Double).Leave)
				}
				round()
				backup, id := srv.Backup(), s[0].ID()
				round()
				round()
				var waiter <-chan error
				if waits {
					waiter = begin(enter)
					kit.Pass(time.Second)
				}

				srv.Restore(backup)
				fresh := check.Open(session.Open(t.Context(), srv.Addrs(), &session.Options{Timeout: 12 * time.Second, Dialer: srv.DialContext}))(t)
				for range 500 {
					check.Have(fresh.Set(t.Context(), "/", nil, session.AnyVersion))(t)
				}
				kit.Pass(time.Second)
				check.Equal(t, s[0].ID(), id, "the session goes on")
				srv.ResetRequests()
				if !waits {
					waiter = begin(enter)
					kit.Pass(time.Second)
				}
				made := srv.RequestsOf(id)
				check.True(t, waits || made[zktest.OpMulti] == 2 && made[zktest.OpGetData] == 2, "refused, and entered; two readings: %v", made)
				if waits { // it reads the record within a third of the timeout
					kit.Pass(4 * time.Second)
				}
				both(waiter, (*barrier.Double).Enter)
				both(begin(leave), (*barrier.Double).Leave)
				round()
				check.Equal(t, s[0].ID(), id, "the session goes on")
			})
		})
	}
}

// An operator deletes the directory of the next round, and creates it anew. It is younger than all
// that the parties have read of the record, and belongs to that all the same: the round begins,
// after one more reading of the record.
func TestDirectoryCreatedAnew(t *testing.T) {
	bubble(t, 3, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		handles := doubles(t, s[:2], 2)
		rounds(t, handles, 1, func(int) {})
		const dir = path + "/2/in"
		check.Have(s[2].Multi(t.Context(), session.DeleteOp(dir, session.AnyVersion), session.CreateOp(dir, nil, session.Container)))(t)
		srv.ResetRequests()
		one := begin(func() error { return handles[0].Enter(t.Context()) })
		other := begin(func() error { return handles[1].Enter(t.Context()) })
		kit.Pass(time.Second)
		made := srv.Requests()
		check.Must(t, kit.Returned(t, "Enter", one))
		check.Must(t, kit.Returned(t, "Enter", other))
		check.Equal(t, made[zktest.OpGetChildren2], 2, "lists")
		check.Equal(t, made[zktest.OpGetData], 5, "readings: one more than of the record, and its node, by each party")
		check.Equal(t, made[zktest.OpSync], 0, "syncs")
	})
}

// A round whose record is overwritten has its members still, and Leave waits for them.
func TestLeaverOfAnUnreadableRecord(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, _ *zktest.Server, s []*session.Session) {
		a, b := double(t, s[0], 2, "a"), double(t, s[1], 2, "b")
		one := begin(func() error { return a.Enter(t.Context()) })
		check.Must(t, b.Enter(t.Context()))
		check.Must(t, kit.Returned(t, "Enter", one))
		leaver := begin(func() error { return a.Leave(t.Context()) })
		check.Have(s[1].Set(t.Context(), path, []byte("notes"), session.AnyVersion))(t)
		kit.Pass(time.Minute)
		kit.Waits(t, "Leave", leaver)
		check.Must(t, b.Leave(t.Context()))
		check.Must(t, kit.Returned(t, "Leave", leaver))
	})
}

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
			check.Must(t, y.Enter(t.Context()))
			check.Must(t, kit.Returned(t, "Enter", one))
		}
		leave := func() {
			one := begin(func() error { return b.Leave(t.Context()) })
			check.Must(t, c.Leave(t.Context()))
			check.Must(t, kit.Returned(t, "Leave", one))
		}
		reap := func(node string) {
			for slices.Contains(srv.Paths(), node) {
				srv.Reap()
			}
		}
		version := func() int32 {
			_, stat, err := s[3].Get(t.Context(), path)
			check.Must(t, err)
			return stat.Version
		}
		enter(b, c)
		leave()
		reap(path + "/2")
		known := version()
		srv.Delay(zktest.Match{Op: zktest.OpMulti, Path: path, Session: s[0].ID(), Skip: 1}, 3*time.Second)
		late := begin(func() error { return a.Enter(t.Context()) })
		kit.Pass(time.Second)
		for range 2 {
			reap(path)
			enter(b, c)
			leave()
		}
		reap(path)
		enter(b, c)
		check.Equal(t, version(), known, "the version of a younger record")
		if !before {
			kit.Pass(time.Minute)
		}
		other := begin(func() error { return d.Enter(t.Context()) })
		kit.Pass(time.Minute)
		kit.Waits(t, "Enter beside a round", late)
		kit.Waits(t, "Enter beside a round", other)
		leave()
		check.Must(t, kit.Returned(t, "Enter", late))
		check.Must(t, kit.Returned(t, "Enter", other))
	})
}
