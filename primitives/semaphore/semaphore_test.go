package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestBadInput(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		s := all[0]
		all[1].Close()
		synctest.Wait()
		srv.ResetRequests()
		for what, row := range map[string]struct {
			s     *session.Session
			path  string
			limit int
			opts  *semaphore.Options
			want  error
			says  string
		}{
			"no session":        {nil, path, 1, nil, session.ErrInvalidArgument, "session"},
			"a closed session":  {all[1], path, 1, nil, session.ErrClosed, ""},
			"no path":           {s, "", 1, nil, session.ErrInvalidPath, "path"},
			"a relative path":   {s, "limits", 1, nil, session.ErrInvalidPath, "path"},
			"no limit":          {s, path, 0, nil, session.ErrInvalidArgument, "limit"},
			"a negative limit":  {s, path, -1, nil, session.ErrInvalidArgument, "limit"},
			"a vast limit":      {s, path, 1_000_000_001, nil, session.ErrInvalidArgument, "limit"},
			"a negative weight": {s, path, 1, weight(-1), session.ErrInvalidArgument, "Options.Weight"},
			"weight over limit": {s, path, 2, weight(3), session.ErrInvalidArgument, "Options.Weight"},
			"a vast weight":     {s, path, 2, &semaphore.Options{Weight: 1_000_000_001, AnyLimit: true}, session.ErrInvalidArgument, "Options.Weight"},
			"too much data":     {s, path, 1, &semaphore.Options{Data: make([]byte, 2<<20)}, session.ErrTooLarge, "Options.Data"},
		} {
			_, err := semaphore.New(row.s, row.path, row.limit, row.opts)
			check.True(t, errors.Is(err, row.want) && strings.Contains(err.Error(), row.says), "%s: %v", what, err)
			_, err1 := semaphore.Acquire(t.Context(), row.s, row.path, row.limit, row.opts)
			_, err2 := semaphore.TryAcquire(t.Context(), row.s, row.path, row.limit, row.opts)
			err3 := semaphore.Do(t.Context(), row.s, row.path, row.limit, row.opts, func(context.Context) error { return nil })
			for _, other := range []error{err1, err2, err3} {
				check.True(t, other != nil && other.Error() == err.Error(), "%s: %v", what, other)
			}
			if strings.HasPrefix(row.says, "Options") {
				continue
			}
			check.Is(t, semaphore.SetLimit(t.Context(), row.s, row.path, row.limit), row.want, "set limit", what)
			if row.says != "limit" {
				_, err1 := semaphore.Limit(t.Context(), row.s, row.path)
				_, err2 := semaphore.Holders(t.Context(), row.s, row.path)
				check.True(t, errors.Is(err1, row.want) && errors.Is(err2, row.want), "%s: %v, %v", what, err1, err2)
			}
		}
		check.Equal(t, srv.Requests().Total(), 0, "requests")
	})
}

// TestCost counts the requests of a cycle on a warm path. The second one of a session looks around
// for those that follow.
func TestCost(t *testing.T) {
	for _, row := range []struct {
		weight       int
		second, want zktest.Counts
	}{
		{
			1,
			zktest.Counts{zktest.OpMulti: 1, zktest.OpGetData: 1, zktest.OpGetChildren2: 1, zktest.OpDelete: 1},
			zktest.Counts{zktest.OpMulti: 1, zktest.OpGetData: 1, zktest.OpDelete: 1},
		},
		{
			2,
			zktest.Counts{zktest.OpMulti: 1, zktest.OpGetData: 1, zktest.OpGetChildren2: 1, zktest.OpDelete: 1},
			zktest.Counts{zktest.OpMulti: 1, zktest.OpGetData: 1, zktest.OpGetChildren2: 1, zktest.OpDelete: 1},
		},
	} {
		t.Run(fmt.Sprint(row.weight), func(t *testing.T) {
			const latency = 10 * time.Millisecond
			inBubble(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
				s := all[0]
				acquire(t, s, 10, weight(row.weight)).Close()
				for n := range 4 {
					synctest.Wait()
					srv.ResetRequests()
					proposals := srv.Proposals()
					begun := time.Now()
					l := acquire(t, s, 10, weight(row.weight))
					if took := time.Since(begun); took > 2*latency { // there and back
						t.Errorf("to acquire took %v, more than one round trip", took)
					}
					l.Close()
					want := row.want
					if n == 0 {
						want = row.second
					}
					check.EqualMaps(t, kit.WithoutSyncs(srv.Requests()), want)
					check.Equal(t, srv.Proposals()-proposals, 2, "proposals")
				}
			}, zktest.Latency(latency))
		})
	}
}

// TestManyShareTransactions: leases of many semaphores in one session are created together, and
// given back together.
func TestManyShareTransactions(t *testing.T) {
	const many = 64
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		for turn := range 4 {
			srv.ResetRequests()
			var wg sync.WaitGroup
			for i := range many {
				wg.Go(func() {
					check.OK(t, semaphore.Do(t.Context(), all[0], fmt.Sprintf("/many/%d", i), 3, nil, func(context.Context) error { return nil }))
				})
			}
			wg.Wait()
			if turn > 1 { // the limits are followed
				check.AtMost(t, srv.Requests()[zktest.OpMulti], 10, "transactions")
			}
		}
	}, zktest.Latency(5*time.Millisecond))
}

// TestFirstComeFirstServed: as many as there is room for, in line order, and all or nothing.
func TestFirstComeFirstServed(t *testing.T) {
	inBubble(t, 6, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		var leases []*semaphore.Lease
		for i, w := range []int{1, 2, 3, 1, 1, 3} {
			leases = append(leases, join(t, all[i], 3, weight(w)))
			synctest.Wait()
		}
		expect(t, leases, 0, 1)
		for i, want := range map[int]int{2: 2, 3: 3, 5: 5} {
			check.Equal(t, next[semaphore.Waiting](t, leases[i]).Ahead, want, i)
		}
		release(t, leases[0])
		expect(t, leases, 1) // no contender overtakes the third
		release(t, leases[1])
		expect(t, leases, 2)
		release(t, leases[2])
		expect(t, leases, 3, 4)
		release(t, leases[4])
		expect(t, leases, 3)
		release(t, leases[3])
		expect(t, leases, 5)
		record(t, all[0], "3")
	})
}

