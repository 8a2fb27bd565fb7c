package client

import "sync"

// maxWarm bounds what a session remembers of paths.
const maxWarm = 16 << 10

// warmth has the parents of recipes that a session has seen to exist. It is only a
// hint, for parents do neither come nor go often: what is forgotten is looked up again.
type warmth struct {
	mu    sync.Mutex
	paths map[string]struct{}
}

func (w *warmth) has(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, warm := w.paths[path]
	return warm
}

func (w *warmth) set(path string, warm bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !warm {
		delete(w.paths, path)
		return
	}
	if w.paths == nil || len(w.paths) >= maxWarm {
		w.paths = make(map[string]struct{})
	}
	w.paths[path] = struct{}{}
}

// warmthKey is the key of the warmth of a session.
type warmthKey struct{}

func (l live) warmth() *warmth {
	return l.Local(warmthKey{}, func() any { return new(warmth) }).(*warmth)
}

func (l live) Warm(path string) bool          { return l.warmth().has(path) }
func (l live) SetWarm(path string, warm bool) { l.warmth().set(path, warm) }
