package watch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// TestRealTree: on real servers, behind connections that flap, a tree ends as the
// servers have it, and no node goes back.
func TestRealTree(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	ctx := check.Patient(t)
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	s := check.Open(session.Open(ctx, proxy.Addrs(), &session.Options{Timeout: 20 * time.Second, Chroot: "/chroot"}))(t)
	other := check.Open(session.Open(ctx, ens.Addrs(), nil))(t)
	create(t, other, "/chroot", "")
	c := check.Open(watch.Tree(s, "/r", nil))(t)
	done := make(chan struct{})
	f := &follower{t, map[string]watch.TreeNode{}}
	changes := c.Changes()
	go func() {
		defer close(done)
		for state := range changes {
			f.take(state)
		}
	}()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 600 {
		path := "/chroot/r"
		for range r.IntN(4) {
			path += "/" + strconv.Itoa(r.IntN(4))
		}
		switch r.IntN(5) {
		case 0:
			_ = other.Delete(ctx, path, session.AnyVersion)
		case 1:
			_, _ = other.Set(ctx, path, fmt.Append(nil, i), session.AnyVersion)
		default:
			_, _ = other.Create(ctx, path, fmt.Append(nil, i), session.Persistent)
		}
		if i%20 == 10 {
			proxy.Disconnect(0)
		}
		if i == 300 {
			proxy.Expire(s.ID())
		}
	}
	want := onServer(t, other, "/chroot/r")
	for {
		var got []string
		for _, n := range c.Nodes() {
			got = append(got, fmt.Sprintf("/chroot%s %q %d", n.Path, n.Data, n.Stat.Mzxid))
		}
		slices.Sort(got)
		if slices.Equal(got, want) {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the tree is\n%q\nand lacks\n%q\n%v", slices.DeleteFunc(got, func(n string) bool { return slices.Contains(want, n) }), slices.DeleteFunc(want, func(n string) bool { return slices.Contains(got, n) }), s.State())
		case <-time.After(10 * time.Millisecond):
		}
	}
	c.Close()
	<-done
	check.AtMost(t, len(f.nodes), len(want), "nodes that the reader knows")
}

// TestRealWatchCount: what is parked is bounded, on the server too.
func TestRealWatchCount(t *testing.T) {
	t.Parallel()
	ens := zktest.StartEnsemble(t, 1, zktest.NoSync())
	s := check.Open(session.Open(t.Context(), ens.Addrs(), nil))(t)
	for i := range 1100 {
		w := check.Have(watch.Node(s, fmt.Sprintf("/n%d", i), nil))(t)
		<-w.Changes()
		w.Close()
	}
	if err := s.Sync(t.Context(), "/"); err != nil { // behind the last removal
		t.Fatal(err)
	}
	check.Equal(t, ens.Mntr(0)["zk_watch_count"], "1024", "watches")
	c := check.Open(watch.Children(s, "/n0", nil))(t)
	<-c.Changes()
	create(t, s, "/n0", "")
	create(t, s, "/n0/x", "")
	for state := range c.Changes() {
		if len(state.Names) == 1 {
			break
		}
	}
}
