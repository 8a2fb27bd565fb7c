package group_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const workers = "/groups/workers"

// A world is a server in memory, in a bubble.
type world struct{ kit.World }

func inBubble(t *testing.T, config zktest.Config, f func(w world)) {
	t.Helper()
	config.Tick = time.Second
	kit.Run(t, config, func(w kit.World) { f(world{w}) })
}

// options are those of sessions, whose nodes have the ACL.
func options(acl ...session.ACL) session.Options {
	return session.Options{Timeout: 12 * time.Second, ServerTick: time.Second, ACL: acl}
}

func (w world) open(acl ...session.ACL) *session.Session { return w.Open(options(acl...)) }

func (w world) openGated() *kit.Gate { return w.OpenGated(options()) }

func (w world) join(s *session.Session, id, data string, opts *group.Options) *group.Membership {
	w.Helper()
	return check.Open(group.Join(s, workers, id, []byte(data), opts))(w)
}

// joined returns when host-1 stands.
func (w world) joined(s *session.Session, data string, opts *group.Options) *group.Membership {
	w.Helper()
	m := w.join(s, "host-1", data, opts)
	await[group.Joined](w, m)
	return m
}

func (w world) watch(s *session.Session) *group.Watcher {
	w.Helper()
	return check.Open(group.Watch(s, workers, nil))(w)
}

// await reads events until one of type E comes.
func await[E group.Event](w world, m *group.Membership) (found E) {
	w.Helper()
	for ev := range m.Events() {
		if e, ok := ev.(E); ok {
			return e
		}
	}
	w.Fatalf("no %T came: %v", found, m.Err())
	return found
}

// members returns what the server has, in order.
func (w world) members() (names []string) {
	for _, p := range w.Paths() {
		if name, ok := strings.CutPrefix(p, workers+"/"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func names(members []group.Member) (all []string) {
	for _, m := range members {
		all = append(all, m.ID)
	}
	return all
}

// expect waits until everything is quiet, and compares.
func (w world) expect(g *group.Watcher, want ...string) {
	w.Helper()
	synctest.Wait()
	var all []string
	for _, m := range g.Members() {
		all = append(all, m.ID+"="+string(m.Data))
	}
	check.EqualSlices(w, all, want, "the members; the server has", w.members())
}

func TestJoinUpdateLeave(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		a, b := w.open(), w.open()
		g := w.watch(b)
		check.Equal(w, len((<-g.Events()).Members), 0, "first")
		m := w.joined(a, "one", nil)
		ev := <-g.Events()
		check.True(w, len(ev.Added) == 1 && ev.Added[0].ID == "host-1" && string(ev.Added[0].Data) == "one" && ev.Added[0].Session == a.ID(), "after the join: %v", ev)
		check.OK(w, m.Update(w.Context(), []byte("two")))
		ev = <-g.Events()
		check.True(w, len(ev.Changed) == 1 && string(ev.Members[0].Data) == "two", "after the update: %v", ev)
		check.OK(w, m.Leave(w.Context()))
		check.Len(w, w.members(), 0, "after Leave")
		ev = <-g.Events()
		check.True(w, len(ev.Removed) == 1 && len(ev.Members) == 0, "after the leave: %v", ev)
		last := await[group.Left](w, m)
		check.True(w, last.Err == nil, "%v", last)
		check.Is(w, m.Update(w.Context(), nil), group.ErrLeft) // an update after the leave
		again := w.joined(a, "three", nil)
		w.expect(g, "host-1=three")
		again.Close()
		w.expect(g)
	})
}

// A crashed member is there until its session ends, and its successor joins then.
// TestParentIsMadeOnce: many members of one session who join a group that nobody has joined yet
// make its node once, and later ones do not ask for it.
func TestParentIsMadeOnce(t *testing.T) {
	const many = 50
	inBubble(t, zktest.Config{Latency: 10 * time.Millisecond}, func(w world) {
		s := w.open()
		var all []*group.Membership
		join := func(from int) (made int) {
			w.ResetRequests()
			for i := range many {
				all = append(all, w.join(s, fmt.Sprint(from+i), "", nil))
			}
			for _, m := range all[from:] {
				await[group.Joined](w, m)
			}
			requests := w.Requests()
			return requests[zktest.OpCreateContainer] + requests[zktest.OpCreate]
		}
		if made := join(0); made > 3 { // the node, one above it, and the node again
			t.Errorf("%d requests for the parent: %v", made, w.Requests())
		}
		check.Equal(t, join(many), 0, "requests for a parent that is there")
		for _, m := range all {
			m.Close()
		}
	})
}

func TestRestartMeetsItsGhost(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		crashed, s := w.openGated(), w.open()
		g := w.watch(s)
		first := w.joined(crashed.Session, "old", nil)
		crashed.Cut()
		began := time.Now()
		second := w.join(s, "host-1", "new", nil)
		w.expect(g, "host-1=old")
		await[group.Joined](w, second)
		check.AtMost(w, time.Since(began), 15*time.Second, "joined after")
		w.expect(g, "host-1=new")
		first.Close()
		w.expect(g, "host-1=new")
	})
}

