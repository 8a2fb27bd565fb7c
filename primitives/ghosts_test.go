package primitives_test

import (
	"context"
	"log/slog"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A visit is how a session stands with a recipe, and leaves, and how another gets through later.
type visit struct {
	use     use
	proceed use // of another session; nil if it is use
}

// waiting has a use begin with a call that waits; its end is the end of the call's context.
func waiting(ctx context.Context, wait func(ctx context.Context) error) (func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	done := kit.Begin(func() error { return wait(ctx) })
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err == nil {
			panic("a call that was cancelled has returned without an error")
		}
	}, nil
}

func locked(acquire func(ctx context.Context, s *session.Session, path string, opts *lock.Options) (*lock.Lock, error), opts *lock.Options) use {
	return func(ctx context.Context, s *session.Session, path string) (func(), error) {
		return closing(acquire(ctx, s, path, opts))
	}
}

func leased(opts *semaphore.Options) use {
	return func(ctx context.Context, s *session.Session, path string) (func(), error) {
		return closing(semaphore.Acquire(ctx, s, path, 1, opts))
	}
}

// takes takes an item that is put when a call already waits.
func takes(ctx context.Context, s *session.Session, path string) (func(), error) {
	q, err := queue.New(s, path, nil)
	if err != nil {
		return func() {}, err
	}
	taken := kit.Begin(func() error { _, err := q.Take(ctx); return err })
	synctest.Wait()
	if _, err = q.Put(ctx, []byte("item")); err == nil {
		err = <-taken
	}
	return func() { _ = q.Close(context.WithoutCancel(ctx)) }, err
}

// worked consumes an item, which is there or is put.
func worked(put, ack bool) use {
	return func(ctx context.Context, s *session.Session, path string) (func(), error) {
		q, err := queue.New(s, path, nil)
		if err == nil && put {
			_, err = q.Put(ctx, []byte("item"))
		}
		if err != nil {
			return func() {}, err
		}
		c, err := q.Consume(nil)
		if err != nil {
			return func() {}, err
		}
		end := func() { c.Close(); _ = q.Close(context.WithoutCancel(ctx)) }
		select {
		case item := <-c.Items():
			if ack {
				return end, item.Ack(ctx)
			}
			return func() { _ = item.Ack(context.WithoutCancel(ctx)); end() }, nil
		case <-ctx.Done():
			return end, ctx.Err()
		}
	}
}

// bounded is a use of a queue that has room for one item.
func bounded(use func(ctx context.Context, q *queue.Queue) (func(), error)) use {
	return func(ctx context.Context, s *session.Session, path string) (func(), error) {
		q, err := queue.New(s, path, &queue.Options{MaxItems: 1})
		if err != nil {
			return func() {}, err
		}
		return use(ctx, q)
	}
}

