package queue_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// once puts an item with a key, whose data are the key, and returns its ID.
func once(t *testing.T, q *queue.Queue, key string) string {
	t.Helper()
	id := check.Have(q.PutOnce(t.Context(), key, []byte(key)))(t)
	return id
}

// twice puts an item with a key that is known, of the item with the ID.
func twice(t *testing.T, q *queue.Queue, key, id string) {
	t.Helper()
	got, err := q.PutOnce(t.Context(), key, []byte("again"))
	check.Is(t, err, queue.ErrDuplicate)
	check.Equal(t, got, id)
}

// keysOf returns the nodes of keys.
func keysOf(srv *zktest.Server) []string {
	return slices.DeleteFunc(srv.Paths(), func(p string) bool {
		return !strings.HasPrefix(p, at+"/keys/") || strings.Count(p, "/") != strings.Count(at, "/")+3
	})
}

// shardOf returns the directory of a key.
func shardOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return at + "/keys/" + hex.EncodeToString(sum[:1])
}

// TestLongestKey: a key has 512 bytes at most.
func TestLongestKey(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q, longest := open(t, s[0], nil), strings.Repeat("k", 512)
		twice(t, q, longest, once(t, q, longest))
		check.Fails(q.PutOnce(t.Context(), longest+"k", []byte("never")))(t, session.ErrInvalidArgument)
	})
}

// TestPutOnce: no handle puts an item with a key that is known, also if the first is taken by now.
// After the time there is another.
func TestPutOnce(t *testing.T) {
	for _, opts := range []queue.Options{{}, {KeepKeys: time.Minute}, {MaxItems: 2, RefuseWhenFull: true}, {Ephemeral: true}} {
		bubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
			keep := max(opts.KeepKeys, time.Minute)
			if opts.KeepKeys == 0 {
				keep = 10 * time.Minute
			}
			a, b := open(t, s[0], &opts), open(t, s[1], &opts)
			id := once(t, a, "order 7\n")
			twice(t, a, "order 7\n", id)
			twice(t, b, "order 7\n", id)
			once(t, b, "order 8") // there are two items
			twice(t, b, "order 7\n", id)
			c := consume(t, a, 1)
			item := next(t, c)
			check.Equal(t, item.Key, "order 7\n")
			check.Equal(t, item.ID, id)
			check.Must(t, item.Reject(t.Context()))
			kit.Pass(2 * time.Second)
			twice(t, b, "order 7\n", id)
			for _, key := range []string{"order 8", "order 7\n"} {
				item = next(t, c)
				check.Equal(t, item.Key, key)
				check.Must(t, item.Ack(t.Context()))
			}
			c.Close()
			kit.Pass(keep - 10*time.Second)
			twice(t, b, "order 7\n", id)
			kit.Pass(10 * time.Second)
			second := once(t, b, "order 7\n")
			check.True(t, second != id, "another item")
			twice(t, a, "order 7\n", second)
			check.EqualSlices(t, drain(t, a), []string{"order 7\n"}, "items")
		})
	}
}

// TestPutOncePriority: a key is known in all priorities, and dead letters have theirs.
func TestPutOncePriority(t *testing.T) {
	bubble(t, 1, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		p := ranked(t, s[0], &queue.Options{MaxAttempts: 1})
		id := check.Have(p.PutOnce(t.Context(), "k", []byte("x"), -3))(t)
		again := func() {
			known, err := p.PutOnce(t.Context(), "k", []byte("x"), 4)
			check.True(t, known == id && errors.Is(err, queue.ErrDuplicate), "%s, %v, want %s", known, err, id)
		}
		again()
		check.Equal(t, serve(t, p, queue.Item.Reject).Priority, -3)
		dead := letters(t, s[0], &queue.Options{MaxAttempts: 1})
		for letter, err := range dead.All(t.Context()) {
			check.Must(t, err)
			check.Equal(t, letter.Key, "k")
			check.Must(t, dead.Redrive(t.Context(), letter.ID))
		}
		again()
	})
}

