package config

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/once"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// A Value is a typed value at a path, which may or may not be there. It is safe for
// concurrent use, and must be closed.
type Value[T any] struct {
	session *session.Session
	client  client.Session // the same
	path    string
	codec   Codec[T]
	opts    Options
	once    once.Writer // of our markers
	actor   *actors.Actor[input, Event]
	sub     client.Subscription // belongs to the actor

	owned owned.Set

	mu    sync.Mutex
	view  view[T] // of the newest machine
	err   error
	ended bool // the machine has
}

// Open begins to watch the value at path, and returns at once: [Value.Events] reports the state of
// the node. There need be no node. The codec is called for once; a nil codec is refused. The
// record of another recipe is no value: [ErrForeign].
//
// If opts is nil, the default options are used. The error names the fault in the arguments; a later
// failure ends the handle, and [Value.Err] says why.
func Open[T any](s *session.Session, path string, codec func() Codec[T], opts *Options) (*Value[T], error) {
	made, err := watch.Make(codec)
	if err != nil {
		err = fmt.Errorf("config: %w", err)
	}
	if err := errors.Join(validate(s, path, opts), err); err != nil {
		return nil, err
	}
	v := &Value[T]{session: s, client: client.Of(s), path: path, codec: made, opts: opts.withDefaults(path)}
	v.begin(znode.NewGUID)
	v.actor = actors.Start(newMachine(made), actors.Role[machine[T], input, effect, Event]{
		Name:    "config " + path,
		Begin:   []effect{follow{}},
		Perform: v.perform,
		Observe: v.observe,
		Stop:    leave{},
		Merge:   merge,
	})
	v.owned.Follow(v.client, func(ev session.Event) { _ = v.actor.Tell(heard{ev}) }, v.actor.Ended()) // an ended machine needs no news
	return v, nil
}

// Get reads the value, and the version of the node. If there is none, the error wraps
// [session.ErrNoNode]; if it does not decode, [ErrInvalid], and the value is
// the last good one, as [Value.Last] has it.
//
// It is never older than the values that this session has written, or has received. See
// [Options.Sync].
func (v *Value[T]) Get(ctx context.Context) (value T, version int32, err error) {
	if v.opts.Sync {
		if err := v.usable(); err != nil {
			return value, 0, err
		}
		if err := v.session.Sync(ctx, v.path); err != nil {
			return value, 0, v.explain(err)
		}
	}
	value, version, err = v.fetch(ctx)
	if errors.Is(err, ErrInvalid) {
		value, _, _ = v.Last()
	}
	return value, version, err
}

// fetch reads the value as the server has it.
func (v *Value[T]) fetch(ctx context.Context) (value T, version int32, err error) {
	if err := v.usable(); err != nil {
		return value, 0, err
	}
	data, stat, err := v.session.Get(ctx, v.path)
	if err != nil {
		return value, 0, v.explain(err)
	}
	value, err = decode(v.codec, data)
	return value, stat.Version, v.explain(err)
}

// Last returns the last good value that was seen, and its version, without waiting; ok
// is false if there has been none. It must not be modified.
func (v *Value[T]) Last() (value T, version int32, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.view.value, v.view.version, v.view.good
}

// Set sets the value, whatever it was: the last one wins. If there is no node, it is made,
// with the missing nodes above it. If the node has the record of another recipe, the error wraps
// [ErrForeign].
//
// If the error wraps [session.ErrUnknownOutcome], it may have been done, or be done a
// little later; with any other error it was not, and will not be. Servers that take smaller
// requests than [session.Options.MaxRequest] close the connection on a larger value. After the
// second time Set fails with [session.ErrTooLarge].
func (v *Value[T]) Set(ctx context.Context, value T) error {
	return v.write(ctx, value, write{version: session.AnyVersion, always: true})
}

// Update sets the value to the result of f, if no other client has changed it
// meanwhile. Otherwise f is called again with the newer value, until the write succeeds
// or ctx ends. If there is no node, f is called with the zero value, and the node is
// created. If f returns an error, Update returns that, and nothing was written.
//
// If the error wraps [session.ErrUnknownOutcome], the last result of f may have been
// written, or be a little later; with any other error nothing was, nor will be. Data
// that does not decode is [ErrInvalid]: only Set replaces it.
//
// f is called on the goroutine of the caller. If it panics, or calls [runtime.Goexit], nothing is
// written. It must not modify parts of its argument, unless the
// codec makes new parts each time, as all codecs of this package do.
func (v *Value[T]) Update(ctx context.Context, f func(old T) (T, error)) error {
	if f == nil {
		return v.explain(fmt.Errorf("%w: f is nil", session.ErrInvalidArgument))
	}
	for {
		w := write{lease: v.client.Lease()} // other data may come in the place of what is read under it
		old, version, err := v.fetch(ctx)
		w.version = version
		if errors.Is(err, session.ErrNoNode) {
			w.create, err = true, nil
		}
		if err != nil {
			return err
		}
		value, err := f(old)
		if err != nil {
			return err
		}
		if err := v.write(ctx, value, w); !errors.Is(err, errConflict) {
			return err
		}
	}
}

