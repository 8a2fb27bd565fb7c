// Package servers chooses which server a session connects to, and connects to it.
package servers

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

// Options are those of the session.
type Options struct {
	Timeout time.Duration
	Dialer  func(ctx context.Context, network, address string) (net.Conn, error)
	TLS     *tls.Config // nil: no encryption
	Warn    func(message string, args ...any)
}

// A List has the servers. They are tried one after the other, beginning anywhere.
// After a round without success it pauses, longer each time, and gives each server
// more time to answer.
type List struct {
	opts Options

	known   chan struct{} // closed when the list is not empty any more
	exhaust chan struct{} // holds a value after a round without success

	mu       sync.Mutex
	all      []string // in the order in which they are tried; empty until the first resolution
	next     int
	failures int // since the last success
	pause    *backoff.ExponentialBackOff
	records  map[string]record // of each that has failed, or of a connection to it, and of the last resolution if that has failed
}

// A record is what is known of a server.
type record struct {
	Failure // the newest

	trouble error     // the last failure since its last success; nil if there is none
	warned  time.Time // when a failure was logged last
}

// resolver is named where there is no server to name.
const resolver = "Options.Resolve"

// A Failure is the end of a connection to a server, or of an attempt to make one.
type Failure struct {
	Server string // host:port; "Options.Resolve" if there was no list of servers
	Err    error
	At     time.Time
}

// New returns a list, which may be empty at first.
func New(addresses []string, opts Options) *List {
	s := &List{
		opts: opts, records: make(map[string]record),
		known: make(chan struct{}), exhaust: make(chan struct{}, 1),
		pause: backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(10*time.Millisecond),
			backoff.WithMaxInterval(max(min(time.Second, opts.Timeout/10), 10*time.Millisecond)),
			backoff.WithMaxElapsedTime(0),
		),
	}
	if len(addresses) > 0 {
		s.Replace(addresses, "", rand.Float64)
	}
	return s
}

// Exhausted returns a channel that holds a value after a round without success.
func (s *List) Exhausted() <-chan struct{} { return s.exhaust }

// All returns the servers in the order of their names.
func (s *List) All() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.all))
}

// Has reports whether the server is in the list.
func (s *List) Has(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.all, server)
}

// Replace sets the list. It reports whether the session is to leave the server that it is
// connected to, "" if it is not connected. The list must not be empty.
//
// This is the rule of ZooKeeper's own client. Sessions that are spread evenly and follow it are
// spread evenly afterwards, and no rule moves fewer of them. Let the list have had s servers, have
// n now, and k of them be in both. Sessions on a server that is not in the new list move. If n > s,
// each server is to lose its share beyond 1/n: sessions on the other servers move with probability
// 1 - s/n, and all that move go to servers that are new. If n <= s, no other session moves. The
// servers in both lists need k(1/n - 1/s) of all sessions, and (s-k)/s of them move: a session that
// moves goes to one in both with probability k(s-n)/(n(s-k)).
func (s *List) Replace(addresses []string, current string, chance func() float64) (leave bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, resolver)
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
	maps.DeleteFunc(s.records, func(server string, _ record) bool { return !slices.Contains(next, server) })
	return leave
}

// Prefer has a server tried next.
func (s *List) Prefer(server string) {
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

// Unresolved notes why there is no new list.
func (s *List) Unresolved(why error) {
	s.Note(resolver, why)
	s.opts.Warn("servers cannot be resolved", "reason", why)
}

// Patience bounds the time that a server takes for a step of a connection.
func (s *List) Patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := min(max(s.opts.Timeout/12, 50*time.Millisecond), 500*time.Millisecond)
	most := max(s.opts.Timeout/3, least)
	rounds := min(s.failures/max(len(s.all), 1), 10)
	return min(least<<rounds, most)
}

// Dial connects to a server. It gives up, and returns nil, only when ctx ends. Sessions
// that lose their connections at the same moment do not all dial at the same moment.
func (s *List) Dial(ctx context.Context, lost bool) (string, net.Conn) {
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
		s.Failed(server, err)
	}
	return "", nil
}

// choose returns the next server, and how long to wait before it is tried.
func (s *List) choose() (string, time.Duration) {
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
func (s *List) connect(ctx context.Context, server string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.Patience())
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

// Failed notes that a server could not be used.
func (s *List) Failed(server string, why error) {
	s.mu.Lock()
	s.failures++
	const quiet = 10 * time.Second
	now := time.Now()
	r := record{Failure{server, why, now}, why, s.records[server].warned}
	warn := r.warned.IsZero() || now.Sub(r.warned) >= quiet
	if warn {
		r.warned = now
	}
	s.records[server] = r
	s.mu.Unlock()
	if warn { // not with the lock, which others wait for
		s.opts.Warn("server cannot be used", "server", server, "reason", why)
	}
}

// Note keeps the end of a connection that has been of use.
func (s *List) Note(server string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[server]
	r.Failure = Failure{server, why, time.Now()}
	s.records[server] = r
}

// Failures returns the newest failure of each server, the newest of all first.
func (s *List) Failures() []Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Failure
	for server, r := range s.records {
		if server == resolver || slices.Contains(s.all, server) { // else it has left the list before its connection ended
			all = append(all, r.Failure)
		}
	}
	slices.SortFunc(all, func(a, b Failure) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Server, b.Server))
	})
	return all
}

// Succeeded notes that a server has proved to be of use.
func (s *List) Succeeded(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = 0
	s.pause.Reset()
	if r, known := s.records[server]; known {
		r.trouble = nil
		s.records[server] = r
	}
}

// Troubles tells the last failure of each server.
func (s *List) Troubles() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	switch unresolved, is := s.records[resolver]; {
	case is:
		all = append(all, resolver+": "+unresolved.Err.Error())
	case len(s.all) == 0:
		all = append(all, resolver+": no answer yet")
	}
	for _, server := range slices.Sorted(slices.Values(s.all)) {
		why := "no answer yet"
		if err := s.records[server].trouble; err != nil {
			why = err.Error()
		}
		all = append(all, server+": "+why)
	}
	return strings.Join(all, "; ")
}

// Leads asks a server, with a word that servers in read-only mode understand, whether it has a
// quorum.
func (s *List) Leads(ctx context.Context, server string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*s.Patience())
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
