package session_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
)

// A scripted server accepts every session, and answers requests as it is told.
type scripted struct {
	timeout time.Duration
	// answer is given the request's transaction id and operation. It returns
	// false to hang up.
	answer func(s *scripted, conn net.Conn, xid, op int32) bool
	// password is that of the session. The default is 16 zeros.
	password []byte
	// presented, if not nil, receives the password of each connect request.
	presented chan []byte
	refuse    atomic.Bool
	conns     atomic.Int32
}

func (s *scripted) dial(context.Context, string, string) (net.Conn, error) {
	if s.refuse.Load() {
		return nil, errors.New("refused by the script")
	}
	s.conns.Add(1)
	near, far := net.Pipe()
	go s.serve(far)
	return near, nil
}

func (s *scripted) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }() // a pipe does not fail to
	connect, err := receive(conn)
	if err != nil {
		return
	}
	if s.presented != nil {
		s.presented <- connect[28 : 28+16]
	}
	password := s.password
	if password == nil {
		password = make([]byte, 16)
	}
	hello := binary.BigEndian.AppendUint32(nil, 0)
	hello = binary.BigEndian.AppendUint32(hello, uint32(s.timeout.Milliseconds()))
	hello = binary.BigEndian.AppendUint64(hello, 42)
	hello = binary.BigEndian.AppendUint32(hello, 16)
	send(conn, append(append(hello, password...), 0))
	for {
		request, err := receive(conn)
		if err != nil {
			return
		}
		xid, op := int32(binary.BigEndian.Uint32(request)), int32(binary.BigEndian.Uint32(request[4:]))
		if op == opPing || op == opClose {
			reply(conn, xid, op, 0)
		} else if !s.answer(s, conn, xid, op) {
			return
		}
	}
}

func receive(conn io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(conn, frame)
	return frame, err
}

func send(conn net.Conn, frame []byte) {
	_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)) // or it has hung up
}

func reply(conn net.Conn, xid, op, code int32) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(xid))
	frame = binary.BigEndian.AppendUint64(frame, 7)
	frame = binary.BigEndian.AppendUint32(frame, uint32(code))
	if op == opSync && code == 0 {
		frame = append(frame, 0, 0, 0, 1, '/')
	}
	if op == opMulti && code == 0 {
		frame = append(frame, 0, 0, 0, 13, 0, 0, 0, 0, 0)                // of a check
		frame = append(frame, 255, 255, 255, 255, 1, 255, 255, 255, 255) // the end
	}
	send(conn, frame)
}

// TestLateSignsOfLife: heartbeats that come late, and together, do not make the deadline
// later than what the leader can have heard of.
func TestLateSignsOfLife(t *testing.T) {
	const timeout, tick = 6 * time.Second, 60 * time.Millisecond
	for _, late := range []time.Duration{0, time.Second, 1500 * time.Millisecond, 1800 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			cut := false
			var signs []time.Time // of life
			var heard time.Time   // the newest that the server must have reported
			server := &scripted{timeout: timeout, answer: func(s *scripted, conn net.Conn, xid, op int32) bool {
				if op != opSync || cut {
					return true
				}
				now := time.Now()
				signs = append(signs, now)
				reply(conn, xid, op, 0)
				switch len(signs) {
				case 3:
					pass(late) // the network: what comes meanwhile comes late
				case 5: // and then it is cut off from the leader
					cut = true
					s.refuse.Store(true)
					for _, sign := range signs {
						if now.Sub(sign) >= tick/2 {
							heard = sign
						}
					}
				}
				return true
			}}
			s := mustOpen(t, []string{"scripted:1"}, &session.Options{Timeout: timeout, ServerTick: tick, Lease: session.LeaseAnswered, Dialer: server.dial})
			defer s.Rely()()
			defer s.Hold()()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			await[session.Lapsed](t, s.Events(ctx))
			if givenAway := heard.Add(timeout); !time.Now().Before(givenAway) {
				t.Errorf("after a delay of %v, lost %v after it may be given away", late, time.Since(givenAway))
			}
		})
	}
}

