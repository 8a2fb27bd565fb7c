package session_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// removed begins a removal, and waits for its answer.
func removed(s *session.Session, r session.Removal) error {
	answer := make(chan error, 1)
	r.Begin(s.Async(0), func(err error) { answer <- err })
	return <-answer
}

// TestLaterNodeStays: a removal whose reply was lost does not delete a node that was made at
// the path since then.
func TestLaterNodeStays(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		check.Have(s.Create(t.Context(), "/me", []byte("first"), session.Ephemeral))(t)
		second := make(chan error, 1)
		cancel := s.Subscribe(func(ev session.Event) <-chan struct{} {
			if _, ok := ev.(session.Suspended); ok {
				s.Async(0).Create("/me", []byte("second"), session.Ephemeral, func(_ string, err error) { second <- err })
			}
			return nil
		})
		defer cancel()
		srv.DropReply(zktest.Match{Op: zktest.OpDelete})
		withdrawn := make(chan struct{})
		s.Async(0).Withdraw("/me", func(error) { close(withdrawn) })
		check.Must(t, <-second)
		<-withdrawn
		stands(t, s, "/me")
	})
}

// TestWithdrawBeforeItsCreateIsConfirmed: a node whose create and first deletion were lost
// together is deleted all the same.
func TestWithdrawBeforeItsCreateIsConfirmed(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		srv.DropReply(zktest.Match{Op: zktest.OpCreate})
		srv.DropRequest(zktest.Match{Op: zktest.OpDelete})
		withdrawn := make(chan struct{})
		s.Async(0).Create("/me", nil, session.Ephemeral, func(_ string, err error) {
			check.True(t, session.InDoubt(err), "create: %v", err)
			s.Async(0).Withdraw("/me", func(error) { close(withdrawn) })
		})
		<-withdrawn
		isGone(t, s, "/me")
	})
}

// TestWithdrawnWhileItEnds: a deletion that a session could not send before its end is sent in the
// next session. The second request comes between the news of the end and the next session.
func TestWithdrawnWhileItEnds(t *testing.T) {
	for _, at := range []session.Event{session.Suspended{}, session.Expired{}} {
		for _, impatient := range []bool{false, true} {
			withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
				check.Have(s.Create(t.Context(), "/me", nil, session.Persistent))(t)
				answer := make(chan error, 1)
				begin := sync.OnceFunc(func() {
					session.Removal{Path: "/me", Impatient: impatient}.Begin(s.Async(0), func(err error) { answer <- err })
				})
				defer s.Subscribe(func(ev session.Event) <-chan struct{} {
					if reflect.TypeOf(ev) == reflect.TypeOf(at) {
						begin()
					}
					return nil
				})()
				srv.Expire(s.ID())
				srv.Disconnect(s.ID())
				check.OK(t, <-answer, at, "impatient", impatient)
				isGone(t, s, "/me")
			})
		}
	}
}

// TestWithdrawnWhileRefused: a deletion that was refused with the credentials is sent when a server
// accepts them.
func TestWithdrawnWhileRefused(t *testing.T) {
	tapping(t, func(t *testing.T, srv *zktest.Server, tp *tap, opts *session.Options) {
		opts.Auth = []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}
		s := mustOpen(t, srv.Addrs(), opts)
		check.Have(s.Create(t.Context(), "/me", nil, session.Persistent))(t)
		const authFailed = -115
		tp.strikeWith(strike{auth: authFailed})
		srv.Disconnect(0)
		synctest.Wait()
		withdrawn := make(chan struct{})
		s.Async(0).Withdraw("/me", func(error) { close(withdrawn) })
		pass(time.Second)
		tp.strikeWith(strike{})
		<-withdrawn
		pass(time.Minute)
		isGone(t, s, "/me")
	})
}

