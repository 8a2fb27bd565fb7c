package queue

import "time"

// This file reports what becomes of items to the observer of the session.

// A conclusion is how a delivery ends, in the words of [session.Observer].
type conclusion string

const (
	lost conclusion = "lost"
	took conclusion = "taken"
)

// age returns how old an item is that was first put at the time, in ms by the server's clock.
func (rs *receipts) age(since int64) time.Duration {
	low, _, _ := rs.clock.at(rs.Session.Age())
	return max(0, time.Duration(low-since)*time.Millisecond)
}

// reportTaken reports the deliveries of items by Take. Each is a settlement too.
func (b *base) reportTaken(items []claimed, err error) {
	end := took
	if err != nil { // the outcome is unknown
		end = lost
	}
	o := b.session.Observer()
	for _, item := range items {
		o.Delivered(b.path, b.receipts.age(item.since), item.Attempts+1)
		o.Settled(b.path, string(end), 0)
	}
}
