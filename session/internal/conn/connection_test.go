package conn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/lease"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// A tray is a socket that keeps which requests are written to it.
type tray struct {
	net.Conn
	xids    []int32
	written func() // called by each write, if not nil
	err     error
}

func (s *tray) Close() error { return nil }

func (s *tray) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := 4 + binary.BigEndian.Uint32(rest)
		xid, _, err := wire.ParseRequestHeader(rest[4:n])
		if err != nil {
			return 0, err
		}
		s.xids, rest = append(s.xids, xid), rest[n:]
	}
	if s.written != nil {
		s.written()
	}
	return len(p), s.err
}

// writing returns a bench whose connection has the socket, and a function that requests a write of
// so many bytes and returns where its error will be.
func writing(t *testing.T, socket net.Conn) (b *bench, request func(bytes int) (answered *error)) {
	t.Helper()
	b = newBench(t, 1)
	b.l = newConnection(b.e, "localhost:1", socket)
	if tray, ok := socket.(*tray); ok {
		b.l.direct = tray.Write
	}
	b.l.phase, b.l.synced = phaseOpen, true
	b.e.current, b.e.open = b.l, b.l
	return b, func(bytes int) *error {
		answer := new(error)
		b.request(nil, false, &wire.Request{Op: wire.OpSetData, Path: "/a", Data: make([]byte, bytes), Version: -1}, func(_ *probe, err error) { *answer = err })
		return answer
	}
}

// TestAnsweredMeanwhile: a connection is either accepted, or given up as unanswered, however the
// goroutine that reads and the loop meet. What was asked of one that is both would be lost, and
// asked again.
func TestAnsweredMeanwhile(t *testing.T) {
	b, _ := writing(t, new(tray))
	b.e.timeout = 10 * time.Second
	for range 5000 {
		l := newConnection(b.e, "localhost:1", new(tray))
		l.made -= time.Hour // longer than the loop has patience
		b.e.current = l
		accepted := false
		var reads sync.WaitGroup
		reads.Go(func() {
			b.e.mu.Lock()
			defer b.e.mu.Unlock()
			if accepted = l.phase == phaseGreeting; accepted {
				l.phase, l.beats = phaseOpen, lease.NewBeats(b.s.Clock.Now(), 1, 1)
			}
		})
		b.e.Tend()
		reads.Wait()
		if failed := l.phase == phaseFailed; failed == accepted {
			t.Fatalf("accepted: %v, given up: %v", accepted, failed)
		}
	}
}

// TestLoneCall shows which calls are written by their callers. No writer runs: what is left to it
// waits.
func TestLoneCall(t *testing.T) {
	woken := func(b *bench) bool {
		select {
		case <-b.l.wake:
			return true
		default:
			return false
		}
	}
	play := func(name string, f func(t *testing.T)) { // in no time, so that no server seems to have forgotten to answer
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
	written := func(t *testing.T, b *bench, socket *tray, n, left int) {
		t.Helper()
		check.True(t, len(socket.xids) == n && len(b.l.out) == left && b.l.unwritten == left && woken(b) == (left > 0), "written %v, left %d, of them calls %d", socket.xids, len(b.l.out), b.l.unwritten)
	}
	play("alone", func(t *testing.T) {
		socket := new(tray)
		b, request := writing(t, socket)
		for n := range directCalls {
			request(10)
			written(t, b, socket, n+1, 0)
		}
		request(10) // behind so many without an answer
		written(t, b, socket, directCalls, 1)
		request(10)
		written(t, b, socket, directCalls, 2)
	})
	play("large", func(t *testing.T) {
		socket := new(tray)
		b, request := writing(t, socket)
		request(directBytes / 2)
		written(t, b, socket, 1, 0)
		request(directBytes)
		written(t, b, socket, 1, 1)
	})
	play("in company", func(t *testing.T) {
		socket := new(tray)
		b, request := writing(t, socket)
		b.l.synced, b.l.syncing = false, true
		request(10) // waits, as it is a write
		written(t, b, socket, 0, 0)
		b.l.synced = true
		request(10)
		written(t, b, socket, 0, 2)
	})
	play("more than the kernel takes", func(t *testing.T) {
		socket := new(tray)
		b, request := writing(t, socket)
		b.l.direct = func(frame []byte) (int, error) {
			b.l.direct = nil
			request(10)
			return len(frame) / 2, nil
		}
		request(20)
		first, last := b.l.pending.All()[0].Frame, b.l.pending.All()[1].Frame
		check.True(t, len(b.l.out) == 2 && bytes.Equal(b.l.out[0], first[len(first)/2:]) && bytes.Equal(b.l.out[1], last) && woken(b), "%x are left of %x and %x", b.l.out, first, last)
		if b.e.severed(b.l); b.e.queue.Len() != 1 {
			t.Error("only the second is sent again")
		}
	})
	play("while another is written", func(t *testing.T) {
		socket := new(tray)
		b, request := writing(t, socket)
		socket.written = func() {
			socket.written = nil
			request(10)
			check.True(t, len(socket.xids) == 1 && len(b.l.out) == 1 && !woken(b), "written %v, left %d", socket.xids, len(b.l.out))
		}
		request(10)
		written(t, b, socket, 1, 1)
	})
	t.Run("beside the writer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			socket := new(tray)
			b, request := writing(t, socket)
			socket.written = func() { // by the caller
				socket.written = nil
				go b.l.writeAll()
				request(10)
				if synctest.Wait(); len(socket.xids) != 1 {
					t.Error("two write at once")
				}
			}
			request(10)
			if synctest.Wait(); len(socket.xids) != 2 {
				t.Errorf("written %v", socket.xids)
			}
			socket.written = func() { // by the writer
				socket.written = nil
				if request(10); len(socket.xids) != 3 {
					t.Error("two write at once")
				}
			}
			request(directBytes)
			if synctest.Wait(); len(socket.xids) != 4 {
				t.Errorf("written %v", socket.xids)
			}
			if request(10); len(socket.xids) != 5 {
				t.Errorf("written %v", socket.xids)
			}
			b.l.fail(net.ErrClosed)
		})
	})
	play("a socket that is not the kernel's", func(t *testing.T) {
		socket := new(tray)
		b, request := writing(t, struct{ net.Conn }{socket})
		request(10)
		written(t, b, socket, 0, 1)
	})
	t.Run("a socket that embeds the kernel's", func(t *testing.T) { // its Write may wait
		b, request := writing(t, struct{ *net.TCPConn }{new(net.TCPConn)})
		request(10)
		written(t, b, new(tray), 0, 1)
	})
	play("connection failed", func(t *testing.T) {
		socket := new(tray)
		b, request := writing(t, socket)
		b.l.fail(net.ErrClosed)
		request(10)
		b.l.writeAll()
		check.True(t, len(socket.xids) <= 0, "it is written")
		if b.e.severed(b.l); b.e.queue.Len() != 1 {
			t.Error("it is not sent again")
		}
	})
	play("in vain", func(t *testing.T) {
		socket := &tray{err: net.ErrClosed}
		b, request := writing(t, socket)
		answer := request(10)
		check.True(t, b.l.phase == phaseFailed && *answer == nil, "phase %v, answer %v", b.l.phase, *answer)
		b.e.severed(b.l)
		if b.s.Order.Run(); !errors.Is(*answer, fault.ErrUnknownOutcome) {
			t.Errorf("answer %v", *answer)
		}
	})
}

