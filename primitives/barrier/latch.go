package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// This file has the latch: n arrivals open it, once and for all. The node at the path counts the
// arrivals, and each arrival is a node below it: so an arrival whose reply was lost is found again,
// and counts once. All three change in one transaction, at the version of the count:
//
//	<path>            "zkactors latch <n> <arrived>"
//	<path>/<name>     an arrival
//	<path>/open       with the n-th arrival

// openNode is the node whose existence opens a latch.
const openNode = "open"

// A Latch opens when n arrivals have come, and stays open. Create it with [NewLatch]. It is safe
// for concurrent use, and must be closed.
type Latch struct {
	session *session.Session
	path    string
	n       int
	open    *watch.Watch[watch.NodeState]
	fed     <-chan struct{}
	opened  chan struct{}
}

// NewLatch begins to watch the latch at path, which n arrivals open, and returns at once:
// [Latch.Opened] reports when it is open. The error names the argument that is refused, and why.
//
// Arrivals that come at the same time are counted one after the other, each in a round trip: some
// hundred at once take seconds across a network.
//
// All must agree on n. The nodes of a latch stay until clients delete them: a latch is used once,
// so a path of its own, such as one with a number or a date, is best.
func NewLatch(s *session.Session, path string, n int) (*Latch, error) {
	err := validate(s, path)
	if n <= 0 {
		err = errors.Join(err, fmt.Errorf("barrier: %w: n: %d arrivals: must be positive", session.ErrInvalidArgument, n))
	}
	if err != nil {
		return nil, err
	}
	open, err := watch.Node(s, znode.Join(path, openNode), nil)
	if err != nil {
		return nil, fmt.Errorf("barrier: %w", err)
	}
	l := &Latch{session: s, path: path, n: n, open: open, opened: make(chan struct{})}
	isOpen := false
	l.fed = actors.Feed("latch "+path, open.Changes(), func(state watch.NodeState) {
		if state.Stat != nil && !isOpen {
			isOpen = true
			close(l.opened)
		}
	}, func() {})
	return l, nil
}

// Opened returns a channel that is closed when the latch is open: when the session's server knows
// it, which may lag behind the others. A latch does not close again, so no call passes too early.
func (l *Latch) Opened() <-chan struct{} { return l.opened }

// Wait waits until the latch is open. If ctx ends first, it returns the cause. If the handle is
// closed, or cannot be read any more, the error wraps [ErrClosed], and the reason.
func (l *Latch) Wait(ctx context.Context) error {
	if err := client.CheckContext(ctx); err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	select {
	case <-l.opened:
		return nil
	case <-l.open.Done():
		select {
		case <-l.opened: // before
			return nil
		default:
			return l.failed("wait", errors.Join(ErrClosed, l.open.Err()))
		}
	case <-ctx.Done():
		return l.failed("wait", client.Of(l.session).Explain(context.Cause(ctx)))
	}
}

// Arrive arrives under a name, such as that of a process or of a part of the work, which must be
// the name of a node. It returns nil when the arrival is counted, also if it was counted before: a
// name counts once. So Arrive may be repeated after any error, such as
// [session.ErrUnknownOutcome], which says that it may have been counted. It does not wait until the
// latch is open. The error wraps [ErrParties] if the latch has another number, and [ErrLayout] and
// [ErrForeign] if the path has a node of another recipe.
func (l *Latch) Arrive(ctx context.Context, name string) error {
	var bad error
	switch {
	case name == "" || name == openNode || strings.Contains(name, "/"):
		bad = fmt.Errorf("barrier: %w: name %q: it is empty, has a / in it, or is %q", session.ErrInvalidArgument, name, openNode)
	default:
		if bad = session.ValidatePath(znode.Join(l.path, name)); bad != nil {
			bad = fmt.Errorf("barrier: name %q: %w", name, bad)
		}
	}
	if err := errors.Join(client.Usable(ctx), bad); err != nil {
		return l.failed("arrive", err)
	}
	return l.failed("arrive", l.arrive(ctx, name))
}

// CountDown is [Latch.Arrive] under a name that no other call has: each call counts. If its outcome
// is unknown, the call may have been counted.
func (l *Latch) CountDown(ctx context.Context) error {
	if err := client.Usable(ctx); err != nil {
		return l.failed("count down", err)
	}
	return l.failed("count down", l.arrive(ctx, znode.NewGUID()))
}

