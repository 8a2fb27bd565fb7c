package session_test

import (
	"context"
	"errors"
	"fmt"
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

// TestNodesCountOnce: a session with nodes of two thirds of the limit is not full, however long
// their answers have to wait.
func TestNodesCountOnce(t *testing.T) {
	withSession(t, func(t *testing.T, srv *zktest.Server, s *session.Session) {
		requests, goOn, answers := s.Async(0), make(chan struct{}), make(chan error)
		requests.Delete("refused", session.AnyVersion, func(error) { <-goOn }) // holds up all answers
		create := func(ops ...session.Op) {
			requests.Multi(ops, func(_ []session.OpResult, err error) { answers <- err })
		}
		const nodes, limit = 700, 1 << 20
		path := "/" + strings.Repeat("n", 2*limit/3/nodes)
		for i := range nodes / 2 {
			create(session.CreateOp(fmt.Sprint(path, i), nil, session.Ephemeral), session.CreateOp(fmt.Sprint(path, i, "too"), nil, session.Ephemeral))
		}
		requests.Create(path, nil, session.Ephemeral, func(_ string, err error) { answers <- err })
		synctest.Wait()
		create(session.CreateOp(path+"last", nil, session.Ephemeral))
		close(goOn)
		for range nodes/2 + 2 {
			check.Must(t, <-answers)
		}
	})
}
