package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkactors/zkactors/bench/peers"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestMain is also the main function of the drivers in Go, because the bench starts its own
// executable for them.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == peers.DriverArgument {
		if err := drive(peers.Library(os.Args[2]), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestFlags(t *testing.T) {
	for _, test := range []struct {
		args    string
		err     string
		says    string
		choices []string
	}{
		{"-filter lock", "", "", []string{"lock-1", "lock-64", "lock-512", "lock-2048"}},
		{"-filter barrier-10,queue-put*", "", "", []string{"barrier-10", "queue-put", "queue-put-100"}},
		{"-filter look,lock-1", "", `there is no workload "look"`, []string{"lock-1"}},
		{"-filter look", "no workload is left", `there is no workload "look"`, nil},
		{"-filter [", "syntax error in pattern", "", nil},
		{"-duration 0s", "must be positive", "", nil},
		{"-turns -1", "must be positive", "", nil},
		{"-servers 2", "1, 3 or 5 servers can be started, not 2", "", nil},
		{"-servers 1,zk1:2181", "either numbers or addresses", "", nil},
		{"-servers zk1:2181/chroot", "a chroot is of no use here", "", nil},
		{"-servers zk1:port", "-servers zk1:port", "", nil},
		{"lock", `there is no argument "lock"`, "", nil},
		{"-json /no/such/dir/file", "", "", nil},
	} {
		t.Run(test.args, func(t *testing.T) {
			var log bytes.Buffer
			o, err := parse(strings.Fields(test.args), &log)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("error %v, want %q", err, test.err)
			}
			if !strings.Contains(log.String(), test.says) || strings.Count(log.String(), "\n") > 1 {
				t.Errorf("it says %q, want one line with %q", log.String(), test.says)
			}
			if test.choices == nil {
				return
			}
			var names []string
			for _, w := range o.workloads {
				names = append(names, w.name)
			}
			if join(names) != join(test.choices) {
				t.Errorf("workloads %v, want %v", names, test.choices)
			}
		})
	}
}

// TestHelp: a request for help is no failure, and the list goes to standard output, where it can be
// searched.
func TestHelp(t *testing.T) {
	var out, log bytes.Buffer
	if err := run(t.Context(), []string{"-list"}, &out, &log); err != nil || !strings.Contains(out.String(), "\n  queue-drain-20000 ") ||
		strings.Count(out.String(), "\n  zk.Lock\n") != 1 || log.Len() > 0 {
		t.Errorf("-list: %v, %q, %q", err, out.String(), log.String())
	}
	if err := run(t.Context(), []string{"-h"}, &out, &log); err != nil || !strings.Contains(log.String(), "-list") {
		t.Errorf("-h: %v, %q", err, log.String())
	}
}

func TestSystemsFlag(t *testing.T) {
	for _, test := range []struct {
		args, systems string // the chosen systems of handover-10 and fanout-10
		says, err     string
		choices       []string
	}{
		{choices: []string{
			"zkactors", "zkactors, released in background", "zk.Lock", "curator", "kazoo", "one ephemeral node",
			"zkactors, config", "zkactors, watch", "go-zookeeper, bare watch", "curator", "kazoo",
		}},
		{systems: "zkactors,zk.Lock", choices: []string{"zkactors", "zk.Lock"}},
		{systems: "zkactors*", choices: []string{"zkactors", "zkactors, released in background", "zkactors, config", "zkactors, watch"}},
		{systems: "zkactors, watch,kazoo", choices: []string{"kazoo", "zkactors, watch", "kazoo"}},
		{systems: "zookeeper,kazoo", says: `there is no system "zookeeper": see -list`, choices: []string{"kazoo", "kazoo"}},
		{systems: "kazoo, curator,zk.Lock", says: `there is no system "kazoo, curator": see -list`, choices: []string{"zk.Lock"}},
		{systems: "zookeeper", says: `there is no system "zookeeper": see -list`, err: "-systems zookeeper: no system is left"},
		{systems: "zkactors, new", err: "-systems zkactors, new: none of them has the workloads of -filter handover-10,fanout-10"},
		{systems: "[", err: "-systems [: syntax error in pattern"},
		{args: "-limits", choices: []string{
			"zkactors", "zkactors, released in background", "zk.Lock", "curator", "kazoo", "one ephemeral node",
			"raw requests", "raw requests, released in background",
			"zkactors, config", "zkactors, watch", "go-zookeeper, bare watch", "curator", "kazoo",
		}},
		{systems: "zk.Lock,raw*", choices: []string{"zk.Lock", "raw requests", "raw requests, released in background"}},
		{args: "-limits", systems: "zk.Lock", choices: []string{"zk.Lock"}},
	} {
		args := append([]string{"-filter", "handover-10,fanout-10", "-systems", test.systems}, strings.Fields(test.args)...)
		var log bytes.Buffer
		o, err := parse(args, &log)
		if (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%q: error %v, want %q", args, err, test.err)
		}
		if want := test.says; want != "" && log.String() != "bench: "+want+"\n" || want == "" && log.Len() > 0 {
			t.Errorf("%q: it says %q, want %q", args, log.String(), want)
		}
		var names []string
		for _, w := range o.workloads {
			for _, s := range w.systems {
				names = append(names, s.name)
			}
		}
		if !slices.Equal(names, test.choices) {
			t.Errorf("%q: systems %q, want %q", args, names, test.choices)
		}
	}
}

