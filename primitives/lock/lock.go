package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/session"
)

// ErrHeld means that the lock was not free when it was tried.
var ErrHeld = errors.New("lock held by another")

// ErrReleased is the cause with which the contexts of a lock end when it is released.
var ErrReleased = errors.New("lock released")

// A Lock is one attempt to hold a lock: it is acquired at most once, and over once
// it is released or lost. Create one with [New] or [Acquire].
//
// A Lock is safe for concurrent use, and must be closed.
type Lock struct {
	session *session.Session
	path    string
	opts    Options
	actor   *actors.Actor[input, Event]
	begun   time.Duration // since the session's beginning

	queued   chan struct{} // closed when another was seen ahead
	acquired chan struct{} // closed when the lock is held
	done     chan struct{} // closed when it is held no more, or never will be

	mu       sync.Mutex
	token    int64
	node     string
	err      error         // why the lock was lost
	since    time.Duration // it was acquired
	over     bool          // done is closed
	ended    bool          // the machine has
	contexts []*derived
	cancel   func() // of the subscription to the session's events
	watches  []nodeWatch
}

// A nodeWatch is one that the machine has asked for.
type nodeWatch struct {
	node   string
	cancel func()
}

// A derived context ends with the lock.
type derived struct{ end context.CancelCauseFunc }

// New joins the line for the lock at path, which all contenders share, and returns
// at once: [Lock.Events] tells what happens. A session that is not connected joins
// when it is.
//
// If opts is nil, the default options are used. The error names what is wrong with
// the arguments; otherwise nothing fails here.
func New(s *session.Session, path string, opts *Options) (*Lock, error) {
	o := opts.withDefaults()
	if err := validate(s, path, o); err != nil {
		return nil, err
	}
	l := &Lock{
		session: s, path: path, opts: o, begun: s.Age(),
		queued: make(chan struct{}), acquired: make(chan struct{}), done: make(chan struct{}),
	}
	l.actor = actors.Start(
		newMachine(session.NewGUID(), s.Warm(path), o.ReleaseInBackground),
		actors.Role[machine, input, effect, Event]{
			Name:    "lock " + path,
			Perform: l.perform,
			Observe: l.observe,
			Stop:    leave{},
			Merge:   merge,
			Cancel:  cancel,
		})
	cancel := s.Subscribe(l.follow)
	l.mu.Lock()
	l.cancel = cancel
	ended := l.ended
	l.mu.Unlock()
	if ended {
		cancel()
	}
	return l, nil
}

// Acquire joins the line for the lock at path, and returns when the lock is held.
//
// If ctx ends before that, the error is its cause and the place in line is given up
// in the background: whatever the network does, no node of it outlives the session,
// nor the next moment in which the session is connected. If the place is lost for
// another reason, the error wraps [ErrLost] and the reason.
func Acquire(ctx context.Context, s *session.Session, path string, opts *Options) (*Lock, error) {
	l, err := New(s, path, opts)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.acquired:
		return l, nil
	case <-l.done:
	case <-ctx.Done():
		l.leave()
		return nil, fmt.Errorf("acquire lock %s: %w", path, context.Cause(ctx))
	}
	select {
	case <-l.acquired: // and lost since: that is for its holder to see
		return l, nil
	default:
		return nil, fmt.Errorf("acquire lock %s: %w", path, l.Err())
	}
}

// TryAcquire is [Acquire], but fails with [ErrHeld] when somebody else is ahead in
// line. Then it has left the line again, unless ctx has ended before that was
// confirmed.
func TryAcquire(ctx context.Context, s *session.Session, path string, opts *Options) (*Lock, error) {
	l, err := New(s, path, opts)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.acquired:
		return l, nil
	case <-l.queued:
		_ = l.Release(ctx) // it goes on
		return nil, fmt.Errorf("try lock %s: %w", path, ErrHeld)
	case <-l.done:
		return nil, fmt.Errorf("try lock %s: %w", path, l.Err())
	case <-ctx.Done():
		l.leave()
		return nil, fmt.Errorf("try lock %s: %w", path, context.Cause(ctx))
	}
}

// Do runs f while it holds the lock at path. The context of f ends when the lock is
// lost, with a cause that wraps [ErrLost], or when ctx ends; token is that of the
// grant. The lock is released only after f has returned, and Do waits for that.
//
// It returns the error of f. If f returned none, and the lock was lost before f
// returned, the error wraps [ErrLost].
func Do(ctx context.Context, s *session.Session, path string, opts *Options, f func(ctx context.Context, token int64) error) error {
	l, err := Acquire(ctx, s, path, opts)
	if err != nil {
		return err
	}
	defer l.Close()
	work, end := l.Context(ctx)
	defer end()
	if err := f(work, l.Token()); err != nil {
		return err
	}
	return l.Err()
}