// TestTwoOfTwo is the program with which two who take two of two wait for each other for
// ever, if permits are taken one by one.
func TestTwoOfTwo(t *testing.T) {
	const rounds = 500
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		var wg sync.WaitGroup
		var holders atomic.Int32
		for _, s := range all {
			wg.Go(func() {
				for range rounds {
					err := semaphore.Do(t.Context(), s, path, 2, weight(2), func(context.Context) error {
						check.Equal(t, holders.Add(1), 1, "holders of two of two")
						holders.Add(-1)
						return nil
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestWeightsAreWithinTheLimit: random clients, some of whom give up, or go without a word,
// with followers that lag.
func TestWeightsAreWithinTheLimit(t *testing.T) {
	const limit, sessions, clients, rounds = 5, 4, 12, 30
	for name, weights := range map[string]int{"unit": 1, "mixed": limit} {
		runInBubble(t, name, sessions, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			var wg sync.WaitGroup
			var sum, most, granted atomic.Int32
			for i := range clients {
				r := rand.New(rand.NewPCG(uint64(i), uint64(weights)))
				s := all[i%sessions]
				wg.Go(func() {
					for range rounds {
						w := int32(1 + r.IntN(weights))
						ctx, cancel := t.Context(), func() {}
						if r.IntN(4) == 0 {
							ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(100))*time.Millisecond)
						}
						l, err := semaphore.Acquire(ctx, s, path, limit, weight(int(w)))
						cancel()
						if err != nil {
							check.Is(t, err, context.DeadlineExceeded)
							continue
						}
						granted.Add(1)
						now := sum.Add(w)
						check.AtMost(t, now, limit, "held")
						for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
						}
						<-time.After(time.Duration(r.IntN(60)) * time.Millisecond)
						if r.IntN(20) == 0 {
							srv.Disconnect(s.ID())
						}
						sum.Add(-w)
						if r.IntN(2) == 0 {
							l.Close()
						} else {
							go l.Close()
						}
					}
				})
			}
			wg.Wait()
			check.AtLeast(t, most.Load(), limit-1, "held at once, of", limit)
			t.Logf("%d grants, at most %d at once", granted.Load(), most.Load())
			<-time.After(time.Second)
			check.Len(t, children(t, all[0]), 0, "are left")
		}, zktest.Replicas(3, 2*time.Millisecond), zktest.Latency(time.Millisecond))
	}
}

// TestOthersData: a semaphore replaces no data of another recipe.
func TestOthersData(t *testing.T) {
	for _, data := range []string{`{"a": 1}`, "transaction 1\n", "12 apples", "-1", "0"} {
		inBubble(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
			check.Must(t, all[0].EnsurePath(t.Context(), path))
			check.Have(all[0].Set(t.Context(), path, []byte(data), session.AnyVersion))(t)
			check.Fails(semaphore.Acquire(t.Context(), all[0], path, 5, nil))(t, semaphore.ErrLimit)
			check.Fails(semaphore.TryAcquire(t.Context(), all[0], path, 5, nil))(t, semaphore.ErrLimit)
			check.Is(t, semaphore.SetLimit(t.Context(), all[0], path, 5), semaphore.ErrLimit)
			record(t, all[0], data)
		})
	}
}

// TestSetLimit changes the limit while some hold leases and some wait.
func TestSetLimit(t *testing.T) {
	inBubble(t, 7, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		operator := all[6]
		check.Fails(semaphore.Limit(t.Context(), operator, path))(t, session.ErrNoNode) // the limit of nothing
		leases := inTurn(t, 1, all[:6]...)
		expect(t, leases, 0)
		setLimit(t, operator, 3)
		expect(t, leases, 0, 1, 2)
		if n, err := semaphore.Limit(t.Context(), operator, path); n != 3 || err != nil {
			t.Errorf("the limit is %d, %v", n, err)
		}
		setLimit(t, operator, 1)
		expect(t, leases, 0, 1, 2) // who holds keeps what it has
		holders, err := semaphore.Holders(t.Context(), operator, path)
		check.True(t, err == nil && len(holders) == 3, "holders: %+v, %v", holders, err)
		release(t, leases[0])
		expect(t, leases, 1, 2)
		release(t, leases[2]) // out of turn
		expect(t, leases, 1)
		release(t, leases[1])
		expect(t, leases, 3)
		setLimit(t, operator, 2)
		expect(t, leases, 3, 4)
		setLimit(t, operator, 10)
		expect(t, leases, 3, 4, 5)
		record(t, operator, "10 unit")
	})
}

// TestLoweredLimit: after the limit sank while leases were held, a later contender goes on
// when there is room, whichever of the holders make it.
func TestLoweredLimit(t *testing.T) {
	for first := range 3 {
		inBubble(t, 5, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
			leases := inTurn(t, 3, all[:3]...)
			setLimit(t, all[4], 1)
			synctest.Wait()
			leases = append(leases, join(t, all[3], 1, nil))
			expect(t, leases, 0, 1, 2)
			for i := range 3 {
				release(t, leases[(first+i)%3])
			}
			expect(t, leases, 3)
		})
	}
}

func TestDisagreement(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		held := acquire(t, all[0], 2, nil)
		for what, warm := range map[string]bool{"cold": false, "warm": true} {
			s := all[1]
			if warm {
				s = all[0]
			}
			_, err := semaphore.Acquire(t.Context(), s, path, 10, nil)
			if !errors.Is(err, semaphore.ErrLimit) || !strings.Contains(err.Error(), "limit is 2, not 10") || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "lost") {
				t.Errorf("%s: %v", what, err)
			}
			if _, err := semaphore.TryAcquire(t.Context(), s, path, 1, nil); !errors.Is(err, semaphore.ErrLimit) {
				t.Errorf("%s: try: %v", what, err)
			}
			l := join(t, s, 10, nil)
			ev := next[semaphore.Failed](t, l)
			check.True(t, errors.Is(ev.Err, semaphore.ErrLimit) && !errors.Is(ev.Err, semaphore.ErrLost) && !strings.Contains(ev.String(), "lost"), "%s: %v", what, ev)
		}
		check.Len(t, children(t, all[0]), 1, "in line")
		any := acquire(t, all[1], 10, &semaphore.Options{AnyLimit: true})
		check.Fails(semaphore.TryAcquire(t.Context(), all[2], path, 10, &semaphore.Options{AnyLimit: true}))(t, semaphore.ErrFull)         // a third of two
		check.Fails(semaphore.Acquire(t.Context(), all[2], path, 1, &semaphore.Options{AnyLimit: true, Weight: 3}))(t, semaphore.ErrLimit) // a weight over the limit
		record(t, all[0], "2 unit")
		setLimit(t, all[0], 3)
		acquire(t, all[2], 3, nil).Close()
		check.Fails(semaphore.Acquire(t.Context(), all[2], path, 2, nil))(t, semaphore.ErrLimit) // the old limit
		held.Close()
		any.Close()

		// The record is not a limit. It may belong to another, and stays.
		check.Have(all[0].Set(t.Context(), path, []byte("many"), session.AnyVersion))(t)
		for _, s := range all {
			check.Fails(semaphore.Acquire(t.Context(), s, path, 3, nil))(t, semaphore.ErrLimit) // no limit
		}
		check.Fails(semaphore.Limit(t.Context(), all[0], path))(t, semaphore.ErrLimit) // no limit
		check.Is(t, semaphore.SetLimit(t.Context(), all[0], path, 3), semaphore.ErrLimit)
		record(t, all[0], "many")
		check.Have(all[0].Set(t.Context(), path, nil, session.AnyVersion))(t)
		setLimit(t, all[0], 3)
		acquire(t, all[1], 3, nil).Close()
		check.Equal(t, len(srv.Sessions()), 3, "sessions")
	})
}

