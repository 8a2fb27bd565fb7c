//go:build unix

package direct

import (
	"errors"
	"net"
	"syscall"
)

// Writer returns a function that gives a socket as much of a frame as the kernel takes without
// waiting. It is nil if the socket is not the kernel's own: another type may embed that, and wait
// in its Write.
func Writer(socket net.Conn) func(frame []byte) (n int, err error) {
	own, ok := socket.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := own.SyscallConn()
	if err != nil {
		return nil
	}
	var rest []byte
	var written int
	var failure error
	try := func(fd uintptr) (done bool) {
		written, failure = syscall.Write(int(fd), rest)
		return true
	}
	return func(frame []byte) (int, error) {
		rest = frame
		err := raw.Write(try)
		rest = nil
		switch {
		case err != nil:
			return 0, err
		case errors.Is(failure, syscall.EAGAIN), errors.Is(failure, syscall.EINTR):
			return 0, nil
		}
		return max(written, 0), failure
	}
}
