package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/wire"
	"github.com/zkactors/zkactors/session/internal/workers"
)

// awaitAnswer makes a request and waits for its answer, or the end of ctx.
func awaitAnswer[T any](ctx context.Context, s *Session, op, path string, start func(answer func(T, error)) *call) (T, error) {
	var none T
	if ctx == nil {
		return none, &OpError{Op: op, Path: path, Err: errNilContext}
	}
	if ctx.Err() != nil {
		return none, &OpError{Op: op, Path: path, Err: context.Cause(ctx)}
	}
	type outcome struct {
		result T
		err    error
	}
	answered := make(chan outcome, 1)
	c := start(func(result T, err error) { answered <- outcome{result, err} })
	select {
	case o := <-answered:
		return o.result, s.blameChroot(ctx, o.err)
	case <-ctx.Done():
	}
	why := context.Cause(ctx)
	switch {
	case c.Abandon():
		err := &OpError{Op: op, Path: path, Err: s.waitedInVain(why)}
		took := s.conn.Clock.Now() - c.Began
		s.conn.Order.Put(func() { s.opts.Observer.Request(op, took, err) })
		return none, err
	case c.Write:
		select {
		case o := <-answered:
			return o.result, o.err
		default:
			why = fmt.Errorf("%w: %w", ErrUnknownOutcome, why)
		}
	}
	return none, &OpError{Op: op, Path: path, Err: why}
}

// bounded returns ctx, or one that ends after [Options.RequestTimeout] if ctx has no deadline.
func (s *Session) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if d := s.opts.RequestTimeout; d > 0 && ctx != nil {
		if _, has := ctx.Deadline(); !has {
			return context.WithTimeoutCause(ctx, d, errRequestTimeout)
		}
	}
	return ctx, func() {}
}

var errRequestTimeout = fmt.Errorf("%w (Options.RequestTimeout)", context.DeadlineExceeded)

// blameChroot adds to an error about a missing node whether the chroot itself is missing.
func (s *Session) blameChroot(ctx context.Context, err error) error {
	var of *OpError
	if s.chroot == "" || s.rooted.Load() || !isNoNode(err) || !errors.As(err, &of) {
		return err
	}
	stat, missing := requestOnce(ctx, s.anyEpoch(), "exists", "/", Async.exists)
	switch {
	case missing != nil:
	case stat != nil:
		s.rooted.Store(true)
	default:
		return because(of, fmt.Sprintf("the chroot %s is missing; EnsurePath(\"/\") creates it", s.chroot))
	}
	return err
}

// waitedInVain returns the error of a request that was not sent: with the last failure of
// each server if there is no connection.
func (s *Session) waitedInVain(why error) error {
	e := s.newestEpoch()
	if e == nil {
		return why
	}
	if e.Access().Open {
		return why
	}
	return fmt.Errorf("%w (not connected: %s)", why, s.conn.Servers.Troubles())
}

// repeatPassing repeats a request that does no harm when it is repeated, until it succeeds, fails
// for a reason that does not pass, or ctx ends. Then the error wraps the cause too.
func repeatPassing[T any](ctx context.Context, of Async, try func() (T, error)) (T, error) {
	var pause *backoff.ExponentialBackOff
	var broken fault.Record
	for {
		result, err := try()
		if err == nil || errors.Is(err, fault.ErrHopeless) {
			return result, err
		}
		if broken.Note(err); broken.Hopeless() {
			return result, fmt.Errorf("%w; %w", err, fault.ErrHopeless)
		}
		if pause == nil {
			pause = workers.NewPauses(5*time.Millisecond, time.Second)
		}
		if !Passing(err) || of.over(err) {
			return result, err
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return result, andCause(ctx, err)
		}
	}
}

// andCause adds why ctx has ended to an error that does not wrap it. Before the end it returns err.
func andCause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil && !errors.Is(err, why) {
		return fmt.Errorf("%w (%w)", err, why)
	}
	return err
}

// A starter makes a request on the node at a path.
type starter[T any] func(requests Async, path string, answer func(T, error)) *call

