package queue_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
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
	p := ranked(t, s, nil)
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
						check.Have(open(t, s[0], nil).PutAll(t.Context(), bytesOf(numbers(500))))(t)
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
			putAll(t, a, numbers(500)...)
		}
		check.Have(a.TryTake(t.Context()))(t)
		drain(t, b)
		for _, waits := range []time.Duration{0, time.Hour} {
			kit.Pass(waits)
			put(t, b, "new")
			srv.ResetRequests()
			data := check.Have(a.TryTake(t.Context()))(t)
			check.Equal(t, string(data), "new", "taken")
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
					p := ranked(t, s[0], nil)
					for i := range n {
						check.Have(p.Put(t.Context(), []byte("x"), int32(i)))(t)
					}
					srv.ResetRequests()
					began := time.Now()
					if how == "take" {
						for range n {
							check.Have(p.TryTake(t.Context()))(t)
						}
					} else {
						c := check.Have(p.Consume(nil))(t)
						defer c.Close()
						for i := range n {
							item := next(t, c)
							check.Equal(t, item.Priority, int32(i), "priority")
							check.Must(t, item.Ack(t.Context()))
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
		check.Have(q.PutAll(t.Context(), bytesOf(want)))(t)
		drained := func(n int) (all []string) {
			data := check.Have(q.TakeN(t.Context(), n))(t)
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
		check.EqualSlices(t, append(all, drained(10)...), want, "taken")
		check.Fails(q.TakeN(t.Context(), 0))(t, session.ErrInvalidArgument)
		taken := make(chan []string)
		go func() { taken <- drained(3) }()
		kit.Pass(time.Second)
		put(t, q, "late")
		check.EqualSlices(t, <-taken, []string{"late"}, "taken late")
	})
}

// TestTakeNOfPriorities takes from many priorities at once. A more urgent item that is put later
// comes before the items that were listed and not taken.
func TestTakeNOfPriorities(t *testing.T) {
	bubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		p := ranked(t, s[0], nil)
		other := ranked(t, s[1], nil)
		want := numbers(6)
		for i, x := range want {
			check.Have(other.Put(t.Context(), []byte(x), int32(i/2)))(t)
		}
		got := check.Have(p.TakeN(t.Context(), 3))(t)
		for _, x := range []struct {
			data     string
			priority int32
		}{{"behind", 1}, {"before", 0}, {"first", -1}} {
			check.Have(other.Put(t.Context(), []byte(x.data), x.priority))(t)
		}
		for len(got) < len(want)+3 {
			more := check.Have(p.TakeN(t.Context(), 100))(t)
			got = append(got, more...)
		}
		check.Have(other.Put(t.Context(), []byte("last"), 2))(t)
		last := check.Have(p.Take(t.Context()))(t)
		var all []string
		for _, d := range append(got, last) {
			all = append(all, string(d))
		}
		check.EqualSlices(t, all, []string{"item 0", "item 1", "item 2", "first", "before", "item 3", "behind", "item 4", "item 5", "last"}, "taken")
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
				handles = append(handles, ranked(t, s[i%3], nil))
			}
			there := map[string]int32{}
			least := func() int32 { return slices.Min(slices.Collect(maps.Values(there))) }
			for n := range 200 {
				h := handles[random.IntN(len(handles))]
				switch k := random.IntN(20); {
				case k < 9:
					priority := int32(random.IntN(7) - 3)
					check.Have(h.Put(t.Context(), fmt.Append(nil, n), priority))(t)
					there[fmt.Sprint(n)] = priority
				case k < 11:
					priority := int32(random.IntN(7) - 3)
					check.Have(h.PutAfter(t.Context(), fmt.Append(nil, n), priority, time.Duration(random.IntN(90))*time.Second))(t)
					kit.Pass(91 * time.Second)
					there[fmt.Sprint(n)] = priority
				case k == 11:
					kit.Pass(time.Duration(random.IntN(120)) * time.Second)
				default:
					data, err := h.TryTake(t.Context())
					if isEmpty(err) {
						check.Equal(t, len(there), 0, "left")
						continue
					}
					check.Must(t, err)
					if priority, is := there[string(data)]; !is || priority != least() {
						t.Fatalf("seed %d, step %d: %s with priority %d (%t), want %d", seed, n, data, priority, is, least())
					}
					delete(there, string(data))
				}
			}
		})
	}
}

