package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestLivenessByChance has items come now and then to consumers and takers that wait, while a fault
// strikes: each item is out soon after the fault has ended, and so are those whose producers wait
// for room.
func TestLivenessByChance(t *testing.T) {
	for _, most := range []int{0, 2} {
		t.Run(fmt.Sprintf("MaxItems=%d", most), func(t *testing.T) {
			for seed := range seeds(12, 2) {
				bubbled(t, zktest.Config{Latency: time.Millisecond}, 8, func(t *testing.T, srv *zktest.Server, s ...*session.Session) {
					opts := soakOptions
					opts.MaxItems = most
					alive(t, srv, s, &opts, rand.New(rand.NewPCG(seed, 10)))
				})
			}
		})
	}
}

// soon is how long an item may take after a fault: sessions expire, and a request is given up that
// is not answered.
const soon = 30 * time.Second

func alive(t *testing.T, srv *zktest.Server, s []*session.Session, opts *queue.Options, random *rand.Rand) {
	t.Helper()
	h := newHistory(t)
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer func() {
		stop()
		working.Wait()
		h.remains(t.Context(), s[0])
		h.check(t)
	}()
	opened := func(i int) *queue.Priority { return ranked(t, s[i], opts) }
	producers := []*queue.Priority{opened(0), opened(1)}
	for i := 2; i < 5; i++ {
		c := check.Have(opened(i).Consume(&queue.ConsumeOptions{Prefetch: i - 1, Backoff: soakBackoff}))(t)
		working.Go(func() {
			defer c.Close()
			for {
				select {
				case item := <-c.Items():
					h.settle(context.WithoutCancel(ctx), item, h.receives(item))
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for i := 5; i < 7; i++ {
		q := opened(i)
		working.Go(func() {
			for n := 1; ctx.Err() == nil; n = 1 + n%3 {
				data, err := q.TakeN(ctx, n)
				h.takes(data, err)
				select { // consumers get the most
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
		})
	}
	working.Go(func() { h.redrive(ctx, s[7]) })
	items := 0
	var slowest time.Duration
	for round := range 40 {
		for range 1 + random.IntN(6) {
			x, q, priority, delay := fmt.Sprint(items), producers[random.IntN(2)], int32(random.IntN(3)), time.Duration(0)
			if random.IntN(4) == 0 {
				delay = time.Duration(random.IntN(3000)) * time.Millisecond
			}
			items++
			h.begins(random.IntN(6) == 0, delay, x)
			working.Go(func() {
				for {
					_, err := q.PutAfter(ctx, []byte(x), priority, delay)
					if err == nil || session.InDoubt(err) {
						h.noted(func() { h.entered(x, err == nil) })
						return
					}
					check.Require(t, ctx.Err() == nil, "PutAfter: %v", err)
				}
			})
		}
		fault := strike(srv, s[random.IntN(len(s))].ID(), random)
		<-time.After(time.Duration(random.IntN(3000)) * time.Millisecond)
		srv.ClearFaults()
		srv.Thaw(0)
		for began := time.Now(); !h.finished(items); {
			h.noted(func() {
				check.Require(t, time.Since(began) < soon, "round %d: %s: %d items are not out: %q", round, fault, len(h.open), srv.Paths())
			})
			<-time.After(100 * time.Millisecond)
			slowest = max(slowest, time.Since(began))
		}
	}
	t.Logf("all are out %v after a fault", slowest)
}

// strike has a fault strike a session.
func strike(srv *zktest.Server, id int64, random *rand.Rand) (what string) {
	match := zktest.Match{Session: id, Skip: random.IntN(4)}
	faults := []struct {
		what   string
		strike func()
	}{
		{"none", func() {}},
		{"DropReply", func() { srv.DropReply(match) }},
		{"DropRequest", func() { srv.DropRequest(match) }},
		{"SwallowReply", func() { srv.SwallowReply(match) }},
		{"SwallowRequest", func() { srv.SwallowRequest(match) }},
		{"AnswerError", func() { srv.AnswerError(match, -127) }},
		{"DelayEvent", func() { srv.DelayEvent(zktest.Match{Session: id}, 2*time.Second) }},
		{"Delay", func() { srv.Delay(match, 2*time.Second) }},
		{"Disconnect", func() { srv.Disconnect(id) }},
		{"Expire", func() { srv.Expire(id) }},
		{"Freeze", func() { srv.Freeze(id, zktest.Both) }},
		{"Freeze to the client", func() { srv.Freeze(id, zktest.ToClient) }},
	}
	f := faults[random.IntN(len(faults))]
	f.strike()
	return f.what
}
