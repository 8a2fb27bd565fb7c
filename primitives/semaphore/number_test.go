package semaphore_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func numbered() *semaphore.Options { return &semaphore.Options{Numbered: true} }

// TestNumbers: a lease has the smallest number that is free, as long as it is held.
func TestNumbers(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		var leases []*semaphore.Lease
		for i := range 3 {
			l := acquire(t, all[i%2], 3, numbered())
			check.Equal(t, l.Number(), i)
			leases = append(leases, l)
		}
		next := join(t, all[0], 3, numbered())
		synctest.Wait()
		plain := join(t, all[1], 3, nil)
		synctest.Wait()
		check.Equal(t, next.Number(), -1, "of a waiter")
		release(t, leases[1])
		expect(t, []*semaphore.Lease{leases[0], leases[2], next, plain}, 0, 1, 2)
		check.Equal(t, next.Number(), 1)
		release(t, leases[0])
		expect(t, []*semaphore.Lease{next, plain}, 0, 1)
		check.Equal(t, plain.Number(), -1, "of a lease without")
		release(t, plain)
		last := acquire(t, all[1], 3, numbered())
		check.Equal(t, last.Number(), 0)
		found, err := inspect.Look(t.Context(), all[0], path, nil)
		check.Must(t, err)
		check.True(t, len(found.Things) == 1 && found.Things[0].Kind == inspect.Semaphore && found.Things[0].Held == 3, "%+v", found.Things)
		for _, l := range []*semaphore.Lease{leases[2], next, last} {
			release(t, l)
		}
		names, _, err := all[0].Children(t.Context(), path+"/numbers")
		check.Must(t, err)
		check.Len(t, names, 0, "numbers are left")
	})
}

// TestNumberOfTheDead: the number of a session that has expired is free. Its holder learns of the
// loss before another has it.
func TestNumberOfTheDead(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		l := acquire(t, all[0], 1, numbered())
		srv.Freeze(all[0].ID(), zktest.Both)
		next := acquire(t, all[1], 1, numbered())
		check.Equal(t, next.Number(), 0)
		select {
		case <-l.Done():
		default:
			t.Error("two have the number")
		}
	})
}

// TestNumberOfAGoneNode: an operator deletes the node of a lease whose holder is cut off. Its
// number is used until its session ends, and the next lease waits for that, not for another.
func TestNumberOfAGoneNode(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		dead := acquire(t, all[0], 2, numbered())
		check.Equal(t, acquire(t, all[1], 2, numbered()).Number(), 1)
		srv.Freeze(all[0].ID(), zktest.Both)
		check.OK(t, all[1].Delete(t.Context(), dead.Node(), session.AnyVersion))
		next := acquire(t, all[1], 2, numbered())
		check.Equal(t, next.Number(), 0)
		select {
		case <-dead.Done():
		default:
			t.Error("two have the number")
		}
	})
}

// TestNumberCosts: a number costs two round trips more, when its directory is there.
func TestNumberCosts(t *testing.T) {
	const trip = 5 * time.Millisecond
	inBubble(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		keep := acquire(t, all[0], 5, numbered()) // keeps the directories
		release(t, acquire(t, all[0], 5, numbered()))
		for want, opts := range map[time.Duration]*semaphore.Options{trip: nil, 3 * trip: numbered()} {
			began := time.Now()
			l := acquire(t, all[0], 5, opts)
			check.Equal(t, time.Since(began), want)
			release(t, l)
		}
		release(t, keep)
	}, zktest.Latency(trip/2))
}

// TestNumberFaults: whatever request or reply of a tenancy is lost, it has a number, and leaves no
// node.
func TestNumberFaults(t *testing.T) {
	for _, begin := range []string{"cold", "behind a holder"} {
		t.Run(begin, func(t *testing.T) {
			kit.EachLoss(t, 1, func(t *testing.T, skip int, lose func(*zktest.Server, int64) func()) {
				inBubble(t, 2, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
					s, other := all[0], all[1]
					var holder *semaphore.Lease
					if begin != "cold" {
						holder = acquire(t, other, 1, numbered())
					}
					defer lose(srv, s.ID())()
					l := join(t, s, 1, numbered())
					<-time.After(5 * time.Second)
					if holder != nil {
						release(t, holder)
						<-time.After(5 * time.Second)
					}
					check.True(t, held(l) && l.Number() == 0, "%d: number %d, %v", skip, l.Number(), l.Err())
					release(t, l)
					<-time.After(5 * time.Second)
					check.Len(t, children(t, other), 0, skip)
					names, _, err := other.Children(t.Context(), path+"/numbers")
					check.OK(t, err)
					check.Len(t, names, 0, skip)
				})
			})
		})
	}
}

// TestNumberedAnnounce: a numbered lease lets those behind know that it is held, when its number is
// claimed: else the one who is second would not learn that.
func TestNumberedAnnounce(t *testing.T) {
	for _, weight := range []int{1, 2} { // of the second waiter
		for _, order := range [][]int{{0, 1, 2}, {0, 1, 3}, {0, 1, 2, 3}} {
			runInBubble(t, fmt.Sprint(weight, order), 7, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
				var leases []*semaphore.Lease
				for i, s := range all {
					opts := &semaphore.Options{Numbered: weight == 1 || i == 5, Weight: 1}
					if i == 5 {
						opts.Weight = weight
					}
					leases = append(leases, join(t, s, 4, opts))
					<-time.After(time.Second)
				}
				for _, i := range order {
					release(t, leases[i])
					<-time.After(time.Second)
				}
				for i, l := range leases {
					room := len(order)-3 >= weight-1 || i < 6
					check.Equal(t, held(l), !slices.Contains(order, i) && room, i, "is held")
				}
			}, zktest.Latency(time.Millisecond))
		}
	}
}