func TestDuplicate(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		a, b := w.open(), w.open()
		first := w.joined(a, "a", nil)
		check.Fails(group.Join(a, workers, "host-1", nil, nil))(w, group.ErrDuplicate) // through the same session
		began := time.Now()
		second := w.join(b, "host-1", "b", nil)
		left := await[group.Left](w, second)
		took := time.Since(began)
		check.True(w, errors.Is(left.Err, group.ErrDuplicate) && took >= 24*time.Second && took <= 25*time.Second, "after %v: %v", took, left)
		w.joined(b, "c", &group.Options{TakeOver: true, ConflictAfter: 5 * time.Second})
		if left := await[group.Left](w, first); !errors.Is(left.Err, group.ErrDuplicate) || !errors.Is(first.Err(), group.ErrDuplicate) {
			w.Error(left)
		}
		first.Close()
		check.EqualSlices(w, w.members(), []string{"host-1"})
	})
}

// TestExpiry: the member joins again, also if the server keeps its earlier node.
func TestExpiry(t *testing.T) {
	for _, keep := range []time.Duration{0, time.Hour} {
		inBubble(t, zktest.Config{}, func(w world) {
			s, other := w.open(), w.open()
			g := w.watch(other)
			m := w.joined(s, "1", nil)
			w.KeepEphemerals(keep)
			for i := range 3 {
				old := s.ID()
				began := time.Now()
				w.Expire(old)
				check.Is(w, await[group.Gone](w, m).Err, session.ErrExpired)
				check.OK(w, m.Update(w.Context(), fmt.Append(nil, i)))
				await[group.Joined](w, m)
				w.expect(g, fmt.Sprint("host-1=", i))
				now := g.Members()[0].Session
				check.True(w, now != old && now == s.ID(), "the member is of session %#x", now)
				check.AtMost(w, time.Since(began), 5*time.Second, "joined again after")
			}
		})
	}
}

// TestDeletedByAnOperator: it joins again.
func TestDeletedByAnOperator(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		s := w.open()
		m := w.joined(s, "1", nil)
		check.Must(w, s.Delete(w.Context(), workers+"/host-1", session.AnyVersion))
		check.Is(w, await[group.Gone](w, m).Err, group.ErrNodeDeleted)
		await[group.Joined](w, m)
		check.Have(s.Set(w.Context(), workers+"/host-1", []byte("vandal"), session.AnyVersion))(w)
		synctest.Wait()
		check.Reads(s.Get(w.Context(), workers+"/host-1"))(w, "1", "the payload")
	})
}

