// Package storm has clients of three libraries contend on real servers: this library, Curator and
// kazoo. Only tests import it.
package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/peers"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// Limit is the limit of the semaphore at [Semaphore].
const Limit = 3

// The paths for which clients contend. Clients of all libraries that understand a path's layout
// contend for it.
const (
	Root        = "/storm"
	Mutex       = Root + "/mutex" // exclusive, first come, first served: two lines
	OtherMutex  = Root + "/mutex-too"
	Shared      = Root + "/shared" // read and write, in Curator's layout
	Kazoo       = Root + "/kazoo"  // exclusive, in kazoo's layout
	Leader      = Root + "/leader" // in Curator's layout
	Semaphore   = Root + "/limit"
	Queue       = Root + "/queue" // in Curator's layout
	OtherQueue  = Root + "/queue-too"
	holdsAtMost = 400 * time.Millisecond
	endsAtMost  = 5 * time.Second // a take of kazoo's queue that meets other takers backs off for minutes
)

// A Storm is a crowd of clients that hold and release.
type Storm struct {
	Ensemble *zktest.Ensemble
	Clients  int

	stop   context.CancelFunc
	all    sync.WaitGroup
	grants [3]atomic.Int64 // to clients of this library, of Curator and of kazoo
}

// A tenancy is a function that acquires, and returns the function that releases.
type tenancy func(ctx context.Context) (end func(ctx context.Context) error, err error)

// Start starts three servers and the given number of clients, each with a session of its own. Each
// library has a third of the clients. Clients of other libraries have the generations in turn, or
// Debian's by default. All end with the test.
func Start(t *testing.T, clients int, generations ...peers.Generation) *Storm {
	t.Helper()
	st := &Storm{Ensemble: zktest.StartEnsemble(t, 3, zktest.NoSync()), Clients: clients}
	addrs := st.Ensemble.Addrs()
	share := clients / 3
	if len(generations) == 0 {
		generations = []peers.Generation{peers.Debian}
	}
	ctx, cancel := context.WithCancel(context.Background())
	st.stop = cancel
	t.Cleanup(st.Stop)
	theirs := func(p *peers.Peer, kind peers.Kind, path string) tenancy {
		return func(ctx context.Context) (func(context.Context) error, error) {
			claim, err := p.Acquire(ctx, kind, path)
			if err != nil {
				return nil, err
			}
			return claim.Release, nil
		}
	}
	items := func(p *peers.Peer, kind peers.Kind, path string) tenancy {
		return func(ctx context.Context) (func(context.Context) error, error) {
			claim, err := p.Acquire(ctx, kind, path)
			if err == nil {
				err = claim.Put(ctx, "item", 100)
			}
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				_, err := claim.Take(ctx, holdsAtMost)
				return errors.Join(err, claim.Release(ctx))
			}, nil
		}
	}
	sessions := (share + len(generations) - 1) / len(generations)
	libraries := make([][3][]tenancy, len(generations))
	for i, g := range generations {
		curator := peers.Start(t, peers.Curator, addrs, &peers.Options{Version: g.Version(peers.Curator), Sessions: sessions})
		kazoo := peers.Start(t, peers.Kazoo, addrs, &peers.Options{Version: g.Version(peers.Kazoo), Sessions: sessions})
		libraries[i][1] = []tenancy{
			theirs(curator, peers.CuratorMutex, Mutex), theirs(curator, peers.CuratorMutex, OtherMutex), theirs(curator, peers.CuratorRead, Shared),
			theirs(curator, peers.CuratorWrite, Shared), theirs(curator, peers.CuratorLatch, Leader), items(curator, peers.CuratorQueue, Queue),
		}
		libraries[i][2] = []tenancy{
			theirs(kazoo, peers.KazooStandard, Mutex), theirs(kazoo, peers.KazooStandard, OtherMutex), theirs(kazoo, peers.KazooLock, Kazoo),
			theirs(kazoo, peers.KazooElection, Kazoo), items(kazoo, peers.KazooQueue, OtherQueue),
		}
	}
	for i := range clients - 2*share {
		does := ours(Open(t, addrs), fmt.Sprint("ours-", i))
		st.all.Go(func() { st.contend(ctx, 0, does[i%len(does)]) })
	}
	for i := range share {
		for library := 1; library < len(st.grants); library++ {
			kinds := len(libraries[0][library])
			all := libraries[(i+i/kinds)%len(libraries)][library] // so that each kind occurs in each generation
			st.all.Go(func() { st.contend(ctx, library, all[i%len(all)]) })
		}
	}
	return st
}

