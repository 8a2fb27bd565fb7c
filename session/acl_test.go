package session_test

import (
	"errors"
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
