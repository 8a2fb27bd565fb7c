package relay

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/internal/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo returns the address of a server that sends all bytes back.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		check.OK(t, l.Close())
		conns.Wait()
	})
	return l.Addr().String()
}

func dial(t *testing.T, r *Relay, target string) net.Conn {
	t.Helper()
	addr, err := r.To(target)
	check.Must(t, err)
	c, err := net.Dial("tcp", addr)
	check.Must(t, err)
	return c
}

// TestDelay: a round trip takes at least the two ways, and many overlap.
func TestDelay(t *testing.T) {
	r := New(20 * time.Millisecond)
	defer r.Close()
	c := dial(t, r, echo(t))
	defer c.Close() //nolint:errcheck // it is over
	var took []time.Duration
	for range 5 {
		began := time.Now()
		_, err := c.Write([]byte("x"))
		check.Must(t, err)
		_, err = io.ReadFull(c, make([]byte, 1))
		check.Must(t, err)
		took = append(took, time.Since(began))
	}
	check.True(t, slices.Min(took) >= 40*time.Millisecond, "%v", took)

	// All that is sent at once arrives in order, and the end after it.
	const n = 1 << 20
	sent := make([]byte, n)
	for i := range sent {
		sent[i] = byte(i / 1000)
	}
	go func() {
		_, _ = c.Write(sent)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	check.True(t, err == nil && slices.Equal(got, sent), "%d bytes of %d, %v", len(got), n, err)
}

// TestBytes: the relay counts what the clients send, and what they receive, of all connections.
func TestBytes(t *testing.T) {
	r := New(0)
	defer r.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	var server sync.WaitGroup
	defer server.Wait()
	defer l.Close() //nolint:errcheck // it is over
	server.Go(func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_, _ = io.Copy(io.Discard, c)
			_, _ = c.Write(make([]byte, 100_000))
			_ = c.Close()
		}
	})
	for range 2 {
		c := dial(t, r, l.Addr().String())
		_, err := c.Write(make([]byte, 30))
		check.Must(t, err)
		check.OK(t, c.(*net.TCPConn).CloseWrite())
		_, err = io.Copy(io.Discard, c)
		check.Must(t, err)
		check.OK(t, c.Close())
	}
	sent, received := r.Bytes()
	check.True(t, sent == 60 && received == 200_000, "%d bytes sent and %d received", sent, received)
}

// TestClose: Close ends all connections, and the relay listens no more.
func TestClose(t *testing.T) {
	r := New(time.Hour)
	target := echo(t)
	var all []net.Conn
	for range 3 {
		c := dial(t, r, target)
		_, err := c.Write([]byte("x"))
		check.Must(t, err)
		all = append(all, c)
	}
	all = append(all, dial(t, r, "127.0.0.1:1")) // nothing listens there
	_, err := all[3].Read(make([]byte, 1))
	check.True(t, err != nil, "%v", err)
	r.Close()
	r.Close()
	for _, c := range all {
		_, err := c.Read(make([]byte, 1))
		check.True(t, err != nil, "%v", err)
		check.OK(t, c.Close())
	}
	_, err = r.To(target)
	check.Is(t, err, net.ErrClosed)
}
