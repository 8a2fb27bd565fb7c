package prom_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zkactors/zkactors/metrics/prom"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A service exports the metrics of its session, and of the recipes on it, at /metrics.
func ExampleNew() {
	ctx := context.Background()
	srv, err := zktest.NewServer(zktest.Config{}) // a server in memory
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()

	registry := prometheus.NewRegistry()
	observer, err := prom.New(registry, &prom.Options{Session: "main"})
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.Open(ctx, srv.Addrs(), &session.Options{Observer: observer})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	http.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	if _, err := s.Create(ctx, "/orders", nil, session.Persistent); err != nil {
		log.Fatal(err)
	}
	s.Close()                        // so that all is reported
	scrape := httptest.NewRecorder() // Prometheus' request
	http.DefaultServeMux.ServeHTTP(scrape, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(scrape.Body.String()) {
		if strings.Contains(line, `seconds_count{op="create"`) {
			fmt.Print(line)
		}
	}
	// Output: zkactors_request_seconds_count{op="create",outcome="ok",session="main"} 1
}
