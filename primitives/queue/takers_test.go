package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
						putAll(t, open(t, s[0], nil), numbers(500)...)
					}
					srv.ResetRequests()
					began := time.Now()
					var taken atomic.Int32
					crowd(t, test.takers, func(i int) error {
						random := rand.New(rand.NewPCG(uint64(i), 3))
						q := reader(open(t, s[i], nil))
						if priorities {
							q = ranked(t, s[i], nil)
						}
						for {
							if test.works > 0 {
								<-time.After(time.Duration(random.Int64N(int64(test.works))))
							}
							_, err := q.TryTake(t.Context())
							if isEmpty(err) {
								return nil
							}
							check.Must(t, err)
							taken.Add(1)
						}
					})
					check.Equal(t, int(taken.Load()), test.n, "taken")
					check.AtMost(t, srv.Requests().Total(), 4*test.n, "requests")
					check.AtMost(t, time.Since(began), test.most)
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
			check.Equal(t, takeOne(t, a), "new")
			check.AtMost(t, srv.RequestsOf(s[0].ID()).Total(), 7, "requests after", waits)
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
						putAt(t, p, int32(i), "x")
					}
					srv.ResetRequests()
					began := time.Now()
					if how == "take" {
						for range n {
							check.Have(p.TryTake(t.Context()))(t)
						}
					} else {
						c := check.Open(p.Consume(nil))(t)
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
		p, other := ranked(t, s[0], nil), ranked(t, s[1], nil)
		want := numbers(6)
		for i, x := range want {
			putAt(t, other, int32(i/2), x)
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
		putAt(t, other, 2, "last")
		last := check.Have(p.Take(t.Context()))(t)
		var all []string
		for _, d := range append(got, last) {
			all = append(all, string(d))
		}
		check.EqualSlices(t, all, []string{"item 0", "item 1", "item 2", "first", "before", "item 3", "behind", "item 4", "item 5", "last"}, "taken")
	})
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
			check.Equal(t, peek(t, a), want)
			check.Equal(t, string(check.Have(a.TryTake(t.Context()))(t)), want)
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
		a, b := ranked(t, s[0], nil), ranked(t, s[1], nil)
		for i := range int32(5) {
			check.Have(b.Put(t.Context(), fmt.Append(nil, 5-i), 5-i))(t)
			for range 2 {
				check.Equal(t, peek(t, a), fmt.Sprint(5-i), "peeked")
			}
		}
	})
}

// TestMonitorKeepsNothing: a handle that only reads has no node, whatever reply is lost, also when
// the server's clock matters. So its session, which holds nothing, sends no heartbeats of its own.
func TestMonitorKeepsNothing(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q, monitor := open(t, s[0], nil), open(t, s[1], nil)
		check.Have(q.PutAfter(t.Context(), []byte("y"), time.Hour))(t)
		put(t, q, "x")
		for _, lose := range []func(zktest.Match){func(zktest.Match) {}, srv.DropReply, srv.DropRequest, func(zktest.Match) {
			check.Must(t, q.Close(t.Context()))
			kit.Pass(time.Minute) // the directory of the receipts is gone
		}} {
			lose(zktest.Match{Op: zktest.OpMulti})
			check.Equal(t, length(t, monitor), 2, "items")
			check.Equal(t, peek(t, monitor), "x")
			for _, path := range srv.Paths() {
				stat, err := s[0].Exists(t.Context(), path)
				check.False(t, err != nil || stat.EphemeralOwner == s[1].ID(), "%s is left: %v", path, err)
			}
			srv.ResetRequests()
			kit.Pass(time.Minute)
			check.Equal(t, srv.RequestsOf(s[1].ID()).Total(), 0, "requests of a monitor that does nothing")
		}
		kit.Pass(time.Hour)
		check.Equal(t, string(check.Have(monitor.TryTake(t.Context()))(t)), "y")
		check.Must(t, monitor.Close(t.Context()))
	})
}

