package primitives_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkactors/zkactors/internal/check"
	"github.com/zkactors/zkactors/internal/hasten"
	"github.com/zkactors/zkactors/internal/kit"
	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/discovery"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/primitives/shard"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/session/zktest"
	"github.com/zkactors/zkactors/watch"
)

// A stage has parties of a recipe at work below a path, which come to rest by themselves.
type stage struct {
	kit.World
	ctx   context.Context //nolint:containedctx // ends with the stage
	path  string
	opts  session.Options // of the processes
	wg    sync.WaitGroup
	close []func()
}

// open returns another process.
func (s *stage) open() *session.Session {
	return s.Open(s.opts)
}

// a reads the events of a handle, which the stage closes at its end.
func a[E any, H interface {
	Events() <-chan E
	Close()
}](s *stage) func(H, error) H {
	return func(h H, err error) H {
		check.Must(s, err)
		s.close = append(s.close, h.Close)
		s.wg.Go(func() {
			for range h.Events() {
			}
		})
		return h
	}
}

// calls makes a call that may wait, or fail, until the stage ends.
func (s *stage) calls(f func(ctx context.Context) error) { s.wg.Go(func() { _ = f(s.ctx) }) }

// site acts for a site; its vote, or its Finish, may come late.
func (s *stage) site(name string, vote commit.Vote, lateVote, lateFinish bool) {
	p := check.Have(commit.Join(s.open(), s.path, name, nil))(s)
	s.close = append(s.close, p.Close)
	later := func(late bool) {
		if late {
			select {
			case <-time.After(10 * time.Minute):
			case <-s.ctx.Done():
			}
		}
	}
	s.wg.Go(func() {
		for ev := range p.Events() {
			switch ev := ev.(type) {
			case commit.Prepare:
				s.calls(func(ctx context.Context) error { later(lateVote); return p.Vote(ctx, ev.Tx, vote) })
			case commit.Committed:
				s.calls(func(ctx context.Context) error { later(lateFinish); return p.Finish(ctx, ev.Tx) })
			case commit.Aborted:
				s.calls(func(ctx context.Context) error { later(lateFinish); return p.Finish(ctx, ev.Tx) })
			case commit.Forgotten, commit.Voted, commit.Left:
			}
		}
	})
}

func (s *stage) transaction(opts commit.Options) {
	opts.Sites = []string{"a", "b"}
	a[commit.Event, *commit.Transaction](s)(commit.Begin(s.ctx, s.open(), s.path+"/t", &opts))
}

// locks has one hold a lock, and two wait.
func locks(opts lock.Options) func(s *stage) {
	return func(s *stage) {
		for range 3 {
			a[lock.Event, *lock.Lock](s)(lock.New(s.open(), s.path, &opts))
			synctest.Wait()
		}
	}
}

