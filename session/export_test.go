package session

import (
	"log/slog"
	"sync"
	"time"

	"github.com/zkactors/zkactors/session/internal/conn"
)

// What [ForRecipes] returns, as methods.

// Lane is [conn.Lane].
type Lane = conn.Lane

// In returns the requests of a caller with the lane.
func (a Async) In(l *Lane) Async {
	a.lane = l
	return a
}

func (s *Session) CheckPath(path string) error { return forRecipes{}.CheckPath(s, path) }

func (s *Session) Local(key any, create func() any) any { return forRecipes{}.Local(s, key, create) }
func (s *Session) Logger() *slog.Logger                 { return forRecipes{}.Logger(s) }
func (s *Session) Observer() Observer                   { return forRecipes{}.Observer(s) }
func (s *Session) Observed() bool                       { return forRecipes{}.Observed(s) }

// Hold has the session hold what excludes others.
func (s *Session) Hold() (release func()) {
	forRecipes{}.Hold(s, 1)
	return func() { forRecipes{}.Hold(s, -1) }
}

// Rely has a recipe rely on the session.
func (s *Session) Rely() (release func()) {
	forRecipes{}.Rely(s, 1)
	return sync.OnceFunc(func() { forRecipes{}.Rely(s, -1) })
}

func (s *Session) Sibling() (*Session, error)                  { return forRecipes{}.Sibling(s) }
func (a Async) Share(ops []Op, answer func([]OpResult, error)) { forRecipes{}.Share(a, ops, answer) }

// Left notes that a recipe has deleted its node at the path.
func (s *Session) Left(path string) { s.noteLeaving(path, false) }

// Tidies reports whether a goroutine looks after the parents of recipes.
func (s *Session) Tidies() bool {
	s.tidier.mu.Lock()
	defer s.tidier.mu.Unlock()
	return s.tidier.runs
}

func (a Async) FollowCreated(path string, data []byte, created, parent OpResult, tell func(Reading, error)) *Subscription {
	return forRecipes{}.FollowCreated(a, path, data, created, parent, tell)
}

// FollowOnce is that of [ForRecipes].
func (a Async) FollowOnce(path string, aspect Aspect, tell func(Reading, error)) *Subscription {
	return forRecipes{}.FollowOnce(a, path, aspect, tell)
}

// Other is other.
type Other = other

// FollowTogether is that of [ForRecipes].
func (a Async) FollowTogether(path string, data []byte, parent OpResult, tell func(Reading, error), others []Other) (sub *Subscription, all []*Subscription) {
	return forRecipes{}.FollowTogether(a, path, data, parent, tell, others)
}

// AwaitLocks locks and unlocks all of the session. It hangs where the caller of the caller holds
// one.
func (s *Session) AwaitLocks() {
	if e := s.newestEpoch(); e != nil {
		e.Access()
		e.Ephemerals.Some()
	}
	s.watches.Len()
	for _, lock := range []*sync.Mutex{&s.mu, &s.localMu} {
		lock.Lock()
		lock.Unlock() //nolint:staticcheck // it was free for a moment
	}
}

// Sleep has the session ask how long the machine has slept.
func (s *Session) Sleep(slept func() time.Duration) { s.conn.Clock.Simulate(slept) }

// SetWallClock has the session see the wall clock ahead.
func (s *Session) SetWallClock(ahead time.Duration) { s.conn.Clock.Jump(ahead) }

// OutOfPlace returns the first event that the grammar does not allow behind those before it; nil if
// there is none.
func OutOfPlace(events []Event) Event {
	g, err := without, error(nil)
	for _, ev := range events {
		if g, err = g.next(ev); err != nil {
			return ev
		}
	}
	return nil
}
