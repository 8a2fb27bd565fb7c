package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/bench/crew"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
)

// A storm is a fault that hits all sessions of a fleet at once.
type storm struct {
	name, title string
	part        func(f *fleetBench) parts
	blow        func(ctx context.Context, f *fleetBench, w *storming) error
	apart       bool // the sessions are members, holders and waiters, as many of each, and counted apart
	linked      bool // it cuts links between servers
}

// storming is the state of a storm that has begun.
type storming struct {
	c     *company
	tally *tally
	dead  map[int]bool // servers that were killed
	began time.Time
	back  time.Time // when the servers were back, if roles are counted apart
}

func storms() []storm {
	halves := func(f *fleetBench) parts { return f.halves }
	return append([]storm{
		{name: "kill", title: "the leader is killed", part: halves, blow: func(ctx context.Context, f *fleetBench, w *storming) error {
			leader, err := f.ens.LeaderContext(ctx)
			if err == nil {
				f.kill(w, leader)
			}
			return err
		}},
		{name: "kill-follower", title: "a follower is killed", part: halves, blow: func(ctx context.Context, f *fleetBench, w *storming) error {
			leader, err := f.ens.LeaderContext(ctx)
			if err == nil {
				f.kill(w, (leader+1)%f.ens.Size())
			}
			return err
		}},
		{name: "cut", title: "all connections are cut", part: halves, blow: func(_ context.Context, _ *fleetBench, w *storming) error {
			return tell(w.c, "Cut", same(struct{}{}))
		}},
		{name: "outage", title: "all connections are cut, and servers refuse", part: halves, blow: func(_ context.Context, f *fleetBench, w *storming) error {
			if err := tell(w.c, "Refuse", same(time.Now().Add(f.opts.outage))); err != nil {
				return err
			}
			return tell(w.c, "Cut", same(struct{}{}))
		}},
		{name: "return", title: "a follower is killed, and comes back", part: halves, blow: func(ctx context.Context, f *fleetBench, w *storming) error {
			leader, err := f.ens.LeaderContext(ctx)
			if err != nil {
				return err
			}
			return f.restart(ctx, w, (leader+1)%f.ens.Size())
		}},
		{name: "rolling", title: "the servers are restarted one after the other, the leader last", part: func(f *fleetBench) parts { return f.quarters }, blow: rolling},
	}, freezes()...)
}

// halves has every other session hold a lock of its own, and the rest wait in lines.
func (f *fleetBench) halves(root string, i int) (role, path string) {
	if i%2 == 0 {
		return inOwn(root, i)
	}
	return f.inLines(root, i/2)
}

const (
	candidates = 3  // of an election
	consumers  = 10 // of a queue
)

// quarters has a quarter of the sessions each hold locks, wait in lines, stand for election, and
// take items.
func (f *fleetBench) quarters(root string, i int) (role, path string) {
	switch i % 4 {
	case 0:
		return inOwn(root, i)
	case 1:
		return f.inLines(root, i/4)
	case 2:
		return crew.Lead, root + "/lead/" + strconv.Itoa(i/4/candidates)
	}
	return crew.Consume, root + "/queue/" + strconv.Itoa(i/4/consumers)
}