var stages = map[string]func(s *stage){
	"lock":             locks(lock.Options{}),
	"lock, delayed":    locks(lock.Options{Delay: time.Minute}),
	"lock of kazoo":    locks(lock.Options{Layout: lock.Kazoo}),
	"lock, priorities": locks(lock.Options{Layout: lock.Prioritized, Preempt: true, PreemptAfter: time.Minute}),
	"lock, readers": func(s *stage) {
		a[lock.Event, *lock.Lock](s)(lock.NewRead(s.open(), s.path, nil))
		a[lock.Event, *lock.Lock](s)(lock.NewWrite(s.open(), s.path, nil))
		a[lock.Event, *lock.Lock](s)(lock.NewRead(s.open(), s.path, nil))
	},
	"lock, once": func(s *stage) {
		for range 2 {
			o := s.open()
			s.calls(func(ctx context.Context) error {
				_, err := lock.Once(ctx, o, s.path, nil, func(ctx context.Context, _ int64) ([]byte, error) {
					select {
					case <-time.After(10 * time.Minute):
					case <-ctx.Done():
					}
					return []byte("done"), nil
				})
				return err
			})
		}
	},
	"semaphore": func(s *stage) {
		for range 3 {
			a[semaphore.Event, *semaphore.Lease](s)(semaphore.New(s.open(), s.path, 2, nil))
		}
	},
	"election": func(s *stage) {
		for range 2 {
			a[election.Event, *election.Candidate](s)(election.New(s.open(), s.path, nil))
		}
		a[election.LeaderChanged, *election.Observer](s)(election.Observe(s.open(), s.path, nil))
	},
	"barrier": func(s *stage) {
		b := check.Have(barrier.New(s.open(), s.path, nil))(s)
		check.Must(s, b.Raise(s.ctx))
		s.calls(check.Have(barrier.New(s.open(), s.path, nil))(s).Wait)
	},
	"gate": func(s *stage) {
		g := check.Have(check.Have(barrier.New(s.open(), s.path, nil))(s).TryRaise(s.ctx))(s)
		s.close = append(s.close, func() { _ = g.Lift(context.WithoutCancel(s.ctx)) })
		s.calls(check.Have(barrier.New(s.open(), s.path, nil))(s).Wait)
	},
	"latch": func(s *stage) {
		for _, name := range []string{"a", "b"} {
			l := check.Have(barrier.NewLatch(s.open(), s.path, 3))(s)
			s.close = append(s.close, l.Close)
			check.Must(s, l.Arrive(s.ctx, name))
			s.calls(l.Wait)
		}
	},
	"double barrier, entering": func(s *stage) {
		for range 2 {
			d := a[barrier.DoubleEvent, *barrier.Double](s)(barrier.NewDouble(s.open(), s.path, 3, nil))
			s.calls(d.Enter)
		}
	},
	"double barrier, leaving": func(s *stage) {
		var entered sync.WaitGroup
		var all []*barrier.Double
		for range 3 {
			d := a[barrier.DoubleEvent, *barrier.Double](s)(barrier.NewDouble(s.open(), s.path, 3, nil))
			all = append(all, d)
			entered.Go(func() { check.OK(s, d.Enter(s.ctx)) })
		}
		entered.Wait()
		s.calls(all[0].Leave)
		s.calls(all[1].Leave)
	},
	"queue": func(s *stage) {
		opts := &queue.Options{MaxItems: 4, MaxAttempts: 2}
		q := check.Have(queue.New(s.open(), s.path, opts))(s)
		for i := range 2 {
			check.Have(q.Put(s.ctx, fmt.Append(nil, i)))(s)
		}
		check.Have(q.PutAfter(s.ctx, []byte("late"), 20*time.Minute))(s)
		check.Have(q.PutOnce(s.ctx, "key", []byte("once")))(s)
		s.calls(func(ctx context.Context) error { _, err := q.Put(ctx, []byte("no room")); return err })
		worker := check.Have(queue.New(s.open(), s.path, opts))(s)
		s.calls(func(ctx context.Context) error {
			return worker.Run(ctx, 1, func(ctx context.Context, i queue.Item) error {
				select {
				case <-time.After(5 * time.Minute):
				case <-ctx.Done():
				}
				if i.Attempt == 1 {
					return context.Canceled // back, with a delay
				}
				return nil
			})
		})
	},
	"queue, takers": func(s *stage) {
		for range 2 {
			q := check.Have(queue.New(s.open(), s.path, nil))(s)
			s.calls(func(ctx context.Context) error { _, err := q.Take(ctx); return err })
		}
		q := check.Have(queue.NewPriority(s.open(), s.path+"-p", nil))(s)
		s.calls(func(ctx context.Context) error { _, err := q.Take(ctx); return err })
	},
	"flat queue": func(s *stage) {
		q := check.Have(queue.NewFlat(s.open(), s.path, queue.Curator, nil))(s)
		other := check.Have(queue.NewFlat(s.open(), s.path, queue.Curator, nil))(s)
		s.calls(func(ctx context.Context) error {
			for {
				if _, err := other.Take(ctx); err != nil {
					return err
				}
			}
		})
		check.Have(q.Put(s.ctx, []byte("a")))(s)
	},
	"commit, before the votes":   commits(commit.Coordinated, true, false),
	"commit, one has finished":   commits(commit.Coordinated, false, true),
	"peer commit, before votes":  commits(commit.Peer, true, false),
	"peer commit, one has ended": commits(commit.Peer, false, true),
	"shard": func(s *stage) {
		for _, id := range []string{"a", "b", "c"} {
			m := check.Have(shard.Join(s.open(), s.path, 4, &shard.Options{ID: id}))(s)
			s.close = append(s.close, m.Close)
			s.wg.Go(func() {
				for ev := range m.Events() {
					if revoke, is := ev.(shard.Revoke); is {
						m.Give(revoke.Shard)
					}
				}
			})
		}
	},
	"group": func(s *stage) {
		for _, id := range []string{"a", "b"} {
			a[group.Event, *group.Membership](s)(group.Join(s.open(), s.path, id, []byte(id), nil))
		}
		a[group.MembersChanged, *group.Watcher](s)(group.Watch(s.open(), s.path, nil))
	},
	"discovery": func(s *stage) {
		for _, id := range []string{"a", "b"} {
			a[discovery.Event, *discovery.Registration](s)(discovery.Register(s.open(), s.path, discovery.Instance{Service: "web", ID: id, Address: "h"}, nil))
		}
		w := check.Have(discovery.Watch(s.open(), s.path, "web", nil))(s)
		s.close = append(s.close, w.Close)
	},
	"naming": func(s *stage) {
		a[naming.Event, *naming.Registration](s)(naming.Keep(s.open(), s.path, "a", nil, nil))
		check.Must(s, naming.Register(s.ctx, s.open(), s.path, "b", nil, nil))
		w := check.Have(naming.Watch(s.open(), s.path, "a", nil))(s)
		s.close = append(s.close, w.Close)
	},
	"config": func(s *stage) {
		v := check.Have(config.Open(s.open(), s.path+"/v", config.Text, nil))(s)
		check.Must(s, v.Set(s.ctx, "a"))
		a[config.Event, *config.Value[string]](s)(v, nil)
		tree := check.Have(watch.Tree(s.open(), s.path, nil))(s)
		s.close = append(s.close, tree.Close)
	},
}

