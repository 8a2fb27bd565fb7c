package session_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestRealSmoke(t *testing.T) {
	ens := zktest.StartEnsemble(t, 3)
	ctx := testContext(t)
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := session.Open(ctx, ens.Addrs(), &session.Options{Timeout: 4 * time.Second, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	t.Log(s.State())
	if err := s.EnsurePath(ctx, "/a/b/c"); err != nil {
		t.Fatal(err)
	}
	node, err := s.Create(ctx, "/a/b/x-", []byte("hi"), session.EphemeralSequential)
	t.Log(node, err)
	data, stat, err := s.Get(ctx, node)
	t.Log(string(data), stat, err)
	_, err = s.Multi(ctx, session.CheckOp("/a", 3), session.SetOp("/a/b", nil, 7))
	t.Log(err, errors.Is(err, session.ErrBadVersion))
	res, err := s.Multi(ctx, session.CheckOp("/a", 0), session.SetOp("/a/b", nil, -1), session.CreateOp("/a/y-", nil, session.EphemeralSequential))
	t.Log(res, err)
	start := time.Now()
	for range 100 {
		if _, err := s.Exists(ctx, "/a"); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("exists", time.Since(start)/100)
	start = time.Now()
	for range 100 {
		if _, err := s.Set(ctx, "/a", nil, -1); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("set", time.Since(start)/100)
	ev := s.Events(ctx)
	t.Log(<-ev)
	ens.Kill(ens.Leader())
	t.Log(<-ev)
	t.Log(<-ev)
	t.Log(s.Exists(ctx, node))
	start = time.Now()
	s.Close()
	t.Log("close", time.Since(start))
	t.Log(<-ev)
	_, err = s.Exists(ctx, node)
	t.Log(err)
}
