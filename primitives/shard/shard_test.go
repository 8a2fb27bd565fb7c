package shard_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const orders = "/shards/orders"

// A world is a server in memory, in a bubble, and the witness of who owns which shard.
type world struct {
	kit.World

	mu     sync.Mutex
	owners map[int]string
	tokens map[int]int64 // the newest of each shard
	moves  int
	over   bool // the members are being closed
}

func inBubble(t *testing.T, f func(w *world)) {
	t.Helper()
	inBubbleWith(t, zktest.Config{Tick: time.Second}, f)
}

func inBubbleWith(t *testing.T, c zktest.Config, f func(w *world)) {
	t.Helper()
	kit.Run(t, c, func(b kit.World) {
		w := &world{World: b, owners: map[int]string{}, tokens: map[int]int64{}}
		defer func() {
			w.mu.Lock()
			w.over = true
			w.mu.Unlock()
		}()
		f(w)
	})
}

func (w *world) open() *session.Session {
	return w.Open(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second})
}

// A user is a member that works: it gives what is revoked, unless it keeps.
type user struct {
	*shard.Member
	w       *world
	session *session.Session
	keeps   bool
	over    chan struct{}
	events  []shard.Event
	has     map[int]bool // not lost, and not given
}

func (w *world) join(s *session.Session, id string, n int, opts shard.Options) *user {
	w.Helper()
	opts.ID = id
	u := &user{check.Open(shard.Join(s, orders, n, &opts))(w), w, s, false, make(chan struct{}), nil, map[int]bool{}}
	go func() {
		defer close(u.over)
		for ev := range u.Events() {
			u.hear(ev)
		}
	}()
	return u
}

func (u *user) hear(ev shard.Event) {
	w := u.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	u.events = append(u.events, ev)
	switch ev := ev.(type) {
	case shard.Assigned:
		if by := w.owners[ev.Shard]; by != "" {
			w.Errorf("%s: %v, and %s owns it", u.ID(), ev, by)
		}
		if ev.Token <= w.tokens[ev.Shard] {
			w.Errorf("%s: %v, after token %d", u.ID(), ev, w.tokens[ev.Shard])
		}
		w.owners[ev.Shard], w.tokens[ev.Shard], u.has[ev.Shard] = u.ID(), ev.Token, true
		w.moves++
	case shard.Revoke:
		if !u.keeps {
			delete(w.owners, ev.Shard)
			delete(u.has, ev.Shard)
			u.GiveGrant(ev.Shard, ev.Token)
		}
	case shard.Lost:
		if u.has[ev.Shard] { // it had not stopped before
			delete(w.owners, ev.Shard)
			delete(u.has, ev.Shard)
		}
	case shard.Left:
		for i := range u.has {
			delete(w.owners, i)
			if ev.Err != nil {
				w.Errorf("%s: %v, and it has not lost %d before", u.ID(), ev, i)
			}
		}
	case shard.Joined, shard.Suspended, shard.Resumed, shard.Gone:
	}
}

// stops has the user stop to use its shards, before it closes what it has.
func (u *user) stops() {
	u.w.mu.Lock()
	defer u.w.mu.Unlock()
	for i := range u.has {
		delete(u.w.owners, i)
	}
	clear(u.has)
}

// counts returns how many shards each member owns.
func (w *world) counts() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]int{}
	for _, by := range w.owners {
		all[by]++
	}
	return fmt.Sprint(all)[len("map"):]
}

// settle waits long enough for pauses, but for no session to end.
func (w *world) settle() { kit.Pass(2 * time.Second) }