// TestRemovalOfAnother: a contested node that was replaced after the look by one of the same
// version, of another session, stays, and the removal is told of it.
func TestRemovalOfAnother(t *testing.T) {
	withSessions(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		check.Have(s.Create(t.Context(), "/me", []byte("same"), session.Ephemeral))(t)
		looks, last := 0, int64(0)
		set := session.SetOp("/me", []byte("same"), session.AnyVersion)
		check.Have(s.Multi(t.Context(), set, set))(t)
		replaced := func(stat *session.Stat) { last = stat.EphemeralOwner }
		err := removed(s, session.Removal{Path: "/me", Contested: true, Replaced: replaced, Says: func(data []byte) bool {
			if looks++; looks == 1 {
				other.Async(0).Multi([]session.Op{
					session.DeleteOp("/me", session.AnyVersion), session.CreateOp("/me", []byte("same"), session.Ephemeral), set, set,
				}, func(_ []session.OpResult, err error) {
					check.OK(t, err)
				})
				srv.Delay(zktest.Match{Op: zktest.OpSetData}, time.Second)
			}
			return string(data) == "same"
		}})
		check.OK(t, err)
		if stat, err := s.Exists(t.Context(), "/me"); err != nil || stat == nil || stat.EphemeralOwner != other.ID() {
			t.Errorf("the other's node: %+v, %v", stat, err)
		}
		check.True(t, last == other.ID(), "it was told of a node of %#x", last)
	})
}

// TestRemovalAcrossReconnect: a contested node that was replaced while the session was suspended
// stays, whatever version it has: whether the connection broke before the deletion could be sent,
// or when it was about to be.
func TestRemovalAcrossReconnect(t *testing.T) {
	for _, before := range []bool{true, false} {
		withSessions(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			check.Have(s.Create(t.Context(), "/me", nil, session.Ephemeral))(t)
			replace := func() {
				srv.Disconnect(s.ID())
				pass(10 * time.Millisecond)
				set := session.SetOp("/me", nil, session.AnyVersion)
				if _, err := other.Multi(t.Context(), session.DeleteOp("/me", session.AnyVersion), session.CreateOp("/me", nil, session.Ephemeral), set, set); err != nil {
					t.Error(err)
				}
			}
			srv.Delay(zktest.Match{Op: zktest.OpSetData, Session: s.ID(), Skip: 1}, time.Second)
			var asked []int64
			answer := make(chan error, 1)
			session.Removal{Path: "/me", Contested: true, Is: func(stat *session.Stat) bool {
				if asked = append(asked, stat.EphemeralOwner); len(asked) == 3 && !before {
					replace()
				}
				return stat.EphemeralOwner == s.ID()
			}}.Begin(s.Async(0), func(err error) { answer <- err })
			if before { // the reply to the second write waits behind another answer
				synctest.Wait()
				turn := make(chan struct{})
				s.Subscribe(func(session.Event) <-chan struct{} { <-turn; return nil })
				pass(2 * time.Second)
				replace()
				close(turn)
			}
			err := <-answer
			if stat, missing := s.Exists(t.Context(), "/me"); err != nil || missing != nil || stat == nil || stat.EphemeralOwner != other.ID() {
				t.Errorf("the other's node: %+v; %v, %v", stat, err, missing)
			}
			check.True(t, len(asked) == 4 && asked[3] == other.ID(), "asked about nodes of %v", asked)
		})
	}
}

// TestRemovalConditions: a removal deletes the node that its conditions are about, and no
// other.
func TestRemovalConditions(t *testing.T) {
	no := func(*session.Stat) bool { return false }
	says := func(text string) func([]byte) bool {
		return func(data []byte) bool { return bytes.Equal(data, []byte(text)) }
	}
	for _, row := range []struct {
		name string
		r    session.Removal
		gone bool
	}{
		{"none", session.Removal{}, true},
		{"another stat", session.Removal{Is: no}, false},
		{"its data", session.Removal{Says: says("data")}, true},
		{"other data", session.Removal{Says: says("more")}, false},
		{"contested", session.Removal{Says: says("data"), Contested: true}, true},
		{"guarded", session.Removal{Says: says("data"), Guard: "/guard"}, true},
		{"guarded by nothing", session.Removal{Guard: "/nothing"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
				for _, path := range []string{"/guard", "/node"} {
					check.Have(s.Create(t.Context(), path, []byte("data"), session.Persistent))(t)
				}
				for range 2 { // a server that is busy is no reason to end
					srv.AnswerError(zktest.Match{Path: "/node"}, -127)
				}
				row.r.Path = "/node"
				check.OK(t, removed(s, row.r))
				srv.ClearFaults()
				if stat, err := s.Exists(t.Context(), "/node"); err != nil || (stat == nil) != row.gone {
					t.Errorf("%+v, %v", stat, err)
				}
			})
		})
	}
}

