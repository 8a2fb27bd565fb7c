package barrier_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
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
		check.True(t, errors.Is(err, session.ErrNoAuth) && !errors.Is(err, barrier.ErrNodeGone), "not to be watched: %v", err)
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
		check.True(t, errors.Is(err, session.ErrNoAuth) && !errors.Is(err, barrier.ErrNodeGone), "not to be watched: %v", err)
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
			check.True(t, errors.Is(err, barrier.ErrLayout), "entered: %v", err)
			if data, _, err := s[1].Get(t.Context(), path+"/1"); err != nil || string(data) != "treasure" {
				t.Errorf("there is %q, %v", data, err)
			}
		})
	}
}

// A leaver that was away while the path was removed and its rounds began with 1 again does not wait
// for the new round of the number.
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
				waits(t, "Enter", early)
				cancel()
				check.Is(t, settled(t, "Enter", early), context.Canceled)
				backup, id := srv.Backup(), s[0].ID()

				one := begin(func() error { return a.Enter(t.Context()) })
				ok(t, b.Enter(t.Context()))
				ok(t, settled(t, "Enter", one))
				leaver := begin(func() error { return a.Leave(t.Context()) })
				waits(t, "Leave", leaver)
				transact := func(s *session.Session) {
					for range 500 {
						check.Have(s.Set(t.Context(), "/", nil, session.AnyVersion))(t)
					}
				}
				if !goesOn { // the server serves no session that has seen more than it has
					transact(s[1])
					ok(t, s[0].Sync(t.Context(), "/"))
				}

				srv.Restore(backup)
				fresh := check.Open(session.Open(t.Context(), srv.Addrs(), &session.Options{
					Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: srv.DialContext,
				}))(t)
				c := double(t, fresh, 2, "c")
				other := begin(func() error { return c.Enter(t.Context()) })
				waits(t, "Enter", other)
				if in := parties(srv); len(in) != 1 || !strings.HasPrefix(in[0], path+"/1/in/") {
					t.Fatalf("%q are in", in)
				}
				waits(t, "Leave", leaver)
				if goesOn {
					transact(fresh)
				}
				pass(time.Minute)
				check.Equal(t, s[0].ID() == id, goesOn, "the session goes on")
				ok(t, settled(t, "Leave", leaver))
				waits(t, "Enter", other)
				again := begin(func() error { return a.Enter(t.Context()) })
				pass(time.Minute)
				ok(t, settled(t, "Enter", again))
				ok(t, settled(t, "Enter", other))
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
					pass(time.Second)
					ok(t, settled(t, "one", one))
					ok(t, settled(t, "the other", other))
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
					pass(time.Second)
				}

				srv.Restore(backup)
				fresh := check.Open(session.Open(t.Context(), srv.Addrs(), &session.Options{Timeout: 12 * time.Second, Dialer: srv.DialContext}))(t)
				for range 500 {
					check.Have(fresh.Set(t.Context(), "/", nil, session.AnyVersion))(t)
				}
				pass(time.Second)
				check.Equal(t, s[0].ID(), id, "the session goes on")
				srv.ResetRequests()
				if !waits {
					waiter = begin(enter)
					pass(time.Second)
				}
				made := srv.RequestsOf(id)
				check.True(t, waits || made[zktest.OpMulti] == 2 && made[zktest.OpGetData] == 2, "refused, and entered; two readings: %v", made)
				if waits { // it reads the record within a third of the timeout
					pass(4 * time.Second)
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
		pass(time.Second)
		made := srv.Requests()
		ok(t, settled(t, "Enter", one))
		ok(t, settled(t, "Enter", other))
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
		ok(t, b.Enter(t.Context()))
		ok(t, settled(t, "Enter", one))
		leaver := begin(func() error { return a.Leave(t.Context()) })
		check.Have(s[1].Set(t.Context(), path, []byte("notes"), session.AnyVersion))(t)
		pass(time.Minute)
		waits(t, "Leave", leaver)
		ok(t, b.Leave(t.Context()))
		ok(t, settled(t, "Leave", leaver))
	})
}

// A server that lags does not hide a barrier from Lift, nor a lost request.
func TestLiftUnseen(t *testing.T) {
	bubble(t, 0, zktest.Config{Replicas: 3}, func(t *testing.T, srv *zktest.Server, _ []*session.Session) {
		late, prompt := behind(t, srv)
		defer late.Close()
		defer prompt.Close()
		b := single(t, late, nil)
		ok(t, b.Wait(t.Context()))
		ok(t, single(t, prompt, nil).Raise(t.Context()))
		srv.DropRequest(zktest.Match{Op: zktest.OpDelete, Session: late.ID()})
		ok(t, b.Lift(t.Context()))
		if stat, err := prompt.Exists(t.Context(), path); err != nil || stat != nil {
			t.Errorf("%v is left, %v", stat, err)
		}
	})
}

