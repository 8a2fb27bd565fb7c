package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/bench/crew"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestFleetFlags(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args, err string
		choices   []string
	}{
		{"", "", []string{"idle", "own", "line", "config", "kill", "kill-follower", "cut", "outage", "return", "rolling"}},
		{"-filter kill*,own", "", []string{"own", "kill", "kill-follower"}},
		{"-filter hail", "no state or storm is left", nil},
		{"-clients ours+tick,plain,ours+answered+tick -filter cut", "", []string{"cut"}},
		{"-clients theirs", `"theirs" is neither ours nor plain`, nil},
		{"-clients ours+tock", `-clients ours+tock: ours has no variant "tock": answered, shared, tick`, nil},
		{"-clients plain+tick", `plain has no variant "tick"`, nil},
		{"-sessions 0", "must be positive", nil},
		{"-setting leaderServes", `"leaderServes" is not key=value`, nil},
		{"kill", `there is no argument "kill"`, nil},
	} {
		o, err := parseFleet(strings.Fields(test.args), t.Output())
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: error %v, want %q", test.args, err, test.err)
		}
		if test.choices == nil {
			continue
		}
		var names []string
		for _, s := range o.steady {
			names = append(names, s.name)
		}
		for _, s := range o.storms {
			names = append(names, s.name)
		}
		if !slices.Equal(names, test.choices) {
			t.Errorf("%s: %v, want %v", test.args, names, test.choices)
		}
	}
}

// TestFleet: twenty sessions of each client go through a steady state and a storm, in two
// processes, on real servers.
func TestFleet(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts real servers")
	}
	if err := zktest.Installed(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	file, table := filepath.Join(dir, "fleet.json"), filepath.Join(dir, "fleet.md")
	var out bytes.Buffer
	err := runFleet(t.Context(), strings.Fields("-sessions 20 -process 15 -lines 3 -warm 0s -settle 0s -window 500ms -watch 2s -filter own,cut "+
		"-setting snapCount=50000 -json "+file+" -markdown "+table), &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Steady []steadyResult
		Storms []stormResult
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Steady) != 2 || len(got.Storms) != 2 {
		t.Fatalf("%d steady states and %d storms, want 2 of each", len(got.Steady), len(got.Storms))
	}
	for i, client := range []string{"ours", "plain"} {
		if s := got.Steady[i]; s.Client != client || s.Memory <= 0 || s.ClientCPU <= 0 || s.Followers <= 0 || s.Sessions != 20 {
			t.Errorf("%+v", s)
		}
		// On a busy machine a session may be late, or may be lost.
		if s := got.Storms[i]; s.Client != client || s.Nodes < 20 || s.Dials < 20 || s.Handshakes < 20 || s.Requests < 20 || s.DialPeak == 0 || s.RequestPeak <= 0 {
			t.Errorf("%+v", s)
		}
	}
	tables, err := os.ReadFile(table)
	if err != nil || string(tables) != out.String() {
		t.Errorf("%v\n%s\nis not what was printed:\n%s", err, tables, out.String())
	}
	for _, want := range []string{"| each holds a lock | plain |", "| all connections are cut | ours |", "`snapCount=50000`"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables lack %q:\n%s", want, out.String())
		}
	}
}

// TestStormResult: the observations of crews are compared with the servers' logs.
func TestStormResult(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	logs := []crew.Log{
		{
			Entries: []crew.Entry{
				{Member: 0, Kind: crew.Suspended, At: at(10)}, {Member: 0, Kind: crew.Resumed, At: at(510)}, // all is well
				{Member: 1, Session: 1, Kind: crew.Deprived, At: at(900)}, // before the servers ended the session
				{Member: 1, Session: 1, Kind: crew.Expired, At: at(900)}, {Member: 1, Kind: crew.Connected, At: at(950)},
			},
			Dials:   []crew.Dial{{At: at(1)}, {At: at(99), Failed: true}, {At: at(101)}},
			Servers: map[string]int{"a": 1, "b": 1},
		},
		{
			Entries: []crew.Entry{
				{Member: 0, Session: 2, Kind: crew.Expired, At: at(2000)},
				{Member: 0, Session: 2, Kind: crew.Deprived, At: at(2000)}, // after the servers ended the session
				{Member: 1, Kind: crew.Suspended, At: at(20)},
				{Member: 1, Kind: crew.Suspended, At: at(30)},
				{Member: 2, Session: 1, Kind: crew.Took, At: at(40)},
				{Member: 2, Session: 1, Kind: crew.Took, At: at(50)}, // delivered twice
			},
			Dials:   []crew.Dial{{At: at(50)}},
			Servers: map[string]int{"b": 2},
		},
	}
	r := stormResult{Items: 2}
	r.add(logs, map[int64]time.Time{1: at(1000), 2: at(1000)}, began, []string{"a", "b", "c"}, 2)
	if r.Lost != 2 || r.Expired != 2 || r.Deprived != 2 || r.Mistaken != 1 || r.NotBack != 2 || r.LastBack != 0.51 || r.LongestCut != 0.5 ||
		r.Unseen != 1 || r.Dials != 4 || r.Failed != 1 || r.DialPeak != 3 || !slices.Equal(r.Servers, []int{3, 1}) {
		t.Errorf("%v", &r)
	}
}

func TestWorstOfRuns(t *testing.T) {
	t.Parallel()
	for want, runs := range map[string][]int{"0": {0, 0, 0}, "0 (2,912)": {2912, 0, 0}, "7": {7}} {
		if got := whole(runs, func(n int) int { return n }); got != want {
			t.Errorf("%v: %s, want %s", runs, got, want)
		}
	}
}

// TestTablesBetweenMarks: only the tables that were measured change in a page with marks.
func TestTablesBetweenMarks(t *testing.T) {
	t.Parallel()
	const page = "# Scale\n<!-- steady states: written by go run ./bench fleet -markdown -->\nold\n<!-- end of steady states -->\nwords\n" +
		"<!-- storms: written by go run ./bench fleet -markdown -->\nold\n<!-- end of storms -->\nthe end\n"
	r := fleetReport{opts: fleetOptions{clients: []string{"ours"}, storms: storms()}, storms: []stormResult{{Storm: "cut", Client: "ours", Sessions: 1}}}
	got := r.inside(page)
	if strings.Count(got, "old\n") != 1 || !strings.HasPrefix(got, page[:60]) || !strings.HasSuffix(got, "<!-- end of storms -->\nthe end\n") ||
		!strings.Contains(got, "| all connections are cut | ours | 1 of 1 | 0 |") {
		t.Error(got)
	}
}

// TestTallyOfServersThatBeginAnew: a server that restarts, or elects, counts from 0.
func TestTallyOfServersThatBeginAnew(t *testing.T) {
	t.Parallel()
	tally := tally{last: []map[string]float64{{}}}
	sum := 0.0
	for _, n := range []float64{5, 7, 2, 3} {
		sum += tally.grown(0, map[string]float64{packetsReceived: n}, packetsReceived)
		sum += tally.grown(0, map[string]float64{}, packetsReceived) // a sample that did not ask for all counters
	}
	if sum != 10 {
		t.Errorf("%v in all, want 5, 2 more, and 3 since it began anew", sum)
	}
}