func TestServersFlag(t *testing.T) {
	for flag, want := range map[string][]offer{
		"1":                         {{count: 1}},
		"1,3":                       {{count: 1}, {count: 3}},
		"zk1:2181,zk2:2182":         {{addrs: []string{"zk1:2181", "zk2:2182"}}},
		"127.0.0.1:2181,[::1]:2181": {{addrs: []string{"127.0.0.1:2181", "[::1]:2181"}}},
	} {
		got, err := parseServers(flag)
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %v, %v", flag, got, err)
			continue
		}
		for i := range got {
			if got[i].count != want[i].count || join(got[i].addrs) != join(want[i].addrs) {
				t.Errorf("%s: %v, want %v", flag, got, want)
			}
		}
	}
}

// TestRoundTrips: which are accepted, and that servers that run already are not delayed.
func TestRoundTrips(t *testing.T) {
	started, running := []offer{{count: 1}}, []offer{{addrs: []string{"zk1:2181"}}}
	for flag, want := range map[string][]time.Duration{"0": {0}, "0,1ms": {0, time.Millisecond}, "0.3ms, 5ms": {300 * time.Microsecond, 5 * time.Millisecond}} {
		got, err := parseRoundTrips(flag, started)
		check.OK(t, err)
		check.EqualSlices(t, got, want)
	}
	for _, flag := range []string{"", "1", "x", "-1ms", "2s", "1ms,"} {
		_, err := parseRoundTrips(flag, started)
		check.True(t, err != nil && strings.Contains(err.Error(), "-rtt"), "%q: %v", flag, err)
	}
	_, err := parseRoundTrips("1ms", running)
	check.True(t, err != nil, "servers that run already are delayed")
	_, err = parseRoundTrips("0", running)
	check.OK(t, err)
}

func TestNoWorkloadHasTheNameOfAnother(t *testing.T) {
	seen := make(map[string]bool)
	for _, w := range workloads() {
		if seen[w.name] {
			t.Errorf("two workloads are called %s", w.name)
		}
		seen[w.name] = true
		for _, s := range w.systems {
			if k := w.name + "\n" + s.name; seen[k] {
				t.Errorf("%s has two systems that are called %s", w.name, s.name)
			} else {
				seen[k] = true
			}
		}
	}
}

// TestResultsThatCannotBeWritten: a file that cannot be written is reported before any measurement.
func TestResultsThatCannotBeWritten(t *testing.T) {
	var log bytes.Buffer
	err := run(t.Context(), []string{"-filter", "lock-1", "-json", filepath.Join(t.TempDir(), "none", "file")}, &log, &log)
	if err == nil || !strings.Contains(err.Error(), "no such file or directory") || log.Len() > 0 {
		t.Errorf("error %v, output %q", err, log.String())
	}
}

// short returns flags for runs that take no time.
func short(more ...string) []string {
	return append([]string{"-duration", "50ms", "-turns", "1"}, more...)
}

func benchmark(t *testing.T, args ...string) (out, log string) {
	t.Helper()
	var o, l bytes.Buffer
	if err := run(t.Context(), args, &o, &l); err != nil {
		t.Fatalf("%v\n%s", err, l.String())
	}
	return o.String(), l.String()
}

// noPeers hides Java and kazoo.
func noPeers(t *testing.T) {
	t.Helper()
	t.Setenv("PATH", t.TempDir())
	t.Setenv("PYTHONHOME", t.TempDir())
}

