package commit_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

var realTransactions = flag.Int("commit.transactions", hasten.Usually(100, 40), "transactions of TestReal; 500 are a campaign")

// A tally is what five sites have acted on.
type tally struct {
	mu    sync.Mutex
	acted map[string]map[string]bool // by transaction: the outcomes, and the sites that voted no
}

func (a *tally) act(tx, what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.acted[tx] == nil {
		a.acted[tx] = map[string]bool{}
	}
	a.acted[tx][what] = true
}

// TestReal runs transactions with random votes on three servers. Replies are lost, the leader is
// killed, and the coordinator is, again and again, between the phases. With
// -commit.transactions=500 it takes a minute.
func TestReal(t *testing.T) {
	t.Parallel()
	hasten.Waits(t)
	transactions, sites := *realTransactions, named(5)
	ens := zktest.StartEnsemble(t, 3, zktest.NoSync())
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// A leader that no one follows in time waits for InitLimit, 10 s; it may be elected twice.
	connect := func() *session.Session {
		s := check.Have(session.Open(ctx, proxy.Addrs(), &session.Options{Timeout: 40 * time.Second, ServerTick: 100 * time.Millisecond}))(t)
		return s
	}
	all := &tally{acted: map[string]map[string]bool{}}
	var serving sync.WaitGroup
	defer serving.Wait()
	for i, name := range sites {
		s := connect()
		p := check.Have(commit.Join(s, parent, name, nil))(t)
		defer s.Close()
		defer p.Close()
		random := rand.New(rand.NewPCG(uint64(i), 5))
		serving.Go(func() {
			for ev := range p.Events() {
				var err error
				switch ev := ev.(type) {
				case commit.Prepare:
					vote := commit.Yes
					if random.IntN(10) == 0 {
						vote = commit.No
						all.act(ev.Tx.ID, "no")
					}
					err = p.Vote(ctx, ev.Tx, vote)
				case commit.Committed:
					all.act(ev.Tx.ID, "committed")
					err = p.Finish(ctx, ev.Tx)
				case commit.Aborted:
					all.act(ev.Tx.ID, "aborted")
					err = p.Finish(ctx, ev.Tx)
				case commit.Forgotten:
					t.Errorf("%s: %v", name, ev)
				case commit.Voted, commit.Left:
				}
				if err != nil && !errors.Is(err, commit.ErrDecided) && ctx.Err() == nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}

	s := connect()
	defer func() { s.Close() }()
	handles, resumed := map[string]*commit.Transaction{}, map[string]bool{}
	await := func() {
		for id, tx := range handles {
			outcome, err := tx.Wait(ctx)
			tx.Close()
			if errors.Is(err, commit.ErrForgotten) && resumed[id] {
				continue // the sites were done before it was followed
			}
			check.Must(t, err)
			what := "aborted"
			if outcome.Committed {
				what = "committed"
			}
			all.act(id, what)
		}
		clear(handles)
	}
	leader := ens.Leader()
	for i := range transactions {
		id := fmt.Sprintf("tx-%04d", i)
		switch {
		case i == transactions/2:
			ens.Kill(leader)
		case i%7 == 0:
			proxy.DropReply(zktest.Match{Op: zktest.OpMulti})
		case i%11 == 0:
			proxy.DropRequest(zktest.Match{Op: zktest.OpMulti})
		case i%13 == 0:
			proxy.Disconnect(0)
		}
		tx, err := commit.Begin(ctx, s, parent+"/"+id, &commit.Options{
			Sites: sites, Mode: commit.Mode(i % 2), TakeoverAfter: 2 * time.Second,
		})
		check.Must(t, err)
		handles[id] = tx
		switch i % 20 {
		case 9: // the coordinator is killed
			s.Close()
			for _, tx := range handles {
				tx.Close()
			}
			clear(handles)
			s = connect()
			again := check.Have(commit.Resume(ctx, s, parent))(t)
			for _, tx := range again {
				handles[tx.ID()], resumed[tx.ID()] = tx, true
			}
		case 19:
			await()
		}
	}
	await()
	status := check.Have(commit.List(ctx, s, parent))(t)
	for _, at := range status {
		if err := watch.UntilGone(ctx, s, parent+"/"+at.ID); err != nil {
			t.Fatalf("left: %v: %v", at, err)
		}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	committed := 0
	for id, did := range all.acted {
		switch {
		case did["committed"] && (did["aborted"] || did["no"]), !did["committed"] && !did["aborted"]:
			t.Errorf("%s: %v", id, did)
		case did["committed"]:
			committed++
		}
	}
	if len(all.acted) != transactions || committed == 0 || committed == transactions {
		t.Errorf("%d of %d, %d committed", len(all.acted), transactions, committed)
	}
	t.Logf("%d of %d committed", committed, transactions)
}
