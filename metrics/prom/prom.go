// Package prom exports metrics of a session, and of the recipes on it, to Prometheus.
// docs/operators.md names those that are worth an alert, and examples/metrics is a service with
// them, and with a dashboard for Grafana.
package prom

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkactors/zkactors/metrics/internal/observed"
	"github.com/zkactors/zkactors/session"
)

// Options are optional parameters for [New]. A nil *Options is equivalent to a zero Options.
type Options struct {
	// Session is the value of the label session of each metric. Sessions that share a registry need
	// different values.
	Session string

	// Path returns the value of the label path. It must return only a few different values: a
	// service with a lock for each order would return the parent of these locks. The default
	// returns the path.
	Path func(recipe, path string) string
}

// An Observer is a [session.Observer] that counts and measures. Create it with [New].
type Observer struct {
	path func(recipe, path string) string

	requests   *prometheus.HistogramVec
	state      *prometheus.GaugeVec
	events     *prometheus.CounterVec
	waiting    *prometheus.GaugeVec
	waited     *prometheus.HistogramVec
	holding    *prometheus.GaugeVec
	held       *prometheus.HistogramVec
	lost       *prometheus.CounterVec
	failed     *prometheus.CounterVec
	revoked    *prometheus.CounterVec
	term       *prometheus.GaugeVec
	leader     *prometheus.GaugeVec
	members    *prometheus.GaugeVec
	puts       *prometheus.HistogramVec
	putItems   *prometheus.CounterVec
	age        *prometheus.HistogramVec
	working    *prometheus.GaugeVec
	worked     *prometheus.HistogramVec
	buried     *prometheus.CounterVec
	oldestWait *prometheus.Desc
	length     *prometheus.Desc

	waits   observed.Waits
	leaders observed.Leaders
	queues  observed.Queues
}

// New returns an observer for the options of one session, and registers its metrics.
func New(reg prometheus.Registerer, opts *Options) (*Observer, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Path == nil {
		o.Path = func(_, path string) string { return path }
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "zkactors_" + name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "zkactors_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "zkactors_" + name, Help: help, Buckets: buckets}, labels)
	}
	const ms = 0.001
	short := prometheus.ExponentialBuckets(ms/4, 2, 16) // 250 µs to 8 s
	long := prometheus.ExponentialBuckets(ms, 4, 12)    // 1 ms to 70 min
	queued := prometheus.ExponentialBuckets(ms, 4, 15)  // 1 ms to 3 days
	v := &Observer{
		path:     o.Path,
		requests: histogram("request_seconds", "How long requests took, by their outcome.", short, "op", "outcome"),
		state:    gauge("session_state", "1 for the state of the session, 0 for the others.", "state"),
		events:   counter("session_events_total", "Changes of the session.", "event"),
		waiting:  gauge("waiting", "Handles that wait for a grant now.", "recipe", "path"),
		waited:   histogram("wait_seconds", "How long handles waited, granted or in vain.", long, "recipe", "path", "granted"),
		holding:  gauge("holding", "Handles that hold what they were granted now.", "recipe", "path"),
		held:     histogram("hold_seconds", "How long it was held.", long, "recipe", "path"),
		lost:     counter("lost_total", "Losses of what was held, by reason.", "recipe", "path", "reason"),
		failed:   counter("failed_total", "Contenders that ended without a grant, by reason.", "recipe", "path", "reason"),
		revoked:  counter("revocations_total", "Requests to a holder to give up.", "recipe", "path"),
		term:     gauge("election_term", "The newest term that is known.", "path"),
		leader:   gauge("election_leader", "1 for the present leader.", "path", "leader"),
		members:  gauge("group_members", "Members of a group that is watched.", "path"),
		puts:     histogram("queue_put_seconds", "How long calls took that put items into a queue, by their outcome.", short, "path", "outcome"),
		putItems: counter("queue_put_items_total", "Items that were put into a queue.", "path"),
		age:      histogram("queue_age_seconds", "How old items were when they were delivered, by whether that was the first delivery.", queued, "path", "first"),
		working:  gauge("queue_working", "Deliveries that are in work now.", "path"),
		worked:   histogram("queue_work_seconds", "How long deliveries were in work, by how that ended.", long, "path", "end"),
		buried:   counter("queue_dead_letters_total", "Items that moved to the dead letters of a queue.", "path"),
		oldestWait: prometheus.NewDesc("zkactors_oldest_wait_seconds",
			"How long the oldest of the present waits has lasted.", []string{"recipe", "path"}, nil),
		length: prometheus.NewDesc("zkactors_queue_length", "Items of a queue, read for each scrape.", []string{"path"}, nil),
	}
	if o.Session != "" {
		reg = prometheus.WrapRegistererWith(prometheus.Labels{"session": o.Session}, reg)
	}
	for _, c := range []prometheus.Collector{
		v.requests, v.state, v.events, v.waiting, v.waited, v.holding, v.held, v.lost, v.failed, v.revoked, v.term, v.leader, v.members,
		v.puts, v.putItems, v.age, v.working, v.worked, v.buried, v,
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	v.enter("connecting")
	return v, nil
}

// A Queue has a length, as queue.Queue and queue.Priority of primitives/queue have.
type Queue = interface {
	Len(ctx context.Context) (int, error)
}

// AddQueue exports the length of a queue, with a request for each scrape, and the number of its
// dead letters before there are any. The other metrics of a queue need no AddQueue.
func (v *Observer) AddQueue(path string, queue Queue) {
	path = v.path("queue", path)
	v.queues.Add(path, queue)
	v.buried.WithLabelValues(path) // so that the first dead letter is seen to be a rise
}

// Describe implements [prometheus.Collector].
func (v *Observer) Describe(out chan<- *prometheus.Desc) { out <- v.oldestWait; out <- v.length }

// Collect implements [prometheus.Collector], for the metrics that are read only at a scrape.
func (v *Observer) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	for k, since := range v.waits.Oldest() {
		out <- prometheus.MustNewConstMetric(v.oldestWait, prometheus.GaugeValue, now.Sub(since).Seconds(), k.Recipe, k.Path)
	}
	for path, n := range v.queues.Lengths(context.Background()) {
		out <- prometheus.MustNewConstMetric(v.length, prometheus.GaugeValue, float64(n), path)
	}
}

