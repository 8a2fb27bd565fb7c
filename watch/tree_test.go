package watch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// onServer reads a tree from the server: path and what identifies its data.
func onServer(t *testing.T, s *session.Session, path string) []string {
	t.Helper()
	ctx := context.Background()
	data, stat, err := s.Get(ctx, path)
	if errors.Is(err, session.ErrNoNode) {
		return nil
	}
	check.Must(t, err)
	all := []string{fmt.Sprintf("%s %q %d", path, data, stat.Mzxid)}
	names, _, err := s.Children(ctx, path)
	check.Require(t, err == nil || errors.Is(err, session.ErrNoNode), "%v", err)
	for _, name := range names {
		all = append(all, onServer(t, s, znode.Join(path, name))...)
	}
	slices.Sort(all)
	return all
}

func inCache(c *watch.Cache) []string {
	var all []string
	for _, n := range c.Nodes() {
		all = append(all, fmt.Sprintf("%s %q %d", n.Path, n.Data, n.Stat.Mzxid))
	}
	slices.Sort(all)
	return all
}

// A follower adds up what one reader is told.
type follower struct {
	t     *testing.T
	nodes map[string]watch.TreeNode
}

func (f *follower) take(state watch.TreeState) {
	for _, n := range state.Removed {
		if _, ok := f.nodes[n.Path]; !ok {
			f.t.Fatalf("%s is removed, and was not there", n.Path)
		}
		delete(f.nodes, n.Path)
	}
	for _, n := range state.Changed {
		old, ok := f.nodes[n.Path]
		check.Require(f.t, ok && n.Stat.Mzxid >= old.Stat.Mzxid, "%s is changed from %v to %v", n.Path, old.Stat, n.Stat)
		f.nodes[n.Path] = n
	}
	for _, n := range state.Added {
		if _, ok := f.nodes[n.Path]; ok {
			f.t.Fatalf("%s is added, and was there", n.Path)
		}
		f.nodes[n.Path] = n
	}
}

// drain takes all that there is, in a bubble.
func (f *follower) drain(c *watch.Cache) {
	c.Changes()
	synctest.Wait()
	for len(c.Changes()) > 0 {
		f.take(<-c.Changes())
		synctest.Wait()
	}
}

func (f *follower) all() []string {
	var all []string
	for _, n := range f.nodes {
		all = append(all, fmt.Sprintf("%s %q %d", n.Path, n.Data, n.Stat.Mzxid))
	}
	slices.Sort(all)
	return all
}

func TestTree(t *testing.T) {
	for name, trouble := range troubles {
		runInBubble(t, name, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
			c := check.Open(watch.Tree(s, "/b", nil))(t)
			f := &follower{t, map[string]watch.TreeNode{}}
			<-c.Synced()
			compare := func(paths ...string) {
				t.Helper()
				calm()
				f.drain(c)
				want := onServer(t, other, "/b")
				got := inCache(c)
				check.True(t, slices.Equal(got, want) && len(want) == len(paths) && c.Len() == len(paths), "the cache has %v\nthe server %v\nwant %v", got, want, paths)
				check.EqualSlices(t, f.all(), want, "the nodes that the reader knows")
			}
			compare()
			trouble(srv, s, func() { create(t, other, "/b", "") })
			compare("/b")
			trouble(srv, s, func() { create(t, other, "/b/x", "1"); create(t, other, "/b/x/y", "2") })
			compare("/b", "/b/x", "/b/x/y")
			trouble(srv, s, func() { set(t, other, "/b/x/y", "3") })
			compare("/b", "/b/x", "/b/x/y")
			check.Equal(t, string(c.Get("/b/x/y").Data), "3")
			trouble(srv, s, func() { drop(t, other, "/b/x/y"); drop(t, other, "/b/x"); create(t, other, "/b/x", "4") })
			compare("/b", "/b/x")
			trouble(srv, s, func() { create(t, other, "/b/x/z", "5") })
			compare("/b", "/b/x", "/b/x/z")
			check.EqualSlices(t, c.Children("/b/x"), []string{"z"})
			trouble(srv, s, func() {
				drop(t, other, "/b/x/z")
				drop(t, other, "/b/x")
				drop(t, other, "/b")
				create(t, other, "/b", "6")
				create(t, other, "/b/x", "7")
			})
			compare("/b", "/b/x")
			trouble(srv, s, func() { drop(t, other, "/b/x"); drop(t, other, "/b") })
			compare()
			state := c.Get("/b")
			check.False(t, state.Exists, "%v", state)
		})
	}
}

