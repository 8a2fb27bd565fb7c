package main

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/zkactors/zkactors/bench/peers"
)

// params are the parameters of a program.
type params map[string]string

func (p params) with(more params) params {
	all := maps.Clone(p)
	if all == nil {
		all = make(params)
	}
	maps.Copy(all, more)
	return all
}

// A system is the subject of a row: a library, and a way to use it.
type system struct {
	name    string
	library peers.Library
	program string // empty for the workload's program
	params  params
	limit   bool   // bare requests: they show what the servers and go-zookeeper allow
	counted params // of the run that counts requests, where they differ from the workload's
	remark  string // for the readers of the table
	aside   bool   // a contrast that is no recipe: it is no peer in the table by distance
}

// Systems that occur in several workloads.
func zkactors() system { return system{name: "zkactors", library: peers.ZKActors} }
func curator() system  { return system{name: "curator", library: peers.Curator} }
func kazoo() system    { return system{name: "kazoo", library: peers.Kazoo} }
func zkLock() system   { return system{name: "zk.Lock", library: peers.GoZookeeper} }

func background() system {
	return system{name: "zkactors, released in background", library: peers.ZKActors, params: params{"release": "background"}}
}

// treeCache returns the older of Curator's two caches of trees.
func treeCache() system {
	return system{name: "curator, TreeCache", library: peers.Curator, params: params{"cache": "TreeCache"}}
}

// raw returns the system of the bare requests that an operation needs: see peers/gozk/raw.go.
func raw(program string, pairs ...any) system {
	return system{name: "raw requests", library: peers.GoZookeeper, program: "raw-" + program, params: of(pairs...), limit: true}
}

// rawBackground returns the same requests, but no operation waits for its deletion.
func rawBackground(program string, pairs ...any) system {
	s := raw(program, append(pairs, "release", "background")...)
	s.name = "raw requests, released in background"
	return s
}

// rawTransactions returns the same requests in transactions, of which up to four are in flight.
func rawTransactions(program string) system {
	s := raw(program, "transactions", 4)
	s.name, s.counted = "raw requests, in transactions", ops(40)
	return s
}

// trips says how blocking round trips are counted on the server in memory.
type trips int

const (
	noTrips     trips = iota
	tripsPerOp        // of one operation, without contention
	tripsInLine       // from one operation in a line to the next
)

// A workload is a group of rows in the table: a program, its parameters, and the systems that run
// it.
type workload struct {
	name    string
	family  string // the common name of workloads that differ only in size
	size    int
	title   string
	unit    string // what an operation is
	program string
	params  params
	systems []system

	counted params        // of the run that counts requests, where they differ from params; nil: no such run
	trips   trips         // how that run counts round trips
	rests   bool          // the program pauses between operations, so their latencies are the measured time
	once    bool          // one turn suffices
	limit   time.Duration // of one run, in addition to its measured time and its warm-up
	silence time.Duration // see peers.Patience
	trees   bool          // the bench creates trees, and each run has a process that has never seen them: see trees.go
	proxied bool          // sessions go through a proxy, which can expire them
	crash   bool          // the leader is killed: see crash.go
}

func (w workload) programOf(s system) string {
	if s.program != "" {
		return s.program
	}
	return w.program
}

// of returns parameters from names and values in turn.
func of(pairs ...any) params {
	p := make(params)
	for i := 0; i < len(pairs); i += 2 {
		p[fmt.Sprint(pairs[i])] = fmt.Sprint(pairs[i+1])
	}
	return p
}

// ops returns the parameters of a run of n operations, and of a fifth as many to warm up.
func ops(n int, more ...any) params {
	return of(append([]any{"ops", n, "warm_ops", max(n/5, 1)}, more...)...)
}

