package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// An attempt is a call with one bad argument, and the word by which its error has to name that.
type attempt struct {
	call, word string
	do         func() error
}

// A function is one of the public API that takes a context, if it blocks, a session and a path.
type function struct {
	name   string
	blocks bool
	do     func(ctx context.Context, s *session.Session, path string) error
}

// with drops the result of a call.
func with[T any](_ T, err error) error { return err }

func nothing(context.Context, int64) error { return nil }

func functions() []function {
	sites := &commit.Options{Sites: []string{"a"}}
	return []function{
		{"lock.New", false, func(_ context.Context, s *session.Session, p string) error { return with(lock.New(s, p, nil)) }},
		{"lock.NewRead", false, func(_ context.Context, s *session.Session, p string) error { return with(lock.NewRead(s, p, nil)) }},
		{"lock.NewWrite", false, func(_ context.Context, s *session.Session, p string) error { return with(lock.NewWrite(s, p, nil)) }},
		{"lock.NewMutex", false, func(_ context.Context, s *session.Session, p string) error { return with(lock.NewMutex(s, p, nil)) }},
		{"lock.NewReentrantMutex", false, func(_ context.Context, s *session.Session, p string) error {
			return with(lock.NewReentrantMutex(s, p, nil))
		}},
		{"lock.Acquire", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(lock.Acquire(ctx, s, p, nil))
		}},
		{"lock.AcquireRead", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(lock.AcquireRead(ctx, s, p, nil))
		}},
		{"lock.AcquireWrite", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(lock.AcquireWrite(ctx, s, p, nil))
		}},
		{"lock.TryAcquire", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(lock.TryAcquire(ctx, s, p, nil))
		}},
		{"lock.Do", true, func(ctx context.Context, s *session.Session, p string) error { return lock.Do(ctx, s, p, nil, nothing) }},
		{"lock.Contenders", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(lock.Contenders(ctx, s, p, nil))
		}},
		{"lock.Revoke", true, func(ctx context.Context, s *session.Session, p string) error { return lock.Revoke(ctx, s, p, nil) }},
		{"semaphore.New", false, func(_ context.Context, s *session.Session, p string) error { return with(semaphore.New(s, p, 1, nil)) }},
		{"semaphore.Acquire", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(semaphore.Acquire(ctx, s, p, 1, nil))
		}},
		{"semaphore.TryAcquire", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(semaphore.TryAcquire(ctx, s, p, 1, nil))
		}},
		{"semaphore.Do", true, func(ctx context.Context, s *session.Session, p string) error {
			return semaphore.Do(ctx, s, p, 1, nil, func(context.Context) error { return nil })
		}},
		{"semaphore.Limit", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(semaphore.Limit(ctx, s, p))
		}},
		{"semaphore.SetLimit", true, func(ctx context.Context, s *session.Session, p string) error {
			return semaphore.SetLimit(ctx, s, p, 1)
		}},
		{"semaphore.Holders", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(semaphore.Holders(ctx, s, p))
		}},
		{"election.New", false, func(_ context.Context, s *session.Session, p string) error { return with(election.New(s, p, nil)) }},
		{"election.Stand", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(election.Stand(ctx, s, p, nil))
		}},
		{"election.Observe", false, func(_ context.Context, s *session.Session, p string) error { return with(election.Observe(s, p, nil)) }},
		{"election.Candidates", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(election.Candidates(ctx, s, p, nil))
		}},
		{"barrier.New", false, func(_ context.Context, s *session.Session, p string) error { return with(barrier.New(s, p, nil)) }},
		{"barrier.NewDouble", false, func(_ context.Context, s *session.Session, p string) error {
			return with(barrier.NewDouble(s, p, 2, nil))
		}},
		{"queue.New", false, func(_ context.Context, s *session.Session, p string) error { return with(queue.New(s, p, nil)) }},
		{"queue.NewFlat", false, func(_ context.Context, s *session.Session, p string) error {
			return with(queue.NewFlat(s, p, queue.Curator, nil))
		}},
		{"queue.NewPriority", false, func(_ context.Context, s *session.Session, p string) error { return with(queue.NewPriority(s, p, nil)) }},
		{"commit.Join", false, func(_ context.Context, s *session.Session, p string) error { return with(commit.Join(s, p, "a", nil)) }},
		{"commit.Begin", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(commit.Begin(ctx, s, p, sites))
		}},
		{"commit.List", true, func(ctx context.Context, s *session.Session, p string) error { return with(commit.List(ctx, s, p)) }},
		{"commit.Retire", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(commit.Retire(ctx, s, p, "a"))
		}},
		{"commit.Resume", true, func(ctx context.Context, s *session.Session, p string) error { return with(commit.Resume(ctx, s, p)) }},
		{"config.Open", false, func(_ context.Context, s *session.Session, p string) error {
			return with(config.Open(s, p, config.Text, nil))
		}},
		{"group.Join", false, func(_ context.Context, s *session.Session, p string) error {
			return with(group.Join(s, p, "a", nil, nil))
		}},
		{"group.Enroll", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(group.Enroll(ctx, s, p, "a", nil, nil))
		}},
		{"group.Watch", false, func(_ context.Context, s *session.Session, p string) error { return with(group.Watch(s, p, nil)) }},
		{"naming.Keep", false, func(_ context.Context, s *session.Session, p string) error {
			return with(naming.Keep(s, p, "a", nil, nil))
		}},
		{"naming.Register", true, func(ctx context.Context, s *session.Session, p string) error {
			return naming.Register(ctx, s, p, "a", nil, nil)
		}},
		{"naming.Lookup", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(naming.Lookup(ctx, s, p, "a"))
		}},
		{"naming.List", true, func(ctx context.Context, s *session.Session, p string) error { return with(naming.List(ctx, s, p)) }},
		{"naming.Unregister", true, func(ctx context.Context, s *session.Session, p string) error {
			return naming.Unregister(ctx, s, p, "a")
		}},
		{"config.NewTransactor", false, func(_ context.Context, s *session.Session, p string) error {
			return with(config.NewTransactor(s, p, nil))
		}},
		{"lock.Once", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(lock.Once(ctx, s, p, nil, func(context.Context, int64) ([]byte, error) { return nil, nil }))
		}},
		{"lock.Outcome", true, func(ctx context.Context, s *session.Session, p string) error {
			_, _, err := lock.Outcome(ctx, s, p)
			return err
		}},
		{"barrier.NewLatch", false, func(_ context.Context, s *session.Session, p string) error { return with(barrier.NewLatch(s, p, 1)) }},
		{"shard.Join", false, func(_ context.Context, s *session.Session, p string) error { return with(shard.Join(s, p, 1, nil)) }},
		{"shard.Planned", true, func(ctx context.Context, s *session.Session, p string) error { return with(shard.Planned(ctx, s, p)) }},
		{"discovery.Register", false, func(_ context.Context, s *session.Session, p string) error {
			return with(discovery.Register(s, p, discovery.Instance{Service: "a"}, nil))
		}},
		{"discovery.Announce", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(discovery.Announce(ctx, s, p, discovery.Instance{Service: "a"}, nil))
		}},
		{"discovery.Publish", true, func(ctx context.Context, s *session.Session, p string) error {
			return discovery.Publish(ctx, s, p, discovery.Instance{Service: "a", ID: "b"}, nil)
		}},
		{"discovery.Withdraw", true, func(ctx context.Context, s *session.Session, p string) error {
			return discovery.Withdraw(ctx, s, p, "a", "b")
		}},
		{"discovery.Services", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(discovery.Services(ctx, s, p))
		}},
		{"discovery.Watch", false, func(_ context.Context, s *session.Session, p string) error {
			return with(discovery.Watch(s, p, "a", nil))
		}},
		{"naming.Watch", false, func(_ context.Context, s *session.Session, p string) error { return with(naming.Watch(s, p, "a", nil)) }},
		{"watch.Node", false, func(_ context.Context, s *session.Session, p string) error { return with(watch.Node(s, p, nil)) }},
		{"watch.Children", false, func(_ context.Context, s *session.Session, p string) error { return with(watch.Children(s, p, nil)) }},
		{"watch.Value", false, func(_ context.Context, s *session.Session, p string) error {
			return with(watch.Value(s, p, watch.Text, nil))
		}},
		{"watch.Tree", false, func(_ context.Context, s *session.Session, p string) error { return with(watch.Tree(s, p, nil)) }},
		{"inspect.Look", true, func(ctx context.Context, s *session.Session, p string) error {
			return with(inspect.Look(ctx, s, p, nil))
		}},
		{"inspect.Watch", false, func(_ context.Context, s *session.Session, p string) error { return with(inspect.Watch(s, p, nil)) }},
		{"inspect.Break", true, func(ctx context.Context, s *session.Session, p string) error {
			return inspect.Break(ctx, s, inspect.Contender{Node: p})
		}},
		{"watch.UntilExists", true, watch.UntilExists},
		{"watch.UntilGone", true, watch.UntilGone},
	}
}

