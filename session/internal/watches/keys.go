package watches

import "github.com/zkactors/zkactors/session/internal/wire"

// A Key names a watch on the server.
type Key struct {
	Path string // on the server
	Kind Kind
}

// A Kind is a kind of watch on a node.
type Kind int

// The kinds, as the requests that set watches again have them.
const (
	Data Kind = iota
	Absent
	Children
)

// Standing are the watches that stand on the server. They are set again after a reconnect.
type Standing map[Key]struct{}

// Planted notes the watch that a reply to a read with the flag leaves on the server.
func (s Standing) Planted(path string, op wire.Op, code wire.Code) {
	if kind, planted := planted(op, code); planted {
		s[Key{path, kind}] = struct{}{}
	}
}

func planted(op wire.Op, code wire.Code) (kind Kind, planted bool) {
	switch {
	case op == wire.OpExists && code == wire.CodeNoNode:
		return Absent, true
	case code != wire.CodeOK:
		return 0, false
	case op == wire.OpGetChildren2:
		return Children, true
	}
	return Data, true
}

// Fired forgets the watches that an event uses up.
func (s Standing) Fired(ev wire.Event) {
	for _, kind := range endedBy(ev.Kind) {
		delete(s, Key{ev.Path, kind})
	}
}

// endedBy returns which watches on its path an event uses up.
func endedBy(kind wire.EventKind) []Kind {
	switch kind {
	case wire.EventCreated:
		return []Kind{Absent}
	case wire.EventDataChanged:
		return []Kind{Absent, Data}
	case wire.EventChildrenChanged:
		return []Kind{Children}
	case wire.EventDeleted:
		return []Kind{Absent, Data, Children}
	}
	return nil
}

// Removed forgets a watch that is being removed: that of data in both its forms.
func (s Standing) Removed(key Key) {
	delete(s, key)
	if key.Kind != Children {
		delete(s, Key{key.Path, Absent})
	}
}

// Removal returns the request that removes a watch.
func Removal(key Key) *wire.Request {
	const children, data = 1, 2
	r := &wire.Request{Op: wire.OpRemoveWatches, Path: key.Path, Kind: data}
	if key.Kind == Children {
		r.Kind = children
	}
	return r
}

// Settings returns the requests that set watches again, and have the server report what has
// happened since.
func Settings(since int64, keys []Key) []*wire.Request {
	const most = 64 << 10 // of a request: clients in Java send twice as much, behind which a heartbeat waits longer
	var all []*wire.Request
	for len(keys) > 0 {
		r := &wire.Request{Op: wire.OpSetWatches, Zxid: since, Watches: new([5][]string)}
		n := 0
		for size := 0; n < len(keys) && size < most; n++ {
			size += 4 + len(keys[n].Path)
			r.Watches[keys[n].Kind] = append(r.Watches[keys[n].Kind], keys[n].Path)
		}
		keys = keys[n:]
		all = append(all, r)
	}
	return all
}
