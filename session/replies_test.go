package session_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// longestReply is the formula in the documentation of [session.Options.Timeout]: the longest time
// that each of many replies may take, one after the other, for a session that keeps what it holds.
// Trip is the round trip of what is small.
func longestReply(timeout, trip time.Duration) time.Duration {
	margin := min(max(timeout/40, 10*time.Millisecond), 250*time.Millisecond)
	return (timeout - margin - 3*trip) / 2
}

// long is a story of callers that make one large request after the other, each of which keeps the
// way full for some time.
type long struct {
	timeout, tick time.Duration
	trip          time.Duration
	takes         time.Duration // each of them
	callers       int
	writes        bool
	stake         string
	sudden        bool // the line becomes slow when they begin
	logger        *slog.Logger
	phase         time.Duration // of the heartbeats, when they begin
}

// play returns how often the session is lost in twenty timeouts.
func (l long) play(t *testing.T) (lost int32) {
	t.Helper()
	config := zktest.Config{Tick: l.timeout / 10, MaxOwed: 1 << 30, Latency: l.trip / 2, Replicas: 1}
	if l.stake == "committed, shared" {
		config.Replicas = replicas(session.LeaseProven)
	}
	inBubble(t, config, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		const size = 1<<20 - 1000
		data := make([]byte, size)
		var way line
		opts := &session.Options{Timeout: l.timeout, ServerTick: l.tick, Lease: session.LeaseCommitted, Dialer: way.dialer(srv), Logger: l.logger}
		switch l.stake {
		case "committed, answers trusted":
			opts.Lease = session.LeaseAnswered
		case "committed, shared":
			opts.Lease = session.LeaseProven
		}
		first := mustOpen(t, srv.Addrs(), &session.Options{Dialer: srv.DialContext})
		check.Have(first.Create(ctx, "/a", data, session.Persistent))(t)
		s := mustOpen(t, followed(srv), opts)
		narrows := func() {
			rate := int64(float64(size) / l.takes.Seconds())
			if l.writes {
				way.up.Store(rate)
			} else {
				way.down.Store(rate)
			}
		}
		if !l.sudden {
			narrows()
		}
		_, _, err := s.Get(ctx, "/a")
		check.Must(t, err)
		switch l.stake {
		case "nothing":
		case "an ephemeral node":
			check.Have(s.Create(ctx, "/e", nil, session.Ephemeral))(t)
		default:
			defer s.Rely()()
		}
		pass(2*l.timeout + l.phase)
		life := livesOf(s)
		narrows()
		end := time.Now().Add(20 * l.timeout)
		var all sync.WaitGroup
		for range l.callers {
			all.Go(func() {
				for time.Now().Before(end) && life.expired.Load() == 0 {
					if l.writes {
						_, _ = s.Set(ctx, "/a", data, session.AnyVersion)
					} else {
						_, _, _ = s.Get(ctx, "/a")
					}
				}
			})
		}
		all.Wait()
		way.up.Store(0)
		way.down.Store(0)
		lost = life.expired.Load() + life.suspended.Load()
	})
	return lost
}

// isLostAtSomePhase looks for a moment at which replies can begin to be long and the session is
// lost. One session of five has its heartbeats there: their phase is random, so a handful of phases
// can miss the moment, and a hundred cannot.
func (l long) isLostAtSomePhase(t *testing.T, within time.Duration) {
	t.Helper()
	const phases = 100
	for i := range time.Duration(phases) {
		l.phase = within * (i * 37 % phases) / phases
		if l.play(t) != 0 {
			return
		}
	}
	t.Errorf("the session is kept, whenever replies begin to take %v", l.takes)
}

