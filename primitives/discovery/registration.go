package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/persistent"
	"github.com/zkactors/zkactors/primitives/internal/presence"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
)

// Options are optional parameters for [Register] and [Publish]. A nil *Options is equivalent to a
// zero Options.
type Options struct {
	// Format is how the instance is written; [Curator] by default.
	Format Format

	// ConflictAfter is the time for which an instance with the same ID counts as a ghost of a
	// crashed process, whose end is waited for. The wait begins anew for another ghost, and after a
	// suspension. The default is twice the timeout of the session. Set it if an earlier version of
	// the process had a longer timeout.
	ConflictAfter time.Duration

	// TakeOver replaces an instance with the same ID at once, as Curator does, instead of waiting
	// for its end; also one that was published, for good. So it ignores ConflictAfter. The option
	// TakeOver of package group does not: it replaces a member after that time. TakeOver means
	// nothing once this instance is [Registered].
	TakeOver bool
}

// A machine is an instance. It has no state but the state of its node: it ends, is suspended and
// comes back with the node.
type machine struct{ presence.Machine }

// Step implements [actors.Machine]. Every input is an input of the node.
func (m machine) Step(in presence.Input, out *actors.Effects[presence.Effect, Event]) machine {
	return machine{presence.StepAs(m.Machine, in, translate, out)}
}

// A Registration keeps an instance registered. Create it with [Register]. It is safe for concurrent
// use, and must be closed, or left to the end of its session.
type Registration struct {
	session  *session.Session
	node     string
	instance Instance // as it was first registered
	format   Format
	kept     *presence.Kept[presence.Input, Event]
}

// Register registers an instance of the service instance.Service at path, and returns at once:
// [Registration.Events] reports the progress. A session that is not connected registers it when it
// is. After an expiry the instance is registered again, in the next session.
//
// If opts is nil, the default options are used. The error names the argument that is refused, or
// wraps [ErrDuplicate] if this very session keeps the instance already. There is no other error.
func Register(s *session.Session, path string, instance Instance, opts *Options) (*Registration, error) {
	o := client.Options(opts)
	node, data, err := prepare(s, path, &instance, o)
	if err == nil && instance.Type.lasts() {
		err = fmt.Errorf("discovery: %w", problem("Type", fmt.Errorf("%s: it does not end with a session: use Publish", instance.Type)))
	}
	if err != nil {
		return nil, err
	}
	kept, err := presence.Keep(s, node, data, presence.Config{ConflictAfter: o.ConflictAfter, TakeOver: o.TakeOver, AtOnce: o.TakeOver},
		presence.Role[machine, presence.Input, Event]{
			Recipe:  "discovery",
			Path:    znode.Join(path, instance.Service),
			Name:    "instance " + node,
			Machine: func(node presence.Machine) machine { return machine{node} },
			Input:   func(in presence.Input) presence.Input { return in },
			Cancel:  recipe.Undone[Suspended, Resumed, Event],
			Keep:    recipe.Stays[Registered, Gone, Event],
		})
	if err != nil {
		return nil, fmt.Errorf("discovery: register %s: %w", instance, err)
	}
	return &Registration{session: s, node: node, instance: instance, format: o.Format, kept: kept}, nil
}

// Announce is [Register], and returns when clients can find the instance. If ctx ends first, the
// error is its cause, and the instance is given up in the background. If the instance is given up
// for another reason, such as [ErrDuplicate], the error wraps that.
func Announce(ctx context.Context, s *session.Session, path string, instance Instance, opts *Options) (*Registration, error) {
	if err := client.Usable(ctx); err != nil {
		return nil, fmt.Errorf("discovery %s: announce: %w", path, err)
	}
	r, err := Register(s, path, instance, opts)
	if err != nil {
		return nil, err
	}
	if err := r.kept.Await(ctx); err != nil {
		return nil, fmt.Errorf("discovery %s: announce %s: %w", path, r.instance, err)
	}
	return r, nil
}

// prepare completes the instance, and returns its node and the data of that; or the reason why the
// instance cannot be registered, before any I/O.
func prepare(s *session.Session, path string, i *Instance, o Options) (node string, data []byte, err error) {
	name := i.ID
	switch {
	case o.Format == ServerSet && i.ID == "":
		i.ID = memberPrefix + sequence()
		name = i.ID
	case i.ID == "":
		i.ID = newID()
		name = i.ID
	}
	if i.Type == DynamicSequential && o.Format == Curator {
		name += sequence()
	}
	if o.Format == Curator && i.Registered.IsZero() {
		i.Registered = fromMillis(millis(actors.Deadline(0)))
	}
	err = recipe.CheckDir(s, "discovery", path, func(valid bool) (errs []error) {
		if o.ConflictAfter < 0 {
			errs = append(errs, fmt.Errorf("discovery: %w: Options.ConflictAfter %v: must not be negative", session.ErrInvalidArgument, o.ConflictAfter))
		}
		var bad error
		if data, bad = o.Format.Encode(*i); bad != nil {
			return append(errs, fmt.Errorf("discovery: %w", bad))
		}
		node = znode.Join(znode.Join(path, i.Service), name)
		if !valid {
			return errs
		}
		if bad := client.Of(s).Fits(session.DeleteOp(node, 0), session.CreateOp(node, data, session.Ephemeral)); bad != nil {
			errs = append(errs, fmt.Errorf("discovery: instance %s: %w", i.ID, bad))
		}
		return errs
	})
	return node, data, err
}

// Instance returns the instance as it was first registered: with its ID, and the time.
func (r *Registration) Instance() Instance { return r.instance }

