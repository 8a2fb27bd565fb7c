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
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestFirstInFirstOut(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		a, b := open(t, s[0], nil), open(t, s[1], nil)
		put(t, a, "a", "b")
		ids, err := b.PutAll(t.Context(), bytesOf([]string{"c", "d"}))
		ok(t, err)
		put(t, a, "e")
		check.True(t, len(ids) == 2 && ids[0] != ids[1], "IDs %q", ids)
		if n, err := b.Len(t.Context()); n != 5 || err != nil {
			t.Errorf("Len: %d, %v", n, err)
		}
		if data, err := b.Peek(t.Context()); string(data) != "a" || err != nil {
			t.Errorf("Peek: %q, %v", data, err)
		}
		equal(t, "taken", drain(t, b), []string{"a", "b", "c", "d", "e"})
		if _, err := b.Peek(t.Context()); !errors.Is(err, queue.ErrEmpty) {
			t.Errorf("Peek: %v", err)
		}
		ok(t, a.Close(t.Context()))
		ok(t, b.Close(t.Context()))
		for what, call := range map[string]func() error{
			"Put": func() error { _, err := a.Put(t.Context(), []byte("x")); return err }, "Take": func() error { _, err := a.Take(t.Context()); return err },
			"Len": func() error { _, err := a.Len(t.Context()); return err }, "Peek": func() error { _, err := a.Peek(t.Context()); return err },
			"Consume": func() error { _, err := a.Consume(nil); return err },
		} {
			if err := call(); !errors.Is(err, queue.ErrClosed) {
				t.Errorf("%s after Close: %v", what, err)
			}
		}
		pass(5 * time.Minute) // until the server has removed the containers
		if left := srv.Paths(); len(left) > 2 {
			t.Errorf("left behind: %q", left)
		}
	})
}

// TestTakeWaits waits for an item that comes, and for one that a consumer gives back: by the
// deletion of its claim, after which not every server has another pzxid of the parent.
func TestTakeWaits(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		t.Run(profile.String(), func(t *testing.T) { takeWaits(t, profile) })
	}
}

func takeWaits(t *testing.T, profile zktest.Profile) {
	bubbleOn(t, profile, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		a, b := open(t, s[0], nil), open(t, s[1], nil)
		take := func() <-chan string {
			ch := make(chan string, 1)
			go func() {
				data, err := a.Take(t.Context())
				ch <- fmt.Sprintf("%s %v", data, err)
			}()
			synctest.Wait()
			return ch
		}
		got := take()
		put(t, b, "x")
		if x := <-got; x != "x <nil>" {
			t.Error(x)
		}
		put(t, b, "y")
		c := consume(t, b, 1)
		item := next(t, c)
		got = take()
		select {
		case x := <-got:
			t.Errorf("%s was taken, and is claimed", x)
		default:
		}
		ok(t, item.Reject(t.Context()))
		c.Close()
		if x := <-got; x != "y <nil>" {
			t.Error(x)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Take(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, session.ErrUnknownOutcome) {
			t.Error(err)
		}
	})
}

// TestTakeWaitsForTheDead: an item whose consumer dies is taken by another that waits. The deletion
// of the claim is all that happens, and not every server has another pzxid of its parent then.
func TestTakeWaitsForTheDead(t *testing.T) {
	for _, profile := range zktest.Profiles() {
		bubbleOn(t, profile, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			a, b := open(t, s[0], nil), open(t, s[1], nil)
			put(t, b, "y")
			next(t, consume(t, b, 1))
			got := make(chan string, 1)
			go func() {
				data, err := a.Take(t.Context())
				got <- fmt.Sprintf("%s %v", data, err)
			}()
			synctest.Wait()
			check.None(t, got, profile, "the item is claimed")
			srv.Expire(s[1].ID())
			pass(time.Minute)
			select {
			case x := <-got:
				check.Equal(t, x, "y <nil>", profile)
			default:
				t.Errorf("%v: the consumer does not hear of the item", profile)
				put(t, a, "z") // which wakes it
				<-got
			}
		})
	}
}

