// Package conformance tests the duties of every recipe: end cleanly in every way, leave nothing
// behind, and never wait for a reader.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/internal/znode"
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
	Name string // where a test has several
	Open func(s *session.Session) (Handle[Ev], error)
	Last func(ev Ev) bool
}

// Is reports whether an event is of a type, for the Last of a recipe.
func Is[T, Ev any](ev Ev) bool {
	_, is := any(ev).(T)
	return is
}

// A stage is where a recipe is played: a server in memory, or real servers behind a proxy.
type stage struct {
	servers
	watcher *session.Session // reads what is left behind, below root
	root    string
	timeout time.Duration // of sessions
	real    bool          // there is no bubble, and no clock of its own
	keeper  bool          // no session is resumed: one that has lost its connection ends with its timeout
}

// The servers of a stage.
type servers interface {
	zktest.Faults
	Sessions() []int64
}

// A play is a fault that a handle must bear, or a duty that it must do.
type play[Ev any] func(*testing.T, stage, *session.Session, Recipe[Ev])

// Plays that last until their session's deadline.
const (
	whileDisconnected = "closed while disconnected"
	whileFrozen       = "closed while frozen"
)

// plays returns the plays that servers of all kinds allow. For each of the first requests there is
// a play that loses its reply.
func plays[Ev any](replies int) map[string]play[Ev] {
	all := map[string]play[Ev]{
		"closed by many at once":     closedByMany[Ev],
		"closed at once":             closedAtOnce[Ev],
		"closed without a reader":    closedUnread[Ev],
		whileDisconnected:            closedWhileDisconnected[Ev],
		whileFrozen:                  closedWhileFrozen[Ev],
		"ended by its session":       endedBySession[Ev],
		"closed after an expiry":     closedAfterExpiry[Ev],
		"a flapping network, unread": flapping[Ev],
	}
	for skip := range replies {
		all[fmt.Sprint("a lost reply to request ", skip)] = lostReply[Ev](skip)
	}
	return all
}

// Run holds recipes against all their duties, on servers in memory of every profile, and on a real
// server. Under -short the profiles are the default, and the profile that lacks most. Each play has
// its own server in memory, in a bubble: at its end no goroutine is left. On the real server, where
// most of the time is waiting, all plays run at once.
func Run[Ev any](t *testing.T, recipes ...Recipe[Ev]) {
	t.Helper()
	t.Parallel()
	for _, r := range recipes {
		t.Run(cmp.Or(r.Name, "handle"), func(t *testing.T) {
			for _, profile := range hasten.Sized(zktest.Profiles(), []zktest.Profile{zktest.ZooKeeper380, zktest.Keeper}) {
				t.Run(profile.String(), func(t *testing.T) { inMemory(t, profile, r) })
			}
		})
	}
	t.Run("real server", func(t *testing.T) {
		t.Parallel()
		ens := zktest.SharedEnsemble(t, 1)
		for _, r := range recipes {
			t.Run(cmp.Or(r.Name, "handle"), func(t *testing.T) {
				t.Parallel()
				onRealServer(t, ens, r)
			})
		}
	})
}

func inMemory[Ev any](t *testing.T, profile zktest.Profile, r Recipe[Ev]) {
	all := plays[Ev](12)
	all["a session that is no session"] = refused[Ev]
	all["printed while it works"] = printed[Ev]
	if profile == zktest.ZooKeeper380 {
		chosen := hasten.OneIn(8, 28)
		for name, play := range lapses[Ev]() {
			if chosen() {
				all[name] = play
			}
		}
	}
	for name, play := range all {
		t.Run(name, func(t *testing.T) {
			kit.Run(t, zktest.Config{Profile: profile}, func(w kit.World) {
				at := stage{servers: w.Server, timeout: 10 * time.Second, keeper: profile.IsKeeper(), root: "/"}
				at.watcher = w.Open(session.Options{Timeout: at.timeout})
				play(w.T, at, at.watcher, r)
			})
		})
	}
	t.Run("among the servers' own nodes", func(t *testing.T) {
		kit.Run(t, zktest.Config{Profile: profile}, func(w kit.World) {
			h, err := r.Open(w.Open(session.Options{Chroot: "/zookeeper"}))
			check.Is(w, err, session.ErrInvalidPath)
			if err == nil {
				h.Close()
			}
		})
	})
}

