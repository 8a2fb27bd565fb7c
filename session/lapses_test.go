package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestCloseOutOfReach: Close returns when the lease has ended, whatever the state of the session.
func TestCloseOutOfReach(t *testing.T) {
	for _, rests := range []string{"nothing", "node", "relied", "held"} {
		for _, after := range []time.Duration{0, 3 * time.Second, 7 * time.Second, 30 * time.Second, 45 * time.Second} {
			for _, frozen := range []bool{false, true} {
				t.Run(fmt.Sprint(rests, after, frozen), func(t *testing.T) {
					kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) {
						s := w.OpenGated(session.Options{Timeout: 6 * time.Second})
						if rests != "nothing" {
							check.Have(s.Create(w.Context(), "/mine", nil, session.Ephemeral))(w)
						}
						switch rests {
						case "held":
							s.Hold()
						case "relied":
							s.Rely()
						}
						pass(time.Minute)
						if frozen {
							w.Freeze(s.ID(), zktest.ToClient)
						} else {
							s.Cut()
						}
						var story []string
						s.Subscribe(func(ev session.Event) <-chan struct{} {
							story = append(story, strings.Fields(ev.String())[0])
							return nil
						})
						pass(after)
						var late []string
						s.Subscribe(func(ev session.Event) <-chan struct{} {
							late = append(late, strings.Fields(ev.String())[0])
							return nil
						})
						pass(time.Millisecond)
						synctest.Wait()
						t.Log(after, story, late, s.State(), s.Healthy(w.Context()) != nil)
						begun := time.Now()
						s.Close()
						if took := time.Since(begun); took > max(0, 6*time.Second-after)+time.Second {
							t.Errorf("Close took %v", took)
						}
						begun = time.Now()
						s.Close()
						check.Equal(w, time.Since(begun), 0, "second close")
					})
				})
			}
		}
	}
}

// TestRelianceBehindALapse: while the servers are away for longer than the lease, a recipe begins
// to rely on a session whose answers are slow. It resumes once.
func TestRelianceBehindALapse(t *testing.T) {
	for _, latency := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprint(latency, early), func(t *testing.T) {
				kit.Run(t, zktest.Config{Tick: time.Second, Latency: latency}, func(w kit.World) {
					s := w.OpenGated(session.Options{Timeout: 6 * time.Second})
					check.Have(s.Create(w.Context(), "/mine", nil, session.Ephemeral))(w)
					pass(time.Minute)
					events := s.Events(w.Context())
					<-events
					s.Cut()
					for i := range 20 {
						pass(time.Second)
						w.Restore(w.Backup())
						if i == 12 || early && i == 2 {
							w.Cleanup(s.Rely())
						}
					}
					s.Mend()
					pass(time.Minute)
					n := 0
					for _, ev := range kit.Drain(events) {
						t.Log(ev)
						n++
					}
					check.Equal(w, n, 2, "events")
					check.Must(w, s.Sync(w.Context(), "/"))
				})
			})
		}
	}
}

// TestFreshRequest: a request that is made when Lapsed is heard waits for the connection, and is
// done.
func TestFreshRequest(t *testing.T) {
	for _, relies := range []bool{true, false} {
		t.Run(fmt.Sprint(relies), func(t *testing.T) {
			kit.Run(t, zktest.Config{Tick: time.Second, Latency: time.Millisecond}, func(w kit.World) {
				s := w.OpenGated(session.Options{Timeout: 6 * time.Second})
				check.Have(s.Create(w.Context(), "/a", nil, session.Ephemeral))(w)
				rest, free := func() {}, s.Hold()
				if relies {
					rest = s.Rely()
				}
				pass(time.Minute)
				answers := make(chan error, 1)
				s.Subscribe(func(ev session.Event) <-chan struct{} {
					if _, is := ev.(session.Lapsed); is {
						free()
						rest()
						s.Async(0).Set("/a", []byte("fresh"), session.AnyVersion, func(_ *session.Stat, err error) { answers <- err })
					}
					return nil
				})
				w.Freeze(s.ID(), zktest.Both)
				s.Refuse()
				for range 20 {
					pass(time.Second)
				}
				w.Thaw(s.ID())
				s.Mend()
				err := <-answers
				t.Log(err)
				check.False(w, err != nil && strings.Contains(err.Error(), session.ErrLapsed.Error()), "a request that was made behind the lapse fails: %v", err)
			})
		})
	}
}

// TestOlderServers: servers come back with older data, and a session on which nothing rests: it is
// over in the end, whether or not the servers know it.
func TestOlderServers(t *testing.T) {
	for _, rests := range []string{"nothing", "node", "relied", "held"} {
		for _, known := range []bool{true, false} {
			for _, replicas := range []int{1, 3} {
				t.Run(fmt.Sprint(rests, known, replicas), func(t *testing.T) {
					kit.Run(t, zktest.Config{Tick: time.Second, Replicas: replicas}, func(w kit.World) {
						before := w.Backup()
						s := w.OpenGated(session.Options{Timeout: 6 * time.Second})
						if known {
							before = w.Backup()
						}
						check.Have(s.Create(w.Context(), "/a", nil, session.Persistent))(w)
						if rests != "nothing" {
							check.Have(s.Create(w.Context(), "/mine", nil, session.Ephemeral))(w)
						}
						for range 20 {
							check.Have(s.Set(w.Context(), "/a", nil, session.AnyVersion))(w)
						}
						switch rests {
						case "held":
							w.Cleanup(s.Hold())
						case "relied":
							w.Cleanup(s.Rely())
						}
						id := s.ID()
						events := s.Events(w.Context())
						<-events
						w.Restore(before)
						begun := time.Now()
						ctx, cancel := context.WithTimeout(w.Context(), 5*time.Minute)
						defer cancel()
						var err error
						for range 100 {
							if _, err = s.Create(ctx, "/b", nil, session.Persistent); err == nil {
								break
							}
						}
						t.Log(time.Since(begun), err, s.ID() == id, kit.Drain(events))
						if time.Since(begun) > 30*time.Second {
							t.Errorf("it takes too long")
						}
					})
				})
			}
		}
	}
}

// TestGoneOnWithoutUs: while a session has lapsed, the servers come back with older data, and go on
// beyond what it has seen. It lives on, and what it follows is read anew.
func TestGoneOnWithoutUs(t *testing.T) {
	kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) {
		s := w.OpenGated(session.Options{Timeout: 6 * time.Second})
		check.Have(s.Create(w.Context(), "/a", []byte("old"), session.Persistent))(w)
		before, id := w.Backup(), s.ID()
		check.Have(s.Set(w.Context(), "/a", []byte("new"), session.AnyVersion))(w)
		var read []string
		s.Async(0).Follow("/a", session.AspectData, true, func(r session.Reading, err error) {
			read = append(read, fmt.Sprint(string(r.Data), err))
		})
		pass(time.Minute)
		s.Cut()
		pass(5900 * time.Millisecond)
		w.Restore(before)
		other := w.OpenGated(session.Options{Timeout: 6 * time.Second})
		for range 10 {
			check.Have(other.Set(w.Context(), "/", nil, session.AnyVersion))(w)
		}
		s.Mend()
		pass(5 * time.Second)
		synctest.Wait()
		check.Equal(w, s.ID(), id, "the session")
		check.Equal(w, fmt.Sprint(read), "[new<nil> old<nil>]", "the readings")
	})
}
