package election_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var storms = flag.Int("election.storms", hasten.Usually(30, 10), "storms to go through; 100 are a campaign")

// TestStorms plays random rounds of everything that can happen to four candidates on three
// replicas. After each storm there is one leader, of whom all are told, and at the end
// nothing is left. ZKACTORS_STORM names the one to play again.
func TestStorms(t *testing.T) {
	rounds := hasten.Sized(*storms, 4)
	first := 0
	if one := os.Getenv("ZKACTORS_STORM"); one != "" {
		n := check.Have(strconv.Atoi(one))(t)
		first, rounds = n, n+1
	}
	terms, transfers := 0, 0
	for seed := first; seed < rounds; seed++ {
		ok := t.Run(fmt.Sprint("storm ", seed), func(t *testing.T) {
			inBubble(t, lagging, func(w *world) {
				a, b := storm(w, uint64(seed))
				terms, transfers = terms+a, transfers+b
			})
		})
		check.Require(t, ok, "storm %d", seed)
	}
	t.Logf("%d terms, %d transfers", terms, transfers)
}

func storm(w *world, seed uint64) (terms, transfers int) {
	w.operated = seed%2 == 1 // and sessions are ended by the server
	dice := rand.New(rand.NewPCG(seed, 0))
	operator := w.open(0)
	var live []*player
	add := func() {
		s := w.open(dice.IntN(3))
		if len(live) > 0 && dice.IntN(4) == 0 {
			s.Close()
			s = live[dice.IntN(len(live))].session // two of one session
		}
		live = append(live, w.stand(s, &election.Options{Data: []byte(fmt.Sprint(len(w.players)))}))
	}
	for range 4 {
		add()
	}
	for range 6 {
		for range 1 + dice.IntN(6) {
			p := live[dice.IntN(len(live))]
			if dice.IntN(2) == 0 {
				for _, q := range live {
					if _, leading := q.Leading(); leading {
						p = q
					}
				}
			}
			ctx, end := context.WithTimeout(w.Context(), time.Duration(dice.IntN(2000))*time.Millisecond)
			id, match := p.session.ID(), zktest.Match{Skip: dice.IntN(6), Session: p.session.ID()}
			switch n := dice.IntN(15); n {
			case 0:
				w.DropReply(match)
			case 1:
				w.DropRequest(match)
			case 2:
				w.Delay(match, time.Duration(dice.IntN(500))*time.Millisecond)
			case 3:
				w.Disconnect(id)
			case 4:
				w.Freeze(id, zktest.Direction(dice.IntN(3))) // no notification overtakes a reply
			case 5:
				w.Thaw(0)
			case 6:
				w.Isolate(1 + dice.IntN(2))
			case 7, 8:
				_ = p.Resign(ctx)
			case 9, 10, 11:
				q := live[dice.IntN(len(live))]
				if err := p.Transfer(ctx, q.Node()); err == nil {
					transfers++
				} else if !expected(err) {
					w.Error(err)
				}
			case 12:
				if err := p.Acknowledge(ctx); err != nil && !expected(err) {
					w.Error(err)
				}
			case 13:
				if w.operated {
					w.Expire(id)
				}
			case 14:
				if w.operated {
					node := path + "/leader"
					if dice.IntN(2) == 0 {
						node = p.Node()
					}
					_ = operator.Delete(ctx, node, session.AnyVersion) // if there is one
				}
			}
			end()
			<-time.After(time.Duration(dice.IntN(60)) * time.Millisecond)
		}
		if dice.IntN(3) == 0 {
			<-time.After(time.Duration(dice.IntN(8)) * time.Second)
		}
		w.Thaw(0)
		w.Heal(1)
		w.Heal(2)
		w.ClearFaults()
		if dice.IntN(2) == 0 {
			i := dice.IntN(len(live))
			live[i].Close()
			live = slices.Delete(live, i, i+1)
			add()
		}
		<-time.After(30 * time.Second)
		synctest.Wait()
		calm(w, operator, live)
	}
	for _, p := range w.players {
		terms += count[election.Elected](p)
	}
	return terms, transfers
}

// expected reports whether an error is one that a command may end with in a storm.
func expected(err error) bool {
	for _, target := range []error{
		election.ErrNotLeading, election.ErrNoCandidate, election.ErrNotTaken, election.ErrBusy, election.ErrLeft,
		session.ErrInvalidArgument, session.ErrInvalidPath, context.DeadlineExceeded,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// calm expects one leader, of whom all candidates know, and no other nodes than there should
// be.
func calm(w *world, s *session.Session, live []*player) {
	w.Helper()
	var leaders []string
	var nodes []string
	for _, p := range live {
		nodes = append(nodes, p.Node())
		if _, leading := p.Leading(); leading {
			leaders = append(leaders, p.Node())
		}
	}
	check.Require(w, len(leaders) == 1, "%d leaders: %q", len(leaders), leaders)
	for _, p := range live {
		if leader, known := p.Leader(); !known || leader.Node != leaders[0] {
			w.Errorf("%s leads, and %s is told of %s", leaders[0], p.Node(), leader.Node)
		}
	}
	line := check.Have(election.Candidates(w.soon(), s, path, nil))(w)
	if w.Failed() {
		data, stat, err := s.Get(w.soon(), path+"/leader")
		w.Logf("the leader's node: %q %+v %v", data, stat, err)
		for _, p := range live {
			w.Logf("%s %v", p.Node(), p.events())
		}
	}
	for _, c := range line {
		check.True(w, slices.Contains(nodes, c.Node) && c.Leading == (c.Node == leaders[0]), "%+v stands, beside %q", c, nodes)
	}
	check.Len(w, line, len(live))
}
