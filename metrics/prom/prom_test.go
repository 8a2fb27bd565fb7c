package prom_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/zkactors/zkactors/metrics/internal/observedtest"
	"github.com/zkactors/zkactors/metrics/prom"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestObserver: each report changes the metrics that it should change.
func TestObserver(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	v, err := prom.New(reg, &prom.Options{Session: "main", Path: observedtest.Parent})
	if err != nil {
		t.Fatal(err)
	}
	observedtest.Report(v)

	want := `
zkactors_election_leader{leader="b",path="/e",session="main"} 1
zkactors_election_term{path="/e",session="main"} 2
zkactors_failed_total{path="/orders",reason="no_auth",recipe="lock",session="main"} 1
zkactors_group_members{path="/g",session="main"} 3
zkactors_holding{path="/orders",recipe="lock",session="main"} 1
zkactors_lost_total{path="/orders",reason="session_expired",recipe="lock",session="main"} 1
zkactors_queue_dead_letters_total{path="/broken",session="main"} 0
zkactors_queue_dead_letters_total{path="/q",session="main"} 1
zkactors_queue_length{path="/q",session="main"} 7
zkactors_queue_put_items_total{path="/q",session="main"} 4
zkactors_queue_working{path="/q",session="main"} 1
zkactors_revocations_total{path="/orders",recipe="lock",session="main"} 1
zkactors_session_events_total{event="connected",session="main"} 1
zkactors_session_events_total{event="lapsed",session="main"} 1
zkactors_session_events_total{event="suspended",session="main"} 1
zkactors_session_state{session="main",state="closed"} 0
zkactors_session_state{session="main",state="connected"} 0
zkactors_session_state{session="main",state="connecting"} 0
zkactors_session_state{session="main",state="expired"} 0
zkactors_session_state{session="main",state="suspended"} 1
zkactors_waiting{path="/orders",recipe="lock",session="main"} 1
`
	if got := exported(t, reg, want); got != strings.TrimSpace(want) {
		t.Errorf("exported\n%s", got)
	}
	for name, series := range map[string]int{
		"zkactors_request_seconds":     2, // get with outcome ok, set with bad_version
		"zkactors_wait_seconds":        2, // granted, and not granted
		"zkactors_hold_seconds":        1,
		"zkactors_oldest_wait_seconds": 1,
		"zkactors_queue_put_seconds":   2, // ok, and full
		"zkactors_queue_age_seconds":   2, // the first delivery, and a later one
		"zkactors_queue_work_seconds":  3, // acknowledged, rejected, taken
	} {
		if n, err := testutil.GatherAndCount(reg, name); n != series || err != nil {
			t.Errorf("%s has %d series, %v, want %d", name, n, err, series)
		}
	}
}

// exported returns the samples of those metrics whose names occur in text.
func exported(t *testing.T, reg prometheus.Gatherer, text string) string {
	t.Helper()
	var names []string
	for line := range strings.Lines(text) {
		if name, _, ok := strings.Cut(line, "{"); ok {
			names = append(names, name)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var samples []string
	for _, f := range families {
		if !strings.Contains(strings.Join(names, " ")+" ", f.GetName()+" ") {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			samples = append(samples, f.GetName()+"{"+strings.Join(labels, ",")+"} "+fmt.Sprint(value))
		}
	}
	return strings.Join(samples, "\n")
}

// TestTwoSessions: observers of two sessions can share a registry if the sessions have different
// names.
func TestTwoSessions(t *testing.T) {
	reg := prometheus.NewRegistry()
	for _, name := range []string{"a", "b"} {
		if _, err := prom.New(reg, &prom.Options{Session: name}); err != nil {
			t.Error(err)
		}
	}
	if _, err := prom.New(reg, &prom.Options{Session: "b"}); err == nil {
		t.Error("the same session is registered twice")
	}
}
