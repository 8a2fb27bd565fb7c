package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// TestStormOfLapses: consumers of several processes lapse and come back. No two readers work on one
// item at once, each as far as it can know. In the end every item was acknowledged, and no claim is
// left.
func TestStormOfLapses(t *testing.T) {
	for seed := range hasten.Seeds(t, hasten.Sized[uint64](hasten.Usually[uint64](100, 20), 5)) {
		kit.Run(t, zktest.Config{Tick: time.Second, Latency: 2 * time.Millisecond}, func(w kit.World) { stormOfLapses(w, seed) })
	}
}

func stormOfLapses(w kit.World, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	type work struct {
		queue.Item
		by *queue.Consumer
	}
	closing := map[*queue.Consumer]bool{}
	working := map[string][]work{}
	acked := map[string]bool{}
	const gates, items = 3, 8
	stop := make(chan struct{})
	var readers, chaos sync.WaitGroup
	var all []*kit.Gate
	var consumers [gates]*queue.Consumer
	read := func(c *queue.Consumer, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 2))
		for item := range c.Items() {
			mu.Lock()
			for _, other := range working[item.ID] {
				if !closing[other.by] && !closing[c] && other.Context().Err() == nil && item.Context().Err() == nil {
					w.Errorf("%v: two readers work on item %s at once", time.Now(), item.ID)
				}
			}
			working[item.ID] = append(working[item.ID], work{item, c})
			mu.Unlock()
			<-time.After(time.Duration(r.IntN(12000)) * time.Millisecond)
			mu.Lock()
			for i, other := range working[item.ID] {
				if other.Context() == item.Context() {
					working[item.ID] = append(working[item.ID][:i:i], working[item.ID][i+1:]...)
					break
				}
			}
			mu.Unlock()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			var err error
			ack := r.IntN(3) > 0
			if ack {
				err = item.Ack(ctx)
			} else {
				err = item.Reject(ctx)
			}
			cancel()
			mu.Lock()
			if ack && err == nil {
				acked[item.ID] = true
			}
			mu.Unlock()
		}
	}
	open := func(g int) {
		q := check.Have(queue.New(all[g].Session, at, nil))(w)
		c := check.Have(q.Consume(&queue.ConsumeOptions{Prefetch: 1 + r.IntN(3)}))(w)
		consumers[g] = c
		go func() {
			for range c.Events() {
			}
		}()
		for range 2 {
			s := r.Uint64()
			readers.Go(func() { read(c, s) })
		}
	}
	near := w.Open(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second})
	for g := range gates {
		all = append(all, w.OpenGated(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second}))
		open(g)
	}
	put := map[string]bool{}
	chaos.Go(func() {
		q := check.Have(queue.New(near, at, nil))(w)
		for i := range items {
			id, err := q.Put(w.Context(), fmt.Append(nil, i))
			if err == nil {
				put[id] = true
			}
			<-time.After(10 * time.Second)
		}
	})
	if r.IntN(3) > 0 { // elections keep the sessions
		chaos.Go(func() { w.Elect(3*time.Second, stop) })
	}
	ops := []zktest.Op{0, zktest.OpMulti, zktest.OpDelete, zktest.OpSetData, zktest.OpGetData, zktest.OpGetChildren2}
	for range 14 {
		g := r.IntN(gates)
		id := all[g].ID()
		for range r.IntN(3) {
			m := zktest.Match{Session: id, Op: ops[r.IntN(len(ops))], Skip: r.IntN(4)}
			switch r.IntN(3) {
			case 0:
				w.DropReply(m)
			case 1:
				w.DropRequest(m)
			case 2:
				w.AnswerError(m, -127)
			}
		}
		switch r.IntN(5) {
		case 0:
			mu.Lock()
			closing[consumers[g]] = true
			mu.Unlock()
			go consumers[g].Close()
			<-time.After(time.Duration(r.IntN(2000)) * time.Millisecond)
			open(g)
		case 1:
			w.Freeze(id, zktest.Direction(r.IntN(3)))
			<-time.After(time.Duration(r.IntN(20000)) * time.Millisecond)
			w.Thaw(id)
		default:
			all[g].Refuse()
			w.Disconnect(id)
			<-time.After(time.Duration(r.IntN(25000)) * time.Millisecond)
			if r.IntN(4) == 0 {
				mu.Lock()
				closing[consumers[g]] = true
				mu.Unlock()
				go consumers[g].Close()
				<-time.After(time.Duration(r.IntN(2000)) * time.Millisecond)
				open(g)
			}
			all[g].Mend()
		}
		<-time.After(time.Duration(r.IntN(4000)) * time.Millisecond)
	}
	close(stop)
	chaos.Wait()
	w.ClearFaults()
	for range 30 {
		<-time.After(time.Minute)
		mu.Lock()
		n := len(acked)
		mu.Unlock()
		if n >= len(put) {
			break
		}
	}
	mu.Lock()
	for id := range put {
		if !acked[id] {
			exists := false
			for _, p := range w.Paths() {
				exists = exists || len(p) > len(id) && hasPart(p, id) && hasPart(p, "/items/")
			}
			if exists {
				w.Errorf("item %s was never acknowledged; claims %v", id, claimsOf(w.Server))
			}
		}
	}
	mu.Unlock()
	<-time.After(time.Minute)
	check.EqualSlices(w, claimsOf(w.Server), nil, "claims left")
	for _, c := range consumers {
		c.Close()
	}
	readers.Wait()
}

func hasPart(s, part string) bool {
	for i := 0; i+len(part) <= len(s); i++ {
		if s[i:i+len(part)] == part {
			return true
		}
	}
	return false
}
