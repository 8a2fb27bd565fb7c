package zkmodel

import (
	"strings"

	"github.com/zkactors/zkactors/session"
)

// This file removes nodes as the janitor of package session does.

// A job is a removal under way.
type job struct {
	session.Removal
	requests  requests
	done      func(error)
	since     int64 // the zxid when the first deletion of any node was made, if it has failed; or 0
	cancelled *bool
}

// Remove implements [client.Async].
func (a requests) Remove(r session.Removal, answer func(error)) (cancel func()) {
	cancelled := false
	a.begin(r, &cancelled, answer)
	return func() { cancelled = true }
}

func (a requests) begin(r session.Removal, cancelled *bool, done func(error)) {
	j := &job{Removal: r, requests: a, done: done, cancelled: cancelled}
	switch {
	case r.Prefix != "":
		j.list()
	case r.Is == nil && r.Says == nil && r.Guard == "":
		j.delete(session.AnyVersion)
	default:
		j.look()
	}
}

// end goes on with what is to be removed afterwards.
func (j *job) end(err error) {
	if err != nil || j.Then == nil {
		j.done(err)
		return
	}
	then := *j.Then
	then.Impatient = j.Impatient
	j.requests.begin(then, j.cancelled, j.done)
}

// list removes the children with the prefix.
func (j *job) list() {
	if *j.cancelled {
		return
	}
	j.requests.ask(&request{kind: readChildren, path: j.Path, prefix: j.Prefix, answer: func(r result) {
		if r.err != nil {
			j.again(r.err, j.list)
			return
		}
		left, found := 1, false
		var refused error
		gone := func(err error) {
			if refused == nil {
				refused = err
			}
			if left--; left > 0 {
				return
			}
			if found && refused == nil {
				j.list()
				return
			}
			j.end(refused)
		}
		for _, name := range r.names {
			if strings.HasPrefix(name, j.Prefix) {
				left++
				found = true
				j.requests.begin(session.Removal{Path: session.Join(j.Path, name), Impatient: j.Impatient}, j.cancelled, gone)
			}
		}
		gone(nil)
	}})
}

func (j *job) look() {
	switch {
	case *j.cancelled:
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
	if !*j.cancelled {
		j.requests.Get(j.Path, func(data []byte, stat *session.Stat, err error) { j.found(data, stat, guard, err, false) })
	}
}

func (j *job) found(data []byte, stat, guard *session.Stat, err error, written bool) {
	const youngest = 1
	switch {
	case *j.cancelled:
	case err != nil:
		j.again(err, j.look)
	case j.since != 0 && stat.Czxid > j.since && j.Impatient:
		j.end(session.ErrUnknownOutcome)
	case j.Is != nil && !j.Is(stat), j.Says != nil && !j.Says(data), j.since != 0 && stat.Czxid > j.since:
		j.end(nil)
	case guard != nil:
		j.requests.Multi([]session.Op{session.CheckOp(j.Guard, guard.Version), session.DeleteOp(j.Path, session.AnyVersion)},
			func(_ []session.OpResult, err error) { j.again(err, j.look) })
	case j.Contested && (!written || stat.Version <= youngest):
		j.requests.Set(j.Path, data, stat.Version, func(now *session.Stat, err error) {
			switch {
			case is(err, session.ErrNoAuth, session.ErrTooLarge):
				j.delete(stat.Version)
			case err != nil:
				j.again(err, j.look)
			case now.Czxid != stat.Czxid:
				if j.Replaced != nil {
					j.Replaced(now)
				}
				j.end(nil)
			default:
				j.found(data, now, nil, nil, true)
			}
		})
	default:
		j.delete(stat.Version)
	}
}

func (j *job) delete(version int32) {
	if *j.cancelled {
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
	case *j.cancelled:
	case j.Impatient && j.requests.over(err):
		j.end(err)
	case err == nil, is(err, session.ErrNoNode), j.requests.over(err):
		j.end(nil)
	case is(err, session.ErrDisconnected, session.ErrUnknownOutcome, session.ErrExpired, session.ErrBadVersion):
		try()
	case j.Impatient && !session.Passing(err):
		j.end(err)
	default:
		j.requests.s.After(pause, try)
	}
}
