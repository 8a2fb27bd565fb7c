//go:build unix && !race

// The race detector changes what everything costs.

package session_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

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

// A cost is what so many requests took.
type cost struct {
	took, cpu time.Duration
	allocs    uint64
}

func processTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	check.Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// measure has goroutines make n requests.
func measure(b *testing.B, goroutines, n int, request func() error) cost {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	cpu, begun := processTime(b), time.Now()
	for range goroutines {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := request(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	c := cost{took: time.Since(begun), cpu: processTime(b) - cpu}
	runtime.ReadMemStats(&after)
	c.allocs = after.Mallocs - before.Mallocs
	return c
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// bareSocket connects to a responder, and returns a request that is nothing but a write, a read by
// another goroutine, and the wake-up of the caller: what no client can do without that serves
// several callers on one connection. One goroutine may call it.
func bareSocket(b *testing.B, addr string) (request func() error) {
	conn := check.Have(new(net.Dialer).DialContext(context.Background(), "tcp", addr))(b)
	b.Cleanup(func() { _ = conn.Close() }) // it ends the goroutine that reads
	hello := make([]byte, 45)
	check.Have(conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(hello))), hello...)))(b)
	in := bufio.NewReader(conn)
	check.Have(receive(in))(b)
	const path = "/some/node"
	var frame []byte
	for _, n := range []int{4 + 4 + 4 + len(path) + 1, 0, opExists, len(path)} { // xid, operation, path
		frame = binary.BigEndian.AppendUint32(frame, uint32(n))
	}
	frame = append(append(frame, path...), 0) // no watch
	answered := make(chan error, 1)
	go func() {
		for err := error(nil); err == nil; {
			_, err = receive(in)
			answered <- err
		}
	}()
	return func() error {
		if _, err := conn.Write(frame); err != nil {
			return err
		}
		return <-answered
	}
}

// BenchmarkExistsBesideTheClient compares a session with bare go-zookeeper, in turns, at a
// responder that answers at once. Of the rounds the one in the middle counts. A bare socket beside
// them shows the least that one goroutine can reach.
func BenchmarkExistsBesideTheClient(b *testing.B) {
	addr := check.Apart(b, "TestResponderProcess", responderVariable)
	s := mustOpenAt(b, addr)
	conn, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	check.Must(b, err)
	defer conn.Close()
	for ev := range events {
		if ev.State == zk.StateHasSession {
			break
		}
	}
	systems := []func() error{
		func() error { _, err := s.Exists(context.Background(), "/some/node"); return err },
		func() error { _, _, err := conn.Exists("/some/node"); return err },
		bareSocket(b, addr),
	}
	for _, goroutines := range []int{1, 64, 512} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			const n = 20_000
			of := systems
			if goroutines > 1 {
				of = systems[:2]
			}
			rounds := make([][]cost, len(of))
			for i := 0; b.Loop(); i++ {
				for k := range of {
					which := (k + i) % len(of)
					rounds[which] = append(rounds[which], measure(b, goroutines, n, systems[which]))
				}
			}
			middle := func(which int, of func(cost) float64) float64 {
				var all []float64
				for _, c := range rounds[which] {
					all = append(all, of(c)/n)
				}
				slices.Sort(all)
				return all[len(all)/2]
			}
			b.ReportMetric(0, "ns/op") // of a round, which says nothing
			for _, row := range []struct {
				unit string
				of   func(cost) float64
			}{
				{"ns", func(c cost) float64 { return float64(c.took) }},
				{"cpu-ns", func(c cost) float64 { return float64(c.cpu) }},
				{"allocs", func(c cost) float64 { return float64(c.allocs) }},
			} {
				ours, theirs := middle(0, row.of), middle(1, row.of)
				b.ReportMetric(ours, row.unit+"/session")
				b.ReportMetric(theirs, row.unit+"/zk")
				b.ReportMetric(ours/theirs, row.unit+"-ratio")
				if len(of) > 2 {
					b.ReportMetric(middle(2, row.of)/theirs, row.unit+"-ratio-of-socket")
				}
			}
		})
	}
}

func mustOpenAt(tb testing.TB, addr string) *session.Session {
	tb.Helper()
	s := check.Have(session.Open(context.Background(), []string{addr}, nil))(tb)
	tb.Cleanup(s.Close)
	return s
}
