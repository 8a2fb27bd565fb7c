package queue_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// near is a server whose round trips take a millisecond.
var near = zktest.Config{Latency: 500 * time.Microsecond}

// taking returns TryTake of a queue, or of a queue with priorities.
func taking(t *testing.T, s *session.Session, priorities bool) func(context.Context) ([]byte, error) {
	if !priorities {
		return open(t, s, nil).TryTake
	}
	p, err := queue.NewPriority(s, at, nil)
	ok(t, err)
	return p.TryTake
}

// TestTakers has processes take from one backlog, one item after the other: they are as fast as
// there are many, and try few items that others take. Some work between their calls.
func TestTakers(t *testing.T) {
	for _, test := range []struct {
		n, takers int
		works     time.Duration // at most, between two calls
		most      time.Duration // the whole
	}{
		{2000, 1, 0, 4100 * time.Millisecond},
		{2000, 10, 0, 900 * time.Millisecond},
		{1000, 10, 20 * time.Millisecond, 2 * time.Second},
		{1000, 30, 20 * time.Millisecond, time.Second},
	} {
		for _, priorities := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, work %v, priorities %t", test.takers, test.works, priorities), func(t *testing.T) {
				bubbled(t, near, test.takers, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					for range test.n / 500 {
						_, err := open(t, s[0], nil).PutAll(t.Context(), bytesOf(numbers(500)))
						ok(t, err)
					}
					srv.ResetRequests()
					began := time.Now()
					var mu sync.Mutex
					taken := 0
					crowd(t, test.takers, func(i int) error {
						random := rand.New(rand.NewPCG(uint64(i), 3))
						take := taking(t, s[i], priorities)
						for {
							if test.works > 0 {
								<-time.After(time.Duration(random.Int64N(int64(test.works))))
							}
							_, err := take(t.Context())
							if isEmpty(err) {
								return nil
							}
							if err != nil {
								return err
							}
							mu.Lock()
							taken++
							mu.Unlock()
						}
					})
					got, n := srv.Requests(), float64(test.n)
					t.Logf("%.2f requests an item (%.2f reads, %.2f transactions, %.3f lists) in %v", float64(got.Total())/n,
						float64(got[zktest.OpGetData])/n, float64(got[zktest.OpMulti])/n, float64(got[zktest.OpGetChildren2])/n, time.Since(began))
					check.Equal(t, taken, test.n, "taken")
					check.True(t, got.Total() <= 4*test.n, "%d requests", got.Total())
					check.True(t, time.Since(began) <= test.most, "%v", time.Since(began))
				})
			})
		}
	}
}

// TestStaleList: a list that others have used up costs one read.
func TestStaleList(t *testing.T) {
	bubbled(t, near, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		a, b := open(t, s[0], nil), open(t, s[1], nil)
		for range 2 {
			_, err := a.PutAll(t.Context(), bytesOf(numbers(500)))
			ok(t, err)
		}
		_, err := a.TryTake(t.Context())
		ok(t, err)
		drain(t, b)
		for _, waits := range []time.Duration{0, time.Hour} {
			pass(waits)
			put(t, b, "new")
			srv.ResetRequests()
			data, err := a.TryTake(t.Context())
			ok(t, err)
			equal(t, "taken", []string{string(data)}, []string{"new"})
			got := srv.RequestsOf(s[0].ID())
			check.True(t, got.Total() <= 7, "after %v: %v", waits, got)
		}
	})
}

// TestManyPriorities: a queue whose items all have priorities of their own costs little more than
// one that has items of one priority.
func TestManyPriorities(t *testing.T) {
	for _, n := range []int{50, hasten.Sized(hasten.Usually(800, 400), 150)} {
		for _, how := range []string{"consume", "take"} {
			t.Run(fmt.Sprintf("%d, %s", n, how), func(t *testing.T) {
				bubbled(t, near, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					p, err := queue.NewPriority(s[0], at, nil)
					ok(t, err)
					for i := range n {
						_, err := p.Put(t.Context(), []byte("x"), int32(i))
						ok(t, err)
					}
					srv.ResetRequests()
					began := time.Now()
					if how == "take" {
						for range n {
							_, err := p.TryTake(t.Context())
							ok(t, err)
						}
					} else {
						c, err := p.Consume(nil)
						ok(t, err)
						defer c.Close()
						for i := range n {
							item := next(t, c)
							check.Equal(t, item.Priority, int32(i), "priority")
							ok(t, item.Ack(t.Context()))
						}
					}
					got := srv.Requests()
					t.Logf("%.1f requests an item, in %v: %v", float64(got.Total())/float64(n), time.Since(began), got)
					check.True(t, got.Total() <= 5*n, "%d requests", got.Total())
				})
			})
		}
	}
}

