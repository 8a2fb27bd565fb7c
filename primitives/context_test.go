package primitives_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// A holder has a handle of each recipe.
type holder struct {
	session   *session.Session
	mutex     *lock.Mutex
	lock      *lock.Lock
	lease     *semaphore.Lease
	leader    *election.Candidate
	waits     *election.Candidate // behind leader
	member    *group.Membership
	name      *naming.Registration
	double    *barrier.Double
	barrier   *barrier.Barrier
	gate      *barrier.Gate
	value     *config.Value[int]
	queue     *queue.Queue
	site      *commit.Participant
	undecided *commit.Transaction
}

// hold makes the handles, and waits until they hold what they are for.
func hold(t *testing.T, s *session.Session) *holder {
	t.Helper()
	ctx := t.Context()
	h := &holder{
		session: s,
		mutex:   check.Have(lock.NewMutex(s, "/path/mutex", nil))(t),
		lock:    check.Have(lock.AcquireWrite(ctx, s, "/path/held", nil))(t),
		lease:   check.Have(semaphore.Acquire(ctx, s, "/path/leased", 2, nil))(t),
		leader:  check.Have(election.Stand(ctx, s, "/path/led", nil))(t),
		member:  check.Have(group.Enroll(ctx, s, "/path/group", "me", nil, nil))(t),
		name:    check.Have(naming.Keep(s, "/path/names", "mine", nil, nil))(t),
		double:  check.Have(barrier.NewDouble(s, "/path/double", 2, nil))(t),
		barrier: check.Have(barrier.New(s, "/path/barrier", nil))(t),
		value:   check.Have(config.Open(s, "/path/config", config.JSON[int], nil))(t),
		queue:   check.Have(queue.New(s, "/path/queue", nil))(t),
		site:    check.Have(commit.Join(s, "/path/commits", "a", nil))(t),
	}
	h.waits = check.Have(election.Stand(ctx, s, "/path/led", nil))(t)
	h.gate = check.Have(h.barrier.TryRaise(ctx))(t)
	h.undecided = check.Have(commit.Begin(ctx, s, "/path/commits/0", &commit.Options{Sites: []string{"a"}}))(t)
	synctest.Wait()
	return h
}

func (h *holder) close() {
	for _, c := range []interface{ Close() }{
		h.lock, h.lease, h.leader, h.waits, h.member, h.name, h.double, h.barrier, h.value, h.site, h.undecided,
	} {
		c.Close()
	}
}

// second returns the error of a call that returns a value too.
func second[T any](_ T, err error) error { return err }

// begin makes each call that begins something with ctx, and returns their errors.
func (h *holder) begin(ctx context.Context) map[string]error {
	s := h.session
	return map[string]error{
		"lock.Acquire":         second(lock.Acquire(ctx, s, "/path", nil)),
		"lock.TryAcquire":      second(lock.TryAcquire(ctx, s, "/path", nil)),
		"lock.AcquireRead":     second(lock.AcquireRead(ctx, s, "/path", nil)),
		"lock.TryAcquireRead":  second(lock.TryAcquireRead(ctx, s, "/path", nil)),
		"lock.AcquireWrite":    second(lock.AcquireWrite(ctx, s, "/path", nil)),
		"lock.TryAcquireWrite": second(lock.TryAcquireWrite(ctx, s, "/path", nil)),
		"lock.Do":              lock.Do(ctx, s, "/path", nil, func(context.Context, int64) error { return nil }),
		"lock.Revoke":          lock.Revoke(ctx, s, "/path", nil),
		"Mutex.Lock":           h.mutex.Lock(ctx),
		"Mutex.TryLock":        h.mutex.TryLock(ctx),
		"semaphore.Acquire":    second(semaphore.Acquire(ctx, s, "/path", 1, nil)),
		"semaphore.TryAcquire": second(semaphore.TryAcquire(ctx, s, "/path", 1, nil)),
		"semaphore.Do":         semaphore.Do(ctx, s, "/path", 1, nil, func(context.Context) error { return nil }),
		"semaphore.SetLimit":   semaphore.SetLimit(ctx, s, "/path/leased", 3),
		"election.Stand":       second(election.Stand(ctx, s, "/path", nil)),
		"Candidate.Lead":       h.leader.Lead(ctx, func(context.Context, int64) error { return nil }),
		"group.Enroll":         second(group.Enroll(ctx, s, "/path", "id", nil, nil)),
		"naming.Register":      naming.Register(ctx, s, "/path", "name", nil, nil),
		"Double.Enter":         h.double.Enter(ctx),
		"Barrier.Raise":        h.barrier.Raise(ctx),
		"Barrier.TryRaise":     second(h.barrier.TryRaise(ctx)),
		"Barrier.Lift":         h.barrier.Lift(ctx),
		"Value.Set":            h.value.Set(ctx, 1),
		"Value.Update":         h.value.Update(ctx, func(old int) (int, error) { return old + 1, nil }),
		"Queue.Put":            second(h.queue.Put(ctx, []byte("x"))),
		"Queue.Take":           second(h.queue.Take(ctx)),
		"Queue.Run":            h.queue.Run(ctx, 1, func(context.Context, queue.Item) error { return nil }),
		"commit.Begin":         second(commit.Begin(ctx, s, "/path/commits/x", &commit.Options{Sites: []string{"a"}})),
		"Participant.Finish":   h.site.Finish(ctx, h.undecided.Tx()),
	}
}

