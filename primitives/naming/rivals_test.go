package naming_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

var (
	ephemeral = &naming.Options{Ephemeral: true}
	replacing = &naming.Options{Replace: true}
	taking    = &naming.Options{Ephemeral: true, Replace: true}
)

const node = service + "/billing%2Fprimary"

// A gate is between a session and the servers.
type gate struct {
	*session.Session
	w      world
	closed atomic.Bool
}

// openGated opens a session whose connection can be cut for a while.
func (w world) openGated() (g *gate, end func()) {
	w.Helper()
	g = &gate{w: w}
	s, err := session.Open(w.Context(), w.Addrs(), &session.Options{
		Timeout: 12 * time.Second, ServerTick: time.Second,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if g.closed.Load() {
				return nil, net.ErrClosed
			}
			return w.DialContext(ctx, network, addr)
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	g.Session = s
	return g, s.Close
}

func (g *gate) cut() {
	g.closed.Store(true)
	g.w.Disconnect(g.ID())
	synctest.Wait()
}

func (g *gate) mend() { g.closed.Store(false) }

// begin calls f on a goroutine, and waits until nothing more happens.
func begin(f func() error) (result <-chan error) {
	ch := make(chan error, 1)
	go func() { ch <- f() }()
	synctest.Wait()
	return ch
}

// TestLostReplace loses the reply to, or the request of, each write that may replace a
// persistent name. What another does before that is found out stands, and the outcome is
// said to be unknown where it is.
func TestLostReplace(t *testing.T) {
	const lostReply, lostRequest = true, false
	for what, c := range map[string]struct {
		before *naming.Options // of who has the name; nil: nobody
		op     zktest.Op
		lose   bool
		then   func(w world, other *session.Session)
		want   error
		stands string
	}{
		"set":                             {&naming.Options{}, zktest.OpSetData, lostReply, nil, nil, "new"},
		"set, not done":                   {&naming.Options{}, zktest.OpSetData, lostRequest, nil, nil, "new"},
		"set, and replaced":               {&naming.Options{}, zktest.OpSetData, lostReply, replaceIt, session.ErrUnknownOutcome, "newer"},
		"set, and removed":                {&naming.Options{}, zktest.OpSetData, lostReply, removeIt, session.ErrUnknownOutcome, ""},
		"set, and another":                {&naming.Options{}, zktest.OpSetData, lostReply, renewIt, session.ErrUnknownOutcome, "newer"},
		"set, not done, another's before": {&naming.Options{}, zktest.OpSetData, lostRequest, replaceIt, nil, "new"},
		"created":                         {nil, zktest.OpCreate, lostReply, nil, nil, "new"},
		"created, not done":               {nil, zktest.OpCreate, lostRequest, nil, nil, "new"},
		"created, and replaced":           {nil, zktest.OpCreate, lostReply, replaceIt, session.ErrUnknownOutcome, "newer"},
		"created, and another":            {nil, zktest.OpCreate, lostReply, renewIt, session.ErrUnknownOutcome, "newer"},
		"taken":                           {ephemeral, zktest.OpMulti, lostReply, nil, nil, "new"},
		"taken, not done":                 {ephemeral, zktest.OpMulti, lostRequest, nil, nil, "new"},
		"taken, and replaced":             {ephemeral, zktest.OpMulti, lostReply, replaceIt, session.ErrUnknownOutcome, "newer"},
		"taken, and removed":              {ephemeral, zktest.OpMulti, lostReply, removeIt, session.ErrUnknownOutcome, ""},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(w world) {
				a, endA := w.openGated()
				defer endA()
				b, endB := w.open()
				defer endB()
				if c.before != nil {
					w.register(b, "old", c.before, nil)
				} else if err := b.EnsurePath(w.Context(), service); err != nil {
					w.Fatal(err)
				}
				m := zktest.Match{Op: c.op, Session: a.ID()}
				if c.lose == lostReply {
					w.DropReply(m)
				} else {
					w.DropRequest(m)
				}
				a.closed.Store(true) // it cannot come back before the other has acted
				result := begin(func() error { return naming.Register(w.Context(), a.Session, service, name, []byte("new"), replacing) })
				pass() // until the other has heard of it
				if c.then != nil {
					c.then(w, b)
				}
				a.mend()
				if err := <-result; !errors.Is(err, c.want) || c.want == nil && err != nil {
					w.Errorf("%v, want %v", err, c.want)
				}
				w.expect(b, c.stands)
			})
		})
	}
}

func replaceIt(w world, s *session.Session) { w.register(s, "newer", replacing, nil) }
func removeIt(w world, s *session.Session)  { w.unregister(s, nil) }
func renewIt(w world, s *session.Session) {
	w.unregister(s, nil)
	w.register(s, "newer", nil, nil)
}

