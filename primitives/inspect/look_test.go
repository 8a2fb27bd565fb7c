package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// inBubble runs a test with so many sessions.
func inBubble(t *testing.T, n int, f func(t *testing.T, srv *zktest.Server, all []*session.Session)) {
	t.Helper()
	kit.Sessions(t, zktest.Config{}, n, session.Options{}, f)
}

func look(t *testing.T, s *session.Session, path string) *inspect.Survey {
	t.Helper()
	return check.Have(inspect.Look(t.Context(), s, path, nil))(t)
}

// the returns the only thing of a survey.
func the(t *testing.T, survey *inspect.Survey) inspect.Thing {
	t.Helper()
	if len(survey.Things) != 1 || survey.Truncated {
		text, _ := json.MarshalIndent(survey, "", " ")
		t.Fatalf("%s", text)
	}
	return survey.Things[0]
}

// brief returns a thing's contenders as lines.
func brief(thing inspect.Thing) string {
	var all []string
	for _, c := range thing.Contenders {
		text := c.Identity + " " + c.Wants
		if c.Holds {
			text += " holds"
		}
		if c.Revoked {
			text += " revoked"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func opts(name string, layout lock.Layout) *lock.Options {
	return &lock.Options{Data: []byte(name), Layout: layout}
}

// Locks of every layout: who holds, who waits, and who was asked to release.
func TestLocks(t *testing.T) {
	layouts := map[lock.Layout]string{lock.Standard: "standard", lock.Curator: "curator", lock.Kazoo: "kazoo", lock.Prioritized: "prioritized"}
	for layout, name := range layouts {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 4, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
				first := check.Open(lock.AcquireRead(t.Context(), all[0], "/locks/l", opts("a", layout)))(t)
				check.Open(lock.AcquireRead(t.Context(), all[1], "/locks/l", opts("b", layout)))(t)
				<-time.After(time.Minute)
				check.Open(lock.NewWrite(all[2], "/locks/l", opts("c", layout)))(t)
				synctest.Wait()
				check.Must(t, lock.RevokeNode(t.Context(), all[3], "/locks/l/"+first.Node()[len("/locks/l/"):], &lock.RevokeOptions{Layout: layout}))
				thing := the(t, look(t, all[3], "/"))
				wants := "write"
				if layout == lock.Kazoo {
					wants = "exclusive" // they are the same there
				}
				marked := "a"
				if layout == lock.Curator {
					marked = "" // its mark replaces the data
				}
				want := marked + " read holds revoked; b read holds; c " + wants
				if got := brief(thing); got != want || thing.Layout != name || thing.Kind != inspect.Lock || thing.Path != "/locks/l" {
					t.Errorf("%+v: %s, want %s", thing, got, want)
				}
				if c := thing.Contenders[2]; !c.Since.After(thing.Contenders[0].Since) || len(thing.Holders()) != 2 || len(thing.Waiters()) != 1 {
					t.Errorf("%+v", thing)
				}
				if token := thing.Contenders[0].Czxid; layout != lock.Prioritized && token != first.Token() {
					t.Errorf("token %d, want %d", token, first.Token())
				}
			})
		})
	}
}

func TestEmpty(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		if s := look(t, all[0], "/nothing"); s.Exists || len(s.Things) > 0 {
			t.Errorf("%+v", s)
		}
		if s := look(t, all[0], "/"); !s.Exists || len(s.Things) > 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestSemaphore(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		s := all[0]
		join := func(name string, weight int) *semaphore.Lease {
			l := check.Have(semaphore.New(s, "/sem", 4, &semaphore.Options{Data: []byte(name), Weight: weight}))(t)
			synctest.Wait()
			return l
		}
		check.Must(t, semaphore.SetLimit(t.Context(), s, "/sem", 4))
		if thing := the(t, look(t, s, "/sem")); thing.Kind != inspect.Semaphore || thing.Limit != 4 || thing.Room != 4 {
			t.Errorf("%+v", thing)
		}
		for i, name := range []string{"a", "b", "c"} {
			defer join(name, i+1).Close()
		}
		defer join("d", 1).Close()
		thing := the(t, look(t, s, "/"))
		if want := "a lease holds; b lease holds; c lease; d lease"; brief(thing) != want || thing.Held != 3 || thing.Room != 1 || thing.Limit != 4 {
			t.Errorf("%+v: %s", thing, brief(thing))
		}
		check.Must(t, semaphore.SetLimit(t.Context(), s, "/sem", 3))
		check.Must(t, semaphore.SetLimit(t.Context(), s, "/sem", 1))
		synctest.Wait()
		thing = the(t, look(t, s, "/sem"))
		if thing.Held != 3 || thing.Room != -2 {
			t.Errorf("%+v: %s", thing, brief(thing))
		}
	})
}

