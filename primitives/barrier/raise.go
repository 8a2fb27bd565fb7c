package barrier

import (
	"cmp"
	"context"
	"errors"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// This file is the protocol of Raise, as a pure function, and its performer.
//
//	          created, or refused for good
//	node ──────────────────────────────────► done
//	 ▲ │ ▲ │ it stands                        ▲
//	 │ │ │ └───────► check ───────────────────┤ it stood, or is of another recipe
//	 │ │ └── passing ──┘                      │
//	 │ └───────► parent ──────────────────────┘ refused for good
//	 └─ made, or passing ─┘
//
// The state is the next request. It follows from the last answer alone: no reading is used twice,
// and no request has a version. So a lost reply needs no memory, but for the error of Raise: it
// begins anew with the creation, which the server refuses if the barrier stands, whichever client
// has raised it. Raise returns nil only after the server has created the node, or refused to
// because it stands.

// A raiseStep is the next request.
type raiseStep int

const (
	raiseNode   raiseStep = iota // create the node
	raiseCheck                   // read the node that stands
	raiseParent                  // create the missing nodes above it
	raiseDone
)

func (s raiseStep) String() string { return [...]string{"node", "check", "parent", "done"}[s] }

// after returns the request that follows the answer to s, or the result of Raise if no request
// follows. below reports that the node has children, or data that no barrier has.
func (s raiseStep) after(err error, below bool) (next raiseStep, outcome error) {
	switch {
	case s == raiseNode && errors.Is(err, session.ErrNodeExists):
		return raiseCheck, nil
	case s == raiseNode && errors.Is(err, session.ErrNoNode):
		return raiseParent, nil
	case session.Passing(err):
		return raiseNode, err
	case s == raiseParent && err == nil:
		return raiseNode, nil
	case below:
		return raiseDone, errBelow
	}
	return raiseDone, err
}

// Raise raises the barrier, or returns nil if it stands. It creates missing nodes above the
// barrier. A [Gate] that stands counts as the barrier, although it ends with its holder. The error
// wraps [ErrLayout] and [ErrForeign] if the node at the path belongs to another recipe: if it has
// children, or data that no barrier has.
//
// If the error wraps [session.ErrUnknownOutcome], the barrier may have been raised. When a reply is
// lost, Raise tries again until ctx ends. If another client lifts the barrier before the second
// try, the barrier stands again when Raise returns.
func (b *Barrier) Raise(ctx context.Context) error {
	if err := b.refusal(ctx); err != nil {
		return b.explain("raise", err)
	}
	var pauses owned.Set
	defer pauses.End()
	doubt := false
	for step := raiseNode; ; {
		below, err := b.raise(ctx, step)
		doubt = doubt || step == raiseNode && session.InDoubt(err)
		next, outcome := step.after(err, below)
		if errors.Is(outcome, errBelow) {
			outcome = cmp.Or(foreign(ctx, b.session, b.path), outcome)
		}
		if next == raiseDone || outcome != nil && (ctx.Err() != nil || pauses.Wait(ctx, outcome) != nil) {
			if doubt {
				outcome = client.Doubted(outcome)
			}
			return b.explain("raise", outcome)
		}
		step = next
	}
}

// raise sends one request.
func (b *Barrier) raise(ctx context.Context, step raiseStep) (below bool, err error) {
	switch step {
	case raiseNode:
		_, err = b.session.Create(ctx, b.path, nil, session.Persistent)
	case raiseCheck:
		var data []byte
		var stat *session.Stat
		data, stat, err = b.session.Get(ctx, b.path)
		err = client.Without(err, session.ErrNoNode) // it was lifted meanwhile
		below = stat != nil && isForeign(data, stat)
	case raiseParent:
		dir, _ := znode.Split(b.path)
		err = b.session.EnsurePath(ctx, dir)
	case raiseDone:
	}
	return below, err
}
