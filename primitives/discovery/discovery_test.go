package discovery_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const (
	services = "/services"
	search   = "search"
)

var serverSet = &discovery.Options{Format: discovery.ServerSet}

// A world is a server in memory, in a bubble.
type world struct{ kit.World }

func inBubble(t *testing.T, f func(w world)) {
	t.Helper()
	kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) { f(world{w}) })
}

func (w world) open() *session.Session {
	return w.Open(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second})
}

func at(id string, port int) discovery.Instance {
	return discovery.Instance{Service: search, ID: id, Address: "10.0.0.7", Port: port}
}

// register returns when the instance stands.
func (w world) register(s *session.Session, i discovery.Instance, opts *discovery.Options) *discovery.Registration {
	w.Helper()
	return check.Open(discovery.Announce(w.Context(), s, services, i, opts))(w)
}

func (w world) watch(s *session.Session, opts *discovery.WatchOptions) *discovery.Watcher {
	w.Helper()
	return check.Open(discovery.Watch(s, services, search, opts))(w)
}

// nodes returns the nodes of the service that the server has, in order.
func (w world) nodes() (names []string) {
	for _, p := range w.Paths() {
		if name, ok := strings.CutPrefix(p, services+"/"+search+"/"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func texts(all []discovery.Instance) (texts []string) {
	for _, i := range all {
		texts = append(texts, strings.TrimPrefix(i.String(), search+"/"))
	}
	return texts
}

// expect receives until the instances are as wanted.
func (w world) expect(watcher *discovery.Watcher, want ...string) {
	w.Helper()
	for all := range watcher.Changes() {
		if slices.Equal(texts(all), want) {
			return
		}
	}
	w.Fatalf("the watcher has ended: %v", watcher.Err())
}

// await reads events until one of type E comes.
func await[E discovery.Event](w world, r *discovery.Registration) (found E) {
	w.Helper()
	for ev := range r.Events() {
		if e, ok := ev.(E); ok {
			return e
		}
	}
	w.Fatalf("no %T came: %v", found, r.Err())
	return found
}

// TestLife: an instance is found, changes, and goes.
func TestLife(t *testing.T) {
	for format, opts := range map[discovery.Format]*discovery.Options{discovery.Curator: nil, discovery.ServerSet: serverSet} {
		t.Run(format.String(), func(t *testing.T) {
			inBubble(t, func(w world) {
				watcher := w.watch(w.open(), &discovery.WatchOptions{Format: format})
				check.Len(t, <-watcher.Changes(), 0)
				_, err := watcher.Pick(discovery.RoundRobin)
				check.Is(t, err, discovery.ErrNoInstance)
				i := at("", 9200)
				r := w.register(w.open(), i, opts)
				i.ID = r.Instance().ID
				w.expect(watcher, i.ID+"=10.0.0.7:9200")
				check.EqualSlices(t, w.nodes(), []string{i.ID})
				got, err := watcher.Pick(discovery.Sticky)
				check.True(t, err == nil && got.ID == i.ID, "%v, %v", got, err)
				i.Port = 9201
				check.OK(t, r.Update(w.Context(), i))
				w.expect(watcher, i.ID+"=10.0.0.7:9201")
				check.OK(t, r.Unregister(w.Context()))
				w.expect(watcher)
				check.OK(t, r.Unregister(w.Context()))
				check.Is(t, r.Update(w.Context(), i), discovery.ErrUnregistered)
				check.Len(t, w.nodes(), 0)
			})
		})
	}
}

// TestAgain: after an expiry the newest instance stands again, under the same name and alone.
func TestAgain(t *testing.T) {
	for name, opts := range map[string]*discovery.Options{"Curator": nil, "ServerSet": serverSet} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w world) {
				s := w.open()
				r := w.register(s, at("", 1), opts)
				node := w.nodes()
				await[discovery.Registered](w, r)
				i := r.Instance()
				i.Port = 2
				check.OK(t, r.Update(w.Context(), i))
				for range 5 {
					w.Expire(s.ID())
					check.Is(t, await[discovery.Gone](w, r).Err, session.ErrExpired)
					await[discovery.Registered](w, r)
					check.EqualSlices(t, w.nodes(), node)
					watcher := w.watch(w.open(), &discovery.WatchOptions{Format: map[bool]discovery.Format{opts != nil: discovery.ServerSet}[true]})
					got := <-watcher.Changes()
					check.True(t, len(got) == 1 && got[0].Port == 2 && got[0].Registered.Equal(i.Registered), "%+v", got)
				}
			})
		})
	}
}