// What comes between the reading of Lift and its deletion stays, unless it is another barrier of
// the same version.
func TestLiftRace(t *testing.T) {
	create := func(t *testing.T, s *session.Session, node string, data []byte, mode session.CreateMode) {
		t.Helper()
		check.Have(s.Create(t.Context(), node, data, mode))(t)
	}
	for name, row := range map[string]struct {
		comes func(t *testing.T, s *session.Session)
		want  error
		left  string // "none" if no node is left
	}{
		"nothing": {func(*testing.T, *session.Session) {}, nil, "none"},
		"a value": {func(t *testing.T, s *session.Session) {
			check.Have(s.Set(t.Context(), path, []byte("on"), session.AnyVersion))(t)
		}, barrier.ErrForeign, "on"},
		"a child": {func(t *testing.T, s *session.Session) { create(t, s, path+"/notes", nil, session.Persistent) }, barrier.ErrForeign, ""},
		"a child of a moment": {func(t *testing.T, s *session.Session) {
			create(t, s, path+"/notes", nil, session.Persistent)
			<-time.After(time.Second) // the deletion is refused
			ok(t, s.Delete(t.Context(), path+"/notes", session.AnyVersion))
		}, nil, "none"},
		"a gate in its place": {func(t *testing.T, s *session.Session) {
			ok(t, s.Delete(t.Context(), path, session.AnyVersion))
			check.Have(single(t, s, nil).TryRaise(t.Context()))(t)
		}, nil, "gate"},
		"it is lifted": {func(t *testing.T, s *session.Session) { ok(t, s.Delete(t.Context(), path, session.AnyVersion)) }, nil, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
				a := single(t, s[0], nil)
				ok(t, a.Raise(t.Context()))
				srv.Delay(zktest.Match{Op: zktest.OpDelete, Session: s[0].ID()}, time.Second)
				srv.Delay(zktest.Match{Op: zktest.OpGetChildren2, Session: s[0].ID()}, time.Second)
				call := begin(func() error { return a.Lift(t.Context()) })
				<-time.After(100 * time.Millisecond)
				row.comes(t, s[1])
				pass(time.Minute)
				check.Is(t, settled(t, "Lift", call), row.want)
				data, _, err := s[1].Get(t.Context(), path)
				left := string(data[:min(len(data), len("gate"))])
				if errors.Is(err, session.ErrNoNode) {
					left = "none"
				}
				check.Equal(t, left, row.left)
			})
		})
	}
}

// A gate whose data another gate has overwritten, which was lifting its own at that moment, is
// recognised: also when the reply to its creation was lost.
func TestGateOverwritten(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		bubble(t, 3, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
			a, b, c := single(t, s[0], nil), single(t, s[1], nil), single(t, s[2], nil)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			first, err := a.TryRaise(t.Context())
			ok(t, err)
			srv.Delay(zktest.Match{Op: zktest.OpSetData, Session: s[0].ID()}, 100*time.Millisecond)
			lifting := begin(func() error { return first.Lift(t.Context()) })
			waits(t, "Lift", lifting)
			ok(t, c.Lift(t.Context()))
			srv.DropReply(zktest.Match{Op: zktest.OpMulti, Session: s[1].ID()})
			srv.Refuse(true) // it reconnects later
			var second *barrier.Gate
			raising := begin(func() (err error) {
				second, err = b.TryRaise(ctx)
				return err
			})
			pass(500 * time.Millisecond)
			if _, stat, err := s[2].Get(t.Context(), path); err != nil || stat.EphemeralOwner != s[1].ID() || stat.Version != 2 {
				t.Fatalf("the node was not overwritten: %v, %v", stat, err)
			}
			waits(t, "TryRaise", raising)
			srv.Refuse(false)
			if cancelled {
				stop()
			}
			pass(10 * time.Second)
			ok(t, settled(t, "Lift", lifting))
			if err := settled(t, "TryRaise", raising); cancelled != errors.Is(err, context.Canceled) || !cancelled && err != nil {
				t.Errorf("TryRaise: %v", err)
			}
			if second != nil {
				ok(t, second.Lift(t.Context()))
			}
			if stat, err := s[2].Exists(t.Context(), path); err != nil || stat != nil {
				t.Errorf("%v is left, %v", stat, err)
			}
		})
	}
}

