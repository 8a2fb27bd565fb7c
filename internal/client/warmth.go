package client

import (
	"sync"

	"github.com/zkactors/zkactors/session"
)

// maxWarm bounds the number of paths that a session remembers.
const maxWarm = 16 << 10

// Warmth has the parents of recipes that a session has seen to exist, and to carry no data. It is
// only a hint, because parents are rarely created or deleted: a forgotten parent is looked up
// again.
type Warmth struct {
	mu    sync.Mutex
	paths map[string]warm
}

// A warm parent has the version at which it was seen last. Sure is set when that version was found
// unchanged, and when the session's own write has led to it. It is cleared when a caller is about
// to write at that version. So there is one such write at a time: behind a write that is refused,
// the next version may be another client's.
type warm struct {
	version int32
	sure    bool
}

// Warm implements [Session].
func (w *Warmth) Warm(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, warm := w.paths[path]
	return warm
}

// SetWarm implements [Session].
func (w *Warmth) SetWarm(path string, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, was := w.paths[path]; is && !was {
		w.enter(path, warm{version: session.AnyVersion})
	} else if !is {
		delete(w.paths, path)
	}
}

// WriteAt implements [Session].
func (w *Warmth) WriteAt(path string) (version int32, sure bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.paths[path]
	if p.sure {
		w.paths[path] = warm{p.version, false}
	}
	return p.version, p.sure
}

// Saw implements [Session].
func (w *Warmth) Saw(path string, version int32, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, was := w.paths[path]
	w.enter(path, warm{version, first && !was || was && before.version == version})
}

// Wrote implements [Session].
func (w *Warmth) Wrote(path string, version int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.enter(path, warm{version, true})
}

// enter is called with the lock held.
func (w *Warmth) enter(path string, p warm) {
	if w.paths == nil || len(w.paths) >= maxWarm {
		w.paths = make(map[string]warm)
	}
	w.paths[path] = p
}

// warmthKey is the key of the warmth of a session.
type warmthKey struct{}

func (l live) warmth() *Warmth {
	return l.Local(warmthKey{}, func() any { return new(Warmth) }).(*Warmth)
}

func (l live) Warm(path string) bool                          { return l.warmth().Warm(path) }
func (l live) SetWarm(path string, warm bool)                 { l.warmth().SetWarm(path, warm) }
func (l live) WriteAt(path string) (version int32, sure bool) { return l.warmth().WriteAt(path) }
func (l live) Saw(path string, version int32, first bool)     { l.warmth().Saw(path, version, first) }
func (l live) Wrote(path string, version int32)               { l.warmth().Wrote(path, version) }
