package primitives_test

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"testing/synctest"

	"github.com/zkactors/zkactors/internal/bubble"
	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// second returns the error of a call that returns a value too.
func second[T any](_ T, err error) error { return err }

// TestEndedContext: nothing begins with a context that has ended before the call. What would change something sends no request,
// the error wraps the cause of the context and names the place, and a leader leads on.
func TestEndedContext(t *testing.T) {
	bubble.Sessions(t, zktest.Config{}, 1, session.Options{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		s, why := all[0], errors.New("why it has ended")
		ctx, end := context.WithCancelCause(t.Context())
		end(why)
		leader := check.Have(election.Stand(t.Context(), s, "/path/led", nil))(t)
		synctest.Wait()
		term, leads := leader.Leading()
		check.True(t, leads, "it does not lead")
		mutex := check.Have(lock.NewMutex(s, "/path/lock", nil))(t)
		double := check.Have(barrier.NewDouble(s, "/path/double", 2, nil))(t)
		single := check.Have(barrier.New(s, "/path/barrier", nil))(t)
		value := check.Have(config.Open(s, "/path/config", config.JSON[int], nil))(t)
		items := check.Have(queue.New(s, "/path/queue", nil))(t)
		site := check.Have(commit.Join(s, "/path/commits", "a", nil))(t)
		synctest.Wait()
		names := regexp.MustCompile(`/path|"name"`)
		before := srv.RequestsOf(s.ID()).Total()
		for what, err := range map[string]error{
			"lock.Acquire":         second(lock.Acquire(ctx, s, "/path", nil)),
			"lock.TryAcquire":      second(lock.TryAcquire(ctx, s, "/path", nil)),
			"lock.AcquireRead":     second(lock.AcquireRead(ctx, s, "/path", nil)),
			"lock.TryAcquireRead":  second(lock.TryAcquireRead(ctx, s, "/path", nil)),
			"lock.Do":              lock.Do(ctx, s, "/path", nil, func(context.Context, int64) error { return nil }),
			"lock.Revoke":          lock.Revoke(ctx, s, "/path", nil),
			"Mutex.Lock":           mutex.Lock(ctx),
			"Mutex.TryLock":        mutex.TryLock(ctx),
			"semaphore.Acquire":    second(semaphore.Acquire(ctx, s, "/path", 1, nil)),
			"semaphore.TryAcquire": second(semaphore.TryAcquire(ctx, s, "/path", 1, nil)),
			"semaphore.Do":         semaphore.Do(ctx, s, "/path", 1, nil, func(context.Context) error { return nil }),
			"election.Stand":       second(election.Stand(ctx, s, "/path", nil)),
			"Candidate.Lead":       leader.Lead(ctx, func(context.Context, int64) error { return nil }),
			"group.Enroll":         second(group.Enroll(ctx, s, "/path", "id", nil, nil)),
			"naming.Register":      naming.Register(ctx, s, "/path", "name", nil, &naming.Options{Ephemeral: true}),
			"Double.Enter":         double.Enter(ctx),
			"Barrier.TryRaise":     second(single.TryRaise(ctx)),
			"Value.Set":            value.Set(ctx, 1),
			"Queue.Put":            second(items.Put(ctx, []byte("x"))),
			"commit.Begin":         second(commit.Begin(ctx, s, "/path/commits/x", &commit.Options{Sites: []string{"a"}})),
		} {
			check.True(t, errors.Is(err, why) && names.MatchString(err.Error()), "%s: %v", what, err)
		}
		synctest.Wait()
		check.Equal(t, srv.RequestsOf(s.ID()).Total(), before, "requests")
		now, leads := leader.Leading()
		check.True(t, leads && now == term, "it leads no more")
		for _, c := range []interface{ Close() }{leader, double, single, value, site} {
			c.Close()
		}
	})
}
