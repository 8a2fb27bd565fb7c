package primitives_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/internal/nodes"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A use is the ordinary use of a recipe at a path, up to the moment at which it holds something. It
// returns what ends the use, also with an error.
type use func(ctx context.Context, s *session.Session, path string) (end func(), err error)

// closing has a use end with the Close of its handle.
func closing[H interface{ Close() }](h H, err error) (func(), error) {
	if err != nil {
		return func() {}, err
	}
	return h.Close, nil
}

// then goes on with a handle that was opened.
func then[H interface{ Close() }](h H, err error, f func() error) (func(), error) {
	if err != nil {
		return func() {}, err
	}
	return h.Close, f()
}

func locking(layout lock.Layout) use {
	return func(ctx context.Context, s *session.Session, path string) (func(), error) {
		return closing(lock.Acquire(ctx, s, path, &lock.Options{Layout: layout}))
	}
}

func standing(layout election.Layout) use {
	return func(ctx context.Context, s *session.Session, path string) (func(), error) {
		return closing(election.Stand(ctx, s, path, &election.Options{Layout: layout}))
	}
}

func putting(layout queue.Layout) use {
	return func(ctx context.Context, s *session.Session, path string) (func(), error) {
		q, err := queue.NewFlat(s, path, layout, nil)
		if err == nil {
			_, err = q.Put(ctx, []byte("item"))
			return func() { _ = q.Close(context.WithoutCancel(ctx)) }, err
		}
		return func() {}, err
	}
}

func enrolling(layout group.Layout) use {
	return func(ctx context.Context, s *session.Session, path string) (func(), error) {
		m, err := group.Enroll(ctx, s, path, "a", nil, &group.Options{Layout: layout})
		return then(m, err, func() error {
			for ev := range m.Events() {
				switch ev := ev.(type) {
				case group.MembersChanged:
					return nil
				case group.Blinded:
					return ev.Err
				case group.Left:
					return ev.Err
				case group.Joined, group.Suspended, group.Resumed, group.Gone:
				}
			}
			return m.Err()
		})
	}
}

func announcing(format discovery.Format, id string) use {
	return func(ctx context.Context, s *session.Session, at string) (func(), error) {
		dir, service := path.Split(at)
		dir = path.Clean(dir)
		r, err := discovery.Announce(ctx, s, dir, discovery.Instance{Service: service, ID: id, Address: "host", Port: 1}, &discovery.Options{Format: format})
		return then(r, err, func() error {
			watcher, err := discovery.Watch(s, dir, service, &discovery.WatchOptions{Format: format})
			if err != nil {
				return err
			}
			defer watcher.Close()
			for range watcher.Changes() {
				return nil
			}
			return watcher.Err()
		})
	}
}

// A player is a recipe in the table of pairs.
type player struct {
	name string
	use  use
}

