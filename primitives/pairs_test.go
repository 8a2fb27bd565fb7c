package primitives_test

import (
	"context"
	"path"
	"strings"
	"testing"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// TestRecordsStay: no call overwrites the record of another recipe, and each says whose it is.
func TestRecordsStay(t *testing.T) {
	records := map[string]func(w kit.World, s *session.Session){
		"/in/semaphore": func(w kit.World, s *session.Session) {
			check.Have(semaphore.Acquire(w.Context(), s, "/in/semaphore", 3, nil))(w)
		},
		"/in/prioritized": func(w kit.World, s *session.Session) {
			check.Have(lock.Acquire(w.Context(), s, "/in/prioritized", &lock.Options{Layout: lock.Prioritized}))(w)
		},
		"/in/double": func(w kit.World, s *session.Session) {
			check.OK(w, check.Open(barrier.NewDouble(s, "/in/double", 1, nil))(w).Enter(w.Context()))
		},
		"/in/latch": func(w kit.World, s *session.Session) {
			check.OK(w, check.Open(barrier.NewLatch(s, "/in/latch", 2))(w).Arrive(w.Context(), "a"))
		},
		"/in/transaction": func(w kit.World, s *session.Session) {
			check.Open(commit.Begin(w.Context(), s, "/in/transaction", &commit.Options{Sites: []string{"a"}}))(w)
		},
		"/in/shards/plan": func(w kit.World, s *session.Session) {
			zktest.Await(w, check.Open(shard.Join(s, "/in/shards", 1, nil))(w).Events(), is[shard.Assigned, shard.Event])
		},
	}
	overwrites := map[string]func(ctx context.Context, w kit.World, s *session.Session, path string) error{
		"Value.Set": func(ctx context.Context, w kit.World, s *session.Session, path string) error {
			return check.Open(config.Open(s, path, config.Text, nil))(w).Set(ctx, "mine")
		},
		"Value.Update": func(ctx context.Context, w kit.World, s *session.Session, path string) error {
			return check.Open(config.Open(s, path, config.Text, nil))(w).Update(ctx, func(string) (string, error) { return "mine", nil })
		},
		"config.Store": func(ctx context.Context, w kit.World, s *session.Session, path string) error {
			return inTransaction(ctx, w, s, path, func(tx *config.Tx, name string) error { return config.Store(tx, name, config.Text, "mine") })
		},
		"Tx.Delete": func(ctx context.Context, w kit.World, s *session.Session, path string) error {
			return inTransaction(ctx, w, s, path, (*config.Tx).Delete)
		},
		"semaphore.SetLimit": func(ctx context.Context, _ kit.World, s *session.Session, path string) error {
			return semaphore.SetLimit(ctx, s, path, 7)
		},
		"semaphore.Acquire": func(ctx context.Context, _ kit.World, s *session.Session, path string) error {
			return of(func(ctx context.Context) (any, error) { return semaphore.Acquire(ctx, s, path, 7, nil) })(ctx)
		},
		"lock.Acquire": func(ctx context.Context, _ kit.World, s *session.Session, path string) error {
			return of(func(ctx context.Context) (any, error) {
				return lock.Acquire(ctx, s, path, &lock.Options{Layout: lock.Prioritized})
			})(ctx)
		},
		"Double.Enter": func(ctx context.Context, w kit.World, s *session.Session, path string) error {
			return check.Open(barrier.NewDouble(s, path, 7, nil))(w).Enter(ctx)
		},
		"Latch.Arrive": func(ctx context.Context, w kit.World, s *session.Session, path string) error {
			return check.Open(barrier.NewLatch(s, path, 7))(w).Arrive(ctx, "mine")
		},
		"commit.Begin": func(ctx context.Context, _ kit.World, s *session.Session, path string) error {
			return of(func(ctx context.Context) (any, error) {
				return commit.Begin(ctx, s, path, &commit.Options{Sites: []string{"mine"}})
			})(ctx)
		},
	}
	kin := map[string]string{ // those that belong there
		"/in/semaphore": "semaphore.SetLimit semaphore.Acquire", "/in/prioritized": "lock.Acquire", "/in/double": "Double.Enter",
		"/in/latch": "Latch.Arrive", "/in/transaction": "commit.Begin",
	}
	for at, begin := range records {
		for name, overwrite := range overwrites {
			if strings.Contains(kin[at], name) {
				continue
			}
			t.Run(name+" at "+at, func(t *testing.T) {
				kit.Run(t, zktest.Config{}, func(w kit.World) {
					s := w.Open(session.Options{})
					begin(w, s)
					before, stat, err := s.Get(w.Context(), at)
					check.Must(w, err)
					err = overwrite(w.Context(), w, w.Open(session.Options{}), at)
					check.True(w, err != nil && strings.Contains(err.Error(), "belongs to"), "%v", err)
					after, now, err := s.Get(w.Context(), at)
					check.Must(w, err)
					check.Equal(w, string(after), string(before))
					check.Equal(w, now.Czxid, stat.Czxid)
				})
			})
		}
	}
}

func inTransaction(ctx context.Context, w kit.World, s *session.Session, node string, f func(*config.Tx, string) error) error {
	dir, name := path.Split(node)
	return check.Open(config.NewTransactor(s, path.Clean(dir), nil))(w).Do(ctx, func(tx *config.Tx) error { return f(tx, name) })
}
