package spec_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/tlc"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// This file has TLC look at runs of the real library, with its sessions and wires, beside the
// server in memory: is each a behaviour of its specification? An observer looks each millisecond of
// the bubble's clock at the server's nodes, and at what the users of the handles know. What happens
// between two observations is hidden from TLC, which looks for an explanation.

// An observation has what an observer has seen at one moment, in TLA+.
type observation struct {
	line []string // for a barrier a set, else in order
	vis  map[string]string
	up   []string // of a barrier
}

func (o observation) String() string {
	var vis []string
	for _, name := range slices.Sorted(maps.Keys(o.vis)) {
		vis = append(vis, fmt.Sprintf("%s |-> %q", name, o.vis[name]))
	}
	return fmt.Sprintf("[line |-> <<%s>>, up |-> {%s}, vis |-> [%s]]",
		strings.Join(o.line, ", "), strings.Join(o.up, ", "), strings.Join(vis, ", "))
}

// module writes the run as a module.
func module[O fmt.Stringer](name string, run []O) map[string]string {
	lines := make([]string, len(run))
	for i, o := range run {
		lines[i] = "  " + o.String()
	}
	return map[string]string{name + ".tla": "---- MODULE " + name + " ----\nRun == <<\n" + strings.Join(lines, ",\n") + "\n>>\n====\n"}
}

// watchRun observes until all is over.
func watchRun(over func() bool, observe func() observation) (run []observation) {
	for {
		o := observe()
		if len(run) == 0 || run[len(run)-1].String() != o.String() {
			run = append(run, o)
		}
		if over() {
			return run
		}
		kit.Pass(time.Millisecond)
	}
}

// pause waits for the bubble's clock. Only the observer may wait until all goroutines rest.
func pause(d time.Duration) { <-time.After(d) }

// names are those of the contenders, and of the parties.
var names = []string{"a", "b", "c"}

// latency is that of each direction of a connection, so that requests and events are under way.
const latency = 2 * time.Millisecond

// A fault hits the n-th contender.
type fault func(srv *zktest.Server, s *session.Session)

// lockRuns are the runs of locks.
var lockRuns = []struct {
	name  string
	seeds int
	short int           // with -short
	holds time.Duration // so much longer each holds
	fault fault
	set   set // the faults that the specification may use
}{
	{"calm", 3, 1, 0, nil, nil},
	{"cut", 2, 0, 0, func(srv *zktest.Server, s *session.Session) { srv.Disconnect(s.ID()) }, set{"Cuts": "1", "Lates": "1"}},
	{"lapsed", 2, 1, 2 * time.Second, func(srv *zktest.Server, s *session.Session) {
		srv.Refuse(true)
		srv.Disconnect(s.ID())
		pause(1900 * time.Millisecond) // until its lease has ended, or nearly
		srv.Refuse(false)
	}, set{"Lapses": "1"}}, // which gives up the connection, too
	{"expired", 2, 1, 0, func(srv *zktest.Server, s *session.Session) { srv.Expire(s.ID()) }, set{"Kills": "1", "LeaseHolds": "FALSE"}},
}

// TestLockTraces: runs of real locks are behaviours of Line, and doctored ones are not.
func TestLockTraces(t *testing.T) {
	t.Parallel()
	c := tlc.Require(t)
	for _, r := range lockRuns {
		for seed := range hasten.Sized(r.seeds, r.short) {
			t.Run(fmt.Sprint(r.name, seed), func(t *testing.T) {
				t.Parallel()
				run := locks(t, uint64(seed), r.holds, r.fault)
				explains(t, c, "Line", run, r.set)
			})
		}
	}
}

// TestDoctoredLockTraces: a run in which somebody is granted too early, in which the line has
// another order, or in which two hold, is refused.
func TestDoctoredLockTraces(t *testing.T) {
	t.Parallel()
	c := tlc.Require(t)
	run := locks(t, 0, 0, nil)
	for name, doctor := range map[string]func(o *observation) bool{
		"the second is granted": func(o *observation) bool {
			if len(o.line) < 2 || o.vis[o.line[0][3:4]] != "held" {
				return false
			}
			o.vis[o.line[0][3:4]], o.vis[o.line[1][3:4]] = "in line", "held"
			return true
		},
		"two hold": func(o *observation) bool {
			if len(o.line) < 2 || o.vis[o.line[0][3:4]] != "held" {
				return false
			}
			o.vis[o.line[1][3:4]] = "held"
			return true
		},
		"another order": func(o *observation) bool {
			if len(o.line) < 2 {
				return false
			}
			o.line[0], o.line[1] = o.line[1], o.line[0]
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuses(t, c, "Line", doctored(t, run, doctor), nil)
		})
	}
}

