// Package stock reads which items a queue has.
package stock

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

// A Store is a handle's access to the nodes of one queue.
type Store struct {
	Session client.Session
	Path    string
	Any     bool // whether there may be other priorities than 0

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

// IsChecked reports whether the path was seen to be that of a queue.
func (st *Store) IsChecked() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.checked
}

func (st *Store) lastFront() string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.front
}

func (st *Store) learnFront(dir string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.front = dir
}

// Dir returns the path of a directory of the queue.
func (st *Store) Dir(name string) string { return znode.Join(st.Path, name) }

// Bucket returns the path of a bucket.
func (st *Store) Bucket(b layout.Bucket) string { return znode.Join(st.Dir(layout.ItemsDir), b.Name()) }

// Node returns the path of an item.
func (st *Store) Node(p layout.Place) string {
	return znode.Join(st.Bucket(p.Bucket), p.Name)
}

// Claim returns the path of the claim of an item.
func (st *Store) Claim(id string) string { return znode.Join(st.Dir(layout.ClaimsDir), id) }

// IsClaim reports whether an operation is for a claim.
func (st *Store) IsClaim(op session.Op) bool {
	return strings.HasPrefix(op.Path(), st.Dir(layout.ClaimsDir)+"/")
}

// ClaimOps returns the operations that claim an item, for the consumer with the name. A claim ahead
// of a delivery does not count. It is marked: when a crash has left the mark, the next claim
// counts. So does each claim of an item without a record.
func (st *Store) ClaimOps(c layout.Claimed, consumer string) []session.Op {
	r := c.Record
	if r.Tentative || layout.InfixOf(c.Place.Name) != layout.ItemInfix {
		r.Attempts++
	}
	r.Tentative = true
	return []session.Op{
		session.CreateOp(st.Claim(c.Place.ID()), []byte(consumer), session.Ephemeral),
		session.SetOp(st.Node(c.Place), c.Written(r), c.Version),
	}
}

// ClaimableOps is the number of operations that take an item that a consumer may have claimed.
const ClaimableOps = 3

// TakeOps returns the operations that take an item that has the version. An item of version 0 was
// never claimed: a claim writes to it.
func (st *Store) TakeOps(p layout.Place, version int32) []session.Op {
	remove := session.DeleteOp(st.Node(p), version)
	if version == 0 {
		return []session.Op{remove}
	}
	claim := st.Claim(p.ID())
	return []session.Op{session.CreateOp(claim, nil, session.Ephemeral), session.DeleteOp(claim, session.AnyVersion), remove}
}

// Present calls f with the epoch of the present session, or of the next. The set has the
// subscription.
func Present(s client.Session, set *owned.Set, f func(epoch int, err error)) {
	var answer sync.Once
	set.Follow(s, func(ev session.Event) {
		switch ev := ev.(type) {
		case session.Connected:
			answer.Do(func() { f(ev.Epoch, nil) })
		case session.Closed:
			answer.Do(func() { f(0, session.ErrClosed) })
		case session.Suspended, session.Lapsed, session.Resumed, session.Expired:
		}
	}, nil)
}

// Inspect lists the path, and answers with an error if there is none, or it belongs to another
// recipe or layout. Its data is read if there is any.
func (st *Store) Inspect(requests client.Async, answer func(error)) {
	InspectData(requests, st.Path, func(names []string, _ *session.Stat, err error) {
		if err == nil {
			err = st.Check(names)
		}
		answer(err)
	})
}

// InspectData lists a path, and answers with an error if its data is the record of another recipe.
func InspectData(requests client.Async, path string, answer func(names []string, stat *session.Stat, err error)) {
	requests.Children(path, func(names []string, stat *session.Stat, err error) {
		if err != nil || stat.DataLength == 0 {
			answer(names, stat, err)
			return
		}
		requests.Get(path, func(data []byte, _ *session.Stat, err error) {
			if err == nil {
				err = layout.ForeignData(data)
			}
			answer(names, stat, err)
		})
	})
}

// Check returns an error if a child of the path belongs to another recipe or layout.
func (st *Store) Check(names []string) error {
	ours := []string{layout.ItemsDir, layout.ClaimsDir, layout.ReceiptsDir, layout.WaitersDir, layout.ProducersDir, layout.KeysDir, layout.DeadDir}
	for _, name := range names {
		if !slices.Contains(ours, name) {
			return layout.ForeignChild(st.Path, name)
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.checked = true
	return nil
}

// A RefusalError means that a transaction was not done because of one of its operations.
type RefusalError struct {
	Index int // of the operation
	Err   error
}

// Error implements the error interface.
func (r *RefusalError) Error() string { return r.Err.Error() }

// Unwrap returns the error of the operation.
func (r *RefusalError) Unwrap() error { return r.Err }

// Refused returns the error of a transaction, as a refusal if one of its operations was refused.
func Refused(results []session.OpResult, err error) error {
	i := slices.IndexFunc(results, func(r session.OpResult) bool { return r.Err != nil })
	if err == nil || i < 0 || session.InDoubt(err) {
		return err
	}
	return &RefusalError{i, err}
}
