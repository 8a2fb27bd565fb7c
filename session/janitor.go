package session

import (
	"errors"
	"slices"
	"strings"

	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session/internal/fault"
)

// The janitor removes nodes. It repeats a request that fails after a pause, until a server confirms
// that the node is gone, or the epoch is over.

// A Removal names a node that [Removal.Begin] removes.
type Removal struct {
	Path string

	// Is and Says, if not nil, report from its Stat and its data whether the node at the path is
	// the one to remove; another node stays. Both are called before every attempt, and Is once more
	// when the node has been written to. If both are nil, the removal deletes any node that was
	// there when the first attempt reached the server. If the outcome of that attempt is unknown, a
	// node that is younger than the session's newest zxid stays. An impatient removal answers
	// ErrUnknownOutcome.
	Is   func(*Stat) bool
	Says func(data []byte) bool

	// Guard, if not "", is the path of a node whose version grows before another node can take
	// the place. It is read first, and the deletion is a transaction that checks its version.
	Guard string

	// Contested says that other clients create nodes at the path, which may have the same version.
	// The node is then written to before it is deleted: the reply identifies it, and no new node
	// has the version that the write gives it (docs/adr/0009). After a reconnect it is read and
	// written to again.
	Contested bool

	// Replaced, if not nil, receives the Stat of another node that was written to, because it had
	// replaced the node that was read.
	Replaced func(*Stat)

	// Prefix, if not "", says that the removal deletes not the node at the path, but its children
	// whose names begin with the prefix. It has to contain a GUID. They are listed until none is
	// found: a node may be replaced by another with the prefix until it is deleted.
	Prefix string

	// Beside, if not "", is the path of another node, of the version BesideVersion. It is deleted
	// in one transaction with the node at Path, and never without it: it stays if another client
	// has deleted the node, and if it is itself of another version. Is, Says and Guard do not
	// count.
	Beside        string
	BesideVersion int32

	// Then, if not nil, is removed afterwards, within the same session timeout.
	Then *Removal

	// Impatient gives up, Then included, at the first error that does not pass; the end of the
	// session is such an error. A request with an error that passes is repeated without a limit.
	Impatient bool

	joins bool // the deletion of any node may share a transaction
}

// youngest is the highest version of a new node: see package presence.
const youngest = 1

// A Desk makes the requests of removals, on a session or on a model of a session. Each request is
// answered by one call of answer. After the removal is cancelled, no request is made.
type Desk interface {
	Exists(path string, answer func(*Stat, error))
	Get(path string, answer func(data []byte, stat *Stat, err error))
	Set(path string, data []byte, version int32, answer func(*Stat, error))
	Multi(ops []Op, answer func([]OpResult, error))

	// List reads the names of the children. Only names with the prefix matter.
	List(path, prefix string, answer func(names []string, err error))

	// Delete deletes the node if it has the version, or any with [AnyVersion]. If fleeting, it is
	// sent on the present connection, or not at all. Known is the newest zxid that the session had
	// received when the request was sent.
	Delete(path string, version int32, fleeting bool, answer func(known int64, err error))

	// Over reports whether an error means that nothing is left to do.
	Over(err error) bool

	// Later calls do, which repeats the failed request, after a pause.
	Later(path string, why error, do func())

	// Done receives the outcome of the removal.
	Done(err error)
}

// Begin removes the node. The answer is nil when the node is gone, or the epoch is over. While the
// server refuses the deletion, for example for want of a permission, the attempts go on. After a
// session timeout the answer is the error; an impatient removal has ended with its answer. After
// cancel nothing more is sent, and there is no answer.
func (r Removal) Begin(requests Async, answer func(error)) (cancel func()) {
	return r.start(requests, answer).cancel
}

func (r Removal) start(requests Async, answer func(error)) *errand {
	both := &struct {
		errand
		job
	}{errand: requests.newErrand(answer)}
	e, j := &both.errand, &both.job
	e.impatient, e.joins = r.Impatient, r.joins
	j.Removal, j.desk = r, e
	j.begin()
	return e
}

// At is Begin with the requests of a desk, which receives the outcome.
func (r Removal) At(d Desk) { (&job{Removal: r, desk: d}).begin() }

func (j *job) begin() {
	switch {
	case j.Prefix != "":
		j.list()
	case j.Beside != "":
		j.both()
	case j.Is == nil && j.Says == nil && j.Guard == "":
		j.delete(AnyVersion, false)
	default:
		j.look()
	}
}

// A job is a removal under way.
type job struct {
	Removal
	desk Desk
	done func(error) // of a job of several; nil if the desk receives the outcome

	failed bool  // set when the first deletion of any node has
	known  int64 // the newest zxid that the session had received when that deletion was sent
}

// end goes on with the removal that comes afterwards.
func (j *job) end(err error) {
	switch {
	case err == nil && j.Then != nil:
		then := &job{Removal: *j.Then, desk: j.desk, done: j.done}
		then.Impatient = j.Impatient
		then.begin()
	case j.done != nil:
		j.done(err)
	default:
		j.desk.Done(err)
	}
}

