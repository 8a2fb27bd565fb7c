package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/zkactors/zkactors/bench/peers"
	"github.com/zkactors/zkactors/bench/relay"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const (
	root           = "/zkactors-bench" // the parent of all nodes
	sessionTimeout = 20 * time.Second
	oneWay         = 2500 * time.Microsecond // latency of the server in memory, which counts requests
)

// A bench is one run of all chosen workloads.
type bench struct {
	opts    options
	log     io.Writer
	self    string // the program's own file
	dir     string // of compiled drivers
	missing map[peers.Library]error
	running map[peers.Library]*peers.Process
	path    int // the number of the last run, which names its node
	results []result
	loads   []load

	began       time.Time
	steps, done int
}

func newBench(o options, log io.Writer) (*bench, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "zkactors-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{
		opts: o, log: log, self: self, dir: dir, missing: make(map[peers.Library]error), running: make(map[peers.Library]*peers.Process),
		began: time.Now(),
	}
	for _, l := range b.libraries() {
		if err := peers.Missing(l); err != nil {
			b.missing[l] = err
			b.say("%v", err)
		}
	}
	return b, nil
}

// libraries returns the libraries of the chosen workloads.
func (b *bench) libraries() []peers.Library {
	used := make(map[peers.Library]bool)
	for _, w := range b.opts.workloads {
		for _, s := range w.systems {
			used[s.library] = true
		}
	}
	return slices.DeleteFunc(peers.Libraries(), func(l peers.Library) bool { return !used[l] })
}

// close ends all drivers.
func (b *bench) close() {
	for l := range b.running {
		b.end(l)
	}
	_ = os.RemoveAll(b.dir) // it is in the system's directory for temporary files
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.log, "bench: "+format+"\n", args...)
}

// all runs everything, on all servers. It stops early if ctx ends.
func (b *bench) all(ctx context.Context) {
	for _, w := range b.opts.workloads {
		b.steps += len(b.systems(w)) * b.turns(w) * len(b.opts.offers) * len(b.opts.rtts)
		if w.counted != nil {
			b.steps += len(b.systems(w))
		}
	}
	counts := make(map[key]count)
	for _, o := range b.opts.offers {
		for _, rtt := range b.opts.rtts {
			f, err := o.start(ctx, b.opts.onDisk, rtt)
			if err != nil {
				b.say("nothing is timed: %s", inOneLine(err))
				f = nil
			}
			b.on(ctx, f, counts)
			if f != nil {
				f.close()
			}
		}
	}
}

// A key identifies a row of the table.
type key struct{ workload, system string }

// on runs all workloads on the servers of f. If f is nil it only counts requests.
func (b *bench) on(ctx context.Context, f *fleet, counts map[key]count) {
	if f != nil {
		b.warmUp(ctx, f)
		trip, err := roundTrip(ctx, f.clients)
		if err != nil && ctx.Err() == nil {
			b.say("the round trip is unknown: %s", inOneLine(err))
		}
		f.trip = trip
	}
	for _, w := range b.opts.workloads {
		results := make([]result, len(b.systems(w)))
		for i, s := range b.systems(w) {
			results[i] = result{Workload: w.name, System: s.name, Unit: w.unit, Limit: s.limit, Remark: s.remark, aside: s.aside, workload: w, library: s.library}
		}
		if f != nil {
			b.timed(ctx, f, w, results)
		}
		for i, s := range b.systems(w) {
			k := key{w.name, s.name}
			if _, ok := counts[k]; !ok && w.counted != nil && ctx.Err() == nil && results[i].Note == "" {
				counts[k] = b.count(ctx, w, s)
			}
			results[i].counted(counts[k])
		}
		b.results = append(b.results, slices.DeleteFunc(results, func(r result) bool { return r.empty() })...)
		if ctx.Err() != nil {
			return
		}
	}
}

// systems returns the systems of the workload whose libraries are installed.
func (b *bench) systems(w workload) []system {
	return slices.DeleteFunc(slices.Clone(w.systems), func(s system) bool { return b.missing[s.library] != nil })
}

func (b *bench) turns(w workload) int {
	if w.once {
		return 1
	}
	return b.opts.turns
}