// TestNoPhantom: wherever a reply is lost, or a session ends, an instance that was unregistered is
// gone, and stays away; one that was not is there once.
func TestNoPhantom(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpCreate, zktest.OpDelete, zktest.OpSetData, zktest.OpMulti, zktest.OpGetData} {
		for _, leave := range []bool{true, false} {
			for _, expire := range []bool{true, false} {
				inBubble(t, func(w world) {
					s := w.open()
					w.DropReply(zktest.Match{Op: op, Path: services + "/*/*"})
					r := check.Open(discovery.Register(s, services, at("a", 1), nil))(t)
					ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
					defer cancel()
					if expire {
						w.Expire(s.ID())
					}
					check.OK(t, r.Update(ctx, at("a", 2)), op, leave, expire)
					if leave {
						check.OK(t, r.Unregister(ctx), op, expire)
						w.Expire(s.ID())
						kit.Pass(time.Minute)
						check.Len(t, w.nodes(), 0, op, expire)
						return
					}
					kit.Pass(time.Minute)
					check.EqualSlices(t, w.nodes(), []string{"a"}, op, expire)
				})
			}
		}
	}
}

// TestSeenAgain: a watcher that was cut off while it read the list sees an instance that was
// registered again meanwhile.
func TestSeenAgain(t *testing.T) {
	inBubble(t, func(w world) {
		gate := w.OpenGated(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second})
		owner := w.open()
		w.register(owner, at("a", 1), nil)
		watcher := w.watch(gate.Session, nil)
		w.expect(watcher, "a=10.0.0.7:1")
		w.DropReply(zktest.Match{Op: zktest.OpGetChildren2, Session: gate.ID()})
		gate.Refuse()
		w.register(w.open(), at("b", 1), nil)
		synctest.Wait()
		w.Expire(owner.ID())
		kit.Pass(3 * time.Second)
		gate.Mend()
		kit.Pass(time.Minute)
		check.Len(t, watcher.Instances(), 2)
	})
}

// TestBusyUpdate: a busy server delays an update, whether it has done it or not, and does not undo
// it.
func TestBusyUpdate(t *testing.T) {
	for _, code := range []int32{-7, -122, -127} {
		inBubble(t, func(w world) {
			r := w.register(w.open(), at("a", 1), nil)
			watcher := w.watch(w.open(), nil)
			w.AnswerError(zktest.Match{Op: zktest.OpSetData}, code)
			check.OK(t, r.Update(w.Context(), at("a", 2)))
			w.expect(watcher, "a=10.0.0.7:2")
		})
	}
}

// TestSuccessor: a failure of an instance that is gone does not count against the one that has come
// in its place.
func TestSuccessor(t *testing.T) {
	inBubble(t, func(w world) {
		watcher := w.watch(w.open(), &discovery.WatchOptions{FailureLimit: 1})
		first := w.register(w.open(), at("a", 1), nil)
		w.register(w.open(), at("b", 1), nil)
		w.expect(watcher, "a=10.0.0.7:1", "b=10.0.0.7:1")
		early, late := watcher.Use(watcher.Instances()[0]), watcher.Use(watcher.Instances()[0])
		first.Close()
		w.expect(watcher, "b=10.0.0.7:1")
		early(errors.New("connection reset"))
		w.register(w.open(), at("a", 2), nil)
		w.expect(watcher, "a=10.0.0.7:2", "b=10.0.0.7:1")
		late(errors.New("connection reset"))
		picked := map[string]int{}
		for range 4 {
			i, err := watcher.Pick(discovery.RoundRobin)
			check.OK(t, err)
			picked[i.ID]++
		}
		check.EqualMaps(t, picked, map[string]int{"a": 2, "b": 2})
	})
}

