//go:build !race

// The race detector changes what everything costs.

package watch_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

const serverVariable = "ZKACTORS_WATCH_SERVER"

// TestServerProcess is not a test: it is a server for others, in a process of its own,
// so that its memory is not counted with the client's.
func TestServerProcess(t *testing.T) {
	if os.Getenv(serverVariable) == "" {
		t.Skip("there is nobody to serve")
	}
	srv := check.Have(zktest.NewServer(zktest.Config{}))(t)
	defer srv.Close()
	fmt.Println(srv.Addrs()[0])
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
}

func openAt(tb testing.TB, addr string) *session.Session {
	tb.Helper()
	s := check.Have(session.Open(context.Background(), []string{addr}, nil))(tb)
	tb.Cleanup(s.Close)
	return s
}

const pathBytes, dataBytes = len("/bench/d00/n0000000"), 16

// plant makes a tree of n nodes, with 1,000 in each directory.
func plant(tb testing.TB, s *session.Session, n int) {
	tb.Helper()
	dir := func(path string) {
		check.Have(s.Create(context.Background(), path, nil, session.Persistent))(tb)
	}
	dir("/bench")
	for i := 0; n > 0; i++ {
		path := fmt.Sprintf("/bench/d%02d", i)
		dir(path)
		grow(tb, s, path, min(n, 1000), make([]byte, dataBytes))
		n -= 1000
	}
}

func liveBytes() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}

// loadTree returns what a node of a tree of n nodes takes of memory beside its path and data, and
// how many goroutines there are for all.
func loadTree(tb testing.TB, n int) (perNode float64, goroutines int) {
	tb.Helper()
	addr := check.Apart(tb, "TestServerProcess", serverVariable)
	s, other := openAt(tb, addr), openAt(tb, addr)
	plant(tb, other, n)
	before, running := liveBytes(), runtime.NumGoroutine()
	c := check.Have(watch.Tree(s, "/bench", nil))(tb)
	defer c.Close()
	<-c.Synced()
	check.Require(tb, c.Len() >= n, "%d nodes of %d", c.Len(), n)
	goroutines = runtime.NumGoroutine() - running
	perNode = float64(liveBytes()-before)/float64(c.Len()) - float64(pathBytes+dataBytes)
	return perNode, goroutines
}

// TestCostOfTrees holds what the documentation says of large trees.
func TestCostOfTrees(t *testing.T) {
	hasten.Alone(t)
	perNode, goroutines := loadTree(t, 100_000)
	check.True(t, perNode <= 1.2*1024, "%.0f bytes for each node, beside its path and data", perNode)
	check.AtMost(t, goroutines, 50, "goroutines")
}
