package queue_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestFirstInFirstOut(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		a, b := open(t, s[0], nil), open(t, s[1], nil)
		put(t, a, "a", "b")
		ids := check.Have(b.PutAll(t.Context(), bytesOf([]string{"c", "d"})))(t)
		put(t, a, "e")
		check.True(t, len(ids) == 2 && ids[0] != ids[1], "IDs %q", ids)
		check.Equal(t, length(t, b), 5)
		check.Equal(t, peek(t, b), "a")
		check.EqualSlices(t, drain(t, b), []string{"a", "b", "c", "d", "e"}, "taken")
		check.Fails(b.Peek(t.Context()))(t, queue.ErrEmpty)
		check.Must(t, a.Close(t.Context()))
		check.Must(t, b.Close(t.Context()))
		check.Fails(a.Put(t.Context(), []byte("x")))(t, queue.ErrClosed)
		check.Fails(a.Take(t.Context()))(t, queue.ErrClosed)
		check.Fails(a.Len(t.Context()))(t, queue.ErrClosed)
		check.Fails(a.Peek(t.Context()))(t, queue.ErrClosed)
		check.Fails(a.Consume(nil))(t, queue.ErrClosed)
		kit.Pass(5 * time.Minute) // until the server has removed the containers
		check.AtMost(t, len(srv.Paths()), 2, "left behind")
	})
}

// TestTakeWaits: a call of Take waits for an item that comes, for one that a consumer gives back,
// and for one whose consumer dies. All that happens to the last two is that a claim is deleted:
// after that, not every server has another pzxid of the parent.
func TestTakeWaits(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		t.Run(profile.String(), func(t *testing.T) {
			bubbled(t, zktest.Config{Profile: profile}, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				a, b := open(t, s[0], nil), open(t, s[1], nil)
				for data, free := range map[string]func(item queue.Item, c *queue.Consumer){
					"comes": nil,
					"is given back": func(item queue.Item, c *queue.Consumer) {
						check.Must(t, item.Reject(t.Context()))
						c.Close()
					},
					"is left by the dead": func(queue.Item, *queue.Consumer) { srv.Expire(s[1].ID()) },
				} {
					var c *queue.Consumer
					var item queue.Item
					if free != nil {
						put(t, b, data)
						c = consume(t, b, 1)
						item = next(t, c)
					}
					taking := make(chan string, 1)
					go func() { taking <- takeOne(t, a) }()
					synctest.Wait()
					if check.None(t, taking, data); free != nil {
						free(item, c)
					} else {
						put(t, b, data)
					}
					kit.Pass(time.Minute)
					if len(taking) == 0 {
						t.Errorf("%s: the call does not hear of the item", data)
						put(t, a, data) // which wakes it
					}
					check.Equal(t, <-taking, data)
					if c != nil {
						c.Close()
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := a.Take(ctx)
				undone(t, err, context.DeadlineExceeded)
			})
		})
	}
}

// TestBuckets puts more than one bucket holds, and leaves nothing.
func TestBuckets(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		a, b := open(t, s[0], nil), open(t, s[1], nil)
		want := numbers(5000)
		for i := 0; i < len(want); i += 100 {
			putAll(t, []*queue.Queue{a, b}[i/100%2], want[i:i+100]...)
		}
		check.AtLeast(t, len(left(srv, "items")), 5, "buckets")
		check.Equal(t, length(t, a), 5000)
		check.EqualSlices(t, drain(t, a), want, "taken")
		kit.Pass(5 * time.Minute)
		check.Len(t, left(srv, "items"), 0, "left behind")
		put(t, b, "again")
		check.EqualSlices(t, drain(t, a), []string{"again"}, "taken")
	})
}

func TestLayouts(t *testing.T) {
	for layout, prefix := range map[queue.Layout]string{queue.Curator: "qn-", queue.Kazoo: "entry-100-"} {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q := flat(t, s[0], at, layout)
			id := check.Have(q.Put(t.Context(), []byte("a")))(t)
			check.True(t, id == prefix+"0000000000", "node %s, want %s…", id, prefix)
			putForeign(t, s[0], at+"/"+prefix, "b")
			check.EqualSlices(t, drain(t, q), []string{"a", "b"}, "taken")
			put(t, q, "c")
			for _, other := range []queue.Layout{standard, queue.Curator, queue.Kazoo} {
				if other == layout {
					continue
				}
				foreign := openAs(t, s[0], at, other)
				_, err := foreign.Put(t.Context(), []byte("x"))
				refused(t, err, queue.ErrLayout, prefix)
				check.Fails(foreign.TryTake(t.Context()))(t, queue.ErrLayout)
			}
			check.EqualSlices(t, drain(t, q), []string{"c"}, "taken")
		})
	}
}