// warmUp runs each driver for a while, so that the just-in-time compilers of servers and drivers
// have done most of their work.
func (b *bench) warmUp(ctx context.Context, f *fleet) {
	w := workload{name: "warm-up", program: "lock", params: of("sessions", 1, "locks", 16, "warm_seconds", b.opts.coldWarmUp())}
	for _, l := range b.libraries() {
		if b.missing[l] != nil || ctx.Err() != nil {
			continue
		}
		if _, err := b.once(ctx, f, w, system{name: string(l), library: l}); err != nil {
			b.missing[l] = err
			b.say("%s is not measured: %v", l, err)
		}
	}
}

// timed runs a workload with all its systems, in turns.
func (b *bench) timed(ctx context.Context, f *fleet, w workload, results []result) {
	samples := make([][]sample, len(results))
	defer func() { // also after an interruption
		for i := range results {
			results[i].Servers, results[i].kind = f.name, f.kind
			results[i].rtt, results[i].RTT, results[i].trip = f.rtt, float64(f.rtt)/float64(time.Millisecond), f.trip
			results[i].summarise(samples[i])
		}
	}()
	for turn := range b.turns(w) {
		for i, s := range b.systems(w) {
			b.done++
			if results[i].Note != "" {
				continue // it failed in an earlier turn
			}
			one := b.once
			if w.crash {
				one = b.crash
			}
			got, err := one(ctx, f, w, s)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				results[i].failed(err)
				b.progress(w, s, turn, err.Error())
				continue
			}
			samples[i] = append(samples[i], got)
			b.loads = append(b.loads, got.others)
			b.progress(w, s, turn, got.String())
		}
	}
}

func (b *bench) progress(w workload, s system, turn int, text string) {
	spent := time.Since(b.began)
	left := time.Duration(0)
	if b.done > 0 {
		left = time.Duration(float64(spent) / float64(b.done) * float64(b.steps-b.done))
	}
	_, _ = fmt.Fprintf(b.log, "[%3.0f%%, about %v left] %s, %s, turn %d: %s\n",
		100*float64(b.done)/float64(max(b.steps, 1)), left.Round(10*time.Second), w.name, s.name, turn+1, text)
}

// A sample is one timed run.
type sample struct {
	peers.Measurement
	watchEvents, maxEvents float64 // as the servers report
	serverCPU              time.Duration
	others                 load
}

func (s sample) rate() float64 {
	if s.Seconds == 0 {
		return 0
	}
	return float64(s.Ops) / s.Seconds
}

func (s sample) cpu() float64 {
	if s.Ops == 0 {
		return 0
	}
	return float64(s.CPU.Nanoseconds()) / 1e3 / float64(s.Ops)
}

func (s sample) String() string {
	return fmt.Sprintf("%s/s, p50 %s ms, %s µs; others %.2f cores", figure(s.rate()), figure(s.Quantile(0.5)), figure(s.cpu()), s.others.Cores)
}

// process returns the driver of the library, and starts it if it does not run.
func (b *bench) process(l peers.Library) (*peers.Process, error) {
	if p := b.running[l]; p != nil {
		return p, nil
	}
	p, err := b.another(l)
	if err != nil {
		return nil, err
	}
	b.running[l] = p
	return p, nil
}

// another starts one more driver of the library.
func (b *bench) another(l peers.Library) (*peers.Process, error) {
	command, err := peers.Command(l, b.self, b.dir)
	if err != nil {
		return nil, err
	}
	return peers.Start(l, command)
}

// driverFor returns the driver that runs the workload. The caller calls done after the run.
func (b *bench) driverFor(w workload, l peers.Library) (p *peers.Process, done func(error), err error) {
	if w.trees {
		if p, err = b.another(l); err != nil {
			return nil, nil, err
		}
		return p, func(error) { p.Kill() }, nil
	}
	p, err = b.process(l)
	return p, func(failed error) {
		if failed != nil {
			b.end(l)
		}
	}, err
}

// end kills the driver of the library.
func (b *bench) end(l peers.Library) {
	if p := b.running[l]; p != nil {
		p.Kill()
		delete(b.running, l)
	}
}

