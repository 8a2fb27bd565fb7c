package window

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

const ms = time.Millisecond

// A way serves requests one after the other, behind a latency. It is the model that the window is
// tested against.
type way struct {
	t       *testing.T
	now     time.Duration
	latency time.Duration
	rate    float64 // bytes a second
	each    time.Duration
	free    time.Duration // when all that was sent is served

	window Window
	flying []flight // in the order of their answers
}

type flight struct {
	r     Request
	reply int
	at    time.Duration
}

func newWay(t *testing.T, latency time.Duration, rate float64, each time.Duration) *way {
	return &way{
		t: t, latency: latency, rate: rate, each: each,
		window: New(500*ms, latency, 0, make(Replies)),
	}
}

// run has callers ask for replies of the given size for some time, and returns how many were
// answered, and how long a heartbeat would have waited behind others at worst, after the first
// second.
func (w *way) run(callers, request, reply int, d time.Duration) (answered int, worst time.Duration) {
	end, begun := w.now+d, w.now
	waiting := callers - len(w.flying)
	for w.now < end {
		for waiting > 0 && w.window.Admits(w.window.Cost(wire.OpGetData, request)) {
			r := w.window.Send(wire.OpGetData, request, w.now)
			w.free = max(w.free, w.now) + w.each + time.Duration(float64(request+reply)/w.rate*float64(time.Second))
			w.flying = append(w.flying, flight{r, reply, w.free + w.latency})
			waiting--
		}
		if w.now-begun > time.Second {
			worst = max(worst, w.free-w.now)
		}
		f := w.flying[0]
		w.flying = w.flying[1:]
		w.now = max(w.now, f.at)
		w.window.Answered(f.r, f.reply, w.now)
		waiting++
		answered++
	}
	return answered, worst
}

// TestWindow: what is in flight takes no longer than the target, and the way is never idle for
// long.
func TestWindow(t *testing.T) {
	for _, tt := range []struct {
		name                    string
		latency                 time.Duration
		rate                    float64
		each                    time.Duration
		callers, request, reply int
	}{
		{"a local server", ms, 1e9, 50 * time.Microsecond, 512, 100, 100},
		{"a slow server", ms, 1e9, 5 * ms, 512, 100, 100},
		{"a far server", 100 * ms, 1e9, 50 * time.Microsecond, 512, 100, 100},
		{"large requests, slow uplink", 2 * ms, 1e6, 0, 512, 8 << 10, 100},
		{"large replies, slow link", 2 * ms, 8e6, 0, 64, 100, 512 << 10},
		{"large replies, far", 200 * ms, 8e6, 0, 64, 100, 64 << 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWay(t, tt.latency, tt.rate, tt.each)
			const length = 4 * time.Minute // many periods: the queue must not be taken for the way
			answered, worst := w.run(tt.callers, tt.request, tt.reply, length)
			most := length.Seconds() / (tt.each.Seconds() + float64(tt.request+tt.reply)/tt.rate)
			most = min(most, length.Seconds()/tt.latency.Seconds()*float64(min(tt.callers, MostRequests)))
			check.AtLeast(t, float64(answered)/most, 0.95, "share of what is possible, answered", answered)
			check.AtMost(t, worst, 510*ms, "a heartbeat waits behind others")
		})
	}
}

// TestWindowAfterAChange: a way that becomes slow, longer or fast again is followed.
func TestWindowAfterAChange(t *testing.T) {
	w := newWay(t, ms, 1e9, 50*time.Microsecond)
	w.run(512, 100, 100, 10*time.Second)
	w.each = 10 * ms
	w.run(512, 100, 100, 15*time.Second) // what was in flight takes five seconds of it
	if _, worst := w.run(512, 100, 100, 30*time.Second); worst > 510*ms {
		t.Errorf("on a slow server, a heartbeat waits %v", worst)
	}
	w.each = 50 * time.Microsecond
	w.run(512, 100, 100, time.Second)
	if answered, _ := w.run(512, 100, 100, time.Second); answered < 19_000 {
		t.Errorf("when it is fast again, %d are answered in a second", answered)
	}
	w.latency = time.Second
	w.run(512, 100, 100, time.Minute)
	if answered, _ := w.run(512, 100, 100, 10*time.Second); answered < 4_500 {
		t.Errorf("when it is far, %d are answered in ten seconds", answered)
	}
}

