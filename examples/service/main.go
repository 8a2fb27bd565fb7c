// Service is a service to copy as a start. It has a scheduler on the elected instance, a lock per
// tenant in request handlers, a semaphore for exports, settings that change while it runs, a number
// that no other instance has, and the list of its instances. Its tests inject faults with the
// server in memory.
//
//	go run ./examples/service -listen 127.0.0.1:8080
//	curl -X POST localhost:8080/tenants/acme/orders
//
// It starts a server in memory; -servers zk1:2181,zk2:2181 uses an ensemble of yours instead, and
// then there can be more instances.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zkactors/zkactors/session/zktest"
)

func main() {
	servers := flag.String("servers", "", "use these servers, such as zk1:2181,zk2:2181, instead of one in memory")
	listen := flag.String("listen", "127.0.0.1:8080", "serve at this address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	addrs := strings.Split(*servers, ",")
	if *servers == "" { // of no use in production: the nodes end with the process
		srv, err := zktest.NewServer(zktest.Config{})
		if err != nil {
			log.Fatal(err)
		}
		defer srv.Close()
		addrs = srv.Addrs()
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	slog.Info("listening", "address", listener.Addr())
	if err := serve(ctx, addrs, nil, listener); err != nil {
		log.Fatal(err)
	}
}

// grace is the time that requests have to end when the instance stops.
const grace = 10 * time.Second

// serve runs an instance until ctx ends, or until a recipe or the listener fails for good. A
// supervisor starts the process again then. The name of the instance is the address.
//
// The order of the end: first the requests, and the loop beside them; then the recipes, which both
// use; the session last.
func serve(ctx context.Context, servers []string, dial dialer, listener net.Listener) error {
	v, err := open(servers, listener.Addr().String(), dial)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer v.close()
	server := &http.Server{Handler: v, ReadHeaderTimeout: 5 * time.Second}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var running sync.WaitGroup
	running.Go(func() { end(server.Serve(listener)) })
	running.Go(func() { end(v.run(ctx)) })
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err = server.Shutdown(last); err != nil {
		err = errors.Join(err, server.Close()) // requests that take longer are cut off
	}
	running.Wait()
	if why := context.Cause(ctx); !errors.Is(why, context.Canceled) { // not stopped from outside
		err = errors.Join(why, err)
	}
	return err
}
