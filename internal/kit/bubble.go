package kit

import (
	"cmp"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A World is a server in memory, in the bubble of a test.
type World struct {
	*testing.T
	*zktest.Server
}

// Run plays with a server in memory. If the test fails, it prints the server's newest transactions,
// and the command that repeats it.
func Run(t *testing.T, config zktest.Config, play func(w World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config.InProcess = true
		watch(t, &config)
		srv := check.Have(zktest.NewServer(config))(t)
		t.Cleanup(srv.Close)
		play(World{t, srv})
	})
}

// Sessions plays with n sessions on a server in memory.
func Sessions(t *testing.T, config zktest.Config, n int, opts session.Options, play func(t *testing.T, srv *zktest.Server, all []*session.Session)) {
	t.Helper()
	Run(t, config, func(w World) {
		all := make([]*session.Session, n)
		for i := range all {
			all[i] = w.Open(opts)
			defer all[i].Close()
		}
		play(w.T, w.Server, all)
	})
}

// Open opens a session, which is closed at the end of the test. Its Dialer is the server's if the
// options have none.
func (w World) Open(opts session.Options) *session.Session {
	w.Helper()
	return w.open(w.Addrs(), opts)
}

// OpenAt opens a session that knows only one of the replicas.
func (w World) OpenAt(replica int, opts session.Options) *session.Session {
	w.Helper()
	return w.open(w.Addrs()[replica:][:1], opts)
}

// OpenFrom opens a session whose first connection is to one of the replicas, the first after the
// last, whichever it dials: a session shuffles its servers. Where the next one is, it decides.
func (w World) OpenFrom(replica int, opts session.Options) *session.Session {
	w.Helper()
	addrs := w.Addrs()
	var dialled atomic.Bool
	opts.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dialled.CompareAndSwap(false, true) {
			address = addrs[replica%len(addrs)]
		}
		return w.DialContext(ctx, network, address)
	}
	return w.open(addrs, opts)
}

func (w World) open(addrs []string, opts session.Options) *session.Session {
	w.Helper()
	if opts.Dialer == nil {
		opts.Dialer = w.DialContext
	}
	// It writes while it relies, as on a server that leads: so its lease ends long before the
	// servers expire it, and what a test counts has no question about its server.
	opts.Lease = cmp.Or(opts.Lease, session.LeaseCommitted)
	s := check.Have(session.Open(w.Context(), addrs, &opts))(w)
	w.Cleanup(s.Close)
	return s
}

// Elect has the servers begin anew again and again, with all that they have, until stop is closed:
// each time every session has its whole timeout.
func (w World) Elect(every time.Duration, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(every):
			w.Restore(w.Backup())
		}
	}
}

// A Gate is a session whose connection can be cut for a while.
type Gate struct {
	*session.Session
	w      World
	closed atomic.Bool
}

// OpenGated opens a session as Open does.
func (w World) OpenGated(opts session.Options) *Gate {
	w.Helper()
	g := &Gate{w: w}
	opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if g.closed.Load() {
			return nil, net.ErrClosed
		}
		return w.DialContext(ctx, network, addr)
	}
	g.Session = w.Open(opts)
	return g
}

// Refuse has the session find no server from its next connection on.
func (g *Gate) Refuse() { g.closed.Store(true) }

// Cut breaks the connection, and returns when the session knows it.
func (g *Gate) Cut() {
	g.Refuse()
	g.w.Disconnect(g.ID())
	synctest.Wait()
}

// Mend lets the session connect again.
func (g *Gate) Mend() { g.closed.Store(false) }

// EachLoss plays again and again: with each request lost that follows a call of lose, and with each
// reply, until there is none. The play calls over, which lose returns, at its end.
func EachLoss(t *testing.T, stride int, play func(t *testing.T, skip int, lose func(srv *zktest.Server, session int64) (over func()))) {
	t.Helper()
	const most = 100 // requests of a play
	for name, plan := range map[string]func(*zktest.Server, zktest.Match){
		"reply lost": (*zktest.Server).DropReply, "request lost": (*zktest.Server).DropRequest,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for skip, hit := 0, true; hit; skip += stride {
				hit = false
				play(t, skip, func(srv *zktest.Server, session int64) (over func()) {
					plan(srv, zktest.Match{Session: session, Skip: skip})
					return func() {
						hit = srv.AwaitFault(time.Millisecond) == nil
						srv.ClearFaults()
					}
				})
				check.Require(t, skip <= most, "there is no end of requests")
			}
		})
	}
}

// A Grip is a parent of a context, as users may have one: the call that ends the child does not
// return before Free is closed. So a test stops a goroutine that ends several contexts after the
// first of them.
type Grip struct {
	context.Context               //nolint:containedctx // it is one
	Reached         chan struct{} // closed when its child has ended, and the call has not returned
	Free            chan struct{}
}

// NewGrip returns a context that never ends. It may have one child.
func NewGrip() *Grip {
	return &Grip{context.Background(), make(chan struct{}), make(chan struct{})}
}

// Done implements [context.Context]. Without a channel, package context would not call AfterFunc.
func (g *Grip) Done() <-chan struct{} { return make(chan struct{}) }

// AfterFunc is called by package context when a child is made, and stop when it has ended.
func (g *Grip) AfterFunc(func()) (stop func() bool) {
	return func() bool {
		close(g.Reached)
		<-g.Free
		return true
	}
}

// Begin calls f on a goroutine, and waits until nothing more happens.
func Begin(f func() error) (result <-chan error) {
	ch := make(chan error, 1)
	go func() { ch <- f() }()
	synctest.Wait()
	return ch
}

// Returned returns the result of a call that [Begin] has begun, which must have returned.
func Returned(tb testing.TB, what string, result <-chan error) error {
	tb.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		return err
	default:
		tb.Fatalf("%s has not returned", what)
		return nil
	}
}

// Waits fails the test if a call that [Begin] has begun has returned.
func Waits(tb testing.TB, what string, result <-chan error) {
	tb.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		tb.Fatalf("%s has returned %v", what, err)
	default:
	}
}

// Pass lets the bubble's clock go on, which takes no time, until nothing more happens.
func Pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Drain returns the values that come until nothing more happens, or the channel is closed.
func Drain[T any](ch <-chan T) (all []T) {
	for {
		synctest.Wait()
		select {
		case v, open := <-ch:
			if !open {
				return all
			}
			all = append(all, v)
		default:
			return all
		}
	}
}