// A waiter whose weight is over the limit that was set meanwhile would stand in every other
// contender's way.
func TestWaiterOverTheLimit(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		leases := []*semaphore.Lease{join(t, all[0], 3, nil)}
		synctest.Wait()
		leases = append(leases, join(t, all[1], 3, weight(3)))
		synctest.Wait()
		leases = append(leases, join(t, all[2], 3, nil))
		expect(t, leases, 0)
		setLimit(t, all[0], 2)
		expect(t, leases, 0, 2)
		err := leases[1].Err()
		check.True(t, errors.Is(err, semaphore.ErrLimit) && !errors.Is(err, semaphore.ErrLost), "it is told %v", err)
	})
}

// TestNodeWithoutALimit: another client has made the node before, without one.
func TestNodeWithoutALimit(t *testing.T) {
	for name, w := range map[string]int{"unit": 1, "weighted": 2} {
		runInBubble(t, name, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
			check.Must(t, all[0].EnsurePath(t.Context(), path+"/leases"))
			acquire(t, all[0], 3, weight(w)).Close()
			record(t, all[0], "3")
			acquire(t, all[1], 3, nil).Close()
		})
	}
}

// TestTheFirstWeightedOne: others have counted on all weights to be 1.
func TestTheFirstWeightedOne(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		leases := []*semaphore.Lease{join(t, all[0], 3, nil)}
		synctest.Wait()
		record(t, all[0], "3 unit")
		leases = append(leases, join(t, all[1], 3, weight(2)))
		synctest.Wait()
		record(t, all[0], "3")
		leases = append(leases, join(t, all[2], 3, nil), join(t, all[0], 3, nil))
		expect(t, leases, 0, 1)
		for _, l := range leases {
			l.Close()
		}
		setLimit(t, all[0], 4)
		record(t, all[0], "4")

		// An operator begins anew, and a session knows of the past only.
		for _, node := range []string{path + "/leases", path} {
			check.Must(t, all[3].Delete(t.Context(), node, session.AnyVersion))
		}
		one := acquire(t, all[3], 4, nil)
		record(t, all[0], "4 unit")
		acquire(t, all[1], 4, weight(3)).Close()
		record(t, all[0], "4")
		one.Close()
		check.Len(t, children(t, all[0]), 0, "are left")
	})
}

// TestNobodyHeavierBeforeItIsRecorded: a session that knows the line from leases of weight
// 1 looks at the record before it joins with a greater one, and so does who finds that
// the line has to be made again.
func TestNobodyHeavierBeforeItIsRecorded(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		joins := func(want int) {
			t.Helper()
			srv.ResetRequests()
			acquire(t, all[0], 4, weight(3)).Close()
			check.Equal(t, srv.Requests()[zktest.OpMulti], want, "times it joins")
			record(t, all[0], "4")
		}
		acquire(t, all[0], 4, nil).Close()
		joins(1)
		check.Must(t, all[1].Delete(t.Context(), path+"/leases", session.AnyVersion))
		check.Have(all[1].Set(t.Context(), path, []byte("4 unit"), session.AnyVersion))(t)
		joins(2) // once where there is no line
		for _, code := range []int32{-101, -103} {
			client.Of(all[1]).SetWarm(path+"/leases", false)
			check.Have(all[1].Set(t.Context(), path, []byte("4 unit"), session.AnyVersion))(t)
			srv.AnswerError(zktest.Match{Op: zktest.OpSetData, Session: all[1].ID()}, code)
			acquire(t, all[1], 4, weight(2)).Close()
			record(t, all[0], "4")
			client.Of(all[1]).SetWarm(path+"/leases weighted", false)
		}
	})
}

// TestThrottled: a server that is busy with the read of the record holds an acquisition up. One
// that refuses it ends the acquisition.
func TestThrottled(t *testing.T) {
	for code, want := range map[int32]error{-127: nil, -102: session.ErrNoAuth} {
		inBubble(t, 3, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			acquire(t, all[0], 2, nil).Close()
			refuse := func(s *session.Session, reads int) { // but the one that inspects the record
				for i := range reads {
					srv.AnswerError(zktest.Match{Op: zktest.OpGetData, Path: path, Session: s.ID(), Skip: min(i, 1)}, code)
				}
			}
			refuse(all[1], 2)
			acquire(t, all[1], 2, nil).Close() // the contenders are listed, and it is read again
			refuse(all[2], 3)
			l, err := semaphore.Acquire(t.Context(), all[2], path, 2, nil)
			check.Is(t, err, want, "code", code)
			if err == nil {
				l.Close()
			}
			if err := srv.AwaitFault(0); err != nil && want != nil {
				t.Errorf("code %d: %v", code, err)
			}
			srv.ClearFaults()
			check.Len(t, children(t, all[0]), 0, "are left")
		})
	}
}

