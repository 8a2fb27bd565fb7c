package config_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// lagging runs f with n sessions on three replicas in memory, of which two are behind the
// leader, as many on each.
func lagging(t *testing.T, n int, f func(t *testing.T, srv *zktest.Server, s ...*session.Session)) {
	t.Helper()
	config := zktest.Config{Tick: time.Second, Replicas: 3, Lag: 700 * time.Millisecond, Latency: 10 * time.Millisecond}
	kit.Run(t, config, func(w kit.World) {
		all := make([]*session.Session, n)
		for i := range all {
			all[i] = w.OpenFrom(i, session.Options{Timeout: 12 * time.Second, ServerTick: time.Second})
			defer all[i].Close()
		}
		f(w.T, w.Server, all...)
	})
}

// A server that is behind is no reason to count twice, or to forget what others counted.
func TestCounterOnLaggingReplicas(t *testing.T) {
	lagging(t, 6, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		served := map[int]int{}
		for _, s := range s {
			at, _ := srv.Serving(s.ID())
			served[at]++
		}
		confirmed, unknown := count(t, s, 50, func(i int) {
			switch victim := s[i%6].ID(); {
			case i%7 == 0:
				srv.DropReply(zktest.Match{Op: zktest.OpMulti, Session: victim})
			case i%11 == 0:
				srv.DropRequest(zktest.Match{Op: zktest.OpMulti, Session: victim})
			case i%13 == 0:
				srv.Disconnect(victim) // to another replica, perhaps
			}
		})
		srv.ClearFaults()
		check.True(t, confirmed == 300 && unknown == 0, "%d confirmed, %d unknown, of 300", confirmed, unknown)
		v := open(t, s[0], "/app/counter", config.JSON[int], &config.Options{Sync: true})
		got, _, err := v.Get(t.Context())
		check.True(t, err == nil && got == 300, "counted to %d (%v), want exactly 300", got, err)
		check.Equal(t, len(served), 3, "servers of the sessions")
		t.Logf("sessions by replica: %v", served)
	})
}

// With Options.Sync, a value and a transaction are as new as their call, on servers that are
// behind.
func TestSync(t *testing.T) {
	lagging(t, 3, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		check.Must(t, counter(t, s[0]).Set(t.Context(), 1))
		kit.Pass(time.Minute)
		check.Must(t, counter(t, s[0]).Set(t.Context(), 2))
		read := map[bool]int{}
		for _, sync := range []bool{false, true} {
			for _, s := range s[1:] {
				got, _, err := open(t, s, "/app/counter", config.JSON[int], &config.Options{Sync: sync}).Get(t.Context())
				check.OK(t, err)
				read[sync] += got
			}
		}
		check.EqualMaps(t, read, map[bool]int{false: 2, true: 4}, "the sum of what two have read, with Sync and without")

		check.Must(t, counter(t, s[0]).Set(t.Context(), 3))
		for _, s := range s[1:] {
			tr := check.Open(config.NewTransactor(s, "/app", &config.Options{Sync: true}))(t)
			check.OK(t, tr.Do(t.Context(), func(tx *config.Tx) error {
				got, err := load(tx, "counter")
				check.Equal(t, got, 3, "a transaction reads")
				return err
			}))
		}
	})
}

// No view goes back: not what is told, not the last good value, nor what Get returns, whichever
// replica the session comes to, and whether or not it expires in between.
func TestNoViewGoesBack(t *testing.T) {
	lagging(t, 4, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		writer := counter(t, s[0])
		check.Must(t, writer.Set(t.Context(), 0))
		r := rand.New(rand.NewPCG(4, 2))
		stop := make(chan struct{})
		var readers sync.WaitGroup
		ups := make([]int, len(s))
		for i, s := range s[1:] {
			v := counter(t, s)
			readers.Go(func() { // what is told, beside what Last has
				told := -1
				for ev := range v.Events() {
					changed, is := ev.(config.Changed[int])
					switch {
					case is && changed.Value < told:
						t.Errorf("told %d after %d", changed.Value, told)
					case is:
						told = changed.Value
						ups[i]++
						if last, _, _ := v.Last(); last < told {
							t.Errorf("the last one is %d, and %d was told", last, told)
						}
					case ev == config.Event(config.Deleted{}) && told >= 0:
						t.Errorf("%v after %d", ev, told)
					}
				}
				check.Equal(t, told, 400, "the last that was told is")
			})
			readers.Go(func() { // what is read, which is at least what Last had before
				read := -1
				for {
					last, _, _ := v.Last()
					got, _, err := v.Get(t.Context())
					switch {
					case errors.Is(err, session.ErrNoNode) && read < 0 && last == 0: // not yet
					case err != nil:
						t.Error(err)
					case got < max(read, last):
						t.Errorf("read %d, after %d was read and %d seen", got, read, last)
					default:
						read = got
					}
					select {
					case <-stop:
						v.Close()
						return
					case <-time.After(70 * time.Millisecond):
					}
				}
			})
		}
		for i := range 400 {
			check.OK(t, writer.Set(t.Context(), i+1))
			<-time.After(time.Duration(r.IntN(60)) * time.Millisecond)
			victim := s[1+r.IntN(3)].ID()
			switch r.IntN(12) {
			case 0, 1:
				srv.Disconnect(victim)
			case 2:
				srv.DropReply(zktest.Match{Op: zktest.OpGetData, Session: victim})
			case 3:
				srv.Expire(victim)
			}
		}
		srv.ClearFaults()
		kit.Pass(time.Minute)
		close(stop)
		readers.Wait()
		t.Logf("events by reader: %v", ups)
	})
}
