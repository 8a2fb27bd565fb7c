// Package bubble plays scenarios in a bubble of testing/synctest, with the real wire: the recipes
// speak to a server in memory over connections in memory. Time is virtual, so that a minute of
// timeouts passes in a second or two.
//
// # The same seed, the same history
//
// A history follows from its scenario and its seed alone if the test binary was built with the
// changes of package overlay to Go's runtime, as the campaign builds it: every choice of the
// runtime (select, the order of maps, timers of one instant) follows from the seed, one processor
// runs all goroutines, and none is preempted by the clock on the wall. Without them the faults are
// the same, and when they come, but the order of what happens at one instant is the runtime's.
//
// It is not perfect: of sixty histories that were played twice beside other work, one differed the
// second time, at one instant in virtual time. Addresses of memory are the suspect: they decide the
// order of maps whose keys are pointers. "campaign bubble --twice" counts such histories, and
// another attempt plays the first one again.
package bubble

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/campaign/life"
	"github.com/zkactors/zkactors/campaign/scenario"
	"github.com/zkactors/zkactors/campaign/workload"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const (
	processes = 4
	calm      = 3 * time.Second  // before the first fault
	trouble   = 20 * time.Second // while faults strike
	after     = 5 * time.Second  // of work without faults
	quiet     = 15 * time.Second // without work, until all is known
)

// Play plays a scenario, and returns its history.
func Play(t *testing.T, s scenario.Scenario, seed uint64, system workload.System) *history.History {
	t.Helper()
	var h *history.History
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		seedRuntime(seed)
		h = play(t, s, seed, system)
	})
	return h
}

func play(t *testing.T, s scenario.Scenario, seed uint64, system workload.System) *history.History {
	t.Helper()
	start := time.Now()
	record := history.NewRecorder(history.Head{Scenario: s.Name, Seed: seed, System: string(system)}, func() time.Duration { return time.Since(start) })
	dice := scenario.Dices(s.Name, seed)
	config := s.Servers(dice())
	config.InProcess = true
	now := time.Now
	if config.Clock != nil {
		now = config.Clock.Now
	}
	config.Committed = func(tx zktest.Transaction) { record.Commit(commitOf(tx, now())) }
	server := check.Have(zktest.NewServer(config))(t)
	defer server.Close()
	c := &crew{
		server: server, record: record, system: system, dice: dice,
		stop: make(chan struct{}), quiet: make(chan struct{}), over: make(chan struct{}),
	}
	operator := check.Have(session.Open(context.Background(), server.Addrs(), &session.Options{Timeout: 20 * time.Second, Dialer: server.DialContext}))(t)
	defer operator.Close()
	paths := check.Have(life.Prepare(context.Background(), operator, system, record.Client("setup")))(t)
	for i := range processes {
		c.all = append(c.all, &process{number: i})
		c.Start(i)
	}
	<-time.After(calm)
	end := make(chan struct{})
	w := &scenario.World{Crew: c, Course: scenario.NewCourse(dice(), end), Server: server, Record: record, Operator: operator, Paths: paths}
	var faults sync.WaitGroup
	faults.Go(func() { s.Play(w) })
	<-time.After(trouble)
	close(end)
	faults.Wait()
	c.heal()
	<-time.After(after)
	c.finish()
	return record.History()
}

// commitOf returns what a transaction has done at a time by the servers' clock.
func commitOf(tx zktest.Transaction, now time.Time) history.Commit {
	c := history.Commit{Zxid: tx.Zxid, Time: now.UnixMilli(), Closes: tx.Closes, Restored: tx.Restored}
	kinds := map[zktest.ChangeKind]history.ChangeKind{
		zktest.Created: history.Created, zktest.Deleted: history.Deleted, zktest.DataSet: history.Set,
	}
	for _, ch := range tx.Changes {
		c.Changes = append(c.Changes, history.Change{Kind: kinds[ch.Kind], Path: ch.Path, Data: history.Kept(ch.Data), Owner: ch.Owner})
	}
	return c
}

// A crew is the processes of a history.
type crew struct {
	server            *zktest.Server
	record            *history.Recorder
	system            workload.System
	dice              func() *rand.Rand
	stop, quiet, over chan struct{}

	all []*process

	mu   sync.Mutex // guards what follows, and the processes
	dead sync.WaitGroup
}

// A process is one of the crew, or the memory of one that is dead.
type process struct {
	number, lives int
	record        *history.Client // of its life
	life          *life.Life      // nil while it is dead
}

// Processes implements [scenario.Crew].
func (c *crew) Processes() int { return processes }

// Session implements [scenario.Crew].
func (c *crew) Session(i int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.all[i].life; l != nil {
		return l.Session()
	}
	return 0
}

// Start implements [scenario.Crew].
func (c *crew) Start(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.all[i]
	if p.life != nil {
		return
	}
	p.lives++
	p.record = c.record.Client(fmt.Sprintf("%d.%d", p.number, p.lives))
	p.life, _ = life.Start(life.Config{ // without an error: its options are right
		System: c.system, Number: i, Of: processes, Servers: c.server.Addrs(), Record: p.record, Dice: c.dice,
		Dial: c.server.DialContext, Stop: c.stop, Quiet: c.quiet, Over: c.over,
	})
}