// methods returns calls of every method of a handle that takes a context, without one, and calls
// with other bad arguments.
func methods(t *testing.T, s *session.Session) (all []attempt) {
	t.Helper()
	var none context.Context
	add := func(call string, do func() error) { all = append(all, attempt{call, "ctx", do}) }
	must := func(err error) {
		t.Helper()
		check.Must(t, err)
	}
	ctx := t.Context()

	l, err := lock.AcquireWrite(ctx, s, "/lock", nil)
	must(err)
	t.Cleanup(l.Close)
	m, err := lock.NewMutex(s, "/mutex", nil)
	must(err)
	add("Lock.Release", func() error { return l.Release(none) })
	add("Lock.Downgrade", func() error { return l.Downgrade(none) })
	add("Mutex.Lock", func() error { return m.Lock(none) })
	add("Mutex.TryLock", func() error { return m.TryLock(none) })
	add("Mutex.Unlock", func() error { return m.Unlock(none) })
	derived := func(call string, derive func(context.Context) (context.Context, context.CancelFunc)) {
		all = append(all, attempt{call, "parent", func() error {
			ctx, cancel := derive(none)
			defer cancel()
			return context.Cause(ctx)
		}})
	}
	locked, err := lock.NewMutex(s, "/locked", nil)
	must(err)
	must(locked.Lock(ctx))
	t.Cleanup(func() { _ = locked.Unlock(context.Background()) })
	derived("Lock.Context", l.Context)
	derived("Mutex.Context", locked.Context)
	derived("Mutex.Context, unlocked", m.Context)

	lease, err := semaphore.Acquire(ctx, s, "/semaphore", 1, nil)
	must(err)
	t.Cleanup(lease.Close)
	add("Lease.Release", func() error { return lease.Release(none) })
	derived("Lease.Context", lease.Context)

	c, err := election.Stand(ctx, s, "/election", nil)
	must(err)
	t.Cleanup(c.Close)
	add("Candidate.Acknowledge", func() error { return c.Acknowledge(none) })
	add("Candidate.Resign", func() error { return c.Resign(none) })
	add("Candidate.Transfer", func() error {
		return c.Transfer(none, znode.Join("/election/candidates", "_c_00000000-0000-4000-8000-000000000000-n_0000000000"))
	})
	add("Candidate.Lead", func() error { return c.Lead(none, nothing) })

	b, err := barrier.New(s, "/barrier", nil)
	must(err)
	t.Cleanup(b.Close)
	g, err := b.TryRaise(ctx)
	must(err)
	d, err := barrier.NewDouble(s, "/double", 1, nil)
	must(err)
	t.Cleanup(d.Close)
	latch, err := barrier.NewLatch(s, "/latch", 1)
	must(err)
	t.Cleanup(latch.Close)
	add("Latch.Arrive", func() error { return latch.Arrive(none, "a") })
	add("Latch.CountDown", func() error { return latch.CountDown(none) })
	add("Latch.Wait", func() error { return latch.Wait(none) })
	add("Latch.Left", func() error { return with(latch.Left(none)) })
	add("Barrier.Raise", func() error { return b.Raise(none) })
	add("Barrier.TryRaise", func() error { return with(b.TryRaise(none)) })
	add("Barrier.Lift", func() error { return b.Lift(none) })
	add("Barrier.Wait", func() error { return b.Wait(none) })
	add("Gate.Lift", func() error { return g.Lift(none) })
	add("Double.Enter", func() error { return d.Enter(none) })
	add("Double.Leave", func() error { return d.Leave(none) })

	v, err := config.Open(s, "/config", config.Text, &config.Options{Sync: true})
	must(err)
	t.Cleanup(v.Close)
	transactor, err := config.NewTransactor(s, "/configs", nil)
	must(err)
	t.Cleanup(transactor.Close)
	add("Transactor.Do", func() error { return transactor.Do(none, func(*config.Tx) error { return nil }) })
	add("Value.Get", func() error { _, _, err := v.Get(none); return err })
	add("Value.Set", func() error { return v.Set(none, "a") })
	add("Value.Update", func() error { return v.Update(none, func(old string) (string, error) { return old, nil }) })

	member, err := group.Enroll(ctx, s, "/group", "a", nil, nil)
	must(err)
	t.Cleanup(member.Close)
	add("Membership.Update", func() error { return member.Update(none, nil) })
	add("Membership.Leave", func() error { return member.Leave(none) })
	name, err := naming.Keep(s, "/naming", "a", nil, nil)
	must(err)
	t.Cleanup(name.Close)
	add("Registration.Update", func() error { return name.Update(none, nil) })
	instance, err := discovery.Announce(ctx, s, "/discovery", discovery.Instance{Service: "a"}, nil)
	must(err)
	t.Cleanup(instance.Close)
	add("discovery.Registration.Update", func() error { return instance.Update(none, instance.Instance()) })
	add("discovery.Registration.Unregister", func() error { return instance.Unregister(none) })
	owner, err := shard.Join(s, "/shards", 1, nil)
	must(err)
	t.Cleanup(owner.Close)
	add("shard.Member.SetWeight", func() error { return owner.SetWeight(none, 1) })
	add("shard.Member.Leave", func() error { return owner.Leave(none) })

	p, err := commit.Join(s, "/commit", "a", nil)
	must(err)
	t.Cleanup(p.Close)
	tx, err := commit.Begin(ctx, s, "/commit/a", &commit.Options{Sites: []string{"a"}})
	must(err)
	t.Cleanup(tx.Close)
	add("Participant.Vote", func() error { return p.Vote(none, tx.Tx(), commit.Yes) })
	add("Participant.Finish", func() error { return p.Finish(none, tx.Tx()) })
	add("Transaction.Wait", func() error { return with(tx.Wait(none)) })

	q, err := queue.New(s, "/queue", nil)
	must(err)
	t.Cleanup(func() { _ = q.Close(context.Background()) })
	pq, err := queue.NewPriority(s, "/priorities", nil)
	must(err)
	t.Cleanup(func() { _ = pq.Close(context.Background()) })
	must(with(q.Put(ctx, []byte("a"))))
	consumer, err := q.Consume(nil)
	must(err)
	t.Cleanup(consumer.Close)
	item := <-consumer.Items()
	add("Queue.Put", func() error { return with(q.Put(none, nil)) })
	add("Queue.PutAfter", func() error { return with(q.PutAfter(none, nil, time.Second)) })
	add("Queue.PutAll", func() error { return with(q.PutAll(none, [][]byte{nil})) })
	add("Queue.PutOnce", func() error { return with(q.PutOnce(none, "", nil)) })
	add("Priority.PutOnce", func() error { return with(pq.PutOnce(none, "", nil, 1)) })
	add("Priority.Put", func() error { return with(pq.Put(none, nil, 1)) })
	add("Priority.PutAfter", func() error { return with(pq.PutAfter(none, nil, 1, time.Second)) })
	add("Priority.PutAll", func() error { return with(pq.PutAll(none, [][]byte{nil}, 1)) })
	add("Queue.Take", func() error { return with(q.Take(none)) })
	add("Queue.TryTake", func() error { return with(q.TryTake(none)) })
	add("Queue.TakeN", func() error { return with(q.TakeN(none, 1)) })
	add("Queue.Peek", func() error { return with(q.Peek(none)) })
	add("Queue.Len", func() error { return with(q.Len(none)) })
	add("Queue.Run", func() error { return q.Run(none, 1, func(context.Context, queue.Item) error { return nil }) })
	add("Queue.Close", func() error { return q.Close(none) })
	flat, err := queue.NewFlat(s, "/flat", queue.Curator, nil)
	must(err)
	t.Cleanup(func() { _ = flat.Close(context.Background()) })
	add("Flat.Put", func() error { return with(flat.Put(none, nil)) })
	add("Flat.PutAll", func() error { return with(flat.PutAll(none, [][]byte{nil})) })
	add("Flat.Take", func() error { return with(flat.Take(none)) })
	add("Flat.TryTake", func() error { return with(flat.TryTake(none)) })
	add("Flat.Peek", func() error { return with(flat.Peek(none)) })
	add("Flat.Len", func() error { return with(flat.Len(none)) })
	add("Flat.Close", func() error { return flat.Close(none) })
	add("Item.Ack", func() error { return item.Ack(none) })
	add("Item.Reject", func() error { return item.Reject(none) })

	add("Session.Healthy", func() error { return s.Healthy(none) })
	add("Session.Await", func() error { return s.Await(none) })
	add("Session.Get", func() error { _, _, err := s.Get(none, "/a"); return err })
	add("Session.Set", func() error { return with(s.Set(none, "/a", nil, 0)) })
	add("Session.Create", func() error { return with(s.Create(none, "/a", nil, session.Persistent)) })
	add("Session.CreateWithACL", func() error { return with(s.CreateWithACL(none, "/a", nil, session.Persistent, session.WorldAll())) })
	add("Session.Delete", func() error { return s.Delete(none, "/a", 0) })
	add("Session.Exists", func() error { return with(s.Exists(none, "/a")) })
	add("Session.Children", func() error { _, _, err := s.Children(none, "/a"); return err })
	add("Session.Sync", func() error { return s.Sync(none, "/a") })
	add("Session.EnsurePath", func() error { return s.EnsurePath(none, "/a") })
	add("Session.Multi", func() error { return with(s.Multi(none, session.CheckOp("/a", 0))) })
	add("Session.GetACL", func() error { _, _, err := s.GetACL(none, "/a"); return err })
	add("Session.SetACL", func() error { return with(s.SetACL(none, "/a", session.WorldAll(), 0)) })
	bad := func(call, word string, do func() error) { all = append(all, attempt{call, word, do}) }
	large := make([]byte, 2<<20)
	work := func(context.Context, queue.Item) error { return nil }
	bad("Candidate.Lead", "f", func() error { return c.Lead(ctx, nil) })
	bad("Latch.Arrive", "name", func() error { return latch.Arrive(ctx, "\U0001F402") })
	bad("Candidate.Transfer", "node", func() error { return c.Transfer(ctx, "b") })
	bad("Value.Set", "value:", func() error { return v.Set(ctx, string(large)) })
	bad("Value.Update", "f", func() error { return v.Update(ctx, nil) })
	bad("Membership.Update", "data:", func() error { return member.Update(ctx, large) })
	bad("Registration.Update", "data:", func() error { return name.Update(ctx, large) })
	bad("Participant.Vote", "vote", func() error { return p.Vote(ctx, tx.Tx(), 9) })
	bad("Participant.VoteWith", "data:", func() error { return p.VoteWith(ctx, tx.Tx(), commit.Yes, large) })
	bad("Queue.Put", "data of item 0", func() error { return with(q.Put(ctx, large)) })
	bad("Queue.PutAfter", "data of item 0", func() error { return with(q.PutAfter(ctx, large, time.Second)) })
	bad("Queue.PutAll", "data of item 0", func() error { return with(q.PutAll(ctx, [][]byte{large})) })
	bad("Queue.PutOnce", "data", func() error { return with(q.PutOnce(ctx, "key", large)) })
	bad("Queue.PutOnce without a key", "key", func() error { return with(q.PutOnce(ctx, "", []byte("a"))) })
	bad("Queue.PutOnce with a long key", "key", func() error { return with(q.PutOnce(ctx, strings.Repeat("a", 513), []byte("a"))) })
	bad("Priority.PutOnce", "key", func() error { return with(pq.PutOnce(ctx, "\xff", []byte("a"), 1)) })
	bad("Priority.Put", "data of item 0", func() error { return with(pq.Put(ctx, large, 1)) })
	bad("Priority.PutAfter", "data of item 0", func() error { return with(pq.PutAfter(ctx, large, 1, time.Second)) })
	bad("Queue.Run", "workers", func() error { return q.Run(ctx, 0, work) })
	bad("Queue.Run", "f", func() error { return q.Run(ctx, 1, nil) })
	bad("Queue.Consume", "Prefetch", func() error { return with(q.Consume(&queue.ConsumeOptions{Prefetch: -1})) })
	bad("Queue.Consume", "Readers", func() error { return with(q.Consume(&queue.ConsumeOptions{Readers: -1})) })
	bad("Queue.Consume", "Readers", func() error { return with(q.Consume(&queue.ConsumeOptions{Readers: 2, Prefetch: 1})) })
	bad("Queue.Consume", "Backoff", func() error { return with(q.Consume(&queue.ConsumeOptions{Backoff: queue.Backoff{Most: -1}})) })
	bad("Queue.Consume", "Name", func() error { return with(q.Consume(&queue.ConsumeOptions{Name: string(large)})) })
	bad("Item.Ack of the zero one", "Item", func() error { return queue.Item{}.Ack(ctx) })
	bad("Item.AckWith of the zero one", "Item", func() error { return queue.Item{}.AckWith(ctx) })
	bad("Item.Reject of the zero one", "Item", func() error { return queue.Item{}.Reject(ctx) })
	bad("Item.RejectAfter of the zero one", "Item", func() error { return queue.Item{}.RejectAfter(ctx, 0, nil) })
	return all
}

