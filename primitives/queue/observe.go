package queue

import "time"

// This file reports what becomes of items to the observer of the session.

// A conclusion is how a delivery ends, in the words of [session.Observer].
type conclusion string

const (
	acknowledged conclusion = "acknowledged"
	rejected     conclusion = "rejected"
	lost         conclusion = "lost"
	took         conclusion = "taken"
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

// A claimID names a claim of a consumer. The version tells two claims of one item apart.
type claimID struct {
	place   place
	version int32
}

func (c claimed) id() claimID { return claimID{c.place, c.version} }

// deliveries has the deliveries of an observed consumer that are in work, with the age of the
// session when they began. Only perform uses it.
type deliveries map[claimID]time.Duration

func (c *Consumer) reportReceived(item claimed) {
	s := c.base.session
	c.working[item.id()] = s.Age()
	s.Observer().Delivered(c.base.path, c.receipts.age(item.since), item.Attempts+1)
}

func (c *Consumer) reportOver(item claimed, end conclusion) {
	s := c.base.session
	if began, is := c.working[item.id()]; is {
		delete(c.working, item.id())
		s.Observer().Settled(c.base.path, string(end), s.Age()-began)
	}
}
