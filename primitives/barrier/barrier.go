package barrier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A Barrier is a handle on a node: while the node stands, clients wait. It is safe for concurrent
// use, and must be closed. After Close its commands return [ErrClosed].
type Barrier struct {
	session *session.Session
	path    string
	viewer  *viewer
	actor   *actors.Actor[viewInput, Event]
	reason  client.Reason
}

// New begins to watch the barrier at path, and returns at once: [Barrier.Events] reports whether it
// stands. At a path of another recipe Raise, TryRaise, Lift and Wait fail with [ErrForeign].
//
// If opts is nil, the default options are used. The error names the argument that is refused, and
// why.
func New(s *session.Session, path string, opts *Options) (*Barrier, error) {
	if err := validate(s, path); err != nil {
		return nil, err
	}
	b := &Barrier{session: s, path: path, viewer: &viewer{session: client.Of(s), path: path}}
	b.actor = actors.Start(view{sync: !client.Options(opts).NoSync}, actors.Role[view, viewInput, viewEffect, Event]{
		Name:    "barrier " + path,
		Perform: b.viewer.perform,
		Observe: b.observe,
		Stop:    stop{},
		Merge:   merge,
	})
	b.viewer.begin(func(in viewInput) { _ = b.actor.Tell(in) }, b.actor.Ended()) // an ended machine ignores the session
	return b, nil
}

func (b *Barrier) observe(v view, events []Event) {
	for _, ev := range events {
		switch ev := ev.(type) {
		case Raised:
			client.Log(b.viewer.session, slog.LevelDebug, recipe, b.path, "raised", slog.Int64("token", ev.Token))
		case Released:
			client.Log(b.viewer.session, slog.LevelDebug, recipe, b.path, "lifted", slog.Attr{})
		case Closed:
		}
	}
	if v.over {
		b.reason.Set(v.err)
		b.viewer.owned.End()
	}
}

// Wait returns nil when no barrier stands: at once, if none does. It sees every barrier that was
// raised or lifted before the call, by whatever client; but see [Options.NoSync]. A waiter that was
// disconnected while the barrier was lifted and raised again waits for the new one. The error wraps
// [ErrLayout] and [ErrForeign] if the node at the path belongs to another recipe.
func (b *Barrier) Wait(ctx context.Context) error {
	if err := b.refusal(ctx); err != nil {
		return b.explain("wait", err)
	}
	var asked actors.Reply[error]
	outcome, err := actors.Ask(ctx, b.actor, func(reply actors.Reply[error]) viewInput {
		asked = reply
		return pass{reply}
	})
	switch {
	case err == nil:
		err = outcome
	case errors.Is(err, actors.ErrEnded):
		err = client.Because(ErrClosed, b.Err())
	default:
		_ = b.actor.Tell(give{asked}) // an ended machine has answered
	}
	if errors.Is(err, errBelow) {
		err = cmp.Or(foreign(ctx, b.session, b.path), err)
	}
	return b.explain("wait", err)
}

// refusal returns why a command cannot begin.
func (b *Barrier) refusal(ctx context.Context) error {
	if client.Closed(b.Done()) {
		return client.Because(ErrClosed, b.Err())
	}
	return client.Usable(ctx)
}

// Events returns the channel of events, which is always the same one:
//
//	(Raised | Released)* Closed
//
// It begins with the present state. A slow reader gets the newest event, not every event. The
// channel is closed after the last event: receive with "ev, ok := <-events", because a select over
// a closed channel spins.
func (b *Barrier) Events() <-chan Event { return b.actor.Events() }

// Done returns a channel that is closed when the handle has ended.
func (b *Barrier) Done() <-chan struct{} { return b.actor.Ended() }

// Err returns why the handle has ended: [session.ErrClosed], or the error that keeps the node from
// being read. It returns nil before the end, and after Close.
func (b *Barrier) Err() error { return b.reason.Err() }

// Close ends the handle; the barrier stays as it is. Close may be called any number of times.
func (b *Barrier) Close() { b.actor.Close() }

func (b *Barrier) explain(op string, err error) error {
	return client.Wrap(b.viewer.session, err, "barrier ", b.path, ": ", op)
}

// A viewer performs the effects of a view.
type viewer struct {
	session client.Session
	path    string
	owned   owned.Set
}

func (p *viewer) begin(tell func(viewInput), ended <-chan struct{}) {
	p.owned.Follow(p.session, func(ev session.Event) { tell(became{ev}) }, ended)
}

func (p *viewer) perform(e viewEffect, tell func(viewInput)) {
	switch e := e.(type) {
	case see:
		p.owned.Keep(see{}, p.session.Async(e.epoch).Follow(p.path, session.AspectData, true, func(r session.Reading, err error) {
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
	case look:
		p.look(e, func(in looked) {
			in.requestID = e.requestID
			owned.Tell[viewInput](&p.owned, in.err, tell, in)
		})
	case settle:
		e.reply.Give(e.err)
	}
}

// look reads the path once, and answers once.
func (p *viewer) look(e look, answer func(looked)) {
	a := p.session.Async(e.epoch)
	read := func() {
		a.Get(p.path, func(data []byte, stat *session.Stat, err error) {
			if err != nil {
				answer(looked{err: client.Without(err, session.ErrNoNode)})
				return
			}
			answer(looked{token: stat.Czxid, below: isForeign(data, stat)})
		})
	}
	if !e.sync {
		read()
		return
	}
	a.Sync(p.path, func(err error) {
		if err != nil {
			answer(looked{err: err})
			return
		}
		read()
	})
}

// String describes the barrier in one short line.
func (b *Barrier) String() string { return "barrier " + b.path }

// Format implements [fmt.Formatter]: every verb prints String, without reading the fields.
func (b *Barrier) Format(f fmt.State, _ rune) { client.Print(f, b) }