// TestThrottledAnnouncement: a holder announces itself also where that was throttled, or the list
// before it. The next waiter would wait for the frozen one otherwise.
func TestThrottledAnnouncement(t *testing.T) {
	for _, m := range []zktest.Match{{Op: zktest.OpSetData}, {Op: zktest.OpGetChildren2, Path: path + "/leases", Skip: 1}} {
		runInBubble(t, m.Op.String(), 6, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			leases := inTurn(t, 3, all...)
			expect(t, leases, 0, 1, 2)
			m.Session = all[3].ID()
			srv.AnswerError(m, -127)
			release(t, leases[0])
			expect(t, leases, 1, 2, 3)
			<-time.After(time.Second)
			check.Must(t, srv.AwaitFault(0))
			srv.Freeze(all[4].ID(), zktest.Both)
			release(t, leases[1])
			release(t, leases[2])
			expect(t, leases, 3, 5)
			srv.Thaw(all[4].ID())
			expect(t, leases, 3, 4, 5)
		})
	}
}

// TestFrozenBeforeTheNext: a waiter that is frozen does not hold up the next one, in whatever order
// the holders leave.
func TestFrozenBeforeTheNext(t *testing.T) {
	for _, order := range [][2]int{{1, 2}, {1, 3}, {2, 3}, {3, 1}} {
		runInBubble(t, fmt.Sprint(order), 6, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			leases := inTurn(t, 3, all...)
			release(t, leases[0])
			expect(t, leases, 1, 2, 3)
			srv.Freeze(all[4].ID(), zktest.Both)
			release(t, leases[order[0]])
			release(t, leases[order[1]])
			left := 1 + 2 + 3 - order[0] - order[1]
			expect(t, leases, left, 5)
			srv.Thaw(all[4].ID())
			expect(t, leases, left, 4, 5)
		})
	}
}

// TestThrottledLimit: a limit is set, however busy the server is.
func TestThrottledLimit(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpCreate, zktest.OpSetData, zktest.OpGetData} {
		inBubble(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			if op != zktest.OpCreate {
				acquire(t, all[0], 2, nil).Close()
			}
			for range 3 {
				srv.AnswerError(zktest.Match{Op: op, Path: path}, -127)
			}
			check.OK(t, semaphore.SetLimit(t.Context(), all[0], path, 3), op)
			record(t, all[0], "3 unit")
		})
	}
}

// TestWakeUps: a release wakes those who can proceed, the next one, and the one as far behind as
// the limit, who reads once.
func TestWakeUps(t *testing.T) {
	const limit, waiters = 3, 8
	inBubble(t, limit+waiters, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		leases := inTurn(t, limit, all...)
		woken := func(but int) (n int) {
			synctest.Wait()
			for i, s := range all {
				if requests := kit.WithoutSyncs(srv.RequestsOf(s.ID())); requests.Total() > 0 && i != but {
					n++
				}
			}
			return n
		}
		for i := range waiters {
			srv.ResetRequests()
			release(t, leases[i])
			check.AtMost(t, woken(i), 3, "the release of", i, "wakes")
			want := zktest.Counts{zktest.OpDelete: 1, zktest.OpGetData: 2, zktest.OpSetData: 1, zktest.OpGetChildren2: 5}
			switch {
			case i == waiters-1: // no contender is behind
				want = zktest.Counts{zktest.OpDelete: 1, zktest.OpGetChildren2: 1}
			case i == waiters-2: // nor is one second
				want = zktest.Counts{zktest.OpDelete: 1, zktest.OpGetData: 1, zktest.OpSetData: 1, zktest.OpGetChildren2: 2}
			case i >= waiters-limit: // nor one as far behind as the limit
				want[zktest.OpGetData] = 1
			}
			check.EqualMaps(t, kit.WithoutSyncs(srv.Requests()), want, "the release of", i)
			check.True(t, held(leases[i+limit]), "it does not wake %d", i+limit)
		}
		for _, l := range leases {
			release(t, l)
		}

		// One who leaves the line wakes the two behind, and the one as far behind as the limit.
		leases = inTurn(t, limit, all...)
		for _, i := range []int{limit + waiters - 1, limit + 3, limit} {
			srv.ResetRequests()
			release(t, leases[i])
			check.AtMost(t, woken(i), 3, i, "leaves the line and wakes")
		}
		expect(t, leases, 0, 1, 2)
	})
}

// TestHandedOnTogether: many places that become free at once are handed on together. A holder that
// leaves within a round trip announces nothing.
func TestHandedOnTogether(t *testing.T) {
	const trip = 10 * time.Millisecond
	many := hasten.Usually(100, 40)
	for _, row := range []struct {
		limit     int
		brief     bool // the waiters leave when they are let in
		announced int
	}{
		{limit: 8, announced: 7}, // the last has none behind
		{limit: 10, announced: 9},
		{limit: many, announced: many - 1},
		{limit: 8, brief: true},
		{limit: 10, brief: true},
		{limit: many, brief: true},
	} {
		runInBubble(t, fmt.Sprint(row.limit, row.brief), 2*row.limit, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			var leases []*semaphore.Lease
			for _, s := range all {
				leases = append(leases, join(t, s, row.limit, nil))
				<-time.After(time.Second)
			}
			srv.ResetRequests()
			began := time.Now()
			for _, l := range leases[:row.limit] {
				go l.Close()
			}
			for _, l := range leases[row.limit:] {
				kit.Await[semaphore.Acquired](t, l.Events())
				if row.brief {
					go l.Close()
				}
			}
			check.Equal(t, int(time.Since(began)/trip), 2, "round trips until the last is let in")
			<-time.After(time.Second)
			check.Equal(t, srv.Requests()[zktest.OpSetData], row.announced, "announce themselves")
		}, zktest.Latency(trip/2))
	}
}

// TestLimitLoweredWhileListing: the limit that counts is that of the moment of the list, also if
// the session has heard that it is another, and not yet which.
func TestLimitLoweredWhileListing(t *testing.T) {
	inBubble(t, 4, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		leases := inTurn(t, 3, all...)
		srv.Delay(zktest.Match{Op: zktest.OpGetChildren2, Session: all[3].ID(), Path: path + "/leases"}, time.Second)
		release(t, leases[0])
		<-time.After(100 * time.Millisecond)
		setLimit(t, all[0], 2)
		<-time.After(5 * time.Second)
		check.Must(t, srv.AwaitFault(0))
		expect(t, leases, 1, 2)
		release(t, leases[1])
		expect(t, leases, 2, 3)
	})
}