func rolling(ctx context.Context, f *fleetBench, w *storming) error {
	leader, err := f.ens.LeaderContext(ctx)
	if err != nil {
		return err
	}
	for i := range f.ens.Size() {
		if err := f.restart(ctx, w, (leader+1+i)%f.ens.Size()); err != nil {
			return err
		}
		if err := wait(ctx, f.opts.away); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleetBench) kill(w *storming, i int) {
	w.tally.sample(true) // the restarted server will count from 0
	w.dead[i] = true
	f.ens.Kill(i)
}

func (f *fleetBench) restart(ctx context.Context, w *storming, i int) error {
	f.kill(w, i)
	if err := wait(ctx, f.opts.away); err != nil {
		return err
	}
	return f.revive(ctx, w.dead)
}

// revive starts the servers that were killed.
func (f *fleetBench) revive(ctx context.Context, dead map[int]bool) error {
	for i := range dead {
		if err := f.ens.RestartContext(ctx, i); err != nil {
			return err
		}
		delete(dead, i)
	}
	return nil
}

// A stormResult is one run of a storm.
type stormResult struct {
	Storm    string `json:"storm"`
	Client   string `json:"client"`
	Run      int    `json:"run"`
	Sessions int    `json:"sessions"`

	Lost     int `json:"lost"`      // sessions that their clients count as lost
	Expired  int `json:"expired"`   // sessions that the servers ended
	Deprived int `json:"deprived"`  // holders and leaders that learned of a loss
	Mistaken int `json:"mistaken"`  // those of them whose session the servers had not ended
	Nodes    int `json:"nodes"`     // ephemeral nodes before the storm
	Gone     int `json:"gone"`      // those of them that do not exist after the storm
	NotBack  int `json:"not_back"`  // sessions without a connection at the end
	Items    int `json:"items_put"` // into queues, during the storm
	Left     int `json:"items_left"`
	Unseen   int `json:"items_unseen"` // items that no consumer has taken

	LastBack    float64 `json:"last_resumed_s"`     // from the beginning of the storm, in seconds
	LongestCut  float64 `json:"longest_suspension"` // of a session that resumed, in seconds
	Dials       int     `json:"dials"`
	Failed      int     `json:"dials_failed"`
	DialPeak    int     `json:"dials_peak_100ms"`
	Handshakes  float64 `json:"handshakes"`
	Requests    float64 `json:"requests"`
	RequestPeak float64 `json:"requests_peak_100ms"`
	Servers     []int   `json:"sessions_of_servers"` // at the end, the largest first; without a server that is down
	OtherLoad   float64 `json:"other_load_cores"`

	Roles []roleResult `json:"roles,omitempty"` // if they are counted apart
}

func (r *stormResult) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// weather has a storm hit a fleet, and measures it.
func (f *fleetBench) weather(ctx context.Context, s storm, client string, run int) (result stormResult, err error) {
	squads := s.squads(f, client)
	err = f.with(ctx, squads, f.opts.sessions, func(all []*company, root string) (err error) {
		c := together(all)
		if err := wait(ctx, f.opts.settle); err != nil {
			return err
		}
		before, err := f.ephemerals(ctx)
		if err != nil {
			return err
		}
		w := &storming{c: c, dead: make(map[int]bool)}
		gone := -1 // the server that stays down
		var tasks sync.WaitGroup
		defer tasks.Wait()
		stop, cancel := context.WithCancel(ctx)
		defer cancel()
		w.tally = newTally(f)
		tasks.Go(func() { w.tally.run(stop) })
		feeding := feeder{root: root, queues: 0}
		if s.name == "rolling" && strings.HasPrefix(client, "ours") {
			feeding.queues = (f.opts.sessions/4 + consumers - 1) / consumers
		}
		var fed error
		tasks.Go(func() { fed = feeding.run(stop, f.ens.Addrs()) })
		used := measureUse()
		cpu, err := f.clientCPU(all)
		if err != nil {
			return err
		}
		began := time.Now()
		w.began = began
		if err := s.blow(ctx, f, w); err != nil {
			return err
		}
		for i := range w.dead {
			gone = i
		}
		if err := wait(ctx, f.opts.watch); err != nil {
			return err
		}
		cancel()
		tasks.Wait()
		if fed != nil {
			return fed
		}
		result = stormResult{
			Storm: s.name, Client: client, Run: run, Sessions: c.sessions, Nodes: len(before),
			Handshakes: w.tally.handshakes, Requests: w.tally.requests, RequestPeak: w.tally.peak,
			OtherLoad: measureUse().others(used, f.own(c)).Cores,
		}
		if result.Items, result.Left, err = feeding.count(ctx, f.ens.Addrs()); err != nil {
			return err
		}
		after, err := f.ephemerals(ctx)
		if err != nil {
			return err
		}
		for node := range before {
			if !after[node] {
				result.Gone++
			}
		}
		expired, err := f.expired(began)
		if err != nil {
			return err
		}
		living, err := f.living(ctx)
		if err != nil {
			return err
		}
		for id := range living { // only a leader that was deposed has expired it
			delete(expired, id)
		}
		spent, err := f.clientCPU(all)
		if err != nil {
			return err
		}
		var logs []crew.Log
		for i, q := range squads {
			own, err := ask[time.Time, crew.Log](all[i], "Report", same(began))
			if err != nil {
				return err
			}
			logs = append(logs, own...)
			if s.apart {
				r := roleResult{Role: q.role, Client: q.client, Sessions: all[i].sessions}
				r.CPU = float64((spent[i] - cpu[i]).Microseconds()) / 1000 / float64(r.Sessions)
				r.add(own, expired, w, f.opts.timeout)
				result.Roles = append(result.Roles, r)
			}
		}
		result.add(logs, expired, began, f.ens.Addrs(), gone)
		return f.revive(ctx, w.dead)
	})
	return result, err
}

// clientCPU returns the CPU time that each company has used so far.
func (f *fleetBench) clientCPU(all []*company) (times []time.Duration, err error) {
	for _, c := range all {
		usage, err := ask[bool, crew.Usage](c, "Use", same(false))
		if err != nil {
			return nil, err
		}
		sum := time.Duration(0)
		for _, u := range usage {
			sum += u.CPU
		}
		times = append(times, sum)
	}
	return times, nil
}

// add adds the observations of the crews.
func (r *stormResult) add(logs []crew.Log, expired map[int64]time.Time, began time.Time, addrs []string, gone int) {
	r.Expired = len(expired)
	dials := make(map[int]int) // by tenths of a second
	items := make(map[int64]bool)
	for _, l := range logs {
		lost, suspended := make(map[int]bool), make(map[int]time.Time)
		for _, e := range l.Entries {
			switch e.Kind {
			case crew.Suspended:
				suspended[e.Member] = e.At
			case crew.Resumed:
				r.LastBack = max(r.LastBack, e.At.Sub(began).Seconds())
				if since, ok := suspended[e.Member]; ok {
					r.LongestCut = max(r.LongestCut, e.At.Sub(since).Seconds())
				}
				delete(suspended, e.Member)
			case crew.Connected:
				delete(suspended, e.Member)
			case crew.Expired:
				lost[e.Member] = true
				suspended[e.Member] = e.At // until the next session
			case crew.Deprived:
				r.Deprived++
				if at, ok := expired[e.Session]; !ok || at.After(e.At) {
					r.Mistaken++
				}
			case crew.Took:
				items[e.Session] = true
			case crew.Granted:
			}
		}
		r.Lost += len(lost)
		r.NotBack += len(suspended)
		for _, d := range l.Dials {
			r.Dials++
			if d.Failed {
				r.Failed++
			}
			dials[int(d.At.Sub(began)/(100*time.Millisecond))]++
		}
	}
	r.Unseen = r.Items - len(items)
	for _, n := range dials {
		r.DialPeak = max(r.DialPeak, n)
	}
	for i, addr := range addrs {
		n := 0
		for _, l := range logs {
			n += l.Servers[addr]
		}
		if i != gone {
			r.Servers = append(r.Servers, n)
		}
	}
	slices.Sort(r.Servers)
	slices.Reverse(r.Servers)
}

// ephemerals returns the ephemeral nodes with their owners, as the leader knows them. It leaves out
// the nodes of queues, because a claim disappears with its item.
func (f *fleetBench) ephemerals(ctx context.Context) (map[string]bool, error) {
	text, err := f.dump(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[string]bool)
	owner, nodes := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "Sessions with Ephemerals"):
			nodes = true
		case strings.HasPrefix(line, "Connections"):
			nodes = false
		case nodes && strings.HasPrefix(line, "0x"):
			owner = strings.TrimSuffix(line, ":")
		case nodes && strings.HasPrefix(line, root+"/") && !strings.Contains(line, "/queue/"):
			all[owner+" "+line] = true
		}
	}
	return all, nil
}

