package election_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// lagging is three replicas that are behind their leader, and a network that takes its time.
var lagging = zktest.Config{
	Tick: 100 * time.Millisecond, MaxTimeout: time.Minute, Latency: time.Millisecond, Replicas: 3, Lag: 5 * time.Millisecond,
}

// TestStateIsKept: readers of events that come late are told where the candidate stands, who leads,
// and that it does itself; of a former term they are told nothing.
func TestStateIsKept(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		leader := check.Have(election.Stand(w.soon(), w.open(0), "/late", &election.Options{Data: []byte("a")}))(w)
		for range 2 {
			<-time.After(time.Second)
			check.Must(w, leader.Resign(w.soon()))
		}
		<-time.After(time.Second)
		second := check.Have(election.New(w.open(1), "/late", nil))(w)
		<-time.After(time.Second)
		w.Disconnect(0)
		<-time.After(time.Second)
		term, leads := leader.Leading()
		check.True(w, leads, "it does not lead")
		knows := election.LeaderChanged{Leader: election.Leader{Node: leader.Node(), Data: []byte("a")}, Term: term}
		for _, tt := range []struct {
			c    *election.Candidate
			want []election.Event
		}{
			{leader, []election.Event{election.Standing{Node: leader.Node()}, knows, election.Elected{Term: term}}},
			{second, []election.Event{knows, election.Standing{Node: second.Node()}}},
		} {
			var got []election.Event
			for over := time.After(time.Minute); len(got) < len(tt.want) && over != nil; {
				select {
				case ev := <-tt.c.Events():
					got = append(got, ev)
				case <-over:
					over = nil
				}
			}
			check.Equal(w, fmt.Sprint(got), fmt.Sprint(tt.want))
			tt.c.Close()
		}
	})
}

func TestFirstLeads(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		a := w.stand(w.open(0), &election.Options{Data: []byte("a")})
		first, n := await[election.Elected](a, 0)
		b := w.stand(w.open(1), &election.Options{Data: []byte("b")})
		ev, _ := await[election.LeaderChanged](b, 0)
		check.True(w, string(ev.Leader.Data) == "a" && ev.Leader.Node == a.Node() && ev.Term == first.Term && !ev.Acknowledged, "b is told of %v", ev)
		if term, leading := a.Leading(); !leading || term != first.Term {
			w.Error("a does not lead")
		}
		check.False(w, leads(b), "b leads")
		leader, known := b.Leader()
		check.True(w, known && leader.Node == a.Node(), "b does not know who leads")

		check.Must(w, a.Acknowledge(w.soon()))
		for ack, n := await[election.LeaderChanged](b, 0); !ack.Acknowledged; ack, n = await[election.LeaderChanged](b, n) {
		}
		if ack, _ := await[election.LeaderChanged](a, n); !ack.Acknowledged || ack.Term != first.Term {
			w.Errorf("a is told of %v", ack)
		}
		check.OK(w, a.Acknowledge(w.soon()), "again")

		check.Must(w, a.Resign(w.soon()))
		if ev, _ := await[election.Deposed](a, n); !errors.Is(ev.Err, election.ErrResigned) {
			w.Error(ev)
		}
		second, _ := await[election.Elected](b, 0)
		check.True(w, second.Term > first.Term, "term %d after %d", second.Term, first.Term)
		for _, err := range []error{a.Resign(w.soon()), a.Acknowledge(w.soon()), a.Transfer(w.soon(), b.Node())} {
			check.Is(w, err, election.ErrNotLeading)
		}
		b.Close()
		third, _ := await[election.Elected](a, n)
		check.True(w, third.Term > second.Term, "term %d after %d", third.Term, second.Term)
	})
}

func TestGuard(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		a, s := w.stand(w.open(0), nil), w.open(1)
		await[election.Elected](a, 0)
		guard := a.Guard()
		_, err := s.Multi(w.soon(), guard, session.CreateOp("/x", nil, session.Persistent))
		check.OK(w, err)
		check.OK(w, a.Resign(w.soon()))
		check.Fails(s.Multi(w.soon(), guard, session.CreateOp("/y", nil, session.Persistent)))(w, session.ErrNoNode)
		a.Close()
		check.Fails(s.Multi(w.soon(), a.Guard(), session.CreateOp("/y", nil, session.Persistent)))(w, session.ErrNoNode)
	})
}

func TestTransfer(t *testing.T) {
	t.Run("all are told", func(t *testing.T) { testTransfer(t, 5) })
	t.Run("some are told", func(t *testing.T) { testTransfer(t, 2) })
	t.Run("nobody is told", func(t *testing.T) { testTransfer(t, 0) })
}

