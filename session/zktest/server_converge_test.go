package zktest

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// TestReplicasConverge lets clients write at replicas that lag and are cut off,
// and shows that all of them have the same nodes in the end.
func TestReplicasConverge(t *testing.T) {
	const replicas = 3
	rapid.Check(t, func(rt *rapid.T) {
		clock := new(ManualClock)
		srv, err := NewServer(Config{InProcess: true, Replicas: replicas, Lag: time.Second, Clock: clock, Tick: time.Second})
		if err != nil {
			rt.Fatal(err)
		}
		defer srv.Close()
		var wires []*rawClient
		for i := range 2 * replicas {
			c, err := srv.DialContext(context.Background(), "tcp", srv.Addrs()[i%replicas])
			if err != nil {
				rt.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			w := &rawClient{Conn: c}
			if !w.shake(wire.ConnectRequest{Timeout: 4000}) {
				rt.Fatal("no session")
			}
			wires = append(wires, w)
		}
		path := func() string { return rapid.SampledFrom([]string{"/a", "/b", "/a/c", "/a/d"}).Draw(rt, "path") }
		isolated := make([]bool, replicas)
		for range rapid.IntRange(5, 60).Draw(rt, "steps") {
			i := rapid.IntRange(0, replicas-1).Draw(rt, "replica")
			switch rapid.IntRange(0, 11).Draw(rt, "kind") {
			case 0:
				if !slices.Contains(isolated, true) {
					srv.Isolate(i)
					isolated[i] = true
				}
			case 1, 2:
				srv.Heal(i)
				isolated[i] = false
			case 3:
				srv.SetLag(i, rapid.SampledFrom([]time.Duration{0, 500 * time.Millisecond, 2 * time.Second}).Draw(rt, "lag"))
			case 4:
				srv.CatchUp(i)
			case 5:
				clock.Advance(700 * time.Millisecond)
			case 6:
				srv.Expire(wires[rapid.IntRange(0, len(wires)-1).Draw(rt, "session")].session)
			default:
				client := rapid.IntRange(0, len(wires)-1).Draw(rt, "client")
				w := wires[client]
				before, ok := srv.heard(client%replicas, w.session)
				if !ok {
					continue
				}
				switch rapid.IntRange(0, 3).Draw(rt, "write") {
				case 0, 1:
					w.send(OpCreate, argCreate(path(), nil, rapid.Int32Range(0, 3).Draw(rt, "flags")))
				case 2:
					w.send(OpMulti, argMulti(part{OpCreate, argCreate(path(), nil, 1)}, part{OpDelete, argVersion(path(), -1)}))
				case 3:
					w.send(OpDelete, argVersion(path(), -1))
				}
				// The answer may be long in coming.
				begin := time.Now()
				for after := before; after == before; after, _ = srv.heard(client%replicas, w.session) {
					runtime.Gosched()
					if time.Since(begin) > wirePatience {
						rt.Fatal("a request was not heard")
					}
				}
			}
		}
		for i := range replicas {
			srv.SetLag(i, time.Hour) // each has a tree of its own to be compared
			srv.Heal(i)
		}
		for i := range replicas {
			srv.CatchUp(i)
		}
		srv.mu.Lock()
		defer srv.mu.Unlock()
		for i, r := range srv.replicas {
			if r.tree == srv.tree {
				rt.Fatalf("replica %d has no tree of its own", i)
			}
			if diff := difference(r.tree, srv.tree); diff != "" {
				rt.Fatalf("replica %d: %s", i, diff)
			}
			for id := range r.conns {
				if srv.sessions[id] == nil {
					rt.Fatalf("replica %d serves a session that is over", i)
				}
			}
		}
		for id := range srv.tree.ephemerals {
			if srv.sessions[id] == nil {
				rt.Fatalf("nodes of a session that is over: %v", srv.tree.ephemeralsOf(id))
			}
		}
	})
}

// heard returns how many requests have come, and whether the replica still
// serves the session.
func (s *Server) heard(replica int, session int64) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats.received, s.replicas[replica].conns[session] != nil
}

// difference tells how two trees differ.
func difference(a, b *tree) string {
	if a.zxid != b.zxid || a.bytes != b.bytes || len(a.nodes) != len(b.nodes) {
		return fmt.Sprintf("zxid %d and %d, %d and %d bytes, %d and %d nodes", a.zxid, b.zxid, a.bytes, b.bytes, len(a.nodes), len(b.nodes))
	}
	for path, n := range a.nodes {
		m := b.nodes[path]
		if m == nil {
			return path + " is missing"
		}
		names, others := n.children(), m.children()
		slices.Sort(names)
		slices.Sort(others)
		if n.Stat != m.Stat || !slices.Equal(names, others) || string(n.data) != string(m.data) || !slices.Equal(n.acl, m.acl) {
			return fmt.Sprintf("%s is %+v and %+v", path, n, m)
		}
		for i, name := range n.names {
			if n.index[name] != i {
				return fmt.Sprintf("%s has lost %s", path, name)
			}
		}
	}
	if !reflect.DeepEqual(a.ephemerals, b.ephemerals) || !reflect.DeepEqual(a.reapable, b.reapable) {
		return fmt.Sprintf("ephemerals %v and %v, reapable %v and %v", a.ephemerals, b.ephemerals, a.reapable, b.reapable)
	}
	return ""
}

// TestFailedMultiLeavesNothing compares the tree before and after.
func TestFailedMultiLeavesNothing(t *testing.T) {
	srv := Start(t)
	w := openWire(t, srv.Addrs()[0])
	for _, st := range []step{
		create("/a", "a", 0), create("/a/b", "b", 1), create("/a/c", "c", 0), container("/k", 0), createTTL("/t", 5, 1000), set("/a", "aa", -1),
	} {
		w.mustCall(t, st.op, st.arg)
	}
	srv.mu.Lock()
	before := srv.tree.clone()
	srv.mu.Unlock()
	st := multi(set("/a", "x", -1), create("/a/n", "", 3), remove("/a/b", -1), remove("/a/c", -1), create("/a/c", "again", 1), set("/a/c", "", 0), remove("/k", -1),
		remove("/t", -1), create("/k", "", 4), create("/z", "", 0), create("/z/y", "", 0), remove("/z/y", -1), checking("/none", 0), remove("/a", -1))
	a, err := w.call(st.op, st.arg)
	check.Require(t, err == nil && a.err == codeOK, "%v %v", a, err)
	srv.mu.Lock()
	defer srv.mu.Unlock()
	before.zxid++
	check.Equal(t, difference(srv.tree, before), "")
}
