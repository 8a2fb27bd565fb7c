package queue

import (
	"slices"
	"strings"
	"sync"

	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/primitives/queue/internal/layout"
	"github.com/zkactors/zkactors/session"
)

// A store is a handle's access to the nodes of one queue.
type store struct {
	session client.Session
	path    string
	any     bool // whether there may be other priorities than 0

	mu      sync.Mutex
	checked bool   // set when the path was seen to be that of a queue
	front   string // the bucket from which the last look had its first items; "" if there was none
	hidden  hidden
}

// A hidden is the first claimed item that a list has left out last.
type hidden struct {
	id     string
	proper bool // set when its claim was seen to be one
}

// isChecked reports whether the path was seen to be that of a queue.
func (st *store) isChecked() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.checked
}

func (st *store) lastFront() string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.front
}

func (st *store) learnFront(dir string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.front = dir
}

// dir returns the path of a directory of the queue.
func (st *store) dir(name string) string { return znode.Join(st.path, name) }

// bucket returns the path of a bucket.
func (st *store) bucket(b layout.Bucket) string { return znode.Join(st.dir(layout.ItemsDir), b.Name()) }

// node returns the path of an item.
func (st *store) node(p layout.Place) string {
	return znode.Join(st.bucket(p.Bucket), p.Name)
}

// claim returns the path of the claim of an item.
func (st *store) claim(id string) string { return znode.Join(st.dir(layout.ClaimsDir), id) }

// isClaim reports whether an operation is for a claim.
func (st *store) isClaim(op session.Op) bool {
	return strings.HasPrefix(op.Path(), st.dir(layout.ClaimsDir)+"/")
}

// claimOps returns the operations that claim an item, for the consumer with the name. A claim ahead
// of a delivery does not count. It is marked: when a crash has left the mark, the next claim
// counts. So does each claim of an item without a record.
func (st *store) claimOps(c layout.Claimed, consumer string) []session.Op {
	r := c.Record
	if r.Tentative || layout.InfixOf(c.Place.Name) != layout.ItemInfix {
		r.Attempts++
	}
	r.Tentative = true
	return []session.Op{
		session.CreateOp(st.claim(c.Place.ID()), []byte(consumer), session.Ephemeral),
		session.SetOp(st.node(c.Place), c.Written(r), c.Version),
	}
}

// claimableOps is the number of operations that take an item that a consumer may have claimed.
const claimableOps = 3

// takeOps returns the operations that take an item that has the version. An item of version 0 was
// never claimed: a claim writes to it.
func (st *store) takeOps(p layout.Place, version int32) []session.Op {
	remove := session.DeleteOp(st.node(p), version)
	if version == 0 {
		return []session.Op{remove}
	}
	claim := st.claim(p.ID())
	return []session.Op{session.CreateOp(claim, nil, session.Ephemeral), session.DeleteOp(claim, session.AnyVersion), remove}
}

// present calls f with the epoch of the present session, or of the next. The set has the
// subscription.
func present(s client.Session, set *owned.Set, f func(epoch int, err error)) {
	var answer sync.Once
	set.Follow(s, func(ev session.Event) {
		switch ev := ev.(type) {
		case session.Connected:
			answer.Do(func() { f(ev.Epoch, nil) })
		case session.Closed:
			answer.Do(func() { f(0, session.ErrClosed) })
		case session.Suspended, session.Resumed, session.Expired:
		}
	}, nil)
}

// check returns an error if a child of the path belongs to another recipe or layout.
func (st *store) check(names []string) error {
	ours := []string{layout.ItemsDir, layout.ClaimsDir, layout.ReceiptsDir, layout.WaitersDir, layout.ProducersDir, layout.DeadDir}
	for _, name := range names {
		if !slices.Contains(ours, name) {
			return layout.Foreign(st.path, name)
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.checked = true
	return nil
}

// A refusal means that a transaction was not done because of one of its operations.
type refusal struct {
	index int // of the operation
	err   error
}

// Error implements the error interface.
func (r *refusal) Error() string { return r.err.Error() }

// Unwrap returns the error of the operation.
func (r *refusal) Unwrap() error { return r.err }

// refused returns the error of a transaction, as a refusal if one of its operations was refused.
func refused(results []session.OpResult, err error) error {
	i := slices.IndexFunc(results, func(r session.OpResult) bool { return r.Err != nil })
	if err == nil || i < 0 || session.InDoubt(err) {
		return err
	}
	return &refusal{i, err}
}