// Request implements [session.Observer].
func (v *Observer) Request(op string, took time.Duration, err error) {
	v.requests.WithLabelValues(op, observed.Reason(err)).Observe(took.Seconds())
}

// State implements [session.Observer].
func (v *Observer) State(ev session.Event) {
	state, event := observed.State(ev)
	v.events.WithLabelValues(event).Inc()
	v.enter(state)
}

func (v *Observer) enter(state string) {
	for _, s := range observed.States {
		is := 0.0
		if s == state {
			is = 1
		}
		v.state.WithLabelValues(s).Set(is)
	}
}

// Waiting implements [session.Observer].
func (v *Observer) Waiting(recipe, path string) {
	path = v.path(recipe, path)
	v.waiting.WithLabelValues(recipe, path).Inc()
	v.waits.Begin(observed.Key{Recipe: recipe, Path: path}, time.Now())
}

// Waited implements [session.Observer].
func (v *Observer) Waited(recipe, path string, took time.Duration) {
	v.holding.WithLabelValues(recipe, v.path(recipe, path)).Inc()
	v.stop(recipe, path, took, "yes")
}

// GaveUp implements [session.Observer].
func (v *Observer) GaveUp(recipe, path string, took time.Duration) { v.stop(recipe, path, took, "no") }

func (v *Observer) stop(recipe, path string, took time.Duration, granted string) {
	path = v.path(recipe, path)
	v.waiting.WithLabelValues(recipe, path).Dec()
	v.waited.WithLabelValues(recipe, path, granted).Observe(took.Seconds())
	v.waits.End(observed.Key{Recipe: recipe, Path: path}, time.Now(), took)
}

// Held implements [session.Observer].
func (v *Observer) Held(recipe, path string, took time.Duration) {
	path = v.path(recipe, path)
	v.holding.WithLabelValues(recipe, path).Dec()
	v.held.WithLabelValues(recipe, path).Observe(took.Seconds())
}

// Failed implements [session.Observer].
func (v *Observer) Failed(recipe, path string, err error) {
	v.failed.WithLabelValues(recipe, v.path(recipe, path), observed.Reason(err)).Inc()
}

// Lost implements [session.Observer].
func (v *Observer) Lost(recipe, path string, err error) {
	v.lost.WithLabelValues(recipe, v.path(recipe, path), observed.Reason(err)).Inc()
}

// Revoked implements [session.Observer].
func (v *Observer) Revoked(recipe, path string) {
	v.revoked.WithLabelValues(recipe, v.path(recipe, path)).Inc()
}

// Leader implements [session.Observer].
func (v *Observer) Leader(path, node string, data []byte, term int64) {
	path = v.path("election", path)
	now := observed.Leader{Name: observed.LeaderName(node, data), Term: term}
	v.leaders.See(path, now, func(before, now observed.Leader) {
		v.term.WithLabelValues(path).Set(float64(now.Term))
		if before.Name != "" {
			v.leader.DeleteLabelValues(path, before.Name)
		}
		if now.Name != "" {
			v.leader.WithLabelValues(path, now.Name).Set(1)
		}
	})
}

// Members implements [session.Observer].
func (v *Observer) Members(path string, n int) {
	v.members.WithLabelValues(v.path("group", path)).Set(float64(n))
}

// Put implements [session.Observer].
func (v *Observer) Put(path string, items int, took time.Duration, err error) {
	path = v.path("queue", path)
	v.puts.WithLabelValues(path, observed.Reason(err)).Observe(took.Seconds())
	if err == nil {
		v.putItems.WithLabelValues(path).Add(float64(items))
	}
}

// Delivered implements [session.Observer].
func (v *Observer) Delivered(path string, age time.Duration, attempt int) {
	path = v.path("queue", path)
	v.age.WithLabelValues(path, yes(attempt == 1)).Observe(age.Seconds())
	v.working.WithLabelValues(path).Inc()
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// Settled implements [session.Observer].
func (v *Observer) Settled(path, end string, worked time.Duration) {
	path = v.path("queue", path)
	v.working.WithLabelValues(path).Dec()
	v.worked.WithLabelValues(path, end).Observe(worked.Seconds())
}

// Buried implements [session.Observer].
func (v *Observer) Buried(path string) { v.buried.WithLabelValues(v.path("queue", path)).Inc() }
