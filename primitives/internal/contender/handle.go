package contender

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/session"
)

// A Handle is one place in line. It is acquired at most once, and is over when it is released or
// lost. It is safe for concurrent use, and must be closed.
type Handle[Ev any] struct {
	tenancy[line.Input, Ev]

	performer Performer

	// The machine belongs to the actor, which steps it in place: a place that is held for long
	// costs no more memory than its fields.
	machine line.Machine

	// The accumulator of its steps. Between steps it has the events of the last one.
	did line.Effects

	room [2]line.Event // memory for the events of a step, which rarely are more

	// front describes the contender that is watched. It is set when the watch is confirmed, and
	// cleared by the grant. It counts only while the machine waits for that target.
	front *front

	node string // guarded as the token is
}

// Open joins the line, and returns at once. With inBackground, a release does not wait for the
// confirmation.
func Open[Ev any](s *session.Session, r *Recipe, presentation *Presentation[Ev], inBackground bool) *Handle[Ev] {
	c, h := client.Of(s), new(Handle[Ev])
	h.performer.begin(c, r)
	h.begin(c, line.Leave{}, presentation, r.Name, r.Path)
	h.machine = line.New(znode.NewGUID(), r.Rule, h.performer.Warm(), inBackground)
	h.did.Emit = h.room[:0]
	h.actor = actors.Start(h, actors.Role[*Handle[Ev], line.Input, line.Effect, Ev]{
		Name: r.Name, Perform: h.performer.Perform, Inline: inline, Stop: line.Leave{},
		Merge: presentation.Merge, Cancel: presentation.Cancel, Keep: presentation.Keep,
	})
	h.performer.Begin(h.tell, h.actor)
	return h
}

// Node returns the path of the node that stands for the grant; "" before.
func (h *Handle[Ev]) Node() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.node == "" {
		return ""
	}
	return znode.Join(h.performer.Dir, h.node)
}

// Guard returns an operation that fails a transaction unless the place is still held.
func (h *Handle[Ev]) Guard() session.Op {
	return GuardOf(h.performer.Dir, h.Node(), h.presentation.Lost)
}

// A refusal is the error of a guard. It wraps what every loss wraps, but its text does not speak of
// a loss: there may have been no grant.
type refusal struct{ lost error }

func (r refusal) Error() string   { return line.ErrNotHeld.Error() }
func (r refusal) Unwrap() []error { return []error{r.lost, line.ErrNotHeld} }

// GuardOf returns an operation that fails a transaction unless the node exists. Its error wraps
// lost. If node is "", it fails every transaction.
func GuardOf(dir, node string, lost error) session.Op {
	if node == "" {
		node = znode.Join(dir, znode.GUIDName(znode.NewGUID(), "not-acquired"))
	}
	return session.GuardOp(node, refusal{lost})
}

// Downgrade replaces a writer's grant by a reader's.
func (h *Handle[Ev]) Downgrade(ctx context.Context) error {
	err := client.Ask(ctx, h.actor, func(r actors.Reply[error]) line.Input { return line.Downgrade{Reply: r} })
	if errors.Is(err, actors.ErrEnded) {
		err = line.ErrNotHeld
	}
	if lost := h.Err(); lost != nil && errors.Is(err, line.ErrNotHeld) {
		return fmt.Errorf("downgrade %w", lost)
	}
	return h.failed("downgrade", err)
}

// observe brings the accessors up to date with the machine.
func (h *Handle[Ev]) observe() {
	m := &h.machine
	h.mu.Lock()
	h.blocker, h.barred = ahead(m, h.front, h.performer.Rule.Traits())
	if m.Holding() {
		h.node = m.Node() // a downgrade has changed it
	}
	h.mu.Unlock()
	h.performer.Holds(m.Holding())
	h.tenancy.observe(h.did.Emit, m.Holding(), m.Ended())
	if m.Ended() {
		h.performer.End()
	}
}

// A front describes the contender that is watched, by the reading that came with the watch.
type front struct {
	target line.Target
	line.Obstacle
}

// ahead returns the contender that a place watches, and whether it is known to hold. It returns nil
// if there is none, or it was not read. Where contenders share, the one watched may itself wait for
// contenders that we do not count, so it is not known to hold.
func ahead(m *line.Machine, f *front, traits line.Traits) (watched *front, holds bool) {
	if !m.Waiting() || f == nil || f.target != m.Watching() {
		return nil, false
	}
	return f, m.Ahead() == 1 && !traits.Lists && !traits.AnnouncesGrants
}
