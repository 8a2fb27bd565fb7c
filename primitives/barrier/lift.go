package barrier

import (
	"context"
	"errors"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// Lift lifts the barrier that stands, or returns nil if none does. A barrier that is raised after
// this one is lifted stays, whatever reply is lost. A node of another recipe is not lifted: the
// error wraps [ErrLayout] and [ErrForeign].
//
// If ctx ends first, the error wraps [session.ErrUnknownOutcome]: the barrier may have been lifted,
// and Lift may be called again.
func (b *Barrier) Lift(ctx context.Context) error {
	if err := b.refusal(ctx); err != nil {
		return b.explain("lift", err)
	}
	err := b.lift(ctx)
	if errors.Is(err, nodes.ErrForeign) || errors.Is(err, errNone) { // the server may lag
		if err = b.session.Sync(ctx, b.path); err == nil {
			err = b.lift(ctx)
		}
	}
	switch {
	case errors.Is(err, errNone):
		return nil
	case ctx.Err() != nil:
		err = client.Doubted(err)
	}
	return b.explain("lift", err)
}

// errNone says that no barrier stands.
var errNone = errors.New("no barrier stands")

// lift deletes the barrier that it reads first.
func (b *Barrier) lift(ctx context.Context) error {
	for {
		var l lifting
		err := owned.Remove(ctx, b.session, l.removal(b.path))
		switch {
		case err != nil && !errors.Is(err, session.ErrNotEmpty): // barriers have no children
			return err
		case err == nil && l.token == 0:
			return errNone
		case err == nil && !l.foreign:
			return nil
		}
		if err := whose(ctx, b.session, b.path, l.data); err != nil {
			return err
		} // the children have gone
	}
}

// A lifting knows the barrier that is to be lifted, which is the first that is read.
//
// The deletion names the version that was read. So a value that another recipe has written into the
// node stays. A node that has replaced it since the reading, and was never written to, has the same
// version, and is deleted: ZooKeeper has no deletion that names the node itself. To write to the
// node first, as gates do with their own, would overwrite the data of such a node.
type lifting struct {
	token   int64  // the czxid of the barrier; 0 before the first reading
	data    []byte // of the newest reading of the barrier
	foreign bool   // set if no barrier has the data; then the node stays
}

func (l *lifting) removal(path string) session.Removal {
	return session.Removal{
		Path: path,
		Is: func(stat *session.Stat) bool {
			if l.token == 0 {
				l.token = stat.Czxid
			}
			return stat.Czxid == l.token // else the barrier is lifted, and the other node stays
		},
		Says: func(data []byte) bool {
			l.data, l.foreign = data, !nodes.IsBarrier(data)
			return !l.foreign
		},
	}
}
