// Package zkresolver resolves targets of gRPC, such as zk:///search, to the instances of a service
// that package discovery finds.
package zkresolver

import (
	"fmt"
	"net"
	"strconv"
	"sync"

	"google.golang.org/grpc/resolver"

	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/session"
)

// Scheme is the scheme of the targets.
const Scheme = "zk"

// A Builder makes the resolvers of connections. Create it with [New], and give it to
// [google.golang.org/grpc.WithResolvers]. It is safe for concurrent use.
type Builder struct {
	session *session.Session
	path    string
	opts    *discovery.WatchOptions
}

// New returns a builder that finds services at path. Its resolvers end with their connections, and
// with the session at the latest. The options are those of [discovery.Watch].
func New(s *session.Session, path string, opts *discovery.WatchOptions) *Builder {
	return &Builder{s, path, opts}
}

// Scheme implements [resolver.Builder].
func (*Builder) Scheme() string { return Scheme }

// Build implements [resolver.Builder]: the endpoint of the target is the name of the service. It
// does not wait for the servers.
func (b *Builder) Build(target resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	w, err := discovery.Watch(b.session, b.path, target.Endpoint(), b.opts)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", target.URL.String(), err)
	}
	r := &watching{watcher: w}
	r.feed.Go(func() {
		for instances := range w.Changes() {
			_ = conn.UpdateState(resolver.State{Endpoints: endpoints(instances)}) // it refuses a state without endpoints, and fails calls then, as it should
		}
		if err := w.Err(); err != nil {
			conn.ReportError(err)
		}
	})
	return r, nil
}

// endpoints returns where the instances that are to be used listen.
func endpoints(all []discovery.Instance) (usable []resolver.Endpoint) {
	for _, i := range all {
		port := i.Port
		if port == 0 {
			port = i.SSLPort
		}
		if i.Disabled || i.Address == "" || port == 0 {
			continue
		}
		address := resolver.Address{Addr: net.JoinHostPort(i.Address, strconv.Itoa(port))}
		usable = append(usable, resolver.Endpoint{Addresses: []resolver.Address{address}})
	}
	return usable
}

// A watching resolver is that of one connection.
type watching struct {
	watcher *discovery.Watcher
	feed    sync.WaitGroup
}

// ResolveNow implements [resolver.Resolver]. The watch needs no hint.
func (*watching) ResolveNow(resolver.ResolveNowOptions) {}

// Close implements [resolver.Resolver].
func (r *watching) Close() {
	r.watcher.Close()
	r.feed.Wait()
}
