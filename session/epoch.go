package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// An epoch is one ZooKeeper session: one zk.Conn, from the dialling of the first
// connection until it is retired. It is never used again after that.
type epoch struct {
	session  *Session
	number   int
	pipeline *pipeline
	retire   context.CancelFunc // see end

	deadline   atomic.Int64 // since Session.born; 0 while there is no session
	newest     atomic.Int64 // the newest zxid seen
	told       atomic.Int64 // the newest up to which watches have told everything
	announced  atomic.Bool  // as Connected
	ephemerals ephemerals

	mu      sync.Mutex
	id      int64         // 0 until the first handshake
	timeout time.Duration // negotiated
	link    *link
	watches map[watchKey]struct{} // those that stand on the server
	parting bool                  // whoever is connected closes the session
	parted  chan struct{}         // closed when that was confirmed
	over    sync.Once             // closes parted
}

// terms are the times that follow from a session timeout.
type terms struct {
	timeout   time.Duration // less a margin for clocks that do not agree, and for us to act
	report    time.Duration // within which a server reports to the leader whom it has heard
	heartbeat time.Duration // between signs of life
	silence   time.Duration // how long to wait for an answer before trying another server
}

// termsOf computes them. Half of what is left of a lease when a heartbeat is overdue is
// for finding another server.
func termsOf(timeout, tick time.Duration) terms {
	if tick <= 0 || tick > timeout/2 {
		tick = timeout / 2
	}
	t := terms{
		timeout:   timeout - min(max(timeout/40, 10*time.Millisecond), 250*time.Millisecond),
		report:    tick / 2,
		heartbeat: timeout / 6,
	}
	// The newest sign of life that is known to have been reported is that many
	// heartbeats older than the newest one.
	known := 1 + t.report/t.heartbeat
	t.silence = (t.timeout - (known+1)*t.heartbeat) / 2
	return t
}

// newEpoch starts the client below, which begins to dial.
func newEpoch(s *Session, number int) (*epoch, error) {
	ctx, cancel := context.WithCancel(context.Background())
	e := &epoch{
		session: s, number: number, retire: cancel,
		watches: make(map[watchKey]struct{}), parted: make(chan struct{}),
	}
	e.pipeline = &pipeline{epoch: e}
	ready := make(chan struct{})
	var conn *zk.Conn
	conn, ended, err := zk.Connect([]string{"see-dial:0"}, s.opts.Timeout, options(
		zk.WithHostProvider(anyHost{}),
		zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) {
			<-ready
			link := e.dial(ctx)
			if link.socket == nil {
				// Only now is the client between connections, where it can
				// be closed without racing with itself.
				s.workers.Go(conn.Close)
			}
			return link, nil
		}),
		zk.WithLogger(clientLogger{s}), zk.WithLogInfo(false),
		zk.WithMaxConnBufferSize(s.opts.MaxRequest), zk.WithMaxBufferSize(s.opts.MaxReply),
	)...)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("starting the client: %w", err)
	}
	e.pipeline.conn = conn
	close(ready)
	s.workers.Go(func() {
		for range ended { // closed when the client's goroutines are gone
		}
	})
	return e, nil
}

// options makes a list of the client's options, whose type has no name outside.
func options[T any](all ...T) []T { return all }

// anyHost leaves the choice of servers to [epoch.dial].
type anyHost struct{}

func (anyHost) Init([]string) error  { return nil }
func (anyHost) Len() int             { return 1 }
func (anyHost) Next() (string, bool) { return "see-dial:0", false }
func (anyHost) Connected()           {}

// dial returns a link to some server, or a grave once the epoch is retired. Until
// then it does not give up.
func (e *epoch) dial(ctx context.Context) *link {
	server, socket := e.session.servers.dial(ctx)
	if socket == nil {
		return newLink(e, "", nil)
	}
	l := newLink(e, server, socket)
	e.mu.Lock()
	retired := ctx.Err() != nil
	if !retired {
		e.link = l
	}
	e.mu.Unlock()
	if retired {
		_ = socket.Close() // nothing was sent on it
		return newLink(e, "", nil)
	}
	e.session.workers.Go(l.keep)
	return l
}

var errReplaced = errors.New("the server replaced the session by another")

