package session

import "log/slog"

// What [ForRecipes] returns, as methods.

// Lane is lane.
type Lane = lane

func (s *Session) CheckPath(path string) error { return forRecipes{}.CheckPath(s, path) }

func (s *Session) Local(key any, create func() any) any        { return forRecipes{}.Local(s, key, create) }
func (s *Session) Logger() *slog.Logger                        { return forRecipes{}.Logger(s) }
func (s *Session) Observer() Observer                          { return forRecipes{}.Observer(s) }
func (s *Session) Rely() (release func())                      { return forRecipes{}.Rely(s) }
func (s *Session) Sibling() (*Session, error)                  { return forRecipes{}.Sibling(s) }
func (a Async) Share(ops []Op, answer func([]OpResult, error)) { forRecipes{}.Share(a, ops, answer) }

// In returns the requests of a caller with the lane.
func (a Async) In(l *Lane) Async {
	a.lane = l
	return a
}

func (a Async) FollowCreated(path string, data []byte, created, parent OpResult, tell func(Reading, error)) *Subscription {
	return forRecipes{}.FollowCreated(a, path, data, created, parent, tell)
}

// FollowOnce is that of [ForRecipes].
func (a Async) FollowOnce(path string, tell func(Reading, error)) *Subscription {
	return forRecipes{}.FollowOnce(a, path, tell)
}

// Other is other.
type Other = other

// FollowTogether is that of [ForRecipes].
func (a Async) FollowTogether(path string, data []byte, parent OpResult, tell func(Reading, error), others []Other) (sub *Subscription, all []*Subscription) {
	return forRecipes{}.FollowTogether(a, path, data, parent, tell, others)
}
