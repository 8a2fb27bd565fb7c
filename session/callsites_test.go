package session_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/zkactors/zkactors/session"
)

// callSites is what users write, and is only to compile.
func callSites(ctx context.Context, tlsConfig *tls.Config, data []byte, obs session.Observer) error {
	s, err := session.Open(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"}, &session.Options{
		Timeout: 10 * time.Second,
		Chroot:  "/apps/billing",
		Auth:    []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}},
		ACL:     session.CreatorAll(),
		TLS:     tlsConfig,
		Logger:  slog.Default(),
	})
	if err != nil {
		return err
	}
	defer s.Close()

	for ev := range s.Events(ctx) {
		switch ev := ev.(type) {
		case session.Connected:
			_, _, _, _ = ev.ID, ev.Epoch, ev.Timeout, ev.Server
		case session.Suspended:
			_ = ev.Deadline
		case session.Resumed:
		case session.Expired:
			_, _ = ev.ID, ev.Epoch
		case session.Closed:
		}
	}

	node, err := s.Create(ctx, "/a/b", data, session.Persistent)
	_, _ = node, err
	data, stat, err := s.Get(ctx, "/a/b")
	_ = err
	stat, err = s.Set(ctx, "/a/b", data, stat.Version)
	_, _ = stat, err
	children, stat, err := s.Children(ctx, "/a")
	_, _, _ = children, stat, err
	stat, err = s.Exists(ctx, "/a/b")
	_, _ = stat, err
	err = s.Delete(ctx, "/a/b", session.AnyVersion)
	_ = err
	err = s.Sync(ctx, "/a")
	_ = err
	results, err := s.Multi(ctx, session.CheckOp("/a", 3), session.SetOp("/a/b", data, 7),
		session.CreateOp("/a/c", nil, session.Ephemeral), session.DeleteOp("/a/d", 0))
	_, _ = results, err
	err = s.EnsurePath(ctx, "/a/b/c")
	s.State()

	servers, chroot, err2 := session.ParseConnectString("zk1:2181,zk2:2181/apps/billing")
	_, _, _ = servers, chroot, err2
	_ = session.Options{Observer: obs}

	for _, target := range []error{
		session.ErrNoNode, session.ErrNodeExists, session.ErrBadVersion, session.ErrNotEmpty, session.ErrNoAuth,
		session.ErrExpired, session.ErrClosed, session.ErrDisconnected, session.ErrUnknownOutcome, session.ErrInvalidPath,
		session.ErrSessionFull,
	} {
		_ = errors.Is(err, target)
	}
	return err
}

var _ = callSites
