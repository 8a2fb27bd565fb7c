package actors

import (
	"context"
	"runtime/pprof"
	"sync"
	"sync/atomic"
)

// labels caches the labels of goroutines by name, because making a label costs more than finding
// it. Most goroutines have the label of the one before.
//
//nolint:gochecknoglobals // it is a cache
var labels struct {
	newest atomic.Pointer[label]

	mu  sync.Mutex
	all map[string]*label
}

// A label marks the goroutines of a name in profiles.
type label struct {
	name string
	with context.Context //nolint:containedctx // it is the label
}

// setLabel names the calling goroutine.
func setLabel(name string) {
	l := labels.newest.Load()
	if l == nil || l.name != name {
		l = labelOf(name)
		labels.newest.Store(l)
	}
	pprof.SetGoroutineLabels(l.with)
}

func labelOf(name string) *label {
	const most = 64 // there are few names
	labels.mu.Lock()
	defer labels.mu.Unlock()
	l := labels.all[name]
	if l == nil {
		l = &label{name, pprof.WithLabels(context.Background(), pprof.Labels("actor", name))}
		if labels.all == nil || len(labels.all) >= most {
			labels.all = make(map[string]*label)
		}
		labels.all[name] = l
	}
	return l
}