// TestOneAlways: one request may always go out, of whatever size, and nothing is left when all are
// answered.
func TestOneAlways(t *testing.T) {
	w := New(500*ms, ms, 0, make(Replies))
	rng := rand.New(rand.NewPCG(3, 4))
	now := time.Duration(0)
	var flying []Request
	for range 20_000 {
		now += time.Duration(rng.Int64N(int64(2 * ms)))
		if size := rng.IntN(1 << (4 + rng.IntN(18))); w.Admits(w.Cost(wire.OpGetData, size)) && rng.IntN(3) > 0 {
			flying = append(flying, w.Send(wire.OpGetData, size, now))
		} else if len(flying) > 0 {
			now += time.Duration(rng.Int64N(int64(time.Second)))
			w.Answered(flying[0], rng.IntN(1<<(4+rng.IntN(18))), now)
			flying = flying[1:]
		} else if w.load != 0 || w.inFlight != 0 {
			t.Fatalf("nothing is in flight, and %d requests of %d bytes are counted", w.inFlight, w.load)
		}
		check.Require(t, len(flying) <= MostRequests && (len(flying) != 0 || w.Admits(64<<20)), "%d are in flight", len(flying))
	}
}

// TestLongReplies: a reply that keeps the way full for long is not taken for the way. However many
// callers wait, one is in flight then, also after many periods.
func TestLongReplies(t *testing.T) {
	w := newWay(t, ms, 500<<10, 0)
	w.run(6, 100, 1<<20, 10*time.Second) // before the first reply, its length is unknown
	if _, worst := w.run(6, 100, 1<<20, 4*time.Minute); worst > 2100*ms {
		t.Errorf("a heartbeat waits %v behind replies of 2 s", worst)
	}
}

// TestBeat: heartbeats tell that the way has become longer where all requests are large.
func TestBeat(t *testing.T) {
	w := New(500*ms, ms, 0, make(Replies))
	for now := time.Duration(0); now < 5*time.Minute; now += 10 * time.Second {
		r := w.Send(wire.OpGetData, 100, now)
		w.Answered(r, 1<<20, now+3*time.Second)
		w.Beat(time.Second, now+4*time.Second)
	}
	check.Equal(t, min(w.shortest[0], w.shortest[1]), time.Second, "the way takes, want that of the heartbeats")
}

// TestPause: the pause behind an answer that took long is a part of that, and there is none while
// something is in flight, nor behind one that took about as long as a heartbeat.
func TestPause(t *testing.T) {
	w := New(500*ms, ms, 0, make(Replies))
	first, second := w.Send(wire.OpGetData, 100, 0), w.Send(wire.OpGetData, 100, 0)
	w.Answered(first, 1<<20, 1600*ms)
	check.Equal(t, w.Pause(ms), 0, "with a request in flight, the pause is until")
	w.Answered(second, 1<<20, 3200*ms)
	check.Equal(t, w.Pause(ms), 3400*ms, "behind an answer of 3.2 s, the pause is until")
	check.Equal(t, w.Pause(2700*ms), 0, "if heartbeats take 2.7 s, the pause is until")
}

// TestLong: what has many bytes is taken for long until an answer shows how fast its direction is.
func TestLong(t *testing.T) {
	w := New(500*ms, ms, 0, make(Replies))
	check.True(t, !w.Long(wire.OpGetData, 200), "each first read is long")
	check.True(t, w.Long(wire.OpSetData, 1<<20) && !w.Long(wire.OpSetData, 1<<10), "before an answer, a large request is not long, or a small one is")
	w.Answered(w.Send(wire.OpGetData, 100, 0), 1<<20, 400*ms)
	check.True(t, !w.Long(wire.OpGetData, 100), "at 2.5 MiB/s, a reply of 1 MiB is long")
	w.Answered(w.Send(wire.OpGetData, 100, 0), 2<<20, 800*ms)
	check.True(t, w.Long(wire.OpGetData, 100), "at 2.5 MiB/s, a reply of 2 MiB is not long")
	check.True(t, w.Long(wire.OpSetData, 1<<20), "replies tell how fast requests are")
	w.Answered(w.Send(wire.OpSetData, 1<<20, 0), 100, 400*ms)
	check.True(t, !w.Long(wire.OpSetData, 1<<20) && w.Long(wire.OpSetData, 2<<20), "at 2.5 MiB/s, a request of 1 MiB is long, or one of 2 MiB is not")
}
