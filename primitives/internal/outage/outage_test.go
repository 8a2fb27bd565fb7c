package outage

import (
	"flag"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var earlier = flag.Int("outage.earlier", 0, "how many requests before the outage a reply may be lost; 5 is a campaign")

// An outage, which is longer than a session lives, and the most requests that a session gives up in
// one. Those that wait are given up once or twice each: with their connection, and with their
// session.
const (
	timeout = 6 * time.Second
	lasts   = time.Minute
	most    = 40

	// The most processor time for an outage of a minute: it takes some milliseconds. A handle that
	// never sleeps takes all the time that there is, as the clock of a bubble stands meanwhile.
	busy = 250 * time.Millisecond
)

// A counter counts the requests that were answered, or given up. In an outage each takes a moment,
// because the clock of a bubble stands while anything is busy.
type counter struct {
	session.NopObserver

	requests atomic.Int64
	slow     atomic.Bool
}

// Request implements [session.Observer].
func (c *counter) Request(string, time.Duration, error) {
	if c.requests.Add(1); c.slow.Load() {
		<-time.After(time.Millisecond)
	}
}

// A play is a story under way.
type play struct {
	kit.World

	near, far *session.Session
	calls     sync.WaitGroup
}

// begin has f, which ends with the context, run beside the others.
func (p *play) begin(f func()) { p.calls.Go(f) }

// pause lets some time pass, unless all is over.
func (p *play) pause() {
	const short = 200 * time.Millisecond
	select {
	case <-time.After(short):
	case <-p.Context().Done():
	}
}

// A fate is what becomes of the request at which an outage begins.
type fate struct {
	name string
	plan func(srv *zktest.Server, m zktest.Match)
}

var (
	requestLost = fate{"the request is lost", func(srv *zktest.Server, m zktest.Match) { srv.DropRequest(m) }}
	replyLost   = fate{"the reply is lost", func(srv *zktest.Server, m zktest.Match) { srv.DropReply(m) }}
)

// TestNothingSpins: an outage begins at any request of a story, and when that has come to rest.
// While it lasts, no recipe makes more requests than those that were on the way, nor is it busy.
func TestNothingSpins(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(stories)) {
		t.Run(name, func(t *testing.T) {
			// In a sample the fates take turns.
			stride, seed := hasten.Sized(hasten.Usually(1, 3), 5), int(hasten.Seed()%100)
			outages, worst, busiest := 0, int64(0), time.Duration(0)
			for i, which := range []fate{requestLost, replyLost} {
				for before := range *earlier + 1 {
					for skip, hit := (i+seed)%stride, true; hit; skip += stride {
						kit.Run(t, zktest.Config{Latency: time.Millisecond, Replicas: 2}, func(w kit.World) {
							var made int64
							var used time.Duration
							hit, made, used = outage(w, stories[name], which, skip, before)
							if busiest = max(busiest, used); used > busy {
								t.Errorf("%s, number %d, after %d others: busy for %v while no server answers", which.name, skip, before, used)
							}
							if outages, worst = outages+1, max(worst, made); made > most {
								t.Errorf("%s, number %d, after %d others: %d requests while no server answers", which.name, skip, before, made)
							}
						})
					}
				}
			}
			t.Logf("%d outages, at most %d requests in one, and %v of the processor", outages, worst, busiest)
		})
	}
}

// outage plays a story until the request behind the first skip ones, and reports whether there was
// one, how many requests were made in the outage, and for how long the process was busy. Before is
// how many requests earlier the reply to one was lost; 0 for none.
func outage(w kit.World, story func(p *play), which fate, skip, before int) (hit bool, made int64, used time.Duration) {
	c := &counter{}
	opts := session.Options{Timeout: timeout, ServerTick: 100 * time.Millisecond}
	p := &play{World: w, far: w.Open(opts)}
	opts.Observer = c
	near := w.OpenGated(opts)
	p.near = near.Session
	w.Cleanup(p.calls.Wait) // the context of the test has ended then

	start := sync.OnceFunc(func() { p.begin(func() { story(p) }) })
	lose := func(which fate, skip int) bool {
		const rests = 20 * time.Second
		which.plan(w.Server, zktest.Match{Session: near.ID(), Skip: skip})
		start()
		return w.AwaitFault(rests) == nil
	}
	if before > 0 {
		hit = lose(replyLost, skip)
		for !connected(near.State()) {
			<-time.After(time.Millisecond)
		}
		skip = before - 1
	}
	near.Refuse()
	switch again := lose(which, skip); {
	case !again: // the story has come to rest
		w.ClearFaults()
		near.Cut()
	case before == 0:
		hit = true
	}
	had, began := c.requests.Load(), cpu()
	c.slow.Store(true)
	<-time.After(lasts)
	made, used = c.requests.Load()-had, cpu()-began
	near.Mend()
	<-time.After(timeout)
	synctest.Wait()
	check.True(w, connected(near.State()), "after the outage: %v", near.State())
	return hit, made, used
}

// connected reports whether a session has a connection.
func connected(state session.Event) bool {
	switch state.(type) {
	case session.Connected, session.Resumed:
		return true
	case session.Suspended, session.Lapsed, session.Expired, session.Closed:
	}
	return false
}
