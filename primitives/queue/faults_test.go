package queue_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A victim is a client to whose requests something happens.
type victim struct {
	*ledger
	srv    *zktest.Server
	s      *session.Session
	skip   int // which of its requests
	cancel context.CancelFunc
	struck map[string]int // what an operator has deleted, by item
	other  *session.Session
}

func (v *victim) match() zktest.Match { return zktest.Match{Session: v.s.ID(), Skip: v.skip} }

// strike has an operator delete, while the request is under way, the nodes whose paths match, and
// all below.
func (v *victim) strike(ctx context.Context, patterns ...string) {
	v.srv.Delay(v.match(), 2*time.Second)
	time.AfterFunc(time.Second, func() {
		paths := v.srv.Paths()
		slices.Reverse(paths) // children first
		for _, p := range paths {
			matches := func(pattern string) bool {
				for q := p; q != "/"; q = path.Dir(q) {
					if is, _ := path.Match(pattern, q); is {
						return true
					}
				}
				return false
			}
			if !slices.ContainsFunc(patterns, matches) {
				continue
			}
			data, _, err := v.other.Get(ctx, p)
			if err != nil {
				continue
			}
			if err := v.other.Delete(ctx, p, session.AnyVersion); err == nil {
				_, x, found := strings.Cut(string(data), "\n")
				if !found {
					x = string(data)
				}
				v.noted(func() { v.struck[x]++ })
			}
		}
	})
}

func gone(patterns ...string) func(context.Context, *victim) {
	return func(ctx context.Context, v *victim) { v.strike(ctx, patterns...) }
}

// lost has a fault happen to the request, and then has no server be found for a while.
func lost(fault func(*zktest.Server, zktest.Match), away time.Duration) func(context.Context, *victim) {
	return func(_ context.Context, v *victim) {
		fault(v.srv, v.match())
		if away > 0 {
			v.srv.Refuse(true)
			time.AfterFunc(away, func() { v.srv.Refuse(false) })
		}
	}
}

// canceled has the caller leave a second after something has happened to the request.
func canceled(happens func(context.Context, *victim)) func(context.Context, *victim) {
	return func(ctx context.Context, v *victim) {
		happens(ctx, v)
		time.AfterFunc(time.Second, v.cancel)
	}
}

func refusal(code int32) func(context.Context, *victim) {
	return func(_ context.Context, v *victim) { v.srv.AnswerError(v.match(), code) }
}

// A trouble is what happens to one request.
type trouble struct {
	name    string
	happens func(ctx context.Context, v *victim)
	unknown bool // the outcome may be unknown
	error   bool // there may be an error
	stays   bool // what the server has refused to delete stays until the session ends
}

var (
	dropReply, dropRequest = (*zktest.Server).DropReply, (*zktest.Server).DropRequest
	delay                  = func(srv *zktest.Server, m zktest.Match) { srv.Delay(m, 2*time.Second) }
)

var troubles = []trouble{
	{name: "reply lost", happens: lost(dropReply, 0)},
	{name: "request lost", happens: lost(dropRequest, 0)},
	{name: "refused: busy", happens: refusal(-127)},
	{name: "refused: no right", error: true, stays: true, happens: refusal(-102)},
	{name: "reply lost, session expired", unknown: true, error: true, happens: lost(dropReply, time.Minute)},
	{name: "request lost, session expired", unknown: true, error: true, happens: lost(dropRequest, time.Minute)},
	{name: "reply late, context ended", unknown: true, error: true, happens: canceled(lost(delay, 0))},
	{name: "reply lost, context ended", unknown: true, error: true, happens: canceled(lost(dropReply, 2*time.Second))},
	{name: "the queue is gone", happens: gone("/queues")},
	{name: "the items are gone", happens: gone(at+"/items", at+"/qn-*")},
	{name: "the bucket is gone", happens: gone(at + "/items/*")},
	{name: "the claims are gone", happens: gone(at + "/claims")},
	{name: "the receipts are gone", happens: gone(at+"/receipts", "/queues/_queue-receipts")},
	{name: "the line is gone", happens: gone(at+"/waiters", at+"/producers")},
	{name: "the dead letters are gone", happens: gone(dead)},
}

// A command is one, or a story of several, with items that are there before.
type command struct {
	name     string
	opts     queue.Options
	before   []string // put by another client
	came     bool     // a consumer has had the first of them, and given it back
	requests int      // that it makes without trouble, those for closing included, except for syncs
	about    bool     // or a few less: acknowledgements share transactions, and watches are read again, as it happens
	run      func(ctx context.Context, q *queue.Queue, v *victim) error
	flat     func(ctx context.Context, q *queue.Flat, v *victim) error // instead of run, in Curator's layout
	after    []string                                                  // put by another client after a minute
	frees    bool                                                      // and it takes an item then
}