// Events returns the channel of events, which is always the same one:
//
//	(Registered (Suspended | Resumed)* Gone)* (Registered (Suspended | Resumed)*)? Unregistered
//
// The channel begins with the newest event before the first call, and with Registered before that
// if the instance stands. It is closed after the last event: receive with "ev, ok := <-events",
// because a select over a closed channel spins.
func (r *Registration) Events() <-chan Event { return r.kept.Events() }

// Done returns a channel that is closed when the instance was given up, for good.
func (r *Registration) Done() <-chan struct{} { return r.kept.Done() }

// Err returns why the instance was given up; nil while it is kept, and after Unregister.
func (r *Registration) Err() error {
	if err := r.kept.Err(); err != nil {
		return fmt.Errorf("discovery: instance %s: %w", r.node, err)
	}
	return nil
}

// Update replaces the instance: its node stays, and so Service, ID and Type have to. If the time
// Registered is zero, it is taken from [Registration.Instance]. Update returns nil when the server
// has the new instance, or a newer one. If ctx ends first, it returns the cause, and the update
// goes on: it is made when the session is connected again, and survives an expiry. If the
// registration ends first, the error wraps the reason.
func (r *Registration) Update(ctx context.Context, instance Instance) error {
	data, err := r.replacement(instance)
	if err == nil {
		err = r.kept.Update(ctx, data)
	}
	if err != nil {
		return fmt.Errorf("discovery: update %s: %w", r.node, err)
	}
	return nil
}

func (r *Registration) replacement(i Instance) (data []byte, err error) {
	if i.Registered.IsZero() {
		i.Registered = r.instance.Registered
	}
	data, err = r.format.Encode(i)
	if i.Service != r.instance.Service {
		err = errors.Join(err, problem("Service", fmt.Errorf("%q: it was %q", i.Service, r.instance.Service)))
	}
	if i.ID != r.instance.ID {
		err = errors.Join(err, problem("ID", fmt.Errorf("%q: it was %q", i.ID, r.instance.ID)))
	}
	if cmp.Or(i.Type, Dynamic) != cmp.Or(r.instance.Type, Dynamic) {
		err = errors.Join(err, problem("Type", fmt.Errorf("%q: it was %q", i.Type, r.instance.Type)))
	}
	if err == nil {
		err = client.Of(r.session).Fits(session.DeleteOp(r.node, 0), session.CreateOp(r.node, data, session.Ephemeral))
	}
	return data, err
}

// Unregister gives the instance up. It returns nil when the deletion of its node is confirmed, or
// the session of the node has ended. If the server refuses the deletion for the timeout of the
// session, Unregister returns the error of the server. If ctx ends first, it returns the cause, and
// the instance is given up all the same. If it has been given up for another reason, Unregister
// returns [Registration.Err].
func (r *Registration) Unregister(ctx context.Context) error {
	if err := r.kept.Leave(ctx); err != nil {
		return fmt.Errorf("discovery: unregister %s: %w", r.node, err)
	}
	return r.Err()
}

// Close gives the instance up, and waits as [Registration.Unregister] does, at most until the
// lease has ended. Undelivered events are discarded, but for the last one. It may be
// called any number of times.
func (r *Registration) Close() { r.kept.Close() }

// String describes the registration in one short line.
func (r *Registration) String() string { return "instance " + r.node }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (r *Registration) Format(f fmt.State, _ rune) { client.Print(f, r) }

// Publish registers an instance that stays when its session ends, until it is withdrawn: for a
// service that has no session, such as one of others. It replaces an instance with the same ID,
// which the caller has to choose. Its Type is [Static] unless it is
// [Permanent], and Options.Format is [Curator]. If the outcome is
// not known, the error wraps [session.ErrUnknownOutcome]; publishing again does no harm.
//
// If opts is nil, the default options are used.
func Publish(ctx context.Context, s *session.Session, path string, instance Instance, opts *Options) error {
	if err := client.Usable(ctx); err != nil {
		return fmt.Errorf("discovery %s: publish: %w", path, err)
	}
	instance.Type = cmp.Or(instance.Type, Static)
	var bad error
	switch {
	case instance.ID == "":
		bad = problem("ID", errors.New("it is empty"))
	case !instance.Type.lasts():
		bad = problem("Type", fmt.Errorf("%s: it ends with its session: use Register", instance.Type))
	}
	node, data, err := prepare(s, path, &instance, client.Options(opts))
	if bad != nil {
		err = errors.Join(fmt.Errorf("discovery: %w", bad), err)
	}
	if err != nil {
		return err
	}
	if err := persistent.Register(ctx, s, znode.Join(path, instance.Service), node, data, true); err != nil {
		return fmt.Errorf("discovery: publish %s: %w", instance, err)
	}
	return nil
}

// Withdraw removes an instance that was published. If there is none with the ID, the error wraps
// [ErrNotFound]; if it ends with a session, it is not removed, and the error wraps [ErrForeign]. If
// ctx ends before the outcome is known, the error wraps its cause.
func Withdraw(ctx context.Context, s *session.Session, path, service, id string) error {
	if err := client.CheckContext(ctx); err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	if err := validate(s, path, service); err != nil {
		return err
	}
	if err := checkName(id); err != nil {
		return fmt.Errorf("discovery: %w: id: %w", session.ErrInvalidArgument, err)
	}
	node := znode.Join(znode.Join(path, service), id)
	if err := persistent.Remove(ctx, s, node); err != nil {
		return fmt.Errorf("discovery: withdraw %s: %w", node, client.Of(s).Explain(err))
	}
	return nil
}
