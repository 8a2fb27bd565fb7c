package primitives_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// TestWaitsNameServers: a call that waits while no server answers says which do not, and why,
// whether it holds something or not.
func TestWaitsNameServers(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		gate := w.OpenGated(session.Options{Timeout: 30 * time.Second})
		calls := waits(w, gate.Session)
		gate.Cut()
		for name, call := range calls {
			ctx, cancel := context.WithTimeout(w.Context(), 10*time.Millisecond)
			err := call(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || strings.Count(err.Error(), "(not connected: "+w.Addrs()[0]) != 1 {
				t.Errorf("%s: %v", name, err)
			}
		}
		gate.Mend()
	})
}

// waits returns the calls that wait, by their names, of handles that hold something if they can.
func waits(w kit.World, s *session.Session) map[string]func(context.Context) error {
	ctx := w.Context()
	held := check.Have(lock.Acquire(ctx, s, "/lock", nil))(w)
	writer := check.Have(lock.AcquireWrite(ctx, s, "/writer", nil))(w)
	all := check.Have(lock.AcquireAll(ctx, s, []lock.Want{{Path: "/a"}, {Path: "/b"}}, nil))(w)
	mutex := check.Have(lock.NewMutex(s, "/mutex", nil))(w)
	check.OK(w, mutex.Lock(ctx))
	lease := check.Have(semaphore.Acquire(ctx, s, "/semaphore", 1, nil))(w)
	candidates := map[string]*election.Candidate{}
	for _, path := range []string{"/acknowledges", "/resigns", "/transfers"} {
		c := check.Open(election.New(s, path, nil))(w)
		zktest.Await(w, c.Events(), is[election.Elected, election.Event])
		candidates[path] = c
	}
	double := check.Open(barrier.NewDouble(s, "/double", 1, nil))(w)
	check.OK(w, double.Enter(ctx))
	outside := check.Open(barrier.NewDouble(s, "/outside", 2, nil))(w)
	bar := check.Open(barrier.New(s, "/barrier", nil))(w)
	check.OK(w, bar.Raise(ctx))
	gated := check.Open(barrier.New(s, "/gate", nil))(w)
	lift := check.Have(gated.TryRaise(ctx))(w)
	q := check.Have(queue.New(s, "/queue", nil))(w)
	check.Have(q.PutAll(ctx, [][]byte{[]byte("a"), []byte("b")}))(w)
	consumer := check.Open(q.Consume(&queue.ConsumeOptions{Prefetch: 2}))(w)
	acked, rejected := <-consumer.Items(), <-consumer.Items()
	value := check.Open(config.Open(s, "/value", config.Text, nil))(w)
	check.OK(w, value.Set(ctx, "a"))
	member := check.Have(group.Enroll(ctx, s, "/group", "a", nil, nil))(w)
	name := check.Open(naming.Keep(s, "/names", "a", nil, nil))(w)
	zktest.Await(w, name.Events(), nil)
	shards := check.Open(shard.Join(s, "/shards", 1, &shard.Options{ID: "a"}))(w)
	zktest.Await(w, shards.Events(), is[shard.Assigned, shard.Event])
	weighed := check.Open(shard.Join(s, "/others", 1, &shard.Options{ID: "a"}))(w)
	zktest.Await(w, weighed.Events(), is[shard.Assigned, shard.Event])
	first, other := discovery.Instance{Service: "web", ID: "a"}, discovery.Instance{Service: "web", ID: "b"}
	instance := check.Have(discovery.Announce(ctx, s, "/services", first, nil))(w)
	site := check.Open(commit.Join(s, "/transactions", "a", nil))(w)
	begun := check.Open(commit.Begin(ctx, s, "/transactions/1", &commit.Options{Sites: []string{"a"}}))(w)
	tx := zktest.Await(w, site.Events(), is[commit.Prepare, commit.Event]).(commit.Prepare).Tx
	latch := check.Open(barrier.NewLatch(s, "/latch", 2))(w)
	check.OK(w, latch.Arrive(ctx, "a"))
	return map[string]func(context.Context) error{
		"lock.Acquire":          of(func(ctx context.Context) (any, error) { return lock.Acquire(ctx, s, "/lock", nil) }),
		"lock.TryAcquire":       of(func(ctx context.Context) (any, error) { return lock.TryAcquire(ctx, s, "/free", nil) }),
		"lock.Revoke":           func(ctx context.Context) error { return lock.Revoke(ctx, s, "/lock", nil) },
		"lock.Once":             of(func(ctx context.Context) (any, error) { return lock.Once(ctx, s, "/once", nil, nothing) }),
		"Lock.Release":          held.Release,
		"Lock.Downgrade":        writer.Downgrade,
		"All.Release":           all.Release,
		"Mutex.Unlock":          mutex.Unlock,
		"semaphore.Acquire":     of(func(ctx context.Context) (any, error) { return semaphore.Acquire(ctx, s, "/semaphore", 1, nil) }),
		"semaphore.SetLimit":    func(ctx context.Context) error { return semaphore.SetLimit(ctx, s, "/semaphore", 2) },
		"Lease.Release":         lease.Release,
		"election.Stand":        of(func(ctx context.Context) (any, error) { return election.Stand(ctx, s, "/acknowledges", nil) }),
		"Candidate.Acknowledge": candidates["/acknowledges"].Acknowledge,
		"Candidate.Resign":      candidates["/resigns"].Resign,
		"Candidate.Transfer": func(ctx context.Context) error {
			return candidates["/transfers"].Transfer(ctx, "/transfers/candidates/_c_00000000-0000-4000-8000-000000000000-n_0000000009")
		},
		"Double.Enter":    outside.Enter,
		"Double.Leave":    double.Leave,
		"Barrier.Wait":    bar.Wait,
		"Barrier.Lift":    bar.Lift,
		"Gate.Lift":       lift.Lift,
		"Latch.Arrive":    func(ctx context.Context) error { return latch.Arrive(ctx, "b") },
		"Latch.CountDown": latch.CountDown,
		"Latch.Left":      of(func(ctx context.Context) (any, error) { return latch.Left(ctx) }),
		"Latch.Wait":      latch.Wait,
		"Queue.Put":       of(func(ctx context.Context) (any, error) { return q.Put(ctx, []byte("c")) }),
		"Queue.Take":      of(func(ctx context.Context) (any, error) { return q.Take(ctx) }),
		"Queue.TryTake":   of(func(ctx context.Context) (any, error) { return q.TryTake(ctx) }),
		"Queue.Len":       of(func(ctx context.Context) (any, error) { return q.Len(ctx) }),
		"Queue.Pause":     q.Pause,
		"Queue.Drain":     q.Drain,
		"Queue.Run": func(ctx context.Context) error {
			return q.Run(ctx, 1, func(context.Context, queue.Item) error { return nil })
		},
		"Item.Ack":    acked.Ack,
		"Item.Reject": rejected.Reject,
		"Value.Set":   func(ctx context.Context) error { return value.Set(ctx, "b") },
		"Value.Update": func(ctx context.Context) error {
			return value.Update(ctx, func(s string) (string, error) { return s + "c", nil })
		},
		"group.Enroll":                      of(func(ctx context.Context) (any, error) { return group.Enroll(ctx, s, "/group", "b", nil, nil) }),
		"Membership.Update":                 func(ctx context.Context) error { return member.Update(ctx, []byte("b")) },
		"Membership.Leave":                  member.Leave,
		"naming.Register":                   func(ctx context.Context) error { return naming.Register(ctx, s, "/names", "b", nil, nil) },
		"naming.Unregister":                 func(ctx context.Context) error { return naming.Unregister(ctx, s, "/names", "a") },
		"naming.Lookup":                     of(func(ctx context.Context) (any, error) { return naming.Lookup(ctx, s, "/names", "a") }),
		"naming.Registration.Update":        func(ctx context.Context) error { return name.Update(ctx, []byte("b")) },
		"Member.SetWeight":                  func(ctx context.Context) error { return weighed.SetWeight(ctx, 2) },
		"Member.Leave":                      shards.Leave,
		"discovery.Announce":                of(func(ctx context.Context) (any, error) { return discovery.Announce(ctx, s, "/services", other, nil) }),
		"discovery.Registration.Update":     func(ctx context.Context) error { return instance.Update(ctx, first) },
		"discovery.Registration.Unregister": instance.Unregister,
		"commit.Begin": of(func(ctx context.Context) (any, error) {
			return commit.Begin(ctx, s, "/transactions/2", &commit.Options{Sites: []string{"a"}})
		}),
		"Participant.Vote": func(ctx context.Context) error { return site.Vote(ctx, tx, commit.Yes) },
		"Transaction.Wait": of(func(ctx context.Context) (any, error) { return begun.Wait(ctx) }),
		"watch.UntilGone":  func(ctx context.Context) error { return watch.UntilGone(ctx, s, "/lock") },
	}
}

func nothing(context.Context, int64) ([]byte, error) { return nil, nil }

// of drops the result of a call that fails.
func of(call func(context.Context) (any, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := call(ctx)
		return err
	}
}

func is[E, Event any](ev Event) bool {
	_, is := any(ev).(E)
	return is
}