// arrive counts an arrival, and tries until that is done, or cannot be done. After a reply was
// lost, only an answer that settles it ends the doubt.
func (l *Latch) arrive(ctx context.Context, name string) error {
	doubt := false
	err := l.tryToArrive(ctx, name, &doubt)
	if doubt {
		err = client.Doubted(err)
	}
	return err
}

func (l *Latch) tryToArrive(ctx context.Context, name string, doubt *bool) error {
	var pauses owned.Set
	defer pauses.End()
	node := znode.Join(l.path, name)
	for {
		arrived, version, err := l.read(ctx)
		switch {
		case errors.Is(err, session.ErrNoNode):
			err = l.make(ctx)
		case err != nil:
		case arrived >= l.n: // it is open, for whichever arrivals
			var open *session.Stat
			if open, err = l.session.Exists(ctx, znode.Join(l.path, openNode)); open != nil {
				return nil
			}
			if err == nil { // it was deleted by hand
				_, err = l.session.Create(ctx, znode.Join(l.path, openNode), nil, session.Persistent)
			}
		default:
			ops := []session.Op{
				session.SetOp(l.path, nodes.Latch{N: l.n, Arrived: arrived + 1}.Bytes(), version),
				session.CreateOp(node, nil, session.Persistent),
			}
			if arrived+1 == l.n {
				ops = append(ops, session.CreateOp(znode.Join(l.path, openNode), nil, session.Persistent))
			}
			var results []session.OpResult
			results, err = l.session.Multi(ctx, ops...)
			if err == nil || slices.ContainsFunc(results, func(r session.OpResult) bool { return errors.Is(r.Err, session.ErrNodeExists) }) {
				return nil // now, or before, or the latch was opened by hand
			}
			*doubt = *doubt || session.InDoubt(err)
		}
		// Another arrival was faster; or the latch is opened or made at the same time, or by hand.
		if !session.InDoubt(err) && client.IsAny(err, session.ErrBadVersion, session.ErrNoNode, session.ErrNodeExists) {
			if err := pauses.StepBack(ctx); err != nil {
				return client.Of(l.session).Explain(err)
			}
			continue
		}
		again := err == nil || session.Passing(err) || session.InDoubt(err)
		if !again || pauses.Wait(ctx, err) != nil {
			return err
		}
	}
}

// make makes the node that counts.
func (l *Latch) make(ctx context.Context) error {
	dir, _ := znode.Split(l.path)
	if err := l.session.EnsurePath(ctx, dir); err != nil {
		return err
	}
	_, err := l.session.Create(ctx, l.path, nodes.Latch{N: l.n}.Bytes(), session.Persistent)
	return err
}

// read reads the count. A server that lags may show an older one: then the transaction is refused.
func (l *Latch) read(ctx context.Context) (arrived int, version int32, err error) {
	data, stat, err := l.session.Get(ctx, l.path)
	if err != nil {
		return 0, 0, err
	}
	switch count, ok := nodes.ParseLatch(data); {
	case !ok:
		if err := whose(ctx, l.session, l.path, data); err != nil {
			return 0, 0, err
		}
		return 0, 0, fmt.Errorf("%w: %w", ErrLayout, nodes.ForeignData(data))
	case count.N != l.n:
		return 0, 0, fmt.Errorf("%w: %d by the node, %d here", ErrParties, count.N, l.n)
	default:
		return count.Arrived, stat.Version, nil
	}
}

// Left returns how many arrivals are yet to come, by the session's server.
func (l *Latch) Left(ctx context.Context) (int, error) {
	if err := client.CheckContext(ctx); err != nil {
		return 0, fmt.Errorf("barrier: %w", err)
	}
	arrived, _, err := l.read(ctx)
	if err = client.Without(err, session.ErrNoNode); err != nil {
		return 0, l.failed("left", err)
	}
	return l.n - arrived, nil
}

// Close ends the handle, not the latch. It may be called any number of times.
func (l *Latch) Close() {
	l.open.Close()
	<-l.fed
}

// failed names the operation and the latch in an error.
func (l *Latch) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: latch %s: %w", op, l.path, err)
}

// String describes the latch in one short line.
func (l *Latch) String() string { return "latch " + l.path }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (l *Latch) Format(f fmt.State, _ rune) { client.Print(f, l) }