// TestRun: the bench runs on given servers, and writes all its files. The counts of a lock are
// exact.
func TestRun(t *testing.T) {
	srv := zktest.Start(t)
	noPeers(t)
	dir := t.TempDir()
	file, table, plots := filepath.Join(dir, "results.json"), filepath.Join(dir, "results.md"), filepath.Join(dir, "plots")
	out, log := benchmark(t, short("-duration", "300ms", "-servers", join(srv.Addrs()), "-filter", "lock-1,barrier-10,commit-2", "-json", file, "-markdown", table, "-plots", plots)...)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]map[string]any)
	for _, row := range rows {
		found[row["workload"].(string)+" "+row["system"].(string)] = row
		for _, field := range []string{"ops_per_s", "p50_ms", "p99_ms", "cpu_us", "requests_per_op", "proposals_per_op", "round_trips"} {
			if n, ok := row[field].(float64); !ok || n <= 0 {
				t.Errorf("%v, %v: %s is %v", row["workload"], row["system"], field, row[field])
			}
		}
	}
	for name, proposals := range map[string]float64{
		"lock-1 zkactors": 2, "lock-1 zkactors, released in background": 2, "lock-1 zk.Lock": 2, "barrier-10 zkactors": 0, "commit-2 zkactors": 0,
	} {
		row := found[name]
		if row == nil {
			t.Errorf("there is no row %s", name)
		} else if proposals > 0 && row["proposals_per_op"] != proposals {
			t.Errorf("%s: %v proposals, want %v", name, row["proposals_per_op"], proposals)
		}
	}
	if len(rows) != 5 {
		t.Errorf("%d rows, want 5", len(rows))
	}
	for _, want := range []string{"lock, uncontended", "zk.Lock", "other load: "} {
		if !strings.Contains(out, want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
	markdown, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"### lock, uncontended", "| zk.Lock |", "(plots/"} {
		if !strings.Contains(string(markdown), want) {
			t.Errorf("%s lacks %q:\n%s", table, want, markdown)
		}
	}
	pictures, err := filepath.Glob(filepath.Join(plots, "*.svg"))
	if err != nil || len(pictures) < 5 {
		t.Errorf("pictures: %v, %v", pictures, err)
	}
	for _, line := range []string{"curator is not measured: no java", "kazoo is not measured"} {
		if strings.Count(log, line) != 1 {
			t.Errorf("it does not say once %q:\n%s", line, log)
		}
	}
	if paths := srv.Paths(); strings.Contains(join(paths), root+"/") {
		t.Errorf("it leaves nodes: %v", paths)
	}
}

// TestLimits: the bare requests of each workload are exactly those that their table names.
func TestLimits(t *testing.T) {
	for row, want := range map[key]struct{ requests, proposals float64 }{
		{"barrier-10", "raw requests"}:                           {2, 1.1}, // of each party, and two for the ready node
		{"queue-put", "raw requests"}:                            {1, 1},
		{"queue-put", "raw requests, in transactions"}:           {0.06, 0.06}, // one transaction for 16 items
		{"queue-put-100", "raw requests"}:                        {0.01, 0.01},
		{"queue-drain-20000", "raw requests"}:                    {2, 1}, // for each item, and one list for all
		{"queue-drain-20000", "raw requests, in transactions"}:   {1.01, 0.01},
		{"lock-1", "raw requests"}:                               {3, 2},
		{"lock-1", "raw requests, the list beside the creation"}: {3, 2},
		{"lock-1", "raw requests, released in background"}:       {3, 2},
		{"lock-64", "raw requests"}:                              {3, 2},
		{"lock-64", "raw requests, in transactions"}:             {0.13, 0.13}, // two transactions for 16 locks
		{"handover-10", "raw requests"}:                          {3, 2},
		{"semaphore-20", "raw requests"}:                         {3, 2},
		{"handover-10", "raw requests, released in background"}:  {3, 2},
		{"readwrite", "raw requests"}:                            {3, 2},
		{"succession", "raw requests"}:                           {3, 2},
	} {
		t.Run(row.workload+", "+row.system, func(t *testing.T) {
			t.Parallel() // each waits for a server with a latency
			o, err := parse(short("-filter", row.workload, "-systems", row.system), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			b, err := newBench(o, t.Output())
			if err != nil {
				t.Fatal(err)
			}
			defer b.close()
			b.on(t.Context(), nil, make(map[key]count))
			if len(b.results) != 1 || b.results[0].Requests == nil {
				t.Fatalf("results %+v, want one, with requests", b.results)
			}
			if r := b.results[0]; !r.Limit || *r.Requests != want.requests || *r.Proposals != want.proposals {
				t.Errorf("%v requests and %v proposals, a limit: %v; want %v of a limit", *r.Requests, *r.Proposals, r.Limit, want)
			}
		})
	}
}

// TestServersThatAreNotThere: without servers, requests are counted all the same.
func TestServersThatAreNotThere(t *testing.T) {
	if testing.Short() {
		t.Skip("ten seconds: servers may still come")
	}
	noPeers(t)
	out, log := benchmark(t, short("-servers", "127.0.0.1:1", "-filter", "lock-1")...)
	if !strings.Contains(log, "bench: nothing is timed: no ZooKeeper answers at 127.0.0.1:1") || !strings.Contains(out, "counted only") {
		t.Errorf("%s\n%s", log, out)
	}
}

// TestPortOfAnotherProgram: a port on which another program listens costs one line.
func TestPortOfAnotherProgram(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was written
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = offer{addrs: []string{l.Addr().String()}}.start(ctx, false, 0)
	if want := "no ZooKeeper answers at " + l.Addr().String(); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line that begins with %s", err, want)
	}
}

