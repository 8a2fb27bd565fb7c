package queue_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
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

// TestPutOnceByAnotherClock: another leader has another clock. A key is remembered for KeepKeys by
// the clocks: if the new one is ahead by more than that, not at all; if it is behind, for longer by
// the difference.
func TestPutOnceByAnotherClock(t *testing.T) {
	for name, test := range map[string]struct{ step, known time.Duration }{
		"ahead":         {time.Hour, 0},
		"little ahead":  {4 * time.Minute, 6 * time.Minute},
		"behind":        {-time.Hour, 70 * time.Minute},
		"the same time": {0, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			clock := new(kit.SteppingClock)
			bubbled(t, zktest.Config{Clock: clock}, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
				a, b := open(t, s[0], nil), open(t, s[1], nil) // b has not read the clock yet
				began := time.Now()
				id := once(t, a, "key")
				clock.Step(test.step)
				for {
					got, err := b.PutOnce(t.Context(), "key", []byte("again"))
					if err == nil {
						check.True(t, got != id, "another item")
						break
					}
					check.Is(t, err, queue.ErrDuplicate)
					kit.Pass(10 * time.Second)
				}
				check.Within(t, time.Since(began), test.known, test.known+20*time.Second, "known")
				check.EqualSlices(t, drain(t, a), []string{"key", "again"}, "items")
			})
		})
	}
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

// TestOldKeysGo: handles that have put items with keys delete them when they are old, and then all
// that they have made, however many they are.
func TestOldKeysGo(t *testing.T) {
	bubbled(t, zktest.Config{Latency: time.Millisecond}, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		const each = 400
		handles := []*queue.Queue{open(t, s[0], nil), open(t, s[1], nil), open(t, s[2], nil)}
		crowd(t, 3*each, func(i int) error { once(t, handles[i%3], fmt.Sprint(i)); return nil })
		check.Equal(t, len(drain(t, handles[0])), 3*each, "items")
		check.Equal(t, len(keysOf(srv)), 3*each, "keys")
		kit.Pass(10 * time.Minute)
		srv.ResetRequests()
		kit.Pass(10 * time.Minute)
		check.Equal(t, len(keysOf(srv)), 0, "keys")
		got := srv.Requests()
		check.AtMost(t, got[zktest.OpMulti], 400, "transactions, which have the heartbeats")
		check.AtMost(t, got[zktest.OpExists], 3*each+100, "reads")
		check.AtMost(t, got[zktest.OpGetData], 4*256, "reads of shards") // with 32 bits the order of times was wrong
		kit.Pass(20 * time.Minute)
		for _, q := range handles {
			check.Must(t, q.Close(t.Context()))
		}
		kit.Pass(20 * time.Minute)
		for _, p := range srv.Paths() {
			check.False(t, strings.HasPrefix(p, at), "left: %s", p)
		}
	})
}

// TestManyKeysOfOneShard: they are deleted some at a time, and the young stay.
func TestManyKeysOfOneShard(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q, other := open(t, s[0], nil), open(t, s[1], nil)
		once(t, q, "a")
		shard := shardOf("a")
		for i := range 300 { // as other keys of the shard
			check.Have(s[0].Create(t.Context(), fmt.Sprintf("%s/%032d", shard, i), []byte("id\nkey"), session.Persistent))(t)
		}
		kit.Pass(10 * time.Minute)
		young := once(t, other, "a") // that is renewed
		check.Equal(t, len(keysOf(srv)), 301, "keys")
		kit.Pass(5 * time.Minute)
		check.EqualSlices(t, keysOf(srv), keysOf(srv)[:1], "keys")
		twice(t, q, "a", young)
	})
}

// keysIn returns n keys of a shard.
func keysIn(shard string, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint(i); shardOf(key) == shard {
			keys = append(keys, key)
		}
	}
	return keys
}

// TestOneHandleCleans: of many handles that have used a shard one reads its keys, and the others
// see that.
func TestOneHandleCleans(t *testing.T) {
	const n = 10
	bubble(t, n, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		keys := keysIn(shardOf("0"), 2*n)
		var handles []*queue.Queue
		for i := range n {
			handles = append(handles, open(t, s[i], nil))
			once(t, handles[i], keys[i])
		}
		kit.Pass(9 * time.Minute)
		for i, q := range handles { // that stay
			once(t, q, keys[n+i])
		}
		srv.ResetRequests()
		kit.Pass(6*time.Minute - time.Second)
		check.Equal(t, srv.Requests()[zktest.OpSetData], 1, "cleanings")
		check.AtLeast(t, srv.Requests()[zktest.OpGetData], n/2, "looks")
		check.Equal(t, len(keysOf(srv)), n, "keys")
		kit.Pass(20 * time.Minute)
		check.Equal(t, len(keysOf(srv)), 0, "keys")
		for _, q := range handles {
			check.Must(t, q.Close(t.Context()))
		}
	})
}