// TestMethods: no method panics without a context, or with another bad argument: each returns an
// error that names it, at once, and asks the server for nothing. The contexts of the methods called
// Context have ended with that error.
func TestMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.InProcess())
		s := check.Have(session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext}))(t)
		t.Cleanup(s.Close)
		all := methods(t, s)
		synctest.Wait()
		srv.ResetRequests()
		for _, a := range all {
			err := refused(a.do)
			sentinel := errors.Is(err, session.ErrInvalidArgument) || errors.Is(err, session.ErrInvalidPath) || errors.Is(err, session.ErrTooLarge)
			if !sentinel || !strings.Contains(err.Error(), a.word) || len(err.Error()) > 1000 {
				t.Errorf("%s: %.1100v", a.call, err)
			}
		}
		synctest.Wait()
		if n := srv.Requests().Total(); n > 0 {
			t.Error("requests:", srv.Requests())
		}
	})
}

// options are attempts with arguments that only one function has.
func options(soon func() context.Context, s *session.Session) []attempt {
	open := func(o session.Options) func() error {
		return func() error { return with(session.Open(soon(), []string{"localhost:2181"}, &o)) }
	}
	locks := func(o lock.Options) func() error { return func() error { return with(lock.New(s, "/a", &o)) } }
	leases := func(limit int, o semaphore.Options) func() error {
		return func() error { return with(semaphore.New(s, "/a", limit, &o)) }
	}
	register := func(o discovery.Options) func() error {
		return func() error { return with(discovery.Register(s, "/a", discovery.Instance{Service: "b"}, &o)) }
	}
	member := func(o shard.Options) func() error { return func() error { return with(shard.Join(s, "/a", 1, &o)) } }
	large := make([]byte, 2<<20)
	const ox = "\U0001F402" // which Java has as two surrogates
	return []attempt{
		{"session.Open", "Chroot", open(session.Options{Chroot: "/" + ox})},
		{"session.ParseConnectString", "chroot", func() error { _, _, err := session.ParseConnectString("zk1/" + ox); return err }},
		{"barrier.NewDouble", "Name", func() error { return with(barrier.NewDouble(s, "/a", 1, &barrier.DoubleOptions{Name: ox})) }},
		{"queue.New", "DeadLetter", func() error { return with(queue.New(s, "/a", &queue.Options{MaxAttempts: 1, DeadLetter: "/" + ox})) }},
		{"commit.Begin", "Sites", func() error { return with(commit.Begin(soon(), s, "/a/b", &commit.Options{Sites: []string{ox}})) }},
		{"commit.Join", "site", func() error { return with(commit.Join(s, "/a", ox, nil)) }},
		{"commit.Retire", "site", func() error { return with(commit.Retire(soon(), s, "/a", ox)) }},
		{"config.Open", "Markers", func() error { return with(config.Open(s, "/a", config.Text, &config.Options{Markers: "/" + ox})) }},
		{"group.Join", "id: ", func() error { return with(group.Join(s, "/a", ox, nil, nil)) }},
		{"group.Enroll", "id: ", func() error { return with(group.Enroll(soon(), s, "/a", ox, nil, nil)) }},
		{"naming.Keep", "name \"", func() error { return with(naming.Keep(s, "/a", ox, nil, nil)) }},
		{"naming.Register", "name \"", func() error { return naming.Register(soon(), s, "/a", ox, nil, nil) }},
		{"naming.Lookup", "name \"", func() error { return with(naming.Lookup(soon(), s, "/a", ox)) }},
		{"naming.Unregister", "name \"", func() error { return naming.Unregister(soon(), s, "/a", ox) }},
		{"naming.Watch", "name \"", func() error { return with(naming.Watch(s, "/a", ox, nil)) }},
		{"discovery.Register", "Service", func() error { return with(discovery.Register(s, "/a", discovery.Instance{Service: ox}, nil)) }},
		{"discovery.Register", "ID", func() error { return with(discovery.Register(s, "/a", discovery.Instance{Service: "b", ID: ox}, nil)) }},
		{"discovery.Publish", "ID", func() error { return discovery.Publish(soon(), s, "/a", discovery.Instance{Service: "b", ID: ox}, nil) }},
		{"discovery.Withdraw", "service", func() error { return discovery.Withdraw(soon(), s, "/a", ox, "b") }},
		{"discovery.Withdraw", "id: ", func() error { return discovery.Withdraw(soon(), s, "/a", "b", ox) }},
		{"discovery.Watch", "service", func() error { return with(discovery.Watch(s, "/a", ox, nil)) }},
		{"shard.Join", "ID", member(shard.Options{ID: ox})},
		{"session.Open of none", "servers", func() error { return with(session.Open(soon(), nil, nil)) }},
		{"session.Open of an empty one", "servers", func() error { return with(session.Open(soon(), []string{""}, nil)) }},
		{"session.Start of none", "servers", func() error { return with(session.Start(nil, nil)) }},
		{"session.Open", "Timeout", open(session.Options{Timeout: -1})},
		{"session.Open", "ServerTick", open(session.Options{ServerTick: -1})},
		{"session.Open", "Chroot", open(session.Options{Chroot: "a"})},
		{"session.Open", "CloseTimeout", open(session.Options{CloseTimeout: -1})},
		{"session.Open", "RequestTimeout", open(session.Options{RequestTimeout: -1})},
		{"session.Open", "MaxRequest", open(session.Options{MaxRequest: -1})},
		{"session.Open", "MaxReply", open(session.Options{MaxReply: -1})},
		{"session.Open", "Lease", open(session.Options{Lease: 7})},
		{"SetServers of none", "servers", func() error { return s.SetServers(nil) }},
		{"lock.New", "Layout", locks(lock.Options{Layout: 9})},
		{"lock.New", "Priority", locks(lock.Options{Priority: 1})},
		{"lock.New", "Priority", locks(lock.Options{Layout: lock.Prioritized, Priority: lock.HighestPriority + 1})},
		{"lock.New", "Preempt", locks(lock.Options{Preempt: true})},
		{"lock.New", "PreemptAfter", locks(lock.Options{Layout: lock.Prioritized, PreemptAfter: time.Second})},
		{"lock.New", "Delay", locks(lock.Options{Delay: -1})},
		{"lock.New", "Data", locks(lock.Options{Data: large})},
		{"lock.New", "Data", locks(lock.Options{Data: []byte("unlock")})},
		{"lock.Do", "f", func() error { return lock.Do(soon(), s, "/a", nil, nil) }},
		{"lock.Revoke", "ForceAfter", func() error { return lock.Revoke(soon(), s, "/a", &lock.RevokeOptions{ForceAfter: -1}) }},
		{"lock.RevokeNode", "node", func() error { return lock.RevokeNode(soon(), s, "/a/b", nil) }},
		{"semaphore.New", "limit", leases(0, semaphore.Options{})},
		{"semaphore.New", "limit", leases(-1, semaphore.Options{})},
		{"semaphore.New", "Weight", leases(2, semaphore.Options{Weight: 3})},
		{"semaphore.New", "Weight", leases(2, semaphore.Options{Weight: -1})},
		{"semaphore.New", "Data", leases(2, semaphore.Options{Data: large})},
		{"semaphore.SetLimit", "limit", func() error { return semaphore.SetLimit(soon(), s, "/a", 0) }},
		{"semaphore.Do", "f", func() error { return semaphore.Do(soon(), s, "/a", 1, nil, nil) }},
		{"election.New", "Layout", func() error { return with(election.New(s, "/a", &election.Options{Layout: 9})) }},
		{"election.New", "LeadGrace", func() error { return with(election.New(s, "/a", &election.Options{LeadGrace: -1})) }},
		{"election.New", "Data", func() error { return with(election.New(s, "/a", &election.Options{Data: large})) }},
		{"barrier.NewDouble", "parties", func() error { return with(barrier.NewDouble(s, "/a", 0, nil)) }},
		{"barrier.NewDouble", "Name", func() error { return with(barrier.NewDouble(s, "/a", 1, &barrier.DoubleOptions{Name: "a/b"})) }},
		{"queue.NewFlat", "layout", func() error { return with(queue.NewFlat(s, "/a", 9, nil)) }},
		{"queue.NewFlat", "Receipts", func() error { return with(queue.NewFlat(s, "/a", queue.Kazoo, &queue.FlatOptions{Receipts: "/a/b"})) }},
		{"queue.New", "DeadLetter", func() error { return with(queue.New(s, "/a", &queue.Options{MaxAttempts: 1, DeadLetter: "b"})) }},
		{"commit.Begin without sites", "Sites", func() error { return with(commit.Begin(soon(), s, "/a/b", nil)) }},
		{"commit.Begin with one twice", "Sites", func() error {
			return with(commit.Begin(soon(), s, "/a/b", &commit.Options{Sites: []string{"a", "a"}}))
		}},
		{"commit.Join", "site", func() error { return with(commit.Join(s, "/a", "", nil)) }},
		{"commit.Retire", "site", func() error { return with(commit.Retire(soon(), s, "/a", "")) }},
		{"inspect.Look", "Window", func() error { return with(inspect.Look(soon(), s, "/a", &inspect.Options{Window: -1})) }},
		{"inspect.Watch", "Pause", func() error { return with(inspect.Watch(s, "/a", &inspect.Options{Pause: -1})) }},
		{"config.Open", "codec", func() error { return with(config.Open[string](s, "/a", nil, nil)) }},
		{"watch.Value", "codec", func() error { return with(watch.Value[string](s, "/a", nil, nil)) }},
		{"group.Join", "id", func() error { return with(group.Join(s, "/a", "", nil, nil)) }},
		{"group.Join", "id", func() error { return with(group.Join(s, "/a", "b/c", nil, nil)) }},
		{"group.Join", "data:", func() error { return with(group.Join(s, "/a", "b", large, nil)) }},
		{"naming.Keep", "name", func() error { return with(naming.Keep(s, "/a", "", nil, nil)) }},
		{"naming.Register", "name", func() error { return naming.Register(soon(), s, "/a", "", nil, nil) }},
		{"naming.Register", "data:", func() error { return naming.Register(soon(), s, "/a", "b", large, nil) }},
		{"naming.Lookup", "name", func() error { return with(naming.Lookup(soon(), s, "/a", "")) }},

		{"session.Open with a bad port", "zk1:99999", func() error { return with(session.Open(soon(), []string{"zk1:99999"}, nil)) }},
		{"session.Open with two ports", "zk1:1:2", func() error { return with(session.Open(soon(), []string{"zk1:1:2"}, nil)) }},
		{"session.Open with a chroot", "zk1:2181/a", func() error { return with(session.Open(soon(), []string{"zk1:2181/a"}, nil)) }},
		{"SetServers", "zk1:x", func() error { return s.SetServers([]string{"localhost:2181", "zk1:x"}) }},
		{"session.Open", "Timeout", open(session.Options{Timeout: time.Microsecond})},
		{"session.Open", "Timeout", open(session.Options{Timeout: 100 * 24 * time.Hour})},
		{"session.Open", "ResolveEvery", open(session.Options{ResolveEvery: -1})},
		{"session.Open", "Auth", open(session.Options{Auth: []session.Auth{{}}})},
		{"session.Open", "Chroot", open(session.Options{Chroot: "/a/"})},
		{"session.Open", "ACL", open(session.Options{ACL: []session.ACL{{}}})},
		{"session.Open", "ACL", open(session.Options{ACL: []session.ACL{{Perms: 1 << 9, Scheme: "world", ID: "anyone"}}})},
		{"session.ParseConnectString", "zk1:x", func() error { _, _, err := session.ParseConnectString("zk1:x"); return err }},
		{"session.ParseConnectString", "servers", func() error { _, _, err := session.ParseConnectString(""); return err }},
		{"session.ParseConnectString", "path", func() error { _, _, err := session.ParseConnectString("zk1:2181/a/"); return err }},
		{"Session.Create", "mode", func() error { return with(s.Create(soon(), "/a", nil, 99)) }},
		{"Session.Create", "TTL", func() error { return with(s.Create(soon(), "/a", nil, session.TTL(0))) }},
		{"Session.Create", "TTL", func() error { return with(s.Create(soon(), "/a", nil, session.TTL(-time.Second))) }},
		{"Session.Create", "data", func() error { return with(s.Create(soon(), "/a", large, session.Persistent)) }},
		{"Session.Create", "path", func() error { return with(s.Create(soon(), "a", nil, session.Persistent)) }},
		{"Session.CreateWithACL", "acl", func() error { return with(s.CreateWithACL(soon(), "/a", nil, session.Persistent, nil)) }},
		{"Session.SetACL", "acl", func() error { return with(s.SetACL(soon(), "/a", nil, 0)) }},
		{"Session.Set", "data", func() error { return with(s.Set(soon(), "/a", large, 0)) }},
		{"Session.Multi of the zero one", "ops", func() error { return with(s.Multi(soon(), session.Op{})) }},
		{"Session.Multi", "path", func() error { return with(s.Multi(soon(), session.CheckOp("a", 0))) }},
		{"Session.Multi", "data", func() error { return with(s.Multi(soon(), session.SetOp("/a", large, 0))) }},
		{"lock.Contenders", "Layout", func() error { return with(lock.Contenders(soon(), s, "/a", &lock.Options{Layout: 9})) }},
		{"lock.Revoke", "Layout", func() error { return lock.Revoke(soon(), s, "/a", &lock.RevokeOptions{Layout: 9}) }},
		{"lock.RevokeNode", "node", func() error { return lock.RevokeNode(soon(), s, "", nil) }},
		{"lock.RevokeNode", "session", func() error { return lock.RevokeNode(soon(), nil, "/a/b", nil) }},
		{"lock.NewMutex", "Layout", func() error { return with(lock.NewMutex(s, "/a", &lock.Options{Layout: -1})) }},
		{"semaphore.New", "limit", leases(math.MaxInt32, semaphore.Options{})},
		{"semaphore.SetLimit", "limit", func() error { return semaphore.SetLimit(soon(), s, "/a", -1) }},
		{"election.Observe", "Layout", func() error { return with(election.Observe(s, "/a", &election.ObserveOptions{Layout: 9})) }},
		{"election.Candidates", "Layout", func() error { return with(election.Candidates(soon(), s, "/a", &election.ObserveOptions{Layout: 9})) }},
		{"barrier.NewDouble", "parties", func() error { return with(barrier.NewDouble(s, "/a", -1, nil)) }},
		{"barrier.NewDouble", "Name", func() error { return with(barrier.NewDouble(s, "/a", 1, &barrier.DoubleOptions{Name: "a\x00"})) }},
		{"queue.New", "MaxItems", func() error { return with(queue.New(s, "/a", &queue.Options{MaxItems: -1})) }},
		{"queue.New", "Backoff", func() error {
			return with(queue.New(s, "/a", &queue.Options{Backoff: queue.Backoff{First: 2, Most: 1}}))
		}},
		{"queue.New", "KeepKeys", func() error { return with(queue.New(s, "/a", &queue.Options{KeepKeys: -1})) }},
		{"queue.New", "RefuseWhenFull", func() error { return with(queue.New(s, "/a", &queue.Options{RefuseWhenFull: true})) }},
		{"queue.New", "DeadLetter", func() error { return with(queue.New(s, "/a", &queue.Options{MaxAttempts: 1, DeadLetter: "/a"})) }},
		{"commit.Begin", "Sites", func() error { return with(commit.Begin(soon(), s, "/a/b", &commit.Options{Sites: []string{""}})) }},
		{"commit.Begin", "Sites", func() error { return with(commit.Begin(soon(), s, "/a/b", &commit.Options{Sites: []string{"a/b"}})) }},
		{"commit.Begin", "Payload", func() error {
			return with(commit.Begin(soon(), s, "/a/b", &commit.Options{Sites: []string{"a"}, Payload: large}))
		}},
		{"commit.Begin", "Deadline", func() error {
			return with(commit.Begin(soon(), s, "/a/b", &commit.Options{Sites: []string{"a"}, Deadline: -1}))
		}},
		{"commit.Begin", "TakeoverAfter", func() error {
			return with(commit.Begin(soon(), s, "/a/b", &commit.Options{Sites: []string{"a"}, TakeoverAfter: -1}))
		}},
		{"commit.Begin", "Mode", func() error {
			return with(commit.Begin(soon(), s, "/a/b", &commit.Options{Sites: []string{"a"}, Mode: 9}))
		}},
		{"commit.Begin", "path", func() error { return with(commit.Begin(soon(), s, "/", &commit.Options{Sites: []string{"a"}})) }},
		{"commit.Join", "site", func() error { return with(commit.Join(s, "/a", "b/c", nil)) }},
		{"commit.Join", "ConflictAfter", func() error { return with(commit.Join(s, "/a", "b", &commit.JoinOptions{ConflictAfter: -1})) }},
		{"config.Open", "Markers", func() error { return with(config.Open(s, "/a", config.Text, &config.Options{Markers: "b"})) }},
		{"group.Join", "ConflictAfter", func() error { return with(group.Join(s, "/a", "b", nil, &group.Options{ConflictAfter: -1})) }},
		{"group.Join", "id", func() error { return with(group.Join(s, "/a", "..", nil, nil)) }},
		{"group.Join", "id", func() error { return with(group.Join(s, "/a", "\x00", nil, nil)) }},
		{"naming.Keep", "ConflictAfter", func() error { return with(naming.Keep(s, "/a", "b", nil, &naming.Options{ConflictAfter: -1})) }},
		{"group.Join", "Layout", func() error { return with(group.Join(s, "/a", "b", nil, &group.Options{Layout: 9})) }},
		{"group.Watch", "Layout", func() error { return with(group.Watch(s, "/a", &group.WatchOptions{Layout: 9})) }},
		{"discovery.Register", "Format", register(discovery.Options{Format: 9})},
		{"discovery.Register", "ConflictAfter", register(discovery.Options{ConflictAfter: -1})},
		{"discovery.Watch", "Format", func() error { return with(discovery.Watch(s, "/a", "b", &discovery.WatchOptions{Format: 9})) }},
		{"discovery.Watch", "FailureWindow", func() error { return with(discovery.Watch(s, "/a", "b", &discovery.WatchOptions{FailureWindow: -1})) }},
		{"shard.Join", "ID", member(shard.Options{ID: "a/b"})},
		{"shard.Join", "Weight", member(shard.Options{Weight: -1})},
		{"shard.Join", "Zone", member(shard.Options{Zone: "\xff"})},
		{"shard.Join", "GiveWithin", member(shard.Options{GiveWithin: -1})},
		{"shard.Join", "AtOnce", member(shard.Options{AtOnce: -1})},
		{"shard.Join", "ConflictAfter", member(shard.Options{ConflictAfter: -1})},
		{"shard.Join", "n:", func() error { return with(shard.Join(s, "/a", 0, nil)) }},
		{"naming.Unregister", "name", func() error { return naming.Unregister(soon(), s, "/a", "") }},
		{"naming.Watch", "name", func() error { return with(naming.Watch(s, "/a", "", nil)) }},
		{"watch.Tree", "Depth", func() error { return with(watch.Tree(s, "/a", &watch.TreeOptions{Depth: -1})) }},
		{"inspect.Look", "MaxNodes", func() error { return with(inspect.Look(soon(), s, "/a", &inspect.Options{MaxNodes: -1})) }},
		{"inspect.Look", "MaxWaiters", func() error { return with(inspect.Look(soon(), s, "/a", &inspect.Options{MaxWaiters: -1})) }},
		{"inspect.Watch", "MaxWatched", func() error { return with(inspect.Watch(s, "/a", &inspect.Options{MaxWatched: -1})) }},
		{"inspect.Break", "path", func() error { return inspect.Break(soon(), s, inspect.Contender{}) }},
		{"zktest.NewServer", "Replicas", func() error { return with(zktest.NewServer(zktest.Config{Replicas: -1})) }},
		{"zktest.NewServer", "Tick", func() error { return with(zktest.NewServer(zktest.Config{Tick: -1})) }},
		{"zktest.NewServer", "Latency", func() error { return with(zktest.NewServer(zktest.Config{Latency: -1})) }},
		{"zktest.NewServer", "Lag", func() error { return with(zktest.NewServer(zktest.Config{Lag: -1})) }},
		{"zktest.NewServer", "MaxTimeout", func() error { return with(zktest.NewServer(zktest.Config{MinTimeout: 2, MaxTimeout: 1})) }},
		{"zktest.NewServer", "Addr", func() error { return with(zktest.NewServer(zktest.Config{Addr: "a"})) }},
	}
}

