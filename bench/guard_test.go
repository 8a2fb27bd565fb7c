package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/bench/peers"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session/zktest"
)

func TestLastAccepted(t *testing.T) {
	for _, row := range []struct{ text, commit, err string }{
		{"# a comment\n0123abcd 2026-11-28 the first\n", "0123abcd", ""},
		{"0123abcd 2026-11-28 the first\n\n89abcdef 2026-11-29 a promise costs a request\n# after it\n", "89abcdef", ""},
		{"0123abcd 2026-11-28 the first\nHEAD 2026-11-29 what is here\n", "", `"HEAD 2026-11-29 what is here" is not`},
		{"0123abcd 2026-11-28\n", "", "is not a commit, its date and the reason"},
		{"0123abcd a reason without a date\n", "", "is not a commit, its date and the reason"},
		{"# a comment\n", "", "no commit is accepted"},
	} {
		commit, err := lastAccepted(row.text)
		check.Equal(t, commit, row.commit, row.text)
		if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%q: error %v, want %q", row.text, err, row.err)
		}
	}
	check.Have(lastAccepted(acceptedCommits))(t)
}

func TestGuardFlags(t *testing.T) {
	for _, row := range []struct{ args, err, workloads string }{
		{"", "", "queue-one-taken,queue-one-acknowledged,lock-1,handover-10,handover-100,succession"},
		{"-filter handover-*", "", "handover-2,handover-10,handover-100"},
		{"-filter limits", "none of them has the workloads of -filter limits", ""},
		{"-least 3 -most 2", "most not below least", ""},
		{"-duration 0s", "must be positive", ""},
		{"lock-1", `there is no argument "lock-1"`, ""},
	} {
		o, err := parseGuard(strings.Fields(row.args), t.Output())
		if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%q: error %v, want %q", row.args, err, row.err)
		}
		if err != nil {
			continue
		}
		var names []string
		for _, w := range o.workloads {
			names = append(names, w.name)
			check.Equal(t, w.systems[0].library, peers.ZKActors, w.name)
			check.Equal(t, w.systems[1].library, peers.Accepted, w.name)
		}
		check.Equal(t, join(names), row.workloads)
	}
}

// samples returns n equal samples of a second.
func samples(n, ops int, cpu time.Duration) (all []sample) {
	for range n {
		all = append(all, sample{Measurement: peers.Measurement{Ops: ops, Seconds: 1, CPU: time.Duration(ops) * cpu}})
	}
	return all
}

// TestGuardReport: the table has all rows, and the error says which figures are behind, and by how
// much.
func TestGuardReport(t *testing.T) {
	const us = time.Microsecond
	w := func(name string) workload {
		return workload{name: name, systems: []system{{name: "this commit"}, {name: "accepted"}, zkLock()}}
	}
	alone := w("too short")
	alone.systems = alone.systems[:2]
	rows := []guardRow{
		{w("same"), [][]sample{samples(12, 1000, 100*us), samples(12, 1000, 100*us), samples(12, 900, 70*us)}, make([]error, 3)},
		{w("slow"), [][]sample{samples(12, 800, 100*us), samples(12, 1000, 100*us), samples(2, 900, 70*us)}, []error{nil, nil, peers.ErrHung}},
		{w("heavy"), [][]sample{samples(12, 1000, 125*us), samples(12, 1000, 100*us), nil}, []error{nil, nil, peers.ErrHung}},
		{alone, [][]sample{samples(5, 1000, 100*us), samples(5, 1000, 100*us)}, make([]error, 2)},
		{w("gone"), [][]sample{nil, nil, nil}, []error{nil, errors.New("there is no program"), nil}},
	}
	want := strings.TrimPrefix(`
workload                  this commit  0123abcd  peer             this : accepted      spread   turns  
same       operations/s   1,000        1,000     900     zk.Lock  1.00 (1.00 to 1.00)  0 %      12     level
same       client CPU µs  100          100       70.0    zk.Lock  1.00 (1.00 to 1.00)  0 %      12     level
slow       operations/s   800          1,000     900     zk.Lock  0.80 (0.80 to 0.80)  0 %      12     BEHIND
slow       client CPU µs  100          100       70.0    zk.Lock  1.00 (1.00 to 1.00)  0 %      12     level
heavy      operations/s   1,000        1,000     failed  zk.Lock  1.00 (1.00 to 1.00)  0 %      12     level
heavy      client CPU µs  125          100       failed  zk.Lock  1.25 (1.25 to 1.25)  0 %      12     BEHIND
too short  operations/s   1,000        1,000     none             unknown              unknown  5      NOT JUDGED
too short  client CPU µs  100          100       none             unknown              unknown  5      NOT JUDGED
gone       operations/s   failed       failed    failed  zk.Lock  unknown              unknown  0      NOT JUDGED
gone       client CPU µs  failed       failed    failed  zk.Lock  unknown              unknown  0      NOT JUDGED
`, "\n")
	check.Equal(t, guardTable(rows, "0123abcd4567"), want)
	want = strings.TrimSpace(`
slow: 20 % fewer operations per second than 0123abcd: this : accepted is 0.80 (0.80 to 0.80)
heavy: 25 % more client CPU for an operation than 0123abcd: this : accepted is 1.25 (1.25 to 1.25)
gone: there is no program`)
	check.Equal(t, guardFailures(rows, "0123abcd4567").Error(), want)
	check.Must(t, guardFailures(rows[:1], "0123abcd4567"))
	check.Equal(t, notJudgedRows(rows[:4]), `NOT JUDGED: too short, operations/s: spread after 5 turns: unknown. A quiet machine would tell.
NOT JUDGED: too short, client CPU µs: spread after 5 turns: unknown. A quiet machine would tell.
`)
}

// TestGuardTurns: both commits, each in new processes, and the peer take turns, as often as is
// needed.
func TestGuardTurns(t *testing.T) {
	srv := zktest.Start(t)
	o := check.Have(parseGuard([]string{"-filter", "lock-1", "-duration", "10ms", "-least", "2", "-most", "3"}, t.Output()))(t)
	b := check.Have(newBench(o.options, t.Output()))(t)
	defer b.close()
	check.Must(t, os.Symlink(b.self, filepath.Join(b.dir, string(peers.Accepted))))
	r := b.guard(t.Context(), &fleet{addrs: srv.Addrs(), clients: srv.Addrs()}, o.workloads[0], o)
	check.Must(t, errors.Join(r.failed...))
	check.Len(t, r.samples, 3)
	for i, s := range r.samples { // three ratios say nothing yet
		check.Len(t, s, 3, r.workload.systems[i].name)
		check.True(t, s[0].rate() > 0, "%s did nothing", r.workload.systems[i].name)
	}
	check.Equal(t, len(b.running), 0, "processes")
}