var players = []player{
	{"lock", locking(lock.Standard)},
	{"lock Kazoo", locking(lock.Kazoo)},
	{"lock Prioritized", locking(lock.Prioritized)},
	{"once", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		_, err := lock.Once(ctx, s, path, nil, nothing)
		return func() {}, err
	}},
	{"semaphore", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		return closing(semaphore.Acquire(ctx, s, path, 2, nil))
	}},
	{"election", standing(election.Standard)},
	{"election Curator", standing(election.Curator)},
	{"election Kazoo", standing(election.Kazoo)},
	{"election Selector", standing(election.CuratorSelector)},
	{"barrier", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		b, err := barrier.New(s, path, nil)
		end, err := then(b, err, func() error { return b.Raise(ctx) })
		if err != nil {
			return end, err
		}
		return func() { _ = b.Lift(context.Background()); end() }, nil
	}},
	{"gate", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		b, err := barrier.New(s, path, nil)
		return then(b, err, func() error { _, err := b.TryRaise(ctx); return err })
	}},
	{"double barrier", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		b, err := barrier.NewDouble(s, path, 1, nil)
		return then(b, err, func() error { return b.Enter(ctx) })
	}},
	{"latch", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		l, err := barrier.NewLatch(s, path, 2)
		return then(l, err, func() error { return l.Arrive(ctx, "a") })
	}},
	{"queue", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		q, err := queue.New(s, path, nil)
		if err == nil {
			_, err = q.Put(ctx, []byte("item"))
			return func() { _ = q.Close(context.Background()) }, err
		}
		return func() {}, err
	}},
	{"queue Curator", putting(queue.Curator)},
	{"queue Kazoo", putting(queue.Kazoo)},
	{"transaction", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		return closing(commit.Begin(ctx, s, path, &commit.Options{Sites: []string{"a"}}))
	}},
	{"site", func(_ context.Context, s *session.Session, path string) (func(), error) {
		p, err := commit.Join(s, path, "a", nil)
		return then(p, err, func() error {
			kit.Pass(time.Second)
			return p.Err()
		})
	}},
	{"value", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		v, err := config.Open(s, path, config.Text, nil)
		return then(v, err, func() error { return v.Set(ctx, "mine") })
	}},
	{"transactor", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		t, err := config.NewTransactor(s, path, nil)
		return then(t, err, func() error {
			return t.Do(ctx, func(tx *config.Tx) error { return config.Store(tx, "a", config.Text, "mine") })
		})
	}},
	{"group", enrolling(group.Standard)},
	{"group Kazoo", enrolling(group.KazooParty)},
	{"name", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		if err := naming.Register(ctx, s, path, "a", []byte("mine"), nil); err != nil {
			return func() {}, err
		}
		_, err := naming.List(ctx, s, path)
		return func() {}, err
	}},
	{"instance", announcing(discovery.Curator, "a")},
	{"server set", announcing(discovery.ServerSet, "member_0000000001")},
	{"shards", func(ctx context.Context, s *session.Session, path string) (func(), error) {
		m, err := shard.Join(s, path, 1, nil)
		return then(m, err, func() error {
			for ev := range m.Events() {
				switch ev := ev.(type) {
				case shard.Assigned:
					return nil
				case shard.Left:
					return ev.Err
				case shard.Joined, shard.Suspended, shard.Resumed, shard.Gone, shard.Revoke, shard.Lost:
				}
			}
			return m.Err()
		})
	}},
}

// The signs of the table of pairs, for what the second recipe meets.
const (
	refuses   = "r" // it refuses the path with ErrForeign
	layout    = "l" // it refuses another layout of its own recipe
	ephemeral = "c" // the server refuses children of an ephemeral node
	taken     = "t" // its user's name is taken
	same      = "s" // it is the same recipe: both stand in one line, or share the nodes
	beside    = "o" // it only creates nodes of its users' names, and lists nothing before that
	valued    = "v" // one is a value, the data of the path; the other stands below
	named     = "u" // the first has only nodes of its users' names
	empty     = "e" // the first has left an empty node, or none
)

// met returns the sign for the error with which the use of a recipe began; "" for none.
func met(err error) string {
	switch {
	case errors.Is(err, lock.ErrForeign):
		return refuses
	case errors.Is(err, lock.ErrLayout), errors.Is(err, queue.ErrLayout):
		return layout
	case errors.Is(err, session.ErrNoChildrenForEphemerals):
		return ephemeral
	case errors.Is(err, naming.ErrTaken), errors.Is(err, commit.ErrExists):
		return taken
	}
	return ""
}

// why returns the sign for why the second recipe does not refuse the path; "" if it has to.
func why(first, second player, left bool) string {
	users := []string{"transactor", "group", "group Kazoo", "name", "instance", "server set"}
	lines := [][]string{{"lock", "election Selector"}, {"lock Kazoo", "election Kazoo"}, {"barrier", "gate"}}
	switch {
	case first.name == second.name:
		return same
	case slices.ContainsFunc(lines, func(line []string) bool {
		return slices.Contains(line, first.name) && slices.Contains(line, second.name)
	}):
		return same
	case slices.Contains([]string{"barrier"}, first.name), left && slices.Contains([]string{
		"lock", "lock Kazoo", "election Curator", "election Kazoo", "election Selector", "gate", "group", "group Kazoo", "instance", "server set",
	}, first.name):
		return empty
	case first.name == "value" || second.name == "value":
		return valued
	case slices.Contains(users, second.name):
		return beside
	case slices.Contains(users, first.name):
		return named
	}
	return ""
}