// TestLostReplies loses each of the requests of a member's life in turn, or the reply
// to it.
func TestLostReplies(t *testing.T) {
	story := func(w world, fault func(zktest.Match), skip int) (hit bool) {
		s, other := w.open(), w.open()
		g := w.watch(other)
		synctest.Wait()
		fault(zktest.Match{Session: s.ID(), Skip: skip})
		// Joined may be followed by Suspended before this goroutine asks for events, which begin
		// with the newest.
		m := check.Have(group.Enroll(w.Context(), s, workers, "host-1", []byte("1"), nil))(w)
		m.Events() // watches the group
		check.OK(w, m.Update(w.Context(), []byte("2")))
		w.expect(g, "host-1=2")
		check.OK(w, m.Leave(w.Context()))
		hit = w.AwaitFault(0) == nil
		w.ClearFaults()
		m.Close()
		w.expect(g)
		check.Len(w, w.members(), 0, "skip", skip)
		return hit
	}
	for name, fault := range map[string]func(*zktest.Server, zktest.Match){
		"reply": (*zktest.Server).DropReply, "request": (*zktest.Server).DropRequest,
	} {
		t.Run(name, func(t *testing.T) {
			hits := 0
			for skip, more := 0, true; more; skip++ {
				inBubble(t, zktest.Config{}, func(w world) {
					more = story(w, func(m zktest.Match) { fault(w.Server, m) }, skip)
					if more {
						hits++
					}
				})
			}
			check.AtLeast(t, hits, 5, "requests were hit")
		})
	}
}

// TestLostTakeOver loses the transaction in which a ghost is replaced.
func TestLostTakeOver(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		s := w.open()
		m := w.joined(s, "1", nil)
		w.KeepEphemerals(time.Hour)
		w.DropReply(zktest.Match{Op: zktest.OpMulti})
		w.Expire(s.ID())
		await[group.Gone](w, m)
		await[group.Joined](w, m)
		w.expectOwner(s)
		w.DropRequest(zktest.Match{Op: zktest.OpMulti})
		w.Expire(s.ID())
		await[group.Gone](w, m)
		await[group.Joined](w, m)
		w.expectOwner(s)
	})
}

func (w world) expectOwner(s *session.Session) {
	w.Helper()
	stat, err := s.Exists(w.Context(), workers+"/host-1")
	check.True(w, err == nil && stat != nil && stat.EphemeralOwner == s.ID(), "the node is %+v, %v; the session %#x", stat, err, s.ID())
}

// TestManyMembers: members join, update and leave at random, sessions expire and
// connections break; every watcher ends with what the server has, and what it was told
// adds up.
func TestManyMembers(t *testing.T) {
	inBubble(t, zktest.Config{Replicas: 3, Lag: 200 * time.Millisecond}, func(w world) {
		const sessions = 10
		each := hasten.Sized(hasten.Usually(50, 20), 10)
		var all []*session.Session
		var watchers []*group.Watcher
		var told []map[string]group.Member
		for range sessions {
			s := w.open()
			all = append(all, s)
			g := w.watch(s)
			watchers, told = append(watchers, g), append(told, nil)
		}
		read := func(i int) {
			for {
				select {
				case ev := <-watchers[i].Events():
					told[i] = w.follow(told[i], ev)
				default:
					return
				}
			}
		}
		random := rand.New(rand.NewPCG(1, 2))
		members := make([]*group.Membership, sessions*each)
		defer func() {
			for _, m := range members {
				if m != nil {
					m.Close()
				}
			}
		}()
		for round := range 6 {
			for i := range members {
				switch {
				case members[i] == nil && (round == 0 || random.IntN(2) == 0):
					members[i] = w.join(all[i%sessions], fmt.Sprintf("m-%03d", i), fmt.Sprint(round), nil)
				case members[i] != nil && random.IntN(3) == 0:
					m := members[i]
					members[i] = nil
					ctx, cancel := context.WithCancel(w.Context())
					cancel()
					_ = m.Leave(ctx) // it goes on
					defer m.Close()
					if random.IntN(2) == 0 {
						<-m.Done()
					} else {
						m.Close()
					}
				}
				if random.IntN(100) == 0 {
					read(random.IntN(sessions - 1)) // the last one only reads at the end
				}
			}
			switch round {
			case 2:
				w.Disconnect(0)
			case 3, 4:
				w.Expire(all[round].ID())
			}
			kit.Pass(time.Second)
		}
		kit.Pass(30 * time.Second) // sessions that were cut off are given up
		for i := range members {
			switch {
			case members[i] == nil:
				members[i] = w.join(all[i%sessions], fmt.Sprintf("m-%03d", i), "last", nil)
			case i%2 == 0:
				members[i].Close()
				members[i] = nil
			}
		}
		kit.Pass(time.Second) // of quiet
		want := w.members()
		count := 0
		for _, m := range members {
			if m != nil {
				count++
			}
		}
		check.True(w, len(want) == count && count >= sessions*each/5, "the server has %d members, there are %d", len(want), count)
		for i, g := range watchers {
			check.EqualSlices(w, names(g.Members()), want, "what watcher", i, "knows")
			for range 3 {
				read(i)
				synctest.Wait()
			}
			check.Equal(w, len(told[i]), len(want), "the members that watcher", i, "was told of")
		}
	})
}

