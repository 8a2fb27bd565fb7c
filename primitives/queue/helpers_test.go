package queue_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// The paths of the queue, and of its dead letters where options name them.
const (
	at   = "/queues/jobs"
	dead = "/queues/dead"
)

// A play is the story of a test, with a server in memory and its sessions.
type play = func(t *testing.T, srv *zktest.Server, s ...*session.Session)

// bubble plays with n sessions on a server in memory, in a bubble whose clock is its own.
func bubble(t *testing.T, n int, f play) {
	t.Helper()
	bubbled(t, zktest.Config{}, n, f)
}

// slow is bubble with one session, whose round trips take time.
func slow(t *testing.T, f play) {
	t.Helper()
	bubbled(t, zktest.Config{Latency: 5 * time.Millisecond}, 1, f)
}

// bubbled is bubble with a server that is configured.
func bubbled(t *testing.T, config zktest.Config, n int, f play) {
	t.Helper()
	config.Tick = time.Second
	kit.Run(t, config, func(w kit.World) {
		audit := audit{working: map[string]int{}}
		w.Cleanup(func() { audit.check(w.T) })
		all := make([]*session.Session, n)
		for i := range all {
			all[i] = openSession(w.T, w.Server, session.Options{Observer: &audit})
		}
		f(w.T, w.Server, all...)
	})
}

// openSession opens a session in a bubble. It is closed at the end of the test.
func openSession(t *testing.T, srv *zktest.Server, opts session.Options) *session.Session {
	t.Helper()
	opts.Timeout, opts.ServerTick = 12*time.Second, time.Second
	return kit.World{T: t, Server: srv}.Open(opts)
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

func open(t *testing.T, s *session.Session, opts *queue.Options) *queue.Queue {
	t.Helper()
	return openAt(t, s, at, opts)
}

func openAt(t *testing.T, s *session.Session, path string, opts *queue.Options) *queue.Queue {
	t.Helper()
	return check.Have(queue.New(s, path, opts))(t)
}

// ranked opens a queue with priorities.
func ranked(t *testing.T, s *session.Session, opts *queue.Options) *queue.Priority {
	t.Helper()
	return check.Have(queue.NewPriority(s, at, opts))(t)
}

// standard is the layout of queues that are not shared with other libraries.
const standard queue.Layout = 0

// anyQueue has what all queues have.
type anyQueue interface {
	reader
	Put(ctx context.Context, data []byte) (string, error)
	PutAll(ctx context.Context, data [][]byte) ([]string, error)
	Close(ctx context.Context) error
}

func openAs(t *testing.T, s *session.Session, path string, layout queue.Layout) anyQueue {
	t.Helper()
	if layout == standard {
		return openAt(t, s, path, nil)
	}
	return flat(t, s, path, layout)
}

func flat(t *testing.T, s *session.Session, path string, layout queue.Layout) *queue.Flat {
	t.Helper()
	return check.Have(queue.NewFlat(s, path, layout, nil))(t)
}

// A consumable is a queue with consumers.
type consumable interface {
	Consume(opts *queue.ConsumeOptions) (*queue.Consumer, error)
}

// consume opens a consumer, which is closed at the end of the test.
func consume(t *testing.T, q consumable, prefetch int) *queue.Consumer {
	t.Helper()
	return check.Open(q.Consume(&queue.ConsumeOptions{Prefetch: prefetch}))(t)
}

// put puts items one after the other.
func put(t *testing.T, q anyQueue, data ...string) {
	t.Helper()
	for _, d := range data {
		check.Have(q.Put(t.Context(), []byte(d)))(t)
	}
}

// putAll puts items by one call.
func putAll(t *testing.T, q anyQueue, data ...string) {
	t.Helper()
	check.Have(q.PutAll(t.Context(), bytesOf(data)))(t)
}

// putAt puts an item with a priority.
func putAt(t *testing.T, p *queue.Priority, priority int32, data string) (id string) {
	t.Helper()
	return check.Have(p.Put(t.Context(), []byte(data), priority))(t)
}

// A reader has what queues of all kinds have in common.
type reader interface {
	Take(ctx context.Context) ([]byte, error)
	TryTake(ctx context.Context) ([]byte, error)
	Len(ctx context.Context) (int, error)
	Peek(ctx context.Context) ([]byte, error)
}

// takeOne takes an item. It waits for one if there is none.
func takeOne(t *testing.T, q reader) string {
	t.Helper()
	return string(check.Have(q.Take(t.Context()))(t))
}

func peek(t *testing.T, q reader) string {
	t.Helper()
	return string(check.Have(q.Peek(t.Context()))(t))
}

func length(t *testing.T, q reader) int {
	t.Helper()
	return check.Have(q.Len(t.Context()))(t)
}

// beginPut begins a call of Put, and waits until nothing more happens.
func beginPut(ctx context.Context, q anyQueue, data string) (result <-chan error) {
	return kit.Begin(func() error { _, err := q.Put(ctx, []byte(data)); return err })
}

// beginTake begins a call of Take, and waits until nothing more happens.
func beginTake(ctx context.Context, q reader) (result <-chan error) {
	return kit.Begin(func() error { _, err := q.Take(ctx); return err })
}

// answered returns the answer of a call, and fails if there is none.
func answered(t *testing.T, calls <-chan error) error {
	t.Helper()
	select {
	case err := <-calls:
		return err
	case <-time.After(time.Minute):
		t.Fatal("no answer")
		return nil
	}
}

// drain takes what there is.
func drain(t *testing.T, q reader) (all []string) {
	t.Helper()
	for {
		data, err := q.TryTake(t.Context())
		if isEmpty(err) {
			return all
		}
		check.Must(t, err)
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

// serve has a consumer receive one item, and settle it.
func serve(t *testing.T, q consumable, settle func(queue.Item, context.Context) error) queue.Item {
	t.Helper()
	c := consume(t, q, 1)
	defer c.Close()
	item := next(t, c)
	check.Must(t, settle(item, t.Context()))
	return item
}

// back gives an item back at once.
func back(item queue.Item, ctx context.Context) error { return item.RejectAfter(ctx, 0, nil) } //nolint:revive // as a method

// acknowledged acknowledges what comes, until nothing has come for a while.
func acknowledged(t *testing.T, c *queue.Consumer, quiet time.Duration) (all []string) {
	t.Helper()
	for {
		select {
		case item := <-c.Items():
			check.Must(t, item.Ack(t.Context()))
			all = append(all, string(item.Data))
		case <-time.After(quiet):
			return all
		}
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

// putForeign creates a node with a number of the server's, as other clients do.
func putForeign(t *testing.T, s *session.Session, prefix, data string) (path string) {
	t.Helper()
	return check.Have(s.Multi(t.Context(), session.CreateOp(prefix, []byte(data), session.PersistentSequential)))(t)[0].Path
}

// refused fails the test unless the error wraps want, and its text names what is refused.
func refused(t *testing.T, err, want error, names string) {
	t.Helper()
	check.True(t, errors.Is(err, want) && strings.Contains(err.Error(), names), "%v, want %v of %s", err, want, names)
}

// undone fails the test unless the error wraps want, and says that nothing was done.
func undone(t *testing.T, err, want error) {
	t.Helper()
	check.True(t, errors.Is(err, want) && !session.InDoubt(err), "%v, want %v, and no doubt", err, want)
}
