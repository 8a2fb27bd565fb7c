package zktest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// streamSize is the number of unread bytes that a stream takes before writes wait, as those
// to a socket do. It is more than a request, so that a test can stop reading
// without stopping the other side at once.
const streamSize = 2 << 20

// newPipe returns the two ends of a connection without sockets. Unlike those of
// [net.Pipe], writes do not wait for a reader, unless there is much to read. All
// waiting is durable in the sense of testing/synctest.
func newPipe(client, server net.Addr) (near, far net.Conn) {
	toServer, toClient := newStream(), newStream()
	return &pipeEnd{in: toClient, out: toServer, local: client, remote: server},
		&pipeEnd{in: toServer, out: toClient, local: server, remote: client}
}

// A stream is one direction of a pipe.
type stream struct {
	mu              sync.Mutex
	changed         sync.Cond
	buf             []byte
	begin           int  // of what is unread in buf
	closed          bool // by the writer: what is there can still be read
	broken          bool // by the reader
	readBy, writeBy time.Time
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
		case isPast(s.readBy):
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case s.unread() > 0:
			if s.unread() >= streamSize {
				s.changed.Broadcast()
			}
			n := copy(p, s.buf[s.begin:])
			s.begin += n
			s.tidy()
			return n, nil
		case s.closed:
			return 0, io.EOF
		}
		s.wait(s.readBy)
	}
}

func (s *stream) unread() int { return len(s.buf) - s.begin }

// tidy frees the room of what has been read. An idle stream keeps next to
// nothing.
func (s *stream) tidy() {
	switch {
	case s.unread() > 0 && s.begin < len(s.buf)/2:
		return
	case s.unread() == 0 && cap(s.buf) > 1<<10:
		s.buf = nil
	default:
		s.buf = s.buf[:copy(s.buf, s.buf[s.begin:])]
	}
	s.begin = 0
}

func isPast(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// wait returns when something has changed, or the deadline has passed.
func (s *stream) wait(deadline time.Time) {
	if !deadline.IsZero() {
		timer := time.AfterFunc(time.Until(deadline), func() {
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
	for {
		switch {
		case isPast(s.writeBy):
			return 0, os.ErrDeadlineExceeded
		case s.closed:
			return 0, net.ErrClosed
		case s.broken:
			return 0, io.ErrClosedPipe
		case s.unread() < streamSize:
			s.buf = append(s.buf, p...)
			s.changed.Broadcast()
			return len(p), nil
		}
		s.wait(s.writeBy)
	}
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
}

func (e *pipeEnd) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *pipeEnd) Write(p []byte) (int, error) { return e.out.write(p) }

func (e *pipeEnd) Close() error {
	e.out.update(func() { e.out.closed = true })
	e.in.update(func() { e.in.broken, e.in.buf, e.in.begin = true, nil, 0 })
	return nil
}

func (e *pipeEnd) LocalAddr() net.Addr  { return e.local }
func (e *pipeEnd) RemoteAddr() net.Addr { return e.remote }

func (e *pipeEnd) SetDeadline(t time.Time) error {
	_ = e.SetReadDeadline(t)
	return e.SetWriteDeadline(t)
}

func (e *pipeEnd) SetReadDeadline(t time.Time) error {
	e.in.update(func() { e.in.readBy = t })
	return nil
}

func (e *pipeEnd) SetWriteDeadline(t time.Time) error {
	e.out.update(func() { e.out.writeBy = t })
	return nil
}
