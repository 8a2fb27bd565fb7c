package session_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestDeadlineInSleep: the loss of a session whose deadline passed while the machine slept is
// told within a heartbeat, also if no packet arrives.
func TestDeadlineInSleep(t *testing.T) {
	const timeout = 18 * time.Second
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		s := w.OpenGated(session.Options{Timeout: timeout})
		events := s.Events(w.Context())
		s.Cut()
		var slept atomic.Int64
		s.Sleep(func() time.Duration { return time.Duration(slept.Load()) })
		pass(time.Second)
		slept.Store(int64(time.Hour))
		s.SetWallClock(time.Hour) // ahead
		woken := time.Now()
		for ev := range events {
			if _, ok := ev.(session.Expired); ok {
				break
			}
		}
		check.AtMost(w, time.Since(woken), timeout/9, "told after the machine woke, by")
	})
}
