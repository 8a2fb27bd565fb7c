package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/zkactors/zkactors/bench/crew"
	"github.com/zkactors/zkactors/bench/driver"
)

// A steadyState is a role for all sessions of a fleet, in which nothing happens.
type steadyState struct {
	name, title string
	part        func(f *fleetBench) parts
}

// parts returns the role of a session, and the path of its node.
type parts func(root string, session int) (role, path string)

func inOwn(root string, i int) (role, path string) { return crew.Own, root + "/own/" + strconv.Itoa(i) }

func (f *fleetBench) inLines(root string, i int) (role, path string) {
	return crew.Line, root + "/line/" + strconv.Itoa(i%f.opts.lines)
}

func steadyStates() []steadyState {
	return []steadyState{
		{"idle", "idle", func(*fleetBench) parts { return func(string, int) (role, path string) { return "", "" } }},
		{"own", "each holds a lock", func(*fleetBench) parts { return inOwn }},
		{"line", "each waits for a lock, or holds it", func(f *fleetBench) parts { return f.inLines }},
		{"config", "each follows one node", func(*fleetBench) parts {
			return func(root string, _ int) (role, path string) { return crew.Config, root + "/config" }
		}},
	}
}

// A reading is the values of all counters at one moment.
type reading struct {
	at             time.Time
	cpu            []time.Duration // of the servers
	requests       float64
	questions      int // requests of this reading itself, which the servers also count
	zxid           int64
	watches        float64
	log            float64 // bytes
	client         time.Duration
	sent, received float64
}

func (f *fleetBench) read(c *company) (r reading, err error) {
	usage, err := ask[bool, crew.Usage](c, "Use", same(false))
	if err != nil {
		return r, err
	}
	for _, u := range usage {
		r.client += u.CPU
		r.sent += u.Sent
		r.received += u.Received
	}
	for i := range f.ens.Size() {
		m, err := f.counters(i)
		if err != nil {
			return r, err
		}
		r.requests += m[packetsReceived]
		r.watches += m["zk_watch_count"]
		zxid, err := f.zxid(i)
		if err != nil {
			return r, err
		}
		if len(m) > 0 {
			r.questions += 2
		}
		r.zxid = max(r.zxid, zxid)
		r.cpu = append(r.cpu, cpuOf(f.ens.Pid(i)))
	}
	r.log = logBytes(filepath.Join(f.dir, "servers"))
	r.at = time.Now()
	return r, nil
}

// A steadyResult is one run of a steady state.
type steadyResult struct {
	State    string `json:"state"`
	Client   string `json:"client"`
	Run      int    `json:"run"`
	Sessions int    `json:"sessions"`
	// CPU time of servers, in ms per second.
	Leader    float64 `json:"leader_cpu_ms_per_s"`
	Followers float64 `json:"followers_cpu_ms_per_s"`
	// Per session and second.
	Requests   float64 `json:"requests_per_session_s"`
	Proposals  float64 `json:"proposals_per_session_s"`
	Sent       float64 `json:"sent_bytes_per_session_s"`
	Received   float64 `json:"received_bytes_per_session_s"`
	Log        float64 `json:"log_bytes_per_session_s"` // of one server
	ClientCPU  float64 `json:"client_cpu_us_per_session_s"`
	Watches    float64 `json:"watches_per_session"`
	Memory     float64 `json:"client_bytes_per_session"`
	Goroutines float64 `json:"client_goroutines_per_session"`
	OtherLoad  float64 `json:"other_load_cores"`
}

// measure measures a steady state.
func (f *fleetBench) measure(ctx context.Context, s steadyState, client string, run int) (result steadyResult, err error) {
	n := f.opts.sessions
	err = f.with(ctx, []squad{{client: client, part: s.part(f)}}, n, func(all []*company, _ string) error {
		c := together(all)
		if err := wait(ctx, f.opts.settle); err != nil {
			return err
		}
		usage, err := ask[bool, crew.Usage](c, "Use", same(true))
		if err != nil {
			return err
		}
		var memory driver.Footprint
		for _, u := range usage {
			memory.Bytes += u.Memory.Bytes
			memory.Goroutines += u.Memory.Goroutines
		}
		leader, err := f.ens.LeaderContext(ctx)
		if err != nil {
			return err
		}
		used := measureUse()
		before, err := f.read(c)
		if err != nil {
			return err
		}
		if err := wait(ctx, f.opts.window); err != nil {
			return err
		}
		after, err := f.read(c)
		if err != nil {
			return err
		}
		seconds, each := after.at.Sub(before.at).Seconds(), float64(n)
		rate := func(x float64) float64 { return x / seconds / each }
		result = steadyResult{
			State: s.name, Client: client, Run: run, Sessions: n,
			Requests: rate(after.requests - before.requests - float64(before.questions)), Proposals: rate(float64(after.zxid - before.zxid)),
			Sent: rate(after.sent - before.sent), Received: rate(after.received - before.received), Log: rate(after.log - before.log),
			ClientCPU: rate(float64((after.client - before.client).Microseconds())),
			Watches:   after.watches / each, Memory: memory.Bytes / each, Goroutines: memory.Goroutines / each,
			OtherLoad: measureUse().others(used, f.own(c)).Cores,
		}
		for i := range after.cpu {
			ms := float64((after.cpu[i] - before.cpu[i]).Milliseconds()) / seconds
			if i == leader {
				result.Leader = ms
			} else {
				result.Followers += ms
			}
		}
		return nil
	})
	return result, err
}

// counters returns the counters of a server. While the server does not serve, it has none.
func (f *fleetBench) counters(i int) (map[string]float64, error) {
	text, err := f.ens.FourLetterWord(i, "mntr")
	if err != nil {
		return nil, err
	}
	all := make(map[string]float64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = n
		}
	}
	return all, nil
}

// packetsReceived is the number of requests, pings and four letter words that a server has
// received.
const packetsReceived = "zk_packets_received"

// zxid returns the newest zxid of a server. It is 0 if the server does not answer, as a leader does
// not with leaderServes=no.
func (f *fleetBench) zxid(i int) (int64, error) {
	text, err := f.word(i, "srvr", "Zxid")
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseInt(text, 0, 64)
}

// word returns the value of one field in a server's answer to a four letter word, and "" if the
// answer does not have the field.
func (f *fleetBench) word(i int, word, about string) (string, error) {
	text, err := f.ens.FourLetterWord(i, word)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); name == about {
			return value, nil
		}
	}
	return "", nil
}

// cpuOf returns the CPU time of a process, and 0 if the process does not exist.
func cpuOf(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11]) // a number, or the kernel is another
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticks
}

// logBytes returns the length of the first server's transaction logs.
func logBytes(dir string) (n float64) {
	files, _ := filepath.Glob(filepath.Join(dir, "server-0", "data", "version-2", "log.*")) // the pattern is well-formed
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			n += float64(info.Size())
		}
	}
	return n
}