// write has the actor write, and waits for the outcome.
func (v *Value[T]) write(ctx context.Context, value T, w write) (err error) {
	if w.data, err = watch.Encode(v.codec, value); err != nil {
		return v.explain(fmt.Errorf("encode: %w", err))
	}
	if err := v.client.Fits(v.once.Longest(), v.op(write{data: w.data, create: true})); err != nil {
		return v.explain(fmt.Errorf("value: %w", err))
	}
	if err := client.Usable(ctx); err != nil {
		return v.explain(err)
	}
	outcome, err := actors.Ask(ctx, v.actor, func(reply actors.Reply[error]) input {
		w.reply = reply
		return submit{w}
	})
	switch {
	case err == nil:
		return v.explain(outcome)
	case errors.Is(err, actors.ErrEnded):
		return v.gone()
	}
	// The actor knows at once whether it can still be taken back, and has answered every write that
	// is settled.
	taken, _ := actors.Ask(context.WithoutCancel(ctx), v.actor, func(reply actors.Reply[bool]) input {
		return forget{w.reply, reply}
	})
	if outcome, settled := w.reply.Late(); settled {
		return v.explain(outcome)
	}
	if !taken {
		err = fmt.Errorf("%w: %w", session.ErrUnknownOutcome, err)
	}
	return v.explain(err)
}

func (v *Value[T]) explain(err error) error {
	return client.Wrap(v.client, err, "config ", v.path)
}

// usable returns an error if the handle has ended.
func (v *Value[T]) usable() error {
	v.mu.Lock()
	ended := v.ended
	v.mu.Unlock()
	if ended {
		return v.gone()
	}
	return nil
}

// gone returns the error of calls on a handle that has ended.
func (v *Value[T]) gone() error {
	if err := v.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return v.explain(ErrClosed)
}

// Events returns the channel of events, which is always the same one:
//
//	(Changed | Deleted | Invalid)* Closed
//
// It begins with the present state of the node. A slow reader gets the newest event, not every
// event. The channel is closed after the last event: receive with "ev, ok := <-events", because a
// select over a closed channel spins.
func (v *Value[T]) Events() <-chan Event { return v.actor.Events() }

// Done returns a channel that is closed when the handle has ended.
func (v *Value[T]) Done() <-chan struct{} { return v.actor.Ended() }

// Err returns why the handle has ended: [session.ErrClosed], or the error that keeps the
// node from being read, such as [session.ErrNoAuth]. It returns nil while the handle is
// open, and after Close.
func (v *Value[T]) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// Close ends the handle, and waits until its marker is gone, at most until the lease of
// the session has ended. A write that is under way is still answered; others fail with
// [ErrClosed]. Undelivered events are discarded, but for the last one. It may be
// called any number of times.
func (v *Value[T]) Close() { v.actor.Close() }

// observe keeps the results of the accessors up to date with the machine.
func (v *Value[T]) observe(m machine[T], _ []Event) {
	v.mu.Lock()
	v.view = m.view
	if m.Ended() {
		v.ended = true
		v.err = v.explain(m.err)
	}
	v.mu.Unlock()
	if m.Ended() {
		v.owned.End()
	}
}

// perform starts one thing that the machine asked for.
func (v *Value[T]) perform(e effect, tell func(input)) {
	switch e := e.(type) {
	case follow:
		v.sub = v.client.Async(0).Follow(v.path, session.AspectData, true, func(r session.Reading, err error) {
			if err != nil {
				tell(unfollowed{err})
				return
			}
			tell(read{r})
		})
	case unfollow:
		v.sub.Cancel()
	case mark:
		v.once.Mark(e.epoch, func(err error) { tell(answered{e.attempt, marking, err}) })
	case put:
		answer := func(_ []session.OpResult, err error) { tell(answered{e.attempt, writing, err}) }
		if ops := []session.Op{v.op(e.write)}; e.always {
			v.once.Begin(e.epoch, ops, answer)
		} else {
			v.once.BeginUnder(e.lease, e.epoch, ops, answer)
		}
	case ensure:
		dir, _ := znode.Split(v.path)
		v.client.Async(e.epoch).EnsurePath(dir, func(_ bool, err error) {
			v.owned.Answer(err, func() { tell(answered{e.attempt, ensuring, err}) })
		})
	case withdraw:
		v.once.Close(func() { tell(withdrawn{}) })
	case answer:
		e.reply.Give(e.err)
	case confirm:
		e.reply.Give(e.done)
	}
}

// begin sets the fields that writes need. A marker has the number of the epoch in its name: that of
// an earlier one may not be gone yet.
func (v *Value[T]) begin(newID func() string) {
	_, name := znode.Split(v.path)
	v.once.Session, v.once.Dir, v.once.Closed = v.client, v.opts.Markers, ErrClosed
	v.once.Name = func(epoch int) string { return znode.GUIDName(newID(), strconv.Itoa(epoch)+"-"+name) }
}

// op returns the operation of a write.
func (v *Value[T]) op(w write) session.Op {
	if w.create {
		return session.CreateOp(v.path, w.data, session.Persistent)
	}
	return session.SetOp(v.path, w.data, w.version)
}

// String describes the handle in one short line.
func (v *Value[T]) String() string { return "config " + v.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (v *Value[T]) Format(f fmt.State, _ rune) { client.Print(f, v) }
