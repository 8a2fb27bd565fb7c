package session_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// await reads events until one of type E comes, and returns it.
func await[E session.Event](t *testing.T, events <-chan session.Event) E {
	t.Helper()
	for ev := range events { // no time limit: in a bubble, it would pass
		if e, ok := ev.(E); ok {
			return e
		}
	}
	var none E
	t.Fatalf("no %T came", none)
	return none
}

func id(t *testing.T, s *session.Session) int64 {
	t.Helper()
	return await[session.Connected](t, s.Events(check.Patient(t))).ID
}

// TestRealServer has one server for all that does no harm to it.
func TestRealServer(t *testing.T) {
	t.Parallel()
	ens := zktest.SharedEnsemble(t, 1)
	for name, play := range map[string]func(*testing.T, *zktest.Ensemble){
		"requests": realRequests, "authentication": realAuthAndACL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, ens)
		})
	}
}

func realRequests(t *testing.T, ens *zktest.Ensemble) {
	t.Helper()
	ctx := check.Patient(t)
	s := kit.Open(t, ens.Addrs(), &session.Options{Timeout: 20 * time.Second, Chroot: "/apps/billing"})
	root := kit.Open(t, ens.Addrs(), nil)

	check.Fails(s.Create(ctx, "/a", nil, session.Persistent))(t, session.ErrNoNode) // without a chroot
	check.Must(t, s.EnsurePath(ctx, "/locks/b"))
	check.Must(t, s.EnsurePath(ctx, "/locks/b")) // again
	// What EnsurePath has made may be reaped as soon as its last child is gone.
	for _, path := range []string{"/locks/line", "/locks/kept"} {
		check.Have(s.Create(ctx, path, nil, session.Persistent))(t)
	}
	stands(t, root, "/apps/billing/locks/b")
	node, err := s.Create(ctx, "/locks/b/x-", []byte("1"), session.EphemeralSequential)
	check.Require(t, err == nil && strings.HasPrefix(node, "/locks/b/_c_") && strings.HasSuffix(node, "-x-0000000000"), "created %q, %v", node, err)
	data, stat, err := s.Get(ctx, node)
	check.Require(t, err == nil && string(data) == "1" && stat.EphemeralOwner == id(t, s), "got %q, %+v, %v", data, stat, err)
	if stat, err = s.Set(ctx, node, []byte("2"), stat.Version); err != nil || stat.Version != 1 || stat.DataLength != 1 {
		t.Fatalf("set: %+v, %v", stat, err)
	}
	if _, err = s.Set(ctx, node, nil, 0); !errors.Is(err, session.ErrBadVersion) {
		t.Fatalf("set of an old version: %v", err)
	}
	names, stat, err := s.Children(ctx, "/locks/b")
	check.Require(t, err == nil && len(names) == 1 && stat.NumChildren == 1, "children %q, %+v, %v", names, stat, err)
	check.Is(t, s.Delete(ctx, "/locks/b", session.AnyVersion), session.ErrNotEmpty, "delete of a parent")
	check.Fails(s.Create(ctx, node+"/x", nil, session.Persistent))(t, session.ErrNoChildrenForEphemerals) // child of an ephemeral
	check.Must(t, s.Delete(ctx, node, session.AnyVersion))
	err = s.Delete(ctx, node, session.AnyVersion)
	var op *session.OpError
	check.Require(t, errors.Is(err, session.ErrNoNode) && errors.As(err, &op) && op.Op == "delete" && op.Path == node, "delete twice: %v", err)
	check.Must(t, s.Sync(ctx, "/"))
	if node, err := s.Create(ctx, "/locks/ttl", nil, session.TTL(time.Hour)); err != nil || node != "/locks/ttl" {
		t.Fatalf("TTL: %q, %v", node, err)
	}
	check.Fails(s.Create(ctx, "/locks/ttl", nil, session.Ephemeral))(t, session.ErrNodeExists) // create twice

	results, err := s.Multi(ctx, session.CreateOp("/locks/line/m-", nil, session.EphemeralSequential), session.SetOp("/locks/line", nil, session.AnyVersion))
	check.Require(t, err == nil && results[0].Path == "/locks/line/m-0000000000" && results[1].Stat.NumChildren == 1, "multi: %+v, %v", results, err)
	results, err = s.Multi(ctx, session.DeleteOp("/locks/kept", 0), session.CheckOp("/locks/ttl", 9), session.DeleteOp("/locks/c", 0))
	check.Require(t, errors.Is(err, session.ErrBadVersion) && errors.As(err, &op) && op.Path == "/locks/ttl", "multi that fails: %v", err)
	check.Require(t, len(results) == 3 && results[0].Err == nil && errors.Is(results[1].Err, session.ErrBadVersion) && results[2].Err == nil, "multi that fails: %+v", results)
	stands(t, s, "/locks/kept")
}

