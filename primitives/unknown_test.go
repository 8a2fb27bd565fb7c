package primitives_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// This file has the recipes in line beside contenders of no known layout, such as those of a lock
// that is written by hand.

// A queuer is a recipe in line.
type queuer struct {
	name string
	dir  string // of its contenders, below the path
	use  use

	refused error
}

// leasing takes all that a semaphore has. With more, a unit of the limit is left for each node that
// another client has among the leases, whatever its name is.
func leasing(opts semaphore.Options) use {
	return func(ctx context.Context, s *session.Session, path string) (func(), error) {
		return closing(semaphore.Acquire(ctx, s, path, max(1, opts.Weight), &opts))
	}
}

// leading stands until the candidate leads, or has left.
func leading(layout election.Layout) use {
	return func(_ context.Context, s *session.Session, path string) (func(), error) {
		c, err := election.New(s, path, &election.Options{Layout: layout})
		return then(c, err, func() error {
			for ev := range c.Events() {
				if _, elected := ev.(election.Elected); elected {
					return nil
				}
			}
			return c.Err()
		})
	}
}

var queuers = []queuer{
	{"lock", "", locking(lock.Standard), lock.ErrLayout},
	{"lock Curator", "", locking(lock.Curator), lock.ErrLayout},
	{"lock Kazoo", "", locking(lock.Kazoo), lock.ErrLayout},
	{"lock Prioritized", "", locking(lock.Prioritized), lock.ErrLayout},
	{"lock with a delay", "", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		return closing(lock.Acquire(ctx, s, path, &lock.Options{Delay: time.Second}))
	}, lock.ErrLayout},
	{"reader", "", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		return closing(lock.AcquireRead(ctx, s, path, nil))
	}, lock.ErrLayout},
	{"try", "", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		return closing(lock.TryAcquire(ctx, s, path, nil))
	}, lock.ErrLayout},
	{"all", "", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		return closing(lock.AcquireAll(ctx, s, []lock.Want{{Path: "/other"}, {Path: path}}, nil))
	}, lock.ErrLayout},
	{"try all", "", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		return closing(lock.TryAcquireAll(ctx, s, []lock.Want{{Path: path, Kind: lock.Write}, {Path: "/other"}}, nil))
	}, lock.ErrLayout},
	{"semaphore", "leases", leasing(semaphore.Options{}), semaphore.ErrLayout},
	{"semaphore with weights", "leases", leasing(semaphore.Options{Weight: 2}), semaphore.ErrLayout},
	{"semaphore with numbers", "leases", leasing(semaphore.Options{Numbered: true}), semaphore.ErrLayout},
	{"election", "candidates", leading(election.Standard), election.ErrLayout},
	{"election Curator", "", leading(election.Curator), election.ErrLayout},
	{"election Kazoo", "", leading(election.Kazoo), election.ErrLayout},
	{"election Selector", "", leading(election.CuratorSelector), election.ErrLayout},
}

// unknown has names as other clients may give them to sequential nodes, but for their numbers.
var unknown = []string{"", "x-", "client1", "_c_01234567-89ab-4def-8123-456789abcdef-foo-", "lock", "zk-lock-_"}

// TestUnknownContenders: a contender does not stand beside ephemeral nodes with numbers, whose
// layout it does not know, and leaves no node there. Any other node of the name is a user's.
func TestUnknownContenders(t *testing.T) {
	for _, q := range queuers {
		for _, above := range []bool{false, true} {
			if above && q.dir == "" {
				continue
			}
			for _, name := range unknown {
				t.Run(q.name+" "+name, func(t *testing.T) { besideUnknown(t, q, above, name) })
			}
		}
	}
}

// createPlain creates a node whose name gets no GUID.
func createPlain(w kit.World, s *session.Session, path string, mode session.CreateMode) (node string) {
	w.Helper()
	return check.Have(s.Multi(w.Context(), session.CreateOp(path, nil, mode)))(w)[0].Path
}

