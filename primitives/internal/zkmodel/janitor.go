package zkmodel

import "github.com/zkactors/zkactors/session"

// A desk makes the requests of removals for the janitor of package session.
type desk struct {
	requests
	answer func(error)
}

// Remove implements [client.Async].
func (a requests) Remove(r session.Removal, answer func(error)) (cancel func()) {
	a.cancelled = new(bool)
	r.At(desk{a, answer})
	return func() { *a.cancelled = true }
}

// List implements [session.Desk].
func (d desk) List(path, prefix string, answer func(names []string, err error)) {
	d.ask(&request{kind: readChildren, path: path, prefix: prefix, answer: func(r result) { answer(r.names, r.err) }})
}

// Delete implements [session.Desk]. It need not distinguish fleeting deletions, because no request
// in the model outlives its connection.
func (d desk) Delete(path string, version int32, _ bool, answer func(known int64, err error)) {
	known := d.s.w.zxid
	d.requests.Delete(path, version, func(err error) {
		if is(err, session.ErrExpired, session.ErrDisconnected) && !session.InDoubt(err) {
			known = 0 // it was never sent
		}
		answer(known, err)
	})
}

// Over implements [session.Desk].
func (d desk) Over(err error) bool { return d.over(err) }

// Done implements [session.Desk].
func (d desk) Done(err error) { d.answer(err) }

// Later implements [session.Desk].
func (d desk) Later(_ string, _ error, do func()) { d.s.After(pause, do) }
