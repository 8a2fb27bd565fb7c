package session_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestNilContext: every blocking call refuses a nil context, names it, and leaves nothing behind.
func TestNilContext(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		synctest.Wait()
		srv.ResetRequests()
		var none context.Context
		for name, call := range map[string]func() error{
			"open": func() error {
				_, err := session.Open(none, srv.Addrs(), opts)
				return err
			},
			"create":     func() error { _, err := s.Create(none, "/a", nil, session.Persistent); return err },
			"sequential": func() error { _, err := s.Create(none, "/a", nil, session.EphemeralSequential); return err },
			"get":        func() error { _, _, err := s.Get(none, "/"); return err },
			"set":        func() error { _, err := s.Set(none, "/", nil, 0); return err },
			"children":   func() error { _, _, err := s.Children(none, "/"); return err },
			"exists":     func() error { _, err := s.Exists(none, "/"); return err },
			"delete":     func() error { return s.Delete(none, "/a", 0) },
			"sync":       func() error { return s.Sync(none, "/") },
			"multi":      func() error { _, err := s.Multi(none, session.CheckOp("/", 0)); return err },
			"ensure":     func() error { return s.EnsurePath(none, "/a") },
		} {
			if err := call(); !errors.Is(err, session.ErrInvalidArgument) || !strings.Contains(err.Error(), "ctx") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if ev, ok := (<-s.Events(none)).(session.Connected); !ok { // ends with the session, in the bubble
			t.Errorf("the events begin with %v", ev)
		}
		check.Equal(t, len(srv.Requests()), 0, "requests")
	})
}

// TestMultiOfNothing: a transaction without operations is done, and makes no request; also one of
// recipes, and one while the servers are away.
func TestMultiOfNothing(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		for _, away := range []bool{false, true} {
			if away {
				srv.Refuse(true)
				srv.Disconnect(0)
			}
			synctest.Wait()
			srv.ResetRequests()
			results, err := s.Multi(t.Context())
			check.True(t, len(results) == 0 && err == nil, "%v, %v", results, err)
			err = context.Canceled
			answer := func(_ []session.OpResult, why error) { err = why }
			for _, multi := range []func(){
				func() { s.Async(1).Multi(nil, answer) },
				func() { s.Async(1).In(new(session.Lane)).Share(nil, answer) },
			} {
				multi()
				synctest.Wait()
				check.OK(t, err)
				err = context.Canceled
			}
			check.Equal(t, srv.Requests()[zktest.OpMulti], 0, "requests")
		}
	})
}

// TestSequentialNames: Create inserts a GUID, and the operation of a transaction does not.
func TestSequentialNames(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s := mustOpen(t, srv.Addrs(), opts)
		for _, mode := range []session.CreateMode{session.PersistentSequential, session.EphemeralSequential} {
			made := check.Have(s.Create(t.Context(), "/a-", nil, mode))(t)
			check.True(t, regexp.MustCompile(`^/_c_[0-9a-f-]{36}-a-\d{10}$`).MatchString(made), "%s", made)
			results := check.Have(s.Multi(t.Context(), session.CreateOp("/a-", nil, mode)))(t)
			check.True(t, regexp.MustCompile(`^/a-\d{10}$`).MatchString(results[0].Path), "%s", results[0].Path)
			s.Async(0).Create("/a-", nil, mode, func(node string, _ error) { made = node })
			synctest.Wait()
			check.True(t, regexp.MustCompile(`^/a-\d{10}$`).MatchString(made), "%s", made)
		}
	})
}