// TestComing: members come one after the other, and all at once, and the shards are even.
func TestComing(t *testing.T) {
	inBubble(t, func(w *world) {
		var all []*user
		for i, want := range []string{"[a:12]", "[a:6 b:6]", "[a:4 b:4 c:4]", "[a:3 b:3 c:3 d:3]"} {
			all = append(all, w.join(w.open(), string(rune('a'+i)), 12, shard.Options{}))
			w.settle()
			check.Equal(t, w.counts(), want)
		}
		check.Equal(t, w.moves, 12+6+4+3)
		check.EqualSlices(t, all[3].Owned(), owned(w, "d"))
		planned, err := shard.Planned(w.Context(), all[0].session, orders)
		check.OK(t, err)
		for i, id := range planned {
			check.Equal(t, w.owners[i], id, i)
		}
		check.OK(t, all[1].Leave(w.Context()))
		w.settle()
		check.Equal(t, w.counts(), "[a:4 c:4 d:4]")
		check.Equal(t, w.moves, 12+6+4+3+3)
		for _, ev := range all[1].events {
			if _, is := ev.(shard.Lost); is {
				t.Errorf("%v: it was given", ev)
			}
		}
		all[0].stops()
		all[0].Close()
		w.settle()
		check.Equal(t, w.counts(), "[c:6 d:6]")
		all[2].stops()
		all[2].session.Close()
		w.settle()
		check.Equal(t, w.counts(), "[d:12]")
		check.OK(t, all[3].Leave(w.Context()))
		check.Equal(t, w.counts(), "[]")
		for _, p := range w.Paths() {
			check.False(t, strings.Contains(p, "/members/") || strings.HasPrefix(p, orders+"/shards/") && strings.Count(p, "/") > 4, "%s is left", p)
		}
	})
}

func owned(w *world, id string) (all []int) {
	for i, by := range w.owners {
		if by == id {
			all = append(all, i)
		}
	}
	slices.Sort(all)
	return all
}

// TestReturns: a member whose session expires, or that crashes, gets its shards back, and tokens
// grow.
func TestReturns(t *testing.T) {
	inBubble(t, func(w *world) {
		gate := w.OpenGated(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second})
		w.join(gate.Session, "a", 10, shard.Options{})
		b := w.join(w.open(), "b", 10, shard.Options{})
		w.join(w.open(), "c", 10, shard.Options{})
		w.settle()
		before := owned(w, "a")
		gate.Cut()
		kit.Pass(20 * time.Second)
		check.Equal(t, w.counts(), "[b:5 c:5]")
		gate.Mend()
		w.settle()
		isOld := func(i int) bool { return slices.Contains(before, i) }
		for _, i := range owned(w, "a") {
			check.True(t, isOld(i), "shard %d was not its own: %v", i, before)
		}
		check.True(t, len(owned(w, "a")) >= 3, "%v", w.counts())
		b.stops()
		b.session.Close()
		w.settle()
		check.Equal(t, w.counts(), "[a:5 c:5]")
		w.join(w.open(), "b", 10, shard.Options{})
		w.settle()
		check.True(t, len(owned(w, "b")) >= 3, "%v", w.counts())
	})
}

// TestCrash: the shards of a member that is cut off go to the others when its session is over, and
// it knows before.
func TestCrash(t *testing.T) {
	inBubble(t, func(w *world) {
		gate := w.OpenGated(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second})
		a := w.join(gate.Session, "a", 8, shard.Options{})
		w.join(w.open(), "b", 8, shard.Options{})
		w.settle()
		check.Equal(t, w.counts(), "[a:4 b:4]")
		ctx, cancel := a.Context(w.Context(), a.Owned()[0])
		defer cancel()
		gate.Cut()
		<-ctx.Done()
		check.Is(t, context.Cause(ctx), shard.ErrLost)
		kit.Pass(20 * time.Second)
		check.Equal(t, w.counts(), "[b:8]")
		gate.Mend()
		w.settle()
		check.Equal(t, w.counts(), "[a:4 b:4]")
	})
}

// TestLapse: a member whose lease ends, and whose session lives on, owns the same shards again,
// with greater tokens, and no other shard moves.
func TestLapse(t *testing.T) {
	inBubble(t, func(w *world) {
		gate := w.OpenGated(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second})
		w.join(gate.Session, "a", 9, shard.Options{})
		w.join(w.open(), "b", 9, shard.Options{})
		w.join(w.open(), "c", 9, shard.Options{})
		w.settle()
		before, moves, id := owned(w, "a"), w.moves, gate.ID()
		gate.Cut()
		for range 20 { // elections, which keep the sessions
			kit.Pass(time.Second)
			w.Restore(w.Backup())
		}
		check.Equal(t, w.counts(), "[b:3 c:3]")
		gate.Mend()
		w.settle()
		check.EqualSlices(t, owned(w, "a"), before)
		check.Equal(t, w.moves-moves, len(before), "grants since")
		check.Equal(t, gate.ID(), id, "the session")
	})
}

