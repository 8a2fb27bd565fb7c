package session_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var mangledWrites = flag.Int("session.writes", hasten.Usually(30, 12), "writes of each caller through networks that cut anywhere; 1000 are a campaign")

// A mangler stands between a session and a server. It passes bytes on in pieces, stands still now
// and then, and cuts connections anywhere. It looks whether the bytes of the client are requests.
type mangler struct {
	*testing.T
	listener net.Listener
	server   string
	cutAfter int           // so many bytes, on average; 0: never
	still    time.Duration // at most
	copies   sync.WaitGroup
}

func newMangler(t *testing.T, server string, cutAfter int, still time.Duration) *mangler {
	t.Helper()
	m := &mangler{T: t, listener: check.Have(net.Listen("tcp", "127.0.0.1:0"))(t), server: server, cutAfter: cutAfter, still: still}
	m.copies.Go(m.accept)
	t.Cleanup(func() {
		_ = m.listener.Close()
		m.copies.Wait()
	})
	return m
}

func (m *mangler) accept() {
	for {
		client, err := m.listener.Accept()
		if err != nil {
			return
		}
		_ = client.(*net.TCPConn).SetReadBuffer(4096)
		server, err := net.Dial("tcp", m.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		end := func() {
			_ = client.Close()
			_ = server.Close()
		}
		m.copies.Go(func() {
			defer end()
			m.copy(server, client, m.inspector())
		})
		m.copies.Go(func() {
			defer end()
			m.copy(client, server, func([]byte) bool { return true })
		})
	}
}

func (m *mangler) copy(to, from net.Conn, sound func([]byte) bool) {
	left := math.MaxInt
	if m.cutAfter > 0 {
		left = rand.IntN(2 * m.cutAfter)
	}
	buf := make([]byte, 8192)
	for {
		n, err := from.Read(buf[:1+rand.IntN(len(buf)-1)])
		if !sound(buf[:n]) {
			return
		}
		if n > left {
			_, _ = to.Write(buf[:left])
			return
		}
		left -= n
		if _, writeErr := to.Write(buf[:n]); writeErr != nil || err != nil {
			return
		}
		if m.still > 0 && rand.IntN(40) == 0 {
			pass(rand.N(m.still))
		}
	}
}

// inspector returns a function that takes the bytes of a client, and reports whether they can be
// requests.
func (m *mangler) inspector() (sound func([]byte) bool) {
	known := map[int32]bool{1: true, 2: true, 3: true, 4: true, 5: true, opSync: true, opPing: true, opMulti: true, opAuth: true, opSetWatches: true, opClose: true}
	var frames []byte
	greeted := false
	return func(b []byte) bool {
		for frames = append(frames, b...); len(frames) >= 4; {
			size := int(binary.BigEndian.Uint32(frames))
			if size < 8 || size > 1<<20 {
				m.Errorf("a request of %d bytes", size)
				return false
			}
			if len(frames) < 4+size {
				return true
			}
			if op := int32At(frames, 8); greeted && !known[op] {
				m.Errorf("a request of %d bytes with the operation %d", size, op)
				return false
			}
			greeted, frames = true, frames[4+size:]
		}
		return true
	}
}

// TestMangledWrites: few callers, each of which writes its own requests, to a socket that takes few
// bytes at a time. The version of the node of each tells whether each of its writes was done once,
// and reported so.
func TestMangledWrites(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		callers  int
		cutAfter int
		still    time.Duration
	}{
		{"cuts", 4, 20_000, 0},
		{"cuts, more callers", 12, 50_000, 0},
		{"stills", 6, 0, 150 * time.Millisecond},
		{"both", 6, 100_000, 100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := zktest.Start(t, zktest.Tick(200*time.Millisecond))
			m := newMangler(t, srv.Addrs()[0], tt.cutAfter, tt.still)
			s := mustOpen(t, []string{m.listener.Addr().String()}, &session.Options{Timeout: 4 * time.Second, Dialer: dialNarrow})
			calm := mustOpen(t, srv.Addrs(), nil)
			var callers sync.WaitGroup
			for i := range tt.callers {
				path := fmt.Sprintf("/c%d", i)
				check.Have(calm.Create(t.Context(), path, nil, session.Persistent))(t)
				callers.Go(func() { writeMangled(t, s, path, hasten.Sized(*mangledWrites, 8)) })
			}
			callers.Wait()
			s.Close()
		})
	}
}

// dialNarrow makes a connection whose socket takes few bytes at a time.
func dialNarrow(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(1)
	}
	return conn, err
}

// writeMangled writes to a node again and again, and follows its version.
func writeMangled(t *testing.T, s *session.Session, path string, writes int) {
	version := int32(0)
	for n := range writes {
		data := make([]byte, rand.IntN(3900))
		copy(data, fmt.Sprintf("%s/%d/", path, n))
		stat, err := s.Set(t.Context(), path, data, version)
		switch {
		case err == nil:
			check.Equal(t, stat.Version, version+1, path)
			version = stat.Version
		case errors.Is(err, session.ErrUnknownOutcome):
			check.OK(t, s.Sync(t.Context(), "/"))
			_, stat, err := s.Get(t.Context(), path)
			if check.OK(t, err); err != nil {
				return
			}
			check.Within(t, stat.Version, version, version+1, path, ": a write in doubt")
			version = stat.Version
		case !errors.Is(err, session.ErrExpired) && !errors.Is(err, session.ErrDisconnected):
			t.Errorf("%s: %v", path, err)
			return
		}
	}
}