// testTransfer has five candidates hand over. The first of them are told who leads.
func testTransfer(t *testing.T, told int) {
	inBubble(t, lagging, func(w *world) {
		var all []*player
		for i := range 5 {
			all = append(all, w.stand(w.open(i), &election.Options{Data: []byte(fmt.Sprint(i)), IgnoreLeader: i >= told}))
			if i == 0 {
				await[election.Elected](all[0], 0)
			}
		}
		<-time.After(time.Second)
		check.Is(w, all[0].Transfer(w.soon(), znode.Join(path, "candidates/_c_nobody-n_0000000007")), election.ErrNoCandidate, "to nobody")
		check.Is(w, all[0].Transfer(w.soon(), "/elsewhere/n_0000000007"), election.ErrNoCandidate, "to elsewhere")
		check.Is(w, all[0].Transfer(w.soon(), all[0].Node()), session.ErrInvalidArgument, "to itself")
		check.Is(w, all[0].Transfer(w.soon(), "nonsense"), session.ErrInvalidPath, "to nonsense")
		check.Equal(w, count[election.Deposed](all[0]), 0, "it was given up before")
		last := int64(0)
		for i := range 40 { // to the one in the middle of the line, again and again
			leader, term := w.leader(last)
			last = term
			line, err := election.Candidates(w.soon(), leader.session, path, nil)
			check.Require(w, err == nil && len(line) == 5, "%+v, %v", line, err)
			to := line[(i*7)%5]
			if to.Leading {
				to = line[(i*7+1)%5]
			}
			check.Must(w, leader.Transfer(w.soon(), to.Node))
			if now, known := leader.Leader(); !known || now.Node != to.Node {
				w.Errorf("handed over to %s, %s leads", to.Node, now.Node)
			}
			<-time.After(100 * time.Millisecond)
			if now, _ := w.leader(last); now.Node() != to.Node {
				w.Errorf("handed over to %s, %s leads", to.Node, now.Node())
			}
		}
	})
}

// TestTransferToNoCandidate: not everything under the candidates is one.
func TestTransferToNoCandidate(t *testing.T) {
	for name, mode := range map[string]session.CreateMode{
		"n_0000000007": session.Persistent, "else": session.Ephemeral,
	} {
		runInBubble(t, name, lagging, func(w *world) {
			s := w.open(0)
			defer s.Close() // so that its nodes are gone when the world looks
			a := w.elect(w.open(0), nil)
			w.stand(w.open(1), nil)
			node := check.Have(s.Create(w.soon(), path+"/candidates/"+name, nil, mode))(w)
			check.Is(w, a.Transfer(w.soon(), node), election.ErrNoCandidate)
			check.True(w, leads(a), "it was given up before")
		})
	}
}

// TestTransferToOneThatVanishes: a candidate leads, whatever happens to the successor.
func TestTransferToOneThatVanishes(t *testing.T) {
	for delay := range 12 {
		inBubble(t, lagging, func(w *world) {
			a := w.elect(w.open(0), nil)
			b, c := w.stand(w.open(1), nil), w.stand(w.open(2), nil)
			<-time.After(time.Second)
			w.Freeze(c.session.ID(), zktest.Both)
			done := make(chan error, 1)
			w.readers.Go(func() { done <- a.Transfer(w.soon(), c.Node()) })
			<-time.After(time.Duration(delay) * time.Millisecond)
			w.Expire(c.session.ID())
			err := <-done
			check.False(w, err != nil && !errors.Is(err, election.ErrNoCandidate) && !errors.Is(err, election.ErrNotTaken), "%v", err)
			w.leader(0)
			synctest.Wait() // until its event is read
			check.False(w, count[election.Elected](b) == 0 && count[election.Deposed](a) > 0, "the first in line does not lead")
			w.Thaw(c.session.ID())
		})
	}
}