// TestOverdue: a shard that is not given is lost at its time, and goes on.
func TestOverdue(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.join(w.open(), "a", 4, shard.Options{GiveWithin: time.Minute, AtOnce: 1})
		w.settle()
		a.keeps = true
		w.join(w.open(), "b", 4, shard.Options{})
		kit.Pass(59 * time.Second)
		check.Equal(t, w.counts(), "[a:4]")
		planned, err := shard.Planned(w.Context(), a.session, orders)
		check.OK(t, err)
		first := slices.Index(planned, "b")
		ctx, cancel := a.Context(w.Context(), first)
		defer cancel()
		<-ctx.Done()
		check.Equal(t, w.counts(), "[a:3]") // told before another can own it
		line, _, err := a.session.Children(w.Context(), fmt.Sprintf("%s/shards/%d", orders, first))
		check.OK(t, err)
		check.Len(t, line, 2)
		kit.Pass(2 * time.Second)
		check.Equal(t, w.counts(), "[a:3 b:1]")
		kit.Pass(60 * time.Second)
		check.Equal(t, w.counts(), "[a:2 b:2]")
		var lost []shard.Lost
		for _, ev := range a.events {
			if ev, is := ev.(shard.Lost); is {
				check.Is(t, ev.Err, shard.ErrOverdue)
				lost = append(lost, ev)
			}
		}
		check.Len(t, lost, 2)
	})
}

// TestOverdueMeetsEnd: a session is closed while its member ends the contexts of an overdue shard.
// The contexts end before another member owns the shard, although the user's own context stops the
// member after the first of them.
func TestOverdueMeetsEnd(t *testing.T) {
	kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) {
		join := func(s *session.Session, id string) *shard.Member {
			return check.Open(shard.Join(s, orders, 2, &shard.Options{ID: id, GiveWithin: time.Minute}))(w)
		}
		opts := session.Options{Timeout: 12 * time.Second, ServerTick: time.Second}
		s := w.Open(opts)
		a := join(s, "a")
		kit.Pass(2 * time.Second)
		b := join(w.Open(opts), "b")
		kit.Pass(2 * time.Second)
		planned, err := shard.Planned(w.Context(), s, orders)
		check.OK(t, err)
		moves := slices.Index(planned, "b")
		grip := kit.NewGrip()
		_, cancel := a.Context(grip, moves)
		defer cancel()
		second, cancel := a.Context(context.Background(), moves)
		defer cancel()
		<-grip.Reached // it is overdue
		check.False(t, slices.Contains(b.Owned(), moves), "b owns shard %d before a has left its line", moves)
		go s.Close()
		for ev := range b.Events() {
			if ev, is := ev.(shard.Assigned); is && ev.Shard == moves {
				check.True(t, second.Err() != nil, "%v, and a context of a has not ended", ev)
				break
			}
		}
		close(grip.Free)
	})
}

// TestWeights: shards move with the weights, and a member without weight has none.
func TestWeights(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.join(w.open(), "a", 12, shard.Options{Weight: 3})
		w.join(w.open(), "b", 12, shard.Options{})
		w.settle()
		check.Equal(t, w.counts(), "[a:9 b:3]")
		for weight, want := range map[int]string{1: "[a:6 b:6]", 0: "[b:12]", 2: "[a:8 b:4]"} {
			check.OK(t, a.SetWeight(w.Context(), weight))
			w.settle()
			check.Equal(t, w.counts(), want)
		}
		check.Is(t, a.SetWeight(w.Context(), -1), session.ErrInvalidArgument)
	})
}

// TestGuard: a guard protects what a shard protects, and nothing else.
func TestGuard(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.join(w.open(), "a", 2, shard.Options{})
		w.settle()
		s := w.open()
		write := func(op session.Op) error {
			_, err := s.Multi(w.Context(), op, session.CreateOp("/data", nil, session.PersistentSequential))
			return err
		}
		guard := a.Guard(1)
		check.OK(t, write(guard))
		check.True(t, a.Token(1) > 0, "no token")
		for _, n := range []int{-1, 2, 99} {
			check.Is(t, write(a.Guard(n)), shard.ErrLost)
			check.Equal(t, a.Token(n), 0)
			a.Give(n)
		}
		a.Give(1) // nobody wants it
		w.settle()
		check.OK(t, write(a.Guard(1)))
		a.Close()
		check.Is(t, write(guard), shard.ErrLost)
		check.Is(t, write(a.Guard(1)), shard.ErrLost)
		ctx, cancel := a.Context(w.Context(), 1)
		defer cancel()
		check.Is(t, context.Cause(ctx), shard.ErrLost)
	})
}

