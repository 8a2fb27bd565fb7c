package conn

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

// This file has all code for go-zookeeper's client. The client dials when there is no connection,
// with our dialer. It sends the connect request. It keeps the session's id and password, and
// presents them to the next server. It pings. Its goroutine that reads is the goroutine in which we
// decode replies. The client sees no request and no reply, no watch and no credentials. We do not
// use its events, deadlines, lists of servers and record of zxids.
//
// Each epoch has one client. It cannot be closed without waiting, and need not be: when the epoch
// is over, its only goroutine ends in the dialer.

// newClient makes a client, and returns a function that starts its dialling.
func (e *Epoch) newClient() (start func()) {
	ctx, cancel := context.WithCancel(context.Background())
	e.retire = cancel
	return func() { e.startClient(ctx) }
}

func (e *Epoch) startClient(ctx context.Context) {
	s := e.session
	s.Workers.Add(1)
	_, _, err := zk.Connect([]string{"see-dial:0"}, s.Timeout, options(
		zk.WithHostProvider(anyHost{}),
		zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) {
			l := e.dial(ctx)
			if l == nil {
				s.Workers.Done()
				runtime.Goexit() // ends the client's loop, its last goroutine
			}
			return l, nil
		}),
		zk.WithLogger(clientLogger{s}), zk.WithLogInfo(false),
		zk.WithMaxConnBufferSize(clientBuffer), zk.WithMaxBufferSize(clientBuffer),
	)...)
	if err != nil {
		panic(err) // the client refuses only arguments, and these are constants
	}
}

// clientBuffer is large enough for pings.
const clientBuffer = 64

// options makes a slice of the client's options. Their type has no exported name, so it must be
// inferred.
func options[T any](all ...T) []T { return all }

// anyHost is the client's list of servers. It leaves the choice to [Epoch.dial].
type anyHost struct{}

func (anyHost) Init([]string) error  { return nil }
func (anyHost) Len() int             { return 1 }
func (anyHost) Next() (string, bool) { return "see-dial:0", false }
func (anyHost) Connected()           {}

// clientLogger forwards the reports of the client.
type clientLogger struct{ session *Session }

// Printf implements [zk.Logger].
func (c clientLogger) Printf(format string, args ...any) {
	c.session.Logger.Debug("client", "report", fmt.Sprintf(format, args...))
}

// Write takes a frame from the client, which writes each frame with one call. The connect request
// is sent. Pings are dropped, because the session sends its own. Write never fails: the client
// learns of a failure when it reads.
func (l *connection) Write(p []byte) (int, error) {
	e := l.epoch
	e.mu.Lock()
	defer e.mu.Unlock()
	frame := append([]byte(nil), p...)
	if l.phase == phaseGreeting {
		l.greeted = e.session.Clock.Now()
		if r, err := wire.ParseConnectRequest(frame[4:]); err == nil {
			r.LastZxid = e.newest // the client has seen no zxid
			// The client may have the id of a read-only server's session.
			if r.Session, r.Password = e.id, e.password; e.id == 0 || l.visits() {
				r.Session, r.Password = 0, make([]byte, 16)
			}
			l.creates = r.Session == 0
			// The client does not send this byte, but Java's does. Only ClickHouse Keeper leaves it
			// out of its answer, which identifies it.
			r.ReadOnly, r.Old = e.session.ReadOnly, false
			frame = wire.AppendConnectRequest(nil, &r)
		}
	}
	if l.phase == phaseGreeting {
		l.write(frame)
	}
	return len(p), nil
}

// Read gives the client the answer to its connect request. After that it handles all frames of the
// connection, and returns only when the connection has failed and the session has received the
// report.
func (l *connection) Read(p []byte) (int, error) {
	if l.hello == nil {
		if err := l.greet(); err != nil {
			l.fail(err)
			l.sever()
			return 0, io.EOF
		}
	}
	if len(l.hello) > 0 {
		n := copy(p, l.hello)
		l.hello = l.hello[n:]
		return n, nil
	}
	returns := false
	defer func() {
		if !returns { // a callback has ended the goroutine, and the client has no other that reads
			l.epoch.session.Workers.Go(func() {
				l.fail(errReaderEnded)
				l.sever()
			})
		}
	}()
	l.serve()
	returns = true
	l.sever()
	return 0, io.EOF
}

var errReaderEnded = errors.New("a callback has called runtime.Goexit")

// sever reports to the session that the connection has failed. It waits until the goroutine that
// fails the connection has cut it.
func (l *connection) sever() {
	<-l.failed
	l.epoch.severed(l)
}

// Close is called when the client abandons the connection.
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