// requestOnce makes a blocking request.
func requestOnce[T any](ctx context.Context, of Async, op, path string, start starter[T]) (T, error) {
	ctx, cancel := of.session.bounded(ctx)
	defer cancel()
	return awaitAnswer(ctx, of.session, op, path, func(answer func(T, error)) *call { return start(of, path, answer) })
}

// requestRepeatedly makes a blocking request that does no harm when it is repeated.
func requestRepeatedly[T any](ctx context.Context, of Async, op, path string, start starter[T]) (T, error) {
	ctx, cancel := of.session.bounded(ctx)
	defer cancel()
	return repeatPassing(ctx, of, func() (T, error) { return requestOnce(ctx, of, op, path, start) })
}

// Async returns the asynchronous requests of one epoch, which [Connected] names. In any other epoch
// they are answered with [ErrExpired]. Epoch 0 stands for the present epoch.
func (s *Session) Async(epoch int) Async { return s.requests(epoch) }

func (s *Session) anyEpoch() Async { return Async{session: s, blocking: true} }

// Create creates a node with the ACL of the session, and returns its path. The name of a sequential
// node is preceded by a GUID, and followed by a number: /a/b- becomes /a/_c_<guid>-b-0000000001, so
// that the node can be found when the reply is lost. [Session.Multi] with a [CreateOp] makes the
// plain name, /a/b-0000000001, for programs that expect it: then the outcome is unknown if the
// reply is lost. A missing parent is [ErrNoNode]: see [Session.EnsurePath].
//
// If the outcome of the create of an ephemeral or sequential node is in doubt, Create looks for the
// node, and returns it if it was made. It creates the node again if a busy server has not done so.
// If ctx ends before that is settled, the node is removed as soon as possible. Creates of other
// nodes fail with [ErrUnknownOutcome] if the reply was lost. An ephemeral node belongs to the
// session that created it: if that session expires before the answer, the error is [ErrExpired].
func (s *Session) Create(ctx context.Context, path string, data []byte, mode CreateMode) (string, error) {
	return s.createWith(ctx, path, data, mode, nil)
}

// CreateWithACL is [Session.Create] for a node with an ACL of its own.
func (s *Session) CreateWithACL(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, error) {
	if err := validateACL(acl, true); err != nil {
		return "", &OpError{Op: "create", Path: path, Err: err}
	}
	return s.createWith(ctx, path, data, mode, slices.Clone(acl))
}

// createWith creates a node with the ACL, or with the session's ACL if it is nil.
func (s *Session) createWith(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := validateCreated(path, mode); err != nil {
		return "", &OpError{Op: "create", Path: path, Err: err}
	}
	if mode.IsSequential() {
		return s.createSequential(ctx, path, data, mode, acl)
	}
	for pauses := newCreatePauses(); ; pauses.await(ctx) {
		var c *call
		node, err := awaitAnswer(ctx, s, "create", path, func(answer func(string, error)) *call {
			c = s.anyEpoch().create(path, data, mode, acl, answer)
			return c
		})
		if mode != Ephemeral || !InDoubt(err) {
			return node, err
		}
		if node, err = s.settleEphemeral(ctx, c, err); node != "" || err != nil {
			return node, err
		}
	}
}

// createPauses are the pauses between creates that a busy server has not done.
type createPauses struct{ *backoff.ExponentialBackOff }

func newCreatePauses() createPauses {
	return createPauses{workers.NewPauses(5*time.Millisecond, time.Second)}
}

func (p createPauses) await(ctx context.Context) {
	select {
	case <-time.After(p.NextBackOff()):
	case <-ctx.Done():
	}
}

// catchUp waits until the server has done the create that it has begun. A busy server may answer
// before it has done the create; a reconnect begins with a sync.
func (s *Session) catchUp(ctx context.Context, of Async, path string, doubt error) error {
	if !isAny(doubt, ErrBusy) {
		return nil
	}
	_, err := requestRepeatedly(ctx, of, "sync", path, Async.sync)
	return err
}