// TestLimitLoweredWhileJoining is the same for a contender that is counted, and needs no list:
// whether or not its session follows the limit by then.
func TestLimitLoweredWhileJoining(t *testing.T) {
	for _, before := range []int{1, 3} {
		runInBubble(t, fmt.Sprint(before), 3, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			for range before {
				acquire(t, all[2], 3, nil).Close()
			}
			leases := inTurn(t, 3, all[:2]...)
			srv.Delay(zktest.Match{Op: zktest.OpMulti, Session: all[2].ID()}, time.Second)
			leases = append(leases, join(t, all[2], 3, &semaphore.Options{AnyLimit: true}))
			<-time.After(100 * time.Millisecond)
			setLimit(t, all[0], 2)
			<-time.After(5 * time.Second)
			check.Must(t, srv.AwaitFault(0))
			expect(t, leases, 0, 1)
			release(t, leases[0])
			expect(t, leases, 1, 2)
		})
	}
}

// TestRecordMadeAnew: a session knows a record without "unit", which was made anew with "unit"
// since. A heavy lease of that session is counted for one by others, so it has to stand behind
// these. The record that it reads may have been corrected by then.
func TestRecordMadeAnew(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		acquire(t, all[0], 3, weight(3)).Close()
		srv.Reap()
		srv.Reap()
		acquire(t, all[1], 3, nil).Close()
		record(t, all[1], "3 unit")
		srv.Delay(zktest.Match{Op: zktest.OpGetChildren2, Session: all[0].ID(), Path: path + "/leases"}, time.Second)
		leases := []*semaphore.Lease{join(t, all[0], 3, weight(3))}
		<-time.After(100 * time.Millisecond)
		leases = append(leases, join(t, all[1], 3, nil))
		<-time.After(100 * time.Millisecond)
		leases = append(leases, join(t, all[2], 3, weight(2)))
		<-time.After(5 * time.Second)
		check.Must(t, srv.AwaitFault(0))
		record(t, all[1], "3")
		expect(t, leases, 1, 2)
		release(t, leases[1])
		release(t, leases[2])
		expect(t, leases, 0)
	})
}

// TestAdmittedTogether: a lease that makes room for fifty lets them in at once, and wakes one
// client more.
func TestAdmittedTogether(t *testing.T) {
	const many = 50
	const trip = 10 * time.Millisecond
	inBubble(t, many+4, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		heavy := acquire(t, all[0], many, weight(many))
		var waiters []*semaphore.Lease
		for _, s := range all[1:] {
			waiters = append(waiters, join(t, s, many, nil))
			<-time.After(time.Second)
		}
		srv.ResetRequests()
		began := time.Now()
		release(t, heavy)
		for _, l := range waiters[:many] {
			for !held(l) {
				<-time.After(time.Millisecond)
			}
		}
		check.AtMost(t, time.Since(began), 5*trip, "the last is let in after")
		<-time.After(time.Second)
		woken := 0
		for _, s := range all[1:] {
			if requests := kit.WithoutSyncs(srv.RequestsOf(s.ID())); requests.Total() > 0 {
				woken++
			}
		}
		check.AtMost(t, woken, many+1, "are woken")
		check.AtMost(t, kit.WithoutSyncs(srv.Requests()).Total(), 4*many+10, "requests", srv.Requests())
	}, func(c *zktest.Config) { c.Latency = trip / 2 })
}

// TestFrozenWaiter: one that has room and does not notice holds up no other that has room
// too.
func TestFrozenWaiter(t *testing.T) {
	const limit = 50
	inBubble(t, 5, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		heavy := acquire(t, all[0], limit, weight(limit))
		waiters := inTurn(t, limit, all[1:]...)
		srv.Freeze(all[1].ID(), zktest.Both)
		release(t, heavy)
		expect(t, waiters, 1, 2, 3)
		srv.Thaw(all[1].ID())
		expect(t, waiters, 0, 1, 2, 3)
	})
}

// TestFrozenWaiterAndSmallReleases: two leases are released one after the other, and make room
// for two. The first of them does not notice.
func TestFrozenWaiterAndSmallReleases(t *testing.T) {
	const limit = 3
	inBubble(t, limit+4, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		leases := inTurn(t, limit, all...)
		srv.Freeze(all[limit].ID(), zktest.Both)
		release(t, leases[0])
		expect(t, leases, 1, 2)
		release(t, leases[2])
		expect(t, leases, 1, 4)
		release(t, leases[1])
		expect(t, leases, 4, 5)
		srv.Thaw(all[limit].ID())
		expect(t, leases, 3, 4, 5)
	})
}

func TestTryAcquire(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		a := check.Have(semaphore.TryAcquire(t.Context(), all[0], path, 3, weight(2)))(t)
		if l, err := semaphore.TryAcquire(t.Context(), all[1], path, 3, weight(2)); !errors.Is(err, semaphore.ErrFull) || l != nil || !strings.Contains(err.Error(), path) {
			t.Errorf("no room: %v", err)
		}
		check.Len(t, children(t, all[0]), 1, "in line")
		b, err := semaphore.TryAcquire(t.Context(), all[1], path, 3, nil)
		check.Must(t, err)
		check.True(t, a.ID() != b.ID() && a.Node() != b.Node(), "%d and %d", a.ID(), b.ID())
		a.Close()
		a, err = semaphore.TryAcquire(t.Context(), all[0], path, 3, weight(2))
		check.Must(t, err)
		a.Close()
		b.Close()
		why := errors.New("because")
		if l, err := semaphore.TryAcquire(ended(t, why), all[0], path, 3, nil); err == nil {
			l.Close() // it was faster
		} else if !errors.Is(err, why) {
			t.Error(err)
		}
		synctest.Wait()
		check.Len(t, children(t, all[0]), 0, "in line")
	})
}

func TestDo(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		why := errors.New("because")
		if err := semaphore.Do(t.Context(), all[0], path, 1, nil, func(ctx context.Context) error {
			check.Fails(semaphore.TryAcquire(ctx, all[1], path, 1, nil))(t, semaphore.ErrFull) // it does not hold a lease
			return why
		}); err != why { //nolint:errorlint // the very error
			t.Error(err)
		}
		check.Len(t, children(t, all[0]), 0, "are left")
		err := semaphore.Do(t.Context(), all[0], path, 1, nil, func(ctx context.Context) error {
			operator := context.WithoutCancel(ctx)
			names, _, err := all[1].Children(operator, path+"/leases")
			check.True(t, err == nil && len(names) == 1, "in line: %q, %v", names, err)
			for _, name := range names {
				check.OK(t, all[1].Delete(operator, path+"/leases/"+name, session.AnyVersion))
			}
			<-ctx.Done()
			check.Is(t, context.Cause(ctx), semaphore.ErrLost) // the work is told
			return nil
		})
		check.True(t, errors.Is(err, semaphore.ErrLost) && errors.Is(err, semaphore.ErrNodeDeleted), "%v", err)
	})
}

