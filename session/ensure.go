package session

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// EnsurePath creates the node at path and its missing ancestors, unless they exist: as
// containers, or as persistent nodes where the server has no containers. The answer
// tells whether the node was made now, and is empty.
func (a Async) EnsurePath(path string, answer func(made bool, err error)) {
	(&ensuring{requests: a}).begin(path, answer)
}

// ensuring makes sure that there is a node. Doing it twice does no harm, so a lost reply is
// no reason to fail.
type ensuring struct {
	requests Async
	over     atomic.Bool // set when the caller has left: nothing is repeated any more
	doubt    error       // of the newest create whose reply was lost
	blamed   int         // how many connections in a row its creates have broken
}

func (e *ensuring) begin(path string, answer func(bool, error)) *call {
	full, err := e.requests.session.target(path)
	if err != nil {
		return newRequest("ensure", path, nil, answer).refuse(e.requests.session, err)
	}
	return e.ensure(full, Container, answer)
}

// ensure works on absolute paths: the chroot itself may be missing.
func (e *ensuring) ensure(full string, mode CreateMode, answer func(bool, error)) *call {
	a := e.requests
	w := wire.Request{Op: wire.OpCreate, Path: full, ACL: a.session.acl}
	if mode == Container {
		w.Op, w.Flags = wire.OpCreateContainer, int32(Container)
	}
	return issue(a, &newRequest("ensure", a.session.relative(full), nothing, func(_ struct{}, err error) {
		again := func() { e.ensure(full, mode, answer) }
		if e.blamed++; !errors.Is(err, errBlamed) {
			e.blamed = 0
		}
		switch {
		case err == nil:
			answer(true, nil)
		case isAny(err, ErrNodeExists):
			answer(false, nil)
		case e.over.Load():
			answer(false, err)
		case mode == Container && isAny(err, ErrUnimplemented, ErrInvalidArgument):
			e.ensure(full, Persistent, answer)
		case isNoNode(err) && full != "/":
			dir, _ := znode.Split(full)
			e.ensure(dir, mode, func(_ bool, err error) {
				if err != nil {
					answer(false, err)
					return
				}
				again()
			})
		case isAny(err, ErrDisconnected) && e.blamed < maxBlamed:
			e.doubt = err
			again()
		case isAny(err, ErrNoAuth):
			// The server looks at the parent's ACL before it looks for the node.
			a.Exists(a.session.relative(full), func(stat *Stat, existsErr error) {
				if existsErr == nil && stat != nil {
					err = nil
				}
				answer(false, err)
			})
		case e.blamed == maxBlamed:
			answer(false, fmt.Errorf("%w; %w", err, errHopeless))
		case e.doubt != nil && isAny(err, ErrExpired, ErrClosed) && !InDoubt(err):
			answer(false, fmt.Errorf("%w: %w", ErrUnknownOutcome, err))
		default:
			answer(false, err)
		}
	}).call, &w)
}
