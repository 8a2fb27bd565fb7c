package naming_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
)

// A clerk notes what an observer is told.
type clerk struct {
	session.NopObserver
	mu     sync.Mutex
	said   []string
	failed []string
}

func (c *clerk) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

func (c *clerk) Request(op string, _ time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed = append(c.failed, fmt.Sprintf("%s: %v", op, err))
	}
}

func (c *clerk) Waiting(recipe, _ string) { c.note("%s waits", recipe) }

func (c *clerk) Waited(recipe, _ string, took time.Duration) { c.note("%s waited %v", recipe, took) }

func (c *clerk) GaveUp(recipe, _ string, took time.Duration) {
	c.note("%s gave up after %v", recipe, took)
}

func (c *clerk) Held(recipe, _ string, took time.Duration) { c.note("%s held %v", recipe, took) }

func (c *clerk) Lost(recipe, _ string, err error)   { c.note("%s lost: %v", recipe, err) }
func (c *clerk) Failed(recipe, _ string, err error) { c.note("%s failed: %v", recipe, err) }

func (c *clerk) Revoked(recipe, _ string) { c.note("%s revoked", recipe) }

func (c *clerk) Leader(path, node string, data []byte, term int64) {
	switch {
	case node == "":
		c.note("none leads %s", path)
	case term > 0:
		c.note("%s leads %s", data, path)
	}
}

func (c *clerk) Members(_ string, n int) { c.note("%d members", n) }

// TestObserver: every wait of every recipe has a beginning, and one end. Reports of several handles
// have no order, so those of one are waited for before the next begins.
func TestObserver(t *testing.T) {
	must := func(err error) {
		t.Helper()
		check.OK(t, err)
	}
	type play = func(ctx context.Context, s *session.Session)
	pause := func(seconds int) { <-time.After(time.Duration(seconds) * time.Second) }
	for name, row := range map[string]struct {
		play play
		want []string
	}{
		"a lock": {func(ctx context.Context, s *session.Session) {
			l, err := lock.Acquire(ctx, s, "/l", nil)
			must(err)
			synctest.Wait()
			other, err := lock.New(s, "/l", nil)
			must(err)
			pause(2)
			other.Close()
			l.Close()
		}, []string{"lock waits", "lock waited 0s", "lock waits", "lock gave up after 2s", "lock held 2s"}},
		"a semaphore that refuses": {func(ctx context.Context, s *session.Session) {
			must(semaphore.SetLimit(ctx, s, "/s", 2))
			_, err := semaphore.Acquire(ctx, s, "/s", 1, nil)
			check.True(t, err != nil, "it does not refuse")
		}, []string{"semaphore waits", "semaphore failed: cannot join: limit is 2, not 1", "semaphore gave up after 0s"}},
		"an election": {func(ctx context.Context, s *session.Session) {
			c, err := election.Stand(ctx, s, "/e", &election.Options{Data: []byte("x")})
			must(err)
			pause(2)
			must(c.Resign(ctx))
			pause(3)
			c.Close()
		}, []string{
			"election waits", "none leads /e", "x leads /e", "election waited 0s", "election held 2s",
			"election waits", "none leads /e", "x leads /e", "election waited 0s", "election held 3s",
			"election waits", "none leads /e", "election gave up after 0s",
		}},
		"an election in a session that is closed": {func(ctx context.Context, s *session.Session) {
			_, err := election.Stand(ctx, s, "/e", &election.Options{Data: []byte("x")})
			must(err)
			pause(2)
			s.Close()
		}, []string{
			"election waits", "none leads /e", "x leads /e", "election waited 0s", "election held 2s",
			"election waits", "election lost: deposed: session closed", "none leads /e", "election gave up after 0s",
		}},
		"a member": {func(ctx context.Context, s *session.Session) {
			m, err := group.Enroll(ctx, s, "/g", "x", nil, nil)
			must(err)
			pause(2)
			must(s.Delete(ctx, "/g/x", session.AnyVersion))
			pause(1)
			m.Close()
		}, []string{"group waits", "group waited 0s", "group held 2s", "group waits", "group waited 0s", "group held 1s"}},
		"a lock that is revoked": {func(ctx context.Context, s *session.Session) {
			l, err := lock.Acquire(ctx, s, "/l", nil)
			must(err)
			synctest.Wait()
			must(lock.Revoke(ctx, s, "/l", nil))
			<-l.Revoked()
			l.Close()
		}, []string{"lock waits", "lock waited 0s", "lock revoked", "lock held 0s"}},
		"an observer of an election": {func(ctx context.Context, s *session.Session) {
			c, err := election.Stand(ctx, s, "/e", &election.Options{Data: []byte("x")})
			must(err)
			for _, led := c.Leading(); !led; _, led = c.Leading() {
				<-c.Events()
			}
			synctest.Wait()
			o, err := election.Observe(s, "/e", nil)
			must(err)
			<-o.Events()
			o.Close()
			c.Close()
		}, []string{
			"election waits", "none leads /e", "x leads /e", "election waited 0s", "x leads /e",
			"election held 0s", "election waits", "none leads /e", "election gave up after 0s",
		}},
		"a watcher of a group": {func(ctx context.Context, s *session.Session) {
			m, err := group.Enroll(ctx, s, "/g", "x", nil, nil)
			must(err)
			synctest.Wait()
			w, err := group.Watch(s, "/g", nil)
			must(err)
			<-w.Events()
			w.Close()
			m.Close()
		}, []string{"group waits", "group waited 0s", "1 members", "group held 0s"}},
		"a name that another has": {func(ctx context.Context, s *session.Session) {
			must(s.EnsurePath(ctx, "/n/x"))
			check.False(t, naming.Register(ctx, s, "/n", "x", nil, ephemeral) == nil, "it is registered")
		}, []string{"naming waits", "naming gave up after 0s", "naming failed: name held by another: held by a node of no session"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w world) {
				var c clerk
				s := check.Open(session.Open(w.Context(), w.Addrs(), &session.Options{Dialer: w.DialContext, Observer: &c}))(w)
				row.play(w.Context(), s)
				synctest.Wait()
				c.mu.Lock()
				defer c.mu.Unlock()
				check.EqualSlices(w, c.said, row.want, "told")
			})
		})
	}
}

// TestObserverOfReads: a read that finds no node has not failed.
func TestObserverOfReads(t *testing.T) {
	inBubble(t, func(w world) {
		var c clerk
		s := check.Open(session.Open(w.Context(), w.Addrs(), &session.Options{Dialer: w.DialContext, Observer: &c}))(w)
		_, _ = s.Exists(w.Context(), "/missing")
		_, _, _ = s.Get(w.Context(), "/missing")
		_, _ = naming.Lookup(w.Context(), s, "/names", "missing")
		watch := check.Have(naming.Watch(s, "/names", "missing", nil))(w)
		<-watch.Changes()
		watch.Close()
		_ = s.Delete(w.Context(), "/missing", session.AnyVersion)
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		want := []string{"delete: delete /missing: no such node"}
		check.EqualSlices(w, c.failed, want, "have failed")
	})
}
