package session

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
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

	known   chan struct{} // closed when the list is not empty any more
	exhaust chan struct{} // holds a value after a round without success

	mu       sync.Mutex
	all      []string // in the order in which they are tried; empty until the first resolution
	next     int
	resolved error // why the newest resolution failed; nil if it did not
	failures int   // since the last success
	pause    *backoff.ExponentialBackOff
	last     map[string]error     // the last failure of each since its last success
	newest   map[string]Failure   // of each that has failed, or of a connection to it, and of the last resolution
	warned   map[string]time.Time // when a failure of each was logged last
}

// resolver is named where there is no server to name.
const resolver = "Options.Resolve"

// A Failure is the end of a connection to a server, or of an attempt to make one.
type Failure struct {
	Server string // host:port; "Options.Resolve" if there was no list of servers
	Err    error
	At     time.Time
}

func newServers(addresses []string, opts *Options) *servers {
	pause := newPauses(10*time.Millisecond, max(min(time.Second, opts.Timeout/10), 10*time.Millisecond))
	s := &servers{
		opts: opts, pause: pause, last: make(map[string]error), newest: make(map[string]Failure), warned: make(map[string]time.Time),
		known: make(chan struct{}), exhaust: make(chan struct{}, 1),
	}
	if len(addresses) > 0 {
		s.replace(addresses, "", rand.Float64)
	}
	return s
}

// list returns the servers in the order of their names.
func (s *servers) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.all))
}

// has reports whether the server is in the list.
func (s *servers) has(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.all, server)
}

// replace sets the list. It reports whether the session is to leave the server that it is
// connected to, "" if it is not connected. The list must not be empty.
//
// This is the rule of ZooKeeper's own client. Sessions that are spread evenly and follow it are
// spread evenly afterwards, and no rule moves fewer of them. Let the list have had s servers, have
// n now, and k of them be in both. Sessions on a server that is not in the new list move. If n > s,
// each server is to lose its share beyond 1/n: sessions on the other servers move with probability
// 1 - s/n, and all that move go to servers that are new. If n <= s, no other session moves. The
// servers in both lists need k(1/n - 1/s) of all sessions, and (s-k)/s of them move: a session that
// moves goes to one in both with probability k(s-n)/(n(s-k)).
func (s *servers) replace(addresses []string, current string, chance func() float64) (leave bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resolved = nil
	delete(s.newest, resolver)
	next := slices.Compact(slices.Sorted(slices.Values(addresses)))
	var kept, added []string
	for _, server := range next {
		if slices.Contains(s.all, server) {
			kept = append(kept, server)
		} else {
			added = append(added, server)
		}
	}
	was, is, both := float64(len(s.all)), float64(len(next)), float64(len(kept))
	if both == was && both == is {
		return false // the same list: nothing changes, not even the order
	}
	stays := slices.Contains(next, current)
	first, second := added, kept
	switch {
	case current == "" || stays && (is <= was || chance() >= 1-was/is):
		first, second = next, nil // of all, when it has to move
	case !stays && is <= was && chance() < both*(was-is)/(is*(was-both)):
		first, second = kept, added
	}
	shuffle(first)
	shuffle(second)
	leave = current != "" && (!stays || second != nil)
	if leave && stays { // the last to try
		second = slices.DeleteFunc(second, func(server string) bool { return server == current })
		second = append(second, current)
	}
	if len(s.all) == 0 {
		close(s.known)
	}
	s.all = slices.Concat(first, second)
	s.next, s.failures = 0, 0
	s.pause.Reset()
	for server := range s.newest {
		if !slices.Contains(next, server) {
			delete(s.last, server)
			delete(s.newest, server)
			delete(s.warned, server)
		}
	}
	return leave
}

// prefer has a server tried next.
func (s *servers) prefer(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.all, server); i >= 0 {
		s.all[0], s.all[i] = s.all[i], s.all[0]
		s.next = 0
	}
}

func shuffle(all []string) {
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}

// unresolved notes why there is no new list.
func (s *servers) unresolved(why error) {
	s.mu.Lock()
	s.resolved = why
	s.newest[resolver] = Failure{Server: resolver, Err: why, At: time.Now()}
	s.mu.Unlock()
	s.opts.Logger.Warn("servers cannot be resolved", "reason", why)
}

// patience bounds the time that a server takes for a step of a connection.
func (s *servers) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := min(max(s.opts.Timeout/12, 50*time.Millisecond), 500*time.Millisecond)
	most := max(s.opts.Timeout/3, least)
	rounds := min(s.failures/max(len(s.all), 1), 10)
	return min(least<<rounds, most)
}

// dial connects to a server. It gives up, and returns nil, only when ctx ends. Sessions
// that lose their connections at the same moment do not all dial at the same moment.
func (s *servers) dial(ctx context.Context, lost bool) (string, net.Conn) {
	jitter := time.Duration(0)
	if lost {
		jitter = rand.N(min(s.opts.Timeout/100, 100*time.Millisecond) + 1)
	}
	select {
	case <-s.known:
	case <-ctx.Done():
	}
	for ; ctx.Err() == nil; jitter = 0 {
		server, pause := s.choose()
		if pause += jitter; pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
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
		select {
		case s.exhaust <- struct{}{}:
		default:
		}
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
	s.newest[server] = Failure{Server: server, Err: why, At: now}
	warn := s.warned[server].IsZero() || now.Sub(s.warned[server]) >= quiet
	if warn {
		s.warned[server] = now
	}
	s.mu.Unlock()
	if warn { // not with the lock, which others wait for
		s.opts.Logger.Warn("server cannot be used", "server", server, "reason", why)
	}
}

// note keeps the end of a connection that has been of use.
func (s *servers) note(server string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest[server] = Failure{Server: server, Err: why, At: time.Now()}
}

// newestFailures returns the newest failure of each server, the newest of all first.
func (s *servers) newestFailures() []Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.SortedFunc(maps.Values(s.newest), func(a, b Failure) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Server, b.Server))
	})
	return slices.DeleteFunc(all, func(f Failure) bool { // it has left the list before its connection ended
		return f.Server != resolver && !slices.Contains(s.all, f.Server)
	})
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
	switch {
	case s.resolved != nil:
		all = append(all, resolver+": "+s.resolved.Error())
	case len(s.all) == 0:
		all = append(all, resolver+": no answer yet")
	}
	for _, server := range slices.Sorted(slices.Values(s.all)) {
		why := "no answer yet"
		if err := s.last[server]; err != nil {
			why = err.Error()
		}
		all = append(all, server+": "+why)
	}
	return strings.Join(all, "; ")
}

// leads asks a server, with a word that servers in read-only mode understand, whether it has a
// quorum.
func (s *servers) leads(ctx context.Context, server string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*s.patience())
	defer cancel()
	socket, err := s.connect(ctx, server)
	if err != nil {
		return false
	}
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() }) // which ends what blocks
	defer stop()
	defer func(c net.Conn) { _ = c.Close() }(socket) // it is of no use any more
	if _, err := io.WriteString(socket, "isro"); err != nil {
		return false
	}
	answer := make([]byte, 2)
	_, err = io.ReadFull(socket, answer)
	return err == nil && string(answer) == "rw"
}