// createSequential tries under one GUID until the outcome is known.
func (s *Session) createSequential(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, error) {
	dir, name := znode.Split(path)
	guid := znode.NewGUID()
	for pauses := newCreatePauses(); ; {
		var c *call
		node, err := awaitAnswer(ctx, s, "create", path, func(answer func(string, error)) *call {
			c = s.anyEpoch().create(znode.Join(dir, znode.GUIDName(guid, name)), data, mode, acl, answer)
			return c
		})
		if !InDoubt(err) {
			return node, err
		}
		of := s.anyEpoch()
		if mode.IsEphemeral() {
			if isAny(err, ErrExpired) {
				return "", err // the node is gone with its session
			}
			of = s.Async(c.Epoch().Number)
		}
		found, findErr := "", s.catchUp(ctx, of, dir, err)
		if findErr == nil {
			found, findErr = s.find(ctx, of, dir, guid)
		}
		switch {
		case isNoNode(findErr), of.over(findErr) && mode.IsEphemeral():
			return "", findErr
		case of.over(findErr):
			return "", &OpError{Op: "create", Path: path, Err: fmt.Errorf("%w: %w", ErrUnknownOutcome, findErr)}
		case findErr != nil:
			Removal{Path: dir, Prefix: znode.GUIDName(guid, "")}.start(of, func(error) {})
			return "", andCause(ctx, err)
		case found != "":
			if mode.IsEphemeral() {
				c.Epoch().Ephemerals.Own(s.absolute(found), 0, nil)
			}
			return found, nil
		case isAny(err, ErrBusy):
			pauses.await(ctx)
		}
	}
}

// find looks for the node with the GUID. Every new connection begins with a sync, so find sees the
// writes of an earlier connection.
func (s *Session) find(ctx context.Context, of Async, dir, guid string) (string, error) {
	children, err := requestRepeatedly(ctx, of, "children", dir, Async.children)
	for _, name := range children.Names {
		if znode.HasGUID(name, guid) {
			return znode.Join(dir, name), nil
		}
	}
	return "", err
}

// settleEphemeral finds out whether an ephemeral node exists whose create is in doubt. It returns
// "", and no error, if a busy server has not made it.
func (s *Session) settleEphemeral(ctx context.Context, c *call, doubt error) (string, error) {
	if isAny(doubt, ErrExpired) {
		return "", doubt
	}
	of := s.Async(c.Epoch().Number)
	if ctx.Err() != nil {
		of.removeMade(c)
		return "", andCause(ctx, doubt)
	}
	var stat *Stat
	err := s.catchUp(ctx, of, c.Path, doubt)
	if err == nil {
		stat, err = requestRepeatedly(ctx, of, "exists", c.Path, Async.exists)
	}
	switch {
	case of.over(err):
		return "", err
	case err != nil:
		of.removeMade(c)
		return "", andCause(ctx, doubt)
	case stat == nil && isAny(doubt, ErrBusy):
		return "", nil
	case stat == nil:
		return "", &OpError{Op: "create", Path: c.Path, Err: ErrDisconnected}
	case !c.made(stat):
		return "", &OpError{Op: "create", Path: c.Path, Err: ErrNodeExists}
	}
	return c.Path, nil
}

// made reports whether the call has created an ephemeral node: not a node that the session had
// before, nor a node that another call has made. If so, no other call claims the node from now on.
func (c *call) made(stat *Stat) bool {
	e := c.Epoch()
	if stat.EphemeralOwner != e.ID() || c.knew(stat) {
		return false
	}
	told := c.Err == nil && c.Zxid == stat.Czxid // the reply came when the caller had left
	return told || e.Ephemerals.Own(c.session.absolute(c.Path), stat.Czxid, c)
}

// knew reports whether the session knew of the node already when the call went out.
func (c *call) knew(stat *Stat) bool { return stat.Czxid <= c.Since }

// removeMade deletes the node that the call was to create, if it did.
func (a Async) removeMade(c *call) {
	Removal{Path: c.Path, Is: c.made, Contested: true}.Begin(a, func(error) {})
}

// Get returns the data of a node. A missing node is [ErrNoNode].
func (s *Session) Get(ctx context.Context, path string) ([]byte, *Stat, error) {
	r, err := requestRepeatedly(ctx, s.anyEpoch(), "get", path, Async.get)
	return r.Data, r.Stat, err
}

