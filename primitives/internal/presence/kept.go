package presence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/primitives/internal/client"
	"github.com/zkactors/zkactors/session"
)

// A Keeper is a machine with a kept node in it, and events of its own.
type Keeper[M, In, Ev any] interface {
	actors.Machine[M, In, Effect, Ev]

	// Kept returns the machine that keeps the node.
	Kept() Machine
}

// A Role is what a recipe makes of a node that it keeps.
type Role[M, In, Ev any] struct {
	Recipe string // the package, for the observer of the session
	Path   string // of what it is a part of, for the same
	Name   string // of the goroutine

	Machine func(Machine) M
	Input   func(Input) In // hands an input to the node
	Merge   func(last, next Ev) (merged Ev, ok bool)
	Cancel  func(last, next Ev) bool
}

// A Kept node is what the handles of recipes have in common.
type Kept[In, Ev any] struct {
	actor  *actors.Actor[In, Ev]
	input  func(Input) In
	joined chan struct{} // closed when the node stands for the first time
	once   sync.Once

	// Of the actor's goroutine, for the observer of the session.
	stands bool          // set while the node does
	since  time.Duration // when that changed

	mu   sync.Mutex
	last Machine // when it has ended
}

// Keep keeps a node at path with the data. It fails with [ErrDuplicate] if the path is
// kept through this session already.
func Keep[M Keeper[M, In, Ev], In, Ev any](s *session.Session, path string, data []byte, config Config, role Role[M, In, Ev]) (*Kept[In, Ev], error) {
	n := newNode(client.Of(s), path)
	k := &Kept[In, Ev]{input: role.Input, joined: make(chan struct{}), since: s.Age()}
	if err := n.claim(k); err != nil {
		return nil, err
	}
	s.Observer().Waiting(role.Recipe, role.Path)
	k.actor = actors.Start(role.Machine(newMachine(data, config)), actors.Role[M, In, Effect, Ev]{
		Name:    role.Name,
		Perform: func(e Effect, tell func(In)) { n.Perform(e, func(in Input) { tell(k.input(in)) }) },
		Observe: func(m M, _ []Ev) { k.observe(n, m.Kept(), role.Recipe, role.Path) },
		Stop:    role.Input(Leave{}),
		Merge:   role.Merge,
		Cancel:  role.Cancel,
	})
	close(n.started)
	n.Begin(func(in Input) { _ = k.Tell(k.input(in)) }, k.Done())
	return k, nil
}

// Find returns the handle of what is kept at path through the session, nil if nothing is.
func Find(s *session.Session, path string) any {
	r := registryOf(client.Of(s))
	r.mu.Lock()
	n := r.claims[path]
	r.mu.Unlock()
	if n == nil {
		return nil
	}
	<-n.started // which takes no longer than to start a goroutine
	return n.kept
}

// observe keeps what others see up to date with the machine.
func (k *Kept[In, Ev]) observe(n *Node, m Machine, recipe, path string) {
	if m.Joined() {
		k.once.Do(func() { close(k.joined) })
	}
	k.report(n.session, m, recipe, path)
	if !m.Ended() {
		return
	}
	n.End() // whoever sees the end may keep the node again
	k.mu.Lock()
	k.last = m
	k.mu.Unlock()
	if err := m.Err(); err != nil {
		n.session.Observer().Lost(recipe, path, err)
	}
}

// report tells the session's observer since when the node stands, or is waited for.
func (k *Kept[In, Ev]) report(s client.Session, m Machine, recipe, path string) {
	observer, took, stands := s.Observer(), s.Age()-k.since, m.Joined() && !m.Ended()
	switch {
	case stands == k.stands && !m.Ended():
		return
	case stands:
		observer.Waited(recipe, path, took)
	case k.stands:
		observer.Held(recipe, path, took)
	default:
		observer.GaveUp(recipe, path, took)
	}
	if k.stands, k.since = stands, s.Age(); !stands && !m.Ended() {
		observer.Waiting(recipe, path)
	}
}

// Tell hands the machine an input, or returns [actors.ErrEnded].
func (k *Kept[In, Ev]) Tell(in In) error { return k.actor.Tell(in) }

// Events returns the channel of events.
func (k *Kept[In, Ev]) Events() <-chan Ev { return k.actor.Events() }

// Done returns a channel that is closed when the node was given up, for good.
func (k *Kept[In, Ev]) Done() <-chan struct{} { return k.actor.Ended() }

// Joined returns a channel that is closed when the node stands for the first time.
func (k *Kept[In, Ev]) Joined() <-chan struct{} { return k.joined }

// Last returns the machine as it is at its end. Before that it is not [Machine.Ended].
func (k *Kept[In, Ev]) Last() Machine {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// Err returns why the node was given up. It is nil before that, and if that was asked
// for.
func (k *Kept[In, Ev]) Err() error { return k.Last().Err() }

// Update stores other data. It returns nil when the server has it, or newer data; if ctx
// ends first, the cause, and goes on; and if the node is given up first, the reason.
func (k *Kept[In, Ev]) Update(ctx context.Context, data []byte) error {
	if err := session.CheckContext(ctx); err != nil {
		return err
	}
	result, err := actors.Ask(ctx, k.actor, func(reply actors.Reply[error]) In {
		return k.input(Update{Data: string(data), Reply: reply})
	})
	if errors.Is(err, actors.ErrEnded) {
		return k.Last().Reason()
	}
	return errors.Join(err, result)
}

// Leave gives the node up, and returns nil when that is done, and [Machine.Undeleted] when
// it could not be. If ctx ends first, it returns the cause, and goes on.
func (k *Kept[In, Ev]) Leave(ctx context.Context) error {
	if err := session.CheckContext(ctx); err != nil {
		return err
	}
	_ = k.Tell(k.input(Leave{})) // an ended one has left
	select {
	case <-k.Done():
		return k.Last().Undeleted()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close gives the node up, and waits until that is done.
func (k *Kept[In, Ev]) Close() { k.actor.Close() }

// StepAs is the Step of a machine whose events have other names.
func StepAs[Ev any](m Machine, in Input, name func(Event) Ev, out *actors.Effects[Effect, Ev]) Machine {
	did := Effects{Do: out.Do}
	m = m.Step(in, &did)
	out.Do = did.Do
	for _, ev := range did.Emit {
		out.Emit = append(out.Emit, name(ev))
	}
	return m
}

// claim makes a node the one that is kept at its path through the session.
func (n *Node) claim(kept any) error {
	n.kept, n.started = kept, make(chan struct{})
	n.registry.mu.Lock()
	defer n.registry.mu.Unlock()
	if n.registry.claims[n.path] != nil {
		return fmt.Errorf("%w: %s is kept through this session already", ErrDuplicate, n.path)
	}
	n.registry.claims[n.path] = n
	return nil
}
