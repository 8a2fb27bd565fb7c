package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
)

func noLease() time.Duration { return 0 }

// TestWhichServerIsTried: those that cannot be reached follow each other at once, and are tried a
// third as often as one that is reached and of no use. After that there is a pause before each.
func TestWhichServerIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := map[string]bool{"down-1:1": true, "down-2:1": true}
		tried := make(map[string]int)
		var at []time.Time
		s := New([]string{"down-1:1", "down-2:1", "up-1:1", "up-2:1", "up-3:1"}, Options{
			Timeout: 10 * time.Second,
			Dialer: func(_ context.Context, _, server string) (net.Conn, error) {
				at = append(at, time.Now())
				tried[server]++
				if down[server] {
					return nil, errors.New("refused")
				}
				near, _ := net.Pipe()
				return near, nil
			},
			Log: quiet,
		})
		for range 60 {
			before := len(at)
			server := reach(t, s, noLease, false)
			s.Failed(server, errors.New("it has no leader"), false)
			for i := before + 1; i < len(at) && i < 5; i++ {
				check.Equal(t, at[i], at[i-1], "a server that is down is followed at once, in the first round")
			}
		}
		for server, n := range tried {
			want := 20
			if down[server] {
				want = 20 / 3
			}
			check.True(t, n >= want-1 && n <= want+1, "%s: tried %d times, want about %d", server, n, want)
		}
		for i := 6; i < len(at); i++ {
			pause := at[i].Sub(at[i-1])
			check.True(t, pause >= 200*time.Millisecond && pause <= 1060*time.Millisecond, "attempt %d after %v", i, pause)
		}
		s.Succeeded("up-1:1")
		first, now := len(at), time.Now()
		reach(t, s, noLease, false)
		check.Equal(t, at[first], now, "after a success there is no pause")
	})
}

// TestPauseAfterALoss: sessions that have lost their connections at the same moment dial within 300
// ms, at random. Those with little time left are the first, and those that have not lost one do not
// wait.
func TestPauseAfterALoss(t *testing.T) {
	for _, tt := range []struct{ rest, most time.Duration }{
		{5 * time.Second, 300 * time.Millisecond},
		{800 * time.Millisecond, 100 * time.Millisecond},
		{0, 0},
		{-time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New([]string{"up:1"}, Options{Timeout: 10 * time.Second, Dialer: accepting, Log: quiet})
			var early, late bool
			for range 300 {
				begun := time.Now()
				reach(t, s, func() time.Duration { return tt.rest }, true)
				pause := time.Since(begun)
				check.AtMost(t, pause, tt.most+3*time.Millisecond)
				early, late = early || pause <= tt.most/10, late || pause >= tt.most*9/10
			}
			check.True(t, early && late, "a rest of %v: pauses of all lengths", tt.rest)
		})
	}
}

// TestPausesFollowTheLease: the less is left of the lease, the shorter are the pauses before the
// next server, down to a hundredth of the timeout.
func TestPausesFollowTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 4 * time.Second
		begun := time.Now()
		s := New([]string{"up-1:1", "up-2:1"}, Options{Timeout: 10 * time.Second, Dialer: accepting, Log: quiet})
		dials, before := 0, begun
		for ; time.Since(begun) < lease; dials++ {
			rest := lease - time.Since(begun)
			server := reach(t, s, func() time.Duration { return lease - time.Since(begun) }, false)
			s.Failed(server, errors.New("it has no leader"), false)
			seconds := rest.Seconds()
			check.AtMost(t, time.Since(before).Seconds(), max(seconds*seconds/10, 0.1)+1e-6)
			before = time.Now()
		}
		check.True(t, dials >= 10 && dials <= 25, "%d dials", dials)
	})
}

// TestLongestPause: a pause is never longer than the square of the rest over the timeout, except
// that sessions near their deadline, or past it, do not dial all the time.
func TestLongestPause(t *testing.T) {
	for _, tt := range []struct{ timeout, rest, most time.Duration }{
		{time.Second, 500 * time.Millisecond, 250 * time.Millisecond},
		{time.Second, 0, 10 * time.Millisecond},
		{10 * time.Second, 2 * time.Second, 400 * time.Millisecond},
		{10 * time.Second, 100 * time.Millisecond, 100 * time.Millisecond},
		{10 * time.Second, -5 * time.Second, 100 * time.Millisecond},
		{40 * time.Second, 4 * time.Second, 400 * time.Millisecond},
		{40 * time.Second, time.Second, 100 * time.Millisecond},
	} {
		s := New([]string{"up-1:1"}, Options{Timeout: tt.timeout})
		check.Equal(t, s.longestPause(tt.rest), tt.most, "timeout", tt.timeout, "rest", tt.rest)
	}
}

