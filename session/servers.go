package session

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// servers chooses which server to connect to: one after the other, beginning anywhere.
// After a round without success it pauses, longer each time, and gives each server
// more time to answer.
type servers struct {
	opts *Options
	all  []string

	mu       sync.Mutex
	next     int
	failures int // since the last success
	pause    *backoff.ExponentialBackOff
	last     map[string]error     // the last failure of each
	warned   map[string]time.Time // when a failure of each was logged last
}

func newServers(addresses []string, opts *Options) *servers {
	all := slices.Clone(addresses)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(10*time.Millisecond),
		backoff.WithMaxInterval(max(min(time.Second, opts.Timeout/10), 10*time.Millisecond)),
		backoff.WithMaxElapsedTime(0),
	)
	return &servers{opts: opts, all: all, pause: pause, last: make(map[string]error), warned: make(map[string]time.Time)}
}

// patience is how long a server may take for a step of a connection.
func (s *servers) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := min(max(s.opts.Timeout/12, 50*time.Millisecond), 500*time.Millisecond)
	most := max(s.opts.Timeout/3, least)
	rounds := min(s.failures/len(s.all), 10)
	return min(least<<rounds, most)
}

// dial connects to a server. It gives up, and returns nil, only when ctx ends. Sessions
// that lose their connections at the same moment do not all dial at the same moment.
func (s *servers) dial(ctx context.Context, lost bool) (string, net.Conn) {
	jitter := time.Duration(0)
	if lost {
		jitter = rand.N(min(s.opts.Timeout/100, 100*time.Millisecond) + 1)
	}
	for ; ctx.Err() == nil; jitter = 0 {
		server, pause := s.choose()
		if pause += jitter; pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return "", nil
			}
		}
		socket, err := s.connect(ctx, server)
		if err == nil {
			return server, socket
		}
		s.failed(server, err)
	}
	return "", nil
}

// choose returns the next server, and how long to wait before it is tried.
func (s *servers) choose() (string, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server := s.all[s.next%len(s.all)]
	s.next++
	if s.failures > 0 && s.failures%len(s.all) == 0 {
		return server, s.pause.NextBackOff()
	}
	return server, 0
}

// connect makes one connection. Host names are resolved here, each time.
func (s *servers) connect(ctx context.Context, server string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.patience())
	defer cancel()
	socket, err := s.opts.Dialer(ctx, "tcp", server)
	if err != nil || s.opts.TLS == nil {
		return socket, err
	}
	config := s.opts.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, err = net.SplitHostPort(server)
	}
	secure := tls.Client(socket, config)
	if err == nil {
		err = secure.HandshakeContext(ctx)
	}
	if err != nil {
		_ = socket.Close() // it is of no use any more
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secure, nil
}

// failed notes that a server could not be used.
func (s *servers) failed(server string, why error) {
	s.mu.Lock()
	s.failures++
	s.last[server] = why
	const quiet = 10 * time.Second
	now := time.Now()
	warn := s.warned[server].IsZero() || now.Sub(s.warned[server]) >= quiet
	if warn {
		s.warned[server] = now
	}
	s.mu.Unlock()
	if warn { // not with the lock, which others wait for
		s.opts.Logger.Warn("server cannot be used", "server", server, "reason", why)
	}
}

// succeeded notes that a server has proved to be of use.
func (s *servers) succeeded(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = 0
	s.pause.Reset()
	delete(s.last, server)
}

// troubles tells the last failure of each server.
func (s *servers) troubles() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, server := range slices.Sorted(slices.Values(s.all)) {
		why := "no answer yet"
		if err := s.last[server]; err != nil {
			why = err.Error()
		}
		all = append(all, server+": "+why)
	}
	return strings.Join(all, "; ")
}
