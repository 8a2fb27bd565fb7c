package gozk

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkactors/zkactors/bench/driver"
)

// rawPrograms returns the programs of bare requests: the requests that one operation of a recipe
// needs. Contenders learn their order from this process, so none of them lists a line.
//
//	program          an operation sends                and waits for
//	raw              create, delete
//	raw-lock         create, children, delete
//	raw-line         create, get with a watch, delete  the deletion of one node ahead
//	raw-readwrite    create, get with a watch, delete  the deletion of one node ahead
//	raw-succession   delete, create, get with a watch  the deletion, until the next session receives it
//	raw-put          create
//	raw-drain        get, delete; children once for all
//	raw-barrier      create, exists with a watch       the creation of the ready node
//	                 delete, get with a watch          the deletion of the ready node
//
// With the parameter transactions, all writes that occur at once are sent in that number of
// transactions. With release=background an operation does not wait for its deletion.
func rawPrograms() map[string]driver.Program {
	return map[string]driver.Program{
		"raw": raw, "raw-lock": rawLocks, "raw-line": rawLine, "raw-readwrite": rawReadWrite, "raw-succession": rawSuccession,
		"raw-put": rawPut, "raw-drain": rawDrain, "raw-barrier": rawBarrier,
	}
}

// raw creates and deletes nodes, as fast as the servers and this client can.
func raw(r *driver.Run) error {
	all, end, err := open(r, 1)
	if err != nil {
		return err
	}
	defer end()
	conn := all[0]
	if err := ensure(conn, r.Path); err != nil {
		return err
	}
	batch := r.Int("batch", 1)
	r.Scale(batch)
	return r.Loop(r.Int("workers", 1), func(w, _ int) error {
		path := r.Path + "/" + strconv.Itoa(w) + "-"
		if batch == 1 {
			if _, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
				return err
			}
			return conn.Delete(path, -1)
		}
		creates, nodes := make([]any, batch), make([]string, batch)
		for i := range batch {
			nodes[i] = path + strconv.Itoa(i)
			creates[i] = createRequest(nodes[i], nil, zk.FlagEphemeral)
		}
		if _, err := conn.Multi(creates...); err != nil {
			return err
		}
		return deleteAll(conn, nodes)
	})
}

func createRequest(path string, data []byte, flags int32) *zk.CreateRequest {
	return &zk.CreateRequest{Path: path, Data: data, Acl: zk.WorldACL(zk.PermAll), Flags: flags}
}

// rawLocks acquires and releases locks in one session, each below a parent of its own. With
// list=beside the list is sent together with the creation.
func rawLocks(r *driver.Run) error {
	all, end, err := open(r, 1)
	if err != nil {
		return err
	}
	defer end()
	conn, n := all[0], r.Int("locks", 1)
	if err := ensure(conn, r.Path); err != nil {
		return err
	}
	parent := func(i int) string { return r.Path + "/" + strconv.Itoa(i) }
	if err := driver.Each(n, func(i int) error { return ensure(conn, parent(i)) }); err != nil {
		return err
	}
	if transactions := min(n, r.Int("transactions", 0)); transactions > 0 {
		batch := n / transactions
		r.Scale(batch)
		return r.Loop(transactions, func(w, _ int) error {
			requests := make([]any, batch)
			for i := range requests {
				requests[i] = createRequest(parent(w*batch+i)+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence)
			}
			created, err := conn.Multi(requests...)
			if err != nil {
				return err
			}
			paths := make([]string, batch)
			for i := range paths {
				paths[i] = created[i].String
			}
			return deleteAll(conn, paths)
		})
	}
	list := func(w int) error {
		_, _, err := conn.Children(parent(w))
		return err
	}
	return releasing(r, n, func(w, _ int) (release func() error, err error) {
		listed := make(chan error, 1)
		if r.Is("list", "beside") { // sent together with the creation
			go func() { listed <- list(w) }()
		}
		path, err := contend(conn, parent(w))
		if err != nil {
			return nil, err
		}
		if !r.Is("list", "beside") {
			listed <- list(w)
		}
		return func() error { return conn.Delete(path, -1) }, <-listed
	})
}

