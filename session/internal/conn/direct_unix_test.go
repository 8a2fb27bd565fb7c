//go:build unix

package conn

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// TestFullSocket: no caller waits for a server that does not read, however little the kernel takes.
// The writer writes the rest.
func TestFullSocket(t *testing.T) {
	listener := check.Have(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = listener.Close() }()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, 1) })
		return errors.Join(err, failed)
	}}
	socket := check.Have(dialer.DialContext(t.Context(), "tcp", listener.Addr().String()))(t)
	far := check.Have(listener.Accept())(t)
	defer func() { _ = far.Close() }()
	b, request := writing(t, socket)
	patience := time.AfterFunc(check.Patience, func() { _ = socket.Close() })
	defer patience.Stop()
	sent := 0
	for ; len(b.l.out) == 0; sent++ {
		request(directBytes - 100)
		b.l.pending.Pop() // as if it were answered
	}
	check.Require(t, b.l.phase != phaseFailed, "a caller has waited for the server")
	defer b.l.fail(net.ErrClosed)
	b.s.Workers.Go(b.l.writeAll)
	reader := wire.Reader{Socket: far, Limit: directBytes}
	for xid := range int32(sent) {
		frame := check.Have(reader.Next())(t)
		if got, _, err := wire.ParseRequestHeader(frame); got != xid+1 || err != nil {
			t.Fatalf("request %d: xid %d, %v", xid+1, got, err)
		}
	}
}
