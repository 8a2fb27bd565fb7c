package zktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// proxyDialTimeout bounds a connection to a server.
const proxyDialTimeout = 2 * time.Second

// expiryTimeout bounds [Proxy.Expire], which needs a server that serves.
const expiryTimeout = 30 * time.Second

// A Proxy stands between clients and servers, one address for each server, parses their messages,
// and disturbs them as [Faults] documents. It forwards four letter words, too.
//
// A request is hit by at most one DropRequest, DropReply or Delay: by the fault that was requested
// first among the faults that match it. What a client sent before a request that is lost, or whose
// reply is, is served and answered; what it sends after that on the same connection is lost.
//
// While a direction is frozen, connections stay as they are: the end of one is
// held back like everything else. When more than 4 MiB have been held on a
// connection, no more is read from it.
//
// A Proxy is safe for concurrent use, and must be closed.
type Proxy struct {
	// Immutable after ListenProxy.
	tb        testing.TB // nil outside of tests
	servers   []string
	listeners []net.Listener
	running   sync.WaitGroup // the proxy's goroutines

	mu       sync.Mutex // before the lock of a pipe
	closed   bool
	refusing bool
	accepted int // connections so far
	conns    map[*proxyConn]struct{}
	sessions map[int64]proxySession // sessions that are not known to be over
	freezes  map[int64]proxyFreeze
	latency  time.Duration
	counts   Counts
	faults   faultTable
	tracing  bool
	trace    []Record
}

var _ Faults = (*Proxy)(nil)

// A proxySession has the id and the password to speak for a session.
type proxySession struct {
	timeout  int32
	password []byte
}

// A proxyFreeze has the traffic that does not flow.
type proxyFreeze struct {
	toServer, toClient proxyHold
}

// A proxyHold says what a proxyPipe keeps back. Larger ones include smaller ones.
type proxyHold int

const (
	proxyHoldNothing proxyHold = iota
	proxyHoldReplies           // all but notifications
	proxyHoldAll
)

// A Record is a message that passed a [Proxy].
type Record struct {
	// Time is when a request came from the client, or when a reply or a
	// notification went to it. So what a client sends after it was answered
	// comes after the answer, and what it sent without waiting for the answer
	// comes before.
	Time time.Time

	// Dir is ToServer for requests, and ToClient for replies and notifications.
	Dir Direction

	// Conn is the number of the connection, from 1.
	Conn int

	// Session is the connection's session, 0 while that is unknown.
	Session int64

	// Op is the request's operation, in its reply too; 0 for a notification.
	Op Op

	// Paths are the paths that the request or the notification names. A multi
	// names one for each of its operations. Replies name none.
	Paths []string

	// Xid is the number that connects a reply with its request.
	Xid int32

	// Zxid and Err are in replies only.
	Zxid int64
	Err  int32
}

// String returns the record in one line, without its time.
func (r Record) String() string {
	if r.Dir == ToServer {
		return fmt.Sprintf("conn %d > %v %v xid=%d", r.Conn, r.Op, r.Paths, r.Xid)
	}
	if r.Op == 0 {
		return fmt.Sprintf("conn %d < event %v", r.Conn, r.Paths)
	}
	return fmt.Sprintf("conn %d < %v xid=%d zxid=%#x err=%d", r.Conn, r.Op, r.Xid, r.Zxid, r.Err)
}

// NewProxy returns a proxy to the servers at addrs. It ends with the test.
func NewProxy(tb testing.TB, addrs ...string) *Proxy {
	tb.Helper()
	p, err := ListenProxy(addrs...)
	if err != nil {
		tb.Fatal(err)
	}
	p.tb = tb
	tb.Cleanup(p.Close)
	return p
}

// ListenProxy is [NewProxy] for programs that are not tests.
func ListenProxy(addrs ...string) (*Proxy, error) {
	if len(addrs) == 0 {
		return nil, errors.New("zktest: a proxy needs the address of a server")
	}
	p := &Proxy{
		servers:  slices.Clone(addrs),
		conns:    make(map[*proxyConn]struct{}),
		sessions: make(map[int64]proxySession),
		freezes:  make(map[int64]proxyFreeze),
		counts:   make(Counts),
	}
	for range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.Close()
			return nil, err
		}
		p.listeners = append(p.listeners, l)
	}
	for i, l := range p.listeners {
		p.running.Go(func() { accept(l, func(client net.Conn) { p.serve(client, i) }) })
	}
	return p, nil
}

// serve carries a connection of a client to a server.
func (p *Proxy) serve(client net.Conn, server int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refusing {
		reset(client)
		return
	}
	p.accepted++
	c := newProxyConn(p, p.accepted, server, client)
	p.conns[c] = struct{}{}
	p.thawOrFreeze(c)
	p.running.Go(c.serve)
}

// Close closes all connections, and returns when that is done. It may be called
// any number of times.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.close()
	}
	p.mu.Unlock()
	for _, l := range p.listeners {
		l.Close() //nolint:errcheck // nothing was written
	}
	p.running.Wait()
}

