package session_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session"
)

// TestReportOnItsWay models a follower. The leader pings it every half a tick. The follower
// answers each ping with the sessions that it has heard since the last one, and the leader
// counts from when that arrives. Messages between the two arrive in order.
//
// For a moment nothing gets from the leader to the follower; then nothing gets back any
// more. A sync that was sent in between is answered, behind the ping that was held up.
// The report for which that ping asked never arrives.
func TestReportOnItsWay(t *testing.T) {
	const timeout, tick = 12 * time.Second, 2 * time.Second
	for _, committed := range []bool{false, true} {
		for _, held := range []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second} {
			worst := -timeout
			for begin := time.Duration(0); begin < 2*time.Second; begin += hasten.Sized[time.Duration](hasten.Usually[time.Duration](250, 500), 750) * time.Millisecond {
				for phase := time.Duration(0); phase < time.Second; phase += hasten.Sized(500*time.Millisecond, time.Second) {
					worst = max(worst, reportOnItsWay(t, timeout, tick, phase, time.Minute+begin, held, committed))
				}
			}
			t.Logf("held up for %v, committed %v: told %v before the leader may expire the session", held, committed, -worst)
			check.True(t, worst <= 0, "held up for %v, committed %v: told %v too late", held, committed, worst)
		}
	}
}

// reportOnItsWay returns by how much the session counts itself as lost too late.
func reportOnItsWay(t *testing.T, timeout, tick, phase, holdAt, held time.Duration, committed bool) (late time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		const delay = time.Millisecond
		begun := time.Now()
		cutAt := begun.Add(holdAt + held - delay)
		cut := func() bool { return !time.Now().Before(cutAt) } // from the follower to the leader
		down := func() {                                        // from the leader to the follower
			arrives := time.Now().Add(delay)
			if since := time.Since(begun); since >= holdAt && since < holdAt+held {
				arrives = begun.Add(holdAt + held)
			}
			<-time.After(time.Until(arrives))
		}
		var mu sync.Mutex
		heard := false        // by the follower, since its last report
		counted := time.Now() // what the leader counts from
		ctx, cancel := context.WithCancel(t.Context())
		defer func() {
			cancel()
			<-time.After(10 * time.Second) // until the model's goroutines are gone
		}()
		go func() { // the leader
			for {
				<-time.After(tick / 2)
				if ctx.Err() != nil {
					return
				}
				go func() {
					down() // a ping
					mu.Lock()
					report := heard && !cut()
					heard = false
					mu.Unlock()
					<-time.After(delay)
					if report {
						mu.Lock()
						counted = time.Now()
						mu.Unlock()
					}
				}()
			}
		}()
		type job struct {
			conn    net.Conn
			xid, op int32
		}
		jobs := make(chan job, 1000)
		go func() { // the answers of the follower to one session are in order
			for {
				var j job
				select {
				case j = <-jobs:
				case <-ctx.Done():
					return
				}
				if j.op != opSync && j.op != opMulti {
					const noNode = -101
					reply(j.conn, j.xid, j.op, noNode)
					continue
				}
				if cut() {
					return
				}
				<-time.After(delay)
				down()
				reply(j.conn, j.xid, j.op, 0)
			}
		}()
		server := &scripted{timeout: timeout}
		server.answer = func(s *scripted, conn net.Conn, xid, op int32) bool {
			mu.Lock()
			heard = true
			mu.Unlock()
			s.refuse.Store(cut()) // no other server is there
			jobs <- job{conn, xid, op}
			return true
		}
		<-time.After(phase + 50*time.Millisecond)
		trust := session.LeaseAnswered
		if committed {
			trust = session.LeaseCommitted
		}
		s := mustOpen(t, []string{"scripted:1"}, &session.Options{Timeout: timeout, ServerTick: tick, Lease: trust, Dialer: server.dial})
		defer s.Rely()()
		go func() {
			for ctx.Err() == nil {
				s.Async(0).Exists("/a", func(*session.Stat, error) {})
				<-time.After(100 * time.Millisecond)
			}
		}()
		await[session.Expired](t, s.Events(ctx))
		mu.Lock()
		defer mu.Unlock()
		late = time.Since(counted.Add(timeout)) // at the earliest: a real leader rounds up to a tick
	})
	return late
}