// TestBuckets puts more than one bucket holds, and leaves nothing.
func TestBuckets(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		a, b := open(t, s[0], nil), open(t, s[1], nil)
		want := numbers(5000)
		for i, batch := range slices.Collect(slices.Chunk(want, 100)) {
			q := a
			if i%2 == 0 {
				q = b
			}
			_, err := q.PutAll(t.Context(), bytesOf(batch))
			ok(t, err)
		}
		if n := len(left(srv, "items")); n < 5 {
			t.Errorf("%d buckets", n)
		}
		if n, err := a.Len(t.Context()); n != 5000 || err != nil {
			t.Errorf("Len: %d, %v", n, err)
		}
		equal(t, "taken", drain(t, a), want)
		pass(5 * time.Minute)
		if n := left(srv, "items"); len(n) > 0 {
			t.Errorf("left behind: %q", n)
		}
		put(t, b, "again")
		equal(t, "taken", drain(t, a), []string{"again"})
	})
}

func TestLayouts(t *testing.T) {
	for layout, prefix := range map[queue.Layout]string{queue.Curator: "qn-", queue.Kazoo: "entry-100-"} {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q := flat(t, s[0], at, layout)
			id, err := q.Put(t.Context(), []byte("a"))
			ok(t, err)
			check.True(t, id == prefix+"0000000000", "node %s, want %s…", id, prefix)
			_, err = s[0].Multi(t.Context(), session.CreateOp(at+"/"+prefix, []byte("b"), session.PersistentSequential)) // as other clients do
			ok(t, err)
			equal(t, "taken", drain(t, q), []string{"a", "b"})
			put(t, q, "c")
			for _, other := range []queue.Layout{standard, queue.Curator, queue.Kazoo} {
				if other == layout {
					continue
				}
				foreign := openAs(t, s[0], other)
				if _, err := foreign.Put(t.Context(), []byte("x")); !errors.Is(err, queue.ErrLayout) || !strings.Contains(err.Error(), prefix) {
					t.Errorf("layout %d puts into %d: %v", other, layout, err)
				}
				if _, err := foreign.TryTake(t.Context()); !errors.Is(err, queue.ErrLayout) {
					t.Errorf("layout %d takes from %d: %v", other, layout, err)
				}
			}
			equal(t, "taken", drain(t, q), []string{"c"})
		})
	}
}

// TestKazooPriorities takes items that a client has put with other priorities.
func TestKazooPriorities(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := flat(t, s[0], at, queue.Kazoo)
		put(t, q, "normal")
		for _, p := range []string{"050", "1000", "007"} {
			_, err := s[0].Multi(t.Context(), session.CreateOp(at+"/entry-"+p+"-", []byte(p), session.PersistentSequential))
			ok(t, err)
		}
		equal(t, "taken", drain(t, q), []string{"007", "050", "normal", "1000"})
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
			equal(t, what, drain(t, q), []string{"a", "b"})
			if err := srv.AwaitFault(0); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			pass(time.Hour)
			if stat, err := s[0].Exists(t.Context(), at); err != nil || stat == nil {
				t.Errorf("%s: %v, %v", what, stat, err)
			}
		})
	}
}