// TestTakeN: several items by one call, in order, and at most once.
func TestTakeN(t *testing.T) {
	bubble(t, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		want := numbers(25)
		_, err := q.PutAll(t.Context(), bytesOf(want))
		ok(t, err)
		drained := func(n int) (all []string) {
			data, err := q.TakeN(t.Context(), n)
			ok(t, err)
			check.True(t, len(data) > 0 && len(data) <= n, "%d of %d", len(data), n)
			for _, d := range data {
				all = append(all, string(d))
			}
			return all
		}
		all := drained(10)
		srv.ResetRequests()
		all = append(all, drained(10)...)
		check.Equal(t, srv.Requests()[zktest.OpMulti], 1, "transactions")
		equal(t, "taken", append(all, drained(10)...), want)
		_, err = q.TakeN(t.Context(), 0)
		check.Is(t, err, session.ErrInvalidArgument)
		taken := make(chan []string)
		go func() { taken <- drained(3) }()
		pass(time.Second)
		put(t, q, "late")
		equal(t, "taken late", <-taken, []string{"late"})
	})
}

// TestTakeNOfPriorities takes from many priorities at once. A more urgent item that is put later
// comes before the items that were listed and not taken.
func TestTakeNOfPriorities(t *testing.T) {
	bubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		p, err := queue.NewPriority(s[0], at, nil)
		ok(t, err)
		other, err := queue.NewPriority(s[1], at, nil)
		ok(t, err)
		want := numbers(6)
		for i, x := range want {
			_, err := other.Put(t.Context(), []byte(x), int32(i/2))
			ok(t, err)
		}
		got, err := p.TakeN(t.Context(), 3)
		ok(t, err)
		for _, x := range []struct {
			data     string
			priority int32
		}{{"behind", 1}, {"before", 0}, {"first", -1}} {
			_, err = other.Put(t.Context(), []byte(x.data), x.priority)
			ok(t, err)
		}
		for len(got) < len(want)+3 {
			more, err := p.TakeN(t.Context(), 100)
			ok(t, err)
			got = append(got, more...)
		}
		_, err = other.Put(t.Context(), []byte("last"), 2)
		ok(t, err)
		last, err := p.Take(t.Context())
		ok(t, err)
		var all []string
		for _, d := range append(got, last) {
			all = append(all, string(d))
		}
		equal(t, "taken", all, []string{"item 0", "item 1", "item 2", "first", "before", "item 3", "behind", "item 4", "item 5", "last"})
	})
}

// TestMostUrgentTaken has chance put items of any priority, some of them delayed, through one
// handle, and take them through others: each is the most urgent that there is.
func TestMostUrgentTaken(t *testing.T) {
	for seed := range hasten.Sized(hasten.Usually[uint64](40, 12), 4) {
		bubble(t, 3, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
			random := rand.New(rand.NewPCG(seed, 6))
			var handles []*queue.Priority
			for i := range 4 {
				p, err := queue.NewPriority(s[i%3], at, nil)
				ok(t, err)
				handles = append(handles, p)
			}
			there := map[string]int32{}
			least := func() (p int32) {
				p = math.MaxInt32
				for _, priority := range there {
					p = min(p, priority)
				}
				return p
			}
			for n := range 200 {
				h := handles[random.IntN(len(handles))]
				switch k := random.IntN(20); {
				case k < 9:
					priority := int32(random.IntN(7) - 3)
					_, err := h.Put(t.Context(), fmt.Append(nil, n), priority)
					ok(t, err)
					there[fmt.Sprint(n)] = priority
				case k < 11:
					priority := int32(random.IntN(7) - 3)
					_, err := h.PutAfter(t.Context(), fmt.Append(nil, n), priority, time.Duration(random.IntN(90))*time.Second)
					ok(t, err)
					pass(91 * time.Second)
					there[fmt.Sprint(n)] = priority
				case k == 11:
					pass(time.Duration(random.IntN(120)) * time.Second)
				default:
					data, err := h.TryTake(t.Context())
					if isEmpty(err) {
						check.Equal(t, len(there), 0, "left")
						continue
					}
					ok(t, err)
					if priority, is := there[string(data)]; !is || priority != least() {
						t.Fatalf("seed %d, step %d: %s with priority %d (%t), want %d", seed, n, data, priority, is, least())
					}
					delete(there, string(data))
				}
			}
		})
	}
}