func TestHolders(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		if holders, err := semaphore.Holders(t.Context(), all[0], path); err != nil || holders != nil {
			t.Errorf("no semaphore: %v, %v", holders, err)
		}
		for i, w := range []int{2, 1, 3} {
			join(t, all[i], 3, &semaphore.Options{Weight: w, Data: fmt.Appendf(nil, "host-%d", i)})
			synctest.Wait()
		}
		check.Have(all[0].Create(t.Context(), path+"/leases/foreign", nil, session.Persistent))(t)
		holders, err := semaphore.Holders(t.Context(), all[0], path)
		check.Require(t, err == nil && len(holders) == 2, "%+v, %v", holders, err)
		for i, h := range holders {
			check.True(t, h.Weight == 2-i && string(h.Data) == fmt.Sprintf("host-%d", i) && h.Session == all[i].ID(), "%+v", h)
		}
		why := errors.New("because")
		check.Fails(semaphore.Holders(ended(t, why), all[0], path))(t, why)
	})
}

func TestGuardAndContext(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		a, b := acquire(t, all[0], 1, nil), join(t, all[1], 1, nil)
		synctest.Wait()
		write := func(l *semaphore.Lease) error {
			_, err := all[0].Multi(t.Context(), l.Guard(), session.SetOp("/limits", nil, session.AnyVersion))
			return err
		}
		work, cancel := a.Context(t.Context())
		defer cancel()
		check.OK(t, write(a))
		if err := write(b); !errors.Is(err, session.ErrNoNode) || !errors.Is(err, semaphore.ErrNotHeld) {
			t.Errorf("a waiter: %v", err)
		}
		release(t, a)
		check.Is(t, context.Cause(work), semaphore.ErrReleased) // the work is told
		if err := write(a); !errors.Is(err, session.ErrNoNode) || !errors.Is(err, semaphore.ErrNotHeld) || strings.Contains(err.Error(), "lost") {
			t.Errorf("one that has released: %v", err)
		}
		release(t, a) // again
		synctest.Wait()
		check.OK(t, write(b))
	})
}

// TestReleaseInBackground: the session sees the release through, and what is asked of it
// next finds it done.
func TestReleaseInBackground(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		opts := &semaphore.Options{Weight: 2, ReleaseInBackground: true}
		l, waiter := acquire(t, all[0], 2, opts), join(t, all[0], 2, opts)
		next[semaphore.Waiting](t, waiter)
		srv.Freeze(all[0].ID(), zktest.ToServer)
		for _, l := range []*semaphore.Lease{waiter, l} {
			release(t, l)
			l.Close()
		}
		check.Len(t, children(t, all[1]), 2, "already")
		srv.Thaw(all[0].ID())
		_, err := semaphore.TryAcquire(t.Context(), all[0], path, 2, opts)
		check.OK(t, err)
	})
}

// TestExpiry: a holder whose session ends, and a waiter.
func TestExpiry(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		leases := inTurn(t, 2, all[0], all[1], all[1], all[2])
		expect(t, leases, 0, 1)
		srv.Expire(all[1].ID())
		<-time.After(7 * time.Second)
		expect(t, leases, 0, 3)
		check.Is(t, leases[1].Err(), semaphore.ErrLost) // the holder is told
		setLimit(t, all[0], 3)
		expect(t, leases, 0, 2, 3) // it has joined the line again, at its end, and takes the new limit
	})
}

// TestOperator deletes the nodes of one who holds a lease and of one who waits, and then
// everything.
func TestOperator(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		operator := all[4]
		leases := inTurn(t, 2, all[:4]...)
		remove := func(node string) {
			t.Helper()
			check.OK(t, operator.Delete(t.Context(), node, session.AnyVersion))
		}
		remove(leases[0].Node())
		expect(t, leases, 1, 2)
		check.Is(t, leases[0].Err(), semaphore.ErrNodeDeleted) // the holder is told
		names := children(t, operator)
		waits := slices.IndexFunc(names, func(name string) bool {
			return !strings.HasSuffix(leases[1].Node(), name) && !strings.HasSuffix(leases[2].Node(), name)
		})
		remove(path + "/leases/" + names[waits])
		expect(t, leases, 1, 2)
		check.Len(t, children(t, operator), 3, "in line")
		// With the limit, and all who stand in line, who cannot be hindered to come back.
		for _, name := range children(t, operator) {
			remove(path + "/leases/" + name)
		}
		expect(t, leases, 3)
		leases[3].Close()
		remove(path + "/leases")
		remove(path)
		acquire(t, all[0], 7, nil).Close() // the next to come says what the limit is
		record(t, operator, "7 unit")
	})
}

// TestReaped: the line is a container, which the server deletes.
func TestReaped(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		for _, w := range []int{1, 2, 1} {
			acquire(t, all[0], 2, weight(w)).Close()
			srv.Reap()
			srv.Reap()
			check.False(t, slices.Contains(srv.Paths(), path), "it is not reaped")
		}
	})
}

// TestSetLimitStays: the path of a limit that was set before anybody came is nobody's container.
func TestSetLimitStays(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		setLimit(t, all[0], 2)
		acquire(t, all[0], 2, weight(2)).Close()
		srv.Reap()
		srv.Reap()
		record(t, all[0], "2")
	})
}

// TestReentered: leases that cannot be had within the context of others are refused at once.
func TestReentered(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		ctx, s := t.Context(), all[0]
		first := acquire(t, s, 3, weight(2))
		work, cancel := first.Context(ctx)
		defer cancel()
		if l, err := semaphore.Acquire(work, s, path, 3, weight(2)); !errors.Is(err, semaphore.ErrReentered) || l != nil || !strings.Contains(err.Error(), path) {
			t.Errorf("two and two of three: %v", err)
		}
		check.Is(t, semaphore.Do(work, s, path, 3, weight(2), func(context.Context) error { return nil }), semaphore.ErrReentered) // to do something
		second := check.Have(semaphore.Acquire(work, s, path, 3, nil))(t)
		inner, cancelInner := second.Context(work)
		defer cancelInner()
		check.Fails(semaphore.Acquire(context.WithoutCancel(inner), s, path, 3, nil))(t, semaphore.ErrReentered) // a fourth of three
		check.Fails(semaphore.TryAcquire(inner, s, path, 3, nil))(t, semaphore.ErrFull)                          // a try
		elsewhere := check.Have(semaphore.Acquire(inner, s, path+"-2", 1, nil))(t)
		elsewhere.Close()
		release(t, first)
		again, err := semaphore.Acquire(context.WithoutCancel(inner), s, path, 3, weight(2))
		check.Must(t, err, "in the place of one that was released")
		again.Close()
		second.Close()
	})
}

