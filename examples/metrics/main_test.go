package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape returns the metrics of an instance.
func scrape(ctx context.Context, v http.Handler) string {
	w := httptest.NewRecorder()
	v.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// metric matches the names of metrics, also in expressions of Prometheus.
var metric = regexp.MustCompile(`\bzkactors_\w+`)

// histogram matches the suffixes that the series of a histogram add to its name.
var histogram = regexp.MustCompile(`_(bucket|count|sum)\b`)

func names(text string) map[string]bool {
	all := make(map[string]bool)
	for _, name := range metric.FindAllString(text, -1) {
		all[name] = true
	}
	return all
}

// TestDashboard: the dashboard is JSON, and shows exactly the metrics that the service exports.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Title  string
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	wanted, shown := names(string(text)), names(histogram.ReplaceAllString(string(text), ""))
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			if len(names(target.Expr)) == 0 {
				t.Errorf("panel %q shows no metric of ours: %s", panel.Title, target.Expr)
			}
		}
	}
	if len(dashboard.Panels) == 0 || dashboard.Title == "" {
		t.Error("the dashboard is empty")
	}

	srv := zktest.Start(t)
	v, err := open(srv.Addrs(), "one:80", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer v.session.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		if err := v.work(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := v.session.Await(ctx); err != nil {
		t.Fatal(err)
	}
	for revoked := false; !revoked; { // until a worker holds the lock and receives the request
		err := lock.Revoke(ctx, v.session, turn, nil)
		body := scrape(ctx, v)
		if revoked = strings.Contains(body, "zkactors_revocations_total{"); ctx.Err() != nil {
			t.Fatal("never revoked", err)
		}
	}
	srv.Expire(v.session.ID())
	for missing := wanted; len(missing) > 0; {
		body := scrape(ctx, v)
		exported := names(body)
		missing = maps.Clone(wanted)
		maps.DeleteFunc(missing, func(name string, _ bool) bool { return exported[name] })
		for name := range exported {
			if !shown[histogram.ReplaceAllString(name, "")] {
				t.Fatalf("the dashboard does not show %s", name)
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("not exported: %v", slices.Sorted(maps.Keys(missing)))
		}
	}
}

// TestServe: an instance serves while there is no ZooKeeper. It is alive then, and becomes ready
// when ZooKeeper is there.
func TestServe(t *testing.T) {
	srv := zktest.Start(t)
	srv.Refuse(true)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	at, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- serve(ctx, srv.Addrs(), "127.0.0.1:0", slog.New(slog.DiscardHandler), func(address string) { at <- address })
	}()
	address := <-at
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	fetch := func(path string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	if status, body := fetch("/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Error(status, body)
	}
	for {
		status, body := fetch("/readyz")
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "not connected yet") {
			t.Error(status, body)
		}
		if strings.Contains(body, srv.Addrs()[0]) { // the answer names the server that refuses
			break
		}
	}
	srv.Refuse(false)
	for status, body := 0, ""; status != http.StatusOK; {
		if status, body = fetch("/readyz"); status == http.StatusOK && body != "ready\n" {
			t.Error(body)
		}
	}
	if found := find(ctx, t, srv.Addrs()); found != address {
		t.Errorf("Prometheus finds %s, want %s", found, address)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// find returns where Prometheus' serverset_sd_config finds the metrics.
func find(ctx context.Context, t *testing.T, servers []string) string {
	t.Helper()
	s, err := session.Open(ctx, servers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := watch.Children(s, services+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for state := range w.Changes() {
		if len(state.Names) == 0 {
			continue
		}
		data, _, err := s.Get(ctx, services+"/metrics/"+state.Names[0])
		if err != nil {
			t.Fatal(err)
		}
		type endpoint struct {
			Host string
			Port int
		}
		var member struct {
			ServiceEndpoint     endpoint
			AdditionalEndpoints map[string]endpoint
			Status              string `json:"status"`
			Shard               int    `json:"shard"`
		}
		if err := json.Unmarshal(data, &member); err != nil || member.Status != "ALIVE" || member.AdditionalEndpoints == nil {
			t.Fatalf("%s: %v", data, err)
		}
		return net.JoinHostPort(member.ServiceEndpoint.Host, strconv.Itoa(member.ServiceEndpoint.Port))
	}
	return ""
}

// TestBadAddress: if the service cannot listen at the address, it returns an error and leaves
// nothing behind.
func TestBadAddress(t *testing.T) {
	err := serve(t.Context(), []string{"localhost:1"}, "nowhere", slog.New(slog.DiscardHandler), nil)
	if err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Error(err)
	}
	if _, err := open([]string{""}, "one", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), session.ErrInvalidArgument.Error()) {
		t.Error(err)
	}
}
