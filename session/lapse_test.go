package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// away has the servers be out of reach while an election goes on: the next leader gives each
// session a whole timeout.
func away(w kit.World, lasts time.Duration) {
	w.Refuse(true)
	w.Disconnect(0)
	for range lasts / time.Second {
		pass(time.Second)
		w.Restore(w.Backup())
	}
	w.Refuse(false)
}

// TestOutlives: a session lives for as long as the servers keep it, however long they are out of
// reach, and lapses only if something is held.
func TestOutlives(t *testing.T) {
	for _, row := range []struct {
		name       string
		relies     bool // something is contended for
		holds      bool
		want       []string
		waited     error // what becomes of a write that has waited
		deadline   bool
		ephemerals bool
	}{
		{name: "nothing rests on it", want: []string{"suspended", "resumed"}},
		{name: "it has a node", ephemerals: true, want: []string{"suspended", "resumed"}},
		{name: "a place in line", relies: true, ephemerals: true, deadline: true, want: []string{"suspended", "resumed"}},
		{name: "a grant", relies: true, holds: true, ephemerals: true, deadline: true, want: []string{"suspended", "lapsed", "resumed"}, waited: session.ErrLapsed},
		{name: "a claim", holds: true, ephemerals: true, deadline: true, want: []string{"suspended", "lapsed", "resumed"}, waited: session.ErrLapsed},
	} {
		t.Run(row.name, func(t *testing.T) {
			kit.Run(t, zktest.Config{Tick: time.Second}, func(w kit.World) {
				s := w.Open(session.Options{Timeout: 6 * time.Second})
				if row.relies {
					w.Cleanup(s.Rely())
				}
				if row.holds {
					w.Cleanup(s.Hold())
				}
				if row.ephemerals {
					check.Have(s.Create(w.Context(), "/mine", nil, session.Ephemeral))(w)
				}
				check.Have(s.Create(w.Context(), "/a", nil, session.Persistent))(w)
				pass(time.Minute)
				id := s.ID()
				events := s.Events(w.Context())
				<-events // Connected
				written := make(chan error, 1)
				go func() {
					pass(time.Second)
					_, err := s.Set(w.Context(), "/a", []byte("waited"), session.AnyVersion)
					written <- err
				}()
				away(w, 20*time.Second)
				check.Is(w, <-written, row.waited)
				for _, want := range row.want {
					ev := <-events
					if suspended, is := ev.(session.Suspended); is {
						check.Equal(w, !suspended.Deadline.IsZero(), row.deadline, "there is a deadline")
						ev = session.Suspended{}
					}
					if _, is := ev.(session.Resumed); is {
						ev = session.Resumed{Server: ""}
						want += " server="
					}
					check.Equal(w, ev.String(), want)
				}
				pass(time.Minute)
				check.Equal(w, s.ID(), id, "the session")
				check.None(w, events)
				data, _, err := s.Get(w.Context(), "/a")
				check.OK(w, err)
				check.Equal(w, string(data) == "waited", row.waited == nil, "the write was done")
				if row.ephemerals {
					stat, err := s.Exists(w.Context(), "/mine")
					check.True(w, err == nil && stat != nil, "its node is gone: %v", err)
				}
				if row.holds { // and it lapses again
					away(w, 20*time.Second)
					for _, want := range []string{"suspended", "lapsed", "resumed"} {
						ev := <-events
						check.True(w, len(ev.String()) >= len(want) && ev.String()[:len(want)] == want, "%v, want %s", ev, want)
					}
				}
			})
		})
	}
}

