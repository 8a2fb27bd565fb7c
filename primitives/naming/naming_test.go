package naming_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

const service, name = "/names", "billing/primary"

// A world is a server in memory, in a bubble.
type world struct{ kit.World }

func inBubble(t *testing.T, f func(w world)) {
	t.Helper()
	kit.Run(t, zktest.Config{Tick: time.Second, Replicas: 2, Lag: 50 * time.Millisecond}, func(w kit.World) { f(world{w}) })
}

// options are those of sessions.
var options = session.Options{Timeout: 12 * time.Second, ServerTick: time.Second}

func (w world) open() *session.Session { return w.Open(options) }

func (w world) openGated() *kit.Gate { return w.OpenGated(options) }

// register fails the test unless the error is want.
func (w world) register(s *session.Session, data string, opts *naming.Options, want error) {
	w.Helper()
	err := naming.Register(w.Context(), s, service, name, []byte(data), opts)
	check.False(w, !errors.Is(err, want) || want == nil && err != nil, "register %q: %v, want %v", data, err, want)
}

// expect compares what the name stands for; "" is nothing.
func (w world) expect(s *session.Session, want string) {
	w.Helper()
	synctest.Wait()
	check.OK(w, s.Sync(w.Context(), "/"))
	data, err := naming.Lookup(w.Context(), s, service, name)
	if string(data) != want || (err != nil) != (want == "") || err != nil && !errors.Is(err, naming.ErrNotFound) {
		w.Errorf("the name stands for %q, %v; want %q", data, err, want)
	}
}

func (w world) unregister(s *session.Session, want error) {
	w.Helper()
	err := naming.Unregister(w.Context(), s, service, name)
	check.False(w, !errors.Is(err, want) || want == nil && err != nil, "unregister: %v, want %v", err, want)
}

func TestPersistent(t *testing.T) {
	inBubble(t, func(w world) {
		a, b := w.open(), w.open()
		w.register(a, "1", nil, nil)
		w.register(b, "2", nil, naming.ErrTaken)
		w.expect(b, "1")
		a.Close()
		w.register(b, "2", &naming.Options{Replace: true}, nil)
		w.expect(b, "2")
		for _, other := range []string{"a", "a/b", "a/b/c", "..", "100%"} {
			check.OK(w, naming.Register(w.Context(), b, service, other, nil, nil))
		}
		names, err := naming.List(w.Context(), b, service)
		check.True(w, err == nil && slices.Equal(names, []string{"..", "100%", "a", "a/b", "a/b/c", name}), "names: %q, %v", names, err)
		w.unregister(b, nil)
		w.unregister(b, naming.ErrNotFound)
		w.expect(b, "")
	})
}

func TestEphemeral(t *testing.T) {
	inBubble(t, func(w world) {
		a, b := w.open(), w.open()
		ephemeral := &naming.Options{Ephemeral: true}
		w.register(a, "1", ephemeral, nil)
		w.expect(b, "1")
		w.register(a, "2", ephemeral, naming.ErrTaken)
		w.register(a, "3", &naming.Options{Ephemeral: true, Replace: true}, nil)
		w.expect(b, "3")
		began := time.Now()
		w.register(b, "4", ephemeral, naming.ErrTaken)
		check.Within(w, time.Since(began), 24*time.Second, 25*time.Second, "refused after")
		w.unregister(b, naming.ErrForeign)
		w.unregister(a, nil)
		w.expect(b, "")
		w.register(a, "5", ephemeral, nil)
		w.expect(b, "5")
		a.Close()
		w.expect(b, "")
	})
}

// TestReplace: whatever stands is replaced by whatever is asked for.
func TestReplace(t *testing.T) {
	for _, before := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			inBubble(t, func(w world) {
				a, b := w.open(), w.open()
				w.register(a, "1", &naming.Options{Ephemeral: before}, nil)
				w.register(b, "2", &naming.Options{Ephemeral: after, Replace: true}, nil)
				w.expect(a, "2")
				<-time.After(time.Minute)
				w.expect(a, "2")
				a.Close()
				w.expect(b, "2")
				w.unregister(b, nil)
				w.expect(b, "")
			})
		}
	}
}