// Events returns the channel of events, which is always the same one:
//
//	Waiting* (Acquired (Suspended | Resumed)*)? (Released | Lost)
//
// It begins with the newest event before the first call, and is closed after the last.
func (l *Lock) Events() <-chan Event { return l.actor.Events() }

// Done returns a channel that is closed when the lock is held no more, or never will
// be: in the very step in which it is lost, and before a release is sent.
func (l *Lock) Done() <-chan struct{} { return l.done }

// Err returns why the lock, or the place in line, was lost: an error that wraps
// [ErrLost] and the reason. It returns nil while it is not, and after a release.
func (l *Lock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Context returns a context that ends when the lock is lost, with a cause that wraps
// [ErrLost], when it is released, with [ErrReleased], or when parent ends. Its
// resources are freed by the cancel function, or with the lock.
func (l *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	d := &derived{end: end}
	l.mu.Lock()
	over, reason := l.over, l.reason()
	if !over {
		l.contexts = append(l.contexts, d)
	}
	l.mu.Unlock()
	if over {
		end(reason)
	}
	return ctx, func() {
		end(context.Canceled)
		l.mu.Lock()
		defer l.mu.Unlock()
		if i := slices.Index(l.contexts, d); i >= 0 {
			l.contexts = slices.Delete(l.contexts, i, i+1)
		}
	}
}

func (l *Lock) reason() error {
	if l.err != nil {
		return l.err
	}
	return ErrReleased
}

// Token returns the fencing token of the grant, which grows with every grant of the
// lock, to whatever client; 0 before it is acquired.
func (l *Lock) Token() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

// Node returns the path of the node that stands for the grant; "" before the lock is
// acquired.
func (l *Lock) Node() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.node == "" {
		return ""
	}
	return session.Join(l.path, l.node)
}

// Guard returns an operation for [session.Session.Multi] that makes the server refuse
// the transaction, with [session.ErrNoNode], unless the lock is still held. Before the
// lock is acquired it refuses every transaction.
func (l *Lock) Guard() session.Op {
	node := l.Node()
	if node == "" {
		node = session.Join(l.path, nodeName("not-acquired"))
	}
	return session.CheckOp(node, session.AnyVersion)
}

// Release gives up the lock, or the place in line. It returns nil when that is
// confirmed, or the session that it was held through is over; with
// [Options.ReleaseInBackground] at once. If ctx ends first it returns the cause, and
// the release goes on. If the lock had been lost, it returns [Lock.Err].
func (l *Lock) Release(ctx context.Context) error {
	l.leave()
	select {
	case <-l.actor.Ended():
		return l.Err()
	case <-ctx.Done():
		return fmt.Errorf("release lock %s: %w", l.path, context.Cause(ctx))
	}
}

// leave asks the machine to leave, if it has not ended.
func (l *Lock) leave() { _ = l.actor.Tell(leave{}) }

// Close releases the lock and waits as [Lock.Release] does, at most until the session's
// deadline has passed. Undelivered events are discarded, but for the last one. It may
// be called any number of times.
func (l *Lock) Close() { l.actor.Close() }

// follow tells the machine what becomes of the session.
func (l *Lock) follow(ev session.Event) (settled <-chan struct{}) {
	var in input
	switch ev := ev.(type) {
	case session.Connected:
		in = connected{epoch: ev.Epoch, session: ev.ID}
	case session.Suspended:
		in = suspended{deadline: ev.Deadline}
	case session.Resumed:
		in = resumed{}
	case session.Expired:
		in = expired{epoch: ev.Epoch}
	case session.Closed:
		in, settled = closed{}, l.actor.Ended()
	}
	_ = l.actor.Tell(in) // an ended machine needs no news
	return settled
}

// observe keeps what the accessors return up to date with the machine.
func (l *Lock) observe(m machine, events []Event) {
	now := l.session.Age()
	l.mu.Lock()
	for _, ev := range events {
		switch ev := ev.(type) {
		case Waiting:
			if ev.Ahead > 0 && l.token == 0 {
				closeOnce(l.queued)
			}
		case Acquired:
			l.token, l.node, l.since = ev.Token, ev.Node, now
			close(l.acquired)
		case Lost:
			l.err = fmt.Errorf("lock %s: %w", l.path, ev.Err)
		case Suspended, Resumed, Released:
		}
	}
	over := !l.over && (m.Ended() || l.token != 0 && !m.holding())
	var contexts []*derived
	if over {
		l.over = true
		close(l.done)
		contexts, l.contexts = l.contexts, nil
	}
	var cancels []func()
	if m.Ended() {
		l.ended = true
		if l.cancel != nil {
			cancels = append(cancels, l.cancel)
		}
		for _, w := range l.watches {
			cancels = append(cancels, w.cancel)
		}
		l.watches = nil
	}
	held, reason := l.token != 0, l.reason()
	l.mu.Unlock()

	// What follows is somebody else's code, or takes somebody else's locks.
	for _, d := range contexts {
		d.end(reason)
	}
	for _, cancel := range cancels {
		cancel()
	}
	l.report(events, over && held, now)
}