// TestManyCome: twenty members that come at once write few plans.
func TestManyCome(t *testing.T) {
	inBubble(t, func(w *world) {
		const n, shards = 20, 1000
		var all []*user
		for i := range n {
			all = append(all, w.join(w.open(), fmt.Sprintf("m%02d", i), shards, shard.Options{}))
		}
		kit.Pass(time.Minute)
		w.mu.Lock()
		check.True(t, len(w.owners) == shards, "%d are owned", len(w.owners))
		w.mu.Unlock()
		for _, u := range all {
			check.Equal(t, len(u.Owned()), shards/n, u.ID())
		}
		t.Logf("%d moves, %v", w.moves, w.Requests())
		stat, err := all[0].session.Exists(w.Context(), orders+"/plan")
		check.True(t, err == nil && stat.Version < 2*n, "%+v, %v", stat, err)

		// What it costs that one comes, and that one goes.
		w.ResetRequests()
		moves := w.moves
		one := w.join(w.open(), "one", shards, shard.Options{})
		w.settle()
		moved := w.moves - moves
		t.Logf("one more: %d moves, %v", moved, w.Requests())
		check.True(t, moved == shards/(n+1) && w.Requests().Total() < 12*moved, "%d moves, %v", moved, w.Requests())
		w.ResetRequests()
		moves = w.moves
		one.stops()
		one.Close()
		w.settle()
		moved = w.moves - moves
		t.Logf("one less: %d moves, %v", moved, w.Requests())
		check.True(t, w.Requests().Total() < 12*max(moved, 50), "%d moves, %v", moved, w.Requests())
	})
}

// TestRefused: members that disagree, another plan, and bad arguments.
func TestRefused(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		for _, c := range []struct {
			path string
			n    int
			opts shard.Options
			want error
			word string
		}{
			{"orders", 1, shard.Options{}, session.ErrInvalidPath, "path"},
			{orders, 0, shard.Options{}, session.ErrInvalidArgument, "n:"},
			{orders, -1, shard.Options{}, session.ErrInvalidArgument, "n:"},
			{orders, 1 << 20, shard.Options{}, session.ErrInvalidArgument, "n:"},
			{orders, 1, shard.Options{ID: "a/b"}, session.ErrInvalidArgument, "ID"},
			{orders, 1, shard.Options{ID: ".."}, session.ErrInvalidPath, "ID"},
			{orders, 1, shard.Options{Weight: -1}, session.ErrInvalidArgument, "Weight"},
			{orders, 1, shard.Options{Weight: 1 << 30}, session.ErrInvalidArgument, "Weight"},
			{orders, 1, shard.Options{Zone: "\xff"}, session.ErrInvalidArgument, "Zone"},
			{orders, 1, shard.Options{Zone: strings.Repeat("z", 1000)}, session.ErrInvalidArgument, "Zone"},
			{orders, 1, shard.Options{GiveWithin: -1}, session.ErrInvalidArgument, "GiveWithin"},
			{orders, 1, shard.Options{AtOnce: -1}, session.ErrInvalidArgument, "AtOnce"},
			{orders, 1, shard.Options{ConflictAfter: -1}, session.ErrInvalidArgument, "ConflictAfter"},
		} {
			_, err := shard.Join(s, c.path, c.n, &c.opts)
			check.Is(t, err, c.want, c.word)
			check.True(t, err != nil && strings.Contains(err.Error(), c.word), "%v does not name %s", err, c.word)
		}
		a := w.join(s, "a", 4, shard.Options{})
		_, err := shard.Join(s, orders, 4, &shard.Options{ID: "a"})
		check.Is(t, err, shard.ErrDuplicate)
		w.settle()
		b := w.join(w.open(), "b", 5, shard.Options{})
		<-b.over
		check.Is(t, b.Err(), shard.ErrShards)
		check.Equal(t, w.counts(), "[a:4]")
		dup := w.join(w.open(), "a", 4, shard.Options{})
		<-dup.over
		check.Is(t, dup.Err(), shard.ErrDuplicate)
		check.OK(t, a.Leave(w.Context()))
		check.Is(t, a.SetWeight(w.Context(), 2), shard.ErrLeft)
		c := w.join(w.open(), "c", 6, shard.Options{}) // alone, it may have another number
		w.settle()
		check.Equal(t, w.counts(), "[c:6]")
		c.Close()

		_, err = s.Set(w.Context(), orders+"/plan", []byte("10.0.0.7"), session.AnyVersion)
		check.OK(t, err)
		d := w.join(w.open(), "d", 6, shard.Options{})
		<-d.over
		check.Is(t, d.Err(), shard.ErrForeign)
		_, err = shard.Planned(w.Context(), s, orders)
		check.Is(t, err, shard.ErrForeign)
		none, err := shard.Planned(w.Context(), s, "/nothing")
		check.True(t, none == nil && err == nil, "%v, %v", none, err)
		data, _, err := s.Get(w.Context(), orders+"/plan")
		check.True(t, err == nil && string(data) == "10.0.0.7", "%s, %v", data, err)
	})
}

