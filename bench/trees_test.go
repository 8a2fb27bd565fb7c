package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/bench/ours"
	"github.com/zkactors/zkactors/bench/peers"
	"github.com/zkactors/zkactors/session/zktest"
)

// treeBench returns a bench for this library's row of a workload with 300 nodes.
func treeBench(t *testing.T, name string) (*bench, workload) {
	t.Helper()
	o, err := parse(short("-filter", name, "-systems", "zkactors"), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	w := o.workloads[0]
	w.params = w.params.with(of("nodes", 300, "warm_nodes", 100))
	b, err := newBench(o, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b, w
}

// TestMeasuredLoadIsTheFirst: the measured load of a tree reads every node and every list of
// children from the servers, after a warm-up on another tree.
func TestMeasuredLoadIsTheFirst(t *testing.T) {
	b, w := treeBench(t, "tree-10000")
	w.counted = w.counted.with(of("warm_ops", 3))
	c := b.count(t.Context(), w, zkactors())
	const nodes = 301 // with the root
	if c.note != "" || c.ops != 1 || c.requests.Total() < 2*nodes || c.requests.Total() > 2*nodes+10 || c.proposals != 0 {
		t.Errorf("%+v, want two requests for each of %d nodes", c, nodes)
	}
	// A node has 100 bytes of data, and a Stat twice. A request has a header, and a path.
	if each := c.received / nodes; each < 100+2*68 || each > 400 {
		t.Errorf("%v bytes received for each node", each)
	}
	if each := c.sent / nodes; each < 2*20 || each > 150 {
		t.Errorf("%v bytes sent for each node", each)
	}
	if len(b.running) > 0 {
		t.Errorf("the process is kept: %v", b.running)
	}
	r := result{}
	r.counted(c)
	if r.Extras["bytes_sent"] != c.sent || r.Extras["bytes_received"] != c.received {
		t.Errorf("the row has %v", r.Extras)
	}
}

// TestTreeRow: a timed run reports the memory of the client and the CPU time of the servers, and
// leaves neither nodes nor a process.
func TestTreeRow(t *testing.T) {
	for _, name := range []string{"tree-10000", "tree-change"} {
		srv := zktest.Start(t)
		b, w := treeBench(t, name)
		w.params = w.params.with(of("nodes", 5000))                                     // enough for the coarse clock of the servers
		f := &fleet{addrs: srv.Addrs(), clients: srv.Addrs(), pids: []int{os.Getpid()}} // the server is in this process
		var got []sample
		for range 5 {
			s, err := b.once(t.Context(), f, w, zkactors())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			before, peak := s.Extras["MB_resident_before"], s.Extras["MB_resident_peak"]
			if s.Ops == 0 || before <= 0 || peak < before || s.Quantile(0.5) <= 0 {
				t.Errorf("%s: %+v", name, s)
			}
			got = append(got, s)
		}
		if most := slices.MaxFunc(got, func(a, b sample) int { return int(a.serverCPU - b.serverCPU) }); most.Extras[serverCPU] <= 0 {
			t.Errorf("%s: no CPU time of servers: %+v", name, most)
		}
		if len(b.running) > 0 {
			t.Errorf("%s: the process is kept: %v", name, b.running)
		}
		if paths := srv.Paths(); strings.Contains(join(paths), root+"/") {
			t.Errorf("%s leaves nodes: %v", name, paths)
		}
	}
}

// TestPlant: each of the two trees has as many nodes as its parameter says, and its root.
func TestPlant(t *testing.T) {
	srv := zktest.Start(t)
	if err := plant(t.Context(), srv.Addrs(), of("path", "/run", "nodes", 250, "warm_nodes", 100)); err != nil {
		t.Fatal(err)
	}
	paths := join(srv.Paths()) + ","
	for tree, want := range map[string]int{ours.WarmTree: 101, ours.Tree: 301} { // 250 nodes are three directories
		if got := strings.Count(paths, "/run"+tree+"/") + strings.Count(paths, "/run"+tree+","); got != want {
			t.Errorf("%s has %d nodes, want %d", tree, got, want)
		}
	}
	if err := plant(t.Context(), srv.Addrs(), of("path", "/run", "nodes", "many")); err == nil {
		t.Error("a size that is no number is accepted")
	}
}

// TestTreeCacheIsNamed: the row of 100,000 nodes says which of Curator's caches it shows, and why.
func TestTreeCacheIsNamed(t *testing.T) {
	for _, w := range workloads() {
		for _, s := range w.systems {
			if w.name != "tree-100000" || s.library != peers.Curator {
				continue
			}
			r := result{System: s.name, Remark: s.remark}
			if row := strings.Join(r.cells(), " "); !strings.Contains(row, "curator, TreeCache") || !strings.Contains(row, "CURATOR-690") {
				t.Errorf("the row is %q", row)
			}
		}
	}
}