// workloads returns all workloads, in the order of the table.
func workloads() []workload {
	var all []workload
	add := func(w workload) { all = append(all, w) }
	for _, n := range []int{10, 50, 100, 200} {
		systems := []system{zkactors(), curator(), kazoo()}
		if n <= 50 { // the peers hang less often if no path is used twice
			each := params{"paths": "each"}
			systems = append(systems,
				system{name: "curator, a path for each round", library: peers.Curator, params: each},
				system{name: "kazoo, a path for each round", library: peers.Kazoo, params: each})
		}
		systems = append(systems, raw("barrier"))
		add(workload{
			name: "barrier-" + strconv.Itoa(n), family: "barrier", size: n,
			title:   fmt.Sprintf("double barrier, %d parties in sessions of their own", n),
			unit:    "an enter or a leave; latency: a round",
			program: "barrier", params: of("parties", n), systems: systems,
			counted: ops(max(2, 100/n), "warm_ops", 1), trips: countedTrips(n == 10), silence: 5 * time.Second,
		})
	}
	add(workload{
		name: "queue-put", title: "queue: 64 producers in one session, an item each", unit: "an item",
		program: "put", params: of("producers", 64),
		systems: []system{zkactors(), curator(), kazoo(), raw("put"), rawTransactions("put")},
		counted: ops(640), trips: tripsPerOp,
	})
	add(workload{
		name: "queue-put-100", title: "queue: 4 producers in one session, 100 items at once", unit: "an item",
		program: "put", params: of("producers", 4, "batch", 100), systems: []system{zkactors(), kazoo(), raw("put")},
		counted: ops(40), trips: tripsPerOp,
	})
	for _, n := range []int{20_000, 100_000} {
		add(workload{
			name: "queue-drain-" + strconv.Itoa(n), family: "queue-drain", size: n,
			title:   fmt.Sprintf("queue: a backlog of %s taken by one session", thousands(n)),
			unit:    "an item",
			program: "drain", params: of("items", n, "cap_seconds", 30),
			systems: []system{zkactors(), curator(), kazoo(), raw("drain"), rawTransactions("drain")},
			counted: countedIf(n == 20_000, of("items", 1000, "ops", 1000)), trips: tripsInLine, once: true, limit: 100 * time.Second,
		})
	}
	for _, n := range []int{1, 4} {
		add(workload{
			name: "queue-ack-" + strconv.Itoa(n), family: "queue-ack", size: n,
			title:   fmt.Sprintf("queue: a backlog of 5,000 acknowledged by %d consumers in sessions of their own", n),
			unit:    "an item acknowledged",
			program: "consume", params: of("consumers", n, "items", 5000, "workers", 16), systems: []system{zkactors(), kazoo()},
			counted: of("items", 400, "ops", 400), trips: tripsInLine, limit: 60 * time.Second,
		})
	}
	for _, kind := range []string{"taken", "acknowledged"} {
		of := func(more ...any) params { return of(append([]any{"kind", kind}, more...)...) }
		add(workload{
			name: "queue-flow-" + kind, title: "queue: 8 producers in one session, 2 takers in sessions of their own, items " + kind,
			unit: "an item; latency: from put until delivered", program: "flow",
			params:  of("producers", 8, "takers", 2, "flight", 256, "batch", 128, "workers", 64),
			systems: []system{zkactors(), curator(), kazoo()}, counted: ops(640), silence: 10 * time.Second,
		})
		add(workload{
			name: "queue-one-" + kind, title: "queue: one item at a time, put and " + kind,
			unit: "an item; latency: from put until delivered", program: "flow", params: of("flight", 1),
			systems: []system{zkactors(), curator(), kazoo()}, counted: ops(100), trips: tripsInLine, silence: 10 * time.Second,
		})
	}
	for _, n := range []int{1, 64, 512, 2048} {
		title := fmt.Sprintf("%s locks in one session", thousands(n))
		if n == 1 {
			title = "lock, uncontended"
		}
		systems := []system{zkactors(), background(), zkLock(), curator()}
		if n < 512 {
			systems = append(systems, kazoo())
		}
		systems = append(systems, raw("lock"))
		if n == 1 {
			beside := raw("lock", "list", "beside")
			beside.name = "raw requests, the list beside the creation"
			systems = append(systems, beside, rawBackground("lock", "list", "beside"))
		} else {
			systems = append(systems, rawTransactions("lock"))
		}
		add(workload{
			name: "lock-" + strconv.Itoa(n), family: "lock", size: n, title: title, unit: "acquire and release",
			program: "lock", params: of("sessions", 1, "locks", n), systems: systems,
			counted: ops(max(50, 2*n), "warm_ops", 2*n), trips: countedTrips(n == 1),
		})
	}
	for _, n := range []int{2, 10, 100} {
		systems := []system{zkactors(), background(), zkLock(), curator(), kazoo()}
		if n > 2 {
			systems = append(systems, system{name: "one ephemeral node", library: peers.GoZookeeper, program: "herd", aside: true})
		}
		systems = append(systems, raw("line"), rawBackground("line"))
		add(workload{
			name: "handover-" + strconv.Itoa(n), family: "handover", size: n,
			title: fmt.Sprintf("one lock among %d sessions", n), unit: "acquire and release",
			program: "lock", params: of("sessions", n, "locks", 1, "shared", 1), systems: systems,
			counted: ops(max(200, 4*n), "warm_ops", n), trips: tripsInLine,
		})
	}
	for _, n := range []int{1, 10} {
		add(workload{
			name: "several-" + strconv.Itoa(n), family: "several", size: n,
			title: fmt.Sprintf("three of twenty locks at once, %d sessions", n), unit: "acquire and release of three",
			program: "several", params: of("sessions", n, "among", 20), systems: []system{zkactors(), background(), curator()},
			counted: ops(200, "warm_ops", 40), trips: countedTrips(n == 1),
		})
	}
	for _, n := range []int{20, 200} {
		add(workload{
			name: "semaphore-" + strconv.Itoa(n), family: "semaphore", size: n,
			title:   fmt.Sprintf("semaphore of 10, %d contenders in 20 sessions", n),
			unit:    "acquire and release",
			program: "semaphore", params: of("sessions", 20, "contenders", n, "leases", 10),
			systems: []system{zkactors(), background(), curator(), kazoo(), raw("line"), rawBackground("line")},
			counted: ops(200, "warm_ops", 40, "contenders", min(n, 40)), trips: tripsInLine,
		})
	}
	add(workload{
		name: "readwrite", title: "read lock, 20 sessions, every tenth grant for a writer", unit: "acquire and release",
		program: "readwrite", params: of("sessions", 20),
		systems: []system{zkactors(), background(), curator(), kazoo(), raw("readwrite"), rawBackground("readwrite")},
		counted: ops(300), silence: 5 * time.Second,
	})
	add(workload{
		name: "succession", title: "election, a leader of 10 candidates resigns after 50 ms",
		unit:    "resignation until the next one knows; the 50 ms do not count",
		program: "succession", params: of("candidates", 10, "rest_ms", 50), rests: true,
		systems: []system{
			zkactors(),
			{name: "zkactors, Curator's layout", library: peers.ZKActors, params: params{"layout": "curator"}},
			curator(), kazoo(),
			raw("succession"),
		},
		counted: ops(30), trips: tripsPerOp,
	})
	add(workload{
		name: "succession-crash", title: "election, the leader's process is killed, session timeout 2 s", unit: "kill until the next one knows",
		program: "stand", systems: []system{zkactors(), curator(), kazoo()}, crash: true,
	})
	for _, n := range []int{2, 5, 20} {
		add(workload{
			name: "commit-" + strconv.Itoa(n), family: "commit", size: n,
			title: fmt.Sprintf("two-phase commit, %d sites in sessions of their own", n), unit: "begin until all sites know the outcome",
			program: "commit", params: of("sites", n), systems: []system{zkactors()},
			counted: ops(20), trips: tripsPerOp,
		})
	}
	add(workload{
		name: "group-join", title: "group, 500 members in 10 sessions join at once", unit: "a member; latency: until another session knows of all",
		program: "join", params: of("members", 500, "sessions", 10), systems: []system{zkactors(), curator(), kazoo()},
		counted: of("ops", 1), trips: tripsPerOp, limit: 30 * time.Second,
	})
	for _, n := range []int{10, 1000} {
		add(workload{
			name: "fanout-" + strconv.Itoa(n), family: "fanout", size: n,
			title: fmt.Sprintf("a change seen by %s watchers in %d sessions", thousands(n), min(n, 20)), unit: "a change seen by one watcher",
			program: "fanout", params: of("watchers", n, "sessions", min(n, 20)),
			systems: []system{
				{name: "zkactors, config", library: peers.ZKActors},
				{name: "zkactors, watch", library: peers.ZKActors, params: params{"kind": "watch"}},
				{name: "go-zookeeper, bare watch", library: peers.GoZookeeper},
				curator(), kazoo(),
			},
			counted: ops(20), trips: tripsPerOp,
		})
	}
	for _, n := range []int{10_000, 100_000} {
		systems := []system{zkactors(), curator(), treeCache(), kazoo()}
		if n == 100_000 {
			old := treeCache()
			old.remark = "CuratorCache hangs on a tree of this size: CURATOR-690"
			systems = []system{zkactors(), old, kazoo()}
		}
		add(workload{
			name: "tree-" + strconv.Itoa(n), family: "tree", size: n,
			title: fmt.Sprintf("a tree of %s nodes of 100 bytes is read and followed", thousands(n)), unit: "until all nodes are known",
			program: "tree", params: of("nodes", n, "warm_nodes", 1000), systems: systems,
			counted: ops(1), limit: 2 * time.Minute, trees: true,
		})
	}
	add(workload{
		name: "tree-change", title: "a node of a tree of 10,000 that is followed changes", unit: "a change seen",
		program: "tree-change", params: of("nodes", 10_000, "warm_nodes", 1000), systems: []system{zkactors(), curator(), treeCache(), kazoo()},
		counted: ops(20), trips: tripsPerOp, limit: time.Minute, trees: true,
	})
	add(workload{
		name: "discovery-1000", title: "an instance of a service, seen by 1,000 watchers in 20 sessions", unit: "a registration seen by one watcher",
		program: "discover", params: of("watchers", 1000, "sessions", 20), systems: []system{zkactors()},
		counted: ops(20), trips: tripsPerOp,
	})
	add(workload{
		name: "shards", title: "200 shards, of 10 members one goes and comes", unit: "going or coming, until all are owned evenly",
		program: "rebalance", params: of("members", 10, "shards", 200),
		systems: []system{zkactors(), {name: "kazoo, SetPartitioner with 1 s", library: peers.Kazoo}},
		counted: ops(4), limit: 60 * time.Second,
	})
	unbound := func(name string, workers, batch int) system {
		return system{name: name, library: peers.GoZookeeper, params: of("workers", workers, "batch", batch)}
	}
	add(workload{
		name: "limits", title: "raw requests of one session of go-zookeeper: what these servers can do", unit: "create and delete an ephemeral node",
		program: "raw", systems: []system{
			unbound("one at a time", 1, 1), unbound("64 at once", 64, 1), unbound("512 at once", 512, 1),
			unbound("4 transactions of 100 at once", 4, 100),
		},
	})
	with := func(how string) system {
		return system{name: "zkactors, " + how, library: peers.ZKActors, params: params{"with": how}}
	}
	add(workload{
		name: "holders-10000", title: "10,000 locks held in one session", unit: "acquire",
		program: "holders", params: of("n", 10_000), systems: []system{with("new"), with("acquire"), zkLock()},
		once: true, proxied: true, limit: 30 * time.Second,
	})
	add(workload{
		name: "waiters-10000", title: "10,000 locks waited for in one session, which another one releases", unit: "acquire",
		program: "waiters", params: of("n", 10_000), systems: []system{with("new"), with("acquire"), zkLock()},
		once: true, limit: 30 * time.Second,
	})
	add(workload{
		name: "sessions", title: "100 idle sessions", unit: "open",
		program: "sessions", params: of("n", 100), systems: []system{zkactors(), {name: "go-zookeeper", library: peers.GoZookeeper}},
	})
	return all
}

func countedIf(counted bool, p params) params {
	if !counted {
		return nil
	}
	return p
}

// countedTrips returns tripsPerOp, unless the run does so much at once that the work takes longer
// than the trips.
func countedTrips(counted bool) trips {
	if counted {
		return tripsPerOp
	}
	return noTrips
}

// thousands writes a number with separators.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
