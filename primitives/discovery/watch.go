package discovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/zkactors/zkactors/actors"
	"github.com/zkactors/zkactors/internal/client"
	"github.com/zkactors/zkactors/internal/znode"
	"github.com/zkactors/zkactors/primitives/internal/recipe"
	"github.com/zkactors/zkactors/session"
	"github.com/zkactors/zkactors/watch"
)

// WatchOptions are optional parameters for [Watch]. A nil *WatchOptions is equivalent to a zero
// WatchOptions.
type WatchOptions struct {
	// Format is how the instances are written; [Curator] by default.
	Format Format

	// Sync makes the first report at least as new as the call, which costs a round trip.
	Sync bool

	// FailureLimit is the number of failures, as [Watcher.Use] learns of them, that leave an
	// instance out, if they come within FailureWindow. It comes back after FailureWindow. The
	// defaults are those of Curator: 2, and 30 seconds. If FailureLimit is negative, no instance is
	// left out.
	FailureLimit  int
	FailureWindow time.Duration

	// Skipped, if not nil, is called with the name of each node of the service that is not an
	// instance of the Format, and the reason, once for each version of its data. It must not block.
	Skipped func(node string, err error)
}

// ErrNoInstance means that a service has no instance that is enabled, or has not been read yet.
var ErrNoInstance = errors.New("no instance")

// A Watcher follows the instances of a service. Create it with [Watch]. It is safe for concurrent
// use, and must be closed.
type Watcher struct {
	session *session.Session
	dir     string
	actor   *actors.Actor[input, []Instance]
	tree    *watch.Cache
	gone    <-chan struct{}

	mu        sync.Mutex
	instances []Instance
	ledger    ledger
	err       error
}

// Watch follows the instances of a service at path, whether or not there are any.
//
// If opts is nil, the default options are used. The error names the argument that is refused, and
// why. A later failure ends the watch, and [Watcher.Err] returns it.
func Watch(s *session.Session, path, service string, opts *WatchOptions) (*Watcher, error) {
	o := client.Options(opts)
	if err := errors.Join(validate(s, path, service), o.validate()); err != nil {
		return nil, err
	}
	const limit, window = 2, 30 * time.Second
	switch {
	case o.FailureLimit == 0:
		o.FailureLimit = limit
	case o.FailureLimit < 0:
		o.FailureLimit = 0
	}
	if o.FailureWindow == 0 {
		o.FailureWindow = window
	}
	w := &Watcher{session: s, dir: znode.Join(path, service), ledger: newLedger(o.FailureLimit, o.FailureWindow, uint64(rand.Uint32()))}
	tree, err := watch.Tree(s, w.dir, &watch.TreeOptions{Sync: o.Sync, Depth: 1})
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	w.tree = tree
	w.actor = actors.Start(view{dir: w.dir, format: o.Format}, actors.Role[view, input, report, []Instance]{
		Name: "watcher of service " + w.dir,
		Perform: func(r report, _ func(input)) {
			if o.Skipped == nil {
				return
			}
			if err := actors.Contain(func() { o.Skipped(r.node, r.err) }); err != nil {
				client.Of(s).Logger().Error("WatchOptions.Skipped did not return", "recipe", "discovery", "path", w.dir, "node", r.node, "reason", err)
			}
		},
		Observe: w.observe,
		Stop:    end{},
		Merge:   func(_, next []Instance) ([]Instance, bool) { return next, true },
	})
	w.gone = actors.Feed("service "+w.dir, tree.Changes(), func(state watch.TreeState) { _ = w.actor.Tell(viewed{state}) }, func() {
		_ = w.actor.Tell(end{tree.Err()})
	})
	return w, nil
}

func (o WatchOptions) validate() error {
	var errs []error
	if o.Format != Curator && o.Format != ServerSet {
		errs = append(errs, fmt.Errorf("discovery: %w: WatchOptions.Format: %v is none", session.ErrInvalidArgument, o.Format))
	}
	if o.FailureWindow < 0 {
		errs = append(errs, fmt.Errorf("discovery: %w: WatchOptions.FailureWindow %v: must not be negative", session.ErrInvalidArgument, o.FailureWindow))
	}
	return errors.Join(errs...)
}

