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
						if _, err := q.PutAfter(t.Context(), []byte("x"), delay(i)); err != nil {
							t.Error(err)
						}
					})
				}
				putting.Wait()
				requests := srv.Requests().Total() - before.Total()
				t.Logf("%d items: %d requests, %v, %d receipts", n, requests, time.Since(began), len(left(srv, "receipts")))
				check.True(t, requests < n/100, "%d requests", requests)
				check.True(t, len(left(srv, "receipts")) <= 4, "%d receipts", len(left(srv, "receipts")))
				items, err := q.Len(t.Context())
				check.True(t, items == n+1 && err == nil, "Len: %d, %v", items, err)
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
			_, err := by.PutAllAfter(t.Context(), bytesOf(batch), time.Until(begins)+time.Duration(ms)*time.Millisecond)
			ok(t, err)
		}
		buckets := map[string]bool{}
		for _, path := range left(srv, "items") {
			buckets[path] = true
		}
		t.Logf("%d items in %d buckets", n, len(buckets))
		length, err := q.Len(t.Context())
		check.True(t, length == n+1 && err == nil, "Len: %d, %v", length, err)
		equal(t, "before", drain(t, other), []string{"good"})
		cost := func(do func()) int {
			before := srv.Requests().Total()
			do()
			return srv.Requests().Total() - before
		}
		pass(time.Until(begins.Add(-time.Second)))
		put(t, q, "good")
		pass(time.Until(begins.Add(50 * time.Second))) // most are due
		var peeked []byte
		requests := cost(func() { peeked, err = other.Peek(t.Context()) })
		first, _ := strconv.Atoi(string(peeked))
		check.True(t, err == nil && first/1000 == earliest/1000, "Peek: %s, %v", peeked, err)
		check.True(t, requests <= 8, "Peek: %d requests", requests)
		var taken []int
		requests = cost(func() {
			for range hasten.Sized(5000, 2000) {
				data, err := other.TryTake(t.Context())
				ok(t, err)
				ms, err := strconv.Atoi(string(data))
				ok(t, err)
				taken = append(taken, ms/1000)
			}
		})
		check.True(t, slices.IsSorted(taken), "not in the order of their seconds: %v", taken)
		check.True(t, requests <= 2*len(taken)+50, "%d items taken with %d requests", len(taken), requests)
		bounded := open(t, s[0], &queue.Options{MaxItems: 10 * n})
		_, err = bounded.Put(t.Context(), []byte("x"))
		ok(t, err)
		c := consume(t, q, 16)
		defer c.Close()
		for range 100 {
			item := next(t, c)
			if _, err := strconv.Atoi(string(item.Data)); err != nil {
				t.Fatalf("%s comes before what is due", item.Data)
			}
			ok(t, item.Ack(t.Context()))
		}
		synctest.Wait()
	})
}

// TestEmptyMinutesGo: consumers delete the buckets of times that are over.
func TestEmptyMinutesGo(t *testing.T) {
	bubbled(t, zktest.Config{ReapInterval: 24 * time.Hour}, 1, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
		q := open(t, s[0], nil)
		for i := range 20 {
			_, err := q.PutAfter(t.Context(), []byte("x"), time.Duration(i)*time.Minute)
			ok(t, err)
		}
		pass(time.Hour)
		check.Equal(t, len(drain(t, q)), 20, "items")
		drain(t, q)
		check.Equal(t, len(left(srv, "items")), 1, "buckets")
		_, err := q.PutAfter(t.Context(), []byte("again"), time.Nanosecond)
		ok(t, err)
		pass(time.Second)
		equal(t, "taken", drain(t, q), []string{"again"})
	})
}