// TestHundred: a hundred candidates, the leader of whom is killed fifty times.
func TestHundred(t *testing.T) {
	candidates := hasten.Sized(hasten.Usually(100, 40), 20)
	kills := candidates / 2
	inBubble(t, lagging, func(w *world) {
		observers := w.open(0)
		o := check.Have(election.Observe(observers, path, nil))(w)
		var seen []int64
		all := make(chan struct{})
		w.readers.Go(func() {
			defer close(all)
			for ev := range o.Events() {
				seen = append(seen, ev.Term)
			}
		})
		for i := range candidates {
			w.stand(w.open(i), nil)
		}
		<-time.After(5 * time.Second)
		leader, term := w.leader(0)
		transfers := 0
		for i := range kills {
			<-time.After(2 * time.Second) // the last one stands again
			w.ResetRequests()
			killed := leader
			w.Freeze(killed.session.ID(), zktest.Both)
			leader, term = w.leader(term)
			synctest.Wait()
			woken := 0
			for _, p := range w.players {
				c := w.RequestsOf(p.session.ID())
				reads := c[zktest.OpGetData] + c[zktest.OpExists]
				delete(c, zktest.OpGetData)
				delete(c, zktest.OpExists)
				delete(c, zktest.OpSync) // heartbeats, as the next
				delete(c, zktest.OpCheck)
				switch {
				case p == killed:
				case c.Total() > 0:
					woken++
				case reads > 3: // the leader's node is gone, and there again
					w.Errorf("%d reads", reads)
				}
			}
			check.AtMost(w, woken, 2, "candidates were woken")
			w.Thaw(0)
			if i%10 == 9 { // from the middle of the line
				check.OK(w, leader.Transfer(w.soon(), w.players[(i*7)%candidates].Node()))
				leader, term = w.leader(term)
				transfers++
			}
		}
		o.Close()
		<-all
		terms := 0
		for _, p := range w.players {
			terms += count[election.Elected](p)
		}
		check.Equal(w, terms, 1+kills+transfers, "terms after", kills, "kills and", transfers, "transfers")
		check.True(w, slices.IsSorted(seen), "the observer was told of terms in the order %d", seen)
	})
}

// TestReconnects: a leader that comes back in time goes on leading.
func TestReconnects(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		a, b := w.stand(w.open(0), nil), w.stand(w.open(1), nil)
		<-time.After(time.Second)
		leader, term := w.leader(0)
		node := leader.Node()
		for range 20 {
			w.Disconnect(0)
			<-time.After(2 * time.Second)
		}
		if now, leading := leader.Leading(); !leading || now != term || leader.Node() != node {
			w.Errorf("term %d, %v", now, leading)
		}
		if n := count[election.Elected](a) + count[election.Elected](b); n != 1 || count[election.Deposed](leader) > 0 {
			w.Errorf("%d elections", n)
		}
		// One that is long enough to be told of.
		n := len(leader.events())
		w.Refuse(true)
		w.Disconnect(leader.session.ID())
		_, n = await[election.Suspended](leader, n)
		check.False(w, leads(leader), "there may be work that needs leadership")
		w.Refuse(false)
		await[election.Resumed](leader, n)
		if now, leading := leader.Leading(); !leading || now != term {
			w.Errorf("term %d, %v", now, leading)
		}
	})
}

// TestCutOff: whatever the network does to a leader, it is deposed before another is
// elected.
func TestCutOff(t *testing.T) {
	for name, happens := range map[string]func(*zktest.Server, int64){
		"frozen both ways":       func(srv *zktest.Server, id int64) { srv.Freeze(id, zktest.Both) },
		"frozen to the server":   func(srv *zktest.Server, id int64) { srv.Freeze(id, zktest.ToServer) },
		"frozen to the client":   func(srv *zktest.Server, id int64) { srv.Freeze(id, zktest.ToClient) },
		"a server that is alone": func(srv *zktest.Server, _ int64) { srv.Isolate(1) },
	} {
		t.Run(name, func(t *testing.T) {
			for run := range hasten.Sized(20, 4) {
				inBubble(t, lagging, func(w *world) {
					a := w.elect(w.open(1), nil)
					b := w.stand(w.open(2), nil)
					<-time.After(time.Second + time.Duration(run)*37*time.Millisecond)
					happens(w.Server, a.session.ID())
					await[election.Elected](b, 0)
					check.True(w, !leads(a) && count[election.Deposed](a) == 1, "two leaders")
					w.Thaw(0)
					w.Heal(1)
					<-time.After(20 * time.Second) // a stands again
					check.OK(w, b.Resign(w.soon()))
					await[election.Elected](a, 0)
					w.leader(0)
				})
			}
		})
	}
}

