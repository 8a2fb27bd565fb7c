//go:build unix

package session

import (
	"net"
	"syscall"
)

// A directWriter writes what a socket takes without waiting.
type directWriter struct {
	socket syscall.RawConn
	write  func(fd uintptr) (done bool)

	frame []byte
	n     int
	err   error
}

// newDirectWriter returns nil if the socket is not one of the system's own.
func newDirectWriter(socket net.Conn) *directWriter {
	conn, ok := socket.(*net.TCPConn) // a type that contains one may have a Write of its own
	if !ok {
		return nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil
	}
	d := &directWriter{socket: raw}
	d.write = func(fd uintptr) bool {
		d.n, d.err = syscall.Write(int(fd), d.frame)
		return true
	}
	return d
}

// try returns what of the frame is left. What it could not write now is no error.
func (d *directWriter) try(frame []byte) (rest []byte, err error) {
	d.frame, d.n, d.err = frame, 0, nil
	if err := d.socket.Write(d.write); err != nil {
		return nil, err
	}
	d.frame = nil
	if d.err == syscall.EAGAIN || d.err == syscall.EINTR { //nolint:errorlint // they come from the system
		return frame, nil
	}
	return frame[max(d.n, 0):], d.err
}