// TestDuplicates: of two instances with one ID, one stands. A ghost is waited for.
func TestDuplicates(t *testing.T) {
	inBubble(t, func(w world) {
		s, other := w.open(), w.open()
		first := w.register(s, at("a", 1), nil)
		_, err := discovery.Register(s, services, at("a", 2), nil)
		check.Is(t, err, discovery.ErrDuplicate)
		_, err = discovery.Announce(w.Context(), other, services, at("a", 2), nil)
		check.Is(t, err, discovery.ErrDuplicate)
		check.EqualSlices(t, w.nodes(), []string{"a"})

		again := check.Open(discovery.Register(other, services, at("a", 3), nil))(t)
		kit.Pass(time.Second)
		s.Close()
		await[discovery.Registered](w, again)
		check.Is(t, first.Err(), session.ErrClosed)

		third := w.register(w.open(), at("a", 4), &discovery.Options{TakeOver: true})
		check.Is(t, await[discovery.Unregistered](w, again).Err, discovery.ErrDuplicate)
		watcher := w.watch(other, nil)
		w.expect(watcher, "a=10.0.0.7:4")
		third.Close()
		w.expect(watcher)
	})
}

// TestNumbers: others create sequential nodes beside ours, and neither is in the way of the other.
func TestNumbers(t *testing.T) {
	inBubble(t, func(w world) {
		s := w.open()
		watcher := w.watch(s, &discovery.WatchOptions{Format: discovery.ServerSet})
		ours := w.register(s, at("", 1), serverSet)
		for _, digits := range []string{"0000000001", "0000000003", "2147483647"} {
			_, err := s.Create(w.Context(), services+"/search/member_"+digits, []byte(`{"serviceEndpoint":{"host":"h","port":7},"additionalEndpoints":{},"status":"ALIVE","shard":1}`), session.Ephemeral)
			check.OK(t, err)
			w.register(s, at("", 1), serverSet)
		}
		for all := range watcher.Changes() {
			if len(all) == 7 {
				break
			}
		}
		check.True(t, watcher.Instances()[0].Address == "h" && ours.Instance().ID > "member_3", "%v", watcher.Instances())

		r := w.register(s, discovery.Instance{Service: search, ID: "x", Type: discovery.DynamicSequential}, nil)
		check.True(t, slices.ContainsFunc(w.nodes(), func(n string) bool { return len(n) == 11 && n[0] == 'x' }), "%v", w.nodes())
		check.Equal(t, r.Instance().ID, "x")
	})
}

// TestPublished: an instance that was published outlives its session, until it is withdrawn.
func TestPublished(t *testing.T) {
	inBubble(t, func(w world) {
		s := w.open()
		watcher := w.watch(w.open(), nil)
		i := at("db", 5432)
		check.OK(t, discovery.Publish(w.Context(), s, services, i, nil))
		i.Port, i.Type = 5433, discovery.Permanent
		check.OK(t, discovery.Publish(w.Context(), s, services, i, nil))
		s.Close()
		w.expect(watcher, "db=10.0.0.7:5433")
		check.Equal(t, watcher.Instances()[0].Type, discovery.Permanent)

		s = w.open()
		names, err := discovery.Services(w.Context(), s, services)
		check.OK(t, err)
		check.EqualSlices(t, names, []string{search})
		check.OK(t, discovery.Withdraw(w.Context(), s, services, search, "db"))
		w.expect(watcher)
		check.Is(t, discovery.Withdraw(w.Context(), s, services, search, "db"), discovery.ErrNotFound)
		w.register(s, at("live", 1), nil)
		check.True(t, discovery.Withdraw(w.Context(), w.open(), services, search, "live") != nil, "it ends with its session")
		check.EqualSlices(t, w.nodes(), []string{"live"})

		i = at("db", 1)
		i.Type = discovery.Static
		_, err = discovery.Register(s, services, i, nil)
		check.Is(t, err, session.ErrInvalidArgument)
		for _, bad := range []discovery.Instance{at("", 1), {Service: search, ID: "a", Type: discovery.Dynamic}, {ID: "a"}} {
			check.Is(t, discovery.Publish(w.Context(), s, services, bad, nil), session.ErrInvalidArgument)
		}
		check.Is(t, discovery.Publish(w.Context(), s, services, i, serverSet), session.ErrInvalidArgument)
	})
}

