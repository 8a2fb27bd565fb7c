package queue_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestForeignClaims: a persistent node in the place of a claim would hide its item for ever. It is
// refused by name, whatever else there is. A claim of a consumer that works for long is not.
func TestForeignClaims(t *testing.T) {
	for _, others := range []int{0, 3} {
		bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q, other := open(t, s[0], nil), open(t, s[1], nil)
			put(t, q, "hidden")
			c := consume(t, q, 1)
			item := next(t, c)
			put(t, q, numbers(others)...)
			begin := func() (takes <-chan error) {
				for range others {
					check.Have(other.TryTake(t.Context()))(t)
				}
				return beginTake(t.Context(), other)
			}
			takes := begin()
			kit.Pass(time.Hour)
			srv.ResetRequests()
			kit.Pass(time.Hour)
			got := srv.Requests()
			check.Equal(t, got.Total()-got[zktest.OpSync]-got[zktest.OpPing], 0, "requests of an idle call")
			check.None(t, takes)
			check.Must(t, item.RejectAfter(t.Context(), 0, nil))
			c.Close()
			check.Must(t, answered(t, takes))

			put(t, q, "hidden")
			c = consume(t, q, 1)
			item = next(t, c)
			check.Must(t, item.RejectAfter(t.Context(), 0, nil))
			c.Close()
			claim := at + "/claims/" + item.ID
			check.Must(t, s[0].EnsurePath(t.Context(), claim))
			put(t, q, numbers(others)...)
			takes = begin()
			kit.Pass(2 * time.Minute)
			refused(t, answered(t, takes), queue.ErrLayout, claim)
			_, err := q.Peek(t.Context())
			if isEmpty(err) {
				_, err = q.Peek(t.Context())
			}
			refused(t, err, queue.ErrLayout, claim)
			c = consume(t, open(t, s[1], nil), 1)
			kit.Pass(2 * time.Minute)
			<-c.Done()
			refused(t, c.Err(), queue.ErrLayout, claim)
			check.Must(t, s[0].Delete(t.Context(), claim, session.AnyVersion))
			check.EqualSlices(t, drain(t, q), []string{"hidden"}, "left")
		})
	}
}

// TestForeignNodes refuses what is no queue, and touches nothing.
func TestForeignNodes(t *testing.T) {
	for _, node := range []string{at + "/_c_0123-lock-0000000001", at + "/items/other", at + "/items/2147483648-0000000000/other"} {
		bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			check.Must(t, s[0].EnsurePath(t.Context(), node))
			q := open(t, s[0], nil)
			_, err := q.Put(t.Context(), []byte("x"))
			check.True(t, errors.Is(err, queue.ErrLayout) || strings.Count(node, "/") == 5, "%s: put: %v", node, err)
			check.Fails(q.Len(t.Context()))(t, queue.ErrLayout)
			_, err = q.TryTake(t.Context())
			refused(t, err, queue.ErrLayout, node)
			c := consume(t, q, 1)
			<-c.Done()
			check.Is(t, c.Err(), queue.ErrLayout)
			check.True(t, slices.Contains(srv.Paths(), node), "%s is lost", node)
		})
	}
}

// TestForeignNodesCome: a node of somebody else that comes among the items ends those that wait for
// one. A node below an item keeps nobody from others, and is named when the item is to be deleted.
func TestForeignNodesCome(t *testing.T) {
	for _, node := range []string{at + "/items/other", at + "/items/2147483648-0000000000/other"} {
		bubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
			q := open(t, s[0], nil)
			put(t, q, "makes directories")
			drain(t, q)
			c := consume(t, q, 1)
			taking := beginTake(t.Context(), open(t, s[1], nil))
			kit.Pass(time.Second)
			check.Must(t, s[1].EnsurePath(t.Context(), node))
			<-c.Done()
			for _, err := range []error{c.Err(), <-taking} {
				check.Is(t, err, queue.ErrLayout)
				check.True(t, strings.Contains(err.Error(), node), "%v, want %s", err, node)
			}
		})
	}
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		put(t, q, "1", "2")
		all := left(srv, "2147483648-0000000000")
		item := all[slices.IndexFunc(all, func(node string) bool { return strings.HasSuffix(node, "-0000000000") })]
		check.Must(t, s[0].EnsurePath(t.Context(), item+"/other"))
		_, err := q.TryTake(t.Context())
		check.True(t, errors.Is(err, session.ErrNotEmpty) && strings.Contains(err.Error(), item), "Take: %v", err)
		c := consume(t, q, 2)
		for range 2 {
			it := next(t, c)
			err := it.Ack(t.Context())
			check.True(t, string(it.Data) == "2" && err == nil || errors.Is(err, session.ErrNotEmpty) && strings.Contains(err.Error(), item), "Ack of %s: %v", it.Data, err)
		}
	})
}

// TestForeignNodesBeside: a node of somebody else in a line, or beside the claims or the receipts,
// is not waited for.
func TestForeignNodesBeside(t *testing.T) {
	for _, dir := range []string{"waiters", "producers", "claims", "receipts"} {
		for _, name := range []string{
			"foo", "waiter-0000000000", "_c_waiter-0000000000", "_c_6b9b8e66-6b4e-4c0a-9f53-000000000000-other-0000000000",
			"_c_6b9b8e66-6b4e-4c0a-9f53-000000000000-waiter--000000001", // persistent, and so no waiter's
		} {
			t.Run(dir+"/"+name, func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					q, other := open(t, s[0], &queue.Options{MaxItems: 1}), open(t, s[1], nil)
					put(t, q, "first")
					check.Must(t, s[1].EnsurePath(t.Context(), at+"/"+dir+"/"+name))
					putting := beginPut(t.Context(), q, "second")
					kit.Pass(time.Minute)
					check.EqualSlices(t, drain(t, other)[:1], []string{"first"}, "taken")
					kit.Pass(time.Second)
					select {
					case err := <-putting:
						check.Must(t, err)
					default:
						t.Fatal("a bounded Put waits, and there is room")
					}
					drain(t, other)
					c := consume(t, q, 1)
					kit.Pass(time.Second)
					put(t, other, "third")
					kit.Pass(time.Second)
					select {
					case item := <-c.Items():
						check.Equal(t, string(item.Data), "third")
						check.Must(t, item.Ack(t.Context()))
					default:
						t.Fatal("a consumer waits, and there is an item")
					}
				})
			})
		}
	}
}
