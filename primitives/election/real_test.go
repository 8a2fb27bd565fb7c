package election_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

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

// mortal opens a session that a test has expire.
func mortal(t *testing.T, addrs []string) *session.Session {
	t.Helper()
	return kit.Open(t, addrs, &session.Options{Timeout: 10 * time.Second, ServerTick: kit.Tick, CloseTimeout: kit.Tick})
}

// realGuardOfASuccessor: an operator deletes the leader's node while the leader, to which it was
// handed over, is cut off. The first in line is not elected while the guard of that leader passes.
func realGuardOfASuccessor(t *testing.T, ens *zktest.Ensemble) {
	const path = "/successor"
	ctx := check.Patient(t)
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	stand := func(s *session.Session) *election.Candidate { return check.Open(election.New(s, path, nil))(t) }
	former := stand(kit.Open(t, ens.Addrs(), nil))
	kit.Await[election.Elected](t, former.Events())
	next := stand(kit.Open(t, ens.Addrs(), nil))
	kit.Await[election.Standing](t, next.Events())
	successor := stand(mortal(t, proxy.Addrs()))
	kit.Await[election.Standing](t, successor.Events())
	check.Must(t, former.Transfer(ctx, successor.Node()))
	term := kit.Await[election.Elected](t, successor.Events()).Term
	guard := successor.Guard()
	operator := kit.Open(t, ens.Addrs(), nil)
	_, err := operator.Multi(ctx, guard)
	check.Must(t, err, "before")

	proxy.Freeze(0, zktest.Both)
	check.Must(t, operator.Delete(ctx, path+"/leader", session.AnyVersion))
	for passes := true; passes; {
		newer, _ := next.Leading()
		_, err := operator.Multi(ctx, guard)
		passes = !errors.Is(err, election.ErrNotLeading)
		check.True(t, newer == 0 || err != nil, "%s leads in term %d, and the guard of term %d passes", next.Node(), newer, term)
		if passes && !errors.Is(err, session.ErrUnknownOutcome) { // the servers may elect a leader of their own
			check.Must(t, err)
		}
	}
	elected := kit.Await[election.Elected](t, next.Events())
	check.True(t, elected.Term > term, "term %d after %d", elected.Term, term)
	proxy.Thaw(0)
	kit.Await[election.Deposed](t, successor.Events())
}

func realCommands(t *testing.T, ens *zktest.Ensemble, layout election.Layout) {
	ctx, path := check.Patient(t), "/commands-"+layout.String()
	all := make([]*election.Candidate, 3)
	s := kit.Open(t, ens.Addrs(), nil)
	for i := range all {
		c := check.Open(election.New(kit.Open(t, ens.Addrs(), nil), path, &election.Options{Layout: layout, Data: []byte(fmt.Sprint(i))}))(t)
		if all[i] = c; i == 0 {
			kit.Await[election.Elected](t, c.Events())
		} else {
			for _, known := c.Leader(); (!known || c.Node() == "") && !t.Failed(); _, known = c.Leader() {
				kit.Await[election.Event](t, c.Events())
			}
		}
	}
	first, _ := all[0].Leading()
	if _, err := s.Multi(ctx, all[0].Guard(), session.CreateOp(path+"-x", nil, session.Persistent)); err != nil {
		t.Error(err)
	}
	if layout == election.Standard {
		check.OK(t, all[0].Acknowledge(ctx))
		for !kit.Await[election.LeaderChanged](t, all[1].Events()).Acknowledged {
		}
		check.OK(t, all[0].Transfer(ctx, all[2].Node()))
	} else {
		for _, c := range all[:2] {
			if c != all[0] {
				kit.Await[election.Elected](t, c.Events())
			}
			check.OK(t, c.Resign(ctx))
		}
	}
	ev := kit.Await[election.Elected](t, all[2].Events())
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
	ctx, s := check.Patient(t), kit.Open(t, ens.Addrs(), nil)
	var both [2]*election.Candidate
	for i := range both {
		both[i] = check.Have(election.Stand(ctx, kit.Open(t, ens.Addrs(), nil), path, nil))(t)
		defer both[i].Close()
	}
	newest := kit.Await[election.Elected](t, both[0].Events()).Term
	for turn, heirs := 0, 0; heirs < 5 && !t.Failed(); turn++ {
		leader, next := both[turn%2], both[(turn+1)%2]
		check.OK(t, leader.Resign(ctx))
		elected := kit.Await[election.Elected](t, next.Events())
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
		c := check.Open(election.New(kit.Open(t, proxy.Addrs(), nil), "/reconnects", nil))(t)
		if both[i] = c; i == 0 {
			kit.Await[election.Elected](t, c.Events())
		}
	}
	term, _ := both[0].Leading()
	for range 20 {
		proxy.Disconnect(0)
		kit.Await[election.Suspended](t, both[0].Events())
		kit.Await[election.Resumed](t, both[0].Events())
	}
	if now, leading := both[0].Leading(); !leading || now != term {
		t.Errorf("term %d, %v", now, leading)
	}
	check.False(t, leads(both[1]), "two leaders")
}

// realCutOff has twenty leaders cut off. When their rivals are elected, none of them counts on its
// session.
func realCutOff(t *testing.T, ens *zktest.Ensemble, addrs []string, happens func()) {
	const runs = 20
	calm := []string{ens.Addr(ens.Leader())}
	type run struct {
		s             *session.Session // of the leader
		id            int64            // of the session
		leader, rival *election.Candidate
	}
	all := make([]run, runs)
	var setup sync.WaitGroup
	for i := range all {
		setup.Go(func() {
			s := mortal(t, addrs)
			path := fmt.Sprintf("/cut-%x", s.ID())
			all[i].s, all[i].id = s, s.ID()
			var err error
			if all[i].leader, err = election.New(s, path, nil); err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(all[i].leader.Close)
			kit.Await[election.Elected](t, all[i].leader.Events())
			if all[i].rival, err = election.New(kit.Open(t, calm, nil), path, nil); err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(all[i].rival.Close)
			for kit.Await[election.LeaderChanged](t, all[i].rival.Events()).Leader.Node == "" {
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
			kit.Await[election.Elected](t, a.rival.Events())
			counts := kit.Counts(a.s, a.id)
			_, leading := a.leader.Leading()
			_, suspended := a.s.State().(session.Suspended) // else a session that has lapsed may be back
			check.False(t, counts && (leading || suspended), "run %d: two leaders", i)
			kit.Await[election.Deposed](t, a.leader.Events())
		})
	}
	wg.Wait()
}