func besideUnknown(t *testing.T, q queuer, above bool, name string) {
	t.Helper()
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		const path = "/l"
		ctx, theirs, ours := w.Context(), w.Open(session.Options{}), w.Open(session.Options{})
		dir := path
		if q.dir != "" && !above {
			dir = znode.Join(path, q.dir)
			check.Have(q.use(ctx, ours, path))(w)()
		}
		create := func(name string, mode session.CreateMode) string {
			check.Must(w, theirs.EnsurePath(ctx, dir))
			return createPlain(w, theirs, znode.Join(dir, name), mode) //nolint:contextcheck // it has its own
		}
		succeeds := func(beside string) {
			end, err := q.use(ctx, ours, path)
			check.OK(w, err, "beside", beside)
			end()
		}
		left := func() []string {
			kit.Pass(10 * time.Second)
			return slices.DeleteFunc(kit.Children(w, theirs, dir), func(name string) bool { return slices.Contains([]string{"numbers", "leases", "candidates"}, name) })
		}

		node := create(name, session.EphemeralSequential)
		_, last := znode.Split(node)
		for range 2 { // the session knows more then
			end, err := q.use(ctx, ours, path)
			end()
			check.True(w, errors.Is(err, q.refused) && strings.Contains(err.Error(), last+","), "%v", err)
			check.EqualSlices(w, left(), []string{last})
		}
		data, _, err := ours.Get(ctx, path)
		check.True(w, err == nil && (len(data) == 0 || q.dir == "leases" && !above), "the path has the data %q: %v", data, err)
		check.Must(w, theirs.Delete(ctx, node, session.AnyVersion))
		if !strings.HasPrefix(q.name, "lock P") { // it would be data of the path
			succeeds("nothing")
		}

		// A lock below the line, say.
		first := create(name, session.PersistentSequential)
		second := create(name, session.PersistentSequential)
		createPlain(w, theirs, first+"/lock-", session.EphemeralSequential)
		create("ephemeral", session.Ephemeral)
		create("12345", session.Ephemeral)
		create("x-9999999999", session.Ephemeral) // no such number
		for range 2 {
			succeeds(second)
		}
		check.Len(w, left(), 5)
	})
}

// TestUnknownNewcomer: a holder that was first goes on, and logs the newcomer when its connection
// is back. A waiter is refused then.
func TestUnknownNewcomer(t *testing.T) {
	const timeout = 9 * time.Second
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		var log strings.Builder
		s := w.Open(session.Options{Timeout: timeout, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		held := check.Have(lock.Acquire(w.Context(), s, "/l", nil))(w)
		waiter := check.Open(lock.New(s, "/l", nil))(w)
		synctest.Wait()
		createPlain(w, s, "/l/", session.EphemeralSequential)
		w.Disconnect(s.ID())
		kit.Pass(time.Second + timeout/3)
		check.Is(w, waiter.Err(), lock.ErrLayout)
		check.OK(w, held.Err())
		check.Equal(w, strings.Count(log.String(), "contended for in another layout"), 1, log.String())
		check.Len(w, kit.Children(w, s, "/l"), 2)
	})
}

// TestUnknownLookedUpOnce: what a session has found to be a user's node costs nothing again, and a
// line without such names costs nothing at all.
func TestUnknownLookedUpOnce(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		ctx, s := w.Context(), w.Open(session.Options{})
		looks := func(want int) {
			w.ResetRequests()
			held := check.Have(lock.Acquire(ctx, s, "/l", nil))(w)
			check.Equal(w, w.Requests()[zktest.OpExists], want, "nodes that were looked up")
			check.OK(w, held.Release(ctx))
		}
		check.Must(w, s.EnsurePath(ctx, "/l"))
		check.Have(s.Create(ctx, "/l/config", nil, session.Persistent))(w)
		held := check.Have(lock.Acquire(ctx, s, "/l", nil))(w)
		check.OK(w, held.Release(ctx))
		looks(0)
		for range 3 {
			check.Have(s.Create(ctx, "/l/order-", nil, session.PersistentSequential))(w)
		}
		looks(3)
		looks(0)
		check.Have(s.Create(ctx, "/l/order-", nil, session.PersistentSequential))(w)
		looks(1)
	})
}

// TestUnknownAfterRestore: servers come back with older data, and give the number of a user's node
// to a contender. What a session has looked up is nothing to the next.
func TestUnknownAfterRestore(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		ctx, theirs, ours := w.Context(), w.Open(session.Options{}), w.Open(session.Options{})
		check.Must(w, theirs.EnsurePath(ctx, "/l"))
		before := w.Backup()
		users := createPlain(w, theirs, "/l/x-", session.PersistentSequential)
		held := check.Have(lock.Acquire(ctx, ours, "/l", nil))(w)
		check.OK(w, held.Release(ctx))
		w.Restore(before)
		kit.Pass(time.Minute) // all sessions are new
		check.Equal(w, createPlain(w, theirs, "/l/x-", session.EphemeralSequential), users)
		check.Fails(lock.Acquire(ctx, ours, "/l", nil))(w, lock.ErrLayout)
	})
}

