package session

import (
	"fmt"
	"sync/atomic"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/wire"
)

// EnsurePath creates the node at path and its missing ancestors as containers, unless they exist.
// On ClickHouse Keeper they are persistent nodes, which sessions delete when they are empty. In the
// answer, made reports whether the node was made now, and is empty.
func (a Async) EnsurePath(path string, answer func(made bool, err error)) {
	refuseNil(answer == nil, "Async.EnsurePath: answer")
	(&ensuring{requests: a}).begin(path, answer)
}

// ensuring makes sure that there is a node. A repetition does no harm, so a lost reply is no reason
// to fail.
type ensuring struct {
	requests Async
	over     atomic.Bool  // set when the caller has left: nothing is repeated any more
	doubt    bool         // the reply to a create was lost
	broken   fault.Record // of its creates
}

func (e *ensuring) begin(path string, answer func(bool, error)) *call {
	full, err := e.requests.session.target(path)
	if err != nil {
		return newRequest("ensure", path, nil, answer).refuse(e.requests.session, err)
	}
	return e.ensure(full, answer)
}

// ensure works on absolute paths: the chroot itself may be missing.
func (e *ensuring) ensure(full string, answer func(bool, error)) *call {
	a := e.requests
	w := wire.Request{Op: wire.OpCreateContainer, Path: full, ACL: a.session.acl, Flags: int32(Container)}
	return issue(a, &newRequest("ensure", a.session.relative(full), nothing, func(_ struct{}, err error) {
		again := func() { e.ensure(full, answer) }
		e.broken.Note(err)
		if a.session.opts.anonymous(nil) {
			err = explained(err)
		}
		switch {
		case err == nil:
			answer(true, nil)
		case isAny(err, ErrNodeExists):
			answer(false, nil)
		case e.over.Load():
			answer(false, err)
		case isNoNode(err) && full != "/":
			dir, _ := znode.Split(full)
			e.ensure(dir, func(_ bool, err error) {
				if err != nil {
					answer(false, err)
					return
				}
				again()
			})
		case isAny(err, ErrDisconnected) && !e.broken.Hopeless():
			e.doubt = e.doubt || InDoubt(err)
			again()
		case isAny(err, ErrNoAuth):
			// The server looks at the parent's ACL before it looks for the node. From 3.8.6 on, a
			// node that may not be read exists, too.
			a.Exists(a.session.relative(full), func(stat *Stat, existsErr error) {
				if stat != nil || isAny(existsErr, ErrNoAuth) {
					err = nil
				}
				answer(false, err)
			})
		case e.broken.Hopeless():
			answer(false, fmt.Errorf("%w; %w", err, fault.ErrHopeless))
		case e.doubt && isAny(err, ErrExpired, ErrClosed) && !InDoubt(err):
			answer(false, fmt.Errorf("%w: %w", ErrUnknownOutcome, err))
		default:
			answer(false, err)
		}
	}).call, &w)
}
