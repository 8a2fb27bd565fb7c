package spec_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/tlc"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// This file has TLC look at runs of real sessions, from their creation until they end, or for a
// while. The times of a run are exact: a lease ends in the microsecond of the specification, or up
// to a millisecond later, which is the shortest timer of a session.

// A life is a session with which something is held, beside a server in memory.
type life struct {
	*testing.T
	*wire
	session *session.Session
	rng     *rand.Rand
}

// at returns a moment, a part of a second from one to two.
func (l *life) at() time.Duration { return time.Second + l.upTo(time.Second) }

func (l *life) upTo(d time.Duration) time.Duration { return time.Duration(l.rng.Int64N(int64(d))) }

// rest waits, and then until no answer is awaited: what was sent before is answered.
func (l *life) rest(d time.Duration) {
	for kit.Pass(d); ; kit.Pass(time.Millisecond) {
		l.mu.Lock()
		v := l.now()
		l.mu.Unlock()
		if v.sent == v.came {
			return
		}
	}
}

// cut ends the connection; the servers are not found until they are.
func (l *life) cut() {
	l.refuse(true)
	l.srv.Disconnect(l.session.ID())
}

// await waits for a view.
func (l *life) await(is func(v view) bool) {
	for found := false; !found; kit.Pass(time.Millisecond) {
		l.mu.Lock()
		found = is(l.now())
		l.mu.Unlock()
	}
}

// awaitLapse waits until the lease has ended.
func (l *life) awaitLapse() { l.await(lapsed) }

// awaitEnd waits until the session is lost for both sides. Once the servers have given it away,
// they are found again.
func (l *life) awaitEnd() {
	l.await(given)
	l.refuse(false)
	l.srv.Thaw(0)
	l.await(lost)
}

func lapsed(v view) bool { return v.vis == "lapsed" }
func lost(v view) bool   { return v.vis == "lost" }
func given(v view) bool  { return !v.has }

// A leaseRun is what happens to a session.
type leaseRun struct {
	name  string
	short bool // with -short, too
	play  func(l *life)
	set   set // the faults that the specification may use, without lost connections
}

var leaseRuns = []leaseRun{
	{"calm", true, func(l *life) { kit.Pass(2500 * time.Millisecond) }, nil},
	{"busy", false, func(l *life) {
		for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); kit.Pass(l.upTo(200 * time.Millisecond)) {
			if l.rng.IntN(3) == 0 {
				_, err := l.session.Set(l.Context(), "/busy", nil, -1)
				check.Is(l, err, session.ErrNoNode)
				continue
			}
			_, err := l.session.Exists(l.Context(), "/")
			check.OK(l, err)
		}
	}, nil},
	{"cut and resumed", true, func(l *life) {
		kit.Pass(l.at())
		l.cut()
		kit.Pass(l.upTo(time.Second))
		l.refuse(false)
		kit.Pass(2500 * time.Millisecond)
	}, nil},
	{"cut until the lease ends", false, func(l *life) {
		kit.Pass(l.at())
		l.cut()
		l.awaitEnd()
	}, nil},
	{"cut until the lease ends, and resumed", true, func(l *life) {
		kit.Pass(l.at())
		l.cut()
		l.awaitLapse()
		l.refuse(false)
		kit.Pass(1500 * time.Millisecond)
	}, nil},
	{"cut until the lease ends, and before the next is proved", true, func(l *life) {
		kit.Pass(l.at())
		l.cut()
		l.awaitLapse()
		l.refuse(false)
		l.await(func(v view) bool { return v.vis == "connected" })
		l.cut()
		l.awaitLapse()
		l.awaitEnd()
	}, nil},
	{"cut until two leases end", false, func(l *life) {
		kit.Pass(l.at())
		for range 2 {
			l.cut()
			l.awaitLapse()
			l.refuse(false)
			kit.Pass(l.at())
		}
		l.cut()
		l.awaitEnd()
	}, nil},
	{"silent until the lease ends, and resumed", false, func(l *life) {
		kit.Pass(l.at())
		l.srv.Freeze(0, zktest.Both)
		l.awaitLapse()
		l.srv.Thaw(0)
		kit.Pass(1500 * time.Millisecond)
	}, nil},
	{"silent and resumed", false, func(l *life) {
		kit.Pass(l.at())
		l.srv.Freeze(0, zktest.Both)
		kit.Pass(time.Second + l.upTo(100*time.Millisecond)) // the session has left the server
		l.srv.Thaw(0)
		kit.Pass(2500 * time.Millisecond)
	}, nil},
	{"silent until the lease ends", false, func(l *life) {
		kit.Pass(l.at())
		l.srv.Freeze(0, zktest.Both)
		l.awaitEnd()
	}, nil},
	{"ended by decree", false, func(l *life) {
		kit.Pass(l.at())
		l.srv.Expire(l.session.ID())
		l.awaitEnd()
	}, set{"Decrees": "1"}},
	{"cut, and ended by decree", false, func(l *life) {
		kit.Pass(l.at())
		l.cut()
		kit.Pass(100 * time.Millisecond)
		l.srv.Expire(l.session.ID())
		kit.Pass(100 * time.Millisecond)
		l.refuse(false)
		l.awaitEnd()
	}, set{"Decrees": "1"}},
	{"stopped", false, func(l *life) {
		l.rest(l.at())
		thaw := l.freeze(l.session)
		kit.Pass(300*time.Millisecond + l.upTo(500*time.Millisecond))
		thaw()
		kit.Pass(2500 * time.Millisecond)
	}, set{"Freezes": "1"}},
	{"stopped for longer than the lease", true, func(l *life) {
		l.rest(l.at())
		thaw := l.freeze(l.session)
		kit.Pass(2500*time.Millisecond + l.upTo(500*time.Millisecond))
		thaw()
		l.awaitEnd()
	}, set{"Freezes": "1"}},
	{"the leader is deposed", false, func(l *life) {
		l.rest(l.at())
		l.refuse(true)
		l.depose()
		l.awaitEnd()
	}, nil},
	{"the leader is deposed, and the next one found", false, func(l *life) {
		l.rest(l.at())
		l.depose()
		kit.Pass(3500 * time.Millisecond)
	}, nil},
}