func TestElections(t *testing.T) {
	for _, layout := range []election.Layout{election.Standard, election.Curator} {
		t.Run(layout.String(), func(t *testing.T) {
			inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
				for i, name := range []string{"a", "b"} {
					check.Open(election.New(all[i], "/e", &election.Options{Data: []byte(name), Layout: layout}))(t)

					synctest.Wait()
				}
				thing := the(t, look(t, all[0], "/"))
				if brief(thing) != "a lead holds; b lead" || thing.Layout != layout.String() || thing.Leader == nil || thing.Leader.Identity != "a" ||
					thing.Leader.Node != thing.Contenders[0].Node || thing.Leader.Term == 0 {
					t.Errorf("%+v %+v", thing, thing.Leader)
				}
				if layout == election.Standard && thing.Contenders[0].Claim != "/e/leader" {
					t.Errorf("%+v", thing.Contenders[0])
				}
			})
		})
	}
}

func TestQueue(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		q := check.Have(queue.New(all[0], "/q", nil))(t)
		for range 4 {
			check.Have(q.Put(t.Context(), []byte("item")))(t)
		}
		check.Have(q.PutOnce(t.Context(), "key", []byte("item")))(t)
		check.Have(q.PutAfter(t.Context(), []byte("item"), time.Hour))(t)
		check.Open(q.Consume(&queue.ConsumeOptions{Prefetch: 2, Name: "worker"}))(t)
		synctest.Wait()
		thing := the(t, look(t, all[1], "/q"))
		state := thing.Queue
		if thing.Kind != inspect.Queue || state.Items != 6 || state.Delayed != 1 || state.Claimed != 2 || len(state.Claims) != 2 || state.Buckets != 2 {
			t.Fatalf("%+v %+v", thing, state)
		}
		if claim := state.Claims[0]; claim.Consumer != "worker" || claim.Session == "" {
			t.Errorf("%+v", claim)
		}
		check.OK(t, q.Pause(t.Context()))
		check.Have(check.Have(queue.New(all[0], "/q/dead", nil))(t).Put(t.Context(), []byte("letter")))(t)
		things := look(t, all[1], "/q").Things
		if len(things) != 2 || things[1].Queue.Items != 1 || things[1].Queue.Paused {
			t.Fatalf("%+v", things)
		}
		if state := things[0].Queue; !state.Paused || state.Dead != 1 || state.Items != 6 || state.Buckets != 2 {
			t.Errorf("%+v", state)
		}
		flat := check.Have(queue.NewFlat(all[0], "/flat/q", queue.Kazoo, nil))(t)
		check.Have(flat.Put(t.Context(), []byte{}))(t)
		if thing := the(t, look(t, all[1], "/flat")); thing.Layout != "kazoo" || thing.Queue.Items != 1 || time.Since(thing.Queue.Oldest) > time.Second {
			t.Errorf("%+v", thing)
		}
		check.OK(t, q.Close(t.Context()))
		check.OK(t, flat.Close(t.Context()))
	})
}

// TestIdleQueue: the keys that were given to PutOnce outlive the items, and the directories that
// the server removes when they are empty. They are no semaphores of kazoo.
func TestIdleQueue(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, srv *zktest.Server, all []*session.Session) {
		q := check.Have(queue.New(all[0], "/q", nil))(t)
		for _, key := range []string{"a", "b", "c"} {
			check.Have(q.PutOnce(t.Context(), key, []byte("item")))(t)
			check.Have(q.TryTake(t.Context()))(t)
		}
		check.OK(t, q.Close(t.Context()))
		for _, path := range slices.Backward(srv.Paths()) { // children before their parents
			if strings.HasPrefix(path, "/q/") && !strings.HasPrefix(path, "/q/keys") {
				if err := all[0].Delete(t.Context(), path, session.AnyVersion); !errors.Is(err, session.ErrNoNode) {
					check.Must(t, err, path)
				}
			}
		}
		thing := the(t, look(t, all[0], "/"))
		if thing.Path != "/q" || thing.Kind != inspect.Queue || thing.Queue.Items != 0 {
			t.Errorf("%+v", thing)
		}
	})
}

