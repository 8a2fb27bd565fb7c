package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	for name, play := range map[string]func(*testing.T, *zktest.Ensemble){
		"requests": realRequests, "bad input": realBadInput, "large reply": realLargeReply,
		"authentication": realAuthAndACL, "lost replies": realLostReplies, "session full": realSessionFull,
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
	s := kit.Open(t, ens.Addrs(), &session.Options{Timeout: 6 * time.Second, Chroot: "/apps/billing"})
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

// realBadInput shows that input that cannot be sent does no harm.
func realBadInput(t *testing.T, ens *zktest.Ensemble) {
	t.Helper()
	ctx := check.Patient(t)
	s := kit.Open(t, ens.Addrs(), nil)
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
	check.Fails(s.Multi(ctx))(t, session.ErrInvalidArgument)                         // no operations
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
}

// realLargeReply: a list over the limit fails alone.
func realLargeReply(t *testing.T, ens *zktest.Ensemble) {
	t.Helper()
	ctx := check.Patient(t)
	s := kit.Open(t, ens.Addrs(), &session.Options{Timeout: 6 * time.Second, MaxReply: 8 << 10})
	events := s.Events(ctx)
	await[session.Connected](t, events)
	check.Have(s.Create(ctx, "/many", nil, session.Persistent))(t)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			if _, err := s.Create(ctx, fmt.Sprintf("/many/%0100d", i), nil, session.Ephemeral); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for range 20 {
		wg.Go(func() {
			if _, _, err := s.Children(ctx, "/many"); !errors.Is(err, session.ErrTooLarge) {
				t.Errorf("a list of 20 kB: %v", err)
			}
		})
		wg.Go(func() {
			if _, err := s.Exists(ctx, "/many"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s.Close()
	check.Equal[session.Event](t, <-events, session.Closed{}, "the connection has suffered")
}

func realAuthAndACL(t *testing.T, ens *zktest.Ensemble) {
	t.Helper()
	ctx := check.Patient(t)
	secret := []session.Auth{{Scheme: "digest", Secret: []byte("user:password")}}
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	s := kit.Open(t, proxy.Addrs(), &session.Options{Timeout: 6 * time.Second, Auth: secret, ACL: session.CreatorAll()})
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

// TestRealLossIsToldInTime freezes connections in every way, and shows that the
// session counts itself as lost before the server gives away what it held.
func TestRealLossIsToldInTime(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	for name, dir := range map[string]zktest.Direction{
		"both": zktest.Both, "to the server": zktest.ToServer, "to the client": zktest.ToClient, "but events": zktest.ToClientButEvents,
	} {
		t.Run(name, func(t *testing.T) {
			proxy := zktest.NewProxy(t, ens.Addrs()...)
			checkLoss(t, ens, proxy.Addrs(), 5, func() { proxy.Freeze(0, dir) })
		})
	}
	t.Run("a server cut off from the leader", func(t *testing.T) {
		cut := ens.Followers()[0]
		checkLoss(t, ens, []string{ens.Addr(cut)}, 5, func() { ens.Isolate(cut) })
		ens.Heal()
	})
}

// checkLoss opens n sessions, breaks something, and compares when each counts itself
// as lost with when its ephemeral node goes.
func checkLoss(t *testing.T, ens *zktest.Ensemble, addrs []string, n int, fault func()) {
	t.Helper()
	leader := kit.Open(t, []string{ens.Addr(ens.Leader())}, nil)
	all := make([]ward, n)
	for i := range all {
		all[i] = openWard(t, addrs, &session.Options{Timeout: 2 * time.Second, ServerTick: 100 * time.Millisecond})
		all[i].gone = all[i].create(t, leader)
	}
	fault()
	for _, w := range all {
		w.toldInTime(t)
	}
}

// TestRealFrozenServer: one of three that stops answering costs the connection, and
// not the session.
func TestRealFrozenServer(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	ctx := check.Patient(t)
	opts := &session.Options{Timeout: 4 * time.Second, ServerTick: 100 * time.Millisecond}
	follower := ens.Followers()[0]
	var s *session.Session
	for s == nil || await[session.Connected](t, s.Events(ctx)).Server != ens.Addr(follower) {
		if s != nil {
			s.Close()
		}
		s = kit.Open(t, ens.Addrs(), opts)
	}
	events := s.Events(ctx)
	ens.Pause(follower)
	await[session.Connected](t, events)
	if ev := await[session.Suspended](t, events); time.Until(ev.Deadline) <= 0 {
		t.Errorf("suspended when it was too late: %v", ev)
	}
	check.Equal[session.Event](t, <-events, session.Resumed{Server: s.State().(session.Resumed).Server}, "after the suspension came")
	// Those who come now are not kept by it either.
	for range 5 {
		kit.Open(t, ens.Addrs(), opts).Close()
	}
	ens.Resume(follower)
	check.Have(s.Set(ctx, "/", nil, session.AnyVersion))(t)
}

// TestRealWatchesAreShared counts what 100 who wait for one node cost.
func TestRealWatchesAreShared(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	ctx := check.Patient(t)
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	s := kit.Open(t, proxy.Addrs(), nil)
	other := kit.Open(t, ens.Addrs(), nil)
	check.Have(s.Create(ctx, "/a", []byte("0"), session.Persistent))(t)
	proxy.ResetRequests()
	const n = 100
	read, changed, over := make(chan string, n), make(chan string, n), make(chan error, n)
	var cancels []func()
	for range n {
		cancels = append(cancels, s.Async(0).Watch("/a",
			func(data []byte, _ *session.Stat, err error) {
				if err != nil {
					over <- err
				}
				read <- string(data)
			},
			func(data []byte, _ *session.Stat, err error) {
				if err != nil {
					over <- err
					return
				}
				changed <- string(data)
			}))
	}
	all := func(ch chan string, want string) {
		t.Helper()
		for range n {
			check.Equal(t, <-ch, want, "got")
		}
	}
	all(read, "0")
	check.Have(other.Set(ctx, "/a", []byte("1"), 0))(t)
	all(changed, "1")
	check.Equal(t, proxy.Requests()[zktest.OpGetData], 2, "reads: one for all, and one after the change")
	// A watch without subscribers is used by the next subscriber.
	for _, cancel := range cancels {
		cancel()
	}
	s.Async(0).Watch("/a", func(data []byte, _ *session.Stat, _ error) { read <- string(data) },
		func(_ []byte, _ *session.Stat, err error) { over <- err })
	check.Equal(t, <-read, "1", "the parked watch says")
	check.Equal(t, proxy.Requests()[zktest.OpGetData], 2, "reads beside the parked watch")
	// It stands after a reconnect, and tells what was missed.
	proxy.Refuse(true)
	proxy.Disconnect(0)
	check.Must(t, other.Delete(ctx, "/a", session.AnyVersion))
	proxy.Refuse(false)
	check.Is(t, <-over, session.ErrNoNode)
	check.Equal(t, ens.Mntr(0)["zk_watch_count"], "0", "watches are left on the server")
}

// realLostReplies loses the reply to every kind of request.
func realLostReplies(t *testing.T, ens *zktest.Ensemble) {
	t.Helper()
	ctx := check.Patient(t)
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	s := kit.Open(t, proxy.Addrs(), nil)
	check.Have(s.Create(ctx, "/a", nil, session.Persistent))(t)
	lose := func(op zktest.Op) { proxy.DropReply(zktest.Match{Op: op}) }

	lose(zktest.OpGetData)
	if _, _, err := s.Get(ctx, "/a"); err != nil {
		t.Errorf("a read: %v", err)
	}
	lose(zktest.OpSetData)
	check.Fails(s.Set(ctx, "/a", nil, session.AnyVersion))(t, session.ErrUnknownOutcome) // a write
	lose(zktest.OpCreate)
	node, err := s.Create(ctx, "/a/x-", nil, session.PersistentSequential)
	check.OK(t, err, "a sequential create")
	lose(zktest.OpCreate)
	check.Have(s.Create(ctx, "/a/e", nil, session.Ephemeral))(t) // an ephemeral create
	proxy.DropRequest(zktest.Match{Op: zktest.OpCreate})
	second, err := s.Create(ctx, "/a/x-", nil, session.EphemeralSequential)
	check.True(t, err == nil && second != node, "a sequential create that is lost on its way: %v", err)
	lose(zktest.OpCreateContainer)
	check.OK(t, s.EnsurePath(ctx, "/b/c/d")) // a path
	names, _, err := s.Children(ctx, "/a")
	check.True(t, err == nil && len(names) == 3, "there are %q, %v: want each once", names, err)
	check.OK(t, proxy.AwaitFault(time.Second))
}

// TestRealCancelledCreateLeavesNothing cancels while the reply is under way.
func TestRealCancelledCreateLeavesNothing(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	ctx := check.Patient(t)
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	s := kit.Open(t, proxy.Addrs(), nil)
	other := kit.Open(t, ens.Addrs(), nil)
	check.Have(s.Create(ctx, "/a", nil, session.Persistent))(t)
	for _, mode := range []session.CreateMode{session.EphemeralSequential, session.PersistentSequential, session.Ephemeral} {
		proxy.Freeze(0, zktest.ToClient)
		short, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			_, err := s.Create(short, "/a/x", nil, mode)
			done <- err
		}()
		for { // until the server has made it
			stat := check.Have(other.Exists(ctx, "/a"))(t)
			if stat.NumChildren == 1 {
				break
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, session.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
			t.Errorf("mode %d: %v", mode, err)
		}
		proxy.Thaw(0)
		for ctx.Err() == nil {
			if stat, err := other.Exists(ctx, "/a"); err != nil {
				t.Fatal(err)
			} else if stat.NumChildren == 0 {
				break
			}
		}
	}
}

// realSessionFull: a session refuses more ephemerals than servers can bear.
func realSessionFull(t *testing.T, ens *zktest.Ensemble) {
	t.Helper()
	ctx := check.Patient(t)
	s := kit.Open(t, ens.Addrs(), nil)
	name := strings.Repeat("x", 64<<10)
	var full error
	made := 0
	for ; made < 20 && full == nil; made++ {
		_, full = s.Create(ctx, fmt.Sprintf("/%d%s", made, name), nil, session.Ephemeral)
	}
	check.True(t, errors.Is(full, session.ErrSessionFull) && made == 16, "after %d nodes of 64 KiB: %v", made, full)
	check.Must(t, s.Delete(ctx, "/0"+name, session.AnyVersion))
	check.Have(s.Create(ctx, "/0"+name, nil, session.Ephemeral))(t) // after one was deleted
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
