package queue_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/peers"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// neighbours are queues of other libraries, and our layouts for them.
var neighbours = map[peers.Kind]queue.Layout{peers.CuratorQueue: queue.Curator, peers.KazooQueue: queue.Kazoo}

// A stage is servers, and the libraries that are connected to them.
type stage struct {
	company  *peers.Company
	sessions []*session.Session // two, on different servers if there are any
	reap     func()             // has empty containers removed; nil if that cannot be had
}

// TestRealNeighbours has Curator and kazoo at our queues, on three servers and on the one in
// memory.
func TestRealNeighbours(t *testing.T) {
	t.Parallel()
	peers.Wanted(t)
	for name, start := range map[string]func(*testing.T) ([]string, func()){
		"three servers": func(t *testing.T) ([]string, func()) {
			t.Helper()
			return zktest.StartEnsemble(t, 3, zktest.NoSync()).Addrs(), nil
		},
		"in memory": func(t *testing.T) ([]string, func()) {
			t.Helper()
			srv := zktest.Start(t)
			return srv.Addrs(), srv.Reap
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addrs, reap := start(t)
			peers.Companies(t, addrs, func(t *testing.T, company *peers.Company) {
				st := stage{company: company, reap: reap}
				for i := range 2 {
					addr := addrs[i%len(addrs)]
					s := check.Have(session.Open(check.Patient(t), []string{addr}, &session.Options{Timeout: 20 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
					t.Cleanup(s.Close)
					st.sessions = append(st.sessions, s)
				}
				st.meet(t)
			})
		})
	}
}

// meet plays all with one generation of the other libraries, and with all of them what is done at
// the same time.
func (st stage) meet(t *testing.T) {
	t.Helper()
	for kind, layout := range neighbours {
		t.Run("mixed with "+string(kind), func(t *testing.T) {
			t.Parallel()
			mixed(t, st, kind, layout)
		})
		if st.company.Mixed() {
			continue
		}
		t.Run("in order with "+string(kind), func(t *testing.T) {
			t.Parallel()
			inOrder(t, st, kind, layout)
		})
		if st.reap != nil {
			t.Run("emptied with "+string(kind), func(t *testing.T) {
				t.Parallel()
				emptied(t, st, kind, layout)
			})
		}
	}
	if st.company.Mixed() {
		return
	}
	for _, kind := range []peers.Kind{peers.CuratorQueue, peers.KazooQueue, peers.KazooLockingQueue} {
		for layout := standard; layout <= queue.Kazoo; layout++ {
			if is, same := neighbours[kind]; same && is == layout {
				continue
			}
			t.Run(fmt.Sprintf("layout %d refuses %s", layout, kind), func(t *testing.T) {
				t.Parallel()
				refuses(t, st, kind, layout)
			})
		}
	}
}

// A clerk puts and takes. It serves one caller.
type clerk struct {
	name string
	put  func(ctx context.Context, item string, priority int) error
	take func(ctx context.Context) (string, error)
}

// ours is a queue of this library, which puts with one priority.
func (st stage) ours(t *testing.T, i int, path string, layout queue.Layout) clerk {
	t.Helper()
	q := flat(t, st.sessions[i%len(st.sessions)], path, layout)
	t.Cleanup(func() { check.Must(t, q.Close(context.Background())) })
	return clerk{
		name: "we " + strconv.Itoa(i),
		put: func(ctx context.Context, item string, _ int) error {
			var data []byte // nil if the item is empty
			_, err := q.Put(ctx, append(data, item...))
			return err
		},
		take: func(ctx context.Context) (string, error) {
			data, err := q.Take(ctx)
			return string(data), err
		},
	}
}

// theirs is a queue of another library, in one generation after the other.
func (st stage) theirs(t *testing.T, i int, path string, kind peers.Kind) clerk {
	t.Helper()
	all := st.company.Peers(t, kind.Library())
	claim := check.Have(all[i%len(all)].Acquire(check.Patient(t), kind, path))(t)
	t.Cleanup(func() { check.Must(t, claim.Release(context.Background())) })
	return clerk{
		name: "they " + strconv.Itoa(i),
		put:  claim.Put,
		take: func(ctx context.Context) (string, error) { return claim.Take(ctx, 3*time.Minute) },
	}
}

func (st stage) clerks(t *testing.T, path string, kind peers.Kind, layout queue.Layout) (all []clerk) {
	t.Helper()
	for i := range 2 {
		all = append(all, st.ours(t, i, path, layout), st.theirs(t, i, path, kind))
	}
	return all
}

// normal is the priority of what we put among items of kazoo's.
const normal = 100

// mixed has clerks of both put and take at the same time. What is taken is what was put, each item
// once, and no clerk takes two items of one producer and priority in the wrong order. None is more
// than two items ahead of another when it takes, so that all of them take while others do.
func mixed(t *testing.T, st stage, kind peers.Kind, layout queue.Layout) {
	const each, lead = 30, 2
	ctx, path := check.Patient(t), st.company.At("/mixed-"+string(kind.Library()))
	producers, consumers := st.clerks(t, path, kind, layout), st.clerks(t, path, kind, layout)
	var put []string
	var putting sync.WaitGroup
	for i, c := range producers {
		var items []string
		for n := range each {
			items = append(items, fmt.Sprintf("%d/%d/%d", i, []int{normal, normal / 2}[n%2], n))
		}
		put = append(put, items...)
		putting.Go(func() {
			for n, item := range items {
				if err := c.put(ctx, item, []int{normal, normal / 2}[n%2]); err != nil {
					t.Errorf("%s puts %s: %v", c.name, item, err)
					return
				}
			}
		})
	}
	taken := make([][]string, len(consumers))
	done := make([]sync.WaitGroup, each) // by round
	for n := range done {
		done[n].Add(len(consumers))
	}
	var taking sync.WaitGroup
	for i, c := range consumers {
		taking.Go(func() {
			for n := range each {
				if n >= lead {
					done[n-lead].Wait()
				}
				if !t.Failed() { // after a failure an item may be missing, for which all would wait
					item, err := c.take(ctx)
					if err != nil {
						t.Errorf("%s takes number %d: %v", c.name, n, err)
					}
					taken[i] = append(taken[i], item)
				}
				done[n].Done()
			}
		})
	}
	putting.Wait()
	taking.Wait()
	if t.Failed() {
		return
	}

	for i, c := range consumers {
		last := make(map[string]int) // by producer and priority
		for _, item := range taken[i] {
			line := item[:strings.LastIndex(item, "/")+1]
			n := check.Have(strconv.Atoi(item[len(line):]))(t)
			if before, some := last[line]; some && before > n {
				t.Errorf("%s took %s after number %d", c.name, item, before)
			}
			last[line] = n
		}
	}
	all := slices.Concat(taken...)
	slices.Sort(all)
	slices.Sort(put)
	check.EqualSlices(t, all, put, "taken")
	check.Must(t, st.sessions[0].Sync(ctx, path))
	if names, _, err := st.sessions[0].Children(ctx, path); err == nil && len(names) > 0 || err != nil && !errors.Is(err, session.ErrNoNode) {
		t.Errorf("there still are %q, %v", names, err)
	}
}

// inOrder has both put in turn, and then take in turn: the first item of the lowest priority. Some
// items are empty.
func inOrder(t *testing.T, st stage, kind peers.Kind, layout queue.Layout) {
	ctx, path := check.Patient(t), st.company.At("/in-order-"+string(kind.Library()))
	we, they := st.ours(t, 0, path, layout), st.theirs(t, 0, path, kind)
	type item struct {
		name     string
		priority int
	}
	var want []item
	for n := range 30 {
		c, i := we, item{fmt.Sprintf("item-%d", n), normal}
		if n >= 12 && n < 24 { // each of both takes from each
			i.name = ""
		}
		if n%3 > 0 {
			c = they
			if kind == peers.KazooQueue {
				i.priority = []int{0, normal, 7, 999, normal - 1}[n%5]
			}
		}
		check.Must(t, c.put(ctx, i.name, i.priority))
		want = append(want, i)
	}
	for _, s := range st.sessions {
		check.Must(t, s.Sync(ctx, path))
	}
	slices.SortStableFunc(want, func(a, b item) int { return cmp.Compare(a.priority, b.priority) })
	for n, i := range want {
		c := []clerk{we, they, they, we}[n%4]
		check.Equal(t, check.Have(c.take(ctx))(t), i.name)
	}
}

// emptied: theirs go on at a path of our making, whatever the server removes when it is empty.
func emptied(t *testing.T, st stage, kind peers.Kind, layout queue.Layout) {
	ctx, path := check.Patient(t), st.company.At("/emptied-"+string(kind.Library()))
	we, they := st.ours(t, 0, path, layout), st.theirs(t, 0, path, kind)
	for range 2 {
		check.Must(t, we.put(ctx, "a", normal))
		check.Equal(t, check.Have(they.take(ctx))(t), "a")
		st.reap()
		check.Must(t, they.put(ctx, "b", normal))
		check.Equal(t, check.Have(we.take(ctx))(t), "b")
		st.reap()
	}
}

// refuses: a queue of ours neither puts where theirs has an item, nor takes; and takes nothing
// where theirs comes later. No item is lost.
func refuses(t *testing.T, st stage, kind peers.Kind, layout queue.Layout) {
	ctx := check.Patient(t)
	path := st.company.At(fmt.Sprintf("/refused-%d-%s", layout, strings.ReplaceAll(string(kind), "/", "-")))
	s := st.sessions[0]
	q := openAs(t, s, path, layout)
	defer func() { check.Must(t, q.Close(context.WithoutCancel(ctx))) }()
	they := st.theirs(t, 0, path, kind)
	theirTurn := func(what string) {
		t.Helper()
		check.Equal(t, check.Have(they.take(ctx))(t), what)
		if kind == peers.KazooLockingQueue { // its directories stay
			check.Must(t, s.Sync(ctx, path))
			check.Must(t, s.Delete(ctx, path+"/entries", session.AnyVersion))
			check.Must(t, s.Delete(ctx, path+"/taken", session.AnyVersion))
		}
	}

	check.Must(t, they.put(ctx, "theirs", normal))
	check.Must(t, s.Sync(ctx, path))
	_, err := q.Put(ctx, []byte("ours"))
	check.Is(t, err, queue.ErrLayout, "put")
	_, err = q.PutAll(ctx, [][]byte{[]byte("ours")})
	check.Is(t, err, queue.ErrLayout, "put all")
	_, err = q.TryTake(ctx)
	check.Is(t, err, queue.ErrLayout, "take")
	_, err = q.Peek(ctx)
	check.Is(t, err, queue.ErrLayout, "peek")
	_, err = q.Len(ctx)
	check.Is(t, err, queue.ErrLayout, "length")
	theirTurn("theirs")

	path += "-later"
	later := openAs(t, s, path, layout)
	defer func(q anyQueue) { check.Must(t, q.Close(context.WithoutCancel(ctx))) }(later)
	they = st.theirs(t, 1, path, kind)
	put(t, later, "ours")
	check.Must(t, they.put(ctx, "theirs", normal))
	check.Must(t, s.Sync(ctx, path))
	if layout == standard { // a handle that has been there does not look again
		later = openAs(t, s, path, layout)
		defer func(q anyQueue) { check.Must(t, q.Close(context.WithoutCancel(ctx))) }(later)
	}
	_, err = later.TryTake(ctx)
	check.Is(t, err, queue.ErrLayout, "take where they came later")
	theirTurn("theirs")
	check.Must(t, s.Sync(ctx, path))
	check.Equal(t, string(check.Have(later.TryTake(ctx))(t)), "ours")
}
