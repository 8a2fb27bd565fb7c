package crew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkactors/zkactors/primitives/config"
	"github.com/zkactors/zkactors/primitives/election"
	"github.com/zkactors/zkactors/primitives/group"
	"github.com/zkactors/zkactors/primitives/lock"
	"github.com/zkactors/zkactors/primitives/queue"
	"github.com/zkactors/zkactors/session"
)

// openTimeout bounds the opening of one session while all others open too.
const openTimeout = 2 * time.Minute

// OursVariants returns the names of the variants of Ours. answered sets LeaseAnswered. committed
// sets LeaseCommitted. tick sets ServerTick to the tick of the servers.
func OursVariants() []string { return []string{"answered", "committed", "tick"} }

// Ours opens sessions of this library.
func Ours(o Options) Opener {
	opts := &session.Options{
		Timeout: o.Timeout, CloseTimeout: 10 * time.Second,
		Dialer: o.Dial,
	}
	if slices.Contains(o.Variant, "answered") {
		opts.Lease = session.LeaseAnswered
	}
	if slices.Contains(o.Variant, "committed") {
		opts.Lease = session.LeaseCommitted
	}
	if slices.Contains(o.Variant, "tick") {
		opts.ServerTick = o.Tick
	}
	return func(report func(Kind, int64)) (Member, error) {
		ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
		defer cancel()
		s, err := session.Open(ctx, o.Servers, opts)
		if err != nil {
			return nil, err
		}
		m := &ours{s: s, report: report, id: s.ID()}
		m.ctx, m.cancel = context.WithCancel(context.Background())
		s.Subscribe(m.hear)
		return m, nil
	}
}

// ours is a session in its role.
type ours struct {
	s      *session.Session
	report func(Kind, int64)
	ctx    context.Context //nolint:containedctx // of the tasks, until Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	end    []func() // called by Close: they end the role

	mu sync.Mutex
	id int64 // of the current session
}

func (o *ours) hear(ev session.Event) (settled <-chan struct{}) {
	switch ev := ev.(type) {
	case session.Connected:
		o.mu.Lock()
		o.id = ev.ID
		o.mu.Unlock()
		o.report(Connected, ev.ID)
	case session.Suspended:
		o.report(Suspended, o.session())
	case session.Resumed:
		o.report(Resumed, o.session())
	case session.Expired:
		o.report(Expired, ev.ID)
	case session.Lapsed, session.Closed:
	}
	return nil
}

func (o *ours) session() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.id
}

// Play implements Member.
func (o *ours) Play(role, path string) error {
	switch role {
	case Own:
		l, err := o.acquire(path)
		if err != nil {
			return err
		}
		o.tasks.Go(func() { o.own(path, l) })
		return nil
	case Line:
		o.tasks.Go(func() {
			for o.ctx.Err() == nil {
				o.line(path)
			}
		})
		return nil
	case Config:
		v, err := config.Open(o.s, path, config.Text, nil)
		if err != nil {
			return err
		}
		o.end = append(o.end, v.Close)
		return nil
	case Lead:
		c, err := election.New(o.s, path, nil)
		if err != nil {
			return err
		}
		o.end = append(o.end, c.Close)
		o.tasks.Go(func() { o.stand(c) })
		return nil
	case Consume:
		return o.consume(path)
	case Enroll:
		return o.enroll(path)
	}
	return fmt.Errorf("there is no role %q", role)
}

// acquire acquires a lock. It tries again if the session is lost in the meantime.
func (o *ours) acquire(path string) (l *lock.Lock, err error) {
	for range 10 {
		if l, err = lock.Acquire(o.ctx, o.s, path, nil); err == nil || o.ctx.Err() != nil {
			break
		}
	}
	if err == nil {
		o.report(Granted, o.session())
	}
	return l, err
}

// own holds a lock, and acquires it again whenever it is lost.
func (o *ours) own(path string, l *lock.Lock) {
	for held := o.session(); ; held = o.session() {
		select {
		case <-o.ctx.Done():
			l.Close()
			return
		case <-l.Done():
			o.report(Deprived, held)
		}
		var err error
		if l, err = o.acquire(path); err != nil {
			return
		}
	}
}

// line waits in line for a lock, and holds it, until the lock is lost or the session is closed.
func (o *ours) line(path string) {
	l, err := lock.New(o.s, path, nil)
	if err != nil {
		return // the session is closed
	}
	defer context.AfterFunc(o.ctx, l.Close)()
	follow[lock.Event, lock.Acquired, lock.Lost](o, l.Events())
}

// follow reports the grants and the losses among the events of a handle: those of types G and L.
func follow[E, G, L any](o *ours, events <-chan E) {
	held := int64(0)
	for ev := range events {
		switch any(ev).(type) {
		case G:
			held = o.session()
			o.report(Granted, held)
		case L:
			o.report(Deprived, held)
		}
	}
}

// stand reports the events of a candidate.
func (o *ours) stand(c *election.Candidate) {
	follow[election.Event, election.Elected, election.Deposed](o, c.Events())
}

// enroll makes the session a member of a group, and reports the member's events.
func (o *ours) enroll(path string) error {
	at := strings.LastIndexByte(path, '/')
	m, err := group.Enroll(o.ctx, o.s, path[:at], path[at+1:], nil, nil)
	if err != nil {
		return err
	}
	o.end = append(o.end, m.Close)
	o.tasks.Go(func() { follow[group.Event, group.Joined, group.Gone](o, m.Events()) })
	return nil
}

// consume acknowledges the items of a queue as they arrive. An item whose acknowledgement fails is
// delivered again.
func (o *ours) consume(path string) error {
	q, err := queue.New(o.s, path, nil)
	if err != nil {
		return err
	}
	c, err := q.Consume(&queue.ConsumeOptions{Prefetch: 1})
	if err != nil {
		return errors.Join(err, q.Close(context.Background()))
	}
	o.end = append(o.end, c.Close, func() { _ = q.Close(context.Background()) }) // errors do not matter any more
	o.tasks.Go(func() {
		for item := range c.Items() {
			number, _ := strconv.ParseInt(string(item.Data), 10, 64) // 0 for an item that the bench did not put
			o.report(Took, number)
			_ = item.Ack(o.ctx)
		}
	})
	return nil
}

// Close implements Member.
func (o *ours) Close() error {
	o.cancel()
	for _, end := range o.end {
		end()
	}
	o.s.Close()
	o.tasks.Wait()
	return nil
}
