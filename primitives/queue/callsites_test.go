package queue_test

import (
	"context"
	"errors"
	"time"

	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
)

// This file holds the promised call sites. It need only compile.

var _ = func(ctx context.Context, s *session.Session, jobs [][]byte, work func([]byte) error) error {
	q, err := queue.New(s, "/queues/jobs", nil)
	if err != nil {
		return err
	}
	id, err := q.Put(ctx, []byte("job"))
	ids, err2 := q.PutAll(ctx, jobs)
	data, err3 := q.Take(ctx)
	_, _, _ = id, ids, data
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	c, err := q.Consume(&queue.ConsumeOptions{Prefetch: 64})
	if err != nil {
		return err
	}
	defer c.Close()
	for item := range c.Items() {
		_, _, _, _ = item.ID, item.Data, item.Attempt, item.Priority
		if err := work(item.Data); err != nil {
			_ = item.Reject(ctx)
			continue
		}
		if err := item.Ack(ctx); err != nil {
			_ = errors.Is(err, queue.ErrNotClaimed)
		}
	}
	err = q.Run(ctx, 8, func(_ context.Context, item queue.Item) error { return work(item.Data) })
	id, errAfter := q.PutAfter(ctx, []byte("later"), time.Minute)
	again, errOnce := q.PutOnce(ctx, "order 17", []byte("once"))
	_, _, _ = id, again, errors.Is(errOnce, queue.ErrDuplicate)
	p, err4 := queue.NewPriority(s, "/queues/urgent", nil)
	_, err5 := p.Put(ctx, data, -5)
	_ = queue.Options{MaxAttempts: 5, DeadLetter: "/queues/dead", Ephemeral: false}
	n, err6 := q.Len(ctx)
	_ = n
	return errors.Join(err, errAfter, err4, err5, err6)
}