// TestKazooPriorities takes items that a client has put with other priorities.
func TestKazooPriorities(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := flat(t, s[0], at, queue.Kazoo)
		put(t, q, "normal")
		for _, p := range []string{"050", "1000", "007"} {
			putForeign(t, s[0], at+"/entry-"+p+"-", p)
		}
		check.EqualSlices(t, drain(t, q), []string{"007", "050", "normal", "1000"}, "taken")
	})
}

// TestKazooPath: the path of a queue that is shared with kazoo stays when it is empty.
func TestKazooPath(t *testing.T) {
	for what, fail := range map[string]func(srv *zktest.Server){
		"no fault":       func(*zktest.Server) {},
		"a lost reply":   func(srv *zktest.Server) { srv.DropReply(zktest.Match{Op: zktest.OpCreate, Path: at}) },
		"a lost request": func(srv *zktest.Server) { srv.DropRequest(zktest.Match{Op: zktest.OpCreate, Path: at}) },
	} {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			fail(srv)
			q := flat(t, s[0], at, queue.Kazoo)
			put(t, q, "a", "b")
			check.EqualSlices(t, drain(t, q), []string{"a", "b"}, what)
			check.OK(t, srv.AwaitFault(0), what)
			kit.Pass(time.Hour)
			check.True(t, check.Have(s[0].Exists(t.Context(), at))(t) != nil, "%s: the path is gone", what)
		})
	}
}

// TestBadInput has what TestBadInput of internal/policy has not.
func TestBadInput(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		synctest.Wait()
		srv.ResetRequests()
		for what, c := range map[string]struct {
			path string
			opts *queue.Options
			want error
		}{
			"path: invalid":      {"queues", nil, session.ErrInvalidPath},
			"path: root":         {"/", nil, session.ErrInvalidPath},
			"DeadLetter: within": {at, &queue.Options{MaxAttempts: 1, DeadLetter: at + "/items"}, session.ErrInvalidPath},
			"DeadLetter: beside": {at, &queue.Options{DeadLetter: "/queues"}, session.ErrInvalidPath},
			"Backoff":            {at, &queue.Options{Backoff: queue.Backoff{First: 2, Most: 1}}, session.ErrInvalidArgument},
		} {
			argument, _, _ := strings.Cut(what, ":")
			_, err := queue.New(s[0], c.path, c.opts)
			refused(t, err, c.want, argument)
		}
		q := open(t, s[0], nil)
		ids, err := q.PutAll(t.Context(), nil) // nothing is done
		check.True(t, len(ids) == 0 && err == nil, "%v, %v", ids, err)
		check.Fails(q.Put(t.Context(), make([]byte, 1<<20)))(t, session.ErrTooLarge)
		check.Fails(q.Consume(&queue.ConsumeOptions{Backoff: queue.Backoff{First: 2, Most: 1}}))(t, session.ErrInvalidArgument)
		check.Is(t, q.Run(t.Context(), 0, nil), session.ErrInvalidArgument)
		_, err = s[0].Multi(t.Context(), (queue.Item{}).Guard()...)
		check.True(t, err != nil, "the zero Item's guard lets pass")
		_, err = q.PutAll(t.Context(), [][]byte{[]byte("x"), nil, make([]byte, 1<<20)})
		refused(t, err, session.ErrTooLarge, "item 2")
		check.Fails(queue.New(nil, at, nil))(t, session.ErrInvalidArgument)
		check.Fails(q.Consume(&queue.ConsumeOptions{Name: strings.Repeat("x", 257)}))(t, session.ErrInvalidArgument)
		check.Equal(t, srv.Requests().Total(), 0, "requests")
	})
}

// TestNothing: an item may be empty, and so are items of nil, in all queues.
func TestNothing(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		ctx := t.Context()
		q, f := open(t, s[0], nil), check.Have(queue.NewFlat(s[0], "/flat", queue.Curator, nil))(t)
		defer func() { check.OK(t, f.Close(ctx)) }()
		p := check.Have(queue.NewPriority(s[0], "/priorities", nil))(t)
		defer func() { check.OK(t, p.Close(ctx)) }()
		for name, c := range map[string]struct {
			put  func() error
			take func(context.Context) ([]byte, error)
		}{
			"Put":             {func() error { return with(q.Put(ctx, nil)) }, q.Take},
			"PutAfter":        {func() error { return with(q.PutAfter(ctx, nil, time.Second)) }, q.Take},
			"PutAll":          {func() error { return with(q.PutAll(ctx, [][]byte{nil})) }, q.Take},
			"PutOnce":         {func() error { return with(q.PutOnce(ctx, "key", nil)) }, q.Take},
			"Put, empty":      {func() error { return with(q.Put(ctx, []byte{})) }, q.Take},
			"Priority.Put":    {func() error { return with(p.Put(ctx, nil, 1)) }, p.Take},
			"Priority.PutAll": {func() error { return with(p.PutAll(ctx, [][]byte{nil}, 1)) }, p.Take},
			"Flat.Put":        {func() error { return with(f.Put(ctx, nil)) }, f.Take},
			"Flat.PutAll":     {func() error { return with(f.PutAll(ctx, [][]byte{nil})) }, f.Take},
			"Flat.Put, empty": {func() error { return with(f.Put(ctx, []byte{})) }, f.Take},
		} {
			check.OK(t, c.put(), name)
			for _, path := range srv.Paths() {
				if data, _, err := s[0].Get(ctx, path); strings.HasPrefix(path, "/flat/") && (data == nil || err != nil) {
					t.Error(path, "has no data, not even empty data:", err)
				}
			}
			data, err := c.take(ctx)
			check.True(t, len(data) == 0 && err == nil, "%s: %q, %v", name, data, err)
		}
		check.Have(s[0].Multi(ctx, session.CreateOp("/flat/qn-", nil, session.PersistentSequential)))(t) // without data
		data, err := f.Take(ctx)
		check.True(t, len(data) == 0 && err == nil, "%q, %v", data, err)
		for _, none := range []func(context.Context, [][]byte) ([]string, error){q.PutAll, f.PutAll} {
			ids, err := none(ctx, nil)
			check.True(t, len(ids) == 0 && err == nil, "%v, %v", ids, err)
		}
	})
}

