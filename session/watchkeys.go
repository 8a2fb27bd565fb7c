package session

import "github.com/zkactors/zkactors/session/internal/wire"

// A watchKey names a watch on the server.
type watchKey struct {
	path string
	kind watchKind
}

type watchKind int

const (
	watchData watchKind = iota
	watchAbsent
	watchChildren
)

// planted returns the watch that a reply to a read with the flag leaves on the server.
func planted(op wire.Op, code wire.Code) (kind watchKind, planted bool) {
	switch {
	case op == wire.OpExists && code == wire.CodeNoNode:
		return watchAbsent, true
	case code != wire.CodeOK:
		return 0, false
	case op == wire.OpGetChildren2:
		return watchChildren, true
	}
	return watchData, true
}

// watchesEndedBy returns which watches on its path an event uses up.
func watchesEndedBy(kind wire.EventKind) []watchKind {
	switch kind {
	case wire.EventCreated:
		return []watchKind{watchAbsent}
	case wire.EventDataChanged:
		return []watchKind{watchAbsent, watchData}
	case wire.EventChildrenChanged:
		return []watchKind{watchChildren}
	case wire.EventDeleted:
		return []watchKind{watchAbsent, watchData, watchChildren}
	}
	return nil
}

// setWatches returns requests that set watches again, and have the server tell what has
// happened since.
func setWatches(since int64, keys []watchKey) []*wire.Request {
	const most = 128 << 10 // of a request, as clients in Java have it
	var all []*wire.Request
	for len(keys) > 0 {
		r := &wire.Request{Op: wire.OpSetWatches, Zxid: since, Watches: new([5][]string)}
		n := 0
		for size := 0; n < len(keys) && size < most; n++ {
			size += 4 + len(keys[n].path)
			r.Watches[keys[n].kind] = append(r.Watches[keys[n].kind], keys[n].path)
		}
		keys = keys[n:]
		all = append(all, r)
	}
	return all
}
