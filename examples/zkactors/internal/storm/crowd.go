package storm

import (
	"fmt"
	"testing"
	"time"

	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// Crowd makes an example of each recipe on a server in memory, for pictures. They end with the
// test.
func Crowd(t *testing.T, srv *zktest.Server) {
	t.Helper()
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var all []*session.Session
	for range 12 {
		all = append(all, Open(t, srv.Addrs()))
	}
	holder, err := lock.Acquire(ctx, all[0], "/locks/backup", &lock.Options{Data: []byte("db-1:4711")})
	check(err)
	t.Cleanup(holder.Close)
	for i := 1; i < 8; i++ {
		l, err := lock.New(all[i], "/locks/backup", &lock.Options{Data: fmt.Appendf(nil, "db-%d:%d", i+1, 4711+i*13)})
		check(err)
		t.Cleanup(l.Close)
		<-l.Events() // it stands in line
	}
	for i := range 4 {
		l, err := lock.AcquireRead(ctx, all[i], "/locks/catalog", &lock.Options{Data: fmt.Appendf(nil, "shop-%d:80", i+1)})
		check(err)
		t.Cleanup(l.Close)
	}
	write, err := lock.NewWrite(all[5], "/locks/catalog", &lock.Options{Data: []byte("import:9000")})
	check(err)
	t.Cleanup(write.Close)
	check(lock.Revoke(ctx, all[9], "/locks/backup", nil))
	for i := range 5 {
		l, err := semaphore.New(all[i], "/limits/exports", 3, &semaphore.Options{Data: fmt.Appendf(nil, "export-%d", i+1)})
		check(err)
		t.Cleanup(l.Close)
		<-l.Events()
		candidate, err := election.Stand(ctx, all[i+3], "/leaders/scheduler", &election.Options{Data: fmt.Appendf(nil, "scheduler-%d:7000", i+1)})
		check(err)
		t.Cleanup(candidate.Close)
		if i == 0 {
			check(elected(ctx, candidate))
		}
	}
	q, err := queue.New(all[9], "/queues/mail", nil)
	check(err)
	for i := range 40 {
		_, err = q.Put(ctx, fmt.Appendf(nil, "mail %d", i))
		check(err)
	}
	consumer, err := q.Consume(&queue.ConsumeOptions{Prefetch: 2, Name: "mailer-1:25"})
	check(err)
	t.Cleanup(consumer.Close)
	<-consumer.Items()
	b, err := barrier.New(all[9], "/maintenance", nil)
	check(err)
	t.Cleanup(b.Close)
	check(b.Raise(ctx))
	for i := range 3 {
		m, err := group.Enroll(ctx, all[i], "/members", fmt.Sprintf("web-%d", i+1), fmt.Appendf(nil, "10.0.0.%d:443", i+1), nil)
		check(err)
		t.Cleanup(m.Close)
	}
	check(naming.Register(ctx, all[10], "/config", "pool-size", []byte("24"), nil))
	site, err := commit.Join(all[10], "/payments", "ledger", nil)
	check(err)
	t.Cleanup(site.Close)
	tx, err := commit.Begin(ctx, all[11], "/payments/order-1842", &commit.Options{Sites: []string{"ledger", "stock"}, Deadline: time.Hour})
	check(err)
	t.Cleanup(tx.Close)
}
