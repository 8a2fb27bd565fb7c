// Package servers chooses which server a session connects to, and connects to it.
package servers

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/zkactors/zkactors/session/internal/fault"
	"github.com/zkactors/zkactors/session/internal/workers"
)

// Options has the options of the session that concern its servers.
type Options struct {
	Timeout time.Duration
	Dialer  func(ctx context.Context, network, address string) (net.Conn, error)
	TLS     *tls.Config // nil: no encryption
	Log     func(level slog.Level, message string, args ...any)
}

// A List has the servers. It tries them one after the other, beginning anywhere. When a server
// cannot be dialled, the next server follows at once, until each was tried. A server that is
// reached, and is of no use, has probably no leader, and neither have the other servers: the list
// pauses then, longer each time. After each round without success it gives servers more time to
// answer.
type List struct {
	opts Options

	known   chan struct{} // closed when the list is not empty any more
	exhaust chan struct{} // holds a value after a round without success

	mu       sync.Mutex
	all      []string // in the order in which they are tried; empty until the first resolution
	next     int
	home     string         // where the session belongs, so that all are spread evenly
	failures int            // since the last success
	useless  bool           // the newest failure is of a server that was reached
	penalty  map[string]int // of each that has failed since the last success: the larger, the later it is tried again
	took     time.Duration  // by the newest handshake
	dialled  time.Duration  // how long the newest connection took to make
	accepted time.Duration  // the part of that before TLS
	waited   time.Duration  // the longest that a server was waited for in vain, since the last success
	tried    time.Time      // when the newest attempt began
	pause    *backoff.ExponentialBackOff
	records  map[string]record // of each that has failed, or of a connection to it, and of the last resolution if that has failed
}

// A record has what the list knows about a server.
type record struct {
	Failure // the newest

	trouble error // the last failure since its last success; nil if there is none
	failing workers.Lasting
}

// resolver stands in the place of a server in failures of Options.Resolve.
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
		opts: opts, penalty: make(map[string]int), records: make(map[string]record),
		known: make(chan struct{}), exhaust: make(chan struct{}, 1),
		pause: backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(min(opts.Timeout/25, 400*time.Millisecond)+time.Millisecond),
			backoff.WithMaxInterval(min(opts.Timeout/14, 700*time.Millisecond)+time.Millisecond),
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
// moves goes to a server in both with probability k(s-n)/(n(s-k)).
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
	// probabilities below 0 are none
	case current == "" || stays && chance() >= 1-was/is:
		first, second = next, nil // of all, when it has to move
	case !stays && chance() < both*(was-is)/(is*(was-both)):
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
	if s.next, s.home = 0, s.all[0]; current != "" && !leave {
		s.home = current
	}
	s.pardon()
	maps.DeleteFunc(s.records, func(server string, _ record) bool { return !slices.Contains(next, server) })
	return leave
}

// Home returns the server to which the session belongs: the server that it tried first, or that the
// last change of the list gave it. Each server is the home of as many sessions as any other.
func (s *List) Home() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.home
}

// Prefer makes the server the next to be tried.
func (s *List) Prefer(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.all, server); i >= 0 {
		s.all[0], s.all[i] = s.all[i], s.all[0]
		s.next = 0
		delete(s.penalty, server)
	}
}

func shuffle(all []string) {
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}

// Unresolved records why there is no new list.
func (s *List) Unresolved(why error) {
	s.Note(resolver, why)
	s.mu.Lock()
	r := s.records[resolver]
	attrs, say := r.failing.Again()
	s.records[resolver] = r
	s.mu.Unlock()
	if say {
		s.opts.Log(slog.LevelWarn, "servers cannot be resolved", append(attrs, "reason", why)...)
	}
}

// Patience bounds the time that a server takes for a handshake. After an election a server works on
// the handshakes of all its clients: a handshake that is begun anew elsewhere adds to them.
func (s *List) Patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.patience(min(s.opts.Timeout/8, 1500*time.Millisecond), s.took)
}

// dialPatience bounds the time that a connection takes to make.
func (s *List) dialPatience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.patience(min(s.opts.Timeout/6, time.Second), s.dialled)
}

