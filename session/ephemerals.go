package session

import "sync"

// maxEphemeralBytes is half of what a server of ZooKeeper 3.8 bears in one session:
// closing one with more than 2 MB of ephemeral paths kills it (ZOOKEEPER-4306).
const maxEphemeralBytes = 1 << 20

// ephemerals counts the path bytes of the ephemeral nodes of one session.
type ephemerals struct {
	mu       sync.Mutex
	owned    map[string]struct{}
	bytes    int // of owned
	reserved int // for creates without an answer
}

// reserve makes room for creates of so many bytes, or reports that there is none.
func (e *ephemerals) reserve(n int) bool {
	if n == 0 {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes+e.reserved+n > maxEphemeralBytes {
		return false
	}
	e.reserved += n
	return true
}

// release gives back what was reserved, when the create has been answered.
func (e *ephemerals) release(n int) {
	if n == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reserved -= n
}

// own notes a node that the session owns.
func (e *ephemerals) own(path string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.owned[path]; known {
		return
	}
	if e.owned == nil {
		e.owned = make(map[string]struct{})
	}
	e.owned[path] = struct{}{}
	e.bytes += len(path)
}

// disown notes that a node is gone.
func (e *ephemerals) disown(path string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.owned[path]; known {
		delete(e.owned, path)
		e.bytes -= len(path)
	}
}
