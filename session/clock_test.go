package session

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
)

// TestMachineSleeps: the age of a session contains the time for which the machine slept,
// however the wall clock is set before and after that.
func TestMachineSleeps(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  []time.Duration // by how much the wall clock is set, ahead or back, before the sleep
	}{
		{"at once", nil},
		{"ahead", []time.Duration{time.Hour}},
		{"back", []time.Duration{-time.Hour}},
		{"ahead and back", []time.Duration{time.Hour, -time.Hour}},
		{"back bit by bit", []time.Duration{-15 * time.Millisecond, -15 * time.Millisecond, -15 * time.Millisecond}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slept := time.Duration(0)
				c := newClock()
				c.start, c.sleep = 0, func() time.Duration { return slept }
				for _, d := range tt.set {
					c.wall = c.wall.Add(-d)
					if age := c.now(); age != 0 {
						t.Fatalf("the age is %v when the wall clock was set by %v", age, d)
					}
				}
				const night = 30 * time.Minute
				slept, c.wall = night, c.wall.Add(-night)
				if age := c.now(); age != night {
					t.Errorf("the age is %v after %v", age, night)
				}
				slept, c.wall = 0, c.wall.Add(-time.Second) // the system fails to tell
				check.Equal(t, c.now(), night, "and later")
				check.Equal(t, time.Until(c.time(night+time.Minute)), time.Minute, "a minute later is in")
			})
		})
	}
}

// TestDeadlineInSleep: the loss of a session whose deadline passed while the machine slept is
// told within a heartbeat, also if no packet arrives.
func TestDeadlineInSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 18 * time.Second
		opts := &Options{Timeout: timeout, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		s := newSession([]string{"none:1"}, opts.withDefaults())
		var slept atomic.Int64
		s.clock.start, s.clock.sleep = 0, func() time.Duration { return time.Duration(slept.Load()) }
		e := s.epoch
		e.mu.Lock()
		e.id, e.timeout = 1, timeout
		e.settle()
		e.mu.Unlock()
		s.tell(established{epoch: 1, id: 1, timeout: timeout})
		go s.loop()
		defer s.Close()
		events := s.Events(t.Context())
		<-time.After(time.Second)
		slept.Store(int64(time.Hour))
		s.clock.asked.Store(-int64(time.Hour)) // the wall clock is ahead
		woken := time.Now()
		for ev := range events {
			if _, ok := ev.(Expired); ok {
				break
			}
		}
		if took := time.Since(woken); took > timeout/9 {
			t.Errorf("told %v after the machine woke", took)
		}
	})
}