// TestTimeoutsLoseNothing has calls take with contexts that end at any moment, under way too, and
// replies are lost. While the session lives, what a call does not return is still in the queue, and
// its error says that nothing was taken.
func TestTimeoutsLoseNothing(t *testing.T) {
	const rounds = 200
	for _, c := range []struct {
		callers  int
		layout   queue.Layout
		ranked   bool
		together int // items of a call of TakeN; 0 for Take
	}{{callers: 1}, {callers: 4}, {callers: 1, together: 3}, {callers: 1, ranked: true}, {callers: 4, layout: queue.Kazoo}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			bubbled(t, near, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				q := openAs(t, s[0], at, c.layout)
				from := reader(q)
				if c.ranked {
					from = ranked(t, s[0], nil)
				}
				take := func(ctx context.Context) ([][]byte, error) {
					if c.together > 0 {
						return q.(*queue.Queue).TakeN(ctx, c.together)
					}
					data, err := from.Take(ctx)
					return [][]byte{data}, err
				}
				var mu sync.Mutex
				timeouts, taken := 0, map[string]int{}
				call := func(timeout time.Duration) {
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					data, err := take(ctx)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						timeouts++
						undone(t, err, context.DeadlineExceeded)
						return
					}
					for _, d := range data {
						taken[string(d)]++
					}
				}
				random := rand.New(rand.NewPCG(7, 7))
				for i := 0; i < rounds; i += c.callers {
					var calling sync.WaitGroup
					for j := range c.callers {
						put(t, q, fmt.Sprint(i+j))
					}
					if i%20 == 16 {
						srv.DropReply(zktest.Match{Op: zktest.OpMulti})
					}
					for range 2 * c.callers {
						timeout := time.Duration(random.IntN(6000)) * time.Microsecond
						if calling.Go(func() { call(timeout) }); c.callers == 1 {
							calling.Wait()
						}
					}
					calling.Wait()
				}
				check.Within(t, timeouts, rounds/4, 2*rounds-1, "calls that timed out")
				srv.ClearFaults()
				for _, x := range drain(t, q) {
					taken[x]++
				}
				check.Equal(t, len(taken), rounds, "items")
				for x, n := range taken {
					check.Equal(t, n, 1, x)
				}
			})
		})
	}
}

// TestPeek: the next TryTake takes what Peek has shown, whatever came back meanwhile.
func TestPeek(t *testing.T) {
	bubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		a, b := open(t, s[0], nil), open(t, s[1], nil)
		put(t, a, "1", "2", "3", "4", "5")
		c := consume(t, b, 1)
		first := next(t, c)
		check.Have(a.TryTake(t.Context()))(t)
		same := func(want string) {
			t.Helper()
			peeked := check.Have(a.Peek(t.Context()))(t)
			taken := check.Have(a.TryTake(t.Context()))(t)
			check.EqualSlices(t, []string{string(peeked), string(taken)}, []string{want, want}, "peeked, and taken")
		}
		check.Must(t, first.Reject(t.Context()))
		c.Close()
		same("3")
		kit.Pass(time.Minute)
		same("1")
		same("4")
		c = consume(t, b, 1)
		_ = next(t, c)
		check.Fails(a.Peek(t.Context()))(t, queue.ErrEmpty)
	})
}

// TestPeekOfPriorities: Peek shows the most urgent item at once.
func TestPeekOfPriorities(t *testing.T) {
	bubble(t, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
		a := ranked(t, s[0], nil)
		b := ranked(t, s[1], nil)
		for i := range int32(5) {
			check.Have(b.Put(t.Context(), fmt.Append(nil, 5-i), 5-i))(t)
			for range 2 {
				data := check.Have(a.Peek(t.Context()))(t)
				check.Equal(t, string(data), fmt.Sprint(5-i), "peeked")
			}
		}
	})
}

// TestReadOnlyMonitor: Len and Peek need no right to write, also when the server's clock matters.
func TestReadOnlyMonitor(t *testing.T) {
	bubble(t, 0, func(t *testing.T, srv *zktest.Server, _ ...*session.Session) {
		open1 := func(o session.Options) *session.Session {
			o.Dialer = srv.DialContext
			s := check.Have(session.Open(t.Context(), srv.Addrs(), &o))(t)
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
			l := length(t, monitor)
			check.Equal(t, l, n, "items")
			data, err := monitor.Peek(t.Context())
			if first == "" {
				check.Is(t, err, queue.ErrEmpty)
				return
			}
			check.Must(t, err)
			check.Equal(t, string(data), first, "first")
		}
		sees(0, "")
		check.Have(q.PutAfter(t.Context(), []byte("y"), time.Hour))(t)
		sees(1, "")
		put(t, q, "x")
		sees(2, "x")
		kit.Pass(time.Hour + time.Second)
		sees(2, "y")
		check.Must(t, q.Close(t.Context())) // the directory of the receipts goes
		kit.Pass(2 * time.Minute)
		sees(2, "y")
	})
}
