package contender

import (
	"errors"
	"fmt"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/line"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A Recipe describes the line of one path, as all its contenders have it in common.
type Recipe struct {
	Name string // for the observer and for errors: "lock"
	Path string // likewise
	Dir  string // the parent of the contenders' nodes
	Data []byte // of their nodes
	Rule line.Rule

	Revocable bool // nodes may carry a revoke request
	Plain     bool // contenders do not write to the parent when they join

	// Skips says that a node of no session is no contender. Otherwise a contender waits behind it:
	// contenders of other libraries may stand in the line, which cannot know that.
	Skips bool

	// The departures from the published recipe. Each is nil where there is none.
	Parent    Parent
	Condition Condition
	Claim     Claim
}

// A Parent inspects and creates the node under which the contenders stand. A nil Parent is
// [Published].
type Parent interface {
	// Inspect reads the parent. It answers with a nil Stat if there is no parent. A parent without
	// data is ours to write. For isNew see [line.Snapshot.New].
	Inspect(requests client.Async, isNew bool, answer func(parent *session.Stat, err error))

	// Make creates the parent, and reports whether this call has. If it has not, or the error is
	// ErrNodeExists, the parent is inspected again.
	Make(requests client.Async, answer func(made bool, err error))

	// Warmth returns the name under which the session remembers that no inspection is needed.
	Warmth() string
}

// Published is the parent of the published recipe: any node, except one with the record of another
// recipe, or of a lock with priorities.
type Published struct {
	Dir        string
	Persistent bool // it is one, if we make it; otherwise a container
}

// Inspect implements [Parent].
func (p Published) Inspect(requests client.Async, _ bool, answer func(parent *session.Stat, err error)) {
	requests.Exists(p.Dir, func(stat *session.Stat, err error) {
		if err != nil || stat == nil {
			answer(stat, err)
			return
		}
		Vacant(requests, p.Dir, nodes.OfLock, stat, answer)
	})
}

// Vacant reads the data of the node above, or of, a line, if the Stat says that it has data. It
// answers with an error if that is the record of another recipe than own, or of another layout.
func Vacant(requests client.Async, path string, own nodes.Recipe, stat *session.Stat, answer func(now *session.Stat, err error)) {
	if stat.DataLength == 0 {
		answer(stat, nil)
		return
	}
	requests.Get(path, func(data []byte, stat *session.Stat, err error) {
		switch owner := nodes.Owner(data); {
		case err != nil, owner == "":
		case owner == nodes.OfPriorities && own == nodes.OfLock:
			err = fmt.Errorf("%w: that of locks with priorities", line.ErrLayout)
		default:
			err = line.Foreign(nodes.ForeignData(data))
		}
		answer(stat, client.Without(err, session.ErrNoNode))
	})
}

// Make implements [Parent].
func (p Published) Make(requests client.Async, answer func(made bool, err error)) {
	if p.Persistent {
		client.MakePersistent(requests, p.Dir, answer)
		return
	}
	requests.EnsurePath(p.Dir, answer)
}

// Warmth implements [Parent].
func (p Published) Warmth() string { return p.Dir }

// A Condition is data on which a rule depends beside the names, such as the limit of a semaphore.
// If it is nil, the names decide.
type Condition interface {
	// Read reads the condition.
	Read(requests client.Async, answer func(data string, err error))
}

// A Followed condition consists of one node and the names of its children. The session follows
// both, so that a change leads to a new list, and calls Read only while they are not known.
type Followed interface {
	Condition

	// Node returns the path of the node.
	Node() string

	// Of returns the condition by a reading of the node. Check returns an error if the children
	// leave no place for the line.
	Of(node session.Reading) string
	Check(children []string) error
}

// A Claim makes the first in line the holder. If it is nil, a contender holds as soon as it is
// first.
type Claim interface {
	// Take claims on behalf of the node. It answers with the zxid of the claim, or with taken if
	// another contender has it. If again is set, an earlier call may have claimed.
	Take(requests client.Async, node string, again bool, answer func(zxid int64, taken bool, err error))

	// Claimed returns the path of the node that proves the contender's claim.
	Claimed(node string) string

	// Withdraw deletes the claim and the node, or all nodes with the prefix if node is "". It
	// answers as [session.Async.Withdraw] does.
	Withdraw(requests client.Async, node, prefix string, answer func(error))
}

// A Preemptible claim can be replaced by a weaker one, and its holder can be asked to leave.
type Preemptible interface {
	Claim

	// Change replaces the node from by the node to, and the claim of from by the claim of to. It
	// succeeds if an earlier call has done so.
	Change(requests client.Async, from, to string, answer func(error))

	// Ask asks the holder with the node to leave. It answers when the holder's time to leave is
	// over, or at once if there is no limit. A second call after that deletes the holder's node.
	// Ask does not fail. It repeats the request of an earlier attempt, whose answer may be lost. It
	// keeps its timers in the set.
	Ask(timers *owned.Set, requests client.Async, attempt int, node string, answer func(overdue bool))
}

// An Inheriting claim may follow the grant.
type Inheriting interface {
	Claim

	// Inherit is called before Take, with the token of the grant.
	Inherit(node string, token int64)
}

// A Transferable claim is handed over by a write to the node of its next owner.
type Transferable interface {
	Claim

	// Written is called with the epoch, for each reading of the contender's own node that shows a
	// write since its creation.
	Written(epoch int)
}

// Carry calls try with the data and the version with which the contender's node was created. If try
// reports a write since, Carry reads the node and calls try again, so that the new node carries a
// revoke request of the old one. If the node is gone by then, an earlier change may have replaced
// it, which the next try finds out. Carry calls answer only if the node cannot be read.
func Carry(requests client.Async, path string, created []byte, try func(data []byte, version int32, written func()), answer func(error)) {
	var again func()
	again = func() {
		requests.Get(path, func(data []byte, stat *session.Stat, err error) {
			switch {
			case err == nil:
				try(data, stat.Version, again)
			case errors.Is(err, session.ErrNoNode):
				try(created, 0, again)
			default:
				answer(err)
			}
		})
	}
	try(created, 0, again)
}

// exchange replaces the node from by the node to. If to exists, an earlier change has created it,
// because its name has our GUID.
func (r *Recipe) exchange(requests client.Async, from, to string, answer func(error)) {
	from = znode.Join(r.Dir, from)
	Carry(requests, from, r.Data, func(data []byte, version int32, written func()) {
		requests.Multi([]session.Op{
			session.CreateOp(znode.Join(r.Dir, to), data, session.Ephemeral), session.DeleteOp(from, version),
		}, func(_ []session.OpResult, err error) {
			switch {
			case errors.Is(err, session.ErrBadVersion):
				written()
			case errors.Is(err, session.ErrNodeExists):
				answer(nil)
			default:
				answer(err)
			}
		})
	}, answer)
}

// parent returns the recipe's parent.
func (r *Recipe) parent() Parent {
	if r.Parent == nil {
		return Published{Dir: r.Dir}
	}
	return r.Parent
}

// warmth returns the name under which the session remembers the parent.
func (r *Recipe) warmth() string {
	if r.Parent == nil {
		return r.Dir
	}
	return r.Parent.Warmth()
}

// shared reports whether the parent may get another use: it is the path that the caller has given.
func (r *Recipe) shared() bool { return r.Dir == r.Path }
