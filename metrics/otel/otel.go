// Package otel exports metrics of a session, and of the recipes on it, to OpenTelemetry.
// docs/operators.md names those that are worth an alert.
package otel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/zkactors/zkactors/metrics/internal/observed"
	"github.com/zkactors/zkactors/session"
)

// Options are optional parameters for [New]. A nil *Options is equivalent to a zero Options.
type Options struct {
	// Session is the value of the attribute session of each measurement.
	Session string

	// Path returns the value of the attribute path. It must return only a few different values: a
	// service with a lock for each order would return the parent of these locks. The default
	// returns the path.
	Path func(recipe, path string) string
}

// An Observer is a [session.Observer] that records measurements. Create it with [New].
type Observer struct {
	path    func(recipe, path string) string
	session attribute.KeyValue

	requests metric.Float64Histogram
	events   metric.Int64Counter
	waiting  metric.Int64UpDownCounter
	waited   metric.Float64Histogram
	holding  metric.Int64UpDownCounter
	held     metric.Float64Histogram
	lost     metric.Int64Counter
	failed   metric.Int64Counter
	revoked  metric.Int64Counter
	members  metric.Int64Gauge
	puts     metric.Float64Histogram
	putItems metric.Int64Counter
	age      metric.Float64Histogram
	working  metric.Int64UpDownCounter
	worked   metric.Float64Histogram
	buried   metric.Int64Counter
	state    metric.Int64Gauge
	reading  metric.Registration

	waits   observed.Waits
	leaders observed.Leaders
	queues  observed.Queues
}

// New returns an observer for the options of one session.
func New(meter metric.Meter, opts *Options) (*Observer, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Path == nil {
		o.Path = func(_, path string) string { return path }
	}
	v := &Observer{path: o.Path, session: attribute.String("session", o.Session)}
	var errs []error
	check := func(err error) { errs = append(errs, err) }
	seconds := func(name, help string) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithDescription(help), metric.WithUnit("s"))
		check(err)
		return h
	}
	counter := func(name, help string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithDescription(help))
		check(err)
		return c
	}
	present := func(name, help string) metric.Int64UpDownCounter {
		c, err := meter.Int64UpDownCounter(name, metric.WithDescription(help))
		check(err)
		return c
	}
	level := func(name, help string) metric.Int64Gauge {
		g, err := meter.Int64Gauge(name, metric.WithDescription(help))
		check(err)
		return g
	}
	read := func(name, help string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithDescription(help))
		check(err)
		return g
	}
	v.requests = seconds("zkactors.request.duration", "How long requests took, by their outcome.")
	v.state = level("zkactors.session.state", "1 for the state of the session, 0 for the others.")
	v.events = counter("zkactors.session.events", "Changes of the session.")
	v.waiting = present("zkactors.waiting", "Handles that wait for a grant now.")
	v.waited = seconds("zkactors.wait.duration", "How long handles waited, granted or in vain.")
	v.holding = present("zkactors.holding", "Handles that hold what they were granted now.")
	v.held = seconds("zkactors.hold.duration", "How long it was held.")
	v.lost = counter("zkactors.lost", "Losses of what was held, by reason.")
	v.failed = counter("zkactors.failed", "Contenders that ended without a grant, by reason.")
	v.revoked = counter("zkactors.revocations", "Requests to a holder to give up.")
	v.members = level("zkactors.group.members", "Members of a group that is watched.")
	v.puts = seconds("zkactors.queue.put.duration", "How long calls took that put items into a queue, by their outcome.")
	v.putItems = counter("zkactors.queue.put.items", "Items that were put into a queue.")
	v.age = seconds("zkactors.queue.age", "How old items were when they were delivered, by whether that was the first delivery.")
	v.working = present("zkactors.queue.working", "Deliveries that are in work now.")
	v.worked = seconds("zkactors.queue.work.duration", "How long deliveries were in work, by how that ended.")
	v.buried = counter("zkactors.queue.dead_letters", "Items that moved to the dead letters of a queue.")
	term := read("zkactors.election.term", "The newest term that is known.")
	leader := read("zkactors.election.leader", "1 for the present leader.")
	length := read("zkactors.queue.length", "Items of a queue, read for each collection.")
	oldest, err := meter.Float64ObservableGauge("zkactors.wait.oldest",
		metric.WithDescription("How long the oldest of the present waits has lasted."), metric.WithUnit("s"))
	check(err)
	v.reading, err = meter.RegisterCallback(func(ctx context.Context, out metric.Observer) error {
		now := time.Now()
		for k, since := range v.waits.Oldest() {
			out.ObserveFloat64(oldest, now.Sub(since).Seconds(), v.of(k.Recipe, k.Path))
		}
		for path, l := range v.leaders.Newest() {
			out.ObserveInt64(term, l.Term, v.with(attribute.String("path", path)))
			if l.Name != "" {
				out.ObserveInt64(leader, 1, v.with(attribute.String("path", path), attribute.String("leader", l.Name)))
			}
		}
		for path, n := range v.queues.Lengths(ctx) {
			out.ObserveInt64(length, int64(n), v.with(attribute.String("path", path)))
		}
		return nil
	}, oldest, term, leader, length)
	check(err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	v.enter("connecting")
	return v, nil
}

