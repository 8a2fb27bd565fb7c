package ours

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/bench/driver"
	"github.com/zkactors/zkactors/primitives/queue"
)

// A flowing has items put and delivered at the same time, no more than flight on their way.
type flowing struct {
	*driver.Run

	began  time.Time
	flight chan struct{}
	mu     sync.Mutex
	took   []time.Duration
}

// flow measures the time from the beginning of Put to the delivery. An item that is acknowledged is
// on its way until that is confirmed. Producers share a session; each taker has one of its own.
func flow(r *driver.Run) error {
	takers := r.Int("takers", 1)
	all, end, err := open(r, 1+takers)
	if err != nil {
		return err
	}
	defer end()
	queues := make([]*queue.Queue, len(all))
	for i, s := range all {
		if queues[i], err = queue.New(s, r.Path, nil); err != nil {
			return err
		}
	}
	return r.Latencies(1, func(l driver.Limit) ([]time.Duration, error) {
		f := &flowing{Run: r, began: time.Now(), flight: make(chan struct{}, r.Int("flight", 64))}
		ctx, stop := context.WithCancel(r.Context())
		defer stop()
		err := driver.Each(1+takers, func(i int) error {
			switch {
			case i > 0 && r.Is("kind", "acknowledged"):
				return f.acknowledge(ctx, queues[i])
			case i > 0:
				return f.take(ctx, queues[i])
			}
			defer stop()
			return f.produce(ctx, queues[0], l)
		})
		return f.took, err
	})
}

// produce puts items, and returns when the last has been delivered.
func (f *flowing) produce(ctx context.Context, q *queue.Queue, l driver.Limit) error {
	err := driver.Each(f.Int("producers", 1), func(int) error {
		for l.Next() {
			f.flight <- struct{}{}
			data := binary.BigEndian.AppendUint64(nil, uint64(time.Since(f.began)))
			if _, err := q.Put(ctx, slices.Concat(data, payload()[len(data):])); err != nil {
				return err
			}
		}
		return nil
	})
	for range cap(f.flight) {
		f.flight <- struct{}{}
	}
	return err
}

func (f *flowing) deliver(data []byte) {
	took := time.Since(f.began) - time.Duration(binary.BigEndian.Uint64(data))
	f.mu.Lock()
	f.took = append(f.took, took)
	if len(f.took)%100 == 0 {
		f.Progress(len(f.took))
	}
	f.mu.Unlock()
}

// take takes up to a batch of items at once until ctx ends.
func (f *flowing) take(ctx context.Context, q *queue.Queue) error {
	for {
		items, err := q.TakeN(ctx, f.Int("batch", 1))
		for _, data := range items {
			f.deliver(data)
			<-f.flight
		}
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the taker was to end
		case err != nil:
			return err
		}
	}
}

// acknowledge acknowledges items, by so many workers, until ctx ends.
func (f *flowing) acknowledge(ctx context.Context, q *queue.Queue) error {
	workers := f.Int("workers", 1)
	c, err := q.Consume(&queue.ConsumeOptions{Prefetch: workers})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, c.Close)()
	return driver.Each(workers, func(int) error { //nolint:contextcheck // ctx has ended when the last items are acknowledged
		for item := range c.Items() {
			f.deliver(item.Data)
			if err := item.Ack(f.Context()); err != nil {
				return err
			}
			<-f.flight
		}
		return nil
	})
}