// TestLeaseTraces: runs of real sessions are behaviours of Lease.
func TestLeaseTraces(t *testing.T) {
	t.Parallel()
	c := tlc.Require(t)
	for _, r := range leaseRuns {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && !r.short {
				t.Skip("not with -short")
			}
			run := live(t, 0, r.play)
			explains(t, c, "Lease", run, faultsOf(run, r.set))
		})
	}
}

// TestDoctoredLeaseTraces: runs that no real session may have are refused.
func TestDoctoredLeaseTraces(t *testing.T) {
	t.Parallel()
	c := tlc.Require(t)
	const late = time.Millisecond + time.Microsecond
	believes := func(from func(view) bool, as string) func(run []view) {
		return func(run []view) {
			for i := slices.IndexFunc(run, from); i < len(run); i++ {
				run[i].vis, run[i].link = as, map[string]string{"suspended": "down", "connected": "open"}[as]
			}
		}
	}
	move := func(which func(view) bool, by time.Duration) func(run []view) {
		return func(run []view) { run[slices.IndexFunc(run, which)].at += by }
	}
	again := func(by time.Duration) func(run []view) {
		return func(run []view) {
			first := slices.IndexFunc(run, lapsed)
			resumed := first + slices.IndexFunc(run[first:], func(v view) bool { return v.vis == "connected" })
			move(lapsed, by)(run[resumed:])
		}
	}
	for _, d := range []struct {
		name, run string
		doctor    func(run []view)
	}{
		{"believes in what the servers have given away", "cut until the lease ends", believes(lapsed, "suspended")},
		{"lapses a microsecond early", "cut until the lease ends", move(lapsed, -time.Microsecond)},
		{"lapses late", "cut until the lease ends", move(lapsed, late)},
		{"lapses again a microsecond early", "cut until two leases end", again(-time.Microsecond)},
		{"lapses again late", "cut until two leases end", again(late)},
		{"lapses early without a proof", "cut until the lease ends, and before the next is proved", again(-time.Microsecond)},
		{"lapses late without a proof", "cut until the lease ends, and before the next is proved", again(late)},
		{"expired early", "cut until the lease ends", func(run []view) {
			const margin = 50 * time.Millisecond // by so much earlier the client counts
			run[slices.IndexFunc(run, given)].at = run[slices.IndexFunc(run, lapsed)].at + margin - time.Microsecond
		}},
		{"taken back, and given away", "cut until the lease ends", believes(lost, "connected")},
		{"resumed behind its end", "cut, and ended by decree", believes(lost, "connected")},
		{"believes when it runs again", "stopped for longer than the lease", believes(lapsed, "connected")},
		{"relies on a deposed leader", "the leader is deposed", move(lapsed, 100*time.Millisecond)},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			r := leaseRuns[slices.IndexFunc(leaseRuns, func(r leaseRun) bool { return r.name == d.run })]
			run := live(t, 0, r.play)
			faults := faultsOf(run, r.set)
			d.doctor(run)
			refuses(t, c, "Lease", run, faults)
		})
	}
}

// faultsOf adds the number of lost connections to the faults of a run. A lapse is no fault.
func faultsOf(run []view, faults set) set {
	all, cuts := set{}, 0
	maps.Copy(all, faults)
	for i := 1; i < len(run); i++ {
		if before, now := run[i-1].link, run[i].link; before != now && (now == "down" || before == "open") && run[i].vis != "lapsed" {
			cuts++
		}
	}
	all["Cuts"] = strconv.Itoa(cuts)
	return all
}

// live records the life of a session.
func live(t *testing.T, seed uint64, play func(l *life)) (run []view) {
	t.Helper()
	r := &record{}
	config := zktest.Config{Tick: 200 * time.Millisecond, Latency: latency, Committed: r.committed}
	kit.Run(t, config, func(b kit.World) {
		w := &wire{record: r, srv: b.Server}
		s := b.Open(session.Options{Timeout: 2 * time.Second, ServerTick: 200 * time.Millisecond, Dialer: w.dial})
		client.Of(s).Rely(1)
		client.Of(s).Hold(1)
		var followers sync.WaitGroup
		followers.Go(func() { r.follow(s.Events(b.Context())) })
		play(&life{T: b.T, wire: w, session: s, rng: rand.New(rand.NewPCG(seed, 37))}) //nolint:gosec // a seed repeats the faults
		synctest.Wait()
		run = r.end()
		client.Of(s).Hold(-1)
		client.Of(s).Rely(-1)
		s.Close()
		w.pumps.Wait()
		followers.Wait()
	})
	return run
}