// TestExpiry: the name is registered again, also if the server keeps the earlier node.
func TestExpiry(t *testing.T) {
	for _, keep := range []time.Duration{0, time.Hour} {
		inBubble(t, func(w world) {
			a, b := w.open(), w.open()
			r := check.Open(naming.Keep(a, service, name, []byte("1"), nil))(w)
			var told []string
			next := func() {
				ev := <-r.Events()
				word, _, _ := strings.Cut(ev.String(), " ")
				told = append(told, word)
			}
			next()
			w.KeepEphemerals(keep)
			w.Expire(a.ID())
			for range 3 {
				next()
			}
			want := []string{"registered", "suspended", "gone:", "registered"}
			check.EqualSlices(w, told, want, "told")
			w.expect(b, "1")
			check.OK(w, r.Update(w.Context(), []byte("2")))
			w.expect(b, "2")
			r.Close()
			w.expect(b, "")
			check.Is(w, r.Update(w.Context(), nil), naming.ErrUnregistered)
		})
	}
}

// TestLostReplies loses each request, or the reply to it, of each story in turn.
func TestLostReplies(t *testing.T) {
	stories := map[string]func(w world, s *session.Session){
		"persistent": func(w world, s *session.Session) {
			w.register(s, "1", nil, nil)
			w.register(s, "2", nil, naming.ErrTaken)
			w.register(s, "3", &naming.Options{Replace: true}, nil)
		},
		"ephemeral": func(w world, s *session.Session) {
			w.register(s, "1", &naming.Options{Ephemeral: true}, nil)
			w.register(s, "3", &naming.Options{Ephemeral: true, Replace: true}, nil)
		},
	}
	for what, story := range stories {
		for name, fault := range map[string]func(*zktest.Server, zktest.Match){
			"reply": (*zktest.Server).DropReply, "request": (*zktest.Server).DropRequest,
		} {
			t.Run(what+" "+name, func(t *testing.T) {
				hits := 0
				for skip, more := 0, true; more; skip++ {
					inBubble(t, func(w world) {
						s, other := w.open(), w.open()
						fault(w.Server, zktest.Match{Session: s.ID(), Skip: skip})
						story(w, s)
						w.expect(other, "3")
						w.unregister(s, nil)
						w.expect(other, "")
						more = w.AwaitFault(0) == nil
						w.ClearFaults()
						if more {
							hits++
						}
					})
				}
				check.AtLeast(t, hits, 5, "requests were hit")
			})
		}
	}
}

// TestCancelled: who does not wait leaves nothing behind.
func TestCancelled(t *testing.T) {
	inBubble(t, func(w world) {
		s, other := w.open(), w.open()
		w.Freeze(s.ID(), zktest.ToClient)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		check.Is(w, naming.Register(ctx, s, service, name, nil, &naming.Options{Ephemeral: true}), context.DeadlineExceeded)
		w.Thaw(0)
		<-time.After(time.Minute)
		w.expect(other, "")
	})
}

// TestGivenUpMeanwhile: a registration that another goroutine takes back, while the server is away,
// has failed. The error of one that is not waited for names the server.
func TestGivenUpMeanwhile(t *testing.T) {
	inBubble(t, func(w world) {
		s := w.open()
		w.Refuse(true)
		w.Disconnect(0)
		synctest.Wait()
		soon := func() context.Context {
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			w.Cleanup(cancel)
			return ctx
		}
		ephemeral := &naming.Options{Ephemeral: true}
		err := naming.Register(soon(), s, service, "late", nil, ephemeral)
		check.True(w, errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), w.Addrs()[0]), "%v", err)

		registered := make(chan error, 1)
		go func() { registered <- naming.Register(w.Context(), s, service, name, nil, ephemeral) }()
		synctest.Wait()
		check.Is(w, naming.Unregister(soon(), s, service, name), context.DeadlineExceeded)
		check.True(w, <-registered != nil, "registered")
		w.Refuse(false)
		<-time.After(time.Minute)
		w.expect(s, "")
	})
}

