package otel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/zkactors/zkactors/metrics/internal/observedtest"
	"github.com/zkactors/zkactors/metrics/otel"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestObserver: each report changes the measurements that it should change.
func TestObserver(t *testing.T) {
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	v, err := otel.New(provider.Meter("zkactors"), &otel.Options{Session: "main", Path: observedtest.Parent})
	if err != nil {
		t.Fatal(err)
	}
	observedtest.Report(v)

	want := []string{
		"zkactors.election.leader leader=b path=/e session=main: 1",
		"zkactors.election.term path=/e session=main: 2",
		"zkactors.failed path=/orders reason=no_auth recipe=lock session=main: 1",
		"zkactors.group.members path=/g session=main: 3",
		"zkactors.hold.duration path=/orders recipe=lock session=main: 1 of 1s",
		"zkactors.holding path=/orders recipe=lock session=main: 1",
		"zkactors.lost path=/orders reason=session_expired recipe=lock session=main: 1",
		"zkactors.queue.age first=false path=/q session=main: 1 of 60s",
		"zkactors.queue.age first=true path=/q session=main: 3 of 3s",
		"zkactors.queue.dead_letters path=/q session=main: 1",
		"zkactors.queue.length path=/q session=main: 7",
		"zkactors.queue.put.duration outcome=full path=/q session=main: 1 of 1s",
		"zkactors.queue.put.duration outcome=ok path=/q session=main: 1 of 1s",
		"zkactors.queue.put.items path=/q session=main: 4",
		"zkactors.queue.work.duration end=acknowledged path=/q session=main: 1 of 1s",
		"zkactors.queue.work.duration end=rejected path=/q session=main: 1 of 2s",
		"zkactors.queue.work.duration end=taken path=/q session=main: 1 of 0s",
		"zkactors.queue.working path=/q session=main: 1",
		"zkactors.request.duration op=get outcome=ok session=main: 1 of 1s",
		"zkactors.request.duration op=set outcome=bad_version session=main: 1 of 1s",
		"zkactors.revocations path=/orders recipe=lock session=main: 1",
		"zkactors.session.events event=connected session=main: 1",
		"zkactors.session.events event=lapsed session=main: 1",
		"zkactors.session.events event=suspended session=main: 1",
		"zkactors.session.state session=main state=closed: 0",
		"zkactors.session.state session=main state=connected: 0",
		"zkactors.session.state session=main state=connecting: 0",
		"zkactors.session.state session=main state=expired: 0",
		"zkactors.session.state session=main state=suspended: 1",
		"zkactors.wait.duration granted=false path=/orders recipe=lock session=main: 1 of 1s",
		"zkactors.wait.duration granted=true path=/orders recipe=lock session=main: 2 of 2s",
		"zkactors.wait.oldest path=/orders recipe=lock session=main: some",
		"zkactors.waiting path=/orders recipe=lock session=main: 1",
	}
	if got := collected(t, reader); !slices.Equal(got, want) {
		t.Errorf("collected\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	for _, line := range collected(t, reader) {
		if strings.HasPrefix(line, "zkactors.queue.length") {
			t.Errorf("after Close: %s", line)
		}
	}
}

func collected(t *testing.T, reader sdk.Reader) (lines []string) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			note := func(attrs attribute.Set, value any) {
				line := m.Name
				for _, a := range attrs.ToSlice() {
					line += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
				}
				lines = append(lines, fmt.Sprintf("%s: %v", line, value))
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					note(p.Attributes, p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					note(p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]: // the age of the oldest wait
				for _, p := range data.DataPoints {
					note(p.Attributes, "some")
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					note(p.Attributes, fmt.Sprintf("%d of %vs", p.Count, p.Sum))
				}
			default:
				t.Errorf("%s: %T", m.Name, data)
			}
		}
	}
	slices.Sort(lines)
	return lines
}
