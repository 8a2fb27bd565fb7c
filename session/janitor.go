package session

import (
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// The janitor removes what nobody wants any more, and does not give up before it is
// gone: every create whose outcome is not known, and whose caller has left, is its
// business.

// Withdraw deletes the node, and tries until that is confirmed, also across
// reconnects. It answers when the node is gone, or the epoch over. Where the server
// refuses the deletion, for want of a permission for one, it answers when it has tried
// for a session timeout, and goes on trying.
func (a Async) Withdraw(path string, answer func()) { a.withdraw(path, a.newErrand(answer)) }

func (a Async) withdraw(path string, e *errand) {
	a.Delete(path, AnyVersion, func(err error) {
		switch {
		case err == nil, isNoNode(err), a.over(err):
			e.end()
		case isAny(err, ErrDisconnected):
			a.withdraw(path, e)
		default:
			a.later(e, path, err, func() { a.withdraw(path, e) })
		}
	})
}

// WithdrawAll deletes every child of dir whose name begins with the prefix, which has to
// contain a GUID, whether or not the reply to its create has come, like [Async.Withdraw].
// It is to be asked for after the create.
func (a Async) WithdrawAll(dir, prefix string, answer func()) {
	a.withdrawAll(dir, prefix, a.newErrand(answer))
}

func (a Async) withdrawAll(dir, prefix string, e *errand) {
	a.Children(dir, func(names []string, _ *Stat, err error) {
		switch {
		case isNoNode(err), a.over(err):
			e.end()
			return
		case isAny(err, ErrDisconnected):
			a.withdrawAll(dir, prefix, e)
			return
		case err != nil:
			a.later(e, dir, err, func() { a.withdrawAll(dir, prefix, e) })
			return
		}
		left := 1
		gone := func() {
			if left--; left == 0 {
				e.end()
			}
		}
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				left++
				a.Withdraw(Join(dir, name), gone)
			}
		}
		gone()
	})
}

// over reports whether an error means that there is nothing left to do, or nobody left
// to do it.
func (a Async) over(err error) bool {
	return isAny(err, ErrClosed) || a.epoch != 0 && isAny(err, ErrExpired) && !isAny(err, ErrDisconnected)
}

// An errand is something that the session does until it succeeds.
type errand struct {
	answer func()
	ended  bool          // answer was called
	until  time.Duration // by [Session.Age]: answer then, in any case
	pause  *backoff.ExponentialBackOff
}

func (a Async) newErrand(answer func()) *errand {
	s := a.session
	return &errand{answer: answer, until: s.Age() + s.opts.Timeout, pause: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(20*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second),
		backoff.WithMaxElapsedTime(0),
	)}
}

func (e *errand) end() {
	if !e.ended {
		e.ended = true
		e.answer()
	}
}

// later tries again after a pause what failed for no passing reason, such as an ACL
// that somebody has changed; not when the session is being closed.
func (a Async) later(e *errand, path string, why error, do func()) {
	s := a.session
	s.opts.Logger.Warn("trying again", "path", path, "reason", why)
	if s.Age() > e.until {
		e.end()
	}
	pause := e.pause.NextBackOff()
	s.workers.Go(func() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
			s.order.put(do)
		case <-s.closing:
		}
	})
}
