package primitives_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// TestFunctionsThatEnd: a function that a call runs while it holds something, or between a read and
// a write, panics, or ends its goroutine. What the call held is given back, and the next call
// returns.
func TestFunctionsThatEnd(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, s *session.Session, f func()) error{
		"lock.Do": func(ctx context.Context, s *session.Session, f func()) error {
			return lock.Do(ctx, s, "/r", nil, func(context.Context, int64) error { f(); return nil })
		},
		"lock.DoAll": func(ctx context.Context, s *session.Session, f func()) error {
			return lock.DoAll(ctx, s, []lock.Want{{Path: "/r/a"}, {Path: "/r/b"}}, nil, func(context.Context, int64) error { f(); return nil })
		},
		"lock.Once": func(ctx context.Context, s *session.Session, f func()) error {
			_, err := lock.Once(ctx, s, "/r", nil, func(context.Context, int64) ([]byte, error) { f(); return nil, nil })
			return err
		},
		"semaphore.Do": func(ctx context.Context, s *session.Session, f func()) error {
			return semaphore.Do(ctx, s, "/r", 1, nil, func(context.Context) error { f(); return nil })
		},
		"election.Lead": func(ctx context.Context, s *session.Session, f func()) error {
			c, err := election.New(s, "/r", nil)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer c.Close() // it goes on standing else
			return c.Lead(ctx, func(context.Context, int64) error { f(); return io.EOF })
		},
		"config.Update": func(ctx context.Context, s *session.Session, f func()) error {
			v, err := config.Open(s, "/r", config.Text, nil)
			if err != nil {
				return err
			}
			return v.Update(ctx, func(string) (string, error) { f(); return "new", nil })
		},
		"config.Transactor.Do": func(ctx context.Context, s *session.Session, f func()) error {
			x, err := config.NewTransactor(s, "/r", nil)
			if err != nil {
				return err
			}
			return x.Do(ctx, func(tx *config.Tx) error {
				if _, _, err := config.Load(tx, "a", config.Text); err != nil {
					return err
				}
				f()
				return config.Store(tx, "a", config.Text, "new")
			})
		},
		"discovery.Pick": func(ctx context.Context, s *session.Session, f func()) error {
			if err := discovery.Publish(ctx, s, "/r", discovery.Instance{Service: "web", ID: "a", Address: "h"}, &discovery.Options{TakeOver: true}); err != nil {
				return err
			}
			w, err := discovery.Watch(s, "/r", "web", nil)
			if err != nil {
				return err
			}
			defer w.Close()
			<-w.Changes()
			_, err = w.Pick(func(discovery.Pool) int { f(); return 0 })
			return err
		},
	} {
		for how, end := range map[string]func(){"panics": func() { panic("no") }, "exits": runtime.Goexit} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				kit.Run(t, zktest.Config{}, func(w kit.World) {
					t := w.T
					s, other := w.Open(session.Options{}), w.Open(session.Options{})
					ended := make(chan any)
					go func() {
						defer func() { ended <- recover() }()
						err := call(w.Context(), s, end)
						t.Errorf("the call returns: %v", err)
					}()
					check.Equal(t, <-ended != nil, how == "panics")
					ctx, cancel := context.WithTimeout(w.Context(), time.Second)
					defer cancel()
					called := false
					if err := call(ctx, other, func() { called = true }); !errors.Is(err, io.EOF) {
						check.OK(t, err)
					}
					check.True(t, called, "the function of the next call is not called")
				})
			})
		}
	}
}

