package semaphore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const path = "/limits/exports"

// inBubble runs f with n sessions on a server in memory, in a bubble.
func inBubble(t *testing.T, n int, f func(t *testing.T, srv *zktest.Server, all []*session.Session), opts ...zktest.Option) {
	t.Helper()
	var config zktest.Config
	for _, opt := range opts {
		opt(&config)
	}
	kit.Sessions(t, config, n, session.Options{Timeout: 6 * time.Second}, f)
}

// runInBubble is inBubble in a subtest.
func runInBubble(t *testing.T, name string, n int, f func(t *testing.T, srv *zktest.Server, all []*session.Session), opts ...zktest.Option) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, n, f, opts...) })
}

func join(t *testing.T, s *session.Session, limit int, opts *semaphore.Options) *semaphore.Lease {
	t.Helper()
	return check.Open(semaphore.New(s, path, limit, opts))(t)
}

func weight(n int) *semaphore.Options { return &semaphore.Options{Weight: n} }

func acquire(t *testing.T, s *session.Session, limit int, opts *semaphore.Options) *semaphore.Lease {
	t.Helper()
	return check.Open(semaphore.Acquire(t.Context(), s, path, limit, opts))(t)
}

func release(t *testing.T, l *semaphore.Lease) {
	t.Helper()
	check.OK(t, l.Release(t.Context()))
}

func setLimit(t *testing.T, s *session.Session, n int) {
	t.Helper()
	check.OK(t, semaphore.SetLimit(t.Context(), s, path, n))
}

// inTurn has sessions join the line of a limit, one after the other.
func inTurn(t *testing.T, limit int, all ...*session.Session) (leases []*semaphore.Lease) {
	t.Helper()
	for _, s := range all {
		leases = append(leases, join(t, s, limit, nil))
		synctest.Wait()
	}
	return leases
}

// held reports whether the lease is held.
func held(l *semaphore.Lease) bool {
	select {
	case <-l.Done():
		return false
	default:
		return l.ID() != 0
	}
}

// expect waits until nothing moves, and expects those to hold a lease whose indices are
// given, and no others.
func expect(t *testing.T, all []*semaphore.Lease, want ...int) {
	t.Helper()
	synctest.Wait()
	var got []int
	for i, l := range all {
		if held(l) {
			got = append(got, i)
		}
	}
	check.EqualSlices(t, got, want, "holders")
}

// next returns the next event, which has to be of type E.
func next[E semaphore.Event](t *testing.T, l *semaphore.Lease) E {
	t.Helper()
	ev := <-l.Events()
	e, ok := ev.(E)
	check.True(t, ok, "%v, want %T", ev, e)
	return e
}

func children(t *testing.T, s *session.Session) []string {
	t.Helper()
	names, _, err := s.Children(t.Context(), path+"/leases")
	if err != nil && !errors.Is(err, session.ErrNoNode) {
		t.Fatal(err)
	}
	return names
}

func record(t *testing.T, s *session.Session, want string) {
	t.Helper()
	check.Reads(s.Get(t.Context(), path))(t, want, "what is recorded")
}

func ended(t *testing.T, why error) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	return ctx
}