// TestCallersAndWriter has many callers write, and the writer beside them: one at a time, in the
// order of the calls.
func TestCallersAndWriter(t *testing.T) {
	const callers, each = 16, 500
	socket := new(tray)
	b, _ := writing(t, socket)
	all := make(chan struct{})
	socket.written = func() {
		b.e.mu.Lock()
		defer b.e.mu.Unlock()
		for b.l.pending.Len() > b.l.unwritten { // they are answered
			b.l.window.Answered(b.l.pending.Pop().flight, 0, b.s.Clock.Now())
		}
		b.e.advance()
		if len(socket.xids) == callers*each {
			close(all)
		}
	}
	var wg sync.WaitGroup
	wg.Go(b.l.writeAll)
	for range callers {
		wg.Go(func() {
			for range each {
				b.request(nil, false, &wire.Request{Op: wire.OpExists, Path: "/a"}, func(*probe, error) {})
			}
		})
	}
	<-all
	b.l.fail(net.ErrClosed)
	wg.Wait()
	check.True(t, slices.IsSorted(socket.xids) && socket.xids[0] == 1, "written %v", socket.xids)
}

// TestSpread: the transaction that a reconnect needs waits for others of the fleet, the shorter the
// nearer the deadline is.
func TestSpread(t *testing.T) {
	b, _ := writing(t, new(tray))
	b.e.timeout = 10 * time.Second
	beat := b.e.terms().Heartbeat
	for _, row := range []struct{ slack, most time.Duration }{
		{-time.Second, 0}, {0, 0}, {beat, 0}, {2 * beat, beat / 3}, {4 * beat, beat}, {9 * beat, beat},
	} {
		var longest time.Duration
		for range 1000 {
			b.l.restored = b.s.Clock.Now()
			b.e.deadline.Store(int64(b.l.restored + row.slack))
			longest = max(longest, b.l.spread())
		}
		check.AtMost(t, longest, row.most, "with", row.slack)
		check.AtLeast(t, longest, row.most*9/10, "with", row.slack)
	}
}

// TestAnswerToAHeartbeat: the answer to a heartbeat is not one to another request, behind which
// heartbeats would come at other moments.
func TestAnswerToAHeartbeat(t *testing.T) {
	b, _ := writing(t, new(tray))
	for range 1000 {
		b.l.beat(true)
		all := b.l.pending.All()
		sent := all[len(all)-1].sent
		check.Equal(t, b.l.beats.Asked(), sent, "when it was sent")
	}
}
