package queue

import (
	"time"

	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
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

// deliveries are the deliveries of an observed consumer that are in work.
type deliveries struct {
	at       *stock.Store
	receipts *receipt.Writer                  // of the consumer, which knows the clock since the claim
	began    map[layout.ClaimID]time.Duration // the age of the session
}

func (d *deliveries) begin(item *layout.Claimed) {
	d.began[item.ID()] = d.at.Session.Age()
	d.at.Session.Observer().Delivered(d.at.Path, d.receipts.Age(item.Since), item.Attempts+1)
}

func (d *deliveries) end(item *layout.Claimed, how conclusion) {
	if began, is := d.began[item.ID()]; is {
		delete(d.began, item.ID())
		d.at.Session.Observer().Settled(d.at.Path, string(how), d.at.Session.Age()-began)
	}
}
