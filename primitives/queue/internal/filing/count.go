package filing

import (
	"cmp"
	"maps"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/primitives/queue/internal/receipt"
	"github.com/zkactors/zkactors/primitives/queue/internal/stock"
	"github.com/zkactors/zkactors/primitives/queue/internal/waiting"
	"github.com/zkactors/zkactors/session"
)

// A standing is the place of a call that waits for room.
type standing struct {
	waiter *waiting.Waiter // not nil once the call stands in line, or tries to
	stands bool            // set by a count that has seen the waiter in line; cleared with waiter
	full   stock.View      // what was counted last
}

// A tallying finds out how many items there are, at most, and who stands in line.
type tallying struct {
	*standing

	into     *Destination
	receipts *receipt.Writer
	items    int // of the call
	most     int // that there may be
	requests client.Async
	known    layout.Tally
	in       counted
	answer   func(error, input)
}

// count counts the items, unless their number is known and leaves room. There is a receipt before,
// which keeps its directory. Then the version is read: it changes if items are put meanwhile, and
// when a producer becomes the first in line. So the line is listed behind it, and the items.
func (c *tallying) count(epoch int) {
	c.requests = c.into.Session.Async(epoch)
	c.full = stock.View{Seen: map[string]stock.Children{c.into.Dir(layout.ProducersDir): {Pzxid: -1, Count: -1}}} // to be woken as the first in line
	c.receipts.Mark(epoch, func(err error) {
		c.in.bound = bound{known: true, epoch: epoch, before: c.receipts.Next()}
		switch {
		case err != nil:
			c.end(err)
		case c.waiter == nil:
			c.read(func(err error) {
				if err == nil && c.known.Lined {
					c.line(c.end)
					return
				}
				c.end(err)
			})
		default: // there is a line, most likely
			var first error
			left := 2
			both := func(err error) {
				first = cmp.Or(first, err)
				if left--; left > 0 {
					return
				}
				if first == nil && !c.known.Lined {
					c.tell()
					return
				}
				c.end(first)
			}
			c.read(both)
			c.line(both)
		}
	})
}

// versioned notes the version of the directory of the receipts. If that is gone, so is the receipt,
// which will not do then.
func (c *tallying) versioned(stat *session.Stat, err error) error {
	if err == nil {
		c.in.version = stat.Version
	}
	return client.Without(err, session.ErrNoNode)
}

// read reads the tally.
func (c *tallying) read(next func(error)) {
	c.requests.Get(c.receipts.Dir, func(data []byte, stat *session.Stat, err error) {
		c.known = layout.ParseTally(data)
		next(c.versioned(stat, err))
	})
}

// tell writes that there is a line, which refuses all that do not know it.
func (c *tallying) tell() {
	c.known = layout.Tally{Lined: true}
	c.requests.Set(c.receipts.Dir, c.known.Data(), session.AnyVersion, func(stat *session.Stat, err error) {
		if err := c.versioned(stat, err); err != nil {
			c.end(err)
			return
		}
		c.line(c.end)
	})
}

// line finds out who stands in line.
func (c *tallying) line(next func(error)) {
	dir := c.into.Dir(layout.ProducersDir)
	c.requests.Children(dir, func(names []string, stat *session.Stat, err error) {
		if err = client.Without(err, session.ErrNoNode); err != nil {
			next(err)
			return
		}
		c.full.Seen[dir], c.in.stands, c.in.wanted = stock.ChildrenOf(stat), false, 0
		for _, name := range names {
			wants, ok := layout.ParseWaiter(name)
			switch {
			case !ok:
			case c.waiter != nil && c.waiter.Owns(name):
				c.in.stands = true
			default:
				c.in.wanted += wants
			}
		}
		c.in.lined = c.in.wanted > 0
		next(nil)
	})
}

// end ends the count: with the number that is known if that leaves room.
func (c *tallying) end(err error) {
	if c.stands = c.in.stands; err == nil && !c.stands && c.waiter != nil { // its node is gone
		c.waiter.Leave()
		c.waiter = nil
	}
	switch {
	case err != nil:
		c.answer(err, counted{err: err})
	case c.known.Counted && c.known.Count+c.items <= c.most:
		c.in.count = c.known.Count
		c.answer(nil, c.in)
	default:
		c.into.Look(c.receipts, c.in.epoch, stock.All, false, func(v stock.View, err error) {
			c.in.count, c.in.err = len(v.Places), err
			if err == nil {
				maps.Copy(v.Seen, c.full.Seen)
				c.full = v
			}
			c.answer(err, c.in)
		})
	}
}