func realAuthAndACL(t *testing.T, ens *zktest.Ensemble) {
	t.Helper()
	ctx := check.Patient(t)
	secret := []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	s := kit.Open(t, proxy.Addrs(), &session.Options{Timeout: 20 * time.Second, Auth: secret, ACL: session.CreatorAll()})
	other := kit.Open(t, ens.Addrs(), nil)
	check.Have(s.Create(ctx, "/private", []byte("x"), session.Persistent))(t)
	if _, _, err := other.Get(ctx, "/private"); !errors.Is(err, session.ErrNoAuth) {
		t.Errorf("somebody else reads: %v", err)
	}
	// The credentials must be there again before the first request is.
	for range 5 {
		proxy.Disconnect(0)
		if _, _, err := s.Get(ctx, "/private"); err != nil {
			t.Fatalf("after a reconnect: %v", err)
		}
	}
	_, err := session.Open(ctx, ens.Addrs(), &session.Options{Auth: []session.Auth{{Scheme: "nonsense", Secret: []byte("hunter2")}}})
	check.False(t, !errors.Is(err, session.ErrAuthFailed) || strings.Contains(err.Error(), "hunter2"), "bad credentials: %v", err)
}

// TestRealLossIsToldInTime freezes connections in every way, and shows that the session lapses
// before the server gives away what it held.
func TestRealLossIsToldInTime(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	t.Run("a server cut off from the leader", func(t *testing.T) {
		cut := ens.Followers()[0]
		checkLoss(t, ens, []string{ens.Addr(cut)}, 5, func() { ens.Isolate(cut) })
		ens.Heal()
	})
	for name, dir := range map[string]zktest.Direction{
		"both": zktest.Both, "to the server": zktest.ToServer, "to the client": zktest.ToClient, "but events": zktest.ToClientButEvents,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := zktest.NewProxy(t, ens.Addrs()...)
			checkLoss(t, ens, proxy.Addrs(), 5, func() { proxy.Freeze(0, dir) })
		})
	}
}

// checkLoss opens n sessions, breaks something, and compares when each lapses with when its
// ephemeral node goes.
func checkLoss(t *testing.T, ens *zktest.Ensemble, addrs []string, n int, fault func()) {
	t.Helper()
	leader := kit.Open(t, []string{ens.Addr(ens.Leader())}, nil)
	all := make([]ward, n)
	for i := range all {
		all[i] = openWard(t, addrs, &session.Options{Timeout: 6 * time.Second, ServerTick: 100 * time.Millisecond})
		all[i].gone = all[i].create(t, leader)
	}
	fault()
	for _, w := range all {
		w.toldInTime(t)
	}
}

// TestRealTTLIsRefusedOnce: that servers have no nodes with a TTL is learned from a transaction,
// too.
func TestRealTTLIsRefusedOnce(t *testing.T) {
	e := zktest.StartEnsemble(t, 1, zktest.NoSync(), zktest.Setting("extendedTypesEnabled", "false"))
	s := check.Open(session.Open(t.Context(), e.Addrs(), nil))(t)
	before := 0
	for i := range 3 {
		_, err := s.Multi(t.Context(), session.CreateOp("/a", nil, session.Persistent), session.CreateOp("/b", nil, session.TTL(time.Hour)))
		check.Is(t, err, session.ErrUnimplemented)
		check.True(t, strings.Contains(err.Error(), ": not implemented by the server: the server has no nodes with a TTL (extendedTypesEnabled)"), "%v", err)
		if i == 0 {
			before = e.Proposals()
		}
	}
	check.Equal(t, e.Proposals(), before, "transactions after the first")
	check.OK(t, s.EnsurePath(t.Context(), "/c/d"))
}
