package session_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// longest is the formula in the documentation of [session.Options.Timeout]: the longest answer time
// with which a session keeps what it holds.
func longest(timeout, tick time.Duration) time.Duration {
	margin := min(max(timeout/40, 10*time.Millisecond), 250*time.Millisecond)
	if tick == 0 {
		tick = timeout / 2
	}
	lease := timeout - margin - tick*5/8
	return min(lease/4, (lease-timeout/9)/3)
}

// TestSlowServer: a server that takes long for every answer, always the same time, ends no session
// in ten minutes, from its first connection on. Sessions that hold nothing stand a third of the
// timeout, others what the proof allows.
func TestSlowServer(t *testing.T) {
	chosen := hasten.OneIn(2, 5)
	for _, timeout := range []time.Duration{2, 4, 10, 30} {
		timeout *= time.Second
		for _, tick := range []time.Duration{0, timeout / 5, timeout / 15} { // 0: the default
			for _, row := range []struct {
				holds bool
				trust session.Lease
			}{{false, session.LeaseCommitted}, {true, session.LeaseCommitted}, {true, session.LeaseProven}} {
				if !chosen() {
					continue
				}
				trip, holds := timeout/3, row.holds
				if holds {
					trip = longest(timeout, tick) * 97 / 100
				}
				t.Run(fmt.Sprintf("%v tick %v holds %v lease %d", timeout, tick, holds, row.trust), func(t *testing.T) {
					inBubble(t, zktest.Config{Tick: timeout / 15, Latency: trip / 2, Replicas: replicas(row.trust)}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
						s := mustOpen(t, followed(srv), &session.Options{Timeout: timeout, ServerTick: tick, Dialer: srv.DialContext, Lease: row.trust})
						if holds {
							defer s.Rely()()
						}
						life := livesOf(s)
						pass(10 * time.Minute)
						life.undisturbed(t)
						check.Equal(t, len(srv.Sessions()), 1, "sessions on the server: handshakes that were given up have left some")
					})
				})
			}
		}
	}
}

// TestLatencyEatsTheLease: a log record says so before the session is lost, and not on a server
// that is fast, or when nothing is held.
func TestLatencyEatsTheLease(t *testing.T) {
	const timeout = 10 * time.Second
	for _, tt := range []struct {
		name  string
		trip  time.Duration
		holds bool
		says  bool
	}{
		{"fast", 2 * time.Millisecond, true, false},
		{"half of what is possible", longest(timeout, 0) / 2, true, false},
		{"near", longest(timeout, 0) * 9 / 10, true, true},
		{"near, and nothing is held", longest(timeout, 0) * 9 / 10, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second, Latency: tt.trip / 2}, func(t *testing.T, srv *zktest.Server, _ *session.Options) {
				said := newJournal(slog.LevelDebug)
				s := mustOpen(t, srv.Addrs(), &session.Options{Timeout: timeout, Dialer: srv.DialContext, Logger: slog.New(said)})
				if tt.holds {
					defer s.Rely()()
				}
				life := livesOf(s)
				pass(150 * time.Second)
				life.undisturbed(t)
				want := 0
				if tt.says {
					want = 3 // at most one a minute
				}
				check.Equal(t, said.count("answers are slow"), want, "records")
			})
		})
	}
}

// TestLongRepliesEatTheLease: the log record comes before replies take longer than the lease bears,
// and not because heartbeats wait behind short ones.
func TestLongRepliesEatTheLease(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration
		want  int
	}{{2 * time.Second, 0}, {2400 * time.Millisecond, 0}, {3 * time.Second, 4}, {4 * time.Second, 4}} {
		t.Run(tt.takes.String(), func(t *testing.T) {
			said := newJournal(slog.LevelDebug)
			story := long{
				timeout: 10 * time.Second, stake: "what excludes others", callers: 1, trip: 2 * time.Millisecond,
				takes: tt.takes, logger: slog.New(said),
			}
			check.Equal(t, story.play(t), 0, "sessions lost")
			check.Equal(t, said.count("answers are slow"), tt.want, "records in 200 s")
		})
	}
}

// TestAbandonedHandshakes: a session that a server creates for a handshake that was given up is
// ended, and none is left by Close.
func TestAbandonedHandshakes(t *testing.T) {
	inBubble(t, zktest.Config{Tick: time.Second, Latency: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
		opts.Timeout = 10 * time.Second
		s := check.Have(session.Open(t.Context(), srv.Addrs(), opts))(t)
		defer s.Close()
		pass(4 * time.Second)
		synctest.Wait()
		if all := srv.Sessions(); len(all) != 1 || all[0] != s.ID() {
			t.Errorf("sessions %x, want %x alone", all, s.ID())
		}
	})
}
