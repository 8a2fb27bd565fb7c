package queue

import (
	"errors"
	"slices"
	"sync"

	"github.com/zkactors/zkactors/primitives/internal/owned"
	"github.com/zkactors/zkactors/session"
)

// A store is the nodes of one queue.
type store struct {
	session *session.Session
	path    string
	layout  Layout
	any     bool // whether there may be other priorities than 0

	mu      sync.Mutex
	tails   map[int32]bucket // the newest bucket of each priority, as far as is known
	checked bool             // set when the path was seen to be that of a queue
}

func (st *store) dir(name string) string { return session.Join(st.path, name) }

func (st *store) bucket(b bucket) string { return session.Join(st.dir(itemsDir), b.name()) }

// node returns the path of an item.
func (st *store) node(p place) string {
	if st.layout.flat() {
		return session.Join(st.path, p.name)
	}
	return session.Join(st.bucket(p.bucket), p.name)
}

func (st *store) claim(id string) string { return session.Join(st.dir(claimsDir), id) }

// tail returns the newest bucket, and false if none is known.
func (st *store) tail(priority int32) (bucket, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	b, ok := st.tails[priority]
	return b, ok
}

func (st *store) setTail(b bucket) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.tails == nil {
		st.tails = make(map[int32]bucket)
	}
	st.tails[b.priority] = b
}

// check returns an error if a child of the path belongs to another recipe or layout.
func (st *store) check(names []string) error {
	for _, name := range names {
		if !st.layout.flat() && !slices.Contains([]string{itemsDir, claimsDir, receiptsDir}, name) || st.layout.flat() && !st.layout.owns(name) {
			return foreign(st.path, name)
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.checked = true
	return nil
}

// A filing puts items into a queue, in one transaction.
type filing struct {
	into     *store
	receipts *receipts
	requests session.Async
	first    []session.Op // what is done in the same transaction
	priority int32
	items    []newItem
	mode     session.CreateMode
	answer   func(created []session.OpResult, err error)
	pauses   owned.Set

	mu          sync.Mutex
	transaction *transaction // the newest
	sealed      *bucket      // the newest that was seen to be sealed
	cancelled   bool
}

type newItem struct {
	id   string
	data []byte
}

// begin puts the items. The answer has a result for each, but none if the reply was lost. See [receipts.begin].
func (f *filing) begin() {
	f.into.mu.Lock()
	checked := f.into.checked
	f.into.mu.Unlock()
	switch b, ok := f.into.tail(f.priority); {
	case !checked:
		f.check()
	case f.into.layout.flat():
		f.send(bucket{})
	case !ok:
		f.find()
	default:
		f.send(b)
	}
}

// cancel is that of [transaction.cancel].
func (f *filing) cancel() (doubt bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancelled = true
	return f.transaction != nil && f.transaction.cancel()
}

func (f *filing) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cancelled
}

// again repeats what failed for a reason that passes.
func (f *filing) again(err error, try func()) {
	switch {
	case f.over():
	case session.Passing(err) && (f.requests == f.into.session.Async(0) || !errors.Is(err, session.ErrExpired)):
		f.pauses.Answer(err, try)
	case session.InDoubt(err):
		f.answer(nil, session.ErrExpired) // no item was sent
	default:
		f.answer(nil, err)
	}
}

// check looks whether the path is that of a queue.
func (f *filing) check() {
	f.requests.Children(f.into.path, func(names []string, _ *session.Stat, err error) {
		if err != nil && !errors.Is(err, session.ErrNoNode) {
			f.again(err, f.check)
			return
		}
		if err := f.into.check(names); err != nil {
			f.again(err, nil)
			return
		}
		f.begin()
	})
}

// find finds the newest bucket, or makes one. A server that lags could show one that is sealed, and not its
// successors.
func (f *filing) find() {
	dir := f.into.dir(itemsDir)
	f.requests.Sync(dir, func(err error) {
		if err != nil {
			f.again(err, f.find)
			return
		}
		f.requests.Children(dir, func(names []string, _ *session.Stat, err error) {
			if err != nil && !errors.Is(err, session.ErrNoNode) {
				f.again(err, f.find)
				return
			}
			newest := bucket{f.priority, -1}
			for _, name := range names {
				b, ok := parseBucket(name)
				if !ok {
					f.again(foreign(dir, name), nil)
					return
				}
				if b.priority == f.priority && b.number > newest.number {
					newest = b
				}
			}
			f.mu.Lock()
			sealed := f.sealed
			f.mu.Unlock()
			if newest.number < 0 || sealed != nil && *sealed == newest {
				newest.number++
				f.make(newest)
				return
			}
			f.into.setTail(newest)
			f.send(newest)
		})
	})
}

func (f *filing) make(b bucket) {
	f.requests.EnsurePath(f.into.bucket(b), func(_ bool, err error) {
		if err != nil {
			f.again(err, func() { f.make(b) })
			return
		}
		f.into.setTail(b)
		f.send(b)
	})
}

// ops returns the operations that put the items into the bucket.
func (f *filing) ops(b bucket) []session.Op {
	ops := slices.Clone(f.first)
	if !f.into.layout.flat() {
		ops = append(ops, session.CheckOp(f.into.bucket(b), 0))
	}
	for _, item := range f.items {
		path := session.Join(f.into.path, prefixes[f.into.layout])
		if !f.into.layout.flat() {
			path = session.Join(f.into.bucket(b), session.GUIDName(item.id, itemInfix[1:]))
		}
		ops = append(ops, session.CreateOp(path, item.data, f.mode))
	}
	return ops
}

func (f *filing) send(b bucket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cancelled {
		return
	}
	n := len(f.first)
	ops := f.ops(b)
	// The answer comes when the lock is free: on the goroutine of the session, or after a refusal that needs no lock.
	f.transaction = f.receipts.begin(f.requests, ops, func(results []session.OpResult, err error) {
		gone := len(results) > n && isAny(results[n].Err, session.ErrNoNode, session.ErrBadVersion)
		switch {
		case err == nil && len(results) > 0:
			created := results[len(results)-len(f.items):]
			f.seal(b, created)
			f.answer(created, nil)
		case err == nil:
			f.answer(nil, nil)
		case session.InDoubt(err) || !gone:
			f.answer(results, err)
		case f.into.layout.flat():
			f.requests.EnsurePath(f.into.path, func(_ bool, err error) {
				if err != nil {
					f.again(err, func() { f.send(b) })
					return
				}
				f.send(b)
			})
		default:
			f.mu.Lock()
			if errors.Is(results[n].Err, session.ErrBadVersion) {
				f.sealed = &b
			}
			f.mu.Unlock()
			f.find()
		}
	})
}

// seal seals a full bucket, and makes the next one. If it fails, the next producer tries.
func (f *filing) seal(b bucket, created []session.OpResult) {
	if f.into.layout.flat() || sequenceOf(created[len(created)-1].Path) < bucketSize-1 {
		return
	}
	next := bucket{b.priority, b.number + 1}
	f.into.session.Async(0).Multi([]session.Op{
		session.SetOp(f.into.bucket(b), nil, 0),
		session.CreateOp(f.into.bucket(next), nil, session.Container),
	}, func(_ []session.OpResult, err error) {
		if err == nil {
			f.into.setTail(next)
		}
	})
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}
