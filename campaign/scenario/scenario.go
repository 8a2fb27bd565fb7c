// Package scenario has the faults of the campaign: named scenarios, each driven by a seed.
//
// A scenario strikes servers in memory (session/zktest), which speak the real protocol. Its faults
// stand in the history, with what they take from the promises of the recipes: see package judge.
// What servers in memory cannot do is not here: they have no consensus, so a deposed leader that
// goes on answering syncs, and a rolling upgrade of servers, need real ensembles: see package real.
package scenario

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zkactors/zkactors/campaign/history"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A Crew is the processes that the faults strike.
type Crew interface {
	// Processes returns how many there are. They have numbers from 0.
	Processes() int

	// Session returns the session of a process; 0 if it has none.
	Session(i int) int64

	// Kill ends a process without a word: its connection breaks, and its session stays until it
	// times out. Start begins its next life. Both do nothing if it is so.
	Kill(i int)
	Start(i int)

	// Pause stops what a process does between two steps, and Resume lets it go on. Its session is
	// not affected: freeze that, too.
	Pause(i int)
	Resume(i int)
}

// A World is what a scenario strikes.
type World struct {
	Crew
	*Course

	Server   *zktest.Server
	Record   *history.Recorder
	Operator *session.Session
	Paths    []string // below which the recipes work

	mu     sync.Mutex
	frozen map[int64]int // by session: how many freezes are in force
}

// Timeout is the session timeout of the processes.
const Timeout = 6 * time.Second

// A Scenario is a kind of trouble.
type Scenario struct {
	Name, About string

	// Servers are what the scenario needs. InProcess and Committed are set by the caller.
	Servers func(dice *rand.Rand) zktest.Config

	// Play strikes until the world's End. It is called on a goroutine of its own.
	Play func(w *World)
}

// All returns the scenarios.
func All() []Scenario {
	return []Scenario{
		{"cuts", "connections break, one or all at once", three, each(300*time.Millisecond, cut)},
		{"one-way-cuts", "what flows in one direction stops, also for longer than sessions live", three, each(time.Second, oneWay)},
		{"freezes", "connections stop in both directions, also for longer than sessions live", three, each(time.Second, freeze)},
		{"lost-requests", "requests are lost, with their connection or without", three, each(200*time.Millisecond, loseRequest)},
		{"lost-replies", "requests are done, and their replies are lost", three, each(200*time.Millisecond, loseReply)},
		{"lagging-replicas", "replicas answer with older state, and events come late", lagging, each(200*time.Millisecond, lag)},
		{"isolated-replicas", "a follower is cut off from its leader, and goes on answering reads", three, each(2*time.Second, isolateFollower)},
		{"deposed-leaders", "the leader is cut off from the others, which have another", three, each(2*time.Second, isolateLeader)},
		{"expiries", "sessions are ended by decree; some of their nodes stay for a while", three, each(time.Second, expire)},
		{"outages", "no server accepts a connection for a while", three, each(3*time.Second, outage)},
		{"throttling", "servers refuse requests because they are busy, or lose their connection to the leader", three, each(100*time.Millisecond, throttle)},
		{"operators", "an operator deletes nodes of the recipes, and whole trees", three, each(400*time.Millisecond, remove)},
		{"restores", "the servers come back with older data", three, restore},
		{"drifting-clocks", "the servers' clocks run faster or slower by one percent, while connections freeze", drifting, each(time.Second, freeze)},
		{"pauses", "processes stop for longer than their sessions live, and go on as if nothing had happened", three, each(2*time.Second, pause)},
		{"slow-servers", "replies take hundreds of milliseconds", slow, each(300*time.Millisecond, delay)},
		{"overload", "one client keeps the servers busy with long requests and replies, and owes them much", narrow, overload},
		{"restarts", "processes die without a word, and come back under their names", three, each(1500*time.Millisecond, restart)},
		{"used-trees", "the paths were used before: numbers are at their wrap, containers are plain nodes, strangers are there", three, usedTrees},
		{"everything", "all of these, one after the other and at once", lagging, each(250*time.Millisecond, anything)},
	}
}

// Find returns the scenario with the name.
func Find(name string) (Scenario, bool) {
	for _, s := range All() {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}

func three(dice *rand.Rand) zktest.Config {
	return zktest.Config{
		Replicas: 3, Latency: time.Millisecond, Lag: time.Duration(dice.IntN(2)) * 3 * time.Millisecond,
		ReapInterval: 700 * time.Millisecond, Tick: 500 * time.Millisecond,
	}
}

func lagging(dice *rand.Rand) zktest.Config {
	config := three(dice)
	config.Lag = upTo(dice, 150*time.Millisecond)
	return config
}

func slow(dice *rand.Rand) zktest.Config {
	config := three(dice)
	config.Latency = 10*time.Millisecond + upTo(dice, 150*time.Millisecond)
	return config
}

func narrow(dice *rand.Rand) zktest.Config {
	config := three(dice)
	config.MaxOwed = 128 << 10
	return config
}

func drifting(dice *rand.Rand) zktest.Config {
	config := three(dice)
	rates := []float64{0.99, 0.995, 1.005, 1.01}
	config.Clock = driftingClock{time.Now(), rates[dice.IntN(len(rates))]}
	return config
}

// A driftingClock runs at another rate than the clock of package time.
type driftingClock struct {
	start time.Time
	rate  float64
}

// Now implements [zktest.Clock].
func (c driftingClock) Now() time.Time {
	return c.start.Add(time.Duration(float64(time.Since(c.start)) * c.rate))
}

// AfterFunc implements [zktest.Clock]. It is a little late, because what is due must have come by
// Now, too.
func (c driftingClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(time.Duration(float64(d)/c.rate)+time.Microsecond, f).Stop
}

// stop freezes the connections of a session for a while. Freezes may overlap.
func (w *World) stop(victim int64, dir zktest.Direction, d time.Duration, then func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen == nil {
		w.frozen = make(map[int64]int)
	}
	w.frozen[victim]++
	w.Server.Freeze(victim, dir)
	w.Lasts(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.frozen[victim]--; w.frozen[victim] == 0 {
			w.Server.Thaw(victim)
		}
		then()
	})
}

// disturb records a fault that recipes bear.
func (w *World) disturb(about string) {
	w.Record.Fault(history.Fault{Kind: history.Disturbed, About: about})
}

// victim returns the session of one of the processes; 0 stands for all of them if one has none.
func (w *World) victim() int64 { return w.Session(w.IntN(w.Processes())) }