// own returns the processes of this run: the bench, its servers and its drivers, one of them given.
func (b *bench) own(f *fleet, driver int) []int {
	own := append([]int{os.Getpid(), driver}, f.pids...)
	for _, p := range b.running {
		own = append(own, p.Pid())
	}
	return own
}

// params returns the parameters of one run.
func (b *bench) params(w workload, s system, addrs []string) params {
	b.path++
	warm := b.opts.duration.Seconds() / 4
	if w.trees { // in a process that is cold
		warm = b.opts.coldWarmUp()
	}
	return of(
		"servers", join(addrs), "path", root+"/"+strconv.Itoa(b.path), "timeout_ms", sessionTimeout.Milliseconds(),
		"seconds", b.opts.duration.Seconds(), "warm_seconds", warm,
	).with(w.params).with(s.params)
}

// patience returns the largest duration of a run.
func (b *bench) patience(w workload) peers.Patience {
	return peers.Patience{Total: 2*b.opts.duration + cmp.Or(w.limit, 20*time.Second), Silence: w.silence}
}

// once runs a workload with a system, on real servers.
func (b *bench) once(ctx context.Context, f *fleet, w workload, s system) (got sample, err error) {
	p, done, err := b.driverFor(w, s.library)
	if err != nil {
		return got, err
	}
	defer func() { done(err) }()
	addrs := f.clients
	hooks := peers.Hooks{}
	if w.proxied {
		proxy, err := zktest.ListenProxy(f.clients...)
		if err != nil {
			return got, err
		}
		defer proxy.Close()
		addrs, hooks.Ask = proxy.Addrs(), expire(proxy) //nolint:contextcheck // the proxy has an end of its own
	}
	var used use
	var fired events
	var served time.Duration
	hooks.Begin = func() {
		f.resetCounters()
		used, fired, served = measureUse(), watchEvents(f.addrs), f.serverCPU()
	}
	hooks.End = func() {
		got.serverCPU = f.serverCPU() - served
		got.others = measureUse().others(used, b.own(f, p.Pid()))
		now := watchEvents(f.addrs)
		got.watchEvents, got.maxEvents = now.sum-fired.sum, now.max
	}
	run := b.params(w, s, addrs)
	if b.opts.profiles != "" {
		file, err := filepath.Abs(filepath.Join(b.opts.profiles, fileName(f.name, w.name, s.name)+".pprof"))
		if err != nil {
			return got, err
		}
		run["cpuprofile"] = file
	}
	if w.trees {
		err = plant(ctx, f.addrs, run)
	}
	if err == nil {
		got.Measurement, err = p.Run(ctx, w.programOf(s), run, hooks, b.patience(w))
	}
	if w.rests {
		got.Seconds = float64(got.Ops) * got.MeanLatency() / 1000
	}
	if w.trees && len(f.pids) > 0 && got.Ops > 0 {
		got.Extras[serverCPU] = float64(got.serverCPU.Microseconds()) / 1000 / float64(got.Ops)
	}
	if swept := sweep(ctx, f.addrs, run["path"]); swept != nil && ctx.Err() == nil {
		b.say("%s: %v", run["path"], swept)
	}
	return got, err
}

// expire answers a driver's question: it expires the session that the question names.
func expire(proxy *zktest.Proxy) func([]string) error {
	return func(question []string) error {
		if len(question) != 2 || question[0] != "expire" {
			return fmt.Errorf("a driver asks: %v", question)
		}
		id, err := strconv.ParseInt(question[1], 10, 64)
		if err == nil {
			proxy.Expire(id)
		}
		return err
	}
}

// A count is the requests of one run, as counted by the server in memory.
type count struct {
	ops       float64
	requests  zktest.Counts
	proposals float64
	trips     float64 // NaN if they are not counted
	sent      float64 // bytes; 0 if they are not counted
	received  float64
	note      string
}

