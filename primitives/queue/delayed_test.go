package queue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestManyDelayed: delayed items that are put at the same time share transactions, whatever their
// delays. So they need few receipts.
func TestManyDelayed(t *testing.T) {
	for name, delay := range map[string]func(i int) time.Duration{
		"one delay":   func(int) time.Duration { return time.Hour },
		"many delays": func(i int) time.Duration { return time.Hour + time.Duration(i%600)*time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			bubbled(t, zktest.Config{Latency: 500 * time.Microsecond}, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
				const n = 20_000
				q := open(t, s[0], nil)
				put(t, q, "first")
				before := srv.Requests()
				began := time.Now()
				var putting sync.WaitGroup
				for i := range n {
					putting.Go(func() {
						_, err := q.PutAfter(t.Context(), []byte("x"), delay(i))
						check.OK(t, err)
					})
				}
				putting.Wait()
				requests := srv.Requests().Total() - before.Total()
				t.Logf("%d items: %d requests, %v, %d receipts", n, requests, time.Since(began), len(left(srv, "receipts")))
				check.True(t, requests < n/100, "%d requests", requests)
				check.True(t, len(left(srv, "receipts")) <= 4, "%d receipts", len(left(srv, "receipts")))
				check.Equal(t, length(t, q), n+1)
			})
		})
	}
}

// TestMinute delays into one minute more items than a reply could list. Only the buckets are listed
// in which items may be due, and items come in the order of their seconds.
func TestMinute(t *testing.T) {
	bubble(t, 2, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		const each = 500
		n := hasten.Sized(hasten.Usually(60_000, 20_000), 6_000)
		q, other := open(t, s[0], nil), open(t, s[1], nil)
		put(t, q, "good")
		earliest := 60_000
		begins := time.Now().Truncate(time.Minute).Add(10 * time.Minute)
		for i := range n / each {
			ms := rand.New(rand.NewPCG(uint64(i), 1)).IntN(60_000)
			earliest = min(earliest, ms)
			batch := make([]string, each)
			for j := range batch {
				batch[j] = fmt.Sprint(ms)
			}
			by := []*queue.Queue{q, other}[i%2]
			check.Have(by.PutAllAfter(t.Context(), bytesOf(batch), time.Until(begins)+time.Duration(ms)*time.Millisecond))(t)
		}
		buckets := map[string]bool{}
		for _, path := range left(srv, "items") {
			buckets[path] = true
		}
		t.Logf("%d items in %d buckets", n, len(buckets))
		check.Equal(t, length(t, q), n+1)
		check.EqualSlices(t, drain(t, other), []string{"good"}, "before")
		cost := func(do func()) int {
			before := srv.Requests().Total()
			do()
			return srv.Requests().Total() - before
		}
		kit.Pass(time.Until(begins.Add(-time.Second)))
		put(t, q, "good")
		kit.Pass(time.Until(begins.Add(50 * time.Second))) // most are due
		first := 0
		requests := cost(func() { first, _ = strconv.Atoi(peek(t, other)) })
		check.Equal(t, first/1000, earliest/1000, "Peek")
		check.AtMost(t, requests, 8, "requests of Peek")
		var taken []int
		requests = cost(func() {
			for range hasten.Sized(5000, 2000) {
				data := check.Have(other.TryTake(t.Context()))(t)
				ms := check.Have(strconv.Atoi(string(data)))(t)
				taken = append(taken, ms/1000)
			}
		})
		check.True(t, slices.IsSorted(taken), "not in the order of their seconds: %v", taken)
		check.True(t, requests <= 2*len(taken)+50, "%d items taken with %d requests", len(taken), requests)
		bounded := open(t, s[0], &queue.Options{MaxItems: 10 * n})
		check.Have(bounded.Put(t.Context(), []byte("x")))(t)
		c := consume(t, q, 16)
		for range 100 {
			item := next(t, c)
			if _, err := strconv.Atoi(string(item.Data)); err != nil {
				t.Fatalf("%s comes before what is due", item.Data)
			}
			check.Must(t, item.Ack(t.Context()))
		}
		synctest.Wait()
	})
}

// TestEmptyMinutesGo: consumers delete the buckets of times that are over.
func TestEmptyMinutesGo(t *testing.T) {
	bubbled(t, zktest.Config{ReapInterval: 24 * time.Hour}, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		for i := range 20 {
			check.Have(q.PutAfter(t.Context(), []byte("x"), time.Duration(i)*time.Minute))(t)
		}
		kit.Pass(time.Hour)
		check.Equal(t, len(drain(t, q)), 20, "items")
		drain(t, q)
		check.Equal(t, len(left(srv, "items")), 1, "buckets")
		check.Have(q.PutAfter(t.Context(), []byte("again"), time.Nanosecond))(t)
		kit.Pass(time.Second)
		check.EqualSlices(t, drain(t, q), []string{"again"}, "taken")
	})
}
