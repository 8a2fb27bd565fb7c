package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// Lead calls f whenever this candidate is elected, or leads already, one call after the other. The
// context of f ends with ctx, or when the candidate is deposed, with a cause that wraps
// [ErrDeposed]. It does not end while the connection is lost, because no other candidate can be
// elected then; [Candidate.Leading] and [Suspended] report that. The candidate's node is deleted
// only after f has returned: until then no other candidate is elected, unless the session is lost,
// or the candidate is being closed.
//
// If the candidate is deposed, and f returns nil, or the error or the cause of its context, Lead
// calls f again after the next election. If f returns for another reason, the candidate resigns,
// and Lead returns the error of f when the place is given up. If ctx ends, the candidate resigns,
// and Lead returns the cause when f has returned. If ctx ends before f is called, the candidate
// does not resign. In any case the candidate goes on standing for election until it is closed. If f
// panics, the candidate resigns, and the panic goes on.
//
// If f works for longer than [Options.LeadGrace] after the end of its context, the candidate emits
// [Overrun]. When f returns, Lead returns an error that wraps [ErrOverrun]. If the candidate has
// been elected again by then, it resigns.
//
// Lead fails with [ErrLeft], and the reason, when the candidate has left, and with [ErrBusy] during
// another call of Lead. f may call [Candidate.Resign] and [Candidate.Transfer] only with its own
// context: with another one it would wait for itself. [Candidate.Close] would wait for f, for
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
				c.tell(us) // it may have been engaged
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
	if overrun || ended { // before the caller goes on
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
	switch {
	case errors.Is(resigned, ErrNotLeading), errors.Is(resigned, ErrLeft):
	case err == nil || ctx.Err() == nil:
		err = client.Both(err, resigned)
	}
	return false, err
}

// call calls f, and tells the machine when it has returned. If f panics, or ends its goroutine, the
// candidate also resigns.
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

// engage registers end, to be called at the end of the term. It reports whether the term still
// lasts.
func (c *Candidate) engage(term int64, end func(error)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now.term != term {
		return false
	}
	c.end = end
	return true
}

// own reports whether an error is nil, or the error or the cause of the context.
func own(ctx context.Context, err error) bool {
	return err == nil || errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
}