// count runs a workload with a system on a server in memory that answers with a latency.
func (b *bench) count(ctx context.Context, w workload, s system) (c count) {
	b.done++
	srv, err := zktest.NewServer(zktest.Config{Latency: oneWay, Tick: 2 * time.Second, MinTimeout: time.Second, MaxTimeout: time.Minute})
	if err != nil {
		return count{note: err.Error()}
	}
	defer srv.Close()
	p, done, err := b.driverFor(w, s.library)
	if err != nil {
		return count{note: err.Error()}
	}
	defer func() { done(err) }()
	trip, err := roundTrip(ctx, srv.Addrs())
	if err != nil {
		return count{note: err.Error()}
	}
	run := b.params(w, s, srv.Addrs()).with(params{"timeout_ms": "60000"}).with(w.counted).with(s.counted)
	var scale *relay.Relay // counts bytes
	if w.trees {
		scale = relay.New(0)
		defer scale.Close()
		addr, err := scale.To(srv.Addrs()[0])
		if err := errors.Join(err, plant(ctx, srv.Addrs(), run)); err != nil {
			return count{note: err.Error()}
		}
		run["servers"] = addr
	}
	var sent, received int64
	m, err := p.Run(ctx, w.programOf(s), run, peers.Hooks{
		Begin: func() {
			settle(ctx, srv)
			srv.ResetRequests()
			if scale != nil {
				sent, received = scale.Bytes()
			}
		},
		End: func() {
			settle(ctx, srv)
			c.requests, c.proposals = srv.Requests(), float64(srv.Proposals())
			if scale != nil {
				s, r := scale.Bytes()
				c.sent, c.received = float64(s-sent), float64(r-received)
			}
		},
	}, b.patience(w))
	if err != nil {
		c.note = "not counted: " + err.Error()
		return c
	}
	c.ops = float64(m.Ops)
	switch w.trips {
	case tripsPerOp: // the fastest operation waited for no other operation
		c.trips = math.Round(m.Quantile(0) / trip)
	case tripsInLine:
		c.trips = 1000 * m.Seconds / c.ops / trip
	case noTrips:
		c.trips = math.NaN()
	}
	return c
}

// settle waits until the server has received no request for some time. In that time a client that
// waits for an answer would have sent its next request. So releases in the background count for the
// phase to which they belong.
func settle(ctx context.Context, srv *zktest.Server) {
	for last := -1; last != srv.Requests().Total() && ctx.Err() == nil; {
		last = srv.Requests().Total()
		select {
		case <-time.After(60 * oneWay): // a machine with other load may pause a driver for a while
		case <-ctx.Done():
		}
	}
}

