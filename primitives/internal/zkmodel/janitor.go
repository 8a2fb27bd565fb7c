package zkmodel

import (
	"github.com/zkactors/zkactors/session"
)

// This file removes nodes as the janitor of package session does.

// A job is a removal under way.
type job struct {
	session.Removal
	requests  requests
	answer    func(error)
	since     int64 // the zxid when the first deletion of any node was made, if it has failed; or 0
	cancelled bool
}

// Remove implements [client.Async].
func (a requests) Remove(r session.Removal, answer func(error)) (cancel func()) {
	j := &job{Removal: r, requests: a, answer: answer}
	if r.Is == nil && r.Says == nil && r.Guard == "" {
		j.delete(session.AnyVersion)
	} else {
		j.look()
	}
	return func() { j.cancelled = true }
}

func (j *job) look() {
	switch {
	case j.cancelled:
	case j.Guard == "":
		j.read(nil)
	default:
		j.requests.Exists(j.Guard, func(guard *session.Stat, err error) {
			if err == nil && guard == nil {
				err = session.ErrNoNode
			}
			if err != nil {
				j.again(err, j.look)
				return
			}
			j.read(guard)
		})
	}
}

func (j *job) read(guard *session.Stat) {
	if !j.cancelled {
		j.requests.Get(j.Path, func(data []byte, stat *session.Stat, err error) { j.found(data, stat, guard, err) })
	}
}

func (j *job) found(data []byte, stat, guard *session.Stat, err error) {
	const youngest = 1
	switch {
	case j.cancelled:
	case err != nil:
		j.again(err, j.look)
	case j.Is != nil && !j.Is(stat), j.Says != nil && !j.Says(data), j.since != 0 && stat.Czxid > j.since:
		j.answer(nil)
	case guard != nil:
		j.requests.Multi([]session.Op{session.CheckOp(j.Guard, guard.Version), session.DeleteOp(j.Path, session.AnyVersion)},
			func(_ []session.OpResult, err error) { j.again(err, j.look) })
	case j.Contested && stat.Version <= youngest:
		j.requests.Set(j.Path, data, stat.Version, func(now *session.Stat, err error) {
			switch {
			case is(err, session.ErrNoAuth, session.ErrTooLarge):
				j.delete(stat.Version)
			case err != nil:
				j.again(err, j.look)
			case now.Czxid != stat.Czxid:
				j.answer(nil)
			default:
				j.found(data, now, nil, nil)
			}
		})
	default:
		j.delete(stat.Version)
	}
}

func (j *job) delete(version int32) {
	if j.cancelled {
		return
	}
	first := j.requests.s.w.zxid
	j.requests.Delete(j.Path, version, func(err error) {
		try := j.look
		switch {
		case version != session.AnyVersion:
		case is(err, session.ErrDisconnected) && !session.InDoubt(err):
			try = func() { j.delete(version) }
		default:
			j.since = first
		}
		j.again(err, try)
	})
}

func (j *job) again(err error, try func()) {
	switch {
	case j.cancelled:
	case err == nil, is(err, session.ErrNoNode), j.requests.over(err):
		j.answer(nil)
	case is(err, session.ErrDisconnected, session.ErrUnknownOutcome, session.ErrExpired, session.ErrBadVersion):
		try()
	case j.Impatient && !session.Passing(err):
		j.answer(err)
	default:
		j.requests.s.After(pause, try)
	}
}