// TestBadInput: every function refuses every bad argument at once, with an error that names it, and
// leaves nothing behind. In a bubble the clock stands still unless all wait: so a call that waits
// is seen, and so is a goroutine that is left.
func TestBadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.InProcess())
		s := check.Have(session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext}))(t)
		defer s.Close()
		closed := check.Have(session.Open(t.Context(), srv.Addrs(), &session.Options{Dialer: srv.DialContext}))(t)
		closed.Close()
		soon := func() context.Context { // is over when a call has waited
			ctx, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
			t.Cleanup(end)
			return ctx
		}
		attempts := options(soon, s)
		for _, f := range functions() {
			for _, path := range []string{"", "a", "/", "/a/", "/a//b", "/a/../b", "/a\x00", "/\U0001F402", "/zookeeper/a", "/" + strings.Repeat("x", 600_000)} {
				dir := slices.ContainsFunc([]string{"watch.", "inspect.", "discovery.", "config.NewTransactor", "commit.Begin"}, func(of string) bool { return strings.HasPrefix(f.name, of) })
				if path == "/" && dir { // there may be places of recipes below it
					continue
				}
				if (path == "/zookeeper/a" || len(path) > 1000) && (strings.HasPrefix(f.name, "watch.") || strings.HasPrefix(f.name, "inspect.")) { // what is there may be read
					continue
				}
				attempts = append(attempts, attempt{fmt.Sprintf("%s(%.20q)", f.name, path), "path", func() error { return f.do(soon(), s, path) }})
			}
			attempts = append(attempts, attempt{f.name, "session", func() error { return f.do(soon(), nil, "/a/b") }})
			attempts = append(attempts, attempt{f.name + " of a closed one", "session", func() error { return f.do(soon(), closed, "/a/b") }})
			if f.blocks {
				var none context.Context
				attempts = append(attempts, attempt{f.name, "ctx", func() error { return f.do(none, s, "/a/b") }})
			}
		}
		if len(attempts) < 100 {
			t.Error("there are", len(attempts))
		}
		synctest.Wait()
		srv.ResetRequests()
		for _, a := range attempts {
			begun := time.Now()
			switch err := refused(a.do); {
			case err == nil:
				t.Errorf("%s: nothing is wrong with %s", a.call, a.word)
			case !strings.Contains(err.Error(), a.word):
				t.Errorf("%s: no %s in %.300q", a.call, a.word, err)
			case len(err.Error()) > 1000:
				t.Errorf("%s: an error of %d bytes", a.call, len(err.Error()))
			}
			if took := time.Since(begun); took > 0 {
				t.Errorf("%s: %s is refused after %v", a.call, a.word, took)
			}
		}
		synctest.Wait()
		if n := srv.Requests().Total(); n > 0 || srv.Watches() > 0 {
			t.Error("requests:", srv.Requests(), "watches:", srv.Watches())
		}
	})
}

