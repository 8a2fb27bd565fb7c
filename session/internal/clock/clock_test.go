package clock

import (
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
				c := New()
				c.start, c.sleep = 0, func() time.Duration { return slept }
				for _, d := range tt.set {
					c.wall = c.wall.Add(-d)
					check.Equal(t, c.Now(), 0, "the age when the wall clock was set by", d)
				}
				const night = 30 * time.Minute
				slept, c.wall = night, c.wall.Add(-night)
				check.Equal(t, c.Now(), night, "the age after the night")
				slept, c.wall = 0, c.wall.Add(-time.Second) // the system fails to tell
				check.Equal(t, c.Now(), night, "and later")
				check.Equal(t, time.Until(c.Time(night+time.Minute)), time.Minute, "a minute later is in")
			})
		})
	}
}
