//go:build unix && !race

// The race detector changes what everything costs.

package session_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCostOfRequests counts allocations, of all goroutines of the session.
func TestCostOfRequests(t *testing.T) {
	s := mustOpenAt(t, check.Apart(t, "TestResponderProcess", responderVariable))
	failed := make(chan error)
	answer := func(_ *session.Stat, err error) { failed <- err }
	ctx := context.Background()
	for name, row := range map[string]struct {
		most    float64
		request func() error
	}{
		"asynchronous": {5, func() error { s.Async(0).Exists("/some/node", answer); return <-failed }},
		"blocking":     {8, func() error { _, err := s.Exists(ctx, "/some/node"); return err }},
	} {
		allocs := check.Allocs(500, func() {
			check.OK(t, row.request())
		})
		check.True(t, allocs <= row.most, "%s: %v allocations, want at most %v", name, allocs, row.most)
	}
}

// TestCostOfNoObserver: a report that is for nobody takes no memory.
func TestCostOfNoObserver(t *testing.T) {
	s := mustOpenAt(t, check.Apart(t, "TestResponderProcess", responderVariable))
	allocs := check.Allocs(100, func() {
		o := s.Observer()
		o.Put("/q", 1, time.Second, nil)
		o.Delivered("/q", time.Second, 1)
		o.Settled("/q", "acknowledged", time.Second)
		o.Buried("/q")
	})
	check.True(t, allocs == 0, "%v allocations", allocs)
}

// live returns the bytes of heap and stacks in use.
func live() int {
	runtime.GC()
	runtime.GC() // the first one only marks; stacks shrink in the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc + stats.StackInuse)
}

// TestCostOfIdling includes the server's side.
func TestCostOfIdling(t *testing.T) {
	const n, most = 200, 96 << 10
	srv := zktest.Start(t)
	mustOpenAt(t, srv.Addrs()[0])
	before := live()
	for range n {
		mustOpenAt(t, srv.Addrs()[0])
	}
	check.AtMost(t, (live()-before)/n, most, "bytes of an idle session")
}

// TestCostOfLargeFrames: buffers that have grown shrink again.
func TestCostOfLargeFrames(t *testing.T) {
	srv := zktest.Start(t)
	s := mustOpenAt(t, srv.Addrs()[0])
	litter(t, s, "/many", 4000)
	check.Have(s.Create(t.Context(), "/large", nil, session.Persistent))(t)
	small := func() int {
		for range 100 {
			check.Must(t, exists(t, s))
		}
		return live()
	}
	before := small()
	for range 3 {
		names, _, err := s.Children(t.Context(), "/many")
		check.Require(t, err == nil && len(names) == 4000, "%d children, %v", len(names), err)
		for _, data := range [][]byte{bytes.Repeat([]byte("x"), 1e6), nil} {
			check.Have(s.Set(t.Context(), "/large", data, session.AnyVersion))(t)
		}
	}
	check.AtMost(t, small()-before, 256<<10, "bytes kept after large requests and replies")
}

// litter makes n children with names of a thousand bytes.
func litter(t *testing.T, s *session.Session, dir string, n int) {
	t.Helper()
	ops := []session.Op{session.CreateOp(dir, nil, session.Persistent)}
	for i := range n {
		ops = append(ops, session.CreateOp(fmt.Sprintf("%s/%01000d", dir, i), nil, session.Persistent))
		if len(ops) == 400 || i == n-1 {
			check.Have(s.Multi(t.Context(), ops...))(t)
			ops = ops[:0]
		}
	}
}

const responderVariable = "ZKACTORS_SESSION_RESPONDER"

// TestResponderProcess is not a test: it answers every request at once, in a process of its
// own, so that what it costs is not counted with the client's.
func TestResponderProcess(t *testing.T) {
	if os.Getenv(responderVariable) == "" {
		t.Skip("there is nobody to answer")
	}
	listener := check.Have(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	fmt.Println(listener.Addr())
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go respond(conn)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
	_ = listener.Close()
}

// respond answers all requests that have come, with one write.
func respond(conn net.Conn) {
	defer func() { _ = conn.Close() }() // no watch is left to be notified
	in := bufio.NewReaderSize(conn, 256<<10)
	if _, err := receive(in); err != nil {
		return
	}
	hello := binary.BigEndian.AppendUint32(nil, 37)
	hello = binary.BigEndian.AppendUint64(hello, 10_000) // protocol version 0, and the timeout
	hello = binary.BigEndian.AppendUint64(hello, 42)
	hello = binary.BigEndian.AppendUint32(hello, 16)
	out := append(hello, make([]byte, 17)...)
	for {
		if in.Buffered() < 4 {
			if _, err := conn.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
		request, err := receive(in)
		if err != nil {
			return
		}
		xid, op := int32At(request, 0), int32At(request, 4)
		body := 0
		if op == opExists {
			body = 68 // a Stat of zeros
		}
		if op == opSync {
			body = 4 // an empty path
		}
		out = binary.BigEndian.AppendUint32(out, uint32(replyHeader+body))
		out = binary.BigEndian.AppendUint32(out, uint32(xid))
		out = append(out, make([]byte, replyHeader-4+body)...)
	}
}

func mustOpenAt(tb testing.TB, addr string) *session.Session {
	tb.Helper()
	s := check.Have(session.Open(context.Background(), []string{addr}, nil))(tb)
	tb.Cleanup(s.Close)
	return s
}
