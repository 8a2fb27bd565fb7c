package naming

import (
	"context"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// A kept name is registered again by its session whenever it is gone.
type kept = presence.Kept[presence.Input, Event]

// A Registration keeps an ephemeral name. Create it with [Keep]. It is safe for
// concurrent use, and must be closed, or left to the end of its session.
type Registration struct {
	session    *session.Session
	name, node string
	kept       *kept
}

// Keep registers an ephemeral name, as [Register] does, and returns at once: [Registration.Events]
// reports the progress. A session that is not connected registers the name when it is.
//
// If opts is nil, the default options are used. The error names the argument that is refused, or
// wraps [ErrTaken] if this very session keeps the name already. There is no other error.
func Keep(s *session.Session, path, name string, data []byte, opts *Options) (*Registration, error) {
	o := client.Options(opts)
	node, err := nodeOf(s, path, name)
	if err == nil {
		err = validate(s, node, data, o)
	}
	if err != nil {
		return nil, err
	}
	kept, err := presence.Keep(s, node, data, presence.Config{ConflictAfter: o.ConflictAfter, TakeOver: o.Replace, AtOnce: o.Replace},
		presence.Role[machine, presence.Input, Event]{
			Recipe:  "naming",
			Path:    node,
			Name:    "name " + node,
			Machine: func(node presence.Machine) machine { return machine{node} },
			Input:   func(in presence.Input) presence.Input { return in },
			Cancel:  recipe.Undone[Suspended, Resumed, Event],
			Keep:    recipe.Stays[Registered, Gone, Event],
		})
	if err != nil {
		return nil, fmt.Errorf("naming: register %q: %w", name, err)
	}
	return &Registration{session: s, name: name, node: node, kept: kept}, nil
}

// keptBy returns the handle that keeps the name through the session, or nil.
func keptBy(s *session.Session, node string) *kept {
	k, _ := presence.Find(s, node).(*kept) // it may be a member of a group
	return k
}

// Events returns the channel of events, which is always the same one:
//
//	(Registered (Suspended | Resumed)* Gone)* (Registered (Suspended | Resumed)*)? Unregistered
//
// The channel begins with the newest event before the first call, and with Registered before that
// if the name stands. It is closed after the last event: receive with "ev, ok := <-events", because
// a select over a closed channel spins.
func (r *Registration) Events() <-chan Event { return r.kept.Events() }

// Done returns a channel that is closed when the name was given up, for good.
func (r *Registration) Done() <-chan struct{} { return r.kept.Done() }

// Err returns why the name was given up; nil while it is kept, and after Close or [Unregister].
func (r *Registration) Err() error {
	if err := r.kept.Err(); err != nil {
		return fmt.Errorf("naming: name %q: %w", r.name, err)
	}
	return nil
}

// Update replaces the data. It returns nil when the server has the new data, or newer data. If ctx
// ends first, it returns the cause, and the update goes on. If the registration ends first, the
// error wraps the reason.
func (r *Registration) Update(ctx context.Context, data []byte) error {
	if err := validate(r.session, r.node, data, Options{}); err != nil {
		return err
	}
	if err := r.kept.Update(ctx, data); err != nil {
		return fmt.Errorf("naming: update %q: %w", r.name, err)
	}
	return nil
}

// Close gives the name up, and waits until the deletion is confirmed, at most until the lease of
// the session has ended. Undelivered events are discarded, but for the last one. It may be called
// any number of times.
func (r *Registration) Close() { r.kept.Close() }

// String describes the registration in one short line.
func (r *Registration) String() string { return "name " + r.node }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (r *Registration) Format(f fmt.State, _ rune) { client.Print(f, r) }