// doctored changes a copy of a run, in the first observation that the change fits.
func doctored(t *testing.T, run []observation, change func(o *observation) bool) []observation {
	t.Helper()
	run = slices.Clone(run)
	for i, o := range run {
		o.line, o.vis = slices.Clone(o.line), maps.Clone(o.vis)
		if change(&o) {
			run[i] = o
			return run[:i+1]
		}
	}
	t.Fatalf("nothing to change in %v", run)
	return nil
}

// explains fails unless the run is a behaviour of the specification.
func explains[O fmt.Stringer](t *testing.T, c tlc.Checker, name string, run []O, values set) {
	t.Helper()
	r := trace(t, c, name, run, values)
	t.Logf("%d observations, %v", len(run), r)
	check.True(t, r.Violated == "NotExplained", "the specification does not explain\n%v\n%s", module(name+"Run", run), r.Output)
	all := fmt.Sprintf(`<<"explained", %d>>`, len(run))
	check.True(t, len(run) > 5 && strings.Contains(r.Output, all), "not %s:\n%s", all, r.Output)
}

// refuses fails if the run is a behaviour of the specification.
func refuses[O fmt.Stringer](t *testing.T, c tlc.Checker, name string, run []O, values set) {
	t.Helper()
	r := trace(t, c, name, run, values)
	t.Logf("%d observations, %v", len(run), r)
	check.True(t, r.Violated == "", "the specification explains\n%v\n%s", module(name+"Run", run), r.Output)
}

func trace[O fmt.Stringer](t *testing.T, c tlc.Checker, name string, run []O, values set) tlc.Result {
	t.Helper()
	return runModel(t, c, tlc.Model{Module: name + "Trace", Set: values, Add: module(name+"Run", run)})
}

// TestBarrierTraces: runs of real double barriers are behaviours of DoubleBarrier.
func TestBarrierTraces(t *testing.T) {
	t.Parallel()
	c := tlc.Require(t)
	for parties, values := range map[int]set{2: {"Parties": `{"a", "b"}`}, 3: nil} {
		for seed := range 2 {
			t.Run(fmt.Sprint(parties, " of two, ", seed), func(t *testing.T) {
				t.Parallel()
				explains(t, c, "Barrier", rounds(t, parties, uint64(seed)), values)
			})
		}
	}
}

// TestDoctoredBarrierTraces: a run in which a party passes before the other has come, or leaves
// before the other, is refused.
func TestDoctoredBarrierTraces(t *testing.T) {
	t.Parallel()
	c := tlc.Require(t)
	run := rounds(t, 2, 0)
	for name, doctor := range map[string]func(o *observation) bool{
		"passes alone": func(o *observation) bool {
			fits := len(o.line) == 1 && o.vis["a"] == "gathering"
			if fits {
				o.vis["a"] = "inside"
			}
			return fits
		},
		"leaves alone": func(o *observation) bool {
			for _, name := range names[:2] {
				if len(o.line) == 1 && o.vis[name] == "leaving" {
					o.vis[name] = "resting"
					return true
				}
			}
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuses(t, c, "Barrier", doctored(t, run, doctor), set{"Parties": `{"a", "b"}`})
		})
	}
}

var contenderNode = regexp.MustCompile(`^/l/_c_([0-9a-f-]{28})([0-9a-f]{8})-lock-(\d+)$`)

