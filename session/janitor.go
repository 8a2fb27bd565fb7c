package session

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// The janitor removes what nobody wants any more, and does not give up before it is
// gone: every create whose outcome is not known, and whose caller has left, is its
// business.

// Withdraw deletes the node, and tries until that is confirmed, also across
// reconnects. It answers when the node is gone, or the epoch over.
func (a Async) Withdraw(path string, answer func()) {
	a.withdraw(path, newPatience(), answer)
}

func (a Async) withdraw(path string, patience *backoff.ExponentialBackOff, answer func()) {
	a.Delete(path, AnyVersion, func(err error) {
		switch {
		case err == nil, isNoNode(err), a.over(err):
			answer()
		case isAny(err, ErrDisconnected):
			a.withdraw(path, patience, answer)
		default:
			a.later(patience, path, err, func() { a.withdraw(path, patience, answer) })
		}
	})
}

// WithdrawAll deletes every child of dir that was created with the GUID, whether or
// not the reply to its create has come, like [Async.Withdraw]. It is to be asked for
// after the create.
func (a Async) WithdrawAll(dir, guid string, answer func()) {
	a.withdrawAll(dir, guid, newPatience(), answer)
}

func (a Async) withdrawAll(dir, guid string, patience *backoff.ExponentialBackOff, answer func()) {
	a.Children(dir, func(names []string, _ *Stat, err error) {
		switch {
		case isNoNode(err), a.over(err):
			answer()
			return
		case isAny(err, ErrDisconnected):
			a.withdrawAll(dir, guid, patience, answer)
			return
		case err != nil:
			a.later(patience, dir, err, func() { a.withdrawAll(dir, guid, patience, answer) })
			return
		}
		left := 1
		gone := func() {
			if left--; left == 0 {
				answer()
			}
		}
		for _, name := range names {
			if hasGUID(name, guid) {
				left++
				a.withdraw(Join(dir, name), newPatience(), gone)
			}
		}
		gone()
	})
}

// over reports whether an error means that there is nothing left to remove, or
// nobody left to do it.
func (a Async) over(err error) bool {
	return isAny(err, ErrClosed) || a.epoch != 0 && isAny(err, ErrExpired) && !isAny(err, ErrDisconnected)
}

// later tries again after a pause what failed for no passing reason, such as an ACL
// that somebody has changed.
func (a Async) later(patience *backoff.ExponentialBackOff, path string, why error, do func()) {
	a.session.opts.Logger.Warn("cannot remove a node; trying again", "path", path, "reason", why)
	pause := patience.NextBackOff()
	s := a.session
	s.workers.Go(func() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.closing:
		}
		s.do(do)
	})
}

func newPatience() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(20*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second),
		backoff.WithMaxElapsedTime(0),
	)
}
