package naming_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
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
			inBubble(t, func(w world) {
				a, b := w.openGated(), w.open()
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
				a.Refuse() // it cannot come back before the other has acted
				result := kit.Begin(func() error { return naming.Register(w.Context(), a.Session, service, name, []byte("new"), replacing) })
				kit.Pass(time.Second) // until the other has heard of it
				if c.then != nil {
					c.then(w, b)
				}
				a.Mend()
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
	inBubble(t, func(w world) {
		a, b := w.openGated(), w.open()
		check.Must(w, b.EnsurePath(w.Context(), service))
		w.DropReply(zktest.Match{Op: zktest.OpCreate, Session: a.ID()})
		a.Refuse()
		result := kit.Begin(func() error { return naming.Register(w.Context(), a.Session, service, name, []byte("new"), nil) })
		kit.Pass(time.Second)
		replaceIt(w, b)
		a.Mend()
		err := <-result
		check.True(w, errors.Is(err, naming.ErrTaken) && errors.Is(err, session.ErrUnknownOutcome), "%v", err)
		w.expect(b, "newer")
	})
}

// TestLostUnregister: a name that another client has registered since is not removed.
func TestLostUnregister(t *testing.T) {
	inBubble(t, func(w world) {
		a, b := w.openGated(), w.open()
		w.register(b, "old", nil, nil)
		w.expect(a.Session, "old")
		w.DropReply(zktest.Match{Op: zktest.OpDelete, Session: a.ID()})
		a.Refuse()
		result := kit.Begin(func() error { return naming.Unregister(w.Context(), a.Session, service, name) })
		w.register(b, "new", nil, nil)
		a.Mend()
		check.OK(w, <-result)
		w.expect(b, "new")
	})
}

// TestSlowUnregister: a persistent name that is removed by another, and registered anew to
// live with a session, before the request arrives that was to remove it.
func TestSlowUnregister(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpSetData, zktest.OpDelete} {
		inBubble(t, func(w world) {
			a, b := w.open(), w.open()
			w.register(b, "old", nil, nil)
			w.expect(a, "old")
			w.Delay(zktest.Match{Op: op, Session: a.ID()}, time.Second)
			result := kit.Begin(func() error { return naming.Unregister(w.Context(), a, service, name) })
			w.unregister(b, nil)
			r := check.Open(naming.Keep(b, service, name, []byte("new"), nil))(w)
			check.Equal[naming.Event](w, <-r.Events(), naming.Registered{})
			// When it is done by then, it was done before the name was registered anew.
			err := <-result
			check.False(w, err != nil && !errors.Is(err, naming.ErrForeign), "%v", err)
			w.expect(a, "new")
			check.None(w, r.Events(), "the new one was told")
		})
	}
}

// TestSlowReplace: who replaces a persistent name that lives with a session by the time
// the request arrives replaces that, for good.
func TestSlowReplace(t *testing.T) {
	inBubble(t, func(w world) {
		a, b := w.open(), w.open()
		w.register(b, "old", nil, nil)
		w.Delay(zktest.Match{Op: zktest.OpSetData, Session: a.ID()}, time.Second)
		result := kit.Begin(func() error { return naming.Register(w.Context(), a, service, name, []byte("new"), replacing) })
		check.Have(b.Multi(w.Context(), session.DeleteOp(node, 0), session.CreateOp(node, nil, session.Ephemeral)))(w)
		check.OK(w, <-result)
		b.Close()
		w.expect(a, "new")
	})
}