// both deletes the node and the one beside it. If the outcome of an attempt is unknown, the next
// finds both, or no node: then either that attempt has deleted both, or another client the node.
func (j *job) both() {
	j.desk.Multi([]Op{DeleteOp(j.Path, AnyVersion), DeleteOp(j.Beside, j.BesideVersion)}, func(results []OpResult, err error) {
		refused := slices.IndexFunc(results, func(r OpResult) bool { return r.Err != nil })
		if refused == 1 && isAny(err, ErrNoNode, ErrBadVersion) {
			j.Beside = ""
			j.begin()
			return
		}
		j.again(err, j.both)
	})
}

// list removes the children with the prefix.
func (j *job) list() {
	j.desk.List(j.Path, j.Prefix, func(names []string, err error) {
		if err != nil {
			j.again(err, j.list)
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
		for _, name := range names {
			if strings.HasPrefix(name, j.Prefix) {
				left++
				found = true
				one := Removal{Path: znode.Join(j.Path, name), Impatient: j.Impatient}
				(&job{Removal: one, desk: j.desk, done: gone}).begin()
			}
		}
		gone(nil)
	})
}

// look reads the guard, and then the node at the path.
func (j *job) look() {
	if j.Guard == "" {
		j.read(nil)
		return
	}
	j.desk.Exists(j.Guard, func(guard *Stat, err error) {
		if err == nil && guard == nil {
			err = ErrNoNode
		}
		if err != nil {
			j.again(err, j.look)
			return
		}
		j.read(guard)
	})
}

func (j *job) read(guard *Stat) {
	if !j.Contested && j.Says == nil {
		j.desk.Exists(j.Path, func(stat *Stat, err error) {
			if err == nil && stat == nil {
				err = ErrNoNode
			}
			j.found(nil, stat, guard, err, false)
		})
		return
	}
	j.desk.Get(j.Path, func(data []byte, stat *Stat, err error) {
		if j.Says == nil && isAny(err, ErrNoAuth, ErrTooLarge) {
			j.Contested = false // its data cannot be written back
			err = ErrDisconnected
		}
		j.found(data, stat, guard, err, false)
	})
}

// found decides on the node that was read, or written to.
func (j *job) found(data []byte, stat, guard *Stat, err error, written bool) {
	switch {
	case err != nil:
		j.again(err, j.look)
	case j.Is != nil && !j.Is(stat), j.Says != nil && !j.Says(data):
		j.end(nil)
	case j.failed && stat.Czxid > j.known:
		j.endUnknown()
	case guard != nil:
		j.desk.Multi([]Op{CheckOp(j.Guard, guard.Version), DeleteOp(j.Path, AnyVersion)}, func(_ []OpResult, err error) {
			j.again(err, j.look)
		})
	case j.Contested && (!written || stat.Version <= youngest):
		j.mark(data, stat)
	default:
		j.delete(stat.Version, written)
	}
}

// endUnknown ends a removal of any node that has found another node than it knew of. Either that
// node has replaced the deleted node, or none was deleted.
func (j *job) endUnknown() {
	if j.Impatient {
		j.end(&OpError{Op: "delete", Path: j.Path, Err: ErrUnknownOutcome})
		return
	}
	j.end(nil)
}

// mark writes the data of the node back to it.
func (j *job) mark(data []byte, stat *Stat) {
	j.desk.Set(j.Path, data, stat.Version, func(now *Stat, err error) {
		switch {
		case isAny(err, ErrNoAuth, ErrTooLarge): // a client that may delete need not be allowed to write
			j.delete(stat.Version, true)
		case err != nil:
			j.again(err, j.look)
		case now.Czxid != stat.Czxid: // the node is gone, and this is another
			if j.Replaced != nil {
				j.Replaced(now)
			}
			j.end(nil)
		default:
			j.found(data, now, nil, nil, true)
		}
	})
}

// delete deletes the node if it has the version. If fleeting, the version is known on the present
// connection only.
func (j *job) delete(version int32, fleeting bool) {
	j.desk.Delete(j.Path, version, fleeting, func(known int64, err error) {
		if err == nil {
			j.end(nil)
			return
		}
		try := j.look
		switch {
		case version != AnyVersion:
		case isAny(err, ErrDisconnected, ErrExpired, ErrAuthFailed) && !InDoubt(err): // no server executed it
			try = func() { j.delete(version, false) }
		default:
			j.failed, j.known = true, known
		}
		j.again(err, try)
	})
}

// again ends the job, or goes on with try.
func (j *job) again(err error, try func()) {
	switch {
	case j.Impatient && j.desk.Over(err):
		j.end(err)
	case err == nil, isNoNode(err), j.desk.Over(err):
		j.end(nil)
	case isAny(err, ErrDisconnected, ErrUnknownOutcome, ErrExpired, ErrBadVersion) && !errors.Is(err, fault.ErrAlone):
		try()
	case j.Impatient && !Passing(err):
		j.end(err)
	default:
		j.desk.Later(j.Path, err, try)
	}
}

// Withdraw deletes the node, and tries until that is confirmed, also across reconnects. It answers
// nil when the node is gone, or the epoch over. Where the server refuses the deletion, for example
// for want of a permission, the answer is that error, after a session timeout; the attempts go on.
func (a Async) Withdraw(path string, answer func(error)) {
	refuseNil(answer == nil, "Async.Withdraw: answer")
	Removal{Path: path, joins: a.mayShare()}.start(a, answer)
}