// TestSkipped: nodes that are no instances are reported once for each version, and hide no others.
func TestSkipped(t *testing.T) {
	inBubble(t, func(w world) {
		s := w.open()
		var mu sync.Mutex
		var skipped []string
		watcher := w.watch(w.open(), &discovery.WatchOptions{Skipped: func(node string, err error) {
			mu.Lock()
			defer mu.Unlock()
			check.Is(t, err, discovery.ErrNoFormat)
			skipped = append(skipped, node)
		}})
		w.register(s, at("a", 1), nil)
		w.expect(watcher, "a=10.0.0.7:1")
		_, err := s.Create(w.Context(), services+"/search/bad", []byte("10.0.0.7:80"), session.Persistent)
		check.OK(t, err)
		synctest.Wait()
		_, err = s.Set(w.Context(), services+"/search/bad", []byte("10.0.0.7:81"), session.AnyVersion)
		check.OK(t, err)
		w.register(s, at("b", 2), nil)
		w.expect(watcher, "a=10.0.0.7:1", "b=10.0.0.7:2")
		mu.Lock()
		defer mu.Unlock()
		check.EqualSlices(t, skipped, []string{"bad", "bad"})
	})
}

// TestPicks: failures leave an instance out for a while, and a closed session ends it all.
func TestPicks(t *testing.T) {
	inBubble(t, func(w world) {
		s := w.open()
		watcher := w.watch(s, &discovery.WatchOptions{FailureLimit: 1, FailureWindow: time.Minute})
		w.register(s, at("a", 1), nil)
		w.register(s, at("b", 2), nil)
		r := w.register(s, at("c", 3), nil)
		off := at("c", 3)
		off.Disabled = true
		check.OK(t, r.Update(w.Context(), off))
		w.expect(watcher, "a=10.0.0.7:1", "b=10.0.0.7:2", "c=10.0.0.7:3 (disabled)")
		pick := func(strategy discovery.Strategy) discovery.Instance {
			i, err := watcher.Pick(strategy)
			check.OK(t, err)
			return i
		}
		first, second := pick(discovery.RoundRobin), pick(discovery.RoundRobin)
		check.True(t, first.ID != second.ID && first.ID != "c" && second.ID != "c", "%v, %v", first, second)
		done := watcher.Use(first)
		check.Equal(t, pick(discovery.LeastUsed).ID, second.ID)
		done(nil)
		done(errors.New("late"))
		watcher.Use(first)(errors.New("refused"))
		for range 5 {
			check.Equal(t, pick(discovery.Random).ID, second.ID)
		}
		kit.Pass(time.Minute)
		seen := map[string]bool{}
		for range 2 {
			seen[pick(discovery.RoundRobin).ID] = true
		}
		check.True(t, seen["a"] && seen["b"], "%v", seen)

		for _, strategy := range []discovery.Strategy{nil, func(discovery.Pool) int { return -1 }, func(p discovery.Pool) int { return len(p.Instances) }} {
			_, err := watcher.Pick(strategy)
			check.Is(t, err, session.ErrInvalidArgument)
		}
		s.Close()
		<-watcher.Done()
		_, err := watcher.Pick(discovery.Random)
		check.Is(t, err, discovery.ErrNoInstance)
		check.Is(t, err, session.ErrClosed)
	})
}

