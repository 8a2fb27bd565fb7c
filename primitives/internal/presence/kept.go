package presence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/session"
)

// A Keeper is the machine of a recipe that keeps a node: it contains a [Machine], and adds
// events of its own.
type Keeper[M, In, Ev any] interface {
	actors.Machine[M, In, Effect, Ev]

	// Kept returns the machine that keeps the node.
	Kept() Machine
}

// Kept implements [Keeper]: a machine may be kept as it is, without events of the recipe's own.
func (m Machine) Kept() Machine { return m }

// A Role says how a recipe presents the node that it keeps.
type Role[M, In, Ev any] struct {
	// Recipe and Path are reported to the observer of the session: the recipe's package, and
	// the path of the group or of the names, which is the node's parent.
	Recipe string
	Path   string
	Name   string // the goroutine's name in profiles

	Machine func(Machine) M // wraps the machine of the node
	Input   func(Input) In  // wraps an input for the node

	// Merge, Cancel and Keep are the fields of [actors.Role].
	Merge  func(last, next Ev) (merged Ev, ok bool)
	Cancel func(last, next Ev) bool
	Keep   func(earlier, next Ev) bool
}

// A Kept node is the part that the handles of recipes have in common.
type Kept[In, Ev any] struct {
	// Set by Keep, and constant.
	session client.Session
	actor   *actors.Actor[In, Ev]
	input   func(Input) In
	joined  chan struct{} // closed when the node stands for the first time
	once    sync.Once     // guards the closing of joined

	// Used by the actor's goroutine alone, for the observer of the session.
	stands bool          // set while the node stands, as was reported last
	since  time.Duration // the session's age when stands changed; at first, when Keep was called

	mu   sync.Mutex
	last Machine // the machine at its end, set before Done is closed; zero before
}

// Keep keeps a node at path with the data. It fails with [ErrDuplicate] if a handle of
// this session keeps the path already.
func Keep[M Keeper[M, In, Ev], In, Ev any](s *session.Session, path string, data []byte, config Config, role Role[M, In, Ev]) (*Kept[In, Ev], error) {
	c := client.Of(s)
	n := newNode(c, path)
	n.persistent, n.owner = config.Persistent, config.Owner
	k := &Kept[In, Ev]{session: c, input: role.Input, joined: make(chan struct{}), since: c.Age()}
	if err := n.claim(k); err != nil {
		return nil, err
	}
	c.Observer().Waiting(role.Recipe, role.Path)
	k.actor = actors.Start(role.Machine(newMachine(data, config)), actors.Role[M, In, Effect, Ev]{
		Name:    role.Name,
		Perform: func(e Effect, tell func(In)) { n.Perform(e, func(in Input) { tell(k.input(in)) }) },
		Observe: func(m M, _ []Ev) { k.observe(n, m.Kept(), role.Recipe, role.Path) },
		Stop:    role.Input(Leave{}),
		Merge:   role.Merge,
		Cancel:  role.Cancel,
		Keep:    role.Keep,
	})
	close(n.started) // Find returns k from now on, which is complete
	n.Begin(func(in Input) { _ = k.Tell(k.input(in)) }, k.Done())
	return k, nil
}

// Find returns the handle that keeps the path through the session, or nil.
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

// observe follows each step, on the actor's goroutine: it closes joined, reports to the
// observer, and gives the path free when the machine has ended.
func (k *Kept[In, Ev]) observe(n *Node, m Machine, recipe, path string) {
	if m.Joined() {
		k.once.Do(func() { close(k.joined) })
	}
	k.report(n.session, m, recipe, path)
	if !m.Ended() {
		return
	}
	n.End() // before Done is closed: a caller that has seen it may keep the path again
	k.mu.Lock()
	k.last = m
	k.mu.Unlock()
	if err := m.Err(); err != nil {
		select {
		case <-k.joined:
			n.session.Observer().Lost(recipe, path, err)
		default:
			n.session.Observer().Failed(recipe, path, err)
		}
	}
}

// report reports to the session's observer when the node begins to stand, and when it is deleted,
// with the time since the last such change.
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

// Await returns nil when the node stands for the first time. If the node is given up first, Await
// returns the reason. If ctx ends first, it returns the cause, and the node is given up in the
// background.
func (k *Kept[In, Ev]) Await(ctx context.Context) error {
	select {
	case <-k.joined:
		return nil
	case <-k.Done():
		return k.Last().Reason()
	case <-ctx.Done():
		_ = k.Tell(k.input(Leave{})) // an ended one has left
		return k.session.Explain(context.Cause(ctx))
	}
}

// Last returns the machine as it was at its end. Before the end it returns a zero Machine,
// which is not [Machine.Ended].
func (k *Kept[In, Ev]) Last() Machine {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// Err returns why the node was given up; nil before the end, and after [Leave].
func (k *Kept[In, Ev]) Err() error { return k.Last().Err() }

// Update stores other data. It returns nil when the server has that, or newer data. If ctx ends
// first, it returns the cause, and the update goes on. If the node is given up first, it returns
// the reason.
func (k *Kept[In, Ev]) Update(ctx context.Context, data []byte) error {
	err := client.Ask(ctx, k.actor, func(reply actors.Reply[error]) In {
		return k.input(Update{Data: string(data), Reply: reply})
	})
	if errors.Is(err, actors.ErrEnded) {
		return k.Last().Reason()
	}
	return k.session.Explain(err)
}

// Leave gives the node up. It returns nil when the node is deleted, and [Machine.Undeleted] if the
// server refused that. If ctx ends first, it returns the cause, and the deletion goes on.
func (k *Kept[In, Ev]) Leave(ctx context.Context) error {
	if err := client.CheckContext(ctx); err != nil {
		return err
	}
	_ = k.Tell(k.input(Leave{})) // an ended one has left
	select {
	case <-k.Done():
		return k.Last().Undeleted()
	case <-ctx.Done():
		return k.session.Explain(context.Cause(ctx))
	}
}

// Close gives the node up, and waits until the machine has ended.
func (k *Kept[In, Ev]) Close() { k.actor.Close() }

// StepAs is Machine.Step for a recipe whose events have other names: name translates each.
func StepAs[Ev any](m Machine, in Input, name func(Event) Ev, out *actors.Effects[Effect, Ev]) Machine {
	did := Effects{Do: out.Do}
	m = m.Step(in, &did)
	out.Do = did.Do
	for _, ev := range did.Emit {
		out.Emit = append(out.Emit, name(ev))
	}
	return m
}

// claim registers the node as the only node that is kept at its path through the session, until
// End.
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