// TestTimeoutsLoseNothing has loops take with contexts that end at any moment: what they do not
// return is still in the queue. Every error says that nothing was taken.
func TestTimeoutsLoseNothing(t *testing.T) {
	const rounds = 200
	bubbled(t, near, 3, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		p, err := queue.NewPriority(s[1], "/queues/urgent", nil)
		ok(t, err)
		for name, test := range map[string]struct {
			put  func(data string) error
			take func(context.Context) ([][]byte, error)
		}{
			"Take": {
				func(data string) error { _, err := q.Put(t.Context(), []byte(data)); return err },
				func(ctx context.Context) ([][]byte, error) { data, err := q.Take(ctx); return [][]byte{data}, err },
			},
			"TakeN": {
				func(data string) error { _, err := q.Put(t.Context(), []byte(data)); return err },
				func(ctx context.Context) ([][]byte, error) { return q.TakeN(ctx, 3) },
			},
			"Take of priorities": {
				func(data string) error { _, err := p.Put(t.Context(), []byte(data), 1); return err },
				func(ctx context.Context) ([][]byte, error) { data, err := p.Take(ctx); return [][]byte{data}, err },
			},
		} {
			random := rand.New(rand.NewPCG(7, 7))
			timeouts, taken := 0, map[string]int{}
			for i := range rounds {
				ok(t, test.put(fmt.Sprint(i)))
				for range 2 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(6000))*time.Microsecond)
					data, err := test.take(ctx)
					cancel()
					if err != nil {
						timeouts++
						check.Is(t, err, context.DeadlineExceeded)
						check.False(t, session.InDoubt(err), "%v", err)
						continue
					}
					for _, d := range data {
						taken[string(d)]++
					}
				}
			}
			for len(taken) < rounds {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				data, err := test.take(ctx)
				cancel()
				if err != nil {
					break
				}
				for _, d := range data {
					taken[string(d)]++
				}
			}
			t.Logf("%s: %d calls timed out", name, timeouts)
			check.True(t, timeouts > rounds/4, "%s: %d calls timed out", name, timeouts)
			check.Equal(t, len(taken), rounds, name)
			for data, n := range taken {
				check.Equal(t, n, 1, data)
			}
		}
	})
}

// TestPeek: the next TryTake takes what Peek has shown, whatever came back meanwhile.
func TestPeek(t *testing.T) {
	bubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		a, b := open(t, s[0], nil), open(t, s[1], nil)
		put(t, a, "1", "2", "3", "4", "5")
		c := consume(t, b, 1)
		first := next(t, c)
		_, err := a.TryTake(t.Context())
		ok(t, err)
		same := func(want string) {
			t.Helper()
			peeked, err := a.Peek(t.Context())
			ok(t, err)
			taken, err := a.TryTake(t.Context())
			ok(t, err)
			equal(t, "peeked, and taken", []string{string(peeked), string(taken)}, []string{want, want})
		}
		ok(t, first.Reject(t.Context()))
		c.Close()
		same("3")
		pass(time.Minute)
		same("1")
		same("4")
		c = consume(t, b, 1)
		defer c.Close()
		_ = next(t, c)
		check.Fails(a.Peek(t.Context()))(t, queue.ErrEmpty)
	})
}

// TestPeekOfPriorities: Peek shows the most urgent item at once.
func TestPeekOfPriorities(t *testing.T) {
	bubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		a, err := queue.NewPriority(s[0], at, nil)
		ok(t, err)
		b, err := queue.NewPriority(s[1], at, nil)
		ok(t, err)
		for i := range int32(5) {
			_, err := b.Put(t.Context(), fmt.Append(nil, 5-i), 5-i)
			ok(t, err)
			for range 2 {
				data, err := a.Peek(t.Context())
				ok(t, err)
				equal(t, "peeked", []string{string(data)}, []string{fmt.Sprint(5 - i)})
			}
		}
	})
}

// TestReadOnlyMonitor: Len and Peek need no right to write, also when the server's clock matters.
func TestReadOnlyMonitor(t *testing.T) {
	bubble(t, 0, func(t *testing.T, srv *zktest.Server, _ ...*session.Session) {
		open1 := func(o session.Options) *session.Session {
			o.Dialer = srv.DialContext
			s, err := session.Open(t.Context(), srv.Addrs(), &o)
			ok(t, err)
			return s
		}
		owner := open1(session.Options{
			Auth: []session.Auth{{Scheme: "digest", Secret: []byte("a:b")}},
			ACL:  append(session.CreatorAll(), session.ACL{Perms: session.PermRead, Scheme: "world", ID: "anyone"}),
		})
		defer owner.Close()
		reader := open1(session.Options{})
		defer reader.Close()
		q, monitor := open(t, owner, nil), open(t, reader, nil)
		sees := func(n int, first string) {
			t.Helper()
			l, err := monitor.Len(t.Context())
			ok(t, err)
			check.Equal(t, l, n, "items")
			data, err := monitor.Peek(t.Context())
			if first == "" {
				check.Is(t, err, queue.ErrEmpty)
				return
			}
			ok(t, err)
			equal(t, "first", []string{string(data)}, []string{first})
		}
		sees(0, "")
		_, err := q.PutAfter(t.Context(), []byte("y"), time.Hour)
		ok(t, err)
		sees(1, "")
		put(t, q, "x")
		sees(2, "x")
		pass(time.Hour + time.Second)
		sees(2, "y")
		ok(t, q.Close(t.Context())) // the directory of the receipts goes
		pass(2 * time.Minute)
		sees(2, "y")
	})
}