// The oldest item of a queue may stand behind items that were put later.
func TestOldestItem(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		q := check.Have(queue.NewPriority(all[0], "/q", nil))(t)
		for _, priority := range []int32{0, 0, -1} {
			check.Have(q.Put(t.Context(), []byte("item"), priority))(t)
			<-time.After(time.Minute)
		}
		for _, minutes := range []time.Duration{3, 3, 2, 0} { // the urgent item is taken first
			oldest := the(t, look(t, all[0], "/q")).Queue.Oldest
			if age := time.Since(oldest).Round(time.Second); minutes > 0 && age != minutes*time.Minute || minutes == 0 && !oldest.IsZero() {
				t.Errorf("the oldest item was put at %v, want %v minutes ago", oldest, int64(minutes))
			}
			if _, err := q.TryTake(t.Context()); minutes > 0 && err != nil {
				t.Fatal(err)
			}
		}
		check.OK(t, q.Close(t.Context()))
	})
}

func TestBarriers(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		b := check.Open(barrier.New(all[0], "/b/raised", nil))(t)
		check.Must(t, b.Raise(t.Context()))
		other := check.Open(barrier.New(all[0], "/b/gate", nil))(t)
		gate := check.Have(other.TryRaise(t.Context()))(t)
		things := look(t, all[1], "/b").Things
		if len(things) != 2 || things[0].Path != "/b/gate" || things[0].Barrier.Session == "" || things[1].Kind != inspect.Barrier || things[1].Barrier.Session != "" {
			t.Errorf("%+v", things)
		}
		check.Must(t, gate.Lift(t.Context()))
		if thing := the(t, look(t, all[1], "/b/raised")); thing.Kind != inspect.Barrier {
			t.Errorf("%+v", thing)
		}
		var doubles []*barrier.Double
		for _, name := range []string{"x", "y", ""} {
			d := check.Open(barrier.NewDouble(all[0], "/d", 2, &barrier.DoubleOptions{Name: name}))(t)
			doubles = append(doubles, d)
		}
		done := make(chan error, 3)
		for _, d := range doubles {
			go func() { done <- d.Enter(t.Context()) }()
			synctest.Wait()
		}
		thing := the(t, look(t, all[1], "/d"))
		d := thing.Double
		if d == nil || d.Round != 1 || d.Parties != 2 || len(d.Inside) != 2 || d.Inside[0].Name != "x" || len(d.Waiting) != 1 ||
			!strings.Contains(d.Waiting[0].Node, "-"+d.Waiting[0].Name+"-") || strings.Count(d.Waiting[0].Name, "-") != 4 {
			t.Errorf("%+v %+v", thing, d)
		}
		for _, d := range doubles {
			d.Close()
			if err := <-done; err != nil && !errors.Is(err, barrier.ErrClosed) {
				t.Error(err)
			}
		}
	})
}

func TestTransactions(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		a := check.Open(commit.Join(all[0], "/tx", "a", nil))(t)
		tx := check.Open(commit.Begin(t.Context(), all[1], "/tx/t1", &commit.Options{Sites: []string{"a", "b"}, Deadline: time.Hour}))(t)
		synctest.Wait() // until the site knows it
		check.Must(t, a.Vote(t.Context(), tx.Tx(), commit.Yes))
		thing := the(t, look(t, all[1], "/"))
		if thing.Kind != inspect.Transactions || len(thing.Transactions) != 1 {
			t.Fatalf("%+v", thing)
		}
		got := thing.Transactions[0]
		want := []inspect.Site{{Site: "a", Vote: "yes", Present: true}, {Site: "b"}}
		if got.ID != "t1" || !got.InDoubt || !got.Coordinated || got.Mode != "coordinated" || len(got.Sites) != 2 || got.Sites[0] != want[0] || got.Sites[1] != want[1] {
			t.Errorf("%+v", got)
		}
	})
}