// Of gates in one session one is raised, whatever reply is lost.
func TestGatesOfOneSession(t *testing.T) {
	bubble(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		b := single(t, s[0], nil)
		ok(t, s[0].EnsurePath(t.Context(), "/barriers"))
		for range 2 {
			srv.DropReply(zktest.Match{Op: zktest.OpMulti})
			gates := make(chan *barrier.Gate, 3)
			for range 3 {
				go func() {
					g, err := b.TryRaise(t.Context())
					if err != nil && !errors.Is(err, barrier.ErrRaised) {
						t.Error(err)
					}
					gates <- g
				}()
			}
			pass(5 * time.Second)
			raised := 0
			for range 3 {
				if g := <-gates; g != nil {
					raised++
					ok(t, g.Lift(t.Context()))
				}
			}
			check.Equal(t, raised, 1, "gates are raised")
			if stat, err := s[0].Exists(t.Context(), path); err != nil || stat != nil {
				t.Errorf("%v is left, %v", stat, err)
			}
		}
	})
}

// The reply to the creation is lost, and the context ends before Raise can try again: the barrier
// may stand.
func TestRaiseEndsInDoubt(t *testing.T) {
	bubble(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		ok(t, s[0].EnsurePath(t.Context(), "/barriers"))
		b := check.Have(barrier.New(s[0], path, nil))(t)
		defer b.Close()
		srv.DropReply(zktest.Match{Op: zktest.OpCreate})
		srv.Refuse(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := b.Raise(ctx)
		check.Is(t, err, session.ErrUnknownOutcome)
		check.Is(t, err, context.DeadlineExceeded)
		srv.Refuse(false)
	})
}

// A gate whose node could not be deleted is over, but its removal goes on. The next TryRaise of the
// session, which is in doubt, does not take that node for its own.
func TestGateNotLifted(t *testing.T) {
	bubble(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		above := func(perms session.Perms) {
			check.Have(s[0].SetACL(t.Context(), "/barriers", []session.ACL{{Perms: perms, Scheme: "world", ID: "anyone"}}, session.AnyVersion))(t)
		}
		b := check.Have(barrier.New(s[0], path, nil))(t)
		defer b.Close()
		first := check.Have(b.TryRaise(t.Context()))(t)
		above(session.PermAll &^ session.PermDelete)
		check.Is(t, first.Lift(t.Context()), session.ErrNoAuth)
		srv.DropReply(zktest.Match{Op: zktest.OpMulti})
		_, err := b.TryRaise(t.Context())
		check.Is(t, err, barrier.ErrRaised)
		above(session.PermAll)
		pass(time.Minute)
		second := check.Have(b.TryRaise(t.Context()))(t)
		check.True(t, second.Token() > first.Token(), "%d follows %d", second.Token(), first.Token())
		check.Must(t, second.Lift(t.Context()))
	})
}

// A gate that could not be lifted stays the holder of its node as long as its session, and no
// longer: servers that come back with older data give the same token to a node of the next one.
func TestGateNotLiftedBeforeRestore(t *testing.T) {
	bubble(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		ok(t, s[0].EnsurePath(t.Context(), "/barriers"))
		backup := srv.Backup()
		write := func() int64 { return check.Have(s[0].Set(t.Context(), "/", nil, session.AnyVersion))(t).Mzxid }
		for range 10 {
			write()
		}
		b := check.Have(barrier.New(s[0], path, nil))(t)
		defer b.Close()
		first := check.Have(b.TryRaise(t.Context()))(t)
		check.Have(s[0].SetACL(t.Context(), "/barriers", []session.ACL{{Perms: session.PermAll &^ session.PermDelete, Scheme: "world", ID: "anyone"}}, session.AnyVersion))(t)
		check.Is(t, first.Lift(t.Context()), session.ErrNoAuth)

		srv.Restore(backup)
		pass(time.Minute)
		for write() < first.Token()-1 {
		}
		srv.DropReply(zktest.Match{Op: zktest.OpMulti})
		second := check.Have(b.TryRaise(t.Context()))(t)
		check.Equal(t, second.Token(), first.Token(), "is the token")
		ok(t, second.Lift(t.Context()))
		stat := check.Have(s[0].Exists(t.Context(), path))(t)
		check.True(t, stat == nil, "%v is left", stat)
	})
}