// TestGuardedRemovalIsOvertaken: a node that has taken the place since the guard was read
// stays.
func TestGuardedRemovalIsOvertaken(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		for _, path := range []string{"/guard", "/node"} {
			check.Have(s.Create(t.Context(), path, []byte("first"), session.Persistent))(t)
		}
		looks := 0
		err := removed(s, session.Removal{Path: "/node", Guard: "/guard", Says: func(data []byte) bool {
			if looks++; looks == 1 {
				s.Async(0).Multi([]session.Op{
					session.SetOp("/guard", nil, session.AnyVersion),
					session.DeleteOp("/node", session.AnyVersion), session.CreateOp("/node", []byte("second"), session.Persistent),
				}, func([]session.OpResult, error) {})
			}
			return string(data) == "first"
		}})
		if stat, missing := s.Exists(t.Context(), "/node"); err != nil || missing != nil || stat == nil || looks != 2 {
			t.Errorf("after %d looks: %+v; %v, %v", looks, stat, err, missing)
		}
	})
}

// TestRefusedRemoval: an impatient removal ends with the refusal. Another is answered with it after
// a session timeout, and goes on, until it is cancelled.
func TestRefusedRemoval(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		check.Have(s.Create(t.Context(), "/node", nil, session.Persistent))(t)
		refuse := func(n int) {
			for range n {
				srv.AnswerError(zktest.Match{Op: zktest.OpDelete}, -102)
			}
		}
		refuse(1)
		began := time.Now()
		if err := removed(s, session.Removal{Path: "/node", Impatient: true}); !errors.Is(err, session.ErrNoAuth) || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		refuse(1)
		check.Is(t, removed(s, session.Removal{Path: "/nothing", Impatient: true, Then: &session.Removal{Path: "/node"}}), session.ErrNoAuth) // then
		refuse(1000)
		answer := make(chan error, 1)
		cancel := session.Removal{Path: "/node"}.Begin(s.Async(0), func(err error) { answer <- err })
		check.Is(t, <-answer, session.ErrNoAuth)
		cancel()
		srv.ClearFaults()
		pass(time.Minute)
		stands(t, s, "/node")
		srv.AnswerError(zktest.Match{Op: zktest.OpSetData}, -102) // a client that may delete need not be allowed to write
		check.OK(t, removed(s, session.Removal{Path: "/node", Contested: true, Impatient: true, Is: func(*session.Stat) bool { return true }}))
		s.Close()
		check.Is(t, removed(s, session.Removal{Path: "/node", Impatient: true}), session.ErrClosed) // in a session that is closed
	})
}

// TestCancelledWhileSuspended: what is cancelled before it was sent is never sent.
func TestCancelledWhileSuspended(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		check.Have(s.Create(t.Context(), "/node", nil, session.Persistent))(t)
		srv.Refuse(true)
		srv.Disconnect(s.ID())
		synctest.Wait()
		cancel := session.Removal{Path: "/node"}.Begin(s.Async(0), func(err error) { t.Errorf("answered: %v", err) })
		cancel()
		srv.Refuse(false)
		stands(t, s, "/node")
	})
}

// TestWithdrawAllFollowsReplacements: a node that is replaced while it is being deleted, by another
// with the prefix, leaves none.
func TestWithdrawAllFollowsReplacements(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		ctx := t.Context()
		check.Must(t, s.EnsurePath(ctx, "/dir"))
		check.Have(s.Create(ctx, "/dir/pre-a", nil, session.Ephemeral))(t)
		done := make(chan struct{})
		srv.Freeze(s.ID(), zktest.ToClient) // the deletion is asked for after the replacement
		session.Removal{Path: "/dir", Prefix: "pre-"}.Begin(s.Async(0), func(error) { close(done) })
		s.Async(0).Multi([]session.Op{
			session.DeleteOp("/dir/pre-a", session.AnyVersion), session.CreateOp("/dir/pre-b", nil, session.Ephemeral),
		}, func(_ []session.OpResult, err error) {
			check.OK(t, err)
		})
		synctest.Wait()
		srv.Thaw(s.ID())
		<-done
		if names, _, err := s.Children(ctx, "/dir"); err != nil || len(names) > 0 {
			t.Errorf("%q, %v", names, err)
		}
	})
}

