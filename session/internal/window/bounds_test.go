package window

import (
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// TestBounds has what happens at each bound exactly. Mutants of the bounds survived the other
// tests.
func TestBounds(t *testing.T) {
	const target = 400 * ms
	answered := func(w *Window, r Request, reply int, took time.Duration) { w.Answered(r, reply, r.Sent+took) }
	fresh := func() *Window {
		w := New(target, ms, 0, make(Replies))
		return &w
	}

	w := fresh()
	check.Equal(t, w.Cost(wire.OpGetChildren2, 10), 10+unknown, "the cost of a first list")
	check.Equal(t, w.Cost(wire.OpSetData, 10), 10, "the cost of a first write")
	check.True(t, w.Empty(), "nothing is in flight")
	r := w.Send(wire.OpSetData, 10, 0)
	check.False(t, w.Empty(), "a request is in flight")
	check.True(t, w.Admits(w.Room()), "what fills the window is admitted")
	check.False(t, w.Admits(w.Room()+1), "what does not fit is admitted")
	answered(w, r, 10, ms)
	check.True(t, w.Empty(), "it is answered")

	w = fresh()
	check.True(t, w.Room() > 0 && !w.limits, "there is room")
	w.Send(wire.OpSetData, w.Room(), 0)
	check.True(t, w.Room() == 0 && w.limits, "the window is full, which limits the next request")

	w = fresh()
	answered(w, w.Send(wire.OpSetData, leastBytes/2, 0), 10, ms)
	check.True(t, w.pace[0] > 0 && w.pace[1] == 0, "the pace of a request of that size: %v", w.pace)

	w = fresh()
	check.True(t, w.Long(wire.OpSetData, largeBytes), "before an answer, what is large may take long")
	check.False(t, w.Long(wire.OpSetData, largeBytes-1), "what is smaller is long")
	answered(w, w.Send(wire.OpGetData, 100, 0), 1<<20, target)
	check.False(t, w.Long(wire.OpGetData, 100), "a reply that takes as long as the target is long")

	w = fresh()
	for range leastRequests {
		check.True(t, w.Send(wire.OpSetData, 10, 0).unqueued, "few are ahead of it")
	}
	check.False(t, w.Send(wire.OpSetData, 10, 0).unqueued, "a request stands behind %d", leastRequests)
	w = fresh()
	w.Send(wire.OpSetData, leastBytes, 0)
	check.False(t, w.Send(wire.OpSetData, 10, 0).unqueued, "a request stands behind many bytes")
}

// TestShrinks: both limits shrink to the share of what was in flight that the target bears.
func TestShrinks(t *testing.T) {
	w := New(400*ms, ms, 0, make(Replies))
	w.requests, w.bytes = 100, 10*leastBytes
	for range 19 {
		w.Send(wire.OpSetData, leastBytes/2, 0)
	}
	w.Answered(w.Send(wire.OpSetData, leastBytes/2, 0), 0, 801*ms)
	check.Equal(t, w.requests, 10, "requests")
	check.Equal(t, w.bytes, 5*leastBytes, "bytes")
}

// TestExpectedReplies: longer replies are expected at once, shorter ones after some.
func TestExpectedReplies(t *testing.T) {
	w := New(400*ms, ms, 0, make(Replies))
	for _, reply := range []struct{ bytes, expected int }{{100, 100}, {60, 95}, {94, 94}, {94, 94}, {200, 200}} {
		w.Answered(w.Send(wire.OpGetData, 10, 0), reply.bytes, ms)
		check.Equal(t, w.Cost(wire.OpGetData, 10), 10+reply.expected, "after a reply of ", reply.bytes)
	}
}

// TestBoundsOfAnswers: what an answer changes, at each bound exactly.
func TestBoundsOfAnswers(t *testing.T) {
	const target, period = 400 * ms, 40 * 400 * ms
	for name, test := range map[string]struct {
		size, reply int
		sent, took  time.Duration
		limits      bool
		want        func(w, before Window) bool
	}{
		"it was queued for the target":                 {10, 10, 0, target + ms, false, func(w, before Window) bool { return w.requests == before.requests && w.shrunk == 0 }},
		"it was queued for longer":                     {10, 10, 0, target + 2*ms, false, func(w, before Window) bool { return w.requests < before.requests && w.shrunk == target+2*ms }},
		"it was queued for a quarter, and others wait": {10, 10, 0, target/4 + ms, true, func(w, before Window) bool { return w.requests == before.requests+1 && !w.limits }},
		"it was queued for longer than a quarter":      {10, 10, 0, target/4 + 2*ms, true, func(w, before Window) bool { return w.requests == before.requests && !w.limits }},
		"it is faster than all before":                 {10, 10, 0, ms / 2, false, func(w, _ Window) bool { return w.shortest[0] == ms/2 && w.shortest[1] == ms }},
		"a period ends":                                {10, 10, period, 2 * ms, false, func(w, _ Window) bool { return w.shortest == [2]time.Duration{2 * ms, ms} && w.turned == period+2*ms }},
		"a period has not ended":                       {10, 10, period - 2*ms, 2 * ms, false, func(w, _ Window) bool { return w.shortest == [2]time.Duration{ms, ms} && w.turned == 0 }},
		"it is too large to end a period":              {10, leastBytes - 10, period, 2 * ms, false, func(w, _ Window) bool { return w.shortest == [2]time.Duration{ms, ms} && w.turned == 0 }},
		"it is just small enough":                      {10, leastBytes - 11, period, 2 * ms, false, func(w, _ Window) bool { return w.turned == period+2*ms }},
	} {
		w := New(target, ms, 0, make(Replies))
		r := w.Send(wire.OpSetData, test.size, test.sent)
		w.limits = test.limits
		before := w
		w.Answered(r, test.reply, test.sent+test.took)
		check.True(t, test.want(w, before), "%s: %+v", name, w)
	}
}