// TestNoSession: a contender whose node no session owns, as a copied tree has it, goes with no
// session. Who waits behind it learns that at its end, and the log says so at once.
func TestNoSession(t *testing.T) {
	for name, row := range map[string]struct {
		dir     string
		acquire func(ctx context.Context, s *session.Session) error
	}{
		"lock": {"/r", func(ctx context.Context, s *session.Session) error {
			_, err := lock.Acquire(ctx, s, "/r", nil)
			return err
		}},
		"semaphore": {"/r/leases", func(ctx context.Context, s *session.Session) error {
			_, err := semaphore.Acquire(ctx, s, "/r", 1, nil)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Run(t, zktest.Config{}, func(w kit.World) {
				var log book
				s, old := w.Open(session.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}), w.Open(session.Options{})
				check.Must(w, row.acquire(w.Context(), old))
				names, _, err := old.Children(w.Context(), row.dir)
				check.Must(w, err)
				data, _, err := old.Get(w.Context(), row.dir+"/"+names[0])
				check.Must(w, err)
				check.Must(w, old.Delete(w.Context(), row.dir+"/"+names[0], session.AnyVersion))
				node := check.Have(old.Create(w.Context(), row.dir+"/"+names[0], data, session.Persistent))(w)
				ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
				defer cancel()
				err = row.acquire(ctx, s)
				check.Is(t, err, context.DeadlineExceeded)
				check.True(t, strings.Contains(err.Error(), names[0]+" of no session"), "%v", err)
				said := log.since()
				check.True(t, strings.Count(said, "a node of no session") == 1 && strings.Contains(said, names[0]), "%s of %s", said, node)
			})
		})
	}
}

// TestManyNumbered: where a user has very many numbered children, the lowest and the highest of
// them stand for the others: an acquisition asks for no more, and once.
func TestManyNumbered(t *testing.T) {
	kit.Run(t, zktest.Config{}, func(w kit.World) {
		s := w.Open(session.Options{})
		check.Must(w, s.EnsurePath(w.Context(), "/r"))
		for i := range 300 {
			check.Have(s.Create(w.Context(), fmt.Sprintf("/r/order-%010d", i+7), nil, session.Persistent))(w)
		}
		for i := range 2 {
			w.ResetRequests()
			l := check.Have(lock.Acquire(w.Context(), s, "/r", nil))(w)
			check.Must(w, l.Release(w.Context()))
			check.AtMost(w, w.Requests()[zktest.OpExists], 70*(1-i)+5, "reads")
		}
		for _, n := range []int{3, 999} {
			node := check.Have(s.Create(w.Context(), fmt.Sprintf("/r/%010d", n), nil, session.Ephemeral))(w)
			_, err := lock.TryAcquire(w.Context(), w.Open(session.Options{}), "/r", nil)
			check.Is(w, err, lock.ErrLayout, node)
			check.Must(w, s.Delete(w.Context(), fmt.Sprintf("/r/%010d", n), session.AnyVersion))
		}
	})
}

// copyTree copies a node and all below it, as persistent nodes.
func copyTree(w kit.World, s *session.Session, from, to string) {
	w.Helper()
	data, _, err := s.Get(w.Context(), from)
	check.Must(w, err)
	check.Have(s.Create(w.Context(), to, data, session.Persistent))(w)
	names, _, err := s.Children(w.Context(), from)
	check.Must(w, err)
	for _, name := range names {
		copyTree(w, s, from+"/"+name, to+"/"+name)
	}
}

// TestCopiedTree: parties and members whose nodes no session owns are none. The recipe goes on
// without them, and the log has their names.
func TestCopiedTree(t *testing.T) {
	for name, row := range map[string]func(ctx context.Context, w kit.World, s *session.Session, path, id string){
		"double barrier": func(ctx context.Context, w kit.World, s *session.Session, path, id string) {
			d := check.Have(barrier.NewDouble(s, path, 1, &barrier.DoubleOptions{Name: id}))(w)
			w.Cleanup(d.Close)
			for range 2 {
				check.Must(w, d.Enter(ctx))
				if id == "old" { // it stays inside
					return
				}
				check.Must(w, d.Leave(ctx))
			}
		},
		"shards": func(ctx context.Context, w kit.World, s *session.Session, path, id string) {
			const shards = 4
			m := check.Have(shard.Join(s, path, shards, &shard.Options{ID: id}))(w)
			w.Cleanup(m.Close)
			for assigned, events := 0, m.Events(); assigned < shards; {
				select {
				case ev := <-events:
					if _, is := ev.(shard.Assigned); is {
						assigned++
					}
				case <-ctx.Done():
					w.Fatalf("%s owns %v", id, m.Owned())
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Run(t, zktest.Config{}, func(w kit.World) {
				var log book
				old, s := w.Open(session.Options{}), w.Open(session.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
				ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
				defer cancel()
				row(ctx, w, old, "/from", "old")
				copyTree(w, old, "/from", "/to")
				row(ctx, w, s, "/to", "new")
				said := log.since()
				check.True(t, strings.Contains(said, "a node of no session") && strings.Contains(said, "old") && strings.Contains(said, " recipe="), "%s", said)
			})
		})
	}
}