// releasing is a program of workers that acquire and release. A worker whose release runs in the
// background waits for it before the next turn ends, and at the end.
func releasing(r *driver.Run, workers int, acquire func(worker, turn int) (release func() error, err error)) error {
	released := make([]chan error, workers) // for each worker: the outcome of its latest release
	for w := range released {
		released[w] = make(chan error, 1)
		released[w] <- nil
	}
	err := r.Loop(workers, func(w, turn int) error {
		release, err := acquire(w, turn)
		if err := errors.Join(err, <-released[w]); err != nil {
			return err
		}
		if r.Is("release", "background") {
			go func() { released[w] <- release() }()
		} else {
			released[w] <- release()
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, last := range released {
		err = errors.Join(err, <-last)
	}
	return err
}

// contend creates an ephemeral sequential node below parent.
func contend(conn *zk.Conn, parent string) (path string, err error) {
	return conn.Create(parent+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
}

// A place is the node of a contender.
type place struct {
	path     string
	released atomic.Bool // set before the deletion is requested, and never cleared
}

// gone waits until the node has been deleted. A nil place is gone.
func (p *place) gone(conn *zk.Conn) error {
	for p != nil {
		_, _, changed, err := conn.GetW(p.path)
		switch {
		case err == nil:
			return (<-changed).Err // a deletion: nothing else changes the node
		case !errors.Is(err, zk.ErrNoNode):
			return err
		case p.released.Load():
			return nil
		}
		// The server of this session does not know of the node yet.
		if _, err := conn.Sync(p.path); err != nil {
			return err
		}
	}
	return nil
}

// A line is the contenders below one parent.
type line struct {
	parent string
	mu     sync.Mutex // guards the order
	// order adds a contender's node, and returns the node whose deletion is the contender's grant.
	order func(mine *place, worker, turn int) (ahead *place)
}

// enter joins the line, and returns the contender's node when the contender is granted.
func (l *line) enter(conn *zk.Conn, worker, turn int) (*place, error) {
	path, err := contend(conn, l.parent)
	if err != nil {
		return nil, err
	}
	mine := &place{path: path}
	l.mu.Lock()
	ahead := l.order(mine, worker, turn)
	l.mu.Unlock()
	return mine, ahead.gone(conn)
}

func (*line) leave(conn *zk.Conn, mine *place) error {
	mine.released.Store(true)
	return conn.Delete(mine.path, -1)
}

// firstIn returns an order in which each contender waits for the contender n places ahead.
func firstIn(n int) func(*place, int, int) *place {
	last, next := make([]*place, n), 0
	return func(mine *place, _, _ int) *place {
		ahead := last[next]
		last[next] = mine
		next = (next + 1) % n
		return ahead
	}
}

// readersBetween returns an order in which every tenth contender is a writer. A reader waits for
// the writer ahead. A writer waits only for the contender directly ahead, although a real lock
// would have it wait for all readers.
func readersBetween() func(*place, int, int) *place {
	var writer, last *place
	return func(mine *place, worker, turn int) *place {
		ahead := writer
		if (worker+turn)%10 == 0 {
			ahead, writer = last, mine
		}
		last = mine
		return ahead
	}
}

// rawLine passes on one lock, or the leases of a semaphore.
func rawLine(r *driver.Run) error { return contention(r, firstIn(r.Int("leases", 1))) }

func rawReadWrite(r *driver.Run) error { return contention(r, readersBetween()) }

func contention(r *driver.Run, order func(*place, int, int) *place) error {
	all, end, err := open(r, r.Int("sessions", 1))
	if err != nil {
		return err
	}
	defer end()
	if err := ensure(all[0], r.Path); err != nil {
		return err
	}
	l := &line{parent: r.Path, order: order}
	return releasing(r, r.Int("contenders", len(all)), func(w, turn int) (release func() error, err error) {
		conn := all[w%len(all)]
		mine, err := l.enter(conn, w, turn)
		return func() error { return l.leave(conn, mine) }, err
	})
}

// rawSuccession measures the time from a deletion until the next session receives the event.
func rawSuccession(r *driver.Run) error {
	rest := time.Duration(r.Int("rest_ms", 0)) * time.Millisecond
	all, end, err := open(r, r.Int("candidates", 2))
	if err != nil {
		return err
	}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer end() // which ends all waits
	if err := ensure(all[0], r.Path); err != nil {
		return err
	}
	type leader struct {
		conn *zk.Conn
		node *place
		err  error
	}
	l, elected := &line{parent: r.Path, order: firstIn(1)}, make(chan leader, len(all))
	stand := func(conn *zk.Conn) {
		waiting.Go(func() {
			node, err := l.enter(conn, 0, 0)
			elected <- leader{conn, node, err}
		})
	}
	for _, conn := range all {
		stand(conn)
	}
	leads := <-elected
	phase := func(limit driver.Limit) (took []time.Duration, err error) {
		for leads.err == nil && limit.Next() {
			began, resigned := time.Now(), make(chan error, 1)
			go func(old leader) { resigned <- l.leave(old.conn, old.node) }(leads)
			old := leads.conn
			leads = <-elected
			took = append(took, time.Since(began))
			if err := <-resigned; err != nil {
				return nil, err
			}
			stand(old)
			<-time.After(rest)
		}
		return took, leads.err
	}
	return r.Latencies(1, phase)
}

// rawPut puts items of 100 bytes.
func rawPut(r *driver.Run) error {
	all, end, err := open(r, 1)
	if err != nil {
		return err
	}
	defer end()
	conn, workers, batch := all[0], r.Int("producers", 1), r.Int("batch", 1)
	if transactions := min(workers, r.Int("transactions", 0)); transactions > 0 {
		workers, batch = transactions, workers*batch/transactions
	}
	if err := ensure(conn, r.Path); err != nil {
		return err
	}
	r.Scale(batch)
	return r.Loop(workers, func(_, _ int) error { return putItems(conn, r.Path, batch) })
}

// putItems creates n items.
func putItems(conn *zk.Conn, path string, n int) error {
	item := make([]byte, 100)
	if n == 1 {
		_, err := conn.Create(path+"/item-", item, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		return err
	}
	requests := make([]any, n)
	for i := range requests {
		requests[i] = createRequest(path+"/item-", item, zk.FlagSequence)
	}
	_, err := conn.Multi(requests...)
	return err
}

// rawDrain reads and deletes a backlog of items, after a small backlog to warm up.
func rawDrain(r *driver.Run) error {
	all, end, err := open(r, 1)
	if err != nil {
		return err
	}
	defer end()
	conn, items, workers, batch := all[0], r.Int("items", 1), r.Int("takers", 64), 1
	if transactions := r.Int("transactions", 0); transactions > 0 {
		workers, batch = transactions, 100
	}
	if err := ensure(conn, r.Path); err != nil {
		return err
	}
	fill := func(n int) error {
		const size = 500
		return driver.Each((n+size-1)/size, func(i int) error { return putItems(conn, r.Path, min(size, n-i*size)) })
	}
	take := func(driver.Limit) (int, error) {
		names, _, err := conn.Children(r.Path)
		if err != nil {
			return 0, err
		}
		var next atomic.Int64
		return len(names), driver.Each(workers, func(int) error {
			for {
				at := int(next.Add(int64(batch))) - batch
				if at >= len(names) {
					return nil
				}
				part := make([]string, min(batch, len(names)-at))
				for i := range part {
					part[i] = r.Path + "/" + names[at+i]
				}
				if err := readAll(conn, part); err != nil {
					return err
				}
				if err := deleteAll(conn, part); err != nil {
					return err
				}
			}
		})
	}
	if err := fill(min(items, 1000)); err != nil {
		return err
	}
	if _, err := take(driver.Limit{}); err != nil {
		return err
	}
	if err := fill(items); err != nil {
		return err
	}
	return r.Measure(take)
}

// readAll reads all nodes at once.
func readAll(conn *zk.Conn, paths []string) error {
	if len(paths) == 1 {
		_, _, err := conn.Get(paths[0])
		return err
	}
	return driver.Each(len(paths), func(i int) error {
		_, _, err := conn.Get(paths[i])
		return err
	})
}

// deleteAll deletes all nodes in one transaction.
func deleteAll(conn *zk.Conn, paths []string) error {
	if len(paths) == 1 {
		return conn.Delete(paths[0], -1)
	}
	requests := make([]any, len(paths))
	for i, path := range paths {
		requests[i] = &zk.DeleteRequest{Path: path, Version: -1}
	}
	_, err := conn.Multi(requests...)
	return err
}

// rawBarrier runs rounds of a double barrier. The last party to enter creates the ready node, and
// the last party to leave deletes it. This process knows which party is the last.
func rawBarrier(r *driver.Run) error {
	n := r.Int("parties", 2)
	all, end, err := open(r, n)
	if err != nil {
		return err
	}
	defer end()
	if err := ensure(all[0], r.Path); err != nil {
		return err
	}
	acl := zk.WorldACL(zk.PermAll)
	var entered, left atomic.Int64
	rounds := make([]int, n) // completed by each party
	return r.Rounds(n, 2*n, func(p int) error {
		conn, rank := all[p], int64(n)*int64(rounds[p]+1)
		mine, ready := fmt.Sprintf("%s/%d", r.Path, p), fmt.Sprintf("%s/ready-%d", r.Path, rounds[p])
		rounds[p]++
		if _, err := conn.Create(mine, nil, zk.FlagEphemeral, acl); err != nil {
			return err
		}
		if entered.Add(1) == rank {
			if _, err := conn.Create(ready, nil, 0, acl); err != nil {
				return err
			}
		} else {
			exists, _, created, err := conn.ExistsW(ready)
			if err != nil {
				return err
			}
			if !exists {
				if ev := <-created; ev.Err != nil {
					return ev.Err
				}
			}
		}
		if err := conn.Delete(mine, -1); err != nil {
			return err
		}
		if left.Add(1) == rank {
			return conn.Delete(ready, -1)
		}
		_, _, deleted, err := conn.GetW(ready)
		if errors.Is(err, zk.ErrNoNode) { // this session has already seen the deletion
			return nil
		}
		if err != nil {
			return err
		}
		return (<-deleted).Err
	})
}