// living returns the sessions that the leader knows.
func (f *fleetBench) living(ctx context.Context) (map[int64]bool, error) {
	text, err := f.dump(ctx)
	if err != nil {
		return nil, err
	}
	return sessionsOf(text), nil
}

// dump returns the sessions and the ephemeral nodes, as the leader writes them.
func (f *fleetBench) dump(ctx context.Context) (string, error) {
	leader, err := f.ens.LeaderContext(ctx)
	if err != nil {
		return "", err
	}
	return f.ens.FourLetterWord(leader, "dump")
}

// sessionsOf returns the sessions in the answer to dump. An owner of nodes has a colon behind it.
func sessionsOf(dump string) map[int64]bool {
	all := make(map[int64]bool)
	for line := range strings.Lines(dump) {
		if digits, ok := strings.CutPrefix(strings.TrimSpace(line), "0x"); ok {
			if id, err := strconv.ParseUint(digits, 16, 64); err == nil {
				all[int64(id)] = true //nolint:gosec // the same 64 bits
			}
		}
	}
	return all
}

// logTime is the layout of times in the logs of servers, in Java's notation. goTime is the same
// layout in Go's.
const (
	logTime = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
	goTime  = "2006-01-02T15:04:05.000Z07:00"
)

// expired returns the sessions that servers have expired since then, with the times, from their
// logs.
func (f *fleetBench) expired(since time.Time) (map[int64]time.Time, error) {
	all := make(map[int64]time.Time)
	for i := range f.ens.Size() {
		text, err := os.ReadFile(f.ens.Log(i))
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			head, rest, ok := strings.Cut(string(line), "Expiring session 0x")
			if !ok {
				continue
			}
			word, _, _ := strings.Cut(head, " ")
			at, err := time.Parse(goTime, word)
			if err != nil {
				return nil, fmt.Errorf("the log of server %d: %w", i, err)
			}
			digits, _, _ := strings.Cut(rest, ",")
			id, err := strconv.ParseUint(digits, 16, 64)
			if err != nil {
				return nil, fmt.Errorf("the log of server %d: %w", i, err)
			}
			if !at.Before(since) {
				all[int64(id)] = at //nolint:gosec // the same 64 bits
			}
		}
	}
	return all, nil
}

