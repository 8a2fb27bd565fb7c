package primitives_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// A keeper is a recipe that keeps a node under a name, and has watchers, which report who is there.
type keeper struct {
	keep  func(w kit.World, s *session.Session, takeOver bool)
	watch func(w kit.World, s *session.Session) (reports <-chan []string)
}

func keepers() map[string]keeper {
	all := map[string]keeper{
		"group": {
			func(w kit.World, s *session.Session, takeOver bool) {
				opts := &group.Options{TakeOver: takeOver, ConflictAfter: time.Second}
				check.Open(group.Enroll(w.Context(), s, "/nodes", "web", []byte{byte(s.ID())}, opts))(w)
			},
			func(w kit.World, s *session.Session) <-chan []string {
				v := check.Open(group.Watch(s, "/nodes", nil))(w)
				return mapped(v.Events(), func(ev group.MembersChanged) (names []string) {
					for _, m := range ev.Members {
						names = append(names, m.ID)
					}
					return names
				})
			},
		},
	}
	for _, format := range []discovery.Format{discovery.Curator, discovery.ServerSet} {
		all["discovery, "+format.String()] = keeper{
			func(w kit.World, s *session.Session, takeOver bool) {
				instance := discovery.Instance{Service: "api", ID: "member_0000000001", Address: "10.0.0.1", Port: 80}
				check.Open(discovery.Announce(w.Context(), s, "/nodes", instance, &discovery.Options{Format: format, TakeOver: takeOver}))(w)
			},
			func(w kit.World, s *session.Session) <-chan []string {
				v := check.Open(discovery.Watch(s, "/nodes", "api", &discovery.WatchOptions{Format: format}))(w)
				return mapped(v.Changes(), func(all []discovery.Instance) (names []string) {
					for _, i := range all {
						names = append(names, i.ID)
					}
					return names
				})
			},
		}
	}
	return all
}

// mapped is a channel with f of what comes.
func mapped[T any](in <-chan T, f func(T) []string) <-chan []string {
	out := make(chan []string, 100)
	go func() {
		defer close(out)
		for v := range in {
			out <- f(v)
		}
	}()
	return out
}

// TestReplaced: another session takes a member over, or a member replaces its own node after an
// expiry, in one transaction. So watchers see it at all times.
func TestReplaced(t *testing.T) {
	for name, k := range keepers() {
		for how, replace := range map[string]func(w kit.World, first *session.Session){
			"by another":      func(w kit.World, _ *session.Session) { k.keep(w, w.Open(session.Options{}), true) },
			"after an expiry": func(w kit.World, first *session.Session) { w.Expire(first.ID()) },
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				kit.Run(t, zktest.Config{Latency: 10 * time.Millisecond}, func(w kit.World) {
					w.KeepEphemerals(time.Hour) // as a follower that learns late of an expiry
					first, watcher := w.Open(session.Options{}), w.Open(session.Options{})
					k.keep(w, first, false)
					reports := k.watch(w, watcher)
					kit.Pass(time.Second)
					check.Len(w, slices.Concat(kit.Drain(reports)...), 1, "members before")
					for range 5 {
						replace(w, first)
						kit.Pass(time.Minute)
						for _, members := range kit.Drain(reports) {
							check.Len(w, members, 1, "members while one is replaced")
						}
					}
				})
			})
		}
	}
}

// TestReplacedNodes: a node that is replaced in one transaction, by one of its name or of another,
// leaves no moment without.
func TestReplacedNodes(t *testing.T) {
	for name, to := range map[string]string{"same name": "/tree/a", "another name": "/tree/b"} {
		t.Run(name, func(t *testing.T) {
			kit.Run(t, zktest.Config{Latency: 10 * time.Millisecond, Replicas: 3}, func(w kit.World) {
				s, other := w.OpenAt(0, session.Options{}), w.OpenAt(1, session.Options{})
				for _, path := range []string{"/tree", "/tree/a"} {
					check.Have(s.Create(w.Context(), path, nil, session.Persistent))(w)
				}
				tree := check.Open(watch.Tree(other, "/tree", nil))(w)
				seen := 2 // nodes in the tree
				var least []int
				go func() {
					for state := range tree.Changes() {
						seen += len(state.Added) - len(state.Removed)
						least = append(least, seen)
					}
				}()
				<-tree.Synced()
				synctest.Wait()
				seen, least = 2, nil
				from := "/tree/a"
				for range 10 {
					check.Have(s.Multi(w.Context(), session.DeleteOp(from, session.AnyVersion), session.CreateOp(to, nil, session.Persistent)))(w)
					from, to = to, from
					if name == "same name" {
						to = from
					}
					kit.Pass(time.Second)
					check.Equal(w, tree.Len(), 2, "nodes")
				}
				for _, n := range least {
					check.Equal(w, n, 2, "nodes of a report")
				}
				check.AtLeast(w, len(least), 10, "reports")
			})
		})
	}
}