// TestServices: instances that live with their session, and one that stays.
func TestServices(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		for layout, opts := range map[string]*discovery.Options{"curator": nil, "serverset": {Format: discovery.ServerSet}} {
			for range 2 {
				check.Open(discovery.Announce(t.Context(), all[0], "/"+layout, discovery.Instance{Service: "app", Address: "10.0.0.7", Port: 80}, opts))(t)
			}
		}
		check.Must(t, discovery.Publish(t.Context(), all[0], "/curator", discovery.Instance{Service: "app", ID: "stays"}, nil))
		for layout, n := range map[string]int{"curator": 3, "serverset": 2} {
			thing := the(t, look(t, all[1], "/"+layout))
			if thing.Kind != inspect.Service || thing.Layout != layout || len(thing.Members) != n || thing.Path != "/"+layout+"/app" || !strings.Contains(thing.Members[0].Data, "10.0.0.7") {
				t.Errorf("%+v", thing)
			}
		}
	})
}

// TestShards: how many each member has. The lines of shards are not shown one by one.
func TestShards(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		m := check.Open(shard.Join(all[0], "/shards", 5, &shard.Options{ID: "one"}))(t)
		for range 6 { // Joined, and five shards
			<-m.Events()
		}
		synctest.Wait()
		thing := the(t, look(t, all[1], "/"))
		if thing.Kind != inspect.Shards || thing.Path != "/shards" || thing.Limit != 5 || thing.Held != 5 || len(thing.Members) != 1 || thing.Members[0].Name != "one" || thing.Members[0].Data != "5" {
			t.Errorf("%+v", thing)
		}
	})
}

// TestLatchesAndOnce: arrivals are not taken for barriers, and neither is an empty outcome.
func TestLatchesAndOnce(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		l := check.Open(barrier.NewLatch(all[0], "/latch", 3))(t)
		check.Must(t, l.CountDown(t.Context()))
		if thing := the(t, look(t, all[1], "/")); thing.Kind != inspect.Latch || thing.Path != "/latch" || thing.Limit != 3 || thing.Held != 1 || thing.Room != 2 {
			t.Errorf("%+v", thing)
		}
		_, err := lock.Once(t.Context(), all[0], "/once/seven", nil, func(context.Context, int64) ([]byte, error) { return nil, nil })
		check.Must(t, err)
		if thing := the(t, look(t, all[1], "/once")); thing.Kind != inspect.Once || thing.Path != "/once/seven" || len(thing.Values) != 1 {
			t.Errorf("%+v", thing)
		}
	})
}

func TestGroupsAndValues(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		check.Open(group.Enroll(t.Context(), all[0], "/g", "m1", []byte("payload"), nil))(t)
		if thing := the(t, look(t, all[1], "/")); thing.Kind != inspect.Group || thing.Members[0].Name != "m1" || thing.Members[0].Data != "payload" || thing.Members[0].Session == "" {
			t.Errorf("%+v", thing)
		}
		check.Must(t, naming.Register(t.Context(), all[0], "/n/names", "db", []byte("db:5432"), nil))
		if thing := the(t, look(t, all[1], "/n")); thing.Kind != inspect.Values || thing.Values[0].Name != "db" || thing.Values[0].Data != "db:5432" {
			t.Errorf("%+v", thing)
		}
		v := check.Open(config.Open(all[0], "/c/limit", config.Text, nil))(t)
		check.Must(t, v.Set(t.Context(), "ten"))
		if thing := the(t, look(t, all[1], "/c")); thing.Path != "/c" || len(thing.Values) != 1 || thing.Values[0].Data != "ten" {
			t.Errorf("%+v", thing)
		}
	})
}

