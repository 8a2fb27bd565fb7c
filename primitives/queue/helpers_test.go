package queue_test

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const at = "/queues/jobs"

// bubble runs f with n sessions on a server in memory, in a bubble whose clock is its own.
func bubble(t *testing.T, n int, f func(t *testing.T, srv *zktest.Server, s ...*session.Session)) {
	t.Helper()
	bubbleOn(t, zktest.ZooKeeper380, n, f)
}

// bubbleOn is bubble with a server of a profile.
func bubbleOn(t *testing.T, profile zktest.Profile, n int, f func(t *testing.T, srv *zktest.Server, s ...*session.Session)) {
	t.Helper()
	bubbled(t, zktest.Config{Profile: profile}, n, f)
}

// slow is bubble with one session, whose round trips take time.
func slow(t *testing.T, f func(t *testing.T, srv *zktest.Server, s ...*session.Session)) {
	t.Helper()
	bubbled(t, zktest.Config{Latency: 5 * time.Millisecond}, 1, f)
}

func bubbled(t *testing.T, config zktest.Config, n int, f func(t *testing.T, srv *zktest.Server, s ...*session.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config.InProcess, config.Tick = true, time.Second
		srv, err := zktest.NewServer(config)
		ok(t, err)
		defer srv.Close()
		audit := audit{working: map[string]int{}}
		defer audit.check(t)
		all := make([]*session.Session, n)
		for i := range all {
			all[i], err = session.Open(t.Context(), srv.Addrs(), &session.Options{
				Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: srv.DialContext, Observer: &audit,
			})
			ok(t, err)
			defer all[i].Close()
		}
		f(t, srv, all...)
	})
}

// An audit is an observer that holds the deliveries against their ends.
type audit struct {
	session.NopObserver
	mu      sync.Mutex
	working map[string]int // deliveries that have not ended, by path
	wrong   []string
}

func (a *audit) note(path string, more int, report string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.working[path] += more; a.working[path] < 0 {
		a.wrong = append(a.wrong, path+": "+report+" without a delivery")
	}
}

func (a *audit) Delivered(path string, _ time.Duration, _ int) { a.note(path, 1, "delivered") }
func (a *audit) Settled(path, end string, _ time.Duration)     { a.note(path, -1, end) }

// check fails the test unless each delivery has had one end, now that the sessions are closed.
func (a *audit) check(t *testing.T) {
	t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for path, n := range a.working {
		if n != 0 {
			a.wrong = append(a.wrong, fmt.Sprintf("%s: %d deliveries have no end", path, n))
		}
	}
	check.EqualSlices(t, a.wrong, nil, "reports")
}

// pass lets the bubble's clock go on, which takes no time.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func ok(t *testing.T, err error) {
	t.Helper()
	check.Must(t, err)
}

func open(t *testing.T, s *session.Session, opts *queue.Options) *queue.Queue {
	t.Helper()
	q, err := queue.New(s, at, opts)
	ok(t, err)
	return q
}

// standard is the layout of queues that are not shared with other libraries.
const standard queue.Layout = 0

// anyQueue has what all queues have.
type anyQueue interface {
	Put(ctx context.Context, data []byte) (string, error)
	PutAll(ctx context.Context, data [][]byte) ([]string, error)
	Take(ctx context.Context) ([]byte, error)
	TryTake(ctx context.Context) ([]byte, error)
	Len(ctx context.Context) (int, error)
	Peek(ctx context.Context) ([]byte, error)
	Close(ctx context.Context) error
}

func openAs(t *testing.T, s *session.Session, layout queue.Layout) anyQueue {
	t.Helper()
	if layout == standard {
		return open(t, s, nil)
	}
	return flat(t, s, at, layout)
}

func flat(t *testing.T, s *session.Session, path string, layout queue.Layout) *queue.Flat {
	t.Helper()
	q, err := queue.NewFlat(s, path, layout, nil)
	ok(t, err)
	return q
}

func consume(t *testing.T, q *queue.Queue, prefetch int) *queue.Consumer {
	t.Helper()
	c, err := q.Consume(&queue.ConsumeOptions{Prefetch: prefetch})
	ok(t, err)
	return c
}

func put(t *testing.T, q anyQueue, data ...string) {
	t.Helper()
	for _, d := range data {
		_, err := q.Put(t.Context(), []byte(d))
		ok(t, err)
	}
}

// drain takes what there is.
func drain(t *testing.T, q anyQueue) (all []string) {
	t.Helper()
	for {
		data, err := q.TryTake(t.Context())
		if isEmpty(err) {
			return all
		}
		ok(t, err)
		all = append(all, string(data))
	}
}

func isEmpty(err error) bool {
	return err != nil && strings.HasSuffix(err.Error(), queue.ErrEmpty.Error())
}

// next returns the next item, and fails if there is none.
func next(t *testing.T, c *queue.Consumer) queue.Item {
	t.Helper()
	select {
	case item, open := <-c.Items():
		if !open {
			t.Fatalf("the consumer has ended: %v", c.Err())
		}
		return item
	case <-time.After(time.Minute):
		t.Fatal("no item")
		panic("unreachable")
	}
}

// numbers returns n items.
func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("item %d", i))
	}
	return all
}

func bytesOf(all []string) (data [][]byte) {
	for _, s := range all {
		data = append(data, []byte(s))
	}
	return data
}

// left returns the nodes of queues that are no directories of theirs.
func left(srv *zktest.Server, dir string) []string {
	return slices.DeleteFunc(srv.Paths(), func(p string) bool { return path.Base(path.Dir(p)) != dir })
}

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	check.EqualSlices(t, got, want, what)
}