// TestReenteredBehindAWaiter: there is room for the lease that is asked for within another, but not
// before that is released, because a waiter ahead of it has to have room first.
func TestReenteredBehindAWaiter(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		ctx, s := t.Context(), all[0]
		first := acquire(t, s, 3, nil)
		work, cancel := first.Context(ctx)
		defer cancel()
		other := acquire(t, all[1], 3, nil)
		waits := join(t, all[2], 3, weight(3))
		synctest.Wait()
		for name, opts := range map[string]*semaphore.Options{"known": nil, "any limit": {AnyLimit: true}} {
			if l, err := semaphore.Acquire(work, s, path, 3, opts); !errors.Is(err, semaphore.ErrReentered) || l != nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", name, err)
			}
		}
		expect(t, []*semaphore.Lease{first, other, waits}, 0, 1) // nothing has changed
		release(t, waits)

		// A waiter that has room beside the lease keeps no other waiting for ever.
		waits = join(t, all[2], 3, weight(2))
		synctest.Wait()
		got := make(chan error, 1)
		go func() {
			l, err := semaphore.Acquire(work, s, path, 3, nil)
			if err == nil {
				l.Close()
			}
			got <- err
		}()
		synctest.Wait()
		release(t, other)
		expect(t, []*semaphore.Lease{first, waits}, 0, 1)
		release(t, waits)
		check.OK(t, <-got)

		// With any limit, it is known when the record is.
		check.Fails(semaphore.Acquire(work, s, path, 1000, &semaphore.Options{AnyLimit: true, Weight: 3}))(t, semaphore.ErrReentered) // three beside one of three
		release(t, first)
	})
}

// TestDoReturnsWithItsContext: the release goes on in the background.
func TestDoReturnsWithItsContext(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		err := semaphore.Do(ctx, all[0], path, 1, nil, func(ctx context.Context) error {
			srv.Delay(zktest.Match{Op: zktest.OpDelete}, 2*time.Second)
			cancel()
			<-ctx.Done()
			return nil
		})
		took := time.Since(began)
		check.True(t, err == nil && took <= 0, "%v after %v", err, took)
		<-time.After(5 * time.Second)
		check.Len(t, children(t, all[0]), 0, "it is not released")
	})
}

// TestForeignData: the line's node carries data.
func TestForeignData(t *testing.T) {
	for name, w := range map[string]int{"unit": 1, "weighted": 2} {
		runInBubble(t, name, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
			setLimit(t, all[1], 2)
			check.Have(all[1].Create(t.Context(), path+"/leases", []byte("somebody's"), session.Persistent))(t)
			leases := []*semaphore.Lease{acquire(t, all[0], 2, weight(w)), join(t, all[1], 2, weight(2))}
			expect(t, leases, 0)
			release(t, leases[0])
			expect(t, leases, 1)
			release(t, leases[1])
			check.Reads(all[1].Get(t.Context(), path+"/leases"))(t, "somebody's")
		})
	}
}

// TestFaults: whatever happens to whatever request of a tenancy, it succeeds, and leaves no
// node.
func TestFaults(t *testing.T) {
	for _, begin := range []string{"cold", "warm", "limit raised", "first weighted"} {
		for _, w := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d", begin, w), func(t *testing.T) {
				kit.EachLoss(t, 1, func(t *testing.T, skip int, lose func(*zktest.Server, int64) func()) {
					inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
						s, other := all[0], all[1]
						limit := 2
						var holder *semaphore.Lease
						switch begin {
						case "warm":
							acquire(t, s, 2, weight(w)).Close()
							holder = acquire(t, other, 2, nil)
						case "limit raised":
							holder = acquire(t, other, 2, weight(2))
						case "first weighted":
							holder = acquire(t, other, 2, nil)
						}
						synctest.Wait()
						defer lose(srv, s.ID())()
						l := join(t, s, limit, weight(w))
						<-time.After(5 * time.Second)
						if holder != nil {
							behind := join(t, other, limit, nil)
							<-time.After(5 * time.Second)
							if begin == "limit raised" {
								setLimit(t, other, 5)
								<-time.After(5 * time.Second)
							}
							release(t, holder)
							<-time.After(5 * time.Second)
							defer func() {
								check.True(t, held(behind), "%d: who came after it holds no lease", skip)
								behind.Close()
								check.Len(t, children(t, other), 0, skip)
							}()
						}
						check.True(t, held(l), "%d: it holds no lease: %v", skip, l.Err())
						release(t, l)
						<-time.After(5 * time.Second)
					})
				})
			})
		}
	}
}

// TestSetLimitFaults: a lost reply or request does not keep the limit from being set.
func TestSetLimitFaults(t *testing.T) {
	kit.EachLoss(t, 1, func(t *testing.T, _ int, lose func(*zktest.Server, int64) func()) {
		inBubble(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			defer lose(srv, 0)()
			setLimit(t, all[0], 5)
			setLimit(t, all[0], 6)
			setLimit(t, all[0], 6)
			record(t, all[0], "6 unit")
		})
	})
	// Another client sets it between the lost reply and the next look.
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		setLimit(t, all[0], 5)
		srv.DropReply(zktest.Match{Op: zktest.OpSetData})
		srv.Delay(zktest.Match{Op: zktest.OpGetData, Session: all[0].ID(), Skip: 1}, time.Second)
		first := make(chan error)
		go func() { first <- semaphore.SetLimit(t.Context(), all[0], path, 6) }()
		<-time.After(500 * time.Millisecond)
		setLimit(t, all[1], 7)
		check.Is(t, <-first, session.ErrUnknownOutcome) // it may have been set before, or not
		record(t, all[0], "7 unit")
	})
	inBubble(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		why := errors.New("because")
		check.Is(t, semaphore.SetLimit(ended(t, why), all[0], path, 3), why)
	})
}