// Close unregisters the callback that reads gauges for each collection.
func (v *Observer) Close() error { return v.reading.Unregister() }

// A Queue has a length, as queue.Queue and queue.Priority of primitives/queue have.
type Queue = interface {
	Len(ctx context.Context) (int, error)
}

// AddQueue exports the length of a queue, with a request for each collection. The other metrics of
// a queue need no AddQueue.
func (v *Observer) AddQueue(path string, queue Queue) {
	v.queues.Add(v.path("queue", path), queue)
}

func (v *Observer) with(attrs ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(attrs, v.session)...)
}

func (v *Observer) of(recipe, path string, more ...attribute.KeyValue) metric.MeasurementOption {
	return v.with(append(more, attribute.String("recipe", recipe), attribute.String("path", path))...)
}

// Request implements [session.Observer].
func (v *Observer) Request(op string, took time.Duration, err error) {
	v.requests.Record(context.Background(), took.Seconds(), v.with(attribute.String("op", op), attribute.String("outcome", observed.Reason(err))))
}

// State implements [session.Observer].
func (v *Observer) State(ev session.Event) {
	state, event := observed.State(ev)
	v.events.Add(context.Background(), 1, v.with(attribute.String("event", event)))
	v.enter(state)
}

func (v *Observer) enter(state string) {
	for _, s := range observed.States {
		is := int64(0)
		if s == state {
			is = 1
		}
		v.state.Record(context.Background(), is, v.with(attribute.String("state", s)))
	}
}

// Waiting implements [session.Observer].
func (v *Observer) Waiting(recipe, path string) {
	path = v.path(recipe, path)
	v.waiting.Add(context.Background(), 1, v.of(recipe, path))
	v.waits.Begin(observed.Key{Recipe: recipe, Path: path}, time.Now())
}

// Waited implements [session.Observer].
func (v *Observer) Waited(recipe, path string, took time.Duration) {
	v.holding.Add(context.Background(), 1, v.of(recipe, v.path(recipe, path)))
	v.stop(recipe, path, took, true)
}

// GaveUp implements [session.Observer].
func (v *Observer) GaveUp(recipe, path string, took time.Duration) { v.stop(recipe, path, took, false) }

func (v *Observer) stop(recipe, path string, took time.Duration, granted bool) {
	path = v.path(recipe, path)
	v.waiting.Add(context.Background(), -1, v.of(recipe, path))
	v.waited.Record(context.Background(), took.Seconds(), v.of(recipe, path, attribute.Bool("granted", granted)))
	v.waits.End(observed.Key{Recipe: recipe, Path: path}, time.Now(), took)
}

// Held implements [session.Observer].
func (v *Observer) Held(recipe, path string, took time.Duration) {
	path = v.path(recipe, path)
	v.holding.Add(context.Background(), -1, v.of(recipe, path))
	v.held.Record(context.Background(), took.Seconds(), v.of(recipe, path))
}

// Failed implements [session.Observer].
func (v *Observer) Failed(recipe, path string, err error) {
	v.failed.Add(context.Background(), 1, v.of(recipe, v.path(recipe, path), attribute.String("reason", observed.Reason(err))))
}

// Lost implements [session.Observer].
func (v *Observer) Lost(recipe, path string, err error) {
	v.lost.Add(context.Background(), 1, v.of(recipe, v.path(recipe, path), attribute.String("reason", observed.Reason(err))))
}

// Revoked implements [session.Observer].
func (v *Observer) Revoked(recipe, path string) {
	v.revoked.Add(context.Background(), 1, v.of(recipe, v.path(recipe, path)))
}

// Leader implements [session.Observer].
func (v *Observer) Leader(path, node string, data []byte, term int64) {
	v.leaders.See(v.path("election", path), observed.Leader{Name: observed.LeaderName(node, data), Term: term}, nil)
}

// Members implements [session.Observer].
func (v *Observer) Members(path string, n int) {
	v.members.Record(context.Background(), int64(n), v.with(attribute.String("path", v.path("group", path))))
}

// Put implements [session.Observer].
func (v *Observer) Put(path string, items int, took time.Duration, err error) {
	at := attribute.String("path", v.path("queue", path))
	v.puts.Record(context.Background(), took.Seconds(), v.with(at, attribute.String("outcome", observed.Reason(err))))
	if err == nil {
		v.putItems.Add(context.Background(), int64(items), v.with(at))
	}
}

// Delivered implements [session.Observer].
func (v *Observer) Delivered(path string, age time.Duration, attempt int) {
	at := attribute.String("path", v.path("queue", path))
	v.age.Record(context.Background(), age.Seconds(), v.with(at, attribute.Bool("first", attempt == 1)))
	v.working.Add(context.Background(), 1, v.with(at))
}

// Settled implements [session.Observer].
func (v *Observer) Settled(path, end string, worked time.Duration) {
	at := attribute.String("path", v.path("queue", path))
	v.working.Add(context.Background(), -1, v.with(at))
	v.worked.Record(context.Background(), worked.Seconds(), v.with(at, attribute.String("end", end)))
}

// Buried implements [session.Observer].
func (v *Observer) Buried(path string) {
	v.buried.Add(context.Background(), 1, v.with(attribute.String("path", v.path("queue", path))))
}
