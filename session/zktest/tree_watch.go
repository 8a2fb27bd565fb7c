package zktest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

type watchMode int32

const (
	watchOnce watchMode = iota
	watchPersistent
	watchRecursive
)

// A watchTable has the watches of all connections. A server has one for nodes and their data,
// and one for children. Like those of ZooKeeper 3.8, a table has one mode for a
// path and a connection: setting another one replaces it.
type watchTable struct {
	byPath    map[string]map[*conn]watchMode
	byConn    map[*conn]map[string]struct{}
	recursive int // how many watches are
}

func newWatchTable() watchTable {
	return watchTable{
		byPath: make(map[string]map[*conn]watchMode),
		byConn: make(map[*conn]map[string]struct{}),
	}
}

func (w *watchTable) add(path string, c *conn, mode watchMode) {
	watchers := w.byPath[path]
	if watchers == nil {
		watchers = make(map[*conn]watchMode)
		w.byPath[path] = watchers
	}
	w.count(watchers[c], -1)
	w.count(mode, 1)
	watchers[c] = mode
	paths := w.byConn[c]
	if paths == nil {
		paths = make(map[string]struct{})
		w.byConn[c] = paths
	}
	paths[path] = struct{}{}
}

func (w *watchTable) count(mode watchMode, by int) {
	if mode == watchRecursive {
		w.recursive += by
	}
}

// remove ends a watch, and reports whether there was one.
func (w *watchTable) remove(path string, c *conn) bool {
	watchers := w.byPath[path]
	mode, ok := watchers[c]
	if !ok {
		return false
	}
	w.count(mode, -1)
	delete(watchers, c)
	if len(watchers) == 0 {
		delete(w.byPath, path)
	}
	paths := w.byConn[c]
	delete(paths, path)
	if len(paths) == 0 {
		delete(w.byConn, c)
	}
	return true
}

// forget ends all watches of a connection.
func (w *watchTable) forget(c *conn) {
	for path := range w.byConn[c] {
		w.remove(path, c)
	}
}

// contains reports what ZooKeeper 3.8 answers to checkWatches: whether any client
// watches the path.
func (w *watchTable) contains(path string) bool { return len(w.byPath[path]) > 0 }

// total returns how many watches there are.
func (w *watchTable) total() int {
	n := 0
	for _, paths := range w.byConn {
		n += len(paths)
	}
	return n
}

// trigger tells who watches path of the event, except for those in told, and
// returns them.
//
// A client that may not read by the list is not notified, but its watch is used up all
// the same. So it is in Debian's 3.8.0 and in 3.8.4 (CVE-2024-23944). Older servers notify it.
func (w *watchTable) trigger(zxid int64, path string, event eventType, list []acl, told map[*conn]struct{}) map[*conn]struct{} {
	if len(w.byPath) == 0 {
		return nil
	}
	var watchers map[*conn]struct{}
	note := func(c *conn) {
		if watchers == nil {
			watchers = make(map[*conn]struct{})
		}
		watchers[c] = struct{}{}
	}
	for c, mode := range w.byPath[path] {
		if mode == watchRecursive && event == eventChildrenChanged {
			continue
		}
		note(c)
		if mode == watchOnce {
			w.remove(path, c)
		}
	}
	if w.recursive > 0 && event != eventChildrenChanged {
		for dir := path; dir != "/" && strings.HasPrefix(dir, "/"); {
			dir = parentOf(dir)
			for c, mode := range w.byPath[dir] {
				if mode == watchRecursive {
					note(c)
				}
			}
		}
	}
	for _, c := range shuffled(watchers, zxid) {
		if _, ok := told[c]; !ok && (c.server.differs.tellsAnyone || allowed(list, permRead, c.who)) {
			c.notify(event, path, zxid)
		}
	}
	return watchers
}

// shuffled returns the watchers in an order that follows from the zxid. That of a real server is
// any; this one is another with each change.
func shuffled(watchers map[*conn]struct{}, zxid int64) []*conn {
	all := slices.AppendSeq(make([]*conn, 0, len(watchers)), maps.Keys(watchers))
	if len(all) > 1 {
		inOrder(all)
		rand.New(rand.NewPCG(uint64(zxid), 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	return all
}