// TestPutOnceThroughFaults: there is one item, whatever request or reply is lost. A session that
// expires meanwhile does not leave the outcome unknown.
func TestPutOnceThroughFaults(t *testing.T) {
	for _, bounded := range []bool{false, true} {
		for _, op := range []zktest.Op{zktest.OpMulti, zktest.OpCreate, zktest.OpGetData} {
			for skip := range 4 {
				for _, expires := range []bool{false, true} {
					for what, lose := range map[string]func(*zktest.Server, zktest.Match){"reply": (*zktest.Server).DropReply, "request": (*zktest.Server).DropRequest} {
						bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
							about := fmt.Sprintf("bounded %v, op %v, skip %d, expires %v, %s lost", bounded, op, skip, expires, what)
							opts := &queue.Options{}
							if bounded {
								opts.MaxItems = 10
							}
							q, other := open(t, s[0], opts), open(t, s[1], opts)
							lose(srv, zktest.Match{Op: op, Skip: skip})
							if expires {
								srv.Refuse(true)
								defer time.AfterFunc(time.Second, func() {
									srv.Expire(s[0].ID())
									srv.Refuse(false)
								}).Stop()
							}
							for _, key := range []string{"a", "b"} {
								id := check.Have(q.PutOnce(t.Context(), key, []byte(key)))(t)
								srv.ClearFaults()
								twice(t, q, key, id)
								twice(t, other, key, id)
							}
							check.EqualSlices(t, drain(t, other), []string{"a", "b"}, about)
						})
					}
				}
			}
		}
	}
}

// TestPutOnceUnknown: after an unknown outcome another process calls again.
func TestPutOnceUnknown(t *testing.T) {
	for what, lose := range map[string]func(*zktest.Server, zktest.Match){"reply": (*zktest.Server).SwallowReply, "request": (*zktest.Server).SwallowRequest} {
		bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			q, other := open(t, s[0], nil), open(t, s[1], nil)
			first := once(t, q, "first")
			lose(srv, zktest.Match{ // the first finds no directory for the key
				Session: s[0].ID(), Op: zktest.OpMulti, Path: at + "/keys/*/*", Skip: 1,
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			id, err := q.PutOnce(ctx, "key", []byte("key"))
			check.Is(t, err, session.ErrUnknownOutcome)
			check.Is(t, err, context.DeadlineExceeded)
			again, err := other.PutOnce(t.Context(), "key", []byte("key"))
			check.Equal(t, err == nil, what == "request")
			check.Equal(t, again == id, what == "reply")
			twice(t, other, "key", again)
			twice(t, other, "first", first)
			check.EqualSlices(t, drain(t, other), []string{"first", "key"}, "items")
		})
	}
}

// TestPutOnceRestored: the servers lose an item and its key together.
func TestPutOnceRestored(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		first := once(t, q, "first")
		backup := srv.Backup()
		once(t, q, "key")
		srv.Restore(backup)
		kit.Pass(time.Minute)
		twice(t, q, "first", first)
		twice(t, q, "key", once(t, q, "key"))
		check.EqualSlices(t, drain(t, q), []string{"first", "key"}, "items")
	})
}

// TestOneKeyManyCalls: of many calls with a key, by several handles and each many times, one puts
// an item: the first time, and when the time is over.
func TestOneKeyManyCalls(t *testing.T) {
	for _, opts := range []*queue.Options{nil, {MaxItems: 4}} {
		bubbled(t, zktest.Config{Latency: time.Millisecond}, 3, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
			for range 3 {
				var mu sync.Mutex
				ids := make(map[string]int)
				wins := 0
				var calling sync.WaitGroup
				for i := range 3 {
					q := open(t, s[i], opts)
					defer func() { check.Must(t, q.Close(t.Context())) }()
					for range 10 {
						calling.Go(func() {
							id, err := q.PutOnce(t.Context(), "key", []byte("x"))
							mu.Lock()
							defer mu.Unlock()
							ids[id]++
							switch {
							case err == nil:
								wins++
							case !errors.Is(err, queue.ErrDuplicate):
								t.Error(err)
							}
						})
					}
				}
				calling.Wait()
				check.Equal(t, wins, 1, "calls that put")
				check.Equal(t, len(ids), 1, "IDs")
				kit.Pass(10 * time.Minute)
			}
			check.EqualSlices(t, drain(t, open(t, s[0], nil)), []string{"x", "x", "x"}, "items")
		})
	}
}
