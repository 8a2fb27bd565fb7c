package session

import "sync"

// maxEphemeralBytes is half of what a server of ZooKeeper 3.8 bears in one session:
// closing one with more than 2 MB of ephemeral paths kills it (ZOOKEEPER-4306).
const maxEphemeralBytes = 1 << 20

// ephemerals counts the path bytes of the ephemeral nodes of one session.
type ephemerals struct {
	mu       sync.Mutex
	owned    map[string]ephemeral
	bytes    int  // of owned
	reserved int  // for creates without an answer
	auditing bool // set while the nodes are looked for, see [epoch.audit]
	audited  int  // bytes after the last audit
}

// An ephemeral is a node that the session owns.
type ephemeral struct {
	czxid int64
	by    any // the call whose caller has been told, or will be, that it made the node; nil if that is not known
}

// confirmed stands for a call that was answered, which need not be kept.
const confirmed = "confirmed"

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

// own notes a node that the session owns, and that the call has created if it is not nil. It
// reports false if another call has.
func (e *ephemerals) own(path string, czxid int64, by any) bool {
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

// disown notes that a node is gone.
func (e *ephemerals) disown(path string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.owned[path]; known {
		delete(e.owned, path)
		e.bytes -= len(path)
	}
}

// due returns the nodes to look for, if there are many more than when that was done last.
func (e *ephemerals) due() (paths []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.auditing || e.bytes < max(maxEphemeralBytes/2, e.audited+maxEphemeralBytes/8) {
		return nil
	}
	e.auditing = true
	for path := range e.owned {
		paths = append(paths, path)
	}
	return paths
}

// settled notes the end of an audit.
func (e *ephemerals) settled() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.auditing, e.audited = false, e.bytes
}