// TestServersDown: the error of every call that waits says which server does not answer, and why,
// when its context ends while there is no connection.
func TestServersDown(t *testing.T) {
	for _, f := range functions() {
		if !f.blocks {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.Start(t, zktest.InProcess())
				srv.Refuse(true)
				s, err := session.Start(srv.Addrs(), &session.Options{Dialer: srv.DialContext})
				check.Must(t, err)
				defer s.Close()
				ctx, end := context.WithTimeout(t.Context(), time.Second)
				defer end()
				err = f.do(ctx, s, "/a/b")
				if !errors.Is(err, context.DeadlineExceeded) || strings.Count(err.Error(), srv.Addrs()[0]) != 1 {
					t.Error(err)
				}
			})
		})
	}
}

// TestServersDownMeanwhile: so do the methods of handles.
func TestServersDownMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.InProcess())
		s := check.Have(session.Start(srv.Addrs(), &session.Options{Dialer: srv.DialContext}))(t)
		t.Cleanup(s.Close)
		all := waiting(t, s)
		synctest.Wait()
		srv.Refuse(true)
		srv.Disconnect(0)
		synctest.Wait()
		for call, do := range all {
			ctx, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) || strings.Count(err.Error(), srv.Addrs()[0]) != 1 {
				t.Errorf("%s: %v", call, err)
			}
			end()
		}
		srv.Refuse(false)
	})
}