// TestLostRegister is the same for who does not want to replace anything.
func TestLostRegister(t *testing.T) {
	bubble(t, func(w world) {
		a, endA := w.openGated()
		defer endA()
		b, endB := w.open()
		defer endB()
		if err := b.EnsurePath(w.Context(), service); err != nil {
			w.Fatal(err)
		}
		w.DropReply(zktest.Match{Op: zktest.OpCreate, Session: a.ID()})
		a.closed.Store(true)
		result := begin(func() error { return naming.Register(w.Context(), a.Session, service, name, []byte("new"), nil) })
		pass()
		replaceIt(w, b)
		a.mend()
		if err := <-result; !errors.Is(err, naming.ErrTaken) || !errors.Is(err, session.ErrUnknownOutcome) {
			w.Error(err)
		}
		w.expect(b, "newer")
	})
}

// TestLostUnregister: a name that another client has registered since is not removed.
func TestLostUnregister(t *testing.T) {
	bubble(t, func(w world) {
		a, endA := w.openGated()
		defer endA()
		b, endB := w.open()
		defer endB()
		w.register(b, "old", nil, nil)
		w.expect(a.Session, "old")
		w.DropReply(zktest.Match{Op: zktest.OpDelete, Session: a.ID()})
		a.closed.Store(true)
		result := begin(func() error { return naming.Unregister(w.Context(), a.Session, service, name) })
		w.register(b, "new", nil, nil)
		a.mend()
		if err := <-result; err != nil {
			w.Error(err)
		}
		w.expect(b, "new")
	})
}

// TestSlowUnregister: a persistent name that is removed by another, and registered anew to
// live with a session, before the request arrives that was to remove it.
func TestSlowUnregister(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpSetData, zktest.OpDelete} {
		bubble(t, func(w world) {
			a, endA := w.open()
			defer endA()
			b, endB := w.open()
			defer endB()
			w.register(b, "old", nil, nil)
			w.expect(a, "old")
			w.Delay(zktest.Match{Op: op, Session: a.ID()}, time.Second)
			result := begin(func() error { return naming.Unregister(w.Context(), a, service, name) })
			w.unregister(b, nil)
			r, err := naming.Keep(b, service, name, []byte("new"), nil)
			if err != nil {
				w.Fatal(err)
			}
			defer r.Close()
			if ev := <-r.Events(); ev != (naming.Registered{}) {
				w.Error(ev)
			}
			// When it is done by then, it was done before the name was registered anew.
			if err := <-result; err != nil && !errors.Is(err, naming.ErrForeign) {
				w.Error(err)
			}
			w.expect(a, "new")
			select {
			case ev := <-r.Events():
				w.Errorf("the new one was told %v", ev)
			default:
			}
		})
	}
}

// TestSlowReplace: who replaces a persistent name that lives with a session by the time
// the request arrives replaces that, for good.
func TestSlowReplace(t *testing.T) {
	bubble(t, func(w world) {
		a, endA := w.open()
		defer endA()
		b, endB := w.open()
		defer endB()
		w.register(b, "old", nil, nil)
		w.Delay(zktest.Match{Op: zktest.OpSetData, Session: a.ID()}, time.Second)
		result := begin(func() error { return naming.Register(w.Context(), a, service, name, []byte("new"), replacing) })
		if _, err := b.Multi(w.Context(), session.DeleteOp(node, 0), session.CreateOp(node, nil, session.Ephemeral)); err != nil {
			w.Fatal(err)
		}
		if err := <-result; err != nil {
			w.Error(err)
		}
		endB()
		w.expect(a, "new")
	})
}

// TestUnregisterWhileWaiting: a name that this session only waits for is another's.
func TestUnregisterWhileWaiting(t *testing.T) {
	bubble(t, func(w world) {
		a, endA := w.open()
		defer endA()
		b, endB := w.open()
		defer endB()
		w.register(a, "1", ephemeral, nil)
		r, err := naming.Keep(b, service, name, []byte("2"), nil)
		if err != nil {
			w.Fatal(err)
		}
		defer r.Close()
		pass()
		w.unregister(b, naming.ErrForeign)
		<-r.Done()
		w.expect(b, "1")
		w.unregister(a, nil)

		// One that is being registered is given up.
		r, err = naming.Keep(b, service, name, []byte("3"), nil)
		if err != nil {
			w.Fatal(err)
		}
		defer r.Close()
		w.unregister(b, nil)
		w.expect(a, "")
		w.unregister(b, naming.ErrNotFound)

		// One that was lost to another is the other's.
		r, err = naming.Keep(b, service, name, []byte("4"), nil)
		if err != nil {
			w.Fatal(err)
		}
		defer r.Close()
		<-r.Events()
		w.register(a, "5", taking, nil)
		<-r.Done()
		w.unregister(b, naming.ErrForeign)
		w.expect(b, "5")
	})
}

