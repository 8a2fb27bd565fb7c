//go:build !race

package zktest

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// inUse returns the bytes of heap and stacks.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one shrinks stacks and ages pools
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestCostOfIdleConnections measures what the server keeps for a session that has
// worked and is idle now. The client's side is a bare socket, or the near end of
// a pipe, and counts as well.
func TestCostOfIdleConnections(t *testing.T) {
	const sessions, most, rounds = 256, 16 << 10, 20
	for _, test := range []struct {
		name    string
		options []Option
	}{
		{"sockets", nil},
		{"pipes", []Option{InProcess()}},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := Start(t, append(test.options, Timeouts(time.Second, time.Hour))...)
			dial := func() net.Conn {
				var c net.Conn
				var err error
				if srv.config.InProcess {
					c, err = srv.DialContext(t.Context(), "tcp", srv.Addrs()[0])
				} else {
					c, err = net.Dial("tcp", srv.Addrs()[0])
				}
				check.Must(t, err)
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			work := func(name string) {
				w := &rawClient{Conn: dial()}
				check.Require(t, w.shake(wire.ConnectRequest{Timeout: 1 << 30}), "no session")
				for range rounds {
					w.send(OpCreate, argCreate(name, make([]byte, 8<<10), 1))
					w.send(OpGetData, argWatch(name, false))
					w.send(OpSetData, argSet(name, nil, -1))
					w.send(OpDelete, argVersion(name, -1))
				}
				for range 4 * rounds {
					if a, err := w.receive(); err != nil || a.gone || a.err != codeOK {
						t.Fatal(a, err)
					}
				}
			}
			work("/first")
			before := inUse()
			for i := range sessions {
				work(fmt.Sprintf("/own-%d", i))
			}
			each := int(inUse()-before) / sessions
			t.Logf("%d bytes for an idle session", each)
			check.True(t, each <= most, "an idle session costs %d bytes, at most %d are allowed", each, most)
		})
	}
}