// waiting returns calls of methods that wait.
func waiting(t *testing.T, s *session.Session) map[string]func(context.Context) error {
	t.Helper()
	must := func(err error) {
		t.Helper()
		check.Must(t, err)
	}
	m, err := lock.NewMutex(s, "/mutex", nil)
	must(err)
	b, err := barrier.New(s, "/barrier", nil)
	must(err)
	t.Cleanup(b.Close)
	d, err := barrier.NewDouble(s, "/double", 1, nil)
	must(err)
	t.Cleanup(d.Close)
	v, err := config.Open(s, "/config", config.Text, nil)
	must(err)
	t.Cleanup(v.Close)
	p, err := commit.Join(s, "/commit", "a", nil)
	must(err)
	t.Cleanup(p.Close)
	tx, err := commit.Begin(t.Context(), s, "/commit/a", &commit.Options{Sites: []string{"a"}})
	must(err)
	t.Cleanup(tx.Close)
	q, err := queue.New(s, "/queue", nil)
	must(err)
	t.Cleanup(func() { _ = q.Close(context.Background()) })
	c, err := election.Stand(t.Context(), s, "/election", nil)
	must(err)
	t.Cleanup(c.Close)
	return map[string]func(context.Context) error{
		"Mutex.Lock":       m.Lock,
		"Barrier.Raise":    b.Raise,
		"Barrier.TryRaise": func(ctx context.Context) error { return with(b.TryRaise(ctx)) },
		"Double.Enter":     d.Enter,
		"Value.Set":        func(ctx context.Context) error { return v.Set(ctx, "a") },
		"Participant.Vote": func(ctx context.Context) error { return p.Vote(ctx, tx.Tx(), commit.Yes) },
		"Transaction.Wait": func(ctx context.Context) error { return with(tx.Wait(ctx)) },
		"Queue.Put":        func(ctx context.Context) error { return with(q.Put(ctx, []byte("a"))) },
		"Queue.Take":       func(ctx context.Context) error { return with(q.Take(ctx)) },
		"Candidate.Lead":   func(ctx context.Context) error { return c.Lead(ctx, nothing) },
		"Session.Await":    s.Await,
		"Session.Exists":   func(ctx context.Context) error { return with(s.Exists(ctx, "/a")) },
	}
}

var errPanicked = errors.New("panicked")

// refused returns the error of a call, or that it panicked.
func refused(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanicked, r)
		}
	}()
	return call()
}
