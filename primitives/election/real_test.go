package election_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const realTick = 100 * time.Millisecond

// TestRealElection plays on three servers what the bubbles play in memory.
func TestRealElection(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	t.Run("commands", func(t *testing.T) {
		for _, layout := range layouts {
			t.Run(layout.String(), func(t *testing.T) { realCommands(t, ens, layout) })
		}
	})
	t.Run("heirs", func(t *testing.T) { realHeirs(t, ens) })
	t.Run("reconnects", func(t *testing.T) { realReconnects(t, ens) })
	t.Run("a guard of a successor", func(t *testing.T) { realGuardOfASuccessor(t, ens) })
	t.Run("frozen", func(t *testing.T) {
		proxy := zktest.NewProxy(t, ens.Addrs()...)
		realCutOff(t, ens, proxy.Addrs(), func() { proxy.Freeze(0, zktest.Both) })
	})
	t.Run("a server that is alone", func(t *testing.T) {
		cut := ens.Followers()[0]
		realCutOff(t, ens, []string{ens.Addr(cut)}, func() { ens.Isolate(cut) })
		ens.Heal()
	})
}

func realOpen(t *testing.T, addrs []string, timeout time.Duration) *session.Session {
	t.Helper()
	return check.Open(session.Open(check.Patient(t), addrs, &session.Options{Timeout: timeout, ServerTick: realTick, CloseTimeout: 500 * time.Millisecond}))(t)
}

// realAwait reads events until one of type E comes.
func realAwait[E election.Event](t *testing.T, c *election.Candidate) (ev E) {
	t.Helper()
	ctx := check.Patient(t)
	for {
		select {
		case next, ok := <-c.Events():
			if e, is := next.(E); is {
				return e
			}
			if !ok {
				t.Errorf("no %T came, %v", ev, c.Err())
				return ev
			}
		case <-ctx.Done():
			t.Errorf("no %T comes", ev)
			return ev
		}
	}
}

// realGuardOfASuccessor: an operator deletes the leader's node while the leader, to which it was
// handed over, is cut off. The first in line is not elected while the guard of that leader passes.
func realGuardOfASuccessor(t *testing.T, ens *zktest.Ensemble) {
	const path, timeout = "/successor", 3 * time.Second
	ctx := check.Patient(t)
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	stand := func(addrs []string) *election.Candidate {
		return check.Open(election.New(realOpen(t, addrs, timeout), path, nil))(t)
	}
	former := stand(ens.Addrs())
	realAwait[election.Elected](t, former)
	next := stand(ens.Addrs())
	realAwait[election.Standing](t, next)
	successor := stand(proxy.Addrs())
	realAwait[election.Standing](t, successor)
	check.Must(t, former.Transfer(ctx, successor.Node()))
	term := realAwait[election.Elected](t, successor).Term
	guard := successor.Guard()
	operator := realOpen(t, ens.Addrs(), timeout)
	_, err := operator.Multi(ctx, guard)
	check.Must(t, err, "before")

	proxy.Freeze(0, zktest.Both)
	check.Must(t, operator.Delete(ctx, path+"/leader", session.AnyVersion))
	for passes := true; passes; {
		newer, _ := next.Leading()
		_, err := operator.Multi(ctx, guard)
		passes = err == nil
		check.True(t, newer == 0 || !passes, "%s leads in term %d, and the guard of term %d passes", next.Node(), newer, term)
		if !passes {
			check.Is(t, err, election.ErrNotLeading)
		}
	}
	elected := realAwait[election.Elected](t, next)
	check.True(t, elected.Term > term, "term %d after %d", elected.Term, term)
	proxy.Thaw(0)
	realAwait[election.Deposed](t, successor)
}

func realCommands(t *testing.T, ens *zktest.Ensemble, layout election.Layout) {
	ctx, path := check.Patient(t), "/commands-"+layout.String()
	all := make([]*election.Candidate, 3)
	s := realOpen(t, ens.Addrs(), 10*time.Second)
	for i := range all {
		c := check.Have(election.New(realOpen(t, ens.Addrs(), 10*time.Second), path, &election.Options{Layout: layout, Data: []byte(fmt.Sprint(i))}))(t)
		defer c.Close()
		if all[i] = c; i == 0 {
			realAwait[election.Elected](t, c)
		} else {
			for _, known := c.Leader(); (!known || c.Node() == "") && !t.Failed(); _, known = c.Leader() {
				realAwait[election.Event](t, c)
			}
		}
	}
	first, _ := all[0].Leading()
	if _, err := s.Multi(ctx, all[0].Guard(), session.CreateOp(path+"-x", nil, session.Persistent)); err != nil {
		t.Error(err)
	}
	if layout == election.Standard {
		check.OK(t, all[0].Acknowledge(ctx))
		for !realAwait[election.LeaderChanged](t, all[1]).Acknowledged {
		}
		check.OK(t, all[0].Transfer(ctx, all[2].Node()))
	} else {
		for _, c := range all[:2] {
			if c != all[0] {
				realAwait[election.Elected](t, c)
			}
			check.OK(t, c.Resign(ctx))
		}
	}
	ev := realAwait[election.Elected](t, all[2])
	check.True(t, ev.Term > first, "term %d after %d", ev.Term, first)
	check.Fails(s.Multi(ctx, all[0].Guard(), session.CreateOp(path+"-y", nil, session.Persistent)))(t, session.ErrNoNode)
	for _, c := range all {
		c.Close()
	}
	check.Must(t, s.Sync(ctx, path)) // its server may be behind
	line, err := election.Candidates(ctx, s, path, &election.ObserveOptions{Layout: layout})
	check.True(t, err == nil && len(line) == 0, "%+v are left, %v", line, err)
}

