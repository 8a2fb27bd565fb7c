package naming_test

import (
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// TestRealNames plays on three servers what the bubbles play in memory.
func TestRealNames(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	ctx := check.Patient(t)
	opts := &session.Options{Timeout: 40 * time.Second, ServerTick: 100 * time.Millisecond}
	var both [2]*session.Session
	for i, addrs := range [][]string{proxy.Addrs(), ens.Addrs()} {
		s := check.Open(session.Open(ctx, addrs, opts))(t)
		both[i] = s
	}
	s, other := both[0], both[1]
	const path, name = "/names", "billing/primary"
	check.Fails(naming.Lookup(ctx, other, path, name))(t, naming.ErrNotFound) // before
	proxy.DropReply(zktest.Match{Op: zktest.OpCreate})
	check.Must(t, naming.Register(ctx, s, path, name, []byte("10.0.0.7:80"), nil))
	check.Must(t, other.Sync(ctx, "/"))
	if data, err := naming.Lookup(ctx, other, path, name); err != nil || string(data) != "10.0.0.7:80" {
		t.Errorf("found %q, %v", data, err)
	}
	if all, err := naming.List(ctx, other, path); err != nil || len(all) != 1 || all[0] != name {
		t.Errorf("there are %q, %v", all, err)
	}
	check.OK(t, naming.Unregister(ctx, s, path, name))

	// One that lives with its session, and is registered again when that expires.
	view := check.Open(naming.Watch(other, path, name, nil))(t)
	expect := func(what string, want func(watch.NodeState) bool) {
		t.Helper()
		for {
			select {
			case state := <-view.Changes():
				if want(state) {
					return
				}
			case <-ctx.Done():
				t.Fatal(what)
			}
		}
	}
	expect("it is there", func(state watch.NodeState) bool { return !state.Exists })
	check.Must(t, naming.Register(ctx, s, path, name, []byte("here"), &naming.Options{Ephemeral: true}))
	var first int64
	expect("it is not there", func(state watch.NodeState) bool {
		if state.Exists {
			first = state.Stat.EphemeralOwner
		}
		return state.Exists && string(state.Data) == "here"
	})
	proxy.Expire(s.ID())
	expect("it does not come back", func(state watch.NodeState) bool {
		return state.Exists && state.Stat.EphemeralOwner != first && state.Stat.EphemeralOwner == s.ID()
	})
	s.Close()
	expect("it outlives its session", func(state watch.NodeState) bool { return !state.Exists })
}