// decided is the use of a site that ends a transaction without a coordinator.
func decided(ctx context.Context, s *session.Session, at string) (func(), error) {
	p, err := commit.Join(s, path.Dir(at), "a", nil)
	return then(p, err, func() error {
		for {
			select {
			case ev := <-p.Events():
				switch ev := ev.(type) {
				case commit.Prepare:
					_ = p.Vote(ctx, ev.Tx, commit.Yes) // it may be decided by now
				case commit.Committed:
					return p.Finish(ctx, ev.Tx)
				case commit.Aborted:
					return p.Finish(ctx, ev.Tx)
				default:
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

func visits() map[string]visit {
	all := map[string]visit{
		"read":           {use: locked(lock.AcquireRead, nil)},
		"write":          {use: locked(lock.AcquireWrite, nil)},
		"read by rank":   {use: locked(lock.AcquireRead, &lock.Options{Layout: lock.Prioritized}), proceed: locked(lock.AcquireWrite, &lock.Options{Layout: lock.Prioritized})},
		"delayed":        {use: locked(lock.Acquire, &lock.Options{Delay: time.Second})},
		"one lease":      {use: leased(nil)},
		"numbered lease": {use: leased(&semaphore.Options{Numbered: true})},
		"all": {use: func(ctx context.Context, s *session.Session, path string) (func(), error) {
			return closing(lock.AcquireAll(ctx, s, []lock.Want{{Path: path + "/a"}, {Path: path + "/b"}}, nil))
		}},
		"kept name": {use: func(_ context.Context, s *session.Session, path string) (func(), error) {
			r, err := naming.Keep(s, path, "a", []byte("mine"), nil)
			return then(r, err, func() error {
				for ev := range r.Events() {
					if _, registered := ev.(naming.Registered); registered {
						return nil
					}
				}
				return r.Err()
			})
		}},
		"gate": {use: func(ctx context.Context, s *session.Session, path string) (func(), error) {
			b, err := barrier.New(s, path, nil)
			if err != nil {
				return func() {}, err
			}
			g, err := b.TryRaise(ctx)
			return func() { _ = g.Lift(context.WithoutCancel(ctx)); b.Close() }, err
		}},
		"two parties": {use: func(ctx context.Context, s *session.Session, path string) (func(), error) {
			return waiting(ctx, func(ctx context.Context) error {
				d, err := barrier.NewDouble(s, path, 2, nil)
				if err != nil {
					return err
				}
				defer d.Close()
				return d.Enter(ctx)
			})
		}, proceed: func(ctx context.Context, s *session.Session, path string) (func(), error) {
			d, err := barrier.NewDouble(s, path, 2, nil)
			if err != nil {
				return func() {}, err
			}
			entered := kit.Begin(func() error { return d.Enter(ctx) })
			synctest.Wait()
			select {
			case err := <-entered: // the other party is gone
				return d.Close, cmpErr(err, "it entered with a party that is gone")
			default:
				return d.Close, nil
			}
		}},
		"waiting taker": {use: func(ctx context.Context, s *session.Session, path string) (func(), error) {
			return waiting(ctx, func(ctx context.Context) error {
				q, err := queue.New(s, path, nil)
				if err == nil {
					_, err = q.Take(ctx)
				}
				return err
			})
		}, proceed: takes},
		"waiting consumer": {use: func(_ context.Context, s *session.Session, path string) (func(), error) {
			q, err := queue.New(s, path, nil)
			if err != nil {
				return func() {}, err
			}
			return closing(q.Consume(nil))
		}, proceed: takes},
		"claim": {use: worked(true, false), proceed: worked(false, true)},
		"waiting producer": {use: bounded(func(ctx context.Context, q *queue.Queue) (func(), error) {
			if _, err := q.Put(ctx, []byte("fills it")); err != nil {
				return func() {}, err
			}
			end, err := waiting(ctx, func(ctx context.Context) error { _, err := q.Put(ctx, []byte("waits")); return err })
			return func() { end(); _ = q.Close(context.WithoutCancel(ctx)) }, err
		}), proceed: bounded(func(ctx context.Context, q *queue.Queue) (func(), error) {
			put := kit.Begin(func() error { _, err := q.Put(ctx, []byte("theirs")); return err })
			synctest.Wait()
			for range 2 {
				if _, err := q.Take(ctx); err != nil {
					return func() {}, err
				}
			}
			return func() {}, <-put
		})},
	}
	for _, p := range players {
		if _, better := all[p.name]; !better {
			all[p.name] = visit{use: p.use}
		}
	}
	transaction := all["transaction"]
	transaction.proceed = decided
	all["transaction"] = transaction
	return all
}

func cmpErr(err error, what string) error {
	if err != nil {
		return err
	}
	return &session.OpError{Op: what, Err: session.ErrUnknownOutcome}
}

// TestGhosts: a session has left, and then the servers have older data, while all sessions live on.
// The nodes that it had are back, and are deleted, with a warning, before another session stands
// there. What the session has is left to it. This holds of each recipe; of an ensemble, which
// begins a reign; of a lone server, which does not; and where servers list no nodes.
func TestGhosts(t *testing.T) {
	for mode, play := range map[string]struct {
		profile zktest.Profile
		lone    bool
	}{
		"another reign":            {zktest.ZooKeeper380, false},
		"a lone server":            {zktest.ZooKeeper39, true},
		"a reign of ZooKeeper 3.5": {zktest.ZooKeeper35, false},
		"lone with ZooKeeper 3.5":  {zktest.ZooKeeper35, true},
	} {
		for name, v := range visits() {
			t.Run(mode+"/"+name, func(t *testing.T) {
				t.Parallel()
				kit.Run(t, zktest.Config{Tick: time.Second, Profile: play.profile}, func(w kit.World) {
					haunt(w, v, play.lone)
				})
			})
		}
	}
}

func haunt(w kit.World, v visit, lone bool) {
	const at, stays = "/used/here", "/kept/here"
	var log book
	opts := session.Options{Timeout: 20 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	s, other := w.OpenGated(opts), w.OpenGated(session.Options{Timeout: 20 * time.Second})
	ids := []int64{s.ID(), other.ID()}
	end, err := v.use(w.Context(), s.Session, at)
	check.Must(w, err)
	keepEnd, err := v.use(w.Context(), s.Session, stays)
	check.Must(w, err)
	kit.Pass(time.Second)
	had := ownedIn(w, s.ID())
	theirs := func(path string) bool { return strings.HasPrefix(path, at) }
	ghosts := slices.DeleteFunc(slices.Clone(had), func(p string) bool { return !theirs(p) })
	if len(ghosts) == 0 {
		keepEnd()
		end()
		return // nothing of it is ephemeral
	}
	backup := w.Backup()
	end()
	kit.Pass(5 * time.Second)
	check.True(w, !slices.ContainsFunc(ownedIn(w, s.ID()), theirs), "it has not left: %v", ownedIn(w, s.ID()))

	if lone {
		s.Refuse()
		other.Refuse()
		w.Restore(backup)
		fresh := w.Open(session.Options{})
		transact(w, fresh)
		check.EqualSlices(w, ownedIn(w, s.ID()), had, "restored")
		kit.Pass(time.Second) // an attempt fails
		s.Mend()
		other.Mend()
	} else {
		w.RestoreInReign(backup, 1)
		check.EqualSlices(w, ownedIn(w, s.ID()), had, "restored")
	}
	kit.Pass(5 * time.Second)
	check.True(w, s.ID() == ids[0] && other.ID() == ids[1], "a session has ended")
	left := ownedIn(w, s.ID())
	check.True(w, !slices.ContainsFunc(left, theirs), "ghosts: %v", left)
	for _, path := range had {
		check.True(w, theirs(path) || slices.Contains(left, path), "%s is gone", path)
	}
	proceed := v.proceed
	if proceed == nil {
		proceed = v.use
	}
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Minute) // sites wait before they decide
	defer cancel()
	done, err := proceed(ctx, other.Session, at)
	defer done()
	check.Must(w, err)
	text := log.since()
	for _, path := range ghosts {
		check.True(w, strings.Contains(text, path), "no warning names %s: %s", path, text)
	}
	check.True(w, !strings.Contains(text, stays), "%s", text)
	keepEnd()
	kit.Pass(5 * time.Second)
	check.True(w, len(ownedIn(w, s.ID())) == 0, "left: %v", ownedIn(w, s.ID()))
}

// ownedIn returns the nodes of a session, as an observer sees them.
func ownedIn(w kit.World, id int64) []string {
	w.Helper()
	o := check.Open(session.Open(w.Context(), w.Addrs(), &session.Options{Dialer: w.DialContext}))(w.T)
	defer o.Close()
	return owned(w, o, id)
}