// follow applies what was told, and checks that it is right relative to what was told
// before, and never goes back.
func (w world) follow(known map[string]group.Member, ev group.MembersChanged) map[string]group.Member {
	w.Helper()
	now := make(map[string]group.Member)
	for _, m := range ev.Members {
		now[m.ID] = m
		check.AtLeast(w, m.Joined, known[m.ID].Joined, "when", m, "joined")
	}
	for _, m := range ev.Added {
		if _, ok := known[m.ID]; ok {
			w.Errorf("%v was added, and known", m)
		}
	}
	for _, m := range slices.Concat(ev.Removed, ev.Changed) {
		if _, ok := known[m.ID]; !ok {
			w.Errorf("%v was removed or changed, and not known", m)
		}
	}
	check.Equal(w, len(known)+len(ev.Added)-len(ev.Removed), len(now), "members after", ev)
	return now
}

// TestLaggingReplicas: payloads count up, and no reader sees one count down.
func TestLaggingReplicas(t *testing.T) {
	inBubble(t, zktest.Config{Replicas: 3, Lag: 300 * time.Millisecond}, func(w world) {
		s, other := w.open(), w.open()
		m := w.joined(s, "000", nil)
		g := w.watch(other)
		last := ""
		for i := range 60 {
			check.OK(w, m.Update(w.Context(), fmt.Appendf(nil, "%03d", i)))
			if i%7 == 0 {
				w.Disconnect(other.ID())
			}
			kit.Pass(100 * time.Millisecond)
			select {
			case ev := <-g.Events():
				now := "" // nobody: a replica that has not heard of the member yet, if nothing was told before
				for _, m := range ev.Members {
					now = string(m.Data)
				}
				if now < last {
					w.Errorf("%q after %q: %v", now, last, ev)
				}
				last = now
			default:
			}
		}
		kit.Pass(10 * time.Second)
		w.expect(g, "host-1=059")
	})
}

// TestFirstReportBehindALag: a replica that lags has not heard of a member that stands. The first
// report says what the replica has; with Sync it is as new as the call.
func TestFirstReportBehindALag(t *testing.T) {
	for _, sync := range []bool{false, true} {
		inBubble(t, zktest.Config{Replicas: 2, Lag: 300 * time.Millisecond}, func(w world) {
			s, other := w.OpenAt(0, options()), w.OpenAt(1, options())
			synctest.Wait() // for the first syncs of the sessions, after which the replica is up to date
			w.joined(s, "one", nil)
			g := check.Open(group.Watch(other, workers, &group.WatchOptions{Sync: sync}))(w)
			synctest.Wait()
			first := <-g.Events()
			check.Equal(w, len(first.Members) == 1, sync, "whether the first report", first, "has the member")
			kit.Pass(time.Second)
			w.expect(g, "host-1=one")
		})
	}
}