// realHeirs has two candidates resign in turn, until five of them were elected by the event of
// that: then the record says which term the leader has.
func realHeirs(t *testing.T, ens *zktest.Ensemble) {
	const path = "/heirs"
	ctx, s := check.Patient(t), realOpen(t, ens.Addrs(), 10*time.Second)
	var both [2]*election.Candidate
	for i := range both {
		both[i] = check.Have(election.Stand(ctx, realOpen(t, ens.Addrs(), 10*time.Second), path, nil))(t)
		defer both[i].Close()
	}
	newest := realAwait[election.Elected](t, both[0]).Term
	for turn, heirs := 0, 0; heirs < 5 && !t.Failed(); turn++ {
		leader, next := both[turn%2], both[(turn+1)%2]
		check.OK(t, leader.Resign(ctx))
		elected := realAwait[election.Elected](t, next)
		check.True(t, elected.Term > newest, "term %d after %d", elected.Term, newest)
		newest = elected.Term
		check.OK(t, next.Acknowledge(ctx)) // when its record is there
		check.Have(s.Multi(ctx, next.Guard()))(t)
		check.Fails(s.Multi(ctx, leader.Guard()))(t, election.ErrNotLeading)
		check.Must(t, s.Sync(ctx, path))
		data, stat, err := s.Get(ctx, path+"/leader")
		check.Must(t, err)
		record := nodes.ParseLeader(data)
		check.Equal(t, record.TermOf(stat.Czxid), elected.Term, "the term in the record")
		if record.Term != 0 {
			heirs++
		}
	}
}

func realReconnects(t *testing.T, ens *zktest.Ensemble) {
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	var both [2]*election.Candidate
	for i := range both {
		c := check.Have(election.New(realOpen(t, proxy.Addrs(), 10*time.Second), "/reconnects", nil))(t)
		defer c.Close()
		if both[i] = c; i == 0 {
			realAwait[election.Elected](t, c)
		}
	}
	term, _ := both[0].Leading()
	for range 20 {
		proxy.Disconnect(0)
		realAwait[election.Suspended](t, both[0])
		realAwait[election.Resumed](t, both[0])
	}
	if now, leading := both[0].Leading(); !leading || now != term {
		t.Errorf("term %d, %v", now, leading)
	}
	check.False(t, leads(both[1]), "two leaders")
}

// realCutOff has twenty leaders cut off, and compares when they are deposed with when their
// rivals are elected.
func realCutOff(t *testing.T, ens *zktest.Ensemble, addrs []string, happens func()) {
	const runs = 20
	calm := []string{ens.Addr(ens.Leader())}
	type run struct{ leader, rival *election.Candidate }
	all := make([]run, runs)
	var setup sync.WaitGroup
	for i := range all {
		setup.Go(func() {
			s := realOpen(t, addrs, 2*time.Second)
			path := fmt.Sprintf("/cut-%x", s.ID())
			var err error
			if all[i].leader, err = election.New(s, path, nil); err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(all[i].leader.Close)
			realAwait[election.Elected](t, all[i].leader)
			if all[i].rival, err = election.New(realOpen(t, calm, 10*time.Second), path, nil); err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(all[i].rival.Close)
			for realAwait[election.LeaderChanged](t, all[i].rival).Leader.Node == "" {
			}
		})
	}
	setup.Wait()
	if t.Failed() {
		t.FailNow()
	}
	happens()
	var wg sync.WaitGroup
	deposed, elected := make([]time.Time, runs), make([]time.Time, runs)
	for i, a := range all {
		wg.Go(func() {
			realAwait[election.Deposed](t, a.leader)
			deposed[i] = time.Now()
		})
		wg.Go(func() {
			realAwait[election.Elected](t, a.rival)
			check.False(t, leads(a.leader), "run %d: two leaders", i) // whether or not its event was read by now
			elected[i] = time.Now()
		})
	}
	wg.Wait()
	least := time.Hour
	for i := range all {
		least = min(least, elected[i].Sub(deposed[i]))
	}
	t.Logf("deposed %v before the other was elected, or earlier", least) // as two goroutines have read it
}