// report tells the session's observer.
func (l *Lock) report(events []Event, over bool, now time.Duration) {
	observer := l.session.Observer()
	for _, ev := range events {
		switch ev := ev.(type) {
		case Acquired:
			observer.Waited("lock", l.path, now-l.begun)
		case Lost:
			observer.Lost("lock", l.path, ev.Err)
		case Waiting, Suspended, Resumed, Released:
		}
	}
	if over {
		observer.Held("lock", l.path, now-l.since)
	}
}

func closeOnce(ch chan struct{}) {
	select {
	case <-ch:
	default:
		close(ch)
	}
}

// perform starts one thing that the machine asked for.
func (l *Lock) perform(e effect, answer func(input)) {
	requests := l.session.Async(e.of().epoch)
	reply := func(in input, err error) {
		if err != nil {
			in = failed{e, err}
		}
		answer(in)
	}
	switch e := e.(type) {
	case inspectParent:
		requests.Exists(l.path, func(stat *session.Stat, err error) {
			in := inspected{attempt: e.attempt, exists: stat != nil}
			in.empty = in.exists && stat.DataLength == 0
			reply(in, err)
		})
	case makeParent:
		requests.EnsurePath(l.path, func(made_ bool, err error) {
			if err == nil && !made_ {
				err = session.ErrNodeExists
			}
			reply(made(e), err)
		})
	case createNode:
		l.create(requests, e, reply)
	case listParent:
		requests.Children(l.path, func(names []string, stat *session.Stat, err error) {
			if err == nil && stat.DataLength > 0 {
				l.session.SetWarm(l.path, false)
			}
			reply(listed{e.attempt, names}, err)
		})
	case watchNode:
		l.watch(requests, e, reply)
	case unwatchNode:
		l.unwatch(e.node)
	case withdrawNode:
		requests.Withdraw(session.Join(l.path, e.node), func() { answer(withdrawn(e)) })
	case withdrawAll:
		requests.WithdrawAll(l.path, e.guid, func() { answer(withdrawn{attempt: e.attempt}) })
	}
}

// create stands in line: in one transaction with a write to the parent, whose Stat
// then tells how many children it had at that very moment.
func (l *Lock) create(requests session.Async, e createNode, reply func(input, error)) {
	path := session.Join(l.path, nodeName(e.guid))
	in := joined{attempt: e.attempt}
	if e.plain {
		requests.Create(path, l.opts.Data, session.EphemeralSequential, func(node string, err error) {
			if err == nil {
				_, in.node = session.Split(node)
			}
			reply(in, err)
		})
		return
	}
	requests.Multi([]session.Op{
		session.CreateOp(path, l.opts.Data, session.EphemeralSequential),
		session.SetOp(l.path, nil, session.AnyVersion),
	}, func(results []session.OpResult, err error) {
		if err == nil {
			_, in.node = session.Split(results[0].Path)
			in.czxid, in.children = results[1].Stat.Mzxid, int(results[1].Stat.NumChildren)
		}
		l.session.SetWarm(l.path, err == nil)
		reply(in, err)
	})
}

// watch has the machine told when a node is gone.
func (l *Lock) watch(requests session.Async, e watchNode, reply func(input, error)) {
	cancel := requests.Watch(session.Join(l.path, e.node), func(_ []byte, stat *session.Stat, err error) {
		in := watched{attempt: e.attempt, node: e.node}
		if err == nil {
			in.czxid, in.owner = stat.Czxid, stat.EphemeralOwner
		}
		reply(in, err)
	}, func(_ []byte, _ *session.Stat, err error) {
		switch {
		case errors.Is(err, session.ErrNoNode):
			reply(gone(e), nil)
		case err != nil: // it cannot be watched any more
			reply(nil, err)
		}
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches = append(l.watches, nodeWatch{e.node, cancel})
}

func (l *Lock) unwatch(node string) {
	l.mu.Lock()
	i := slices.IndexFunc(l.watches, func(w nodeWatch) bool { return w.node == node })
	cancel := func() {}
	if i >= 0 {
		cancel = l.watches[i].cancel
		l.watches = slices.Delete(l.watches, i, i+1)
	}
	l.mu.Unlock()
	cancel()
}
