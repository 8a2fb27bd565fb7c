// Package ephemerals knows what a session owns: a server bears only so much of it, and servers with
// older data may have more.
package ephemerals

import (
	"iter"
	"sync"
)

// mostBytes is half of what a server of ZooKeeper 3.8 bears in one session:
// closing one with more than 2 MB of ephemeral paths kills it (ZOOKEEPER-4306).
const mostBytes = 1 << 20

// A Count counts the path bytes of the ephemeral nodes of one session.
type Count struct {
	mu       sync.Mutex
	owned    map[string]ephemeral
	bytes    int  // of owned
	reserved int  // for creates without an answer
	auditing bool // set while the nodes are looked for, see Due
	audited  int  // bytes after the last audit

	made   bool                // set with the first create
	doubts map[string]struct{} // nodes whose creates are in doubt; sequential ones without their numbers
	vague  bool                // set when doubts were too many to keep
	gone   []string            // the newest nodes that are gone, in a ring
	oldest int                 // of gone, where the ring is full
}

const (
	mostDoubts = 1 << 14
	mostGone   = 256

	// Digits is the length of the number that servers append to the name of a sequential node.
	Digits = 10
)

// An ephemeral is a node that the session owns.
type ephemeral struct {
	czxid int64
	by    any // the call that made the node: its caller has learned so, or will; nil if unknown
}

// Confirmed stands for a call that was answered, which need not be kept.
const Confirmed = "confirmed"

// Reserve makes room for creates of so many bytes, or reports that there is none.
func (e *Count) Reserve(n int) bool {
	if n == 0 {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes+e.reserved+n > mostBytes {
		return false
	}
	e.reserved += n
	e.made = true
	return true
}

// Release gives back what was reserved, when the create has been answered.
func (e *Count) Release(n int) {
	if n == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reserved -= n
}

// Reserved returns how many bytes are reserved.
func (e *Count) Reserved() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reserved
}

// Own notes a node that the session owns, and that the call has created if it is not nil. It
// reports false if another call has.
func (e *Count) Own(path string, czxid int64, by any) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	known, ok := e.owned[path]
	if ok && known.czxid == czxid && known.by != nil {
		return known.by == by
	}
	if !ok {
		if e.owned == nil {
			e.owned = make(map[string]ephemeral)
		}
		e.bytes += len(path)
	}
	e.owned[path] = ephemeral{czxid, by}
	e.made = true
	return true
}

// Owns reports whether the session is known to own the node.
func (e *Count) Owns(path string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, owns := e.owned[path]
	return owns
}

// Some reports whether the session owns a node, or may be about to.
func (e *Count) Some() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.owned) > 0 || e.reserved > 0
}

// Disown notes that a node was deleted.
func (e *Count) Disown(path string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.drop(path)
	for _, name := range [...]string{path, unnumbered(path)} {
		if _, doubted := e.doubts[name]; doubted {
			delete(e.doubts, name)
			known = true
		}
	}
	if known {
		e.bury(path)
	}
}

// Miss notes that there is no node at the path. A create that is in doubt may still make one.
func (e *Count) Miss(path string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.drop(path) {
		e.bury(path)
	}
}

func (e *Count) drop(path string) (known bool) {
	if _, known = e.owned[path]; known {
		delete(e.owned, path)
		e.bytes -= len(path)
	}
	return known
}

func (e *Count) bury(path string) {
	if len(e.gone) < mostGone {
		e.gone = append(e.gone, path)
		return
	}
	e.gone[e.oldest] = path
	e.oldest = (e.oldest + 1) % mostGone
}

// Doubt notes nodes whose creates are in doubt. A caller that looks for one later may have it.
func (e *Count) Doubt(nodes iter.Seq[string]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for path := range nodes {
		if e.vague = e.vague || len(e.doubts) == mostDoubts; e.vague {
			return
		}
		if e.doubts == nil {
			e.doubts = make(map[string]struct{})
		}
		e.doubts[path] = struct{}{}
	}
}

// Made reports whether the session has created nodes, or has tried to.
func (e *Count) Made() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.made
}

// Gone returns the newest nodes that are gone.
func (e *Count) Gone() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.gone...)
}

// Ghosts returns those of the session's nodes on the servers that are gone as far as the session
// knows. No create may be out that the servers have done and not answered.
func (e *Count) Ghosts(nodes []string) (ghosts []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.vague {
		return nil
	}
	for _, path := range nodes {
		_, owned := e.owned[path]
		_, doubted := e.doubts[path]
		_, numbered := e.doubts[unnumbered(path)]
		if !owned && !doubted && !numbered {
			ghosts = append(ghosts, path)
		}
	}
	return ghosts
}

// unnumbered returns the path of a sequential node without its number.
func unnumbered(path string) string { return path[:max(0, len(path)-Digits)] }

// Due returns the nodes to look for, if there are many more than when that was done last.
func (e *Count) Due() (paths []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.auditing || e.bytes < max(mostBytes/2, e.audited+mostBytes/8) {
		return nil
	}
	e.auditing = true
	for path := range e.owned {
		paths = append(paths, path)
	}
	return paths
}

// Audit looks for the nodes that are due, some at a time. Look reads one, and calls next when that
// is answered.
func (e *Count) Audit(due []string, look func(path string, next func())) {
	const window = 64
	under := min(window, len(due))
	var next func()
	next = func() {
		if len(due) == 0 {
			if under--; under == 0 {
				e.settle()
			}
			return
		}
		path := due[0]
		due = due[1:]
		look(path, next)
	}
	for range under {
		next()
	}
}

// settle notes the end of an audit.
func (e *Count) settle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.auditing, e.audited = false, e.bytes
}
