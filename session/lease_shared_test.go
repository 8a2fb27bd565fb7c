package session_test

import (
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestLeaseShared counts the transactions of sessions that something relies on, in an hour: a fleet
// needs few more than one session. It is a sixth of an
// hour where tests are not thorough, and less under -short.
func TestLeaseShared(t *testing.T) {
	const timeout = 12 * time.Second
	hour := hasten.Sized(hasten.Usually(time.Hour, 10*time.Minute), 4*time.Minute)
	alone := int(hour/timeout) * 9 / 3 // one of three heartbeats
	for _, tt := range []struct {
		name     string
		lease    session.Lease
		sessions int
		most     int
		least    int
	}{
		{"committed, one", session.LeaseCommitted, 1, alone + 1, alone - 1},
		{"committed, 50", session.LeaseCommitted, 50, 50 * (alone + 1), 50 * (alone - 1)},
		{"answered, 50", session.LeaseAnswered, 50, 0, 0},
		{"shared, one", session.LeaseShared, 1, alone + 1, alone - 1},
		{"shared, 50", session.LeaseShared, 50, 2 * alone, alone / 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, zktest.Config{Tick: time.Second}, func(t *testing.T, srv *zktest.Server, opts *session.Options) {
				opts.Timeout, opts.Lease = timeout, tt.lease
				var lives []*lives
				for range tt.sessions {
					s := mustOpen(t, srv.Addrs(), opts)
					t.Cleanup(s.Rely())
					lives = append(lives, livesOf(s))
					pass(37 * time.Millisecond)
				}
				pass(time.Minute)
				srv.ResetRequests()
				pass(hour)
				n := srv.Requests()[zktest.OpCheck]
				check.AtMost(t, n, tt.most, "transactions")
				check.True(t, n >= tt.least, "%d transactions, want at least %d", n, tt.least)
				for _, l := range lives {
					l.undisturbed(t)
				}
			})
		})
	}
}