// TestCloseWhileKeysGo: Close ends a cleaning, at each of its requests, also if the servers do not
// answer.
func TestCloseWhileKeysGo(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpGetData, zktest.OpSetData, zktest.OpGetChildren2, zktest.OpExists, zktest.OpMulti} {
		for _, lost := range []bool{false, true} {
			bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := open(t, s[0], nil)
				once(t, q, "key")
				kit.Pass(10*time.Minute - time.Second)
				match := zktest.Match{Op: op, Path: at + "/keys/*"}
				if op == zktest.OpExists || op == zktest.OpMulti {
					match.Path += "/*"
				}
				if lost {
					srv.DropReply(match)
				} else {
					srv.Delay(match, 3*time.Second)
				}
				check.Must(t, srv.AwaitFault(time.Hour))
				check.Must(t, q.Close(t.Context()))
				synctest.Wait()
				kit.Pass(time.Hour)
			})
		}
	}
}

// TestKeysByChance has many handles put items with few keys, for hours, while replies are lost,
// sessions expire and handles are closed: no two items of a key come within the time.
func TestKeysByChance(t *testing.T) {
	const keep = 40 * time.Second
	for seed := range seeds(8, 1) {
		bubbled(t, zktest.Config{Latency: time.Millisecond}, 3, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
			r := rand.New(rand.NewPCG(seed, 5))
			opts := []*queue.Options{{KeepKeys: keep}, {KeepKeys: keep, MaxItems: 1000}}[seed%2]
			handles := make([]*queue.Queue, 6)
			for i := range handles {
				handles[i] = open(t, s[i%3], opts)
			}
			reader := open(t, s[0], opts)
			var mu sync.Mutex
			confirmed := make(map[string]string) // the keys of items that were put
			for range 150 {
				var calling sync.WaitGroup
				for range r.IntN(10) {
					q, key := handles[r.IntN(6)], fmt.Sprint(r.IntN(4))
					patience := []time.Duration{time.Millisecond, time.Minute}[min(1, r.IntN(4))]
					calling.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						id, err := q.PutOnce(ctx, key, []byte(key))
						mu.Lock()
						defer mu.Unlock()
						if err == nil {
							confirmed[id] = key
						}
					})
				}
				switch r.IntN(8) {
				case 0:
					srv.DropReply(zktest.Match{Op: zktest.OpMulti, Skip: r.IntN(4)})
				case 1:
					srv.DropRequest(zktest.Match{Skip: r.IntN(6)})
				case 2:
					srv.Expire(s[r.IntN(3)].ID())
				case 3:
					i := r.IntN(6)
					check.Must(t, handles[i].Close(t.Context()))
					handles[i] = open(t, s[i%3], opts)
				}
				calling.Wait()
				srv.ClearFaults()
				kit.Pass([]time.Duration{0, time.Second, 5 * time.Second, keep, 3 * time.Minute}[r.IntN(5)])
			}
			kit.Pass(time.Minute)
			newest := make(map[string]time.Time)
			c := consume(t, reader, 10)
			for n := length(t, reader); n > 0; n-- {
				item := next(t, c)
				before, is := newest[item.Key]
				check.False(t, is && item.Put.Sub(before) < keep, "seed %d: items of key %s at %v and %v", seed, item.Key, before, item.Put)
				newest[item.Key] = item.Put
				delete(confirmed, item.ID)
				check.Must(t, item.Ack(t.Context()))
			}
			check.Equal(t, len(confirmed), 0, "items that were put, and are not there")
		})
	}
}

// TestKeysCost: an item with a key is one request, and many share transactions.
func TestKeysCost(t *testing.T) {
	bubbled(t, zktest.Config{Latency: time.Millisecond}, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		once(t, q, "a")
		shard := shardOf("a")
		for _, key := range keysIn(shard, 3) { // a shard that is there
			srv.ResetRequests()
			once(t, q, key)
			check.Equal(t, srv.Requests().Total(), 1, "requests of a put")
			srv.ResetRequests()
			check.Fails(q.PutOnce(t.Context(), key, []byte(key)))(t, queue.ErrDuplicate)
			check.Equal(t, srv.Requests().Total(), 2, "requests of a duplicate")
		}
		for round := range 2 { // in the first, shards are made
			srv.ResetRequests()
			crowd(t, 512, func(i int) error { once(t, q, fmt.Sprint("many", round, i)); return nil })
		}
		check.AtMost(t, srv.Requests().Total(), 256, "requests of 512 puts")
	})
}
