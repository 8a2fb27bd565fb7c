package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// awaitAnswer makes a request and waits for its answer, or the end of ctx.
func awaitAnswer[T any](ctx context.Context, s *core, op, path string, start func(answer func(T, error)) *call) (T, error) {
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
	case c.abandon():
		err := &OpError{Op: op, Path: path, Err: s.waitedInVain(why)}
		took := s.clock.now() - c.began
		s.order.Put(func() { s.opts.Observer.Request(op, took, err) })
		return none, err
	case c.write:
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
func (s *core) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if d := s.opts.RequestTimeout; d > 0 && ctx != nil {
		if _, has := ctx.Deadline(); !has {
			return context.WithTimeoutCause(ctx, d, errRequestTimeout)
		}
	}
	return ctx, func() {}
}

var errRequestTimeout = fmt.Errorf("%w (Options.RequestTimeout)", context.DeadlineExceeded)

// blameChroot adds to an error about a missing node that the chroot itself is missing, if
// it is.
func (s *core) blameChroot(ctx context.Context, err error) error {
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
		why := fmt.Errorf("%w: the chroot %s is missing; EnsurePath(\"/\") creates it", of.Err, s.chroot)
		return &OpError{Op: of.Op, Path: of.Path, Err: why}
	}
	return err
}

// waitedInVain returns the error of a request that was not sent: with the last failure of
// each server if there is no connection.
func (s *core) waitedInVain(why error) error {
	e := s.newestEpoch()
	if e == nil {
		return why
	}
	e.mu.Lock()
	connected := e.open != nil
	e.mu.Unlock()
	if connected {
		return why
	}
	return fmt.Errorf("%w (not connected: %s)", why, s.servers.Troubles())
}