// TestOperator: nodes that an operator deletes.
func TestOperator(t *testing.T) {
	for name, remove := range map[string]func(w *world, s *session.Session, leader *player) []error{
		"the leader's node": func(w *world, s *session.Session, _ *player) []error {
			return []error{s.Delete(w.soon(), path+"/leader", session.AnyVersion)}
		},
		"the candidate's": func(w *world, s *session.Session, leader *player) []error {
			return []error{s.Delete(w.soon(), leader.Node(), session.AnyVersion)}
		},
		"both": func(w *world, s *session.Session, leader *player) []error {
			_, err := s.Multi(w.soon(), session.DeleteOp(path+"/leader", session.AnyVersion), session.DeleteOp(leader.Node(), session.AnyVersion))
			return []error{err}
		},
		"everything": func(w *world, s *session.Session, _ *player) []error {
			names, _, err := s.Children(w.soon(), path+"/candidates")
			errs := []error{err}
			for _, name := range names {
				errs = append(errs, s.Delete(w.soon(), path+"/candidates/"+name, session.AnyVersion))
			}
			return append(errs, s.Delete(w.soon(), path+"/leader", session.AnyVersion))
		},
	} {
		runInBubble(t, name, lagging, func(w *world) {
			w.operated = true
			s := w.open(0)
			w.elect(w.open(0), nil)
			w.stand(w.open(1), nil)
			w.stand(w.open(2), nil)
			<-time.After(time.Second)
			for range 5 {
				leader, term := w.leader(0)
				n := count[election.Deposed](leader)
				for _, err := range remove(w, s, leader) {
					check.False(w, err != nil && !errors.Is(err, session.ErrNoNode), "%v", err)
				}
				w.leader(term)
				<-time.After(time.Second)
				check.True(w, count[election.Deposed](leader) != n, "the leader was not told")
			}
		})
	}
}

// TestTransferUntold: the node of the candidate may not be written to by the leader. One that
// follows the leader takes over all the same. One that ignores it is not told: the leader resigns,
// and somebody leads.
func TestTransferUntold(t *testing.T) {
	for name, ignores := range map[string]bool{"follows": false, "ignores": true} {
		runInBubble(t, name, zktest.Config{Latency: time.Millisecond}, func(w *world) {
			leader := w.elect(w.open(0), nil)
			s := w.OpenAt(0, session.Options{
				Timeout: 6 * time.Second, Auth: []session.Auth{{Scheme: "digest", Secret: []byte("x:y")}},
				ACL: append(session.CreatorAll(), session.ACL{Perms: session.PermRead, Scheme: "world", ID: "anyone"}),
			})
			own := w.stand(s, &election.Options{IgnoreLeader: ignores})
			await[election.Standing](own, 0)
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
			defer cancel()
			err := leader.Transfer(ctx, own.Node())
			check.True(w, ignores == errors.Is(err, election.ErrNotTaken) && ignores == (err != nil), "%v", err)
			await[election.Elected](own, 0) // it stands before the former leader then, too
			for _, p := range []*player{own, leader} {
				p.Close()
			}
			s.Close()
		})
	}
}

// inherited has the last of three candidates lead, by a transfer: another one stands before it.
func inherited(w *world) (first, successor *player) {
	w.Helper()
	leader, first, successor := w.elect(w.open(0), nil), w.stand(w.open(1), nil), w.stand(w.open(2), nil)
	for _, p := range []*player{first, successor} {
		await[election.Standing](p, 0)
	}
	check.Must(w, leader.Transfer(w.soon(), successor.Node()))
	await[election.Elected](successor, 0)
	return first, successor
}

// TestOperatorAndSuccessor: the first in line is elected when a leader that does not stand first
// has given up, and not before. The guard of that one refuses then.
func TestOperatorAndSuccessor(t *testing.T) {
	guard := func(p *player) string { return strings.Replace(p.Node(), "/candidates/", "/successors/", 1) }
	for name, targets := range map[string]func(p *player) []string{
		"the leader's node":         func(*player) []string { return []string{path + "/leader"} },
		"the guard":                 func(p *player) []string { return []string{guard(p)} },
		"the candidate's":           func(p *player) []string { return []string{p.Node()} },
		"the leader's, then others": func(p *player) []string { return []string{path + "/leader", p.Node(), guard(p)} },
		"others, then the leader's": func(p *player) []string { return []string{guard(p), p.Node(), path + "/leader"} },
	} {
		runInBubble(t, name, lagging, func(w *world) {
			w.operated = true
			s := w.open(0)
			_, successor := inherited(w)
			before, term := successor.Guard(), leading(successor)
			for _, node := range targets(successor) {
				err := s.Delete(w.soon(), node, session.AnyVersion)
				check.False(w, err != nil && !errors.Is(err, session.ErrNoNode), "%v", err)
			}
			deposed, _ := await[election.Deposed](successor, 0)
			check.Is(w, deposed.Err, election.ErrNodeDeleted)
			w.leader(term)
			_, err := s.Multi(w.soon(), before)
			check.Is(w, err, election.ErrNotLeading)
		})
	}
}

