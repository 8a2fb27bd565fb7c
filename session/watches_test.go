package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRemadeNodesAreGone: a node that was deleted, and made again before the session looked,
// is told as gone to those who watch it until then.
func TestRemadeNodesAreGone(t *testing.T) {
	for name, remake := range map[string]func(t *testing.T, srv *zktest.Server, s, other *session.Session){
		"while suspended": func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			srv.Refuse(true)
			srv.Disconnect(s.ID())
			synctest.Wait()
			check.Must(t, other.Delete(t.Context(), "/me", session.AnyVersion))
			check.Have(other.Create(t.Context(), "/me", []byte("another"), session.Ephemeral))(t)
			srv.Refuse(false)
		},
		"in one transaction": func(t *testing.T, _ *zktest.Server, _, other *session.Session) {
			if _, err := other.Multi(t.Context(), session.SetOp("/me", nil, session.AnyVersion),
				session.DeleteOp("/me", session.AnyVersion), session.CreateOp("/me", []byte("another"), session.Ephemeral)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			withSessions(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
				check.Have(s.Create(t.Context(), "/me", []byte("mine"), session.Ephemeral))(t)
				var told []string
				read := make(chan struct{})
				s.Async(0).Watch("/me", func([]byte, *session.Stat, error) { close(read) }, func(data []byte, _ *session.Stat, err error) {
					if errors.Is(err, session.ErrNoNode) {
						data = []byte("gone")
					}
					told = append(told, string(data))
				})
				<-read
				remake(t, srv, s, other)
				check.Must(t, exists(t, s))
				pass(time.Minute)
				check.True(t, len(told) != 0 && told[len(told)-1] == "gone", "told %q", told)
			})
		})
	}
}

// TestFollowOnce: a change ends it without a read, also if it is found after a reconnect, or others
// follow the node too; a deletion is told as such.
func TestFollowOnce(t *testing.T) {
	for name, row := range map[string]struct {
		lost, deleted, others, children bool
		reads                           int
	}{
		"changed":                   {},
		"changed while suspended":   {lost: true},
		"changed, others follow it": {others: true, reads: 1},
		"deleted":                   {deleted: true},
		"deleted while suspended":   {lost: true, deleted: true},
		"children, changed":         {children: true},
		"children, while suspended": {children: true, lost: true},
		"children, deleted":         {children: true, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			withSessions(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
				aspect, mode, read := session.AspectData, session.Ephemeral, zktest.OpGetData
				if row.children {
					aspect, mode, read = session.AspectChildren, session.Persistent, zktest.OpGetChildren2
				}
				check.Have(other.Create(t.Context(), "/it", nil, mode))(t)
				var told []string
				sub := s.Async(0).FollowOnce("/it", aspect, func(r session.Reading, err error) {
					told = append(told, fmt.Sprint(r.Stat != nil, errors.Is(err, session.ErrNoNode)))
				})
				if row.others {
					s.Async(0).Follow("/it", session.AspectData, false, func(session.Reading, error) {})
				}
				synctest.Wait()
				srv.ResetRequests()
				if row.lost {
					srv.Refuse(true)
					srv.Disconnect(s.ID())
					synctest.Wait()
				}
				end := func() error {
					_, err := other.Set(t.Context(), "/it", nil, session.AnyVersion)
					return err
				}
				switch {
				case row.children && !row.deleted:
					end = func() error {
						_, err := other.Create(t.Context(), "/it/child", nil, session.Ephemeral)
						return err
					}
				case row.deleted:
					end = func() error { return other.Delete(t.Context(), "/it", session.AnyVersion) }
				}
				check.Must(t, end())
				srv.Refuse(false)
				pass(time.Minute)
				if want := fmt.Sprint([]string{"true false", fmt.Sprint("false ", row.deleted)}); fmt.Sprint(told) != want || !sub.Over() {
					t.Errorf("told %q, want %q; over: %v", told, want, sub.Over())
				}
				check.Equal(t, srv.RequestsOf(s.ID())[read], row.reads, "reads")
			})
		})
	}
}

