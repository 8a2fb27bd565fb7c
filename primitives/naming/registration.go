package naming

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/session"
)

// A Registration keeps an ephemeral name. Create it with [Keep]. It is safe for
// concurrent use, and must be closed, or left to the end of its session.
type Registration struct {
	session    *session.Session
	name, node string
	table      *table
	keeper     *presence.Node
	actor      *actors.Actor[presence.Input, Event]
	registered chan struct{} // closed when the name stands for the first time
	once       sync.Once

	mu  sync.Mutex
	err error
}

// A table is what a session keeps: names by their nodes.
type table struct {
	mu    sync.Mutex
	names map[string]*Registration
}

type tableKey struct{}

func tableOf(s *session.Session) *table {
	return s.Local(tableKey{}, func() any { return &table{names: make(map[string]*Registration)} }).(*table)
}

func (t *table) get(node string) *Registration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names[node]
}

// Keep registers an ephemeral name, as [Register] does, and returns at once:
// [Registration.Events] tells what happens. A session that is not connected registers
// it when it is.
//
// If opts is nil, the default options are used. The error names what is wrong with the
// arguments, or wraps [ErrTaken] if this very session keeps the name already; otherwise
// nothing fails here.
func Keep(s *session.Session, path, name string, data []byte, opts *Options) (*Registration, error) {
	o := opts.withDefaults()
	node, err := nodeOf(s, path, name)
	if err == nil {
		err = validate(s, node, data, o)
	}
	if err != nil {
		return nil, err
	}
	m, keeper, err := presence.New(s, node, data, presence.Config{ConflictAfter: o.ConflictAfter, TakeOver: o.Replace, AtOnce: o.Replace})
	if err != nil {
		return nil, fmt.Errorf("naming: register %q: %w", name, err)
	}
	r := &Registration{session: s, name: name, node: node, table: tableOf(s), keeper: keeper, registered: make(chan struct{})}
	r.actor = actors.Start(machine{m}, actors.Role[machine, presence.Input, presence.Effect, Event]{
		Name:    "name " + node,
		Perform: keeper.Perform,
		Observe: r.observe,
		Stop:    presence.Leave{},
		Cancel:  cancel,
	})
	r.table.mu.Lock()
	r.table.names[node] = r
	r.table.mu.Unlock()
	keeper.Begin(func(in presence.Input) { _ = r.actor.Tell(in) }, r.actor.Ended())
	return r, nil
}

// observe keeps what others see up to date with the machine.
func (r *Registration) observe(m machine, events []Event) {
	for _, ev := range events {
		switch ev := ev.(type) {
		case Registered:
			r.once.Do(func() { close(r.registered) })
		case Unregistered:
			if ev.Err == nil {
				break
			}
			r.mu.Lock()
			r.err = fmt.Errorf("naming: name %q: %w", r.name, ev.Err)
			r.mu.Unlock()
			r.session.Observer().Lost("naming", r.node, ev.Err)
		case Suspended, Resumed, Gone:
		}
	}
	if m.Ended() {
		r.table.mu.Lock()
		if r.table.names[r.node] == r {
			delete(r.table.names, r.node)
		}
		r.table.mu.Unlock()
		r.keeper.End()
	}
}

// Events returns the channel of events, which is always the same one. It begins with the
// newest event before the first call, and is closed after the last.
func (r *Registration) Events() <-chan Event { return r.actor.Events() }

// Done returns a channel that is closed when the name was given up, for good.
func (r *Registration) Done() <-chan struct{} { return r.actor.Ended() }

// Err returns why it was. It returns nil while it was not, and if that was asked for.
func (r *Registration) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Update replaces the data. It returns nil when the server has it, or newer data. If ctx
// ends first it returns the cause, and the update goes on. If the registration ends
// first, the error wraps the reason.
func (r *Registration) Update(ctx context.Context, data []byte) error {
	if err := validate(r.session, r.node, data, Options{}); err != nil {
		return err
	}
	result, err := actors.Ask(ctx, r.actor, func(reply actors.Reply[error]) presence.Input {
		return presence.Update{Data: string(data), Reply: reply}
	})
	if errors.Is(err, actors.ErrEnded) {
		result, err = r.Err(), nil
		if result == nil {
			result = ErrUnregistered
		}
	}
	if err = errors.Join(err, result); err != nil {
		return fmt.Errorf("naming: update %q: %w", r.name, err)
	}
	return nil
}

// leave gives the name up, and waits as [Unregister] does.
func (r *Registration) leave(ctx context.Context) error {
	_ = r.actor.Tell(presence.Leave{}) // an ended one has left
	select {
	case <-r.actor.Ended():
		return r.Err()
	case <-ctx.Done():
		return fmt.Errorf("naming: unregister %q: %w", r.name, context.Cause(ctx))
	}
}

// Close gives the name up, and waits until that is confirmed, at most until the session's
// deadline has passed. Undelivered events are discarded, but for the last one. It may be
// called any number of times.
func (r *Registration) Close() { r.actor.Close() }