func with[T any](_ T, err error) error { return err }

// TestClose: calls that wait end with the handle, and nothing of them is left. Items are touched by
// none of them.
func TestClose(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		full, empty := open(t, s[0], &queue.Options{MaxItems: 1}), open(t, s[0], nil)
		other := openAt(t, s[1], "/queues/other", nil)
		put(t, full, "old")
		// Of two calls, the second waits behind the first.
		first, second := beginPut(t.Context(), full, "new"), beginPut(t.Context(), full, "new")
		check.Must(t, full.Close(t.Context()))
		undone(t, <-first, queue.ErrClosed)
		undone(t, <-second, queue.ErrClosed)
		check.EqualSlices(t, drain(t, empty), []string{"old"}, "left")
		empty = openAt(t, s[0], "/queues/other", nil)
		first, second = beginTake(t.Context(), empty), beginTake(t.Context(), empty)
		check.Must(t, empty.Close(t.Context()))
		undone(t, <-first, queue.ErrClosed)
		undone(t, <-second, queue.ErrClosed)
		check.Len(t, slices.Concat(left(srv, "waiters"), left(srv, "producers")), 0, "left behind")
		put(t, other, "x")
		check.EqualSlices(t, drain(t, other), []string{"x"}, "left")
	})
}

// TestCloseAgain: each call of Close waits until what the handle has is gone.
func TestCloseAgain(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		put(t, q, "x")
		srv.Delay(zktest.Match{Session: s[0].ID()}, 5*time.Second)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			check.Is(t, q.Close(ctx), context.DeadlineExceeded)
		}
		check.Must(t, q.Close(t.Context()))
		check.Len(t, left(srv, "receipts"), 0, "left behind")
		check.Must(t, q.Close(t.Context()))
	})
}

// TestIDOfUnknownOutcome: who does not know whether an item was put has its ID, and recognises it
// later.
func TestIDOfUnknownOutcome(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q, flat := open(t, s[0], nil), flat(t, s[0], "/queues/flat", queue.Curator)
		put(t, q, "first")
		drain(t, q)
		put(t, flat, "first")
		c := consume(t, q, 1)
		for what, call := range map[string]func(context.Context) (ids []string, err error){
			"Put": func(ctx context.Context) ([]string, error) {
				id, err := q.Put(ctx, []byte("x"))
				return []string{id}, err
			},
			"PutAll": func(ctx context.Context) ([]string, error) { return q.PutAll(ctx, bytesOf(numbers(2))) },
			"flat": func(ctx context.Context) ([]string, error) { // where the server gives the name
				id, err := flat.Put(ctx, []byte("x"))
				check.Equal(t, id, "")
				return nil, err
			},
		} {
			srv.DropReply(zktest.Match{Op: zktest.OpMulti})
			srv.Refuse(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			ids, err := call(ctx)
			check.Is(t, err, session.ErrUnknownOutcome, what)
			_, err = q.Put(ctx, []byte("y"))
			undone(t, err, context.DeadlineExceeded)
			srv.Refuse(false)
			for _, id := range ids {
				item := next(t, c)
				check.Equal(t, item.ID, id, what)
				check.Must(t, item.Ack(t.Context()))
			}
		}
	})
}

// TestTakeEnds: a call whose context has ended waits for its answer until the session ends.
func TestTakeEnds(t *testing.T) {
	slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		put(t, q, "1", "2")
		srv.DropReply(zktest.Match{Session: s[0].ID(), Op: zktest.OpMulti})
		srv.Refuse(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		data, err := q.Take(ctx)
		check.Fails(0, err)(t, session.ErrUnknownOutcome)
		check.Is(t, err, context.DeadlineExceeded)
		took := time.Since(began)
		check.True(t, string(data) == "1" && took > time.Second && took <= 12*time.Second, "%q after %v", data, took)
		srv.Refuse(false)
	})
}
