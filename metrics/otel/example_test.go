package otel_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/zkactors/zkactors/metrics/otel"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A service exports the metrics of its session, and of the recipes on it. In place of the
// reader stands one with an exporter.
func ExampleNew() {
	ctx := context.Background()
	srv, err := zktest.NewServer(zktest.Config{}) // a server in memory
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()

	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	observer, err := otel.New(provider.Meter("zkactors"), &otel.Options{Session: "main"})
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.Open(ctx, srv.Addrs(), &session.Options{Observer: observer})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	if _, err := s.Create(ctx, "/orders", nil, session.Persistent); err != nil {
		log.Fatal(err)
	}
	s.Close() // so that all is reported
	var read metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &read); err != nil {
		log.Fatal(err)
	}
	for _, m := range read.ScopeMetrics[0].Metrics {
		if m.Name == "zkactors.request.duration" {
			fmt.Println(m.Name, m.Data.(metricdata.Histogram[float64]).DataPoints[0].Count)
		}
	}
	// Output: zkactors.request.duration 1
}
