package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// prior are options for a priority.
func prior(priority int) *lock.Options {
	return &lock.Options{Layout: lock.Prioritized, Priority: priority}
}

// opened returns a lock that is closed with the test.
func opened(tb testing.TB) func(*lock.Lock, error) *lock.Lock {
	return func(l *lock.Lock, err error) *lock.Lock {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(l.Close)
		return l
	}
}

// inRoom runs f in a bubble with a server and as many sessions as asked for.
func inRoom(t *testing.T, n int, f func(t *testing.T, srv *zktest.Server, all []*session.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv, err := zktest.NewServer(zktest.Config{InProcess: true})
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Close()
		all := make([]*session.Session, n)
		for i := range all {
			s, err := session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			all[i] = s
		}
		f(t, srv, all)
	})
}

func TestPriorityProbe(t *testing.T) {
	inRoom(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		must := func(l *lock.Lock, err error) *lock.Lock {
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		h := must(lock.Acquire(t.Context(), all[0], "/a/l", prior(0)))
		synctest.Wait()
		names, _, _ := all[0].Children(t.Context(), "/a/l")
		t.Log(names, h.Token(), srv.Requests())
		low := must(lock.New(all[1], "/a/l", prior(-5)))
		synctest.Wait()
		high := must(lock.New(all[1], "/a/l", prior(5)))
		synctest.Wait()
		cs, err := lock.Contenders(t.Context(), all[0], "/a/l", prior(0))
		t.Log(cs, err)
		h.Close()
		synctest.Wait()
		t.Log(<-high.Events(), <-low.Events())
		names, _, _ = all[0].Children(t.Context(), "/a/l")
		t.Log(names, high.Token())
		high.Close()
		synctest.Wait()
		t.Log(low.Token())
		low.Close()
		names, _, _ = all[0].Children(t.Context(), "/a/l")
		t.Log(names)
		_, _, _, _, _, _ = context.Background, errors.Is, fmt.Sprint, slices.Sort[[]int], strings.Cut, time.Second
	})
}
