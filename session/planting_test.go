package session_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestFollowCreated: a node that is watched without a read is told of as others are, also if
// it was changed or deleted before the watch stood.
func TestFollowCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := zktest.NewServer(zktest.Config{InProcess: true, Latency: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Close()
		var all [2]*session.Session
		for i := range all {
			if all[i], err = session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext}); err != nil {
				t.Fatal(err)
			}
			defer all[i].Close()
		}
		s, other := all[0], all[1]
		const n = 20
		const changed, deleted = 10, 11 // both are created together with others
		var told [n][]string
		stats := map[string]session.Stat{}
		for i := range n {
			if err := s.EnsurePath(t.Context(), fmt.Sprintf("/dir-%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			dir := fmt.Sprintf("/dir-%d", i)
			requests := s.Async(1).In(new(session.Lane))
			requests.Share([]session.Op{
				session.CreateOp(dir+"/n-", []byte("own"), session.EphemeralSequential),
				session.SetOp(dir, nil, session.AnyVersion),
			}, func(results []session.OpResult, err error) {
				if err != nil {
					t.Error(err)
					return
				}
				requests.FollowCreated(results[0].Path, []byte("own"), results[0], results[1], func(r session.Reading, err error) {
					switch {
					case errors.Is(err, session.ErrNoNode):
						told[i] = append(told[i], "gone")
					case err != nil:
						t.Error(err)
					default:
						told[i] = append(told[i], string(r.Data))
						stats[results[0].Path] = *r.Stat
					}
				})
			})
		}
		srv.Delay(zktest.Match{Op: zktest.OpSetWatches}, 100*time.Millisecond)
		srv.Delay(zktest.Match{Op: zktest.OpSetWatches}, 100*time.Millisecond)
		<-time.After(50 * time.Millisecond)
		for _, i := range []int{changed, deleted} {
			node := fmt.Sprintf("/dir-%d/n-0000000000", i)
			if i == changed {
				_, err = other.Set(t.Context(), node, []byte("new"), session.AnyVersion)
			} else {
				err = other.Delete(t.Context(), node, session.AnyVersion)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Second)
		synctest.Wait()
		for path, as := range stats {
			if stat, err := other.Exists(t.Context(), path); err != nil || *stat != as {
				t.Errorf("told %+v, there is %+v, %v", as, stat, err)
			}
		}
		if err := other.Delete(t.Context(), "/dir-19/n-0000000000", session.AnyVersion); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		synctest.Wait()
		for i := range n {
			want := "[own]"
			switch i {
			case changed:
				want = "[new]"
			case deleted:
				want = "[gone]"
			case n - 1:
				want = "[own gone]"
			}
			if got := fmt.Sprint(told[i]); got != want {
				t.Errorf("%d: told %s, want %s", i, got, want)
			}
		}
		if requests := srv.Requests(); requests[zktest.OpSetWatches] == 0 {
			t.Errorf("no watch was planted: %v", requests)
		}
	})
}
