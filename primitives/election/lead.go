package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// Lead calls f whenever this candidate is elected, or leads already, one call after the
// other. The context of f ends when the candidate is deposed, with a cause that wraps
// [ErrDeposed], or with ctx; it does not end while the connection is lost, because no
// other candidate can be elected then: [Candidate.Leading] and [Suspended] tell. The
// candidate's node is deleted only after f has returned: until then no other candidate
// is elected, unless the session is lost, or the candidate is being closed.
//
// If f returns because it was deposed, with nil or the error or cause of its context, it is
// called again after the next election. If it returns for another reason, the candidate
// resigns, and Lead returns what f has returned, when the place is given up. If ctx ends,
// Lead returns its cause when f has returned, and the candidate has resigned. If it ends before f
// is called, the candidate stays what it is. In any case it stands on, until it is closed. If f
// panics, it resigns, and the panic goes on.
//
// If f goes on for longer than [Options.LeadGrace] after its context has ended, that is
// told with [Overrun]; when f returns, Lead does with an error that wraps [ErrOverrun]. If
// the candidate has been elected again by then, it resigns.
//
// Lead fails with [ErrLeft] when the candidate has left, and with [ErrBusy] if there is
// another call of it. f may wait for [Candidate.Resign] and [Candidate.Transfer] in its own
// context only: in another one it would wait for itself, as [Candidate.Close] would, for
// [Options.LeadGrace].
func (c *Candidate) Lead(ctx context.Context, f func(ctx context.Context, term int64) error) error {
	if err := client.Usable(ctx); err != nil {
		return c.refuse("lead", err)
	}
	if f == nil {
		return c.refuse("lead", fmt.Errorf("%w: there is no function", session.ErrInvalidArgument))
	}
	for {
		var us returned
		engaged, err := actors.Ask(ctx, c.actor, func(r actors.Reply[termOrError]) input {
			us.of = r
			return lead{r}
		})
		if err != nil {
			if ctx.Err() != nil {
				c.tell(us) // it may have been engaged all the same
			}
			return c.refuse("lead", c.failure(err))
		}
		if engaged.err != nil {
			return c.refuse("lead", engaged.err)
		}
		if again, err := c.work(ctx, engaged.term, us, f); !again {
			return err
		}
	}
}

// work calls f for one term.
func (c *Candidate) work(ctx context.Context, term int64, us returned, f func(context.Context, int64) error) (again bool, err error) {
	work, end := context.WithCancelCause(ctx)
	defer end(context.Canceled)
	if !c.engage(term, end) {
		c.tell(us)
		return true, nil
	}
	stop := context.AfterFunc(ctx, func() { c.tell(resign{term: term}) })
	defer stop()
	err = c.call(work, term, us, f)
	deposed := context.Cause(work)
	c.mu.Lock()
	c.end = nil
	overrun := c.overrun == term
	c.mu.Unlock()
	ended := ctx.Err() != nil
	if overrun || ended { // before what the caller does next
		_ = c.ask(context.WithoutCancel(ctx), "lead", func(r actors.Reply[error]) input { return resign{prompt: true, reply: r} })
	}
	switch {
	case overrun:
		return false, c.refuse("lead", errors.Join(ErrOverrun, err))
	case ended:
		if own(work, err) {
			return false, c.refuse("lead", context.Cause(ctx))
		}
		return false, err
	case deposed != nil && own(work, err):
		return true, nil
	}
	resigned := c.ask(ctx, "lead", func(r actors.Reply[error]) input { return resign{reply: r} })
	if err == nil && !errors.Is(resigned, ErrNotLeading) && !errors.Is(resigned, ErrLeft) {
		err = resigned
	}
	return false, err
}

// call calls f, and has the candidate know when it has returned. If it panics, or ends its
// goroutine, it has nothing more to do.
func (c *Candidate) call(ctx context.Context, term int64, us returned, f func(context.Context, int64) error) (err error) {
	ended := true
	defer func() {
		if ended {
			c.tell(resign{})
		}
		c.tell(us)
	}()
	err = f(ctx, term)
	ended = false
	return err
}

// engage has end called when the term ends, and reports whether it goes on.
func (c *Candidate) engage(term int64, end func(error)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now.term != term {
		return false
	}
	c.end = end
	return true
}

// own reports whether an error is nil, or that of the context.
func own(ctx context.Context, err error) bool {
	return err == nil || errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
}
