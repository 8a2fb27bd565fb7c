package zktest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A Config describes a [Server]. The zero value is one server on a loopback
// port.
type Config struct {
	// Addr is the address of the server, or of the first of several replicas; the
	// others have ports of their own on the same host. The default is
	// "127.0.0.1:0".
	Addr string

	// InProcess does without sockets: the server can only be reached through
	// [Server.Dialer] and [Server.DialContext]. It is needed in
	// testing/synctest bubbles.
	InProcess bool

	// Tick is the server's unit of time. Sessions expire at whole ticks. The
	// default is 500 ms.
	Tick time.Duration

	// MinTimeout and MaxTimeout bound what clients can negotiate. The defaults
	// are 2 and 20 ticks; with the profiles of ClickHouse Keeper, 10 s and 100 s.
	MinTimeout, MaxTimeout time.Duration

	// Latency is the time that each direction of a connection takes. Requests and
	// replies overlap, as on a long wire.
	Latency time.Duration

	// Replicas is the number of servers. The default is 1. The first one
	// is the leader.
	Replicas int

	// Lag is the delay with which the other replicas see a transaction of the
	// leader.
	Lag time.Duration

	// ReapInterval is the time between two deletions of empty containers and of nodes whose TTL has
	// passed. The default is one minute.
	ReapInterval time.Duration

	// GreetTimeout is the time that a connection may be silent before its handshake.
	// Then it is cut, at a whole multiple of that time. The default is 10 s, as
	// in ZooKeeper.
	GreetTimeout time.Duration

	// MaxOwed is about the number of bytes of replies that a client may leave unread before
	// nothing more is read from it. A client that leaves 16 times as much in
	// notifications is cut. The default is 1 MiB.
	MaxOwed int

	// MaxRequest is the largest request. A larger one ends the connection. The
	// default is 1,048,575 bytes, as in ZooKeeper.
	MaxRequest int

	// StuckSequences makes sequence numbers end at 2147483647, as they do in
	// ZooKeeper 3.5 to 3.9 when creations do not overlap: while that node is
	// there, all others fail because it exists. By default they go on from
	// -2147483648, as ZooKeeper's documentation says.
	StuckSequences bool

	// Profile is the server whose answers are given. The default is ZooKeeper 3.8.0.
	Profile Profile

	// Clock gives the time. The default is the clock of package time.
	Clock Clock

	// Committed is called with each transaction that changes nodes or ends a session, in their
	// order, when the leader has applied it. The server waits for it: it must not block, and must
	// not call the server. The default is nil: transactions are not reported.
	Committed func(Transaction)
}

func (c Config) withDefaults() Config {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:0")
	c.Tick = cmp.Or(c.Tick, 500*time.Millisecond)
	d := c.Profile.table()
	c.MinTimeout = cmp.Or(c.MinTimeout, d.least, 2*c.Tick)
	c.MaxTimeout = cmp.Or(c.MaxTimeout, max(cmp.Or(d.most, 20*c.Tick), c.MinTimeout))
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.ReapInterval = cmp.Or(c.ReapInterval, time.Minute)
	c.MaxRequest = cmp.Or(c.MaxRequest, 1<<20-1)
	c.MaxOwed = cmp.Or(c.MaxOwed, 1<<20)
	c.GreetTimeout = cmp.Or(c.GreetTimeout, 10*time.Second)
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	return c
}

// validate reports everything that is wrong with c.
func (c Config) validate() error {
	var errs []error
	if c.Tick < time.Millisecond || c.MinTimeout < time.Millisecond || c.MaxTimeout < c.MinTimeout {
		errs = append(errs, fmt.Errorf("zktest: Tick %v, MinTimeout %v, MaxTimeout %v: must be at least 1ms, and in order",
			c.Tick, c.MinTimeout, c.MaxTimeout))
	}
	if c.Replicas < 0 || c.MaxRequest < 0 || c.MaxOwed < 0 {
		errs = append(errs, errors.New("zktest: negative Replicas, MaxRequest or MaxOwed"))
	}
	if c.Latency < 0 || c.Lag < 0 || c.ReapInterval < 0 {
		errs = append(errs, errors.New("zktest: negative Latency, Lag or ReapInterval"))
	}
	if c.GreetTimeout < time.Millisecond {
		errs = append(errs, fmt.Errorf("zktest: GreetTimeout %v is under 1ms", c.GreetTimeout))
	}
	if !c.Profile.valid() {
		errs = append(errs, fmt.Errorf("zktest: Profile %d: there is none", int(c.Profile)))
	}
	return errors.Join(errs...)
}

// An Option changes what [Start] starts.
type Option func(*Config)

// Listen sets [Config.Addr].
func Listen(addr string) Option { return func(c *Config) { c.Addr = addr } }

// InProcess sets [Config.InProcess].
func InProcess() Option { return func(c *Config) { c.InProcess = true } }