func TestEphemeralItems(t *testing.T) {
	bubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		put(t, open(t, s[1], nil), "a")
		put(t, open(t, s[0], &queue.Options{Ephemeral: true}), "b")
		s[0].Close()
		equal(t, "left", drain(t, open(t, s[1], nil)), []string{"a"})
	})
}

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
			if _, err := queue.New(s[0], c.path, c.opts); !errors.Is(err, c.want) || !strings.Contains(err.Error(), argument) {
				t.Errorf("%s: %v", what, err)
			}
		}
		q := open(t, s[0], nil)
		if _, err := q.Put(t.Context(), nil); !errors.Is(err, session.ErrInvalidArgument) {
			t.Errorf("nil data: %v", err)
		}
		if _, err := q.PutAll(t.Context(), nil); !errors.Is(err, session.ErrInvalidArgument) {
			t.Errorf("no items: %v", err)
		}
		if _, err := q.Put(t.Context(), make([]byte, 1<<20)); !errors.Is(err, session.ErrTooLarge) {
			t.Errorf("too large: %v", err)
		}
		if _, err := q.Consume(&queue.ConsumeOptions{Prefetch: -1}); !errors.Is(err, session.ErrInvalidArgument) {
			t.Errorf("negative prefetch: %v", err)
		}
		if _, err := q.Consume(&queue.ConsumeOptions{Backoff: queue.Backoff{First: 2, Most: 1}}); !errors.Is(err, session.ErrInvalidArgument) {
			t.Errorf("backoff: %v", err)
		}
		if err := q.Run(t.Context(), 0, nil); !errors.Is(err, session.ErrInvalidArgument) {
			t.Errorf("no workers: %v", err)
		}
		if err := (queue.Item{}).Ack(t.Context()); !errors.Is(err, session.ErrInvalidArgument) {
			t.Errorf("the zero Item: %v", err)
		}
		if _, err := s[0].Multi(t.Context(), (queue.Item{}).Guard()...); err == nil {
			t.Error("the zero Item's guard lets pass")
		}
		if _, err := q.PutAll(t.Context(), [][]byte{[]byte("x"), nil}); !errors.Is(err, session.ErrInvalidArgument) || !strings.Contains(err.Error(), "item 1") {
			t.Errorf("nil data of one of two: %v", err)
		}
		if _, err := queue.New(nil, at, nil); !errors.Is(err, session.ErrInvalidArgument) {
			t.Errorf("no session: %v", err)
		}
		if _, err := q.Consume(&queue.ConsumeOptions{Name: strings.Repeat("x", 257)}); !errors.Is(err, session.ErrInvalidArgument) {
			t.Errorf("long name: %v", err)
		}
		check.Equal(t, srv.Requests().Total(), 0, "requests")
	})
}

// TestForeignNodes refuses what is no queue, and touches nothing.
func TestForeignNodes(t *testing.T) {
	for _, node := range []string{at + "/_c_0123-lock-0000000001", at + "/items/other", at + "/items/2147483648-0000000000/other"} {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			ok(t, s[0].EnsurePath(t.Context(), node))
			q := open(t, s[0], nil)
			if _, err := q.Put(t.Context(), []byte("x")); !errors.Is(err, queue.ErrLayout) && path.Base(path.Dir(path.Dir(node))) != "items" {
				t.Errorf("%s: put: %v", node, err)
			}
			if _, err := q.Len(t.Context()); !errors.Is(err, queue.ErrLayout) {
				t.Errorf("%s: Len: %v", node, err)
			}
			if _, err := q.TryTake(t.Context()); !errors.Is(err, queue.ErrLayout) || !strings.Contains(err.Error(), node) {
				t.Errorf("%s: take: %v", node, err)
			}
			c := consume(t, q, 1)
			<-c.Done()
			if err := c.Err(); !errors.Is(err, queue.ErrLayout) {
				t.Errorf("%s: consume: %v", node, err)
			}
			c.Close()
			check.True(t, slices.Contains(srv.Paths(), node), "%s is lost", node)
		})
	}
}

// TestClose: calls that wait end with the handle, and nothing of them is left. Items are touched by
// none of them.
func TestClose(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		full, empty := open(t, s[0], &queue.Options{MaxItems: 1}), open(t, s[0], nil)
		other, err := queue.New(s[1], "/queues/other", nil)
		ok(t, err)
		put(t, full, "old")
		calls := make(chan error, 4)
		call := func(f func() error) {
			go func() { calls <- f() }()
			synctest.Wait()
		}
		for range 2 { // the second behind the first
			call(func() error {
				_, err := full.Put(t.Context(), []byte("new"))
				return err
			})
		}
		ok(t, full.Close(t.Context()))
		for range 2 {
			if err := <-calls; !errors.Is(err, queue.ErrClosed) || session.InDoubt(err) {
				t.Errorf("Put that waits for room: %v", err)
			}
		}
		equal(t, "left", drain(t, empty), []string{"old"})
		empty, err = queue.New(s[0], "/queues/other", nil)
		ok(t, err)
		for range 2 {
			call(func() error {
				_, err := empty.Take(t.Context())
				return err
			})
		}
		ok(t, empty.Close(t.Context()))
		for range 2 {
			if err := <-calls; !errors.Is(err, queue.ErrClosed) || session.InDoubt(err) {
				t.Errorf("Take that waits: %v", err)
			}
		}
		if n := slices.Concat(left(srv, "waiters"), left(srv, "producers")); len(n) > 0 {
			t.Errorf("left behind: %q", n)
		}
		put(t, other, "x")
		equal(t, "left", drain(t, other), []string{"x"})
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
			if err := q.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Close while the reply is late: %v", err)
			}
		}
		ok(t, q.Close(t.Context()))
		if n := left(srv, "receipts"); len(n) > 0 {
			t.Errorf("left behind: %q", n)
		}
		ok(t, q.Close(t.Context()))
	})
}