// TestGuardOfASuccessor: the successor hears nothing when an operator deletes the leader's node.
// Its guard stands, and so no other candidate is elected until its session has ended.
func TestGuardOfASuccessor(t *testing.T) {
	inBubble(t, zktest.Config{Latency: time.Millisecond}, func(w *world) {
		s := w.open(0)
		first, successor := inherited(w)
		before := successor.Guard()
		w.Freeze(successor.session.ID(), zktest.Both)
		w.ResetRequests()
		check.Must(w, s.Delete(w.soon(), path+"/leader", session.AnyVersion))
		for until := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
			newer := leading(first)
			if _, err := s.Multi(w.soon(), before); err != nil {
				check.Is(w, err, election.ErrNotLeading)
				break
			}
			check.True(w, newer == 0, "%s leads in term %d, and the guard of %s passes", first.Node(), newer, successor.Node())
			check.Require(w, time.Now().Before(until), "the guard stands for ever")
		}
		check.AtMost(w, w.RequestsOf(first.session.ID())[zktest.OpMulti], 1, "claims of the first in line, which waits for the guard")
		w.Thaw(successor.session.ID())
		await[election.Elected](first, 0)
	})
}

// TestOperatorDuringTransfer: an operator deletes the leader's node while a successor hands over to
// a candidate that does not hear of it. The successor resigns, and another candidate leads.
func TestOperatorDuringTransfer(t *testing.T) {
	inBubble(t, zktest.Config{Latency: time.Millisecond}, func(w *world) {
		w.operated = true
		s := w.open(0)
		_, successor := inherited(w)
		deaf := w.stand(w.open(1), nil)
		await[election.Standing](deaf, 0)
		w.Freeze(deaf.session.ID(), zktest.ToClient)
		transferred := make(chan error, 1)
		go func() { transferred <- successor.Transfer(w.soon(), deaf.Node()) }()
		await[election.Deposed](successor, 0)
		<-time.After(time.Second)
		check.Must(w, s.Delete(w.soon(), path+"/leader", session.AnyVersion))
		check.Is(w, <-transferred, election.ErrNotTaken)
		w.Thaw(deaf.session.ID())
		w.leader(0)
	})
}

// leading returns the term of a candidate; 0 if it does not lead.
func leading(p *player) int64 {
	term, _ := p.Leading()
	return term
}

// TestSomebodysNode: what stands where the leader's node has to.
func TestSomebodysNode(t *testing.T) {
	inBubble(t, lagging, func(w *world) {
		s := w.open(0)
		defer s.Close() // so that its nodes are gone when the world looks
		check.Must(w, s.EnsurePath(w.soon(), path))
		check.Have(s.Create(w.soon(), path+"/leader", []byte("somebody"), session.Persistent))(w)
		a := w.stand(w.open(1), nil)
		await[election.Elected](a, 0) // it is removed
		a.Close()

		check.Have(s.Create(w.soon(), path+"/leader", []byte("somebody"), session.Ephemeral))(w)
		b := w.stand(w.open(1), nil)
		<-time.After(time.Second)
		check.False(w, leads(b), "a node of a session was not respected")
		check.Must(w, s.Delete(w.soon(), path+"/leader", session.AnyVersion))
		await[election.Elected](b, 0)
		b.Close()

		for _, node := range []string{path + "/leader", path + "/leader/child"} {
			check.Have(s.Create(w.soon(), node, nil, session.Persistent))(w)
		}
		c := w.stand(w.open(1), nil)
		left, _ := await[election.Left](c, 0)
		check.True(w, errors.Is(left.Err, election.ErrNotElection) && errors.Is(c.Err(), election.ErrNotElection), "%v %v", left.Err, c.Err())
	})
}

// TestEveryReplyLost: nothing is left, whichever request is lost, or its reply.
func TestEveryReplyLost(t *testing.T) {
	for _, who := range []int{0, 1} {
		t.Run(fmt.Sprint("of candidate ", who), func(t *testing.T) {
			kit.EachLoss(t, hasten.Sized(1, 4), func(t *testing.T, _ int, lose func(*zktest.Server, int64) func()) {
				inBubble(t, lagging, func(w *world) {
					sessions := []*session.Session{w.open(0), w.open(1)}
					defer lose(w.Server, sessions[who].ID())()
					a := w.elect(sessions[0], nil)
					b := w.stand(sessions[1], nil)
					<-time.After(time.Second)
					check.OK(w, a.Acknowledge(w.soon()))
					check.OK(w, a.Transfer(w.soon(), b.Node()))
					await[election.Elected](b, 0)
					<-time.After(5 * time.Second) // a stands again
					check.OK(w, b.Resign(w.soon()))
					_, n := await[election.Deposed](a, 0)
					await[election.Elected](a, n)
					<-time.After(5 * time.Second)
					a.Close()
					_, n = await[election.Deposed](b, 0)
					await[election.Elected](b, n)
					b.Close()
				})
			})
		})
	}
}

