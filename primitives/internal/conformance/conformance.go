// Package conformance tests what every recipe must do: end cleanly in every way, leave
// nothing behind, and never wait for a reader.
package conformance

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
)

// A Handle has the methods that all handles of recipes share.
type Handle[Ev any] interface {
	Events() <-chan Ev
	Done() <-chan struct{}
	Close()
}

// A Recipe says how its handles are made, and which events are the last.
type Recipe[Ev any] struct {
	Open func(s *session.Session) (Handle[Ev], error)
	Last func(ev Ev) bool
}

// Is reports whether an event is of a type, for the Last of a recipe.
func Is[T, Ev any](ev Ev) bool {
	_, is := any(ev).(T)
	return is
}

const timeout = 6 * time.Second // of the sessions

// Run holds the recipe against all that is expected of it, each on a server of its own
// in memory, in a bubble: at the end of one no goroutine is left.
func Run[Ev any](t *testing.T, r Recipe[Ev]) {
	t.Helper()
	for name, play := range map[string]func(*testing.T, *zktest.Server, *session.Session, Recipe[Ev]){
		"closed by many at once":        closedByMany[Ev],
		"closed at once":                closedAtOnce[Ev],
		"closed without a reader":       closedUnread[Ev],
		"closed while disconnected":     closedWhileDisconnected[Ev],
		"closed while frozen":           closedWhileFrozen[Ev],
		"ended by its session":          endedBySession[Ev],
		"closed after an expiry":        closedAfterExpiry[Ev],
		"a flapping network, unread":    flapping[Ev],
		"a session that is no session":  refused[Ev],
		"a lost reply to every request": lostReplies[Ev],
		"printed while it works":        printed[Ev],
		"among the servers' own nodes":  reserved[Ev],
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := check.Have(zktest.NewServer(zktest.Config{InProcess: true}))(t)
				defer srv.Close()
				s := check.Have(session.Open(t.Context(), srv.Addrs(), &session.Options{Timeout: timeout, Dialer: srv.DialContext}))(t)
				defer s.Close()
				play(t, srv, s, r)
			})
		})
	}
}

func (r Recipe[Ev]) open(t *testing.T, s *session.Session) Handle[Ev] {
	t.Helper()
	return check.Have(r.Open(s))(t)
}

// ended expects what there is to read to end with one last event.
func (r Recipe[Ev]) ended(t *testing.T, h Handle[Ev]) {
	t.Helper()
	<-h.Done()
	lasts, n := 0, 0
	for ev := range h.Events() {
		n++
		switch {
		case lasts > 0:
			t.Errorf("%v comes after the last event", ev)
		case r.Last(ev):
			lasts++
		}
	}
	check.Equal(t, lasts, 1, "last events among", n)
}

// settle waits until nothing moves any more, while no reader receives the recipe's
// events.
func settle() { synctest.Wait() }

// nothingLeft expects no ephemeral node of the session.
func nothingLeft(t *testing.T, srv *zktest.Server, s *session.Session) {
	t.Helper()
	for _, path := range srv.Paths() {
		stat := check.Have(s.Exists(t.Context(), path))(t)
		check.False(t, stat != nil && stat.EphemeralOwner != 0, "%s is left", path)
	}
}

func closedByMany[Ev any](t *testing.T, srv *zktest.Server, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	settle()
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(h.Close)
	}
	wg.Wait()
	h.Close()
	nothingLeft(t, srv, s)
	r.ended(t, h)
}

func closedAtOnce[Ev any](t *testing.T, srv *zktest.Server, s *session.Session, r Recipe[Ev]) {
	for range 20 {
		h := r.open(t, s)
		h.Close()
		r.ended(t, h)
	}
	settle()
	nothingLeft(t, srv, s)
}

func closedUnread[Ev any](t *testing.T, srv *zktest.Server, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	events := h.Events() // and no reader receives
	settle()
	h.Close()
	nothingLeft(t, srv, s)
	lasts := 0
	for ev := range events {
		if r.Last(ev) {
			lasts++
		}
	}
	check.Equal(t, lasts, 1, "last events")
}

func closedWhileDisconnected[Ev any](t *testing.T, srv *zktest.Server, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	settle()
	srv.Refuse(true)
	srv.Disconnect(0)
	settle()
	closedInTime(t, h)
	r.ended(t, h)
	srv.Refuse(false)
	<-time.After(2 * timeout) // the bubble's; the server has forgotten the session by then
	nothingLeft(t, srv, s)
}

func closedWhileFrozen[Ev any](t *testing.T, srv *zktest.Server, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	settle()
	srv.Freeze(0, zktest.Both)
	closedInTime(t, h)
	r.ended(t, h)
	srv.Thaw(0)
	<-time.After(2 * timeout)
	nothingLeft(t, srv, s)
}

// closedInTime expects Close to return when the session's deadline has passed.
func closedInTime[Ev any](t *testing.T, h Handle[Ev]) {
	t.Helper()
	begun := time.Now()
	h.Close()
	check.AtMost(t, time.Since(begun), timeout, "Close took")
}

func endedBySession[Ev any](t *testing.T, srv *zktest.Server, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	settle()
	s.Close()
	r.ended(t, h)
	h.Close()
	check.Len(t, srv.Sessions(), 0, "sessions are left")
}

func closedAfterExpiry[Ev any](t *testing.T, srv *zktest.Server, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	settle()
	srv.Expire(s.ID())
	<-time.After(2 * timeout)
	h.Close()
	r.ended(t, h)
	nothingLeft(t, srv, s)
}

func flapping[Ev any](t *testing.T, srv *zktest.Server, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	h.Events()
	for range 50 {
		srv.Disconnect(0)
		settle()
	}
	h.Close()
	nothingLeft(t, srv, s)
	r.ended(t, h)
}

func refused[Ev any](t *testing.T, srv *zktest.Server, s *session.Session, r Recipe[Ev]) {
	settle()
	srv.ResetRequests()
	check.Fails(r.Open(nil))(t, session.ErrInvalidArgument)
	s.Close()
	check.Fails(r.Open(s))(t, session.ErrClosed)
	check.Equal(t, srv.Requests().Total(), 0, "requests")
}

func lostReplies[Ev any](t *testing.T, srv *zktest.Server, s *session.Session, r Recipe[Ev]) {
	for skip := range 12 {
		srv.DropReply(zktest.Match{Skip: skip})
		h := r.open(t, s)
		<-time.After(time.Second)
		h.Close()
		r.ended(t, h)
		srv.ClearFaults()
		<-time.After(time.Second)
		nothingLeft(t, srv, s)
	}
}

// printed expects one short line for every verb. The race detector sees a verb that reads fields.
func printed[Ev any](t *testing.T, srv *zktest.Server, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		srv.Disconnect(0)
		line := fmt.Sprintf(verb, h)
		check.True(t, len(line) <= 120 && !strings.ContainsAny(line, "\n{") && strings.Contains(line, "/"), "%s prints %q", verb, line)
	}
	h.Close()
	r.ended(t, h)
}

// reserved expects that no node of the servers' own becomes a recipe's.
func reserved[Ev any](t *testing.T, srv *zktest.Server, _ *session.Session, r Recipe[Ev]) {
	s := check.Have(session.Open(t.Context(), srv.Addrs(), &session.Options{Chroot: "/zookeeper", Dialer: srv.DialContext}))(t)
	defer s.Close()
	if h, err := r.Open(s); !errors.Is(err, session.ErrInvalidPath) {
		t.Errorf("below /zookeeper: %v", err)
		h.Close()
	}
}
