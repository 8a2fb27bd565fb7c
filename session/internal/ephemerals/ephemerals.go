// Package ephemerals counts what a session owns: a server bears only so much of it.
package ephemerals

import "sync"

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
}

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
	return true
}

// Some reports whether the session owns a node, or may be about to.
func (e *Count) Some() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.owned) > 0 || e.reserved > 0
}

// Disown notes that a node is gone.
func (e *Count) Disown(path string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.owned[path]; known {
		delete(e.owned, path)
		e.bytes -= len(path)
	}
}

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