// TestOverwritten: whatever another client writes into the leader's node, it goes with its
// leader.
func TestOverwritten(t *testing.T) {
	for name, leave := range map[string]func(p *player){
		"close":  func(p *player) { p.Close() },
		"resign": func(p *player) { _ = p.Resign(p.world.soon()) },
	} {
		runInBubble(t, name, lagging, func(w *world) {
			operator := w.open(0)
			a := w.elect(w.open(0), nil)
			b := w.stand(w.open(1), nil)
			<-time.After(time.Second)
			check.Have(operator.Set(w.soon(), path+"/leader", []byte("me"), session.AnyVersion))(w)
			leave(a)
			await[election.Elected](b, 0)
		})
	}
}

// TestZombie: what a lost creation has left is withdrawn beside a claim, which is known of
// when it is to be given up a moment later.
func TestZombie(t *testing.T) {
	for delay := range 16 {
		inBubble(t, lagging, func(w *world) {
			operator := w.open(0)
			a := w.elect(w.open(0), nil)
			b := w.stand(w.open(1), nil)
			<-time.After(time.Second)
			zombie := b.Node()[:strings.LastIndex(b.Node(), "_")+1] + "0000000099"
			check.Have(operator.Create(w.soon(), zombie, nil, session.Persistent))(w)
			w.Freeze(b.session.ID(), zktest.Both)
			a.Close()
			w.Thaw(0)
			w.Disconnect(b.session.ID())
			for back := false; !back; _, back = b.session.State().(session.Resumed) {
				<-time.After(time.Millisecond / 4)
			}
			<-time.After(time.Duration(delay) * time.Millisecond / 4)
			b.Close()
			<-time.After(time.Second)
			stat, err := operator.Exists(w.soon(), path+"/leader")
			check.True(w, err == nil && stat == nil, "the leader's node is left, %v", err)
		})
	}
}

func TestBadInput(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w *world) {
		s := w.open(0)
		for name, test := range map[string]struct {
			s    *session.Session
			path string
			opts election.Options
			want error
		}{
			"no session":       {nil, path, election.Options{}, session.ErrInvalidArgument},
			"no path":          {s, "", election.Options{}, session.ErrInvalidPath},
			"a relative path":  {s, "x", election.Options{}, session.ErrInvalidPath},
			"an odd path":      {s, "/x/", election.Options{}, session.ErrInvalidPath},
			"a layout":         {s, path, election.Options{Layout: election.CuratorSelector + 1}, session.ErrInvalidArgument},
			"no layout":        {s, path, election.Options{Layout: -1}, session.ErrInvalidArgument},
			"negative grace":   {s, path, election.Options{LeadGrace: -1}, session.ErrInvalidArgument},
			"too much of data": {s, path, election.Options{Data: make([]byte, 600<<10)}, session.ErrTooLarge},
		} {
			_, err := election.New(test.s, test.path, &test.opts)
			check.Is(w, err, test.want, name)
		}
		check.Fails(election.Observe(s, path, &election.ObserveOptions{Layout: election.CuratorSelector + 1}))(w, session.ErrInvalidArgument)
		check.Fails(election.Observe(nil, path, nil))(w, session.ErrInvalidArgument)
		check.Fails(election.Candidates(w.soon(), s, "x", nil))(w, session.ErrInvalidPath)
	})
}

// TestDataAtTheLimit: what New accepts can be sent, in every transaction.
func TestDataAtTheLimit(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w *world) {
		for n := 512<<10 - 1500; ; n += 10 {
			check.Require(w, n <= 520<<10, "nothing is refused")
			s := w.open(0)
			c, err := election.New(s, path, &election.Options{Data: make([]byte, n)})
			if err != nil {
				break
			}
			c.Close()
		}
	})
}

// TestNodeAfterClose: a candidate that has left stands with no node, and knows no leader.
func TestNodeAfterClose(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w *world) {
		a := w.elect(w.open(0), nil)
		a.Close()
		check.Equal(w, a.Node(), "", "the node after Close")
		leader, known := a.Leader()
		check.False(w, known, "after Close it knows of %v", leader)
	})
}

