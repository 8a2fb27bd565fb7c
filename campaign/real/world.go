package real

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/scenario"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A World is what a scenario strikes.
type World struct {
	scenario.Crew
	*scenario.Course

	Ensemble *zktest.Ensemble
	Record   *history.Recorder
	Operator *session.Session
	Paths    []string // below which the recipes work
	Version  string   // of the servers at first

	members   []*member
	chronicle *chronicle
	dir       string // for what a scenario keeps

	mu  sync.Mutex
	err error // what a scenario could not do
}

// patient bounds what an operator does to servers.
const patient = 2 * time.Minute

// disturb records a fault that recipes bear.
func (w *World) disturb(format string, args ...any) {
	w.Record.Fault(history.Fault{Kind: history.Disturbed, About: fmt.Sprintf(format, args...)})
}

// fail notes what a scenario could not do: its history is not judged.
func (w *World) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

// leader returns the leader, or -1 if there is none in time.
func (w *World) leader() int {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	i, err := w.Ensemble.LeaderContext(ctx)
	if err != nil {
		w.fail(err)
	}
	return i
}

// follower returns one of the others.
func (w *World) follower() int { return (w.leader() + 1 + w.IntN(servers-1)) % servers }

// restart starts servers again, and waits until they serve.
func (w *World) restart(all ...int) {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if err := w.Ensemble.RestartContext(ctx, all...); err != nil {
		w.fail(err)
	}
}

// settle waits until all servers serve.
func (w *World) settle(ctx context.Context) error {
	for i := range servers {
		if err := w.Ensemble.AwaitServing(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// proxy returns the way of a process to the servers, and its number.
func (w *World) proxy() (*zktest.Proxy, int) {
	i := w.IntN(len(w.members))
	return w.members[i].proxy, i
}

// heal ends all faults, and starts what is down.
func (w *World) heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	for i := range w.Processes() {
		w.Resume(i)
		w.Start(i)
		p := w.members[i].proxy
		p.Thaw(0)
		p.Refuse(false)
		p.Latency(0)
	}
	w.Ensemble.Heal()
	err := w.settle(ctx)
	w.Record.Fault(history.Fault{Kind: history.Healed})
	return err
}