// onRealServer plays as inMemory does. Each play has a path and a proxy of its own. A process that
// does not run for 3 s loses no session.
func onRealServer[Ev any](t *testing.T, ens *zktest.Ensemble, r Recipe[Ev]) {
	for name, play := range plays[Ev](6) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := zktest.NewProxy(t, ens.Addrs()...)
			opts := &session.Options{Timeout: 30 * time.Second, ServerTick: kit.Tick}
			at := stage{servers: proxy, timeout: opts.Timeout, real: true, root: "/" + znode.NewGUID()}
			at.watcher = kit.Open(t, ens.Addrs(), opts)
			kit.Ensure(t, at.watcher, at.root, nil)
			if name == whileDisconnected || name == whileFrozen { // until the deadline
				at.timeout = 4 * time.Second
			}
			opts.Timeout, opts.Chroot = at.timeout, at.root
			play(t, at, kit.Open(t, proxy.Addrs(), opts), r)
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
	r.oneLast(t, h.Events())
}

func (r Recipe[Ev]) oneLast(t *testing.T, events <-chan Ev) {
	t.Helper()
	lasts, n := 0, 0
	for ev := range events {
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

// settle waits until nothing moves any more, while no reader receives the recipe's events. A real
// server is asked until the handle asks for nothing more.
func (at stage) settle(t *testing.T, s *session.Session) {
	t.Helper()
	if !at.real {
		synctest.Wait()
		return
	}
	for before := -1; at.requests() != before; {
		before = at.requests()
		for range 2 {
			check.OK(t, s.Sync(t.Context(), "/"))
		}
	}
}

// requests returns the number of requests that are not heartbeats.
func (at stage) requests() int {
	made := at.Requests()
	return made.Total() - made[zktest.OpSync] - made[zktest.OpCheck]
}

// nothingLeft expects no ephemeral node.
func (at stage) nothingLeft(t *testing.T) {
	t.Helper()
	if at.keeper {
		<-time.After(2 * at.timeout)
	}
	check.Len(t, ephemerals(t, at.watcher, at.root), 0, "left behind")
}

// nothingStays expects that no ephemeral node is left when the servers have forgotten a session
// that was cut off.
func (at stage) nothingStays(t *testing.T) {
	t.Helper()
	forgotten := check.Patient(t) // of a real server, which has a clock of its own
	if !at.real {
		var cancel context.CancelFunc
		forgotten, cancel = context.WithTimeout(t.Context(), 2*at.timeout)
		defer cancel()
	}
	for forgotten.Err() == nil && len(ephemerals(t, at.watcher, at.root)) > 0 {
		<-time.After(100 * time.Millisecond)
	}
	at.nothingLeft(t)
}

// ephemerals returns the ephemeral nodes at and below a path, but for the servers' own.
func ephemerals(t *testing.T, s *session.Session, path string) []string {
	t.Helper()
	stat := check.Have(s.Exists(t.Context(), path))(t)
	switch {
	case stat == nil || path == "/zookeeper":
		return nil
	case stat.EphemeralOwner != 0:
		return []string{path}
	}
	children, _, err := s.Children(t.Context(), path)
	if errors.Is(err, session.ErrNoNode) {
		return nil
	}
	check.Must(t, err)
	var found []string
	for _, child := range children {
		found = append(found, ephemerals(t, s, znode.Join(path, child))...)
	}
	return found
}

func closedByMany[Ev any](t *testing.T, at stage, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	at.settle(t, s)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(h.Close)
	}
	wg.Wait()
	h.Close()
	at.nothingLeft(t)
	r.ended(t, h)
}

func closedAtOnce[Ev any](t *testing.T, at stage, s *session.Session, r Recipe[Ev]) {
	for range 20 {
		h := r.open(t, s)
		h.Close()
		r.ended(t, h)
	}
	at.settle(t, s)
	at.nothingLeft(t)
}

func closedUnread[Ev any](t *testing.T, at stage, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	events := h.Events() // and no reader receives
	at.settle(t, s)
	h.Close()
	at.nothingLeft(t)
	r.oneLast(t, events)
}

func closedWhileDisconnected[Ev any](t *testing.T, at stage, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	at.settle(t, s)
	at.Refuse(true)
	at.Disconnect(0)
	closedInTime(t, at, h)
	r.ended(t, h)
	at.Refuse(false)
	at.nothingStays(t)
}

func closedWhileFrozen[Ev any](t *testing.T, at stage, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	at.settle(t, s)
	at.Freeze(0, zktest.Both)
	closedInTime(t, at, h)
	r.ended(t, h)
	at.Thaw(0)
	at.nothingStays(t)
}

// closedInTime expects Close to return when the session's deadline has passed.
func closedInTime[Ev any](t *testing.T, at stage, h Handle[Ev]) {
	t.Helper()
	begun := time.Now()
	h.Close()
	check.True(t, at.real || time.Since(begun) <= at.timeout, "Close took %v", time.Since(begun))
}

func endedBySession[Ev any](t *testing.T, at stage, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	at.settle(t, s)
	s.Close()
	r.ended(t, h)
	h.Close()
	check.Len(t, at.Sessions(), 0, "sessions are left")
}

func closedAfterExpiry[Ev any](t *testing.T, at stage, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	at.settle(t, s)
	expired := s.ID()
	at.Expire(expired)
	for s.ID() == expired {
		<-time.After(10 * time.Millisecond)
	}
	at.settle(t, s)
	h.Close()
	r.ended(t, h)
	at.nothingLeft(t)
}

func flapping[Ev any](t *testing.T, at stage, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	h.Events()
	for range 50 {
		at.Disconnect(0)
		if !at.real { // where it comes back in no time
			synctest.Wait()
		}
	}
	h.Close()
	at.nothingLeft(t)
	r.ended(t, h)
}

func refused[Ev any](t *testing.T, at stage, s *session.Session, r Recipe[Ev]) {
	at.settle(t, s)
	at.ResetRequests()
	check.Fails(r.Open(nil))(t, session.ErrInvalidArgument)
	s.Close()
	check.Fails(r.Open(s))(t, session.ErrClosed)
	check.Equal(t, at.Requests().Total(), 0, "requests")
}

// lostReply loses the reply to a request of a handle that comes first, and of a handle that finds
// the nodes that it needs.
func lostReply[Ev any](skip int) play[Ev] {
	return func(t *testing.T, at stage, s *session.Session, r Recipe[Ev]) {
		for range 2 {
			at.DropReply(zktest.Match{Session: s.ID(), Skip: skip})
			h, err := r.Open(s)
			if err == nil {
				at.settle(t, s)
				if !at.real {
					<-time.After(time.Second)
				}
				h.Close()
				r.ended(t, h)
			} else if !at.keeper || !session.InDoubt(err) { // there, the session is lost with the reply
				t.Fatal(err)
			}
			at.nothingLeft(t)
		}
	}
}

// printed expects one short line for every verb. The race detector sees a verb that reads fields.
func printed[Ev any](t *testing.T, at stage, s *session.Session, r Recipe[Ev]) {
	h := r.open(t, s)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		at.Disconnect(0)
		line := fmt.Sprintf(verb, h)
		check.True(t, len(line) <= 120 && !strings.ContainsAny(line, "\n{") && strings.Contains(line, "/"), "%s prints %q", verb, line)
	}
	h.Close()
	r.ended(t, h)
}
