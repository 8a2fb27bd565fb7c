// Metrics is a service with metrics of its session and its recipes. Prometheus reads /metrics, and
// a load balancer reads /readyz. The file dashboard.json is a dashboard for Grafana. Package
// metrics/otel exports the same metrics to OpenTelemetry.
//
// The service announces its address as a member of a ServerSet, so that Prometheus finds it:
//
//	serverset_sd_configs:
//	  - servers: [zk1:2181, zk2:2181]
//	    paths: [/zkactors-metrics/services/metrics]
//
// The service stands for election, passes a lock from worker to worker, and fills and empties a
// queue. It starts a server in memory; -servers zk1:2181,zk2:2181 uses an ensemble of yours
// instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zkactors/zkactors/metrics/prom"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// The paths that all instances of the service share.
const (
	root      = "/zkactors-metrics"
	leaderAt  = root + "/leader"
	instances = root + "/instances"
	turn      = root + "/turn"
	jobs      = root + "/jobs"
	services  = root + "/services"
)

func main() {
	servers := flag.String("servers", "", "use these servers, such as zk1:2181,zk2:2181, instead of one in memory")
	listen := flag.String("listen", "127.0.0.1:8080", "serve /metrics, /healthz and /readyz at this address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	addrs := strings.Split(*servers, ",")
	if *servers == "" {
		srv, err := zktest.NewServer(zktest.Config{})
		if err != nil {
			log.Fatal(err)
		}
		defer srv.Close()
		addrs = srv.Addrs()
	}
	err := serve(ctx, addrs, *listen, logger, func(at string) { logger.Info("listening", "address", at) })
	if err != nil {
		log.Fatal(err)
	}
}

// serve runs an instance until ctx ends. It calls ready with the address at which it listens.
func serve(ctx context.Context, servers []string, listen string, logger *slog.Logger, ready func(address string)) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	v, err := open(servers, listener.Addr().String(), logger)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer v.session.Close()
	server := &http.Server{Handler: v, ReadHeaderTimeout: 5 * time.Second}
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	running.Go(func() { cancel(server.Serve(listener)) })
	running.Go(func() { cancel(v.work(ctx)) })
	ready(listener.Addr().String())
	<-ctx.Done()
	err = errors.Join(context.Cause(ctx), server.Close())
	running.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// A service is one instance.
type service struct {
	*http.ServeMux

	name     string
	session  *session.Session
	observer *prom.Observer
}

// open starts an instance. If no server is up, that is no error: the instance becomes ready later.
func open(servers []string, name string, logger *slog.Logger) (*service, error) {
	registry := prometheus.NewRegistry()
	observer, err := prom.New(registry, &prom.Options{Session: "main"})
	if err != nil {
		return nil, err
	}
	s, err := session.Start(servers, &session.Options{Name: "main", Timeout: 4 * time.Second, Logger: logger, Observer: observer})
	if err != nil {
		return nil, err
	}
	v := &service{http.NewServeMux(), name, s, observer}
	v.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	// Alive means only that the process answers. A restart of the process would not bring ZooKeeper
	// back.
	v.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	v.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.Healthy(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
	})
	return v, nil
}

// work does the work of the service, until ctx ends.
func (v *service) work(ctx context.Context) error {
	candidate, err := election.New(v.session, leaderAt, &election.Options{Data: []byte(v.name)})
	if err != nil {
		return err
	}
	defer candidate.Close()
	member, err := group.Join(v.session, instances, v.name, nil, nil)
	if err != nil {
		return err
	}
	defer member.Close()
	announced, err := v.announce()
	if err != nil {
		return err
	}
	defer announced.Close()
	watcher, err := group.Watch(v.session, instances, nil)
	if err != nil {
		return err
	}
	defer watcher.Close()
	q, err := queue.New(v.session, jobs, nil)
	if err != nil {
		return err
	}
	v.observer.AddQueue(jobs, q)

	var running sync.WaitGroup
	defer running.Wait()
	for range 3 {
		running.Go(func() { v.takeTurns(ctx) })
	}
	running.Go(func() { v.produce(ctx, q) })
	err = q.Run(ctx, 2, func(ctx context.Context, _ queue.Item) error { return pause(ctx, 200*time.Millisecond) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// announce tells Prometheus where the metrics are.
func (v *service) announce() (*discovery.Registration, error) {
	host, port, err := net.SplitHostPort(v.name)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	i := discovery.Instance{Service: "metrics", Address: host, Port: number}
	return discovery.Register(v.session, services, i, &discovery.Options{Format: discovery.ServerSet})
}

// takeTurns holds the lock for a moment, again and again. The observer counts the failures.
func (v *service) takeTurns(ctx context.Context) {
	for pause(ctx, 50*time.Millisecond) == nil {
		_ = lock.Do(ctx, v.session, turn, nil, func(ctx context.Context, _ int64) error { return pause(ctx, 100*time.Millisecond) })
	}
}

// produce puts jobs at intervals, as long as the queue is short.
func (v *service) produce(ctx context.Context, q *queue.Queue) {
	for pause(ctx, 100*time.Millisecond) == nil {
		if n, err := q.Len(ctx); err == nil && n < 100 {
			_, _ = q.Put(ctx, []byte(v.name)) // the observer counts the failures
		}
	}
}

// pause waits for d, and returns an error if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
