package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/zkactors/zkactors/bench/driver"
	"github.com/zkactors/zkactors/bench/ours"
	"github.com/zkactors/zkactors/session"
)

// serverCPU names the CPU time of the servers, in ms for each operation.
const serverCPU = "servers_CPU_ms"

// coldWarmUp returns how long a process that has just started warms up, in seconds.
func (o options) coldWarmUp() float64 { return min(3, 3*o.duration.Seconds()) }

// plant creates the two trees of a run: the tree of its warm-up, and the measured one. The bench
// creates them, and not the driver, so that neither the driver's sessions nor its memory has seen
// them.
func plant(ctx context.Context, addrs []string, run params) error {
	s, err := session.Open(ctx, addrs, &session.Options{Timeout: sessionTimeout})
	if err != nil {
		return err
	}
	defer s.Close()
	for part, size := range map[string]string{ours.WarmTree: "warm_nodes", ours.Tree: "nodes"} {
		nodes, err := strconv.Atoi(run[size])
		if err != nil {
			return fmt.Errorf("%s: %w", size, err)
		}
		if err := plantTree(ctx, s, run["path"]+part, nodes); err != nil {
			return err
		}
	}
	return nil
}

// plantTree creates a tree: its root, directories, and the leaves in them.
func plantTree(ctx context.Context, s *session.Session, path string, nodes int) error {
	if err := s.EnsurePath(ctx, path); err != nil {
		return err
	}
	data := make([]byte, 100)
	if _, err := s.Set(ctx, path, data, session.AnyVersion); err != nil { // which keeps it
		return err
	}
	dirs := ours.Directories(nodes)
	const atOnce = 8
	return driver.Each(atOnce, func(first int) error {
		for d := first; d < dirs; d += atOnce {
			dir := ours.Directory(path, d)
			ops := []session.Op{session.CreateOp(dir, data, session.Persistent)}
			for _, leaf := range ours.Leaves(dir) {
				ops = append(ops, session.CreateOp(leaf, data, session.Persistent))
			}
			if _, err := s.Multi(ctx, ops...); err != nil {
				return err
			}
		}
		return nil
	})
}

// serverCPU returns the CPU time of all servers that this program started.
func (f *fleet) serverCPU() (total time.Duration) {
	for _, pid := range f.pids {
		total += cpuOf(pid)
	}
	return total
}