// TestPlacementsThatEnd: a placement panics, ends its goroutine, or does not return. A member that
// has no shard yet leaves with the error, or waits; one that has some keeps them, the others place
// all that are free, and it can leave, or be closed.
func TestPlacementsThatEnd(t *testing.T) {
	for how, end := range map[string]func(done <-chan struct{}){
		"panics": func(<-chan struct{}) { panic("no") },
		"exits":  func(<-chan struct{}) { runtime.Goexit() },
		"hangs":  func(done <-chan struct{}) { <-done },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			kit.Run(t, zktest.Config{}, func(w kit.World) {
				t := w.T
				done := make(chan struct{})
				defer close(done)
				ill := make(chan struct{})
				join := func(id string) *shard.Member {
					m := check.Have(shard.Join(w.Open(session.Options{}), "/shards", 4, &shard.Options{ID: id, Placement: func(c shard.Cluster) []int {
						select {
						case <-ill:
							if id == "a" || id == "x" {
								end(done)
							}
						default:
						}
						return shard.Balanced(c)
					}}))(t)
					go func() {
						for ev := range m.Events() {
							if revoke, is := ev.(shard.Revoke); is {
								m.Give(revoke.Shard)
							}
						}
					}()
					<-time.After(time.Minute)
					return m
				}
				a, b := join("a"), join("b")
				check.True(t, len(a.Owned()) == 2 && len(b.Owned()) == 2, "%v %v", a.Owned(), b.Owned())
				close(ill)
				b.Close()
				c, d := join("c"), join("d")
				<-time.After(10 * time.Minute)
				for _, m := range []*shard.Member{a, c, d} {
					check.True(t, len(m.Owned()) >= 1, "%s has %v", m.ID(), m.Owned())
				}
				check.Equal(t, len(a.Owned())+len(c.Owned())+len(d.Owned()), 4)
				leaving, over := context.WithTimeout(w.Context(), time.Hour)
				defer over()
				check.OK(t, a.Leave(leaving), "leave")
				for _, m := range []*shard.Member{a, c, d} {
					m.Close()
					_, open := <-m.Events()
					for open {
						_, open = <-m.Events()
					}
				}
				x := join("x") // the first of all
				if how == "hangs" {
					check.True(t, x.Err() == nil && len(x.Owned()) == 0, "%v", x.Err())
				} else {
					check.Is(t, x.Err(), session.ErrInvalidArgument)
				}
				x.Close()
			})
		})
	}
}

// TestWatchersWhoseFunctionsEnd: the end of a filter ends its tree with an error. The end of
// WatchOptions.Skipped ends nothing.
func TestWatchersWhoseFunctionsEnd(t *testing.T) {
	for how, end := range map[string]func(){"panics": func() { panic("no") }, "exits": runtime.Goexit} {
		t.Run(how, func(t *testing.T) {
			kit.Run(t, zktest.Config{}, func(w kit.World) {
				t := w.T
				s := w.Open(session.Options{})
				check.Must(t, s.EnsurePath(w.Context(), "/r/web/none"))
				tree := check.Open(watch.Tree(s, "/r", &watch.TreeOptions{Filter: func(string) bool { end(); return true }}))(t)
				<-tree.Done()
				check.Is(t, tree.Err(), session.ErrInvalidArgument)
				services := check.Open(discovery.Watch(s, "/r", "web", &discovery.WatchOptions{Skipped: func(string, error) { end() }}))(t)
				<-time.After(time.Minute)
				check.Must(t, discovery.Publish(w.Context(), s, "/r", discovery.Instance{Service: "web", ID: "a", Address: "h"}, nil))
				<-time.After(time.Minute)
				check.Equal(t, len(services.Instances()), 1)
			})
		})
	}
}

// An exiting observer ends the goroutine of each report of a recipe, as t.FailNow does.
type exiting struct{ session.NopObserver }

func (exiting) Waiting(string, string)                { runtime.Goexit() }
func (exiting) Waited(string, string, time.Duration)  { runtime.Goexit() }
func (exiting) GaveUp(string, string, time.Duration)  { runtime.Goexit() }
func (exiting) Held(string, string, time.Duration)    { runtime.Goexit() }
func (exiting) Lost(string, string, error)            { runtime.Goexit() }
func (exiting) Failed(string, string, error)          { runtime.Goexit() }
func (exiting) Revoked(string, string)                { runtime.Goexit() }
func (exiting) Leader(string, string, []byte, int64)  { runtime.Goexit() }
func (exiting) Members(string, int)                   { runtime.Goexit() }
func (exiting) Put(string, int, time.Duration, error) { runtime.Goexit() }
func (exiting) Delivered(string, time.Duration, int)  { runtime.Goexit() }
func (exiting) Settled(string, string, time.Duration) { runtime.Goexit() }
func (exiting) Buried(string)                         { runtime.Goexit() }

// TestObserverExits: an observer that ends its goroutine at each report ends no recipe: after a
// minute as many nodes stand as without it, and all parties can be closed.
func TestObserverExits(t *testing.T) {
	for name, begin := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := func(observer session.Observer) (n int) {
				play(t, begin, observer, func(_ *stage, _ *session.Session, all []string, _ func() int) { n = len(all) })
				return n
			}
			check.Equal(t, count(exiting{}), count(session.NopObserver{}))
		})
	}
}