// TestWatchesAreKept: of the watches without subscribers the newest are used again without a
// request, and the server is rid of the others.
func TestWatchesAreKept(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		const n, kept = 1100, 1024
		s := mustOpen(t, srv.Addrs(), opts)
		other := mustOpen(t, srv.Addrs(), opts)
		for i := range n {
			check.Have(other.Create(t.Context(), fmt.Sprint("/", i), nil, session.Persistent))(t)
		}
		// use follows a node until it is told of it, and returns what it asked the server for.
		use := func(i int) zktest.Counts {
			srv.ResetRequests()
			told := make(chan error, 1)
			sub := s.Async(0).Follow(fmt.Sprint("/", i), session.AspectData, false, func(_ session.Reading, err error) { told <- err })
			check.Must(t, <-told)
			sub.Cancel()
			synctest.Wait()
			counts := srv.RequestsOf(s.ID())
			delete(counts, zktest.OpSync)
			return counts
		}
		removed := 0
		for i := range n {
			removed += use(i)[zktest.OpRemoveWatches]
		}
		check.Equal(t, removed, n-kept, "watches were removed of", n)
		check.Equal(t, len(use(n-1)), 0, "requests for a watch that was kept")
		if counts := use(0); counts[zktest.OpGetData] != 1 {
			t.Errorf("a watch that was not kept costs %v", counts)
		}
		check.Have(other.Set(t.Context(), fmt.Sprint("/", n-1), make([]byte, 5<<10), session.AnyVersion))(t)
		synctest.Wait()
		for range 2 { // it has changed, and is too large to be kept
			if counts := use(n - 1); counts[zktest.OpGetData] != 1 || counts[zktest.OpRemoveWatches] != 1 {
				t.Errorf("a watch on a large node costs %v", counts)
			}
		}
	})
}

// TestMissingNodesAreFollowed: who follows the children of a node that does not exist is told
// when it does, and when it does not any more, across reconnects.
func TestMissingNodesAreFollowed(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		other := mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext})
		told := make(chan string, 10)
		sub := s.Async(0).Follow("/a", session.AspectChildren, true, func(r session.Reading, err error) {
			told <- fmt.Sprint(r.Stat != nil, len(r.Names), err)
		})
		defer sub.Cancel()
		for i, step := range []struct {
			do   func() error
			want string
		}{
			{func() error { return nil }, "false 0 <nil>"},
			{func() error { _, err := other.Create(t.Context(), "/a", nil, session.Persistent); return err }, "true 0 <nil>"},
			{func() error { _, err := other.Create(t.Context(), "/a/b", nil, session.Persistent); return err }, "true 1 <nil>"},
			{func() error { return other.Delete(t.Context(), "/a/b", session.AnyVersion) }, "true 0 <nil>"},
			{func() error { return other.Delete(t.Context(), "/a", session.AnyVersion) }, "false 0 <nil>"},
			{func() error { _, err := other.Create(t.Context(), "/a", nil, session.Persistent); return err }, "true 0 <nil>"},
		} {
			srv.Disconnect(s.ID())
			check.Must(t, step.do())
			check.Equal(t, <-told, step.want, "step", i, "told")
			synctest.Wait()
			if len(told) > 0 {
				t.Errorf("step %d: told %s as well", i, <-told)
			}
		}
	})
}

// TestSiblings end with the session that they stand beside, and not the other way round.
func TestSiblings(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		var all [3]*session.Session
		for i := range all {
			var err error
			if all[i], err = s.Sibling(); err != nil {
				t.Fatal(err)
			}
			if err := exists(t, all[i]); err != nil || all[i].ID() == s.ID() {
				t.Errorf("session %#x beside %#x: %v", all[i].ID(), s.ID(), err)
			}
		}
		all[0].Close()
		check.OK(t, errors.Join(exists(t, s), exists(t, all[1]))) // when one is closed
		s.Close()
		for _, sibling := range all {
			check.Is(t, exists(t, sibling), session.ErrClosed) // when all are closed
		}
		check.Len(t, srv.Sessions(), 0, "the server knows sessions")
		check.Fails(s.Sibling())(t, session.ErrClosed) // a sibling of a closed session
	})
}

