package queue

import (
	"context"
	"sync"
)

// A tenure is the time for which the claims of one session last.
type tenure struct {
	over context.Context //nolint:containedctx // it ends with the claims
	end  context.CancelCauseFunc
}

func newTenure() tenure {
	over, end := context.WithCancelCause(context.Background())
	return tenure{over, end}
}

// A delivery has the context of an item, which copies of the item share.
type delivery struct {
	tenure tenure // of the claim

	mu     sync.Mutex
	over   context.Context //nolint:containedctx // nil until it is asked for
	cancel context.CancelCauseFunc
	ended  bool // set by end
	why    error
}

// noContext returns a context that has ended.
func noContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (d *delivery) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over == nil {
		d.over, d.cancel = context.WithCancelCause(d.tenure.over)
	}
	if d.ended {
		d.cancel(d.why)
	}
	return d.over
}

// end ends the context, with the cause if it is not nil.
func (d *delivery) end(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended, d.why = true, why
	if d.over != nil {
		d.cancel(why)
	}
}
