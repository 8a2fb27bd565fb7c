// Package window bounds the requests of callers that are in flight on one connection, so that a
// heartbeat never waits long behind them.
package window

import (
	"time"

	"github.com/zkactors/zkactors/session/internal/wire"
)

// The limits of a window. MostRequests is well below the thousand requests at which a server stops
// reading.
const (
	MostRequests  = 512
	firstRequests = 64
	leastRequests = 8

	mostBytes  = 64 << 20
	firstBytes = 256 << 10
	leastBytes = 64 << 10
	largeBytes = 128 << 10 // more than a read costs whose reply is unknown
)

// A Window is a pure machine, like the congestion window of a transport. Requests that wait for
// each other's answers are a queue, in the server or on the way. The window grows while answers
// come in time, and shrinks in proportion when the queue takes longer than the target. Bytes count
// in both directions. A reply is expected to be as long as earlier replies to its operation.
type Window struct {
	target time.Duration // how long the requests in flight may make one more wait

	requests, bytes int  // the limits now
	limits          bool // a request has had to wait because of them

	inFlight, load int // requests, and bytes of requests and expected replies

	took  time.Duration // the answer time of the newest answer
	freed time.Duration // when nothing was in flight any more

	pace [2]float64 // nanoseconds for each byte of the newest large request, and of the newest large reply; 0 before

	shortest [2]time.Duration // answer times: of this period, and of the one before
	turned   time.Duration    // when this period began
	shrunk   time.Duration    // when the limits shrank; earlier requests say nothing new

	replies Replies
}

// Replies has the bytes to expect of the reply to each operation. One map serves all connections of
// an epoch, one after the other.
type Replies map[wire.Op]int

// New returns the window of a connection whose handshake took the given time. It records the sizes
// of replies in the map.
func New(target, handshake, now time.Duration, replies Replies) Window {
	return Window{
		target: target, requests: firstRequests, bytes: firstBytes,
		shortest: [2]time.Duration{handshake, handshake}, turned: now, shrunk: now,
		replies: replies,
	}
}

// unknown is the number of bytes to expect of the reply to a read before the first reply.
const unknown = firstBytes / 4

// Cost returns the bytes to expect of a request and its reply.
func (w *Window) Cost(op wire.Op, request int) int { return request + w.expected(op) }

// expected returns the bytes to expect of the reply to an operation.
func (w *Window) expected(op wire.Op) int {
	reply, known := w.replies[op]
	if !known && (op == wire.OpGetData || op == wire.OpGetChildren2) {
		return unknown
	}
	return reply
}

// Shortest returns the shortest answer time of the last while, which is at least a period.
func (w *Window) Shortest() time.Duration { return min(w.shortest[0], w.shortest[1]) }

// Room returns the number of bytes that may go out now with one more request; 0 if no request may.
func (w *Window) Room() int {
	room := w.bytes - w.load
	if w.inFlight >= w.requests {
		room = 0
	}
	if room <= 0 {
		w.limits = true
	}
	return max(room, 0)
}

// Target returns how long the requests in flight may make one more wait.
func (w *Window) Target() time.Duration { return w.target }

// Empty reports whether nothing is in flight.
func (w *Window) Empty() bool { return w.inFlight == 0 }

// Admits reports whether a request may go out now. A request that is alone always may.
func (w *Window) Admits(cost int) bool {
	if w.inFlight == 0 || cost <= w.Room() {
		return true
	}
	w.limits = true
	return false
}

// Pause returns until when a request that finds nothing in flight may wait for heartbeats that are
// answered right behind the newest answer. It is 0 if that was not long, compared to the usual
// answer to a heartbeat. The pause is a small part of what the answer took, so it costs little
// throughput.
func (w *Window) Pause(usual time.Duration) (until time.Duration) {
	const part = 16
	if w.inFlight > 0 || w.took-usual <= w.target {
		return 0
	}
	return w.freed + w.took/part
}

// Long reports whether a request that goes out alone, with its reply, may take longer than the
// requests in flight should.
func (w *Window) Long(op wire.Op, request int) bool {
	for way, n := range [...]int{request, w.expected(op)} {
		if n >= largeBytes && (w.pace[way] == 0 || float64(n)*w.pace[way] > float64(w.target)) {
			return true
		}
	}
	return false
}

// A Request has what a window needs to know about a request in flight.
type Request struct {
	Op   wire.Op
	Size int // its bytes
	Cost int // with the bytes to expect of the reply
	Sent time.Duration

	unqueued bool // little was in flight ahead of it
}

// Send counts a request that goes out now.
func (w *Window) Send(op wire.Op, request int, now time.Duration) Request {
	r := Request{Op: op, Size: request, Cost: w.Cost(op, request), Sent: now, unqueued: w.inFlight < leastRequests && w.load < leastBytes}
	w.inFlight++
	w.load += r.Cost
	return r
}

// Answered counts an answer of the given bytes, which came now.
func (w *Window) Answered(r Request, reply int, now time.Duration) {
	w.expect(r.Op, reply)
	took := now - r.Sent
	w.compare(took, now, r.unqueued && r.Size+reply < leastBytes)
	inFlight, load := w.inFlight, w.load
	w.inFlight--
	w.load -= r.Cost
	for way, n := range [...]int{r.Size, reply} {
		if n >= leastBytes/2 {
			w.pace[way] = float64(took) / float64(n)
		}
	}
	if w.took = took; w.inFlight == 0 {
		w.freed = now
	}
	queued := took - w.Shortest()
	switch {
	case queued > w.target && r.Sent >= w.shrunk:
		share := float64(w.target) / float64(queued)
		w.requests = max(leastRequests, min(w.requests, int(float64(inFlight)*share)))
		w.bytes = max(leastBytes, min(w.bytes, int(float64(load)*share)))
		w.shrunk = now
	case queued <= w.target/4 && w.limits: // answers come late: it has doubled when this is seen
		w.requests = min(w.requests+1, MostRequests)
		w.bytes = min(w.bytes+max(r.Size+reply, 1<<10), mostBytes)
	}
	w.limits = false
}

// Beat counts the answer to a heartbeat that found nothing in flight. If all requests are large,
// only heartbeats show how long the way is.
func (w *Window) Beat(took, now time.Duration) { w.compare(took, now, true) }

// expect learns how long the replies to an operation are. It forgets long ones slowly.
func (w *Window) expect(op wire.Op, reply int) {
	if known := w.replies[op]; reply >= known {
		w.replies[op] = reply
	} else {
		w.replies[op] = known - (known-reply+7)/8
	}
}

// compare keeps the shortest answer time of two periods, so that a way that has become longer
// counts after that. A request that stood in a queue, or has many bytes, shows nothing about the
// way, unless it was fast: else the window would take its own queue for the way, and grow without
// end.
func (w *Window) compare(took, now time.Duration, unqueued bool) {
	const targets = 40 // in a period
	if unqueued && now-w.turned > targets*w.target {
		w.shortest[1], w.shortest[0], w.turned = w.shortest[0], took, now
	}
	w.shortest[0] = min(w.shortest[0], took)
}