// TestLongReplies: replies that take up to nearly half of the timeout each, one after the other,
// lose no session, whatever rests on it. A proof of the lease cannot be had faster than in two of
// them: what excludes others is lost a little above that.
func TestLongReplies(t *testing.T) {
	chosen := hasten.OneIn(3, 9)
	for _, tt := range []long{
		{timeout: 10 * time.Second, stake: "what excludes others"},
		{timeout: 10 * time.Second, stake: "what excludes others", phase: 300 * time.Millisecond},
		{timeout: 10 * time.Second, stake: "what excludes others", phase: 600 * time.Millisecond},
		{timeout: 10 * time.Second, stake: "what excludes others", phase: 1050 * time.Millisecond},
		{timeout: 10 * time.Second, stake: "what excludes others", tick: 2 * time.Second},
		{timeout: 10 * time.Second, stake: "what excludes others", tick: 200 * time.Millisecond},
		{timeout: 10 * time.Second, stake: "what excludes others", trip: 100 * time.Millisecond},
		{timeout: 10 * time.Second, stake: "what excludes others", trip: 200 * time.Millisecond},
		{timeout: 10 * time.Second, stake: "what excludes others", callers: 6},
		{timeout: 10 * time.Second, stake: "what excludes others", writes: true},
		{timeout: 10 * time.Second, stake: "an ephemeral node"},
		{timeout: 10 * time.Second, stake: "committed, answers trusted"},
		{timeout: 10 * time.Second, stake: "committed, shared"},
		{timeout: 4 * time.Second, stake: "what excludes others"},
		{timeout: 30 * time.Second, stake: "what excludes others"},
	} {
		if !chosen() {
			continue
		}
		tt.callers = max(tt.callers, 1)
		// The connections of the test let bytes pass every 10 ms. What waits for them, and for each
		// other, is 3 % at most.
		tt.trip = max(tt.trip, 2*time.Millisecond)
		longest := longestReply(tt.timeout, tt.trip+10*time.Millisecond)
		name := fmt.Sprintf("%s T %v tick %v trip %v callers %d writes %v phase %v",
			tt.stake, tt.timeout, tt.tick, tt.trip, tt.callers, tt.writes, tt.phase)
		t.Run(name, func(t *testing.T) {
			all := []time.Duration{
				longest * 97 / 100, tt.timeout / 10, tt.timeout / 4, tt.timeout * 28 / 100, tt.timeout * 31 / 100,
				tt.timeout * 32 / 100, tt.timeout * 4 / 10,
			}
			for _, takes := range all[:hasten.Sized(hasten.Usually(len(all), 2), 1)] {
				tt.takes = takes
				check.Equal(t, tt.play(t), 0, "the session is lost, though each takes", takes, "only, of", longest)
			}
			if tt.takes = longest * 105 / 100; tt.stake == "an ephemeral node" {
				return // its lease has no end while it has a connection
			}
			if lost := tt.play(t); lost == 0 {
				t.Errorf("the session is kept, though each takes %v, which is over %v", tt.takes, longest)
			}
		})
	}
	t.Run("a line that becomes slow", func(t *testing.T) {
		const timeout, margin = 10 * time.Second, 250 * time.Millisecond
		const longest = (timeout - margin - timeout/9) / 3
		tt := long{timeout: timeout, stake: "what excludes others", callers: 1, trip: 2 * time.Millisecond, sudden: true}
		for tt.phase = 0; tt.phase < timeout/9; tt.phase += hasten.Sized(timeout/45, timeout/20) {
			tt.takes = longest * 98 / 100
			check.Equal(t, tt.play(t), 0, "the session is lost, though each takes", tt.takes, "only, of", longest)
		}
		tt.takes = longest * 107 / 100 // just less than a report
		tt.isLostAtSomePhase(t, timeout/9)
	})
	t.Run("nothing", func(t *testing.T) {
		const timeout, margin = 10 * time.Second, 250 * time.Millisecond
		const longest = timeout - margin - timeout/3 // a ping may be as old
		tt := long{timeout: timeout, stake: "nothing", callers: 1, trip: 2 * time.Millisecond}
		for tt.phase = 0; tt.phase < timeout/3; tt.phase += hasten.Sized(timeout/15, timeout/6) {
			for _, takes := range []time.Duration{longest * 98 / 100, timeout / 4, timeout * 45 / 100}[:hasten.Sized(hasten.Usually(3, 1), 1)] {
				tt.takes = takes
				check.Equal(t, tt.play(t), 0, "the session is lost, though nothing rests on it, and each takes", takes, "only, of", longest)
			}
		}
	})
}