// closes closes the queue while a call waits.
func closes(ctx context.Context, q *queue.Queue, call func() error) error {
	called := kit.Begin(func() error { return call() })
	select {
	case <-time.After(30 * time.Second):
	case <-ctx.Done():
	}
	err := q.Close(ctx)
	if end := <-called; !errors.Is(end, queue.ErrClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// take takes one item.
func take[Q anyQueue](ctx context.Context, q Q, v *victim) error {
	data, err := q.Take(ctx)
	v.noted(func() { v.left(string(data), err, v.taken) })
	return err
}

// putNew puts one item.
func putNew[Q anyQueue](ctx context.Context, q Q, v *victim) error {
	_, err := q.Put(ctx, []byte("new"))
	return v.enter(err, "new")
}

// enter notes what was put.
func (v *victim) enter(err error, items ...string) error {
	if err == nil || session.InDoubt(err) {
		v.noted(func() {
			for _, x := range items {
				v.entered(x, err == nil)
			}
		})
	}
	return err
}

// consumption consumes until nothing more comes, and settles each item once.
func consumption(settle func(queue.Item, context.Context) error, acknowledges bool) func(context.Context, *queue.Queue, *victim) error {
	return func(ctx context.Context, q *queue.Queue, v *victim) error {
		c, err := q.Consume(&queue.ConsumeOptions{Prefetch: 2})
		if err != nil {
			return err
		}
		defer c.Close()
		for {
			select {
			case item, more := <-c.Items():
				if !more {
					return c.Err()
				}
				err := settle(item, ctx)
				if acknowledges { // else it is there in any case
					v.noted(func() { v.left(string(item.Data), err, v.acked) })
				}
				if err != nil && !errors.Is(err, queue.ErrNotClaimed) {
					return err
				}
			case <-time.After(3 * time.Minute):
				return nil
			}
		}
	}
}

var commands = []command{
	{name: "Put", requests: 13, run: putNew[*queue.Queue]},
	{name: "PutAll", before: []string{"old"}, requests: 6, run: func(ctx context.Context, q *queue.Queue, v *victim) error {
		_, err := q.PutAll(ctx, bytesOf([]string{"a", "b"}))
		return v.enter(err, "a", "b")
	}},
	{name: "PutAfter", before: []string{"old"}, requests: 5, run: func(ctx context.Context, q *queue.Queue, v *victim) error {
		_, err := q.PutAfter(ctx, []byte("new"), time.Second)
		return v.enter(err, "new")
	}},
	{name: "Put, bounded", opts: queue.Options{MaxItems: 3}, before: []string{"old"}, requests: 9, run: putNew[*queue.Queue]},
	{name: "Put waits for room", opts: queue.Options{MaxItems: 1}, before: []string{"old"}, frees: true, requests: 26, about: true, run: putNew[*queue.Queue]},
	{name: "Put, Curator's layout", requests: 10, flat: putNew[*queue.Flat]},
	{name: "Take", before: []string{"old"}, after: []string{"late"}, requests: 7, run: take[*queue.Queue]},
	{name: "Take what came back", before: []string{"old"}, came: true, after: []string{"late"}, requests: 7, run: take[*queue.Queue]},
	{name: "Take waits", after: []string{"late"}, requests: 24, about: true, run: take[*queue.Queue]},
	{name: "Take waits, Close", requests: 14, about: true, run: func(ctx context.Context, q *queue.Queue, v *victim) error {
		return closes(ctx, q, func() error { return take(ctx, q, v) })
	}},
	{name: "Put waits for room, Close", opts: queue.Options{MaxItems: 1}, before: []string{"old"}, requests: 19, about: true, run: func(ctx context.Context, q *queue.Queue, v *victim) error {
		return closes(ctx, q, func() error { return putNew(ctx, q, v) })
	}},
	{name: "Take, Curator's layout", before: []string{"old"}, after: []string{"late"}, requests: 5, flat: take[*queue.Flat]},
	{name: "Len and Peek", before: []string{"old"}, requests: 6, run: func(ctx context.Context, q *queue.Queue, v *victim) error {
		_, err := q.Len(ctx)
		_, err2 := q.Peek(ctx)
		v.noted(func() {
			if errors.Is(err2, queue.ErrEmpty) && len(v.struck) > 0 {
				err2 = nil
			}
		})
		return errors.Join(err, err2)
	}},
	{name: "Consume, Ack", before: []string{"a", "b", "c"}, requests: 44, about: true, run: consumption(queue.Item.Ack, true)},
	{
		name: "Consume, Reject, dead letters", before: []string{"a", "b"}, requests: 80, about: true,
		opts: queue.Options{MaxAttempts: 2, DeadLetter: dead},
		run:  consumption(func(i queue.Item, ctx context.Context) error { return i.RejectAfter(ctx, time.Second, nil) }, false), // without chance
	},
	{name: "Consume, Close", before: []string{"a", "b", "c"}, requests: 16, about: true, run: func(_ context.Context, q *queue.Queue, _ *victim) error {
		c, err := q.Consume(&queue.ConsumeOptions{Prefetch: 2})
		if err != nil {
			return err
		}
		select {
		case <-c.Items():
		case <-time.After(10 * time.Second):
		}
		c.Close()
		return nil
	}},
}

// TestTroubleAtEveryRequest has each trouble happen to each request of each command: every item is
// where the caller was told, once, and nothing is left behind.
func TestTroubleAtEveryRequest(t *testing.T) {
	chosen := hasten.OneIn(17, 47)
	for _, command := range commands {
		t.Run(command.name, func(t *testing.T) {
			n := suffer(t, command, trouble{happens: func(context.Context, *victim) {}}, 0)
			check.False(t, n > command.requests || n < command.requests && !command.about, "%d requests, want %d", n, command.requests)
			for _, trouble := range troubles {
				for skip := range n {
					if !chosen() {
						continue
					}
					suffer(t, command, trouble, skip)
				}
			}
		})
	}
}

// suffer runs a command while trouble happens to a request, and returns how many requests it made.
func suffer(t *testing.T, command command, trouble trouble, skip int) (requests int) {
	what := fmt.Sprintf("%s, request %d", trouble.name, skip)
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		opts := command.opts
		opts.MaxItems = 0
		other := anyQueue(open(t, s[1], &opts))
		if command.flat != nil {
			other = flat(t, s[1], at, queue.Curator)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		v := &victim{ledger: newLedger(), srv: srv, s: s[0], skip: skip, cancel: cancel, struck: map[string]int{}, other: s[1]}
		for _, x := range command.before {
			put(t, other, x)
			v.entered(x, true)
		}
		if command.came {
			serve(t, open(t, s[1], &opts), back)
		}
		q := anyQueue(open(t, s[0], &command.opts))
		run := func(ctx context.Context) error { return command.run(ctx, q.(*queue.Queue), v) }
		if command.flat != nil {
			q = flat(t, s[0], at, queue.Curator)
			run = func(ctx context.Context) error { return command.flat(ctx, q.(*queue.Flat), v) }
		}
		id := s[0].ID()
		trouble.happens(t.Context(), v)
		late := time.AfterFunc(time.Minute, func() {
			for _, x := range command.after {
				_, err := other.Put(t.Context(), []byte(x))
				if err == nil {
					v.noted(func() { v.entered(x, true) })
				}
			}
			if command.frees {
				if data, err := other.TryTake(t.Context()); err == nil {
					v.noted(func() { v.left(string(data), err, v.taken) })
				}
			}
		})
		err := run(ctx)
		late.Stop()
		switch {
		case session.InDoubt(err) && !trouble.unknown, err != nil && !trouble.error:
			t.Errorf("%s: %v", what, err)
		}
		kit.Pass(2 * time.Minute)
		srv.ClearFaults()
		srv.Refuse(false)
		check.Must(t, q.Close(t.Context()))
		requests = srv.RequestsOf(id).Total() - srv.RequestsOf(id)[zktest.OpSync]
		if trouble.stays {
			s[0].Close()
		}
		there := map[string]int{}
		letters := openAt(t, s[1], dead, nil)
		for _, x := range append(drain(t, other), drain(t, letters)...) {
			there[x]++
			if _, put := v.put[x]; !put {
				t.Errorf("%s: %s is there, and was not put", what, x)
			}
		}
		for x, sure := range v.put {
			n := v.taken[x] + v.acked[x] + there[x] + v.struck[x]
			if n > 1 || n == 0 && sure && !v.unknown[x] {
				t.Errorf("%s: %s was taken %d times, acknowledged %d times, is there %d times, and was deleted %d times",
					what, x, v.taken[x], v.acked[x], there[x], v.struck[x])
			}
		}
		check.Must(t, errors.Join(other.Close(t.Context()), letters.Close(t.Context())))
		for _, dir := range []string{"receipts", "_queue-receipts", "claims", "waiters", "producers"} {
			check.Len(t, left(srv, dir), 0, what, "left behind")
		}
	})
	return requests
}