// TestPaths: a recipe's path is not one of the servers' own, nor as long as a request.
func TestPaths(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		plain := mustOpen(t, srv.Addrs(), opts)
		below := *opts
		below.Chroot = "/zookeeper"
		reserved := mustOpen(t, srv.Addrs(), &below)
		below.Chroot = "/apps"
		apps := mustOpen(t, srv.Addrs(), &below)
		for _, row := range []struct {
			s    *session.Session
			path string
			why  string
		}{
			{plain, "/zookeepers", ""},
			{plain, "/a/zookeeper", ""},
			{plain, "/zookeeper", "belongs to the servers"},
			{plain, "/zookeeper/locks", "belongs to the servers"},
			{plain, "/" + strings.Repeat("x", 600_000), "it has 600001 bytes, the limit is 32768"},
			{plain, "/a/", "ends with /"},
			{reserved, "/", "belongs to the servers"},
			{reserved, "/locks", "belongs to the servers"},
			{apps, "/zookeeper", ""},
		} {
			err := row.s.CheckPath(row.path)
			switch {
			case row.why == "":
				check.OK(t, err)
			case !errors.Is(err, session.ErrInvalidPath), !strings.Contains(err.Error(), row.why), len(err.Error()) > 500:
				t.Errorf("%.40s: %.600v", row.path, err)
			}
		}
		if err := plain.Delete(t.Context(), "/"+strings.Repeat("x", 600_000), 0); !errors.Is(err, session.ErrNoNode) || len(err.Error()) > 500 {
			t.Errorf("%.600v", err)
		}
		// Tools may read and write what belongs to the servers.
		if _, _, err := plain.Children(t.Context(), "/zookeeper"); err != nil {
			t.Error(err)
		}
	})
}

// TestSessionIsPrinted: every verb prints one short line, and reads nothing that changes meanwhile.
func TestSessionIsPrinted(t *testing.T) {
	srv := zktest.Start(t)
	s := check.Have(session.Open(t.Context(), srv.Addrs(), nil))(t)
	defer s.Close()
	var busy sync.WaitGroup
	for range 4 {
		busy.Go(func() {
			for range 50 {
				if _, err := s.Exists(t.Context(), "/"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		srv.Disconnect(0)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
			line := fmt.Sprintf(verb, s)
			check.True(t, len(line) <= 120 && !strings.ContainsAny(line, "\n{") && strings.Contains(line, "session"), "%s prints %q", verb, line)
		}
	}
	busy.Wait()
}

// TestBadInput: input that cannot be sent does no harm.
func TestBadInput(t *testing.T) {
	withSession(t, func(t *testing.T, _ *zktest.Server, s *session.Session) {
		ctx := t.Context()
		events := s.Events(ctx)
		await[session.Connected](t, events)
		for _, path := range []string{"", "a", "/a/", "/a//b", "/a/../b", "/a\x00"} {
			_, createErr := s.Create(ctx, path, nil, session.Persistent)
			_, _, getErr := s.Get(ctx, path)
			_, setErr := s.Set(ctx, path, nil, 0)
			_, existsErr := s.Exists(ctx, path)
			_, _, childrenErr := s.Children(ctx, path)
			_, multiErr := s.Multi(ctx, session.CheckOp(path, 0))
			for _, err := range []error{
				createErr, getErr, setErr, existsErr, childrenErr, multiErr,
				s.Delete(ctx, path, 0), s.Sync(ctx, path), s.EnsurePath(ctx, path),
			} {
				check.True(t, errors.Is(err, session.ErrInvalidPath) && strings.Contains(err.Error(), fmt.Sprintf("%q", path)), "%q: %v", path, err)
			}
		}
		large := make([]byte, 2<<20)
		if _, err := s.Create(ctx, "/a", large, session.Persistent); !errors.Is(err, session.ErrTooLarge) || !strings.Contains(err.Error(), "data") {
			t.Errorf("2 MiB: %v", err)
		}
		check.Fails(s.Multi(ctx, session.SetOp("/a", large, 0)))(t, session.ErrTooLarge) // 2 MiB in a transaction
		if _, err := s.Multi(ctx, session.Op{}); err == nil {
			t.Error("the zero Op is accepted")
		}
		check.Fails(s.Create(ctx, "/a", nil, session.CreateMode(7)))(t, session.ErrInvalidArgument) // mode 7
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, _, err := s.Get(ended, "/"); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
		check.Have(s.Exists(ctx, "/"))(t) // the session has suffered
		s.Close()
		check.Fails(s.Exists(ctx, "/"))(t, session.ErrClosed) // a closed session
		check.Equal[session.Event](t, <-events, session.Closed{}, "the connection has suffered")
	})
}