// TestNothingOfBefore: when a session has lapsed, no answer to a request of before comes, however
// late it is told, though the server has given it in time: it could be taken for a grant. A request
// for which something was held fails, and is not done later; a write that was sent may be.
func TestNothingOfBefore(t *testing.T) {
	kit.Run(t, zktest.Config{Tick: time.Second, Latency: time.Millisecond}, func(w kit.World) {
		s := w.OpenGated(session.Options{Timeout: 6 * time.Second})
		w.Cleanup(s.Rely())
		w.Cleanup(s.Hold())
		check.Have(s.Create(w.Context(), "/a", nil, session.Persistent))(w)
		pass(time.Minute)
		events := s.Events(w.Context())
		<-events // Connected
		answers := make(chan error, 3)
		a := s.Async(1)
		w.Freeze(s.ID(), zktest.ToClient)
		a.Get("/a", func(_ []byte, _ *session.Stat, err error) { answers <- err })
		a.Set("/a", []byte("sent"), session.AnyVersion, func(_ *session.Stat, err error) { answers <- err })
		pass(time.Second)
		s.Refuse()
		s.Cut()
		a.Set("/a", []byte("unsent"), session.AnyVersion, func(_ *session.Stat, err error) { answers <- err })
		for _, want := range []error{session.ErrDisconnected, session.ErrUnknownOutcome, session.ErrLapsed} {
			check.Is(w, <-answers, want)
		}
		zktest.Await(w, events, conformant[session.Lapsed])
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		check.Fails(s.Set(ctx, "/a", []byte("after"), session.AnyVersion))(w, context.DeadlineExceeded)
		w.Thaw(s.ID())
		s.Mend()
		zktest.Await(w, events, conformant[session.Resumed])
		data, _, err := s.Get(w.Context(), "/a")
		check.True(w, err == nil && string(data) == "sent", "%q, %v", data, err)

		// A callback holds up what has arrived.
		pass(time.Minute)
		a.Get("/a", func([]byte, *session.Stat, error) { pass(10 * time.Second) })
		a.Get("/a", func(_ []byte, _ *session.Stat, err error) { answers <- err })
		check.Is(w, <-answers, session.ErrDisconnected)
		zktest.Await(w, events, conformant[session.Lapsed])
	})
}

// TestLossesGoFirst: what a lapsed session has lost is deleted before any other request goes out,
// also one that was made earlier.
func TestLossesGoFirst(t *testing.T) {
	kit.Run(t, zktest.Config{Tick: time.Second, Latency: time.Millisecond}, func(w kit.World) {
		s := w.OpenGated(session.Options{Timeout: 6 * time.Second})
		w.Cleanup(s.Rely())
		w.Cleanup(s.Hold())
		check.Have(s.Create(w.Context(), "/held", nil, session.Ephemeral))(w)
		events := s.Events(w.Context())
		pass(time.Minute)
		s.Refuse()
		s.Cut()
		zktest.Await(w, events, conformant[session.Lapsed])
		set := make(chan error, 1)
		s.Async(0).Set("/held", []byte("late"), session.AnyVersion, func(_ *session.Stat, err error) { set <- err })
		s.Async(1).Withdraw("/held", func(error) {})
		s.Mend()
		check.Is(w, <-set, session.ErrNoNode)
	})
}

// TestProofAfterALapse: a session that has lapsed makes no request for a recipe that waits, before
// a quorum has proved that it lives on the new connection.
func TestProofAfterALapse(t *testing.T) {
	kit.Run(t, zktest.Config{Tick: time.Second, Latency: 10 * time.Millisecond, Replicas: 2}, func(w kit.World) {
		s := w.OpenGated(session.Options{Timeout: 6 * time.Second})
		w.Cleanup(s.Rely())
		check.Have(s.Create(w.Context(), "/a", nil, session.Ephemeral))(w)
		pass(time.Minute)
		s.Refuse()
		s.Cut()
		pass(5900 * time.Millisecond)
		answered := make(chan error, 1)
		s.Async(1).Get("/a", func(_ []byte, _ *session.Stat, err error) { answered <- err })
		before := w.Proposals()
		s.Mend()
		err := <-answered
		check.True(w, err == nil || errors.Is(err, session.ErrExpired), "%v", err)
		check.True(w, err != nil || w.Proposals() > before, "no quorum has proved anything")
	})
}

// TestLapsesWithoutAProof: a session that has lapsed, and has lost the next connection before a
// quorum has proved its lease there, lapses again after a lease: a party that waits for its own end
// does not wait for longer.
func TestLapsesWithoutAProof(t *testing.T) {
	kit.Run(t, zktest.Config{Tick: time.Second, Latency: 10 * time.Millisecond}, func(w kit.World) {
		s := w.OpenGated(session.Options{Timeout: 6 * time.Second})
		w.Cleanup(s.Rely())
		check.Have(s.Create(w.Context(), "/a", nil, session.Ephemeral))(w)
		told := make(chan session.Event, 20)
		w.Cleanup(client.Of(s.Session).Subscribe(func(ev session.Event) <-chan struct{} {
			told <- ev
			return nil
		}))
		pass(time.Minute)
		for range 3 {
			s.Refuse()
			s.Cut()
			zktest.Await(w, told, conformant[session.Suspended])
			zktest.Await(w, told, conformant[session.Lapsed])
			s.Mend()
			zktest.Await(w, told, conformant[session.Resumed])
		}
		pass(time.Minute)
		check.None(w, told)
	})
}