func TestSuspension(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		s := w.open()
		m := w.joined(s, "1", nil)
		w.Refuse(true)
		w.Disconnect(0)
		await[group.Suspended](w, m)
		w.Refuse(false)
		await[group.Resumed](w, m)
	})
}

// TestUnreadChanges: what nobody has read of a connection that is lost again and again, and
// of what changes meanwhile, becomes one change.
func TestUnreadChanges(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		a, b := w.openGated(), w.open()
		m := w.join(a.Session, "host-1", "one", nil)
		other := w.join(b, "host-2", "two", nil)
		m.Events()
		kit.Pass(time.Second)
		for i := range 5 {
			a.Cut()
			check.Must(w, other.Update(w.Context(), []byte(fmt.Sprint(i))))
			a.Mend()
			kit.Pass(2 * time.Second)
		}
		var all []group.Event
		for range 10 {
			synctest.Wait()
			select {
			case ev := <-m.Events():
				all = append(all, ev)
			default:
			}
		}
		// One may have been on its way to the reader, before the other had joined.
		known := make(map[string]string)
		for _, ev := range all {
			change, ok := ev.(group.MembersChanged)
			if !ok {
				continue
			}
			for _, gone := range change.Removed {
				delete(known, gone.ID)
			}
			for _, m := range slices.Concat(change.Added, change.Changed) {
				known[m.ID] = string(m.Data)
			}
			check.Equal(w, len(known), len(change.Members), "members after", change)
		}
		check.True(w, len(all) <= 4 && maps.Equal(known, map[string]string{"host-1": "one", "host-2": "4"}), "%d events: %v", len(all), all)
	})
}

// TestSessionClosed: the node goes with the session, and the handles end.
func TestSessionClosed(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		s := w.open()
		m, g := w.join(s, "host-1", "1", nil), w.watch(s)
		await[group.Joined](w, m)
		s.Close()
		check.Is(w, await[group.Left](w, m).Err, session.ErrClosed)
		<-g.Done()
		check.Is(w, g.Err(), session.ErrClosed)
		check.Len(w, w.members(), 0)
		m.Close()
		g.Close()
		check.Fails(group.Join(s, workers, "host-1", nil, nil))(w, session.ErrClosed)
		check.Fails(group.Watch(s, workers, nil))(w, session.ErrClosed)
	})
}

func TestBadInput(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		s := w.open()
		synctest.Wait()
		w.ResetRequests()
		for _, c := range []struct {
			session  *session.Session
			path, id string
			data     []byte
			opts     *group.Options
			want     error
			names    string
		}{
			{nil, workers, "a", nil, nil, session.ErrInvalidArgument, "session"},
			{s, "", "a", nil, nil, session.ErrInvalidPath, "path"},
			{s, "groups", "a", nil, nil, session.ErrInvalidPath, "path"},
			{s, workers, "", nil, nil, session.ErrInvalidArgument, "id"},
			{s, workers, "a/b", nil, nil, session.ErrInvalidArgument, "id"},
			{s, workers, "..", nil, nil, session.ErrInvalidPath, "id"},
			{s, workers, "a\x00", nil, nil, session.ErrInvalidPath, "id"},
			{s, workers, "a", make([]byte, 2<<20), nil, session.ErrTooLarge, "data"},
			{s, workers, "a", nil, &group.Options{ConflictAfter: -1}, session.ErrInvalidArgument, "ConflictAfter"},
		} {
			_, err := group.Join(c.session, c.path, c.id, c.data, c.opts)
			check.True(w, errors.Is(err, c.want) && strings.Contains(err.Error(), c.names), "Join(%q, %q): %v, want %v that names %s", c.path, c.id, err, c.want, c.names)
		}
		check.Fails(group.Watch(nil, workers, nil))(w, session.ErrInvalidArgument)
		check.Fails(group.Watch(s, "x", nil))(w, session.ErrInvalidPath)
		synctest.Wait()
		check.Equal(w, w.Requests().Total(), 0, "requests")
		m := w.join(s, "a", "", nil)
		check.Is(w, m.Update(w.Context(), make([]byte, 2<<20)), session.ErrTooLarge)
	})
}

