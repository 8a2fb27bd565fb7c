package kit

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// Tick is that of the servers of a stage, real or in memory.
const Tick = 100 * time.Millisecond

// lasting is the timeout of sessions that survive when the process is stopped for a while.
const lasting = 40 * time.Second

// A Stage is a ZooKeeper on which one story is played in memory and on real servers.
type Stage struct {
	zktest.Faults
	// Direct are addresses for sessions that are not to be disturbed.
	Direct []string
	// RequestsOf counts the requests of a session, but for heartbeats. On real servers these are
	// all that have passed the proxy.
	RequestsOf func(session int64) zktest.Counts
	dial       func(ctx context.Context, network, addr string) (net.Conn, error) // nil for TCP
}

// OnEnsemble returns a stage with a proxy of its own.
func OnEnsemble(t *testing.T, ens *zktest.Ensemble) *Stage {
	t.Helper()
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	return &Stage{proxy, ens.Addrs(), func(int64) zktest.Counts { return WithoutSyncs(proxy.Requests()) }, nil}
}

// InMemory returns a stage with a server of its own, of three replicas, outside of any bubble.
func InMemory(t *testing.T) *Stage {
	t.Helper()
	server := zktest.Start(t, zktest.Tick(Tick), zktest.ReapEvery(Tick), zktest.Timeouts(2*Tick, time.Minute), zktest.Replicas(3, 0))
	return onServer(server, nil)
}

// InBubble plays on a stage with a server of its own in a bubble, two of whose three replicas lag
// behind. A request takes a millisecond, so that the clock goes on while a test asks again and
// again.
func InBubble(t *testing.T, lag time.Duration, play func(t *testing.T, c *Stage)) {
	t.Helper()
	config := zktest.Config{Tick: Tick, ReapInterval: Tick, MinTimeout: 2 * Tick, MaxTimeout: time.Minute, Replicas: 3, Lag: lag, Latency: time.Millisecond}
	Run(t, config, func(w World) { play(w.T, onServer(w.Server, w.DialContext)) })
}

func onServer(server *zktest.Server, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *Stage {
	return &Stage{server, server.Addrs(), func(id int64) zktest.Counts { return WithoutSyncs(server.RequestsOf(id)) }, dial}
}

// Open opens a session to which faults can happen, as [Open] does.
func (c *Stage) Open(tb testing.TB) *session.Session {
	tb.Helper()
	return Open(tb, c.Addrs(), &session.Options{Timeout: lasting, ServerTick: Tick, Dialer: c.dial})
}

// OpenDirect opens a session that is not to be disturbed.
func (c *Stage) OpenDirect(tb testing.TB) *session.Session {
	tb.Helper()
	return Open(tb, c.Direct, &session.Options{Timeout: lasting, ServerTick: Tick, Dialer: c.dial})
}

// WithoutSyncs leaves what a recipe has asked for: no heartbeats.
func WithoutSyncs(c zktest.Counts) zktest.Counts {
	delete(c, zktest.OpSync)
	delete(c, zktest.OpCheck)
	return c
}

// Open opens a session outside of a bubble. It bears a lot, unless opts says otherwise. It is
// closed at the end of the test.
func Open(tb testing.TB, addrs []string, opts *session.Options) *session.Session {
	tb.Helper()
	if opts == nil {
		opts = &session.Options{Timeout: lasting, ServerTick: Tick}
	}
	return check.Open(session.Open(check.Patient(tb), addrs, opts))(tb)
}

// Await reads events until one of type E comes, and returns it.
func Await[E, Ev any](tb testing.TB, events <-chan Ev) E {
	tb.Helper()
	ev, _ := any(zktest.Await(tb, events, func(ev Ev) bool { _, is := any(ev).(E); return is })).(E)
	return ev
}

// Counts reports whether the session has that id, and counts on what it holds. A session looks at
// its own clock first, as it does before every answer, also before that to a request which it
// refuses itself.
func Counts(s *session.Session, id int64) bool {
	looked := make(chan struct{})
	s.Async(0).Exists("no path", func(*session.Stat, error) { close(looked) })
	<-looked
	_, lapsed := s.State().(session.Lapsed)
	_, expired := s.State().(session.Expired)
	return !lapsed && !expired && s.ID() == id
}

// Ensure makes a node that is not reaped.
func Ensure(tb testing.TB, s *session.Session, path string, data []byte) {
	tb.Helper()
	check.Have(s.Create(check.Patient(tb), path, data, session.Persistent))(tb)
}

// Children lists a node as the leader knows it, sorted; a missing one has none.
func Children(tb testing.TB, s *session.Session, path string) []string {
	tb.Helper()
	ctx := check.Patient(tb)
	check.Must(tb, s.Sync(ctx, path))
	names, _, err := s.Children(ctx, path)
	if err != nil && !errors.Is(err, session.ErrNoNode) {
		tb.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// RemoveAll is what an operator does. It returns when there is no node at path.
func RemoveAll(tb testing.TB, s *session.Session, path string) {
	tb.Helper()
	ctx := check.Patient(tb)
	for {
		for _, name := range Children(tb, s, path) {
			RemoveAll(tb, s, znode.Join(path, name))
		}
		err := s.Delete(ctx, path, session.AnyVersion)
		switch {
		case err == nil, errors.Is(err, session.ErrNoNode):
			return
		case !errors.Is(err, session.ErrNotEmpty):
			tb.Fatal(err)
		}
	}
}