// TestReplaceWhileWaiting: who replaces does so at once, also if this session waits for the
// name already.
func TestReplaceWhileWaiting(t *testing.T) {
	bubble(t, func(w world) {
		a, endA := w.open()
		defer endA()
		b, endB := w.open()
		defer endB()
		w.register(a, "1", ephemeral, nil)
		r, err := naming.Keep(b, service, name, []byte("2"), &naming.Options{ConflictAfter: time.Hour})
		if err != nil {
			w.Fatal(err)
		}
		defer r.Close()
		pass()
		began := time.Now()
		w.register(b, "3", taking, nil)
		if took := time.Since(began); took > time.Second {
			w.Errorf("it took %v", took)
		}
		w.expect(b, "3")
	})
}

// TestUnregisterUnseen: a name that another client has taken is kept, also if this
// session has not been told yet.
func TestUnregisterUnseen(t *testing.T) {
	bubble(t, func(w world) {
		a, endA := w.open()
		defer endA()
		b, endB := w.open()
		defer endB()
		w.register(a, "1", ephemeral, nil)
		w.DelayEvent(zktest.Match{Session: a.ID()}, time.Second)
		w.register(b, "2", taking, nil)
		w.unregister(a, naming.ErrForeign)
		w.expect(a, "2")
	})
}

// TestReplaceUnseen: who replaces a name that it kept has it then, also if it has not been
// told yet that another client has taken the name, and registered it for the same data.
func TestReplaceUnseen(t *testing.T) {
	bubble(t, func(w world) {
		a, endA := w.open()
		defer endA()
		b, endB := w.open()
		defer endB()
		w.register(a, "1", ephemeral, nil)
		w.DelayEvent(zktest.Match{Session: a.ID()}, time.Second)
		w.register(b, "1", taking, nil)
		w.register(a, "1", taking, nil)
		pass()
		w.unregister(b, naming.ErrForeign)
		w.unregister(a, nil)
	})
}

// TestMayNotUnregister: a client that may not delete a name has not unregistered it,
// and is told.
func TestMayNotUnregister(t *testing.T) {
	bubble(t, func(w world) {
		owner, err := session.Open(w.Context(), w.Addrs(), &session.Options{
			Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: w.DialContext,
			ACL: []session.ACL{{Perms: session.PermCreate | session.PermRead, Scheme: "world", ID: "anyone"}},
		})
		if err != nil {
			w.Fatal(err)
		}
		defer owner.Close()
		if err := owner.EnsurePath(w.Context(), service); err != nil {
			w.Fatal(err)
		}
		a, endA := w.open()
		defer endA()
		w.register(a, "1", ephemeral, nil)
		w.unregister(a, session.ErrNoAuth)
		w.expect(a, "1")
	})
}

// pass lets a second go by.
func pass() { <-time.After(time.Second) }

// TestReplaceWhatEnds: who replaces a name that this session keeps, and loses meanwhile,
// registers it anew.
func TestReplaceWhatEnds(t *testing.T) {
	bubble(t, func(w world) {
		a, endA := w.openGated()
		defer endA()
		b, endB := w.open()
		defer endB()
		w.register(a.Session, "1", ephemeral, nil)
		a.cut()
		result := begin(func() error { return naming.Register(w.Context(), a.Session, service, name, []byte("3"), taking) })
		w.register(b, "2", taking, nil)
		w.expect(b, "2")
		a.mend()
		if err := <-result; err != nil {
			w.Error(err)
		}
		w.expect(b, "3")

		// The same if it is unregistered.
		a.cut()
		result = begin(func() error { return naming.Register(w.Context(), a.Session, service, name, []byte("4"), taking) })
		left := begin(func() error { return naming.Unregister(w.Context(), a.Session, service, name) })
		a.mend()
		if err := errors.Join(<-result, <-left); err != nil {
			w.Error(err)
		}
		w.expect(b, "4")
	})
}

// TestTakenByAMember: a node that a member of a group keeps through the same session is
// not a name.
func TestTakenByAMember(t *testing.T) {
	bubble(t, func(w world) {
		s, end := w.open()
		defer end()
		m, err := group.Join(s, service, "billing", nil, nil)
		if err != nil {
			w.Fatal(err)
		}
		defer m.Close()
		for ev := range m.Events() {
			if ev == (group.Joined{}) {
				break
			}
		}
		if err := naming.Register(w.Context(), s, service, "billing", nil, taking); !errors.Is(err, naming.ErrTaken) {
			w.Error(err)
		}
		if err := naming.Unregister(w.Context(), s, service, "billing"); !errors.Is(err, naming.ErrForeign) {
			w.Error(err)
		}
	})
}