// TestReadOnlyMonitor: Len and Peek need no right to write, also when the server's clock matters.
func TestReadOnlyMonitor(t *testing.T) {
	bubble(t, 0, func(t *testing.T, srv *zktest.Server, _ ...*session.Session) {
		owner := openSession(t, srv, session.Options{
			Auth: []session.Auth{{Scheme: "digest", Secret: []byte("a:b")}},
			ACL:  append(session.CreatorAll(), session.ACL{Perms: session.PermRead, Scheme: "world", ID: "anyone"}),
		})
		q, monitor := open(t, owner, nil), open(t, openSession(t, srv, session.Options{}), nil)
		sees := func(n int, first string) {
			t.Helper()
			check.Equal(t, length(t, monitor), n, "items")
			if first == "" {
				check.Fails(monitor.Peek(t.Context()))(t, queue.ErrEmpty)
				return
			}
			check.Equal(t, peek(t, monitor), first)
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

// TestReadUnderWay: a call does not find the queue empty because of a read that another call of the
// session has begun before the first item was put, and that is answered later.
func TestReadUnderWay(t *testing.T) {
	const trip = time.Second // one way
	const bucket = at + "/items/2147483648-0000000000"
	for put := time.Duration(0); put < 12*trip; put += trip / 2 {
		bubbled(t, zktest.Config{Latency: trip}, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
			check.Must(t, s[0].EnsurePath(t.Context(), at))
			q, waits := open(t, s[0], nil), open(t, s[0], nil)
			check.Fails(q.TryTake(t.Context()))(t, queue.ErrEmpty)
			takes := beginTake(t.Context(), waits)
			kit.Pass(put)
			go func() {
				_, err := s[1].Multi(t.Context(), session.CreateOp(at+"/items", nil, session.Persistent), session.CreateOp(bucket, nil, session.Persistent),
					session.CreateOp(bucket+"/_c_00000000-0000-4000-8000-000000000000-item-", []byte("first"), session.PersistentSequential),
					session.CreateOp(bucket+"/_c_00000000-0000-4000-8000-000000000001-item-", []byte("second"), session.PersistentSequential))
				check.OK(t, err)
			}()
			kit.Pass(trip + time.Millisecond)
			_, err := q.TryTake(t.Context())
			check.OK(t, err, "put after", put)
			check.Must(t, answered(t, takes))
		})
	}
}

// TestGoesOnAmongRivals: a client that had a rival begins somewhere, and goes on from there in
// order, however often it lists the queue again because its list is old. Then come the items
// before.
func TestGoesOnAmongRivals(t *testing.T) {
	const items, stolen = 60, 20
	clients := map[string]func(t *testing.T, s *session.Session) (next func(meanwhile func()) string){
		"Take": func(t *testing.T, s *session.Session) func(func()) string {
			q := open(t, s, nil)
			return func(meanwhile func()) string {
				defer kit.Pass(4 * time.Second) // every third list is old
				defer meanwhile()
				return takeOne(t, q)
			}
		},
		"Take, from slow servers": func(t *testing.T, s *session.Session) func(func()) string {
			q := open(t, s, nil)
			return func(meanwhile func()) string {
				defer meanwhile()
				return takeOne(t, q) // some lists get old while an item of them is read
			}
		},
		"Consume": func(t *testing.T, s *session.Session) func(func()) string {
			c := consume(t, open(t, s, nil), 1)
			return func(meanwhile func()) string {
				item := next(t, c)
				meanwhile()
				kit.Pass(2 * time.Second) // the list is old
				check.Must(t, item.Ack(t.Context()))
				return string(item.Data)
			}
		},
	}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			turned := 0
			for i := range 4 {
				config := zktest.Config{}
				if strings.Contains(name, "slow") {
					config.Latency = time.Duration(200+70*i) * time.Millisecond
				}
				bubbled(t, config, 2, func(t *testing.T, _ *zktest.Server, s ...*session.Session) {
					rival := open(t, s[1], nil)
					all := numbers(items)
					put(t, rival, all...)
					next := client(t, s[0])
					check.Equal(t, next(func() { check.Have(rival.TakeN(t.Context(), stolen))(t) }), all[0])
					var got []string
					for range items - stolen - 1 {
						got = append(got, next(func() {}))
					}
					begun := slices.Index(all, got[0]) - stolen - 1
					left := all[stolen+1:]
					check.EqualSlices(t, got, slices.Concat(left[begun:], left[:begun]), "then")
					if begun > 0 {
						turned++
					}
				})
			}
			check.True(t, turned > 0, "the client never met its rival")
		})
	}
}
