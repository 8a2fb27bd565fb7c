package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const migration = "/once/migration-7"

func onces(t *testing.T, n int, play func(ctx context.Context, srv *zktest.Server, all []*session.Session)) {
	t.Helper()
	kit.Sessions(t, zktest.Config{Tick: time.Second}, n, session.Options{Timeout: 12 * time.Second, ServerTick: time.Second}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		t.Helper()
		play(t.Context(), srv, all)
	})
}

// TestOnce: of many callers one runs the function, and all receive its outcome, also later.
func TestOnce(t *testing.T) {
	onces(t, 4, func(ctx context.Context, srv *zktest.Server, all []*session.Session) {
		var runs atomic.Int32
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() {
				got, err := lock.Once(ctx, all[i%4], migration, nil, func(_ context.Context, token int64) ([]byte, error) {
					check.True(t, token > 0, "no token")
					kit.Pass(time.Second)
					return fmt.Appendf(nil, "run %d", runs.Add(1)), nil
				})
				check.True(t, err == nil && string(got) == "run 1", "%q, %v", got, err)
			})
		}
		callers.Wait()
		srv.ResetRequests()
		got, err := lock.Once(ctx, all[0], migration, nil, func(context.Context, int64) ([]byte, error) { panic("again") })
		check.True(t, err == nil && string(got) == "run 1" && srv.Requests().Total() == 1, "%q, %v, %v", got, err, srv.Requests())
		got, done, err := lock.Outcome(ctx, all[1], migration)
		check.True(t, err == nil && done && string(got) == "run 1", "%q, %v, %v", got, done, err)
		check.OK(t, all[0].Delete(ctx, migration+"/outcome", session.AnyVersion))
		got, err = lock.Once(ctx, all[0], migration, nil, func(context.Context, int64) ([]byte, error) { return nil, nil })
		check.True(t, err == nil && got == nil, "%q, %v", got, err)
	})
}

// TestOnceFails: a function that has failed runs again, in the next caller.
func TestOnceFails(t *testing.T) {
	onces(t, 2, func(ctx context.Context, _ *zktest.Server, all []*session.Session) {
		why := errors.New("disk full")
		_, err := lock.Once(ctx, all[0], migration, nil, func(context.Context, int64) ([]byte, error) { return []byte("x"), why })
		check.Is(t, err, why)
		_, done, err := lock.Outcome(ctx, all[0], migration)
		check.True(t, !done && err == nil, "%v", err)
		got, err := lock.Once(ctx, all[1], migration, nil, func(context.Context, int64) ([]byte, error) { return []byte("good"), nil })
		check.True(t, err == nil && string(got) == "good", "%q, %v", got, err)

		_, err = lock.Once(ctx, all[0], "/once/lost", nil, func(work context.Context, _ int64) ([]byte, error) {
			names, _, err := all[1].Children(ctx, "/once/lost/runners")
			check.True(t, err == nil && len(names) == 1, "%v, %v", names, err)
			check.OK(t, all[1].Delete(ctx, "/once/lost/runners/"+names[0], session.AnyVersion))
			<-work.Done()
			check.Is(t, context.Cause(work), lock.ErrLost)
			return []byte("late"), nil
		})
		check.Is(t, err, lock.ErrLost)
		_, done, err = lock.Outcome(ctx, all[0], "/once/lost")
		check.True(t, !done && err == nil, "%v", err)

		_, err = lock.Once(ctx, all[0], migration, nil, nil)
		check.Is(t, err, session.ErrInvalidArgument)
		_, err = lock.Once(ctx, all[0], "migration", nil, func(context.Context, int64) ([]byte, error) { return nil, nil })
		check.Is(t, err, session.ErrInvalidPath)
	})
}

// TestOnceTooLarge: an outcome that no node can have is not recorded, and not returned.
func TestOnceTooLarge(t *testing.T) {
	onces(t, 1, func(ctx context.Context, _ *zktest.Server, all []*session.Session) {
		large := func(context.Context, int64) ([]byte, error) { return make([]byte, 2<<20), nil }
		got, err := lock.Once(ctx, all[0], migration, nil, large)
		check.Is(t, err, session.ErrTooLarge)
		check.True(t, got == nil, "%d bytes", len(got))
		_, done, err := lock.Outcome(ctx, all[0], migration)
		check.True(t, !done && err == nil, "%v, %v", done, err)
	})
}

// TestOnceByHand: an outcome that another client records while the function runs stays.
func TestOnceByHand(t *testing.T) {
	onces(t, 1, func(ctx context.Context, _ *zktest.Server, all []*session.Session) {
		_, err := lock.Once(ctx, all[0], migration, nil, func(ctx context.Context, _ int64) ([]byte, error) {
			_, err := all[0].Create(ctx, migration+"/outcome", []byte("by hand"), session.Persistent)
			return []byte("run"), err
		})
		check.Is(t, err, lock.ErrLost)
		outcome, done, err := lock.Outcome(ctx, all[0], migration)
		check.True(t, done && err == nil && string(outcome) == "by hand", "%s, %v, %v", outcome, done, err)
	})
}

// TestOnceTrouble loses each request, or its reply: the function runs once, and its outcome is
// recorded.
func TestOnceTrouble(t *testing.T) {
	for _, lose := range []func(*zktest.Server, zktest.Match){(*zktest.Server).DropRequest, (*zktest.Server).DropReply} {
		for skip := range 20 {
			onces(t, 2, func(ctx context.Context, srv *zktest.Server, all []*session.Session) {
				lose(srv, zktest.Match{Session: all[0].ID(), Skip: skip})
				runs := 0
				for _, s := range all {
					got, err := lock.Once(ctx, s, migration, nil, func(context.Context, int64) ([]byte, error) {
						runs++
						return []byte("good"), nil
					})
					check.True(t, err == nil && string(got) == "good", "%d: %q, %v", skip, got, err)
				}
				check.Equal(t, runs, 1, skip)
			})
		}
	}
}

// TestOnceEndsInDoubt: the context ends while the outcome is being recorded. Nobody knows whether
// it was, and the error says so.
func TestOnceEndsInDoubt(t *testing.T) {
	onces(t, 1, func(ctx context.Context, srv *zktest.Server, all []*session.Session) {
		for i := range 32 {
			path := fmt.Sprint(migration, "-", i)
			soon, end := context.WithTimeout(ctx, 3*time.Second)
			_, err := lock.Once(soon, all[0], path, nil, func(context.Context, int64) ([]byte, error) {
				srv.Delay(zktest.Match{Op: zktest.OpMulti}, 6*time.Second)
				return []byte("x"), nil
			})
			end()
			check.Is(t, err, session.ErrUnknownOutcome, path)
			check.Is(t, err, context.DeadlineExceeded, path)
			kit.Pass(6 * time.Second)
		}
	})
}