// TestGoneNodesAreNotCounted: neither those whose deletion was confirmed by the second attempt, nor
// those that another client has deleted, count against the limit of a session.
func TestGoneNodesAreNotCounted(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 64<<10)
	for name, del := range map[string]func(t *testing.T, srv *zktest.Server, s, other *session.Session, node string){
		"lost reply": func(_ *testing.T, srv *zktest.Server, s, _ *session.Session, node string) {
			srv.DropReply(zktest.Match{Op: zktest.OpDelete})
			gone := make(chan struct{})
			s.Async(0).Withdraw(node, func(error) { close(gone) })
			<-gone
		},
		"another client": func(t *testing.T, _ *zktest.Server, _, other *session.Session, node string) {
			check.Must(t, other.Delete(t.Context(), node, session.AnyVersion))
		},
		"found missing": func(t *testing.T, _ *zktest.Server, s, other *session.Session, node string) {
			check.Must(t, other.Delete(t.Context(), node, session.AnyVersion))
			check.Is(t, s.Delete(t.Context(), node, session.AnyVersion), session.ErrNoNode)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withSessions(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
				for i := range 40 {
					node, err := s.Create(t.Context(), fmt.Sprintf("/%s%02d", long, i), nil, session.Ephemeral)
					check.Must(t, errors.Unwrap(err), "node", i, "when there are none")
					del(t, srv, s, other, node)
				}
			})
		})
	}
}

// TestRemovalOfMany: what holds of the removal of a node holds of that of all with a prefix: it
// gives up if it is impatient, and sends nothing more when it was cancelled.
func TestRemovalOfMany(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		many := session.Removal{Path: "/dir", Prefix: "pre-", Impatient: true}
		nodes := []string{"/dir/pre-a", "/dir/pre-b", "/dir/pre-c"}
		for _, node := range append([]string{"/dir"}, nodes...) {
			check.Have(s.Create(t.Context(), node, nil, session.Persistent))(t)
		}
		// The answer to the list comes when the session is suspended.
		turn := make(chan struct{})
		s.Async(0).Exists("/", func(*session.Stat, error) { <-turn })
		cancel := many.Begin(s.Async(0), func(err error) { t.Errorf("answered: %v", err) })
		synctest.Wait()
		srv.Refuse(true)
		srv.Disconnect(s.ID())
		synctest.Wait()
		close(turn)
		synctest.Wait()
		cancel()
		srv.Refuse(false)
		for _, node := range nodes {
			stands(t, s, node)
		}
		srv.AnswerError(zktest.Match{Op: zktest.OpDelete, Path: nodes[1]}, -102)
		began := time.Now()
		if err := removed(s, many); !errors.Is(err, session.ErrNoAuth) || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		check.OK(t, removed(s, many))
		if names, _, err := s.Children(t.Context(), "/dir"); err != nil || len(names) > 0 {
			t.Errorf("%q, %v", names, err)
		}
	})
}

// TestImpatientRemovalOutlastsBusyServers: to be busy is no refusal, however long.
func TestImpatientRemovalOutlastsBusyServers(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		check.Have(s.Create(t.Context(), "/node", nil, session.Persistent))(t)
		for range 1000 {
			srv.AnswerError(zktest.Match{Op: zktest.OpDelete}, -127)
		}
		answer := make(chan error, 1)
		session.Removal{Path: "/node", Impatient: true}.Begin(s.Async(0), func(err error) { answer <- err })
		select {
		case err := <-answer:
			t.Fatalf("given up: %v", err)
		case <-time.After(time.Minute):
		}
		srv.ClearFaults()
		check.OK(t, <-answer)
		isGone(t, s, "/node")
	})
}
