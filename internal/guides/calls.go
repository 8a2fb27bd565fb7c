// Package guides tests the code of docs/guides and of the README. Each guide has a package below,
// whose directory is named after the page. Each block of Go of a page stands there word for word,
// and each call in the column "here" of a table stands in [Calls]: package policy compares them. So
// the code of the pages compiles. The tests of what the pages promise are here, in one program.
package guides

import (
	"context"
	"time"

	"github.com/zkactors/zkactors/primitives/barrier"
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
	"github.com/zkactors/zkactors/watch"
)

// Calls has the calls in the tables of the guides.
func Calls(ctx context.Context, s *session.Session, path string, data []byte, servers []string,
	l *lock.Lock, m *lock.Mutex, lease *semaphore.Lease, c *election.Candidate, b *barrier.Barrier,
	d *barrier.Double, q *queue.Queue, f *queue.Flat, v *config.Value[int64], tx *config.Transactor,
	work func(ctx context.Context, term int64) error,
) {
	s.Events(ctx)
	s.Multi(ctx, session.SetOp(path, data, session.AnyVersion))
	s.Multi(ctx, l.Guard(), session.SetOp(path, data, session.AnyVersion))
	s.Multi(ctx, c.Guard(), session.SetOp(path, data, session.AnyVersion))
	s.Create(ctx, path, data, session.Ephemeral)
	s.Get(ctx, path)
	s.Create(ctx, path, data, session.EphemeralSequential)
	session.ParseConnectString("zk1:2181,zk2:2181/apps")
	session.Start(servers, nil)
	_ = session.Options{Chroot: "/apps", ACL: session.CreatorAll(), Auth: []session.Auth{{Scheme: "digest", Secret: data}}}
	session.Open(ctx, servers, &session.Options{Timeout: 10 * time.Second})
	session.Open(ctx, servers, nil)
	_ = session.Options{Auth: []session.Auth{{Scheme: "digest", Secret: data}}, ACL: session.CreatorAll()}
	watch.Tree(s, path, nil)
	watch.Node(s, path, nil)
	watch.Children(s, path, nil)
	lock.Acquire(ctx, s, path, nil)
	lock.NewReentrantMutex(s, path, nil)
	lock.Revoke(ctx, s, path, &lock.RevokeOptions{Layout: lock.Curator})
	lock.AcquireRead(ctx, s, path, &lock.Options{Layout: lock.Curator})
	lock.AcquireWrite(ctx, s, path, &lock.Options{Layout: lock.Curator})
	lock.AcquireAll(ctx, s, []lock.Want{{Path: "/a"}, {Path: "/b"}}, nil)
	lock.NewMutex(s, path, nil)
	lock.AcquireRead(ctx, s, path, nil)
	lock.AcquireWrite(ctx, s, path, nil)
	lock.Acquire(ctx, s, path, &lock.Options{Layout: lock.Kazoo})
	lock.Contenders(ctx, s, path, &lock.Options{Layout: lock.Kazoo})
	lock.TryAcquire(ctx, s, path, &lock.Options{Layout: lock.Kazoo})
	lock.AcquireRead(ctx, s, path, &lock.Options{Layout: lock.Kazoo})
	lock.AcquireWrite(ctx, s, path, &lock.Options{Layout: lock.Kazoo})
	lock.New(s, path, nil)
	lock.Acquire(ctx, s, path, &lock.Options{Data: data})
	lock.TryAcquire(ctx, s, path, nil)
	lock.Contenders(ctx, s, path, nil)
	l.Release(ctx)
	l.Revoked()
	l.Done()
	l.Token()
	l.Close()
	l.Err()
	l.Guard()
	m.Lock(ctx)
	m.TryLock(ctx)
	m.Unlock(ctx)
	semaphore.Acquire(ctx, s, path, 10, nil)
	lease.Release(ctx)
	election.New(s, path, &election.Options{Layout: election.Curator})
	election.New(s, path, &election.Options{Layout: election.CuratorSelector})
	election.New(s, path, &election.Options{Data: data})
	election.Observe(s, path, nil)
	election.New(s, path, &election.Options{Layout: election.Kazoo})
	c.Leading()
	c.Close()
	c.Lead(ctx, work)
	c.Resign(ctx)
	c.Leader()
	barrier.NewDouble(s, path, 3, nil)
	barrier.New(s, path, nil)
	b.Raise(ctx)
	b.Wait(ctx)
	b.Lift(ctx)
	d.Enter(ctx)
	d.Leave(ctx)
	queue.NewFlat(s, path, queue.Curator, nil)
	queue.New(s, path, nil)
	queue.NewPriority(s, path, nil)
	queue.NewFlat(s, path, queue.Kazoo, nil)
	q.Consume(nil)
	f.Put(ctx, data)
	f.Take(ctx)
	f.TryTake(ctx)
	config.Open(s, path, config.CuratorLong, nil)
	config.Open(s, path, config.CuratorInteger, nil)
	config.Open(s, path, config.KazooCounter, nil)
	v.Update(ctx, func(n int64) (int64, error) { return n + 1, nil })
	tx.Do(ctx, func(tx *config.Tx) error { return config.Store(tx, "a", config.Text, "1") })
	group.Join(s, path, "id", data, nil)
	group.Join(s, path, "id", nil, &group.Options{Layout: group.KazooParty})
	naming.Keep(s, path, "name", data, nil)
	discovery.Watch(s, path, "search", nil)
	shard.Join(s, path, 16, nil)
}
