package main

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/bench/peers"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/zktest"
)

// small returns small sizes of the workloads, for tests.
func small() params {
	return of("parties", 3, "producers", 2, "batch", 1, "items", 40, "consumers", 2, "workers", 2, "takers", 2, "locks", 2, "sessions", 3,
		"contenders", 4, "leases", 2, "candidates", 3, "sites", 2, "members", 4, "watchers", 4, "n", 20, "shards", 12, "nodes", 200, "warm_nodes", 100)
}

// TestEveryProgram: every program of every driver runs, on servers that lag, and counts its
// operations. Barriers and read locks of the peers may hang, and their partitions take long.
func TestEveryProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts the drivers of all peers")
	}
	srv := zktest.Start(t, zktest.Replicas(3, 5*time.Millisecond))
	f := &fleet{name: "in memory", addrs: srv.Addrs(), clients: srv.Addrs(), close: func() {}}
	b, err := newBench(options{duration: 20 * time.Millisecond, turns: 1, workloads: workloads()}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	if os.Getenv("ZKACTORS_REQUIRE_PEERS") == "1" && len(b.missing) > 0 {
		t.Fatal(b.missing)
	}
	mayHang := func(w workload, s system) bool {
		return (w.program == "barrier" || w.program == "readwrite" || w.program == "rebalance") && s.library != peers.ZKActors
	}
	done := make(map[string]bool)
	for _, w := range workloads() {
		w.params = w.params.with(small()).with(ops(12))
		for _, s := range b.systems(w) {
			if name := w.programOf(s) + ", " + s.name; done[name] || t.Failed() {
				continue
			} else {
				done[name] = true
			}
			one := b.once
			if w.crash {
				one = b.crash
			}
			run := w
			if run.limit, run.silence = check.Patience, 0; mayHang(w, s) {
				run.limit, run.silence = 20*time.Second, min(w.silence, 2*time.Second)
			}
			got, err := one(t.Context(), f, run, s)
			switch {
			case errors.Is(err, peers.ErrHung) && mayHang(w, s):
			case err != nil:
				t.Errorf("%s, %s: %v", w.name, s.name, err)
			case got.Ops == 0 || got.Seconds <= 0 || s.library == peers.ZKActors && !w.crash && got.CPU <= 0: // other clocks are too coarse for such a short run
				t.Errorf("%s, %s: %+v", w.name, s.name, got)
			}
		}
	}
}

// TestOneDriverHangs: a driver that hangs affects only its own row, is not used again, and leaves
// no process.
func TestOneDriverHangs(t *testing.T) {
	srv := zktest.Start(t)
	b, err := newBench(options{duration: 10 * time.Millisecond, turns: 2}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	clear(b.missing)
	hanging, err := peers.Start(peers.Kazoo, []string{"/bin/sh", "-c", "read run; echo progress 7; read more"})
	if err != nil {
		t.Fatal(err)
	}
	b.running[peers.Kazoo] = hanging
	w := workload{
		name: "it", program: "lock", params: of("sessions", 1, "locks", 1), silence: 5 * time.Second, systems: []system{kazoo(), zkLock()},
	}
	results := make([]result, 2)
	b.timed(t.Context(), &fleet{addrs: srv.Addrs(), clients: srv.Addrs()}, w, results)
	if note := results[0].Note; !strings.HasPrefix(note, "hung after 7 operations") {
		t.Errorf("the driver that hangs: %q", note)
	}
	if results[1].Note != "" || results[1].OpsPerS == 0 {
		t.Errorf("the other driver: %+v", results[1])
	}
	if b.running[peers.Kazoo] != nil {
		t.Error("the driver that hangs goes on")
	}
}