// TestOtherNumber: members that come back with another number of shards, at whatever moment.
func TestOtherNumber(t *testing.T) {
	for _, again := range []int{3, 4, 6} {
		for name, leave := range map[string]func(w *world, u *user){
			"closed":  func(_ *world, u *user) { u.stops(); u.Close() },
			"left":    func(w *world, u *user) { check.OK(w, u.Leave(w.Context())) },
			"crashed": func(w *world, u *user) { u.stops(); w.Expire(u.session.ID()); u.Close() },
		} {
			t.Run(fmt.Sprint(name, again), func(t *testing.T) {
				inBubble(t, func(w *world) { // one
					leave(w, w.join(w.open(), "a", 4, shard.Options{}))
					w.join(w.open(), "a", again, shard.Options{})
					kit.Pass(time.Minute)
					check.Equal(t, w.counts(), fmt.Sprintf("[a:%d]", again))
				})
				for _, ids := range []string{"ab", "xy", "ay"} { // all
					inBubble(t, func(w *world) {
						a, b := w.join(w.open(), "a", 4, shard.Options{}), w.join(w.open(), "b", 4, shard.Options{})
						w.settle()
						leave(w, a)
						leave(w, b)
						w.join(w.open(), ids[:1], again, shard.Options{})
						w.join(w.open(), ids[1:], again, shard.Options{})
						kit.Pass(time.Minute)
						check.Equal(t, w.counts(), fmt.Sprintf("[%c:%d %c:%d]", ids[0], (again+1)/2, ids[1], again/2))
					})
				}
			})
		}
	}
}

// TestTwoNumbers: of members that disagree, those of one number go on, and the others leave.
func TestTwoNumbers(t *testing.T) {
	for range 10 {
		inBubble(t, func(w *world) {
			all := map[int]*user{4: w.join(w.open(), "a", 4, shard.Options{}), 5: w.join(w.open(), "b", 5, shard.Options{})}
			kit.Pass(time.Minute)
			for n, other := range map[int]int{4: 5, 5: 4} {
				if all[n].Err() == nil {
					check.Len(t, all[n].Owned(), n)
					check.Is(t, all[other].Err(), shard.ErrShards)
				}
			}
			check.True(t, (all[4].Err() == nil) != (all[5].Err() == nil), "%v, %v", all[4].Err(), all[5].Err())
		})
		inBubble(t, func(w *world) { // one that is there crashes, and is back with another number
			w.join(w.open(), "a", 4, shard.Options{})
			gate := w.OpenGated(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second})
			w.join(gate.Session, "b", 4, shard.Options{})
			w.settle()
			gate.Cut()
			b := w.join(w.open(), "b", 6, shard.Options{})
			kit.Pass(time.Minute)
			check.Is(t, b.Err(), shard.ErrShards)
			check.Equal(t, w.counts(), "[a:4]")
		})
	}
}

// TestTakenOver: a member whose place another takes loses its shards before that has them.
func TestTakenOver(t *testing.T) {
	inBubble(t, func(w *world) {
		gate := w.OpenGated(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second})
		first := w.join(gate.Session, "a", 8, shard.Options{})
		w.settle()
		gate.Cut()
		kit.Pass(13 * time.Second) // its session is over, and it is to join again
		w.join(w.open(), "a", 8, shard.Options{})
		w.settle()
		gate.Mend()
		kit.Pass(time.Minute)
		check.Is(t, first.Err(), shard.ErrDuplicate)
		check.Equal(t, w.counts(), "[a:8]")
	})
	inBubble(t, func(w *world) {
		a := w.join(w.open(), "a", 8, shard.Options{})
		w.join(w.open(), "b", 8, shard.Options{})
		w.settle()
		_, err := a.session.Set(w.Context(), orders+"/plan/records/a", []byte("x"), session.AnyVersion)
		check.OK(t, err)
		kit.Pass(time.Minute)
		check.Is(t, a.Err(), shard.ErrForeign)
		check.Equal(t, w.counts(), "[b:8]")
	})
}

