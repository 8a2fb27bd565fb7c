package lock_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRealFailover kills the leader of the servers, again and again.
func TestRealFailover(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	ctx := check.Patient(t)
	// A leader that no one follows in time waits for InitLimit, 10 s; it may be elected twice.
	opts := &session.Options{Timeout: 40 * time.Second, ServerTick: kit.Tick}
	var sessions []*session.Session
	for range 3 {
		sessions = append(sessions, kit.Open(t, ens.Addrs(), opts))
	}
	const path = "/locks/failover"
	// One that is connected to the leader, so that it is in the middle of it.
	leader := ens.Leader()
	s := kit.Open(t, []string{ens.Addr(leader), ens.Addr((leader + 1) % 3)}, opts)
	for s.State().(session.Connected).Server != ens.Addr(leader) {
		s.Close()
		s = kit.Open(t, []string{ens.Addr(leader), ens.Addr((leader + 1) % 3)}, opts)
	}
	holder := acquire(t, s, path)
	node, id := holder.Node(), s.ID()
	stays := func() {
		t.Helper()
		check.True(t, s.ID() == id && holder.Err() == nil, "the session has not survived: %v", holder.Err())
		stat, err := s.Exists(ctx, node)
		check.True(t, err == nil && stat != nil && stat.EphemeralOwner == id && stat.Czxid == holder.Token(), "the node has not survived: %+v, %v", stat, err)
	}

	ens.Kill(leader)
	ens.Leader() // there is one again
	stays()
	check.Len(t, kit.Children(t, s, path), 1)
	ens.Restart(leader)

	var waiters []*lock.Lock
	for i := range 10 {
		waiters = append(waiters, join(t, sessions[i%3], path, nil))
		kit.Await[lock.Waiting](t, waiters[i].Events())
	}
	// Ten more are on their way when it happens.
	for i := range 10 {
		waiters = append(waiters, join(t, sessions[i%3], path, nil))
	}
	leader = ens.Leader()
	ens.Kill(leader)
	for _, l := range waiters[10:] {
		kit.Await[lock.Waiting](t, l.Events())
	}
	stays()
	line := awaitLine(t, s, path, 21)
	names := kit.Children(t, s, path)
	check.True(t, len(names) == 21 && line[0].Node == node, "there are %q", names)
	granted := grants(waiters)
	token := holder.Token()
	release(t, holder)
	for i, contender := range line[1:] {
		l := <-granted
		check.True(t, l.Node() == contender.Node && l.Token() > token, "%s got it with token %d, after %d; it was the turn of %s", l.Node(), l.Token(), token, contender.Node)
		check.False(t, i < 10 && l != waiters[i], "grant %d is not that of waiter %d", i, slices.Index(waiters, l))
		token = l.Token()
		release(t, l)
	}
	ens.Restart(leader)
	awaitEmpty(t, s, path)
}

// TestRealFrozenHolder: whatever the network does to a holder, it is told before another
// gets the lock.
func TestRealFrozenHolder(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	t.Run("a network that stops", func(t *testing.T) {
		for name, dir := range map[string]zktest.Direction{
			"both": zktest.Both, "to the server": zktest.ToServer, "to the client": zktest.ToClient, "to the client but events": zktest.ToClientButEvents,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				proxy := zktest.NewProxy(t, ens.Addrs()...)
				frozenHolders(t, ens, proxy.Addrs(), func() { proxy.Freeze(0, dir) })
			})
		}
	})
	t.Run("a server cut off from the leader", func(t *testing.T) {
		cut := ens.Followers()[0]
		frozenHolders(t, ens, []string{ens.Addr(cut)}, func() { ens.Isolate(cut) })
		ens.Heal()
	})
}

// frozenHolders has twenty sessions hold a lock each when something happens. When their rivals get
// it, none of them counts on its session.
//
// Each waits for a second lock, behind a rival who releases it after that. Where
// notifications still arrive, this makes a holder of it, who must be told as well.
func frozenHolders(t *testing.T, ens *zktest.Ensemble, addrs []string, happens func()) {
	const runs = 20
	calm := []string{ens.Addr(ens.Leader())}
	opts := &session.Options{Timeout: 10 * time.Second, ServerTick: kit.Tick, CloseTimeout: 200 * time.Millisecond}
	type run struct {
		s                  *session.Session // that it happens to
		id                 int64            // of the session
		holder, waiter     *lock.Lock       // its locks
		rival, former, end *lock.Lock
	}
	all := make([]run, runs)
	var setup sync.WaitGroup
	for i := range all {
		setup.Go(func() {
			s, r := kit.Open(t, addrs, opts), kit.Open(t, calm, nil)
			one, two := fmt.Sprintf("/%x-one", s.ID()), fmt.Sprintf("/%x-two", s.ID())
			a := &all[i]
			a.s, a.id = s, s.ID()
			a.holder = acquire(t, s, one)
			a.rival = join(t, r, one, nil)
			kit.Await[lock.Waiting](t, a.rival.Events())
			a.former = acquire(t, r, two)
			a.waiter = join(t, s, two, nil)
			kit.Await[lock.Waiting](t, a.waiter.Events())
			a.end = join(t, r, two, nil)
			kit.Await[lock.Waiting](t, a.end.Events())
			if err := s.Sync(check.Patient(t), "/"); err != nil { // so that all watches stand
				t.Error(err)
			}
		})
	}
	setup.Wait()
	if t.Failed() {
		t.FailNow()
	}

	happens()
	var wg sync.WaitGroup
	for i, a := range all {
		wg.Go(func() {
			kit.Await[lock.Acquired](t, a.rival.Events())
			check.False(t, kit.Counts(a.s, a.id) && !isClosed(a.holder.Done()), "run %d: two holders", i)
			<-a.holder.Done()
			check.True(t, a.rival.Token() > a.holder.Token(), "run %d: token %d after %d", i, a.rival.Token(), a.holder.Token())
		})
		wg.Go(func() {
			release(t, a.former)
			kit.Await[lock.Acquired](t, a.end.Events())
			// The waiter may have been a holder, or is to stand in line again.
			before := a.waiter.Token() != 0 && a.waiter.Token() < a.end.Token()
			check.False(t, before && !isClosed(a.waiter.Done()) && kit.Counts(a.s, a.id), "run %d: two holders of the second lock", i)
		})
	}
	wg.Wait()
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