// validate refuses a path or the name of a service that cannot be used, before any I/O.
func validate(s *session.Session, path, service string) error {
	return recipe.CheckDir(s, "discovery", path, func(valid bool) []error {
		err := checkName(service)
		if err == nil && valid {
			err = client.CheckPath(s, znode.Join(path, service))
		}
		if err != nil {
			return []error{fmt.Errorf("discovery: %w: service: %w", session.ErrInvalidArgument, err)}
		}
		return nil
	})
}

func (w *Watcher) observe(now view, events [][]Instance) {
	w.mu.Lock()
	for _, all := range events {
		w.instances = all
		w.ledger.keep(all)
	}
	if now.err != nil {
		w.err = fmt.Errorf("discovery %s: %w", w.dir, now.err)
	}
	w.mu.Unlock()

	// The calls that follow run code of the caller.
	for _, all := range events {
		client.Of(w.session).Observer().Members(w.dir, len(all))
	}
}

// Changes returns the channel of the instances, in the order of their IDs, which is always the same
// one. It begins with the present instances, and delivers all of them whenever one differs. A slow
// reader receives the newest. The channel is closed after the last value: receive with "instances,
// ok := <-changes", because a select over a closed channel spins.
func (w *Watcher) Changes() <-chan []Instance { return w.actor.Events() }

// Instances returns the known instances, without waiting, in the order of their IDs. They must not
// be modified.
func (w *Watcher) Instances() []Instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.instances
}

// Pick returns an instance that is enabled, without waiting. Those that fail are left out, unless
// all of them do; see [Watcher.Use]. If there is none, or if the service has not been read yet, the
// error wraps [ErrNoInstance], and if the watch has ended because of an error, that too: until then
// Pick picks from what was read last, also while the connection is lost.
func (w *Watcher) Pick(strategy Strategy) (Instance, error) {
	if strategy == nil {
		return Instance{}, fmt.Errorf("discovery: %w: strategy: it is nil", session.ErrInvalidArgument)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	pool := w.ledger.pool(client.Of(w.session).Age(), rand.Uint64())
	switch {
	case w.err != nil:
		return Instance{}, fmt.Errorf("%w of service %s: %w", ErrNoInstance, w.dir, w.err)
	case len(pool.Instances) == 0:
		return Instance{}, fmt.Errorf("%w of service %s", ErrNoInstance, w.dir)
	}
	i := strategy(pool)
	if i < 0 || i >= len(pool.Instances) {
		return Instance{}, fmt.Errorf("discovery: %w: strategy: it chose instance %d of %d", session.ErrInvalidArgument, i, len(pool.Instances))
	}
	w.ledger.picked(pool.Instances[i].ID)
	return pool.Instances[i], nil
}

// Use notes that the caller begins to use an instance, and returns the function that ends the use:
// with nil, or with an error, which counts as a failure of the instance. Only the first call of
// done counts. An instance with WatchOptions.FailureLimit failures is left out for a while.
func (w *Watcher) Use(instance Instance) (done func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ledger.use(instance.ID)
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ledger.end(instance.ID)
			// A failure of an instance that is gone says nothing of its successor.
			if err != nil && slices.ContainsFunc(w.instances, instance.isSame) {
				w.ledger.fail(instance.ID, client.Of(w.session).Age())
			}
		})
	}
}

// Done returns a channel that is closed when the watch has ended.
func (w *Watcher) Done() <-chan struct{} { return w.actor.Ended() }

// Err returns why the watch has ended: [session.ErrClosed], or the error that keeps the service
// from being read, such as [session.ErrNoAuth]. It returns nil before the end, and after Close.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close ends the watch. Changes that have not been received are discarded, but for the last one. It
// may be called any number of times.
func (w *Watcher) Close() {
	w.actor.Close()
	w.tree.Close()
	<-w.gone
}

// String describes the watcher in one short line.
func (w *Watcher) String() string { return "watcher of service " + w.dir }

// Format implements [fmt.Formatter]: every verb prints String, and reads no more than that.
func (w *Watcher) Format(f fmt.State, _ rune) { client.Print(f, w) }

// Services returns the names of the services at path, in order, with or without instances.
func Services(ctx context.Context, s *session.Session, path string) ([]string, error) {
	if err := recipe.CheckDir(s, "discovery", path, nil); err != nil {
		return nil, err
	}
	names, _, err := s.Children(ctx, path)
	if err = client.Without(err, session.ErrNoNode); err != nil {
		return nil, fmt.Errorf("discovery: services: %w", err)
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return names, nil
}