// TestSpoiled: a member leaves when it is told to, also if no plan can be made.
func TestSpoiled(t *testing.T) {
	for _, data := range []string{"x", ""} {
		inBubble(t, func(w *world) {
			a, b := w.join(w.open(), "a", 4, shard.Options{}), w.join(w.open(), "b", 4, shard.Options{})
			w.settle()
			_, err := a.session.Set(w.Context(), orders+"/plan", []byte(data), session.AnyVersion)
			check.OK(t, err)
			_, err = shard.Planned(w.Context(), a.session, orders)
			check.Is(t, err, shard.ErrForeign)
			check.OK(t, a.Leave(w.Context()))
			check.OK(t, b.Leave(w.Context()))
			check.Equal(t, w.counts(), "[]")
		})
	}
}

// TestPlacementWithoutWeights: one who leaves gives its shards, whatever the placement.
func TestPlacementWithoutWeights(t *testing.T) {
	inBubble(t, func(w *world) {
		opts := shard.Options{Placement: func(c shard.Cluster) []int {
			all := make([]int, len(c.Owners))
			for i := range all {
				all[i] = i % max(1, len(c.Peers))
			}
			return all
		}}
		a := w.join(w.open(), "a", 4, opts)
		w.join(w.open(), "b", 4, opts)
		w.settle()
		check.Equal(t, w.counts(), "[a:2 b:2]")
		check.OK(t, a.Leave(w.Context()))
		check.Is(t, a.SetWeight(w.Context(), 2), shard.ErrLeft)
		w.settle()
		check.Equal(t, w.counts(), "[b:4]")
	})
}

// TestHerd: members that come together read in proportion to their number.
func TestHerd(t *testing.T) {
	for _, latency := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		inBubbleWith(t, zktest.Config{Tick: time.Second, Latency: latency}, func(w *world) {
			n := hasten.Sized(hasten.Usually(200, 100), 50)
			var sessions []*session.Session
			for range n {
				sessions = append(sessions, w.open())
			}
			w.ResetRequests()
			for i, s := range sessions {
				w.join(s, fmt.Sprintf("m%03d", i), n, shard.Options{})
			}
			kit.Pass(time.Minute)
			w.mu.Lock()
			check.Len(t, slices.Collect(maps.Keys(w.owners)), n)
			w.mu.Unlock()
			reads := w.Requests()[zktest.OpGetData] + w.Requests()[zktest.OpGetChildren2]
			t.Logf("%v: %d members: %d reads of %v", 2*latency, n, reads, w.Requests())
			check.True(t, reads < 25*n, "%d reads", reads)
		})
	}
}

// TestStaleGive: an answer to a Revoke of an earlier grant does not give the present one.
func TestStaleGive(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.join(w.open(), "a", 1, shard.Options{GiveWithin: time.Minute})
		w.settle()
		a.keeps = true
		old := a.Token(0)
		check.OK(t, a.SetWeight(w.Context(), 0))
		kit.Pass(2 * time.Minute) // it is overdue
		check.OK(t, a.SetWeight(w.Context(), 1))
		w.settle()
		check.Equal(t, w.counts(), "[a:1]")
		check.OK(t, a.SetWeight(w.Context(), 0))
		w.settle()
		a.GiveGrant(0, old)
		w.settle()
		check.True(t, a.Token(0) > old, "the new grant is given")
		w.mu.Lock()
		delete(w.owners, 0)
		w.mu.Unlock()
		a.GiveGrant(0, a.Token(0))
		w.settle()
		check.Equal(t, a.Token(0), 0)
	})
}

// TestDeletedChildren: an operator deletes children of the plan, and leaves the plan. The next
// change makes them again.
func TestDeletedChildren(t *testing.T) {
	for _, child := range []string{"generation-", "records"} {
		inBubble(t, func(w *world) {
			w.join(w.open(), "a", 4, shard.Options{})
			w.settle()
			s := w.open()
			names, _, err := s.Children(w.Context(), orders+"/plan")
			check.Must(t, err)
			check.Len(t, names, 2)
			i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, child) })
			erase(w.Context(), s, orders+"/plan/"+names[i], func() {})
			w.join(w.open(), "b", 4, shard.Options{})
			w.settle()
			check.Equal(t, w.counts(), "[a:2 b:2]", child)
			again, _, err := s.Children(w.Context(), orders+"/plan")
			check.Must(t, err)
			slices.Sort(names)
			check.EqualSlices(t, slices.Sorted(slices.Values(again)), names)
		})
	}
}