// TestSuccessorStays: a name that was taken over while the session of its owner expired
// stays with its successor, also if the owner had replaced somebody himself.
func TestSuccessorStays(t *testing.T) {
	bubble(t, func(w world) {
		a, endA := w.openGated()
		defer endA()
		b, endB := w.open()
		defer endB()
		r, err := naming.Keep(a.Session, service, name, []byte("1"), taking)
		if err != nil {
			w.Fatal(err)
		}
		defer r.Close()
		<-r.Events()
		a.cut()
		w.register(b, "2", ephemeral, nil)
		a.mend()
		<-r.Done()
		if err := r.Err(); !errors.Is(err, naming.ErrTaken) {
			w.Error(err)
		}
		w.expect(b, "2")
	})
}

// TestEndedContexts: requests whose callers have gone say so, and what they leave behind
// is known.
func TestEndedContexts(t *testing.T) {
	bubble(t, func(w world) {
		s, end := w.open()
		defer end()
		w.register(s, "1", nil, nil)
		why := errors.New("why")
		over, cancel := context.WithCancelCause(w.Context())
		cancel(why)
		late := func() (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(w.Context(), time.Second, why)
		}
		for what, do := range map[string]func(ctx context.Context) error{
			"register": func(ctx context.Context) error { return naming.Register(ctx, s, service, "a", nil, nil) },
			"replace": func(ctx context.Context) error {
				return naming.Register(ctx, s, service, name, []byte("2"), replacing)
			},
			"keep":       func(ctx context.Context) error { return naming.Register(ctx, s, service, "b", nil, ephemeral) },
			"unregister": func(ctx context.Context) error { return naming.Unregister(ctx, s, service, name) },
			"look up":    func(ctx context.Context) error { _, err := naming.Lookup(ctx, s, service, name); return err },
			"list":       func(ctx context.Context) error { _, err := naming.List(ctx, s, service); return err },
		} {
			if err := do(over); !errors.Is(err, why) || errors.Is(err, session.ErrUnknownOutcome) {
				w.Errorf("%s, with a context that had ended: %v", what, err)
			}
			synctest.Wait() // what goes on in the background
			w.Freeze(s.ID(), zktest.ToClient)
			ctx, cancel := late()
			defer cancel()
			if err := do(ctx); !errors.Is(err, why) {
				w.Errorf("%s, with a context that ends: %v", what, err)
			}
			w.Thaw(0)
			pass()
		}
		if err := naming.Unregister(w.Context(), s, service, "b"); !errors.Is(err, naming.ErrNotFound) {
			w.Errorf("what was given up in the background: %v", err)
		}
	})
}

// TestMissing: without a service there are no names, and the first makes it.
func TestMissing(t *testing.T) {
	bubble(t, func(w world) {
		s, end := w.open()
		defer end()
		w.unregister(s, naming.ErrNotFound)
		w.expect(s, "")
		if names, err := naming.List(w.Context(), s, service); err != nil || len(names) > 0 {
			w.Errorf("%q, %v", names, err)
		}
		for _, opts := range []*naming.Options{nil, replacing, ephemeral, taking} {
			w.register(s, "1", opts, nil)
			w.expect(s, "1")
			w.unregister(s, nil)
			if err := s.Delete(w.Context(), service, session.AnyVersion); err != nil {
				w.Error(err)
			}
		}
	})
}

// A name is removed also through a server that does not know of it yet, or knows that it was
// another session's.
func TestUnregisterBehindALaggingReplica(t *testing.T) {
	for _, before := range []*naming.Options{nil, ephemeral} {
		synctest.Test(t, func(t *testing.T) {
			srv, err := zktest.NewServer(zktest.Config{InProcess: true, Replicas: 2, Lag: 500 * time.Millisecond, Latency: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Close()
			connect := func(replica int) *session.Session {
				s, err := session.Open(t.Context(), srv.Addrs()[replica:][:1], &session.Options{Dialer: srv.DialContext})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			a, b := connect(0), connect(1)
			defer a.Close()
			defer b.Close()
			w := world{t, srv}
			if before != nil {
				w.register(a, "0", before, nil)
				<-time.After(5 * time.Second) // every server knows that
				if err := naming.Unregister(t.Context(), a, service, name); err != nil {
					t.Fatal(err)
				}
			}
			w.register(a, "1", nil, nil)
			if err := naming.Unregister(t.Context(), b, service, name); err != nil {
				t.Errorf("it is registered: %v", err)
			}
			w.expect(a, "")
			if err := naming.Unregister(t.Context(), b, service, name); !errors.Is(err, naming.ErrNotFound) {
				t.Errorf("it is not: %v", err)
			}
		})
	}
}
