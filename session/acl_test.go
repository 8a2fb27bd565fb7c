package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// aclStory creates nodes with ACLs of their own, and changes them.
func aclStory(t *testing.T, mine, other *session.Session) {
	t.Helper()
	ctx := t.Context()
	readable := []session.ACL{{Perms: session.PermRead, Scheme: "world", ID: "anyone"}, {Perms: session.PermAll, Scheme: "auth"}}
	for _, mode := range []session.CreateMode{session.Persistent, session.Ephemeral, session.EphemeralSequential} {
		node := check.Have(mine.CreateWithACL(ctx, "/own", []byte("x"), mode, readable))(t)
		if _, _, err := other.Get(ctx, node); err != nil {
			t.Errorf("%s is to be readable: %v", node, err)
		}
		check.Fails(other.Set(ctx, node, nil, session.AnyVersion))(t, session.ErrNoAuth)
		check.Fails(other.SetACL(ctx, node, session.WorldAll(), session.AnyVersion))(t, session.ErrNoAuth)
		acl, stat, err := mine.GetACL(ctx, node)
		check.Require(t, err == nil && len(acl) == 2 && acl[0] == readable[0] && acl[1].Scheme == "digest" && strings.HasPrefix(acl[1].ID, "user:"), "%v, %v", acl, err)
		check.Fails(mine.SetACL(ctx, node, session.WorldAll(), stat.Aversion+1))(t, session.ErrBadVersion)
		changed, err := mine.SetACL(ctx, node, session.WorldAll(), stat.Aversion)
		check.Require(t, err == nil && changed.Aversion == stat.Aversion+1, "%v, %v", changed, err)
		if acl, _, err := other.GetACL(ctx, node); err != nil || !slices.Equal(acl, session.WorldAll()) {
			t.Errorf("%v, %v", acl, err)
		}
		check.Must(t, other.Delete(ctx, node, session.AnyVersion))
	}
	check.Have(mine.Multi(ctx, session.CreateOp("/a", nil, session.Ephemeral).WithACL(readable), session.CreateOp("/b", nil, session.Ephemeral)))(t)
	for path, want := range map[string]error{"/a": session.ErrNoAuth, "/b": nil} {
		check.Fails(other.Set(ctx, path, nil, session.AnyVersion))(t, want)
	}
	if _, _, err := mine.GetACL(ctx, "/none"); !errors.Is(err, session.ErrNoNode) {
		t.Error(err)
	}
	check.Fails(mine.SetACL(ctx, "/none", readable, 0))(t, session.ErrNoNode)
	for name, acl := range map[string][]session.ACL{
		"none": nil, "no scheme": {{Perms: session.PermRead}}, "unknown permissions": {{Perms: 64, Scheme: "world", ID: "anyone"}},
	} {
		_, created := mine.CreateWithACL(ctx, "/x", nil, session.Persistent, acl)
		_, set := mine.SetACL(ctx, "/b", acl, 0)
		_, multi := mine.Multi(ctx, session.CreateOp("/x", nil, session.Persistent).WithACL(acl))
		for _, err := range []error{created, set, multi} {
			check.True(t, errors.Is(err, session.ErrInvalidArgument) && strings.Contains(err.Error(), "acl"), "%s: %v", name, err)
		}
	}
	check.Fails(mine.Multi(ctx, session.SetOp("/b", nil, 0).WithACL(readable)))(t, session.ErrInvalidArgument)
}

var credentials = []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}

func TestACL(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		other := mustOpen(t, srv.Addrs(), opts)
		opts.Auth = credentials
		mine := mustOpen(t, srv.Addrs(), opts)
		aclStory(t, mine, other)

		// A write whose reply is lost is in doubt.
		srv.DropReply(zktest.Match{Op: zktest.OpSetACL})
		check.Fails(mine.SetACL(t.Context(), "/", session.WorldAll(), session.AnyVersion))(t, session.ErrUnknownOutcome)
		srv.DropReply(zktest.Match{Op: zktest.OpGetACL})
		if _, _, err := mine.GetACL(t.Context(), "/"); err != nil {
			t.Error(err)
		}
	})
}

func TestRealACL(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	other := kit.Open(t, ens.Addrs(), nil)
	mine := kit.Open(t, ens.Addrs(), &session.Options{Timeout: 20 * time.Second, Auth: credentials})
	aclStory(t, mine, other)
}