// repeatPassing repeats what does no harm when repeated, until it succeeds, fails for a
// reason that does not pass, or ctx ends.
func repeatPassing[T any](ctx context.Context, of Async, try func() (T, error)) (T, error) {
	var pause *backoff.ExponentialBackOff
	for blamed := 0; ; {
		result, err := try()
		if err == nil || errors.Is(err, errHopeless) {
			return result, err
		}
		if blamed++; !errors.Is(err, errBlamed) {
			blamed = 0
		}
		if blamed == maxBlamed {
			return result, fmt.Errorf("%w; %w", err, errHopeless)
		}
		if pause == nil {
			pause = newPauses(5*time.Millisecond, time.Second)
		}
		if !Passing(err) || of.over(err) || ctx.Err() != nil {
			return result, err
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return result, fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		}
	}
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

// Async returns the asynchronous requests of one epoch, which [Connected] names. In
// any other epoch they are answered with [ErrExpired]. Epoch 0 stands for whichever
// is present.
func (s *Session) Async(epoch int) Async { return s.requests(epoch) }

func (s *core) anyEpoch() Async { return Async{session: s, blocking: true} }

// Create creates a node with the ACL of the session, and returns its path. The name
// of a sequential node is preceded by a GUID, and followed by a number:
// /a/b- becomes /a/_c_<guid>-b-0000000001, so that it can be found when the
// reply is lost. A missing parent is [ErrNoNode]: see [Session.EnsurePath].
//
// An ephemeral or sequential node whose outcome is in doubt is looked for, and
// returned if it was made. If ctx ends before that is settled, the node is
// removed, as soon as that is possible. Others fail with [ErrUnknownOutcome] if the
// reply was lost. An ephemeral node belongs to the session that created it: if that
// expires before the answer, the error is [ErrExpired].
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

// createWith creates a node with the ACL, or that of the session if it is nil.
func (s *Session) createWith(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := validateCreated(path, mode); err != nil {
		return "", &OpError{Op: "create", Path: path, Err: err}
	}
	if mode.IsSequential() {
		return s.createSequential(ctx, path, data, mode, acl)
	}
	var c *call
	node, err := awaitAnswer(ctx, s.core, "create", path, func(answer func(string, error)) *call {
		c = s.anyEpoch().create(path, data, mode, acl, answer)
		return c
	})
	if mode != Ephemeral || !isAny(err, ErrUnknownOutcome) {
		return node, err
	}
	return s.settleEphemeral(ctx, c, err)
}

// createSequential tries under one GUID until it is known what became of it.
func (s *Session) createSequential(ctx context.Context, path string, data []byte, mode CreateMode, acl []ACL) (string, error) {
	dir, name := znode.Split(path)
	guid := znode.NewGUID()
	for {
		var c *call
		node, err := awaitAnswer(ctx, s.core, "create", path, func(answer func(string, error)) *call {
			c = s.anyEpoch().create(znode.Join(dir, znode.GUIDName(guid, name)), data, mode, acl, answer)
			return c
		})
		if !isAny(err, ErrUnknownOutcome) {
			return node, err
		}
		of := s.anyEpoch()
		if mode.IsEphemeral() {
			if isAny(err, ErrExpired) {
				return "", err // it is gone with its session
			}
			of = s.Async(c.epoch.Load().number)
		}
		found, findErr := s.find(ctx, of, dir, guid)
		switch {
		case isNoNode(findErr), of.over(findErr) && mode.IsEphemeral():
			return "", findErr
		case of.over(findErr):
			return "", &OpError{Op: "create", Path: path, Err: fmt.Errorf("%w: %w", ErrUnknownOutcome, findErr)}
		case findErr != nil:
			Removal{Path: dir, Prefix: znode.GUIDName(guid, "")}.start(of, nil, func() {})
			return "", err
		case found != "":
			if mode.IsEphemeral() {
				c.epoch.Load().ephemerals.own(s.absolute(found), 0, nil)
			}
			return found, nil
		}
	}
}

// find looks for the node with the GUID. The sync that every new connection begins
// with makes it see what an earlier one has done.
func (s *Session) find(ctx context.Context, of Async, dir, guid string) (string, error) {
	children, err := requestRepeatedly(ctx, of, "children", dir, Async.children)
	for _, name := range children.Names {
		if znode.HasGUID(name, guid) {
			return znode.Join(dir, name), nil
		}
	}
	return "", err
}

// settleEphemeral finds out whether an ephemeral node stands whose create is in doubt.
func (s *Session) settleEphemeral(ctx context.Context, c *call, doubt error) (string, error) {
	if isAny(doubt, ErrExpired) {
		return "", doubt
	}
	of := s.Async(c.epoch.Load().number)
	if ctx.Err() != nil {
		of.removeMade(c)
		return "", doubt
	}
	stat, err := requestRepeatedly(ctx, of, "exists", c.path, Async.exists)
	switch {
	case of.over(err):
		return "", err
	case err != nil:
		of.removeMade(c)
		return "", doubt
	case stat == nil:
		return "", &OpError{Op: "create", Path: c.path, Err: ErrDisconnected}
	case !c.made(stat):
		return "", &OpError{Op: "create", Path: c.path, Err: ErrNodeExists}
	}
	return c.path, nil
}

// made reports whether an ephemeral node is the one that the call was to create: not one
// that the session had before, nor one that another call has made. If so, no other call has
// from now on.
func (c *call) made(stat *Stat) bool {
	e := c.epoch.Load()
	e.mu.Lock()
	id := e.id
	e.mu.Unlock()
	if stat.EphemeralOwner != id || c.knew(stat) {
		return false
	}
	told := c.err == nil && c.zxid == stat.Czxid // the reply came when the caller had left
	return told || e.ephemerals.own(e.session.absolute(c.path), stat.Czxid, c)
}

// knew reports whether there was the node already when the call went out, as far as the
// session had been told.
func (c *call) knew(stat *Stat) bool { return stat.Czxid <= c.since }

// removeMade deletes the node that the call was to create, if it did.
func (a Async) removeMade(c *call) {
	Removal{Path: c.path, Is: c.made, Contested: true}.Begin(a, func(error) {})
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
		return onNode(a, "set ACL", path, w, statIn, answer)
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

// Sync brings the server that the session is connected to up to what the leader has
// committed: a read that follows sees what others had written when Sync was called.
func (s *Session) Sync(ctx context.Context, path string) error {
	_, err := requestRepeatedly(ctx, s.anyEpoch(), "sync", path, Async.sync)
	return err
}

// Multi does all the operations, or none. The results stand in the order of the
// operations; if one fails the error is its error, and wraps [ErrUnknownOutcome] if
// the reply was lost. Names of sequential nodes get no GUID here.
func (s *Session) Multi(ctx context.Context, ops ...Op) ([]OpResult, error) {
	return requestOnce(ctx, s.anyEpoch(), "multi", firstPath(ops), func(a Async, _ string, answer func([]OpResult, error)) *call {
		return a.multi(ops, false, answer)
	})
}

// EnsurePath makes sure that there is a node at path, with the missing nodes above it, the
// session's chroot included. The nodes that it makes are containers, which the server
// deletes some time after their last child, where the server knows them.
func (s *Session) EnsurePath(ctx context.Context, path string) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	_, err := repeatPassing(ctx, s.anyEpoch(), func() (bool, error) {
		e := &ensuring{requests: s.anyEpoch()}
		defer e.over.Store(true)
		return awaitAnswer(ctx, s.core, "ensure", path, func(answer func(bool, error)) *call { return e.begin(path, answer) })
	})
	return err
}