// TestLeaderAfterTheEnd: a candidate that has left, and an observer that was closed, do not hear
// who leads, and name no leader.
func TestLeaderAfterTheEnd(t *testing.T) {
	for _, layout := range layouts {
		runInBubble(t, layout.String(), lagging, func(w *world) {
			s := w.open(0)
			defer s.Close()
			leader := w.elect(w.open(0), &election.Options{Layout: layout})
			second := w.stand(w.open(1), &election.Options{Layout: layout})
			o := check.Have(election.Observe(s, path, &election.ObserveOptions{Layout: layout}))(w)
			<-time.After(time.Second)
			for _, h := range []interface {
				Leader() (election.Leader, bool)
				Close()
				String() string
			}{second, o, leader} {
				_, known := h.Leader()
				check.True(w, known, "%v knows no leader before its end", h)
				h.Close()
				now, known := h.Leader()
				check.True(w, !known && now.Node == "", "%v names %s", h, now.Node)
			}
		})
	}
}

// TestFormerLeaderAcknowledges: an operator deletes "leader" while one that does not stand first
// acknowledges. That does not get into the record of the next.
func TestFormerLeaderAcknowledges(t *testing.T) {
	inBubble(t, zktest.Config{Latency: time.Millisecond}, func(w *world) {
		w.operated = true
		var all []*player
		for range 3 {
			all = append(all, w.stand(w.open(0), nil))
			<-time.After(time.Second)
		}
		a, b, c := all[0], all[1], all[2]
		check.Must(w, a.Transfer(w.Context(), c.Node()))
		await[election.Elected](c, 0)
		w.Delay(zktest.Match{Session: c.session.ID(), Op: zktest.OpMulti}, 4*time.Second)
		var late sync.WaitGroup
		late.Go(func() { _ = c.Acknowledge(w.Context()) })
		<-time.After(time.Second)
		s := w.open(0)
		check.Must(w, s.Delete(w.Context(), path+"/leader", session.AnyVersion))
		await[election.Elected](b, 0)
		late.Wait()
		<-time.After(5 * time.Second)
		leader, known := a.Leader()
		check.True(w, known && leader.Node == b.Node(), "%s leads, and others take %s for the leader", b.Node(), leader.Node)
		if data, _, err := s.Get(w.Context(), path+"/leader"); err != nil || !strings.Contains(string(data), b.Node()[len(path+"/candidates/"):]) || strings.Contains(string(data), "acknowledged") {
			w.Errorf("it says %q, %v", data, err)
		}
	})
}

// TestOtherLayouts: a candidate does not stand where others do by a layout that knows nothing of
// its own, nor goes on waiting there.
func TestOtherLayouts(t *testing.T) {
	for node, layout := range map[string]election.Layout{
		"/0123456789abcdef0123456789abcdef__lock__":       election.Standard,
		"/_c_01234567-89ab-4def-8123-456789abcdef-latch-": election.Standard,
		"/_c_01234567-89ab-4def-8123-456789abcdef-lock-":  election.Standard, // Curator's LeaderSelector
		"/n_": election.Standard, // ZooKeeper's
		"/candidates/0123456789abcdef0123456789abcdef__lock__":      election.Standard,
		"/_c_01234567-89ab-4def-8123-456789abcdef-lock-0000000001/": election.Curator,
		"/0123456789abcdef0123456789abcdef__lock__0000000001/":      election.Curator,
		"/_c_01234567-89ab-4def-8123-456789abcdef-latch-0/":         election.Kazoo,
		"/leader/":                  election.Kazoo,
		"/0000000001/":              election.Standard, // of no known layout
		"/candidates/x-0000000001/": election.Standard,
		"/x-0000000001/":            election.Curator,
		"/0000000002/":              election.Kazoo,
		"/0000000003/":              election.CuratorSelector,
	} {
		runInBubble(t, node, zktest.Config{}, func(w *world) {
			opts := &election.Options{Layout: layout}
			s := w.open(0)
			defer s.Close() // so that its node is gone when the world looks
			a := w.elect(w.open(0), opts)
			b := w.stand(w.open(0), opts)
			<-time.After(time.Second)
			name, whole := strings.CutSuffix(node, "/")
			mode := session.EphemeralSequential
			if whole {
				mode = session.Ephemeral
			}
			if strings.HasSuffix(name, "latch-0") {
				name, mode = strings.TrimSuffix(name, "0"), session.EphemeralSequential
			}
			check.Have(s.Create(w.Context(), path+name, nil, mode))(w)
			c := w.stand(w.open(0), opts)
			if left, _ := await[election.Left](c, 0); !errors.Is(left.Err, election.ErrLayout) {
				w.Errorf("a newcomer has left: %v", left.Err)
			}
			w.Disconnect(b.session.ID())
			if left, _ := await[election.Left](b, 0); !errors.Is(left.Err, election.ErrLayout) {
				w.Errorf("one that has waited has left: %v", left.Err)
			}
			check.True(w, leads(a), "the leader does not lead: %v", a.Err())
		})
	}
}