func TestTreeOptions(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		for _, path := range []string{"/a/x", "/a/x/y", "/a/x/y/z", "/a/skip", "/a/skip/q"} {
			create(t, other, path, "")
		}
		paths := func(opts *watch.TreeOptions) string {
			c := check.Have(watch.Tree(s, "/a", opts))(t)
			defer c.Close()
			<-c.Synced()
			var all []string
			for _, n := range c.Nodes() {
				all = append(all, n.Path)
			}
			return strings.Join(all, " ")
		}
		for want, opts := range map[string]*watch.TreeOptions{
			"/a /a/skip /a/skip/q /a/x /a/x/y /a/x/y/z": nil,
			"/a /a/skip /a/x":                  {Depth: 1, Sync: true},
			"/a /a/skip /a/skip/q /a/x /a/x/y": {Depth: 2},
			"/a /a/x /a/x/y /a/x/y/z":          {Filter: func(path string) bool { return !strings.HasSuffix(path, "/skip") }},
		} {
			check.Equal(t, paths(opts), want, opts)
		}
		check.Fails(watch.Tree(s, "/a", &watch.TreeOptions{Depth: -1}))(t, session.ErrInvalidArgument)
		check.Fails(watch.Tree(nil, "/a", nil))(t, session.ErrInvalidArgument)
		check.Fails(watch.Tree(s, "a", nil))(t, session.ErrInvalidPath)
	})
}

// TestTreeCosts: a change is one read.
func TestTreeCosts(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		for i := range 50 {
			create(t, other, fmt.Sprintf("/a/%d", i), "")
		}
		srv.ResetRequests()
		c := check.Open(watch.Tree(s, "/a", nil))(t)
		<-c.Synced()
		counts := srv.Requests()
		check.True(t, counts[zktest.OpGetData] == 51 && counts[zktest.OpGetChildren2] == 51, "to read 51 nodes: %v", counts)
		cost := func(what string, reads zktest.Counts, change func()) {
			t.Helper()
			srv.ResetRequests()
			change()
			synctest.Wait()
			got := srv.Requests()
			for _, op := range []zktest.Op{zktest.OpGetData, zktest.OpGetChildren2, zktest.OpExists} {
				check.Equal(t, got[op], reads[op], what, got)
			}
		}
		cost("a change of data", zktest.Counts{zktest.OpGetData: 1}, func() { set(t, other, "/a/7", "x") })
		cost("a new node", zktest.Counts{zktest.OpGetData: 1, zktest.OpGetChildren2: 2}, func() { create(t, other, "/a/new", "x") })
		cost("a deletion", zktest.Counts{zktest.OpGetChildren2: 1}, func() { drop(t, other, "/a/new") })
	})
}

// TestTreeEnds with its session.
func TestTreeEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		c := check.Have(watch.Tree(s, "/", nil))(t)
		<-c.Synced()
		changes := c.Changes()
		s.Close()
		<-c.Done()
		check.True(t, errors.Is(c.Err(), session.ErrClosed) && c.Get("/a").Exists, "%v, %v", c.Err(), c.Get("/a"))
		for state := range changes {
			check.True(t, len(state.Added) >= 2 && state.Synced, "%v", state)
		}
		c.Close()
		c.Close()
	})
}

// grow makes n nodes below dir, in batches.
func grow(tb testing.TB, s *session.Session, dir string, n int, data []byte) {
	tb.Helper()
	for i := 0; i < n; {
		var ops []session.Op
		for ; i < n && len(ops) < 500; i++ {
			ops = append(ops, session.CreateOp(fmt.Sprintf("%s/n%07d", dir, i), data, session.Persistent))
		}
		check.Have(s.Multi(context.Background(), ops...))(tb)
	}
}

// TestLargeTree: what is beyond the first 1,000 nodes has a session of its own.
func TestLargeTree(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, s, other *session.Session) {
		grow(t, other, "/a", 1500, nil)
		before := len(srv.Sessions())
		c := check.Have(watch.Tree(s, "/a", nil))(t)
		<-c.Synced()
		if n := len(srv.Sessions()); n != before+1 {
			t.Errorf("%d sessions", n-before)
		}
		f := &follower{t, map[string]watch.TreeNode{}}
		compare := func() {
			t.Helper()
			calm()
			f.drain(c)
			want := onServer(t, other, "/a")
			check.EqualSlices(t, inCache(c), want, "the nodes in the cache")
			check.EqualSlices(t, f.all(), want, "the nodes that the reader knows")
		}
		compare()
		for i := range 100 {
			path := fmt.Sprintf("/a/n%07d", i*14)
			switch i % 3 {
			case 0:
				set(t, other, path, "x")
			case 1:
				drop(t, other, path)
			case 2:
				drop(t, other, path)
				create(t, other, path, "y")
			}
		}
		compare()
		for _, id := range srv.Sessions() {
			if id != other.ID() {
				srv.Expire(id)
			}
		}
		set(t, other, "/a/n0001499", "z")
		compare()
		c.Close()
		synctest.Wait()
		if n := len(srv.Sessions()); n != before {
			t.Errorf("%d sessions are left", n-before)
		}
		again := check.Have(watch.Tree(s, "/a", nil))(t)
		<-again.Synced()
		s.Close()
		<-again.Done()
		if n := len(srv.Sessions()); n != 1 {
			t.Errorf("%d sessions are left", n-1)
		}
	})
}

