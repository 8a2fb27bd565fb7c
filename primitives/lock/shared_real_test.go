package lock_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestRealReadersAndWriters(t *testing.T) {
	t.Parallel()
	ens := zktest.SharedEnsemble(t, 3)
	t.Run("rounds", func(t *testing.T) { realRounds(t, ens) })
	t.Run("wake-ups", func(t *testing.T) { realWakeUps(t, ens) })
	t.Run("downgrade", func(t *testing.T) { realDowngrade(t, ens) })
	t.Run("downgrade, and its reply is lost", func(t *testing.T) { realLostDowngrade(t, ens) })
}

// realRounds has readers and writers at all servers, which are cut off now and then.
func realRounds(t *testing.T, ens *zktest.Ensemble) {
	const contenders = 12
	rounds := often(200, 600)
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	operator := kit.Open(t, ens.Addrs(), nil)
	kit.Ensure(t, operator, "/rounds", nil)
	var all []*session.Session
	for range 6 {
		all = append(all, kit.Open(t, proxy.Addrs(), nil))
	}
	new(book).play(t, all, "/rounds", contenders, rounds, func(r *rand.Rand) {
		if r.IntN(30) == 0 {
			proxy.Disconnect(all[r.IntN(len(all))].ID())
		}
		check.OK(t, operator.Sync(check.Patient(t), "/rounds"))
	})
	awaitEmpty(t, operator, "/rounds")
}

// realWakeUps reads what the servers tell when a writer goes that readers wait for.
func realWakeUps(t *testing.T, ens *zktest.Ensemble) {
	const readers = 20
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	path := "/wake-ups"
	kit.Ensure(t, kit.Open(t, ens.Addrs(), nil), path, nil)
	as := func(kind lock.Kind, n int) (all []*lock.Lock) {
		for range n {
			l := check.Open(opens[kind].join(kit.Open(t, proxy.Addrs(), nil), path, nil))(t)
			<-l.Events()
			all = append(all, l)
		}
		return all
	}
	first, second := as(lock.Write, 1)[0], as(lock.Write, 1)[0]
	all := as(lock.Read, readers)
	last := as(lock.Write, 1)[0]
	proxy.StartTrace()
	release(t, first)
	kit.Await[lock.Acquired](t, second.Events())
	firstNode, secondNode := first.Node(), second.Node()
	release(t, second)
	for _, l := range all {
		kit.Await[lock.Acquired](t, l.Events())
	}
	for _, l := range all {
		release(t, l)
	}
	kit.Await[lock.Acquired](t, last.Events())
	told := make(map[string]int)
	for _, r := range proxy.Trace() {
		if r.Dir == zktest.ToClient && r.Op == 0 {
			for _, node := range r.Paths {
				told[node]++
			}
		}
	}
	// The one that leaves is told, too.
	if told[firstNode] > 2 || told[secondNode] != readers+1 && told[secondNode] != readers {
		t.Errorf("the writers' releases have woken %d and %d", told[firstNode], told[secondNode])
	}
	for _, l := range all {
		check.AtMost(t, told[l.Node()], 2, "a reader's release has woken")
	}
}

// realDowngrade: no writer comes between.
func realDowngrade(t *testing.T, ens *zktest.Ensemble) {
	const rounds = 30
	ctx := check.Patient(t)
	const path, data = "/downgrade", "/downgrade-data"
	operator := kit.Open(t, ens.Addrs(), nil)
	kit.Ensure(t, operator, path, nil)
	kit.Ensure(t, operator, data, nil)
	var wg sync.WaitGroup
	for i := range 4 {
		s := kit.Open(t, ens.Addrs(), nil)
		wg.Go(func() {
			for n := range rounds {
				w, err := lock.AcquireWrite(ctx, s, path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				text := fmt.Sprintf("%d of %d", n, i)
				if _, err := s.Multi(ctx, w.Guard(), session.SetOp(data, []byte(text), session.AnyVersion)); err != nil {
					t.Error(err)
				}
				check.OK(t, w.Downgrade(ctx))
				for range 2 {
					check.OK(t, s.Sync(ctx, data))
					check.Reads(s.Get(ctx, data))(t, text)
				}
				// One transaction, as the server has it.
				stat, err := s.Exists(ctx, w.Node())
				check.True(t, err == nil && stat != nil && stat.Czxid > w.Token(), "%+v, %v", stat, err)
				w.Close()
			}
		})
	}
	wg.Wait()
	awaitEmpty(t, operator, path)
}

func realLostDowngrade(t *testing.T, ens *zktest.Ensemble) {
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	s, other := kit.Open(t, proxy.Addrs(), nil), kit.Open(t, ens.Addrs(), nil)
	const path = "/lost-downgrade"
	kit.Ensure(t, other, path, nil)
	for name, plan := range map[string]func(zktest.Match){"reply": proxy.DropReply, "request": proxy.DropRequest} {
		w := check.Have(lock.AcquireWrite(check.Patient(t), s, path, nil))(t)
		if err := s.Sync(check.Patient(t), path); err != nil { // so that its watch stands
			t.Fatal(err)
		}
		plan(zktest.Match{Op: zktest.OpMulti, Session: s.ID()})
		token := w.Token()
		if err := w.Downgrade(check.Patient(t)); err != nil || w.Token() != token {
			t.Errorf("%s: %v", name, err)
		}
		check.Len(t, kit.Children(t, other, path), 1, name)
		r, err := lock.TryAcquireRead(check.Patient(t), other, path, nil)
		check.Must(t, err, name)
		if _, err := lock.TryAcquireWrite(check.Patient(t), other, path, nil); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("%s: %v", name, err)
		}
		release(t, w)
		release(t, r)
		awaitEmpty(t, other, path)
	}
}