// accept takes the server's answer to a connect request that was sent at the given
// time. It returns the watches that stood when the connection was lost.
func (e *epoch) accept(h handshake, at time.Time) ([]watchKey, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	const shortest = 60 * time.Millisecond // less leaves no time to act
	switch {
	case h.id == 0 && e.id == 0:
		return nil, errors.New("the server refused a new session")
	case h.id == 0:
		e.gone()
		e.session.tell(rejected{e.number})
		return nil, ErrExpired
	case e.id != 0 && e.id != h.id:
		e.session.tell(rejected{e.number})
		return nil, errReplaced
	case h.timeout < shortest:
		return nil, fmt.Errorf("the server offers a session timeout of %v", h.timeout)
	}
	first := e.id == 0
	e.id, e.timeout = h.id, h.timeout
	if first {
		e.extendLocked(at)
	}
	return slices.Collect(maps.Keys(e.watches)), nil
}

func (e *epoch) terms() terms {
	e.mu.Lock()
	defer e.mu.Unlock()
	return termsOf(e.timeout, e.session.opts.ServerTick)
}

// extend notes that the leader has heard of a sign of life that was sent at the given
// time, so that it will not forget the session for a whole timeout from then on.
func (e *epoch) extend(sent time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.extendLocked(sent)
}

func (e *epoch) extendLocked(sent time.Time) {
	until := sent.Add(termsOf(e.timeout, e.session.opts.ServerTick).timeout).Sub(e.session.born)
	if int64(until) <= e.deadline.Load() {
		return
	}
	first := e.deadline.Swap(int64(until)) == 0
	if first {
		e.session.poke()
	}
}

// until returns when the session must be counted as lost; zero if there is none.
func (e *epoch) until() time.Time {
	d := e.deadline.Load()
	if d == 0 {
		return time.Time{}
	}
	return e.session.born.Add(time.Duration(d))
}

// seen notes a zxid of a reply.
func (e *epoch) seen(zxid int64) {
	if zxid > e.newest.Load() { // one reader at a time
		e.newest.Store(zxid)
	}
}

// watched notes that a watch stands on the server.
func (e *epoch) watched(key watchKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watches[key] = struct{}{}
}

// unwatch ends a watch on the server, in the order of requests.
func (e *epoch) unwatch(key watchKey) {
	kind := removeData
	e.mu.Lock()
	delete(e.watches, key)
	if key.kind == watchChildren {
		kind = removeChildren
	} else {
		delete(e.watches, watchKey{key.path, watchAbsent})
	}
	e.mu.Unlock()
	s := e.session
	c := &call{op: "unwatch", path: s.relative(key.path), number: e.number, began: time.Now(), forget: kind}
	c.do = func(conn *zk.Conn) error {
		_, err := conn.Sync(key.path) // its frame is replaced by the link
		return err
	}
	c.answer = func(error) {} // a watch that is gone, or a server that cannot: there is nothing to be done
	s.submit(c)
}

// notified passes on what a watch has to tell.
func (e *epoch) notified(ev nodeEvent) {
	e.mu.Lock()
	for _, kind := range watchesEndedBy(ev.kind) {
		delete(e.watches, watchKey{ev.path, kind})
	}
	e.mu.Unlock()
	e.session.do(func() { e.session.notified(e, ev) })
}

// severed is called, once, when a link has failed. One that fails early counts as one
// that failed to be made, so that a server which accepts and hangs up is not asked
// again and again without a pause.
func (e *epoch) severed(l *link, why error, early bool) {
	if early {
		e.session.servers.failed(l.server, why)
	}
	e.session.opts.Logger.Info("connection lost", "server", l.server, "epoch", e.number, "reason", why)
	e.pipeline.close(l)
	if errors.Is(why, ErrAuthFailed) {
		e.session.refuseAuth()
	}
	e.session.tell(severed{e.number, e.until()})
}

// end retires the epoch: from now on nothing of it reaches a server. The client
// below ends by itself when it dials again.
func (e *epoch) end(why error) {
	e.retire()
	e.mu.Lock()
	l := e.link
	e.mu.Unlock()
	e.pipeline.end(why)
	if l != nil {
		l.fail(why)
	}
}

// part tells the server that the session ends, as soon as there is a connection, and
// waits until it has confirmed that, for at most the given time.
func (e *epoch) part(patience time.Duration) {
	e.mu.Lock()
	e.parting = true
	l, id := e.link, e.id
	e.mu.Unlock()
	if id == 0 {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	e.session.workers.Go(l.part) // it may have to wait for a frame to be written
	select {
	case <-e.parted:
	case <-timer.C:
	}
}

// isParting reports whether the session is to be closed.
func (e *epoch) isParting() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.parting
}

// gone is called when the server has confirmed that the session is no more.
func (e *epoch) gone() { e.over.Do(func() { close(e.parted) }) }

// clientLogger passes on what the client below reports.
type clientLogger struct{ session *Session }

// Printf implements [zk.Logger].
func (c clientLogger) Printf(format string, args ...any) {
	c.session.opts.Logger.Debug("client", "report", fmt.Sprintf(format, args...))
}
