//go:build !race

package wire_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/session/internal/wire"
)

func TestCostOfEncoding(t *testing.T) {
	b := make([]byte, 0, 4096)
	for _, tt := range requests() {
		check.Equal(t, testing.AllocsPerRun(10, func() { b = wire.AppendRequest(b[:0], 17, &tt.r) }), 0, "allocations of a request", tt.r.Op)
	}
	for _, tt := range replies() {
		check.Equal(t, testing.AllocsPerRun(10, func() { b = wire.AppendReply(b[:0], wire.Header{}, tt.op, &tt.r) }), 0, "allocations of a reply to", tt.op)
	}
}

func TestCostOfReplies(t *testing.T) {
	want := map[wire.Op]float64{
		wire.OpCreate:  1, // the path
		wire.OpCreate2: 1,
		wire.OpDelete:  0,
		wire.OpExists:  0,
		wire.OpGetData: 0,
		wire.OpSetData: 0,
		wire.OpPing:    0,
		wire.OpCheck:   0,
	}
	seen := make(map[wire.Op]bool)
	for _, tt := range replies() {
		limit, ok := want[tt.op]
		if !ok {
			continue
		}
		seen[tt.op] = true
		r := tt.r
		r.Path = "/plain"
		body := wire.AppendReply(nil, wire.Header{}, tt.op, &r)[4:]
		n := testing.AllocsPerRun(10, func() {
			var r wire.Reply
			_, rest, err := wire.ParseHeader(body)
			if err != nil || wire.ParseReply(tt.op, opsOf(tt.ops), rest, &r) != nil {
				panic("malformed")
			}
		})
		check.True(t, n == limit, "a reply to %v allocates %v times, want %v", tt.op, n, limit)
	}
	check.Equal(t, len(seen), len(want), seen)
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A count is not believed.
func TestCostOfLies(t *testing.T) {
	hasten.Alone(t)
	counts := [][]byte{i32(math.MaxInt32), i32(1 << 24), i32(math.MinInt32), i32(-2)}
	const most = 64 << 10 // other goroutines allocate too
	for _, count := range counts {
		for _, tt := range replies() {
			for at := 0; at+4 <= len(tt.body); at++ {
				body := append([]byte{}, tt.body...)
				copy(body[at:], count)
				var r wire.Reply
				check.AtMost(t, allocated(func() { _ = wire.ParseReply(tt.op, opsOf(tt.ops), body, &r) }), most, tt.op, "with", count, "at", at, "allocates bytes")
			}
		}
		for _, tt := range requests() {
			for at := 0; at+4 <= len(tt.body); at++ {
				body := record(i32(17), i32(int32(tt.r.Op)), tt.body)
				copy(body[8+at:], count)
				check.AtMost(t, allocated(func() { _, _, _ = wire.ParseRequest(body) }), most, tt.r.Op, "with", count, "at", at, "allocates bytes")
			}
		}
	}
}
