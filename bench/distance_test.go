package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/bench/peers"
)

// atDistances returns a report of two workloads at four distances, on servers of one kind. Another
// kind has one distance alone.
func atDistances() report {
	var all []result
	row := func(kind string, d time.Duration, w, system string, l peers.Library, rate float64) {
		name := kind
		if d > 0 {
			name += ", " + away(d) + " away"
		}
		all = append(all, result{
			Workload: w, System: system, Servers: name, OpsPerS: rate, workload: workload{name: w, title: w}, library: l, kind: kind, rtt: d,
			trip: 0.1 + float64(d)/float64(time.Millisecond),
		})
	}
	for i, d := range []time.Duration{0, 300 * time.Microsecond, time.Millisecond, 5 * time.Millisecond} {
		n := float64(int(1) << i)
		row("3 servers", d, "lock-1", "zkactors", peers.ZKActors, 4000/n)
		row("3 servers", d, "lock-1", "zkactors, released in background", peers.ZKActors, 9000/n)
		row("3 servers", d, "lock-1", "zk.Lock", peers.GoZookeeper, 2000)
		row("3 servers", d, "lock-1", "kazoo", peers.Kazoo, 100*n)
		row("3 servers", d, "lock-1", "raw requests", peers.GoZookeeper, 20_000)
		all[len(all)-1].Limit = true
		row("3 servers", d, "lock-1", "one ephemeral node", peers.GoZookeeper, 20_000)
		all[len(all)-1].aside = true
		row("3 servers", d, "barrier-10", "zkactors", peers.ZKActors, 3000/n)
		row("3 servers", d, "barrier-10", "curator", peers.Curator, 9000)
		all[len(all)-1].failed(errors.New("hung")) // leaves the rate, as of a system that was cut off
		row("3 servers", d, "barrier-10", "curator, a path for each round", peers.Curator, 800/n)
		row("3 servers", d, "commit-2", "zkactors", peers.ZKActors, 500)
	}
	row("1 server", 0, "lock-1", "zkactors", peers.ZKActors, 1)
	row("1 server", 0, "lock-1", "zk.Lock", peers.GoZookeeper, 1)
	return report{results: all}
}

// TestByDistance: the table has a row for each workload that a peer has run, with the rates of both
// and their ratio. Limits, contrasts and systems that hung are no peers.
func TestByDistance(t *testing.T) {
	r := atDistances()
	all := r.comparisons()
	if len(all) != 1 || len(all[0].rows) != 2 {
		t.Fatalf("%+v, want one kind of servers, and two workloads", all)
	}
	want := `
## By distance, 3 servers

Operations/s. Ratio: zkactors to the fastest peer. Systems that failed or hung are left out. A read took 0.10, 0.40, 1.10, 5.10 ms (median).

| row |  | loopback | 0.3 ms | 1 ms | 5 ms |
|---|---|---:|---:|---:|---:|
| lock-1 | zkactors | 4,000 | 2,000 | 1,000 | 500 |
|  | fastest peer | 2,000 zk.Lock | 2,000 zk.Lock | 2,000 zk.Lock | 2,000 zk.Lock |
|  | ratio | 2.00 | 1.00 | **0.50** | **0.25** |
| barrier-10 | zkactors | 3,000 | 1,500 | 750 | 375 |
|  | fastest peer | 800 curator, a path for each round | 400 curator, a path for each round | 200 curator, a path for each round | 100 curator, a path for each round |
|  | ratio | 3.75 | 3.75 | 3.75 | 3.75 |
`
	if got := all[0].markdown(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if text := r.markdownText(nil); strings.Count(text, want) != 1 {
		t.Errorf("it is not once in the results:\n%s", text)
	}
	var out bytes.Buffer
	if err := r.print(&out); err != nil || !strings.Contains(out.String(), "by distance, 3 servers\n") || !strings.Contains(out.String(), "0.50 slower") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestMissingDistances: a system that failed at one distance has a gap there, and a workload that
// was interrupted keeps what it has.
func TestMissingDistances(t *testing.T) {
	r := atDistances()
	for i := range r.results {
		if x := &r.results[i]; x.Workload == "lock-1" && x.rtt == time.Millisecond && x.System == "zkactors" {
			x.failed(errors.New("no luck"))
		}
	}
	c := r.comparisons()[0]
	lines := c.cells(c.rows[0], strings.ToUpper)
	for i, want := range []string{"lock-1 zkactors 4,000 2,000  500", " ratio 2.00 1.00  0.25"} {
		if got := strings.Join(lines[2*i], " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestRoundTripFlag: the flag has several distances, in their order. The names of servers keep
// their form.
func TestRoundTripFlag(t *testing.T) {
	got, err := parseRoundTrips("0,0.3ms,1ms,5ms", []offer{{count: 3}})
	if err != nil || len(got) != 4 {
		t.Fatalf("%v, %v", got, err)
	}
	for i, want := range []string{"loopback 0ms", "0.3 ms 0.3ms", "1 ms 1ms", "5 ms 5ms"} {
		if text := column(got[i]) + " " + away(got[i]); text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
	if all := (report{results: atDistances().results[:5]}).comparisons(); len(all) > 0 {
		t.Errorf("one distance is compared: %+v", all)
	}
}