// TestIDOfUnknownOutcome: who does not know whether an item was put has its ID, and recognises it
// later.
func TestIDOfUnknownOutcome(t *testing.T) {
	for _, all := range []bool{false, true} {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q := open(t, s[0], nil)
			put(t, q, "first")
			drain(t, q)
			srv.DropReply(zktest.Match{Op: zktest.OpMulti})
			srv.Refuse(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			ids := make([]string, 1)
			var err error
			if all {
				ids, err = q.PutAll(ctx, bytesOf(numbers(2)))
			} else {
				ids[0], err = q.Put(ctx, []byte("x"))
			}
			check.Fails(0, err)(t, session.ErrUnknownOutcome)
			_, err = q.Put(ctx, []byte("y"))
			check.True(t, err != nil && !session.InDoubt(err), "a call whose context has ended: %v", err)
			srv.Refuse(false)
			c := consume(t, q, 1)
			for _, id := range ids {
				item := next(t, c)
				check.Equal(t, item.ID, id)
				ok(t, item.Ack(t.Context()))
			}
			c.Close()
			flat := flat(t, s[0], "/queues/flat", queue.Curator)
			_, err = flat.Put(t.Context(), []byte("x"))
			ok(t, err)
			srv.DropReply(zktest.Match{Op: zktest.OpMulti})
			srv.Refuse(true)
			ctx, leave := context.WithTimeout(t.Context(), time.Second)
			defer leave()
			id, err := flat.Put(ctx, []byte("x"))
			check.True(t, id == "" && session.InDoubt(err), "in a flat layout the server gives the name: %q, %v", id, err)
			srv.Refuse(false)
		})
	}
}

// TestTakeLosesNothing has calls of Take whose contexts end at any moment, under way too: while the
// session lives, an item was returned or is still there.
func TestTakeLosesNothing(t *testing.T) {
	for _, layout := range []queue.Layout{standard, queue.Kazoo} {
		for _, callers := range []int{1, 4} {
			slow(t, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := openAs(t, s[0], layout)
				const n = 100
				_, err := q.PutAll(t.Context(), bytesOf(numbers(n)))
				ok(t, err)
				var mu sync.Mutex
				got := map[string]int{}
				failed := 0
				var taking sync.WaitGroup
				for i := range callers {
					taking.Go(func() {
						for k := range 80 / callers {
							if k%10 == 9 {
								srv.DropReply(zktest.Match{Session: s[0].ID(), Op: zktest.OpMulti})
							}
							ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(7*k+i)%30)*time.Millisecond)
							data, err := q.Take(ctx)
							cancel()
							mu.Lock()
							if err == nil {
								got[string(data)]++
							} else {
								failed++
								check.Is(t, err, context.DeadlineExceeded)
								check.True(t, !session.InDoubt(err) && data == nil, "the session lives: %q, %v", data, err)
							}
							mu.Unlock()
						}
					})
				}
				taking.Wait()
				srv.ClearFaults()
				check.True(t, failed > 0 && len(got) > 0, "%d calls failed, %d items were taken", failed, len(got))
				for _, x := range drain(t, q) {
					got[x]++
				}
				for _, x := range numbers(n) {
					check.True(t, got[x] == 1, "%s came %d times", x, got[x])
				}
			})
		}
	}
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