// A party for which there was no room goes before all that came for a later round.
func TestOldestFirst(t *testing.T) {
	for range 3 {
		bubble(t, 9, zktest.Config{}, func(t *testing.T, _ *zktest.Server, s []*session.Session) {
			handles := doubles(t, s, 1)
			entered := make(chan int, len(handles))
			enter := func(i int) {
				go func() {
					if handles[i].Enter(t.Context()) == nil {
						entered <- i
					}
				}()
				synctest.Wait()
			}
			enter(0)
			enter(1)
			enter(2)
			ok(t, handles[<-entered].Leave(t.Context()))
			winner := <-entered
			for i := 3; i < len(handles); i++ {
				enter(i)
			}
			ok(t, handles[winner].Leave(t.Context()))
			if next := <-entered; next+winner != 1+2 {
				t.Errorf("%d goes before %d", next, 1+2-winner)
			}
			for _, d := range handles {
				d.Close()
			}
		})
	}
}

// A handle at rest is not bothered by the rounds of others.
func TestAtRest(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		handles := doubles(t, s, 1)
		rounds(t, handles[:1], 1, func(int) {})
		rounds(t, handles[1:], 1, func(int) {}) // ends a watch that is kept for the next Enter
		synctest.Wait()
		srv.ResetRequests()
		rounds(t, handles[1:], 3, func(int) {})
		if n := srv.RequestsOf(s[0].ID()).Total(); n != 0 {
			t.Errorf("it made %d requests", n)
		}
	})
}

// What the session has made itself, a gate or not, is not taken for the gate whose creation is in
// doubt.
func TestInDoubtBesideOwn(t *testing.T) {
	bubble(t, 1, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		b := single(t, s[0], nil)
		refused := func() {
			t.Helper()
			for _, lose := range []func(zktest.Match){srv.DropReply, srv.DropRequest} {
				lose(zktest.Match{Op: zktest.OpMulti})
				if _, err := b.TryRaise(t.Context()); !errors.Is(err, barrier.ErrRaised) {
					t.Errorf("raised beside another: %v", err)
				}
				pass(5 * time.Second)
			}
			if stat, err := s[0].Exists(t.Context(), path); err != nil || stat == nil {
				t.Errorf("there is %v, %v", stat, err)
			}
		}
		g, err := b.TryRaise(t.Context())
		ok(t, err)
		refused()
		waits(t, "the gate", begin(func() error { <-g.Done(); return g.Err() }))
		ok(t, g.Lift(t.Context()))
		_, err = s[0].Create(t.Context(), path, []byte("192.0.2.1"), session.Ephemeral) // as Curator's barriers have
		ok(t, err)
		refused()
	})
}

// An Enter that is cancelled while the handle leaves the last round does not enter the next one.
func TestCancelledWhileLeaving(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		a, b := double(t, s[0], 2, "a"), double(t, s[1], 2, "b")
		one := begin(func() error { return a.Enter(t.Context()) })
		ok(t, b.Enter(t.Context()))
		ok(t, settled(t, "Enter", one))
		leaver := begin(func() error { return a.Leave(t.Context()) })
		waits(t, "Leave", leaver)
		ctx, stop := context.WithCancel(t.Context())
		next := begin(func() error { return a.Enter(ctx) })
		waits(t, "Enter", next)
		stop()
		if err := settled(t, "Enter", next); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		ok(t, b.Leave(t.Context()))
		ok(t, settled(t, "Leave", leaver))
		synctest.Wait()
		if left := parties(srv); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	})
}

// A handle whose session has expired may be back before the server deletes its node. The two nodes
// are one party.
func TestNotWithItself(t *testing.T) {
	bubble(t, 2, zktest.Config{}, func(t *testing.T, srv *zktest.Server, s []*session.Session) {
		handles := doubles(t, s, 2)
		srv.KeepEphemerals(20 * time.Second)
		first := begin(func() error { return handles[0].Enter(t.Context()) })
		waits(t, "Enter", first)
		srv.Expire(s[0].ID())
		pass(5 * time.Second)
		waits(t, "Enter", first)
		if left := parties(srv); len(left) != 2 {
			t.Fatalf("there are %q, want the old node and the new one", left)
		}
		ok(t, handles[1].Enter(t.Context()))
		ok(t, settled(t, "Enter", first))
		leaver := begin(func() error { return handles[0].Leave(t.Context()) })
		waits(t, "Leave", leaver)
		ok(t, handles[1].Leave(t.Context()))
		ok(t, settled(t, "Leave", leaver))
	})
}
