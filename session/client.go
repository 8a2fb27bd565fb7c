package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// This file is all that concerns go-zookeeper. What it does for us: it dials when there is
// no connection, with a dialer of ours, and greets the server; it keeps the session's id
// and password, and presents them to the next server; it pings; and its goroutine that
// reads is the one in which replies are decoded. What it does not: it sees no request and
// no reply, no watch and no credentials. Its events, deadlines, lists of servers and
// record of zxids are not used.
//
// There is one client for each epoch. It cannot be closed without waiting, and need not be:
// when the epoch is over, its only goroutine ends in the dialer.

// newClient returns what has the client begin to dial.
func (e *epoch) newClient() (start func()) {
	ctx, cancel := context.WithCancel(context.Background())
	e.retire = cancel
	return func() { e.startClient(ctx) }
}

func (e *epoch) startClient(ctx context.Context) {
	s := e.session
	s.workers.Add(1)
	_, _, err := zk.Connect([]string{"see-dial:0"}, s.opts.Timeout, options(
		zk.WithHostProvider(anyHost{}),
		zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) {
			l := e.dial(ctx)
			if l == nil {
				s.workers.Done()
				runtime.Goexit() // of the client's loop, the last of its goroutines
			}
			return l, nil
		}),
		zk.WithLogger(clientLogger{s}), zk.WithLogInfo(false),
		zk.WithMaxConnBufferSize(clientBuffer), zk.WithMaxBufferSize(clientBuffer),
	)...)
	if err != nil {
		panic(err) // the client refuses only arguments that are constants here
	}
}

// clientBuffer is enough for pings.
const clientBuffer = 64

// options makes a list of the client's options, whose type has no name outside.
func options[T any](all ...T) []T { return all }

// anyHost leaves the choice of servers to [epoch.dial].
type anyHost struct{}

func (anyHost) Init([]string) error  { return nil }
func (anyHost) Len() int             { return 1 }
func (anyHost) Next() (string, bool) { return "see-dial:0", false }
func (anyHost) Connected()           {}

// clientLogger passes on what the client reports.
type clientLogger struct{ session *core }

// Printf implements [zk.Logger].
func (c clientLogger) Printf(format string, args ...any) {
	c.session.opts.Logger.Debug("client", "report", fmt.Sprintf(format, args...))
}

// Write takes a frame from the client, which writes each with one call: the connect
// request, and then pings. It never fails: the client learns of a failure when it reads.
func (l *connection) Write(p []byte) (int, error) {
	e := l.epoch
	e.mu.Lock()
	defer e.mu.Unlock()
	frame := append([]byte(nil), p...)
	if l.phase == phaseGreeting {
		l.greeted = e.session.clock.now()
		if r, err := wire.ParseConnectRequest(frame[4:]); err == nil {
			r.LastZxid = e.newest // the client has seen none
			if e.session.opts.ReadOnly {
				r.ReadOnly, r.Old = true, false
			}
			if e.id == 0 {
				r.Session, r.Password = 0, make([]byte, 16) // the client may know one of a read-only server
			}
			frame = wire.AppendConnectRequest(nil, &r)
		}
	}
	if l.phase != phaseFailed {
		l.write(frame)
	}
	return len(p), nil
}

// Read gives the client the answer to its connect request, and nothing more until the
// connection has failed and the session knows it: the session handles what comes.
func (l *connection) Read(p []byte) (int, error) {
	if l.hello == nil {
		if err := l.greet(); err != nil {
			l.fail(err)
			l.epoch.severed(l)
			return 0, io.EOF
		}
	}
	if len(l.hello) > 0 {
		n := copy(p, l.hello)
		l.hello = l.hello[n:]
		return n, nil
	}
	l.serve()
	l.epoch.severed(l)
	return 0, io.EOF
}

// Close is called by the client when it gives the connection up.
func (l *connection) Close() error {
	l.fail(errors.New("the client gave the connection up"))
	return nil
}

// LocalAddr implements [net.Conn].
func (l *connection) LocalAddr() net.Addr { return l.socket.LocalAddr() }

// RemoteAddr implements [net.Conn].
func (l *connection) RemoteAddr() net.Addr { return l.socket.RemoteAddr() }

// SetDeadline does nothing: the session has better deadlines than the client.
func (l *connection) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (l *connection) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (l *connection) SetWriteDeadline(time.Time) error { return nil }
