package session_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestThroughput: what the window bounds is answered as fast as the line bears, less 10 %. The
// clock is that of a bubble, so the network alone decides.
func TestThroughput(t *testing.T) {
	chosen := hasten.OneIn(3, 6)
	const most = 1<<20 - 1000
	for _, tt := range []struct {
		name     string
		callers  int
		size     int   // of a node
		down, up int64 // bytes a second; 0: as many as there are
		latency  time.Duration
		lasts    time.Duration
		relies   bool
	}{
		{"far, small reads", 512, 10, 0, 0, 20 * time.Millisecond, 5 * time.Second, false},
		{"far, small writes", 512, 10, 0, 1 << 40, 20 * time.Millisecond, 5 * time.Second, false},
		{"replies of 1 MiB, one after the other", 1, most, 500 << 10, 0, time.Millisecond, time.Minute, false},
		{"long replies", 64, 512 << 10, 8 << 20, 0, time.Millisecond, 30 * time.Second, false},
		{"8 KiB from each of 512 callers", 512, 8 << 10, 0, 2 << 20, time.Millisecond, 20 * time.Second, false},
		{"8 KiB, and far", 512, 8 << 10, 0, 2 << 20, 50 * time.Millisecond, 20 * time.Second, false},
		{"one caller, relying", 1, 10, 0, 0, time.Millisecond, 20 * time.Second, true},
		{"one caller, far, relying", 1, 10, 0, 0, 400 * time.Millisecond, 10 * time.Minute, true},
		{"one caller of 100 KiB, far, relying", 1, 100 << 10, 1 << 20, 0, 200 * time.Millisecond, 5 * time.Minute, true},
		{"replies of 1 MiB, relying", 1, most, 500 << 10, 0, time.Millisecond, 5 * time.Minute, true},
		{"replies of 1 MiB, far, relying", 1, most, 300 << 10, 0, 50 * time.Millisecond, 5 * time.Minute, true},
		{"requests of 1 MiB, relying", 1, most, 0, 300 << 10, 10 * time.Millisecond, 5 * time.Minute, true},
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
				s := mustOpen(t, srv.Addrs(), &session.Options{Dialer: way.dialer(srv)})
				if tt.relies {
					defer s.Rely()()
				}
				var done atomic.Int64
				var all sync.WaitGroup
				end := time.Now().Add(tt.lasts)
				for i := range tt.callers {
					path := fmt.Sprintf("/%d", i)
					all.Go(func() {
						for time.Now().Before(end) {
							var err error
							if tt.up > 0 {
								_, err = s.Set(t.Context(), path, data, session.AnyVersion)
							} else {
								_, _, err = s.Get(t.Context(), path)
							}
							if check.OK(t, err); !time.Now().After(end) {
								done.Add(1)
							}
						}
					})
				}
				all.Wait()
				// What a line of that width carries, and what the callers can ask for.
				each := 2*tt.latency + lineTime(tt.size, max(tt.down, tt.up))
				want := min(float64(tt.lasts/each)*float64(tt.callers), float64(tt.lasts)/float64(max(lineTime(tt.size, max(tt.down, tt.up)), 1)))
				t.Logf("%d answered in %v, of %.0f", done.Load(), tt.lasts, want)
				check.AtLeast(t, float64(done.Load()), 0.9*want, "answered in", tt.lasts)
			})
		})
	}
}

// lineTime returns how long so many bytes take.
func lineTime(bytes int, rate int64) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(int64(bytes) * int64(time.Second) / rate)
}
