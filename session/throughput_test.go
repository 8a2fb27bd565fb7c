package session_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestThroughput: what the window bounds is answered as fast as go-zookeeper's requests, of which
// any number is in flight, less 10 %. The clock is that of a bubble, so the network alone decides.
// Both begin with a new session.
func TestThroughput(t *testing.T) {
	chosen := hasten.OneIn(2, 4)
	for _, tt := range []struct {
		name     string
		callers  int
		size     int   // of a node
		down, up int64 // bytes a second; 0: as many as there are
		latency  time.Duration
		write    bool
		lasts    time.Duration
		relies   bool
	}{
		{"far, small reads", 512, 10, 0, 0, 20 * time.Millisecond, false, 5 * time.Second, false},
		{"far, small writes", 512, 10, 0, 0, 20 * time.Millisecond, true, 5 * time.Second, false},
		{"replies of 1 MiB, one after the other", 1, 1<<20 - 1000, 500 << 10, 0, time.Millisecond, false, time.Minute, false},
		{"long replies", 64, 512 << 10, 8 << 20, 0, time.Millisecond, false, 30 * time.Second, false},
		{"8 KiB from each of 512 callers", 512, 8 << 10, 0, 2 << 20, time.Millisecond, true, 20 * time.Second, false},
		{"8 KiB, and far", 512, 8 << 10, 0, 2 << 20, 50 * time.Millisecond, true, 20 * time.Second, false},
		{"one caller, relying", 1, 10, 0, 0, time.Millisecond, false, 20 * time.Second, true},
		{"one caller, far, relying", 1, 10, 0, 0, 400 * time.Millisecond, false, 10 * time.Minute, true},
		{"one caller of 100 KiB, far, relying", 1, 100 << 10, 1 << 20, 0, 200 * time.Millisecond, false, 5 * time.Minute, true},
		{"replies of 1 MiB, relying", 1, 1<<20 - 1000, 500 << 10, 0, time.Millisecond, false, 5 * time.Minute, true},
		{"replies of 1 MiB, far, relying", 1, 1<<20 - 1000, 300 << 10, 0, 50 * time.Millisecond, false, 5 * time.Minute, true},
		{"requests of 1 MiB, relying", 1, 1<<20 - 1000, 0, 300 << 10, 10 * time.Millisecond, true, 5 * time.Minute, true},
	} {
		if !chosen() {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: 2 * time.Second, MaxOwed: 1 << 30, Latency: tt.latency}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
				data := make([]byte, tt.size)
				first := mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext})
				for i := range tt.callers {
					check.Have(first.Create(t.Context(), fmt.Sprintf("/%d", i), data, session.Persistent))(t)
				}
				var way line
				way.down.Store(tt.down)
				way.up.Store(tt.up)

				theirs, events, err := zk.Connect(srv.Addrs(), 10*time.Second, zk.WithLogInfo(false), zk.WithDialer(func(network, address string, _ time.Duration) (net.Conn, error) {
					return way.dialer(srv)(context.Background(), network, address)
				}))
				check.Must(t, err)
				for ev := range events {
					if ev.State == zk.StateHasSession {
						break
					}
				}
				want := answered(t, tt.callers, tt.lasts, func(path string) (err error) {
					if tt.write {
						_, err = theirs.Set(path, data, -1)
					} else {
						_, _, err = theirs.Get(path)
					}
					return err
				})
				theirs.Close()

				ours := mustOpen(t, srv.Addrs(), &session.Options{Dialer: way.dialer(srv)})
				if tt.relies {
					defer ours.Rely()()
				}
				got := answered(t, tt.callers, tt.lasts, func(path string) (err error) {
					if tt.write {
						_, err = ours.Set(t.Context(), path, data, session.AnyVersion)
					} else {
						_, _, err = ours.Get(t.Context(), path)
					}
					return err
				})
				t.Logf("%d answered in %v, and %d of go-zookeeper", got, tt.lasts, want)
				check.True(t, 10*got >= 9*want, "%d answered in %v, and %d of go-zookeeper", got, tt.lasts, want)
			})
		})
	}
}

// answered returns how many requests are answered in the time, when each caller makes one after the
// other.
func answered(t *testing.T, callers int, lasts time.Duration, request func(path string) error) int64 {
	t.Helper()
	var done atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(lasts)
	for i := range callers {
		path := fmt.Sprintf("/%d", i)
		all.Go(func() {
			for time.Now().Before(end) {
				check.OK(t, request(path))
				if !time.Now().After(end) {
					done.Add(1)
				}
			}
		})
	}
	all.Wait()
	return done.Load()
}
