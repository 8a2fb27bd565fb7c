package zktest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
)

// pipelined sends requests over one connection, a window at a time.
func pipelined(tb testing.TB, w *rawClient, n int, request func(i int) (Op, body)) {
	tb.Helper()
	const window = 256
	var batch []byte
	for sent := 0; sent < n; {
		batch = batch[:0]
		burst := min(window, n-sent)
		for i := range burst {
			op, arg := request(sent + i)
			w.xid++
			batch = appendRequest(batch, w.xid, op, arg)
		}
		sent += burst
		_ = w.SetWriteDeadline(time.Now().Add(wirePatience))
		check.Have(w.Write(batch))(tb)
		for range burst {
			if a, err := w.receive(); err != nil || a.err != codeOK || a.gone {
				tb.Fatal(a, err)
			}
		}
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMillionOperations shows that what has happened leaves nothing behind.
func TestMillionOperations(t *testing.T) {
	if testing.Short() {
		t.Skip("a million operations are not for -short")
	}
	srv := Start(t, Timeouts(time.Second, time.Minute))
	w := openWire(t, srv.Addrs()[0])
	round := func(n int) {
		pipelined(t, w, n, func(i int) (Op, body) {
			switch i % 5 {
			case 0:
				return OpCreate, argCreate("/x", []byte("data"), 1)
			case 1:
				return OpGetData, argWatch("/x", true)
			case 2:
				return OpSetData, argSet("/x", []byte("other"), -1)
			case 3:
				return OpMulti, argMulti(part{OpSetData, argSet("/x", nil, -1)}, part{OpCheck, argVersion("/x", 2)})
			}
			return OpDelete, argVersion("/x", 2)
		})
		w.events = nil
	}
	n := hasten.Usually(1_000_000, 300_000)
	round(n / 10)
	before := heap()
	round(n - n/10)
	check.AtMost(t, heap(), before+1<<20, "bytes of the heap, after", before)
}

func TestThousandConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand connections are not for -short")
	}
	srv := Start(t, Timeouts(time.Second, time.Minute))
	var group sync.WaitGroup
	wires := make([]*rawClient, 1000)
	for i := range wires {
		w := openWire(t, srv.Addrs()[0])
		wires[i] = w
		group.Go(func() {
			if a, err := w.call(OpCreate, argCreate(fmt.Sprintf("/c%d", i), nil, 1)); err != nil || a.err != codeOK {
				t.Error(a, err)
			}
			if a, err := w.call(OpExists, argWatch("/all", true)); err != nil || a.err != codeNoNode {
				t.Error(a, err)
			}
		})
	}
	group.Wait()
	check.Equal(t, len(srv.Sessions()), len(wires))
	wires[0].mustCall(t, OpCreate, argCreate("/all", nil, 0))
	for i, w := range wires {
		if err := w.settle(); err != nil || len(w.events) != 1 {
			t.Fatal(i, w.events, err)
		}
	}
	srv.Expire(everySession)
	check.Len(t, srv.Paths(), 1)
}

func TestHundredThousandNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred thousand nodes are not for -short")
	}
	srv := Start(t, Timeouts(time.Second, time.Minute))
	w := openWire(t, srv.Addrs()[0])
	const n = 100_000
	pipelined(t, w, n, func(int) (Op, body) { return OpCreate, argCreate("/n-", nil, 3) })
	a, err := w.call(OpGetChildren, argWatch("/", false))
	d := decoder{rest: a.rest}
	if got := d.int32(); err != nil || got != n+1 {
		t.Fatal(got, err)
	}
	begin := time.Now()
	w.quit()
	check.Equal(t, len(srv.Paths()), 0)
	t.Log("closing took", time.Since(begin))
}