// Addrs implements [Faults]. The addresses are in the order of the servers.
func (p *Proxy) Addrs() []string {
	addrs := make([]string, len(p.listeners))
	for i, l := range p.listeners {
		addrs[i] = l.Addr().String()
	}
	return addrs
}

// Sessions returns the sessions that were opened through the proxy and that, as far as the proxy
// has seen, are not over.
func (p *Proxy) Sessions() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.sessions))
}

// Server returns the number of the server that the session is connected to, and false if it is not
// connected.
func (p *Proxy) Server(session int64) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var newest *proxyConn
	for c := range p.conns {
		if c.session == session && (newest == nil || c.number > newest.number) {
			newest = c
		}
	}
	if newest == nil {
		return 0, false
	}
	return newest.upstream, true
}

// Disconnect implements [Faults].
func (p *Proxy) Disconnect(session int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if session == 0 || c.session == session {
			c.close()
		}
	}
}

// Refuse implements [Faults]. The connection is reset as soon as it is made.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refuse
}

// Freeze implements [Faults]. Connections can be made meanwhile, as the kernel
// of a machine behind a network that loses everything would have it.
func (p *Proxy) Freeze(session int64, dir Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.freezes[session]
	switch dir {
	case Both:
		f = proxyFreeze{toServer: proxyHoldAll, toClient: proxyHoldAll}
	case ToServer:
		f.toServer = proxyHoldAll
	case ToClient:
		f.toClient = proxyHoldAll
	case ToClientButEvents:
		f.toClient = max(f.toClient, proxyHoldReplies)
	}
	p.freezes[session] = f
	p.thawOrFreezeAll()
}

// Thaw implements [Faults].
func (p *Proxy) Thaw(session int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if session == 0 {
		clear(p.freezes)
	}
	delete(p.freezes, session)
	p.thawOrFreezeAll()
}

func (p *Proxy) thawOrFreezeAll() {
	for c := range p.conns {
		p.thawOrFreeze(c)
	}
}

// thawOrFreeze makes a connection hold what it has to.
func (p *Proxy) thawOrFreeze(c *proxyConn) {
	all, its := p.freezes[0], p.freezes[c.session]
	c.up.hold(max(all.toServer, its.toServer))
	c.down.hold(max(all.toClient, its.toClient))
}

// DropRequest implements [Faults].
func (p *Proxy) DropRequest(m Match) { p.addFault(dropRequest(m)) }

// DropReply implements [Faults].
func (p *Proxy) DropReply(m Match) { p.addFault(dropReply(m)) }

// Delay implements [Faults].
func (p *Proxy) Delay(m Match, d time.Duration) { p.addFault(delayed(m, d)) }

func (p *Proxy) addFault(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults.add(f)
}

// AwaitFault implements [Faults]. A lost request or reply counts as hit when
// the connection has been cut.
func (p *Proxy) AwaitFault(timeout time.Duration) error { return p.faults.await(&p.mu, timeout, nil) }

// Latency delays everything that is sent from now on by d, each way. Requests that are sent without
// waiting for answers also arrive without waiting for them.
func (p *Proxy) Latency(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency = d
}

// Requests implements [Faults].
func (p *Proxy) Requests() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// ResetRequests implements [Faults].
func (p *Proxy) ResetRequests() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.counts)
}

// StartTrace begins to record the messages that pass, and discards earlier records.
func (p *Proxy) StartTrace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tracing, p.trace = true, nil
}

// Trace returns the messages that have passed since [Proxy.StartTrace].
func (p *Proxy) Trace() []Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.trace)
}

// Expire implements [Faults]: it speaks to a server in the session's name and
// closes the session. Connections of the session are then cut, as a server does
// with a session that has timed out. It returns when that is done.
func (p *Proxy) Expire(session int64) {
	ids := []int64{session}
	if session == 0 {
		ids = p.Sessions()
	}
	for _, id := range ids {
		if err := p.expire(id); err != nil {
			p.fail(fmt.Errorf("zktest: expire session %#x: %w", uint64(id), err))
		}
	}
}

// fail fails the test, if there is one.
func (p *Proxy) fail(err error) {
	if p.tb == nil {
		panic(err)
	}
	p.tb.Helper()
	p.tb.Error(err)
}

func (p *Proxy) expire(id int64) error {
	p.mu.Lock()
	s, ok := p.sessions[id]
	p.mu.Unlock()
	if !ok {
		return errors.New("it was not opened here, or is over")
	}
	ctx, cancel := context.WithTimeout(context.Background(), expiryTimeout)
	defer cancel()
	for i := 0; ; i++ {
		err := closeInItsName(p.servers[i%len(p.servers)], id, s)
		if err == nil {
			break
		}
		if pause(ctx, pollInterval) != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, id)
	for c := range p.conns {
		if c.session == id {
			c.down.put(proxyPacket{end: true})
		}
	}
	return nil
}