// TestServersSayNo: the errors of servers have names.
func TestServersSayNo(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		for code, want := range map[int32]error{
			-6: session.ErrUnimplemented, -8: session.ErrInvalidArgument, -101: session.ErrNoNode, -102: session.ErrNoAuth,
			-103: session.ErrBadVersion, -108: session.ErrNoChildrenForEphemerals, -110: session.ErrNodeExists,
			-111: session.ErrNotEmpty, -114: session.ErrInvalidACL, -115: session.ErrAuthFailed,
			-125: session.ErrQuotaExceeded,
		} {
			srv.AnswerError(zktest.Match{Op: zktest.OpSetData}, code)
			if _, err := s.Set(t.Context(), "/", nil, session.AnyVersion); !errors.Is(err, want) || errors.Is(err, session.ErrUnknownOutcome) {
				t.Errorf("%d: %v, want %v", code, err, want)
			}
		}
		const nameless = -77
		srv.AnswerError(zktest.Match{Op: zktest.OpSetData}, nameless)
		_, err := s.Set(t.Context(), "/", nil, session.AnyVersion)
		if of, ok := errors.AsType[*session.ServerError](err); !ok || of.Code != nameless {
			t.Error(err)
		}
	})
}

// TestWatchOutlivesErrors: what goes wrong in a read after a change is no reason to stop
// watching.
func TestWatchOutlivesErrors(t *testing.T) {
	withSessions(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		ctx := t.Context()
		check.Have(other.Create(ctx, "/a", nil, session.Persistent))(t)
		told := make(chan string, 10)
		tell := func(data []byte, _ *session.Stat, err error) {
			told <- fmt.Sprintf("%s %v", data, errors.Is(err, session.ErrNoNode))
		}
		s.Async(0).Watch("/a", tell, tell)
		check.Equal(t, <-told, " false", "first")
		const throttled = -127
		for range 3 {
			srv.AnswerError(zktest.Match{Op: zktest.OpGetData, Path: "/a"}, throttled)
		}
		check.Have(other.Set(ctx, "/a", []byte("new"), session.AnyVersion))(t)
		check.Equal(t, <-told, "new false", "after the change")
		check.Must(t, other.Delete(ctx, "/a", session.AnyVersion))
		check.Equal(t, <-told, " true", "after the deletion")
	})
}

// TestManyWatchesAndSmallRequests: setting watches again needs more room than requests.
func TestManyWatchesAndSmallRequests(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.MaxRequest = 4 << 10
		s := mustOpen(t, srv.Addrs(), opts)
		ctx := t.Context()
		gone := make(chan struct{}, 300)
		for i := range 300 {
			path := fmt.Sprintf("/%01000d", i)
			check.Have(s.Create(ctx, path, nil, session.Persistent))(t)
			s.Async(0).Watch(path, func([]byte, *session.Stat, error) {}, func([]byte, *session.Stat, error) { gone <- struct{}{} })
		}
		begun := time.Now()
		srv.Disconnect(0)
		synctest.Wait()
		if err := exists(t, s); err != nil || time.Since(begun) > time.Second {
			t.Fatalf("after %v: %v", time.Since(begun), err)
		}
		for i := range 300 {
			check.Must(t, s.Delete(ctx, fmt.Sprintf("/%01000d", i), session.AnyVersion))
			<-gone
		}
	})
}

// TestFollowingIntoTheNextEpoch: who is told that an epoch has ended, and asks again at once,
// asks the next one.
func TestFollowingIntoTheNextEpoch(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		var mu sync.Mutex
		told := map[string]int{}
		var follow func(path string, aspect session.Aspect)
		follow = func(path string, aspect session.Aspect) {
			s.Async(0).Follow(path, aspect, true, func(_ session.Reading, err error) {
				mu.Lock()
				told[fmt.Sprint(err)]++
				mu.Unlock()
				if errors.Is(err, session.ErrExpired) {
					follow(path, aspect)
				}
			})
		}
		for i := range 10 {
			follow(fmt.Sprintf("/n%d", i), session.AspectData)
			follow(fmt.Sprintf("/n%d", i), session.AspectChildren)
		}
		for range 3 {
			pass(time.Minute)
			srv.Expire(s.ID())
		}
		pass(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		check.True(t, told["<nil>"] == 4*20, "told %d times of 20 aspects in 4 epochs", told["<nil>"])
		delete(told, "<nil>")
		for why, n := range told {
			if n != 2*3 { // of both aspects
				t.Errorf("%d times: %s", n, why)
			}
		}
	})
}

// TestSubscriptionsAreForgotten: also those that ended before they began.
func TestSubscriptionsAreForgotten(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 1000 {
			s.Events(ended)
		}
		s.Close()
		for range 1000 {
			for ev := range s.Events(t.Context()) {
				check.Require(t, ev == (session.Closed{}), "%v", ev)
			}
		}
	})
}
