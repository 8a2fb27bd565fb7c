package barrier

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A Barrier is a node: while it stands, clients wait. It is safe for concurrent use, and must be
// closed.
type Barrier struct {
	session *session.Session
	path    string
	opts    Options
	actor   *actors.Actor[viewInput, Event]
	owned   owned.Set
	pauses  owned.Set // of calls, which do not end with the handle

	mu  sync.Mutex
	err error
}

// New begins to watch the barrier at path, and returns at once: [Barrier.Events] tells
// whether it stands.
//
// If opts is nil, the default options are used. The error names what is wrong with the
// arguments.
func New(s *session.Session, path string, opts *Options) (*Barrier, error) {
	if err := validate(s, path); err != nil {
		return nil, err
	}
	b := &Barrier{session: s, path: path}
	if opts != nil {
		b.opts = *opts
	}
	b.actor = actors.Start(view{}, actors.Role[view, viewInput, viewEffect, Event]{
		Name:    "barrier " + path,
		Perform: b.perform,
		Observe: b.observe,
		Stop:    stop{},
		Merge:   merge,
	})
	b.owned.Follow(s, func(ev session.Event) { _ = b.actor.Tell(became{ev}) }, b.actor.Ended()) // an ended machine needs no news
	return b, nil
}

func (b *Barrier) perform(e viewEffect, tell func(viewInput)) {
	switch e := e.(type) {
	case see:
		b.owned.Keep(see{}, b.session.Async(e.epoch).Follow(b.path, session.AspectData, true, func(r session.Reading, err error) {
			if err != nil {
				tell(unsighted{e.epoch, err})
				return
			}
			in := sighted{epoch: e.epoch, zxid: r.Zxid}
			if r.Stat != nil {
				in.token = r.Stat.Czxid
			}
			tell(in)
		}))
	case settle:
		e.reply.Give(e.err)
	}
}

func (b *Barrier) observe(v view, _ []Event) {
	if v.over {
		b.mu.Lock()
		b.err = v.err
		b.mu.Unlock()
		b.owned.End()
	}
}

// Raise raises the barrier, or returns nil if it stands. What is missing above it is made.
//
// If the error wraps [session.ErrUnknownOutcome], it may have been raised. While a reply is lost
// and ctx goes on, Raise raises it again. So a barrier whose reply was lost, and that another
// client has lifted meanwhile, stands when Raise returns.
func (b *Barrier) Raise(ctx context.Context) error {
	for {
		_, err := b.session.Create(ctx, b.path, nil, session.Persistent)
		switch {
		case errors.Is(err, session.ErrNodeExists):
			return nil
		case errors.Is(err, session.ErrNoNode):
			dir, _ := session.Split(b.path)
			err = b.session.EnsurePath(ctx, dir)
			if err != nil {
				return b.explain("raise", err)
			}
			continue
		case ctx.Err() != nil, !session.Passing(err):
			return b.explain("raise", err)
		}
		if b.pauses.Wait(ctx, err) != nil {
			return b.explain("raise", err)
		}
	}
}

// Lift lifts the barrier that stands, or returns nil if none does. A barrier that is raised
// later stays, whatever reply is lost.
//
// If the error wraps [session.ErrUnknownOutcome], it may have been lifted.
func (b *Barrier) Lift(ctx context.Context) error {
	if ctx.Err() != nil {
		return b.explain("lift", context.Cause(ctx))
	}
	first := int64(0)
	err := owned.Remove(ctx, b.session, session.Removal{Path: b.path, Is: func(stat *session.Stat) bool {
		if first == 0 {
			first = stat.Czxid
		}
		return stat.Czxid == first
	}})
	if err != nil && ctx.Err() != nil && !session.InDoubt(err) {
		err = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
	}
	return b.explain("lift", err)
}

// Wait returns nil when no barrier stands: at once, if none does. See [Options.Sync]. A waiter
// that was disconnected while the barrier was lifted and raised again waits for the new one.
func (b *Barrier) Wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return b.explain("wait", context.Cause(ctx))
	}
	stat, err := b.look(ctx)
	if err != nil || stat == nil {
		return b.explain("wait", err)
	}
	var asked actors.Reply[error]
	outcome, err := actors.Ask(ctx, b.actor, func(reply actors.Reply[error]) viewInput {
		asked = reply
		return pass{stat.Czxid, reply}
	})
	switch {
	case err == nil:
		err = outcome
	case errors.Is(err, actors.ErrEnded):
		err = ErrClosed
		if why := b.Err(); why != nil {
			err = fmt.Errorf("%w: %w", ErrClosed, why)
		}
	default:
		_ = b.actor.Tell(give{asked}) // an ended machine keeps nothing
	}
	return b.explain("wait", err)
}

// look reads what stands now: what is watched may be older than what the session has written.
func (b *Barrier) look(ctx context.Context) (*session.Stat, error) {
	for {
		var err error
		if b.opts.Sync {
			err = b.session.Sync(ctx, b.path)
		}
		if err == nil {
			var stat *session.Stat
			if stat, err = b.session.Exists(ctx, b.path); err == nil {
				return stat, nil
			}
		}
		if ctx.Err() != nil || !session.Passing(err) || b.pauses.Wait(ctx, err) != nil {
			return nil, err
		}
	}
}

// Events returns the channel of events, which is always the same one:
//
//	(Raised | Released)* Closed
//
// It begins with what is there at present. A reader that is slow gets the newest, not every one.
func (b *Barrier) Events() <-chan Event { return b.actor.Events() }

// Done returns a channel that is closed when the handle has ended.
func (b *Barrier) Done() <-chan struct{} { return b.actor.Ended() }

// Err returns why the handle has ended: [session.ErrClosed], or what keeps the node from
// being read. It returns nil while it has not, and after Close.
func (b *Barrier) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Close ends the handle. The barrier stays as it is. It may be called any number of times.
func (b *Barrier) Close() { b.actor.Close() }

func (b *Barrier) explain(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("barrier %s: %s: %w", b.path, op, err)
}
