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
	tails   map[int32]target // where the next item of each priority goes, as far as is known
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

// A target is a bucket that items are put into.
type target struct {
	bucket bucket
	fresh  bool // it is made in the same transaction
	seals  bool // and the one before it is sealed
}

// tail returns where to put the next item, and false if that is not known.
func (st *store) tail(priority int32) (target, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	to, ok := st.tails[priority]
	return to, ok
}

func (st *store) setTail(to target) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.tails == nil {
		st.tails = make(map[int32]target)
	}
	st.tails[to.bucket.priority] = to
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
	switch to, ok := f.into.tail(f.priority); {
	case !checked:
		f.check()
	case f.into.layout.flat():
		f.send(target{})
	case !ok:
		f.find()
	default:
		f.send(to)
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

// find finds the newest bucket, or has one made. A server that lags could show one that is sealed, and not its
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
			to := target{bucket: newest}
			if newest.number < 0 || sealed != nil && *sealed == newest {
				to = target{bucket: bucket{f.priority, newest.number + 1}, fresh: true}
			}
			f.send(to)
		})
	})
}

// ops returns the operations that put the items into the bucket. The first after those that are to be done
// first fails if the bucket is not as it was thought to be.
func (f *filing) ops(to target) []session.Op {
	ops := slices.Clone(f.first)
	dir := f.into.bucket(to.bucket)
	if to.seals {
		ops = append(ops, session.SetOp(f.into.bucket(bucket{to.bucket.priority, to.bucket.number - 1}), nil, 0))
	}
	switch {
	case f.into.layout.flat():
	case to.fresh:
		ops = append(ops, session.CreateOp(dir, nil, session.Container))
	default:
		ops = append(ops, session.CheckOp(dir, 0))
	}
	for _, item := range f.items {
		path := session.Join(f.into.path, f.into.layout.prefix())
		if !f.into.layout.flat() {
			path = session.Join(dir, session.GUIDName(item.id, itemInfix[1:]))
		}
		ops = append(ops, session.CreateOp(path, item.data, f.mode))
	}
	return ops
}

func (f *filing) send(to target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cancelled {
		return
	}
	// The answer comes when the lock is free: on the goroutine of the session, or after a refusal that needs no lock.
	f.transaction = f.receipts.begin(f.requests, f.ops(to), func(results []session.OpResult, err error) {
		no := error(nil) // what is said of the bucket
		for i := len(f.first); i < len(results)-len(f.items) || f.into.layout.flat() && i < len(results); i++ {
			if no == nil {
				no = results[i].Err
			}
		}
		switch {
		case err == nil && len(results) > 0:
			created := results[len(results)-len(f.items):]
			f.placed(to.bucket, created)
			f.answer(created, nil)
		case err == nil:
			f.answer(nil, nil)
		case session.InDoubt(err) || !isAny(no, session.ErrNoNode, session.ErrBadVersion, session.ErrNodeExists):
			f.answer(results, err)
		case f.into.layout.flat() && !errors.Is(no, session.ErrNoNode):
			f.answer(results, err)
		case f.into.layout == Kazoo:
			f.keep(to)
		case f.into.layout.flat():
			f.ensure(f.into.path, to)
		case to.fresh && !to.seals && errors.Is(no, session.ErrNoNode):
			f.ensure(f.into.dir(itemsDir), to)
		default:
			if !to.fresh && errors.Is(no, session.ErrBadVersion) {
				f.mu.Lock()
				f.sealed = &to.bucket
				f.mu.Unlock()
			}
			f.find()
		}
	})
}

// ensure makes a directory, and tries again.
func (f *filing) ensure(dir string, to target) {
	f.requests.EnsurePath(dir, func(_ bool, err error) {
		if err != nil {
			f.again(err, func() { f.ensure(dir, to) })
			return
		}
		f.send(to)
	})
}

// keep makes a path that stays when it is empty, and tries again: kazoo's Queue makes the path once, and then
// fails if it is gone. The receipts keep the directory above it.
func (f *filing) keep(to target) {
	f.requests.Create(f.into.path, nil, session.Persistent, func(_ string, err error) {
		if err != nil && !errors.Is(err, session.ErrNodeExists) {
			f.again(err, func() { f.keep(to) })
			return
		}
		f.send(to)
	})
}

// placed notes where the next items go: behind a full bucket into the next one, which is made with them.
func (f *filing) placed(b bucket, created []session.OpResult) {
	switch {
	case f.into.layout.flat():
	case sequenceOf(created[len(created)-1].Path) < bucketSize-1:
		f.into.setTail(target{bucket: b})
	default:
		f.into.setTail(target{bucket: bucket{b.priority, b.number + 1}, fresh: true, seals: true})
	}
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}