// A tally counts the work of the servers during a storm. If a counter is smaller than before, the
// server has begun anew at zero.
type tally struct {
	f                          *fleetBench
	mu                         sync.Mutex
	at                         time.Time
	last                       []map[string]float64 // by server and name
	frozen                     []int                // servers that are not asked
	requests, handshakes, peak float64
}

func newTally(f *fleetBench) *tally {
	t := &tally{f: f, last: make([]map[string]float64, f.ens.Size())}
	for i := range t.last {
		t.last[i] = make(map[string]float64)
	}
	t.sample(true)
	t.requests, t.handshakes, t.peak = 0, 0, 0 // count from now on
	return t
}

// freeze has the samples leave out servers from now on.
func (t *tally) freeze(servers []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frozen = servers
}

func (t *tally) isFrozen(i int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.frozen, i)
}

// run takes a sample ten times a second, until ctx ends.
func (t *tally) run(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 1; ; i++ {
		select {
		case <-tick.C:
			t.sample(i%10 == 0)
		case <-ctx.Done():
			t.sample(true)
			return
		}
	}
}

// sample reads the counters of all servers at once, and ignores servers that do not answer. The
// number of handshakes is one of the many values of mntr, which costs a server milliseconds. So
// sample asks for it only if all is set.
func (t *tally) sample(all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := make([]map[string]float64, len(t.last))
	var tasks sync.WaitGroup
	for i := range now {
		if t.f.ens.Pid(i) == 0 || slices.Contains(t.frozen, i) {
			continue
		}
		tasks.Go(func() {
			if all {
				now[i], _ = t.f.counters(i)
			} else if text, err := t.f.word(i, "srvr", "Received"); err == nil {
				n, _ := strconv.ParseFloat(text, 64) // 0 from a server that does not serve
				now[i] = map[string]float64{packetsReceived: n}
			}
		})
	}
	tasks.Wait()
	took := time.Since(t.at)
	t.at = time.Now()
	requests := 0.0
	for i, m := range now {
		if m[packetsReceived] == 0 {
			continue // it does not serve
		}
		requests += t.grown(i, m, packetsReceived) - 1 // without this question itself
		t.handshakes += t.grown(i, m, "zk_connection_request_count")
	}
	t.requests += requests
	t.peak = max(t.peak, requests*min(1, 0.1/took.Seconds()))
}

// grown returns the growth of a server's counter since the last call. A counter that is missing has
// not grown.
func (t *tally) grown(i int, m map[string]float64, name string) float64 {
	n, known := m[name]
	if !known {
		return 0
	}
	before := t.last[i][name]
	t.last[i][name] = n
	if n < before {
		return n
	}
	return n - before
}

// feeder puts items into queues during a storm.
type feeder struct {
	root   string
	queues int
	put    int
}

func (f *feeder) path(i int) string { return f.root + "/queue/" + strconv.Itoa(i) }

// run puts an item into each queue every second.
func (f *feeder) run(ctx context.Context, addrs []string) error {
	return f.each(ctx, addrs, func(s *session.Session, all []*queue.Queue) error {
		for wait(ctx, time.Second) == nil {
			for _, q := range all {
				f.put++
				if _, err := q.Put(context.WithoutCancel(ctx), []byte(strconv.Itoa(f.put))); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// count waits for a limited time until the queues are empty, and returns the number of items that
// were put and that are left.
func (f *feeder) count(ctx context.Context, addrs []string) (put, left int, err error) {
	if f.queues == 0 {
		return 0, 0, nil
	}
	err = f.each(ctx, addrs, func(_ *session.Session, all []*queue.Queue) error {
		for range 100 {
			left = 0
			for _, q := range all {
				n, err := q.Len(ctx)
				if err != nil {
					return err
				}
				left += n
			}
			if left == 0 {
				return nil
			}
			if err := wait(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
	return f.put, left, err
}

func (f *feeder) each(ctx context.Context, addrs []string, do func(s *session.Session, all []*queue.Queue) error) error {
	if f.queues == 0 {
		return nil
	}
	s, err := session.Open(ctx, addrs, &session.Options{Timeout: 30 * time.Second})
	if err != nil {
		return err
	}
	defer s.Close()
	all := make([]*queue.Queue, f.queues)
	for i := range all {
		if all[i], err = queue.New(s, f.path(i), nil); err != nil {
			return err
		}
		defer all[i].Close(context.WithoutCancel(ctx)) //nolint:errcheck // the queue has done its work
	}
	return do(s, all)
}