// Set sets the data of a node that has the version, or any with [AnyVersion], and
// returns its new Stat. It fails with [ErrUnknownOutcome] if the reply was lost.
func (s *Session) Set(ctx context.Context, path string, data []byte, version int32) (*Stat, error) {
	return requestOnce(ctx, s.anyEpoch(), "set", path, func(a Async, path string, answer func(*Stat, error)) *call {
		return a.set(path, data, version, answer)
	})
}

// Children returns the names of a node's children, in no order.
func (s *Session) Children(ctx context.Context, path string) ([]string, *Stat, error) {
	r, err := requestRepeatedly(ctx, s.anyEpoch(), "children", path, Async.children)
	return r.Names, r.Stat, err
}

// Exists returns the Stat of a node, nil if there is none.
func (s *Session) Exists(ctx context.Context, path string) (*Stat, error) {
	return requestRepeatedly(ctx, s.anyEpoch(), "exists", path, Async.exists)
}

// GetACL returns the ACL of a node, and its Stat, in which Aversion is the version of the ACL.
// A missing node is [ErrNoNode].
func (s *Session) GetACL(ctx context.Context, path string) ([]ACL, *Stat, error) {
	r, err := requestRepeatedly(ctx, s.anyEpoch(), "get ACL", path, func(a Async, path string, answer func(aclResult, error)) *call {
		return onNode(a, "get ACL", path, &wire.Request{Op: wire.OpGetACL}, aclIn, answer)
	})
	return r.acl, r.stat, err
}

// SetACL sets the ACL of a node whose ACL has the version, or any with [AnyVersion], and returns
// its new Stat. It fails with [ErrUnknownOutcome] if the reply was lost.
func (s *Session) SetACL(ctx context.Context, path string, acl []ACL, version int32) (*Stat, error) {
	if err := validateACL(acl, true); err != nil {
		return nil, &OpError{Op: "set ACL", Path: path, Err: err}
	}
	w := &wire.Request{Op: wire.OpSetACL, ACL: wireACL(acl), Version: version}
	return requestOnce(ctx, s.anyEpoch(), "set ACL", path, func(a Async, path string, answer func(*Stat, error)) *call {
		return onNode(a, "set ACL", path, w, statIn, explaining(a.session, acl, answer))
	})
}

// Delete deletes a node that has the version, or any with [AnyVersion]. It fails with
// [ErrUnknownOutcome] if the reply was lost.
func (s *Session) Delete(ctx context.Context, path string, version int32) error {
	_, err := requestOnce(ctx, s.anyEpoch(), "delete", path, func(a Async, path string, answer func(struct{}, error)) *call {
		return a.delete(path, version, answer)
	})
	return err
}

// Sync brings the server that the session is connected to up to what the leader has committed: a
// read that follows sees the writes that other clients had made when Sync was called.
func (s *Session) Sync(ctx context.Context, path string) error {
	_, err := requestRepeatedly(ctx, s.anyEpoch(), "sync", path, Async.sync)
	return err
}

// Multi does all the operations, or none. The results stand in the order of the operations; if an
// operation fails, the error is that of the operation. The error wraps [ErrUnknownOutcome] if the
// reply was lost. Names of sequential nodes get no GUID here. Without operations Multi makes no
// request, and returns nil.
func (s *Session) Multi(ctx context.Context, ops ...Op) ([]OpResult, error) {
	return requestOnce(ctx, s.anyEpoch(), "multi", firstPath(ops), func(a Async, _ string, answer func([]OpResult, error)) *call {
		return a.multi(ops, false, answer)
	})
}

// EnsurePath makes sure that there is a node at path, with the missing nodes above it, the
// session's chroot included. The nodes that it makes are containers, which the server
// deletes some time after their last child. On ClickHouse Keeper they are persistent nodes, which
// sessions of this library delete when they are empty.
func (s *Session) EnsurePath(ctx context.Context, path string) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	_, err := repeatPassing(ctx, s.anyEpoch(), func() (bool, error) {
		e := &ensuring{requests: s.anyEpoch()}
		defer e.over.Store(true)
		return awaitAnswer(ctx, s, "ensure", path, func(answer func(bool, error)) *call { return e.begin(path, answer) })
	})
	return err
}