func commits(mode commit.Mode, lateVote, lateFinish bool) func(s *stage) {
	return func(s *stage) {
		s.site("a", commit.Yes, false, false)
		s.site("b", commit.Yes, lateVote, lateFinish)
		s.transaction(commit.Options{Mode: mode, Deadline: 20 * time.Minute, TakeoverAfter: 10 * time.Minute})
	}
}

// byHand are what an operator may do to a node.
var byHand = map[string]func(s *stage, o *session.Session, node string){
	"deletes": func(s *stage, o *session.Session, node string) { remove(s, o, node) },
	"empties": func(s *stage, o *session.Session, node string) { _, _ = o.Set(s.ctx, node, nil, session.AnyVersion) },
	"overwrites": func(s *stage, o *session.Session, node string) {
		_, _ = o.Set(s.ctx, node, []byte("by hand"), session.AnyVersion)
	},
	"moves": func(s *stage, o *session.Session, node string) {
		transplant(s, o, node, node+"-moved")
		remove(s, o, node)
	},
	"replaces": func(s *stage, o *session.Session, node string) {
		const aside = "/aside"
		transplant(s, o, node, aside)
		remove(s, o, node)
		transplant(s, o, aside, node)
		remove(s, o, aside)
	},
}

// remove deletes a node and the nodes below it, unless a party makes others there meanwhile.
func remove(s *stage, o *session.Session, node string) {
	names, _, _ := o.Children(s.ctx, node)
	for _, name := range names {
		remove(s, o, node+"/"+name)
	}
	_ = o.Delete(s.ctx, node, session.AnyVersion)
}

// transplant copies a node, and the nodes below it, to another path.
func transplant(s *stage, o *session.Session, node, to string) {
	data, _, err := o.Get(s.ctx, node)
	if err != nil {
		return
	}
	_, _ = o.Create(s.ctx, to, data, session.Persistent)
	names, _, _ := o.Children(s.ctx, node)
	for _, name := range names {
		transplant(s, o, node+"/"+name, to+"/"+name)
	}
}

// TestByHand: whatever an operator does to a node of a recipe, nothing runs hot: in the hour that
// follows, the parties ask the servers little more than if nobody had done anything. And all of
// them can be closed.
func TestByHand(t *testing.T) {
	for name, begin := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, calm := 0, 0
			play(t, begin, session.NopObserver{}, func(s *stage, _ *session.Session, all []string, hour func() int) {
				nodes, calm = len(all), hour()
			})
			chosen := hasten.Sample(t, hasten.Sized(3, 9))
			for how, act := range byHand {
				t.Run(how, func(t *testing.T) {
					for i := range nodes {
						if !chosen() {
							continue
						}
						t.Run(fmt.Sprint(i), func(t *testing.T) {
							play(t, begin, session.NopObserver{}, func(s *stage, o *session.Session, all []string, hour func() int) {
								if i >= len(all) {
									return
								}
								act(s, o, all[i])
								if n := hour(); n > 2*calm+300 {
									t.Errorf("%s %s: %d requests within the hour; %d if nothing is done", how, all[i], n, calm)
								}
							})
						})
					}
				})
			}
		})
	}
}

// play has a stage at work for a minute, and an operator act.
func play(t *testing.T, begin func(*stage), observer session.Observer, act func(s *stage, o *session.Session, all []string, hour func() int)) {
	t.Helper()
	kit.Run(t, zktest.Config{Tick: 10 * time.Second, Latency: time.Millisecond}, func(w kit.World) {
		ctx, cancel := context.WithCancel(w.Context())
		s := &stage{World: w, ctx: ctx, path: "/r/one", opts: session.Options{Timeout: time.Minute, ServerTick: 10 * time.Second, Observer: observer}}
		o := s.open()
		begin(s)
		<-time.After(time.Minute)
		act(s, o, slices.DeleteFunc(w.Paths(), func(p string) bool { return !strings.HasPrefix(p, s.path) }), func() (n int) {
			for range 60 {
				w.ResetRequests()
				<-time.After(time.Minute)
				c := w.Requests()
				if n += c.Total() - c[zktest.OpPing]; n > 10_000 {
					t.Logf("in a minute: %v", c)
					break
				}
			}
			return n
		})
		cancel()
		for _, end := range s.close {
			end()
		}
		s.wg.Wait()
	})
}