// The holder loses the lock, and the next in line is granted it.
func TestBreak(t *testing.T) {
	for _, layout := range []lock.Layout{lock.Standard, lock.Curator, lock.Kazoo, lock.Prioritized} {
		t.Run(layout.String(), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
				first := check.Open(lock.Acquire(t.Context(), all[0], "/l", opts("a", layout)))(t)
				second := check.Open(lock.New(all[1], "/l", opts("b", layout)))(t)
				synctest.Wait()
				holder := the(t, look(t, all[2], "/l")).Contenders[0]
				other := holder
				other.Czxid++
				check.Is(t, inspect.Break(t.Context(), all[2], other), inspect.ErrGone)
				check.Must(t, inspect.Break(t.Context(), all[2], holder))
				synctest.Wait()
				if err := first.Err(); !errors.Is(err, lock.ErrNodeDeleted) || second.Token() == 0 {
					t.Errorf("%v, then %d", err, second.Token())
				}
				check.Is(t, inspect.Break(t.Context(), all[2], holder), inspect.ErrGone)
			})
		})
	}
}

func TestBreakLeader(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		for i, name := range []string{"a", "b"} {
			check.Open(election.New(all[i], "/e", &election.Options{Data: []byte(name)}))(t)
			synctest.Wait()
		}
		before := the(t, look(t, all[2], "/e"))
		check.Must(t, inspect.Break(t.Context(), all[2], before.Contenders[0]))
		synctest.Wait()
		after := the(t, look(t, all[2], "/e"))
		if after.Leader == nil || after.Leader.Identity != "b" || after.Leader.Term <= before.Leader.Term || brief(after) != "b lead holds; a lead" {
			t.Errorf("%+v: %s", after.Leader, brief(after))
		}
	})
}

// TestNoSession: a contender, a party or a member whose node no session owns, as a copied tree has
// it, is shown as such. The others are not.
func TestNoSession(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, _ *zktest.Server, all []*session.Session) {
		s := all[0]
		check.Open(lock.Acquire(t.Context(), s, "/from/lock", nil))(t)
		check.Open(lock.Acquire(t.Context(), s, "/from/ranks", opts("a", lock.Prioritized)))(t)
		check.Open(lock.Acquire(t.Context(), s, "/from/kazoo", opts("a", lock.Kazoo)))(t)
		check.Open(semaphore.Acquire(t.Context(), s, "/from/semaphore", 2, nil))(t)
		check.Open(election.New(s, "/from/election", nil))(t)
		member := check.Open(shard.Join(s, "/from/shards", 1, nil))(t)
		for range 2 { // Joined, and the shard
			<-member.Events()
		}
		check.Must(t, check.Open(barrier.NewDouble(s, "/from/double", 1, nil))(t).Enter(t.Context()))
		q := check.Have(queue.New(s, "/from/queue", nil))(t)
		check.Have(q.Put(t.Context(), []byte("a")))(t)
		check.Open(q.Consume(&queue.ConsumeOptions{Prefetch: 1, Name: "worker"}))(t)
		synctest.Wait()
		var copied func(from, to string)
		copied = func(from, to string) {
			data, _, err := s.Get(t.Context(), from)
			check.Must(t, err)
			check.Have(s.Create(t.Context(), to, data, session.Persistent))(t)
			names, _, err := s.Children(t.Context(), from)
			check.Must(t, err)
			for _, name := range names {
				copied(from+"/"+name, to+"/"+name)
			}
		}
		copied("/from", "/to")
		for path, none := range map[string]bool{"/from": false, "/to": true} {
			things, shown := look(t, all[1], path).Things, 0
			is := func(thing inspect.Thing, has string, marked bool) {
				shown++
				check.True(t, marked == none && (has == "") == none, "%s: of no session: %v, session %q", thing.Path, marked, has)
			}
			for _, thing := range things {
				for _, c := range thing.Contenders {
					is(thing, c.Session, c.NoSession)
				}
				members := thing.Members
				if thing.Double != nil {
					members = thing.Double.Inside
				}
				for _, e := range members {
					is(thing, e.Session, e.NoSession)
				}
				if thing.Queue != nil {
					for _, c := range thing.Queue.Claims {
						is(thing, c.Session, c.NoSession)
					}
				}
				check.True(t, thing.Kind != inspect.Election || (thing.Leader == nil) == none, "%s is led by %v", thing.Path, thing.Leader)
			}
			check.Equal(t, shown, 8, "nodes shown below ", path)
		}
		check.OK(t, q.Close(t.Context()))
	})
}