// TestCutOff: without a connection a watcher stays as it was, and converges when it is back.
func TestCutOff(t *testing.T) {
	inBubble(t, func(w world) {
		gate := w.OpenGated(session.Options{Timeout: 12 * time.Second, ServerTick: time.Second})
		watcher := w.watch(gate.Session, nil)
		s := w.open()
		a := w.register(s, at("a", 1), nil)
		w.expect(watcher, "a=10.0.0.7:1")
		gate.Cut()
		a.Close()
		w.register(s, at("b", 2), nil)
		kit.Pass(time.Minute)
		i, err := watcher.Pick(discovery.Random)
		check.True(t, err == nil && i.ID == "a", "%v, %v", i, err)
		gate.Mend()
		w.expect(watcher, "b=10.0.0.7:2")
	})
}

// TestUnread: a slow reader receives the newest instances, and a watcher without a reader ends.
func TestUnread(t *testing.T) {
	inBubble(t, func(w world) {
		s := w.open()
		watcher, unread := w.watch(s, nil), w.watch(s, nil)
		for i := range 50 {
			r := w.register(s, at("a", i+1), nil)
			synctest.Wait()
			if i < 49 {
				r.Close()
			}
		}
		synctest.Wait()
		check.EqualSlices(t, texts(<-watcher.Changes()), []string{"a=10.0.0.7:50"})
		unread.Close()
		unread.Close()
		_, open := <-unread.Changes()
		check.OK(t, unread.Err())
		_ = open
	})
}

// TestBadInput names the arguments, before any request.
func TestBadInput(t *testing.T) {
	inBubble(t, func(w world) {
		s := w.open()
		synctest.Wait()
		before := w.Requests().Total()
		large := at("a", 1)
		large.Payload = json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)
		register := func(path string, i discovery.Instance, o *discovery.Options) error {
			_, err := discovery.Register(s, path, i, o)
			return err
		}
		watch := func(path, service string, o *discovery.WatchOptions) error {
			_, err := discovery.Watch(s, path, service, o)
			return err
		}
		for _, c := range []struct {
			err  error
			is   error
			word string
		}{
			{register("services", at("a", 1), nil), session.ErrInvalidPath, "path"},
			{register(services, discovery.Instance{}, nil), session.ErrInvalidArgument, "Instance.Service"},
			{register(services, large, nil), session.ErrTooLarge, "a"},
			{register(services, at("a", 1), &discovery.Options{ConflictAfter: -1}), session.ErrInvalidArgument, "ConflictAfter"},
			{register(services, at("a", 1), &discovery.Options{Format: 7}), session.ErrInvalidArgument, "Format(7)"},
			{watch("services", search, nil), session.ErrInvalidPath, "path"},
			{watch(services, "", nil), session.ErrInvalidArgument, "service"},
			{watch(services, "a/b", nil), session.ErrInvalidArgument, "service"},
			{watch(services, "..", nil), session.ErrInvalidArgument, "service"},
			{watch(services, search, &discovery.WatchOptions{Format: 7}), session.ErrInvalidArgument, "Format"},
			{watch(services, search, &discovery.WatchOptions{FailureWindow: -1}), session.ErrInvalidArgument, "FailureWindow"},
			{discovery.Withdraw(w.Context(), s, services, search, ""), session.ErrInvalidArgument, "id"},
			{discovery.Withdraw(w.Context(), s, services, "", "a"), session.ErrInvalidArgument, "service"},
		} {
			check.Is(t, c.err, c.is, c.word)
			check.True(t, c.err != nil && strings.Contains(c.err.Error(), c.word), "%v does not name %s", c.err, c.word)
		}
		check.Equal(t, w.Requests().Total(), before)

		r := w.register(s, at("a", 1), nil)
		for _, i := range []discovery.Instance{at("b", 1), {Service: "other", ID: "a"}, {Service: search, ID: "a", Type: discovery.Static}, {Service: search, ID: "a", Port: -1}, large} {
			check.True(t, r.Update(w.Context(), i) != nil, "%+.40v", i)
		}
		check.True(t, strings.Contains(r.String(), "/services/search/a"), "%v", r)
	})
}