// acceptPatience bounds the part of that time until the server accepts the connection, with that
// rest of the lease; 0 for none. A server on which thousands of clients call at once drops some of
// their requests to connect, and the kernel repeats such a request after a second. After a server
// was waited for in vain, the next one has twice the time: all may be far away. A TLS handshake is
// not cut earlier because of the lease: the server works on it, and would have to begin anew.
func (s *List) acceptPatience(rest time.Duration) time.Duration {
	patience := s.dialPatience()
	if rest <= 0 {
		return patience
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(patience, max(rest/5, 2*s.accepted, 2*s.waited, s.opts.Timeout/100))
}

// patience returns the time for a step of a connection, whose newest instance took that long. The
// list is locked.
func (s *List) patience(least, newest time.Duration) time.Duration {
	least = max(least, 50*time.Millisecond)
	most := max(s.opts.Timeout/2, least)
	rounds := min(s.failures/max(len(s.all), 1), 10)
	return min(max(least<<rounds, 2*newest), most)
}

// Took records how long a server took for a handshake: others may take about as long.
func (s *List) Took(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = d
}

// made records how long a connection took to make.
func (s *List) made(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialled = d
}

// accepts records how long a server took to accept a connection.
func (s *List) accepts(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted = d
}

// gaveUp records how long a server was waited for in vain.
func (s *List) gaveUp(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waited = max(s.waited, d)
}

// Dial connects to a server. It gives up, and returns nil, only when ctx ends. Sessions that lose
// their connections at the same moment do not all dial at the same moment: if an open connection
// was lost, a pause comes first, at random, at most an eighth of the rest of the lease. Rest
// returns the rest of the lease at present, 0 or less if there is none. Dial calls it before each
// pause, and before each attempt: the deadline may move meanwhile, and the machine may sleep.
func (s *List) Dial(ctx context.Context, rest func() time.Duration, lost bool) (string, net.Conn) {
	jitter := time.Duration(0)
	if lost {
		jitter = rand.N(min(s.opts.Timeout/33, 300*time.Millisecond, max(rest()/8, 0)) + 1)
	}
	select {
	case <-s.known:
	case <-ctx.Done():
	}
	ctx, end := context.WithCancel(ctx)
	r := &round{List: s, end: end, begun: make(map[string]bool)}
	for ; ctx.Err() == nil; jitter = 0 {
		server, pause := s.choose()
		if left := rest(); left > 0 {
			pause = min(pause, s.longestPause(left))
		}
		if pause += jitter; pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return r.result()
			}
		}
		begun, accept := s.begin(), s.acceptPatience(rest())
		socket, err := s.connect(ctx, server, server, s.dialPatience(), accept)
		switch took := time.Since(begun); {
		case err == nil:
			s.made(took)
			r.won(server, socket)
		case ctx.Err() == nil:
			if took >= accept {
				s.gaveUp(took)
			}
			s.failed(server, err, false, false)
			r.lost(ctx, server, err)
		}
	}
	return r.result()
}

// longestPause bounds the pauses of a session with that rest of its lease: by its square. When
// servers are back after an outage, they are busy for a second or two with all clients that dial.
// Sessions that have half the rest of others are to be four times as early. The bound is not below
// a hundredth of the timeout, or 100 ms if that is less: servers that refuse are not dialled
// without a pause.
func (s *List) longestPause(rest time.Duration) time.Duration {
	rest = max(rest, 0)
	share := rest.Seconds() / s.opts.Timeout.Seconds()
	return max(time.Duration(share*float64(rest)), min(s.opts.Timeout/100, 100*time.Millisecond))
}

// choose returns the next server, and how long to wait before it is tried.
func (s *List) choose() (server string, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, best := len(s.all), s.next
	for i := s.next + 1; i < s.next+n; i++ {
		if s.penalty[s.all[i%n]] < s.penalty[s.all[best%n]] {
			best = i
		}
	}
	s.next = (best + 1) % n
	if s.failures > 0 && s.failures%n == 0 {
		select {
		case s.exhaust <- struct{}{}:
		default:
		}
	}
	if s.useless || s.failures >= n {
		pause = s.pause.NextBackOff() - time.Since(s.tried) // a server that was silent has cost time already
	}
	return s.all[best%n], max(pause, 0)
}

// begin records that an attempt begins, and returns the time.
func (s *List) begin() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried = time.Now()
	return s.tried
}

// pardon follows a success. The list is locked.
func (s *List) pardon() {
	s.failures, s.useless, s.waited = 0, false, 0
	s.pause.Reset()
	clear(s.penalty)
}

// connect makes one connection within the time, of which the server has a part to accept it. Host
// names are resolved here, each time.
func (s *List) connect(ctx context.Context, server, address string, bound, accept time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return Outlive(func() (net.Conn, error) { return s.open(ctx, server, address, accept) })
}

// Outlive calls a function of a user on a goroutine of its own, which the function may end.
func Outlive[T any](f func() (T, error)) (T, error) {
	type outcome struct {
		result T
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		o := outcome{err: errExited}
		defer func() { ended <- o }()
		o.result, o.err = f()
	}()
	o := <-ended
	return o.result, o.err
}

var errNoSocket = errors.New("Options.Dialer has returned no connection, and no error")