// TestRandomTrees are the same on the server and in caches when it is quiet again,
// whatever happens to connections, sessions and replicas meanwhile. No view goes back.
func TestRandomTrees(t *testing.T) {
	rounds := hasten.Sized(hasten.Usually(1000, 200), 15)
	for round := range rounds {
		synctest.Test(t, func(t *testing.T) {
			randomTree(t, rand.New(rand.NewPCG(uint64(round), 1)))
			if t.Failed() {
				t.Logf("in round %d", round)
			}
		})
	}
}

func randomTree(t *testing.T, r *rand.Rand) {
	config := zktest.Config{InProcess: true, Tick: time.Second}
	if r.IntN(2) == 0 {
		config.Replicas, config.Lag = 3, time.Duration(r.IntN(2000))*time.Millisecond
	}
	if r.IntN(2) == 0 {
		config.Latency = time.Duration(r.IntN(20)) * time.Millisecond
	}
	srv := check.Have(zktest.NewServer(config))(t)
	defer srv.Close()
	s := check.Have(session.Open(t.Context(), srv.Addrs(), &session.Options{Timeout: 4 * time.Second, Dialer: srv.DialContext}))(t)
	defer s.Close()
	other := check.Have(session.Open(t.Context(), srv.Addrs()[:1], &session.Options{Timeout: 20 * time.Second, Dialer: srv.DialContext}))(t)
	defer other.Close()
	c := check.Have(watch.Tree(s, "/r", nil))(t)
	defer c.Close()
	node := check.Have(watch.Node(s, "/r/1", nil))(t)
	defer node.Close()
	children := check.Have(watch.Children(s, "/r", nil))(t)
	defer children.Close()
	f := &follower{t, map[string]watch.TreeNode{}}
	var newest int64
	look := func() {
		f.drain(c)
		node.Changes()
		synctest.Wait()
		for len(node.Changes()) > 0 {
			if state := <-node.Changes(); state.Exists {
				check.AtLeast(t, state.Stat.Mzxid, newest, "it went back to")
				newest = state.Stat.Mzxid
			}
			synctest.Wait()
		}
	}
	path := func() string {
		path := "/r"
		for range r.IntN(4) {
			path += fmt.Sprintf("/%d", r.IntN(3))
		}
		return path
	}
	ctx := t.Context()
	var clear func(path string)
	clear = func(path string) {
		names, _, err := other.Children(ctx, path)
		if err != nil {
			return
		}
		for _, name := range names {
			clear(znode.Join(path, name))
		}
		_ = other.Delete(ctx, path, session.AnyVersion)
	}
	for range 60 {
		switch r.IntN(16) {
		case 0:
			srv.Disconnect(s.ID())
		case 1:
			srv.Refuse(true)
			srv.Disconnect(s.ID())
		case 2:
			srv.Refuse(false)
		case 3:
			srv.Expire(s.ID())
		case 4:
			<-time.After(time.Duration(r.IntN(1500)) * time.Millisecond)
		case 5:
			look()
		case 6:
			clear(path())
		case 7:
			srv.DropReply(zktest.Match{Session: s.ID()})
		case 8, 9, 10:
			_, _ = other.Set(ctx, path(), fmt.Append(nil, r.IntN(100)), session.AnyVersion)
		default:
			mode := session.Persistent
			if r.IntN(5) == 0 {
				mode = session.Ephemeral
			}
			_, _ = other.Create(ctx, path(), fmt.Append(nil, r.IntN(100)), mode)
		}
	}
	srv.ClearFaults()
	srv.Refuse(false)
	<-time.After(time.Minute)
	look()
	want := onServer(t, other, "/r")
	check.EqualSlices(t, inCache(c), want, "the nodes in the cache")
	check.EqualSlices(t, f.all(), want, "the nodes that the reader knows")
	if stat, err := other.Exists(ctx, "/r/1"); err != nil || stat != nil && stat.Mzxid != newest {
		t.Errorf("/r/1 is of %d, want %v, %v", newest, stat, err)
	}
	names, _, _ := other.Children(ctx, "/r")
	slices.Sort(names)
	check.EqualSlices(t, settled(t, children).Names, names, "the children")
}
