package outage

import (
	"context"
	"time"

	"github.com/zkactors/zkactors/primitives/barrier"
	"github.com/zkactors/zkactors/primitives/commit"
	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/inspect"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/naming"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/primitives/semaphore"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// This file has a story for each thing that a recipe may be at when an outage begins. The session
// near has the outage; far has none. Errors are not what the stories are about: what fails ends
// that part of the story.

// with returns what has been opened, which is closed when all is over. Without it, the rest of the
// story is left out.
func with[H interface{ Close() }](p *play, h H, err error) (opened H, ok bool) {
	if err == nil {
		p.begin(func() {
			<-p.Context().Done()
			h.Close()
		})
	}
	return h, err == nil
}

// read receives all events until the end.
func read[Ev any](p *play, events <-chan Ev, each func(Ev)) {
	p.begin(func() {
		for ev := range events {
			if each != nil {
				each(ev)
			}
		}
	})
}

// line has a contender of each session in a line: near waits, holds, and releases.
func line(open func(s *session.Session) (*lock.Lock, error), before, after func(p *play, l *lock.Lock)) func(*play) {
	return func(p *play) {
		other, err := open(p.far)
		if other, ok := with(p, other, err); ok {
			before(p, other)
			l, err := open(p.near)
			if l, ok := with(p, l, err); ok {
				p.pause()
				_ = other.Release(p.Context())
				p.pause()
				after(p, l)
				_ = l.Release(p.Context())
			}
		}
	}
}

func nothing(*play, *lock.Lock) {}

func opens(open func(*session.Session, string, *lock.Options) (*lock.Lock, error), opts *lock.Options) func(s *session.Session) (*lock.Lock, error) {
	return func(s *session.Session) (*lock.Lock, error) { return open(s, "/line", opts) }
}

var stories = map[string]func(p *play){
	"lock":       line(opens(lock.New, nil), nothing, nothing),
	"read lock":  line(opens(lock.NewRead, nil), nothing, nothing),
	"write lock": line(opens(lock.NewWrite, nil), nothing, func(p *play, l *lock.Lock) { _ = l.Downgrade(p.Context()) }),
	"lock, Curator's": line(opens(lock.NewWrite, &lock.Options{Layout: lock.Curator}), nothing, func(p *play, l *lock.Lock) {
		_ = l.Downgrade(p.Context())
	}),
	"lock with priorities": line(opens(lock.NewWrite, &lock.Options{Layout: lock.Prioritized}), nothing, func(p *play, l *lock.Lock) {
		_ = l.Downgrade(p.Context())
	}),
	"lock, revoked": line(opens(lock.New, nil), nothing, func(p *play, _ *lock.Lock) {
		_ = lock.Revoke(p.Context(), p.far, "/line", &lock.RevokeOptions{ForceAfter: time.Second})
		p.pause()
	}),
	"lock, followers":       followers,
	"lock, preempting":      preempting,
	"mutex":                 mutex,
	"semaphore":             leases(1),
	"semaphore, weighted":   leases(2),
	"candidate":             candidate(nil, nil),
	"candidate, unobserved": candidate(&election.Options{IgnoreLeader: true}, &election.Options{IgnoreLeader: true}),
	"candidate, Curator's":  candidate(&election.Options{Layout: election.Curator}, &election.Options{Layout: election.Curator}),
	"observer of leaders":   observer,
	"barrier":               gate,
	"double barrier":        double,
	"queue":                 producer,
	"consumer":              consumer,
	"queue with priorities": priorities,
	"coordinator":           transaction(func(p *play) (coordinator, site *session.Session) { return p.near, p.far }),
	"site":                  transaction(func(p *play) (coordinator, site *session.Session) { return p.far, p.near }),
	"member":                member,
	"name":                  name,
	"value":                 value,
	"watches":               watches,
}

// followers asks holders to leave, and lists contenders.
func followers(p *play) {
	held, err := lock.Acquire(p.Context(), p.far, "/line", nil)
	if _, ok := with(p, held, err); !ok {
		return
	}
	_, _ = lock.Contenders(p.Context(), p.near, "/line", nil)
	_ = lock.Revoke(p.Context(), p.near, "/line", &lock.RevokeOptions{ForceAfter: time.Second})
}

// preempting has near ask far to leave, and break what far holds.
func preempting(p *play) {
	held, err := lock.Acquire(p.Context(), p.far, "/line", &lock.Options{Layout: lock.Prioritized})
	if _, ok := with(p, held, err); !ok {
		return
	}
	l, err := lock.Acquire(p.Context(), p.near, "/line", &lock.Options{Layout: lock.Prioritized, Priority: 1, Preempt: true, PreemptAfter: time.Second})
	if l, ok := with(p, l, err); ok {
		_ = l.Release(p.Context())
	}
}

func mutex(p *play) {
	m, err := lock.NewReentrantMutex(p.near, "/line", nil)
	if err != nil {
		return
	}
	for range 2 {
		if m.Lock(p.Context()) == nil {
			_, _ = p.near.Multi(p.Context(), m.Guard())
			_ = m.Unlock(p.Context())
		}
	}
	_ = m.TryLock(p.Context())
	p.begin(func() {
		<-p.Context().Done()
		_ = m.Unlock(context.WithoutCancel(p.Context()))
	})
}

func leases(weight int) func(p *play) {
	const limit, path = 2, "/limits/l"
	return func(p *play) {
		open := func(s *session.Session) (*semaphore.Lease, bool) {
			l, err := semaphore.New(s, path, limit, &semaphore.Options{Weight: weight})
			return with(p, l, err)
		}
		far, ok := open(p.far)
		if !ok {
			return
		}
		p.pause()
		l, ok := open(p.near)
		second, also := open(p.near)
		p.pause()
		_ = semaphore.SetLimit(p.Context(), p.far, path, limit+weight)
		p.pause()
		_ = far.Release(p.Context())
		if p.pause(); ok && also {
			_ = l.Release(p.Context())
			_ = second.Release(p.Context())
		}
		_, _ = semaphore.Limit(p.Context(), p.near, path)
		_, _ = semaphore.Holders(p.Context(), p.near, path)
	}
}

// candidate has leadership handed over to near, and back.
func candidate(far, near *election.Options) func(p *play) {
	return func(p *play) {
		other, err := election.Stand(p.Context(), p.far, "/e", far)
		other, ok := with(p, other, err)
		if !ok {
			return
		}
		c, err := election.Stand(p.Context(), p.near, "/e", near)
		c, ok = with(p, c, err)
		if !ok {
			return
		}
		read(p, c.Events(), nil)
		_ = other.Transfer(p.Context(), c.Node())
		p.pause()
		_ = other.Resign(p.Context()) // where there is no transfer
		p.pause()
		_ = c.Acknowledge(p.Context())
		_ = c.Transfer(p.Context(), other.Node())
		p.pause()
		_ = other.Resign(p.Context())
		p.pause()
		_ = c.Lead(p.Context(), func(context.Context, int64) error { return nil })
		_, _ = election.Candidates(p.Context(), p.near, "/e", nil)
	}
}

func observer(p *play) {
	o, err := election.Observe(p.near, "/e", nil)
	if _, ok := with(p, o, err); !ok {
		return
	}
	c, err := election.Stand(p.Context(), p.far, "/e", nil)
	if c, ok := with(p, c, err); ok {
		p.pause()
		_ = c.Acknowledge(p.Context())
		_ = c.Resign(p.Context())
	}
}

func gate(p *play) {
	open := func(s *session.Session) (*barrier.Barrier, bool) {
		b, err := barrier.New(s, "/b", nil)
		return with(p, b, err)
	}
	b, ok := open(p.near)
	other, also := open(p.far)
	if !ok || !also {
		return
	}
	read(p, b.Events(), nil)
	_ = other.Raise(p.Context())
	p.begin(func() {
		p.pause()
		_ = other.Lift(p.Context())
	})
	_ = b.Wait(p.Context())
	_ = b.Raise(p.Context())
	_ = b.Lift(p.Context())
	if g, err := b.TryRaise(p.Context()); err == nil {
		p.pause()
		_ = g.Lift(p.Context())
	}
}

func double(p *play) {
	const rounds = 2
	for _, s := range []*session.Session{p.near, p.far} {
		d, err := barrier.NewDouble(s, "/d", 2, nil)
		if d, ok := with(p, d, err); ok {
			read(p, d.Events(), nil)
			p.begin(func() {
				for range rounds {
					_ = d.Enter(p.Context())
					p.pause()
					_ = d.Leave(p.Context())
				}
			})
		}
	}
}

func producer(p *play) {
	q, err := queue.New(p.near, "/q", &queue.Options{MaxItems: 2})
	other, err2 := queue.New(p.far, "/q", &queue.Options{MaxItems: 2})
	if err != nil || err2 != nil {
		return
	}
	_, _ = q.Put(p.Context(), []byte("a"))
	_, _ = q.PutAll(p.Context(), [][]byte{[]byte("b"), []byte("c"), []byte("d")}) // too many
	_, _ = q.PutAfter(p.Context(), []byte("b"), time.Second)
	p.begin(func() {
		p.pause()
		_, _ = other.Take(p.Context())
	})
	_, _ = q.Put(p.Context(), []byte("c")) // waits for room
	_, _ = q.Len(p.Context())
	_, _ = q.Peek(p.Context())
	for range 2 {
		_, _ = q.Take(p.Context())
	}
	_, _ = q.TryTake(p.Context())
	_, _ = q.Take(p.Context()) // waits for an item
}

func consumer(p *play) {
	opts := &queue.Options{MaxAttempts: 2, DeadLetter: "/dead"}
	q, err := queue.New(p.near, "/q", opts)
	other, err2 := queue.New(p.far, "/q", opts)
	if err != nil || err2 != nil {
		return
	}
	c, err := q.Consume(&queue.ConsumeOptions{Prefetch: 4})
	if _, ok := with(p, c, err); !ok {
		return
	}
	p.begin(func() {
		for range 4 {
			_, _ = other.Put(p.Context(), []byte("a"))
			p.pause()
		}
	})
	p.begin(func() { _ = other.Run(p.Context(), 1, func(context.Context, queue.Item) error { return nil }) })
	n := 0
	for item := range c.Items() {
		if n++; n%2 == 0 {
			_ = item.Reject(p.Context())
			continue
		}
		_ = item.Ack(p.Context())
	}
}

func priorities(p *play) {
	q, err := queue.NewPriority(p.near, "/q", nil)
	other, err2 := queue.NewPriority(p.far, "/q", nil)
	if err != nil || err2 != nil {
		return
	}
	p.begin(func() {
		for i := range int32(4) {
			_, _ = other.Put(p.Context(), []byte("a"), i)
			p.pause()
		}
	})
	_ = q.Run(p.Context(), 2, func(context.Context, queue.Item) error { return nil })
}

// transaction has two sites vote on two proposals: one of each mode.
func transaction(sides func(p *play) (coordinator, site *session.Session)) func(p *play) {
	return func(p *play) {
		coordinator, site := sides(p)
		for name, s := range map[string]*session.Session{"a": site, "b": coordinator} {
			j, err := commit.Join(s, "/tx", name, nil)
			if j, ok := with(p, j, err); ok {
				read(p, j.Events(), func(ev commit.Event) {
					switch ev := ev.(type) {
					case commit.Prepare:
						_ = j.Vote(p.Context(), ev.Tx, commit.Yes)
					case commit.Committed:
						_ = j.Finish(p.Context(), ev.Tx)
					case commit.Aborted:
						_ = j.Finish(p.Context(), ev.Tx)
					case commit.Voted, commit.Forgotten, commit.Left:
					}
				})
			}
		}
		p.pause()
		for id, mode := range map[string]commit.Mode{"1": commit.Coordinated, "2": commit.Peer} {
			tx, err := commit.Begin(p.Context(), coordinator, "/tx/"+id, &commit.Options{Sites: []string{"a", "b"}, Mode: mode, Deadline: 10 * time.Second})
			if tx, ok := with(p, tx, err); ok {
				_, _ = tx.Wait(p.Context())
			}
		}
		_, _ = commit.List(p.Context(), coordinator, "/tx")
		if all, err := commit.Resume(p.Context(), coordinator, "/tx"); err == nil {
			for _, tx := range all {
				_, _ = with(p, tx, nil)
			}
		}
	}
}

func member(p *play) {
	g, err := group.Watch(p.near, "/g", nil)
	if _, ok := with(p, g, err); !ok {
		return
	}
	for id, s := range map[string]*session.Session{"near": p.near, "far": p.far} {
		m, err := group.Join(s, "/g", id, nil, nil)
		if m, ok := with(p, m, err); ok {
			read(p, m.Events(), nil)
			p.begin(func() {
				p.pause()
				_ = m.Update(p.Context(), []byte("data"))
				p.pause()
				_ = m.Leave(p.Context())
			})
		}
	}
}

func name(p *play) {
	w, err := naming.Watch(p.near, "/names", "n", nil)
	if _, ok := with(p, w, err); !ok {
		return
	}
	k, err := naming.Keep(p.far, "/names", "n", nil, nil)
	if k, ok := with(p, k, err); ok {
		p.pause()
		p.begin(func() {
			p.pause()
			k.Close()
		})
	}
	r, err := naming.Keep(p.near, "/names", "n", nil, nil) // waits for the other
	if r, ok := with(p, r, err); ok {
		read(p, r.Events(), nil)
		p.pause()
		p.pause()
		_ = r.Update(p.Context(), []byte("data"))
	}
	_ = naming.Register(p.Context(), p.near, "/names", "o", nil, nil)
	_, _ = naming.Lookup(p.Context(), p.near, "/names", "o")
	_, _ = naming.List(p.Context(), p.near, "/names")
	_ = naming.Unregister(p.Context(), p.near, "/names", "o")
}

func value(p *play) {
	open := func(s *session.Session) (*config.Value[string], bool) {
		v, err := config.Open(s, "/config/v", config.Text, nil)
		return with(p, v, err)
	}
	v, ok := open(p.near)
	other, also := open(p.far)
	if !ok || !also {
		return
	}
	read(p, v.Events(), nil)
	_ = v.Set(p.Context(), "a")
	_ = other.Set(p.Context(), "b")
	_ = v.Update(p.Context(), func(string) (string, error) { return "c", nil })
	_, _, _ = v.Get(p.Context())
}

func watches(p *play) {
	n, err := watch.Node(p.near, "/w", nil)
	_, _ = with(p, n, err)
	c, err := watch.Children(p.near, "/w", nil)
	_, _ = with(p, c, err)
	t, err := watch.Tree(p.near, "/w", nil)
	_, _ = with(p, t, err)
	i, err := inspect.Watch(p.near, "/w", nil)
	_, _ = with(p, i, err)
	_ = p.far.EnsurePath(p.Context(), "/w/a/b")
	_ = watch.UntilExists(p.Context(), p.near, "/w/a")
	p.begin(func() {
		p.pause()
		_, _ = p.far.Set(p.Context(), "/w/a", []byte("data"), session.AnyVersion)
		_ = p.far.Delete(p.Context(), "/w/a/b", session.AnyVersion)
	})
	_ = watch.UntilGone(p.Context(), p.near, "/w/a/b")
}