// TestDeletedNodes: an operator who deletes nodes disturbs, and the shards have owners again.
func TestDeletedNodes(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.join(w.open(), "a", 4, shard.Options{})
		w.join(w.open(), "b", 4, shard.Options{})
		w.settle()
		s := w.open()
		for _, path := range []string{"/members/a", "/plan/records/a", "/plan/records/b", "/members/b"} {
			check.OK(t, s.Delete(w.Context(), orders+path, session.AnyVersion), path)
			w.settle()
			check.Equal(t, w.counts(), "[a:2 b:2]")
		}
		for _, shard := range a.Owned() {
			dir := fmt.Sprintf("%s/shards/%d", orders, shard)
			names, _, err := s.Children(w.Context(), dir)
			check.True(t, err == nil && len(names) == 1, "%v, %v", names, err)
			check.OK(t, s.Delete(w.Context(), dir+"/"+names[0], session.AnyVersion))
			w.settle()
			check.Equal(t, w.counts(), "[a:2 b:2]")
		}
		check.True(t, slices.ContainsFunc(a.events, func(ev shard.Event) bool {
			lost, is := ev.(shard.Lost)
			return is && errors.Is(lost.Err, shard.ErrLost)
		}), "%v", a.events)
	})
}

// TestTroubleAtEveryRequest loses each request, or its reply, of a member while others come and go.
func TestTroubleAtEveryRequest(t *testing.T) {
	for name, lose := range map[string]func(srv *zktest.Server, m zktest.Match){"request": (*zktest.Server).DropRequest, "reply": (*zktest.Server).DropReply} {
		t.Run(name, func(t *testing.T) {
			for skip := range hasten.Sized(hasten.Usually(70, 35), 25) {
				inBubble(t, func(w *world) {
					s := w.open()
					lose(w.Server, zktest.Match{Session: s.ID(), Skip: skip})
					a := w.join(s, "a", 4, shard.Options{})
					w.settle()
					b := w.join(w.open(), "b", 4, shard.Options{})
					w.settle()
					check.Equal(t, w.counts(), "[a:2 b:2]", skip)
					check.OK(t, b.Leave(w.Context()), skip)
					w.settle()
					check.Equal(t, w.counts(), "[a:4]", skip)
					w.join(w.open(), "c", 4, shard.Options{})
					w.settle()
					check.Equal(t, w.counts(), "[a:2 c:2]", skip)
					check.OK(t, a.Leave(w.Context()), skip)
					w.settle()
					check.Equal(t, w.counts(), "[c:4]", skip)
				})
			}
		})
	}
}

// TestForbidden: a session that may not write learns why it cannot be a member.
func TestForbidden(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		check.OK(t, s.EnsurePath(w.Context(), orders))
		_, err := s.SetACL(w.Context(), orders, []session.ACL{{Perms: session.PermRead, Scheme: "world", ID: "anyone"}}, session.AnyVersion)
		check.OK(t, err)
		m := w.join(s, "a", 4, shard.Options{})
		<-m.over
		check.Is(t, m.Err(), session.ErrNoAuth)
	})
}

// TestRestored: after the servers have come back with older data, no token goes back, and the
// shards have owners again when the zxids have caught up.
func TestRestored(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.join(w.open(), "a", 4, shard.Options{}), w.join(w.open(), "b", 4, shard.Options{})
		w.settle()
		check.Equal(t, w.counts(), "[a:2 b:2]")
		backup, s := w.Backup(), w.open()
		write := func() {
			for range 300 {
				_, err := s.Create(w.Context(), "/other", nil, session.PersistentSequential)
				check.OK(t, err)
			}
		}
		write()
		check.OK(t, a.session.Sync(w.Context(), "/")) // they have seen that
		check.OK(t, b.session.Sync(w.Context(), "/"))
		w.Restore(backup)
		kit.Pass(time.Minute)
		check.Equal(t, w.counts(), "[]")
		write()
		write()
		kit.Pass(2 * time.Minute)
		check.Equal(t, w.counts(), "[a:2 b:2]")
	})
}