// locks records a run of three contenders for a lock, each of which joins once, and holds for a
// while, and for so much longer.
func locks(t *testing.T, seed uint64, holds time.Duration, hit fault) (run []observation) {
	t.Helper()
	config := zktest.Config{Tick: 200 * time.Millisecond, Latency: latency}
	kit.Sessions(t, config, len(names), session.Options{Timeout: 2 * time.Second, ServerTick: 200 * time.Millisecond}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		t.Helper()
		rng := rand.New(rand.NewPCG(seed, 35)) //nolint:gosec // a seed repeats the run
		var mu sync.Mutex
		var handles []*lock.Lock
		first := map[string]uint64{} // the number of the first attempt, by the beginning of the GUID
		owner := map[string]string{}
		var users sync.WaitGroup
		var left atomic.Int32
		left.Store(int32(len(names)))
		users.Go(func() {
			victim, at := rng.IntN(len(names)), time.Duration(20+rng.IntN(60))*time.Millisecond
			waits := make([]time.Duration, len(names))
			for i := range waits {
				waits[i] = holds + time.Duration(20+rng.IntN(30))*time.Millisecond
			}
			if hit != nil {
				users.Go(func() {
					pause(at)
					hit(srv, all[victim])
				})
			}
			for i, s := range all {
				l := check.Have(lock.New(s, "/l", nil))(t)
				mu.Lock()
				handles = append(handles, l)
				mu.Unlock()
				users.Go(func() {
					defer left.Add(-1)
					defer l.Close()
					for ev := range l.Events() {
						if _, is := ev.(lock.Acquired); is {
							pause(waits[i])
							_ = l.Release(t.Context()) // if it is lost, that is seen
						}
					}
				})
				pause(15 * time.Millisecond) // until its node is seen
			}
		})
		run = watchRun(func() bool { return left.Load() == 0 }, func() observation {
			mu.Lock()
			defer mu.Unlock()
			o := observation{vis: map[string]string{}}
			type place struct {
				number  int
				who     string
				attempt uint64
			}
			var places []place
			for _, path := range srv.Paths() {
				m := contenderNode.FindStringSubmatch(path)
				if m == nil {
					continue
				}
				attempt := check.Have(strconv.ParseUint(m[2], 16, 64))(t)
				if _, is := first[m[1]]; !is {
					first[m[1]], owner[m[1]] = attempt, names[len(owner)]
				}
				places = append(places, place{check.Have(strconv.Atoi(m[3]))(t), owner[m[1]], attempt - first[m[1]] + 1})
			}
			slices.SortFunc(places, func(a, b place) int { return a.number - b.number })
			for _, p := range places {
				o.line = append(o.line, fmt.Sprintf(`<<"%s", %d>>`, p.who, p.attempt))
			}
			for i, name := range names {
				o.vis[name] = "in line"
				if i < len(handles) {
					o.vis[name] = known(handles[i])
				}
			}
			return o
		})
		users.Wait()
	})
	return run
}

// known is what the user of a lock knows.
func known(l *lock.Lock) string {
	select {
	case <-l.Done():
		if l.Err() != nil {
			return "lost"
		}
		return "released"
	default:
	}
	if l.Token() != 0 {
		return "held"
	}
	return "in line"
}

var (
	partyNode = regexp.MustCompile(`^/b/(\d+)/in/.*-([abc])$`)
	roundNode = regexp.MustCompile(`^/b/(\d+)$`)
)

// rounds records a run of parties of a double barrier for two, each of which enters twice.
func rounds(t *testing.T, parties int, seed uint64) (run []observation) {
	t.Helper()
	kit.Sessions(t, zktest.Config{Latency: latency}, parties, session.Options{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		t.Helper()
		rng := rand.New(rand.NewPCG(seed, 36)) //nolint:gosec // a seed repeats the run
		var mu sync.Mutex
		stage := map[string]string{}
		var users sync.WaitGroup
		var left atomic.Int32
		left.Store(int32(parties))
		for i, s := range all {
			name, comes, works := names[i], time.Duration(1+rng.IntN(30))*time.Millisecond, time.Duration(5+rng.IntN(20))*time.Millisecond
			enters := func(as string) {
				mu.Lock()
				defer mu.Unlock()
				stage[name] = as
			}
			enters("resting")
			users.Go(func() {
				defer left.Add(-1)
				d := check.Open(barrier.NewDouble(s, "/b", 2, &barrier.DoubleOptions{Name: name}))(t)
				for range 2 {
					pause(comes)
					enters("gathering")
					check.OK(t, d.Enter(t.Context()))
					enters("inside")
					pause(works)
					enters("leaving")
					check.OK(t, d.Leave(t.Context()))
					enters("resting")
				}
			})
		}
		run = watchRun(func() bool { return left.Load() == 0 }, func() observation {
			mu.Lock()
			defer mu.Unlock()
			o := observation{vis: maps.Clone(stage)}
			for _, path := range srv.Paths() {
				if m := partyNode.FindStringSubmatch(path); m != nil {
					o.line = append(o.line, fmt.Sprintf(`<<"%s", %s>>`, m[2], m[1]))
				}
				if m := roundNode.FindStringSubmatch(path); m != nil {
					o.up = append(o.up, m[1])
				}
			}
			if len(o.up) == 0 { // the specification begins when the first directory stands
				o.up = []string{"1"}
			}
			return o
		})
		users.Wait()
	})
	return run
}