// Tick sets [Config.Tick].
func Tick(d time.Duration) Option { return func(c *Config) { c.Tick = d } }

// Timeouts sets [Config.MinTimeout] and [Config.MaxTimeout].
func Timeouts(least, most time.Duration) Option {
	return func(c *Config) { c.MinTimeout, c.MaxTimeout = least, most }
}

// Latency sets [Config.Latency].
func Latency(d time.Duration) Option { return func(c *Config) { c.Latency = d } }

// Replicas sets [Config.Replicas] and [Config.Lag].
func Replicas(n int, lag time.Duration) Option {
	return func(c *Config) { c.Replicas, c.Lag = n, lag }
}

// ReapEvery sets [Config.ReapInterval].
func ReapEvery(d time.Duration) Option { return func(c *Config) { c.ReapInterval = d } }

// GreetTimeout sets [Config.GreetTimeout].
func GreetTimeout(d time.Duration) Option { return func(c *Config) { c.GreetTimeout = d } }

// StuckSequences sets [Config.StuckSequences].
func StuckSequences() Option { return func(c *Config) { c.StuckSequences = true } }

// WithProfile sets [Config.Profile].
func WithProfile(p Profile) Option { return func(c *Config) { c.Profile = p } }

// WithClock sets [Config.Clock].
func WithClock(clock Clock) Option { return func(c *Config) { c.Clock = clock } }

// A Server is a ZooKeeper server in memory, or several replicas of one, for
// tests: without persistence, and without consensus. It implements [Faults].
//
// A request is hit by at most one fault: by the fault that was requested first among the faults
// that match it. What a client sent before a request that is lost, or whose reply is, is served and
// answered.
//
// A Server is safe for concurrent use, and must be closed.
type Server struct {
	// Immutable after NewServer.
	config    Config
	differs   *differences // of its profile
	started   time.Time
	secret    [16]byte
	addrs     []string
	listeners []net.Listener
	conns     sync.WaitGroup // goroutines
	done      chan struct{}  // closed by Close
	batches   sync.Pool      // of *batch

	connections atomic.Int64 // so far

	// refusing is guarded by dialMu, because a dial must not wait for mu.
	dialMu   sync.Mutex
	refusing bool

	// mu guards everything below, and all of the state of replicas, sessions
	// and trees. It is held for one request at a time, and never while
	// anything waits.
	mu          sync.Mutex
	closed      bool
	tree        *tree // the leader's
	replicas    []*replica
	sessions    map[int64]*session
	nextSession int64
	nextDial    int
	clients     map[*conn]struct{}
	stopReaping func() bool
	expiryAt    int64 // when expiry runs, in milliseconds since the start; 0 if it is not to
	stopExpiry  func() bool
	keep        time.Duration // how long nodes of expired sessions stay
	later       timers        // everything else that is to happen once

	faults    faultTable
	frozen    map[int64]flow
	counts    Counts
	bySession map[int64]Counts
	proposals int
	events    int
	stats     statistics
}

var _ Faults = (*Server)(nil)

