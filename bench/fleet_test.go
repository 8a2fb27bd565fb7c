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
		{"", "", []string{"idle", "own", "line", "config", "kill", "kill-follower", "cut", "outage", "return", "rolling", "frozen-leader", "frozen-short", "frozen-long", "down", "one-way-out", "one-way-in"}},
		{"-filter kill*,own", "", []string{"own", "kill", "kill-follower"}},
		{"-filter hail", "no state or storm is left", nil},
		{"-clients ours+tick,plain,ours+answered+tick -filter cut", "", []string{"cut"}},
		{"-clients theirs", `"theirs" is neither ours nor plain`, nil},
		{"-clients ours+tock", `-clients ours+tock: ours has no variant "tock": answered, committed, tick`, nil},
		{"-clients plain+tick", `plain has no variant "tick"`, nil},
		{"-sessions 0", "must be positive", nil},
		{"-sync-limit 0", "must be positive", nil},
		{"-filter frozen-*,down", "", []string{"frozen-leader", "frozen-short", "frozen-long", "down"}},
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

// TestFreezes: two sessions of each role, and two plain clients, go through each storm in which
// servers are frozen, down, or not heard.
func TestFreezes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts real servers")
	}
	if err := zktest.Installed(); err != nil {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "fleet.json")
	var out bytes.Buffer
	err := runFleet(t.Context(), strings.Fields("-sessions 2 -lines 1 -warm 0s -settle 0s -watch 1s -timeout 2s -tick 200ms -sync-limit 5 -clients ours "+
		"-filter frozen-*,down,one-way-* -json "+file), &out, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Storms []stormResult }
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Storms) != len(freezes()) {
		t.Fatalf("%d storms, want %d", len(got.Storms), len(freezes()))
	}
	for _, s := range got.Storms {
		var names []string
		for _, r := range s.Roles { // on a busy machine any session may be lost
			names = append(names, r.Role+" "+r.Client)
			if r.Sessions != 2 || r.Lost > 2 || r.CPU <= 0 {
				t.Errorf("%s: %+v", s.Storm, r)
			}
		}
		if want := []string{"members ours", "holders ours", "waiters ours", "beside plain"}; s.Sessions != 8 || !slices.Equal(names, want) {
			t.Errorf("%s: %d sessions, %v, want %v", s.Storm, s.Sessions, names, want)
		}
		if holders := s.Roles[1]; s.Storm == "down" && (holders.Deprived < 2 || len(holders.Told) != holders.Deprived) {
			t.Errorf("holders went on while all servers were down: %+v", holders)
		}
	}
	if rows := strings.Count(out.String(), "| plain | beside | 2 |"); rows != len(freezes()) || strings.Contains(out.String(), "runs without a loss") {
		t.Errorf("the table has %d rows of plain clients:\n%s", rows, out.String())
	}
}

// TestRoleResult: the observations of a squad are counted, and measured from the fault, and from
// the return.
func TestRoleResult(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	logs := []crew.Log{
		{
			Entries: []crew.Entry{
				{Member: 0, Session: 1, Kind: crew.Suspended, At: at(10)},
				{Member: 0, Session: 1, Kind: crew.Deprived, At: at(1500)},
				{Member: 0, Session: 1, Kind: crew.Granted, At: at(4500)},
				{Member: 1, Session: 2, Kind: crew.Expired, At: at(4100)},
				{Member: 1, Session: 2, Kind: crew.Deprived, At: at(4100)},
				{Member: 1, Session: 3, Kind: crew.Granted, At: at(4250)},
			},
			Dials: []crew.Dial{{At: at(1)}},
		},
		{Entries: []crew.Entry{{Member: 0, Session: 4, Kind: crew.Deprived, At: at(1000)}}},
	}
	r := roleResult{Role: "holders", Client: "ours", Sessions: 3}
	r.add(logs, map[int64]time.Time{2: at(4000), 9: at(4000)}, &storming{began: began, back: at(4000)}, 2*time.Second)
	if r.Lost != 1 || r.Expired != 1 || r.Deprived != 3 || r.Granted != 2 || r.Dials != 1 ||
		!slices.Equal(r.Told, []float64{0.5, 0.75, 2.05}) || !slices.Equal(r.Again, []float64{0.25, 0.5}) {
		t.Errorf("%+v", r)
	}
	table := fleetReport{
		opts:   fleetOptions{clients: []string{"ours"}, storms: storms()},
		storms: []stormResult{{Storm: "down", Client: "ours", Requests: 7, Roles: []roleResult{r}}},
	}.text()
	if want := "| ours | holders | 3 | 1 | 1 | 3 | 0.75 | 2.05 | 0.50 | 0.50 | 1 |"; !strings.Contains(table, want) || strings.Contains(table, "nodes gone") {
		t.Errorf("%s\nlacks %s", table, want)
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

// TestSessionsOfDump: the ids of sessions are not mixed up with those of the owners of nodes.
func TestSessionsOfDump(t *testing.T) {
	t.Parallel()
	const dump = "SessionTracker dump:\nGlobal Session Sets (2)/(2):\n1 expire at Mon Nov 30 09:00:00 UTC 2026:\n\t0x1001\n" +
		"1 expire at Mon Nov 30 09:00:01 UTC 2026:\n\t0xf000000000000001\nephemeral nodes dump:\nSessions with Ephemerals (1):\n0x1002:\n\t/n\n"
	all := sessionsOf(dump)
	if len(all) != 2 || !all[0x1001] || !all[-0x0fffffffffffffff] {
		t.Errorf("%v", all)
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