// TestSessionMoved: a server that says that the session is connected to another is left.
func TestSessionMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const opDelete, moved = 2, -118
		deletes := 0
		server := &scripted{timeout: 6 * time.Second, answer: func(_ *scripted, conn net.Conn, xid, op int32) bool {
			if op == opDelete {
				if deletes++; deletes <= 3 {
					reply(conn, xid, op, moved)
					return true
				}
			}
			reply(conn, xid, op, 0)
			return true
		}}
		s := mustOpen(t, []string{"scripted:1"}, &session.Options{Timeout: 6 * time.Second, Dialer: server.dial})
		done := make(chan struct{})
		s.Async(0).Withdraw("/a", func(error) { close(done) })
		<-done
		check.True(t, deletes == 4 && server.conns.Load() == 4, "%d deletes on %d connections, want one on each of four", deletes, server.conns.Load())
		check.OK(t, s.Delete(t.Context(), "/a", 0))
	})
}

// TestHeartbeatsAreRefused: a server that refuses the session's own requests is left.
func TestHeartbeatsAreRefused(t *testing.T) {
	const expired, moved, throttled = -112, -118, -127
	for _, tt := range []struct {
		name string
		code int32
		from int // the request of a connection that is refused first, and all behind it
	}{
		{"moved", moved, 3},
		{"expired", expired, 3},
		{"the first sync", throttled, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				asked := make(map[net.Conn]int)
				server := &scripted{timeout: 6 * time.Second, answer: func(s *scripted, conn net.Conn, xid, op int32) bool {
					mu.Lock()
					asked[conn]++
					code := int32(0)
					if s.conns.Load() <= 2 && asked[conn] >= tt.from {
						code = tt.code
					}
					mu.Unlock()
					reply(conn, xid, op, code)
					return true
				}}
				s := mustOpen(t, []string{"scripted:1"}, &session.Options{Timeout: 6 * time.Second, Lease: session.LeaseCommitted, Dialer: server.dial})
				defer s.Rely()()
				pass(time.Minute)
				if _, ok := s.State().(session.Resumed); !ok || server.conns.Load() != 3 {
					t.Errorf("%v after %d connections", s.State(), server.conns.Load())
				}
			})
		})
	}
}

// oneToken is a mechanism with one request and one reply.
type oneToken struct{}

func (oneToken) Start(context.Context, string) (session.SASLExchange, []byte, error) {
	return oneToken{}, []byte("token"), nil
}
func (oneToken) Step([]byte) ([]byte, bool, error) { return nil, true, nil }

// TestSASLKeepsThePassword: the replies of the exchange do not overwrite the session's password,
// which is in the buffer of the handshake. Otherwise every reconnect is an expiry.
func TestSASLKeepsThePassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const opSASL = 102
		password := []byte("0123456789abcdef")
		server := &scripted{timeout: 6 * time.Second, password: password, presented: make(chan []byte, 2)}
		server.answer = func(s *scripted, conn net.Conn, xid, op int32) bool {
			if op != opSASL {
				return s.conns.Load() > 1 // hangs up on the first connection
			}
			frame := binary.BigEndian.AppendUint32(nil, uint32(xid))
			frame = append(frame, make([]byte, 8+4)...)
			token := make([]byte, 1000)
			send(conn, append(binary.BigEndian.AppendUint32(frame, uint32(len(token))), token...))
			return true
		}
		s := mustOpen(t, []string{"scripted:1"}, &session.Options{Timeout: 6 * time.Second, SASL: oneToken{}, Dialer: server.dial})
		s.Async(0).Exists("/", func(*session.Stat, error) {})
		check.Equal(t, string(<-server.presented), string(make([]byte, 16)))
		check.Equal(t, string(<-server.presented), string(password))
	})
}