// others makes each of the other calls with ctx, and returns their errors.
func (h *holder) others(ctx context.Context) map[string]error {
	s := h.session
	_, _, err := h.value.Get(ctx)
	return map[string]error{
		"lock.Contenders":       second(lock.Contenders(ctx, s, "/path/held", nil)),
		"Lock.Release":          h.lock.Release(ctx),
		"Lock.Downgrade":        h.lock.Downgrade(ctx),
		"Mutex.Unlock":          h.mutex.Unlock(ctx),
		"Lease.Release":         h.lease.Release(ctx),
		"semaphore.Limit":       second(semaphore.Limit(ctx, s, "/path/leased")),
		"semaphore.Holders":     second(semaphore.Holders(ctx, s, "/path/leased")),
		"election.Candidates":   second(election.Candidates(ctx, s, "/path/led", nil)),
		"Candidate.Acknowledge": h.leader.Acknowledge(ctx),
		"Candidate.Resign":      h.leader.Resign(ctx),
		"Candidate.Transfer":    h.leader.Transfer(ctx, h.waits.Node()),
		"Membership.Update":     h.member.Update(ctx, nil),
		"Membership.Leave":      h.member.Leave(ctx),
		"Registration.Update":   h.name.Update(ctx, nil),
		"naming.Unregister":     naming.Unregister(ctx, s, "/path/names", "mine"),
		"naming.Lookup":         second(naming.Lookup(ctx, s, "/path/names", "mine")),
		"naming.List":           second(naming.List(ctx, s, "/path/names")),
		"Double.Leave":          h.double.Leave(ctx),
		"Barrier.Wait":          h.barrier.Wait(ctx),
		"Gate.Lift":             h.gate.Lift(ctx),
		"Value.Get":             err,
		"Queue.TryTake":         second(h.queue.TryTake(ctx)),
		"Queue.TakeN":           second(h.queue.TakeN(ctx, 2)),
		"Queue.Len":             second(h.queue.Len(ctx)),
		"Queue.Peek":            second(h.queue.Peek(ctx)),
		"Queue.Close":           h.queue.Close(ctx),
		"Participant.Vote":      h.site.Vote(ctx, h.undecided.Tx(), commit.Yes),
		"Transaction.Wait":      second(h.undecided.Wait(ctx)),
		"commit.Resume":         second(commit.Resume(ctx, s, "/path/commits")),
		"commit.List":           second(commit.List(ctx, s, "/path/commits")),
		"inspect.Look":          second(inspect.Look(ctx, s, "/path", nil)),
		"watch.UntilExists":     watch.UntilExists(ctx, s, "/none"),
		"watch.UntilGone":       watch.UntilGone(ctx, s, "/path"),
	}
}

// TestEndedContext: nothing begins with a context that has ended before the call. What would change
// something sends no request, the error wraps the cause of the context and names the place, and a
// leader leads on.
func TestEndedContext(t *testing.T) {
	kit.Sessions(t, zktest.Config{}, 1, session.Options{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		h, why := hold(t, all[0]), errors.New("why it has ended")
		defer h.close()
		ctx, end := context.WithCancelCause(t.Context())
		end(why)
		term, leads := h.leader.Leading()
		check.True(t, leads, "it does not lead")
		names := regexp.MustCompile(`path|"name"`)
		before := srv.RequestsOf(all[0].ID()).Total()
		for what, err := range h.begin(ctx) {
			check.True(t, errors.Is(err, why) && names.MatchString(err.Error()), "%s: %v", what, err)
		}
		synctest.Wait()
		check.Equal(t, srv.RequestsOf(all[0].ID()).Total(), before, "requests")
		now, leads := h.leader.Leading()
		check.True(t, leads && now == term, "it leads no more")
	})
}

// TestNilContext: every call refuses a context that is nil, says so, and sends nothing. What is
// held stays so.
func TestNilContext(t *testing.T) {
	kit.Sessions(t, zktest.Config{}, 1, session.Options{}, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		h := hold(t, all[0])
		defer h.close()
		before := srv.RequestsOf(all[0].ID()).Total()
		var none context.Context
		for _, errs := range []map[string]error{h.begin(none), h.others(none)} {
			for what, err := range errs {
				check.True(t, errors.Is(err, session.ErrInvalidArgument) && strings.Contains(err.Error(), "context"), "%s: %v", what, err)
			}
		}
		synctest.Wait()
		check.Equal(t, srv.RequestsOf(all[0].ID()).Total(), before, "requests")
		_, leads := h.leader.Leading()
		check.True(t, leads && h.lock.Token() != 0 && h.gate.Err() == nil && h.member.Err() == nil, "something is not held any more")
	})
}