func TestWatch(t *testing.T) {
	inBubble(t, func(w world) {
		s := w.open()
		v := check.Open(naming.Watch(s, service, name, nil))(w)
		if state := <-v.Changes(); state.Exists {
			w.Error(state)
		}
		w.register(s, "1", nil, nil)
		check.Equal(w, string((<-v.Changes()).Data), "1")
		w.unregister(s, nil)
		for state := range v.Changes() {
			if !state.Exists {
				break
			}
			check.Equal(w, string(state.Data), "1", state)
		}
	})
}

func TestBadInput(t *testing.T) {
	inBubble(t, func(w world) {
		s, closed := w.open(), w.open()
		closed.Close()
		synctest.Wait()
		w.ResetRequests()
		ctx := w.Context()
		for _, c := range []struct {
			session    *session.Session
			path, name string
			data       []byte
			opts       naming.Options
			want       error
			names      string
		}{
			{nil, service, "a", nil, naming.Options{}, session.ErrInvalidArgument, "session"},
			{closed, service, "a", nil, naming.Options{}, session.ErrClosed, "closed"},
			{s, "", "a", nil, naming.Options{}, session.ErrInvalidPath, "path"},
			{s, service, "", nil, naming.Options{}, session.ErrInvalidArgument, "name"},
			{s, service, "a\x00", nil, naming.Options{}, session.ErrInvalidPath, "name"},
			{s, service, "a\xff", nil, naming.Options{}, session.ErrInvalidPath, "name"},
			{s, service, "a", make([]byte, 2<<20), naming.Options{}, session.ErrTooLarge, "data"},
			{s, service, "a", nil, naming.Options{ConflictAfter: -1}, session.ErrInvalidArgument, "ConflictAfter"},
		} {
			persistent, ephemeral := c.opts, c.opts
			ephemeral.Ephemeral = true
			_, kept := naming.Keep(c.session, c.path, c.name, c.data, &c.opts)
			errs := []error{
				naming.Register(ctx, c.session, c.path, c.name, c.data, &persistent),
				naming.Register(ctx, c.session, c.path, c.name, c.data, &ephemeral),
				kept,
			}
			if c.data == nil && c.opts == (naming.Options{}) {
				_, looked := naming.Lookup(ctx, c.session, c.path, c.name)
				_, watched := naming.Watch(c.session, c.path, c.name, nil)
				errs = append(errs, looked, watched, naming.Unregister(ctx, c.session, c.path, c.name))
			}
			for i, err := range errs {
				check.True(w, errors.Is(err, c.want) && strings.Contains(err.Error(), c.names), "%d: %q, %q: %v, want %v that names %s", i, c.path, c.name, err, c.want, c.names)
			}
		}
		check.Fails(naming.List(ctx, nil, service))(w, session.ErrInvalidArgument)
		synctest.Wait()
		check.True(w, len(w.Requests()) == 0, "requests: %v", w.Requests())
	})
}

// TestRegisteredIsKept: a reader of events that comes late is told that the name stands, whatever
// came after that.
func TestRegisteredIsKept(t *testing.T) {
	inBubble(t, func(w world) {
		r := check.Open(naming.Keep(w.open(), "/late", "me", nil, nil))(w)
		for range 2 {
			<-time.After(time.Second)
			w.Disconnect(0)
		}
		<-time.After(time.Second)
		check.Equal(w, <-r.Events(), naming.Event(naming.Registered{}))
	})
}