// TestACLOfNoCredentials: the error of each request with the ACL of a creator who has no
// credentials names the option that has them, and nothing is created.
func TestACLOfNoCredentials(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		plain := mustOpen(t, srv.Addrs(), opts)
		opts.ACL = session.CreatorAll()
		secret := mustOpen(t, srv.Addrs(), opts)
		ctx, mine := t.Context(), session.CreatorAll()
		create := session.CreateOp("/a", nil, session.Persistent)
		for name, call := range map[string]func() error{
			"Create":            func() error { return firstError(secret.Create(ctx, "/a", nil, session.Persistent)) },
			"Create sequential": func() error { return firstError(secret.Create(ctx, "/a", nil, session.EphemeralSequential)) },
			"CreateWithACL":     func() error { return firstError(plain.CreateWithACL(ctx, "/a", nil, session.Persistent, mine)) },
			"SetACL":            func() error { return firstError(plain.SetACL(ctx, "/", mine, session.AnyVersion)) },
			"Multi":             func() error { return firstError(secret.Multi(ctx, create)) },
			"Multi with an ACL": func() error { return firstError(plain.Multi(ctx, create.WithACL(mine))) },
			"EnsurePath":        func() error { return secret.EnsurePath(ctx, "/a") },
			"Async.Create": func() error {
				answered := make(chan error, 1)
				secret.Async(0).Create("/a", nil, session.Ephemeral, func(_ string, err error) { answered <- err })
				return <-answered
			},
		} {
			err := call()
			check.True(t, errors.Is(err, session.ErrInvalidACL) && strings.Count(err.Error(), "Options.Auth") == 1, "%s: %v", name, err)
		}
		check.Have(secret.CreateWithACL(ctx, "/b", nil, session.Persistent, session.WorldAll()))(t)
		_, err := plain.CreateWithACL(ctx, "/a", nil, session.Persistent, []session.ACL{{Perms: session.PermAll, Scheme: "none"}})
		check.True(t, errors.Is(err, session.ErrInvalidACL) && !strings.Contains(err.Error(), "Options.Auth"), "%v", err)
		if stat, err := plain.Exists(ctx, "/a"); stat != nil || err != nil {
			t.Error(stat, err)
		}
	})
}

func firstError[T any](_ T, err error) error { return err }

// TestUnknownScheme: the error of a session whose credentials a server refuses names the scheme,
// but not the secret.
func TestUnknownScheme(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Auth = []session.Auth{credentials[0], {Scheme: "kerberos5", Secret: []byte("hunter2")}}
		named := func(err error) {
			t.Helper()
			text := fmt.Sprint(err)
			check.True(t, errors.Is(err, session.ErrAuthFailed) && strings.Contains(text, `"kerberos5" of Options.Auth[1]`) && !strings.Contains(text, "hunter2"), "%v", err)
		}
		_, err := session.Open(t.Context(), srv.Addrs(), opts)
		named(err)
		s := check.Have(session.Start(srv.Addrs(), opts))(t)
		defer s.Close()
		named(s.Await(t.Context()))
		named(firstError(s.Exists(t.Context(), "/")))
	})
}

// TestCreateWithoutParent: the error of a node that cannot be created names its parent.
func TestCreateWithoutParent(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		s, ctx := mustOpen(t, srv.Addrs(), opts), t.Context()
		create := func(mode session.CreateMode) error { return firstError(s.Create(ctx, "/a/b/c", nil, mode)) }
		results, multi := s.Multi(ctx, session.CheckOp("/", session.AnyVersion), session.CreateOp("/a/b/c", nil, session.Persistent))
		for name, err := range map[string]error{
			"Create":                  create(session.Persistent),
			"Create, ephemeral":       create(session.Ephemeral),
			"Create, sequential":      create(session.PersistentSequential),
			"Create, its number only": firstError(s.Create(ctx, "/a/b/", nil, session.EphemeralSequential)),
			"CreateWithACL":           firstError(s.CreateWithACL(ctx, "/a/b/c", nil, session.Persistent, session.WorldAll())),
			"Multi":                   multi,
			"Multi, its result":       results[1].Err,
		} {
			check.True(t, errors.Is(err, session.ErrNoNode) && strings.Count(err.Error(), "its parent /a/b is missing") == 1, "%s: %v", name, err)
		}
		for name, err := range map[string]error{
			"Set":    firstError(s.Set(ctx, "/a/b/c", nil, session.AnyVersion)),
			"Delete": s.Delete(ctx, "/a/b/c", session.AnyVersion),
			"Multi":  firstError(s.Multi(ctx, session.DeleteOp("/a/b/c", session.AnyVersion))),
		} {
			check.True(t, errors.Is(err, session.ErrNoNode) && !strings.Contains(err.Error(), "parent"), "%s: %v", name, err)
		}
	})
}