// TestErrorsInOneLine: the log of a server that does not start is too long to show.
func TestErrorsInOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"no ZooKeeper answers": "no ZooKeeper answers",
		"zktest: server 0 has ended\n--- end of the log of server 0:\n12:00 ERROR Main - Unexpected exception\n" +
			"java.net.BindException: Address already in use\n\tat Net.bind(Net.java:5)\n12:00 INFO Main - audit is disabled.\n": "zktest: server 0 has ended: java.net.BindException: Address already in use",
		"zktest: server 0 has ended\n--- end of the log of server 0:\nUnrecognized option: -X\n": "zktest: server 0 has ended: Unrecognized option: -X",
	} {
		if got := inOneLine(errors.New(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestServersThatCannotBeStarted: without Java no ZooKeeper can be started.
func TestServersThatCannotBeStarted(t *testing.T) {
	noPeers(t)
	out, log := benchmark(t, short("-servers", "1", "-filter", "lock-1")...)
	if !strings.Contains(log, "bench: nothing is timed: zktest: ZooKeeper is not installed") || !strings.Contains(out, "counted only") {
		t.Errorf("%s\n%s", log, out)
	}
}

// TestInterrupted: a run that is interrupted shows the results that it has.
func TestInterrupted(t *testing.T) {
	srv := zktest.Start(t)
	noPeers(t)
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	log := &until{text: "lock-1, zk.Lock", then: cancel}
	err := run(ctx, short("-servers", join(srv.Addrs()), "-filter", "commit-2,lock-1"), &out, log)
	if err == nil {
		t.Error("it does not say that it was interrupted")
	}
	if !strings.Contains(out.String(), "released in background") || strings.Contains(out.String(), "commit-2") {
		t.Errorf("it shows\n%s\nafter\n%s", out.String(), log.buf.String())
	}
}

// An until is a log that calls then when a text appears in it.
type until struct {
	buf  bytes.Buffer
	text string
	then func()
}

func (u *until) Write(p []byte) (int, error) {
	n, err := u.buf.Write(p)
	if strings.Contains(u.buf.String(), u.text) {
		u.then()
	}
	return n, err
}

func TestResultsStandBetweenMarks(t *testing.T) {
	old := "# Bench\n" + beginMark + "old\n" + endMark + "the end\n"
	if got, want := between(old, "new\n"), "# Bench\n"+beginMark+"\nnew\n\n"+endMark+"the end\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := between("old", "new\n"); got != "new\n" {
		t.Errorf("%q", got)
	}
}

func TestFigures(t *testing.T) {
	for x, want := range map[float64]string{0.123: "0.12", 1.5: "1.50", 12.34: "12.3", 123.4: "123", 1234.5: "1,235", 1234567: "1,234,567"} {
		if got := figure(x); got != want {
			t.Errorf("%v is written %s, want %s", x, got, want)
		}
	}
}

func TestOtherLoad(t *testing.T) {
	at := time.Now()
	before := use{at, 10, map[int]processUse{1: {"ours", 5}, 2: {"theirs", 1}}}
	after := use{at.Add(2 * time.Second), 14, map[int]processUse{1: {"ours", 7}, 2: {"theirs", 2.5}, 3: {"new", 0.2}}}
	if got, want := after.others(before, []int{1}), (load{1, "theirs"}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMedians(t *testing.T) {
	r := result{}
	var all []sample
	for _, ops := range []int{300, 100, 200} {
		all = append(all, sample{Measurement: peers.Measurement{Ops: ops, Seconds: 1, CPU: 100 * time.Millisecond, Latencies: []float64{1, 2, float64(ops)}}})
	}
	r.summarise(all)
	if r.OpsPerS != 200 || r.Spread != 1 || r.P50 != 2 || r.P99 != 200 || r.CPU != 500 {
		t.Errorf("%+v", r)
	}
}

// TestOwnFailures: a run in which this library fails ends with an error, so that the failure need
// not be searched in a table.
func TestOwnFailures(t *testing.T) {
	results := []result{{Workload: "lock-1", System: "kazoo", library: peers.Kazoo}, {Workload: "lock-2", System: "zkactors", library: peers.ZKActors}}
	results[0].failed(io.ErrUnexpectedEOF)
	if err := ownFailures(results); err != nil {
		t.Errorf("%v, want nothing of a peer's", err)
	}
	results[1].failed(io.ErrUnexpectedEOF)
	if err := ownFailures(results); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "lock-2: zkactors") {
		t.Errorf("%v, want the workload and the system", err)
	}
}