// TestUnregisterWhileWaiting: a name that this session only waits for is another's.
func TestUnregisterWhileWaiting(t *testing.T) {
	inBubble(t, func(w world) {
		a, b := w.open(), w.open()
		w.register(a, "1", ephemeral, nil)
		r, err := naming.Keep(b, service, name, []byte("2"), nil)
		check.Must(w, err)
		defer r.Close()
		kit.Pass(time.Second)
		w.unregister(b, naming.ErrForeign)
		<-r.Done()
		w.expect(b, "1")
		w.unregister(a, nil)

		// One that is being registered is given up.
		r, err = naming.Keep(b, service, name, []byte("3"), nil)
		check.Must(w, err)
		defer r.Close()
		w.unregister(b, nil)
		w.expect(a, "")
		w.unregister(b, naming.ErrNotFound)

		// One that was lost to another is the other's.
		r, err = naming.Keep(b, service, name, []byte("4"), nil)
		check.Must(w, err)
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
	inBubble(t, func(w world) {
		a, b := w.open(), w.open()
		w.register(a, "1", ephemeral, nil)
		check.Open(naming.Keep(b, service, name, []byte("2"), &naming.Options{ConflictAfter: time.Hour}))(w)
		kit.Pass(time.Second)
		began := time.Now()
		w.register(b, "3", taking, nil)
		check.AtMost(w, time.Since(began), time.Second, "it took")
		w.expect(b, "3")
	})
}

// TestUnregisterUnseen: a name that another client has taken is kept, also if this
// session has not been told yet.
func TestUnregisterUnseen(t *testing.T) {
	inBubble(t, func(w world) {
		a, b := w.open(), w.open()
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
	inBubble(t, func(w world) {
		a, b := w.open(), w.open()
		w.register(a, "1", ephemeral, nil)
		w.DelayEvent(zktest.Match{Session: a.ID()}, time.Second)
		w.register(b, "1", taking, nil)
		w.register(a, "1", taking, nil)
		kit.Pass(time.Second)
		w.unregister(b, naming.ErrForeign)
		w.unregister(a, nil)
	})
}

// TestMayNotUnregister: a client that may not delete a name has not unregistered it,
// and is told.
func TestMayNotUnregister(t *testing.T) {
	inBubble(t, func(w world) {
		owner := check.Have(session.Open(w.Context(), w.Addrs(), &session.Options{
			Timeout: 12 * time.Second, ServerTick: time.Second, Dialer: w.DialContext,
			ACL: []session.ACL{{Perms: session.PermCreate | session.PermRead, Scheme: "world", ID: "anyone"}},
		}))(w)
		defer owner.Close()
		check.Must(w, owner.EnsurePath(w.Context(), service))
		a := w.open()
		w.register(a, "1", ephemeral, nil)
		w.unregister(a, session.ErrNoAuth)
		w.expect(a, "1")
	})
}

// TestReplaceWhatEnds: who replaces a name that this session keeps, and loses meanwhile,
// registers it anew.
func TestReplaceWhatEnds(t *testing.T) {
	inBubble(t, func(w world) {
		a, b := w.openGated(), w.open()
		w.register(a.Session, "1", ephemeral, nil)
		a.Cut()
		result := kit.Begin(func() error { return naming.Register(w.Context(), a.Session, service, name, []byte("3"), taking) })
		w.register(b, "2", taking, nil)
		w.expect(b, "2")
		a.Mend()
		check.OK(w, <-result)
		w.expect(b, "3")

		// The same if it is unregistered.
		a.Cut()
		result = kit.Begin(func() error { return naming.Register(w.Context(), a.Session, service, name, []byte("4"), taking) })
		left := kit.Begin(func() error { return naming.Unregister(w.Context(), a.Session, service, name) })
		a.Mend()
		check.OK(w, errors.Join(<-result, <-left))
		w.expect(b, "4")
	})
}

// TestTakenByAMember: a node that a member of a group keeps through the same session is
// not a name.
func TestTakenByAMember(t *testing.T) {
	inBubble(t, func(w world) {
		s := w.open()
		m := check.Open(group.Join(s, service, "billing", nil, nil))(w)
		for ev := range m.Events() {
			if ev == (group.Joined{}) {
				break
			}
		}
		check.Is(w, naming.Register(w.Context(), s, service, "billing", nil, taking), naming.ErrTaken)
		check.Is(w, naming.Unregister(w.Context(), s, service, "billing"), naming.ErrForeign)
	})
}

// TestSuccessorStays: a name that was taken over while the session of its owner expired
// stays with its successor, also if the owner had replaced somebody himself.
func TestSuccessorStays(t *testing.T) {
	inBubble(t, func(w world) {
		a, b := w.openGated(), w.open()
		r := check.Open(naming.Keep(a.Session, service, name, []byte("1"), taking))(w)
		<-r.Events()
		a.Cut()
		w.register(b, "2", ephemeral, nil)
		a.Mend()
		<-r.Done()
		check.Is(w, r.Err(), naming.ErrTaken)
		w.expect(b, "2")
	})
}

// TestEndedContexts: requests whose callers have gone say so, and what they leave behind
// is known.
func TestEndedContexts(t *testing.T) {
	inBubble(t, func(w world) {
		s := w.open()
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
			check.Is(w, do(ctx), why, what, "with a context that ends")
			w.Thaw(0)
			kit.Pass(time.Second)
		}
		check.Is(w, naming.Unregister(w.Context(), s, service, "b"), naming.ErrNotFound) // what was given up in the background
	})
}

// TestMissing: without a service there are no names, and the first makes it.
func TestMissing(t *testing.T) {
	inBubble(t, func(w world) {
		s := w.open()
		w.unregister(s, naming.ErrNotFound)
		w.expect(s, "")
		names, err := naming.List(w.Context(), s, service)
		check.True(w, err == nil && len(names) == 0, "%q, %v", names, err)
		for _, opts := range []*naming.Options{nil, replacing, ephemeral, taking} {
			w.register(s, "1", opts, nil)
			w.expect(s, "1")
			w.unregister(s, nil)
			check.OK(w, s.Delete(w.Context(), service, session.AnyVersion))
		}
	})
}

// A name is removed also through a server that does not know of it yet, or knows that it was
// another session's.
func TestUnregisterBehindALaggingReplica(t *testing.T) {
	for _, before := range []*naming.Options{nil, ephemeral} {
		kit.Run(t, zktest.Config{Replicas: 2, Lag: 500 * time.Millisecond, Latency: time.Millisecond}, func(bubbled kit.World) {
			w := world{bubbled}
			a, b := w.OpenAt(0, session.Options{}), w.OpenAt(1, session.Options{})
			if before != nil {
				w.register(a, "0", before, nil)
				<-time.After(5 * time.Second) // every server knows that
				check.Must(w, naming.Unregister(w.Context(), a, service, name))
			}
			w.register(a, "1", nil, nil)
			check.OK(w, naming.Unregister(w.Context(), b, service, name)) // it is registered
			w.expect(a, "")
			check.Is(w, naming.Unregister(w.Context(), b, service, name), naming.ErrNotFound) // it is not
		})
	}
}
