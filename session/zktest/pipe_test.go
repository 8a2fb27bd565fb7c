package zktest

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
)

func TestPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
		near, far := newPipe(addr, addr)
		check.Require(t, near.LocalAddr() == addr && near.RemoteAddr() == addr, "no addresses")
		// Writing does not wait for a reader.
		for range 1000 {
			check.Have(near.Write([]byte("x")))(t)
		}
		if n, err := io.ReadFull(far, make([]byte, 1000)); n != 1000 || err != nil {
			t.Fatal(n, err)
		}

		// A read waits for data, and no longer than until its deadline.
		begin := time.Now()
		check.Must(t, far.SetDeadline(begin.Add(time.Second)))
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Second {
			t.Fatal(err, time.Since(begin))
		}
		check.Fails(far.Write([]byte("x")))(t, os.ErrDeadlineExceeded)
		check.Must(t, far.SetDeadline(time.Time{}))
		go func() {
			<-time.After(time.Hour) // of the bubble
			_, _ = near.Write([]byte("late"))
		}()
		b := make([]byte, 10)
		if n, err := far.Read(b); string(b[:n]) != "late" || err != nil {
			t.Fatal(n, err)
		}

		// What was written before the end can be read.
		_, _ = near.Write([]byte("last"))
		check.Must(t, near.Close())
		if n, err := far.Read(b); string(b[:n]) != "last" || err != nil {
			t.Fatal(n, err)
		}
		check.Fails(far.Read(b))(t, io.EOF)
		check.Fails(far.Write(b))(t, io.ErrClosedPipe)
		check.Fails(near.Read(b))(t, net.ErrClosed)
		check.Fails(near.Write(b))(t, net.ErrClosed)
	})
}

// A writer that is far ahead of the reader waits, as on a socket.
func TestPipeFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := newPipe(nil, nil)
		if n, err := near.Write(make([]byte, streamSize)); n != streamSize || err != nil {
			t.Fatal(n, err)
		}
		begin := time.Now()
		check.Must(t, near.SetWriteDeadline(begin.Add(time.Second)))
		if _, err := near.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Second {
			t.Fatal(err, time.Since(begin))
		}
		check.Must(t, near.SetWriteDeadline(time.Time{}))
		read := func(n int) {
			t.Helper()
			check.Have(io.ReadFull(far, make([]byte, n)))(t)
		}
		var n int
		var err error
		var written atomic.Bool
		go func() {
			n, err = near.Write([]byte("late"))
			written.Store(true)
		}()
		synctest.Wait()
		check.Require(t, !written.Load(), "a full pipe took more")
		read(1)
		synctest.Wait()
		check.Require(t, written.Load() && n == 4 && err == nil, "%v %v %v", written.Load(), n, err)
		read(streamSize - 1)
		b := make([]byte, 10)
		if n, err := far.Read(b); string(b[:n]) != "late" || err != nil {
			t.Fatal(n, err)
		}

		// The end of the reader ends the wait.
		check.Have(near.Write(make([]byte, streamSize)))(t)
		go func() { _ = far.Close() }()
		check.Fails(near.Write([]byte("x")))(t, io.ErrClosedPipe)
	})
}

func TestManualClock(t *testing.T) {
	clock := new(ManualClock)
	begin := clock.Now()
	var rang []time.Duration
	ring := func() { rang = append(rang, clock.Now().Sub(begin)) }
	clock.AfterFunc(3*time.Second, ring)
	clock.AfterFunc(time.Second, func() {
		ring()
		clock.AfterFunc(time.Second, ring)
	})
	stop := clock.AfterFunc(time.Second, ring)
	check.Require(t, stop() && !stop(), "it cannot be stopped once")
	clock.Advance(2500 * time.Millisecond)
	if want := []time.Duration{time.Second, 2 * time.Second}; !slices.Equal(rang, want) {
		t.Fatal(rang)
	}
	clock.Advance(time.Second)
	check.Require(t, clock.Now().Sub(begin) == 3500*time.Millisecond && len(rang) == 3, "%v %v", clock.Now(), rang)
}
