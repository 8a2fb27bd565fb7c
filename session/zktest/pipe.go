package zktest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// newPipe returns the two ends of a connection without sockets. Unlike those of
// [net.Pipe], writes never wait for a reader. All waiting is durable in the
// sense of testing/synctest.
func newPipe(client, server net.Addr) (near, far net.Conn) {
	toServer, toClient := newStream(), newStream()
	return &pipeEnd{in: toClient, out: toServer, local: client, remote: server},
		&pipeEnd{in: toServer, out: toClient, local: server, remote: client}
}

// A stream is one direction of a pipe.
type stream struct {
	mu       sync.Mutex
	changed  sync.Cond
	buf      []byte
	closed   bool // by the writer: what is there can still be read
	broken   bool // by the reader
	deadline time.Time
}

func newStream() *stream {
	s := &stream{}
	s.changed.L = &s.mu
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.broken:
			return 0, net.ErrClosed
		case !s.deadline.IsZero() && !time.Now().Before(s.deadline):
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case len(s.buf) > 0:
			n := copy(p, s.buf)
			s.buf = s.buf[n:]
			if len(s.buf) == 0 && cap(s.buf) > 1<<16 {
				s.buf = nil
			}
			return n, nil
		case s.closed:
			return 0, io.EOF
		}
		s.wait()
	}
}

// wait returns when something has changed, or the deadline has passed.
func (s *stream) wait() {
	if !s.deadline.IsZero() {
		timer := time.AfterFunc(time.Until(s.deadline), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changed.Broadcast()
		})
		defer timer.Stop()
	}
	s.changed.Wait()
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, net.ErrClosed
	case s.broken:
		return 0, io.ErrClosedPipe
	}
	s.buf = append(s.buf, p...)
	s.changed.Broadcast()
	return len(p), nil
}

func (s *stream) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.changed.Broadcast()
}

type pipeEnd struct {
	in, out       *stream
	local, remote net.Addr

	mu            sync.Mutex
	writeDeadline time.Time
}

func (e *pipeEnd) Read(p []byte) (int, error) { return e.in.read(p) }

func (e *pipeEnd) Write(p []byte) (int, error) {
	e.mu.Lock()
	deadline := e.writeDeadline
	e.mu.Unlock()
	if !deadline.IsZero() && !time.Now().Before(deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return e.out.write(p)
}

func (e *pipeEnd) Close() error {
	e.out.update(func() { e.out.closed = true })
	e.in.update(func() { e.in.broken, e.in.buf = true, nil })
	return nil
}

func (e *pipeEnd) LocalAddr() net.Addr  { return e.local }
func (e *pipeEnd) RemoteAddr() net.Addr { return e.remote }

func (e *pipeEnd) SetDeadline(t time.Time) error {
	_ = e.SetReadDeadline(t)
	return e.SetWriteDeadline(t)
}

func (e *pipeEnd) SetReadDeadline(t time.Time) error {
	e.in.update(func() { e.in.deadline = t })
	return nil
}

func (e *pipeEnd) SetWriteDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writeDeadline = t
	return nil
}