// TestSetLimitRace: what another client does between a request of SetLimit and its execution does
// not keep the limit from being set.
func TestSetLimitRace(t *testing.T) {
	set := func(t *testing.T, s *session.Session) { t.Helper(); setLimit(t, s, 7) }
	remove := func(t *testing.T, s *session.Session) {
		t.Helper()
		check.OK(t, s.Delete(t.Context(), path, session.AnyVersion))
	}
	for name, row := range map[string]struct {
		stands bool
		op     zktest.Op // that is late
		lost   bool      // and lost
		other  func(*testing.T, *session.Session)
	}{
		"created by another":                {false, zktest.OpCreate, false, set},
		"its creation is lost, not another": {false, zktest.OpCreate, true, set},
		"created when its parent is gone": {false, zktest.OpCreate, false, func(t *testing.T, s *session.Session) {
			t.Helper()
			check.OK(t, s.Delete(t.Context(), "/limits", session.AnyVersion))
		}},
		"set by another":                     {true, zktest.OpSetData, false, set},
		"removed before it is set":           {true, zktest.OpSetData, false, remove},
		"its write is lost, and the node is": {true, zktest.OpSetData, true, remove},
	} {
		runInBubble(t, name, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			if setLimit(t, all[1], 5); !row.stands {
				remove(t, all[1])
			}
			at := zktest.Match{Op: row.op, Path: path, Session: all[0].ID()}
			if row.lost {
				srv.DropRequest(at)
				srv.Delay(zktest.Match{Op: zktest.OpGetData, Session: all[0].ID(), Skip: 1}, time.Second)
			} else {
				srv.Delay(at, time.Second)
			}
			result := make(chan error, 1)
			go func() { result <- semaphore.SetLimit(t.Context(), all[0], path, 6) }()
			<-time.After(500 * time.Millisecond)
			row.other(t, all[1])
			check.OK(t, <-result)
			record(t, all[1], "6 unit")
		})
	}
}

// TestOlderData: a lease has no token, so it is granted also where servers have come back with
// older data than the session knows.
func TestOlderData(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		acquire(t, all[0], 1, nil).Close()
		backup, id := srv.Backup(), all[0].ID()
		for range 100 {
			check.Have(all[0].Set(t.Context(), "/", nil, session.AnyVersion))(t)
		}
		srv.Restore(backup)
		<-time.After(time.Minute)
		acquire(t, all[0], 1, nil).Close()
		check.True(t, all[0].ID() != id, "the session goes on")
	})
}

// TestSetLimitRefused: SetLimit does not repeat what the server refuses.
func TestSetLimitRefused(t *testing.T) {
	const noAuth = -102
	for op, lost := range map[zktest.Op]bool{zktest.OpSync: false, zktest.OpGetData: true, zktest.OpSetData: false} {
		inBubble(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
			setLimit(t, all[0], 5)
			at, want := zktest.Match{Op: op}, session.ErrNoAuth
			if lost { // whether its write was done is not to be known
				srv.DropReply(zktest.Match{Op: zktest.OpSetData})
				at.Skip, want = 1, session.ErrUnknownOutcome
			}
			srv.AnswerError(at, noAuth)
			check.Is(t, semaphore.SetLimit(t.Context(), all[0], path, 6), want, op)
		})
	}
}

// TestEvents of one who waits, holds and is cut off meanwhile.
func TestEvents(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		a, b := acquire(t, all[0], 1, nil), join(t, all[1], 1, nil)
		check.Equal(t, next[semaphore.Waiting](t, b).Ahead, 1)
		a.Close()
		if ev := next[semaphore.Acquired](t, b); ev.ID != b.ID() || ev.ID == a.ID() || path+"/leases/"+ev.Node != b.Node() {
			t.Errorf("%v", ev)
		}
		srv.Disconnect(all[1].ID())
		if ev := next[semaphore.Suspended](t, b); ev.Deadline.IsZero() {
			t.Errorf("%v", ev)
		}
		next[semaphore.Resumed](t, b)
		go b.Close()
		next[semaphore.Released](t, b)
		if ev, more := <-b.Events(); more {
			t.Errorf("%v after the last event", ev)
		}
	})
}

// TestOtherLayouts: leases of others at the path, or contenders in the line, that are not
// excluded. TestRealPeers has Curator and kazoo there themselves.
func TestOtherLayouts(t *testing.T) {
	for node, weights := range map[string][]int{
		"/0123456789abcdef0123456789abcdef":                          {1, 2}, // kazoo's lease
		"/0123456789abcdef0123456789abcdef__lock__0000000001":        {1, 2},
		"/_c_01234567-89ab-4def-8123-456789abcdef-lock-0000000001":   {1, 2},
		"/leases/0123456789abcdef0123456789abcdef__lock__0000000001": {1, 2},
		"/locks":               {1, 2}, // beside the leases of Curator's semaphore
		"/0000000001":          {1, 2}, // of no known layout
		"/leases/x-0000000001": {1, 2},
	} {
		for _, before := range []int{0, 1, 3} { // it is known that the line is there, and then what is beside it
			inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
				ctx := t.Context()
				if before == 0 {
					check.Must(t, all[0].EnsurePath(ctx, path+"/leases"))
				}
				for range before {
					acquire(t, all[0], 3, nil).Close()
				}
				held := acquire(t, all[1], 3, &semaphore.Options{AnyLimit: true})
				waiter := join(t, all[1], 3, weight(3))
				synctest.Wait()
				check.Have(all[0].Create(ctx, path+node, nil, session.Ephemeral))(t)
				for n := range 3 {
					_, err := semaphore.TryAcquire(ctx, all[0], path, 3, &semaphore.Options{Weight: n + 1})
					check.Equal(t, slices.Contains(weights, n+1) || n == 2, errors.Is(err, semaphore.ErrLayout), node, "weight", n+1, "refused:", err)
				}
				release(t, held)
				synctest.Wait()
				check.Is(t, waiter.Err(), semaphore.ErrLayout, node, "one that has waited")
				check.AtMost(t, len(children(t, all[0])), 1, node)
			})
		}
	}
}

// TestDoWithoutFunction: a nil function is refused before a lease is acquired.
func TestDoWithoutFunction(t *testing.T) {
	srv := zktest.Start(t)
	s := check.Open(session.Open(t.Context(), srv.Addrs(), nil))(t)
	if err := semaphore.Do(t.Context(), s, "/a", 3, nil, nil); !errors.Is(err, session.ErrInvalidArgument) || !strings.Contains(err.Error(), "f:") {
		t.Error(err)
	}
	if stat, err := s.Exists(t.Context(), "/a"); stat != nil || err != nil {
		t.Error("the semaphore is there", err)
	}
}