// Open returns a session.
func Open(t *testing.T, addrs []string) *session.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s, err := session.Open(ctx, addrs, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// ours returns the actions of a client of this library, one for each path.
func ours(s *session.Session, name string) []tenancy {
	data := []byte(name)
	held := func(h interface{ Close() }, err error) (func(context.Context) error, error) {
		if err != nil {
			return nil, err
		}
		return func(context.Context) error { h.Close(); return nil }, nil
	}
	acquire := func(path string, layout lock.Layout, acquire func(context.Context, *session.Session, string, *lock.Options) (*lock.Lock, error)) tenancy {
		return func(ctx context.Context) (func(context.Context) error, error) {
			return held(acquire(ctx, s, path, &lock.Options{Data: data, Layout: layout}))
		}
	}
	items := func(path string, layout queue.Layout) tenancy {
		return func(ctx context.Context) (func(context.Context) error, error) {
			q, err := queue.NewFlat(s, path, layout, nil)
			if err == nil {
				_, err = q.Put(ctx, data)
			}
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				_, err := q.TryTake(ctx)
				return errors.Join(err, q.Close(ctx))
			}, nil
		}
	}
	return []tenancy{
		acquire(Mutex, lock.Standard, lock.Acquire), acquire(OtherMutex, lock.Standard, lock.Acquire),
		acquire(Shared, lock.Curator, lock.AcquireRead), acquire(Shared, lock.Curator, lock.AcquireWrite), acquire(Kazoo, lock.Kazoo, lock.Acquire),
		func(ctx context.Context) (func(context.Context) error, error) {
			c, err := election.New(s, Leader, &election.Options{Data: data, Layout: election.Curator})
			if err != nil {
				return nil, err
			}
			return held(c, elected(ctx, c))
		},
		func(ctx context.Context) (func(context.Context) error, error) {
			return held(semaphore.Acquire(ctx, s, Semaphore, Limit, &semaphore.Options{Data: data}))
		},
		items(Queue, queue.Curator), items(OtherQueue, queue.Kazoo),
	}
}

// elected waits until the candidate leads. After an error the candidate leaves.
func elected(ctx context.Context, c *election.Candidate) error {
	for {
		select {
		case ev, ok := <-c.Events():
			if _, leads := ev.(election.Elected); leads {
				return nil
			}
			if !ok {
				return c.Err()
			}
		case <-ctx.Done():
			c.Close()
			return context.Cause(ctx)
		}
	}
}

// contend holds for a while, again and again, until ctx ends. It begins anew after an error, since
// a server may be down.
func (st *Storm) contend(ctx context.Context, library int, begin tenancy) {
	pause := func() {
		select {
		case <-time.After(rand.N(holdsAtMost)):
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		end, err := begin(ctx)
		pause()
		if err != nil {
			continue
		}
		st.grants[library].Add(1)
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endsAtMost)
		_ = end(ending) // the release goes on in the background
		cancel()
	}
}

// Grants returns the number of grants to clients of this library, of Curator and of kazoo.
func (st *Storm) Grants() (all [3]int64) {
	for i := range all {
		all[i] = st.grants[i].Load()
	}
	return all
}

// Stop ends the clients, but not the servers. It may be called any number of times.
func (st *Storm) Stop() {
	st.stop()
	st.all.Wait()
}