// TestEnroll: it returns when the member stands, and leaves nothing behind if that is not waited
// for.
func TestEnroll(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		s := w.open()
		m := check.Have(group.Enroll(w.Context(), s, workers, "host-1", []byte("x"), nil))(w)
		check.EqualSlices(w, w.members(), []string{"host-1"})
		check.Fails(group.Enroll(w.Context(), s, workers, "host-1", nil, nil))(w, group.ErrDuplicate) // twice in one session
		other := w.open()
		check.Fails(group.Enroll(w.Context(), other, workers, "host-1", nil, nil))(w, group.ErrDuplicate) // in two
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		check.Fails(group.Enroll(ctx, other, workers, "host-1", nil, nil))(w, context.DeadlineExceeded) // given up
		m.Close()
		<-time.After(time.Minute)
		check.Len(w, w.members(), 0, "are left")
	})
}

// TestJoinedIsKept: a reader of events that comes late learns of the membership, whatever came
// after it.
func TestJoinedIsKept(t *testing.T) {
	inBubble(t, zktest.Config{}, func(w world) {
		m := check.Open(group.Enroll(w.Context(), w.open(), "/late", "me", nil, nil))(w)
		w.Disconnect(0)
		<-time.After(time.Second)
		check.Equal(w, <-m.Events(), group.Event(group.Joined{}))
	})
}

// TestParties: in the layouts of kazoo, members have no payload, and several may have one id.
func TestParties(t *testing.T) {
	for _, layout := range []group.Layout{group.KazooParty, group.KazooShallowParty} {
		inBubble(t, zktest.Config{}, func(w world) {
			s := w.open()
			opts := &group.Options{Layout: layout}
			watcher := check.Open(group.Watch(w.open(), workers, &group.WatchOptions{Layout: layout}))(w)
			expect := func(want ...string) {
				w.Helper()
				for ev := range watcher.Events() {
					if slices.Equal(names(ev.Members), want) {
						return
					}
				}
			}
			var all []*group.Membership
			for range 3 {
				all = append(all, check.Open(group.Enroll(w.Context(), s, workers, "host-1", nil, opts))(w))
			}
			expect("host-1", "host-1", "host-1")
			_, err := s.Create(w.Context(), workers+"/other", nil, session.Ephemeral)
			check.OK(w, err)
			check.OK(w, all[1].Leave(w.Context()))
			expect("host-1", "host-1")
			w.Expire(s.ID())
			await[group.Gone](w, all[0])
			expect("host-1", "host-1")
			check.Is(w, all[0].Update(w.Context(), []byte("x")), session.ErrInvalidArgument)
			check.OK(w, all[0].Update(w.Context(), nil))
			check.Is(w, all[0].Update(nil, nil), session.ErrInvalidArgument) //nolint:staticcheck // it is refused
			check.Is(w, all[1].Update(w.Context(), nil), group.ErrLeft)
			_, err = group.Join(s, workers, "host-2", []byte("x"), opts)
			check.Is(w, err, session.ErrInvalidArgument)
		})
	}
	inBubble(t, zktest.Config{}, func(w world) {
		for _, layout := range []group.Layout{-1, 3} {
			_, err := group.Join(w.open(), workers, "a", nil, &group.Options{Layout: layout})
			check.Is(w, err, session.ErrInvalidArgument)
			_, err = group.Watch(w.open(), workers, &group.WatchOptions{Layout: layout})
			check.Is(w, err, session.ErrInvalidArgument)
		}
	})
}
