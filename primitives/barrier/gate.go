package barrier

import (
	"context"
	"errors"
	"sync"

	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A Gate is a barrier that was raised for as long as the session lasts. See [Barrier.TryRaise].
type Gate struct {
	barrier *Barrier
	id      string // the data of the node
	token   int64
	release func()
	owned   owned.Set // the watch of the node, and the session's events
	once    sync.Once
	done    chan struct{}
	err     error // why it is held no more; valid when done is closed
}

// TryRaise raises the barrier if none stands. The error wraps [ErrRaised] if one does. The
// node is ephemeral, so the barrier is lifted when the session ends.
//
// If ctx ends first, the error is its cause, and no barrier of this call stays. The same holds
// if the session expires meanwhile.
func (b *Barrier) TryRaise(ctx context.Context) (*Gate, error) {
	g := &Gate{barrier: b, id: session.NewGUID(), done: make(chan struct{}), release: b.session.Rely()}
	g.owned.Follow(b.session, func(ev session.Event) {
		switch ev.(type) {
		case session.Expired:
			g.end(session.ErrExpired)
		case session.Closed:
			g.end(session.ErrClosed)
		case session.Connected, session.Suspended, session.Resumed:
		}
	}, nil)
	for {
		err := ctx.Err()
		if err == nil {
			err = g.Err()
		}
		if err == nil {
			var results []session.OpResult
			if results, err = b.session.Multi(ctx, g.ops()...); err == nil {
				g.token = results[1].Stat.Czxid
				break
			}
		}
		again := false
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case errors.Is(err, session.ErrNodeExists):
			var ours bool
			if ours, again, err = g.look(ctx); ours {
				err = nil
			}
		case errors.Is(err, session.ErrNoNode):
			dir, _ := session.Split(b.path)
			err = b.session.EnsurePath(ctx, dir)
			again = err == nil
		case g.Err() != nil:
		case session.Passing(err):
			again = b.pauses.Wait(ctx, err) == nil
		}
		if again {
			continue
		}
		if err == nil {
			break
		}
		g.end(err)
		g.remove().Begin(b.session.Async(0), func(error) {})
		return nil, b.explain("try to raise", err)
	}
	g.watch()
	return g, nil
}

// ops creates the node, and writes to it: the reply has its Stat.
func (g *Gate) ops() []session.Op {
	return []session.Op{
		session.CreateOp(g.barrier.path, []byte(g.id), session.Ephemeral), session.SetOp(g.barrier.path, []byte(g.id), 0),
	}
}

// look reads whose barrier stands, after a reply may have been lost.
func (g *Gate) look(ctx context.Context) (ours, again bool, err error) {
	data, stat, err := g.barrier.session.Get(ctx, g.barrier.path)
	switch {
	case errors.Is(err, session.ErrNoNode):
		return false, true, nil
	case session.Passing(err) && ctx.Err() == nil:
		return false, g.barrier.pauses.Wait(ctx, err) == nil, err
	case err != nil:
		return false, false, err
	case string(data) != g.id || stat.EphemeralOwner != g.barrier.session.ID():
		return false, false, ErrRaised
	}
	g.token = stat.Czxid
	return true, false, nil
}

// watch ends the gate when its node is gone, or the session.
func (g *Gate) watch() {
	told := func(data []byte, _ *session.Stat, err error) {
		switch {
		case errors.Is(err, session.ErrNoNode), err == nil && string(data) != g.id:
			g.end(ErrNodeGone)
		case err != nil:
			g.end(err)
		}
	}
	g.owned.Keep(g.id, owned.Func(g.barrier.session.Async(0).Watch(g.barrier.path, told, told)))
}

func (g *Gate) end(err error) {
	g.once.Do(func() {
		g.err = err
		g.release()
		g.owned.End()
		close(g.done)
	})
}

// remove is what takes the node away, and no other.
func (g *Gate) remove() session.Removal {
	return session.Removal{Path: g.barrier.path, Says: func(data []byte) bool { return string(data) == g.id }}
}

// Token returns a number that grows with each barrier that is raised at the path.
func (g *Gate) Token() int64 { return g.token }

// Done returns a channel that is closed when the gate is lifted, by whomever, or must be
// counted as lifted because the session has expired.
func (g *Gate) Done() <-chan struct{} { return g.done }

// Err returns why Done is closed: nil after Lift, else [ErrNodeGone] or the error that ended the
// session.
func (g *Gate) Err() error {
	select {
	case <-g.done:
		return g.err
	default:
		return nil
	}
}

// Lift lifts the gate, and waits until it is gone. A barrier of others that stands there by
// now stays. If ctx ends first, the error is its cause, and the gate is lifted in the background.
func (g *Gate) Lift(ctx context.Context) error {
	g.end(nil)
	gone := make(chan error, 1)
	g.remove().Begin(g.barrier.session.Async(0), func(err error) { gone <- err })
	select {
	case err := <-gone:
		if session.Over(err) {
			err = nil
		}
		return g.barrier.explain("lift", err)
	case <-ctx.Done():
		return g.barrier.explain("lift", context.Cause(ctx))
	}
}