// TestStand: it returns when the candidate is in line, and not before, and leaves nothing behind
// if that is not waited for.
func TestStand(t *testing.T) {
	inBubble(t, zktest.Config{Latency: time.Millisecond}, func(w *world) {
		s := w.open(0)
		defer s.Close() // so that its nodes are gone when the world looks
		a := check.Have(election.Stand(w.Context(), s, path, nil))(w)
		b := w.stand(w.open(0), nil)
		<-time.After(time.Second)
		if line, err := election.Candidates(w.Context(), s, path, nil); err != nil || len(line) != 2 || line[0].Node != a.Node() || line[1].Node != b.Node() {
			w.Errorf("%v, %v", line, err)
		} else {
			check.True(w, strings.HasSuffix(string(line[0].Data), fmt.Sprintf(":%d", os.Getpid())), "data that names no process: %q", line[0].Data)
		}
		ev, _ := await[election.Standing](b, 0)
		check.Equal(w, ev.Node, b.Node(), ev, "and it stands with")
		a.Close()
		await[election.Elected](b, 0)

		w.Freeze(s.ID(), zktest.ToServer)
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Millisecond)
		defer cancel()
		if c, err := election.Stand(ctx, s, path, nil); c != nil || !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("%v, %v", c, err)
		}
		w.Thaw(s.ID())
		<-time.After(5 * time.Second)
		if line, err := election.Candidates(w.Context(), s, path, nil); err != nil || len(line) != 1 {
			w.Errorf("%v, %v", line, err)
		}
		if _, err := election.Stand(w.Context(), s, path, &election.Options{Layout: election.Kazoo}); !errors.Is(err, election.ErrLeft) || !errors.Is(err, election.ErrLayout) {
			w.Error(err)
		}
		guard := b.Guard()
		check.Must(w, b.Resign(w.Context()))
		if _, err := s.Multi(w.Context(), guard); !errors.Is(err, election.ErrNotLeading) || !errors.Is(err, session.ErrNoNode) {
			w.Errorf("a guard of a term that is over: %v", err)
		}
	})
}

// TestThrottled: a candidate stands until it is closed, however busy the server is with one of its
// requests.
func TestThrottled(t *testing.T) {
	for name, m := range map[string]zktest.Match{
		"claim": {Op: zktest.OpMulti, Path: path + "/leader"},
		"list":  {Op: zktest.OpGetChildren2, Path: path + "/candidates"},
		"join":  {Op: zktest.OpMulti, Path: path + "/candidates"},
		"look":  {Op: zktest.OpGetData, Path: path + "/leader"},
	} {
		for _, code := range []int32{-127, -7} {
			runInBubble(t, name, zktest.Config{}, func(w *world) {
				a := w.elect(w.open(0), nil)
				s := w.open(0)
				m.Session = s.ID()
				for range 3 {
					w.AnswerError(m, code)
				}
				b := w.stand(s, nil)
				<-time.After(time.Second)
				a.Close()
				await[election.Elected](b, 0)
				w.ClearFaults()
			})
		}
	}
}

// TestThrottledCommands: what a leader is asked to do is done, however busy the server is.
func TestThrottledCommands(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpMulti, zktest.OpExists} {
		inBubble(t, zktest.Config{}, func(w *world) {
			a := w.elect(w.open(0), nil)
			b := w.stand(w.open(0), nil)
			<-time.After(time.Second)
			throttle := func() {
				for range 3 {
					w.AnswerError(zktest.Match{Op: op}, -127)
				}
			}
			if op == zktest.OpMulti {
				throttle()
			}
			check.OK(w, a.Acknowledge(w.Context()), op, "acknowledge")
			throttle()
			check.OK(w, a.Transfer(w.Context(), b.Node()), op, "transfer")
			synctest.Wait() // it hears of it when the former leader does, or later
			check.True(w, leads(b), "%v: it does not lead", op)
			w.ClearFaults()
		})
	}
}