var rewrite = flag.Bool("rewrite", false, "write the table of pairs into docs/pairs.md")

const pairsFile = "../docs/pairs.md"

// TestTable: of two recipes at one path, the second one refuses it, or docs/pairs.md says why not.
// Whatever it does, the data of the first stays, and if it refuses, it leaves no node.
func TestTable(t *testing.T) {
	text := string(check.Have(os.ReadFile(pairsFile))(t))
	before, rest, _ := strings.Cut(text, "```text\n")
	table, after, found := strings.Cut(rest, "```")
	check.Require(t, found, "there is no table")
	written := strings.Split(table, "\n")
	chosen := hasten.OneIn(2, 7)
	head := fmt.Sprintf("%21s", "")
	for i := range players {
		head += fmt.Sprintf("%2d ", i+1)
	}
	rows := []string{strings.TrimRight(head, " ")}
	for i, first := range players {
		row := fmt.Sprintf("%2d %-17s ", i+1, first.name)
		for _, second := range players {
			for _, left := range []bool{false, true} {
				at := len(row)
				if !*rewrite && !chosen() {
					row += written[i+1][at : at+1]
					continue
				}
				err := meet(t, first, second, left)
				sign := met(err)
				if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, barrier.ErrRaised) { // it waits for the first
					sign = why(first, second, left)
				}
				check.True(t, sign != "", "%s, and then %s, left %v: %v", first.name, second.name, left, err)
				if row += cmp.Or(sign, "?"); !*rewrite && row[at:] != written[i+1][at:at+1] {
					t.Errorf("%s, and then %s, left %v: %s, and %s by the table: %v", first.name, second.name, left, sign, written[i+1][at:at+1], err)
				}
			}
			row += " "
		}
		rows = append(rows, strings.TrimRight(row, " "))
	}
	table = strings.Join(rows, "\n") + "\n"
	t.Log("\n" + table)
	if *rewrite {
		check.Must(t, os.WriteFile(pairsFile, []byte(before+"```text\n"+table+"```"+after), 0o600))
	}
}

func meet(t *testing.T, first, second player, left bool) (met error) {
	t.Run(fmt.Sprintf("%s then %s left=%v", first.name, second.name, left), func(t *testing.T) {
		kit.Run(t, zktest.Config{}, func(w kit.World) {
			const at = "/in/path"
			one, two, observer := w.Open(session.Options{}), w.Open(session.Options{}), w.Open(session.Options{})
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute) // longer than any wait for a ghost
			defer cancel()
			end, err := first.use(ctx, one, at)
			check.Must(w, err)
			if left {
				end()
				one.Close()
				synctest.Wait()
			}
			synctest.Wait()
			before := contents(w, observer)
			over, err := second.use(ctx, two, at)
			met = err
			over()
			two.Close()
			synctest.Wait()
			after := contents(w, observer)
			for node, data := range before {
				now, stands := after[node]
				if data != "" && (!stands || now != data) && why(first, second, false) != same {
					t.Errorf("%s had the data %q, and has %q", node, data, now)
				}
			}
			for node := range after {
				if _, stood := before[node]; met != nil && !stood && node != "/in/"+nodes.QueueReceipts {
					t.Errorf("%s stays", node)
				}
			}
			if !left {
				end()
			}
		})
	})
	return met
}

// contents returns the data of all nodes.
func contents(w kit.World, s *session.Session) map[string]string {
	all := make(map[string]string)
	for _, node := range w.Paths() {
		data, _, err := s.Get(w.Context(), node)
		if err == nil {
			all[node] = string(data)
		}
	}
	return all
}
