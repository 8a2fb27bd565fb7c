// Grpc is a client that finds its servers through ZooKeeper: it calls zk:///search, and gRPC
// balances its calls among the instances that are registered, as they come and go.
//
// The servers are two of gRPC's own health service. They and the client run in this process, on a
// ZooKeeper server in memory; -servers zk1:2181,zk2:2181 uses an ensemble of yours instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/zkactors/zkactors/examples/grpc/zkresolver"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const (
	services = "/services"
	search   = "search"
)

func main() {
	servers := flag.String("servers", "", "use these servers, such as zk1:2181,zk2:2181, instead of one in memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	addrs := strings.Split(*servers, ",")
	if *servers == "" {
		srv, err := zktest.NewServer(zktest.Config{})
		if err != nil {
			log.Fatal(err)
		}
		defer srv.Close()
		addrs = srv.Addrs()
	}
	if err := play(ctx, addrs, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// play calls the service while its instances come and go.
func play(ctx context.Context, addrs []string, out io.Writer) error {
	s, err := session.Open(ctx, addrs, nil)
	if err != nil {
		return err
	}
	defer s.Close()

	first, err := serve(ctx, s)
	if err != nil {
		return err
	}
	defer first.stop()
	second, err := serve(ctx, s)
	if err != nil {
		return err
	}
	defer second.stop()

	conn, err := grpc.NewClient(zkresolver.Scheme+":///"+search,
		grpc.WithResolvers(zkresolver.New(s, services, nil)),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
	)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := until(ctx, conn, first.address, second.address); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, "both instances answer")
	second.stop()
	if err := until(ctx, conn, first.address, first.address); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, "one has gone, and the other answers all calls")
	return nil
}

// A server is an instance of the service.
type server struct {
	address string
	stop    func()
}

// serve starts a server, and returns when clients can find it.
func serve(ctx context.Context, s *session.Session) (*server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(g, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	addr, _ := listener.Addr().(*net.TCPAddr)
	r, err := discovery.Announce(ctx, s, services, discovery.Instance{Service: search, Address: addr.IP.String(), Port: addr.Port}, nil)
	if err != nil {
		g.Stop()
		return nil, errors.Join(err, <-served)
	}
	var done bool
	return &server{listener.Addr().String(), func() {
		if done {
			return
		}
		done = true
		r.Close() // first: then no new client comes
		g.GracefulStop()
		if err := <-served; err != nil {
			log.Print(err)
		}
	}}, nil
}

// until calls the service until two calls that follow each other were answered by the addresses, in
// any order.
func until(ctx context.Context, conn *grpc.ClientConn, a, b string) error {
	before := ""
	for {
		var by peer.Peer
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true), grpc.Peer(&by))
		if err != nil {
			return err
		}
		now := by.Addr.String()
		if before == a && now == b || before == b && now == a {
			return nil
		}
		before = now
	}
}