// Start starts a server in memory. It ends with the test.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	var config Config
	for _, o := range opts {
		o(&config)
	}
	s, err := NewServer(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// NewServer starts a server in memory.
func NewServer(config Config) (*Server, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		config:    config,
		differs:   config.Profile.table(),
		started:   config.Clock.Now(),
		done:      make(chan struct{}),
		sessions:  make(map[int64]*session),
		clients:   make(map[*conn]struct{}),
		frozen:    make(map[int64]flow),
		counts:    make(Counts),
		bySession: make(map[int64]Counts),
	}
	if _, err := rand.Read(s.secret[:]); err != nil {
		return nil, fmt.Errorf("zktest: secret: %w", err)
	}
	s.nextSession = 1<<56 | int64(uint64(s.started.UnixMilli())<<24>>8)
	if err := s.listen(); err != nil {
		return nil, err
	}
	s.tree = s.newTree()
	for i := range config.Replicas {
		lag := config.Lag
		if i == 0 {
			lag = 0
		}
		s.replicas = append(s.replicas, newReplica(s, i, lag))
	}
	for i, l := range s.listeners {
		s.conns.Go(func() {
			accept(l, func(nc net.Conn) {
				if s.isRefusing() {
					reset(nc)
				} else {
					s.serve(nc, s.replicas[i])
				}
			})
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scheduleReaping()
	return s, nil
}

// listen chooses the addresses of the replicas.
func (s *Server) listen() error {
	for i := range s.config.Replicas {
		if s.config.InProcess {
			// An address that no client has to look up, and that is not in use.
			s.addrs = append(s.addrs, fmt.Sprintf("127.0.0.1:%d", i+1))
			continue
		}
		addr := s.config.Addr
		if i > 0 {
			host, _, err := net.SplitHostPort(addr)
			if err != nil {
				return fmt.Errorf("zktest: Config.Addr: %w", err)
			}
			addr = net.JoinHostPort(host, "0")
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			for _, l := range s.listeners {
				_ = l.Close()
			}
			return fmt.Errorf("zktest: Config.Addr: %w", err)
		}
		s.listeners = append(s.listeners, l)
		s.addrs = append(s.addrs, l.Addr().String())
	}
	return nil
}

func (s *Server) isRefusing() bool {
	s.dialMu.Lock()
	defer s.dialMu.Unlock()
	return s.refusing
}

// serve hands a connection to a replica.
func (s *Server) serve(nc net.Conn, r *replica) {
	c := newConn(s, r, nc)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = nc.Close()
		return
	}
	s.clients[c] = struct{}{}
	c.setFrozen(s.frozen[everySession])
	s.awaitGreeting(c)
	if s.config.Latency > 0 {
		s.conns.Go(c.handleLater)
	}
	s.conns.Go(c.read)
}

// awaitGreeting cuts a connection unless it greets in time. The server's lock is
// held.
func (s *Server) awaitGreeting(c *conn) {
	c.expires = s.roundUp(s.config.GreetTimeout, s.config.GreetTimeout)
	c.stopGreeting = s.after(time.Duration(c.expires-s.elapsed())*time.Millisecond, func() {
		if c.session == nil {
			s.stats.neverGreeted++
			s.dismiss(c)
		}
	})
}

// roundUp returns when d will have passed, at the next multiple of interval, in
// milliseconds since the start.
func (s *Server) roundUp(d, interval time.Duration) int64 {
	unit := interval.Milliseconds()
	return ((s.elapsed()+d.Milliseconds())/unit + 1) * unit
}

// Profile returns [Config.Profile].
func (s *Server) Profile() Profile { return s.config.Profile }

// Addrs returns the addresses of the replicas.
func (s *Server) Addrs() []string { return append([]string(nil), s.addrs...) }

// Dialer returns a function that connects to the replica at an address of
// [Server.Addrs] without sockets. go-zookeeper's WithDialer takes it.
func (s *Server) Dialer() func(network, address string, timeout time.Duration) (net.Conn, error) {
	return func(network, address string, _ time.Duration) (net.Conn, error) {
		return s.DialContext(context.Background(), network, address)
	}
}

// DialContext connects to the replica at an address of [Server.Addrs] without
// sockets.
func (s *Server) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	if ctx == nil {
		return fail(errors.New("ctx is nil"))
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	select {
	case <-s.done:
		return fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	default:
	}
	for i, a := range s.addrs {
		if a != address {
			continue
		}
		if s.isRefusing() {
			return fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
		}
		to, err := netip.ParseAddrPort(a)
		if err != nil {
			return fail(err)
		}
		s.mu.Lock()
		s.nextDial++
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(1024+s.nextDial%60000))
		s.mu.Unlock()
		near, far := newPipe(net.TCPAddrFromAddrPort(from), net.TCPAddrFromAddrPort(to))
		s.serve(far, s.replicas[i])
		return near, nil
	}
	return fail(fmt.Errorf("zktest: no replica at %s, only at %s", address, strings.Join(s.addrs, ", ")))
}

// Close ends the server with all its connections, and waits for its
// goroutines. It may be called any number of times.
func (s *Server) Close() {
	for _, l := range s.listeners {
		_ = l.Close()
	}
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
		s.later.stopAll()
		if s.stopReaping != nil {
			s.stopReaping()
		}
		if s.stopExpiry != nil {
			s.stopExpiry()
		}
		for _, r := range s.replicas {
			r.stop()
		}
		for c := range s.clients {
			c.cut()
		}
	}
	s.mu.Unlock()
	s.conns.Wait()
}

// elapsed returns the milliseconds since the start.
func (s *Server) elapsed() int64 { return s.config.Clock.Now().Sub(s.started).Milliseconds() }

// after calls f with the lock held, unless the server is closed before.
func (s *Server) after(d time.Duration, f func()) (stop func() bool) {
	return s.config.Clock.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			f()
		}
	})
}

// timers are things to do once, which only Close cancels.
type timers struct {
	next  int
	stops map[int]func() bool
}

// later calls f with the lock held. The caller holds it now.
func (s *Server) doLater(d time.Duration, f func()) {
	if s.later.stops == nil {
		s.later.stops = make(map[int]func() bool)
	}
	s.later.next++
	id := s.later.next
	s.later.stops[id] = s.after(d, func() {
		delete(s.later.stops, id)
		f()
	})
}

func (t *timers) stopAll() {
	for _, stop := range t.stops {
		stop()
	}
	t.stops = nil
}

// statistics are the answers of the four-letter words.
type statistics struct {
	received, sent    int
	deletedEvents     int // deletions of which a client was notified
	deletedWatches    int // the clients that were notified of them
	maxDeletedWatches int // of one of them
	neverGreeted      int // connections that were cut for it
}