// roundTrip returns the time of one round trip to the servers in ms: the median of some reads.
func roundTrip(ctx context.Context, addrs []string) (float64, error) {
	s, err := session.Open(ctx, addrs, nil)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	took := make([]time.Duration, 15)
	for i := range took {
		began := time.Now()
		if _, err := s.Exists(ctx, "/"); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return float64(took[len(took)/2]) / float64(time.Millisecond), nil
}

// A result is a row of the table.
type result struct {
	Workload   string             `json:"workload"`
	System     string             `json:"system"`
	Servers    string             `json:"servers"`
	RTT        float64            `json:"rtt_ms"`          // of the flag -rtt
	Limit      bool               `json:"limit,omitempty"` // the system is bare requests, and no library
	Unit       string             `json:"unit"`
	OpsPerS    float64            `json:"ops_per_s"`
	Spread     float64            `json:"spread"` // the distance between the extremes, as a part of the median
	P50        float64            `json:"p50_ms"`
	P99        float64            `json:"p99_ms"`
	CPU        float64            `json:"cpu_us"`
	Requests   *float64           `json:"requests_per_op"` // null if requests are not counted
	ByOp       map[string]float64 `json:"requests_by_kind,omitempty"`
	Proposals  *float64           `json:"proposals_per_op"`
	RoundTrips *float64           `json:"round_trips"`
	Events     float64            `json:"watch_events_per_op"` // watch events of deletions
	MaxEvents  float64            `json:"max_watch_events"`    // of one deletion; on servers of others, since their start
	OtherLoad  float64            `json:"other_load_cores"`
	Extras     map[string]float64 `json:"extras,omitempty"`
	Remark     string             `json:"remark,omitempty"` // on the choice of the system
	Note       string             `json:"note,omitempty"`   // a failure

	workload  workload
	library   peers.Library
	aside     bool
	kind      string        // of servers, without their distance
	rtt       time.Duration // of the flag -rtt
	trip      float64       // a round trip as measured, in ms
	err       error         // of the run that failed
	quantiles []float64     // of latencies, in ms
}

// empty reports whether the result has no content, because an interruption came before the run.
func (r *result) empty() bool { return r.OpsPerS == 0 && r.Requests == nil && r.Note == "" }

// failed records the error of a run. The workload is not run with that system again.
func (r *result) failed(err error) {
	r.Note, r.err = err.Error(), err
	if hung := new(peers.HungError); errors.As(err, &hung) {
		r.OpsPerS = hung.Rate
	}
}

// ownFailures returns the failures of this library. The failure of a peer is a result, which the
// table shows.
func ownFailures(results []result) error {
	var failures []error
	for _, r := range results {
		if r.err != nil && r.library == peers.ZKActors {
			failures = append(failures, fmt.Errorf("%s: %s has failed: %w", r.Workload, r.System, r.err))
		}
	}
	return errors.Join(failures...)
}

// summarise computes the medians of the samples.
func (r *result) summarise(all []sample) {
	if len(all) == 0 {
		return
	}
	of := func(f func(sample) float64) float64 { return median(all, f) }
	r.OpsPerS = of(sample.rate)
	rates := make([]float64, len(all))
	for i, s := range all {
		rates[i] = s.rate()
	}
	if r.OpsPerS > 0 {
		r.Spread = (slices.Max(rates) - slices.Min(rates)) / r.OpsPerS
	}
	r.P50 = of(func(s sample) float64 { return s.Quantile(0.5) })
	r.P99 = of(func(s sample) float64 { return s.Quantile(0.99) })
	r.CPU = of(sample.cpu)
	r.Events = of(func(s sample) float64 { return s.watchEvents / float64(max(s.Ops, 1)) })
	r.MaxEvents = of(func(s sample) float64 { return s.maxEvents })
	r.OtherLoad = of(func(s sample) float64 { return s.others.Cores })
	for name := range all[0].Extras {
		if r.Extras == nil {
			r.Extras = make(map[string]float64)
		}
		r.Extras[name] = of(func(s sample) float64 { return s.Extras[name] })
	}
	r.quantiles = middle(all, sample.rate).Latencies
	if items, _ := strconv.Atoi(r.workload.params["items"]); r.workload.program == "drain" && all[0].Ops < items {
		r.Note = fmt.Sprintf("stopped after %s items in %.0f s", thousands(all[0].Ops), all[0].Seconds)
	}
}

// counted adds the numbers of requests to the result.
func (r *result) counted(c count) {
	if c.note != "" {
		r.Note = cmp.Or(r.Note, c.note)
		return
	}
	if c.ops == 0 {
		return
	}
	per := func(n float64) *float64 { return new(math.Round(100*n) / 100) }
	r.Requests, r.Proposals = per(float64(c.requests.Total())/c.ops), per(c.proposals/c.ops)
	r.ByOp = make(map[string]float64)
	for op, n := range c.requests {
		r.ByOp[op.String()] = *per(float64(n) / c.ops)
	}
	if !math.IsNaN(c.trips) {
		r.RoundTrips = per(c.trips)
	}
	if c.sent > 0 {
		if r.Extras == nil {
			r.Extras = make(map[string]float64)
		}
		r.Extras["bytes_sent"], r.Extras["bytes_received"] = math.Round(c.sent/c.ops), math.Round(c.received/c.ops)
	}
}

// middle returns the sample with the median.
func middle(all []sample, f func(sample) float64) sample {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b sample) int { return cmp.Compare(f(a), f(b)) })
	return sorted[len(sorted)/2]
}

func median(all []sample, f func(sample) float64) float64 { return f(middle(all, f)) }

// load returns the median load of other processes. Its process is the one that was the heaviest in
// most runs.
func (b *bench) load() load {
	if len(b.loads) == 0 {
		return load{Most: "unknown"}
	}
	times := make(map[string]int)
	for _, l := range b.loads {
		times[l.Most]++
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(times)), func(a, b string) int { return cmp.Compare(times[a], times[b]) })
	sorted := slices.SortedFunc(slices.Values(b.loads), func(a, b load) int { return cmp.Compare(a.Cores, b.Cores) })
	return load{sorted[len(sorted)/2].Cores, most}
}
