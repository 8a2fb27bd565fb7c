package actors

import (
	"context"
	"runtime/pprof"
	"sync"
)

// labels are what goroutines have been labelled with, by name: to make one costs more than to
// look for it.
//
//nolint:gochecknoglobals // it is a cache
var labels struct {
	mu  sync.Mutex
	all map[string]context.Context
}

// label names the calling goroutine.
func label(name string) { pprof.SetGoroutineLabels(labelled(name)) }

// labelled returns a context with the label.
func labelled(name string) context.Context {
	const most = 64 // there are few names
	labels.mu.Lock()
	defer labels.mu.Unlock()
	ctx, ok := labels.all[name]
	if !ok {
		ctx = pprof.WithLabels(context.Background(), pprof.Labels("actor", name))
		if labels.all == nil || len(labels.all) >= most {
			labels.all = make(map[string]context.Context)
		}
		labels.all[name] = ctx //nolint:fatcontext // none of them is derived from another
	}
	return ctx
}
