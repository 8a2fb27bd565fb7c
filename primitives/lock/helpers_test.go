package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

const tick = 100 * time.Millisecond // of the real servers

// A stage is a ZooKeeper on which a story is played: real servers behind a proxy, or the
// server in memory.
type stage struct {
	zktest.Faults
	direct []string // addresses for those who are not to be disturbed
	// Of the session, but for heartbeats. On real servers it is all that passed the proxy.
	requestsOf func(session int64) zktest.Counts
}

// onEnsemble returns a stage with a proxy of its own.
func onEnsemble(t *testing.T, ens *zktest.Ensemble) *stage {
	t.Helper()
	proxy := zktest.NewProxy(t, ens.Addrs()...)
	return &stage{proxy, ens.Addrs(), func(int64) zktest.Counts { return withoutSyncs(proxy.Requests()) }}
}

// inMemory returns a stage with a server of its own.
func inMemory(t *testing.T) *stage {
	t.Helper()
	server := zktest.Start(t, zktest.Tick(tick), zktest.ReapEvery(tick), zktest.Timeouts(2*tick, time.Minute), zktest.Replicas(3, 0))
	return &stage{server, server.Addrs(), func(id int64) zktest.Counts { return withoutSyncs(server.RequestsOf(id)) }}
}

// scene returns a stage, a session to which things happen, another that is not disturbed, and a
// path of their own, which ends as it is told.
func scene(t *testing.T, set func(*testing.T) *stage, end string) (c *stage, s, other *session.Session, path string) {
	t.Helper()
	c = set(t)
	s, other = open(t, c.Addrs(), nil), open(t, c.direct, nil)
	return c, s, other, fmt.Sprintf("/%x%s", s.ID(), end)
}

// withoutSyncs leaves what the recipe has asked for: no heartbeats.
func withoutSyncs(c zktest.Counts) zktest.Counts {
	delete(c, zktest.OpSync)
	delete(c, zktest.OpCheck)
	return c
}

// count counts operations.
func count(ops []zktest.Op) zktest.Counts {
	c := make(zktest.Counts)
	for _, op := range ops {
		c[op]++
	}
	return c
}

// open opens a session that bears a lot, unless opts says otherwise.
func open(tb testing.TB, addrs []string, opts *session.Options) *session.Session {
	tb.Helper()
	if opts == nil {
		opts = &session.Options{Timeout: 20 * time.Second, ServerTick: tick}
	}
	return check.Open(session.Open(check.Patient(tb), addrs, opts))(tb)
}

// join stands in line.
func join(tb testing.TB, s *session.Session, path string, opts *lock.Options) *lock.Lock {
	tb.Helper()
	return check.Open(lock.New(s, path, opts))(tb)
}

func acquire(tb testing.TB, s *session.Session, path string) *lock.Lock {
	tb.Helper()
	return check.Open(lock.Acquire(check.Patient(tb), s, path, nil))(tb)
}

func release(tb testing.TB, l *lock.Lock) {
	tb.Helper()
	check.OK(tb, l.Release(check.Patient(tb)))
}

// await reads events until one of type E comes, and returns it.
func await[E lock.Event](tb testing.TB, l *lock.Lock) E {
	tb.Helper()
	ev, _ := zktest.Await(tb, l.Events(), func(ev lock.Event) bool { _, is := ev.(E); return is }).(E)
	return ev
}

// ensure makes a node that is not reaped.
func ensure(tb testing.TB, s *session.Session, path string, data []byte) {
	tb.Helper()
	check.Have(s.Create(check.Patient(tb), path, data, session.Persistent))(tb)
}

// children lists a node as the leader knows it; a missing one has none.
func children(tb testing.TB, s *session.Session, path string) []string {
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

// awaitLine waits until n contenders stand in line.
func awaitLine(tb testing.TB, s *session.Session, path string, n int) []lock.Contender {
	tb.Helper()
	ctx := check.Patient(tb)
	var line []lock.Contender
	for {
		err := s.Sync(ctx, path)
		if err == nil {
			var now []lock.Contender
			if now, err = lock.Contenders(ctx, s, path, nil); err == nil {
				line = now
			}
		}
		check.Must(tb, err, "waiting for", n, "contenders; there are", line)
		if len(line) == n {
			return line
		}
	}
}

// releaseInTurn expects a grant to each of a line, after the one with the token, and releases it.
func releaseInTurn(tb testing.TB, token int64, line []lock.Contender, granted <-chan *lock.Lock) {
	tb.Helper()
	for _, contender := range line {
		l := <-granted
		check.True(tb, l.Node() == contender.Node && l.Token() > token, "%s got it with token %d, after %d; it was the turn of %s", l.Node(), l.Token(), token, contender.Node)
		token = l.Token()
		release(tb, l)
	}
}

// awaitEmpty fails the test if there are children of path when their session could have expired.
func awaitEmpty(t *testing.T, s *session.Session, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for {
		names := children(t, s, path)
		if len(names) == 0 {
			return
		}
		for _, name := range names {
			check.Must(t, watch.UntilGone(ctx, s, znode.Join(path, name)), "there is still", name)
		}
	}
}

// removeAll is what an operator does. It returns when there is no node at path.
func removeAll(tb testing.TB, s *session.Session, path string) {
	tb.Helper()
	ctx := check.Patient(tb)
	for {
		for _, name := range children(tb, s, path) {
			removeAll(tb, s, znode.Join(path, name))
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

// number returns the sequence number of a node.
func number(tb testing.TB, node string) int {
	tb.Helper()
	return check.Have(strconv.Atoi(node[strings.LastIndexByte(node, '-')+1:]))(tb)
}

// sum adds up what the servers say of themselves.
func sum(tb testing.TB, ens *zktest.Ensemble, keys ...string) map[string]int {
	tb.Helper()
	total := make(map[string]int)
	for i := range ens.Size() {
		mntr := ens.Mntr(i)
		for _, key := range keys {
			if mntr[key] == "" {
				continue
			}
			n, err := strconv.ParseFloat(mntr[key], 64)
			check.Must(tb, err, key)
			total[key] += int(n)
		}
	}
	return total
}
