package queue

import (
	"time"

	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
)

// This file reports what becomes of items to the observer of the session.

// A conclusion is how a delivery ends, in the words of [session.Observer].
type conclusion string

const (
	acknowledged conclusion = "acknowledged"
	rejected     conclusion = "rejected"
	lost         conclusion = "lost"
	took         conclusion = "taken"
)

// reportPut reports a call that puts so many items, which began at the age of the session.
func (b *base) reportPut(items int, called time.Duration, err error) {
	b.at.Session.Observer().Put(b.at.Path, items, b.at.Session.Age()-called, err)
}

// reportTaken reports the deliveries of items by Take. Each is a settlement too.
func (b *base) reportTaken(items []layout.Claimed, err error) {
	end := took
	if err != nil { // the outcome is unknown
		end = lost
	}
	o := b.at.Session.Observer()
	for _, item := range items {
		o.Delivered(b.at.Path, b.receipts.Age(item.Since), item.Attempts+1)
		o.Settled(b.at.Path, string(end), 0)
	}
}

// deliveries has the deliveries of an observed consumer that are in work, with the age of the
// session when they began. Only perform uses it.
type deliveries map[layout.ClaimID]time.Duration

func (c *Consumer) reportReceived(item *layout.Claimed) {
	s := c.base.at.Session
	c.working[item.ID()] = s.Age()
	s.Observer().Delivered(c.base.at.Path, c.receipts.Age(item.Since), item.Attempts+1)
}

func (c *Consumer) reportOver(item *layout.Claimed, end conclusion) {
	s := c.base.at.Session
	if began, is := c.working[item.ID()]; is {
		delete(c.working, item.ID())
		s.Observer().Settled(c.base.at.Path, string(end), s.Age()-began)
	}
}