// TestPatienceAfterALoss: near its deadline a session does not wait for the kernel to repeat a
// request to connect that a busy server has dropped. A server that needs longer gets longer.
func TestPatienceAfterALoss(t *testing.T) {
	const rest = time.Second
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var waited []time.Duration
		s := New([]string{"127.0.0.1:1", "127.0.0.1:2"}, Options{
			Timeout: 10 * time.Second,
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
				begun := time.Now()
				select {
				case <-ctx.Done():
					waited = append(waited, time.Since(begun))
					return nil, ctx.Err()
				case <-time.After(700 * time.Millisecond):
					near, _ := net.Pipe()
					return near, nil
				}
			},
			Log: quiet,
		})
		reach(t, s, func() time.Duration { return rest - time.Since(begin)/10 }, false)
		check.True(t, len(waited) == 2 && waited[0] == rest/5 && waited[1] == 2*rest/5, "waited %v", waited)
	})
}

// A site has servers that accept connections after some time; without an entry they never do.
type site map[string]time.Duration

func (s site) dial(ctx context.Context, _, server string) (net.Conn, error) {
	after, accepts := s[server]
	var accepted <-chan time.Time
	if accepts {
		accepted = time.After(after)
	}
	select {
	case <-accepted:
		near, _ := net.Pipe()
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestPatienceWithServersThatAreDown: servers that do not answer at all cost no more than without a
// lease, however many there are, and less near the deadline.
func TestPatienceWithServersThatAreDown(t *testing.T) {
	const timeout = 10 * time.Second
	for _, tt := range []struct{ rest, most time.Duration }{
		{0, 3 * time.Second},
		{4200 * time.Millisecond, 2840 * time.Millisecond}, // 0.84 s, and then a second each
		{2100 * time.Millisecond, 2260 * time.Millisecond},
		{time.Second, 1400 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			all := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5", "127.0.0.1:6", "127.0.0.1:7"}
			up := site{all[3]: 0, all[4]: 0, all[5]: 0, all[6]: 0}
			for range 50 { // the order of the servers is random
				s := New(all, Options{Timeout: timeout, Dialer: up.dial, Log: quiet})
				begun := time.Now()
				left := func() time.Duration { return tt.rest - time.Since(begun) }
				reach(t, s, left, false)
				check.AtMost(t, time.Since(begun), tt.most, "connected, with a rest of", tt.rest)
			}
		})
	}
}

// TestPatienceWithAFarServer: servers that are near accept connections, and are of no use. A far
// one is reached while the lease lasts.
func TestPatienceWithAFarServer(t *testing.T) {
	const far = 300 * time.Millisecond
	for _, tt := range []struct{ timeout, rest time.Duration }{
		{4 * time.Second, 1300 * time.Millisecond},
		{10 * time.Second, 1300 * time.Millisecond},
		{30 * time.Second, 1300 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			const near = "127.0.0.1:1"
			at := site{near: 0, "127.0.0.1:2": far}
			for range 20 {
				s := New([]string{near, "127.0.0.1:2"}, Options{Timeout: tt.timeout, Dialer: at.dial, Log: quiet})
				begun := time.Now()
				server := near
				for server == near && time.Since(begun) < tt.rest {
					var socket net.Conn
					server, socket = s.Dial(t.Context(), func() time.Duration { return tt.rest - time.Since(begun) }, false)
					_ = socket.Close()
					s.Failed(server, errors.New("it has no leader"), false)
				}
				check.True(t, server != near, "timeout %v: the far server is not reached", tt.timeout)
				check.AtMost(t, time.Since(begun), tt.rest, "until the far server is reached, timeout", tt.timeout)
			}
		})
	}
}

// TestPatienceWithTLS: a TLS handshake under way is not cut earlier because the lease is short.
func TestPatienceWithTLS(t *testing.T) {
	const rest = time.Second
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		lasted := make(chan time.Duration, 10) // of each handshake
		s := New([]string{"127.0.0.1:1"}, Options{
			Timeout: 10 * time.Second,
			TLS:     &tls.Config{MinVersion: tls.VersionTLS13},
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				go func() {
					_, _ = io.Copy(io.Discard, far) // until the session gives up
					lasted <- time.Since(begun)
					cancel()
				}()
				return near, nil
			},
			Log: quiet,
		})
		_, socket := s.Dial(ctx, func() time.Duration { return rest }, false)
		check.True(t, socket == nil, "connected")
		check.Equal(t, <-lasted, time.Second, "the handshake was given up after")
	})
}