var errExited = errors.New("a function in Options has called runtime.Goexit")

// open makes a connection with the functions of the options, to an address of the server.
func (s *List) open(ctx context.Context, server, address string, accept time.Duration) (net.Conn, error) {
	begun := time.Now()
	dialling, cancel := context.WithTimeout(ctx, accept)
	defer cancel()
	socket, err := s.opts.Dialer(dialling, "tcp", address)
	if err == nil && socket == nil {
		err = errNoSocket
	}
	if err == nil {
		s.accepts(time.Since(begun))
	}
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
		return nil, fmt.Errorf("TLS: %w", withGuess(err))
	}
	return secure, nil
}

// withGuess adds to an error of a TLS handshake what it probably means. A server that expects no
// TLS takes the first bytes for a length, and closes the connection.
func withGuess(err error) error {
	var other tls.RecordHeaderError
	if !fault.HungUp(err) && !errors.As(err, &other) {
		return err
	}
	return fmt.Errorf("%w: the server ended the handshake: is the port for TLS?", err)
}

// Failed records that a server was reached, and was of no use. If the connection had opened, that
// is no warning the first time: connections break early too, as when the server ends the session.
func (s *List) Failed(server string, why error, opened bool) { s.failed(server, why, true, opened) }

// failed records that a server could not be used. A server that could not even be reached is
// probably down, and is tried a third as often as the others.
func (s *List) failed(server string, why error, reached, opened bool) {
	s.mu.Lock()
	s.failures++
	s.useless = reached
	r := record{Failure{server, why, time.Now()}, why, s.records[server].failing}
	early := opened && s.penalty[server] == 0
	if s.penalty[server]++; !reached {
		s.penalty[server] += 2
	}
	var attrs []any
	say := false
	if !early {
		attrs, say = r.failing.Again()
	}
	s.records[server] = r
	s.mu.Unlock()
	if say { // not with the lock, which others wait for
		s.opts.Log(slog.LevelWarn, "server cannot be used", append(attrs, "server", server, "reason", why)...)
	}
}

// Failing reports whether an attempt has failed since a connection was last counted as a success.
func (s *List) Failing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures > 0
}

// Note records the end of a connection that has been of use.
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

// Succeeded notes that a server has proved to be of use. It returns what is to be called without a
// lock; nil if there is nothing.
func (s *List) Succeeded(server string) (then func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pardon()
	var attrs []any
	say := false
	if r, known := s.records[server]; known {
		r.trouble = nil
		attrs, say = r.failing.Over()
		s.records[server] = r
	}
	if !say {
		return nil
	}
	return func() { s.opts.Log(slog.LevelInfo, "server can be used again", append(attrs, "server", server)...) }
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

// Accepts reports whether a server accepts connections.
func (s *List) Accepts(ctx context.Context, server string) bool {
	bound := s.dialPatience()
	socket, err := s.connect(ctx, server, server, bound, bound)
	if err == nil {
		_ = socket.Close() // it is of no use any more
	}
	return err == nil
}

// Leads asks a server, with a word that servers in read-only mode understand, whether it has a
// quorum.
func (s *List) Leads(ctx context.Context, server string) bool {
	return string(s.ask(ctx, server, server, []byte("isro"), 2)) == "rw"
}

// Answers reports whether a server answers a request to connect.
func (s *List) Answers(ctx context.Context, server string, hello []byte) bool {
	return s.ask(ctx, server, server, hello, 4) != nil
}

// Mode asks the server at an address what it does: "leader", "follower", "observer", "standalone";
// "" if there is no answer.
func (s *List) Mode(ctx context.Context, server, address string) string {
	_, rest, _ := strings.Cut(string(s.ask(ctx, server, address, []byte("srvr"), 0)), "\nMode: ")
	mode, _, whole := strings.Cut(rest, "\n")
	if !whole {
		return ""
	}
	return mode
}

// ask sends a question to a server, and returns the first bytes of the answer, or all if bytes is
// 0; nil if there is none.
func (s *List) ask(ctx context.Context, server, address string, question []byte, bytes int) (answer []byte) {
	bound := s.dialPatience()
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	socket, err := s.connect(ctx, server, address, bound, bound)
	if err != nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() }) // which ends what blocks
	defer stop()
	defer func(c net.Conn) { _ = c.Close() }(socket) // it is of no use any more
	if _, err := socket.Write(question); err != nil {
		return nil
	}
	if bytes == 0 {
		answer, _ = io.ReadAll(io.LimitReader(socket, 4<<10))
		return answer
	}
	answer = make([]byte, bytes)
	if _, err = io.ReadFull(socket, answer); err != nil {
		return nil
	}
	return answer
}
