package nodes

import "fmt"

// A Latch is the record of a latch: how many arrivals open it, and how many have come.
type Latch struct{ N, Arrived int }

// latchLayout is the record of a latch as text.
const latchLayout = "zkactors latch %d %d"

// The nodes of a function that runs once, under its path.
const (
	Outcome = "outcome" // what it has returned
	Runners = "runners" // the line of those that want to run it
)

// Bytes returns the record.
func (l Latch) Bytes() []byte { return fmt.Appendf(nil, latchLayout, l.N, l.Arrived) }

// ParseLatch reads the record of a latch.
func ParseLatch(data []byte) (l Latch, ok bool) {
	_, err := fmt.Sscanf(string(data), latchLayout, &l.N, &l.Arrived)
	return l, err == nil && l.N > 0 && l.Arrived >= 0 && string(l.Bytes()) == string(data)
}
